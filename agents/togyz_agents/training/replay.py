"""The replay: the newest samples in a ring, 49 bytes each."""

from __future__ import annotations

import numpy as np

from togyz_agents.training.config import ReplayConfig
from togyz_agents.training.samples import SAMPLE

LARGEST_WEIGHT = 4.0
"""A surprising sample is drawn at most so many times as often as an average one."""


class Replay:
    """A ring of ``capacity`` samples that remembers how many it has ever seen.

    Attributes:
        total: samples added so far, those since overwritten included.
    """

    def __init__(self, config: ReplayConfig) -> None:
        """Reserve the ring; memory is touched only as it fills."""
        self._config = config
        self._ring = np.zeros(config.capacity, SAMPLE)
        self.total = 0
        self._held = 0
        self._mean_surprise = 1.0

    def configure(self, config: ReplayConfig) -> None:
        """Take over the settings of a stage; the capacity stays."""
        self._config = config

    def __len__(self) -> int:
        """Samples held."""
        return self._held

    def add(self, samples: np.ndarray) -> None:
        """Append ``samples SAMPLE[N]`` in order; the oldest go when the ring is full."""
        capacity = len(self._ring)
        kept = samples[-capacity:]
        first = self.total + len(samples) - len(kept)
        self._ring[np.arange(first, first + len(kept)) % capacity] = kept
        self.total += len(samples)
        self._held = min(self._held + len(samples), capacity)
        newest = self._ring[(self.total - 1 - np.arange(self.window())) % capacity]
        surprises = newest["surprise"][newest["full"] == 1]
        self._mean_surprise = max(1.0, float(surprises.mean())) if len(surprises) else 1.0

    def window(self) -> int:
        """Number of newest samples that are trained on: a share of all so far, within what is held."""
        return min(len(self), max(self._config.minimum, int(self._config.window * self.total)))

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
            weight = np.where(rows["full"] == 1, 1.0 - share + share * rows["surprise"] / self._mean_surprise, 1.0)
            kept = rows[generator.random(len(rows)) * LARGEST_WEIGHT < weight][:missing]
            drawn.append(kept)
            missing -= len(kept)
        return np.concatenate(drawn)

    def _pick(self, count: int, generator: np.random.Generator) -> np.ndarray:
        newest = self.total - 1
        return self._ring[(newest - generator.integers(self.window(), size=count)) % len(self._ring)]

    def contents(self) -> np.ndarray:
        """Everything held, ``SAMPLE[len]``, oldest first."""
        return self._ring[np.arange(self.total - len(self), self.total) % len(self._ring)]

    def restore(self, contents: np.ndarray, total: int) -> None:
        """Take over the ``contents`` of a saved replay (of any capacity) that had seen ``total`` samples."""
        self.total = total - len(contents)
        self._held = 0
        self.add(contents)
