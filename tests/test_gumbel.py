"""Gumbel root selection: the compiled search against a slow reference, and what its root promises.

1. Batched and reference search agree in visits, values, proofs, actions, policies and lines, with and without Gumbel noise.
2. The order of sequential halving is the paper's.
3. No proven loss is searched further or played while another move remains; forced results are proven.
4. The Gumbel variables have the right distribution, depend on seed and slot alone, and are 0 without exploration.
5. The improved policy is the paper's formula; the root's visits are those of sequential halving; forced wins are found.
6. Settings that exclude each other are refused.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from boards import DATA
from reference_gumbel import GumbelSearch, halving
from reference_search import HashEvaluator, Settings
from test_search import CASES, CLUELESS, SMOOTH, assert_row_is, assert_same, check_tree, endings, positions, result_rows

from togyz_agents.search.batched import BatchedSearch, SearchConfig, SearchResult
from togyz_agents.search.gumbel import GUMBEL, considered_visits
from togyz_agents.search.tree import CHILD_STATUS, CHILD_VALUE, CHILD_VISITS, ROOT, STATUS, UNKNOWN, WIN
from togyz_agents.training.config import from_dict
from togyz_env import ConfigError, Position, Ruleset
from togyz_env.rules import HOLES

BUDGETS = (0, 1, 2, 5, 16, 50, 100)


def searched(evaluator: Any, settings: Settings = CASES["default"][1], *, seed: int = 0, **config: Any) -> BatchedSearch:
    return BatchedSearch(
        evaluator,
        SearchConfig(root="gumbel", solver=settings.solver, **config),
        Ruleset(end=settings.end, max_plies=settings.max_plies),  # type: ignore[arg-type]
        settings.explore,
        seed,
    )


# 1. The reference


@pytest.mark.parametrize("name", [name for name, (_, settings) in CASES.items() if not settings.explore])
def test_batched_and_reference_search_agree(name: str) -> None:
    evaluator, settings = CASES[name]
    batch = positions(settings.end)
    search = searched(evaluator, settings)
    for budget in BUDGETS:
        result = search.run(batch.states, batch.plies, budget)
        for g, (row, ply) in enumerate(batch):
            assert_row_is(GumbelSearch(row, ply, evaluator, settings, budget).run(budget), result, g)


@pytest.mark.parametrize("considered", [1, 2, 4, 9])
def test_batched_and_reference_search_agree_with_gumbel_noise(considered: int) -> None:
    batch = positions("majority")
    settings = Settings(explore=True)
    search = searched(SMOOTH, settings, seed=4, gumbel_actions=considered)
    for budget in (10, 60):
        result = search.run(batch.states, batch.plies, budget)
        for g, (row, ply) in enumerate(batch):
            noise = search.tree.floats[g, -1, GUMBEL : GUMBEL + HOLES].copy()
            reference = GumbelSearch(row, ply, SMOOTH, settings, budget, noise, considered)
            assert_row_is(reference.run(budget), result, g)


@pytest.mark.parametrize("plies_left", [1, 2, 3])
def test_batched_and_reference_search_agree_near_the_ply_limit(plies_left: int) -> None:
    for row, ply in positions("majority"):
        settings = Settings(max_plies=ply + plies_left)
        result = searched(CLUELESS, settings).run(np.array([row], np.uint8), ply, 80)
        assert_row_is(GumbelSearch(row, ply, CLUELESS, settings, 80).run(80), result, 0)


# 2. Sequential halving


def test_four_actions_share_sixteen_simulations_in_two_equal_phases() -> None:
    assert [considered_visits(4, 16, turn) for turn in range(16)] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]


@pytest.mark.parametrize("actions", range(1, 10))
def test_the_order_of_halving_is_that_of_the_reference(actions: int) -> None:
    for simulations in (1, 2, 7, 16, 50, 333):
        assert [considered_visits(actions, simulations, turn) for turn in range(simulations)] == halving(actions, simulations)


# 3. Proofs


@pytest.mark.parametrize("end", ["majority", "playout"])
def test_forced_results_are_proven(end: str) -> None:
    cases = endings(end)
    search = searched(CLUELESS, Settings(end=end))
    result = search.run(np.array([e.row for e in cases], np.uint8), np.array([e.ply for e in cases]), 4000)
    assert result.proof == tuple("win" if case.result > 0 else "loss" for case in cases)
    assert result.value.tolist() == [case.result for case in cases]
    for g in range(len(cases)):
        check_tree(search.tree, g, end=end)
        assert case_plies(search, g) >= cases[g].plies


def case_plies(search: BatchedSearch, g: int) -> int:
    return int(search.tree.ints[g, ROOT, STATUS]) >> 2


@pytest.mark.parametrize("simulations", [1, 2, 3, 8, 40])
def test_no_proven_loss_is_played_while_another_move_remains(simulations: int) -> None:
    for seed in range(5):
        for end in ("majority", "playout"):
            batch = positions(end)
            settings = Settings(end=end, explore=True)
            search = searched(HashEvaluator(seed, logit_scale=8.0), settings, seed=seed)
            result = search.run(batch.states, batch.plies, simulations)
            for g in range(len(batch)):
                if search.tree.ints[g, ROOT, STATUS] & 3 == UNKNOWN:
                    assert search.tree.ints[g, ROOT, CHILD_STATUS + result.action[g]] & 3 != WIN


# 4. Randomness


def test_rows_depend_on_position_slot_and_seed_alone() -> None:
    batch = positions("majority")

    def run(rows: Any, seed: int, explore: bool = True) -> SearchResult:
        search = searched(SMOOTH, replace(Settings(), explore=explore), seed=seed)
        return search.run(batch.states[rows], batch.plies[rows], 40)

    result = run(slice(None), 1)
    assert_same(run(slice(None), 1), result)
    assert (run(slice(None), 2).visits != result.visits).any()
    assert_same(run([0], 1), result_rows(result, [0]))
    assert_same(result_rows(run([3, 1, 5, 3], 1), [1]), result_rows(result, [1]))
    assert_same(run(slice(None), 1, explore=False), run(slice(None), 2, explore=False))


def test_earlier_searches_leave_no_gumbel_variables_behind() -> None:
    batch = positions("majority")
    search = searched(SMOOTH, Settings(explore=True))
    search.run(batch.states, batch.plies, 40)
    assert search.tree.floats[: len(batch), -1, GUMBEL : GUMBEL + HOLES].all()
    search.explore = False
    assert_same(search.run(batch.states, batch.plies, 40), searched(SMOOTH).run(batch.states, batch.plies, 40))


def test_gumbel_variables_follow_the_gumbel_distribution() -> None:
    count = 20_000
    search = searched(SMOOTH, Settings(explore=True))
    search.run(np.tile(Position.start().state, (count, 1)), 0, 0)
    draws = search.tree.floats[:count, -1, GUMBEL : GUMBEL + HOLES].astype(np.float64).ravel()
    deviation = math.pi / math.sqrt(6.0)
    assert abs(draws.mean() - np.euler_gamma) < 4.0 * deviation / math.sqrt(draws.size)
    assert draws.std() == pytest.approx(deviation, rel=0.02)
    for quantile in (0.05, 0.25, 0.5, 0.75, 0.95):
        error = 4.0 * math.sqrt(quantile * (1.0 - quantile) / draws.size)
        assert abs((draws < -math.log(-math.log(quantile))).mean() - quantile) < error


# 5. What the root gives


@pytest.mark.parametrize(("offset", "scale"), [(50.0, 1.0), (0.0, 1.0), (10.0, 0.1), (50.0, 0.0001)])
@pytest.mark.parametrize("simulations", [0, 1, 4, 20, 150])
def test_the_improved_policy_is_softmax_of_the_logits_and_completed_values(simulations: int, offset: float, scale: float) -> None:
    batch = positions("majority")
    evaluator = HashEvaluator(8, logit_scale=3.0)
    search = searched(evaluator, Settings(solver=False), gumbel_visit_offset=offset, gumbel_scale=scale)
    result = search.run(batch.states, batch.plies, simulations)
    logits, values = evaluator(batch.states)
    for g in range(len(batch)):
        root = search.tree.ints[g, ROOT]
        n = root[CHILD_VISITS : CHILD_VISITS + HOLES].astype(float)
        sums = search.tree.floats[g, ROOT, CHILD_VALUE : CHILD_VALUE + HOLES].astype(float)
        p = np.exp(logits[g].astype(float)) / np.exp(logits[g].astype(float)).sum()
        seen = n > 0
        q = np.divide(sums, n, out=np.zeros(HOLES), where=seen)
        mixed = float(values[g])  # Appendix D
        if seen.any():
            mixed = (values[g] + n.sum() / p[seen].sum() * (p[seen] * q[seen]).sum()) / (1.0 + n.sum())
        completed = np.where(seen, q, mixed)
        with np.errstate(divide="ignore"):
            improved = np.log(p) + (offset + n.max()) * scale * (completed + 1.0) / 2.0
        expected = np.exp(improved - improved.max())
        np.testing.assert_allclose(result.policy[g], expected / expected.sum(), atol=2e-4)
        assert (result.policy[g][logits[g] == -np.inf] == 0).all()


@pytest.mark.parametrize("explore", [False, True])
@pytest.mark.parametrize("considered", [1, 2, 3, 5, 9])
def test_root_visits_are_those_of_sequential_halving(considered: int, explore: bool) -> None:
    batch = positions("majority")
    search = searched(SMOOTH, Settings(solver=False, explore=explore), seed=3, gumbel_actions=considered)
    for simulations in (1, 5, 16, 50, 200):
        result = search.run(batch.states, batch.plies, simulations)
        for g, (row, _) in enumerate(batch):
            legal = [row[22] * 9 + action for action in range(HOLES)]
            empty = [action for action in range(HOLES) if row[legal[action]] == 0]
            order = halving(min(considered, HOLES - len(empty)), simulations)
            # the action of each simulation had so many visits: as many actions have more
            more = [int((result.visits[g] > n).sum()) for n in range(max(order) + 1)]
            assert more == [order.count(n) for n in range(max(order) + 1)]
            assert result.visits[g].sum() == simulations
            assert result.visits[g][empty].sum() == 0
            most = np.flatnonzero(result.visits[g] == result.visits[g].max())
            assert result.action[g] in most


def test_halving_uses_every_simulation_and_ends_with_two_actions() -> None:
    for actions in range(2, 10):
        for simulations in range(1, 120):
            visits = [0] * actions
            for turn in range(simulations):
                wanted = considered_visits(actions, simulations, turn)
                visits[visits.index(wanted)] += 1  # some action has been visited so often
            assert sum(visits) == simulations
            assert visits == sorted(visits, reverse=True)
            if simulations >= actions * math.ceil(math.log2(actions)):
                assert min(visits) >= 1
                assert visits[0] - visits[1] <= 1


def test_forced_wins_are_found() -> None:
    cases = [json.loads(line) for line in (DATA / "forced_wins.jsonl").read_text().splitlines()[1:]]
    cases = [case for case in cases if case["plies"] <= 3]
    them = [Position.from_fen(case["fen"]) for case in cases]
    result = searched(CLUELESS).run(np.stack([p.state for p in them]), np.array([p.ply for p in them]), 2000)
    for g, case in enumerate(cases):
        assert (result.proof[g], result.value[g]) == ("win", 1.0)
        assert str(result.action[g] + 1) in case["wins"]


# 6. Settings


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (
            {"search": {"root": "gumbel"}},
            "search.root: gumbel shares a fixed number of simulations; set selfplay.tree_reuse to false",
        ),
        ({"search": {"root": "gumbel", "gumbel_actions": 0}}, "search.gumbel_actions: 0 is not between 1 and 9"),
        ({"search": {"root": "gumbel", "gumbel_actions": 10}}, "search.gumbel_actions: 10 is not between 1 and 9"),
        ({"search": {"root": "gumbel", "gumbel_scale": 0.0}}, "search.gumbel_scale: 0.0 is not above 0"),
        ({"search": {"root": "gumbel", "gumbel_visit_offset": -1.0}}, "search.gumbel_visit_offset: -1.0 is not between 0"),
        ({"search": {"root": "gumble"}}, "search.root: 'gumble' is not one of puct, gumbel"),
        ({"stages": [{"games": 5, "search.root": "gumbel"}]}, "search.root: gumbel shares a fixed number of simulations"),
        (
            {
                "search": {"root": "gumbel"},
                "selfplay": {"tree_reuse": False},
                "stages": [{"games": 5, "selfplay.tree_reuse": True}],
            },
            "search.root: gumbel shares a fixed number of simulations",
        ),
    ],
    ids=str,
)
def test_settings_that_gumbel_search_cannot_use_are_refused(data: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(part)):
        from_dict(data, "test")


def test_gumbel_search_without_tree_reuse_is_taken() -> None:
    config = from_dict({"search": {"root": "gumbel"}, "selfplay": {"tree_reuse": False}}, "test")
    assert config.search.params(config.rules).gumbel
