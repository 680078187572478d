"""The opponents of all games of an environment: who plays in which game, and how each kind of opponent is asked.

One game or many are the same here: a game is a row of ``Board``. ``togyz_env.opponents`` says what can be an opponent.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from togyz_env.errors import ConfigError, IllegalMoveError
from togyz_env.notation import shown
from togyz_env.opponents import Opponent, agent_of, check_opponent, is_agent, name_of
from togyz_env.pool import OpponentPool
from togyz_env.position import Position, Ruleset
from togyz_env.rules import HOLES, TO_MOVE
from togyz_env.simple_players import PLAYERS, simple_actions

NOT_SIMPLE = -1


class Player:
    """An opponent as the environments ask it, in any number of games (rows).

    Attributes:
        name: shown in ``info`` and in errors.
        kind: RANDOM or GREEDY of ``simple_players``, which kernels play, or NOT_SIMPLE.
        wants_history: whether the positions before are to be recorded for it.
    """

    kind = NOT_SIMPLE
    wants_history = False

    def __init__(self, name: str) -> None:
        """Name the player."""
        self.name = name

    def restart(self, seed: int) -> None:
        """All games begin anew together."""

    def begin(self, row: int, seed: int) -> None:
        """A game begins in ``row``."""

    def actions(self, board: Board, rows: np.ndarray) -> np.ndarray:
        """Return ``int64[K]``: actions in ``rows int64[K]`` of ``board``.

        Raises:
            IllegalMoveError: the opponent's answer is not legal; the message names it.
        """
        holes = self.holes(board, rows)
        actions = np.empty(len(rows), np.int64)
        for k, (row, hole) in enumerate(zip(rows, holes)):
            try:
                actions[k] = operator.index(hole) - 1
            except (TypeError, OverflowError):
                actions[k] = -1
            if not 0 <= actions[k] < HOLES or board.states[row, board.states[row, TO_MOVE] * HOLES + int(actions[k])] == 0:
                where = f" (game {row})" if len(board.states) > 1 else ""
                position = board.position(row)
                raise IllegalMoveError(
                    f"opponent {self.name!r} chose an illegal move: hole: {shown(hole)} in {position.fen()!r}; "
                    f"legal moves: {position.legal_moves()}{where}"
                )
        return actions

    def holes(self, board: Board, rows: np.ndarray) -> Sequence[Any] | np.ndarray:
        """The opponent's answers, not checked."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what was made here."""


class Board:
    """The games that opponents look at.

    Attributes:
        states: ``uint8[N, 23]``.
        plies: ``int32[N]``.
        streams: ``uint64[N]``, the random streams of the simple players.
        histories: for each game the positions before the present one, where they are recorded.
    """

    def __init__(self, states: np.ndarray, plies: np.ndarray) -> None:
        """Look at ``states`` and ``plies``, which the environment changes in place."""
        self.states = states
        self.plies = plies
        self.streams = np.zeros(len(states), np.uint64)
        self.histories: list[list[Position]] = [[] for _ in range(len(states))]

    def position(self, row: int) -> Position:
        """The position of one game."""
        return Position.from_state(self.states[row], int(self.plies[row]))


class SimplePlayer(Player):
    """The random or the greedy player of ``simple_players``."""

    def __init__(self, name: str) -> None:
        """Take the player called ``name``."""
        super().__init__(name)
        self.kind = PLAYERS[name]

    def actions(self, board: Board, rows: np.ndarray) -> np.ndarray:
        """Let the kernel choose."""
        out = np.empty(len(rows), np.int64)
        simple_actions(board.states, rows, self.kind, board.streams, out)
        return out


class FunctionPlayer(Player):
    """A function ``Position -> hole``. It has no seed and no memory."""

    def __init__(self, function: Callable[[Position], int]) -> None:
        """Wrap ``function``."""
        super().__init__(name_of(function))
        self._function = function

    def holes(self, board: Board, rows: np.ndarray) -> list[Any]:
        """Call the function for each game."""
        return [self._function(board.position(row)) for row in rows]


class BatchPlayer(Player):
    """An agent with ``select_batch``, asked for all its games in one call."""

    def __init__(self, agent: Any, name: str, alone: bool, ours: bool) -> None:
        """Wrap ``agent``; ``alone``: there is only one game, ``ours``: close it in the end."""
        super().__init__(name)
        self._agent = agent
        self._alone = alone
        self._ours = ours
        self._fresh = True

    def restart(self, seed: int) -> None:
        """New games for the agent: it is told of them together."""
        self._agent.new_game(seed)
        self._fresh = False

    def begin(self, row: int, seed: int) -> None:
        """Tell the agent if this is its only game or its first one."""
        if self._alone or self._fresh:
            self.restart(seed)

    def holes(self, board: Board, rows: np.ndarray) -> np.ndarray:
        """Ask once."""
        holes = np.asarray(self._agent.select_batch(board.states[rows], board.plies[rows]))
        if holes.shape != (len(rows),):
            raise IllegalMoveError(f"opponent {self.name!r} gave holes of shape {holes.shape} for {len(rows)} games")
        return holes

    def close(self) -> None:
        """Close the agent if it was made here."""
        if self._ours:
            self._agent.close()


class AgentPlayer(Player):
    """An agent of one game at a time: each game gets one of its own, made or copied when it is first needed."""

    wants_history = True

    def __init__(self, first: Opponent, name: str, make: Callable[[], Opponent] | None) -> None:
        """Wrap the agent ``first``; ``make`` makes others, without it they are copies of ``first``."""
        super().__init__(name)
        self._first = first
        self._make = make
        self._agents: dict[int, Opponent] = {}

    def begin(self, row: int, seed: int) -> None:
        """Give the game its agent and the agent its seed."""
        if row not in self._agents:
            if not self._agents:
                self._agents[row] = self._first
            elif self._make is not None:
                self._agents[row] = self._make()
            else:
                try:
                    self._agents[row] = copy.deepcopy(self._first)
                except Exception as error:
                    raise ConfigError(
                        f"opponent {self.name!r} cannot be copied for each game ({error}); expected an agent's description, "
                        "a function, or an agent with select_batch"
                    ) from error
        self._agents[row].new_game(seed)

    def holes(self, board: Board, rows: np.ndarray) -> list[Any]:
        """Ask the agent of each game."""
        return [self._agents[row].select(board.position(row), tuple(board.histories[row]), None) for row in rows.tolist()]

    def close(self) -> None:
        """Close the agents that were made here; one that was handed in is left to its owner."""
        for agent in self._agents.values():
            if self._make is not None or agent is not self._first:
                agent.close()
        if self._make is not None and not self._agents:
            self._first.close()


def make_player(opponent: object, ruleset: Ruleset, count: int) -> Player:
    """Return the player of ``count`` games that ``opponent`` stands for.

    Args:
        opponent: what ``opponent=`` takes, but no pool.
        ruleset: the searches of a description or a checkpoint assume it.
        count: number of games at once.

    Raises:
        ConfigError: it is no opponent, or a description that no agent answers to.
        CheckpointError: a checkpoint that is missing or damaged.
    """
    check_opponent(opponent)
    if isinstance(opponent, str | Path):
        text = str(opponent).strip()
        if text in PLAYERS:
            return SimplePlayer(text)

        def make() -> Opponent:
            return agent_of(opponent, ruleset)

        agent = make()
        name = name_of(opponent)
    elif is_agent(opponent):
        agent, name = cast(Opponent, opponent), name_of(opponent)
        make = None  # type: ignore[assignment]
    else:
        return FunctionPlayer(cast(Callable[[Position], int], opponent))
    if not hasattr(agent, "select") or (count > 1 and hasattr(agent, "select_batch")):
        return BatchPlayer(agent, name, count == 1, isinstance(opponent, str | Path))
    return AgentPlayer(agent, name, make)


class Roster:
    """Who plays against the agent in each game of an environment: one opponent, or members of a pool.

    Args:
        opponent: what ``opponent=`` takes.
        ruleset: the environment's.
        board: its games.

    Attributes:
        kind: of the one opponent if kernels play it, else NOT_SIMPLE.
        wants_history: ``bool[N]``, whether the positions of each game are to be recorded.
    """

    def __init__(self, opponent: object, ruleset: Ruleset, board: Board) -> None:
        """Make the opponent, or take the pool; its members are made when they first play."""
        self._pool = opponent if isinstance(opponent, OpponentPool) else None
        self._ruleset = ruleset
        self._board = board
        self._players: dict[int, Player] = {}
        self._keys = np.full(len(board.states), 0 if self._pool is None else -1, np.int64)
        self._names: dict[int, str] = {}
        self.kind = NOT_SIMPLE
        self.wants_history = np.zeros(len(board.states), np.bool_)
        if self._pool is None:
            self._players[0] = make_player(opponent, ruleset, len(board.states))
            self._names[0] = self._players[0].name
            self.kind = self._players[0].kind
            self.wants_history[:] = self._players[0].wants_history

    def restart(self, seed: int) -> None:
        """All games begin anew together: ``begin`` follows for each of them."""
        for player in self._players.values():
            player.restart(seed >> 33)

    def begin(self, row: int, seed: int, pick: float) -> None:
        """A game begins in ``row``: ``pick`` from [0, 1) draws its opponent, whose choices follow from ``seed`` (64 bits)."""
        board = self._board
        board.streams[row] = seed
        board.histories[row] = []
        if self._pool is not None:
            member = self._pool.pick(pick)
            if member.key not in self._players:
                self._drop_unused()
                self._players[member.key] = make_player(member.opponent, self._ruleset, len(board.states))
                self._players[member.key].name = self._names[member.key] = member.name
            self._keys[row] = member.key
            self.wants_history[row] = self._players[member.key].wants_history
        self._players[int(self._keys[row])].begin(row, seed >> 33)

    def record(self, rows: np.ndarray) -> None:
        """Record the present positions of those of ``rows`` whose opponents want the history."""
        for row in rows[self.wants_history[rows]].tolist():
            self._board.histories[row].append(self._board.position(row))

    def actions(self, rows: np.ndarray) -> np.ndarray:
        """Return ``int64[K]``: legal actions in ``rows int64[K]``, where it is the opponents' turn.

        Raises:
            IllegalMoveError: an opponent's answer is not legal; the message names it.
        """
        if self._pool is None:
            return self._players[0].actions(self._board, rows)
        keys = self._keys[rows]
        actions = np.empty(len(rows), np.int64)
        for key in np.unique(keys).tolist():
            mine = np.flatnonzero(keys == key)
            actions[mine] = self._players[key].actions(self._board, rows[mine])
        return actions

    def name(self, row: int) -> str:
        """The name of the opponent in ``row``."""
        return self._names[int(self._keys[row])]

    def _drop_unused(self) -> None:
        """Close the players of members that the pool has dropped and no game needs."""
        assert self._pool is not None
        used = set(self._keys.tolist()) | {member.key for member in self._pool.members}
        for key in [key for key in self._players if key not in used]:
            self._players.pop(key).close()
            del self._names[key]

    def close(self) -> None:
        """Close the opponents that were made here."""
        for player in self._players.values():
            player.close()
