"""What may stand behind the environment's ``opponent=``: an agent, the name of one, or a function from positions to holes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from togyz_env.errors import ConfigError, IllegalMoveError
from togyz_env.notation import shown
from togyz_env.position import Position


class Opponent(Protocol):
    """The part of the Agent protocol that the environment calls."""

    def new_game(self, seed: int) -> None:
        """Forget the last game."""

    def select(self, position: Position, history: Sequence[Position], clock: Any) -> int:
        """Return the hole 1..9 to play in ``position``; ``history`` holds the positions before it, ``clock`` is None."""

    def close(self) -> None:
        """Release what the agent holds."""


class FunctionOpponent:
    """A function ``Position -> hole`` as an opponent. It has no seed and no memory."""

    def __init__(self, function: Callable[[Position], int]) -> None:
        """Wrap ``function``."""
        self.function = function
        self.name = getattr(function, "__name__", repr(function))

    def new_game(self, seed: int) -> None:
        """Do nothing."""

    def select(self, position: Position, history: Sequence[Position], clock: Any) -> int:
        """Call the function."""
        return self.function(position)

    def close(self) -> None:
        """Do nothing."""


def make_opponent(opponent: object) -> Opponent:
    """Return an opponent made from an agent, an agent's description or a function.

    Raises:
        ConfigError: it is none of the three, or a description that no agent answers to.
    """
    if isinstance(opponent, str):
        # Looked up by name: this package does not depend on the players.
        return cast(Opponent, importlib.import_module("togyz_agents.agent").make_agent(opponent))
    if not isinstance(opponent, type):
        if all(callable(getattr(opponent, method, None)) for method in ("new_game", "select", "close")):
            return cast(Opponent, opponent)
        if callable(opponent):
            return FunctionOpponent(opponent)
    raise ConfigError(f"opponent: {shown(opponent)}; expected an agent, an agent's description or a function Position -> hole")


def opponents_move(opponent: Opponent, position: Position, history: Sequence[Position]) -> int:
    """Ask ``opponent`` for its move and return the hole, 1..9.

    Raises:
        IllegalMoveError: it answers with a move that is not legal; the message names it.
    """
    hole = opponent.select(position, history, None)
    try:
        position.play(hole)
    except IllegalMoveError as error:
        name = getattr(opponent, "name", None) or type(opponent).__name__
        raise IllegalMoveError(f"opponent {name!r} chose an illegal move: {error}") from None
    return int(hole)
