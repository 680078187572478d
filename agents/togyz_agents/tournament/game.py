"""Playing one game between two players. A player that fails, cheats or oversteps its time loses that game, no more."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Mapping
from typing import Any

from togyz_agents.agent import Agent, Clock, make_agent
from togyz_agents.thinking import Analyst
from togyz_agents.tournament.record import ADJUDICATION, FORFEIT, JUDGE, TIME, ClockRule, GameRecord, GameRules, GameTask, Verdict
from togyz_env.errors import ConfigError, IllegalMoveError
from togyz_env.position import Outcome, Position, Ruleset
from togyz_env.rules import BLACK, WHITE

MOST_AGENTS = 8
"""Players that one process keeps ready between games."""

_LONGEST_DETAIL = 300


class GameStopped(Exception):
    """The game was given up because the tournament stops."""


class Players:
    """Players of one process by name, made when first needed and kept for later games, ``MOST_AGENTS`` at most."""

    def __init__(self, descriptions: Mapping[str, str], ruleset: Ruleset | None = None) -> None:
        """Keep the descriptions, and the rules that their searches assume; make nothing."""
        self._descriptions = descriptions
        self._ruleset = ruleset
        self._agents: dict[str, Agent] = {}

    def get(self, name: str) -> Agent:
        """Return the player called ``name``; any error of its making."""
        agent = self._agents.pop(name, None)
        if agent is None:
            while len(self._agents) >= MOST_AGENTS:
                self.drop(next(iter(self._agents)))
            agent = make_agent(self._descriptions[name], self._ruleset)
        self._agents[name] = agent  # the latest used stands last
        return agent

    def drop(self, name: str) -> None:
        """Close a player; its next game gets a fresh one. An error while closing no longer matters."""
        agent = self._agents.pop(name, None)
        if agent is not None:
            try:
                agent.close()
            except Exception:  # it is gone either way
                return

    def close(self) -> None:
        """Close all."""
        for name in list(self._agents):
            self.drop(name)


class _Failure(Exception):
    """A player's forfeit."""


def play_game(task: GameTask, players: Players, rules: GameRules, stopped: Callable[[], bool] = lambda: False) -> GameRecord:
    """Play one game.

    Errors and illegal moves of a player, and overstepped clocks, end it as that player's loss. GameStopped when ``stopped()``.
    """
    history = task.opening.positions()
    opening_plies = len(history)
    times: list[float] = []
    moves: list[int] = []
    clocks = [None if rules.clock is None else rules.clock.remaining] * 2
    judge = None if rules.adjudication is None else _Judge(rules.adjudication, players)
    outcome: Outcome | None = None
    detail = ""
    side = WHITE
    try:
        for side in (WHITE, BLACK):
            _guarded(lambda: players.get(task.sides[side]).new_game(task.seeds[side]))  # noqa: B023 - called at once
        while (outcome := history[-1].outcome(rules.ruleset)) is None:
            if stopped():
                raise GameStopped
            if judge is not None and (leader := judge.verdict(history[-1])) is not None:
                outcome = Outcome(leader, ADJUDICATION, history[-1].kazans)
                break
            side = history[-1].to_move
            clock = None
            if rules.clock is not None:
                clock = Clock(rules.clock.move_time, clocks[side], rules.clock.increment if clocks[side] is not None else None)
            begun = time.perf_counter()
            try:
                position, before = history[-1], tuple(history[:-1])
                answer = _guarded(lambda: players.get(task.sides[side]).select(position, before, clock))  # noqa: B023
            finally:
                spent = time.perf_counter() - begun
                times.append(round(spent, 4))
            if rules.clock is not None and _overstepped(rules.clock, clocks, side, spent):
                outcome = Outcome(1 - side, TIME, history[-1].kazans)
                break
            hole = _hole(answer, history[-1])
            history.append(history[-1].play(hole))
            moves.append(hole)
    except _Failure as failure:
        detail = f"{task.sides[side]}: {failure}"
        outcome = Outcome(1 - side, FORFEIT, history[-1].kazans)
        players.drop(task.sides[side])
    if outcome is None or len(moves) != len(history) - opening_plies:
        raise RuntimeError("a game ended without an outcome")
    return GameRecord(
        *task.key,
        start=task.opening.start.fen(),
        opening=task.opening.moves,
        moves=tuple(moves),
        times=tuple(times),
        seeds=task.seeds,
        winner=outcome.winner,
        reason=outcome.reason,
        detail=detail,
        score=outcome.score,
    )


class _Judge:
    """Counts how long one side has been winning."""

    def __init__(self, verdict: Verdict, players: Players) -> None:
        self._verdict = verdict
        agent = players.get(JUDGE)
        agent.new_game(0)
        if not isinstance(agent, Analyst):
            raise ConfigError(f"adjudication: {verdict.agent!r} cannot analyse; expected a player with a search, such as alphabeta")
        self._agent = agent
        self._leader: int | None = None
        self._run = 0

    def verdict(self, position: Position) -> int | None:
        """Return the winner, or None while the game goes on."""
        value = float(self._agent.analyse(position).value)
        leader = None if abs(value) < self._verdict.value else position.to_move if value > 0 else 1 - position.to_move
        self._run = self._run + 1 if leader is not None and leader == self._leader else int(leader is not None)
        self._leader = leader
        return leader if self._run >= self._verdict.plies else None


def _guarded(call: Callable[[], Any]) -> Any:
    """Return what a player's code gives; its errors become a failure in one line."""
    try:
        return call()
    except (MemoryError, GameStopped):
        raise
    except Exception as error:  # whatever a player's code does wrong is the player's loss
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise _Failure(text[:_LONGEST_DETAIL]) from None


def _hole(answer: object, position: Position) -> int:
    try:
        hole = operator.index(answer)  # type: ignore[arg-type]
        position.play(hole)
    except (TypeError, IllegalMoveError):
        shown = repr(answer)[:80]
        legal = position.legal_moves()
        raise _Failure(f"illegal move {shown} in {position.fen()!r}; legal moves: {legal}") from None
    return hole


def _overstepped(rule: ClockRule, clocks: list[float | None], side: int, spent: float) -> bool:
    """Book ``spent`` seconds of ``side``; tell whether that was too much."""
    left = clocks[side]
    if left is None:
        return rule.move_time is not None and spent > rule.move_time + rule.grace
    if spent > left + rule.grace:
        return True
    clocks[side] = max(0.0, left - spent) + rule.increment
    return False
