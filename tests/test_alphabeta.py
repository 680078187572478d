"""Alpha-beta: its score is that of a plain search of the same depth, and it keeps to its limits.

1. On random late positions at depths 1 to 6 the score is that of an exhaustive search by the slow rules, with and without table,
   with and without captures searched on, under both end rules, near the ply limit too, and whatever the table already holds. The
   move has that score, and so has each exact line of several.
2. Every forced win of the file is found at its depth, with its length.
3. Limits of nodes, depth and time and a stop from another thread are kept; there is always a legal move; a stopped search gives
   what its finished iterations give; equal limits give equal results.
4. The features of the evaluation are those counted by hand and by the slow rules; colours swapped, the score is the same.
5. Expected results and scores are each other's inverse; an evaluator of leaves is asked for every leaf, and only once.
6. Depth 8 beats depth 4 by 75 % and more, the fitted evaluation beats the kazans alone (slow).
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from boards import DATA, board, random_positions
from reference_rules import Board

from togyz_agents.search.alphabeta import weights as fitted
from togyz_agents.search.alphabeta.evaluation import (
    FEATURES,
    NAMES,
    PROVEN,
    WIN,
    evaluate,
    expectation,
    features,
    score_of_value,
)
from togyz_agents.search.alphabeta.searcher import AlphaBetaConfig, AlphaBetaResult, AlphaBetaSearch
from togyz_agents.search.alphabeta.table import new_table
from togyz_agents.tournament.match import play_match
from togyz_env import ConfigError, Position, Ruleset, TogyzError
from togyz_env.batch import perft_count, random_play, random_states, start_states
from togyz_env.rng import new_streams

WEIGHTS = np.array([fitted.EMPTY_BOARD, fitted.FULL_BOARD], np.int64)
Leaf = Callable[[Board], int]


def kazans_alone(position: Board) -> int:
    return 100 * (position.kazans[position.mover] - position.kazans[1 - position.mover])


def full_score(position: Board) -> int:
    return int(evaluate(np.array(position.row(), np.uint8), WEIGHTS, np.zeros(FEATURES, np.int64)))


class Plain:
    """Exhaustive search by the slow rules: no window, no order; results are kept only to save time."""

    def __init__(self, leaf: Leaf = kazans_alone, quiescence: int = 0, ruleset: Ruleset = Ruleset()) -> None:  # noqa: B008
        self.leaf, self.quiescence, self.ruleset = leaf, quiescence, ruleset
        self.memory: dict[tuple[tuple[int, ...], int, int], int] = {}

    def score(self, position: Board, depth: int, ply: int) -> int:
        """Score for the side to move; a win that is n plies away from here counts 30000 - n."""
        end = position.end(self.ruleset.playout)
        if end is not None:
            margin = (end[1] - end[2]) * (1 if position.mover == 0 else -1)
            return 0 if margin == 0 else (30000 if margin > 0 else -30000)
        if ply >= self.ruleset.max_plies:
            return 0
        key = (tuple(position.row()), depth, ply)
        if key not in self.memory:
            self.memory[key] = self.deeper(position, depth, ply)
        return self.memory[key]

    def deeper(self, position: Board, depth: int, ply: int) -> int:
        best = -40000
        if depth <= 0:
            best = self.leaf(position)
            if depth <= -self.quiescence:
                return best
        for hole in position.legal():
            after = Board.of(position.row())
            event = after.play(hole)[2]
            if depth > 0 or event != "nothing":
                best = max(best, self.after(after, depth - 1, ply + 1))
        return best

    def after(self, position: Board, depth: int, ply: int) -> int:
        """What a move to ``position`` is worth to who made it."""
        score = -self.score(position, depth, ply)
        return score - (score > 29000) + (score < -29000)


def slow(position: Position) -> Board:
    return Board.of(list(position.row))


@cache
def late_positions(count: int, seed: int, sequences: int) -> list[Position]:
    """Different unfinished positions of random games with at most so many sequences of six moves, and at least two moves."""
    found: dict[bytes, Position] = {}
    for batch in itertools.count():
        for state in random_states(400, seed + batch, plies=160)[60:]:
            position = Position.from_state(state, 100)
            if position.outcome() is None and len(position.legal_moves()) > 1 and perft_count(state, 6, False) <= sequences:
                found.setdefault(position.row, position)
                if len(found) == count:
                    return list(found.values())


def compare(positions: list[Position], plain: Plain, config: AlphaBetaConfig, ruleset: Ruleset, depths: range) -> int:
    """Compare every position at every depth; return how many scores were proven wins or losses."""
    search = AlphaBetaSearch(config, ruleset)
    proven = 0
    for position in positions:
        search.forget()
        for depth in depths:
            result = search.run(position.state, position.ply, depth=depth)
            expected = plain.score(slow(position), depth, position.ply)
            assert result.score == expected, (position, depth)
            after = slow(position.play(result.action + 1))
            assert plain.after(after, depth - 1, position.ply + 1) == expected, (position, depth)
            proven += abs(expected) > PROVEN
    return proven


# 1


@pytest.mark.parametrize("table", [0, 1])
def test_the_score_is_that_of_an_exhaustive_search(table: int) -> None:
    proven = compare(late_positions(60, 5, 1500)[:40], Plain(), AlphaBetaConfig("kazan", 0, table), Ruleset(), range(1, 7))
    assert proven > 10


@pytest.mark.slow
def test_the_score_is_that_of_an_exhaustive_search_on_500_positions() -> None:
    positions = late_positions(500, 1000, 6000)
    for leaf, name, quiescence in ((kazans_alone, "kazan", 0), (full_score, "full", 0), (full_score, "full", 8)):
        plain = Plain(leaf, quiescence)
        for table in (0, 1):
            assert compare(positions, plain, AlphaBetaConfig(name, quiescence, table), Ruleset(), range(1, 7)) > 100


@pytest.mark.parametrize("table", [0, 1])
def test_captures_are_searched_on_exactly(table: int) -> None:
    positions = late_positions(60, 5, 1500)[20:40]
    compare(positions, Plain(full_score, 8), AlphaBetaConfig("full", 8, table), Ruleset(), range(1, 5))
    compare(positions, Plain(kazans_alone, 3), AlphaBetaConfig("kazan", 3, table), Ruleset(), range(1, 5))


def test_played_out_games_end_with_atsyrau_only() -> None:
    ruleset = Ruleset(end="playout")
    states = start_states(400)
    random_play(states, new_streams(8, 400), 180, True)
    positions = [Position.from_state(state, 100) for state in states if perft_count(state, 6, True) <= 1500]
    positions = [position for position in positions if position.outcome(ruleset) is None][:25]
    assert sum(max(position.kazans) >= 82 for position in positions) > 5
    assert compare(positions, Plain(ruleset=ruleset), AlphaBetaConfig("kazan", 0, 1), ruleset, range(1, 7)) > 20


@pytest.mark.parametrize("left", [1, 2, 3, 5])
def test_a_game_cut_at_the_ply_limit_is_a_draw_inside_the_search(left: int) -> None:
    for position in late_positions(60, 5, 1500)[:15]:
        ruleset = Ruleset(max_plies=position.ply + left)
        for quiescence in (0, 4):
            plain = Plain(kazans_alone, quiescence, ruleset)
            compare([position], plain, AlphaBetaConfig("kazan", quiescence, 1), ruleset, range(1, left + 1))


def test_what_the_table_knows_of_other_depths_and_plies_changes_nothing() -> None:
    positions = late_positions(60, 5, 1500)[40:]
    ruleset = Ruleset(max_plies=110)
    plain = Plain(kazans_alone, 0, ruleset)
    search = AlphaBetaSearch(AlphaBetaConfig("kazan", 0, 1), ruleset)
    for position in positions:
        search.forget()
        for ply, depth in ((0, 6), (4, 2), (2, 5), (6, 3), (8, 2), (0, 4), (8, 1), (0, 6)):
            ply += position.ply
            if ply < ruleset.max_plies:
                depth = min(depth, ruleset.max_plies - ply)
                result = search.run(position.state, ply, depth=depth)
                assert result.score == plain.score(slow(position), depth, ply), (position, ply, depth)


@pytest.mark.parametrize("limit", [50, 2000])
def test_positions_that_come_back_are_searched_exactly(limit: int) -> None:
    # RULES, End: lone stones can chase each other round the ring, and the same position is met at many depths
    ruleset = Ruleset(max_plies=limit)
    endings = [
        board("0 0 0 0 0 0 0 0 1", "0 0 0 0 0 0 0 0 1", 80),
        board("0 0 0 0 0 0 0 0 1", "0 0 0 0 0 0 0 0 1", 79),
        board("1 0 0 0 0 0 0 0 1", "0 0 0 1 0 0 0 0 0", 80),
        board("1 0 0 0 1 0 0 0 0", "0 1 0 0 0 0 0 0 1", 79, to_move=1),
    ]
    plain = Plain(ruleset=ruleset)
    for position in endings:
        search = AlphaBetaSearch(AlphaBetaConfig("kazan", 0, 1), ruleset)
        for depth in (5, 12, 19, 26, 36, 44):
            result = search.run(position.state, position.ply, depth=depth)
            assert result.score == plain.score(slow(position), depth, position.ply), (position, depth)


def test_several_lines_are_exact_and_the_rest_are_bounds() -> None:
    for position in late_positions(60, 5, 1500)[15:30]:
        plain = Plain()
        scores = {hole: plain.after(slow(position.play(hole)), 3, position.ply + 1) for hole in position.legal_moves()}
        for count in (1, 2, 9):
            result = AlphaBetaSearch(AlphaBetaConfig("kazan", 0, 1)).run(position.state, position.ply, depth=4, lines=count)
            assert sorted(line.moves[0] for line in result.lines) == position.legal_moves()
            best = sorted(scores.values(), reverse=True)[:count]
            assert [line.score for line in result.lines[: len(best)]] == best
            for line in result.lines:
                assert scores[line.moves[0]] == line.score if line.exact else scores[line.moves[0]] <= line.score


def test_a_line_leads_to_its_score() -> None:
    for position in late_positions(60, 5, 1500)[:30]:
        result = AlphaBetaSearch(AlphaBetaConfig("kazan", 0, 1)).run(position.state, position.ply, depth=5)
        end = position
        for hole in result.principal_variation:
            assert end.outcome() is None
            end = end.play(hole)
        assert 1 <= len(result.principal_variation) <= 5
        if result.plies_to_end is not None:
            outcome = end.outcome()
            assert outcome is not None
            assert (outcome.winner == position.to_move) == (result.score > 0)
            assert len(result.principal_variation) == result.plies_to_end
        elif len(result.principal_variation) == 5 and end.outcome() is None:
            assert result.score == kazans_alone(slow(end)) * (1 if end.to_move == position.to_move else -1)


# 2


@pytest.mark.parametrize("evaluation", ["kazan", "full"])
@pytest.mark.parametrize("plies", [1, 3, 5])
def test_forced_wins_are_found_at_their_depth(plies: int, evaluation: str) -> None:
    cases = [json.loads(line) for line in (DATA / "forced_wins.jsonl").read_text().splitlines()[1:]]
    cases = [case for case in cases if case["plies"] == plies]
    assert len(cases) == 100
    search = AlphaBetaSearch(AlphaBetaConfig(evaluation, 0 if evaluation == "kazan" else 8, 1))
    for case in cases:
        position = Position.from_fen(case["fen"])
        search.forget()
        result = search.run(position.state, position.ply, depth=plies)
        assert (result.score, result.plies_to_end, result.value) == (WIN - plies, plies, 1.0)
        assert case["wins"][str(result.action + 1)] == plies
        assert len(result.principal_variation) == plies


# 3

MIDDLE = Position.from_fen("12S,1S,12S,12S,1S,10S,2S,10S,11S/2S,11S,1S,12S,12S,1S,12S,1S,11S 10 18 S 8")


def key(result: AlphaBetaResult) -> tuple[object, ...]:
    return result.action, result.score, result.depth, result.nodes, result.lines


@pytest.mark.parametrize("limit", [1, 50, 777, 20_000])
def test_a_limit_of_nodes_is_kept_and_repeats(limit: int) -> None:
    search = AlphaBetaSearch()
    result = search.run(MIDDLE.state, MIDDLE.ply, nodes=limit)
    least = AlphaBetaSearch().run(MIDDLE.state, MIDDLE.ply, depth=1).nodes  # all moves one ply deep in any case
    assert result.nodes <= max(limit, least)
    assert result.nodes == limit or limit < least
    assert key(AlphaBetaSearch().run(MIDDLE.state, MIDDLE.ply, nodes=limit)) == key(result)
    search.forget()
    assert key(search.run(MIDDLE.state, MIDDLE.ply, nodes=limit)) == key(result)


def test_a_stopped_search_is_no_worse_than_its_finished_iterations() -> None:
    for position in late_positions(60, 5, 1500)[30:50]:
        plain = Plain()
        for limit in (30, 100, 300):
            result = AlphaBetaSearch(AlphaBetaConfig("kazan", 0, 0)).run(position.state, position.ply, nodes=limit)
            scores = [
                plain.after(slow(position.play(result.action + 1)), depth - 1, position.ply + 1)
                for depth in (result.depth, result.depth + 1)
                if depth <= 6
            ]
            whole = AlphaBetaSearch(AlphaBetaConfig("kazan", 0, 0)).run(position.state, position.ply, depth=result.depth)
            assert whole.score in scores or result.score in scores[1:] or result.depth >= 6


def test_depth_time_and_one_legal_move() -> None:
    search = AlphaBetaSearch()
    assert search.run(MIDDLE.state, MIDDLE.ply, depth=5).depth == 5
    reports: list[AlphaBetaResult] = []
    result = search.run(MIDDLE.state, MIDDLE.ply, seconds=0.2, report=reports.append)
    assert 0.15 < result.seconds < 5.0
    assert [report.depth for report in reports] == list(range(1, len(reports) + 1))
    assert result.depth == reports[-1].depth > 5
    quick = search.run(MIDDLE.state, MIDDLE.ply, seconds=0.0)
    assert quick.action + 1 in MIDDLE.legal_moves()


def test_stop_ends_a_search_from_another_thread() -> None:
    search = AlphaBetaSearch()
    started = time.monotonic()
    threading.Timer(0.2, search.stop).start()
    result = search.run(MIDDLE.state, MIDDLE.ply)
    assert time.monotonic() - started < 20
    assert result.action + 1 in MIDDLE.legal_moves()
    assert result.depth >= 1


def test_wrong_requests_are_refused() -> None:
    search = AlphaBetaSearch()
    over = board("0 0 0 0 0 0 0 0 0", "1 1 0 0 0 0 0 0 0")
    for state, arguments, message in (
        (MIDDLE.state[:20], {"depth": 1}, r"state: shape \(20,\)"),
        (over.state, {"depth": 1}, "the game is over"),
        (MIDDLE.state, {"depth": 0}, "depth 0; expected at least 1"),
        (MIDDLE.state, {"nodes": 0}, "nodes 0"),
        (MIDDLE.state, {"seconds": -1.0}, "seconds -1"),
        (MIDDLE.state, {"seconds": float("nan")}, "seconds nan"),
        (MIDDLE.state, {"lines": 0}, "lines 0"),
    ):
        with pytest.raises(TogyzError, match=message):
            search.run(state, 8, **arguments)  # type: ignore[arg-type]
    for config in ({"evaluation": "stones"}, {"quiescence": -1}, {"quiescence": 99}, {"table": -1}, {"table": 10**6}):
        with pytest.raises(ConfigError):
            AlphaBetaConfig(**config)  # type: ignore[arg-type]


def test_a_table_takes_no_more_memory_than_it_may() -> None:
    assert new_table(0).nbytes == 0
    assert [new_table(size).nbytes for size in (1, 3, 16)] == [2**20, 2 * 2**20, 16 * 2**20]


# 4


def counted(position: Position) -> dict[str, int]:
    out = np.zeros(FEATURES, np.int64)
    features(position.state, out)
    return {name: int(value) for name, value in zip(NAMES, out) if value}


def test_features_counted_by_hand() -> None:
    # White: 2 stones in hole 1, 1 in hole 8, 14 in hole 9; black: 1 in hole 2, 3 in hole 7, 5 in hole 9. White to move.
    # White's 9 sows 14 stones: white 9, black 1..9 (own 7 gets 4), white 1..4: ends at home. White's 8: into his 9. Nothing.
    # Black's 9 sows 5: black 9, white 1..4; hole 4 holds one. Black's 7: 7, 8, 9. Black's 2: its 3. Nothing either.
    position = board("2 0 0 0 0 0 0 1 14", "0 1 0 0 0 0 3 0 5", 70)
    assert counted(position) == {
        "tempo": 1,
        "kazans": 70 - 66,
        "stones in the row": 17 - 9,
        "holes of 2 open to a tuzdyk": 1,
        "odd holes": 1 - 3,
        "holes above 12": 1,
        "stones in hole 1": 2,
        "stones in hole 2": -1,
        "stones in hole 7": -3,
        "stones in hole 8": 1,
        "stones in hole 9": 14 - 5,
    }


def test_features_agree_with_the_slow_rules() -> None:
    for position in itertools.islice(random_positions(600, 4), 0, None, 3):
        mover, found = position.to_move, counted(position)
        for side, whose in ((mover, "my"), (1 - mover, "their")):
            captures, makes_tuzdyk = [0, 0], False
            for hole in range(1, 10):
                after = slow(position)
                after.mover = side
                if after.rows[side][hole - 1]:
                    _, _, event, stones = after.play(hole)
                    makes_tuzdyk |= event == "tuzdyk"
                    captures += [stones] if event == "capture" else []
            largest = sorted(captures)[::-1]
            assert found.get(f"{whose} best capture", 0) == largest[0], position
            assert found.get(f"{whose} second capture", 0) == largest[1], position
            assert found.get(f"{whose} tuzdyk threat", 0) == makes_tuzdyk, position
        mine, theirs = slow(position).rows[mover], slow(position).rows[1 - mover]
        assert found.get("mobility", 0) == sum(n > 0 for n in mine) - sum(n > 0 for n in theirs)
        assert found.get("holes above 12", 0) == sum(n > 12 for n in mine) - sum(n > 12 for n in theirs)
        for number in range(1, 9):
            own = position.tuzdyks[mover] == number
            assert found.get(f"tuzdyk {number}", 0) == own - (position.tuzdyks[1 - mover] == number)


def test_colours_swapped_the_score_is_the_same() -> None:
    for position in random_positions(300, 6):
        assert full_score(slow(position)) == full_score(slow(position.mirrored()))
        assert kazans_alone(slow(position)) == kazans_alone(slow(position.mirrored()))


# 5


def test_expected_results_and_scores_are_inverse() -> None:
    values = np.array([-0.99, -0.5, 0.0, 0.3, 0.9])
    scores = score_of_value(values, 700.0)
    assert [expectation(int(score), 700.0) for score in scores] == pytest.approx(values, abs=1e-3)
    low, high = score_of_value(np.array([-1.0, 1.0]), 700.0)
    assert -PROVEN < low == -high < -5000
    assert expectation(WIN - 5, 700.0) == 1.0
    assert expectation(5 - WIN, 700.0) == -1.0


@pytest.mark.parametrize("quiescence", [0, 3])
def test_an_evaluator_of_leaves_is_searched_exactly_and_asked_once(quiescence: int) -> None:
    asked: list[bytes] = []

    def evaluator(states: np.ndarray) -> np.ndarray:
        asked.extend(state.tobytes() for state in states)
        return np.array([kazans_alone(Board.of(state.tolist())) for state in states], np.int64)

    total = 0
    for position in late_positions(60, 5, 1500)[45:55]:
        asked.clear()
        search = AlphaBetaSearch(AlphaBetaConfig("kazan", quiescence, 1), evaluator=evaluator)
        plain = Plain(kazans_alone, quiescence)
        for depth in (1, 2, 4):
            result = search.run(position.state, position.ply, depth=depth)
            assert result.score == plain.score(slow(position), depth, position.ply)
        assert len(asked) == len(set(asked))
        total += len(asked)
        assert all(Position.from_state(np.frombuffer(row, np.uint8)).outcome() is None for row in asked)
    assert total > 50


def test_an_evaluator_that_answers_wrongly_is_refused() -> None:
    def too_few(states: np.ndarray) -> np.ndarray:
        return np.zeros(len(states) + 1, np.int64)

    def too_large(states: np.ndarray) -> np.ndarray:
        return np.full(len(states), WIN)

    for evaluator in (too_few, too_large):
        with pytest.raises(TogyzError, match="whole scores within"):
            AlphaBetaSearch(evaluator=evaluator).run(MIDDLE.state, MIDDLE.ply, depth=1)


# 6


@pytest.mark.slow
def test_depth_8_beats_depth_4() -> None:
    result = play_match("alphabeta:depth=8", "alphabeta:depth=4", pairs=100, seed=1)
    assert result.distinct_games > 190
    assert result.score >= 0.75


@pytest.mark.slow
def test_the_fitted_evaluation_beats_the_kazans_alone_at_equal_depth() -> None:
    result = play_match("alphabeta:depth=5", "alphabeta:depth=5,eval=kazan", pairs=100, seed=2)
    assert result.distinct_games > 190
    assert result.interval(0.99)[0] > 0.5
