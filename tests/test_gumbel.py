"""Gumbel root selection: the compiled search against a slow reference, and what its root promises.

1. Batched and reference search agree in visits, values, proofs, actions, policies and lines, with and without Gumbel noise.
2. The order of sequential halving is the paper's.
3. No proven loss is searched further or played while another move remains; forced results are proven.
4. The Gumbel variables have the right distribution, depend on seed and slot alone, and are 0 without exploration.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference_gumbel import GumbelSearch, halving
from reference_search import HashEvaluator, Settings
from test_search import CASES, CLUELESS, SMOOTH, assert_row_is, assert_same, check_tree, endings, positions, result_rows

from togyz_agents.search.batched import BatchedSearch, SearchConfig, SearchResult
from togyz_agents.search.gumbel import GUMBEL, considered_visits
from togyz_agents.search.tree import CHILD_STATUS, ROOT, STATUS, UNKNOWN, WIN
from togyz_env import Position, Ruleset
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
