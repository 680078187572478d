"""Immutable values for people and tests: a ruleset, a position and the outcome of a game."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from togyz_env.batch import perft_count
from togyz_env.errors import ConfigError, IllegalMoveError, PositionError
from togyz_env.notation import PLAYER_NAMES, format_position, parse_position, shown
from togyz_env.render import svg
from togyz_env.render import text as board_text
from togyz_env.rules import (
    ATSYRAU,
    BLACK,
    HOLES,
    KAZAN,
    LANDING_BITS,
    LANDING_MASK,
    MAJORITY,
    MAKES_TUZDYK,
    RING,
    STATE_SIZE,
    STONES,
    TO_MOVE,
    TUZDYK,
    end_reason,
    final_margin,
    is_legal,
    play,
    preview,
    start_state,
)

REASONS = {MAJORITY: "majority", ATSYRAU: "atsyrau"}
PLY_LIMIT = "ply limit"


@dataclass(frozen=True, slots=True)
class Ruleset:
    """How a game ends (RULES, End).

    Attributes:
        end: "majority" ends a game as soon as a kazan holds 82 stones; with "playout" only atsyrau ends it.
        max_plies: half-moves after which an unfinished game is cut; such a game is a draw.

    Raises:
        ConfigError: an unknown ``end``, or ``max_plies`` that is no whole number from 1.
    """

    end: Literal["majority", "playout"] = "majority"
    max_plies: int = 2000

    def __post_init__(self) -> None:
        """Refuse values that are no ruleset."""
        if self.end not in ("majority", "playout"):
            raise ConfigError(f"end of a ruleset: {shown(self.end)}; expected 'majority' or 'playout'")
        if isinstance(self.max_plies, bool) or not isinstance(self.max_plies, int) or self.max_plies < 1:
            raise ConfigError(f"max_plies of a ruleset: {shown(self.max_plies)}; expected a whole number from 1")

    @property
    def playout(self) -> bool:
        """Whether only atsyrau ends a game, the form that the kernels take."""
        return self.end == "playout"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a game ended.

    Attributes:
        winner: 0 white, 1 black, None for a draw.
        reason: "majority", "atsyrau" or "ply limit".
        score: stones of (white, black). After atsyrau the stones left are collected by the other side; otherwise they stay
            on the board and the score is the kazans as they stand.
    """

    winner: int | None
    reason: str
    score: tuple[int, int]


def outcome_of(state: np.ndarray, ply: int, ruleset: Ruleset) -> Outcome | None:
    """Return the outcome of ``state uint8[23]`` reached after ``ply`` half-moves, or None; the rules go before the ply limit."""
    reason = end_reason(state, ruleset.playout)
    kazans = (int(state[KAZAN]), int(state[KAZAN + 1]))
    if reason in REASONS:
        margin = int(final_margin(state, reason))
        winner = None if margin == 0 else int(margin < 0)
        score = ((STONES + margin) // 2, (STONES - margin) // 2) if reason == ATSYRAU else kazans
        return Outcome(winner, REASONS[reason], score)
    return Outcome(None, PLY_LIMIT, kazans) if ply >= ruleset.max_plies else None


@dataclass(frozen=True, slots=True)
class Sowing:
    """What one move does, as its notation needs it.

    Attributes:
        landing_side: owner of the row where the last stone falls, 0 white, 1 black.
        landing_hole: number 1..9 of the hole where it falls.
        captured: stones that the mover takes from that hole: an even number, three for a tuzdyk, or none.
        tuzdyk: whether the move makes a tuzdyk there.
        gained: all stones that the move adds to the mover's kazan, with those that fell into his tuzdyk.
        kazan: the mover's kazan after the move.
    """

    landing_side: int
    landing_hole: int
    captured: int
    tuzdyk: bool
    gained: int
    kazan: int


@dataclass(frozen=True, slots=True, repr=False)
class Position:
    """A position: a value that never changes, hashable, equal to another with the same content.

    Attributes:
        row: the state row as 23 bytes (layout in ``togyz_env.rules``).
        ply: half-moves since the start; even when white is to move.

    Raises:
        PositionError: a position that cannot occur.
    """

    row: bytes = field(default_factory=lambda: start_state().tobytes())
    ply: int = 0

    def __post_init__(self) -> None:
        """Refuse rows that are no position."""
        _check_row(self.row)
        if isinstance(self.ply, bool) or not isinstance(self.ply, int) or self.ply < 0 or self.ply % 2 != self.row[TO_MOVE]:
            to_move = PLAYER_NAMES[self.row[TO_MOVE]]
            raise PositionError(
                f"ply: {shown(self.ply)} with {to_move} to move; white moves at even plies from 0, black at odd ones"
            )

    @classmethod
    def start(cls) -> Position:
        """Return the start position: nine stones in each hole, white to move."""
        return cls()

    @classmethod
    def from_fen(cls, text: str) -> Position:
        """Read a position string (see ``togyz_env.notation``).

        Raises:
            NotationError: the text is no position string.
            PositionError: it describes a position that cannot occur.
        """
        row, ply = parse_position(text)
        if max(row) > STONES or sum(row[:TUZDYK]) != STONES:
            raise PositionError(f"stones: {sum(row[:TUZDYK])} in {text!r}; holes and kazans must add up to {STONES}")
        try:
            return cls(bytes(row), ply)
        except PositionError as error:
            raise PositionError(f"{error} (in {text!r})") from None

    @classmethod
    def from_state(cls, state: np.ndarray | Sequence[int], ply: int = 0) -> Position:
        """Make a position of a state row (23 whole numbers, layout in ``togyz_env.rules``).

        ``ply`` is raised by one where its parity is not that of the side to move (white moves at even plies).

        Raises:
            PositionError: the row is no position that can occur.
        """
        values = np.asarray(state)
        if values.shape != (STATE_SIZE,) or values.dtype.kind not in "iu" or values.min() < 0 or values.max() > STONES:
            raise PositionError(f"state: {shown(state)}; expected {STATE_SIZE} whole numbers from 0 to {STONES}")
        row = values.astype(np.uint8).tobytes()
        ply = operator.index(ply)  # a numpy integer too
        return cls(row, ply + (ply + row[TO_MOVE]) % 2)

    @property
    def state(self) -> np.ndarray:
        """A fresh copy of the state row, ``uint8[23]``."""
        return np.frombuffer(self.row, np.uint8).copy()

    @property
    def holes(self) -> tuple[int, ...]:
        """Stones in the 18 holes, white's 1..9, then black's 1..9."""
        return tuple(self.row[:RING])

    @property
    def kazans(self) -> tuple[int, int]:
        """Stones in the kazans of (white, black)."""
        return self.row[KAZAN], self.row[KAZAN + 1]

    @property
    def tuzdyks(self) -> tuple[int, int]:
        """Number 1..9 of the opponent's hole that is the tuzdyk of (white, black), 0 for none."""
        return self.row[TUZDYK], self.row[TUZDYK + 1]

    @property
    def to_move(self) -> int:
        """Side to move: 0 white, 1 black."""
        return self.row[TO_MOVE]

    def fen(self) -> str:
        """Write the position string, which ``from_fen`` reads back to an equal position."""
        return format_position(self.row, self.ply)

    def legal_moves(self) -> list[int]:
        """Return the holes 1..9 that the side to move may play, in ascending order; none in atsyrau.

        The list does not depend on a ruleset: it goes on after a kazan holds 82 stones. ``outcome`` tells whether the game is over.
        """
        state = self.state
        return [action + 1 for action in range(HOLES) if is_legal(state, action)]

    def play(self, hole: int) -> Position:
        """Return the position after the side to move plays ``hole`` (1..9).

        Raises:
            IllegalMoveError: the hole is empty or no hole; the message shows it, the position and the legal moves.
        """
        action = self._action(hole)
        state = self.state
        play(state, action)
        return Position(state.tobytes(), self.ply + 1)

    def sowing(self, hole: int) -> Sowing:
        """Return what playing ``hole`` (1..9) would do.

        Raises:
            IllegalMoveError: the hole is empty or no hole.
        """
        action = self._action(hole)
        state = self.state
        mover = self.to_move
        captured = int(preview(state, mover * HOLES + action)[2])
        code = int(play(state, action))
        landing, event = code & LANDING_MASK, code >> LANDING_BITS
        kazan = int(state[KAZAN + mover])
        return Sowing(
            landing_side=landing // HOLES,
            landing_hole=landing % HOLES + 1,
            captured=captured,
            tuzdyk=event == MAKES_TUZDYK,
            gained=kazan - self.kazans[mover],
            kazan=kazan,
        )

    def outcome(self, ruleset: Ruleset = Ruleset()) -> Outcome | None:
        """Return how the game has ended under ``ruleset``, or None if it goes on. The rules go before the ply limit."""
        return outcome_of(self.state, self.ply, ruleset)

    def mirrored(self) -> Position:
        """Return the position with the colours swapped, the side to move too; mirroring twice gives the same position."""
        holes, kazans, tuzdyks = self.row[:RING], self.kazans, self.tuzdyks
        swapped = bytes((*holes[HOLES:], *holes[:HOLES], *reversed(kazans), *reversed(tuzdyks), 1 - self.to_move))
        return Position(swapped, self.ply - 1 if self.to_move == BLACK else self.ply + 1)

    def _action(self, hole: int) -> int:
        try:
            action = operator.index(hole) - 1
        except TypeError:
            action = -1
        if 0 <= action < HOLES and is_legal(self.state, action):
            return action
        raise IllegalMoveError(f"hole: {shown(hole)} in {self.fen()!r}; legal moves: {self.legal_moves()}")

    def __str__(self) -> str:
        """Draw the board as people print it."""
        return board_text(self)

    def _repr_svg_(self) -> str:
        """Draw the board in notebooks."""
        return svg(self)

    def __repr__(self) -> str:
        """Show the position string."""
        return f"Position.from_fen({self.fen()!r})"


def _check_row(row: bytes) -> None:
    """Refuse a row that cannot be a position (RULES, Board and Tuzdyk)."""
    if not isinstance(row, bytes) or len(row) != STATE_SIZE:
        raise PositionError(f"row: {shown(row)}; expected {STATE_SIZE} bytes")
    stones = sum(row[:TUZDYK])
    if stones != STONES:
        raise PositionError(f"stones: {stones} in holes and kazans; they must add up to {STONES}")
    if row[TO_MOVE] not in (0, 1):
        raise PositionError(f"side to move: {row[TO_MOVE]}; expected 0 (white) or 1 (black)")
    for owner, name in enumerate(PLAYER_NAMES):
        number = row[TUZDYK + owner]
        if number >= HOLES:
            raise PositionError(f"tuzdyk of {name}: {number}; expected a hole from 1 to {HOLES - 1}, or 0 for none")
        if number and row[(1 - owner) * HOLES + number - 1]:
            raise PositionError(f"tuzdyk of {name}: hole {number} holds stones; a tuzdyk is always empty")
    if row[TUZDYK] and row[TUZDYK] == row[TUZDYK + 1]:
        raise PositionError(f"tuzdyks: both bear the number {row[TUZDYK]}; the second may not mirror the first")


def perft(position: Position, depth: int, ruleset: Ruleset = Ruleset()) -> int:
    """Count the legal sequences of exactly ``depth`` moves from ``position``; a finished game is not played on.

    Positions past the ply limit have no moves either.

    Raises:
        ConfigError: ``depth`` is no whole number from 0.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        raise ConfigError(f"depth of a perft: {shown(depth)}; expected a whole number from 0")
    if depth and position.ply + depth > ruleset.max_plies:
        return 0
    return int(perft_count(position.state, depth, ruleset.playout))
