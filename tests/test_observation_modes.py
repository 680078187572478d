"""Observation modes: every name, its space, and its content against a slow computation from the table.

1. Planes and tokens are what the table says; ``plain`` in one pass is ``plain``.
2. Every observation lies in its space: in random games to their ends, and with 153 or all stones in one hole.
3. The array alone is the array of the dictionary; the same in the single and the vector environment (test_vector_env.py).
4. Colours do not matter; no two different positions of many look the same as tokens or planes, for the side to move.
5. Unknown names are refused and say which there are; an encoder of one's own has both forms.
"""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from functools import cache
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from boards import board, random_positions
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from togyz_env import ConfigError, Position, observation_modes
from togyz_env.observation import ENCODERS, Encoder, write_plain_batch
from togyz_env.observation_modes import ObservationMode

CONTENTS = [*ENCODERS, "planes", "tokens"]
NAMES = ["dict", "flat", *CONTENTS, *(f"array:{content}" for content in CONTENTS)]
MASK = np.ones(9, np.int8)


@cache
def positions() -> list[Position]:
    crafted = [
        board("153 0 0 0 0 0 0 0 0", "9 0 0 0 0 0 0 0 0", 0),
        board("0 0 0 0 0 0 0 0 153", "0 0 0 0 0 0 0 0 9", 0, to_move=1),
        board("162 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 0", 0),
        board("0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 162", 0, to_move=1),
        board("0 0 0 0 0 0 0 0 1", "0 0 0 0 0 0 0 0 0", 161),
        board("0 0 0 0 0 0 0 0 1", "0 0 0 0 0 0 0 0 0", 0),
        board("31 32 33 34 0 0 0 0 0", "0 0 0 0 0 0 0 31 1", 0),
        board("1 0 2 37 0 36 2 2 0", "0 2 0 2 20 19 2 2 5", 3, tuzdyks=(1, 2), to_move=1),
        board("0 7 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 1", 50, tuzdyks=(8, 1)),
    ]
    played = []
    for position in random_positions(3000, 6):
        played.append(position)
        played += [after for hole in position.legal_moves() if (after := position.play(hole)).outcome() is not None]
    return [*crafted, *(position.mirrored() for position in crafted), *played]


def observed(name: str, position: Position) -> np.ndarray:
    array = ObservationMode(name).observation(position.state[None], MASK)
    assert isinstance(array, np.ndarray)
    return array


def seen(position: Position) -> tuple[list[int], tuple[int, int], tuple[int, int]]:
    """(holes from the mover's hole 1, kazans of mover and opponent, tuzdyks of mover and opponent)."""
    me = position.to_move
    white, black = list(position.holes[:9]), list(position.holes[9:])
    rows = [white, black]
    return (
        rows[me] + rows[1 - me],
        (position.kazans[me], position.kazans[1 - me]),
        (position.tuzdyks[me], position.tuzdyks[1 - me]),
    )


def test_tokens_are_what_the_table_says() -> None:
    for position in positions()[:600]:
        holes, kazans, (mine, his) = seen(position)
        expected = [*holes, *kazans]
        if mine:
            expected[9 + mine - 1] = 163  # my tuzdyk is a hole of his
        if his:
            expected[his - 1] = 164
        assert observed("array:tokens", position).tolist() == expected


def test_planes_are_what_the_table_says() -> None:
    for position in positions()[:300]:
        holes, kazans, (mine, his) = seen(position)
        expected = np.zeros((40, 18), np.float32)
        for i, stones in enumerate(holes):
            expected[stones if stones <= 31 else 32 if stones % 2 == 0 else 33, i] = 1
            expected[34, i] = stones / 162
            expected[37, i], expected[38, i] = kazans[0] / 162, kazans[1] / 162
            expected[35, i] = mine > 0 and i == 8 + mine
            expected[36, i] = his > 0 and i == his - 1
            expected[39, i] = i < 9
        assert observed("array:planes", position) == pytest.approx(expected, abs=1e-6)
        assert (observed("array:planes", position)[:34].sum(axis=0) == 1).all()


def test_plain_in_one_pass_is_plain() -> None:
    states = np.stack([position.state for position in positions()])
    out = np.full((len(states), 40), np.nan, np.float32)
    write_plain_batch(states, out)
    assert np.array_equal(out, ENCODERS["plain"].encode(states))


@pytest.mark.parametrize("name", NAMES)
def test_every_observation_lies_in_its_space(name: str) -> None:
    mode = ObservationMode(name)
    for position in positions()[:1500]:
        assert mode.space.contains(mode.observation(position.state[None], MASK)), position
    states = np.stack([position.state for position in positions()])
    batch = mode.observations(states, np.ones((len(states), 9), np.int8))
    arrays = batch["observation"] if mode.masked else batch
    assert arrays.dtype == mode.content.dtype
    if isinstance(mode.content, spaces.Box):
        assert (arrays >= mode.content.low).all()
        assert (arrays <= mode.content.high).all()
    else:
        assert isinstance(mode.content, spaces.MultiDiscrete)
        assert ((arrays >= 0) & (arrays < mode.content.nvec)).all()


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_checker_finds_nothing(name: str) -> None:
    env = gymnasium.make("togyz_env:Togyzqumalaq-v0", observation=name, opponent="random", agent_side="alternating")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("content", CONTENTS)
def test_the_array_alone_is_that_of_the_dictionary(content: str) -> None:
    position = Position.start().play(3)
    both = ObservationMode(content).observation(position.state[None], MASK)
    assert set(both) == {"observation", "action_mask"}
    assert both["action_mask"] is MASK
    assert np.array_equal(both["observation"], observed(f"array:{content}", position))
    assert ObservationMode(content).space["observation"] == ObservationMode(f"array:{content}").space  # type: ignore[index]


def test_short_names_stand_for_plain() -> None:
    position = Position.start().play(3)
    assert ObservationMode("dict").space == ObservationMode("plain").space
    assert ObservationMode("flat").space == ObservationMode("array:plain").space
    assert isinstance(ObservationMode("flat").space, spaces.Box)
    assert np.array_equal(observed("flat", position), ENCODERS["plain"].encode(position.state[None])[0])


@pytest.mark.parametrize("content", ["planes", "tokens"])
def test_colours_do_not_matter_and_positions_can_be_told_apart(content: str) -> None:
    looks: dict[bytes, tuple[object, ...]] = {}
    for position in positions():
        array = observed(f"array:{content}", position)
        assert np.array_equal(array, observed(f"array:{content}", position.mirrored()))
        holes, *rest = seen(position)
        assert looks.setdefault(array.tobytes(), (tuple(holes), *rest)) == (tuple(holes), *rest)
    assert len(looks) > 2000


@pytest.mark.parametrize("name", ["picture", "array:", "array:dict", "array:picture", "", None, 3, ["plain"]])
def test_unknown_names_are_refused_and_the_known_ones_told(name: object) -> None:
    with pytest.raises(ConfigError, match=r"observation: .*'plain'.*'planes', 'tokens', 'dict', 'flat'"):
        ObservationMode(name)  # type: ignore[arg-type]


def test_an_encoder_of_ones_own_has_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ENCODERS["plain"]
    mine = Encoder("mine", plain.size, plain.low, plain.high, plain.kernel, plain.active)
    monkeypatch.setitem(ENCODERS, "mine", mine)
    position = Position.start()
    assert np.array_equal(observed("array:mine", position), observed("flat", position))
    assert ObservationMode("mine").masked


@pytest.mark.parametrize("name", ["rules", "array:planes"])
def test_modes_are_copied_by_name(name: str) -> None:
    mode = ObservationMode(name)
    for twin in (copy.deepcopy(mode), pickle.loads(pickle.dumps(mode))):
        assert (twin.name, twin.space) == (mode.name, mode.space)


def test_the_table_names_every_content() -> None:
    described = observation_modes.__doc__ or ""
    document = Path(__file__).parents[1].joinpath("docs", "environment.md").read_text(encoding="utf-8")
    for name in (*CONTENTS, "dict", "flat"):
        assert f"``{name}``" in described
        assert re.search(rf"`{name}`", document), name
