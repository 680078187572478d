"""Pictures of the board: text, SVG and pixels.

1. SVG and pixels are made from one drawing, and show what stands on the board.
2. A sowing can be followed in all three: the hole played, each stone sown, the landing, what was captured and by whom.
3. Tuzdyks are marked with their owners.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
from boards import board, random_positions

from togyz_env import Position
from togyz_env.render import HEIGHT, WIDTH, Circle, Label, Line, Rect, Trail, drawing, rgb_array, svg, text

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


# Sowings that can be followed.

STARTS = [
    (Position.start(), 7),
    (Position.from_fen("1,10S,10S,1S,11S,11S,11S,11S,11S/10S,10S,10S,10S,10S,10S,2S,11S,1S 12 0 N 5"), 7),  # printed in the rules
    (TUZDYKS, 1),
    (board("1 0 0 0 0 0 0 0 40", "0 0 0 0 0 0 0 0 0", 60), 9),
]


def test_a_trail_knows_each_stone_of_the_sowing() -> None:
    trail = Trail.of(*STARTS[0])  # the first example of the national rules
    assert (trail.played, trail.landing, trail.captured, trail.tuzdyk, trail.gained) == ((0, 7), (1, 6), 10, False, (10, 0))
    assert trail.sown == (0,) * 6 + (1,) * 9 + (0,) * 3
    trail = Trail.of(*STARTS[1])
    assert (trail.played, trail.landing, trail.captured, trail.tuzdyk, trail.gained) == ((1, 7), (0, 7), 3, True, (0, 3))
    for position in random_positions(300, 8):
        for hole in position.legal_moves():
            trail, after = Trail.of(position, hole), position.play(hole)
            origin = 9 * position.to_move + hole - 1
            stones = position.holes[origin]
            assert sum(trail.sown) == stones
            last = (origin + max(stones - 1, 1)) % 18 if stones > 1 else (origin + 1) % 18
            assert trail.landing == (last // 9, last % 9 + 1)
            assert trail.gained == tuple(new - old for new, old in zip(after.kazans, position.kazans))
            for i in range(18):  # what is not in a hole was captured or fell into a tuzdyk
                before = 0 if i == origin else position.holes[i]
                there = before + trail.sown[i]
                assert after.holes[i] in (0, there)
                assert after.holes[i] == there or i == last or i % 9 + 1 == position.tuzdyks[1 - i // 9]


def test_text_marks_the_sowing_and_the_owners() -> None:
    position, hole = STARTS[1]
    lines = text(position.play(hole), Trail.of(position, hole), owners=True).splitlines()
    assert lines[2] == " black |  1+| 11+|  1<|  1 | 11 | 11 | 11 | 11 | 11 |  kazan 3"
    assert lines[4] == " white | 11+| 11+| 11+| 11+| 11+| 11+| Xb*| 11 |  1 |  kazan 12"
    assert lines[7:] == [
        " black played 7: the last stone fell into white's 7, black made it his tuzdyk (kazans: black +3)",
        " white to move",
    ]
    both = text(TUZDYKS, owners=True)
    assert both.splitlines()[2].count("Xw") == both.splitlines()[4].count("Xb") == 1
    assert both.replace(" Xw", "  X").replace(" Xb", "  X") == str(TUZDYKS)
    quiet = text(Position.start().play(1), Trail.of(Position.start(), 1))
    assert "white played 1: the last stone fell into white's 9\n" in quiet


def test_pictures_tell_what_was_sown_captured_and_gained() -> None:
    for position, hole in STARTS:
        trail, after = Trail.of(position, hole), position.play(hole)
        shapes = list(drawing(after, trail))
        labels = [shape.text for shape in shapes if isinstance(shape, Label)]
        gained = [f"+{stones}" for stones in trail.gained if stones]
        sown = [f"+{stones}" for stones in trail.sown if stones]
        assert sorted(label for label in labels if label.startswith("+")) == sorted([*sown, *gained])
        assert labels.count("from") == 1
        mover = ("white", "black")[position.to_move]
        assert labels.count(f"{trail.captured} taken") == labels.count(f"by {mover}") == (trail.captured > 0)
        strokes = {shape.square: shape.stroke for shape in shapes if isinstance(shape, Rect) and shape.square}
        played, landing = (f"{'wb'[side]}{number}" for side, number in (trail.played, trail.landing))
        plain = next(stroke for square, stroke in strokes.items() if square not in (played, landing))
        assert len({strokes[played], strokes[landing], plain}) == 3
        ElementTree.fromstring(svg(after, trail))
        assert not np.array_equal(rgb_array(after), rgb_array(after, trail))
        for shape in shapes:
            if isinstance(shape, Label):
                assert 0 < shape.x < WIDTH
                assert 0 < shape.y < HEIGHT


def test_a_trail_marks_what_the_squares_mark() -> None:
    position, hole = STARTS[2]  # nothing captured
    trail, after = Trail.of(position, hole), position.play(hole)
    by_squares = list(drawing(after, trail.played, trail.landing))
    assert [shape for shape in drawing(after, trail) if isinstance(shape, Rect)] == [
        shape for shape in by_squares if isinstance(shape, Rect)
    ]


def test_notebooks_show_a_position_as_svg() -> None:
    assert TUZDYKS._repr_svg_() == svg(TUZDYKS)
