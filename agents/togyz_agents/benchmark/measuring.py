"""Timing: interleaved repeats of small pieces of work, and what a figure is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from togyz_agents.network import NetworkConfig
from togyz_env.errors import ConfigError

PLIES = 100
"""Positions and games in progress are spread over so many moves from the start."""

SELFPLAY_LENGTH = 2.0
"""Searches of many games begin together and end together, so self-play is measured over more than one of these waves."""

RATIO = "of evaluations/s alone"
"""Unit of self-play's simulations/s over the evaluations/s alone: of the best rates, and the median over the repeats."""

Work = Callable[[float], float]
"""Does its work again and again for that many seconds, at least once, and returns the units done in a second."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    seconds: float = 0.5
    """Length of a repeat; one of self-play is twice as long."""
    repeats: int = 5
    """Repeats of each figure, after one that does not count."""
    networks: tuple[NetworkConfig, ...] = (NetworkConfig(width=256, blocks=4), NetworkConfig(width=128, blocks=3))
    """Networks to evaluate; the first one also plays and learns."""
    envs: int = 4096
    """Games of a vector environment."""
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
    single_simulations: tuple[int, ...] = (800, 20_000)
    """Simulations of the searches of one position."""
    depth: int = 8
    """Plies that alpha-beta looks ahead."""

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
    rates = np.array([[task.work(task.length * plan.seconds) for task in tasks] for _ in range(plan.repeats + 1)])[
        1:
    ]  # the first round only warms up
    figures = [
        Figure(group, task.what, task.unit, task.threads, float(column.max()), float(np.median(column)), seconds)
        for task, column, seconds in zip(tasks, rates.T, first)
    ]
    return figures, rates


def network_name(config: NetworkConfig) -> str:
    """A network in a figure's name."""
    return f"{config.width}x{config.blocks} {config.encoder}"
