"""Speed on this machine, from random moves to training: each figure the best and the median of several short repeats.

What is compiled or loaded at the first call is timed apart. The repeats of a group are interleaved (every figure once, then every
figure again), so that a machine that slows down for a while slows all of them, and ratios of figures of one group can be trusted
when the figures cannot.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any

import gymnasium
import llvmlite.binding
import numpy as np
import torch
from rich.table import Table

from togyz_agents.evaluator import NetworkEvaluator, fastest_precision, one_torch_thread, uniform_evaluator
from togyz_agents.network import Network, NetworkConfig
from togyz_agents.search.batched import Evaluator
from togyz_agents.training.config import Config, LearnerConfig, ReplayConfig, SelfPlayConfig
from togyz_agents.training.learner import Learner, legal_actions
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import POLICY_SCALE, SAMPLE, VALUE_SCALE
from togyz_agents.training.selfplay import SelfPlayWorker, WorkerState
from togyz_env.batch import end_reason_batch, random_play, random_states, start_states
from togyz_env.env import TogyzqumalaqEnv
from togyz_env.errors import ConfigError
from togyz_env.rng import new_streams
from togyz_env.rules import ONGOING, TO_MOVE

CPU_FEATURES = ("sse4.2", "avx2", "avx512f", "avx512bf16", "amx-bf16", "neon", "bf16")
"""Those that decide how fast a network runs, as LLVM calls them."""
VERSIONS = ("togyz", "numpy", "numba", "torch", "gymnasium")
PLIES = 100
"""Positions and games in progress are spread over so many moves from the start."""

log = logging.getLogger(__name__)

Work = Callable[[float], float]
"""Does its work again and again for that many seconds, at least once, and returns the units done in a second."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    seconds: float = 0.5
    """Length of a repeat; of self-play it is four times as long, for searches end in waves."""
    repeats: int = 5
    """Repeats of each figure, after one that does not count."""
    networks: tuple[NetworkConfig, ...] = (NetworkConfig(width=256, blocks=4), NetworkConfig(width=128, blocks=3))
    """Networks to evaluate; the first one also plays and learns."""
    batches: tuple[int, ...] = (1, 8, 64, 256, 512, 1024)
    """Batches of the evaluations."""
    precisions: tuple[str, ...] = ("float32", "bfloat16")
    """Precisions of the evaluations; self-play takes the fastest here, as training does."""
    workers: tuple[int, ...] = (1, 2)
    """Threads of self-play."""
    slots: tuple[int, ...] = (256, 512)
    """Games at once in each thread; the tree alone takes the last number."""
    simulations: int = 100
    """Simulations of every search."""
    training_batches: tuple[int, ...] = (512, 1024)
    """Samples of a training step."""

    def __post_init__(self) -> None:
        """Refuse a plan that measures nothing."""
        if not self.seconds > 0:
            raise ConfigError(f"benchmark: {self.seconds!r} seconds a repeat; expected more than 0")
        if self.repeats < 1:
            raise ConfigError(f"benchmark: {self.repeats!r} repeats; expected at least 1")


@dataclass(frozen=True)
class Figure:
    """One result.

    Attributes:
        group: what it belongs to, a key of ``GROUPS``.
        what: what was measured.
        unit: of ``best`` and ``median``.
        threads: busy threads.
        best, median: over the repeats.
        first: seconds of the first call, which compiles or loads what is not there yet; 0 where nothing was timed.
    """

    group: str
    what: str
    unit: str
    threads: int
    best: float
    median: float
    first: float = 0.0


@dataclass(frozen=True)
class Task:
    """Something to measure: its name, its unit, its work, its threads, and how many times ``Plan.seconds`` a repeat takes."""

    what: str
    unit: str
    work: Work
    threads: int = 1
    length: float = 1.0


def repeatedly(step: Callable[[], int]) -> Work:
    """The work of calling ``step``, which returns the units that it did."""

    def work(seconds: float) -> float:
        done = 0
        start = time.perf_counter()
        while True:
            done += step()
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return done / elapsed

    return work


def measure_tasks(group: str, tasks: list[Task], plan: Plan) -> tuple[list[Figure], np.ndarray]:
    """Measure ``tasks`` in turn, repeat by repeat.

    Returns:
        ``(figures, rates float64[repeats, tasks])``.
    """
    first = []
    for task in tasks:
        start = time.perf_counter()
        task.work(0.0)
        first.append(time.perf_counter() - start)
    rates = np.array(
        [[task.work(task.length * plan.seconds) for task in tasks] for _ in range(plan.repeats + 1)]
    )[1:]  # the first round only warms up
    figures = [
        Figure(group, task.what, task.unit, task.threads, float(column.max()), float(np.median(column)), seconds)
        for task, column, seconds in zip(tasks, rates.T, first)
    ]
    return figures, rates


def rules(plan: Plan) -> list[Figure]:
    """Random moves of the batch kernel, games restarted as they end."""
    states = start_states(256)
    streams = new_streams(1, len(states))

    def step() -> int:
        random_play(states, streams, 100, False)
        return 100 * len(states)

    return measure_tasks("rules", [Task("random moves, batch of 256 games", "moves/s", repeatedly(step))], plan)[0]


def environment(plan: Plan) -> list[Figure]:
    """Steps of the Gymnasium environment without wrappers: random legal actions, drawn beforehand; resets are included."""
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

        tasks.append(Task(f"Gymnasium, observation {observation!r}", "steps/s", repeatedly(step)))
    return measure_tasks("environment", tasks, plan)[0]


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


def tree(plan: Plan) -> list[Figure]:
    """The search alone, in self-play's kernels with an evaluator that knows nothing."""
    slots = plan.slots[-1]
    tasks = [
        Task(f"tree, {slots} games, {extras}", "simulations/s", _worker(plan, slots, extras, uniform_evaluator, 1).play_for_rate)
        for extras in EXTRAS
    ]
    return measure_tasks("tree", tasks, plan)[0]
