"""The kernels of the vector environment: one pass over all games before the opponents' replies, one after them.

A game's status is ONGOING, or why it is over: MAJORITY, ATSYRAU, PLY_LIMIT or ILLEGAL_ACTION.
"""

from __future__ import annotations

import numpy as np

from togyz_env.episodes import draw_episode
from togyz_env.rules import (
    ATSYRAU,
    HOLES,
    KAZAN,
    ONGOING,
    RING,
    START_STONES,
    STATE_SIZE,
    STONES,
    TO_MOVE,
    end_reason,
    final_margin,
    int64,
    is_legal,
    kernel,
    play,
)
from togyz_env.simple_players import simple_action

PLY_LIMIT = 3
ILLEGAL_ACTION = 4


@kernel
def _advance(
    b: int,
    action: int,
    states: np.ndarray,
    plies: np.ndarray,
    status: np.ndarray,
    before: np.ndarray,
    moves: np.ndarray,
    playout: bool,
    max_plies: int,
) -> None:
    """Play a legal ``action`` in game ``b``."""
    before[b] = states[b]
    moves[b] = action
    play(states[b], action)
    plies[b] += 1
    status[b] = end_reason(states[b], playout)
    if status[b] == ONGOING and plies[b] >= max_plies:
        status[b] = PLY_LIMIT


@kernel
def first_illegal(states: np.ndarray, status: np.ndarray, actions: np.ndarray) -> int:
    """Return the first game that goes on where ``actions int64[N]`` has an illegal one, -1 for none."""
    for b in range(states.shape[0]):
        if status[b] == ONGOING and not (0 <= actions[b] < HOLES and is_legal(states[b], actions[b])):
            return b
    return -1


@kernel
def begin_games(
    rows: np.ndarray,
    states: np.ndarray,
    plies: np.ndarray,
    status: np.ndarray,
    moves: np.ndarray,
    streams: np.ndarray,
    agents: np.ndarray,
    side: int,
    picks: np.ndarray,
    seeds: np.ndarray,
) -> None:
    """Set up the start position in ``rows int64[K]``; ``side`` of ``SIDES``, or -1 without opponents.

    Draws each game's side, ``picks float64[N]`` and ``seeds uint64[N]`` (see ``draw_episode``).
    """
    for k in range(rows.shape[0]):
        b = rows[k]
        states[b, :RING] = START_STONES
        states[b, RING:] = 0
        plies[b] = 0
        status[b] = ONGOING
        moves[b] = -1
        if side >= 0:
            agents[b], picks[b], seeds[b] = draw_episode(streams, b, side, int64(agents[b]))


@kernel
def play_actions(
    states: np.ndarray,
    plies: np.ndarray,
    status: np.ndarray,
    before: np.ndarray,
    moves: np.ndarray,
    actions: np.ndarray,
    playout: bool,
    max_plies: int,
    waiting: np.ndarray,
) -> int:
    """Play ``actions int64[N]`` in the games that go on; an illegal one ends its game.

    Returns:
        The number of games that were over before; ``waiting int64[N]`` lists them.
    """
    count = 0
    for b in range(states.shape[0]):
        if status[b] != ONGOING:
            waiting[count] = b
            count += 1
        elif 0 <= actions[b] < HOLES and is_legal(states[b], actions[b]):
            _advance(b, actions[b], states, plies, status, before, moves, playout, max_plies)
        else:
            status[b] = ILLEGAL_ACTION
    return count


@kernel
def play_simple(
    states: np.ndarray,
    plies: np.ndarray,
    status: np.ndarray,
    before: np.ndarray,
    moves: np.ndarray,
    agents: np.ndarray,
    kind: int,
    streams: np.ndarray,
    playout: bool,
    max_plies: int,
) -> None:
    """Let the RANDOM or GREEDY player move wherever it is not the agent's turn."""
    after = np.empty(STATE_SIZE, np.uint8)
    for b in range(states.shape[0]):
        if status[b] == ONGOING and states[b, TO_MOVE] != agents[b]:
            action = simple_action(states[b], kind, streams, b, after)
            _advance(b, action, states, plies, status, before, moves, playout, max_plies)


@kernel
def play_replies(
    rows: np.ndarray,
    states: np.ndarray,
    plies: np.ndarray,
    status: np.ndarray,
    before: np.ndarray,
    moves: np.ndarray,
    actions: np.ndarray,
    playout: bool,
    max_plies: int,
) -> None:
    """Play legal ``actions int64[K]`` in ``rows int64[K]``."""
    for k in range(rows.shape[0]):
        _advance(rows[k], actions[k], states, plies, status, before, moves, playout, max_plies)


@kernel
def judge(
    states: np.ndarray,
    status: np.ndarray,
    agents: np.ndarray,
    opposed: bool,
    rewards: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    ended: np.ndarray,
) -> int:
    """Fill ``rewards float64[N]``, ``terminated bool[N]`` and ``truncated bool[N]`` for the agents, or the last movers.

    Returns:
        The number of games that are over; ``ended int64[N]`` lists them.
    """
    count = 0
    for b in range(states.shape[0]):
        reason = status[b]
        rewards[b] = 0.0
        truncated[b] = reason == PLY_LIMIT
        terminated[b] = reason != ONGOING and reason != PLY_LIMIT
        if reason != ONGOING:
            ended[count] = b
            count += 1
            if reason == ILLEGAL_ACTION:
                rewards[b] = -1.0
            elif reason != PLY_LIMIT:
                margin = final_margin(states[b], int64(reason))
                mover = int64(agents[b]) if opposed else 1 - int64(states[b, TO_MOVE])
                won = margin if mover == 0 else -margin
                rewards[b] = 1.0 if won > 0 else -1.0 if won < 0 else 0.0
    return count


@kernel
def look(states: np.ndarray, status: np.ndarray, masks: np.ndarray, kazans: np.ndarray, to_move: np.ndarray) -> None:
    """Fill ``masks int8[N, 9]``, ``kazans int64[N, 2]`` and ``to_move int64[N]`` of all games."""
    for b in range(states.shape[0]):
        row = int64(states[b, TO_MOVE]) * HOLES
        goes_on = status[b] == ONGOING
        for a in range(HOLES):
            masks[b, a] = goes_on and states[b, row + a] != 0
        kazans[b, 0] = states[b, KAZAN]
        kazans[b, 1] = states[b, KAZAN + 1]
        to_move[b] = states[b, TO_MOVE]


@kernel
def turn_over(states: np.ndarray, status: np.ndarray, agents: np.ndarray, rows: np.ndarray) -> int:
    """List in ``rows int64[N]`` the games that go on with the opponent to move; return how many."""
    count = 0
    for b in range(states.shape[0]):
        if status[b] == ONGOING and states[b, TO_MOVE] != agents[b]:
            rows[count] = b
            count += 1
    return count


@kernel
def outcomes(states: np.ndarray, status: np.ndarray, rows: np.ndarray, winners: np.ndarray, scores: np.ndarray) -> None:
    """Fill ``winners int64[K]`` (0, 1, 2 for a draw) and ``scores int64[K, 2]`` of the games over in ``rows int64[K]``."""
    for k in range(rows.shape[0]):
        b = rows[k]
        margin = 0 if status[b] == PLY_LIMIT else final_margin(states[b], int64(status[b]))
        winners[k] = 0 if margin > 0 else 1 if margin < 0 else 2
        if status[b] == ATSYRAU:  # what is left has been collected
            scores[k, 0] = (STONES + margin) // 2
            scores[k, 1] = (STONES - margin) // 2
        else:
            scores[k, 0] = states[b, KAZAN]
            scores[k, 1] = states[b, KAZAN + 1]
