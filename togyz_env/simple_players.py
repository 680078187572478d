"""Two players that need no search, as kernels: random and greedy. Opponents inside the environments, and yardsticks."""

from __future__ import annotations

import numpy as np

from togyz_env.batch import random_action
from togyz_env.rng import below
from togyz_env.rules import HOLES, KAZAN, STATE_SIZE, TO_MOVE, int64, is_legal, kernel, play

RANDOM = 0
GREEDY = 1
PLAYERS = {"random": RANDOM, "greedy": GREEDY}

ILLEGAL = -1


@kernel
def kazan_gain(state: np.ndarray, action: int, after: np.ndarray) -> int:
    """Stones that ``action`` brings into the mover's kazan at once, ILLEGAL (-1) for an empty hole. ``after uint8[23]`` is scratch.

    A move's gain is its capture, a new tuzdyk's three stones, and what it sows into the mover's own tuzdyk.
    """
    if not is_legal(state, action):
        return ILLEGAL
    kazan = KAZAN + int64(state[TO_MOVE])
    after[:] = state
    play(after, action)
    return int64(after[kazan]) - int64(state[kazan])


@kernel
def greedy_action(state: np.ndarray, streams: np.ndarray, i: int, after: np.ndarray) -> int:
    """Action with the largest ``kazan_gain``; ties are broken uniformly with stream ``i``. ``after uint8[23]`` is scratch."""
    best = ILLEGAL
    ties = 0
    choice = ILLEGAL
    for action in range(HOLES):
        gain = kazan_gain(state, action, after)
        if gain == ILLEGAL or gain < best:
            continue
        ties = ties + 1 if gain == best else 1
        # Each of several equals is kept with probability 1 / (how many there were so far).
        if ties == 1 or below(streams, i, ties) == 0:
            choice = action
        best = gain
    return choice


@kernel
def simple_action(state: np.ndarray, kind: int, streams: np.ndarray, i: int, after: np.ndarray) -> int:
    """Action of the RANDOM or GREEDY player with stream ``i`` of ``uint64[N]``; the side to move must have a stone."""
    if kind == RANDOM:
        return random_action(state, streams, i)
    return greedy_action(state, streams, i, after)


@kernel
def simple_actions(states: np.ndarray, rows: np.ndarray, kind: int, streams: np.ndarray, out: np.ndarray) -> None:
    """Write into ``out int64[K]`` the actions of the RANDOM or GREEDY player in ``rows int64[K]`` of ``states uint8[N, 23]``."""
    after = np.empty(STATE_SIZE, np.uint8)
    for k in range(rows.shape[0]):
        out[k] = simple_action(states[rows[k]], kind, streams, rows[k], after)
