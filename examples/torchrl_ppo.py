"""TorchRL through both of its wrappers: PPO on the Gymnasium environment, then the same network plays itself through PettingZoo.

python examples/torchrl_ppo.py --steps 100000

Needs: pip install 'togyz[torchrl,pettingzoo]'
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs import (
    ActionMask,
    Compose,
    DTypeCastTransform,
    EnvBase,
    GymWrapper,
    MarlGroupMapType,
    PettingZooWrapper,
    TransformedEnv,
)
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from togyz_env import togyzqumalaq_v0


def gymnasium_env(seed: int) -> EnvBase:
    """One side against random. The distribution wants a bool mask; ``ActionMask`` keeps TorchRL's own random actions legal."""
    env = gym.make("togyz_env:Togyzqumalaq-v0", opponent="random", agent_side="random")
    wrapped = TransformedEnv(
        GymWrapper(env, categorical_action_encoding=True),
        Compose(ActionMask(), DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])),
    )
    wrapped.set_seed(seed)
    return wrapped


def pettingzoo_env(seed: int) -> EnvBase:
    """Both sides as one group of agents; ``mask`` says who is to move."""
    env = togyzqumalaq_v0.env()
    wrapped = PettingZooWrapper(env, use_mask=True, group_map=MarlGroupMapType.ALL_IN_ONE_GROUP)
    wrapped.set_seed(seed)
    return wrapped


def network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, outputs))


def actor(net: nn.Module, env: EnvBase, group: tuple[str, ...], observation: tuple[str, ...]) -> ProbabilisticActor:
    """A policy that samples legal actions only; ``group`` is where the wrapper keeps its agents."""
    logits, mask, action = ((*group, name) for name in ("logits", "action_mask", "action"))
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=[observation], out_keys=[logits]),
        in_keys={"logits": logits, "mask": mask},
        out_keys=[action],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
        spec=None if group else env.action_spec,
    )


def train(net: nn.Module, steps: int, rollout: int, seed: int) -> None:
    """PPO against random."""
    env = gymnasium_env(seed)
    policy = actor(net, env, (), ("observation",))
    value = ValueOperator(network(net[0].in_features, 1), in_keys=["observation"])
    advantage = GAE(gamma=1.0, lmbda=0.95, value_network=value)
    loss = ClipPPOLoss(policy, value, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    done = 0
    while done < steps:
        with torch.no_grad():
            batch = env.rollout(rollout, policy, break_when_any_done=False)
            advantage(batch)
        done += len(batch)
        for _ in range(4):
            for index in torch.randperm(len(batch)).split(256):
                terms = loss(batch[index])
                total = sum(terms[name] for name in ("loss_objective", "loss_critic", "loss_entropy"))
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
        ended = batch["next", "done"].squeeze(-1)
        games = batch["next", "reward"][ended]
        print(f"{done:>8} steps: {(games > 0).sum()} of {len(games)} games won", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="steps against random (default: 100000)")
    parser.add_argument("--rollout", type=int, default=2_000, help="steps of each update (default: 2000)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    net = network(40, 9)
    train(net, arguments.steps, min(arguments.rollout, arguments.steps), arguments.seed)

    env = pettingzoo_env(arguments.seed)
    policy = actor(net, env, ("agents",), ("agents", "observation", "observation"))
    with torch.no_grad():
        game = env.rollout(2_000, policy)
    rewards = game["next", "agents", "reward"].squeeze(-1).sum(0).tolist()
    print(f"itself through PettingZoo: {len(game)} plies, rewards {rewards}")


if __name__ == "__main__":
    main()
