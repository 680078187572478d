"""How an episode begins, the same in the single and in the vector environment: position, side, opponent, its seed.

Each game has one random stream (``togyz_env.rng``), made from its seed. So game ``i`` of a vector environment with seed ``s`` goes
as the single environment with seed ``s`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from togyz_env.errors import ConfigError, PositionError
from togyz_env.notation import shown
from togyz_env.position import Position, Ruleset
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
    one_of("agent_side", agent_side, SIDES)
    return SIDES[str(agent_side)]


def one_of(what: str, value: object, allowed: Any) -> None:
    """Refuse a value that is not among ``allowed`` (ConfigError)."""
    if value not in tuple(allowed):
        raise ConfigError(f"{what}: {shown(value)}; expected one of {', '.join(map(repr, allowed))}")


def start_position(fen: object, ruleset: Ruleset) -> Position:
    """Read the position to start an episode from.

    Raises:
        NotationError, PositionError: it is malformed, cannot occur, or its game is over.
    """
    start = Position.from_fen(fen)  # type: ignore[arg-type]  # anything but text is refused there
    if start.outcome(ruleset) is not None:
        raise PositionError(f"fen: the game is over in {start.fen()!r}; expected a position to play on from")
    return start


def first_move_ends(start: Position) -> PositionError:
    """The error for a start where the agent has no move to make."""
    return PositionError(f"fen: the opponent's first move ends the game in {start.fen()!r}; expected the agent to move")


def check_first_move(ruleset: Ruleset, side: int) -> None:
    """Refuse a ply limit that cuts a game before an agent who may be black can move (ConfigError)."""
    if ruleset.max_plies < 2 and side != SIDES["white"]:
        name = next(name for name, code in SIDES.items() if code == side)
        raise ConfigError(
            f"max_plies: {ruleset.max_plies} with agent_side {name!r}: the opponent may have the only move; expected 2 or more"
        )
