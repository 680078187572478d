"""The random player: the weakest yardstick, which every other player must beat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from togyz_agents.agent import Clock
from togyz_env.position import Position
from togyz_env.rules import BLACK, HOLES, TO_MOVE


class RandomAgent:
    """Plays each legal move with the same probability, from the game's seed."""

    name = "random"

    def __init__(self) -> None:
        """Start with seed 0; ``new_game`` sets another."""
        self.new_game(0)

    def new_game(self, seed: int) -> None:
        """Draw the next game's moves from ``seed``."""
        self._rng = np.random.default_rng(seed)

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return a random legal hole 1..9."""
        return int(self.select_batch(position.state[None], np.zeros(1, np.int32))[0])

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Return ``int64[B]``: a random legal hole for each of ``states uint8[B, 23]``."""
        rows = np.where(states[:, TO_MOVE, None] == BLACK, states[:, HOLES : 2 * HOLES], states[:, :HOLES])
        # The largest of independent uniform numbers is equally often at each legal hole; an empty hole's 0 never wins.
        return np.asarray(np.argmax((rows > 0) * (1.0 - self._rng.random(rows.shape)), axis=1) + 1)

    def close(self) -> None:
        """Nothing to release."""
