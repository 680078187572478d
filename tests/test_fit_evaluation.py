"""Fitting the evaluation's weights.

1. The regression finds the coefficients that made the results, and its own minimum.
2. The games are games of the rules with the results that the rules give them; they do not depend on the number of processes (slow).
3. Where stones decide, the fitted stone in the kazan is worth 100, and the fit predicts better than the kazans alone.
4. What is written reads back as the same weights; the shipped ones name the command that made them.
"""

from __future__ import annotations

import numpy as np
import pytest
from reference_rules import Board

from togyz_agents.search.alphabeta import weights as shipped
from togyz_agents.search.alphabeta.evaluation import FEATURES, KAZANS
from togyz_agents.search.alphabeta.fit import (
    FitConfig,
    Game,
    cross_entropy,
    fit_games,
    logistic_regression,
    module_text,
    play_game,
    play_games,
)
from togyz_agents.search.alphabeta.searcher import AlphaBetaConfig, AlphaBetaSearch
from togyz_env import ConfigError


@pytest.fixture(scope="module")
def games() -> list[Game]:
    return play_games(FitConfig(games=60, depth=2), None, 0)


def test_the_regression_finds_what_made_the_results() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([0.8, -0.3, 0.0])
    inputs = rng.normal(size=(20_000, 3)) * [1.0, 5.0, 0.2]
    results = (rng.random(20_000) < 1 / (1 + np.exp(-inputs @ truth))).astype(float)
    found = logistic_regression(inputs, results, 1e-3)
    assert np.all(np.abs(found - truth) < [0.12, 0.04, 0.5])  # five standard errors
    least = cross_entropy(inputs, results, found)
    for i in range(3):
        for step in (-0.05, 0.05):
            assert cross_entropy(inputs, results, found + step * np.eye(3)[i]) > least
    assert np.abs(logistic_regression(inputs, results, 1e9)).max() < 1e-3  # a large penalty allows nothing


def test_games_are_games_of_the_rules(games: list[Game]) -> None:
    for states, results in games[:20]:
        assert np.all(states[:, :20].sum(axis=1) == 162)
        for before, after in zip(states, states[1:]):
            successors = []
            for hole in Board.of(before.tolist()).legal():
                board = Board.of(before.tolist())
                board.play(hole)
                successors.append(board.row())
            assert after.tolist() in successors
        assert all(Board.of(state.tolist()).end(playout=False) is None for state in states)
        white = np.where(states[:, 22] == 0, results, 1 - results)
        assert len(set(white.tolist())) == 1
        # one move after the last position the game is over, and who holds more has won
        endings = set()
        for hole in Board.of(states[-1].tolist()).legal():
            board = Board.of(states[-1].tolist())
            board.play(hole)
            end = board.end(playout=False)
            if end is not None:
                endings.add(0.5 + 0.5 * np.sign(end[1] - end[2]))
        assert white[0] in endings


def test_a_game_depends_on_its_number_alone(games: list[Game]) -> None:
    search = AlphaBetaSearch(AlphaBetaConfig("kazan", table=1))
    for index in (17, 3):
        states, results = play_game(index, FitConfig(games=60, depth=2), search, 0)
        assert np.array_equal(states, games[index][0])
        assert np.array_equal(results, games[index][1])
    assert not np.array_equal(games[3][0][-1], games[4][0][-1])


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(games: list[Game]) -> None:
    for one, two in zip(games, play_games(FitConfig(games=60, depth=2, workers=2), None, 0)):
        assert np.array_equal(one[0], two[0])
        assert np.array_equal(one[1], two[1])


def test_a_stone_is_worth_a_hundred_and_the_fit_predicts_better(games: list[Game]) -> None:
    found = fit_games(games, penalty=30.0)
    assert found.weights.shape == (2, FEATURES)
    assert found.weights[:, KAZANS].mean() == pytest.approx(100, abs=1)
    assert 50 < found.scale < 5000
    assert found.loss < found.baseline < np.log(2)
    assert found.positions == sum(len(states) for number, (states, _) in enumerate(games) if number % 10)


def test_what_is_written_reads_back(games: list[Game]) -> None:
    found = fit_games(games, penalty=30.0)
    names: dict[str, object] = {}
    exec(module_text(found, "the command"), names)
    assert np.array_equal([names["EMPTY_BOARD"], names["FULL_BOARD"]], found.weights)
    assert names["SCALE"] == pytest.approx(found.scale, abs=0.05)
    assert "the command" in str(names["__doc__"])


def test_the_shipped_weights_name_their_command() -> None:
    assert "python scripts/fit_evaluation.py --" in str(shipped.__doc__)
    assert len(shipped.EMPTY_BOARD) == len(shipped.FULL_BOARD) == FEATURES


@pytest.mark.parametrize("settings", [{"games": 9}, {"rounds": 0}, {"depth": 0}, {"random_share": 1.5}, {"penalty": 0.0}])
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="fit: "):
        FitConfig(**settings)  # type: ignore[arg-type]
