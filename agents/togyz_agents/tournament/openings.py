"""Openings: random legal plies from a seed, so that deterministic players do not play one game over and over."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from togyz_env.errors import ConfigError
from togyz_env.position import Position, Ruleset

ATTEMPTS_PER_OPENING = 200
LONGEST_OPENING = 8


@dataclass(frozen=True, slots=True)
class Opening:
    """The first moves of a game, played for both sides.

    Attributes:
        moves: holes 1..9, in turn.
        start: the position before them.
    """

    moves: tuple[int, ...] = ()
    start: Position = field(default_factory=Position.start)

    def positions(self) -> list[Position]:
        """Return ``len(moves) + 1`` positions: the start, and the one after each move.

        Raises:
            IllegalMoveError: a move that is none.
        """
        positions = [self.start]
        for hole in self.moves:
            positions.append(positions[-1].play(hole))
        return positions

    @property
    def position(self) -> Position:
        """The position where the players take over."""
        return self.positions()[-1]


def random_openings(
    count: int,
    seed: int,
    plies: tuple[int, int] = (4, LONGEST_OPENING),
    ruleset: Ruleset = Ruleset(),  # noqa: B008 - a frozen value
) -> list[Opening]:
    """Return ``count`` openings that lead to ``count`` different unfinished positions; the same ones for the same seed.

    Args:
        plies: the fewest and the most plies of an opening; each length is equally likely, and so is each legal move.

    Raises:
        ConfigError: an impossible range, or fewer than ``count`` openings can be found in it.
    """
    fewest, most = plies
    if count < 0 or not 0 <= fewest <= most:
        raise ConfigError(f"openings: {count} of {fewest} to {most} plies; expected a count from 0 and a range of plies from 0")
    rng = np.random.default_rng(seed)
    found: dict[bytes, Opening] = {}
    for _ in range(ATTEMPTS_PER_OPENING * count):
        if len(found) == count:
            break
        moves: list[int] = []
        position = Position.start()
        length = int(rng.integers(fewest, most + 1))
        while len(moves) < length and position.outcome(ruleset) is None:
            moves.append(int(rng.choice(position.legal_moves())))
            position = position.play(moves[-1])
        if position.outcome(ruleset) is None:
            # Two orders of the same moves can reach one position: those are one opening.
            found.setdefault(position.row, Opening(tuple(moves)))
    if len(found) < count:
        raise ConfigError(
            f"openings: found only {len(found)} different ones of {fewest} to {most} plies, not {count}; allow more plies"
        )
    return list(found.values())
