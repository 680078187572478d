"""The search trees of many games in one block of memory, and the kernels that grow them.

A node is 256 bytes, four cache lines side by side: a step of a batched search touches a few nodes of each of many trees and waits
for memory more than for arithmetic. The block has three views, ``ints int32[G, N, 64]``, ``floats float32[G, N, 64]`` and ``bytes
uint8[G, N, 256]``; kernels take the views of one slot, ``[N, ...]``. (Passing a dozen arrays to each kernel made it ten times
slower.)

| word | view | content |
|---|---|---|
| CHILD + a | ints | node behind action a (0..8), UNVISITED or ILLEGAL |
| CHILD_VISITS + a | ints | visits of the edge |
| CHILD_VALUE + a | floats | sum of the values backed up through the edge, for the player who chooses it |
| PRIOR + a | floats | policy over legal actions (at the root: with temperature and noise) |
| CHILD_STATUS + a | ints | status of the child, see below, for the side to move *there* |
| VISITS, VALUE | ints, floats | visits of the node (0: not evaluated yet), sum of its values for its side to move |
| PARENT, ACTION | ints | NO_PARENT at the root; the action that led here |
| STATUS | ints | proof (UNKNOWN, LOSS, DRAW, WIN) + 4 * plies to the end along it; a finished game has 0 plies |
| SIZE, ROOT_PLY | ints | in the root only: nodes in use, plies played before the root |
| STATE_BYTE.. | bytes | the state row, 23 bytes |
| PENDING | ints | 1 while the node waits for the network (single search) |
| DRAW_SUM, MARGIN_SUM | floats | sums of draw probabilities and margins for the node's side to move (single search) |

Node 0 is the root; children always stand behind their parent. A node whose side to move wins at once is proven at birth:
it is never evaluated, and only its winning edge has a child status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np

from togyz_agents.search.lookahead import NO_ACTION, winning_action
from togyz_env.rules import BLACK, HOLES, ONGOING, STATE_SIZE, TO_MOVE, end_reason, final_margin, int64, kernel, play

ROOT = 0
NO_PARENT = -1
UNVISITED = -1
ILLEGAL = -2

# What is proven about a position, for the side to move there.
UNKNOWN = 0
LOSS = 1
DRAW = 2
WIN = 3

WORDS = 64
CHILD = 0
CHILD_VISITS = 9
CHILD_VALUE = 18
PRIOR = 27
CHILD_STATUS = 36
VISITS = 45
VALUE = 46
PARENT = 47
ACTION = 48
STATUS = 49
SIZE = 50
ROOT_PLY = 51
STATE_WORD = 52
STATE_WORDS = 6  # the last byte stays 0
STATE_BYTE = STATE_WORD * 4
STATE_END = STATE_BYTE + STATE_SIZE
PENDING = 58
DRAW_SUM = 59
MARGIN_SUM = 60


float32 = cast(Callable[[Any], float], np.float32)
"""``np.float32`` for kernels, a float to the type checker."""


class Tree(NamedTuple):
    """Three views of one block of nodes: ``int32[G, N, 64]``, ``float32[G, N, 64]``, ``uint8[G, N, 256]``."""

    ints: np.ndarray
    floats: np.ndarray
    bytes: np.ndarray


def new_tree(slots: int, nodes: int) -> Tree:
    """Return empty trees: ``slots`` of them, each with room for ``nodes`` nodes of 256 bytes."""
    size = slots * nodes * WORDS
    block = np.zeros(size + WORDS, np.int32)
    start = -(block.ctypes.data // 4) % 16  # nodes begin at a cache line
    ints = block[start : start + size].reshape(slots, nodes, WORDS)
    return Tree(ints, ints.view(np.float32), ints.view(np.uint8))


@kernel
def proof_of(status: int) -> int:
    """UNKNOWN, LOSS, DRAW or WIN."""
    return status & 3


@kernel
def plies_of(status: int) -> int:
    """Plies to the end along the proof."""
    return status >> 2


@kernel
def is_bare(ints: np.ndarray, node: int) -> bool:
    """Tell whether a node was proven at birth and so has no policy: a finished game, or one won with the next move."""
    status = ints[node, STATUS]
    if proof_of(status) == UNKNOWN or plies_of(status) > 1:
        return False
    if plies_of(status) == 1:
        for action in range(HOLES):
            if ints[node, CHILD_VISITS + action] > 0:
                return False
    return True


@kernel
def exact_value(status: int) -> float:
    """Value of a proven position for the side to move: LOSS -1, DRAW 0, WIN +1."""
    return float32((status & 3) - DRAW)


@kernel
def state_of(bytes_: np.ndarray, node: int) -> np.ndarray:
    """The state row of ``node``, a view ``uint8[23]``."""
    return bytes_[node, STATE_BYTE:STATE_END]


@kernel
def _status_at_birth(state: np.ndarray, ply: int, playout: bool, max_plies: int) -> int:
    """Status of a new node: the rules decide first, then the ply limit (a draw)."""
    reason = end_reason(state, playout)
    if reason != ONGOING:
        margin = final_margin(state, reason)
        if state[TO_MOVE] == BLACK:
            margin = -margin
        return WIN if margin > 0 else (LOSS if margin < 0 else DRAW)
    return DRAW if ply >= max_plies else UNKNOWN


@kernel
def plant(
    ints: np.ndarray, floats: np.ndarray, bytes_: np.ndarray, state: np.ndarray, ply: int, playout: bool, max_plies: int
) -> None:
    """Start a new tree at ``state uint8[23]`` after ``ply`` plies of its game; the root is not evaluated yet."""
    ints[ROOT, SIZE] = 1
    ints[ROOT, ROOT_PLY] = ply
    ints[ROOT, VISITS] = 0
    floats[ROOT, VALUE] = 0.0
    ints[ROOT, PENDING] = 0
    floats[ROOT, DRAW_SUM] = 0.0
    floats[ROOT, MARGIN_SUM] = 0.0
    ints[ROOT, PARENT] = NO_PARENT
    ints[ROOT, STATUS] = _status_at_birth(state, ply, playout, max_plies)
    for i in range(STATE_SIZE):
        bytes_[ROOT, STATE_BYTE + i] = state[i]


@kernel
def _expand_won(ints: np.ndarray, floats: np.ndarray, bytes_: np.ndarray, node: int, winning: int) -> None:
    """Give a node that is proven at birth edges without visits, the ``winning`` one with what is known behind it."""
    row = STATE_BYTE + int64(bytes_[node, STATE_BYTE + TO_MOVE]) * HOLES
    for action in range(HOLES):
        ints[node, CHILD + action] = UNVISITED if bytes_[node, row + action] != 0 else ILLEGAL
        ints[node, CHILD_VISITS + action] = 0
        floats[node, CHILD_VALUE + action] = 0.0
        floats[node, PRIOR + action] = 0.0
        ints[node, CHILD_STATUS + action] = LOSS if action == winning else UNKNOWN


@kernel
def add_child(
    ints: np.ndarray,
    floats: np.ndarray,
    bytes_: np.ndarray,
    node: int,
    action: int,
    ply: int,
    playout: bool,
    max_plies: int,
    solver: bool,
) -> int:
    """Add the node that ``action`` leads to from ``node``, ``ply`` plies into the game; return its index.

    With ``solver`` it is proven at once if its side to move can end the game with a win.
    """
    child: int = ints[ROOT, SIZE]
    ints[ROOT, SIZE] = child + 1
    for i in range(STATE_SIZE):
        bytes_[child, STATE_BYTE + i] = bytes_[node, STATE_BYTE + i]
    state = state_of(bytes_, child)
    play(state, action)
    status = _status_at_birth(state, ply, playout, max_plies)
    if solver and status == UNKNOWN:
        winning = winning_action(state, playout)
        if winning != NO_ACTION:
            status = WIN + 4
            _expand_won(ints, floats, bytes_, child, winning)
    ints[child, VISITS] = 0
    floats[child, VALUE] = 0.0
    ints[child, PENDING] = 0
    floats[child, DRAW_SUM] = 0.0
    floats[child, MARGIN_SUM] = 0.0
    ints[child, PARENT] = node
    ints[child, ACTION] = action
    ints[child, STATUS] = status
    ints[node, CHILD + action] = child
    ints[node, CHILD_STATUS + action] = status
    return child


@kernel
def expand(ints: np.ndarray, floats: np.ndarray, bytes_: np.ndarray, node: int, policy: np.ndarray) -> None:
    """Give ``node`` its edges with ``policy float32[9]`` as prior (probabilities, 0 on illegal actions)."""
    row = STATE_BYTE + int64(bytes_[node, STATE_BYTE + TO_MOVE]) * HOLES
    for action in range(HOLES):
        legal = bytes_[node, row + action] != 0
        ints[node, CHILD + action] = UNVISITED if legal else ILLEGAL
        ints[node, CHILD_VISITS + action] = 0
        floats[node, CHILD_VALUE + action] = 0.0
        floats[node, PRIOR + action] = policy[action] if legal else 0.0
        ints[node, CHILD_STATUS + action] = UNKNOWN


@kernel
def prove(ints: np.ndarray, node: int, action: int, child_status: int) -> bool:
    """Update ``node``'s status after its child by ``action`` was proven; tell whether ``node`` is proven now.

    A move to a lost position wins; when all moves are proven the best of them counts: MCTS-solver (Winands et al., 2008). A win
    takes the shortest known way, a loss the longest.
    """
    ints[node, CHILD_STATUS + action] = child_status
    status = ints[node, STATUS]
    if proof_of(child_status) == LOSS:
        plies = plies_of(child_status) + 1
        if proof_of(status) != WIN or plies < plies_of(status):
            ints[node, STATUS] = WIN + 4 * plies
        return True
    if proof_of(status) != UNKNOWN:
        return True
    best = LOSS
    longest = 0
    for a in range(HOLES):
        if ints[node, CHILD + a] == ILLEGAL:
            continue
        child = ints[node, CHILD_STATUS + a]
        if proof_of(child) == UNKNOWN:
            return False
        value = DRAW if proof_of(child) == DRAW else LOSS  # a lost child would have proven a win
        if value > best:
            best = value
            longest = 0
        if value == best:
            longest = max(longest, plies_of(child))
    ints[node, STATUS] = best + 4 * (longest + 1)
    return True


@kernel
def backup(ints: np.ndarray, floats: np.ndarray, node: int, value: float, solver: bool) -> None:
    """Add ``value``, for the side to move at ``node``, to it and to all above; with ``solver`` carry proofs upwards.

    From a node that this simulation proves on, the proven value goes up instead.
    """
    v = float32(value)
    proven = solver and proof_of(ints[node, STATUS]) != UNKNOWN
    while True:
        ints[node, VISITS] += 1
        floats[node, VALUE] += v
        parent = ints[node, PARENT]
        if parent == NO_PARENT:
            return
        action = ints[node, ACTION]
        v = -v
        ints[parent, CHILD_VISITS + action] += 1
        floats[parent, CHILD_VALUE + action] += v
        if proven:
            proven = prove(ints, parent, action, ints[node, STATUS])
            if proven:
                v = exact_value(ints[parent, STATUS])
        node = parent


@kernel
def keep_subtree(ints: np.ndarray, action: int, remap: np.ndarray) -> bool:
    """Make the root's child by ``action`` the new root, keep what hangs below it, drop the rest.

    False, with nothing changed, if that child was never evaluated: a finished game never is, nor a position won at once.

    Children stand behind their parents, so one ascending pass moves every kept node to a free place before it.

    Args:
        remap: ``int32[N]``, scratch.
    """
    if ints[ROOT, VISITS] == 0:  # its links are those of an earlier tree
        return False
    new_root = ints[ROOT, CHILD + action]
    if new_root < 0 or ints[new_root, VISITS] == 0:
        return False
    if is_bare(ints, new_root):
        return False
    size = ints[ROOT, SIZE]
    root_ply = ints[ROOT, ROOT_PLY]
    remap[:size] = -1
    kept = 0
    for node in range(new_root, size):
        parent = NO_PARENT
        if node != new_root:
            parent = remap[ints[node, PARENT]]
            if parent < 0:
                continue
        remap[node] = kept
        for w in range(WORDS):
            ints[kept, w] = ints[node, w]
        ints[kept, PARENT] = parent
        if parent != NO_PARENT:
            ints[parent, CHILD + ints[kept, ACTION]] = kept
        kept += 1
    ints[ROOT, SIZE] = kept
    ints[ROOT, ROOT_PLY] = root_ply + 1
    return True
