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
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from togyz_agents.evaluator import NetworkEvaluator, fastest_precision, one_torch_thread, uniform_evaluator
from togyz_agents.network import Network, NetworkConfig
from togyz_agents.search.alphabeta.searcher import AlphaBetaConfig, AlphaBetaSearch
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
from togyz_env.rules import ONGOING, TO_MOVE, start_state

PLIES = 100
"""Positions and games in progress are spread over so many moves from the start."""
SAVINGS: dict[str, dict[str, Any]] = {
    "no reuse, no cache": {"tree_reuse": False, "cache_places": 0},
    "reuse and cache": {},
}
"""Ways to play: every simulation asks the network, or as training plays by default."""
CPU_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16")
"""Those that decide how fast a network runs, as /proc/cpuinfo calls them."""
PACKAGES = ("togyz", "numpy", "numba", "torch", "gymnasium")

SELFPLAY_LENGTH = 2.0
"""Searches of many games begin together and end together, so self-play is measured over more than one of these waves."""

RATIO = "of evaluations/s alone"
"""Unit of self-play's simulations/s over the evaluations/s alone: of the best rates, and the median over the repeats."""

log = logging.getLogger(__name__)

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

        tasks.append(Task(f"Gymnasium, observation {observation}", "steps/s", repeatedly(step)))
    return measure_tasks("environment", tasks, plan)[0]


def alphabeta(plan: Plan) -> list[Figure]:
    """Nodes of alpha-beta from positions of random games, each searched afresh to the same depth."""
    states = random_states(64, seed=1, plies=80)
    positions = [state for state in states if end_reason_batch(state[None], False)[0] == ONGOING]
    tasks = []
    for config in (AlphaBetaConfig("kazan", 0), AlphaBetaConfig("kazan"), AlphaBetaConfig("full")):
        search = AlphaBetaSearch(config)
        turn = cycle(positions)

        def step(search: AlphaBetaSearch = search, turn: Iterator[np.ndarray] = turn) -> int:
            state = next(turn)
            search.forget()
            return search.run(state, int(state[TO_MOVE]), depth=plan.depth).nodes

        captures = "captures searched on" if config.quiescence else "no captures beyond"
        name = f"alpha-beta, evaluation {config.evaluation}, depth {plan.depth}, {captures}"
        tasks.append(Task(name, "nodes/s", repeatedly(step)))
    return measure_tasks("alphabeta", tasks, plan)[0]


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
    """The search alone: self-play with an evaluator that knows nothing."""
    slots = plan.slots[-1]
    tasks = [
        Task(f"tree, {slots} games, {saving}", "simulations/s", _play(_worker(plan, slots, saving, uniform_evaluator, seed=1)))
        for saving in SAVINGS
    ]
    return measure_tasks("tree", tasks, plan)[0]


def evaluator(plan: Plan) -> list[Figure]:
    """Evaluations of networks, from state rows to masked logits and values."""
    states = random_states(max(plan.batches), seed=1, plies=PLIES)
    tasks = []
    for config, precision, batch in product(plan.networks, plan.precisions, plan.batches):
        evaluate = NetworkEvaluator(Network(config), precision=precision)
        tasks.append(
            Task(f"network {_name(config)} {precision}, batch {batch}", "evaluations/s", _evaluate(evaluate, states[:batch]))
        )
    return measure_tasks("evaluator", tasks, plan)[0]


def selfplay(plan: Plan) -> list[Figure]:
    """Self-play in threads, beside the same threads evaluating the same network in the same batches and nothing else."""
    network = Network(plan.networks[0])
    precision = fastest_precision(network, batch=plan.slots[-1])
    tasks: list[Task] = []
    ratios: list[tuple[int, int]] = []  # (self-play, evaluations alone), indices of tasks
    with ThreadPoolExecutor(max(plan.workers), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for slots, count in product(plan.slots, plan.workers):
            evaluators = [NetworkEvaluator(network, precision=precision) for _ in range(count)]
            states = random_states(slots, seed=1, plies=PLIES)
            setting = f"{_name(network.config)} {precision}, batch {slots}"
            alone = len(tasks)
            work = _together(pool, [_evaluate(evaluate, states) for evaluate in evaluators])
            tasks.append(Task(f"evaluations alone, network {setting}", "evaluations/s", work, count, SELFPLAY_LENGTH))
            for saving in SAVINGS:
                players = [_play(_worker(plan, slots, saving, evaluate, seed)) for seed, evaluate in enumerate(evaluators)]
                ratios.append((len(tasks), alone))
                name = f"self-play, network {setting}, {saving}"
                tasks.append(Task(name, "simulations/s", _together(pool, players), count, SELFPLAY_LENGTH))
        figures, rates = measure_tasks("selfplay", tasks, plan)
    for mine, alone in reversed(ratios):
        best = figures[mine].best / figures[alone].best
        median = float(np.median(rates[:, mine] / rates[:, alone]))
        figures.insert(mine + 1, dataclasses.replace(figures[mine], unit=RATIO, best=best, median=median, first=0.0))
    return figures


def training(plan: Plan) -> list[Figure]:
    """Steps of the learner, from samples in the replay to the average of the weights."""
    replay = Replay(ReplayConfig(capacity=20_000))
    replay.add(_random_samples(20_000))
    tasks = []
    for batch in plan.training_batches:
        learner = Learner(LearnerConfig(batch=batch), Network(plan.networks[0]), np.random.SeedSequence(1))

        def step(learner: Learner = learner, batch: int = batch) -> int:
            learner.train(replay, 4, 0.5)
            return 4 * batch

        tasks.append(Task(f"training, network {_name(plan.networks[0])}, batch {batch}", "samples/s", repeatedly(step)))
    return measure_tasks("training", tasks, plan)[0]


def sample(plan: Plan) -> list[Figure]:
    """Memory of one sample in the replay and in a checkpoint."""
    return [Figure("sample", "a sample in the replay", "bytes", 0, SAMPLE.itemsize, SAMPLE.itemsize)]


GROUPS: dict[str, Callable[[Plan], list[Figure]]] = {
    "rules": rules,
    "environment": environment,
    "alphabeta": alphabeta,
    "tree": tree,
    "evaluator": evaluator,
    "selfplay": selfplay,
    "training": training,
    "sample": sample,
}


def measure(plan: Plan | None = None, only: Sequence[str] = ()) -> list[Figure]:
    """Measure the groups ``only`` (all by default) one after the other, with one torch thread for each worker.

    Raises:
        ConfigError: a group that does not exist.
    """
    for name in only:
        if name not in GROUPS:
            raise ConfigError(f"benchmark: {name!r} is not one of {', '.join(GROUPS)}")
    figures: list[Figure] = []
    with one_torch_thread():
        for name, group in GROUPS.items():
            if not only or name in only:
                log.info("measuring: %s", name)
                figures += group(plan or Plan())
    return figures


def _name(config: NetworkConfig) -> str:
    return f"{config.width}x{config.blocks} {config.encoder}"


def _evaluate(evaluator: Evaluator, states: np.ndarray) -> Work:
    def step() -> int:
        evaluator(states)
        return len(states)

    return repeatedly(step)


def _play(worker: SelfPlayWorker) -> Work:
    worker.begin()

    def work(seconds: float) -> float:
        start = time.perf_counter()
        return worker.play_for(seconds) / (time.perf_counter() - start)

    return work


def _together(pool: ThreadPoolExecutor, works: list[Work]) -> Work:
    """Do ``works`` at the same time and add their rates."""

    def work(seconds: float) -> float:
        rates: list[float] = list(pool.map(lambda one: one(seconds), works))
        return sum(rates)

    return work


def _worker(plan: Plan, slots: int, saving: str, evaluator: Evaluator, seed: int) -> SelfPlayWorker:
    """A worker in the middle of its games, for at their start a cache has too easy a life."""
    settings = SelfPlayConfig(slots=slots, simulations=plan.simulations, full_share=1.0, **SAVINGS[saving])
    states = random_states(slots, seed, PLIES)
    states[end_reason_batch(states, False) != ONGOING] = start_state()
    plies = np.arange(slots) % PLIES // 2 * 2 + states[:, TO_MOVE]
    games = WorkerState(
        state=states,
        ply=plies.astype(np.int32),
        count=np.zeros(slots, np.int32),
        stream=new_streams(seed, slots),
        samples=np.zeros(0, SAMPLE),
    )
    return SelfPlayWorker(Config(selfplay=settings), evaluator, np.random.SeedSequence(seed), games)


def _random_samples(count: int) -> np.ndarray:
    """``SAMPLE[count]`` with nothing to learn in them."""
    generator = np.random.default_rng(1)
    samples = np.zeros(count, SAMPLE)
    samples["state"] = random_states(count, seed=1, plies=PLIES)
    policy = generator.random((count, 9)) * legal_actions(samples["state"])
    samples["policy"] = np.round(policy / np.maximum(policy.sum(axis=1, keepdims=True), 1e-6) * POLICY_SCALE)
    samples["full"] = generator.random(count) < SelfPlayConfig.full_share
    samples["value"] = generator.integers(-VALUE_SCALE, VALUE_SCALE, count)
    samples["margin"] = generator.integers(-81, 82, count)
    samples["outcome"] = np.sign(samples["margin"])
    return samples


def machine() -> dict[str, Any]:
    """What the figures depend on: processor, cores and their load, capability, versions."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        cpuinfo = ""
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    present = flags[1].split() if flags else []
    return {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "capability": [flag for flag in CPU_FLAGS if flag in present],
        "torch capability": torch.backends.cpu.get_cpu_capability(),
        "torch threads": "one for each worker",
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {package: version(package) for package in PACKAGES},
    }


def machine_line(of: dict[str, Any]) -> str:
    """``machine()`` in one line for people."""
    versions = ", ".join(f"{name} {number}" for name, number in of["versions"].items())
    return (
        f"{of['cpu']}, {of['cores']} cores (load {of['load']} before), {' '.join(of['capability']) or 'no flags known'}, "
        f"torch {of['torch capability']} with threads: {of['torch threads']}; {of['system']}, Python {of['python']}, {versions}"
    )


def to_dict(figures: list[Figure], plan: Plan, of: dict[str, Any]) -> dict[str, Any]:
    """Everything as plain values for JSON."""
    return {
        "machine": of,
        "plan": dataclasses.asdict(plan),
        "figures": [dataclasses.asdict(figure) for figure in figures],
    }


def to_text(figures: list[Figure], plan: Plan) -> str:
    """The figures as a table for people."""
    rows = [("", "best", "median", "unit", "threads", "first call")]
    for before, figure in zip([figures[0], *figures], figures):
        if before.group != figure.group:
            rows.append(("",) * 6)
        digits = ".2f" if figure.unit == RATIO else ",.0f"
        first = f"{figure.first:.1f} s" if figure.first else ""
        rows.append(
            (figure.what, format(figure.best, digits), format(figure.median, digits), figure.unit, str(figure.threads or ""), first)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 3) else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))
        )
        for row in rows
    ]
    lengths = f"{plan.seconds:g} s (self-play {SELFPLAY_LENGTH * plan.seconds:g} s)"
    lines += ["", f"{plan.repeats} repeats of {lengths}; the first call compiles or loads what is not there yet"]
    return "\n".join(line.rstrip() for line in lines)
