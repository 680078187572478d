"""What a position is worth without searching: features of the board and their weighted sum.

Scores are whole numbers in hundredths of a stone for the side to move (100 = one stone more in the kazan); a forced win in n plies
is ``WIN - n``. The evaluation "kazan" is the difference of the kazans alone; "full" sums ``FEATURES`` with fitted weights that
change from a full board to an empty one.
"""

from __future__ import annotations

import math

import numpy as np

from togyz_env.rules import (
    CAPTURE,
    HOLES,
    KAZAN,
    MAKES_TUZDYK,
    RING,
    STONES,
    TO_MOVE,
    TUZDYK,
    int64,
    kernel,
    preview,
)

STONE = 100
"""Score of one stone in the kazan."""
WIN = 30_000
"""Score of a game that is won now; a win in n plies is WIN - n, a loss -(WIN - n)."""
PROVEN = 29_000
"""Scores from here on (or below its negative) are proven wins (losses); evaluations stay within +-LARGEST."""
LARGEST = 20_000

# One feature each; "mine - theirs" unless the name says whose. Mine is the side to move.
TEMPO = 0
KAZANS = 1
ROW_STONES = 2
MOBILITY = 3
MY_BEST_CAPTURE = 4
THEIR_BEST_CAPTURE = 5
MY_SECOND_CAPTURE = 6
THEIR_SECOND_CAPTURE = 7
MY_TUZDYK_THREAT = 8
THEIR_TUZDYK_THREAT = 9
SINGLES = 10
PAIRS = 11
ODD_HOLES = 12
LARGE_HOLES = 13
FIRST_HOLE = 14  # stones in holes 1..9, one feature a hole
FIRST_TUZDYK = FIRST_HOLE + HOLES  # a tuzdyk by its number 1..8
FEATURES = FIRST_TUZDYK + HOLES - 1

NAMES = (
    "tempo",
    "kazans",
    "stones in the row",
    "mobility",
    "my best capture",
    "their best capture",
    "my second capture",
    "their second capture",
    "my tuzdyk threat",
    "their tuzdyk threat",
    "holes of 1",
    "holes of 2 open to a tuzdyk",
    "odd holes",
    "holes above 12",
    *(f"stones in hole {number}" for number in range(1, HOLES + 1)),
    *(f"tuzdyk {number}" for number in range(1, HOLES)),
)
LARGE = 12


@kernel
def features(state: np.ndarray, out: np.ndarray) -> int:
    """Write the features of ``state uint8[23]`` into ``out int64[FEATURES]``, for the side to move; return the stones on board."""
    me = int64(state[TO_MOVE])
    for i in range(FEATURES):
        out[i] = 0
    out[TEMPO] = 1
    out[KAZANS] = int64(state[KAZAN + me]) - int64(state[KAZAN + 1 - me])
    for side in range(2):
        player = me if side == 0 else 1 - me
        sign = 1 - 2 * side
        row = player * HOLES
        stones = 0
        mobility = 0
        best = 0
        second = 0
        threat = 0
        singles = 0
        pairs = 0
        odd = 0
        large = 0
        open_to_tuzdyk = state[TUZDYK + 1 - player] == 0
        for i in range(HOLES):
            count = int64(state[row + i])
            if count == 0:
                continue
            stones += count
            mobility += 1
            odd += count & 1
            singles += count == 1
            large += count > LARGE
            pairs += count == 2 and open_to_tuzdyk and i != HOLES - 1 and state[TUZDYK + player] != i + 1
            out[FIRST_HOLE + i] += sign * count
            _, event, captured = preview(state, row + i)
            if event == CAPTURE:
                if captured > best:
                    second = best
                    best = captured
                elif captured > second:
                    second = captured
            elif event == MAKES_TUZDYK:
                threat = 1
        out[ROW_STONES] += sign * stones
        out[MOBILITY] += sign * mobility
        out[MY_BEST_CAPTURE + side] = best
        out[MY_SECOND_CAPTURE + side] = second
        out[MY_TUZDYK_THREAT + side] = threat
        out[SINGLES] += sign * singles
        out[PAIRS] += sign * pairs
        out[ODD_HOLES] += sign * odd
        out[LARGE_HOLES] += sign * large
        if state[TUZDYK + player] != 0:
            out[FIRST_TUZDYK + int64(state[TUZDYK + player]) - 1] += sign
    return STONES - int64(state[KAZAN]) - int64(state[KAZAN + 1])


@kernel
def evaluate(state: np.ndarray, weights: np.ndarray, scratch: np.ndarray) -> int:
    """Score ``state uint8[23]``, which is not over, for the side to move.

    Args:
        weights: ``int64[2, FEATURES]``, on an empty and on a full board; of no rows for the evaluation "kazan".
        scratch: ``int64[FEATURES]``, overwritten.
    """
    if weights.shape[0] == 0:
        me = int64(state[TO_MOVE])
        return STONE * (int64(state[KAZAN + me]) - int64(state[KAZAN + 1 - me]))
    board = features(state, scratch)
    empty = 0
    full = 0
    for i in range(FEATURES):
        empty += scratch[i] * weights[0, i]
        full += scratch[i] * weights[1, i]
    score = (empty * (STONES - board) + full * board) // STONES
    return min(max(score, -LARGEST), LARGEST)


@kernel
def features_batch(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(int64[B, FEATURES], int64[B])``: features and stones on the board of ``states uint8[B, 23]``."""
    out = np.zeros((states.shape[0], FEATURES), np.int64)
    board = np.zeros(states.shape[0], np.int64)
    for b in range(states.shape[0]):
        board[b] = features(states[b], out[b])
    return out, board


def plies_to_end(score: int) -> int | None:
    """Plies until the game is over along a proven ``score``; None where nothing is proven."""
    return WIN - abs(score) if abs(score) >= PROVEN else None


def expectation(score: int, scale: float) -> float:
    """Expected result in [-1, 1] (win 1, loss -1) of ``score``, by the logistic curve that the weights were fitted with."""
    if abs(score) >= PROVEN:
        return 1.0 if score > 0 else -1.0
    return math.tanh(score / scale / 2)


def score_of_value(value: np.ndarray, scale: float) -> np.ndarray:
    """Scores ``int64[B]`` of a network's values in [-1, 1]: the inverse of ``expectation``, kept finite."""
    bounded = np.clip(np.asarray(value, np.float64), -0.999999, 0.999999)
    return np.asarray(np.clip(np.rint(2 * scale * np.arctanh(bounded)), -LARGEST, LARGEST), np.int64)


assert RING == 2 * HOLES
assert len(NAMES) == FEATURES
