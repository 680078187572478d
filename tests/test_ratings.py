"""Ratings, their intervals and the sequential test.

1. The fit finds known strengths and a known advantage of the first move, with errors inside its intervals; it agrees with choix.
2. 10-0, 0-10, draws only, groups that never met and a single game have finite ratings, in order, inside intervals with a width.
3. The likelihood of superiority is that of a normal approximation.
4. The sequential test: bounds, the ratio against a general optimiser, symmetry, error rates and lengths on simulated pairs.
"""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path

import choix
import numpy as np
import pytest
from scipy.optimize import minimize

from togyz_agents.tournament.bootstrap import bootstrap, interval, superiority
from togyz_agents.tournament.rating import PAIR_SCORES, Results, elo_from_score, fit_bradley_terry, fit_results
from togyz_agents.tournament.sprt import Sprt, SprtConfig, log_likelihood_ratio, match_pairs, pairs_needed, run_sprt
from togyz_env.errors import ConfigError


def simulate(strengths: np.ndarray, advantage: float, pairs: int, draws: float, seed: int) -> Results:
    """Round robin with Elo as its definition says; ``draws`` is the share of games drawn, as far as the expected score allows."""
    rng = np.random.default_rng(seed)
    white, black, points, pair = [], [], [], []
    for number, (a, b) in enumerate([meeting for meeting in combinations(range(len(strengths)), 2) for _ in range(pairs)]):
        for first, second in ((a, b), (b, a)):
            expected = 1 / (1 + 10 ** (-(strengths[first] - strengths[second] + advantage) / 400))
            drawn = min(draws, 2 * min(expected, 1 - expected))
            points.append(float(rng.choice([1.0, 0.5, 0.0], p=[expected - drawn / 2, drawn, 1 - expected - drawn / 2])))
            white.append(first)
            black.append(second)
            pair.append(number)
    return Results(len(strengths), np.array(white), np.array(black), np.array(points), np.array(pair))


def results(players: int, *games: tuple[int, int, float]) -> Results:
    """Games as (white, black, white's points); each two in a row are a pair."""
    columns = [np.array(column) for column in zip(*games)]
    return Results(players, columns[0], columns[1], columns[2].astype(float), np.arange(len(games)) // 2)


# 1


def test_known_strengths_and_first_move_lie_within_the_intervals() -> None:
    strengths, advantage = np.array([220.0, 90.0, 0.0, -60.0, -250.0]), 40.0
    inside = 0
    for seed in range(12):
        data = simulate(strengths, advantage, 40, draws=0.2, seed=seed)
        fit, drawn = fit_results(data), bootstrap(data, samples=300, seed=seed)
        assert fit.elo == pytest.approx(strengths, abs=110)  # five standard errors of some 20
        assert fit.advantage == pytest.approx(advantage, abs=80)
        bounds = np.vstack([interval(drawn.elo), interval(drawn.advantage)])
        truth = np.append(strengths, advantage)
        inside += int(((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])).sum())
    # 72 intervals of 95 %: 3.6 are expected to miss; 12 or more would be a chance below 1 in 5000 (they share games within a seed).
    assert inside >= 72 - 12


def test_intervals_hold_between_players_far_apart() -> None:
    # Most meetings are clean sweeps, of which resampling alone knows nothing.
    strengths = np.array([780.0, 470.0, 295.0, -265.0, -350.0, -930.0])
    inside = 0
    for seed in range(12):
        bounds = interval(bootstrap(simulate(strengths, 20.0, 20, draws=0.05, seed=seed), samples=200, seed=seed).elo)
        inside += int(((bounds[:, 0] <= strengths) & (strengths <= bounds[:, 1])).sum())
    assert inside >= 72 - 12  # as above


def test_the_first_move_has_the_closed_form() -> None:
    # Two equal players, white takes 60 of 100 points with either: the advantage alone explains the score.
    games = [(i % 2, 1 - i % 2, 1.0 if i < 120 else 0.0) for i in range(200)]
    fit = fit_results(results(2, *games), prior=1e-9)
    assert fit.advantage == pytest.approx(elo_from_score(0.6))
    assert fit.elo == pytest.approx([0, 0], abs=1e-6)
    # Seen from one side only, it is the stronger player's merit and the first move's alike: the prior shares it out.
    alone = fit_results(results(2, *[(0, 1, 1.0)] * 6, *[(0, 1, 0.0)] * 4))
    assert 0 < alone.advantage < elo_from_score(0.6)
    assert alone.elo[0] > 0


def test_colours_do_not_pass_for_strength() -> None:
    # Player 0 had white in three games of four; white won all. Without the term he would lead by far.
    games = results(2, *[(0, 1, 1.0)] * 30, *[(1, 0, 1.0)] * 10)
    fit = fit_results(games, prior=0.1)
    blind = fit_bradley_terry(np.array([[0, 30], [10, 0.0]]), prior=0.1)
    assert blind[0] - blind[1] > 180
    assert fit.elo[0] - fit.elo[1] < 100
    assert fit.advantage > 400


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_agrees_with_choix(seed: int) -> None:
    strengths = np.random.default_rng(seed).normal(0, 150, 5)
    data = simulate(strengths, 0.0, 30, draws=0.3, seed=seed)
    points = np.zeros((5, 5))
    np.add.at(points, (data.white, data.black), data.points)  # a draw is half a win of either
    np.add.at(points, (data.black, data.white), 1 - data.points)
    oracle = choix.ilsr_pairwise_dense(points, alpha=0.0, tol=1e-12) * 400 / math.log(10)
    assert fit_bradley_terry(points, prior=0) == pytest.approx(oracle - oracle.mean(), abs=1e-4)
    # In colour-swapped pairs with an equal score for both colours the first move is worth nothing, and the fits are one.
    pairs = np.column_stack([np.minimum(data.white, data.black), np.maximum(data.white, data.black)])[::2]
    scores = np.where(data.white < data.black, data.points, 1 - data.points).reshape(-1, 2).mean(axis=1)
    fit = fit_results(Results.from_pairs(5, pairs, scores), prior=1e-9)
    assert fit.elo == pytest.approx(oracle - oracle.mean(), abs=1e-3)
    assert fit.advantage == pytest.approx(0, abs=1e-3)


# 2

SWEEP = [(i % 2, 1 - i % 2, 1.0 - i % 2) for i in range(10)]
EDGES = {
    "10-0": results(2, *SWEEP),
    "0-10": results(2, *[(a, b, 1.0 - points) for a, b, points in SWEEP]),
    "draws only": results(2, *[(a, b, 0.5) for a, b, _ in SWEEP]),
    "groups": results(4, *SWEEP[:8], (0, 1, 0.0), (1, 0, 1.0), (2, 3, 1.0), (3, 2, 0.5), (2, 3, 0.0), (3, 2, 0.0)),
    "one game": results(2, (0, 1, 1.0)),
    "one draw": results(2, (0, 1, 0.5)),
    "one sweep lost": results(2, *SWEEP, (0, 1, 0.0), (1, 0, 1.0)),  # every pair gives white one point
    "white always": results(2, *[(a, b, 1.0) for a, b, _ in SWEEP]),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_cases_are_finite_and_inside_their_intervals(name: str) -> None:
    data = EDGES[name]
    fit, drawn = fit_results(data), bootstrap(data)
    assert np.all(np.isfinite(fit.elo))
    assert np.isfinite(fit.advantage)
    assert fit.elo.sum() == pytest.approx(0, abs=1e-6)
    bounds = interval(drawn.elo)
    assert np.all((bounds[:, 0] <= fit.elo + 1e-6) & (fit.elo <= bounds[:, 1] + 1e-6))
    assert np.all(bounds[:, 1] - bounds[:, 0] > 20)  # games say something, and never all
    low, high = interval(drawn.advantage)
    assert low - 1e-6 <= fit.advantage <= high + 1e-6
    assert high - low > 20


def test_edge_cases_are_in_order() -> None:
    elo = {name: fit_results(data).elo for name, data in EDGES.items()}
    assert elo["10-0"][0] > 300
    assert elo["0-10"] == pytest.approx(-elo["10-0"])
    assert elo["draws only"] == pytest.approx([0, 0])
    assert elo["white always"] == pytest.approx([0, 0], abs=1e-6)
    assert elo["groups"][0] > elo["groups"][1]
    assert elo["groups"][2] > elo["groups"][3]
    assert 0 < elo["one game"][0] < elo["10-0"][0]
    assert fit_results(EDGES["white always"]).advantage > 300


def test_a_clean_sweep_is_surer_the_longer_it_is() -> None:
    low = [interval(bootstrap(results(2, *SWEEP * times)).elo)[0, 0] for times in (1, 3, 10)]
    assert low[0] < low[1] < low[2]


def test_what_cannot_be_rated_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no games"):
        bootstrap(Results(2, *[np.zeros(0, np.int64)] * 4))
    with pytest.raises(ConfigError, match="prior 0"):
        fit_results(EDGES["10-0"], prior=0)
    with pytest.raises(ConfigError, match="confidence"):
        interval(np.zeros((5, 2)), 95)


# 3


def test_superiority_is_that_of_a_normal_approximation() -> None:
    # 60 pairs: 24 of score 1, 20 of 1/2, 16 of 0. The mean pair score lies z deviations above 1/2; the chance is about Phi(z).
    pairs = [(1.0, 0.0)] * 24 + [(1.0, 1.0)] * 20 + [(0.0, 1.0)] * 16
    games = [game for white, black in pairs for game in ((0, 1, white), (1, 0, black))]
    chance = superiority(bootstrap(results(2, *games), samples=4000).elo)
    scores = np.array([(white + 1 - black) / 2 for white, black in pairs])
    z = (scores.mean() - 0.5) / (scores.std() / math.sqrt(60))
    assert chance[0, 1] == pytest.approx(0.5 * (1 + math.erf(z / math.sqrt(2))), abs=0.03)
    assert chance + chance.T == pytest.approx(np.ones((2, 2)))


# 4


def optimised(counts: np.ndarray, elo: float, model: str) -> float:
    """The highest log-likelihood of ``counts`` under the hypothesis, by a general optimiser."""
    scores = np.array(PAIR_SCORES)

    def condition(p: np.ndarray) -> float:
        mean = p @ scores
        if model == "logistic":
            return float(mean - 1 / (1 + 10 ** (-elo / 400)))
        deviation = math.sqrt(max(1e-12, p @ (scores - mean) ** 2))  # of a pair's mean; a game's is sqrt(2) times as large
        return float((mean - 0.5) - elo / (800 / math.log(10)) * math.sqrt(2) * deviation)

    constraints = [{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "eq", "fun": condition}]
    start = counts / counts.sum()
    best = minimize(
        lambda p: -counts @ np.log(p) / counts.sum(),
        start,
        bounds=[(1e-9, 1)] * 5,
        constraints=constraints,
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert best.success, best
    return float(counts @ np.log(best.x))


@pytest.mark.parametrize("model", ["logistic", "normalised"])
@pytest.mark.parametrize("counts", [(10, 30, 80, 45, 20), (3, 1, 9, 2, 5), (200, 410, 900, 420, 210)])
def test_the_ratio_agrees_with_a_general_optimiser(model: str, counts: tuple[int, ...]) -> None:
    config = SprtConfig(elo0=-5, elo1=25, model=model)  # type: ignore[arg-type]
    array = np.array(counts, float)
    expected = optimised(array, 25, model) - optimised(array, -5, model)
    assert log_likelihood_ratio(counts, config) == pytest.approx(expected, abs=2e-3 * max(1.0, abs(expected)))


def test_the_bounds_are_those_of_wald() -> None:
    assert SprtConfig().bounds == pytest.approx((-math.log(19), math.log(19)))
    assert SprtConfig(alpha=0.01, beta=0.1).bounds == pytest.approx((math.log(0.1 / 0.99), math.log(0.9 / 0.01)))


@pytest.mark.parametrize("model", ["logistic", "normalised"])
def test_the_test_is_symmetric(model: str) -> None:
    config = SprtConfig(-10, 10, model=model)  # type: ignore[arg-type]
    assert log_likelihood_ratio((4, 7, 20, 7, 4), config) == pytest.approx(0, abs=1e-9)
    assert log_likelihood_ratio((0, 0, 0, 0, 0), config) == 0
    assert log_likelihood_ratio((1, 2, 9, 8, 5), config) == pytest.approx(-log_likelihood_ratio((5, 8, 9, 2, 1), config))
    assert log_likelihood_ratio((1, 2, 9, 8, 5), config) > 0


def test_the_test_stops_where_it_is_decided() -> None:
    config = SprtConfig(0, 200, max_pairs=12)
    won = run_sprt([1.0] * 100, config)
    assert (won.decision, won.counts[:4]) == ("elo1", (0, 0, 0, 0))
    assert won.pairs == 8  # each gives ln(0.7597 / 0.5), and the bound is ln 19
    assert run_sprt([0.0] * 100, config).decision == "elo0"
    undecided = run_sprt([1.0, 0.5, 0.75, 0.0] * 10, config)
    assert (undecided.decision, undecided.pairs) == ("undecided", 12)
    test = Sprt(config)
    for score in [1.0] * 20:
        test.add(score)
    assert test.result == won
    assert run_sprt([0.5], config).decision == ""


@pytest.mark.parametrize(("elo", "right"), [(0, "elo0"), (80, "elo1")])
def test_error_rates_and_lengths_are_as_stated(elo: float, right: str) -> None:
    # Games of equals: a score of 1/2; 80 Elo: 0.613. Shift as much from the losing to the winning scores as that takes.
    shares = np.array([0.1, 0.15, 0.5, 0.15, 0.1])
    shift = (1 / (1 + 10 ** (-elo / 400)) - 0.5) / 1.5
    shares = shares + shift * np.array([-1, -1, 0, 1, 1])
    assert shares @ np.array(PAIR_SCORES) == pytest.approx(1 / (1 + 10 ** (-elo / 400)))
    config = SprtConfig(0, 80, alpha=0.1, beta=0.1)
    rng = np.random.default_rng(5)
    tests = [run_sprt(rng.choice(PAIR_SCORES, 1000, p=shares), config) for _ in range(200)]
    wrong = np.mean([test.decision != right for test in tests])
    assert wrong < 0.1 + 5 * math.sqrt(0.1 * 0.9 / 200)
    assert wrong > 0.01  # a test that never errs plays too long
    length = np.mean([test.pairs for test in tests])
    assert length == pytest.approx(pairs_needed(np.array([100, 150, 500, 150, 100.0]), config, elo), rel=0.4)


def test_the_length_of_a_fixed_match_has_the_power_it_promises() -> None:
    shares = np.array([0.1, 0.15, 0.5, 0.15, 0.1])
    pairs = round(match_pairs(shares, 40))
    better = shares + (1 / (1 + 10 ** (-40 / 400)) - 0.5) / 1.5 * np.array([-1, -1, 0, 1, 1])
    scores = np.random.default_rng(1).choice(PAIR_SCORES, (2000, pairs), p=better)
    above = scores.mean(axis=1) - 1.96 * scores.std(axis=1) / math.sqrt(pairs) > 0.5
    assert above.mean() == pytest.approx(0.9, abs=0.04)


def test_the_documented_numbers_of_games_are_what_the_code_gives(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[1] / "docs" / "tournaments.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(example, "docs/tournaments.md", "exec"), {})
    table = [re.findall(r"[\d,]+", line) for line in text.splitlines() if re.match(r"\| \d", line)]
    assert len(table) == 5
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [[n.replace(",", "") for n in row] for row in table]


@pytest.mark.parametrize("wrong", [{"elo0": 5.0, "elo1": 5.0}, {"alpha": 0.0}, {"beta": 0.6}, {"max_pairs": 0}, {"model": "bayes"}])
def test_impossible_tests_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"sprt: .*expected"):
        SprtConfig(**wrong)  # type: ignore[arg-type]
