"""Selection by PUCT, what is done to the root's policy, and what is read from a finished search.

    score(a) = Q(a) + c(N) P(a) sqrt(N) / (1 + n(a))        (Silver et al., Science 2018; AlphaZero)
    c(N)     = exploration + exploration_growth * log(1 + N / exploration_base)
    Q(a)     = mean of the edge, or for an unvisited edge the node's own mean minus
               fpu_reduction * sqrt(policy mass already visited)                     (KataGo, arXiv 1902.10565)

``N`` counts the node's visits, its own evaluation included; ``n(a)`` the edge's.
"""

from __future__ import annotations

import math

import numpy as np

from togyz_agents.search import gumbel
from togyz_agents.search.params import SearchParams
from togyz_agents.search.tree import (
    CHILD,
    CHILD_STATUS,
    CHILD_VALUE,
    CHILD_VISITS,
    ILLEGAL,
    LOSS,
    PRIOR,
    ROOT,
    ROOT_PLY,
    STATUS,
    UNKNOWN,
    UNVISITED,
    VALUE,
    VISITS,
    WIN,
    add_child,
    exact_value,
    float32,
    plies_of,
    proof_of,
)
from togyz_env.rng import gamma
from togyz_env.rules import HOLES, int64, kernel

NO_LEAF = -1


@kernel
def exploration(params: SearchParams, visits: int) -> float:
    """The factor c(N) of a node with ``visits`` visits."""
    if params.exploration_growth == 0.0:
        return params.exploration
    return params.exploration + params.exploration_growth * math.log(1.0 + visits / params.exploration_base)


@kernel
def select_action(ints: np.ndarray, floats: np.ndarray, node: int, params: SearchParams, forced: bool) -> int:
    """Action of the highest PUCT score at an expanded ``node``; the lowest action wins a tie.

    A child proven lost for the opponent is taken at once and one proven won for him is passed over while another remains. With
    ``forced`` (root of a full search) a visited child below ``sqrt(forced_playouts * P * (N - 1))`` visits comes first, N - 1
    being the visits of all children.
    """
    visits = ints[node, VISITS]
    mass = np.float32(0.0)
    for action in range(HOLES):
        prior = floats[node, PRIOR + action]
        mass += prior if ints[node, CHILD_VISITS + action] > 0 else np.float32(0.0)
    unvisited = floats[node, VALUE] / np.float32(visits) - np.float32(params.fpu_reduction) * np.sqrt(mass)
    scale = np.float32(exploration(params, visits) * math.sqrt(visits))
    best = -1
    best_score = np.float32(-np.inf)
    lost = -1
    fallback = -1
    # no branches: which way they go is as good as random, and a wrong guess costs more than all the arithmetic of an action
    for action in range(HOLES - 1, -1, -1):
        n = ints[node, CHILD_VISITS + action]
        legal = ints[node, CHILD + action] != ILLEGAL
        proof = proof_of(ints[node, CHILD_STATUS + action]) if params.solver else UNKNOWN
        lost = action if legal and proof == LOSS else lost
        fallback = action if legal and proof == WIN else fallback
        mean = floats[node, CHILD_VALUE + action] / np.float32(max(n, 1))
        score = (mean if n > 0 else unvisited) + scale * floats[node, PRIOR + action] / np.float32(1 + n)
        score = score if legal and proof != WIN else np.float32(-np.inf)
        best = action if score >= best_score and score > np.float32(-np.inf) else best
        best_score = max(score, best_score)
    if lost >= 0:
        return lost
    if forced:
        for action in range(HOLES):
            n = ints[node, CHILD_VISITS + action]
            open_ = not params.solver or proof_of(ints[node, CHILD_STATUS + action]) != WIN
            if n > 0 and open_ and n * n < params.forced_playouts * floats[node, PRIOR + action] * (visits - 1):
                return action
    return best if best >= 0 else fallback


@kernel
def is_known(status: int, solver: bool) -> bool:
    """Tell whether a node's value is exact: its game is over or, with ``solver``, it is proven."""
    return proof_of(status) != UNKNOWN and (solver or plies_of(status) == 0)


@kernel
def descend(ints: np.ndarray, floats: np.ndarray, bytes_: np.ndarray, params: SearchParams, simulations: int, forced: bool) -> int:
    """Walk from the root to a leaf, adding it if it is new; return its index.

    The leaf is unevaluated (visits 0) or its value is known exactly (proof).
    """
    node = ROOT
    ply = int64(ints[ROOT, ROOT_PLY])
    while True:
        if ints[node, VISITS] == 0:
            return node
        if node != ROOT and is_known(ints[node, STATUS], params.solver):
            return node
        if not params.gumbel:
            action = select_action(ints, floats, node, params, forced and node == ROOT)
        elif node == ROOT:
            action = gumbel.select_root(ints, floats, params, simulations)
        else:
            action = gumbel.select_interior(ints, floats, node, params)
        child = ints[node, CHILD + action]
        ply += 1
        if child == UNVISITED:
            return add_child(ints, floats, bytes_, node, action, ply, params.playout, params.max_plies, params.solver)
        node = child


@kernel
def prepare_root(
    ints: np.ndarray, floats: np.ndarray, params: SearchParams, streams: np.ndarray, stream: int, explore: bool
) -> None:
    """Make an expanded root explore: policy temperature first, then Dirichlet noise over legal actions; else leave it as it is.

    With ``noise_shaped`` half of the noise's concentration follows the policy (KataGo's shaped Dirichlet noise); the total
    concentration is ``noise_alpha`` times the number of legal actions.
    """
    if params.gumbel:
        gumbel.draw_gumbel(floats, streams, stream, explore)
        return
    if not explore:
        return
    legal = 0
    total = 0.0
    top = 0.0
    for action in range(HOLES):
        top = max(top, np.float64(floats[ROOT, PRIOR + action]))
    for action in range(HOLES):
        p = np.float64(floats[ROOT, PRIOR + action])
        if params.root_temperature != 1.0 and p > 0.0:
            p = (p / top) ** (1.0 / params.root_temperature)  # the top one stays 1: a low temperature leaves something
        legal += ints[ROOT, CHILD + action] != ILLEGAL
        floats[ROOT, PRIOR + action] = p
        total += p
    for action in range(HOLES):
        floats[ROOT, PRIOR + action] /= np.float32(total)
    if params.noise_fraction == 0.0:
        return
    draws = np.zeros(HOLES)
    shape = np.zeros(HOLES)
    if params.noise_shaped:
        mean = 0.0
        for action in range(HOLES):
            if ints[ROOT, CHILD + action] != ILLEGAL:
                shape[action] = math.log(min(np.float64(floats[ROOT, PRIOR + action]), 0.01) + 1e-20)
                mean += shape[action] / legal
        above = 0.0
        for action in range(HOLES):
            if ints[ROOT, CHILD + action] != ILLEGAL:
                shape[action] = max(0.0, shape[action] - mean)
                above += shape[action]
        for action in range(HOLES):
            shape[action] = shape[action] / above if above > 0.0 else 1.0 / legal
    sum_draws = 0.0
    for action in range(HOLES):
        if ints[ROOT, CHILD + action] != ILLEGAL:
            alpha = params.noise_alpha
            if params.noise_shaped:
                alpha = 0.5 * params.noise_alpha + 0.5 * params.noise_alpha * legal * shape[action]
            draws[action] = gamma(streams, stream, alpha)
            sum_draws += draws[action]
    for action in range(HOLES):
        if ints[ROOT, CHILD + action] != ILLEGAL and sum_draws > 0.0:
            mixed = (1.0 - params.noise_fraction) * floats[ROOT, PRIOR + action] + params.noise_fraction * draws[action] / sum_draws
            floats[ROOT, PRIOR + action] = mixed


@kernel
def root_policy(ints: np.ndarray, floats: np.ndarray, params: SearchParams, forced: bool, out: np.ndarray) -> None:
    """Write the search's policy into ``out float32[9]``: visit shares (Gumbel: the improved policy), one-hot on a proven win.

    Moves that are proven lost get nothing while another is left: their visits only say how long the proof took.
    After a search with ``forced`` playouts those that PUCT would not have chosen are taken back, and a child left with one
    visit is dropped (policy target pruning, KataGo, arXiv 1902.10565, section 3.2).
    """
    out[:] = 0.0
    if params.gumbel and proof_of(ints[ROOT, STATUS]) != WIN:
        gumbel.improved_policy(ints, floats, params, out)
        return
    if params.solver and proof_of(ints[ROOT, STATUS]) == WIN:
        out[best_action(ints, floats, ROOT)] = 1.0
        return
    drop_lost = params.solver and proof_of(ints[ROOT, STATUS]) != LOSS
    best = 0
    for action in range(HOLES):
        if not (drop_lost and proof_of(ints[ROOT, CHILD_STATUS + action]) == WIN):
            out[action] = ints[ROOT, CHILD_VISITS + action]
        if out[action] > out[best]:
            best = action
    if forced and params.forced_playouts > 0.0 and out[best] > 0.0:
        visits = ints[ROOT, VISITS]
        scale = exploration(params, visits) * math.sqrt(visits)
        n = np.float64(out[best])
        target = floats[ROOT, CHILD_VALUE + best] / n + scale * floats[ROOT, PRIOR + best] / (1.0 + n)
        for action in range(HOLES):
            n = np.float64(out[action])
            if action == best or n == 0.0:
                continue
            q = floats[ROOT, CHILD_VALUE + action] / n
            prior = np.float64(floats[ROOT, PRIOR + action])
            forced_visits = math.floor(math.sqrt(params.forced_playouts * prior * (visits - 1)))
            floor_visits = max(n - forced_visits, 0.0)
            # fewest visits that keep the score below the best child's
            gap = target - q
            needed = min(n, scale * prior / gap - 1.0) if gap > 0.0 else n
            kept = min(n, max(floor_visits, math.ceil(needed)))
            out[action] = kept if kept > 1.0 else 0.0
    total = np.float32(0.0)
    for action in range(HOLES):
        total += out[action]
    if total > 0.0:
        for action in range(HOLES):
            out[action] /= total
    elif drop_lost and ints[ROOT, VISITS] > 1:  # all that was searched is lost, and something was not searched
        out[best_action(ints, floats, ROOT)] = 1.0


@kernel
def best_action(ints: np.ndarray, floats: np.ndarray, node: int) -> int:
    """The best move of an expanded ``node``: the shortest proven win, else the most visited not proven lost, else the longest loss.

    Visit ties go to the higher mean value (without visits: the higher prior), then to the lower action.
    """
    best = -1
    best_rank = -1
    best_visits = -1
    best_value = -math.inf
    for action in range(HOLES):
        if ints[node, CHILD + action] == ILLEGAL:
            continue
        status = ints[node, CHILD_STATUS + action]
        n = int64(ints[node, CHILD_VISITS + action])
        value = floats[node, CHILD_VALUE + action] / n if n > 0 else floats[node, PRIOR + action]
        rank = 1
        if proof_of(status) == LOSS:
            rank = 2
            n = -plies_of(status)
        elif proof_of(status) == WIN:
            rank = 0
            n = plies_of(status)
        if rank > best_rank or (rank == best_rank and (n > best_visits or (n == best_visits and value > best_value))):
            best = action
            best_rank = rank
            best_visits = n
            best_value = value
    return best


@kernel
def move_to_play(ints: np.ndarray, floats: np.ndarray, params: SearchParams) -> int:
    """The move that a finished search plays: ``best_action``, or the Gumbel choice while nothing is proven."""
    if params.gumbel and not is_known(ints[ROOT, STATUS], params.solver):
        return gumbel.final_action(ints, floats, params)
    return best_action(ints, floats, ROOT)


@kernel
def root_value(ints: np.ndarray, floats: np.ndarray, params: SearchParams) -> float:
    """Value of the search for the side to move at the root, in [-1, 1]; exact once proven, 0 before any visit."""
    if is_known(ints[ROOT, STATUS], params.solver):
        return exact_value(ints[ROOT, STATUS])
    if ints[ROOT, VISITS] == 0:
        return float32(0.0)
    return float32(floats[ROOT, VALUE] / np.float32(ints[ROOT, VISITS]))
