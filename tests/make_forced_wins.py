"""Make ``data/forced_wins.jsonl``: positions with a forced win, found by exhaustive search over late positions of random games.

    python tests/make_forced_wins.py

It knows the rules (the kernels of ``togyz_env.rules``) and nothing of the search under test: ``wins_within`` asks every line of
play up to a number of plies. A position is ``n`` plies from a win if the side to move, taking the fastest way, has won ``n`` plies
later against the slowest defence. In each of the positions some hole does not win within HORIZON plies. The rule is ``majority``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from togyz_env import Position
from togyz_env.batch import random_action
from togyz_env.rng import new_streams
from togyz_env.rules import (
    BLACK,
    HOLES,
    KAZAN,
    ONGOING,
    RING,
    STATE_SIZE,
    TO_MOVE,
    end_reason,
    final_margin,
    is_legal,
    kernel,
    play,
)

FILE = Path(__file__).parent / "data" / "forced_wins.jsonl"
SEED = 20240901
DISTANCES = (1, 3, 5)
EACH = 50
"""Positions of each distance and colour."""
HORIZON = 9
"""Wins of so many plies are found for every hole."""
FEW_STONES = 40
NEAR = 68
"""A position is late with so few stones on the board, or with so many in a kazan."""


@kernel
def wins_within(state: np.ndarray, player: int, plies: int) -> bool:
    """Tell whether ``player`` can force a win within ``plies``, whoever is to move.

    Every line is asked, but for those that no longer matter: his other moves once one wins, the other side's once one escapes.
    """
    stack = np.empty((plies + 1, STATE_SIZE), np.uint8)
    next_action = np.zeros(plies + 1, np.int64)
    stack[0] = state
    level = 0
    entered = True
    won = False  # the answer of the position that was left last
    while True:
        here = stack[level]
        if entered:
            reason = end_reason(here, False)
            settled = reason != ONGOING or level == plies
            if settled:
                margin = final_margin(here, reason)
                won = reason != ONGOING and (margin < 0 if player == BLACK else margin > 0)
            next_action[level] = 0
        else:
            settled = won == (here[TO_MOVE] == player)
        while not settled and next_action[level] < HOLES and not is_legal(here, next_action[level]):
            next_action[level] += 1
        if settled or next_action[level] == HOLES:
            if level == 0:
                return won
            level -= 1
            entered = False
        else:
            stack[level + 1] = here
            play(stack[level + 1], next_action[level])
            next_action[level] += 1
            level += 1
            entered = True


@kernel
def distance(state: np.ndarray, player: int, most: int) -> int:
    """Plies until ``player`` wins against the slowest defence, or -1 if that is more than ``most``."""
    for plies in range(most + 1):
        if wins_within(state, player, plies):
            return plies
    return -1


def winning_holes(state: np.ndarray, most: int) -> dict[int, int]:
    """Every hole that forces a win within ``most`` plies, and the plies it takes."""
    player = int(state[TO_MOVE])
    found = {}
    for action in range(HOLES):
        if is_legal(state, action):
            after = state.copy()
            play(after, action)
            plies = int(distance(after, player, most - 1))
            if plies >= 0:
                found[action + 1] = plies + 1
    return found


def late_positions(seed: int) -> list[tuple[np.ndarray, int]]:
    """The late positions of one game of random legal moves, with their plies; none is over."""
    state, ply = Position.start().state, 0
    streams = new_streams(seed, 1)
    found = []
    while end_reason(state, False) == ONGOING:
        if state[:RING].sum() <= FEW_STONES or state[KAZAN : KAZAN + 2].max() >= NEAR:
            found.append((state.copy(), ply))
        play(state, random_action(state, streams, 0))
        ply += 1
    return found


def main() -> None:
    """Collect the positions and write the file."""
    rng = np.random.default_rng(SEED)
    kept: dict[tuple[int, int], list[dict[str, object]]] = {(n, side): [] for n in DISTANCES for side in (0, 1)}
    seen: set[bytes] = set()
    seed = 0
    while any(len(cases) < EACH for cases in kept.values()):
        seed += 1
        positions = late_positions(SEED + seed)
        taken: set[int] = set()  # of one game at most one position for each distance
        for i in rng.permutation(len(positions)):
            state, ply = positions[i]
            side = int(state[TO_MOVE])
            plies = int(distance(state, side, max(DISTANCES)))
            if (plies, side) not in kept or len(kept[plies, side]) == EACH or plies in taken or state.tobytes() in seen:
                continue
            taken.add(plies)
            seen.add(state.tobytes())
            wins = winning_holes(state, HORIZON)
            if len(wins) == sum(bool(is_legal(state, action)) for action in range(HOLES)):
                continue  # nothing can go wrong there
            kept[plies, side].append({"fen": Position.from_state(state, ply).fen(), "plies": plies, "wins": wins})
    head = {
        "source": "tests/make_forced_wins.py",
        "rules": "majority",
        "seed": SEED,
        "games": seed,
        "horizon": HORIZON,
        "fen": "position, the side to move wins",
        "plies": "until it has won, against the slowest defence; no shorter win exists",
        "wins": "every hole that forces a win within the horizon, and the plies it takes",
    }
    rows = [head, *(case for key in sorted(kept) for case in kept[key])]
    FILE.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{len(rows) - 1} positions of {seed} games")


if __name__ == "__main__":
    main()
