"""The board as text, as SVG and as pixels. Both pictures are made from one list of shapes.

Black's row is on top, from 9 to 1, white's below, from 1 to 9; the kazans lie between them. A tuzdyk is a crossed hole in its
owner's colour. Squares are named ``(side, hole)``: side 0 white or 1 black, hole 1..9.

A ``Trail`` makes a sowing visible: the hole played, the stones that each hole got, where the last one fell, what was captured and
for whom, and what each kazan gained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np

from togyz_env.rules import BLACK, HOLES, RING, WHITE

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

    from togyz_env.position import Position

Square = tuple[int, int]

WIDTH = 720
HEIGHT = 484

_NAMES = ("white", "black")
_HOLE_WIDTH, _HOLE_HEIGHT, _GAP, _MARGIN = 64, 132, 8, 40
_ROW_TOP = (312, 40)
_KAZAN_TOP, _KAZAN_HEIGHT = (246, 186), 52
_NUMBER_AT = (460, 24)

_TABLE, _BOARD, _HOLE, _RIM = "#efe4d0", "#8a5a30", "#4a2a15", "#6b4122"
_STONE, _STONE_RIM, _LIGHT, _DARK = "#ecdcb8", "#94703f", "#fbf3e0", "#2a1810"
_ORIGIN, _MARK = "#f6dcae", "#f2a93b"
_OWNER = ("#f5ecd7", "#1d130d")
_ON_OWNER = (_DARK, _LIGHT)


@dataclass(frozen=True)
class Rect:
    """A rectangle with round corners: left top corner, size, colours, and the board square that it stands for."""

    x: float
    y: float
    width: float
    height: float
    radius: float
    fill: str
    stroke: str = ""
    stroke_width: float = 0.0
    square: str = ""


@dataclass(frozen=True)
class Circle:
    """A disc: centre, radius, colours."""

    x: float
    y: float
    radius: float
    fill: str
    stroke: str = ""
    stroke_width: float = 0.0


@dataclass(frozen=True)
class Line:
    """A straight line with its colour and width."""

    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str
    stroke_width: float


@dataclass(frozen=True)
class Label:
    """A text centred on a point, with its height in pixels."""

    x: float
    y: float
    text: str
    size: float
    fill: str


Shape = Rect | Circle | Line | Label


@dataclass(frozen=True)
class Trail:
    """One sowing, to be shown on the board that it led to; ``Trail.of`` makes it.

    Attributes:
        played: square whose stones were sown.
        landing: square where the last stone fell.
        sown: stones that each of the 18 holes got (white's 1..9, then black's 1..9).
        captured: stones that the mover took from ``landing``.
        tuzdyk: whether ``landing`` became the mover's tuzdyk.
        gained: stones that the kazans of (white, black) got, from captures and tuzdyks.
    """

    played: Square
    landing: Square
    sown: tuple[int, ...]
    captured: int
    tuzdyk: bool
    gained: tuple[int, int]

    @classmethod
    def of(cls, before: Position, hole: int) -> Trail:
        """Follow the sowing of ``hole`` (1..9) by the side to move in ``before``.

        Raises:
            IllegalMoveError: the hole is empty or no hole.
        """
        sowing = before.sowing(hole)
        after = before.play(hole)
        side = before.to_move
        origin = side * HOLES + hole - 1
        stones = before.holes[origin]
        sown = [0] * RING
        for i in range(stones):  # a single stone leaves its hole, of several the first goes back into it (RULES, Move 2)
            sown[(origin + i + (stones == 1)) % RING] += 1
        return cls(
            played=(side, hole),
            landing=(sowing.landing_side, sowing.landing_hole),
            sown=tuple(sown),
            captured=sowing.captured,
            tuzdyk=sowing.tuzdyk,
            gained=(after.kazans[0] - before.kazans[0], after.kazans[1] - before.kazans[1]),
        )

    def __str__(self) -> str:
        """Tell the sowing in a line."""
        (side, hole), (row, number) = self.played, self.landing
        line = f"{_NAMES[side]} played {hole}: the last stone fell into {_NAMES[row]}'s {number}"
        if self.tuzdyk:
            line += f", {_NAMES[side]} made it his tuzdyk"
        elif self.captured:
            line += f", {_NAMES[side]} captured {self.captured}"
        gains = [f"{_NAMES[player]} +{stones}" for player, stones in enumerate(self.gained) if stones]
        return line + (f" (kazans: {', '.join(gains)})" if gains else "")


def text(position: Position, trail: Trail | None = None, *, owners: bool = False) -> str:
    """Draw the board with letters: stones in each hole, ``X`` for a tuzdyk, ``.`` for an empty hole, the kazans on the right.

    Args:
        position: the position.
        trail: the sowing that led to it: ``<`` marks the hole played, ``+`` those that got stones, ``*`` where the last one fell;
            a line tells what was captured.
        owners: write whose each tuzdyk is, ``Xw`` for white's and ``Xb`` for black's.
    """
    border = " " * 7 + "+" + "----+" * HOLES
    lines = []
    for side in (BLACK, WHITE):
        numbers = _printed_order(side)
        cells = "".join(_cell(position, side, hole, owners) + _mark(trail, side, hole) + "|" for hole in numbers)
        heading = " " * 8 + "".join(f"{hole:>3}  " for hole in numbers).rstrip()
        row = f" {_NAMES[side]} |{cells}  kazan {position.kazans[side]}"
        lines += [heading, border, row] if side == BLACK else [border, row, border, heading]
    if trail is not None:
        lines.append(f" {trail}")
    lines.append(f" {_NAMES[position.to_move]} to move")
    return "\n".join(lines)


def svg(position: Position, last_move: Square | Trail | None = None, landing: Square | None = None) -> str:
    """Draw the board as an SVG document of 720 x 484 units.

    Args:
        position: the position.
        last_move: the sowing that led to it, or only the square to mark as the one just played.
        landing: square to mark as the one where the last stone fell; a trail knows it.

    Each hole carries ``data-square="w1"`` .. ``"b9"``, for pages that listen to clicks.
    """
    body = "\n".join(_svg_element(shape) for shape in drawing(position, last_move, landing))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="Helvetica, Arial, sans-serif" text-anchor="middle">\n{body}\n</svg>\n'
    )


def rgb_array(
    position: Position, last_move: Square | Trail | None = None, landing: Square | None = None, *, width: int = WIDTH
) -> np.ndarray:
    """Draw the board as pixels, ``uint8[height, width, 3]``; see ``svg`` for the arguments."""
    from PIL import Image, ImageDraw  # only pictures need it

    height = round(width * HEIGHT / WIDTH)
    scale = 2 * width / WIDTH  # drawn twice as large, then reduced: smooth edges
    image = Image.new("RGB", (2 * width, 2 * height), _TABLE)
    canvas = ImageDraw.Draw(image)
    for shape in drawing(position, last_move, landing):
        match shape:
            case Rect(x, y, w, h, radius, fill, stroke, stroke_width):
                box = (scale * x, scale * y, scale * (x + w), scale * (y + h))
                canvas.rounded_rectangle(box, scale * radius, fill, stroke or None, round(scale * stroke_width))
            case Circle(x, y, radius, fill, stroke, stroke_width):
                box = (scale * (x - radius), scale * (y - radius), scale * (x + radius), scale * (y + radius))
                canvas.ellipse(box, fill, stroke or None, round(scale * stroke_width))
            case Line(x1, y1, x2, y2, stroke, stroke_width):
                canvas.line((scale * x1, scale * y1, scale * x2, scale * y2), stroke, round(scale * stroke_width))
            case Label(x, y, label, size, fill):
                canvas.text((scale * x, scale * y), label, fill, _font(scale * size), anchor="mm")
    return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))


@cache
def _font(size: float) -> FreeTypeFont | ImageFont:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def drawing(position: Position, last_move: Square | Trail | None = None, landing: Square | None = None) -> Iterator[Shape]:
    """Yield the shapes of a board, back to front, on a canvas of 720 x 484; see ``svg`` for the arguments."""
    trail = last_move if isinstance(last_move, Trail) else None
    played = last_move.played if isinstance(last_move, Trail) else last_move
    landing = landing if trail is None else trail.landing
    yield Rect(0, 0, WIDTH, HEIGHT, 0, _TABLE)
    yield Rect(14, 8, WIDTH - 28, HEIGHT - 16, 18, _BOARD, _RIM, 3)
    for side in (BLACK, WHITE):
        for hole in range(1, HOLES + 1):
            square = (side, hole)
            yield from _hole(position, square, square == played, square == landing)
            if trail is not None:
                yield from _trail(trail, square)
        yield from _kazan(position, side, 0 if trail is None else trail.gained[side])


def _hole(position: Position, square: Square, played: bool, landed: bool) -> Iterator[Shape]:
    side, hole = square
    left, top = _corner(square)
    middle = left + _HOLE_WIDTH / 2
    owner = 1 - side if position.tuzdyks[1 - side] == hole else None
    fill = _HOLE if owner is None else _OWNER[owner]
    stroke, stroke_width = (_MARK, 4.0) if landed else (_ORIGIN, 4.0) if played else (_RIM, 2.0)
    yield Rect(left, top, _HOLE_WIDTH, _HOLE_HEIGHT, 20, fill, stroke, stroke_width, f"{_NAMES[side][0]}{hole}")
    yield Label(middle, _NUMBER_AT[side], str(hole), 15, _LIGHT)
    if landed:
        yield Circle(middle + 20, _NUMBER_AT[side], 5, _MARK)
    if owner is not None:
        ink = _ON_OWNER[owner]
        yield Line(middle - 15, top + 35, middle + 15, top + 65, ink, 5)
        yield Line(middle - 15, top + 65, middle + 15, top + 35, ink, 5)
        yield Label(middle, top + 88, f"{_NAMES[owner]}'s", 13, ink)
        yield Label(middle, top + 104, "tuzdyk", 13, ink)
        return
    stones = position.holes[side * HOLES + hole - 1]
    # The count stands at the outer edge, the stones fill the hole from the middle of the board.
    yield Label(middle, top + (17 if side == BLACK else _HOLE_HEIGHT - 17), str(stones), 18, _LIGHT if stones else _RIM)
    columns, across, down, radius = (3, 17.0, 17.0, 7.0) if stones <= 18 else (4, 12.5, 10.4, 4.8)
    drawn = min(stones, columns * 9)
    for i in range(drawn):
        in_row = min(columns, drawn - i // columns * columns)
        x = middle + (i % columns - (in_row - 1) / 2) * across
        depth = i // columns * down
        y = top + _HOLE_HEIGHT - 15 - depth if side == BLACK else top + 15 + depth
        yield Circle(x, y, radius, _STONE, _STONE_RIM, 1)


def _trail(trail: Trail, square: Square) -> Iterator[Shape]:
    """What the sowing did to one hole: the stones that it got, and what was captured there, in the mover's colour."""
    side, hole = square
    left, top = _corner(square)
    middle = left + _HOLE_WIDTH / 2
    got = trail.sown[side * HOLES + hole - 1]
    if got:
        yield Label(middle - 20, _NUMBER_AT[side], f"+{got}", 13, _MARK)
    if square == trail.played:
        yield Label(middle + 22, _NUMBER_AT[side], "from", 12, _ORIGIN)
    if square == trail.landing and trail.captured:
        mover = trail.played[0]
        at = top + (18 if trail.tuzdyk else _HOLE_HEIGHT / 2)  # above the tuzdyk's cross, or in the empty hole
        yield Rect(middle - 27, at - 16, 54, 32, 10, _OWNER[mover], _MARK, 2)
        yield Label(middle, at - 6, f"{trail.captured} taken", 11, _ON_OWNER[mover])
        yield Label(middle, at + 7, f"by {_NAMES[mover]}", 11, _ON_OWNER[mover])


def _corner(square: Square) -> tuple[float, float]:
    """Left top corner of a hole."""
    side, hole = square
    return _MARGIN + _printed_order(side).index(hole) * (_HOLE_WIDTH + _GAP), _ROW_TOP[side]


def _kazan(position: Position, side: int, gained: int) -> Iterator[Shape]:
    left, top, width = _MARGIN, _KAZAN_TOP[side], WIDTH - 2 * _MARGIN
    middle = top + _KAZAN_HEIGHT / 2
    moves = position.to_move == side
    yield Rect(left, top, width, _KAZAN_HEIGHT, 16, _HOLE, _LIGHT if moves else _RIM, 2)
    yield Circle(left + 24, middle, 10, _OWNER[side], _STONE_RIM, 1.5)
    yield Label(left + 64, middle if not moves else middle - 8, _NAMES[side], 16, _LIGHT)
    if moves:
        yield Label(left + 64, middle + 11, "to move", 12, _MARK)
    yield Label(left + width - 34, middle - (8 if gained else 0), str(position.kazans[side]), 26, _LIGHT)
    if gained:
        yield Label(left + width - 34, middle + 16, f"+{gained}", 13, _MARK)
    for i in range(position.kazans[side]):
        column, row = divmod(i, 3)
        yield Circle(left + 116 + column * 8.6, middle + (row - 1) * 12, 4, _STONE, _STONE_RIM, 0.5)


def _printed_order(side: int) -> range:
    """Hole numbers of a row from left to right: black 9..1, white 1..9 (RULES, Board)."""
    return range(HOLES, 0, -1) if side == BLACK else range(1, HOLES + 1)


def _cell(position: Position, side: int, hole: int, owners: bool) -> str:
    if position.tuzdyks[1 - side] == hole:
        return f" X{_NAMES[1 - side][0]}" if owners else "  X"
    return f"{position.holes[side * HOLES + hole - 1] or '.':>3}"


def _mark(trail: Trail | None, side: int, hole: int) -> str:
    if trail is None:
        return " "
    if (side, hole) == trail.landing:
        return "*"
    if (side, hole) == trail.played:
        return "<"
    return "+" if trail.sown[side * HOLES + hole - 1] else " "


def _svg_element(shape: Shape) -> str:
    match shape:
        case Rect(x, y, width, height, radius, fill, stroke, stroke_width, square):
            name = f' data-square="{square}"' if square else ""
            box = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"'
            return f'<rect {box} fill="{fill}"{_svg_stroke(stroke, stroke_width)}{name}/>'
        case Circle(x, y, radius, fill, stroke, stroke_width):
            return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}"{_svg_stroke(stroke, stroke_width)}/>'
        case Line(x1, y1, x2, y2, stroke, stroke_width):
            return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"{_svg_stroke(stroke, stroke_width)}/>'
        case Label(x, y, label, size, fill):
            return f'<text x="{x:g}" y="{y:g}" dy="0.36em" font-size="{size:g}" fill="{fill}">{escape(label)}</text>'


def _svg_stroke(stroke: str, width: float) -> str:
    return f' stroke="{stroke}" stroke-width="{width:g}"' if stroke else ""
