"""The search: the compiled batched one against a slow reference, exact endings, and what its trees promise.

1. Batched and reference search agree: visits, values, proofs, actions, policies and lines; many evaluators, settings and
   positions; stored searches too.
2. Forced wins and losses of one to three plies, found by exhaustive search, get their exact value and the right move; so do
   endings at the ply limit.
3. After a search, and after a kept subtree is searched on, every link, count, value and proof in the tree is consistent.
4. A row's result depends on its position alone: not on neighbours, order, earlier searches or the cache; with noise on its slot
   and the seed too. Noise and temperature are off by default.
5. Root noise is a distribution over the legal actions with the right moments; so are the gamma draws below it.
6. Edges: finished positions, no budget, one legal move, evaluators and settings that no search can use.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from boards import board
from reference_rules import Board
from reference_search import GOLDEN, HashEvaluator, ReferenceSearch, Settings, exhaustive, golden

from togyz_agents.search.batched import BatchedSearch, SearchConfig, SearchResult, absorb_all, gather
from togyz_agents.search.cache import new_cache
from togyz_agents.search.puct import best_action
from togyz_agents.search.single import SingleSearch, with_outcome
from togyz_agents.search.tree import (
    ACTION,
    CHILD,
    CHILD_STATUS,
    CHILD_VALUE,
    CHILD_VISITS,
    DRAW,
    ILLEGAL,
    LOSS,
    NO_PARENT,
    PARENT,
    PRIOR,
    ROOT,
    ROOT_PLY,
    SIZE,
    STATUS,
    UNKNOWN,
    UNVISITED,
    VALUE,
    VISITS,
    WIN,
    Tree,
    keep_subtree,
    new_tree,
    state_of,
)
from togyz_env import Position, Ruleset
from togyz_env.errors import ConfigError, TogyzError
from togyz_env.rng import gamma, new_streams
from togyz_env.rules import HOLES, RING, TO_MOVE

BUDGETS = (0, 1, 2, 10, 100)
SMOOTH = HashEvaluator(1)
DEFAULT = Settings()
CLUELESS = HashEvaluator(1, logit_scale=0.0, value_scale=0.0)
UNDERFLOW = HashEvaluator(2, logit_scale=200.0)
Evaluator = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Batch:
    """Positions as the search takes them."""

    states: np.ndarray
    plies: np.ndarray

    def __getitem__(self, rows: Any) -> Batch:
        return Batch(self.states[rows], self.plies[rows])

    def __len__(self) -> int:
        return len(self.states)

    def __iter__(self) -> Iterator[tuple[list[int], int]]:
        return zip(self.states.tolist(), self.plies.tolist())


@cache
def random_game(seed: int, end: str) -> list[tuple[list[int], int]]:
    """State rows and plies of one random game that the rules ended; the last entry is the finished position."""
    rng = np.random.default_rng(seed)
    while True:
        game = Board()
        line = [(game.row(), 0)]
        while game.end(end == "playout") is None and len(line) < 600:
            game.play(int(rng.choice(game.legal())))
            line.append((game.row(), len(line)))
        if game.end(end == "playout") is not None:
            return line


@cache
def positions(end: str) -> Batch:
    """The start, the middle, and both sides' last moves of random games."""
    line, other = random_game(1, end), random_game(2, end)
    chosen = [line[0], line[9], line[len(line) // 2], line[-13], line[-6], line[-3], other[20], other[-4], other[-2]]
    return Batch(np.array([row for row, _ in chosen], np.uint8), np.array([ply for _, ply in chosen]))


def batched(
    evaluator: Evaluator, settings: Settings = DEFAULT, seed: int = 0, cache_places: int = 0, **noise: Any
) -> BatchedSearch:
    """The search under test with the reference's settings; without noise unless it is asked for."""
    config = SearchConfig(
        exploration=settings.exploration,
        exploration_growth=settings.exploration_growth,
        exploration_base=settings.exploration_base,
        fpu_reduction=settings.fpu_reduction,
        root_temperature=settings.root_temperature,
        forced_playouts=settings.forced_playouts,
        solver=settings.solver,
        **({"noise_fraction": 0.0} | noise),
    )
    ruleset = Ruleset(end=settings.end, max_plies=settings.max_plies)  # type: ignore[arg-type]
    return BatchedSearch(evaluator, config, ruleset, settings.explore, seed, cache_places)


def assert_row_is(reference: ReferenceSearch, result: SearchResult, row: int) -> None:
    assert result.visits[row].tolist() == reference.visits()
    assert result.value[row] == pytest.approx(reference.value(), abs=1e-5)
    assert result.proof[row] == reference.proof()
    assert result.action[row] == reference.action()
    assert result.policy[row] == pytest.approx(reference.policy(), abs=1e-5)
    assert list(result.principal_variation[row]) == reference.principal_variation()


def assert_same(one: SearchResult, other: SearchResult) -> None:
    for name in ("visits", "policy", "value", "action"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.proof == other.proof
    assert one.principal_variation == other.principal_variation


def result_rows(result: SearchResult, rows: Any) -> SearchResult:
    index = np.arange(len(result.action))[rows]
    return SearchResult(
        result.visits[index],
        result.policy[index],
        result.value[index],
        result.action[index],
        tuple(result.proof[i] for i in index),
        tuple(result.principal_variation[i] for i in index),
    )


# 1. The reference

CASES = {
    "default": (SMOOTH, Settings()),
    "no solver": (HashEvaluator(3), Settings(solver=False)),
    "playout": (HashEvaluator(4), Settings(end="playout")),
    "playout, no solver": (HashEvaluator(5), Settings(end="playout", solver=False)),
    "priors underflow to 0": (UNDERFLOW, Settings()),
    "priors underflow, no urgency": (HashEvaluator(6, logit_scale=500.0), Settings(fpu_reduction=0.0, exploration=4.0)),
    "legal moves without a prior": (HashEvaluator(7, banned=True), Settings(end="playout")),
    "extreme values": (HashEvaluator(8, logit_scale=6.0, value_scale=1.0, levels=1), Settings()),
    "ties": (HashEvaluator(9, logit_scale=0.0, value_scale=1.0, levels=2), Settings()),
    "knows nothing": (HashEvaluator(10, logit_scale=0.0, value_scale=0.0), Settings(end="playout")),
    "greedy": (HashEvaluator(11), Settings(exploration=0.1, fpu_reduction=1.0)),
    "growing exploration": (HashEvaluator(12), Settings(exploration_growth=1.5, exploration_base=20.0)),
    "root temperature": (HashEvaluator(13), Settings(explore=True, root_temperature=1.4)),
    "cold root": (HashEvaluator(14, logit_scale=4.0), Settings(explore=True, root_temperature=0.5)),
    "forced playouts": (HashEvaluator(15), Settings(explore=True, forced_playouts=2.0)),
    "many forced playouts": (HashEvaluator(16), Settings(explore=True, forced_playouts=20.0, solver=False, end="playout")),
    "forced, underflow": (UNDERFLOW, Settings(explore=True, forced_playouts=2.0, root_temperature=1.25, end="playout")),
    "temperature unasked for": (HashEvaluator(17), Settings(root_temperature=3.0, forced_playouts=2.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_batched_and_reference_search_agree(name: str) -> None:
    evaluator, settings = CASES[name]
    batch = positions(settings.end)
    search = batched(evaluator, settings)
    references = [ReferenceSearch(row, ply, evaluator, settings) for row, ply in batch]
    for budget in (*BUDGETS, 400) if name in ("default", "forced playouts", "playout") else BUDGETS:
        result = search.run(batch.states, batch.plies, budget)
        for row, reference in enumerate(references):
            assert_row_is(reference.run(budget), result, row)


@pytest.mark.parametrize("solver", [True, False])
@pytest.mark.parametrize("plies_left", [0, 1, 2, 3, 7])
def test_batched_and_reference_search_agree_near_the_ply_limit(plies_left: int, solver: bool) -> None:
    for row, ply in positions("playout"):
        settings = Settings(solver=solver, end="playout", max_plies=max(ply + plies_left, 1))
        search = batched(SMOOTH, settings)
        reference = ReferenceSearch(row, ply, SMOOTH, settings)
        for budget in (0, 3, 60):
            assert_row_is(reference.run(budget), search.run(np.array([row], np.uint8), ply, budget), 0)


def test_batched_and_reference_search_agree_on_draws_among_losing_moves() -> None:
    for row, ply in (*random_game(7, "majority")[-6:-1], *random_game(9, "majority")[-4:-1]):
        for plies_left in (2, 3):
            settings = Settings(max_plies=ply + plies_left)
            reference = ReferenceSearch(row, ply, CLUELESS, settings)
            search = batched(CLUELESS, settings)
            for budget in (30, 300):
                assert_row_is(reference.run(budget), search.run(np.array([row], np.uint8), ply, budget), 0)


@pytest.mark.parametrize("shaped", [True, False])
def test_batched_and_reference_search_agree_on_a_root_with_noise(shaped: bool) -> None:
    batch = positions("majority")
    settings = Settings(explore=True, forced_playouts=2.0, root_temperature=1.2)
    search = batched(SMOOTH, settings, seed=5, noise_fraction=0.4, noise_shaped=shaped)
    result = search.run(batch.states, batch.plies, 80)
    for row, (state, ply) in enumerate(batch):
        prior = search.tree.floats[row, ROOT, PRIOR : PRIOR + HOLES].copy()
        assert_row_is(ReferenceSearch(state, ply, SMOOTH, settings, root_prior=prior).run(80), result, row)


@pytest.mark.parametrize("case", json.loads(GOLDEN.read_text()), ids=lambda case: f"ply {case['ply']}")
def test_stored_searches_come_out_again(case: dict[str, Any]) -> None:
    search = batched(HashEvaluator(**case["evaluator"]), Settings(**case["settings"]))
    result = search.run(np.array([case["row"]], np.uint8), case["ply"], case["simulations"])
    assert result.visits[0].tolist() == case["visits"]
    assert result.value[0] == pytest.approx(case["value"], abs=1e-5)
    assert result.policy[0] == pytest.approx(case["policy"], abs=1e-5)
    assert (result.proof[0], result.action[0]) == (case["proof"], case["action"])
    assert list(result.principal_variation[0]) == case["principal_variation"]


def test_stored_searches_are_those_of_the_reference() -> None:
    assert golden(3) == json.loads(GOLDEN.read_text())[:3]


# 2. Exact endings


@dataclass(frozen=True)
class Ending:
    """A position whose result for the side to move (-1, 1) is forced within ``plies``, by exhaustive search."""

    row: list[int]
    ply: int
    result: int
    plies: int


@cache
def endings(end: str) -> list[Ending]:
    """Up to three endings of each kind (side, result, plies) from the last moves of random games."""
    found: dict[tuple[int, int, int], list[Ending]] = defaultdict(list)
    for seed in range(40):
        for row, ply in random_game(seed, end)[-8:-1]:
            decided = exhaustive(Board.of(row), 3, end == "playout")
            if decided is not None and decided[0] != 0:
                kind = (row[TO_MOVE], *decided)
                if len(found[kind]) < 3:
                    found[kind].append(Ending(row, ply, *decided))
    return [ending for kind in sorted(found) for ending in found[kind]]


def test_endings_of_every_kind_are_tested() -> None:
    kinds = {(e.row[TO_MOVE], e.result, e.plies) for e in endings("playout")}
    assert kinds == {(side, result, plies) for side in (0, 1) for result in (-1, 1) for plies in (1, 2, 3)}
    kinds = {(e.row[TO_MOVE], e.result, e.plies) for e in endings("majority")}
    assert kinds >= {(side, *kind) for side in (0, 1) for kind in ((1, 1), (-1, 2), (1, 3))}


@pytest.mark.parametrize("evaluator", [SMOOTH, HashEvaluator(10, logit_scale=0.0, value_scale=0.0)], ids=["hash", "uniform"])
@pytest.mark.parametrize("end", ["majority", "playout"])
def test_forced_wins_and_losses_are_proven_and_played(end: str, evaluator: Evaluator) -> None:
    cases = endings(end)
    search = batched(evaluator, Settings(end=end))
    result = search.run(np.array([e.row for e in cases], np.uint8), np.array([e.ply for e in cases]), 4000)
    for g, case in enumerate(cases):
        assert result.proof[g] == ("win" if case.result > 0 else "loss"), case
        assert result.value[g] == case.result
        claimed = int(search.tree.ints[g, ROOT, STATUS]) >> 2
        assert case.plies <= claimed, f"{case} claimed in {claimed} plies"
        after = Board.of(case.row)
        after.play(int(result.action[g]) + 1)
        if case.result > 0:
            assert result.policy[g].tolist() == np.eye(HOLES)[result.action[g]].tolist()
            assert claimed <= 7  # or the next line takes for ever
            decided = exhaustive(after, claimed - 1, end == "playout")
            assert decided is not None
            assert decided[0] == -1
        else:
            lengths = search.tree.ints[g, ROOT, CHILD_STATUS : CHILD_STATUS + HOLES] >> 2
            legal = [number - 1 for number in Board.of(case.row).legal()]
            assert lengths[result.action[g]] == max(lengths[legal]) == claimed - 1
            survivable = case.plies > 1
            assert (after.end(end == "playout") is None) == survivable  # never ends the game at once if it need not


@pytest.mark.parametrize("plies_left", [1, 2, 3])
@pytest.mark.parametrize("end", ["majority", "playout"])
def test_a_game_cut_at_the_ply_limit_is_a_draw(end: str, plies_left: int) -> None:
    results = set()
    for seed in range(8):
        for row, ply in random_game(seed, end)[-14:-1:3]:
            decided = exhaustive(Board.of(row), plies_left, end == "playout", cut=True)
            assert decided is not None
            search = batched(CLUELESS, Settings(end=end, max_plies=ply + plies_left))
            found = search.run(np.array([row], np.uint8), ply, 3000)
            assert found.proof[0] == {-1: "loss", 0: "draw", 1: "win"}[decided[0]]
            assert found.value[0] == decided[0]
            results.add(decided[0])
    assert results >= {0, 1}


def test_a_rule_that_ends_the_game_goes_before_the_ply_limit() -> None:
    for case in endings("majority"):
        if (case.result, case.plies) == (1, 1):
            found = batched(CLUELESS, Settings(max_plies=case.ply + 1)).run(np.array([case.row], np.uint8), case.ply, 100)
            assert found.proof[0] == "win"


@pytest.mark.parametrize(
    ("statuses", "visits", "best"),
    [
        ({2: LOSS + 4 * 3, 4: LOSS + 4, 5: LOSS + 4 * 5}, {2: 50, 5: 90}, 4),  # the shortest win, whatever the visits
        ({2: WIN + 4, 4: WIN + 4 * 6, 5: WIN + 4 * 4}, {2: 50, 5: 90}, 4),  # the longest loss
        ({2: WIN + 4 * 9, 4: UNKNOWN, 5: UNKNOWN}, {2: 90, 4: 1, 5: 2}, 5),  # anything but a loss
        ({2: WIN + 4 * 9, 4: DRAW, 5: UNKNOWN}, {2: 90, 4: 3, 5: 2}, 4),
        ({2: LOSS, 4: UNKNOWN, 5: UNKNOWN}, {4: 90}, 2),
    ],
)
def test_the_best_action_is_the_shortest_win_or_the_most_visited_or_the_longest_loss(
    statuses: dict[int, int], visits: dict[int, int], best: int
) -> None:
    tree = new_tree(1, 1)
    ints, floats = tree.ints[0], tree.floats[0]
    ints[ROOT, CHILD : CHILD + HOLES] = ILLEGAL
    for action, status in statuses.items():
        ints[ROOT, CHILD + action] = UNVISITED
        ints[ROOT, CHILD_STATUS + action] = status
        ints[ROOT, CHILD_VISITS + action] = visits.get(action, 0)
    assert best_action(ints, floats, ROOT) == best


# 3. Trees


def wins_at_once(rules: Board, move: int, end: str) -> bool:
    after = Board.of(rules.row())
    after.play(move)
    over = after.end(end == "playout")
    return over is not None and (over[1] - over[2]) * (1 - 2 * rules.mover) > 0


def check_tree(tree: Tree, g: int, solver: bool = True, end: str = "majority", max_plies: int = 2000) -> None:
    """Walk slot ``g`` from the root and check every link, count, value, prior and proof."""
    ints, floats, bytes_ = tree.ints[g], tree.floats[g], tree.bytes[g]
    assert ints[ROOT, PARENT] == NO_PARENT
    size = int(ints[ROOT, SIZE])
    assert 1 <= size <= ints.shape[0]
    reached = [ROOT]
    plies = {ROOT: int(ints[ROOT, ROOT_PLY])}
    for node in reached:
        rules = Board.of(state_of(bytes_, node).tolist())
        status, visits = int(ints[node, STATUS]), int(ints[node, VISITS])
        over = rules.end(end == "playout")
        if over is not None or plies[node] >= max_plies:
            margin = 0 if over is None else (over[1] - over[2]) * (1 - 2 * rules.mover)
            assert status == (WIN if margin > 0 else LOSS if margin < 0 else DRAW)
            continue
        assert status & 3 == UNKNOWN or (solver and status >> 2 >= 1)
        if visits == 0:
            assert status in (UNKNOWN, WIN + 4)
            continue
        legal = [number - 1 for number in rules.legal()]
        links = ints[node, CHILD : CHILD + HOLES].tolist()
        assert [a for a in range(HOLES) if links[a] != ILLEGAL] == legal
        winning = [a for a in legal if wins_at_once(rules, a + 1, end)]
        if solver and node != ROOT and winning:  # proven at birth
            assert status == WIN + 4
            assert (floats[node, VALUE], links) == (visits, [UNVISITED if a in legal else ILLEGAL for a in range(HOLES)])
            assert not ints[node, CHILD_VISITS : CHILD_VISITS + HOLES].any()
            statuses = ints[node, CHILD_STATUS : CHILD_STATUS + HOLES].tolist()
            assert statuses == [LOSS if a == winning[0] else UNKNOWN for a in range(HOLES)]
            continue
        priors = floats[node, PRIOR : PRIOR + HOLES]
        assert priors.sum() == pytest.approx(1.0, abs=1e-5)
        assert (priors >= 0).all()
        edge_visits = ints[node, CHILD_VISITS : CHILD_VISITS + HOLES]
        edge_values = floats[node, CHILD_VALUE : CHILD_VALUE + HOLES]
        below = int(edge_visits.sum())
        assert visits == below + 1 if status == UNKNOWN else visits >= below + 1
        assert abs(floats[node, VALUE]) <= visits
        lengths: dict[int, list[int]] = {LOSS: [], DRAW: [], WIN: [], UNKNOWN: []}
        for a in range(HOLES):
            child = links[a]
            if child < 0:
                assert child == (UNVISITED if a in legal else ILLEGAL)
                assert (edge_visits[a], edge_values[a], ints[node, CHILD_STATUS + a]) == (0, 0.0, UNKNOWN)
                assert a in legal or priors[a] == 0.0
                if a in legal:
                    lengths[UNKNOWN].append(0)
                continue
            assert node < child < size
            assert (ints[child, PARENT], ints[child, ACTION]) == (node, a)
            after = Board.of(rules.row())
            after.play(a + 1)
            assert state_of(bytes_, child).tolist() == after.row()
            assert (edge_visits[a], edge_values[a]) == (ints[child, VISITS], -floats[child, VALUE])
            assert ints[node, CHILD_STATUS + a] == ints[child, STATUS]
            lengths[int(ints[child, STATUS]) & 3].append((int(ints[child, STATUS]) >> 2) + 1)
            plies[child] = plies[node] + 1
            reached.append(child)
        if solver:
            proof = UNKNOWN
            for child_proof, own in ((UNKNOWN, UNKNOWN), (WIN, LOSS), (DRAW, DRAW), (LOSS, WIN)):  # the best that is left
                if lengths[child_proof] and not (own == DRAW and lengths[UNKNOWN]) and not (own == LOSS and lengths[UNKNOWN]):
                    proof = own
                    length = min(lengths[LOSS]) if own == WIN else max(lengths[child_proof])
            assert status == (proof + 4 * length if proof != UNKNOWN else UNKNOWN)
        else:
            own_value = floats[node, VALUE] - edge_values.sum()  # its own evaluation
            assert abs(own_value) <= 1.0 + 1e-3
    assert sorted(reached) == list(range(size))


@pytest.mark.parametrize("name", CASES)
def test_trees_are_consistent_after_a_search(name: str) -> None:
    evaluator, settings = CASES[name]
    batch = positions(settings.end)
    search = batched(evaluator, settings)
    result = search.run(batch.states, batch.plies, 150)
    for g in range(len(batch)):
        check_tree(search.tree, g, settings.solver, settings.end)
        rows = batch.states[g, :RING].reshape(2, HOLES)[batch.states[g, TO_MOVE]]
        assert (result.visits[g][rows == 0] == 0).all()
        assert (result.policy[g][rows == 0] == 0).all()
        assert result.policy[g].sum() == pytest.approx(1.0, abs=1e-5)
        assert -1.0 <= result.value[g] <= 1.0
        if result.proof[g] == "":
            assert result.visits[g].sum() == 150
        else:
            assert settings.solver
            assert result.visits[g].sum() <= 150


def below(tree: Tree, g: int, node: int) -> dict[tuple[int, ...], tuple[Any, ...]]:
    """What stands at and under ``node``, by the line of actions that leads there."""
    ints, floats, bytes_ = tree.ints[g], tree.floats[g], tree.bytes[g]
    content: dict[tuple[int, ...], tuple[Any, ...]] = {}
    pending: list[tuple[tuple[int, ...], int]] = [((), node)]
    while pending:
        line, node = pending.pop()
        status = int(ints[node, STATUS])
        content[line] = (int(ints[node, VISITS]), float(floats[node, VALUE]), status, state_of(bytes_, node).tobytes())
        if ints[node, VISITS] == 0 or status in (LOSS, DRAW, WIN):
            continue  # no edges: not evaluated, or the game is over
        links = ints[node, CHILD : CHILD + HOLES]
        content[line] += (
            np.minimum(links, 0).tolist(),
            ints[node, CHILD_VISITS : CHILD_VISITS + HOLES].tolist(),
            floats[node, CHILD_VALUE : CHILD_VALUE + HOLES].tolist(),
            floats[node, PRIOR : PRIOR + HOLES].tolist(),
            ints[node, CHILD_STATUS : CHILD_STATUS + HOLES].tolist(),
        )
        pending.extend(((*line, a), int(links[a])) for a in range(HOLES) if links[a] >= 0)
    return content


def search_on(tree: Tree, count: int, simulations: int, search: BatchedSearch) -> None:
    """Continue the searches in the first ``count`` slots, as ``run`` does, without planting new roots."""
    params = search.config.params(search.ruleset)
    none = new_cache(0)
    slots, nodes = np.empty(count, np.int64), np.empty(count, np.int64)
    states = np.empty((count, 23), np.uint8)
    budgets = np.full(count, simulations)
    while n := gather(tree, budgets, params, False, none, slots, nodes, states):
        logits, values = search.evaluator(states[:n])
        assert absorb_all(tree, params, new_streams(0, count), False, none, n, slots, nodes, logits, values) == -1


@pytest.mark.parametrize("settings", [Settings(), Settings(solver=False, end="playout")], ids=["solver", "no solver"])
def test_a_kept_subtree_is_what_hung_below_the_move(settings: Settings) -> None:
    batch = positions(settings.end)
    search = batched(SMOOTH, settings)
    result = search.run(batch.states, batch.plies, 300)
    remap = np.zeros(search.tree.ints.shape[1], np.int32)
    for g in range(len(batch)):
        for action in range(HOLES):
            if result.visits[g, action] == 0:
                continue
            copied = Tree(*(part[g : g + 1].copy() for part in search.tree))
            block = copied.ints  # one block, three views
            copied = Tree(block, block.view(np.float32), block.view(np.uint8))
            child = int(block[0, ROOT, CHILD + action])
            bare = not block[0, child, CHILD_VISITS : CHILD_VISITS + HOLES].any()
            if block[0, child, STATUS] in (LOSS, DRAW, WIN) or (block[0, child, STATUS] == WIN + 4 and bare):  # nothing below
                assert not keep_subtree(block[0], action, remap)
                continue
            expected = below(copied, 0, child)
            assert keep_subtree(block[0], action, remap)
            assert below(copied, 0, ROOT) == expected
            assert block[0, ROOT, SIZE] == len(expected)
            check_tree(copied, 0, settings.solver, settings.end)


def test_a_move_that_was_never_searched_keeps_nothing() -> None:
    batch = positions("majority")[2:4]
    search = batched(UNDERFLOW)
    search.run(batch.states, batch.plies, 3)
    remap = np.zeros(search.tree.ints.shape[1], np.int32)
    for g in range(len(batch)):
        ints = search.tree.ints[g]
        before = ints.copy()
        for action in range(HOLES):
            if ints[ROOT, CHILD_VISITS + action] == 0:
                assert not keep_subtree(ints, action, remap)
        np.testing.assert_array_equal(ints, before)


def test_nothing_is_kept_of_a_root_that_was_not_evaluated() -> None:
    search = batched(SMOOTH)
    start = Position.start().state[None]
    search.run(start, 0, 50)  # leaves links behind in the slot
    finished = board("0 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 60).state[None]
    search.run(finished, 0, 50)
    assert not any(keep_subtree(search.tree.ints[0], action, np.zeros(99, np.int32)) for action in range(HOLES))


def test_nothing_is_kept_of_a_finished_game() -> None:
    case = next(case for case in endings("majority") if (case.result, case.plies) == (1, 1))
    search = batched(CLUELESS, Settings(solver=False))
    result = search.run(np.array([case.row], np.uint8), case.ply, 100)
    assert result.visits[0, result.action[0]] > 0
    assert not keep_subtree(search.tree.ints[0], int(result.action[0]), np.zeros(199, np.int32))


@pytest.mark.parametrize("settings", [Settings(), Settings(solver=False)], ids=["solver", "no solver"])
def test_a_search_on_a_kept_subtree_agrees_with_the_reference(settings: Settings) -> None:
    batch = positions("majority")
    search = batched(SMOOTH, settings)
    search.run(batch.states, batch.plies, 200)
    search.run(batch.states, batch.plies, 60)
    references = [ReferenceSearch(row, ply, SMOOTH, settings).run(60) for row, ply in batch]
    tree = search.tree
    remap = np.zeros(tree.ints.shape[1], np.int32)
    played = 0
    for _ in range(3):
        for g, reference in enumerate(references):
            visits = reference.visits()
            move = visits.index(max(visits)) + 1
            child = reference.root.children.get(move)
            if child is not None and not child.over and child.winning is None and child.visits > 0:
                reference.keep(move)
                assert keep_subtree(tree.ints[g], move - 1, remap)
                played += 1
        search_on(tree, len(batch), 90, search)
        for g, reference in enumerate(references):
            reference.run(90)
            assert reference.root.visits > 0
            assert tree.ints[g, ROOT, CHILD_VISITS : CHILD_VISITS + HOLES].tolist() == reference.visits()
            assert tree.ints[g, ROOT, ROOT_PLY] == reference.root.ply
            assert tree.ints[g, ROOT, VISITS] == reference.root.visits
            assert tree.floats[g, ROOT, VALUE] == pytest.approx(float(reference.root.total), abs=1e-3)
            check_tree(tree, g, settings.solver)
    assert played >= 15


# 4. What a result depends on


def test_rows_are_independent_of_their_neighbours_and_order() -> None:
    batch = positions("majority")
    result = batched(SMOOTH).run(batch.states, batch.plies, 60)
    order = np.random.default_rng(0).permutation(len(batch))
    shuffled = batch[order]
    assert_same(batched(SMOOTH).run(shuffled.states, shuffled.plies, 60), result_rows(result, order))
    for g in range(len(batch)):
        one = batch[g : g + 1]
        assert_same(batched(SMOOTH).run(one.states, one.plies, 60), result_rows(result, [g]))


def test_with_noise_a_row_depends_on_seed_and_slot_alone() -> None:
    batch = positions("majority")
    settings = Settings(explore=True)

    def run(rows: Batch, seed: int) -> SearchResult:
        return batched(SMOOTH, settings, seed, noise_fraction=0.5).run(rows.states, rows.plies, 60)

    result = run(batch, 3)
    assert_same(run(batch, 3), result)  # equal seeds, equal trees
    assert (run(batch, 4).visits != result.visits).any()
    assert_same(run(batch[:1], 3), result_rows(result, [0]))  # alone
    neighbours = np.array([6, 5, 2, 2, 1, 8, 0])
    other = run(batch[neighbours], 3)
    assert_same(result_rows(other, [2]), result_rows(result, [2]))  # other neighbours
    assert (result_rows(other, [3]).visits != result_rows(other, [2]).visits).any()  # the same position in another slot


def test_noise_temperature_and_seed_change_nothing_by_default() -> None:
    batch = positions("majority")
    plain = batched(SMOOTH).run(batch.states, batch.plies, 60)
    for seed in (0, 1):
        search = BatchedSearch(SMOOTH, SearchConfig(root_temperature=2.0, noise_fraction=0.9, forced_playouts=2.0), seed=seed)
        assert_same(search.run(batch.states, batch.plies, 60), plain)


def test_earlier_searches_leave_no_trace() -> None:
    batch, other = positions("majority"), positions("playout")
    used = batched(SMOOTH)
    used.run(other.states[::-1], other.plies[::-1], 300)
    used.run(other.states[:2], other.plies[:2], 500)
    assert_same(used.run(batch.states, batch.plies, 60), batched(SMOOTH).run(batch.states, batch.plies, 60))
    for g in range(len(batch)):
        check_tree(used.tree, g)


@pytest.mark.parametrize("places", [1, 7, 4096])
def test_the_cache_changes_no_result_and_saves_evaluations(places: int) -> None:
    batch = positions("majority")
    plain = batched(SMOOTH)
    cached = batched(SMOOTH, cache_places=places)
    expected = plain.run(batch.states, batch.plies, 100)
    for _ in range(2):
        assert_same(cached.run(batch.states, batch.plies, 100), expected)
    assert cached.evaluations <= 2 * plain.evaluations
    if places == 4096:
        assert cached.evaluations < 1.5 * plain.evaluations


def test_a_forgotten_cache_gives_the_results_of_the_new_weights() -> None:
    batch = positions("majority")
    weights = SMOOTH
    search = batched(lambda states: weights(states), cache_places=4096)
    search.run(batch.states, batch.plies, 50)
    weights = HashEvaluator(99)
    expected = batched(weights).run(batch.states, batch.plies, 50)
    assert search.run(batch.states, batch.plies, 50).visits.tolist() != expected.visits.tolist()  # what it remembers is of the old
    search.forget()
    assert_same(search.run(batch.states, batch.plies, 50), expected)


# 5. Randomness


def root_priors(evaluator: Evaluator, position: Position, count: int, seed: int = 0, **config: Any) -> np.ndarray:
    """Root priors, ``float32[count, 9]``, of ``count`` searches of one position with their own random streams."""
    search = BatchedSearch(evaluator, SearchConfig(**config), explore=True, seed=seed)
    search.run(np.tile(position.state, (count, 1)), position.ply, 0)
    return search.tree.floats[:count, ROOT, PRIOR : PRIOR + HOLES].astype(np.float64)


SPARSE = board("0 3 1 0 12 2 0 5 1", "1 9 0 4 0 2 7 0 1")
LEGAL = np.array([1, 2, 4, 5, 7, 8])


@pytest.mark.parametrize("alpha", [0.05, 0.8, 3.0])
@pytest.mark.parametrize("shaped", [False, True])
def test_root_noise_is_a_dirichlet_distribution_over_legal_actions(shaped: bool, alpha: float) -> None:
    sharp = HashEvaluator(21, logit_scale=5.0)
    prior = root_priors(sharp, SPARSE, 1, noise_fraction=0.0)[0]
    noise = root_priors(sharp, SPARSE, 20_000, noise_fraction=1.0, noise_alpha=alpha, noise_shaped=shaped)
    assert (noise >= 0).all()
    assert noise.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert (np.delete(noise, LEGAL, axis=1) == 0).all()
    share = np.full(len(LEGAL), 1.0 / len(LEGAL))
    if shaped:  # half of it proportional to how far the clipped log policy is above its mean
        logs = np.log(np.minimum(prior[LEGAL], 0.01))
        above = np.maximum(logs - logs.mean(), 0.0)
        share = 0.5 * share + 0.5 * above / above.sum()
    total = alpha * len(LEGAL)
    variance = share * (1.0 - share) / (total + 1.0)  # of a Dirichlet distribution
    error = 5.0 * np.sqrt(variance / len(noise))
    assert (np.abs(noise[:, LEGAL].mean(axis=0) - share) < error).all()
    assert noise[:, LEGAL].var(axis=0) == pytest.approx(variance, rel=0.1)


def test_root_noise_is_mixed_in_by_its_fraction() -> None:
    prior = root_priors(SMOOTH, SPARSE, 1, noise_fraction=0.0)[0]
    noise = root_priors(SMOOTH, SPARSE, 50, noise_fraction=1.0, seed=9)
    mixed = root_priors(SMOOTH, SPARSE, 50, noise_fraction=0.3, seed=9)
    np.testing.assert_allclose(mixed, 0.7 * prior + 0.3 * noise, atol=1e-6)
    assert len(np.unique(mixed[:, LEGAL[0]])) == 50


def test_shaped_noise_of_a_flat_policy_is_plain_noise() -> None:
    flat = HashEvaluator(1, logit_scale=0.0)
    shaped, plain = (root_priors(flat, SPARSE, 10, noise_fraction=1.0, noise_shaped=s) for s in (True, False))
    np.testing.assert_allclose(shaped, plain, atol=1e-6)


@pytest.mark.parametrize("temperature", [0.01, 0.001, 0.5, 1.25, 1000.0])
@pytest.mark.parametrize("logit_scale", [0.0, 2.0, 200.0])
def test_root_temperature_keeps_a_distribution(temperature: float, logit_scale: float) -> None:
    evaluator = HashEvaluator(3, logit_scale=logit_scale)
    before = root_priors(evaluator, SPARSE, 1, noise_fraction=0.0)[0]
    after = root_priors(evaluator, SPARSE, 1, noise_fraction=0.0, root_temperature=temperature)[0]
    expected = (before / before.max()) ** (1.0 / temperature)
    np.testing.assert_allclose(after, expected / expected.sum(), atol=2e-4)


@pytest.mark.parametrize("shape", [0.05, 0.4, 0.8, 1.0, 2.5, 30.0])
def test_gamma_draws_follow_the_gamma_distribution(shape: float) -> None:
    streams = new_streams(17, 1)
    draws = np.array([gamma(streams, 0, shape) for _ in range(200_000)])
    assert abs(draws.mean() - shape) < 4.0 * math.sqrt(shape / len(draws))
    assert draws.var() == pytest.approx(shape, rel=0.05)
    expected = np.random.default_rng(1).gamma(shape, size=1_000_000)
    for quantile in (0.1, 0.25, 0.5, 0.75, 0.9):
        error = 5.0 * math.sqrt(quantile * (1.0 - quantile) / len(draws))
        assert abs((draws < np.quantile(expected, quantile)).mean() - quantile) < error


# 6. Edges


def test_a_finished_position_costs_nothing_and_has_its_exact_value() -> None:
    def never(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise AssertionError("evaluated a finished position")

    atsyrau = board("0 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 60)
    won = board("1 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 82)
    lost = board("1 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 82, to_move=1)
    drawn = board("0 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 81)
    states = np.stack([p.state for p in (atsyrau, won, lost, drawn)])
    for solver in (True, False):
        search = batched(never, Settings(solver=solver))
        result = search.run(states, 0, 50)
        assert result.visits.tolist() == np.zeros((4, HOLES)).tolist()
        assert result.policy.tolist() == np.zeros((4, HOLES)).tolist()
        assert result.value.tolist() == [-1.0, 1.0, -1.0, 0.0]
        assert result.proof == ("loss", "win", "loss", "draw")
        assert result.action.tolist() == [-1] * 4
        assert result.principal_variation == ((),) * 4
        assert search.evaluations == 0
        cut = batched(never, Settings(solver=solver, max_plies=6)).run(Position.start().state[None], 6, 50)
        assert (cut.proof[0], cut.value[0], cut.action[0]) == ("draw", 0.0, -1)


def test_without_simulations_the_highest_prior_is_played() -> None:
    batch = positions("majority")
    result = batched(SMOOTH).run(batch.states, batch.plies, 0)
    logits, values = SMOOTH(batch.states)
    assert result.visits.sum() == 0
    assert result.action.tolist() == logits.argmax(axis=1).tolist()
    assert result.value == pytest.approx(values, abs=1e-6)


def test_a_single_legal_move_gets_all_visits() -> None:
    only = board("0 0 0 0 0 0 30 0 0", "9 9 9 9 9 9 9 9 9")
    result = batched(SMOOTH).run(only.state[None], 0, 70)
    assert result.visits[0].tolist() == [0, 0, 0, 0, 0, 0, 70, 0, 0]
    assert (result.action[0], result.policy[0, 6]) == (6, 1.0)


def test_no_positions_give_an_empty_result() -> None:
    result = batched(SMOOTH).run(np.empty((0, 23), np.uint8), 0, 10)
    assert (result.visits.shape, result.policy.shape, result.action.shape, result.proof) == ((0, 9), (0, 9), (0,), ())


def test_a_single_search_that_is_led_to_the_end_has_no_move_there() -> None:
    case = next(case for case in endings("majority") if (case.result, case.plies) == (1, 1))
    search = SingleSearch(with_outcome(CLUELESS))
    position = Position.from_state(case.row, case.ply)
    won = position.play(search.run(position.state, position.ply, simulations=300).action + 1)
    assert won.outcome() is not None
    analysis = search.run(won.state, won.ply, simulations=300)
    assert (analysis.action, analysis.value, analysis.proof, analysis.lines) == (-1, -1.0, "loss", ())


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(TogyzError, match="simulations: -1"):
        batched(SMOOTH).run(Position.start().state[None], 0, -1)


Spoil = Callable[[np.ndarray, np.ndarray], Any]
SPOILS: dict[str, Spoil] = {
    "NaN value": lambda logits, values: values.__setitem__(0, np.nan),
    "infinite value": lambda logits, values: values.__setitem__(0, np.inf),
    "value out of range": lambda logits, values: values.__setitem__(0, 1.5),
    "NaN logit": lambda logits, values: logits.__setitem__((0, 8), np.nan),
    "infinite logit": lambda logits, values: logits.__setitem__((0, 8), np.inf),
    "nothing possible": lambda logits, values: logits.__setitem__(0, -np.inf),
    "mass on illegal moves": lambda logits, values: logits.__setitem__(0, np.where(logits[0] == -np.inf, 1.0, -np.inf)),
    "some mass on an illegal move": lambda logits, values: logits.__setitem__(0, np.where(logits[0] == -np.inf, -9.0, logits[0])),
}


@pytest.mark.parametrize("call", [1, 20])
@pytest.mark.parametrize("name", SPOILS)
def test_an_unusable_evaluation_is_an_error_that_shows_the_state(name: str, call: int) -> None:
    calls = 0

    def spoilt(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal calls
        calls += 1
        logits, values = SMOOTH(states)
        if calls >= call and (logits[0] == -np.inf).any():
            SPOILS[name](logits, values)
        return logits, values

    states = np.stack([SPARSE.state, Position.start().state])
    search = batched(spoilt)
    with pytest.raises(TogyzError, match=r"evaluator: .* state \[\d+, "):
        search.run(states, 0, 100)
    calls = -1000  # the error leaves nothing behind
    assert_same(search.run(states, 0, 20), batched(SMOOTH).run(states, 0, 20))


@pytest.mark.parametrize(
    "shapes",
    [((2, 8), (2,)), ((2, 10), (2,)), ((1, 9), (2,)), ((2, 9), (2, 1)), ((2, 9), (1,)), ((9,), (2,))],
    ids=str,
)
def test_outputs_of_the_wrong_shape_are_refused(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    def wrong(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.float32)

    with pytest.raises(TogyzError, match="evaluator: shapes"):
        batched(wrong).run(np.tile(Position.start().state, (2, 1)), 0, 5)


@pytest.mark.parametrize("shape", [(23,), (2, 22), (2, 24), (1, 2, 23)])
def test_states_of_the_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(TogyzError, match="states: shape"):
        batched(SMOOTH).run(np.zeros(shape, np.uint8), 0, 5)


def test_any_float_type_and_memory_layout_of_outputs_is_taken() -> None:
    def doubles(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits, values = SMOOTH(states)
        return np.asfortranarray(logits.astype(np.float64)), np.repeat(values.astype(np.float64), 2)[::2]

    batch = positions("majority")
    assert_same(batched(doubles).run(batch.states, batch.plies, 20), batched(SMOOTH).run(batch.states, batch.plies, 20))


@pytest.mark.parametrize("name", ["exploration", "exploration_base", "root_temperature", "noise_alpha"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e39])
def test_settings_that_must_be_positive_are_checked(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"search.{name}: {value}")):
        replace(SearchConfig(), **{name: value})


@pytest.mark.parametrize("name", ["fpu_reduction", "exploration_growth", "forced_playouts", "noise_fraction"])
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, 1e39])
def test_settings_that_may_be_zero_are_checked(name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"search.{name}: {value}")):
        replace(SearchConfig(), **{name: value})
