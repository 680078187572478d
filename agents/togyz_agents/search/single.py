"""PUCT search of one position, for play and analysis: leaves are collected in batches, and the tree is kept from move to move."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from togyz_agents.search.batched import (
    PROOFS,
    Evaluator,
    is_finished,
    principal_variation,
    unusable,
)
from togyz_agents.search.leaves import MARGIN_SCALE, absorb, collect, known_margin
from togyz_agents.search.params import SearchConfig
from togyz_agents.search.puct import best_action, is_known, root_value
from togyz_agents.search.tree import (
    CHILD,
    CHILD_STATUS,
    CHILD_VALUE,
    CHILD_VISITS,
    DRAW_SUM,
    LOSS,
    MARGIN_SUM,
    PRIOR,
    ROOT,
    SIZE,
    STATUS,
    UNVISITED,
    VISITS,
    WIN,
    Tree,
    exact_value,
    is_bare,
    keep_subtree,
    new_tree,
    plant,
    plies_of,
    proof_of,
    state_of,
)
from togyz_env.errors import ConfigError, TogyzError
from togyz_env.position import Ruleset
from togyz_env.rng import new_streams
from togyz_env.rules import HOLES, STATE_SIZE

FullEvaluator = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""``(states uint8[B, 23]) -> (policy_logits float32[B, 9], win/draw/loss float32[B, 3], margin / 81 float32[B])``.

All for the side to move.
"""


def evaluate_fully(evaluator: FullEvaluator, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Call ``evaluator`` on ``states uint8[B, 23]``; return its outputs as the kernels need them.

    Raises:
        TogyzError: they have other shapes.
    """
    logits, outcomes, margins = (np.ascontiguousarray(output, np.float32) for output in evaluator(states))
    count = len(states)
    expected = (count, HOLES), (count, 3), (count,)
    if (logits.shape, outcomes.shape, margins.shape) != expected:
        raise TogyzError(f"evaluator: shapes {logits.shape}, {outcomes.shape} and {margins.shape}; expected {expected}")
    return logits, outcomes, margins


@dataclass(frozen=True)
class Line:
    """One move of the root and what is expected of it, for the side to move at the root.

    Attributes:
        moves: hole numbers, this move first, then the most visited line behind it.
        visits: simulations through it.
        prior: the network's probability.
        value: mean value in [-1, 1]; the network's first guess counts as none (0) while there are no visits.
        proof: "win", "draw" or "loss" for the side to move at the root, "" while open.
        draw: probability of a draw; 0 while there are no visits.
        margin: expected final stones minus the opponent's; 0 while there are no visits.
        proof_plies: plies from the root to the end along the proof.
    """

    moves: tuple[int, ...]
    visits: int
    prior: float
    value: float
    proof: str
    draw: float = 0.0
    margin: float = 0.0
    proof_plies: int = 0


@dataclass(frozen=True)
class Analysis:
    """What a search knows, for the side to move at the root.

    Attributes:
        visits: ``int32[9]``, simulations through each action.
        action: the action to play, 0..8; -1 where the game is over.
        value: root value in [-1, 1].
        outcome: probabilities of win, draw and loss; they agree with ``value``.
        margin: expected final stones minus the opponent's.
        proof: "win", "draw" or "loss" once proven, else "".
        proof_plies: plies to the end along the proof.
        lines: the best moves, best first: proven wins, open moves and draws by visits, proven losses.
        simulations: visits below the root, those of a kept tree included.
        seconds: time of this search.
        nodes: nodes in the tree.
    """

    visits: np.ndarray
    action: int
    value: float
    outcome: tuple[float, float, float]
    margin: float
    proof: str
    proof_plies: int
    lines: tuple[Line, ...]
    simulations: int
    seconds: float
    nodes: int


def with_outcome(evaluator: Evaluator) -> FullEvaluator:
    """Make a FullEvaluator of one that knows values only: no draws, no margin."""

    def evaluate(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        logits, value = evaluator(states)
        outcome = np.stack([(1 + value) / 2, np.zeros_like(value), (1 - value) / 2], axis=1).astype(np.float32)
        return logits, outcome, np.zeros_like(value)

    return evaluate


@dataclass
class SingleSearch:
    """Searches one game's positions, one after the other; what is known of the next position is kept.

    Not thread-safe, but ``stop`` may be called from another thread. Memory: 256 bytes a node, allocated as the tree grows.

    Args:
        evaluator: ``NetworkEvaluator.outputs``, or ``with_outcome`` of any Evaluator.
        config: search settings.
        ruleset: end rule and ply limit inside the tree.
        batch: most leaves evaluated at once; 1 searches leaf by leaf.
        batch_share: a batch is at most this share of the visits so far.
        max_nodes: the search ends when its tree holds so many.
    """

    evaluator: FullEvaluator
    config: SearchConfig = field(default_factory=SearchConfig)
    ruleset: Ruleset = field(default_factory=Ruleset)
    batch: int = 64
    batch_share: float = 0.02
    max_nodes: int = 4_000_000

    def __post_init__(self) -> None:
        """Prepare the kernels' arguments."""
        if self.batch < 1 or self.max_nodes < 3:
            raise ConfigError(f"search: batch {self.batch} and max_nodes {self.max_nodes}; expected at least 1 and 3")
        # sequential halving needs to know its budget beforehand: a search that can be stopped at any time uses PUCT
        self._params = self.config.params(self.ruleset)._replace(gumbel=False)
        self._streams = new_streams(0, 1)
        self._leaf_node = np.empty(self.batch, np.int64)
        self._leaf_state = np.empty((self.batch, STATE_SIZE), np.uint8)
        self._waiting = 0
        self._stop = threading.Event()
        self.forget()

    def forget(self) -> None:
        """Drop the tree."""
        self._tree = new_tree(1, min(1024, self.max_nodes))
        self._empty = True
        self._ply = 0

    def stop(self) -> None:
        """End the search that is going on after its current batch."""
        self._stop.set()

    def run(
        self,
        state: np.ndarray,
        ply: int,
        *,
        simulations: int | None = None,
        seconds: float | None = None,
        report: Callable[[Analysis], None] | None = None,
        every: float = 0.1,
        lines: int = 9,
    ) -> Analysis:
        """Search ``state uint8[23]``, ``ply`` plies into its game, until a limit, a proof or ``stop`` ends it.

        At least the position itself is evaluated, however short the time: there is always a move.

        Args:
            simulations: visits below the root, those of a kept tree included.
            seconds: time; at least one of the two limits must be given.
            report: called every ``every`` seconds with what is known so far.
            lines: moves that an Analysis lists.

        Raises:
            TogyzError: a state of another shape, no limit, a negative one, or an evaluator that breaks its contract.
        """
        if state.shape != (STATE_SIZE,):
            raise TogyzError(f"state: shape {state.shape}; expected ({STATE_SIZE},)")
        if simulations is None and seconds is None:
            raise TogyzError("search: no limit; give simulations or seconds")
        if (simulations is not None and simulations < 0) or (seconds is not None and not seconds >= 0):
            raise TogyzError(f"search: {simulations} simulations and {seconds} seconds; a limit cannot be below 0")
        started = time.perf_counter()
        self._stop.clear()
        self._move_to(state, ply)
        budget = self.max_nodes if simulations is None else simulations
        reported = started
        while True:
            now = time.perf_counter()
            visits = int(self._tree.ints[0, ROOT, VISITS])
            if visits > 0:  # without the root's evaluation there is no move
                if self._stop.is_set() or (seconds is not None and now - started >= seconds):
                    break
                if report is not None and now - reported >= every:
                    reported = now
                    report(self.found(now - started, lines))
            try:
                states = self.waiting_leaves(budget)
                if states is None:
                    break
                if len(states):
                    self.settle_leaves(*evaluate_fully(self.evaluator, states))
            except BaseException:
                self.forget()  # leaves may still be marked as waiting
                raise
        return self.found(time.perf_counter() - started, lines)

    def begin(self, state: np.ndarray, ply: int) -> None:
        """Make ``state uint8[23]`` the root of a search in steps: ``waiting_leaves``, evaluate, ``settle_leaves``, and so on."""
        self._move_to(state, ply)

    def waiting_leaves(self, budget: int) -> np.ndarray | None:
        """Collect the leaves to evaluate next, ``uint8[n, 23]`` until the next call; None once the search is over.

        ``n`` is 0 where the values of all leaves were known; go on then, without ``settle_leaves``.
        """
        if is_finished(self._tree.ints[0], budget, self._params) or not self._grow():
            return None
        ints, floats, bytes_ = (view[0] for view in self._tree)
        limit = max(1, min(self.batch, int(ints[ROOT, VISITS] * self.batch_share)))
        self._waiting = collect(ints, floats, bytes_, limit, budget, self._params, self._leaf_node, self._leaf_state)
        return self._leaf_state[: self._waiting]

    def settle_leaves(self, logits: np.ndarray, outcomes: np.ndarray, margins: np.ndarray) -> None:
        """Settle what ``waiting_leaves`` gave with its FullEvaluator's outputs.

        Raises:
            TogyzError: no search can use them.
        """
        ints, floats, bytes_ = (view[0] for view in self._tree)
        params, count = self._params, self._waiting
        bad = absorb(ints, floats, bytes_, count, self._leaf_node, logits, outcomes, margins, params, self._streams)
        if bad >= 0:
            raise unusable(self._leaf_state[bad])

    def _grow(self) -> bool:
        """Make room for another batch; False when the tree may not grow any more."""
        nodes = int(self._tree.ints.shape[1])
        if int(self._tree.ints[0, ROOT, SIZE]) + self.batch < nodes:
            return True
        if nodes >= self.max_nodes:
            return int(self._tree.ints[0, ROOT, SIZE]) < nodes
        larger = new_tree(1, min(2 * nodes + self.batch, self.max_nodes))
        larger.ints[0, :nodes] = self._tree.ints[0]
        self._tree = larger
        return True

    def _move_to(self, state: np.ndarray, ply: int) -> None:
        """Make ``state`` the root: of the kept tree, if the game has moved on by one or two plies, else of a new one."""
        ints, floats, bytes_ = (view[0] for view in self._tree)
        if not self._empty:
            path = self._path_to(state, ply - self._ply)
            if path is not None:
                remap = np.empty(len(ints), np.int32)
                for action in path:
                    keep_subtree(ints, action, remap)
                self._ply = ply
                return
        self._empty = False
        self._ply = ply
        plant(ints, floats, bytes_, state, ply, self._params.playout, self._params.max_plies)

    def _path_to(self, state: np.ndarray, plies: int) -> tuple[int, ...] | None:
        """Actions that lead from the root to an evaluated node with ``state``, ``plies`` (0..2) below it."""
        ints, _, bytes_ = (view[0] for view in self._tree)
        paths: list[tuple[int, tuple[int, ...]]] = [(ROOT, ())]
        for _ in range(plies):
            paths = [
                (int(ints[node, CHILD + a]), (*path, a))
                for node, path in paths
                if ints[node, VISITS] > 0 and not is_bare(ints, node)
                for a in range(HOLES)
                if ints[node, CHILD + a] >= 0
            ]
        for node, path in paths if 0 <= plies <= 2 else []:
            if ints[node, VISITS] > 0 and not is_bare(ints, node) and np.array_equal(state_of(bytes_, node), state):
                return path
        return None

    def found(self, seconds: float = 0.0, count: int = 9) -> Analysis:
        """What the search knows by now, with the best ``count`` lines."""
        tree = self._tree
        ints, floats = tree.ints[0], tree.floats[0]
        status = int(ints[ROOT, STATUS])
        visits = int(ints[ROOT, VISITS])
        value = float(root_value(ints, floats, self._params))
        known = is_known(status, self._params.solver)
        proof = PROOFS[int(proof_of(status))] if known else ""
        if visits == 0:
            draw, margin = (1.0 if proof == "draw" else 0.0), 0.0
            if known:
                margin = float(known_margin(ints, floats, tree.bytes[0], ROOT, self._params.playout)) * MARGIN_SCALE
            child_visits = np.zeros(HOLES, np.int32)
            action = -1
            lines: tuple[Line, ...] = ()
        else:
            draw = float(proof == "draw") if known else float(floats[ROOT, DRAW_SUM]) / visits
            margin = float(floats[ROOT, MARGIN_SUM]) / visits * MARGIN_SCALE
            child_visits = ints[ROOT, CHILD_VISITS : CHILD_VISITS + HOLES].copy()
            action = int(best_action(ints, floats, ROOT))
            lines = tuple(self._line(tree, a) for a in self._ranked()[:count])
        draw = min(draw, 1.0 - abs(value))
        outcome = ((1.0 - draw + value) / 2, draw, (1.0 - draw - value) / 2)
        simulations = int(child_visits.sum())
        return Analysis(
            child_visits,
            action,
            value,
            outcome,
            margin,
            proof,
            int(plies_of(status)) if known else 0,
            lines,
            simulations,
            seconds,
            int(ints[ROOT, SIZE]),
        )

    def _ranked(self) -> list[int]:
        """Legal actions of the root in the order of ``best_action``, which comes first."""
        ints, floats = self._tree.ints[0], self._tree.floats[0]

        def key(action: int) -> tuple[int, int, float]:
            status, n = int(ints[ROOT, CHILD_STATUS + action]), int(ints[ROOT, CHILD_VISITS + action])
            value = float(floats[ROOT, CHILD_VALUE + action]) / n if n else float(floats[ROOT, PRIOR + action])
            if proof_of(status) == LOSS:  # the opponent's
                return 2, -int(plies_of(status)), value
            return (0, int(plies_of(status)), value) if proof_of(status) == WIN else (1, n, value)

        return sorted((a for a in range(HOLES) if ints[ROOT, CHILD + a] >= UNVISITED), key=key, reverse=True)

    def _line(self, tree: Tree, action: int) -> Line:
        ints, floats = tree.ints[0], tree.floats[0]
        child = int(ints[ROOT, CHILD + action])
        visits = int(ints[ROOT, CHILD_VISITS + action])
        value = float(floats[ROOT, CHILD_VALUE + action]) / visits if visits else 0.0
        draw, margin, proof, proof_plies = 0.0, 0.0, "", 0
        moves = principal_variation(tree, 0, action)
        if child >= 0:
            status = int(ints[child, STATUS])
            if is_known(status, self._params.solver):
                value = -float(exact_value(status))
                proof = {"win": "loss", "loss": "win", "draw": "draw"}[PROOFS[int(proof_of(status))]]
                proof_plies = int(plies_of(status)) + 1
                draw = float(proof == "draw")
                margin = -float(known_margin(ints, floats, tree.bytes[0], child, self._params.playout)) * MARGIN_SCALE
            elif (count := int(ints[child, VISITS])) > 0:
                draw = min(float(floats[child, DRAW_SUM]) / count, 1.0 - abs(value))
                margin = -float(floats[child, MARGIN_SUM]) / count * MARGIN_SCALE
        return Line(moves, visits, float(floats[ROOT, PRIOR + action]), value, proof, draw, margin, proof_plies)
