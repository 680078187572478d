"""The rules: every fact that is known about them, and the kernels against each other and against a slow reference.

1. Perft counts of three independent programs. 2. Every ply and end of 120 recorded games. 3. The four printed examples.
4. Each hard case by name. 5. Stones add up to 162; scalar, batched and reference rules agree; ``preview`` agrees with ``play``.
"""

from __future__ import annotations

import numpy as np
import pytest
from boards import FACTS, board, games, random_positions
from numba import njit
from reference_rules import Board

from togyz_env import Outcome, Position, Ruleset, batch, perft, rules
from togyz_env.rng import new_streams

PLAYOUT = Ruleset(end="playout")
PERFT_LINES = [line for line in (FACTS / "perft.txt").read_text().splitlines() if line and not line.startswith("#")]
GAMES = games()
EVENTS = {rules.NOTHING: "nothing", rules.CAPTURE: "capture", rules.MAKES_TUZDYK: "tuzdyk"}


def play_all(position: Position, holes: list[int]) -> Position:
    for hole in holes:
        assert position.outcome() is None
        position = position.play(hole)
    return position


@pytest.mark.parametrize("line", PERFT_LINES, ids=lambda line: line.split(" ; ")[0])
def test_perft_agrees_with_independent_programs(line: str) -> None:
    fen, counts = line.split(" ; ")
    position = Position.from_fen(fen)
    for depth, expected in enumerate(map(int, counts.split()), start=1):
        found = perft(position, depth)
        divide = {hole: perft(position.play(hole), depth - 1) for hole in position.legal_moves()} if found != expected else {}
        assert found == expected, f"depth {depth} of {fen!r}: {found}, expected {expected}; divide {divide}"


def test_perft_counts_no_move_past_the_ply_limit_or_the_end() -> None:
    assert [perft(Position.start(), depth, Ruleset(max_plies=2)) for depth in range(4)] == [1, 9, 73, 0]
    assert perft(board("1 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 82), 1) == 0
    assert perft(board("1 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 82), 1, PLAYOUT) == 1


@pytest.mark.parametrize("number", range(120))
def test_every_ply_and_the_end_of_recorded_games(number: int) -> None:
    game = GAMES[number]
    ruleset = Ruleset(end=game["end_rule"])
    position = Position.start()
    for hole, fen in game["plies"]:
        assert position.outcome(ruleset) is None
        position = position.play(hole)
        assert position.fen() == fen
        assert Position.from_fen(fen) == position
        assert sum(position.holes) + sum(position.kazans) == 162
    winner = {"white": 0, "black": 1, None: None}[game["winner"]]
    assert position.outcome(ruleset) == Outcome(winner, game["reason"], tuple(game["score"]))


# The examples printed in the national rules.


def test_printed_example_1_first_move() -> None:
    position = Position.start().play(7)
    assert position == board("9 9 9 9 9 9 1 10 10", "10 10 10 10 10 0 9 9 9", 10, to_move=1)
    assert position.kazans == (10, 0)


def test_printed_example_2_tuzdyk() -> None:
    position = board("10 10 10 10 10 10 2 11 1", "11 11 11 11 11 1 10 10 0", 12, to_move=1)
    sowing = position.sowing(7)
    assert (sowing.landing_side, sowing.landing_hole, sowing.captured, sowing.tuzdyk) == (0, 7, 3, True)
    after = position.play(7)
    assert after.holes == (11, 11, 11, 11, 11, 11, 0, 11, 1, 11, 11, 11, 11, 11, 1, 1, 11, 1)
    assert (after.kazans, after.tuzdyks) == ((12, 3), (0, 7))


def test_printed_example_3_atsyrau_with_stones_left() -> None:
    start = board("0 0 0 0 0 0 0 0 4", "0 0 0 0 1 0 1 1 1", 76, tuzdyks=(6, 8))
    assert start.kazans == (76, 78)
    end = play_all(start, [9, 1, 9, 1])
    assert sum(end.holes[9:]) == 8
    assert end.legal_moves() == []
    assert end.outcome() == Outcome(1, "atsyrau", (76, 86))


def test_printed_example_4_a_forced_move_saves_the_opponent() -> None:
    start = board("0 0 0 0 0 0 1 1 3", "0 0 0 0 0 0 0 1 1", 77, tuzdyks=(6, 1))
    saved = play_all(start, [8, 9, 7, 8, 8, 9])
    assert saved.kazans == (77, 80)
    assert saved.holes == (0, 0, 0, 0, 0, 0, 0, 0, 5, *[0] * 9)
    assert saved.legal_moves() == [9]
    saved = saved.play(9)
    assert saved.holes == (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0)
    assert play_all(saved, [1, 9, 1]).outcome() == Outcome(1, "atsyrau", (77, 85))


# Hard cases.


def test_last_stone_into_own_tuzdyk_is_collected_and_captures_nothing() -> None:
    position = board("0 0 0 0 0 0 0 0 5", "1 1 1 0 1 0 0 0 0", 70, tuzdyks=(4, 0))
    sowing = position.sowing(9)
    assert (sowing.landing_side, sowing.landing_hole, sowing.captured, sowing.gained) == (1, 4, 0, 1)
    after = position.play(9)
    assert after.holes == (0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 0, 1, 0, 0, 0, 0)
    assert after.kazans == (71, 83)


def test_last_stone_into_opposing_tuzdyk_goes_to_the_opponent() -> None:
    position = board("3 5 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 70, tuzdyks=(0, 3))
    after = position.play(1)
    assert after.holes[:3] == (1, 6, 0)
    assert (after.kazans, after.tuzdyks) == ((70, 84), (0, 3))
    assert position.sowing(1).gained == 0


def test_a_single_stone_next_to_the_opposing_tuzdyk_is_lost() -> None:
    after = board("0 1 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 70, tuzdyks=(0, 3)).play(2)
    assert (after.holes[1:3], after.kazans) == ((0, 0), (70, 90))


@pytest.mark.parametrize(
    ("white", "black", "tuzdyks", "hole", "landing"),
    [
        pytest.param("0 0 0 0 0 0 0 0 3", "4 2 0 0 0 0 0 0 0", (5, 0), 9, 2, id="the mover has one"),
        pytest.param("0 0 0 0 0 0 0 4 10", "0 0 0 0 0 1 1 1 2", (0, 0), 9, 9, id="hole 9"),
        pytest.param("0 0 0 0 0 0 0 0 3", "4 2 0 0 0 0 0 0 0", (0, 2), 9, 2, id="mirrors the opponent's"),
    ],
)
def test_tuzdyk_is_refused(white: str, black: str, tuzdyks: tuple[int, int], hole: int, landing: int) -> None:
    position = board(white, black, 60, tuzdyks=tuzdyks)
    sowing = position.sowing(hole)
    assert (sowing.landing_side, sowing.landing_hole, sowing.captured, sowing.tuzdyk, sowing.gained) == (1, landing, 0, False, 0)
    after = position.play(hole)
    assert after.holes[8 + landing] == 3
    assert (after.kazans, after.tuzdyks) == (position.kazans, tuzdyks)


def test_tuzdyk_is_allowed_where_none_of_the_three_reasons_holds() -> None:
    after = board("0 0 0 0 0 0 0 0 3", "4 2 0 0 0 0 0 0 0", 60, tuzdyks=(0, 3)).play(9)
    assert (after.holes[9:11], after.kazans[0], after.tuzdyks) == ((5, 0), 63, (2, 3))


def test_more_than_18_stones_fall_into_the_starting_hole_again() -> None:
    after = board("0 0 0 0 0 0 0 0 20", "2 0 0 0 0 0 0 0 0", 60).play(9)
    assert after.holes == (1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 1, 1, 1, 1, 1, 1, 1, 1)  # black's 1 held 2, got 2: four captured
    assert after.kazans == (64, 80)


def test_19_stones_end_in_the_starting_hole() -> None:
    position = board("0 0 0 0 19 0 0 0 0", "1 0 0 0 0 0 0 0 0", 60)
    assert (position.sowing(5).landing_side, position.sowing(5).landing_hole) == (0, 5)
    assert position.play(5).holes == (1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1)


def test_more_than_36_stones_go_round_twice() -> None:
    after = board("0 0 0 0 0 0 0 0 38", "1 0 0 0 0 0 0 0 0", 60).play(9)
    assert after.holes == (2, 2, 2, 2, 2, 2, 2, 2, 3, 0, 2, 2, 2, 2, 2, 2, 2, 2)
    assert after.kazans == (64, 63)


def test_more_than_36_stones_can_make_a_tuzdyk_of_an_empty_hole() -> None:
    after = board("0 0 0 0 0 0 0 0 38", "0 1 0 0 0 0 0 0 0", 60).play(9)
    assert (after.holes[9], after.tuzdyks, after.kazans[0]) == (0, (1, 0), 63)


def test_a_tuzdyk_collects_a_stone_of_every_round() -> None:
    after = board("0 0 0 0 0 0 0 0 38", "1 0 0 0 0 0 0 0 0", 60, tuzdyks=(2, 5)).play(9)
    assert (after.holes[10], after.holes[4]) == (0, 0)
    assert after.kazans == (60 + 4 + 2, 63 + 2)


def test_one_stone_makes_two_and_captures() -> None:
    after = board("0 0 0 0 0 0 0 1 1", "1 1 0 0 0 0 0 0 0", 60).play(9)
    assert (after.holes[8:10], after.kazans[0]) == ((0, 0), 62)


def test_one_stone_makes_three_and_a_tuzdyk() -> None:
    after = board("0 0 0 0 0 0 0 1 1", "2 1 0 0 0 0 0 0 0", 60).play(9)
    assert (after.holes[8:10], after.kazans[0], after.tuzdyks) == ((0, 0), 63, (1, 0))


def test_the_last_stone_in_the_movers_own_row_captures_nothing() -> None:
    after = board("2 1 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 60).play(1)
    assert (after.holes[:2], after.kazans[0]) == ((1, 2), 60)


def test_a_mover_who_empties_his_row_is_saved_by_the_reply() -> None:
    emptied = board("0 0 0 0 0 0 0 0 1", "0 0 0 0 0 0 0 0 3").play(9)
    assert emptied.holes[:9] == (0,) * 9
    assert emptied.outcome() is None
    saved = emptied.play(9)
    assert saved.outcome() is None
    assert saved.legal_moves() == [1, 2]


def test_82_reached_while_the_other_row_is_empty_leaves_the_stones_where_they_are() -> None:
    end = board("5 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 81).play(9)
    assert end.holes[9:] == (0,) * 9
    assert end.outcome() == Outcome(0, "majority", (83, 74))
    assert end.outcome(PLAYOUT) == Outcome(0, "atsyrau", (88, 74))


def test_the_opponents_tuzdyk_can_win_for_him_on_the_movers_turn() -> None:
    end = board("3 5 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 72, tuzdyks=(0, 3)).play(1)
    assert end.outcome() == Outcome(1, "majority", (72, 82))


def test_81_to_81_is_a_draw() -> None:
    assert board("0 0 0 0 0 0 0 0 0", "4 0 0 0 0 0 0 0 0", 81).outcome() == Outcome(None, "atsyrau", (81, 81))


def test_kazans_over_127_stones() -> None:
    after = board("5 0 0 0 0 0 0 0 1", "3 0 0 0 0 0 0 0 0", 145).play(9)
    assert after.kazans == (149, 8)
    assert after.outcome() == Outcome(0, "majority", (149, 8))
    assert after.outcome(PLAYOUT) == Outcome(0, "atsyrau", (154, 8))
    assert after.mirrored().outcome(PLAYOUT) == Outcome(1, "atsyrau", (8, 154))


def test_two_lone_stones_run_in_a_cycle_of_18_plies_up_to_the_ply_limit() -> None:
    start = board("0 0 0 0 0 0 0 0 1", "0 0 0 0 0 0 0 0 1", 80)
    round_trip = [hole for hole in (9, 1, 2, 3, 4, 5, 6, 7, 8) for _ in range(2)]
    position = play_all(start, round_trip)
    assert (position.row, position.ply) == (start.row, 18)
    limit = Ruleset(max_plies=90)
    for hole in round_trip * 4:
        assert position.outcome(limit) is None
        position = position.play(hole)
    assert position.outcome(limit) == Outcome(None, "ply limit", (80, 80))
    assert position.outcome() is None


def test_the_rules_go_before_the_ply_limit() -> None:
    end = board("5 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 81).play(9)
    assert end.outcome(Ruleset(max_plies=1)) == Outcome(0, "majority", (83, 74))


def test_mirrored_colours_give_mirrored_results() -> None:
    for position in random_positions(3000, seed=5):
        mirrored = position.mirrored()
        assert mirrored.mirrored() == position
        assert mirrored.legal_moves() == position.legal_moves()
        for hole in position.legal_moves():
            after, mirrored_after = position.play(hole), mirrored.play(hole)
            assert mirrored_after.row == after.mirrored().row
            outcome, mirrored_outcome = after.outcome(), mirrored_after.outcome()
            if outcome is None:
                assert mirrored_outcome is None
            else:
                assert mirrored_outcome is not None
                assert mirrored_outcome.score == outcome.score[::-1]
                assert mirrored_outcome.winner == (None if outcome.winner is None else 1 - outcome.winner)


# The kernels against each other and the reference.


@pytest.mark.parametrize("playout", [False, True])
def test_scalar_and_batch_kernels_agree_over_half_a_million_random_plies(playout: bool) -> None:
    rng = np.random.default_rng(1 + playout)
    states = batch.start_states(500)
    scalar = states.copy()
    for _ in range(1000):
        mask = batch.legal_mask_batch(states, playout)
        reasons = batch.end_reason_batch(states, playout)
        margins = batch.final_margin_batch(states, playout)
        over = reasons != rules.ONGOING
        assert np.array_equal(over, ~mask.any(1))
        for b in np.flatnonzero(over):
            assert rules.end_reason(scalar[b], playout) == reasons[b]
            assert rules.final_margin(scalar[b], reasons[b]) == margins[b]
        states[over] = scalar[over] = rules.start_state()
        mask[over] = True
        actions = (rng.random(mask.shape) * mask).argmax(1)
        batch.play_batch(states, actions)
        for b in range(len(scalar)):
            rules.play(scalar[b], actions[b])
        assert np.array_equal(states, scalar)
        assert (states[:, :20].sum(1, dtype=np.int64) == 162).all()


@pytest.mark.parametrize("playout", [False, True])
def test_kernels_agree_with_the_reference(playout: bool) -> None:
    rng = np.random.default_rng(3 + playout)
    state, reference = rules.start_state(), Board()
    games_played = 0
    for _ in range(50_000):
        legal = reference.legal()
        assert [a + 1 for a in range(9) if rules.is_legal(state, a)] == legal
        end = reference.end(playout)
        reason = rules.end_reason(state, playout)
        if end is not None:
            assert {rules.MAJORITY: "majority", rules.ATSYRAU: "atsyrau"}[reason] == end[0]
            assert rules.final_margin(state, reason) == end[1] - end[2]
            state, reference = rules.start_state(), Board()
            games_played += 1
            continue
        assert reason == rules.ONGOING
        hole = int(rng.choice(legal))
        foreseen = rules.preview(state, int(state[rules.TO_MOVE]) * 9 + hole - 1)
        side, number, event, captured = reference.play(hole)
        code = rules.play(state, hole - 1)
        landing = side * 9 + number - 1
        assert (code & rules.LANDING_MASK, EVENTS[code >> rules.LANDING_BITS]) == (landing, event)
        assert (foreseen[0], EVENTS[foreseen[1]], foreseen[2]) == (landing, event, captured)
        assert state.tolist() == reference.row()
    assert games_played > 100


def test_preview_agrees_with_the_reference_in_both_rows() -> None:
    for position in random_positions(3000, seed=6):
        for origin in np.flatnonzero(position.holes):
            row = list(position.row)
            row[rules.TO_MOVE] = int(origin) // 9
            side, number, event, captured = Board.of(row).play(int(origin) % 9 + 1)
            landing, code, count = rules.preview(position.state, origin)
            assert (landing, EVENTS[code], count) == (side * 9 + number - 1, event, captured)


@njit
def disagreements_of_preview(state: np.ndarray) -> int:
    wrong = 0
    for origin in range(18):
        if state[origin] != 0:
            trial = state.copy()
            trial[22] = origin // 9
            code = rules.play(trial, origin % 9)
            landing, event, captured = rules.preview(state, origin)
            wrong += code != landing | event << rules.LANDING_BITS
            wrong += (captured > 0) != (event != rules.NOTHING)
            wrong += captured > trial[18 + origin // 9] - state[18 + origin // 9]
    return wrong


@njit
def walk_with_previews(states: np.ndarray, streams: np.ndarray, plies: int) -> int:
    wrong = 0
    for b in range(states.shape[0]):
        for _ in range(plies):
            wrong += disagreements_of_preview(states[b])
            batch.random_play(states[b : b + 1], streams[b : b + 1], 1, True)
            wrong += states[b, :20].astype(np.int64).sum() != 162
    return wrong


def test_preview_agrees_with_play_over_a_million_random_plies() -> None:
    assert walk_with_previews(batch.start_states(100), new_streams(7, 100), 10_000) == 0


def test_random_play_gives_each_game_its_own_stream() -> None:
    together, alone = batch.start_states(4), batch.start_states(1)
    streams = new_streams(8, 4)
    batch.random_play(together, streams.copy(), 60, False)
    batch.random_play(alone, streams[2:3].copy(), 60, False)
    assert np.array_equal(together[2], alone[0])
