"""MaskablePPO of sb3-contrib against a fixed opponent, or against a pool of random play and its own past selves.

python examples/maskable_ppo.py --opponent random --steps 200000 --curve curve.svg
python examples/maskable_ppo.py --opponent self --steps 200000

Needs: pip install 'togyz[sb3]'
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from curve import draw_curve
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from togyz_env import OpponentPool, Position
from togyz_env.observation import ENCODERS

ENCODER = "rules"


def past_self(policy: Any) -> Callable[[Position], int]:
    """An opponent: the moves of ``policy`` as it is now."""
    policy = copy.deepcopy(policy)

    def play(position: Position) -> int:
        mask = np.isin(np.arange(1, 10), position.legal_moves())
        seen = {"observation": ENCODERS[ENCODER].encode(position.state[None])[0], "action_mask": mask.astype(np.int8)}
        action, _ = policy.predict(seen, action_masks=mask)
        return int(action) + 1

    return play


class Progress(BaseCallback):
    """Every ``every`` steps: play evaluation games against random, and add a copy of the policy to the pool."""

    def __init__(self, every: int, games: int, pool: OpponentPool) -> None:
        super().__init__()
        self.every, self.games, self.pool = every, games, pool
        self.points: list[tuple[float, float]] = []

    def _on_training_start(self) -> None:
        self._look()

    def _on_rollout_end(self) -> None:
        if self.num_timesteps >= len(self.points) * self.every:
            self._look()

    def _on_step(self) -> bool:
        return True

    def _look(self) -> None:
        wins, illegal = evaluate(self.model, self.games)
        self.points.append((self.num_timesteps, wins / self.games))
        self.pool.add(past_self(self.model.policy), name=f"self after {self.num_timesteps} steps")
        print(f"{self.num_timesteps:>8} steps: {wins} of {self.games} games won, {illegal} illegal moves", flush=True)


def make_env(opponent: object) -> gym.Env[Any, Any]:
    return gym.make("togyz_env:Togyzqumalaq-v0", observation=ENCODER, opponent=opponent, agent_side="random")


def evaluate(model: MaskablePPO, games: int, seed: int = 1_000_000) -> tuple[int, int]:
    """Play against random, half of the games with each side; return games won and illegal moves."""
    env = make_env("random")
    wins = illegal = 0
    for game in range(games):
        observation, info = env.reset(seed=seed + game, options={"agent_side": ("white", "black")[game % 2]})
        ended = False
        while not ended:
            action, _ = model.predict(observation, action_masks=observation["action_mask"].astype(bool), deterministic=True)
            observation, reward, terminated, truncated, info = env.step(int(action))
            ended = terminated or truncated
        wins += reward > 0
        illegal += "illegal_action" in info
    env.close()
    return wins, illegal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opponent", default="random", help="'self', or an agent's description: random, greedy, ...")
    parser.add_argument("--steps", type=int, default=200_000, help="steps of the agent (default: 200000)")
    parser.add_argument("--games", type=int, default=200, help="evaluation games at the end (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--curve", type=Path, help="write the learning curve there, as SVG")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    pool = OpponentPool(["random"])  # past selves join it
    envs = DummyVecEnv([lambda: make_env(pool if arguments.opponent == "self" else arguments.opponent)] * 8)
    rollout = min(256, max(8, arguments.steps // 16))
    model = MaskablePPO(
        "MultiInputPolicy",
        envs,
        n_steps=rollout,
        batch_size=rollout,
        n_epochs=8,
        learning_rate=1e-3,
        gamma=1.0,
        ent_coef=0.01,
        policy_kwargs={"net_arch": [256, 256]},
        seed=arguments.seed,
    )
    progress = Progress(max(arguments.steps // 10, 1), max(arguments.games // 4, 1), pool)
    model.learn(arguments.steps, callback=progress)
    wins, illegal = evaluate(model, arguments.games, seed=2_000_000)
    share = wins / arguments.games
    print(f"after {model.num_timesteps} steps: {wins} of {arguments.games} games won ({share:.1%}), {illegal} illegal moves")
    if arguments.curve:
        draw_curve(arguments.curve, progress.points, f"MaskablePPO against {arguments.opponent}: games won against random")


if __name__ == "__main__":
    main()
