"""Self-play workers as threads: weights in, a chunk of samples out. Kernels and torch release the GIL."""

from __future__ import annotations

from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

import numpy as np
import torch

from togyz_agents.evaluator import NetworkEvaluator
from togyz_agents.network import Network
from togyz_agents.training.config import Config
from togyz_agents.training.selfplay import Chunk, SelfPlayWorker, WorkerState
from togyz_env.errors import CheckpointError


def _one_thread() -> None:
    torch.set_num_threads(1)  # a new thread does not inherit the setting


class Workers:
    """The workers of a run, each with its own evaluator and random streams; results come in the order of the workers.

    Args:
        config: of the run; ``selfplay.precision`` must be resolved, not "auto".
        network: gives the shape and the first weights.
        seeds: one for each worker.
        states: go on from these games.
    """

    def __init__(
        self, config: Config, network: Network, seeds: list[np.random.SeedSequence], states: list[WorkerState] | None = None
    ) -> None:
        """Build the workers; nothing runs yet. CheckpointError when ``states`` are those of another set of workers."""
        if states is not None and len(states) != len(seeds):
            raise CheckpointError(f"self-play: the games of {len(states)} workers do not fit {len(seeds)} workers")
        self._samples = config.selfplay.chunk
        self._workers = [
            SelfPlayWorker(
                config,
                NetworkEvaluator(network, config.run.device, config.selfplay.precision),
                seed,
                states[i] if states else None,
            )
            for i, seed in enumerate(seeds)
        ]
        self._pool = ThreadPoolExecutor(len(seeds), "self-play", initializer=_one_thread)
        self._running: list[Future[Chunk]] = []

    def configure(self, config: Config, network: Network) -> None:
        """Take over the settings of a stage, and evaluators of the shape of ``network``; call it between ``wait`` and ``start``."""
        self._samples = config.selfplay.chunk
        for worker in self._workers:
            worker.configure(config)
            worker.evaluator = NetworkEvaluator(network, config.run.device, config.selfplay.precision)

    def start(self, network: Network) -> None:
        """Load the weights of ``network`` everywhere and begin the next chunk in the background."""
        for worker in self._workers:
            assert isinstance(worker.evaluator, NetworkEvaluator)
            worker.evaluator.load(network)
        self._running = [self._pool.submit(worker.run, self._samples) for worker in self._workers]

    def wait(self) -> list[Chunk]:
        """Wait for the chunk of every worker; an error in one of them is raised here, without waiting for the others."""
        wait(self._running, return_when=FIRST_EXCEPTION)
        for future in self._running:
            if future.done():
                future.result()
        return [future.result() for future in self._running]

    def snapshot(self) -> list[WorkerState]:
        """The games in progress of every worker; call it between ``wait`` and ``start``."""
        return [worker.snapshot() for worker in self._workers]

    def close(self) -> None:
        """Stop the threads; a chunk in progress ends early and is lost."""
        for worker in self._workers:
            worker.stop()
        self._pool.shutdown(wait=True, cancel_futures=True)
