"""The transposition table: what is known of positions that were searched before.

Entries are pairs of ``uint64``, four to a group of 64 bytes: the position's 64-bit hash, and score, depth, bound, move and
generation. An entry that a search of exactly the same depth left gives a cut-off, and so does a proven result that lies within the
depth: a search's score is that of the plain search of its depth, whatever the table holds. Older and shallower entries go first.
"""

from __future__ import annotations

import numpy as np

from togyz_agents.search.alphabeta.evaluation import PROVEN, WIN
from togyz_env.rules import int64, kernel

GROUP = 4
ENTRY_BYTES = 16
GENERATIONS = 64

# What the score of an entry is to the true one.
EXACT = 1
LOWER = 2
UPPER = 3

NO_MOVE = 15
MISS = -1

_OFFSET = 32_768
_A = np.uint64(0x9E3779B97F4A7C15)
_B = np.uint64(0xBF58476D1CE4E5B9)
_C = np.uint64(0x94D049BB133111EB)
_SHIFT_A = np.uint64(29)
_SHIFT_B = np.uint64(32)
_SHIFT_C = np.uint64(27)
_SHIFT_LAST = np.uint64(56)


def new_table(mebibytes: int) -> np.ndarray:
    """Return an empty table, ``uint64[groups, 8]``: as many groups, a power of two, as fit in the memory; none for 0."""
    if mebibytes == 0:
        return np.zeros((0, 2 * GROUP), np.uint64)
    groups = 1
    while 2 * groups * GROUP * ENTRY_BYTES <= mebibytes * 2**20:
        groups *= 2
    return np.zeros((groups, 2 * GROUP), np.uint64)


@kernel
def hash_of(words: np.ndarray, left: int) -> np.uint64:
    """Return the 64-bit hash of a state's ``uint64[3]``, its 23 bytes and a zero.

    ``left``, 0..255: plies to the ply limit where the search can reach it, for then the position's value depends on them; else 0.
    It takes the place of the last byte.
    """
    h: np.uint64 = words[0] * _A
    h ^= h >> _SHIFT_B
    h = (h ^ words[1]) * _B
    h ^= h >> _SHIFT_A
    h = (h ^ words[2] ^ np.uint64(left) << _SHIFT_LAST) * _C
    h ^= h >> _SHIFT_B
    h *= _A
    h ^= h >> _SHIFT_C
    return h


@kernel
def find(table: np.ndarray, key: np.uint64) -> tuple[int, int]:
    """Return ``(group, place in it)`` of ``key``; the place is MISS if it is not there."""
    group = int64(key & np.uint64(table.shape[0] - 1))
    for i in range(GROUP):
        if table[group, 2 * i] == key:
            return group, i
    return group, MISS


@kernel
def pack(score: int, depth: int, bound: int, move: int, generation: int) -> np.uint64:
    """One entry's second word; ``score`` counts plies to a proven end from the entry's own position."""
    return np.uint64((score + _OFFSET) | depth << 16 | bound << 24 | move << 28 | generation << 32)


@kernel
def score_in(data: np.uint64) -> int:
    """Score of an entry."""
    return int64(data & np.uint64(0xFFFF)) - _OFFSET


@kernel
def depth_in(data: np.uint64) -> int:
    """Depth in plies that an entry was searched to."""
    return int64(data >> np.uint64(16)) & 0xFF


@kernel
def bound_in(data: np.uint64) -> int:
    """EXACT, LOWER or UPPER; 0 for an empty entry."""
    return int64(data >> np.uint64(24)) & 3


@kernel
def move_in(data: np.uint64) -> int:
    """Best action 0..8 of an entry, or NO_MOVE."""
    return int64(data >> np.uint64(28)) & 15


@kernel
def generation_in(data: np.uint64) -> int:
    """Number of the search that wrote an entry, modulo GENERATIONS."""
    return int64(data >> np.uint64(32)) & (GENERATIONS - 1)


@kernel
def usable(data: np.uint64, depth: int) -> bool:
    """Tell whether an entry holds for a search to ``depth``: it was as deep, or proves a win or loss within it."""
    if depth_in(data) == depth:
        return True
    score = score_in(data)
    if WIN - abs(score) > depth or abs(score) < PROVEN:
        return False
    bound = bound_in(data)
    return bound == EXACT or (bound == LOWER and score > 0) or (bound == UPPER and score < 0)


@kernel
def store(table: np.ndarray, key: np.uint64, score: int, depth: int, bound: int, move: int, generation: int) -> None:
    """Write an entry over that of the same position, else over an empty, an older or the shallowest one of its group."""
    group, place = find(table, key)
    if place == MISS:
        place = 0
        least = 1 << 30
        for i in range(GROUP):
            data = table[group, 2 * i + 1]
            age = (generation - generation_in(data)) & (GENERATIONS - 1)
            worth = -1 if bound_in(data) == 0 else depth_in(data) + (0 if age > 0 else 256)
            if worth < least:
                least = worth
                place = i
    elif move == NO_MOVE:
        move = move_in(table[group, 2 * place + 1])
    table[group, 2 * place] = key
    table[group, 2 * place + 1] = pack(score, depth, bound, move, generation)


@kernel
def to_entry(score: int, level: int) -> int:
    """Make a score that counts plies from the root count them from ``level`` plies below it."""
    if score >= PROVEN:
        return score + level
    if score <= -PROVEN:
        return score - level
    return score


@kernel
def from_entry(score: int, level: int) -> int:
    """Undo ``to_entry``."""
    if score >= PROVEN:
        return score - level
    if score <= -PROVEN:
        return score + level
    return score


@kernel
def table_move(table: np.ndarray, words: np.ndarray) -> int:
    """Best known action 0..8 of a state's ``uint64[3]`` far from the ply limit, or NO_MOVE."""
    group, place = find(table, hash_of(words, 0))
    return NO_MOVE if place == MISS else move_in(table[group, 2 * place + 1])
