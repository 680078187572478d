"""Random numbers inside compiled kernels: SplitMix64, one independent ``uint64`` of state for each stream.

A stream per game makes a game's course independent of its neighbours in a batch. Source: G. L. Steele, D. Lea, C. H. Flood,
"Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

from __future__ import annotations

import math

import numpy as np

from togyz_env.rules import int64, kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)


def new_streams(seed: int | np.random.SeedSequence, count: int) -> np.ndarray:
    """Return ``uint64[count]``: the states of ``count`` independent streams spawned from one seed."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return sequence.generate_state(count, np.uint64)


@kernel
def next_uint64(streams: np.ndarray, i: int) -> np.uint64:
    """Draw 64 random bits from stream ``i`` of ``uint64[N]``, advancing it."""
    streams[i] += _GOLDEN
    z: np.uint64 = streams[i]
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@kernel
def uniform(streams: np.ndarray, i: int) -> float:
    """Draw from [0, 1) with 53 bits."""
    return np.float64(next_uint64(streams, i) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def below(streams: np.ndarray, i: int, n: int) -> int:
    """Draw an integer from 0..n-1 (n < 2**20; the bias is below 2**-12 of a part)."""
    return int64(((next_uint64(streams, i) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@kernel
def normal(streams: np.ndarray, i: int) -> float:
    """Draw from the standard normal distribution (Box-Muller)."""
    u = 1.0 - uniform(streams, i)
    return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * uniform(streams, i))


@kernel
def gamma(streams: np.ndarray, i: int, shape: float) -> float:
    """Draw from Gamma(shape, 1), shape > 0 (Marsaglia and Tsang, ACM TOMS 26, 2000)."""
    boost = 1.0
    if shape < 1.0:
        boost = (1.0 - uniform(streams, i)) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(streams, i)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(1.0 - uniform(streams, i)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * boost
