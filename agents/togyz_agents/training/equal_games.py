"""How many games of a run equal an earlier one: independent random streams should make that a rare chance."""

from __future__ import annotations

import numpy as np


class EqualGames:
    """Remembers the key of every game of a run, 8 bytes each.

    Attributes:
        keys: ``uint64[games]``, sorted, each once.
        count: games so far that equalled an earlier one.
    """

    def __init__(self, keys: np.ndarray | None = None, count: int = 0) -> None:
        """Go on from ``keys`` and ``count``, or begin with none."""
        self.keys = np.zeros(0, np.uint64) if keys is None else keys
        self.count = count

    def add(self, keys: np.ndarray) -> None:
        """Take the ``keys uint64[N]`` of new games."""
        before = len(self.keys)
        self.keys = np.union1d(self.keys, keys)
        self.count += len(keys) - (len(self.keys) - before)
