"""Texts for positions and moves: the position string, and the four ways in which a move is written.

A position string is ``north/south kazan_white kazan_black S|N movenumber``, rows as printed from left to right: north is black
9..1, south is white 1..9. A cell is ``12S`` (twelve stones), a bare digit (a run of so many empty holes), or ``T`` in the north
row and ``t`` in the south row (a tuzdyk, which belongs to the other player). ``S`` means that white moves, ``N`` black.

A move is written as a hole (``7``), from-to (``76``, ``43X``, ``87(10)``), a letter (white ``g``, black ``G``) or coordinates
(``g1d2``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from togyz_env.errors import ConfigError, IllegalMoveError, NotationError, PositionError
from togyz_env.rules import BLACK, HOLES, KAZAN, RING, STONES, TO_MOVE, TUZDYK, WHITE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from togyz_env.position import Position

MoveStyle = Literal["fromto", "coordinates", "letter", "hole"]
MOVE_STYLES: tuple[MoveStyle, ...] = ("fromto", "coordinates", "letter", "hole")
PLAYER_NAMES = ("white", "black")

_FILES = "abcdefghi"
_LONGEST_POSITION = 120
_LONGEST_MOVE = 16
_LONGEST_SHOWN = 80
_EMPTY = "-"
_CELLS = (_EMPTY, *(f"{stones}S" for stones in range(1, STONES + 1)))
"""Text of a hole by its count, before runs of empty holes are joined."""
_RUNS = [(",".join(_EMPTY * length), str(length)) for length in range(HOLES, 0, -1)]

# Only ASCII digits: `\d` and str.isdigit would let in those of other scripts.
_STONES = re.compile(r"([1-9][0-9]{0,2})S")
_KAZAN = re.compile(r"0|[1-9][0-9]{0,2}")
_MOVE_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_HOLE = re.compile(r"[1-9]")
_LETTER = re.compile(r"[a-iA-I]")
_COORDINATES = re.compile(r"([a-i])([12])([a-i])([12])")
# Latin x or its Cyrillic twin, in either case.
_FROM_TO = re.compile("([1-9])([1-9])([xX\u0445\u0425]?)(?: ?\\(([0-9]{1,3})\\))?")


def shown(value: object) -> str:
    """Return ``repr(value)`` cut to a length that fits into an error message."""
    text = repr(value[:_LONGEST_SHOWN]) if isinstance(value, str) else repr(value)
    cut = len(text) > _LONGEST_SHOWN + 2 or (isinstance(value, str) and len(value) > _LONGEST_SHOWN)
    return text[:_LONGEST_SHOWN] + "..." if cut else text


def parse_position(text: str) -> tuple[list[int], int]:
    """Read a position string.

    Returns:
        ``(row, ply)``: the 23 numbers of a state row, not yet checked against the rules, and the half-moves since the start.

    Raises:
        NotationError: the text is no position string.
        PositionError: two tuzdyks stand in one row, or a row does not hold nine holes.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_POSITION:
        raise NotationError(f"position: {shown(text)} is no position string; expected 'north/south kazan kazan S|N movenumber'")
    fields = text.split(" ")
    if len(fields) != 5:
        raise NotationError(f"position: {text!r} has {len(fields)} parts; expected five, 'north/south kazan kazan S|N movenumber'")
    rows = fields[0].split("/")
    if len(rows) != 2:
        raise NotationError(f"rows: {fields[0]!r} in {text!r}; expected two rows parted by '/'")
    north, white_tuzdyk = _parse_row(rows[0], "north", text)
    south, black_tuzdyk = _parse_row(rows[1], "south", text)
    kazans = []
    for player, field in zip(PLAYER_NAMES, fields[1:3]):
        if not _KAZAN.fullmatch(field):
            raise NotationError(f"kazan of {player}: {field!r} in {text!r}; expected a number from 0 to {STONES}")
        kazans.append(int(field))
    if fields[3] not in ("S", "N"):
        raise NotationError(f"side to move: {fields[3]!r} in {text!r}; expected 'S' (white) or 'N' (black)")
    if not _MOVE_NUMBER.fullmatch(fields[4]):
        raise NotationError(f"move number: {fields[4]!r} in {text!r}; expected a number from 1")
    to_move = BLACK if fields[3] == "N" else WHITE
    # North is printed from black's 9 to his 1.
    black_number = 0 if white_tuzdyk < 0 else HOLES - white_tuzdyk
    row = [*south, *reversed(north), *kazans, black_number, black_tuzdyk + 1, to_move]
    return row, 2 * (int(fields[4]) - 1) + to_move


def _parse_row(row: str, side: str, text: str) -> tuple[list[int], int]:
    """Return the nine counts of one printed row and the index of its tuzdyk in it, -1 for none."""
    stones: list[int] = []
    tuzdyk = -1
    after_run = False
    for cell in row.split(","):
        counted = _STONES.fullmatch(cell)
        is_run = bool(_HOLE.fullmatch(cell))
        if counted:
            stones.append(int(counted[1]))
        elif is_run:
            if after_run:
                raise NotationError(f"{side} row: {row!r} in {text!r}; runs of empty holes side by side are written as one digit")
            stones.extend([0] * int(cell))
        elif cell in ("T", "t"):
            if tuzdyk >= 0:
                raise PositionError(f"{side} row: two tuzdyks {row!r} in {text!r}; a player has one at most")
            tuzdyk = len(stones)
            stones.append(0)
        else:
            raise NotationError(
                f"{side} row: cell {cell!r} in {text!r}; expected stones '12S', empty holes '1'..'9' or a tuzdyk 'T'"
            )
        after_run = is_run
    if len(stones) != HOLES:
        raise NotationError(f"{side} row: {len(stones)} holes {row!r} in {text!r}; expected {HOLES}")
    return stones, tuzdyk


def format_position(row: Sequence[int], ply: int) -> str:
    """Write a state row (23 numbers) and the half-moves since the start as a position string."""
    north = _format_row(row[RING - 1 : HOLES - 1 : -1], HOLES - row[TUZDYK], "T")
    south = _format_row(row[:HOLES], row[TUZDYK + 1] - 1, "t")
    return f"{north}/{south} {row[KAZAN]} {row[KAZAN + 1]} {'SN'[row[TO_MOVE]]} {ply // 2 + 1}"


def _format_row(stones: Sequence[int], tuzdyk: int, letter: str) -> str:
    """Write nine counts; ``tuzdyk`` is an index into them, or outside 0..8 for none."""
    cells = [_CELLS[count] for count in stones]
    if 0 <= tuzdyk < HOLES:
        cells[tuzdyk] = letter
    row = ",".join(cells)
    for run, digit in _RUNS[HOLES - cells.count(_EMPTY) :]:  # a run is no longer than the empty holes are many
        row = row.replace(run, digit)
    return row


def parse_move(position: Position, text: str) -> int:
    """Read a move in any of the four notations and check all that is written against the rules.

    A landing hole, a tuzdyk mark or a score that is left out is not missed; one that is written must be right.

    Returns:
        The hole number 1..9, in the row of the side to move.

    Raises:
        NotationError: the text is no move.
        IllegalMoveError: the hole is empty or not the mover's, or the rules give something else than what is written.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_MOVE:
        raise NotationError(f"move: {shown(text)} in {position.fen()!r}; expected '7', '76', '43X', '87(10)', 'g' or 'g1d2'")
    if _HOLE.fullmatch(text):
        return _legal(position, int(text), text)
    if _LETTER.fullmatch(text):
        _check_side(position, BLACK if text.isupper() else WHITE, text)
        return _legal(position, _FILES.index(text.lower()) + 1, text)
    if match := _COORDINATES.fullmatch(text):
        side, hole = _square(match[1], match[2])
        _check_side(position, side, text)
        hole = _legal(position, hole, text)
        sowing = position.sowing(hole)
        if _square(match[3], match[4]) != (sowing.landing_side, sowing.landing_hole):
            raise _mismatch(position, text, format_move(position, hole, "coordinates"))
        return hole
    if match := _FROM_TO.fullmatch(text):
        hole = _legal(position, int(match[1]), text)
        sowing = position.sowing(hole)
        right_score = match[4] is None or int(match[4]) == sowing.kazan
        if int(match[2]) != sowing.landing_hole or (match[3] and not sowing.tuzdyk) or not right_score:
            raise _mismatch(position, text, format_move(position, hole))
        return hole
    raise NotationError(f"move: {text!r} in {position.fen()!r}; expected '7', '76', '43X', '87(10)', 'g' or 'g1d2'")


def format_move(position: Position, hole: int, style: MoveStyle = "fromto", *, scores: bool = True) -> str:
    """Write a legal move of the side to move.

    Args:
        position: the position before the move.
        hole: the hole played, 1..9.
        style: "fromto" ``76``, "coordinates" ``g1d2``, "letter" ``g`` or "hole" ``7``.
        scores: with "fromto", put the mover's kazan in brackets after a move that adds to it and makes no tuzdyk, as sites do.

    Raises:
        IllegalMoveError: the hole is empty or no hole.
        ConfigError: an unknown style.
    """
    sowing = position.sowing(hole)
    side = position.to_move
    if style == "fromto":
        mark = "X" if sowing.tuzdyk else f"({sowing.kazan})" if scores and sowing.gained else ""
        return f"{hole}{sowing.landing_hole}{mark}"
    if style == "coordinates":
        return _coordinates(side, hole) + _coordinates(sowing.landing_side, sowing.landing_hole)
    if style == "letter":
        return _FILES[hole - 1].upper() if side == BLACK else _FILES[hole - 1]
    if style == "hole":
        return str(hole)
    raise ConfigError(f"move style: {shown(style)}; expected one of {', '.join(MOVE_STYLES)}")


def _coordinates(side: int, hole: int) -> str:
    """Files run from white's left, so black's hole 1 is ``i2``."""
    return f"{_FILES[hole - 1]}1" if side == WHITE else f"{_FILES[HOLES - hole]}2"


def _square(file: str, row: str) -> tuple[int, int]:
    """``(side, hole number)`` of a square."""
    index = _FILES.index(file)
    return (WHITE, index + 1) if row == "1" else (BLACK, HOLES - index)


def _check_side(position: Position, side: int, text: str) -> None:
    if side != position.to_move:
        raise IllegalMoveError(
            f"move: {text!r} in {position.fen()!r} names a hole of {PLAYER_NAMES[side]}, but {PLAYER_NAMES[1 - side]} is to move"
        )


def _legal(position: Position, hole: int, text: str) -> int:
    if hole not in position.legal_moves():
        raise IllegalMoveError(f"move: {text!r} in {position.fen()!r}: hole {hole} is empty; legal moves: {position.legal_moves()}")
    return hole


def _mismatch(position: Position, text: str, right: str) -> IllegalMoveError:
    return IllegalMoveError(f"move: {text!r} in {position.fen()!r}: the rules give {right!r}")
