"""Network outputs remembered by position: bounded, direct-mapped, for one worker.

Games of one worker meet the same positions (openings above all); each hit saves an evaluation. The newest entry of a place wins.
The cache holds one network's outputs and is emptied when the weights change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from togyz_env.rules import HOLES, STATE_SIZE, int64, kernel

_OFFSET = np.uint64(0xCBF29CE484222325)
_PRIME = np.uint64(0x100000001B3)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


class Cache(NamedTuple):
    """A table of ``C`` places (some 50 bytes each); ``C`` is a power of two, or 0 for no cache.

    Attributes:
        key: ``uint64[C]``, hash of the state row; 0 for an empty place.
        policy: ``float32[C, 9]``, probabilities over legal actions.
        value: ``float32[C]``, for the side to move.
        hits, misses: ``int64[1]``, look-ups since the cache was made.
    """

    key: np.ndarray
    policy: np.ndarray
    value: np.ndarray
    hits: np.ndarray
    misses: np.ndarray


def new_cache(places: int) -> Cache:
    """Return an empty cache of ``places`` places (rounded up to a power of two; 0 disables it)."""
    size = 1 << (places - 1).bit_length() if places > 0 else 0
    return Cache(
        key=np.zeros(size, np.uint64),
        policy=np.zeros((size, HOLES), np.float32),
        value=np.zeros(size, np.float32),
        hits=np.zeros(1, np.int64),
        misses=np.zeros(1, np.int64),
    )


@kernel
def hash_state(state: np.ndarray) -> np.uint64:
    """64-bit hash of a state row (FNV-1a with a final mix); never 0."""
    h = _OFFSET
    for i in range(STATE_SIZE):
        h = (h ^ np.uint64(state[i])) * _PRIME
    h = (h ^ (h >> np.uint64(30))) * _MIX
    h ^= h >> np.uint64(31)
    return h if h != np.uint64(0) else np.uint64(1)


@kernel
def find(cache: Cache, state: np.ndarray) -> int:
    """Place of ``state``'s entry, or -1."""
    size = cache.key.shape[0]
    if size == 0:
        return -1
    h = hash_state(state)
    place = int64(h & np.uint64(size - 1))
    if cache.key[place] == h:
        cache.hits[0] += 1
        return place
    cache.misses[0] += 1
    return -1


@kernel
def store(cache: Cache, state: np.ndarray, policy: np.ndarray, value: float) -> None:
    """Remember ``policy float32[9]`` and ``value`` of ``state``."""
    size = cache.key.shape[0]
    if size == 0:
        return
    h = hash_state(state)
    place = int64(h & np.uint64(size - 1))
    cache.key[place] = h
    cache.policy[place] = policy
    cache.value[place] = value
