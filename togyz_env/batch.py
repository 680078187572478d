"""The kernels of ``rules`` over arrays of states; random play and perft."""

from __future__ import annotations

import numpy as np

from togyz_env.rng import below, new_streams
from togyz_env.rules import (
    HOLES,
    ONGOING,
    STATE_SIZE,
    TO_MOVE,
    end_reason,
    final_margin,
    int64,
    is_legal,
    kernel,
    play,
    start_state,
)


def start_states(count: int) -> np.ndarray:
    """Return ``count`` start positions, ``uint8[count, 23]``."""
    return np.tile(start_state(), (count, 1))


@kernel
def legal_mask_batch(states: np.ndarray, playout: bool) -> np.ndarray:
    """Return ``bool[B, 9]``, True = legal for the side to move; all False where the game is over."""
    mask = np.zeros((states.shape[0], HOLES), np.bool_)
    for b in range(states.shape[0]):
        if end_reason(states[b], playout) == ONGOING:
            for action in range(HOLES):
                mask[b, action] = is_legal(states[b], action)
    return mask


@kernel
def play_batch(states: np.ndarray, actions: np.ndarray) -> None:
    """Play legal ``actions[B]`` in place on ``states uint8[B, 23]``."""
    for b in range(states.shape[0]):
        play(states[b], actions[b])


@kernel
def end_reason_batch(states: np.ndarray, playout: bool) -> np.ndarray:
    """Return ``int8[B]``: ONGOING, MAJORITY or ATSYRAU for each state."""
    reasons = np.empty(states.shape[0], np.int8)
    for b in range(states.shape[0]):
        reasons[b] = end_reason(states[b], playout)
    return reasons


@kernel
def final_margin_batch(states: np.ndarray, playout: bool) -> np.ndarray:
    """Return ``int16[B]``: white's final stones minus black's, were each game to end here."""
    margins = np.empty(states.shape[0], np.int16)
    for b in range(states.shape[0]):
        margins[b] = final_margin(states[b], end_reason(states[b], playout))
    return margins


@kernel
def random_action(state: np.ndarray, streams: np.ndarray, i: int) -> int:
    """Draw a legal action uniformly with stream ``i``; the side to move must have a stone."""
    row = int64(state[TO_MOVE]) * HOLES
    count = 0
    for action in range(HOLES):
        count += state[row + action] != 0
    choice = below(streams, i, count)
    for action in range(HOLES):
        if state[row + action] != 0:
            if choice == 0:
                return action
            choice -= 1
    return -1


@kernel
def random_play(states: np.ndarray, streams: np.ndarray, plies: int, playout: bool) -> tuple[int, int]:
    """Play ``plies`` random plies on each of ``states uint8[B, 23]`` in place; a finished game starts anew.

    Args:
        streams: ``uint64[B]``, one random stream for each state (see ``rng.new_streams``).

    Returns:
        ``(games finished, sum of their final margins for white)``.
    """
    games = 0
    margins = 0
    for b in range(states.shape[0]):
        state = states[b]
        for _ in range(plies):
            reason = end_reason(state, playout)
            if reason != ONGOING:
                games += 1
                margins += final_margin(state, reason)
                state[:18] = 9
                state[18:] = 0
            play(state, random_action(state, streams, b))
    return games, margins


def random_states(count: int, seed: int, plies: int = 100) -> np.ndarray:
    """Return ``uint8[count, 23]``: positions of different random games, 1 to ``plies`` moves into them; a game may be over."""
    states = start_states(count)
    streams = new_streams(seed, count)
    for b in range(count):
        random_play(states[b : b + 1], streams[b : b + 1], 1 + b % plies, False)
    return states


@kernel
def perft_count(state: np.ndarray, depth: int, playout: bool) -> int:
    """Count the legal sequences of exactly ``depth`` moves; a finished game is not played on. Explicit stack, no recursion."""
    if depth == 0:
        return 1
    stack = np.empty((depth, STATE_SIZE), np.uint8)
    next_action = np.zeros(depth, np.int64)
    stack[0] = state
    if end_reason(stack[0], playout) != ONGOING:
        return 0
    total = 0
    level = 0
    while level >= 0:
        if level == depth - 1:  # the last ply is only counted
            for action in range(HOLES):
                total += is_legal(stack[level], action)
            level -= 1
            continue
        action = next_action[level]
        if action == HOLES:
            level -= 1
            continue
        next_action[level] = action + 1
        if is_legal(stack[level], action):
            stack[level + 1] = stack[level]
            play(stack[level + 1], action)
            if end_reason(stack[level + 1], playout) == ONGOING:
                next_action[level + 1] = 0
                level += 1
    return total
