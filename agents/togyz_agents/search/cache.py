"""Network outputs remembered by position: bounded, direct-mapped, for one worker.

Games of one worker meet the same positions (openings above all); each hit saves an evaluation. The newest entry of a place wins.
The cache holds one network's outputs and is emptied when the weights change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from togyz_agents.search.tree import STATE_WORD, STATE_WORDS, float32
from togyz_env.rules import HOLES, int64, kernel

_OFFSET = np.uint64(0xCBF29CE484222325)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_VALUE = HOLES
_LINE = 16


class Cache(NamedTuple):
    """A table of ``C`` places of 72 bytes; ``C`` is a power of two, or 0 for no cache.

    Attributes:
        key: ``uint64[C]``, hash of the state row; 0 for an empty place.
        output: ``float32[C, 16]``, a cache line each: nine probabilities over legal actions, then the value for the side to move.
    """

    key: np.ndarray
    output: np.ndarray


def new_cache(places: int) -> Cache:
    """Return an empty cache of ``places`` places (rounded up to a power of two; 0 disables it)."""
    size = 1 << (places - 1).bit_length() if places > 0 else 0
    return Cache(key=np.zeros(size, np.uint64), output=np.zeros((size, _LINE), np.float32))


@kernel
def hash_of(ints: np.ndarray, node: int) -> np.uint64:
    """64-bit hash of the state of ``node``; never 0. Words are mixed in by xor, multiplication and shift (as SplitMix64 does)."""
    h = _OFFSET
    for word in range(STATE_WORD, STATE_WORD + STATE_WORDS):
        h = (h ^ np.uint64(ints[node, word])) * _MIX
        h ^= h >> np.uint64(31)
    return h if h != np.uint64(0) else np.uint64(1)


@kernel
def find(cache: Cache, ints: np.ndarray, node: int) -> int:
    """Place of the entry for the state of ``node``, or -1."""
    size = cache.key.shape[0]
    if size == 0:
        return -1
    h = hash_of(ints, node)
    place = int64(h & np.uint64(size - 1))
    return place if cache.key[place] == h else -1


@kernel
def policy_at(cache: Cache, place: int) -> np.ndarray:
    """The ``float32[9]`` policy of an entry, a view."""
    return cache.output[place, :HOLES]


@kernel
def value_at(cache: Cache, place: int) -> float:
    """The value of an entry."""
    return float32(cache.output[place, _VALUE])


@kernel
def store(cache: Cache, ints: np.ndarray, node: int, policy: np.ndarray, value: float) -> None:
    """Remember ``policy float32[9]`` and ``value`` of the state of ``node``."""
    size = cache.key.shape[0]
    if size == 0:
        return
    h = hash_of(ints, node)
    place = int64(h & np.uint64(size - 1))
    cache.key[place] = h
    for action in range(HOLES):
        cache.output[place, action] = policy[action]
    cache.output[place, _VALUE] = value
