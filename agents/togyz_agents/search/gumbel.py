"""Gumbel root selection with sequential halving, and completed Q-values (Danihelka et al., ICLR 2022), as ``search.root: gumbel``.

    sigma(q)      = (visit_offset + max_b n(b)) * scale * (q + 1) / 2
    completed Q   = Q(a) of a visited action, else the mixed value
    v_mix         = (v + N / sum_visited P * sum_visited P Q) / (1 + N)
    improved      = softmax(log P + sigma(completed Q)), the policy target
    root          = among the actions with as many visits as the halving's turn wants, the best of g + log P + sigma(Q)
    elsewhere     = argmax of improved(a) - n(a) / (1 + N)

Nothing is drawn below the root, and without exploration the Gumbel variables ``g`` are 0. A slot's last node is scratch: GUMBEL
there holds the variables of the root.
"""

from __future__ import annotations

import math

import numpy as np

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
    VALUE,
    VISITS,
    WIN,
    proof_of,
)
from togyz_env.rng import uniform
from togyz_env.rules import HOLES, kernel

GUMBEL = 0
SCORE = 9


@kernel
def draw_gumbel(floats: np.ndarray, streams: np.ndarray, stream: int, explore: bool) -> None:
    """Draw the root's Gumbel variables into the scratch node; 0 unless it may ``explore``."""
    scratch = floats.shape[0] - 1
    for action in range(HOLES):
        g = 0.0
        if explore:
            g = -math.log(-math.log(uniform(streams, stream) * (1.0 - 2e-9) + 1e-9))
        floats[scratch, GUMBEL + action] = g


@kernel
def considered_visits(actions: int, simulations: int, turn: int) -> int:
    """Visits that the action of simulation ``turn`` (from 0) has before it, when ``actions`` share ``simulations`` by halving."""
    if actions <= 1:
        return turn
    phases = math.ceil(math.log2(actions))
    left = actions
    visits = 0
    begin = 0
    while True:
        each = max(1, simulations // (phases * left))
        if turn < begin + each * left:
            return visits + (turn - begin) // left
        begin += each * left
        visits += each
        left = max(2, left // 2)


@kernel
def improved_logits(ints: np.ndarray, floats: np.ndarray, node: int, params: SearchParams) -> None:
    """Write ``log P + sigma(completed Q)`` of an expanded ``node`` into the scratch node's SCORE words; -inf on illegal actions."""
    scratch = floats.shape[0] - 1
    mass = 0.0
    weighted = 0.0
    total = 0
    most = 0
    children = 0.0
    for action in range(HOLES):
        n = ints[node, CHILD_VISITS + action]
        if n > 0:
            prior = floats[node, PRIOR + action]
            value = floats[node, CHILD_VALUE + action]
            mass += prior
            weighted += prior * value / n
            children += value
            total += n
            most = max(most, n)
    own = floats[node, VALUE] - children  # what is left of the sum is the network's own value
    mixed = (own + total * weighted / mass) / (1 + total) if mass > 0.0 else own / max(1, ints[node, VISITS] - total)
    mixed = min(1.0, max(-1.0, mixed))
    scale = (params.gumbel_visit_offset + most) * params.gumbel_scale * 0.5
    for action in range(HOLES):
        if ints[node, CHILD + action] == ILLEGAL:
            floats[scratch, SCORE + action] = -np.inf
            continue
        n = ints[node, CHILD_VISITS + action]
        q = floats[node, CHILD_VALUE + action] / n if n > 0 else mixed
        floats[scratch, SCORE + action] = math.log(floats[node, PRIOR + action] + 1e-30) + scale * (q + 1.0)


@kernel
def select_root(ints: np.ndarray, floats: np.ndarray, params: SearchParams, simulations: int) -> int:
    """Action of the next simulation at the root."""
    legal = 0
    for action in range(HOLES):
        legal += ints[ROOT, CHILD + action] != ILLEGAL
    turn = ints[ROOT, VISITS] - 1
    wanted = considered_visits(min(legal, params.gumbel_actions), simulations, turn)
    improved_logits(ints, floats, ROOT, params)
    return _best(ints, floats, wanted, params.solver)


@kernel
def _best(ints: np.ndarray, floats: np.ndarray, wanted: int, solver: bool) -> int:
    """Best ``g + score`` of the root actions that are not lost: among those with ``wanted`` visits, or all if none has so many."""
    scratch = floats.shape[0] - 1
    best = -1
    best_score = -np.inf
    best_exact = False
    for action in range(HOLES):
        if ints[ROOT, CHILD + action] == ILLEGAL:
            continue
        proof = proof_of(ints[ROOT, CHILD_STATUS + action])
        if solver and proof == LOSS:
            return action
        score = np.float64(floats[scratch, GUMBEL + action] + floats[scratch, SCORE + action])
        lost = solver and proof == WIN
        if lost:
            score -= 1e9
        exact = not lost and ints[ROOT, CHILD_VISITS + action] == wanted
        if best < 0 or (exact and not best_exact) or (exact == best_exact and score > best_score):
            best = action
            best_score = score
            best_exact = exact
    return best


@kernel
def final_action(ints: np.ndarray, floats: np.ndarray, params: SearchParams) -> int:
    """The move of a finished Gumbel search: the best ``g + log P + sigma(Q)`` of the most visited actions that are not lost."""
    most = 0
    for action in range(HOLES):
        if not (params.solver and proof_of(ints[ROOT, CHILD_STATUS + action]) == WIN):
            most = max(most, ints[ROOT, CHILD_VISITS + action])
    improved_logits(ints, floats, ROOT, params)
    return _best(ints, floats, most, params.solver)


@kernel
def select_interior(ints: np.ndarray, floats: np.ndarray, node: int, params: SearchParams) -> int:
    """Action below the root: where the visits lag most behind the improved policy."""
    scratch = floats.shape[0] - 1
    improved_logits(ints, floats, node, params)
    top = -np.inf
    total = 0
    for action in range(HOLES):
        top = max(top, np.float64(floats[scratch, SCORE + action]))
        if ints[node, CHILD + action] != ILLEGAL:
            total += ints[node, CHILD_VISITS + action]
    norm = 0.0
    for action in range(HOLES):
        norm += math.exp(floats[scratch, SCORE + action] - top)
    best = -1
    best_score = -np.inf
    for action in range(HOLES):
        if ints[node, CHILD + action] == ILLEGAL:
            continue
        proof = proof_of(ints[node, CHILD_STATUS + action])
        if params.solver and proof == LOSS:
            return action
        score = math.exp(floats[scratch, SCORE + action] - top) / norm - ints[node, CHILD_VISITS + action] / (1.0 + total)
        if params.solver and proof == WIN:
            score -= 1e9
        if score > best_score:
            best = action
            best_score = score
    return best


@kernel
def improved_policy(ints: np.ndarray, floats: np.ndarray, params: SearchParams, out: np.ndarray) -> None:
    """Write the root's improved policy into ``out float32[9]``, without the Gumbel variables."""
    scratch = floats.shape[0] - 1
    improved_logits(ints, floats, ROOT, params)
    top = -np.inf
    for action in range(HOLES):
        top = max(top, np.float64(floats[scratch, SCORE + action]))
    norm = 0.0
    for action in range(HOLES):
        out[action] = math.exp(floats[scratch, SCORE + action] - top)
        norm += out[action]
    for action in range(HOLES):
        out[action] /= np.float32(norm)
