"""A game in progress: a start position, the moves played, and the result under a ruleset."""

from __future__ import annotations

from togyz_env.errors import IllegalMoveError
from togyz_env.position import Outcome, Position, Ruleset


class Game:
    """A game that can be played on and taken back.

    Args:
        start: position to start from; the usual one if left out.
        ruleset: how the game ends; the default ``Ruleset`` if left out. Its ply limit counts the plies of ``start`` too.
    """

    def __init__(self, start: Position | None = None, ruleset: Ruleset | None = None) -> None:
        """Begin a game without moves."""
        self.ruleset = Ruleset() if ruleset is None else ruleset
        self._positions = [Position.start() if start is None else start]
        self._moves: list[int] = []

    @property
    def start(self) -> Position:
        """The position that the game began from."""
        return self._positions[0]

    @property
    def position(self) -> Position:
        """The position on the board now."""
        return self._positions[-1]

    @property
    def positions(self) -> list[Position]:
        """All positions, the first and the present one included: one more than ``moves``."""
        return list(self._positions)

    @property
    def moves(self) -> list[int]:
        """The holes played so far, each 1..9 in the row of the player who moved."""
        return list(self._moves)

    @property
    def outcome(self) -> Outcome | None:
        """How the game has ended, or None while it goes on."""
        return self.position.outcome(self.ruleset)

    def play(self, hole: int) -> Position:
        """Play ``hole`` (1..9) for the side to move and return the new position.

        Raises:
            IllegalMoveError: the hole may not be played, or the game is over.
        """
        outcome = self.outcome
        if outcome is not None:
            raise IllegalMoveError(f"hole: {hole!r} in {self.position.fen()!r}; the game is over ({outcome.reason})")
        self._positions.append(self.position.play(hole))
        self._moves.append(int(hole))
        return self.position

    def undo(self) -> int:
        """Take the last move back and return its hole.

        Raises:
            IllegalMoveError: no move has been played.
        """
        if not self._moves:
            raise IllegalMoveError(f"undo: no move to take back in {self.position.fen()!r}")
        self._positions.pop()
        return self._moves.pop()
