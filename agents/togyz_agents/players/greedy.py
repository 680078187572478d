"""The greedy player: looks one move ahead and takes what it can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from togyz_agents.agent import Clock
from togyz_env.position import Position
from togyz_env.rules import HOLES, STATE_SIZE, kernel
from togyz_env.simple_players import kazan_gain


@kernel
def kazan_gains(states: np.ndarray) -> np.ndarray:
    """Return ``int16[B, 9]``: the ``kazan_gain`` of each move, ILLEGAL (-1) for an empty hole."""
    gains = np.empty((states.shape[0], HOLES), np.int16)
    after = np.empty(STATE_SIZE, np.uint8)
    for b in range(states.shape[0]):
        for action in range(HOLES):
            gains[b, action] = kazan_gain(states[b], action, after)
    return gains


class GreedyAgent:
    """Plays the move that wins the most stones at once; ties are broken at random with the game's seed."""

    name = "greedy"

    def __init__(self) -> None:
        """Start with seed 0; ``new_game`` sets another."""
        self.new_game(0)

    def new_game(self, seed: int) -> None:
        """Break the next game's ties from ``seed``."""
        self._rng = np.random.default_rng(seed)

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return the hole 1..9 with the largest gain; see ``kazan_gains``."""
        return int(self.select_batch(position.state[None], np.zeros(1, np.int32))[0])

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Return ``int64[B]``: in each of ``states uint8[B, 23]`` the hole with the largest gain."""
        gains = kazan_gains(states)
        # Below 1, the random part orders equal gains and no others.
        return np.asarray(np.argmax(gains + self._rng.random(gains.shape), axis=1) + 1)

    def close(self) -> None:
        """Nothing to release."""
