"""The search kernel: principal variation search with an explicit stack that can be left at any node and resumed.

``advance`` searches one position to a depth within a window. It returns when it is done, after a number of nodes (so that the
caller can look at the clock), when it is told to stop, or to ask for the value of a leaf that somebody else evaluates.

Principal variation search: the first move gets the whole window, the others an empty one that only asks whether they are better
(T. A. Marsland, M. Campbell, "Parallel search of strongly ordered game trees", ACM Computing Surveys 14, 1982). At the leaves
captures are searched on; the side to move may always stand pat on the evaluation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from togyz_agents.search.alphabeta.evaluation import FEATURES, WIN, evaluate
from togyz_agents.search.alphabeta.ordering import order_captures, order_moves, remember_refutation
from togyz_agents.search.alphabeta.table import (
    EXACT,
    GROUP,
    LOWER,
    MISS,
    NO_MOVE,
    UPPER,
    bound_in,
    find,
    from_entry,
    hash_of,
    move_in,
    score_in,
    store,
    to_entry,
    usable,
)
from togyz_env.rules import HOLES, ONGOING, RING, TO_MOVE, WHITE, end_reason, final_margin, kernel, play

MAX_DEPTH = 64
"""Deepest search in plies; captures go on behind it."""
MAX_QUIESCENCE = 32
LEVELS = MAX_DEPTH + MAX_QUIESCENCE + 2
INFINITE = 32_000
ROW = 24
"""Bytes of a state on the stack: 23 and a zero, three words."""

# Fields of a frame: one node on the path.
DEPTH = 0
ALPHA = 1
BETA = 2
BEST = 3
BEST_MOVE = 4
INDEX = 5
COUNT = 6
FIRST_ALPHA = 7
NARROW = 8  # the child was asked with an empty window
FRAME = 9

# Fields of the control block.
LEVEL = 0
PHASE = 1
VALUE = 2
NODES = 3
NODE_LIMIT = 4
STOP = 5
ROOT_PLY = 6
GENERATION = 7
CONTROL = 8

# Where the search of a node stands.
ENTER = 0
EVALUATED = 1
NEXT = 2
LEAVE = 3

# Why ``advance`` returned.
DONE = 0
PAUSED = 1
NEEDS_VALUE = 2

BASE = 1
"""Level of the position that ``advance`` searches: a child of the root, which is level 0."""


class Stack(NamedTuple):
    """The path from the root to the current node and what the search remembers.

    Attributes:
        states: ``uint8[LEVELS, 24]``; words: the same memory as ``uint64[LEVELS, 3]``.
        keys: ``uint64[LEVELS]``, hashes.
        frames: ``int64[LEVELS, FRAME]``.
        moves: ``int64[LEVELS, 9]``, ordered actions.
        scores: ``int64[9]``, for ordering.
        killers: ``int64[LEVELS, 2]``; history: ``int64[RING * RING]``.
        lines: ``int64[LEVELS, LEVELS]``, best line from each level; lengths: ``int64[LEVELS]``.
        scratch: ``int64[FEATURES]``.
        control: ``int64[CONTROL]``.
    """

    states: np.ndarray
    words: np.ndarray
    keys: np.ndarray
    frames: np.ndarray
    moves: np.ndarray
    scores: np.ndarray
    killers: np.ndarray
    history: np.ndarray
    lines: np.ndarray
    lengths: np.ndarray
    scratch: np.ndarray
    control: np.ndarray


class Settings(NamedTuple):
    """What stays the same during a search.

    Attributes:
        playout: only atsyrau ends the game.
        max_plies: the ply limit.
        quiescence: plies that captures are searched on at most; 0 evaluates leaves as they are.
        external: leaves are evaluated by the caller.
    """

    playout: bool
    max_plies: int
    quiescence: int
    external: bool


def new_stack() -> Stack:
    """Allocate a stack, some 100 kB."""
    states = np.zeros((LEVELS, ROW), np.uint8)
    return Stack(
        states=states,
        words=states.view(np.uint64),
        keys=np.zeros(LEVELS, np.uint64),
        frames=np.zeros((LEVELS, FRAME), np.int64),
        moves=np.zeros((LEVELS, HOLES), np.int64),
        scores=np.zeros(HOLES, np.int64),
        killers=np.zeros((LEVELS, 2), np.int64),
        history=np.zeros(RING * RING, np.int64),
        lines=np.zeros((LEVELS, LEVELS), np.int64),
        lengths=np.zeros(LEVELS, np.int64),
        scratch=np.zeros(FEATURES, np.int64),
        control=np.zeros(CONTROL, np.int64),
    )


@kernel
def final_score(state: np.ndarray, reason: int, level: int) -> int:
    """Score for the side to move of a game that ended by the rules, ``level`` plies below the root."""
    margin = final_margin(state, reason)
    if state[TO_MOVE] != WHITE:
        margin = -margin
    if margin == 0:
        return 0
    return WIN - level if margin > 0 else level - WIN


@kernel
def _extend_line(stack: Stack, level: int, action: int) -> None:
    """Make ``action`` and the line behind it the best line from ``level``."""
    stack.lines[level, 0] = action
    length = stack.lengths[level + 1]
    for i in range(length):
        stack.lines[level, i + 1] = stack.lines[level + 1, i]
    stack.lengths[level] = length + 1


@kernel
def begin(stack: Stack, depth: int, alpha: int, beta: int) -> None:
    """Prepare ``advance`` for the state at level BASE."""
    stack.frames[BASE, DEPTH] = depth
    stack.frames[BASE, ALPHA] = alpha
    stack.frames[BASE, BETA] = beta
    stack.control[LEVEL] = BASE
    stack.control[PHASE] = ENTER


@kernel
def advance(stack: Stack, table: np.ndarray, weights: np.ndarray, settings: Settings) -> int:
    """Search on; return DONE, PAUSED or NEEDS_VALUE.

    DONE: ``control[VALUE]`` is the score of the state at level BASE for its side to move: the true one within the window, else a
    bound (at most alpha: not more than that; at least beta: not less).
    PAUSED: ``control[NODES]`` has reached ``control[NODE_LIMIT]``, or ``control[STOP]`` is set; call again to go on.
    NEEDS_VALUE: put the score of the state at ``control[LEVEL]``, for its side to move, into ``control[VALUE]`` and call again.

    Args:
        stack: with the position at level BASE; see ``begin``.
        table: ``uint64[groups, 8]``, of no groups to do without.
        weights: see ``evaluate``.
    """
    control = stack.control
    level = control[LEVEL]
    phase = control[PHASE]
    value = control[VALUE]
    while True:
        frame = stack.frames[level]
        state = stack.states[level]

        if phase == ENTER:
            if control[NODES] >= control[NODE_LIMIT] or control[STOP] != 0:
                control[LEVEL] = level
                control[PHASE] = ENTER
                return PAUSED
            control[NODES] += 1
            stack.lengths[level] = 0
            reason = end_reason(state, settings.playout)
            left = settings.max_plies - control[ROOT_PLY] - level
            if reason != ONGOING:
                value = final_score(state, reason, level)
                phase = LEAVE
            elif left <= 0:  # cut games are draws; the rules go before the limit
                value = 0
                phase = LEAVE
            elif frame[DEPTH] <= 0:
                if settings.external:
                    control[LEVEL] = level
                    control[PHASE] = EVALUATED
                    return NEEDS_VALUE
                value = evaluate(state, weights, stack.scratch)
                phase = EVALUATED
            else:
                phase = NEXT
                table_move = NO_MOVE
                if table.shape[0] > 0:
                    reachable = left <= frame[DEPTH] + settings.quiescence
                    key = hash_of(stack.words[level], left if reachable else 0)
                    stack.keys[level] = key
                    group, place = find(table, key)
                    if place != MISS:
                        data = table[group, 2 * place + 1]
                        table_move = move_in(data)
                        if usable(data, frame[DEPTH]):
                            value = from_entry(score_in(data), level)
                            bound = bound_in(data)
                            if (
                                bound == EXACT
                                or (bound == LOWER and value >= frame[BETA])
                                or (bound == UPPER and value <= frame[ALPHA])
                            ):
                                phase = LEAVE
                                if table_move != NO_MOVE:
                                    stack.lines[level, 0] = table_move
                                    stack.lengths[level] = 1
                if phase == NEXT:
                    frame[COUNT] = order_moves(
                        state, table_move, stack.killers[level], stack.history, stack.moves[level], stack.scores
                    )
                    frame[BEST] = -INFINITE
                    frame[BEST_MOVE] = NO_MOVE
                    frame[FIRST_ALPHA] = frame[ALPHA]
                    frame[INDEX] = 0
                    frame[NARROW] = 0

        if phase == EVALUATED:  # a leaf: stand pat, or capture on
            phase = LEAVE
            if value < frame[BETA] and settings.quiescence + frame[DEPTH] > 0:
                count = order_captures(state, stack.moves[level], stack.scores)
                if count > 0:
                    frame[COUNT] = count
                    frame[BEST] = value
                    frame[BEST_MOVE] = NO_MOVE
                    frame[ALPHA] = max(frame[ALPHA], value)
                    frame[FIRST_ALPHA] = frame[ALPHA]
                    frame[INDEX] = 0
                    frame[NARROW] = 0
                    phase = NEXT

        if phase == LEAVE:
            if level == BASE:
                control[LEVEL] = level
                control[PHASE] = ENTER
                control[VALUE] = value
                return DONE
            level -= 1
            frame = stack.frames[level]
            state = stack.states[level]
            value = -value
            if frame[NARROW] == 1 and frame[ALPHA] < value < frame[BETA]:
                # better than the best so far: ask again what it is worth; the child's state still stands above
                frame[NARROW] = 0
                level += 1
                stack.frames[level, ALPHA] = -frame[BETA]
                stack.frames[level, BETA] = -frame[ALPHA]
                phase = ENTER
                continue
            action = stack.moves[level, frame[INDEX]]
            if value > frame[BEST]:
                frame[BEST] = value
                frame[BEST_MOVE] = action
                if value > frame[ALPHA]:
                    frame[ALPHA] = value
                    _extend_line(stack, level, action)
            frame[INDEX] += 1
            if value >= frame[BETA] and frame[DEPTH] > 0:
                remember_refutation(state, action, frame[DEPTH], stack.killers[level], stack.history)
            phase = NEXT

        if phase == NEXT:
            if frame[INDEX] < frame[COUNT] and frame[BEST] < frame[BETA]:
                depth = frame[DEPTH] - 1
                alpha = frame[ALPHA]
                beta = frame[BETA]
                index = frame[INDEX]
                # a window that is empty already is as narrow as it gets
                narrow = index > 0 and depth >= 0 and beta - alpha > 1
                frame[NARROW] = 1 if narrow else 0
                words = stack.words
                for i in range(ROW // 8):
                    words[level + 1, i] = words[level, i]
                play(stack.states[level + 1], stack.moves[level, index])
                level += 1
                stack.frames[level, DEPTH] = depth
                stack.frames[level, ALPHA] = -alpha - 1 if narrow else -beta
                stack.frames[level, BETA] = -alpha
                phase = ENTER
            else:
                value = frame[BEST]
                if frame[DEPTH] > 0 and table.shape[0] > 0:
                    bound = EXACT
                    if value >= frame[BETA]:
                        bound = LOWER
                    elif value <= frame[FIRST_ALPHA]:
                        bound = UPPER
                    store(
                        table,
                        stack.keys[level],
                        to_entry(value, level),
                        frame[DEPTH],
                        bound,
                        frame[BEST_MOVE],
                        control[GENERATION],
                    )
                phase = LEAVE
                # the next turn of the loop leaves this level


assert GROUP == 4
