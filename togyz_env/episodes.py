"""What is drawn at the start of an episode, the same in the single and in the vector environment: side, opponent, its seed.

Each game has one random stream (``togyz_env.rng``), made from its seed. So game ``i`` of a vector environment with seed ``s`` goes
as the single environment with seed ``s`` does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from togyz_env.errors import ConfigError
from togyz_env.notation import shown
from togyz_env.rng import next_uint64, uniform
from togyz_env.rules import BLACK, WHITE, int64, kernel

RANDOM_SIDE = 2
ALTERNATING_SIDE = 3
SIDES = {"white": WHITE, "black": BLACK, "random": RANDOM_SIDE, "alternating": ALTERNATING_SIDE}
"""The values of ``agent_side``."""


@kernel
def mix_seeds(streams: np.ndarray) -> None:
    """Turn seeds in ``uint64[N]`` into the states of streams that have nothing in common, in place."""
    for i in range(streams.shape[0]):
        for _ in range(2):
            streams[i] = next_uint64(streams, i)


@kernel
def draw_episode(streams: np.ndarray, i: int, side: int, last: int) -> tuple[int, float, np.uint64]:
    """Draw what belongs to an episode of game ``i`` from its stream in ``uint64[N]``.

    Args:
        streams: the streams, advanced by three numbers whatever is asked for.
        i: the game.
        side: a value of ``SIDES``.
        last: the agent's side in the episode before.

    Returns:
        ``(the agent's side, a number in [0, 1) that picks the opponent, the opponent's seed)``.
    """
    drawn = int64(next_uint64(streams, i) >> np.uint64(63))
    pick = uniform(streams, i)
    seed = next_uint64(streams, i)
    if side == RANDOM_SIDE:
        return drawn, pick, seed
    if side == ALTERNATING_SIDE:
        return 1 - last, pick, seed
    return side, pick, seed


def streams_of(seeds: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return ``uint64[N]``: one stream for each seed."""
    streams = np.array([int(seed) % 2**64 for seed in seeds], np.uint64)
    mix_seeds(streams)
    return streams


def side_code(agent_side: object) -> int:
    """Return the value of ``agent_side`` in ``SIDES``.

    Raises:
        ConfigError: it is none of them.
    """
    if not isinstance(agent_side, str) or agent_side not in SIDES:
        raise ConfigError(f"agent_side: {shown(agent_side)}; expected one of {', '.join(map(repr, SIDES))}")
    return SIDES[agent_side]
