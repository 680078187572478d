"""Encoders: every input of every encoder against a slow direct computation from the written description and the slow rules.

1. ``plain``, ``rules``, ``counts`` and ``tactics`` are what their table says, in games and in positions made to be awkward.
2. Inputs stay within the bounds that the encoder states, and there are never more of them than it makes room for.
3. Colours do not matter: the mirrored position gives the same inputs.
4. The list of inputs and the vector are the same thing, whatever the scratch space held before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from boards import board, random_positions
from reference_rules import Board

from togyz_env import Position
from togyz_env.observation import ENCODERS

Holes = list[tuple[int, int]]


@cache
def positions() -> list[Position]:
    """Games of both colours to their end, and boards with huge holes, two tuzdyks, hardly a stone."""
    crafted = [
        board("0 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 81),
        board("40 0 0 1 32 31 0 0 2", "2 17 18 19 0 0 0 0 0", 0, to_move=1),
        board("2 2 2 2 2 2 2 2 2", "2 2 2 2 2 2 2 2 2", 20, to_move=1),
        board("2 2 2 2 2 2 2 2 2", "2 2 2 2 2 2 2 2 2", 20, tuzdyks=(0, 0)),
        board("1 0 2 37 0 36 2 2 0", "0 2 0 2 20 19 2 2 5", 3, tuzdyks=(1, 2)),
        board("1 0 2 37 0 36 2 2 0", "0 2 0 2 20 19 2 2 5", 3, tuzdyks=(1, 2), to_move=1),
        board("0 0 0 0 0 0 0 0 0", "162 0 0 0 0 0 0 0 0", 0, to_move=1),
        board("0 33 0 0 34 0 0 0 66", "0 0 0 0 29 0 0 0 0", 0),
    ]
    played = list(random_positions(2500, 8))
    return [*crafted, *played[::7], *(p for p in played if max(p.holes) >= 19)][:600]


def rows(position: Position) -> tuple[list[int], list[int]]:
    white, black = list(position.holes[:9]), list(position.holes[9:])
    return (white, black) if position.to_move == 0 else (black, white)


def holes(position: Position) -> Holes:
    """(side, number) of the 18 holes in sowing order from the mover's hole 1."""
    me = position.to_move
    return [*((me, number) for number in range(1, 10)), *((1 - me, number) for number in range(1, 10))]


def stones_in(position: Position, hole: tuple[int, int]) -> int:
    return position.holes[9 * hole[0] + hole[1] - 1]


def tried(row: list[int], hole: tuple[int, int]) -> tuple[tuple[int, int], str, int]:
    """Play ``hole`` as if it were its owner's turn: where the last stone falls, what it does, stones captured."""
    after = Board.of(list(row))
    after.mover = hole[0]
    side, number, event, captured = after.play(hole[1])
    return (side, number), event, captured


def plain(position: Position) -> list[float]:
    me, other = position.to_move, 1 - position.to_move
    own, opposing = rows(position)
    inputs = [stones / 16 for stones in (*own, *opposing)]
    for side in (me, other):
        inputs += [float(position.tuzdyks[side] == number) for number in range(1, 10)]
    return [*inputs, position.kazans[me] / 81, position.kazans[other] / 81, sum(own) / 81, sum(opposing) / 81]


def counts(position: Position) -> list[float]:
    inputs = plain(position)
    for hole in holes(position):
        stones = stones_in(position, hole)
        inputs += [float(stones == count) for count in range(32)]
        inputs += [float(stones >= 32 and stones % 2 == parity) for parity in (0, 1)]
    return inputs


BUCKETS = [*((n, n) for n in range(7)), (7, 9), (10, 13), (14, 18), (19, 162)]


def by_rules(position: Position) -> list[float]:
    row = list(position.row)
    order = holes(position)
    buckets, landings, captures, tuzdyks = [], [], [], []
    for hole in order:
        stones = stones_in(position, hole)
        buckets += [float(low <= stones <= high) for low, high in BUCKETS]
        landing, event, captured = tried(row, hole) if stones else (None, "nothing", 0)
        landings += [float(landing == other) for other in order]
        captures.append(captured / 16 if event == "capture" else 0.0)
        tuzdyks.append(float(event == "tuzdyk"))
    return [*plain(position), *buckets, *landings, *captures, *tuzdyks]


def tactics(position: Position) -> list[float]:
    row = list(position.row)
    order = holes(position)
    moves = [tried(row, hole) for hole in order if stones_in(position, hole)]
    threats = [max((n for landing, event, n in moves if (landing, event) == (hole, "capture")), default=0) for hole in order]
    tuzdyks = [any((landing, event) == (hole, "tuzdyk") for landing, event, _ in moves) for hole in order]
    largest, makes = [], []
    for number in range(1, 10):
        replies = []
        if number in position.legal_moves():
            after = Board.of(list(row))
            after.play(number)
            for reply in after.legal():
                again = Board.of(after.row())
                replies.append(again.play(reply)[2:])
        largest.append(max((n for event, n in replies if event == "capture"), default=0))
        makes.append(any(event == "tuzdyk" for event, _ in replies))
    figures = [*by_rules(position), *(n / 16 for n in threats), *map(float, tuzdyks)]
    return [*figures, *(n / 16 for n in largest), *map(float, makes)]


SLOW: dict[str, Callable[[Position], list[float]]] = {"plain": plain, "counts": counts, "rules": by_rules, "tactics": tactics}
SIZES = {"plain": 40, "counts": 652, "rules": 598, "tactics": 652}


def states(some: list[Position]) -> np.ndarray:
    return np.stack([position.state for position in some])


# 1


def test_every_encoder_is_tested() -> None:
    assert set(SLOW) == set(ENCODERS)
    assert {name: encoder.size for name, encoder in ENCODERS.items()} == SIZES


@pytest.mark.parametrize("name", SLOW)
def test_every_input_is_that_of_a_slow_computation(name: str) -> None:
    found = ENCODERS[name].encode(states(positions()))
    assert (found.shape, found.dtype) == ((len(positions()), SIZES[name]), np.float32)
    for encoded, position in zip(found, positions()):
        expected = np.array(SLOW[name](position), np.float32)
        assert len(expected) == SIZES[name]
        np.testing.assert_allclose(encoded, expected, rtol=1e-6, atol=0, err_msg=position.fen())


def test_the_positions_reach_the_inputs() -> None:
    reached = (ENCODERS["tactics"].encode(states(positions())) != 0).any(axis=0)
    assert reached[562:580].all()  # captures from every hole
    assert reached[580:598].sum() >= 14  # tuzdyks
    assert reached[598:616].all()  # threats
    # a tuzdyk cannot be made in hole 9 of either row
    assert np.flatnonzero(~reached[616:634]).tolist() == [8, 17]
    assert reached[634:652].all()  # replies
    assert (ENCODERS["counts"].encode(states(positions()))[:, 40:].reshape(-1, 18, 34)[:, :, 32:] != 0).any(axis=(0, 1)).all()


def test_the_start_position_by_hand() -> None:
    encoded = ENCODERS["tactics"].encode(Position.start().state[None])[0]
    assert encoded[:40].tolist() == pytest.approx([9 / 16] * 18 + [0.0] * 18 + [0.0, 0.0, 1.0, 1.0])
    landings = encoded[238:562].reshape(18, 18)
    assert landings.argmax(axis=1).tolist() == [(hole + 8) % 18 for hole in range(18)]  # nine stones end eight holes on
    # From hole 2 on the ninth stone makes ten in the other row: all of them capture ten; hole 1 ends in its own row.
    assert encoded[562:580].tolist() == pytest.approx(([0.0] + [10 / 16] * 8) * 2)
    assert encoded[598:616].tolist() == pytest.approx(([10 / 16] * 8 + [0.0]) * 2)


# 2, 3, 4


@pytest.mark.parametrize("name", ENCODERS)
def test_inputs_stay_within_their_bounds(name: str) -> None:
    encoder = ENCODERS[name]
    encoded = encoder.encode(states(positions()))
    assert (encoder.low.shape, encoder.high.shape) == ((encoder.size,), (encoder.size,))
    assert (encoded >= encoder.low).all()
    assert (encoded <= encoder.high).all()


@pytest.mark.parametrize("name", ENCODERS)
def test_colours_do_not_matter(name: str) -> None:
    mirrored = [position.mirrored() for position in positions()]
    assert {position.to_move for position in positions()} == {0, 1}
    assert np.array_equal(ENCODERS[name].encode(states(positions())), ENCODERS[name].encode(states(mirrored)))


@pytest.mark.parametrize("name", ENCODERS)
def test_the_list_of_inputs_names_each_once(name: str) -> None:
    encoder = ENCODERS[name]
    batch = states(positions())
    scratch = encoder.scratch(len(batch))
    for array in scratch:
        array.fill(77)
    index, value, count = encoder.nonzero(batch, scratch)
    assert index is scratch[0]
    vectors = np.full((len(batch), encoder.size), 5.0, np.float32)
    assert encoder.encode(batch, vectors) is vectors
    assert count.max() <= encoder.active
    for b in range(len(batch)):
        places = index[b, : count[b]]
        assert len(set(places.tolist())) == count[b]
        assert set(places.tolist()) >= set(np.flatnonzero(vectors[b]).tolist())
        assert (value[b, : count[b]] == 0).sum() <= 4  # an empty kazan or row may be named
        assert np.array_equal(vectors[b, places], value[b, : count[b]])


@pytest.mark.parametrize("name", ENCODERS)
def test_states_are_left_as_they_are(name: str) -> None:
    batch = states(positions())
    before = batch.copy()
    ENCODERS[name].encode(batch)
    assert np.array_equal(batch, before)
    assert ENCODERS[name].encode(batch[:0]).shape == (0, SIZES[name])
