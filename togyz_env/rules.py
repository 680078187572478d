"""The rules of togyzqumalaq: one flat state row and scalar kernels on it. The only place where a rule stands.

State row, ``uint8[23]``: stones in white's holes 1..9 and black's holes 1..9 (indices 0..17, in sowing order), the kazan of white
and of black (18, 19), the tuzdyk of white and of black (20, 21: the number 1..9 of the *opponent's* hole, 0 for none) and the
side to move (22: 0 white, 1 black). Stones on the board and in the kazans always add up to 162.

An *action* is a hole number minus one, 0..8, in the row of the side to move. A *ring index* 0..17 names a hole of the whole board.
Kernels trust their input: legality is checked at the edges (``Position``, the environment), not in the hot loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

HOLES = 9
RING = 18
STONES = 162
START_STONES = 9
KAZAN = 18
TUZDYK = 20
TO_MOVE = 22
STATE_SIZE = 23

WHITE = 0
BLACK = 1

WINNING_STONES = 82
"""More than half of 162: with so many in one kazan the game is decided."""

# Why a game is over.
ONGOING = 0
MAJORITY = 1
ATSYRAU = 2

# What the last stone of a move does.
NOTHING = 0
CAPTURE = 1
MAKES_TUZDYK = 2

LANDING_BITS = 5
"""``play`` returns ``landing ring index | event << LANDING_BITS``."""
LANDING_MASK = (1 << LANDING_BITS) - 1

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile ``function``: cached on disk, releases the GIL. It keeps its signature for the type checker."""
    return cast(F, njit(cache=True, nogil=True, inline="never", error_model="numpy")(function))


def fast_kernel(function: F) -> F:
    """``kernel`` for sums of floats: a product and its sum are one rounded step, and there is no NaN to care for."""
    return cast(F, njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nnan", "nsz"})(function))


int64 = cast(Callable[[Any], int], np.int64)
"""``np.int64`` for kernels, an int to the type checker. (There ``int`` of a ``uint8`` keeps eight bits and wraps.)"""


def start_state() -> np.ndarray:
    """Return the start position, ``uint8[23]``: nine stones in each hole, white to move."""
    state = np.zeros(STATE_SIZE, np.uint8)
    state[:RING] = START_STONES
    return state


@kernel
def is_legal(state: np.ndarray, action: int) -> bool:
    """Tell whether the side to move may play ``action``: its hole is not empty (Move 1)."""
    return bool(state[int64(state[TO_MOVE]) * HOLES + action] != 0)


@kernel
def has_stones(state: np.ndarray, player: int) -> bool:
    """Tell whether ``player`` has a stone in his row."""
    row = player * HOLES
    for i in range(row, row + HOLES):  # noqa: SIM110 - a kernel has no generators
        if state[i] != 0:
            return True
    return False


@kernel
def landing_of(origin: int, stones: int) -> int:
    """Ring index where the last of ``stones`` from ring index ``origin`` falls (Move 2)."""
    if stones == 1:
        return (origin + 1) % RING
    return (origin + stones - 1) % RING


@kernel
def landing_event(state: np.ndarray, player: int, landing: int, count: int) -> int:
    """What ``player``'s last stone does at ring index ``landing``, which now holds ``count`` stones (Move 4, Tuzdyk)."""
    if landing // HOLES == player:  # his own row: nothing, ever
        return NOTHING
    number = landing % HOLES + 1
    if state[TUZDYK + player] == number:  # a tuzdyk has swallowed it
        return NOTHING
    if count & 1 == 0:
        return CAPTURE
    if count == 3:
        has_tuzdyk = state[TUZDYK + player] != 0
        mirrored = state[TUZDYK + 1 - player] == number
        if not has_tuzdyk and not mirrored and number != HOLES:
            return MAKES_TUZDYK
    return NOTHING


@kernel
def play(state: np.ndarray, action: int) -> int:
    """Play a legal ``action`` in place; return where the last stone fell and what it did.

    Returns:
        ``landing | event << LANDING_BITS`` with the ring index of the last stone and NOTHING, CAPTURE or MAKES_TUZDYK.
    """
    player = int64(state[TO_MOVE])
    origin = player * HOLES + action
    stones = int64(state[origin])
    landing = landing_of(origin, stones)

    # Move 2: the first stone goes back into the hole, unless it is the only one.
    state[origin] = 0
    hole = origin if stones > 1 else (origin + 1) % RING
    for _ in range(stones):
        state[hole] += 1
        hole += 1
        if hole == RING:
            hole = 0

    # Move 3: what fell into a tuzdyk belongs to its owner, whoever sowed.
    for owner in range(2):
        if state[TUZDYK + owner] != 0:
            tuzdyk = (1 - owner) * HOLES + int64(state[TUZDYK + owner]) - 1
            state[KAZAN + owner] += state[tuzdyk]
            state[tuzdyk] = 0

    event = landing_event(state, player, landing, int64(state[landing]))
    if event != NOTHING:
        state[KAZAN + player] += state[landing]
        state[landing] = 0
        if event == MAKES_TUZDYK:
            state[TUZDYK + player] = landing % HOLES + 1
    state[TO_MOVE] = 1 - player
    return landing | event << LANDING_BITS


@kernel
def preview(state: np.ndarray, origin: int) -> tuple[int, int, int]:
    """What the owner of ring index ``origin`` would do by playing it, without playing.

    Returns:
        ``(landing ring index, event, stones captured)``; the hole must hold at least one stone.
    """
    player = origin // HOLES
    stones = int64(state[origin])
    landing = landing_of(origin, stones)
    if landing // HOLES == player:
        return landing, NOTHING, 0
    # The landing hole gets one stone, and one more for each full round before it (it is never the origin).
    laps = (stones - 1) // RING
    count = int64(state[landing]) + 1 + laps
    event = landing_event(state, player, landing, count)
    return landing, event, count if event != NOTHING else 0


@kernel
def end_reason(state: np.ndarray, playout: bool) -> int:
    """ONGOING, MAJORITY or ATSYRAU, tested before the side to move plays (End); with ``playout`` only ATSYRAU ends a game."""
    if not playout and (state[KAZAN] >= WINNING_STONES or state[KAZAN + 1] >= WINNING_STONES):
        return MAJORITY
    if not has_stones(state, int64(state[TO_MOVE])):
        return ATSYRAU
    return ONGOING


@kernel
def final_margin(state: np.ndarray, reason: int) -> int:
    """White's stones minus black's when the game ends here: after atsyrau the rest goes to the side that is not to move."""
    margin = int64(state[KAZAN]) - int64(state[KAZAN + 1])
    if reason == ATSYRAU:
        rest = STONES - int64(state[KAZAN]) - int64(state[KAZAN + 1])
        return margin + rest if state[TO_MOVE] == BLACK else margin - rest
    return margin
