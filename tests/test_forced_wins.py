"""Forced wins: 300 late positions, a hundred each one, three and five plies from a win, and what the search makes of them.

1. The positions are what their file says: by the slow rules the side to move wins in so many plies and no sooner, by these holes.
2. With a network of random weights every win within three plies is proven and played within 2,000 simulations, 95 % of those
   within five plies within 20,000; by the search of one position and by the batched one. (Other random weights than these solve 91
   to 99 of the hundred within five plies.)
3. A proven win is reported as proven, with its exact value; the plies it claims are never fewer than it takes.
4. The losing side takes the longest line that it knows; two plies before the end that is the longest there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from boards import DATA
from reference_rules import Board
from reference_search import exhaustive

from togyz_agents.evaluator import NetworkEvaluator, one_torch_thread
from togyz_agents.network import Network, NetworkConfig
from togyz_agents.search.batched import BatchedSearch
from togyz_agents.search.single import SingleSearch
from togyz_agents.search.tree import CHILD_STATUS, ROOT, STATUS
from togyz_env import Position
from togyz_env.rules import HOLES

HEAD, *CASES = [json.loads(line) for line in (DATA / "forced_wins.jsonl").read_text().splitlines()]
DISTANCES = (1, 3, 5)
KINDS = ("single", "batched")
SOLVED: dict[int, tuple[int, float]] = {1: (2000, 1.0), 3: (2000, 1.0), 5: (20000, 0.95)}
"""Simulations and the share that is solved with them."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with one_torch_thread():
        yield


@cache
def positions(plies: int) -> list[tuple[Position, dict[int, int]]]:
    """Each position so many plies from a win, with the plies that each of its winning holes takes."""
    cases = [case for case in CASES if case["plies"] == plies]
    return [(Position.from_fen(case["fen"]), {int(hole): n for hole, n in case["wins"].items()}) for case in cases]


def slow(position: Position) -> Board:
    return Board.of(list(position.row))


# 1


def test_there_are_a_hundred_positions_of_each_distance_and_fifty_of_each_colour() -> None:
    kinds = [(case["plies"], Position.from_fen(case["fen"]).to_move) for case in CASES]
    assert {kind: kinds.count(kind) for kind in kinds} == {(plies, side): 50 for plies in DISTANCES for side in (0, 1)}
    assert len({Position.from_fen(case["fen"]).row for case in CASES}) == 300
    for plies in DISTANCES:
        for position, wins in positions(plies):
            assert position.outcome() is None
            assert set(wins) < set(position.legal_moves())  # some hole does not win soon
            assert min(wins.values()) == plies


@pytest.mark.parametrize("plies", DISTANCES)
def test_the_slow_rules_find_the_same_wins_and_no_shorter_ones(plies: int) -> None:
    for position, wins in positions(plies)[:: 10 if plies == 5 else 1]:
        assert exhaustive(slow(position), plies, playout=False) == (1, plies)
        for hole in position.legal_moves():
            found = exhaustive(slow(position.play(hole)), plies - 1, playout=False)
            assert (found == (-1, plies - 1)) == (wins.get(hole) == plies)


def forces(board: Board, player: int, plies: int) -> bool:
    """Tell whether ``player`` can force a win within ``plies``; by the slow rules, without lines that no longer matter."""
    end = board.end(playout=False)
    if end is not None:
        return end[1 + player] > end[2 - player]
    if plies == 0:
        return False
    own = board.mover == player
    for hole in board.legal():
        after = Board.of(board.row())
        after.play(hole)
        if forces(after, player, plies - 1) == own:
            return own
    return not own


def test_the_slow_rules_find_the_longer_wins_too() -> None:
    checked = 0
    for distance in DISTANCES:
        for position, wins in positions(distance)[::4]:
            for hole in position.legal_moves():
                after = slow(position.play(hole))
                for plies in (1, 3, 5) if len(position.legal_moves()) > 4 else (1, 3, 5, 7):
                    assert forces(after, position.to_move, plies - 1) == (wins.get(hole, 99) <= plies)
                    checked += 1
    assert checked > 1000


# 2, 3


@dataclass(frozen=True)
class Found:
    """What a search found out about one position."""

    proof: str
    hole: int
    value: float
    plies: int
    outcome: tuple[float, float, float]
    children: list[int]


@cache
def evaluator() -> NetworkEvaluator:
    torch.manual_seed(1)
    return NetworkEvaluator(Network(NetworkConfig(width=64, blocks=2)), precision="float32")


def search_all(kind: str, them: list[Position], simulations: int) -> list[Found]:
    """Search each position afresh; the two kinds of search report the same things in different places."""
    found = []
    if kind == "single":
        search = SingleSearch(evaluator().outputs)
        for position in them:
            search.forget()
            result = search.run(position.state, position.ply, simulations=simulations)
            children = search._tree.ints[0, ROOT, CHILD_STATUS : CHILD_STATUS + HOLES].tolist()
            found.append(Found(result.proof, result.action + 1, result.value, result.proof_plies, result.outcome, children))
            assert result.simulations <= simulations
            if result.proof == "win":
                assert (result.lines[0].proof, result.lines[0].value, result.lines[0].moves[0]) == ("win", 1.0, result.action + 1)
        return found
    batch = BatchedSearch(evaluator())
    results = batch.run(np.stack([p.state for p in them]), np.array([p.ply for p in them]), simulations)
    for g in range(len(them)):
        value = float(results.value[g])
        outcome = ((1 + value) / 2, 0.0, (1 - value) / 2)
        root = batch.tree.ints[g, ROOT]
        children = root[CHILD_STATUS : CHILD_STATUS + HOLES].tolist()
        hole = int(results.action[g]) + 1
        found.append(Found(results.proof[g], hole, value, int(root[STATUS]) >> 2, outcome, children))
        if results.proof[g] == "win":
            assert results.policy[g].tolist() == np.eye(HOLES)[hole - 1].tolist()
            assert results.principal_variation[g][0] == hole
    return found


@cache
def searched(kind: str, plies: int) -> list[Found]:
    return search_all(kind, [position for position, _ in positions(plies)], SOLVED[plies][0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plies", DISTANCES)
def test_forced_wins_are_proven_and_played(plies: int, kind: str) -> None:
    solved = 0
    for (_, wins), found in zip(positions(plies), searched(kind, plies)):
        assert found.proof in ("win", "")  # never proven to be anything else
        solved += found.proof == "win" and found.hole in wins
    assert solved >= SOLVED[plies][1] * len(positions(plies))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("plies", DISTANCES)
def test_a_proven_win_is_reported_as_proven(plies: int, kind: str) -> None:
    for (_, wins), found in zip(positions(plies), searched(kind, plies)):
        if found.proof == "win":
            assert found.value == 1.0
            assert found.outcome == (1.0, 0.0, 0.0)
            assert found.plies >= wins.get(found.hole, HEAD["horizon"] + 1) >= plies
        else:
            assert -1.0 <= found.value <= 1.0
            assert found.plies == 0


# 4


def lost_positions(plies: int) -> list[Position]:
    """The positions after each hole that wins in ``plies``; the loser is to move."""
    found = {p.play(hole).row: p.play(hole) for p, wins in positions(plies) for hole, n in wins.items() if n == plies}
    return list(found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_two_plies_before_the_end_the_loser_takes_the_longest_line(kind: str) -> None:
    lost = lost_positions(3)
    assert len(lost) > 100
    shorter = 0
    for position, found in zip(lost, search_all(kind, lost, 2000)):
        assert (found.proof, found.value, found.outcome) == ("loss", -1.0, (0.0, 0.0, 1.0))
        lasts = {hole: exhaustive(slow(position.play(hole)), 1, playout=False) for hole in position.legal_moves()}
        assert lasts[found.hole] == (1, 1)  # the winner needs one more ply
        shorter += (1, 0) in lasts.values()
    assert shorter > 5  # there was something to choose


@pytest.mark.parametrize("kind", KINDS)
def test_the_loser_takes_the_longest_line_that_he_knows(kind: str) -> None:
    lost = lost_positions(5)[::4]
    exact = proven = 0
    for position, found in zip(lost, search_all(kind, lost, 20000)):
        if found.proof != "loss":
            assert found.proof == ""
            continue
        proven += 1
        known = {hole: found.children[hole - 1] >> 2 for hole in position.legal_moves()}
        assert known[found.hole] == max(known.values()) == found.plies - 1
        longest = {hole: exhaustive(slow(position.play(hole)), 3, playout=False) for hole in position.legal_moves()}
        lasts = {hole: decided[1] for hole, decided in longest.items() if decided is not None}
        assert max(lasts.values()) == 3  # four plies in all
        assert all(known[hole] >= lasts[hole] for hole in known)
        if known == lasts:
            exact += 1
            assert lasts[found.hole] == 3
    assert proven >= 0.9 * len(lost)
    assert exact >= 0.8 * proven


def test_the_file_says_how_it_was_made() -> None:
    expected: dict[str, Any] = {"source": "tests/make_forced_wins.py", "rules": "majority", "horizon": 9}
    assert {key: HEAD[key] for key in expected} == expected
