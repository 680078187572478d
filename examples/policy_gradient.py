"""A plain policy gradient (REINFORCE with a value baseline) in PyTorch on the vectorised environment.

python examples/policy_gradient.py --steps 1000000
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical


def network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, outputs))


def masked(logits: torch.Tensor, mask: np.ndarray) -> Categorical:
    """Legal moves only; where the mask is empty (a game that is over) any action will do."""
    return Categorical(logits=logits.masked_fill(torch.as_tensor(mask == 0), -1e9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps over all environments (default: 1000000)")
    parser.add_argument("--envs", type=int, default=64, help="environments (default: 64)")
    parser.add_argument("--horizon", type=int, default=64, help="steps of each environment between updates (default: 64)")
    parser.add_argument("--opponent", default="random", help="an agent's description (default: random)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    arguments_of_env: dict[str, Any] = {"observation": "rules", "opponent": arguments.opponent, "agent_side": "random"}
    envs = gym.make_vec("togyz_env:Togyzqumalaq-v0", num_envs=arguments.envs, **arguments_of_env)
    seen, _ = envs.reset(seed=arguments.seed)
    inputs = seen["observation"].shape[1]
    policy, value = network(inputs, 9), network(inputs, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-3)

    ended = np.zeros(arguments.envs, bool)
    wins: list[bool] = []
    for update in range(1, 1 + max(1, arguments.steps // (arguments.envs * arguments.horizon))):
        observations, masks, actions, rewards, ends, counts = [], [], [], [], [], []
        for _ in range(arguments.horizon):
            with torch.no_grad():
                action = masked(policy(torch.as_tensor(seen["observation"])), seen["action_mask"]).sample()
            observations.append(seen["observation"])
            masks.append(seen["action_mask"])
            actions.append(action)
            # After the end of a game one step only resets (autoreset mode NEXT_STEP): it does not count.
            counts.append(~ended)
            seen, reward, terminated, truncated, _ = envs.step(action.numpy())
            ended = terminated | truncated
            rewards.append(reward)
            ends.append(ended)
            wins += list(reward[ended] > 0)

        with torch.no_grad():
            values = value(torch.as_tensor(np.stack(observations))).squeeze(-1).numpy()
            last = value(torch.as_tensor(seen["observation"])).squeeze(-1).numpy()
        # Lambda returns, backwards in time; nothing is discounted, the result of the game is all.
        returns = np.zeros_like(values)
        ahead = next_value = last
        for t in reversed(range(arguments.horizon)):
            ahead = np.where(ends[t], rewards[t], 0.05 * next_value + 0.95 * ahead)
            returns[t], next_value = ahead, values[t]

        counted = torch.as_tensor(np.concatenate(counts))
        x = torch.as_tensor(np.concatenate(observations))[counted]
        target = torch.as_tensor(returns.reshape(-1), dtype=torch.float32)[counted]
        advantage = target - torch.as_tensor(values.reshape(-1), dtype=torch.float32)[counted]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        choice = masked(policy(x), np.concatenate(masks)[counted.numpy()])
        gain = (choice.log_prob(torch.cat(actions)[counted]) * advantage).mean() + 0.01 * choice.entropy().mean()
        loss = 0.5 * (value(x).squeeze(-1) - target).square().mean() - gain
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if wins and update % 10 == 0:
            recent = wins[-500:]
            print(
                f"{update * arguments.envs * arguments.horizon:>9} steps: {np.mean(recent):.0%} of the last {len(recent)} games won"
            )
    envs.close()
    print(f"{len(wins)} games, {np.mean(wins[-500:] or [False]):.0%} of the last {len(wins[-500:])} won")


if __name__ == "__main__":
    main()
