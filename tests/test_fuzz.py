"""Arbitrary input: whatever is read, an error is the project's own with one line, and nothing crashes, hangs or grows.

1. Configurations: as YAML text, as nested data with real keys, and as command-line arguments.
2. Lines of the UCI protocol, alone and one after the other in a live engine.
3. What a checkpoint says of itself: its manifest, and any value of its state changed at random under right checksums.

Positions are in test_position, moves in test_notation. Each test tries a bounded number of inputs, the same ones each time.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from small_runs import small

from togyz_agents.engine.protocol import read_go, read_option, read_position
from togyz_agents.engine.server import Engine
from togyz_agents.training import checkpoint, config, manifest
from togyz_agents.training.config import Config, from_dict, keys, leaves, load, override
from togyz_agents.training.loop import train
from togyz_env import TogyzError

bounded = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),  # no shrinking: a failure is to end soon, too
)
numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 2**31, 2**63, 10**400, float("nan"), float("inf"), 1e-320])
plain = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def is_clear(error: TogyzError) -> bool:
    text = str(error)
    return 10 < len(text) < 2000 and "\n" not in text


def refused(action: Callable[[], object]) -> bool:
    """Whether an input was refused; anything but a clear error of the project's own comes out as it is."""
    found: list[TogyzError] = []
    try:
        action()
    except TogyzError as error:
        found.append(error)
    assert all(is_clear(error) for error in found), found
    return bool(found)


# 1


@settings(bounded, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(keys()), plain), min_size=1, max_size=4))
def test_configurations_of_any_values(pairs: list[tuple[str, Any]]) -> None:
    data: dict[str, Any] = {}
    for key, value in pairs:
        section, _, name = key.partition(".")
        if name:
            data.setdefault(section, {})[name] = value
        else:
            data[section] = value
    if not refused(lambda: from_dict(data, "fuzz")):
        built = from_dict(data, "fuzz")
        assert from_dict(config.to_dict(built), "again") == built
        assert leaves(built).keys() == set(keys())


@settings(bounded, max_examples=200)
@given(plain)
def test_configurations_of_any_shape(data: Any) -> None:
    refused(lambda: from_dict(data, "fuzz"))


yaml_text = st.text(max_size=60) | st.text(alphabet="run: \n[]{}-&*!|>'\"#%@`?,0123456789abcstages", max_size=80)


@settings(bounded, max_examples=300)
@given(content=yaml_text.map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary(max_size=60))
def test_files_of_any_content(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    file.write_bytes(content)
    refused(lambda: load(file))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "&a {run: *a}",
        "[" * 3000,
        "{a: " * 3000,
        "&a [x]\n" + "".join(f"- &{c} [*a,*a]\n" for c in "bcdefgh"),
        "? [1]\n: 2",
    ],
)
def test_files_that_refer_to_themselves_or_nest_without_end(text: str, tmp_path: Path) -> None:
    (tmp_path / "fuzz.yaml").write_text(text)
    assert refused(lambda: load(tmp_path / "fuzz.yaml"))


arguments = st.sampled_from([f"--{key}" for key in keys() if key != "stages"]) | st.text(max_size=12)


@settings(bounded, max_examples=20)
@given(st.lists(arguments | numbers.map(lambda n: str(n)[:50]), max_size=4))
def test_arguments_of_any_kind(words: list[str]) -> None:
    words = [word for word in words if word not in ("-h", "--help") and "completion" not in word]
    refused(lambda: override(Config(), words))


# 2

WORDS = [
    "position",
    "startpos",
    "fen",
    "moves",
    "go",
    "depth",
    "nodes",
    "movetime",
    "wtime",
    "binc",
    "movestogo",
    "infinite",
    "ponder",
]
WORDS += [
    "setoption",
    "name",
    "value",
    "Seed",
    "MultiPV",
    "76",
    "7",
    "g1d2",
    "0",
    "-1",
    "99999999999999999999",
    "1e3",
    "\u0669",
    "9S",
    "12S,T",
]
word = st.sampled_from(WORDS) | st.text(max_size=6)


@settings(bounded, max_examples=300)
@given(st.lists(word, max_size=10))
def test_words_of_the_protocol_in_any_order(words: list[str]) -> None:
    for read in (read_position, lambda rest: read_go(rest, 0), lambda rest: read_go(rest, 1), read_option):
        refused(lambda read=read: read(words))  # type: ignore[misc]


@pytest.fixture(scope="module")
def engine() -> Iterator[tuple[Engine, list[str]]]:
    said: list[str] = []
    engine = Engine("random", said.append)
    yield engine, said
    engine.close()


@settings(bounded, max_examples=200)
@given(line=st.lists(word, max_size=8).map(" ".join) | st.text(max_size=40))
def test_an_engine_answers_any_line_and_goes_on(line: str, engine: tuple[Engine, list[str]]) -> None:
    if line.split()[:1] == ["quit"]:
        return
    one, said = engine
    said.clear()
    assert one.command(line)
    assert one.command("stop")
    one.command("isready")
    assert said[-1] == "readyok" or "readyok" in said
    assert all(part.startswith(("id ", "option ", "uciok", "readyok", "info ", "bestmove ")) and "\n" not in part for part in said)


# 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("fuzz") / "run"
    train(run, small(1))
    return run


@settings(bounded, max_examples=300)
@given(
    content=st.binary(max_size=80)
    | plain.map(lambda value: json.dumps(value).encode())
    | st.tuples(plain, plain).map(lambda pair: json.dumps({"format": pair[0], "files": pair[1]}).encode())
)
def test_manifests_of_any_content(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(manifest.Damaged):
        manifest.read(folder)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in nested plain values."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def sealed(folder: Path) -> None:
    files = {
        path.name: manifest.Entry(path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    manifest.seal(folder, files)


small_tensors = st.sampled_from([torch.zeros(0), torch.full((7,), float("nan")), torch.full((23,), 255, dtype=torch.uint8)])


@settings(bounded, max_examples=25)
@given(data=st.data())
def test_states_with_any_value_at_any_place(data: st.DataObject, run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A foreign state with right checksums: refused in one line, or harmless; no kernel reads or writes beyond its arrays."""
    target = tmp_path_factory.mktemp("changed") / "run"
    shutil.copytree(run, target)
    file = checkpoint.checkpoints(target)[0] / "state.pt"
    state = torch.load(file, weights_only=True)
    path = data.draw(st.sampled_from([place for place in places(state) if place]))
    value: Any = data.draw(plain | small_tensors)
    holder = state
    for step in path[:-1]:
        holder = holder[step]
    if isinstance(holder, tuple):
        return
    holder[path[-1]] = copy.copy(value)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    file.write_bytes(buffer.getvalue())
    sealed(file.parent)
    refused(lambda: train(target, override(checkpoint.load_config(target), ["--run.iterations", "2"]), resume=True))
