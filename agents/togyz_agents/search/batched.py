"""PUCT search of many positions at once: each step takes one leaf from each tree and evaluates all in one batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from togyz_agents.search import cache as cache_
from togyz_agents.search.cache import Cache, new_cache
from togyz_agents.search.params import SearchConfig, SearchParams
from togyz_agents.search.puct import (
    NO_LEAF,
    best_action,
    descend,
    is_known,
    move_to_play,
    prepare_root,
    root_policy,
    root_value,
)
from togyz_agents.search.tree import (
    CHILD,
    CHILD_VISITS,
    DRAW,
    LOSS,
    ROOT,
    STATE_BYTE,
    STATUS,
    UNKNOWN,
    VISITS,
    WIN,
    Tree,
    backup,
    exact_value,
    expand,
    new_tree,
    plant,
    proof_of,
    state_of,
)
from togyz_env.errors import TogyzError
from togyz_env.position import Ruleset
from togyz_env.rng import new_streams
from togyz_env.rules import HOLES, STATE_SIZE, TO_MOVE, kernel

Evaluator = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""``(states uint8[B, 23]) -> (policy_logits float32[B, 9], value float32[B])``, both for the side to move.

The value is in [-1, 1]; an illegal action's logit is -inf, and some legal action's is not.
"""

LARGEST_VALUE = 1.001
"""Above 1 by what rounding explains."""

PROOFS = {UNKNOWN: "", LOSS: "loss", DRAW: "draw", WIN: "win"}


@kernel
def softmax(logits: np.ndarray, policy: np.ndarray) -> None:
    """Write probabilities of ``logits float32[9]`` into ``policy float32[9]``; a logit of -inf gives exactly 0."""
    top = np.float32(-np.inf)
    for action in range(HOLES):
        top = max(top, logits[action])
    total = np.float32(0.0)
    for action in range(HOLES):
        policy[action] = np.exp(logits[action] - top)
        total += policy[action]
    for action in range(HOLES):
        policy[action] /= total


@kernel
def is_usable(bytes_: np.ndarray, node: int, logits: np.ndarray, value: float) -> bool:
    """Tell whether an evaluation of ``node`` is within [-1, 1], without NaN, and gives legal actions alone some probability."""
    if not abs(value) <= LARGEST_VALUE:
        return False
    row = STATE_BYTE + np.int64(bytes_[node, STATE_BYTE + TO_MOVE]) * HOLES
    some = False
    for action in range(HOLES):
        if np.isnan(logits[action]) or logits[action] == np.inf:
            return False
        if bytes_[node, row + action] != 0:
            some = some or logits[action] > -np.inf
        elif logits[action] > -np.inf:
            return False
    return some


@kernel
def settle(
    ints: np.ndarray, floats: np.ndarray, bytes_: np.ndarray, node: int, policy: np.ndarray, value: float, params: SearchParams
) -> None:
    """Expand an evaluated leaf with ``policy float32[9]`` and carry ``value`` up."""
    expand(ints, floats, bytes_, node, policy)
    backup(ints, floats, node, value, params.solver)


@kernel
def is_finished(ints: np.ndarray, simulations: int, params: SearchParams) -> bool:
    """Tell whether a tree needs no more simulations: enough visits below the root, or its value is exact."""
    return is_known(ints[ROOT, STATUS], params.solver) or ints[ROOT, VISITS] > simulations


@kernel
def next_leaf(
    ints: np.ndarray, floats: np.ndarray, bytes_: np.ndarray, simulations: int, params: SearchParams, forced: bool, cache: Cache
) -> int:
    """Search a tree on until a leaf needs the network; return it, or NO_LEAF when the search is finished.

    Leaves of known value and cached ones are settled on the way; an unevaluated root is always returned, for the caller to
    prepare it.
    """
    while True:
        if is_finished(ints, simulations, params):
            return NO_LEAF
        node = descend(ints, floats, bytes_, params, simulations, forced)
        status = ints[node, STATUS]
        if is_known(status, True):
            backup(ints, floats, node, exact_value(status), params.solver)
            continue
        if node == ROOT:
            return node
        place = cache_.find(cache, ints, node)
        if place < 0:
            return node
        settle(ints, floats, bytes_, node, cache_.policy_at(cache, place), cache_.value_at(cache, place), params)


@kernel
def gather(
    tree: Tree,
    budgets: np.ndarray,
    params: SearchParams,
    forced: bool,
    cache: Cache,
    leaf_slot: np.ndarray,
    leaf_node: np.ndarray,
    leaf_state: np.ndarray,
) -> int:
    """Collect one leaf from each unfinished tree into the first rows of the ``leaf_`` arrays; return how many."""
    count = 0
    for g in range(budgets.shape[0]):
        bytes_ = tree.bytes[g]
        node = next_leaf(tree.ints[g], tree.floats[g], bytes_, budgets[g], params, forced, cache)
        if node != NO_LEAF:
            leaf_slot[count] = g
            leaf_node[count] = node
            leaf_state[count] = state_of(bytes_, node)
            count += 1
    return count


@kernel
def absorb(
    ints: np.ndarray,
    floats: np.ndarray,
    bytes_: np.ndarray,
    node: int,
    logits: np.ndarray,
    value: float,
    params: SearchParams,
    cache: Cache,
    policy: np.ndarray,
) -> bool:
    """Settle a leaf and remember its evaluation; False, and nothing done, if no search can use it. ``policy`` is scratch."""
    if not is_usable(bytes_, node, logits, value):
        return False
    softmax(logits, policy)
    cache_.store(cache, ints, node, policy, value)
    settle(ints, floats, bytes_, node, policy, value, params)
    return True


@kernel
def absorb_all(
    tree: Tree,
    params: SearchParams,
    streams: np.ndarray,
    explore: bool,
    cache: Cache,
    count: int,
    leaf_slot: np.ndarray,
    leaf_node: np.ndarray,
    logits: np.ndarray,
    values: np.ndarray,
) -> int:
    """Settle ``count`` evaluated leaves; return the first row whose evaluation is unusable, or -1."""
    policy = np.empty(HOLES, np.float32)
    for i in range(count):
        g = leaf_slot[i]
        node = leaf_node[i]
        ints = tree.ints[g]
        floats = tree.floats[g]
        if not absorb(ints, floats, tree.bytes[g], node, logits[i], values[i], params, cache, policy):
            return i
        if node == ROOT:
            prepare_root(ints, floats, params, streams, g, explore)
    return -1


@dataclass(frozen=True)
class SearchResult:
    """What a search of ``B`` positions found; everything is for the side to move at each root.

    Attributes:
        visits: ``int32[B, 9]``, simulations through each action; 0 on illegal ones.
        policy: ``float32[B, 9]``, visit shares after pruning; one-hot on a proven win; all 0 where the game is over.
        value: ``float32[B]``, root value in [-1, 1].
        action: ``int64[B]``, the action to play; -1 where the game is over.
        proof: for each root "win", "draw", "loss" or "" (not proven).
        principal_variation: for each root the line of best moves, as hole numbers 1..9.
    """

    visits: np.ndarray
    policy: np.ndarray
    value: np.ndarray
    action: np.ndarray
    proof: tuple[str, ...]
    principal_variation: tuple[tuple[int, ...], ...]


def unusable(state: np.ndarray) -> TogyzError:
    """The error for an evaluation that no search can use."""
    return TogyzError(
        f"evaluator: NaN, infinite or all on illegal moves for state {state.tolist()}; expected a value in [-1, 1], logits below "
        f"+inf on legal moves and -inf on all others; the network is damaged"
    )


def evaluate(evaluator: Evaluator, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Call ``evaluator`` on ``states uint8[B, 23]``; return ``(logits float32[B, 9], values float32[B])`` as the kernels need them.

    Raises:
        TogyzError: its outputs have other shapes.
    """
    logits, values = (np.ascontiguousarray(output, np.float32) for output in evaluator(states))
    count = len(states)
    if logits.shape != (count, HOLES) or values.shape != (count,):
        raise TogyzError(f"evaluator: shapes {logits.shape} and {values.shape}; expected {(count, HOLES)} and {(count,)}")
    return logits, values


@dataclass
class BatchedSearch:
    """Searches batches of positions; memory is 256 bytes a simulation and slot, kept between calls.

    Args:
        evaluator: network or any callable of the Evaluator contract.
        config: search settings.
        ruleset: end rule and ply limit inside the tree.
        explore: add root noise, root temperature and forced playouts (self-play); off for play.
        seed: for the noise only; a search without noise draws nothing.
        cache_places: size of the evaluation cache, 0 for none.
    """

    evaluator: Evaluator
    config: SearchConfig = field(default_factory=SearchConfig)
    ruleset: Ruleset = field(default_factory=Ruleset)
    explore: bool = False
    seed: int = 0
    cache_places: int = 0
    tree: Tree = field(init=False, repr=False)
    evaluations: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Prepare the kernels' arguments."""
        self._params = self.config.params(self.ruleset)
        self._cache = new_cache(self.cache_places)
        self.tree = new_tree(0, 0)

    def forget(self) -> None:
        """Empty the cache: the evaluator's weights have changed."""
        self._cache.key[:] = 0

    def run(self, states: np.ndarray, plies: np.ndarray | int, simulations: int) -> SearchResult:
        """Search each of ``states uint8[B, 23]``, ``plies`` (``int[B]`` or one number) into its game.

        A finished position costs nothing and gets zero visits and its exact value. With ``simulations=0`` only the network's
        policy is known: no visits, and the action of the highest prior.

        Raises:
            TogyzError: states of another shape, a negative number of simulations, or an evaluator that breaks its contract.
        """
        if states.ndim != 2 or states.shape[1] != STATE_SIZE:
            raise TogyzError(f"states: shape {states.shape}; expected (B, {STATE_SIZE})")
        if simulations < 0:
            raise TogyzError(f"simulations: {simulations} is below 0")
        count = states.shape[0]
        if self.tree.ints.shape[0] < count or self.tree.ints.shape[1] < simulations + 3:
            self.tree = new_tree(count, simulations + 3)
        tree = self.tree
        ply_of = np.broadcast_to(np.asarray(plies, np.int64), (count,))
        for g in range(count):
            plant(tree.ints[g], tree.floats[g], tree.bytes[g], states[g], ply_of[g], self._params.playout, self._params.max_plies)
        streams = new_streams(self.seed, count)
        budgets = np.full(count, simulations, np.int64)
        leaf_slot = np.empty(count, np.int64)
        leaf_node = np.empty(count, np.int64)
        leaf_state = np.empty((count, STATE_SIZE), np.uint8)
        while True:
            n = gather(tree, budgets, self._params, self.explore, self._cache, leaf_slot, leaf_node, leaf_state)
            if n == 0:
                break
            logits, values = evaluate(self.evaluator, leaf_state[:n])
            self.evaluations += n
            bad = absorb_all(tree, self._params, streams, self.explore, self._cache, n, leaf_slot, leaf_node, logits, values)
            if bad >= 0:
                raise unusable(leaf_state[bad])
        return self._result(count)

    def _result(self, count: int) -> SearchResult:
        tree = self.tree
        policy = np.zeros((count, HOLES), np.float32)
        value = np.zeros(count, np.float32)
        action = np.full(count, -1, np.int64)
        visits = np.zeros((count, HOLES), np.int32)
        for g in range(count):
            ints, floats = tree.ints[g], tree.floats[g]
            value[g] = root_value(ints, floats, self._params)
            if ints[ROOT, VISITS] > 0:
                root_policy(ints, floats, self._params, self.explore, policy[g])
                action[g] = move_to_play(ints, floats, self._params)
                visits[g] = ints[ROOT, CHILD_VISITS : CHILD_VISITS + HOLES]
        proof = tuple(PROOFS[int(proof_of(tree.ints[g, ROOT, STATUS]))] for g in range(count))
        lines = tuple(principal_variation(tree, g, int(action[g])) for g in range(count))
        return SearchResult(visits, policy, value, action, proof, lines)


def principal_variation(tree: Tree, g: int, action: int) -> tuple[int, ...]:
    """Line of slot ``g`` as hole numbers: the root's ``action`` (empty for -1), then each node's best action as far as known."""
    ints, floats = tree.ints[g], tree.floats[g]
    line: list[int] = []
    node = ROOT
    while action >= 0:
        line.append(action + 1)
        node = int(ints[node, CHILD + action])
        if node < 0 or ints[node, VISITS] == 0 or is_known(int(ints[node, STATUS]), False):
            break
        known = proof_of(int(ints[node, STATUS])) != UNKNOWN or ints[node, CHILD_VISITS : CHILD_VISITS + HOLES].any()
        action = int(best_action(ints, floats, node)) if known else -1
    return tuple(line)
