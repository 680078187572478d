"""The order in which moves are searched: the better the first one, the more the others are cut off."""

from __future__ import annotations

import numpy as np

from togyz_env.rules import (
    CAPTURE,
    HOLES,
    MAKES_TUZDYK,
    NOTHING,
    RING,
    TO_MOVE,
    int64,
    kernel,
    landing_of,
    preview,
)

TUZDYK_STONES = 30
"""A new tuzdyk is tried before captures of fewer stones."""
_TABLE_MOVE = 1 << 30
_CAPTURE = 1 << 24
_KILLER = 1 << 23
HISTORY_LIMIT = 1 << 22


@kernel
def _insert(moves: np.ndarray, scores: np.ndarray, count: int, action: int, score: int) -> None:
    """Put ``action`` into the first ``count`` of ``moves``, sorted by falling score; equals keep their order."""
    place = count
    while place > 0 and scores[place - 1] < score:
        moves[place] = moves[place - 1]
        scores[place] = scores[place - 1]
        place -= 1
    moves[place] = action
    scores[place] = score


@kernel
def order_moves(
    state: np.ndarray,
    table_move: int,
    killers: np.ndarray,
    history: np.ndarray,
    moves: np.ndarray,
    scores: np.ndarray,
) -> int:
    """Write the legal actions into ``moves int64[9]``, the most promising first; return how many.

    The table's move, tuzdyks and captures by stones, the two killers of this depth, then by history.

    Args:
        killers: ``int64[2]``, actions that refuted other moves at the same distance from the root.
        history: ``int64[RING * RING]``, by origin and landing hole: how often a quiet move refuted, deep ones weigh more.
        scores: ``int64[9]``, overwritten.
    """
    row = int64(state[TO_MOVE]) * HOLES
    count = 0
    for action in range(HOLES):
        if state[row + action] == 0:
            continue
        landing, event, captured = preview(state, row + action)
        if action == table_move:
            score = _TABLE_MOVE
        elif event == CAPTURE:
            score = _CAPTURE + captured
        elif event == MAKES_TUZDYK:
            score = _CAPTURE + TUZDYK_STONES
        elif action == killers[0]:
            score = _KILLER + 1
        elif action == killers[1]:
            score = _KILLER
        else:
            score = history[(row + action) * RING + landing]
        _insert(moves, scores, count, action, score)
        count += 1
    return count


@kernel
def order_captures(state: np.ndarray, moves: np.ndarray, scores: np.ndarray) -> int:
    """Write the actions that capture or make a tuzdyk into ``moves int64[9]``, the largest first; return how many."""
    row = int64(state[TO_MOVE]) * HOLES
    count = 0
    for action in range(HOLES):
        if state[row + action] == 0:
            continue
        _, event, captured = preview(state, row + action)
        if event != NOTHING:
            _insert(moves, scores, count, action, TUZDYK_STONES if event == MAKES_TUZDYK else captured)
            count += 1
    return count


@kernel
def remember_refutation(state: np.ndarray, action: int, depth: int, killers: np.ndarray, history: np.ndarray) -> None:
    """Note that ``action``, searched to ``depth``, refuted the move before it; captures are tried early anyway."""
    origin = int64(state[TO_MOVE]) * HOLES + action
    _, event, _ = preview(state, origin)
    if event != NOTHING:
        return
    if killers[0] != action:
        killers[1] = killers[0]
        killers[0] = action
    place = origin * RING + landing_of(origin, int64(state[origin]))
    history[place] += depth * depth
    if history[place] > HISTORY_LIMIT:
        for i in range(history.shape[0]):
            history[i] //= 2
