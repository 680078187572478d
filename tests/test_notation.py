"""Moves as text: what is written is read back; what contradicts the rules or the notation is refused with the reason."""

from __future__ import annotations

import re

import pytest
from boards import DATA, board, games, random_positions
from hypothesis import given, settings
from hypothesis import strategies as st

from togyz_env import IllegalMoveError, NotationError, Outcome, Position
from togyz_env.errors import ConfigError
from togyz_env.notation import MOVE_STYLES, format_move, parse_move

START = Position.start()
# White's 4 with 9 stones ends in black's 3 and makes a tuzdyk there; white's 9 captures two in black's 1.
TUZDYK_AT_3 = board("0 0 0 9 0 0 0 0 1", "1 0 2 0 0 0 0 0 0", 60)


def sections() -> dict[str, str]:
    """Return the text of each numbered part of the records, and the final position under "final"."""
    parts = re.split(r"^# ", (DATA / "records.txt").read_text(), flags=re.MULTILINE)
    return {part.split()[0]: part.partition("\n")[2].strip() for part in parts if part[0] in "1234f"}


def move_texts(record: str) -> list[str]:
    """Return the moves of a record: no headers, move numbers or results."""
    record = re.sub(r"^\[.*\]$", "", record, flags=re.MULTILINE)
    return re.sub(r"\b\d+\. ?|\b\d-\d$", "", record).split()


@pytest.mark.parametrize("section", ["1", "2", "3", "4"])
def test_a_record_in_each_notation_leads_to_its_final_position(section: str) -> None:
    position = START
    for text in move_texts(sections()[section]):
        assert position.outcome() is None
        hole = parse_move(position, text)
        if section == "1":
            assert format_move(position, hole) == text
        elif section == "4":
            assert format_move(position, hole, "coordinates") == text
        else:
            assert format_move(position, hole, scores=False) == text.replace("\u0445", "X")
        position = position.play(hole)
    assert position.fen() == sections()["final"]
    assert position.outcome() == Outcome(1, "majority", (75, 82))


@pytest.mark.parametrize("style", MOVE_STYLES)
def test_every_move_is_read_back_in_every_style(style: str) -> None:
    for position in random_positions(1500, seed=2):
        for hole in position.legal_moves():
            text = format_move(position, hole, style)  # type: ignore[arg-type]
            assert parse_move(position, text) == hole


def test_from_to_moves_of_recorded_games_name_hole_and_landing() -> None:
    for game in games()[:20]:
        position = START
        for hole, _ in game["plies"]:
            text = format_move(position, hole)
            assert parse_move(position, text) == hole
            assert text[:2] == f"{hole}{position.sowing(hole).landing_hole}"
            position = position.play(hole)


@pytest.mark.parametrize(
    ("position", "text", "hole"),
    [
        (START, "7", 7),
        (START, "76", 7),
        (START, "76(10)", 7),
        (START, "76 (10)", 7),
        (START, "g", 7),
        (START, "g1d2", 7),
        (START.play(7), "G", 7),
        (START.play(7), "a2h1", 9),
        (TUZDYK_AT_3, "43", 4),
        (TUZDYK_AT_3, "43X", 4),
        (TUZDYK_AT_3, "43x", 4),
        (TUZDYK_AT_3, "43\u0445", 4),
        (TUZDYK_AT_3, "43\u0425", 4),
        (TUZDYK_AT_3, "43X(63)", 4),
        (TUZDYK_AT_3, "91 (62)", 9),
    ],
)
def test_all_usual_ways_to_write_a_move_are_read(position: Position, text: str, hole: int) -> None:
    assert parse_move(position, text) == hole


def test_the_notations_of_one_move() -> None:
    assert [format_move(START, 7, style) for style in MOVE_STYLES] == ["76(10)", "g1d2", "g", "7"]
    assert format_move(START, 7, scores=False) == "76"
    assert format_move(TUZDYK_AT_3, 4) == "43X"
    # Ten stones from black's F end in white's f.
    black = board("1 1 1 1 1 1 1 1 1", "0 0 0 0 0 10 0 0 0", to_move=1)
    assert [format_move(black, 6, style) for style in ("letter", "coordinates")] == ["F", "d2f1"]  # type: ignore[arg-type]


def test_the_score_is_written_after_stones_that_fell_into_the_own_tuzdyk() -> None:
    position = board("0 0 0 0 0 0 0 0 5", "1 1 1 0 1 0 0 0 0", 70, tuzdyks=(4, 0))
    assert format_move(position, 9) == "94(71)"


MALFORMED = ["", " ", "0", "10", "77777", "a1", "7 6", "76 ", " 76", "76X(", "76()", "76(1000)", "76(-1)", "76  (10)", "76(10)X"]
MALFORMED += ["70", "7-6", "g1", "g3d2", "j1d2", "G1D2", "g1d2X", "gg", "j", "J", "pass", "7" * 10_000]
MALFORMED += ["\u0667", "\uff17", "\u06676", "76(\u0661\u0660)", "\u0430"]  # digits and a letter of other scripts


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_moves_are_refused(text: str) -> None:
    with pytest.raises(NotationError, match=r"^move: .* in '.*'; expected '7'") as caught:
        parse_move(START, text)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("value", [None, 7, b"76", ["7"]])
def test_what_is_no_text_is_no_move(value: object) -> None:
    with pytest.raises(NotationError, match=r"^move: "):
        parse_move(START, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("position", "text", "reason"),
    [
        (START, "75", "'75' in .*the rules give '76\\(10\\)'"),
        (START, "76X", "'76X' in .*the rules give '76\\(10\\)'"),
        (START, "76(12)", "'76\\(12\\)' in .*the rules give '76\\(10\\)'"),
        (START, "19(1)", "the rules give '19'"),
        (START, "g1c2", "the rules give 'g1d2'"),
        (START, "g1d1", "the rules give 'g1d2'"),
        (START, "g2d1", "names a hole of black, but white is to move"),
        (START, "G", "names a hole of black, but white is to move"),
        (START.play(7), "g", "names a hole of white, but black is to move"),
        (START.play(7), "6", "hole 6 is empty; legal moves: \\[1, 2, 3, 4, 5, 7, 8, 9\\]"),
        (START.play(7), "61", "hole 6 is empty"),
        (START.play(7), "F", "hole 6 is empty"),
        (START.play(7), "d2c2", "hole 6 is empty"),
        (TUZDYK_AT_3, "43(62)", "the rules give '43X'"),
    ],
)
def test_what_contradicts_the_rules_is_refused_with_what_they_give(position: Position, text: str, reason: str) -> None:
    with pytest.raises(IllegalMoveError, match=reason) as caught:
        parse_move(position, text)
    assert position.fen() in str(caught.value)


def test_illegal_holes_and_unknown_styles_are_not_written() -> None:
    with pytest.raises(IllegalMoveError):
        format_move(START.play(7), 6)
    with pytest.raises(ConfigError, match="'uci'; expected one of fromto"):
        format_move(START, 7, "uci")  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(max_size=20) | st.text(alphabet="1234567890 xX()abgiABGI12", max_size=9))
def test_any_text_is_a_legal_move_or_an_error_of_ours(text: str) -> None:
    try:
        hole = parse_move(START, text)
    except (NotationError, IllegalMoveError):
        return
    assert hole in START.legal_moves()
