"""Speed of the rules and of the environments."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np

from togyz_agents.benchmark.measuring import PLIES, Figure, Plan, Task, Work, measure_tasks, repeatedly
from togyz_env.batch import random_play, start_states
from togyz_env.env import TogyzqumalaqEnv
from togyz_env.rng import new_streams
from togyz_env.vector_env import TogyzqumalaqVectorEnv

VECTOR_GAMES = (("plain", None), ("rules", None), ("plain", "random"), ("plain", "greedy"))
"""Observation and opponent of the vector environments."""


def rules(plan: Plan) -> list[Figure]:
    """Random moves of the batch kernel, games restarted as they end."""
    states = start_states(256)
    streams = new_streams(1, len(states))

    def step() -> int:
        random_play(states, streams, 100, False)
        return 100 * len(states)

    return measure_tasks("rules", [Task("random moves, batch of 256 games", "moves/s", repeatedly(step))], plan)[0]


def environment(plan: Plan) -> list[Figure]:
    """Steps of the environments: random legal actions, drawn beforehand; resets are included.

    A step of the vector environment is one of all its games, with new observations, masks, rewards and infos. Gymnasium's single
    one is without wrappers; PettingZoo's, if it is installed, with all of its own, and ``last()`` before each step.
    """
    tasks = []
    for observation in ("plain", "rules"):
        env = TogyzqumalaqEnv(observation=observation)
        games = cycle(_random_games(env, 16))

        def step(env: TogyzqumalaqEnv = env, games: Iterator[list[int]] = games) -> int:
            actions = next(games)
            env.reset()
            for action in actions:
                env.step(action)
            return len(actions)

        tasks.append(Task(f"Gymnasium, observation {observation}", "steps/s", repeatedly(step)))
    for observation, opponent in VECTOR_GAMES:
        many = TogyzqumalaqVectorEnv(plan.envs, observation=observation, opponent=opponent)
        batches = cycle(_random_batches(many, 2 * PLIES))

        def steps(many: TogyzqumalaqVectorEnv = many, batches: Iterator[np.ndarray | None] = batches) -> int:
            for actions in islice(batches, 16):
                if actions is None:
                    many.reset(seed=1)
                else:
                    many.step(actions)
            return 16 * many.num_envs

        name = f"VectorEnv, {plan.envs} games, observation {observation}" + (f", against {opponent}" if opponent else "")
        tasks.append(Task(name, "steps/s", repeatedly(steps)))
    if importlib.util.find_spec("pettingzoo"):
        tasks.append(Task("PettingZoo, observation plain", "steps/s", _play_pettingzoo(_random_games(TogyzqumalaqEnv(), 16))))
    return measure_tasks("environment", tasks, plan)[0]


def _play_pettingzoo(games: list[list[int]]) -> Work:
    from togyz_env import togyzqumalaq_v0  # an optional extra

    env = togyzqumalaq_v0.env()
    actions_of_games = cycle(games)

    def step() -> int:
        actions = next(actions_of_games)
        env.reset()
        for action in actions:
            env.last()
            env.step(action)
        return len(actions)

    return repeatedly(step)


def _random_games(env: TogyzqumalaqEnv, count: int) -> list[list[int]]:
    """The actions of whole random games."""
    generator = np.random.default_rng(1)
    games: list[list[int]] = []
    for _ in range(count):
        _, info = env.reset()
        games.append([])
        ended = False
        while not ended:
            games[-1].append(int(generator.choice(np.flatnonzero(info["action_mask"]))))
            _, _, terminated, truncated, info = env.step(games[-1][-1])
            ended = terminated or truncated
    return games


def _random_batches(many: TogyzqumalaqVectorEnv, count: int) -> list[np.ndarray | None]:
    """A reset (None), and so many batches of random legal actions after it."""
    generator = np.random.default_rng(1)
    many.reset(seed=1)
    batches: list[np.ndarray | None] = [None]
    for _ in range(count - 1):
        actions = np.argmax(generator.random((many.num_envs, 9)) * many.action_masks(), axis=1)
        many.step(actions)
        batches.append(actions)
    many.reset(seed=1)
    return batches
