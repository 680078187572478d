"""Openings: random legal plies from a seed, or lines of a file, so that deterministic players do not repeat one game over and over.

An opening that is as good as won for one side tells little about the players: a judge, any player that can analyse, drops it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from togyz_env.errors import ConfigError, TogyzError
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
    keep: Callable[[Position], bool] | None = None,
) -> list[Opening]:
    """Return ``count`` openings that lead to ``count`` different unfinished positions; the same ones for the same seed.

    Args:
        plies: the fewest and the most plies of an opening; each length is equally likely, and so is each legal move.
        keep: take only openings to positions for which this is true.

    Raises:
        ConfigError: an impossible range, or fewer than ``count`` openings can be found in it.
    """
    if count < 0:
        raise ConfigError(f"openings: {count}; expected a count from 0")
    found = list(islice(opening_stream(seed, plies, ruleset, keep), count))
    if len(found) < count:
        raise ConfigError(
            f"openings: found only {len(found)} different ones of {plies[0]} to {plies[1]} plies, not {count}; allow more plies"
        )
    return found


def opening_stream(
    seed: int, plies: tuple[int, int], ruleset: Ruleset, keep: Callable[[Position], bool] | None = None
) -> Iterator[Opening]:
    """Yield the openings of ``random_openings`` one by one, until 200 attempts in a row have found no new one."""
    fewest, most = plies
    if not 0 <= fewest <= most:
        raise ConfigError(f"openings: {fewest} to {most} plies; expected a range of plies from 0")
    rng = np.random.default_rng(seed)
    # Two orders of the same moves can reach one position: those are one opening.
    seen: set[bytes] = set()
    misses = 0
    while misses < ATTEMPTS_PER_OPENING:
        moves: list[int] = []
        position = Position.start()
        length = int(rng.integers(fewest, most + 1))
        while len(moves) < length and position.outcome(ruleset) is None:
            moves.append(int(rng.choice(position.legal_moves())))
            position = position.play(moves[-1])
        misses += 1
        if position.outcome(ruleset) is None and position.row not in seen:
            seen.add(position.row)
            if keep is None or keep(position):
                misses = 0
                yield Opening(tuple(moves))


def read_openings(path: Path, ruleset: Ruleset = Ruleset()) -> list[Opening]:  # noqa: B008 - a frozen value
    """Read openings, one a line: holes from the start (``7 6 3``) or a position string; ``#`` begins a comment.

    Raises:
        ConfigError: no file, no openings in it, or a line that is none; the message has its number.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"openings: cannot read {str(path)!r} ({error})") from None
    openings = []
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            if "/" in text:
                opening = Opening(start=Position.from_fen(text))
            elif all(word.isascii() and word.isdigit() for word in text.split()):
                opening = Opening(tuple(map(int, text.split())))
            else:
                raise ConfigError(f"{text!r} is neither holes 1..9 nor a position string")
            if opening.position.outcome(ruleset) is not None:
                raise ConfigError("the game is over there")
        except TogyzError as error:
            raise ConfigError(f"openings: {path}, line {number}: {error}") from None
        openings.append(opening)
    if not openings:
        raise ConfigError(f"openings: {str(path)!r} holds none; expected one a line, holes or a position string")
    return openings
