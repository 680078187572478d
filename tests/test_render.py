"""Pictures of the board: SVG and pixels are made from one drawing, and show what stands on the board."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
from boards import board, random_positions

from togyz_env import Position
from togyz_env.render import HEIGHT, WIDTH, Circle, Label, Line, Rect, drawing, rgb_array, svg

TUZDYKS = Position.from_fen("3S,2S,1S,T,1S,2S,1,3S,20S/1S,1S,20S,1S,t,3S,1,1S,14S 47 42 N 1")
SVG = "{http://www.w3.org/2000/svg}"


def test_the_drawing_shows_each_stone_and_count() -> None:
    for position in random_positions(100, seed=4):
        shapes = list(drawing(position))
        small_holes = all(stones <= 36 for stones in position.holes)
        if small_holes:
            assert sum(isinstance(shape, Circle) for shape in shapes) == 162 + 2  # and one disc for each player
        labels = [shape.text for shape in shapes if isinstance(shape, Label)]
        for kazan in position.kazans:
            assert str(kazan) in labels
        counts = [str(stones) for stones in position.holes]
        for count in counts:
            assert labels.count(count) >= counts.count(count) - sum(tuzdyk > 0 for tuzdyk in position.tuzdyks)


def test_nothing_is_drawn_off_the_board_even_with_all_stones_in_one_hole_or_kazan() -> None:
    crowded = [board("162" + " 0" * 8, "0" + " 0" * 8, 0), board("1" + " 0" * 8, "0" + " 0" * 8, 161)]
    for position in crowded:
        for shape in drawing(position):
            if isinstance(shape, Circle):
                assert shape.radius < shape.x < WIDTH - shape.radius
                assert shape.radius < shape.y < HEIGHT - shape.radius


def test_holes_run_as_printed() -> None:
    holes = [shape for shape in drawing(Position.start()) if isinstance(shape, Rect) and shape.square]
    assert len(holes) == 18
    left = {shape.square: shape.x for shape in holes}
    top = {shape.square: shape.y for shape in holes}
    assert sorted(left, key=lambda name: (top[name], left[name])) == [f"b{n}" for n in range(9, 0, -1)] + [
        f"w{n}" for n in range(1, 10)
    ]
    assert left["b9"] == left["w1"]


def test_each_tuzdyk_is_crossed_and_names_its_owner() -> None:
    shapes = list(drawing(TUZDYKS))
    labels = [shape.text for shape in shapes if isinstance(shape, Label)]
    assert (labels.count("white's"), labels.count("black's"), labels.count("tuzdyk")) == (1, 1, 2)
    assert sum(isinstance(shape, Line) for shape in shapes) == 4
    fills = {shape.square: shape.fill for shape in shapes if isinstance(shape, Rect)}
    assert len({fills["b6"], fills["w5"], fills["w1"]}) == 3
    assert not any(isinstance(shape, Line) for shape in drawing(Position.start()))


def test_svg_is_well_formed_and_draws_every_shape() -> None:
    root = ElementTree.fromstring(svg(TUZDYKS, last_move=(0, 6), landing=(1, 4)))
    assert root.get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    shapes = list(drawing(TUZDYKS, (0, 6), (1, 4)))
    names = [child.tag.removeprefix(SVG) for child in root]
    assert len(names) == len(shapes)
    assert names.count("text") == sum(isinstance(shape, Label) for shape in shapes)
    squares = [child.get("data-square") for child in root if child.get("data-square")]
    assert len(set(squares)) == 18
    assert not re.search(r"\d{7}", svg(TUZDYKS))


def test_pixels_have_the_asked_width_and_change_with_the_position() -> None:
    start = rgb_array(Position.start())
    assert (start.dtype, start.shape) == (np.uint8, (HEIGHT, WIDTH, 3))
    assert rgb_array(Position.start(), width=360).shape == (242, 360, 3)
    assert np.array_equal(start, rgb_array(Position.start()))
    assert not np.array_equal(start, rgb_array(Position.start().play(7)))


def test_the_last_move_and_its_landing_are_marked_differently() -> None:
    plain = rgb_array(TUZDYKS)
    played = rgb_array(TUZDYKS, last_move=(0, 6))
    landed = rgb_array(TUZDYKS, landing=(0, 6))
    assert not np.array_equal(plain, played)
    assert not np.array_equal(played, landed)
    rows = np.flatnonzero((plain != landed).any((1, 2)))
    assert rows.min() > HEIGHT // 2  # only in white's row
