"""Random games as an evaluation: a position is worth the mean result of games played on from it at random."""

from __future__ import annotations

import numpy as np

from togyz_env.batch import random_action
from togyz_env.errors import ConfigError
from togyz_env.rng import new_streams
from togyz_env.rules import HOLES, ONGOING, STATE_SIZE, TO_MOVE, end_reason, final_margin, int64, kernel, play

MARGIN_SCALE = 81.0
LONGEST = 2000
"""Plies after which a random game counts as a draw."""


@kernel
def play_rollouts(
    states: np.ndarray, streams: np.ndarray, rollouts: int, playout: bool, outcomes: np.ndarray, margins: np.ndarray
) -> None:
    """Play ``rollouts`` random games from each of ``states uint8[B, 23]``.

    Args:
        streams: ``uint64[1]``, advanced.
        outcomes: ``float32[B, 3]``, receives the shares of wins, draws and losses for the side to move.
        margins: ``float32[B]``, receives the mean final stones minus the opponent's, divided by 81.
    """
    state = np.empty(STATE_SIZE, np.uint8)
    for b in range(states.shape[0]):
        sign = 1 - 2 * int64(states[b, TO_MOVE])
        outcomes[b, :] = 0.0
        total = 0
        for _ in range(rollouts):
            state[:] = states[b]
            plies = 0
            reason = end_reason(state, playout)
            while reason == ONGOING and plies < LONGEST:
                play(state, random_action(state, streams, 0))
                reason = end_reason(state, playout)
                plies += 1
            margin = sign * final_margin(state, reason) if reason != ONGOING else 0
            total += margin
            outcomes[b, 0 if margin > 0 else (1 if margin == 0 else 2)] += 1.0
        for i in range(3):
            outcomes[b, i] /= rollouts
        margins[b] = total / (rollouts * MARGIN_SCALE)


@kernel
def _equal_logits(states: np.ndarray, logits: np.ndarray) -> None:
    for b in range(states.shape[0]):
        row = int64(states[b, TO_MOVE]) * HOLES
        for action in range(HOLES):
            logits[b, action] = 0.0 if states[b, row + action] != 0 else -np.inf


class RolloutEvaluator:
    """An Evaluator without a network: every legal move is equally likely, the value is the mean result of random games.

    Args:
        rollouts: games for each position.
        playout: whether only atsyrau ends a game.
    """

    def __init__(self, rollouts: int = 1, playout: bool = False) -> None:
        """Start with seed 0; ``reseed`` sets another."""
        if rollouts < 1:
            raise ConfigError(f"rollout: rollouts must be at least 1, not {rollouts}")
        self._rollouts = rollouts
        self._playout = playout
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Draw the next games from ``seed``."""
        self._streams = new_streams(seed, 1)

    def outputs(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate ``states uint8[B, 23]``: ``(logits float32[B, 9], win/draw/loss float32[B, 3], margin / 81 float32[B])``."""
        count = len(states)
        logits, outcomes, margins = (
            np.empty((count, HOLES), np.float32),
            np.empty((count, 3), np.float32),
            np.empty(count, np.float32),
        )
        _equal_logits(states, logits)
        play_rollouts(states, self._streams, self._rollouts, self._playout, outcomes, margins)
        return logits, outcomes, margins

    def __call__(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate ``states uint8[B, 23]``: ``(logits float32[B, 9], value float32[B])``."""
        logits, outcomes, _ = self.outputs(states)
        return logits, outcomes[:, 0] - outcomes[:, 2]
