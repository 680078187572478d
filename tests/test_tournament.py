"""Tournaments: openings, matches and ratings.

1. Openings are distinct, unfinished, legal, and the same for the same seed.
2. A match plays each opening twice with the colours swapped, and records every game so that it can be replayed.
3. Batch and single-game versions of an agent play the same games, however many are in progress at once.
4. Ratings agree with closed forms, with a slow reference fit and with known strengths; intervals cover what they promise.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from togyz_agents.agent import Clock
from togyz_agents.tournament.bootstrap import bradley_terry_intervals, pair_bootstrap
from togyz_agents.tournament.match import MatchResult, play_match
from togyz_agents.tournament.openings import Opening, random_openings
from togyz_agents.tournament.rating import elo_from_score, fit_bradley_terry, points_matrix
from togyz_env.errors import ConfigError, IllegalMoveError, TogyzError
from togyz_env.position import Position, Ruleset

# RULES, printed example 3: white plays 9, black 1, white 9, black 1; white is in atsyrau and loses 76-86.
ENDGAME = Position.from_state([0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 1, 0, 1, 1, 1, 76, 78, 6, 8, 0])


class Single:
    """A deterministic player for one game at a time: a fixed function of the position."""

    def __init__(self, salt: int = 0) -> None:
        self.salt = salt
        self.seeds: list[int] = []
        self.histories: list[list[Position]] = []
        self.closed = 0

    def new_game(self, seed: int) -> None:
        self.seeds.append(seed)

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        self.histories.append([*history, position])
        return choice(position, self.salt)

    def close(self) -> None:
        self.closed += 1


class Batch:
    """The same player for many games at once."""

    def __init__(self, salt: int = 0) -> None:
        self.salt = salt
        self.calls: list[int] = []
        self.closed = 0

    def new_game(self, seed: int) -> None:
        pass

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        self.calls.append(len(states))
        return np.array([choice(Position.from_state(state, int(ply)), self.salt) for state, ply in zip(states, plies)])

    def close(self) -> None:
        self.closed += 1


class Lowest(Single):
    """Plays the first legal hole."""

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        return position.legal_moves()[0]


class Highest(Single):
    """Plays the last legal hole."""

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        return position.legal_moves()[-1]


def choice(position: Position, salt: int) -> int:
    legal = position.legal_moves()
    return legal[zlib.crc32(position.row, salt) % len(legal)]


def replay(result: MatchResult, ruleset: Ruleset = Ruleset()) -> None:  # noqa: B008
    """Check each game against the rules, move by move."""
    for game in result.games:
        position = game.opening.position
        for hole in game.moves:
            assert position.outcome(ruleset) is None
            position = position.play(hole)
        assert position.outcome(ruleset) == game.outcome


def test_openings_are_distinct_unfinished_and_repeatable() -> None:
    openings = random_openings(300, seed=4)
    assert len({opening.position.row for opening in openings}) == 300
    assert {len(opening.moves) for opening in openings} == {4, 5, 6, 7, 8}
    assert all(opening.position.outcome() is None for opening in openings)
    assert openings == random_openings(300, seed=4)
    assert openings != random_openings(300, seed=5)
    assert openings[:20] == random_openings(20, seed=4)


def test_openings_run_out_with_a_message() -> None:
    # perft: nine different first moves, and one position without a move.
    assert {opening.moves for opening in random_openings(9, 0, (1, 1))} == {(hole,) for hole in range(1, 10)}
    assert random_openings(1, 0, (0, 0)) == [Opening()]
    with pytest.raises(ConfigError, match="only 9 different"):
        random_openings(10, 0, (1, 1))
    with pytest.raises(ConfigError, match="range of plies"):
        random_openings(1, 0, (5, 4))


def test_an_opening_never_reaches_the_end_of_the_game() -> None:
    with pytest.raises(ConfigError, match="only 0"):
        random_openings(1, 0, (4, 4), Ruleset(max_plies=4))
    assert len(random_openings(5, 0, (4, 4), Ruleset(max_plies=5))) == 5


def test_each_opening_is_played_with_both_colours() -> None:
    result = play_match(Single(1), Single(2), pairs=10, seed=3)
    replay(result)
    openings = random_openings(10, seed=3)
    assert [game.opening for game in result.games] == [opening for opening in openings for _ in range(2)]
    assert [game.first_side for game in result.games] == [0, 1] * 10
    assert [game.pair for game in result.games] == [pair for pair in range(10) for _ in range(2)]
    for game in result.games:  # who played each move
        position = game.opening.position
        for hole in game.moves:
            assert hole == choice(position, 1 if position.to_move == game.first_side else 2)
            position = position.play(hole)


def test_match_result_is_the_sum_of_its_games() -> None:
    result = play_match("greedy", "random", pairs=12, seed=1)
    replay(result)
    points = [0.5 if game.outcome.winner is None else float(game.outcome.winner == game.first_side) for game in result.games]
    assert (result.first, result.second) == ("greedy", "random")
    assert result.wins + result.draws + result.losses == len(result.games) == 24
    assert result.score == pytest.approx(sum(points) / 24)
    assert result.pair_scores.tolist() == [(points[i] + points[i + 1]) / 2 for i in range(0, 24, 2)]
    assert result.colour_score(0) == pytest.approx(sum(points[::2]) / 12)
    assert result.colour_score(1) == pytest.approx(sum(points[1::2]) / 12)
    assert result.score > 0.85
    low, high = result.interval()
    assert low <= result.score <= high


def test_the_same_seed_gives_the_same_match() -> None:
    assert play_match("greedy", "random", 5, seed=9) == play_match("greedy", "random", 5, seed=9)
    assert play_match("greedy", "random", 5, seed=9) != play_match("greedy", "random", 5, seed=10)


def test_known_ending_is_scored_by_the_rules() -> None:
    class Follow(Single):
        def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
            return (9, 1, 9, 1)[position.ply]

    result = play_match(Follow(), Follow(), 1, openings=[Opening(start=ENDGAME)])
    for game in result.games:
        assert game.moves == (9, 1, 9, 1)
        assert (game.outcome.winner, game.outcome.reason, game.outcome.score) == (1, "atsyrau", (76, 86))
    assert (result.wins, result.draws, result.losses) == (1, 0, 1)
    assert (result.colour_score(0), result.colour_score(1)) == (0.0, 1.0)


def test_the_ply_limit_is_a_draw() -> None:
    ruleset = Ruleset(max_plies=10)
    result = play_match("random", "random", 6, ruleset=ruleset)
    replay(result, ruleset)
    assert {len(game.opening.moves) + len(game.moves) for game in result.games} == {10}
    assert {game.outcome.reason for game in result.games} == {"ply limit"}
    assert (result.draws, result.score, result.elo) == (12, 0.5, 0.0)
    assert result.interval() == (0.5, 0.5)


def test_playout_games_end_in_atsyrau_only() -> None:
    ruleset = Ruleset(end="playout")
    result = play_match("greedy", "random", 6, ruleset=ruleset)
    replay(result, ruleset)
    assert {game.outcome.reason for game in result.games} == {"atsyrau"}
    assert all(sum(game.outcome.score) == 162 for game in result.games)


def test_repeated_games_are_counted_once() -> None:
    # One deterministic player on both sides: the two games of a pair are the same game.
    result = play_match(Lowest(), Lowest(), pairs=7, seed=2)
    assert result.distinct_games == 7
    assert result.score == 0.5
    # Two of them, always from the start: one game with each colour, five times over.
    result = play_match(Lowest(), Highest(), pairs=5, openings=[Opening()] * 5)
    assert result.distinct_games == 2


def test_batch_and_single_versions_play_the_same_games() -> None:
    expected = play_match(Single(1), Single(2), pairs=9, seed=6).games
    assert play_match(Batch(1), Batch(2), pairs=9, seed=6).games == expected
    assert play_match(Batch(1), Batch(2), pairs=9, seed=6, games_at_once=5).games == expected
    assert play_match(Batch(1), lambda: Single(2), pairs=9, seed=6).games == expected
    assert play_match(lambda: Single(1), lambda: Batch(2), pairs=9, seed=6, games_at_once=4).games == expected
    assert play_match(Single(1), Batch(2), pairs=9, seed=6).games == expected


def test_a_batch_agent_answers_all_games_in_one_call() -> None:
    first, second = Batch(1), Batch(2)
    result = play_match(first, second, pairs=20, seed=1, opening_plies=(4, 4))
    longest = max(len(game.moves) for game in result.games)
    assert first.calls[0] == second.calls[0] == 20  # white in half of the games
    assert len(first.calls) <= longest
    assert sum(first.calls) + sum(second.calls) == sum(len(game.moves) for game in result.games)


def test_a_single_agent_sees_the_whole_game_before_its_position() -> None:
    agent = Single()
    result = play_match(agent, "random", pairs=2, seed=1)
    assert agent.histories
    assert len(agent.seeds) == len(set(agent.seeds)) == len(result.games)
    for history in agent.histories:
        assert history[0] == Position.start()
        assert [position.ply for position in history] == list(range(len(history)))
        for before, after in pairwise(history):
            assert after in [before.play(hole) for hole in before.legal_moves()]


def test_the_match_closes_the_agents_that_it_made() -> None:
    made: list[Single] = []

    def factory() -> Single:
        made.append(Single(1))
        return made[-1]

    given = Batch(2)
    play_match(factory, given, pairs=3, games_at_once=4)
    assert len(made) == 4  # one for each game in progress
    assert [agent.closed for agent in made] == [1, 1, 1, 1]
    assert given.closed == 0


def test_a_class_is_a_factory() -> None:
    assert play_match(Lowest, Highest, 3, seed=1).games == play_match(Lowest(), Highest(), 3, seed=1).games


def test_what_is_no_agent_is_an_error() -> None:
    for player in (5, None, lambda: None, int):
        with pytest.raises(ConfigError, match="no agent"):
            play_match(player, "random", 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'nobody'"):
        play_match("nobody", "random", 1)
    with pytest.raises(ConfigError, match="1 openings for 2 pairs"):
        play_match("random", "random", 2, openings=[Opening()])
    with pytest.raises(ConfigError, match="0 pairs"):
        play_match("random", "random", 0)


def test_an_illegal_hole_is_an_error_that_names_the_agent() -> None:
    class Cheat(Single):
        name = "cheat"
        answer: object = 10

        def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
            return self.answer  # type: ignore[return-value]

    agent = Cheat()
    for hole in (0, 10, -1):
        agent.answer = hole
        with pytest.raises(IllegalMoveError, match=rf"agent 'cheat': hole {hole} in .* legal moves: \["):
            play_match(agent, "random", 1)
    agent.answer = None
    with pytest.raises(TogyzError, match="agent 'cheat': answered None"):
        play_match(agent, "random", 1)
    empty = Position.start().play(9).play(9).play(9)  # white's 9 held one stone and is empty now
    agent.answer = 9
    assert 9 not in empty.play(1).legal_moves()
    with pytest.raises(IllegalMoveError, match="cheat"):
        play_match(agent, agent, 1, openings=[Opening(start=empty.play(1))])


def test_a_batch_of_the_wrong_size_is_an_error() -> None:
    class Short(Batch):
        def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
            return super().select_batch(states, plies)[1:]

    with pytest.raises(TogyzError, match=r"Short.*select_batch"):
        play_match(Short(), "random", 3)


@pytest.mark.parametrize("score", [0.01, 0.25, 0.5, 0.7, 0.99])
def test_elo_is_the_logistic_curve_in_base_ten(score: float) -> None:
    assert 1 / (1 + 10 ** (-elo_from_score(score) / 400)) == pytest.approx(score)


def test_elo_landmarks() -> None:
    assert elo_from_score(10 / 11) == pytest.approx(400)  # ten to one is 400 points by definition
    assert elo_from_score(0.5) == 0
    assert (elo_from_score(1.0), elo_from_score(0.0)) == (np.inf, -np.inf)
    with pytest.raises(ConfigError):
        elo_from_score(1.01)


def test_two_players_have_the_closed_form() -> None:
    # 30 wins, 10 draws, 20 losses: 35 points of 60.
    ratings = fit_bradley_terry(np.array([[0, 35], [25, 0]]), prior=0)
    assert ratings[0] - ratings[1] == pytest.approx(elo_from_score(35 / 60))
    assert ratings.sum() == pytest.approx(0)


def test_the_prior_is_a_draw_against_the_average() -> None:
    # By symmetry the ratings are x and -x, and the expected points equal the points where, with s = sigmoid(x) and one virtual
    # draw each, 10 = 10 sigmoid(2x) + (s - 1/2), here solved by bisection.
    low, high = 0.0, 10.0
    for _ in range(100):
        x = (low + high) / 2
        if 10 / (1 + np.exp(-2 * x)) + 1 / (1 + np.exp(-x)) - 0.5 < 10:
            low = x
        else:
            high = x
    ratings = fit_bradley_terry(np.array([[0, 10], [0, 0]]), prior=1)
    assert ratings == pytest.approx([400 * x / np.log(10), -400 * x / np.log(10)])


def test_all_draws_rate_everyone_equal() -> None:
    points = 3.0 * (1 - np.eye(5))
    assert fit_bradley_terry(points) == pytest.approx(np.zeros(5))
    assert fit_bradley_terry(points, prior=0) == pytest.approx(np.zeros(5))


def test_unbeaten_and_winless_players_stay_finite_and_in_order() -> None:
    points = np.array([[0, 10, 10], [0, 0, 6], [0, 4, 0.0]])
    ratings = fit_bradley_terry(points)
    assert np.all(np.isfinite(ratings))
    assert ratings[0] > ratings[1] > ratings[2]
    with pytest.raises(ConfigError, match="prior"):
        fit_bradley_terry(points, prior=0)
    # More evidence of the same kind is a higher rating; a weaker prior, too.
    assert fit_bradley_terry(points * 10)[0] > ratings[0]
    assert fit_bradley_terry(points, prior=0.01)[0] > ratings[0]


def test_groups_that_never_met_are_rated_with_a_prior() -> None:
    points = np.zeros((4, 4))
    points[0, 1], points[1, 0], points[2, 3], points[3, 2] = 6, 4, 9, 1
    ratings = fit_bradley_terry(points)
    assert ratings[2] > ratings[0] > ratings[1] > ratings[3]


def test_ratings_agree_with_a_slow_reference() -> None:
    def reference(points: np.ndarray) -> np.ndarray:
        """Minorise and maximise (D. R. Hunter, Annals of Statistics 32, 2004)."""
        strength = np.ones(len(points))
        for _ in range(5000):
            pull = (points + points.T) / (strength[:, None] + strength[None, :])
            strength = points.sum(axis=1) / pull.sum(axis=1)
            strength /= np.exp(np.mean(np.log(strength)))
        return np.asarray(400 * np.log10(strength))

    rng = np.random.default_rng(0)
    for players in (2, 3, 6):
        points = rng.integers(1, 40, (players, players)) / 2 * (1 - np.eye(players))
        assert fit_bradley_terry(points, prior=0) == pytest.approx(reference(points), abs=1e-6)


def test_a_clean_sweep_has_no_width() -> None:
    assert pair_bootstrap([1.0] * 10) == (1.0, 1.0)
    with pytest.raises(ConfigError):
        pair_bootstrap([])
    with pytest.raises(ConfigError):
        pair_bootstrap([0.5], confidence=95)


def test_intervals_cover_the_true_score_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    outcomes, chances = np.array([0, 0.25, 0.5, 0.75, 1]), np.array([0.1, 0.1, 0.3, 0.2, 0.3])
    truth = outcomes @ chances
    covered = 0
    for _ in range(300):
        low, high = pair_bootstrap(rng.choice(outcomes, 60, p=chances), 0.9, samples=1000)
        covered += low <= truth <= high
    assert 0.84 < covered / 300 < 0.96


def test_known_strengths_lie_within_the_intervals() -> None:
    strengths = np.array([200.0, 50.0, -50.0, -200.0])
    rng = np.random.default_rng(2)
    pairs = np.array([(i, j) for i in range(4) for j in range(i + 1, 4) for _ in range(200)])
    expected = 1 / (1 + 10 ** ((strengths[pairs[:, 1]] - strengths[pairs[:, 0]]) / 400))
    scores = (rng.random((len(pairs), 2)) < expected[:, None]).mean(axis=1)
    ratings = fit_bradley_terry(points_matrix(4, pairs, scores))
    intervals = bradley_terry_intervals(4, pairs, scores, samples=200)
    assert ratings == pytest.approx(strengths, abs=40)
    assert np.all((intervals[:, 0] < strengths) & (strengths < intervals[:, 1]))
    assert np.all((intervals[:, 0] < ratings) & (ratings < intervals[:, 1]))


def test_points_are_shared_by_the_two_games_of_a_pair() -> None:
    points = points_matrix(3, np.array([(0, 1), (1, 0), (2, 0)]), np.array([0.75, 0.5, 1.0]))
    assert points.tolist() == [[0, 2.5, 0], [1.5, 0, 0], [2, 0, 0]]
