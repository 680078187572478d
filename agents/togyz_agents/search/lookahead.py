"""One ply beyond a leaf by the rules alone: a side to move that can end the game in its favour at once has won."""

from __future__ import annotations

import numpy as np

from togyz_env.rules import (
    BLACK,
    HOLES,
    KAZAN,
    ONGOING,
    RING,
    STATE_SIZE,
    TO_MOVE,
    WINNING_STONES,
    end_reason,
    final_margin,
    int64,
    kernel,
    play,
)

NO_ACTION = -1


@kernel
def _can_end(state: np.ndarray, playout: bool) -> bool:
    """Tell, never wrongly no, whether a move of the side to move could end the game in his favour."""
    mover = int64(state[TO_MOVE])
    busy = 0
    largest = 0
    most = 0
    for i in range(HOLES):
        theirs = int64(state[(1 - mover) * HOLES + i])
        busy += theirs != 0
        largest = max(largest, theirs)
        most = max(most, int64(state[mover * HOLES + i]))
    if busy <= 1:  # a move empties one hole of his at most
        return True
    # each round of a sowing adds one stone to the hole that is captured and one to the mover's tuzdyk
    rounds = most // RING + 1
    return not playout and int64(state[KAZAN + mover]) + largest + 2 * rounds >= WINNING_STONES


@kernel
def winning_action(state: np.ndarray, playout: bool) -> int:
    """Lowest action 0..8 that ends the game at once with a win for the side to move; NO_ACTION if there is none."""
    if not _can_end(state, playout):
        return NO_ACTION
    mover = int64(state[TO_MOVE])
    after = np.empty(STATE_SIZE, np.uint8)
    for action in range(HOLES):
        if state[mover * HOLES + action] == 0:
            continue
        for i in range(STATE_SIZE):
            after[i] = state[i]
        play(after, action)
        reason = end_reason(after, playout)
        if reason != ONGOING:
            margin = final_margin(after, reason)
            if (margin < 0) if mover == BLACK else (margin > 0):
                return action
    return NO_ACTION
