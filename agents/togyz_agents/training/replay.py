"""The replay: the newest samples, 49 bytes each, in memory or in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from togyz_agents.training.config import ReplayConfig
from togyz_agents.training.stores import PIECE, FileStore, MemoryStore, Store

LARGEST_WEIGHT = 4.0
"""A surprising sample is drawn at most so many times as often as an average one."""


class Replay:
    """The newest ``capacity`` samples; it remembers how many it has ever seen.

    Attributes:
        total: samples added so far, those since overwritten included.
    """

    def __init__(self, config: ReplayConfig, folder: Path | None = None) -> None:
        """Begin empty; a store in files needs the ``folder`` for them, and a memory store reserves its ring."""
        self._config = config
        self._capacity = config.capacity
        self._store: Store
        if config.store == "file":
            if folder is None:
                raise ValueError("a replay in files needs a folder")
            self._store = FileStore(folder)
        else:
            self._store = MemoryStore(config.capacity)
        self.total = 0
        self._held = 0
        self._begin = 0  # the first sample that the two sums count
        self._surprise = 0
        self._full = 0

    def configure(self, config: ReplayConfig) -> None:
        """Take over the settings of a stage; the capacity and the store stay."""
        self._config = config

    def __len__(self) -> int:
        """Samples held."""
        return self._held

    def add(self, samples: np.ndarray) -> None:
        """Append ``samples SAMPLE[N]`` in order; the oldest go when the replay is full.

        Raises:
            OSError: a store in files finds the disk full.
        """
        total, held = self.total + len(samples), min(self._held + len(samples), self._capacity)
        begin = total - self._window(total, held)
        self._forget(begin)  # before the store does
        self._tally(samples[max(0, begin - self.total) :], 1)
        self._store.add(self.total, samples)
        self.total, self._held = total, held

    def _tally(self, samples: np.ndarray, sign: int) -> None:
        """Count ``samples`` in (or out, with -1) of the sums over the window."""
        full = samples["full"] == 1
        self._surprise += sign * int(samples["surprise"][full].sum(dtype=np.int64))
        self._full += sign * int(full.sum())

    def _forget(self, begin: int) -> None:
        """Let the sums begin with sample ``begin`` instead of ``_begin``; a stage can move it back, too."""
        if begin >= self.total:
            self._surprise = self._full = 0
        else:
            for rows in self._pieces(min(begin, self._begin), max(begin, self._begin)):
                self._tally(rows, 1 if begin < self._begin else -1)
        self._begin = begin

    def _mean_surprise(self) -> float:
        return max(1.0, self._surprise / self._full) if self._full else 1.0

    def window(self) -> int:
        """Number of newest samples that are trained on: a share of all so far, within what is held."""
        return self._window(self.total, len(self))

    def _window(self, total: int, held: int) -> int:
        return min(held, max(self._config.minimum, int(self._config.window * total)))

    def draw(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """Draw ``SAMPLE[count]`` from the window with replacement.

        With ``surprise`` above 0 the samples of full searches have weight ``1 - surprise + surprise * theirs / mean``, all others 1
        (policy surprise weighting, KataGo's method notes), by rejection.
        """
        share = self._config.surprise
        if share == 0.0:
            return self._pick(count, generator)
        drawn: list[np.ndarray] = []
        missing = count
        while missing > 0:
            rows = self._pick(int(LARGEST_WEIGHT * missing) + 1, generator)
            weight = np.where(rows["full"] == 1, 1.0 - share + share * rows["surprise"] / self._mean_surprise(), 1.0)
            kept = rows[generator.random(len(rows)) * LARGEST_WEIGHT < weight][:missing]
            drawn.append(kept)
            missing -= len(kept)
        return np.concatenate(drawn)

    def _pick(self, count: int, generator: np.random.Generator) -> np.ndarray:
        newest = self.total - 1
        return self._store.take(newest - generator.integers(self.window(), size=count))

    def contents(self) -> np.ndarray:
        """Everything held, ``SAMPLE[len]``, oldest first."""
        return self._store.take(np.arange(self.total - len(self), self.total))

    def pieces(self) -> Iterator[np.ndarray]:
        """Everything held, oldest first, in pieces that fit into memory."""
        yield from self._pieces(self.total - len(self), self.total)

    def _pieces(self, begin: int, end: int) -> Iterator[np.ndarray]:
        for first in range(begin, end, PIECE):
            yield self._store.take(np.arange(first, min(end, first + PIECE)))

    def seal(self) -> dict[str, Any] | None:
        """What a checkpoint notes of a store in files, flushed to disk, in plain types; None for one in memory."""
        return self._store.seal(self.total - len(self)) if isinstance(self._store, FileStore) else None

    def prune(self, first: int) -> None:
        """Remove the files of samples before number ``first`` that are not held either."""
        if isinstance(self._store, FileStore):
            self._store.prune(min(first, self.total - len(self)))

    def restore(self, contents: np.ndarray | FileStore, total: int, held: int | None = None) -> None:
        """Take over a saved replay, of any capacity and store.

        Args:
            contents: ``SAMPLE[N]``, oldest first, or the files that hold them.
            total: samples it had seen.
            held: samples that it kept in files.
        """
        held = len(contents) if isinstance(contents, np.ndarray) else int(held or 0)
        self._held = 0
        self._surprise = self._full = 0
        kept = min(held, self._capacity)
        if isinstance(contents, FileStore) and isinstance(self._store, FileStore):
            self._store, self.total, self._held = contents, total, kept
            self._begin = total
            self._forget(total - self.window())
            return
        self.total = self._begin = total - kept
        if isinstance(self._store, FileStore):
            self._store.begin(self.total)
        for first in range(total - kept, total, PIECE):
            last = min(total, first + PIECE)
            if isinstance(contents, FileStore):
                self.add(contents.take(np.arange(first, last)))
            else:
                self.add(contents[len(contents) - total + first : len(contents) - total + last])

    def close(self) -> None:
        """Give memory, maps and descriptors back."""
        self._store.close()
