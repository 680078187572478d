"""Speed of what training is made of: tree, network, self-play, learner; and the memory of a sample."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import torch

from togyz_agents.benchmark.measuring import (
    PLIES,
    RATIO,
    SELFPLAY_LENGTH,
    Figure,
    Plan,
    Task,
    Work,
    measure_tasks,
    network_name,
    repeatedly,
)
from togyz_agents.evaluator import NetworkEvaluator, fastest_precision, uniform_evaluator
from togyz_agents.network import Network
from togyz_agents.search.batched import Evaluator
from togyz_agents.training.config import Config, LearnerConfig, ReplayConfig, SelfPlayConfig
from togyz_agents.training.learner import Learner, legal_actions
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import POLICY_SCALE, SAMPLE, VALUE_SCALE
from togyz_agents.training.selfplay import SelfPlayWorker, WorkerState
from togyz_env.batch import end_reason_batch, random_states
from togyz_env.rng import new_streams
from togyz_env.rules import ONGOING, TO_MOVE, start_state

SAVINGS: dict[str, dict[str, Any]] = {
    "no reuse, no cache": {"tree_reuse": False, "cache_places": 0},
    "reuse and cache": {},
}
"""Ways to play: every simulation asks the network, or as training plays by default."""


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
            Task(f"network {network_name(config)} {precision}, batch {batch}", "evaluations/s", _evaluate(evaluate, states[:batch]))
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
            setting = f"{network_name(network.config)} {precision}, batch {slots}"
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

        tasks.append(Task(f"training, network {network_name(plan.networks[0])}, batch {batch}", "samples/s", repeatedly(step)))
    return measure_tasks("training", tasks, plan)[0]


def sample(plan: Plan) -> list[Figure]:
    """Memory of one sample in the replay and in a checkpoint."""
    return [Figure("sample", "a sample in the replay", "bytes", 0, SAMPLE.itemsize, SAMPLE.itemsize)]


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
