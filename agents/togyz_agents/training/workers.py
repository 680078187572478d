"""Self-play workers as threads: weights in, a chunk of samples out. Kernels and torch release the GIL.

A worker that raises, ends or hangs stops the run: no run goes on with fewer workers than it was told to have.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

import numpy as np
import torch

from togyz_agents.evaluator import NetworkEvaluator
from togyz_agents.network import Network
from togyz_agents.training.config import Config
from togyz_agents.training.selfplay import Chunk, SelfPlayWorker, WorkerState
from togyz_env.errors import CheckpointError, TogyzError, TrainingError

POLL = 0.25
"""Seconds between two looks at the workers."""
FIRST_BATCH = 20
"""The first batch of a process may take so many times the patience: kernels are compiled then."""

log = logging.getLogger(__name__)


class _Thread:
    """One worker in a daemon thread of its own, so that one that hangs cannot keep the process alive."""

    def __init__(self, name: str, worker: SelfPlayWorker) -> None:
        self.worker = worker
        self.done: Chunk | BaseException | None = None
        self._ready = threading.Event()
        self.still = 0.0  # seconds without a batch, as far as this process was running
        self._beats = -1
        self._orders: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        torch.set_num_threads(1)  # a new thread does not inherit the setting
        while (samples := self._orders.get()) is not None:
            try:
                self.done = self.worker.run(samples)
            except BaseException as error:
                self.done = error
            self._ready.set()

    def order(self, samples: int) -> None:
        """Begin a chunk."""
        self.done, self.still = None, 0.0
        self._ready.clear()
        self._orders.put(samples)

    def wait_a_moment(self) -> None:
        """Return when the chunk is there, or after ``POLL`` seconds."""
        self._ready.wait(POLL)

    def look(self, seconds: float) -> None:
        """Note whether there was a batch since the last look, ``seconds`` ago."""
        beats = self.worker.batches
        self.still = 0.0 if beats != self._beats else self.still + seconds
        self._beats = beats

    def end(self) -> None:
        """Let the thread end after its batch."""
        self.worker.stop()
        self._orders.put(None)


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
        self._patience = config.selfplay.patience
        workers = [
            SelfPlayWorker(
                config,
                NetworkEvaluator(network, config.run.device, config.selfplay.precision),
                seed,
                states[i] if states else None,
            )
            for i, seed in enumerate(seeds)
        ]
        self._threads = [_Thread(f"self-play_{i}", worker) for i, worker in enumerate(workers)]

    def configure(self, config: Config, network: Network) -> None:
        """Take over the settings of a stage, and evaluators of the shape of ``network``; call it between ``wait`` and ``start``."""
        self._samples = config.selfplay.chunk
        for thread in self._threads:
            thread.worker.configure(config)
            thread.worker.evaluator = NetworkEvaluator(network, config.run.device, config.selfplay.precision)

    def start(self, network: Network) -> None:
        """Load the weights of ``network`` everywhere and begin the next chunk in the background."""
        for thread in self._threads:
            assert isinstance(thread.worker.evaluator, NetworkEvaluator)
            thread.worker.evaluator.load(network)
        for thread in self._threads:
            thread.order(self._samples)

    def wait(self, asked_to_stop: Callable[[], bool] = lambda: False) -> list[Chunk] | None:
        """Wait for the chunk of every worker, or until ``asked_to_stop``: then None, and the chunks are lost.

        Raises:
            TogyzError: of a worker, as soon as it is there: no other worker is waited for.
            TrainingError: a worker failed, ended, or did no batch for longer than ``selfplay.patience``.
        """
        while True:
            if asked_to_stop():
                return None
            for number, thread in enumerate(self._threads):
                self._check(number, thread)
            waiting = [thread for thread in self._threads if thread.done is None]
            if not waiting:
                return [thread.done for thread in self._threads if isinstance(thread.done, Chunk)]
            waiting[0].wait_a_moment()
            for thread in waiting:
                thread.look(POLL)

    def _check(self, number: int, thread: _Thread) -> None:
        name = f"self-play: worker {number + 1} of {len(self._threads)}"
        if isinstance(thread.done, TogyzError):
            raise thread.done
        if isinstance(thread.done, BaseException):
            log.error("%s failed", name, exc_info=thread.done)
            reason = " ".join(f"{type(thread.done).__name__}: {thread.done}".split())[:300]
            raise TrainingError(f"{name} failed ({reason}); the run stops") from thread.done
        if thread.done is None and not thread.thread.is_alive():
            raise TrainingError(f"{name} ended without a word; the run stops")
        limit = self._patience * (1 if thread.worker.batches else FIRST_BATCH)
        if thread.done is None and thread.still > limit:
            raise TrainingError(
                f"{name} hangs: no batch for {thread.still:.0f} s, selfplay.patience is {self._patience:g} s; the run stops"
            )

    def snapshot(self) -> list[WorkerState]:
        """The games in progress of every worker; call it between ``wait`` and ``start``."""
        return [thread.worker.snapshot() for thread in self._threads]

    def close(self) -> None:
        """Stop the threads; a chunk in progress ends early and is lost. A thread that hangs is left behind."""
        for thread in self._threads:
            thread.end()
        for thread in self._threads:
            thread.thread.join(0.0 if thread.still > self._patience else max(5.0, self._patience))
            if thread.thread.is_alive():
                log.warning("self-play: thread %s hangs and is left behind", thread.thread.name)
