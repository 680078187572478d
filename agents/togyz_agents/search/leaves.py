"""Leaves of one tree in batches: collecting them before the network is asked, and settling them after.

While a leaf waits for the network, the edges that led to it count one more visit, with the value expected of them, so that the next
descent looks elsewhere (Liu et al., Watch the unobserved, ICLR 2020; counting it as lost, a virtual loss, played 60 Elo weaker
at 400 simulations). A batch never exceeds a share of the visits so far: the first simulations are as careful as one leaf at a time.
"""

from __future__ import annotations

import numpy as np

from togyz_agents.search.batched import (
    is_finished,
    is_usable,
    settle,
    softmax,
)
from togyz_agents.search.lookahead import winning_action
from togyz_agents.search.params import SearchParams
from togyz_agents.search.puct import descend, is_known, prepare_root
from togyz_agents.search.tree import (
    ACTION,
    CHILD_VALUE,
    CHILD_VISITS,
    DRAW,
    DRAW_SUM,
    MARGIN_SUM,
    NO_PARENT,
    PARENT,
    PENDING,
    ROOT,
    SIZE,
    STATUS,
    VALUE,
    VISITS,
    backup,
    exact_value,
    is_bare,
    plies_of,
    proof_of,
    state_of,
)
from togyz_env.rules import BLACK, HOLES, TO_MOVE, end_reason, final_margin, kernel, play

MARGIN_SCALE = 81.0
KNOWN_LEAVES = 4096
"""Simulations between two looks at the clock when none of them needs the network: some milliseconds."""


@kernel
def count_waiting(ints: np.ndarray, floats: np.ndarray, leaf: int, params: SearchParams) -> None:
    """Count one more visit on every edge from the root to ``leaf``, with the value that is expected of the edge so far."""
    node = leaf
    while ints[node, PARENT] != NO_PARENT:
        parent = ints[node, PARENT]
        edge = ints[node, ACTION]
        n = ints[parent, CHILD_VISITS + edge]
        if n > 0:
            expected = floats[parent, CHILD_VALUE + edge] / np.float32(n)
        else:
            expected = floats[parent, VALUE] / np.float32(ints[parent, VISITS]) - np.float32(params.fpu_reduction)
        ints[parent, CHILD_VISITS + edge] = n + 1
        floats[parent, CHILD_VALUE + edge] += expected
        node = parent


@kernel
def take_back(ints: np.ndarray, floats: np.ndarray, leaf: int) -> None:
    """Give every edge from the root to ``leaf`` the visits and values of the node behind it again, exactly."""
    node = leaf
    while ints[node, PARENT] != NO_PARENT:
        parent = ints[node, PARENT]
        edge = ints[node, ACTION]
        ints[parent, CHILD_VISITS + edge] = ints[node, VISITS]
        floats[parent, CHILD_VALUE + edge] = -floats[node, VALUE]
        node = parent


@kernel
def _add_sums(ints: np.ndarray, floats: np.ndarray, leaf: int, draw: float, margin: float) -> None:
    """Add a leaf's draw probability and margin (for its side to move) to the sums of all nodes above and of itself."""
    node = leaf
    m = np.float32(margin)
    while True:
        floats[node, DRAW_SUM] += np.float32(draw)
        floats[node, MARGIN_SUM] += m
        if ints[node, PARENT] == NO_PARENT:
            return
        m = -m
        node = ints[node, PARENT]


@kernel
def known_margin(ints: np.ndarray, floats: np.ndarray, bytes_: np.ndarray, node: int, playout: bool) -> float:
    """Margin / 81 of a node whose value is exact: the score of a finished game, else the mean so far of a proven node."""
    if is_bare(ints, node):
        state = state_of(bytes_, node).copy()
        side = state[TO_MOVE]
        if plies_of(ints[node, STATUS]) == 1:
            play(state, winning_action(state, playout))
        margin = final_margin(state, end_reason(state, playout))
        return (-margin if side == BLACK else margin) / MARGIN_SCALE
    return float(floats[node, MARGIN_SUM] / max(ints[node, VISITS], 1))


@kernel
def collect(
    ints: np.ndarray,
    floats: np.ndarray,
    bytes_: np.ndarray,
    limit: int,
    simulations: int,
    params: SearchParams,
    leaf_node: np.ndarray,
    leaf_state: np.ndarray,
) -> int:
    """Collect up to ``limit`` leaves; return how many.

    It stops early at the budget, a full tree, a leaf already waiting, or after KNOWN_LEAVES simulations that need no network.
    """
    count = 0
    known = 0
    while count < limit and known < KNOWN_LEAVES:
        waiting = ints[ROOT, VISITS] + count > simulations or ints[ROOT, SIZE] >= ints.shape[0]
        if is_finished(ints, simulations, params) or waiting:
            break
        node = descend(ints, floats, bytes_, params, simulations, False)
        status = ints[node, STATUS]
        if is_known(status, True):
            margin = known_margin(ints, floats, bytes_, node, params.playout)
            backup(ints, floats, node, exact_value(status), params.solver)
            _add_sums(ints, floats, node, 1.0 if proof_of(status) == DRAW else 0.0, margin)
            known += 1
            continue
        if ints[node, PENDING] == 1:
            break
        ints[node, PENDING] = 1
        count_waiting(ints, floats, node, params)
        leaf_node[count] = node
        leaf_state[count] = state_of(bytes_, node)
        count += 1
        if node == ROOT:
            break
    return count


@kernel
def absorb(
    ints: np.ndarray,
    floats: np.ndarray,
    bytes_: np.ndarray,
    count: int,
    leaf_node: np.ndarray,
    logits: np.ndarray,
    outcomes: np.ndarray,
    margins: np.ndarray,
    params: SearchParams,
    streams: np.ndarray,
) -> int:
    """Settle the collected leaves; return the first row whose evaluation is unusable, or -1."""
    policy = np.empty(HOLES, np.float32)
    bad = -1
    for i in range(count):
        take_back(ints, floats, leaf_node[i])
    for i in range(count):
        node = leaf_node[i]
        ints[node, PENDING] = 0
        value = outcomes[i, 0] - outcomes[i, 2]
        sound = np.isfinite(outcomes[i, 1]) and np.isfinite(margins[i])
        if not is_usable(bytes_, node, logits[i], value) or not sound:
            bad = i if bad < 0 else bad
            continue
        softmax(logits[i], policy)
        settle(ints, floats, bytes_, node, policy, value, params)
        _add_sums(ints, floats, node, outcomes[i, 1], margins[i])
        if node == ROOT:
            prepare_root(ints, floats, params, streams, 0, False)
    return bad
