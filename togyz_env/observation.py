"""Encoders: a state row becomes a flat vector for a network, always seen from the side to move.

| name | size | content |
|---|---|---|
| ``plain`` | 40 | stones in the 18 holes (/16), own and opposing tuzdyk one-hot (9 + 9), both kazans and both rows' stones (/81) |
| ``rules`` | 598 | ``plain``; the stone count of each hole in one of 11 buckets (18 x 11); where a move from each hole would |
|           |     | end (18 x 18); the stones it would capture (18, /16); whether it would make a tuzdyk (18) |

Holes stand in sowing order from the mover's hole 1: 0..8 are his, 9..17 his opponent's. What a move would do is worked out for
both rows, as if it were that row's turn. Inputs made from the rules are what broke the learning plateau of count-only inputs:
capture hangs on the parity of a count and on the exact hole where n stones end (KataGo reports the same, arXiv 1902.10565).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from togyz_env.rules import CAPTURE, HOLES, KAZAN, MAKES_TUZDYK, RING, STONES, TO_MOVE, TUZDYK, int64, kernel, preview

STONE_SCALE = 1.0 / 16.0
KAZAN_SCALE = 1.0 / 81.0

PLAIN_SIZE = 2 * RING + 4
BUCKETS = 11
_BUCKET_AT = PLAIN_SIZE
_LANDING_AT = _BUCKET_AT + RING * BUCKETS
_CAPTURE_AT = _LANDING_AT + RING * RING
_TUZDYK_AT = _CAPTURE_AT + RING
RULES_SIZE = _TUZDYK_AT + RING


@kernel
def bucket_of(stones: int) -> int:
    """Bucket 0..10 of a hole's count: 0 to 6 singly, 7-9, 10-13, 14-18, more."""
    if stones <= 6:
        return stones
    if stones <= 9:
        return 7
    if stones <= 13:
        return 8
    if stones <= 18:
        return 9
    return 10


@kernel
def _encode_plain_row(state: np.ndarray, out: np.ndarray) -> None:
    mover = int64(state[TO_MOVE])
    own_row = mover * HOLES
    out[:PLAIN_SIZE] = 0.0
    rows = 0
    for i in range(RING):
        stones = int64(state[(own_row + i) % RING])
        out[i] = stones * STONE_SCALE
        if i < HOLES:
            rows += stones
    for side in range(2):
        player = mover if side == 0 else 1 - mover
        if state[TUZDYK + player] != 0:
            out[RING + side * HOLES + int64(state[TUZDYK + player]) - 1] = 1.0
        out[2 * RING + side] = state[KAZAN + player] * KAZAN_SCALE
    rest = STONES - int64(state[KAZAN]) - int64(state[KAZAN + 1]) - rows
    out[2 * RING + 2] = rows * KAZAN_SCALE
    out[2 * RING + 3] = rest * KAZAN_SCALE


@kernel
def _encode_plain(states: np.ndarray, out: np.ndarray) -> None:
    for b in range(states.shape[0]):
        _encode_plain_row(states[b], out[b])


@kernel
def _encode_rules(states: np.ndarray, out: np.ndarray) -> None:
    for b in range(states.shape[0]):
        state = states[b]
        row = out[b]
        _encode_plain_row(state, row)
        row[PLAIN_SIZE:] = 0.0
        own_row = int64(state[TO_MOVE]) * HOLES
        for i in range(RING):
            origin = (own_row + i) % RING
            stones = int64(state[origin])
            row[_BUCKET_AT + i * BUCKETS + bucket_of(stones)] = 1.0
            if stones == 0:
                continue
            landing, event, captured = preview(state, origin)
            row[_LANDING_AT + i * RING + (landing + own_row) % RING] = 1.0
            if event == CAPTURE:
                row[_CAPTURE_AT + i] = captured * STONE_SCALE
            elif event == MAKES_TUZDYK:
                row[_TUZDYK_AT + i] = 1.0


@dataclass(frozen=True)
class Encoder:
    """One way to show a state to a network.

    Attributes:
        name: key in ``ENCODERS``.
        size: length of the vector.
        low, high: ``float32[size]``, bounds that every encoded state respects.
        kernel: ``(states uint8[B, 23], out float32[B, size]) -> None``, fills ``out``.
    """

    name: str
    size: int
    low: np.ndarray
    high: np.ndarray
    kernel: Callable[[np.ndarray, np.ndarray], None]

    def encode(self, states: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Encode ``states uint8[B, 23]`` into ``out`` (made if missing), ``float32[B, size]``, for the side to move."""
        if out is None:
            out = np.empty((states.shape[0], self.size), np.float32)
        self.kernel(states, out)
        return out


def _encoder(name: str, size: int, kernel_: Callable[[np.ndarray, np.ndarray], None]) -> Encoder:
    high = np.ones(size, np.float32)
    high[:RING] = STONES * STONE_SCALE
    high[2 * RING : PLAIN_SIZE] = STONES * KAZAN_SCALE
    if size == RULES_SIZE:
        high[_CAPTURE_AT:_TUZDYK_AT] = STONES * STONE_SCALE
    return Encoder(name, size, np.zeros(size, np.float32), high, kernel_)


ENCODERS: dict[str, Encoder] = {
    "plain": _encoder("plain", PLAIN_SIZE, _encode_plain),
    "rules": _encoder("rules", RULES_SIZE, _encode_rules),
}
