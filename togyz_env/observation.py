"""Encoders: a state row becomes a flat vector for a network, always seen from the side to move.

| name | size | content |
|---|---|---|
| ``plain`` | 40 | stones in the 18 holes (/16), own and opposing tuzdyk one-hot (9 + 9), both kazans and both rows' stones (/81) |
| ``counts`` | 652 | ``plain``, and the count of each hole one-hot: 0 to 31 singly, then even and odd (18 x 34) |
| ``rules`` | 598 | ``plain``; the count of each hole in one of 11 buckets (18 x 11); where a move from it would end (18 x 18); |
|  |  | the stones it would capture (18, /16); whether it would make a tuzdyk (18) |
| ``tactics`` | 652 | ``rules``; the most stones that the other row could capture in each hole (18, /16), whether it could make a |
|  |  | tuzdyk there (18); for each move the largest capture in reply (9, /16), whether a reply makes a tuzdyk (9) |

Holes stand in sowing order from the mover's hole 1: 0..8 are his, 9..17 his opponent's. What a move would do is worked out for
both rows, as if it were that row's turn. Inputs made from the rules are what broke the learning plateau of count-only inputs:
capture hangs on the parity of a count and on the exact hole where n stones end (KataGo reports the same, arXiv 1902.10565).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from togyz_env.rules import (
    CAPTURE,
    HOLES,
    KAZAN,
    MAKES_TUZDYK,
    RING,
    STATE_SIZE,
    STONES,
    TO_MOVE,
    TUZDYK,
    int64,
    kernel,
    play,
    preview,
)

STONE_SCALE = 1.0 / 16.0
KAZAN_SCALE = 1.0 / 81.0

PLAIN_SIZE = 2 * RING + 4
BUCKETS = 11
_BUCKET_AT = PLAIN_SIZE
_LANDING_AT = _BUCKET_AT + RING * BUCKETS
_CAPTURE_AT = _LANDING_AT + RING * RING
_TUZDYK_AT = _CAPTURE_AT + RING
RULES_SIZE = _TUZDYK_AT + RING

SINGLE_COUNTS = 32
_COUNTS = SINGLE_COUNTS + 2
COUNTS_SIZE = PLAIN_SIZE + RING * _COUNTS

_THREAT_AT = RULES_SIZE
_TUZDYK_THREAT_AT = _THREAT_AT + RING
_REPLY_AT = _TUZDYK_THREAT_AT + RING
_TUZDYK_REPLY_AT = _REPLY_AT + HOLES
TACTICS_SIZE = _TUZDYK_REPLY_AT + HOLES


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
def _list_plain(state: np.ndarray, index: np.ndarray, value: np.ndarray) -> int:
    """List the inputs of ``plain`` that are not 0; return how many."""
    mover = int64(state[TO_MOVE])
    own_row = mover * HOLES
    n = 0
    own_stones = 0
    for i in range(RING):
        stones = int64(state[(own_row + i) % RING])
        if stones:
            if i < HOLES:
                own_stones += stones
            index[n] = i
            value[n] = stones * STONE_SCALE
            n += 1
    rest = STONES - int64(state[KAZAN]) - int64(state[KAZAN + 1]) - own_stones
    for side in range(2):
        player = mover if side == 0 else 1 - mover
        if state[TUZDYK + player]:
            index[n] = RING + side * HOLES + int64(state[TUZDYK + player]) - 1
            value[n] = 1.0
            n += 1
        index[n] = 2 * RING + side
        value[n] = state[KAZAN + player] * KAZAN_SCALE
        index[n + 1] = 2 * RING + 2 + side
        value[n + 1] = (own_stones if side == 0 else rest) * KAZAN_SCALE
        n += 2
    return n


@kernel
def _list_rules(state: np.ndarray, index: np.ndarray, value: np.ndarray) -> int:
    """List the inputs of ``rules`` that are not 0; return how many."""
    n = _list_plain(state, index, value)
    own_row = int64(state[TO_MOVE]) * HOLES
    for i in range(RING):
        origin = (own_row + i) % RING
        stones = int64(state[origin])
        index[n] = _BUCKET_AT + i * BUCKETS + bucket_of(stones)
        value[n] = 1.0
        n += 1
        if stones == 0:
            continue
        landing, event, captured = preview(state, origin)
        index[n] = _LANDING_AT + i * RING + (landing + own_row) % RING
        value[n] = 1.0
        n += 1
        if event == CAPTURE:
            index[n] = _CAPTURE_AT + i
            value[n] = captured * STONE_SCALE
            n += 1
        elif event == MAKES_TUZDYK:
            index[n] = _TUZDYK_AT + i
            value[n] = 1.0
            n += 1
    return n


@kernel
def _list_counts(state: np.ndarray, index: np.ndarray, value: np.ndarray) -> int:
    """List the inputs of ``counts`` that are not 0; return how many."""
    n = _list_plain(state, index, value)
    own_row = int64(state[TO_MOVE]) * HOLES
    for i in range(RING):
        stones = int64(state[(own_row + i) % RING])
        bucket = stones if stones < SINGLE_COUNTS else SINGLE_COUNTS + stones % 2
        index[n] = PLAIN_SIZE + i * _COUNTS + bucket
        value[n] = 1.0
        n += 1
    return n


@kernel
def _list_tactics(state: np.ndarray, index: np.ndarray, value: np.ndarray, after: np.ndarray, threat: np.ndarray) -> int:
    """List the inputs of ``tactics`` that are not 0; return how many. ``after uint8[23]`` and ``threat int64[18]`` are scratch."""
    n = _list_rules(state, index, value)
    own_row = int64(state[TO_MOVE]) * HOLES
    threat[:] = 0
    for origin in range(RING):
        if state[origin] != 0:
            landing, event, captured = preview(state, origin)
            if event == CAPTURE:
                threat[landing] = max(threat[landing], captured)
            elif event == MAKES_TUZDYK:
                index[n] = _TUZDYK_THREAT_AT + (landing + own_row) % RING
                value[n] = 1.0
                n += 1
                # two moves can aim at the same hole: list it once
                for k in range(n - 1):
                    if index[k] == index[n - 1]:
                        n -= 1
                        break
    for i in range(RING):
        if threat[i] != 0:
            index[n] = _THREAT_AT + (i + own_row) % RING
            value[n] = threat[i] * STONE_SCALE
            n += 1
    for action in range(HOLES):
        if state[own_row + action] == 0:
            continue
        after[:] = state
        play(after, action)
        most = 0
        tuzdyk = False
        for origin in range(HOLES - own_row, 2 * HOLES - own_row):
            if after[origin] != 0:
                _, event, captured = preview(after, origin)
                if event == CAPTURE:
                    most = max(most, captured)
                tuzdyk = tuzdyk or event == MAKES_TUZDYK
        if most != 0:
            index[n] = _REPLY_AT + action
            value[n] = most * STONE_SCALE
            n += 1
        if tuzdyk:
            index[n] = _TUZDYK_REPLY_AT + action
            value[n] = 1.0
            n += 1
    return n


@kernel
def _list_counts_batch(states: np.ndarray, index: np.ndarray, value: np.ndarray, count: np.ndarray) -> None:
    for b in range(states.shape[0]):
        count[b] = _list_counts(states[b], index[b], value[b])


@kernel
def _list_tactics_batch(states: np.ndarray, index: np.ndarray, value: np.ndarray, count: np.ndarray) -> None:
    after = np.empty(STATE_SIZE, np.uint8)
    threat = np.empty(RING, np.int64)
    for b in range(states.shape[0]):
        count[b] = _list_tactics(states[b], index[b], value[b], after, threat)


@kernel
def _list_plain_batch(states: np.ndarray, index: np.ndarray, value: np.ndarray, count: np.ndarray) -> None:
    for b in range(states.shape[0]):
        count[b] = _list_plain(states[b], index[b], value[b])


@kernel
def _list_rules_batch(states: np.ndarray, index: np.ndarray, value: np.ndarray, count: np.ndarray) -> None:
    for b in range(states.shape[0]):
        count[b] = _list_rules(states[b], index[b], value[b])


@kernel
def _scatter(index: np.ndarray, value: np.ndarray, count: np.ndarray, out: np.ndarray) -> None:
    out[:] = 0.0
    for b in range(out.shape[0]):
        for k in range(count[b]):
            out[b, index[b, k]] = value[b, k]


@kernel
def write_plain_batch(states: np.ndarray, out: np.ndarray) -> None:
    """Write ``plain`` of ``states uint8[B, 23]`` into ``out float32[B, 40]``: as ``ENCODERS["plain"]`` does, but faster."""
    for b in range(states.shape[0]):
        mover = int64(states[b, TO_MOVE])
        own, other = mover * HOLES, (1 - mover) * HOLES
        own_stones = 0
        other_stones = 0
        for i in range(HOLES):
            own_stones += int64(states[b, own + i])
            other_stones += int64(states[b, other + i])
            out[b, i] = states[b, own + i] * STONE_SCALE
            out[b, HOLES + i] = states[b, other + i] * STONE_SCALE
        for i in range(RING, 2 * RING):
            out[b, i] = 0.0
        for side in range(2):
            player = mover if side == 0 else 1 - mover
            if states[b, TUZDYK + player] != 0:
                out[b, RING + side * HOLES + int64(states[b, TUZDYK + player]) - 1] = 1.0
            out[b, 2 * RING + side] = states[b, KAZAN + player] * KAZAN_SCALE
        out[b, 2 * RING + 2] = own_stones * KAZAN_SCALE
        out[b, 2 * RING + 3] = other_stones * KAZAN_SCALE


Lister = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]
Listed = tuple[np.ndarray, np.ndarray, np.ndarray]
"""``(index int16[B, active], value float32[B, active], count int32[B])``; only the first ``count`` of a row are set."""


@dataclass(frozen=True)
class Encoder:
    """One way to show a state to a network.

    Most inputs are 0, so an encoder lists the others; a network's first layer on a CPU sums their columns only.

    Attributes:
        name: key in ``ENCODERS``.
        size: length of the vector.
        low, high: ``float32[size]``, bounds that every encoded state respects.
        kernel: ``(states uint8[B, 23], index int16[B, active], value float32[B, active], count int32[B]) -> None`` lists the inputs
            that are not 0, each once: their places, values and number.
        active: most inputs that can be listed for one state.
    """

    name: str
    size: int
    low: np.ndarray
    high: np.ndarray
    kernel: Lister
    active: int

    def scratch(self, count: int) -> Listed:
        """Room for the list of ``count`` states: with a few states, to make it anew for each call takes longer than the work."""
        return np.empty((count, self.active), np.int16), np.empty((count, self.active), np.float32), np.empty(count, np.int32)

    def nonzero(self, states: np.ndarray, scratch: Listed | None = None) -> Listed:
        """List the inputs of ``states uint8[B, 23]`` that are not 0, for the side to move, in ``scratch`` (made if missing)."""
        listed = self.scratch(states.shape[0]) if scratch is None else scratch
        self.kernel(states, *listed)
        return listed

    def encode(self, states: np.ndarray, out: np.ndarray | None = None, scratch: Listed | None = None) -> np.ndarray:
        """Encode ``states uint8[B, 23]`` into ``out`` (made if missing), ``float32[B, size]``, for the side to move."""
        if out is None:
            out = np.empty((states.shape[0], self.size), np.float32)
        _scatter(*self.nonzero(states, scratch), out)
        return out


def _encoder(name: str, size: int, kernel_: Lister, active: int, stones: tuple[int, ...] = ()) -> Encoder:
    """An encoder with inputs in 0..1, but for counts of stones: the holes, and the 18 (replies: 9) from each of ``stones`` on."""
    high = np.ones(size, np.float32)
    high[:RING] = STONES * STONE_SCALE
    high[2 * RING : PLAIN_SIZE] = STONES * KAZAN_SCALE
    for at in stones:
        high[at : at + (HOLES if at == _REPLY_AT else RING)] = STONES * STONE_SCALE
    return Encoder(name, size, np.zeros(size, np.float32), high, kernel_, active)


_PLAIN_ACTIVE = RING + 2 + 4
_RULES_ACTIVE = _PLAIN_ACTIVE + 3 * RING

ENCODERS: dict[str, Encoder] = {
    "plain": _encoder("plain", PLAIN_SIZE, _list_plain_batch, _PLAIN_ACTIVE),
    "rules": _encoder("rules", RULES_SIZE, _list_rules_batch, _RULES_ACTIVE, (_CAPTURE_AT,)),
    "counts": _encoder("counts", COUNTS_SIZE, _list_counts_batch, _PLAIN_ACTIVE + RING),
    "tactics": _encoder(
        "tactics", TACTICS_SIZE, _list_tactics_batch, _RULES_ACTIVE + 2 * RING + 2 * HOLES + 1, (_CAPTURE_AT, _THREAT_AT, _REPLY_AT)
    ),
}
