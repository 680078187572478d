"""Positions and games: values that cannot be wrong, and position strings that are read strictly and written back exactly."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from boards import board, random_positions
from hypothesis import given, settings
from hypothesis import strategies as st

import togyz_env
from togyz_env import Game, IllegalMoveError, NotationError, Outcome, Position, PositionError, Ruleset, TogyzError
from togyz_env.errors import ConfigError

START = "9S,9S,9S,9S,9S,9S,9S,9S,9S/9S,9S,9S,9S,9S,9S,9S,9S,9S 0 0 S 1"
ROW = "9S,9S,9S,9S,9S,9S,9S,9S,9S"
TUZDYKS = "3S,2S,1S,T,1S,2S,1,3S,20S/1S,1S,20S,1S,t,3S,1,1S,14S 47 42 N 1"


def test_start_position() -> None:
    start = Position.start()
    assert start.holes == (9,) * 18
    assert (start.kazans, start.tuzdyks, start.to_move, start.ply) == ((0, 0), (0, 0), 0, 0)
    assert start.legal_moves() == list(range(1, 10))
    assert start.outcome() is None
    assert start.fen() == START


def test_a_position_string_means_what_it_shows() -> None:
    position = Position.from_fen(TUZDYKS)
    assert position.holes == (1, 1, 20, 1, 0, 3, 0, 1, 14, 20, 3, 0, 2, 1, 0, 1, 2, 3)
    assert (position.kazans, position.tuzdyks, position.to_move, position.ply) == ((47, 42), (6, 5), 1, 1)


def test_position_strings_are_read_and_written_without_loss() -> None:
    for position in random_positions(3000, seed=1):
        assert Position.from_fen(position.fen()) == position


def test_ply_follows_from_move_number_and_side() -> None:
    assert [Position.from_fen(START[:-3] + end).ply for end in ("S 1", "N 1", "S 2", "N 7")] == [0, 1, 2, 13]
    assert Position.start().play(1).play(1).play(1).fen().endswith("N 2")


def test_either_case_of_tuzdyk_is_read_and_the_right_one_written() -> None:
    for text in (TUZDYKS.replace("T", "t"), TUZDYKS.replace("t", "T"), TUZDYKS.swapcase().replace("s", "S").replace("n", "N")):
        assert Position.from_fen(text).fen() == TUZDYKS


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        START + " ",
        " " + START,
        START + "\n",
        START.replace(" ", "  ", 1),
        START.replace(" ", "\t"),
        START + " 1",
        START[:-2],
        START.replace("/", ","),
        START.replace("/", "//"),
        START.replace(",", ";"),
        START.replace(",", "", 1),
        "," + START,
        START.replace("9S", "9s"),
        START.replace("9S", "09S", 1),
        START.replace("9S", "0S", 1),
        START.replace("9S", "+9S", 1),
        START.replace("9S", "-9S", 1),
        START.replace("9S", "9.0S", 1),
        START.replace("9S", "S", 1),
        START.replace("9S", "9X", 1),
        START.replace("9S", "0", 1),
        START.replace("9S", "10", 1),
        START.replace("9S", "\u0669S", 1),
        START.replace("9S", "\uff19S", 1),
        START.replace("9S", "\u00b9S", 1),
        START.replace("9S", "9999999S", 1),
        f"9/{ROW},9S 0 72 S 1",
        f"9/{ROW[3:]} 0 90 S 1",
        f"8/{ROW} 0 81 S 1",
        f"4,5/{ROW} 0 81 S 1",
        f"4,6S,5/{ROW} 0 75 S 1",
        f"{ROW}/{ROW} 0 S 1",
        f"{ROW}/{ROW} 00 0 S 1",
        f"{ROW}/{ROW} -1 1 S 1",
        f"{ROW}/{ROW} 0 \u0660 S 1",
        f"{ROW}/{ROW} 0 0 W 1",
        f"{ROW}/{ROW} 0 0 s 1",
        f"{ROW}/{ROW} 0 0 S 0",
        f"{ROW}/{ROW} 0 0 S 01",
        f"{ROW}/{ROW} 0 0 S 1.5",
        f"{ROW}/{ROW} 0 0 S one",
        f"{ROW}/{ROW} 0 0 S 99999999999999999999",
        "9" * 100_000,
    ],
)
def test_malformed_position_strings_are_refused(text: str) -> None:
    with pytest.raises(NotationError, match=r".+: .*'.*expected|.+ in '.*written as") as caught:
        Position.from_fen(text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [None, 5, b"9S", [START], np.zeros(23, np.uint8)])
def test_what_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(NotationError, match="no position string"):
        Position.from_fen(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{ROW}/{ROW} 1 0 S 1", "163 in '.*add up to 162"),
        (f"{ROW}/{ROW.replace('9S', '8S', 1)} 0 0 S 1", "161 in "),
        (f"{ROW}/{ROW} 200 0 S 1", "add up to 162"),
        (f"{ROW.replace('9S', '999S', 1)}/{ROW} 0 0 S 1", "add up to 162"),
        ("T,8S,7/9S,8 70 75 S 1", "tuzdyk of white: 9; expected a hole from 1 to 8"),
        ("9S,8/8S,7,t 70 75 S 1", "tuzdyk of black: 9; expected a hole from 1 to 8"),
        ("8S,7,T/t,8S,7 70 76 S 1", "both bear the number 1"),
        ("T,T,8S,6/9S,8 70 75 S 1", "two tuzdyks"),
        ("8S,8/t,7S,t,6 70 77 S 1", "two tuzdyks"),
    ],
)
def test_impossible_positions_are_refused(text: str, reason: str) -> None:
    with pytest.raises(PositionError, match=reason):
        Position.from_fen(text)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=150) | st.text(alphabet="9ST t,/0123NS", max_size=100))
def test_any_text_is_a_position_or_an_error_of_ours(text: str) -> None:
    try:
        position = Position.from_fen(text)
    except (NotationError, PositionError):
        return
    assert sum(position.state[:20]) == 162


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.integers(0, len(TUZDYKS) - 1), st.sampled_from("0123456789STtN,/ X\u0669"), st.booleans())
def test_what_a_mangled_string_still_says_is_written_back(at: int, character: str, insert: bool) -> None:
    text = TUZDYKS[:at] + character + TUZDYKS[at + (not insert) :]
    try:
        position = Position.from_fen(text)
    except (NotationError, PositionError):
        return
    assert position.fen().replace("t", "T") == text.replace("t", "T")


def state_with(changes: dict[int, int]) -> list[int]:
    state = Position.start().state.tolist()
    for index, value in changes.items():
        state[index] = value
    return state


@pytest.mark.parametrize(
    "state",
    [
        [9] * 18,
        [[9] * 23],
        state_with({0: 10}),
        state_with({0: -1, 1: 19}),
        state_with({0: 300}),
        state_with({22: 2}),
        state_with({20: 3}),
        state_with({21: 3}),
        state_with({9: 0, 18: 9, 20: 10}),
        [9.0] * 18 + [0.0] * 5,
        "9" * 23,
        None,
    ],
)
def test_impossible_states_are_refused(state: Any) -> None:
    with pytest.raises(PositionError):
        Position.from_state(state)


def test_states_go_out_and_in_as_copies() -> None:
    position = Position.from_fen(TUZDYKS)
    state = position.state
    assert (state.dtype, state.shape) == (np.uint8, (23,))
    assert Position.from_state(state, ply=1) == position
    assert Position.from_state(state) == position  # black moves at odd plies
    assert Position.from_state(state.tolist(), np.int32(7)).ply == 7  # type: ignore[arg-type]
    state[:] = 0
    assert position.fen() == TUZDYKS


def test_ply_must_fit_the_side_to_move() -> None:
    row = Position.start().row
    for ply in (1, -2, 0.0, True):
        with pytest.raises(PositionError, match="ply"):
            Position(row, ply)  # type: ignore[arg-type]


def test_positions_are_values() -> None:
    position = Position.start().play(7)
    same = Position.from_fen(position.fen())
    assert position == same
    assert hash(position) == hash(same)
    assert len({position, same, Position.start()}) == 2
    assert eval(repr(position)) == position
    assert pickle.loads(pickle.dumps(position)) == copy.deepcopy(position) == position
    with pytest.raises(dataclasses.FrozenInstanceError):
        position.ply = 4  # type: ignore[misc]
    before = Position.start()
    before.play(3)
    assert before == Position.start()


@pytest.mark.parametrize("hole", [0, 10, -1, 4, 10**30, "7", None, 1.0, [1]])
def test_an_illegal_move_shows_hole_position_and_legal_moves(hole: Any) -> None:
    position = board("9 9 9 0 9 9 9 9 9", "9 9 9 9 9 9 9 9 9", 9)
    for call in (position.play, position.sowing):
        with pytest.raises(IllegalMoveError) as caught:
            call(hole)
        for part in (repr(hole), position.fen(), "[1, 2, 3, 5, 6, 7, 8, 9]"):
            assert part in str(caught.value)


def test_a_numpy_integer_is_a_hole() -> None:
    assert Position.start().play(np.int64(7)) == Position.start().play(7)  # type: ignore[arg-type]


def test_legal_moves_do_not_depend_on_the_ruleset() -> None:
    won = board("0 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 90)
    assert won.outcome() is not None
    assert won.legal_moves() == [9]
    assert board("0 0 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0").legal_moves() == []


def test_the_diagram_is_the_board_as_people_print_it() -> None:
    assert str(Position.from_fen(TUZDYKS)).splitlines() == [
        "          9    8    7    6    5    4    3    2    1",
        "       +----+----+----+----+----+----+----+----+----+",
        " black |  3 |  2 |  1 |  X |  1 |  2 |  . |  3 | 20 |  kazan 42",
        "       +----+----+----+----+----+----+----+----+----+",
        " white |  1 |  1 | 20 |  1 |  X |  3 |  . |  1 | 14 |  kazan 47",
        "       +----+----+----+----+----+----+----+----+----+",
        "          1    2    3    4    5    6    7    8    9",
        " black to move",
    ]


@pytest.mark.parametrize("arguments", [{"end": "82"}, {"end": None}, {"max_plies": 0}, {"max_plies": 1.5}, {"max_plies": True}])
def test_an_impossible_ruleset_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"expected") as caught:
        Ruleset(**arguments)
    assert repr(next(iter(arguments.values()))) in str(caught.value)


def test_an_impossible_perft_depth_is_refused() -> None:
    for depth in (-1, 1.5, True):
        with pytest.raises(ConfigError, match="depth"):
            togyz_env.perft(Position.start(), depth)  # type: ignore[arg-type]


def test_a_game_keeps_moves_and_positions_and_takes_back() -> None:
    game = Game()
    game.play(7)
    game.play(9)
    assert game.moves == [7, 9]
    assert [position.ply for position in game.positions] == [0, 1, 2]
    assert game.position == Position.start().play(7).play(9)
    assert game.undo() == 9
    assert (game.moves, game.position) == ([7], Position.start().play(7))
    game.moves.append(1)
    assert game.moves == [7]
    assert game.undo() == 7
    with pytest.raises(IllegalMoveError, match="no move to take back"):
        game.undo()


def test_an_illegal_move_leaves_a_game_as_it_is() -> None:
    game = Game()
    with pytest.raises(IllegalMoveError):
        game.play(0)
    assert (game.moves, game.positions) == ([], [Position.start()])


def test_a_finished_game_is_not_played_on_unless_the_ruleset_says_so() -> None:
    won = board("0 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 90)
    with pytest.raises(IllegalMoveError, match="game is over \\(majority\\)"):
        Game(won).play(9)
    game = Game(won, Ruleset(end="playout"))
    assert game.outcome is None
    game.play(9)
    assert game.outcome == Outcome(0, "atsyrau", (92, 70))


def test_a_game_ends_at_its_ply_limit() -> None:
    game = Game(ruleset=Ruleset(max_plies=3))
    for hole in (1, 1, 2):
        assert game.outcome is None
        game.play(hole)
    assert game.outcome == Outcome(None, "ply limit", game.position.kazans)
    with pytest.raises(TogyzError, match="ply limit"):
        game.play(1)
    game.undo()
    assert game.outcome is None


def test_the_package_names_its_version_as_its_distribution_does() -> None:
    from importlib.metadata import version

    assert togyz_env.__version__ == version("togyz")


def test_importing_the_package_does_not_load_torch_or_pillow() -> None:
    import subprocess
    import sys

    code = "import sys, togyz_env, togyz_env.env; print([m for m in ('torch', 'PIL', 'togyz_agents') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
