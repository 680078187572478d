"""A game of a tournament before and after it is played: rules and clock, identity, and the record that is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from togyz_agents.tournament.openings import Opening
from togyz_env.errors import ConfigError
from togyz_env.position import Ruleset
from togyz_env.rules import BLACK, WHITE

FORFEIT, TIME, ADJUDICATION = "forfeit", "time", "adjudication"
"""Reasons of an end that the rules do not know: a player that failed or cheated, ran out of time, or a judge's verdict."""

JUDGE = "\0judge"
"""The judge's name among the players, which no player can bear."""

Key = tuple[str, str, int, int]
"""Identity of a game: first and second player, number of their pair, 0 where the first one is white or 1."""


@dataclass(frozen=True, slots=True)
class ClockRule:
    """The time of a game, in seconds; a player that oversteps it by more than ``grace`` loses.

    Attributes:
        remaining: for all moves of a player together.
        increment: given back after each move.
        move_time: for each move instead.
        grace: how much an overstep is forgiven, for the delays of a busy machine.
    """

    remaining: float | None = None
    increment: float = 0.0
    move_time: float | None = None
    grace: float = 0.2

    def __post_init__(self) -> None:
        """Refuse clocks that are none."""
        if (self.remaining is None) == (self.move_time is None):
            raise ConfigError("clock: expected either remaining (with increment, if any) or move_time")
        for name, value in asdict(self).items():
            least = 0.0 if name in ("increment", "grace") else 0.001
            if value is not None and not least <= value < float("inf"):
                raise ConfigError(f"clock.{name}: {value}; expected seconds from {least:g}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """When a judge may end a game: ``agent`` gave the same side ``value`` (0..1) or more at ``plies`` positions in a row."""

    agent: str
    value: float = 0.99
    plies: int = 6

    def __post_init__(self) -> None:
        """Refuse verdicts that are none."""
        if not 0 < self.value <= 1 or self.plies < 1:
            raise ConfigError(
                f"adjudication: value {self.value}, plies {self.plies}; expected a value above 0 to 1 and plies from 1"
            )


@dataclass(frozen=True, slots=True)
class GameRules:
    """What holds for every game of a tournament."""

    ruleset: Ruleset = field(default_factory=Ruleset)
    clock: ClockRule | None = None
    adjudication: Verdict | None = None


@dataclass(frozen=True, slots=True)
class GameIdentity:
    """Which game of a tournament it is.

    Attributes:
        first, second: names of the players, in alphabetical order.
        pair: number of the pair between them, from 0.
        game: 0 where the first one is white, 1 where he is black.
    """

    first: str
    second: str
    pair: int
    game: int

    @property
    def key(self) -> Key:
        """The identity."""
        return self.first, self.second, self.pair, self.game

    @property
    def sides(self) -> tuple[str, str]:
        """Names of (white, black)."""
        return (self.second, self.first) if self.game else (self.first, self.second)


@dataclass(frozen=True, slots=True)
class GameTask(GameIdentity):
    """A game to play; ``(first, second, pair, game)`` is its identity, from which all else follows.

    Attributes:
        opening: the moves before the players take over.
        seeds: for ``new_game`` of white and of black.
    """

    opening: Opening
    seeds: tuple[int, int]


@dataclass(frozen=True, slots=True)
class GameRecord(GameIdentity):
    """A finished game.

    Attributes:
        start: position string before the opening.
        opening: holes 1..9 of the opening.
        moves: holes 1..9 that the players chose after it.
        times: seconds of each of ``moves``; one more where a player failed instead of moving.
        seeds: given to white and to black.
        winner: 0 white, 1 black, None for a draw.
        reason: "majority", "atsyrau", "ply limit", "forfeit", "time" or "adjudication".
        detail: what went wrong in a forfeit, else empty.
        score: stones of (white, black) as in ``Outcome``.
    """

    start: str
    opening: tuple[int, ...]
    moves: tuple[int, ...]
    times: tuple[float, ...]
    seeds: tuple[int, int]
    winner: int | None
    reason: str
    detail: str
    score: tuple[int, int]

    @property
    def white_points(self) -> float:
        """Points of white: 1, 0.5 or 0."""
        return 0.5 if self.winner is None else float(self.winner == WHITE)

    @property
    def first_points(self) -> float:
        """Points of ``first``."""
        return 1.0 - self.white_points if self.game else self.white_points

    @property
    def line(self) -> tuple[str, tuple[int, ...]]:
        """Start and all moves: equal for two games that repeat each other."""
        return self.start, self.opening + self.moves

    @property
    def plies(self) -> int:
        """Half-moves of the game, the opening's included."""
        return len(self.opening) + len(self.moves)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GameRecord:
        """Read what ``to_dict`` gave; KeyError, TypeError or ValueError if it is something else."""
        values: dict[str, Any] = {name: data[name] for name in cls.__dataclass_fields__}
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        record = cls(**values)
        if record.game not in (0, 1) or record.winner not in (None, WHITE, BLACK) or not isinstance(record.pair, int):
            raise ValueError("no game")
        return record
