"""The search of one position: the batched search leaf by leaf, and what batches of leaves, limits and a kept tree promise.

1. Leaf by leaf it is the batched search, visit for visit.
2. With batches of leaves nothing of a waiting leaf stays behind; counts, values, draws and margins of a tree add up.
3. Limits of simulations, time and nodes hold, alone and together; ``stop`` ends a search; reports follow it.
4. Lines are legal and the best come first; probabilities add up to 1 and agree with the value; margins of finished games are exact.
5. The tree is kept over none, one and two plies, and over nothing else.
6. Edges: finished positions, no budget, evaluators that no search can use; equal runs are equal.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from boards import board, random_positions
from reference_rules import Board
from reference_search import HashEvaluator
from test_search import below, check_tree

from togyz_agents.benchmark.leaves import compare_leaves
from togyz_agents.network import Network, NetworkConfig, save_network
from togyz_agents.search.batched import BatchedSearch
from togyz_agents.search.params import SearchConfig
from togyz_agents.search.single import Analysis, SingleSearch, with_outcome
from togyz_agents.search.tree import (
    ACTION,
    CHILD,
    CHILD_VALUE,
    CHILD_VISITS,
    DRAW_SUM,
    MARGIN_SUM,
    PARENT,
    PENDING,
    ROOT,
    SIZE,
    STATE_BYTE,
    STATE_END,
    STATUS,
    UNKNOWN,
    VALUE,
    VISITS,
)
from togyz_env import Position, Ruleset
from togyz_env.errors import ConfigError, TogyzError
from togyz_env.rules import HOLES

START = Position.start()
VALUES = HashEvaluator(1, value_scale=1.0, levels=64)
"""Steps of 1/64: every sum is exact, whatever its order."""
OTHER = HashEvaluator(2, value_scale=1.0, levels=64)
Spoil = Callable[[np.ndarray, np.ndarray, np.ndarray], Any]


def outputs(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A FullEvaluator whose win - loss is the value of VALUES, with draws and margins of its own."""
    logits, value = VALUES(states)
    other = OTHER(states)[1]
    draw = (1.0 - np.abs(value)) * (1.0 + other) / 2
    outcome = np.stack([(1.0 - draw + value) / 2, draw, (1.0 - draw - value) / 2], axis=1).astype(np.float32)
    return logits, outcome, (other / 2).astype(np.float32)


@cache
def positions() -> list[Position]:
    """Early, middle and late positions of random games, both colours."""
    some = list(random_positions(1200, 4))
    late = [position for position in some if max(position.kazans) >= 74]
    return [*some[:90:13], *late[:: max(1, len(late) // 9)]]


def fresh(position: Position, simulations: int, **arguments: Any) -> tuple[SingleSearch, Analysis]:
    search = SingleSearch(outputs, **arguments)
    return search, search.run(position.state, position.ply, simulations=simulations)


def content(search: SingleSearch) -> dict[tuple[int, ...], tuple[Any, ...]]:
    return below(search._tree, 0, ROOT)


def same(one: Analysis, other: Analysis) -> None:
    """Equal but for the time."""
    for a in (one, other):
        assert a.visits.dtype == np.int32
    assert one.visits.tolist() == other.visits.tolist()
    assert replace(one, seconds=0.0, visits=one.visits) == replace(other, seconds=0.0, visits=one.visits)


# 1


@pytest.mark.parametrize(
    ("config", "ruleset"),
    [
        (SearchConfig(), Ruleset()),
        (SearchConfig(solver=False), Ruleset("playout")),
        (SearchConfig(exploration=2.5, fpu_reduction=0.0, exploration_growth=1.0, exploration_base=50.0), Ruleset(max_plies=150)),
    ],
    ids=["default", "no solver", "other settings"],
)
def test_leaf_by_leaf_it_is_the_batched_search(config: SearchConfig, ruleset: Ruleset) -> None:
    batched = BatchedSearch(VALUES, config, ruleset)
    for i, position in enumerate(positions()):
        if position.outcome(ruleset) is not None:
            continue
        for simulations in (0, 1, 2, 10, 100, 1500) if i % 5 == 2 else (3, 60):
            single = SingleSearch(with_outcome(VALUES), config, ruleset, batch=1)
            found = single.run(position.state, position.ply, simulations=simulations)
            expected = batched.run(position.state[None], position.ply, simulations)
            assert found.visits.tolist() == expected.visits[0].tolist()
            assert found.value == expected.value[0]
            assert (found.action, found.proof) == (expected.action[0], expected.proof[0])
            assert found.lines[0].moves == expected.principal_variation[0]
            if simulations <= 100:
                assert below(single._tree, 0, ROOT) == below(batched.tree, 0, ROOT)


def test_leaf_by_leaf_a_search_goes_on_as_if_it_had_never_ended() -> None:
    for position in positions()[::3]:
        search = SingleSearch(outputs, batch=1)
        for simulations in (0, 1, 7, 300):
            found = search.run(position.state, position.ply, simulations=simulations)
            same(found, fresh(position, simulations, batch=1)[1])


def test_gumbel_settings_are_searched_as_puct() -> None:
    same(fresh(START, 200, config=SearchConfig(root="gumbel"))[1], fresh(START, 200)[1])


# 2


def check(search: SingleSearch, solver: bool = True) -> None:
    """Nothing in the tree waits for the network; counts and sums of every open node are those of its children and its own."""
    ints, floats, bytes_ = (view[0] for view in search._tree)
    size = int(ints[ROOT, SIZE])
    parent, action = ints[1:size, PARENT], ints[1:size, ACTION]
    assert not ints[:size, PENDING].any()
    assert (ints[:size, VISITS] > 0).all()
    assert (ints[parent, CHILD + action] == np.arange(1, size)).all()
    assert (ints[parent, CHILD_VISITS + action] == ints[1:size, VISITS]).all()
    assert (floats[parent, CHILD_VALUE + action] == -floats[1:size, VALUE]).all()
    status = ints[:size, STATUS]
    assert solver or (status >> 2 == 0).all()
    below_ = {word: np.zeros(size) for word in (VALUE, DRAW_SUM, MARGIN_SUM)}
    for word, sums in below_.items():
        np.add.at(sums, parent, floats[1:size, word].astype(float))
    visits = np.zeros(size, np.int64)
    np.add.at(visits, parent, ints[1:size, VISITS])
    open_ = np.flatnonzero(status == UNKNOWN)
    assert (ints[open_, VISITS] == 1 + visits[open_]).all()
    assert (ints[open_, CHILD_VISITS : CHILD_VISITS + HOLES].sum(axis=1) == visits[open_]).all()
    _, outcome, margin = outputs(np.ascontiguousarray(bytes_[open_, STATE_BYTE:STATE_END]))
    assert (floats[open_, VALUE] == outcome[:, 0] - outcome[:, 2] - below_[VALUE][open_]).all()
    assert np.allclose(floats[open_, DRAW_SUM], outcome[:, 1] + below_[DRAW_SUM][open_], rtol=1e-4, atol=1e-3)
    assert np.allclose(floats[open_, MARGIN_SUM], margin - below_[MARGIN_SUM][open_], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("solver", [True, False])
@pytest.mark.parametrize(("batch", "share"), [(1, 0.05), (8, 0.5), (64, 0.05), (64, 1.0), (300, 1.0)])
def test_waiting_leaves_leave_no_trace(batch: int, share: float, solver: bool) -> None:
    for position in positions()[:: 4 if batch == 64 else 6]:
        search, found = fresh(position, 700, batch=batch, batch_share=share, config=SearchConfig(solver=solver))
        assert found.simulations == found.visits.sum()
        assert found.simulations == 700 or (solver and found.proof)
        empty = [action for action in range(HOLES) if action + 1 not in position.legal_moves()]
        assert found.visits[empty].tolist() == [0] * len(empty)
        check(search, solver)
    check_tree(search._tree, 0, solver)


def test_a_batch_is_at_most_its_share_of_the_visits_so_far() -> None:
    sizes: list[int] = []

    def counting(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        sizes.append(len(states))
        return outputs(states)

    SingleSearch(counting, batch=20, batch_share=0.1).run(START.state, 0, simulations=400)
    visits = np.cumsum([0, *sizes])[:-1]  # far from the end every visit is an evaluation
    assert sum(sizes) == 401
    assert (np.array(sizes) <= np.clip(0.1 * visits, 1, 20)).all()
    assert 10 < max(sizes) <= 20
    assert sizes[:20] == [1] * 20


def test_a_search_in_steps_is_the_search_in_one_call() -> None:
    for position in positions()[::4]:
        search = SingleSearch(outputs, batch=16, batch_share=0.1)
        search.begin(position.state, position.ply)
        while (states := search.waiting_leaves(300)) is not None:
            if len(states):
                search.settle_leaves(*outputs(states.copy()))
        same(search.found(), fresh(position, 300, batch=16, batch_share=0.1)[1])


def test_a_match_of_leaf_batches_against_leaf_by_leaf_is_even_where_they_are_the_same(tmp_path: Path) -> None:
    torch.manual_seed(1)
    save_network(Network(NetworkConfig(width=8, blocks=1)), tmp_path / "n.safetensors")
    result = compare_leaves(tmp_path / "n.safetensors", simulations=20, pairs=3, batch_share=0.01)  # batches of one
    assert set(result.pair_scores.tolist()) == {0.5}
    other = compare_leaves(tmp_path / "n.safetensors", simulations=20, pairs=3, batch_share=1.0)
    assert [game.moves for game in other.games] != [game.moves for game in result.games]


# 3


@pytest.mark.parametrize("simulations", [0, 1, 2, 63, 64, 65, 1023, 1024, 2500])
def test_a_limit_of_simulations_is_met_exactly(simulations: int) -> None:
    for batch in (1, 64, 1000):
        found = fresh(START, simulations, batch=batch, batch_share=1.0)[1]
        assert (found.simulations, found.nodes) == (simulations, simulations + 1)


def test_a_full_tree_grows_where_many_moves_end_the_game() -> None:
    # The last free nodes go to ends of the game, which need no network.
    ending = Position.from_fen("1S,2S,2S,3,1S,T,1/1,1S,3S,1S,5S,1S,t,2S,1 62 81 N 50")
    found = fresh(ending, 6000, batch=1)[1]
    assert found.simulations == 6000 or found.proof
    reached = 0
    for position in positions():
        if max(position.kazans) >= 76:
            search, found = fresh(position, 3000, batch=1)
            assert found.simulations == 3000 or found.proof
            reached += found.nodes > 1024
            check(search)
    assert reached > 0


def test_a_limit_of_time_ends_a_search() -> None:
    search = SingleSearch(outputs)
    search.run(START.state, 0, simulations=100)
    search.forget()
    found = search.run(START.state, 0, seconds=0.1)
    assert 0.1 <= found.seconds < 60
    assert 0 < found.simulations < search.max_nodes
    check(search)


def test_the_first_of_two_limits_ends_a_search() -> None:
    assert SingleSearch(outputs).run(START.state, 0, simulations=50, seconds=600).simulations == 50
    found = SingleSearch(outputs).run(START.state, 0, simulations=10**9, seconds=0.1)
    assert 0 < found.simulations < 10**9


@pytest.mark.parametrize("seconds", [0.0, 1e-9])
def test_however_short_the_time_there_is_a_move(seconds: float) -> None:
    for position in positions():
        search = SingleSearch(outputs)
        found = search.run(position.state, position.ply, seconds=seconds)
        assert found.action + 1 in position.legal_moves()
        assert found.value == pytest.approx(float(VALUES(position.state[None])[1][0]))
    assert search.run(position.state, position.ply, seconds=0.0).simulations == 0


@pytest.mark.parametrize(
    ("limits", "part"),
    [
        ({}, "no limit; give simulations or seconds"),
        ({"simulations": -1}, "-1 simulations"),
        ({"seconds": -0.5}, "-0.5 seconds"),
        ({"seconds": float("nan")}, "nan seconds"),
        ({"simulations": 10, "seconds": -1}, "a limit cannot be below 0"),
    ],
    ids=str,
)
def test_no_limit_and_negative_ones_are_refused(limits: dict[str, Any], part: str) -> None:
    with pytest.raises(TogyzError, match=part):
        SingleSearch(outputs).run(START.state, 0, **limits)


@pytest.mark.parametrize("limits", [{"simulations": 10**9}, {"seconds": 3600.0}], ids=str)
def test_stop_ends_a_search_after_its_batch(limits: dict[str, Any]) -> None:
    batches = 0
    running = threading.Event()

    def counting(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nonlocal batches
        batches += 1
        if batches > 20:
            running.set()
        return outputs(states)

    search = SingleSearch(counting)
    found: list[Analysis] = []
    thread = threading.Thread(target=lambda: found.append(search.run(START.state, 0, **limits)))
    thread.start()
    assert running.wait(60)
    search.stop()
    before = batches
    thread.join(60)
    assert not thread.is_alive()
    assert batches <= before + 2
    assert found[0].simulations > 0
    check(search)
    again = search.run(START.state, 0, simulations=found[0].simulations + 500)  # the next search is not stopped
    assert again.simulations == found[0].simulations + 500


def test_stop_ends_a_search_that_needs_no_network() -> None:
    # White has one move, which ends the game; without the solver it is searched again and again.
    last = board("0 0 0 0 0 0 0 0 1", "1 5 0 0 0 0 0 0 0", 81)
    assert last.play(9).outcome() is not None
    search = SingleSearch(outputs, SearchConfig(solver=False))
    found = search.run(last.state, last.ply, simulations=2 * 10**9, seconds=0.2)
    assert 4096 < found.simulations < 2 * 10**9
    assert (found.action, found.nodes) == (8, 2)


@pytest.mark.parametrize("most", [3, 4, 10, 100, 1023, 1024, 1025, 1500])
def test_a_tree_never_holds_more_nodes_than_allowed(most: int) -> None:
    for batch in (1, 64):
        search, found = fresh(START, 3000, batch=batch, batch_share=1.0, max_nodes=most)
        assert found.nodes == most
        assert found.simulations == most - 1
        assert found.action + 1 in START.legal_moves()
        check(search)
    next_one = START.play(found.action + 1)
    later = search.run(next_one.state, 1, simulations=3000)  # there is room again
    assert later.nodes == most
    check(search)


@pytest.mark.parametrize("settings", [{"batch": 0}, {"max_nodes": 2}], ids=str)
def test_impossible_sizes_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="expected at least 1 and 3"):
        SingleSearch(outputs, **settings)


def test_reports_follow_the_search() -> None:
    reports: list[Analysis] = []
    found = SingleSearch(outputs).run(START.state, 0, simulations=800, report=reports.append, every=0.0, lines=3)
    simulations = [report.simulations for report in reports]
    assert len(reports) > 50
    assert simulations[0] == 0
    assert all(a < b for a, b in itertools.pairwise(simulations))
    assert simulations[-1] <= found.simulations == 800
    for report in reports:
        assert len(report.lines) == 3
        assert report.action + 1 in START.legal_moves()
    never: list[Analysis] = []
    SingleSearch(outputs).run(START.state, 0, simulations=800, report=never.append, every=3600.0)
    assert never == []


# 4


def test_probabilities_add_up_to_1_and_agree_with_the_value() -> None:
    proofs = set()
    won = [position for position in positions() if fresh(position, 1500)[1].proof == "win"]
    lost = [position.play(fresh(position, 1500)[1].action + 1) for position in won]
    for position in (*positions(), *lost):
        for simulations in (0, 1, 50, 1500):
            found = fresh(position, simulations)[1]
            win, draw, loss = found.outcome
            assert win + draw + loss == pytest.approx(1.0, abs=1e-6)
            assert min(found.outcome) >= -1e-9
            assert win - loss == pytest.approx(found.value, abs=1e-6)
            proofs.add(found.proof)
            if found.proof:
                assert found.outcome == {"win": (1.0, 0.0, 0.0), "draw": (0.0, 1.0, 0.0), "loss": (0.0, 0.0, 1.0)}[found.proof]
    assert proofs >= {"", "win", "loss"}


def test_a_proven_draw_is_reported_as_one() -> None:
    found = fresh(START, 500, config=SearchConfig(exploration=50.0), ruleset=Ruleset(max_plies=1))[1]
    assert (found.proof, found.value, found.outcome, found.proof_plies) == ("draw", 0.0, (0.0, 1.0, 0.0), 1)
    assert {line.proof for line in found.lines} == {"draw"}


def finished(end: str) -> Iterator[Position]:
    """The last positions of random games."""
    rng = np.random.default_rng(6)
    for _ in range(12):
        position = START
        while position.outcome(Ruleset(end)) is None:  # type: ignore[arg-type]
            position = position.play(int(rng.choice(position.legal_moves())))
        yield position


@pytest.mark.parametrize("solver", [True, False])
@pytest.mark.parametrize("end", ["majority", "playout"])
def test_a_finished_position_costs_nothing_and_is_exact(end: Any, solver: bool) -> None:
    def never(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        raise AssertionError("evaluated a finished position")

    search = SingleSearch(never, SearchConfig(solver=solver), Ruleset(end))
    margins = set()
    for position in finished(end):
        over = Board.of(list(position.row)).end(end == "playout")
        assert over is not None
        margin = (over[1] - over[2]) * (1 - 2 * position.to_move)
        found = search.run(position.state, position.ply, simulations=100)
        assert found.margin == pytest.approx(margin, abs=1e-6)
        assert found.value == (margin > 0) - (margin < 0)
        assert found.proof == {1: "win", 0: "draw", -1: "loss"}[int(found.value)]
        assert (found.action, found.lines, found.simulations, found.proof_plies) == (-1, (), 0, 0)
        assert sum(found.outcome) == 1.0
        margins.add(margin)
    assert len(margins) > 3
    cut = SingleSearch(never, ruleset=Ruleset(max_plies=6)).run(START.state, 6, simulations=100)
    assert (cut.proof, cut.value, cut.outcome, cut.margin, cut.action) == ("draw", 0.0, (0.0, 1.0, 0.0), 0.0, -1)


def test_without_a_budget_the_network_answers() -> None:
    for position in positions():
        logits, outcome, margin = outputs(position.state[None])
        found = fresh(position, 0)[1]
        assert found.action == logits[0].argmax()
        assert found.outcome == pytest.approx(outcome[0].tolist(), abs=1e-6)
        assert found.margin == pytest.approx(81 * float(margin[0]), abs=1e-4)
        prior = np.exp(logits[0]) / np.exp(logits[0]).sum()
        assert {line.moves[0]: line.prior for line in found.lines} == pytest.approx(
            {move: float(prior[move - 1]) for move in position.legal_moves()}, abs=1e-6
        )


@pytest.mark.parametrize("simulations", [0, 5, 100, 2000])
def test_lines_are_legal(simulations: int) -> None:
    for position in positions():
        found = fresh(position, simulations)[1]
        assert sorted(line.moves[0] for line in found.lines) == position.legal_moves()
        assert found.lines[0].moves[0] == found.action + 1
        for line in found.lines:
            assert line.visits == found.visits[line.moves[0] - 1]
            after = position
            for move in line.moves:
                assert after.outcome() is None
                after = after.play(move)  # refuses an illegal one
        search = SingleSearch(outputs)
        fewer = search.run(position.state, position.ply, simulations=simulations, lines=2)
        assert fewer.lines == found.lines[:2]


@pytest.mark.parametrize("simulations", [0, 5, 100, 400, 2000])
def test_the_best_lines_come_first(simulations: int) -> None:
    wins_seen = losses_seen = 0
    dangerous = [position for position in random_positions(1500, 5) if max(position.kazans) >= 79]
    for position in (*positions(), *dangerous[::4]):
        found = fresh(position, simulations)[1]
        order = [{"win": 2, "loss": 0}.get(line.proof, 1) for line in found.lines]
        assert order == sorted(order, reverse=True)
        visits = [line.visits for line in found.lines if line.proof in ("", "draw")]
        assert visits == sorted(visits, reverse=True)
        priors = [line.prior for line in found.lines if line.visits == 0]
        assert priors == sorted(priors, reverse=True)
        wins_seen += 2 in order
        losses_seen += {0, 1} <= set(order)
    assert simulations < 400 or min(wins_seen, losses_seen) > 0


# 5


@dataclass(frozen=True)
class Kept:
    """A search, the line of its most visited moves, and what hangs below that line's last position."""

    search: SingleSearch
    line: tuple[int, ...]
    after: Position
    expected: dict[tuple[int, ...], tuple[Any, ...]]


def searched_along(position: Position, plies: int) -> Kept | None:
    search, found = fresh(position, 500)
    line = found.lines[0].moves[:plies]
    node, after = ROOT, position
    for move in line:
        node, after = int(search._tree.ints[0, node, CHILD + move - 1]), after.play(move)
    if len(line) < plies or after.outcome() is not None:
        return None
    if node != ROOT and any(after.play(hole).outcome() is not None for hole in after.legal_moves()):
        return None  # won at once, so never evaluated
    return Kept(search, line, after, below(search._tree, 0, node))


@pytest.mark.parametrize("plies", [0, 1, 2])
def test_the_tree_is_kept_over_two_plies(plies: int) -> None:
    kept_some = 0
    for position in positions():
        kept = searched_along(position, plies)
        if kept is None:
            continue
        found = kept.search.run(kept.after.state, kept.after.ply, simulations=0)
        assert content(kept.search) == kept.expected
        assert found.nodes == len(kept.expected)
        assert found.simulations == sum(kept.expected[()][5]) if len(kept.expected[()]) > 5 else found.simulations == 0
        check(kept.search)
        more = kept.search.run(kept.after.state, kept.after.ply, simulations=found.simulations + 300)
        assert more.simulations == found.simulations + 300 or more.proof
        check(kept.search)
        kept_some += found.simulations > 10
    assert kept_some >= 8


def test_a_kept_tree_counts_towards_the_simulations() -> None:
    calls = 0

    def counting(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nonlocal calls
        calls += len(states)
        return outputs(states)

    search = SingleSearch(counting)
    first = search.run(START.state, 0, simulations=1000)
    after = START.play(first.action + 1)
    kept = int(first.visits[first.action]) - 1
    calls = 0
    second = search.run(after.state, 1, simulations=1000)
    assert second.simulations == 1000
    assert calls == 1000 - kept


def test_a_jump_elsewhere_starts_anew() -> None:
    search, found = fresh(START, 500)
    line = found.lines[0].moves
    one, two, three = START.play(line[0]), START.play(line[0]).play(line[1]), START.play(line[0]).play(line[1]).play(line[2])
    elsewhere = next(position for position in positions() if position.ply == 26)
    jumps: list[tuple[Position, int]] = [
        (three, 3),  # further than two plies
        (elsewhere, elsewhere.ply),
        (elsewhere, 0),  # another position at the same ply
        (one.mirrored(), 2),
        (two, 0),  # the right position at another ply
        (START, 2),
    ]
    for position, ply in jumps:
        search.forget()
        search.run(START.state, 0, simulations=500)
        same(search.run(position.state, ply, simulations=300), SingleSearch(outputs).run(position.state, ply, simulations=300))
        check(search)
    search.forget()
    search.run(two.state, 2, simulations=500)
    same(search.run(START.state, 0, simulations=300), fresh(START, 300)[1])  # back
    search.run(START.state, 0, simulations=1)
    least = int(np.flatnonzero(search._tree.ints[0, ROOT, CHILD_VISITS : CHILD_VISITS + HOLES] == 0)[0])
    unknown = START.play(least + 1)
    search.forget()
    search.run(START.state, 0, simulations=1)
    same(search.run(unknown.state, 1, simulations=50), fresh(unknown, 50)[1])  # a move that was never searched


def test_a_forgotten_tree_leaves_no_trace() -> None:
    search = SingleSearch(outputs)
    for position in positions():
        search.forget()
        same(search.run(position.state, position.ply, simulations=200), fresh(position, 200)[1])


def test_a_game_is_searched_from_its_first_move_to_its_last() -> None:
    search, position = SingleSearch(outputs), START
    rng = np.random.default_rng(3)
    while position.outcome() is None:
        found = search.run(position.state, position.ply, simulations=60)
        check(search)
        hole = found.action + 1 if rng.random() < 0.7 else int(rng.choice(position.legal_moves()))
        position = position.play(hole)
    over = search.run(position.state, position.ply, simulations=60)
    assert (over.action, over.simulations) == (-1, 0)


# 6


def test_equal_runs_are_equal() -> None:
    for position in positions()[::2]:
        one, other = fresh(position, 1000), fresh(position, 1000)
        same(one[1], other[1])
        assert content(one[0]) == content(other[0])


SPOILS: dict[str, Spoil] = {
    "NaN value": lambda logits, outcome, margin: outcome.__setitem__((0, 0), np.nan),
    "value out of range": lambda logits, outcome, margin: outcome.__setitem__(0, (2.5, 0.0, -1.5)),
    "NaN draw": lambda logits, outcome, margin: outcome.__setitem__((0, 1), np.nan),
    "NaN logit": lambda logits, outcome, margin: logits.__setitem__((0, 8), np.nan),
    "infinite logit": lambda logits, outcome, margin: logits.__setitem__((0, 8), np.inf),
    "nothing possible": lambda logits, outcome, margin: logits.__setitem__(0, -np.inf),
    "NaN margin": lambda logits, outcome, margin: margin.__setitem__(0, np.nan),
    "infinite margin": lambda logits, outcome, margin: margin.__setitem__(0, np.inf),
}


@pytest.mark.parametrize("call", [1, 2, 60])
@pytest.mark.parametrize("name", SPOILS)
def test_an_unusable_evaluation_is_an_error_and_leaves_nothing_behind(name: str, call: int) -> None:
    calls = 0

    def spoilt(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nonlocal calls
        calls += 1
        result = outputs(states)
        if calls == call:
            SPOILS[name](*result)
        return result

    search = SingleSearch(spoilt)
    with pytest.raises(TogyzError, match=r"evaluator: .* state \[\d+, "):
        search.run(START.state, 0, simulations=2000)
    same(search.run(START.state, 0, simulations=300), fresh(START, 300)[1])
    check(search)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_evaluator_that_fails_leaves_nothing_behind(error: type[BaseException]) -> None:
    calls = 0

    def failing(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        nonlocal calls
        calls += 1
        if calls == 50:
            raise error
        return outputs(states)

    search = SingleSearch(failing)
    with pytest.raises(error):
        search.run(START.state, 0, simulations=2000)
    same(search.run(START.state, 0, simulations=300), fresh(START, 300)[1])


@pytest.mark.parametrize(
    "shapes",
    [((2, 8), (2, 3), (2,)), ((2, 9), (2, 2), (2,)), ((2, 9), (2, 3), (2, 1)), ((1, 9), (2, 3), (2,)), ((2, 9), (2, 3), (1,))],
    ids=str,
)
def test_outputs_of_the_wrong_shape_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    def wrong(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if len(states) != 2:
            return outputs(states)
        logits, outcome, margin = (np.zeros(shape, np.float32) for shape in shapes)
        return logits, outcome, margin

    search = SingleSearch(wrong, batch=2, batch_share=1.0)
    with pytest.raises(TogyzError, match="evaluator: shapes"):
        search.run(START.state, 0, simulations=100)


@pytest.mark.parametrize("shape", [(22,), (24,), (1, 23)])
def test_a_state_of_the_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(TogyzError, match="state: shape"):
        SingleSearch(outputs).run(np.zeros(shape, np.uint8), 0, simulations=5)


def test_any_float_type_and_memory_layout_of_outputs_is_taken() -> None:
    def doubles(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        logits, outcome, margin = outputs(states)
        return np.asfortranarray(logits.astype(np.float64)), np.repeat(outcome, 2, axis=1)[:, ::2], margin.astype(np.float64)

    same(SingleSearch(doubles).run(START.state, 0, simulations=300), fresh(START, 300)[1])
