"""What a searching player can tell: the common form of its findings, for protocols, pages, tournaments and scripts.

An agent that has ``think`` and ``stop`` is a ``Thinker``: it tells of its best moves while it searches, and plays as in ``select``.
One that has ``analyse`` is an ``Analyst``: it values any position, also where there is but one move, which ``think`` plays unseen.
Any other agent can still be asked for its move alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from togyz_agents.agent import Clock
from togyz_env.position import Position, Ruleset

WIN_SCORE = 30_000
"""Score of a game that is won now; a proven win in n plies scores WIN_SCORE - n, a proven loss the negative of it."""
LARGEST_SCORE = 20_000
"""Scores of what is not proven stay within +- this."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop thinking about one move. Without any limit the agent's own ones hold, as in ``select``.

    Attributes:
        depth: plies to look ahead, in place of the agent's own limits; a tree search knows none and keeps its own.
        nodes: positions (alpha-beta) or simulations (tree search), in place of the agent's own limits.
        seconds: time for the move, beside depth, nodes or what the agent's own limits are under a clock.
        infinite: no limit at all, not even the agent's own: until ``stop``.
    """

    depth: int | None = None
    nodes: int | None = None
    seconds: float | None = None
    infinite: bool = False


@dataclass(frozen=True, slots=True)
class ThoughtLine:
    """A move and what is expected of it, for the side to move.

    Attributes:
        moves: holes 1..9, this move first, then the expected line.
        score: in hundredths of a stone (a margin of one stone is 100), WIN_SCORE - n for a win in n plies; None if unknown.
        outcome: probabilities of win, draw and loss; None if unknown.
        visits: simulations through the move; None for a player without a search tree.
        prior: the network's probability of the move; None for a player without one.
    """

    moves: tuple[int, ...]
    score: int | None = None
    outcome: tuple[float, float, float] | None = None
    visits: int | None = None
    prior: float | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    """What a player has found out so far.

    Attributes:
        lines: the best move first; at least one.
        depth: plies to which all moves were searched; in a tree search the length of the best line.
        nodes: positions visited (alpha-beta) or simulations (tree search).
        seconds: time so far.
    """

    lines: tuple[ThoughtLine, ...]
    depth: int = 0
    nodes: int = 0
    seconds: float = 0.0

    @property
    def hole(self) -> int:
        """The hole 1..9 to play."""
        return self.lines[0].moves[0]


Report = Callable[[Thought], None]


@runtime_checkable
class Analyst(Protocol):
    """An agent that values positions within its own limits: the judge of openings and of won games."""

    def analyse(self, position: Position, clock: Clock | None = None) -> Any:
        """Return a result whose ``value`` is the expected result for the side to move: 1 a win, -1 a loss."""


@runtime_checkable
class Thinker(Protocol):
    """An agent that says what it thinks, and that can be stopped from another thread."""

    @property
    def ruleset(self) -> Ruleset:
        """The rules that the search assumes."""

    def think(
        self, position: Position, history: Sequence[Position], limits: Limits, *, lines: int = 1, report: Report | None = None
    ) -> Thought:
        """Search ``position``, which is not over, until a limit or ``stop`` ends it; there is always a move.

        Without limits, or with ``seconds`` alone, the move is the one that ``select`` plays, with or without a clock.

        Args:
            position: where the game stands.
            history: the positions before it in this game, oldest first.
            limits: when to stop.
            lines: how many moves to tell about, the best ones.
            report: called from time to time with what is known so far.
        """

    def stop(self) -> None:
        """End the search that is going on; one that has not begun yet goes on."""
