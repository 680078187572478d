"""Alpha-beta search of one game's positions: iterative deepening around the kernel, with limits, a stop and a full report.

Each iteration searches every move of the root one ply deeper than the last, the best move of the last one first; the table and the
history that it filled make the next one cheaper than searching to its depth at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from togyz_agents.search.alphabeta import weights as fitted
from togyz_agents.search.alphabeta.evaluation import FEATURES, LARGEST, PROVEN, expectation, plies_to_end
from togyz_agents.search.alphabeta.kernel import (
    BASE,
    COUNT,
    DONE,
    GENERATION,
    INDEX,
    INFINITE,
    LEVEL,
    MAX_DEPTH,
    MAX_QUIESCENCE,
    NEEDS_VALUE,
    NODE_LIMIT,
    NODES,
    ROOT_PLY,
    ROW,
    STOP,
    VALUE,
    Settings,
    Stack,
    advance,
    begin,
    new_stack,
)
from togyz_agents.search.alphabeta.ordering import order_moves
from togyz_agents.search.alphabeta.table import GENERATIONS, NO_MOVE, new_table, table_move
from togyz_env.errors import ConfigError, TogyzError
from togyz_env.position import Ruleset
from togyz_env.rules import HOLES, ONGOING, STATE_SIZE, end_reason, is_legal, kernel, play

NO_LIMIT = 1 << 62
SLICE = 4096
"""Nodes between two looks at the clock: some milliseconds."""
LARGEST_TABLE = 65_536
KNOWN_VALUES = 200_000
"""Values of leaves kept between calls of a LeafEvaluator, some 60 MB."""

LeafEvaluator = Callable[[np.ndarray], np.ndarray]
"""``(states uint8[B, 23]) -> scores int64[B]`` for the side to move, within +-evaluation.LARGEST; no state is over."""


@dataclass(frozen=True)
class AlphaBetaConfig:
    """How a position is searched; the limits are given to each search."""

    evaluation: str = "full"
    """"full": weighted features; "kazan": the difference of the kazans."""
    quiescence: int = 8
    """Plies that captures are searched on behind the depth; 0 evaluates every leaf as it stands."""
    table: int = 16
    """Memory of the transposition table in MiB, rounded down to a power of two; 0: no table."""

    def __post_init__(self) -> None:
        """Refuse values that no search can use."""
        if self.evaluation not in ("full", "kazan"):
            raise ConfigError(f"alphabeta: evaluation {self.evaluation!r} is not full or kazan")
        if not 0 <= self.quiescence <= MAX_QUIESCENCE:
            raise ConfigError(f"alphabeta: quiescence of {self.quiescence} plies is not between 0 and {MAX_QUIESCENCE}")
        if not 0 <= self.table <= LARGEST_TABLE:
            raise ConfigError(f"alphabeta: a table of {self.table} MiB is not between 0 and {LARGEST_TABLE}")


@dataclass(frozen=True)
class RootMove:
    """One move of the root.

    Attributes:
        moves: holes 1..9, this move first, then the line that the search expects.
        score: in hundredths of a stone for the side to move at the root; WIN - n for a win in n plies (see ``evaluation``).
        exact: whether ``score`` is the move's value; else it is worth no more than ``score``.
        nodes: positions searched behind it in the last iteration.
    """

    moves: tuple[int, ...]
    score: int
    exact: bool
    nodes: int


@dataclass(frozen=True)
class AlphaBetaResult:
    """What a search knows, for the side to move at the root.

    Attributes:
        action: the action to play, 0..8.
        score: in hundredths of a stone; WIN - n for a win in n plies.
        depth: plies that all moves were searched to.
        nodes: positions visited, those of the capture search included.
        seconds: time of the search.
        lines: every legal move, best first. As many as were asked for are exact; of the others only a bound is known.
    """

    action: int
    score: int
    depth: int
    nodes: int
    seconds: float
    lines: tuple[RootMove, ...]

    @property
    def principal_variation(self) -> tuple[int, ...]:
        """Holes 1..9 of the best line."""
        return self.lines[0].moves

    @property
    def plies_to_end(self) -> int | None:
        """Plies to the end of a proven win or loss; None while nothing is proven."""
        return plies_to_end(self.score)

    @property
    def value(self) -> float:
        """Expected result in [-1, 1], by the curve that the evaluation was fitted with."""
        return expectation(self.score, fitted.SCALE)


class _StoppedError(Exception):
    """A limit was reached within an iteration."""


@kernel
def _siblings(stack: Stack, level: int, playout: bool, out: np.ndarray) -> int:
    """Write the position at ``level`` and those that its parent would ask for after it into ``out uint8[9, 23]``; return how many.

    Those that are over are left out.
    """
    count = 0
    for index in range(stack.frames[level - 1, INDEX], stack.frames[level - 1, COUNT]):
        out[count] = stack.states[level - 1, :STATE_SIZE]
        play(out[count], stack.moves[level - 1, index])
        if end_reason(out[count], playout) == ONGOING:
            count += 1
    return count


class AlphaBetaSearch:
    """Searches positions one after the other; what it learns stays in the table until ``forget``.

    With the same limits of depth or nodes, the same positions since ``forget`` give the same results. Not thread-safe, but ``stop``
    may be called from another thread. Memory: the table and some 100 kB.

    Args:
        config: evaluation, capture search, table.
        ruleset: end rule and ply limit inside the search.
        evaluator: scores of leaves in place of ``config.evaluation``; called with up to nine positions, the children of one.
        weights: ``int64[2, FEATURES]`` in place of the fitted ones, on an empty and on a full board.
    """

    def __init__(
        self,
        config: AlphaBetaConfig = AlphaBetaConfig(),
        ruleset: Ruleset = Ruleset(),  # noqa: B008 - a frozen value
        evaluator: LeafEvaluator | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        """Allocate the table."""
        self.config = config
        self.ruleset = ruleset
        self._evaluator = evaluator
        self._settings = Settings(ruleset.playout, ruleset.max_plies, config.quiescence, evaluator is not None)
        self._weights = np.zeros((0, FEATURES), np.int64)
        if config.evaluation == "full":
            given = [fitted.EMPTY_BOARD, fitted.FULL_BOARD] if weights is None else weights
            self._weights = np.array(given, np.int64)
        self._table = new_table(config.table)
        self._stack = new_stack()
        self._control = self._stack.control
        self._known: dict[bytes, int] = {}
        self._children = np.empty((HOLES, STATE_SIZE), np.uint8)
        self._stop = threading.Event()
        self._used = False
        self._node_limit = NO_LIMIT
        self._deadline: float | None = None
        self._partial: list[RootMove] = []

    def forget(self) -> None:
        """Drop all that earlier searches have learned."""
        if self._used:
            self._table.fill(0)
            self._known.clear()
            self._control[GENERATION] = 0
            self._used = False

    def stop(self) -> None:
        """End the search that is going on, as soon as it has a move."""
        self._stop.set()
        self._control[STOP] = 1

    def run(
        self,
        state: np.ndarray,
        ply: int,
        *,
        depth: int | None = None,
        nodes: int | None = None,
        seconds: float | None = None,
        lines: int = 1,
        report: Callable[[AlphaBetaResult], None] | None = None,
    ) -> AlphaBetaResult:
        """Search ``state uint8[23]``, ``ply`` plies into its game, until a limit, a proof or ``stop`` ends it.

        All moves are searched one ply deep in any case: there is always a move.

        Args:
            depth: plies to search all moves to, at most MAX_DEPTH.
            nodes: positions to visit at most.
            seconds: time.
            lines: how many of the best moves get an exact score; more than one costs more time.
            report: called after each iteration.

        Raises:
            TogyzError: a state of another shape or one that is over, a limit below its least, or an evaluator's wrong answer.
        """
        if state.shape != (STATE_SIZE,):
            raise TogyzError(f"state: shape {state.shape}; expected ({STATE_SIZE},)")
        if end_reason(state, self.ruleset.playout) != ONGOING or ply >= self.ruleset.max_plies:
            raise TogyzError(f"state: the game is over at ply {ply}: {state.tolist()}; there is no move to search")
        for name, limit, least in (("depth", depth, 1), ("nodes", nodes, 1), ("lines", lines, 1), ("seconds", seconds, 0)):
            if limit is not None and not limit >= least:
                raise TogyzError(f"search: {name} {limit}; expected at least {least}")
        started = time.perf_counter()
        self._begin(state, ply)
        # behind the ply limit there is nothing to search
        deepest = min(depth or MAX_DEPTH, MAX_DEPTH, self.ruleset.max_plies - ply)
        found = self._iterate([RootMove((action + 1,), 0, False, 0) for action in self._root_order()], 1, lines)
        self._node_limit = NO_LIMIT if nodes is None else nodes
        self._deadline = None if seconds is None else started + seconds
        finished = 1
        result = self._result(found, finished, started)
        while True:
            if report is not None:
                report(result)
            proven = all(abs(line.score) >= PROVEN for line in found[:lines])
            if finished >= deepest or proven or self._is_spent():
                return result
            try:
                found = self._iterate(found, finished + 1, lines)
            except _StoppedError:
                found = self._merge(found, lines)
                return self._result(found, finished, started)
            finished += 1
            result = self._result(found, finished, started)

    def _begin(self, state: np.ndarray, ply: int) -> None:
        stack, control = self._stack, self._control
        self._stop.clear()
        self._used = True
        self._node_limit = NO_LIMIT
        self._deadline = None
        self._partial = []
        control[STOP] = 0
        control[NODES] = 0
        control[ROOT_PLY] = ply
        control[GENERATION] = (control[GENERATION] + 1) % GENERATIONS
        stack.states[0, :STATE_SIZE] = state
        stack.killers.fill(-1)
        stack.history.fill(0)

    def _is_spent(self) -> bool:
        late = self._deadline is not None and time.perf_counter() >= self._deadline
        return late or self._stop.is_set() or int(self._control[NODES]) >= self._node_limit

    def _root_order(self) -> list[int]:
        stack = self._stack
        count = order_moves(stack.states[0], NO_MOVE, stack.killers[0], stack.history, stack.moves[0], stack.scores)
        return [int(action) for action in stack.moves[0, :count]]

    def _iterate(self, order: list[RootMove], depth: int, lines: int) -> list[RootMove]:
        """Search every move of the root to ``depth`` in the ``order`` of the last iteration; return them, the best first."""
        stack, control = self._stack, self._control
        done: list[RootMove] = []
        self._partial = done
        stack.frames[0, COUNT] = len(order)
        for index, before in enumerate(order):
            stack.moves[0, index] = before.moves[0] - 1
        for index, before in enumerate(order):
            stack.frames[0, INDEX] = index
            action = before.moves[0] - 1
            start = int(control[NODES])
            # the score that the worst of the exact lines has so far
            exact = sorted((line.score for line in done if line.exact), reverse=True)
            alpha = -INFINITE if len(exact) < lines else exact[lines - 1]
            score = self._search_move(action, depth, alpha, INFINITE if alpha == -INFINITE else alpha + 1)
            if alpha < score and alpha != -INFINITE:
                score = self._search_move(action, depth, alpha, INFINITE)
            moves: tuple[int, ...] = (action + 1,)
            if score > alpha:
                moves = (action + 1, *(int(a) + 1 for a in stack.lines[BASE, : stack.lengths[BASE]]))
            done.append(RootMove(moves, score, score > alpha, int(control[NODES]) - start))
        return self._ranked(done)

    @staticmethod
    def _ranked(found: list[RootMove]) -> list[RootMove]:
        """The exact moves by score, then those that cost most nodes: they came nearest to being good."""
        exact = sorted((line for line in found if line.exact), key=lambda line: -line.score)
        others = sorted((line for line in found if not line.exact), key=lambda line: -line.nodes)
        return exact + others

    def _merge(self, before: list[RootMove], lines: int) -> list[RootMove]:
        """What an unfinished iteration adds to the last one: its best moves, if it has searched the last one's best."""
        if len(self._partial) < lines or not self._partial:
            return before
        better = [line for line in self._ranked(self._partial) if line.exact]
        searched = {line.moves[0] for line in better}
        return better + [line for line in before if line.moves[0] not in searched]

    def _search_move(self, action: int, depth: int, alpha: int, beta: int) -> int:
        """Score of a root move for the side to move at the root, searched to ``depth`` within (alpha, beta)."""
        stack, control = self._stack, self._control
        stack.states[BASE] = stack.states[0]
        play(stack.states[BASE], action)
        begin(stack, depth - 1, -beta, -alpha)
        while True:
            limit = self._node_limit
            if self._deadline is not None:
                limit = min(limit, int(control[NODES]) + SLICE)
            control[NODE_LIMIT] = limit
            reason = advance(stack, self._table, self._weights, self._settings)
            if reason == DONE:
                return -int(control[VALUE])
            if reason == NEEDS_VALUE:
                control[VALUE] = self._leaf_score()
            elif depth == 1:  # the first iteration is finished in any case; ``stop`` is remembered
                control[STOP] = 0
            elif self._is_spent():
                raise _StoppedError

    def _leaf_score(self) -> int:
        """The evaluator's score of the leaf that the kernel waits for; its siblings are evaluated with it."""
        level = int(self._control[LEVEL])
        row = self._stack.states[level, :STATE_SIZE].tobytes()
        score = self._known.get(row)
        if score is None:
            if self._evaluator is None:
                raise RuntimeError("the kernel asks for a value without an evaluator")
            siblings = self._children[: _siblings(self._stack, level, self.ruleset.playout, self._children)]
            states = np.array([state for state in siblings if state.tobytes() not in self._known])
            scores = np.asarray(self._evaluator(states.copy()))
            if scores.shape != (len(states),) or scores.dtype.kind != "i" or np.abs(scores).max() > LARGEST:
                raise TogyzError(f"evaluator: {scores!r}; expected {len(states)} whole scores within +-{LARGEST}")
            if len(self._known) > KNOWN_VALUES:
                self._known.clear()
            self._known.update((state.tobytes(), int(value)) for state, value in zip(states, scores))
            score = self._known[row]
        return score

    def _result(self, found: list[RootMove], depth: int, started: float) -> AlphaBetaResult:
        best = found[0]
        first = RootMove(self._with_table(best.moves, depth), best.score, best.exact, best.nodes)
        lines = (first, *found[1:])
        seconds = time.perf_counter() - started
        return AlphaBetaResult(best.moves[0] - 1, best.score, depth, int(self._control[NODES]), seconds, lines)

    def _with_table(self, moves: tuple[int, ...], depth: int) -> tuple[int, ...]:
        """Lengthen a line, which ends where the table gave the answer, by the moves in the table; ``depth`` plies at most."""
        row = np.zeros(ROW, np.uint8)
        row[:] = self._stack.states[0]
        for hole in moves:
            play(row, hole - 1)
        line = list(moves)
        while len(line) < depth and len(self._table) and end_reason(row, self.ruleset.playout) == ONGOING:
            action = table_move(self._table, row.view(np.uint64))
            if action == NO_MOVE or not is_legal(row, action):
                break
            play(row, action)
            line.append(int(action) + 1)
        return tuple(line)
