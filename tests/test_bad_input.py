"""Bad input to the programs: one line that says what, where and what would be right; status 2; nothing is overwritten.

1. Wrong arguments and configurations of every script.
2. Run directories that are missing, foreign, truncated, bit-flipped, newer or edited: train.py, the AlphaZero player and export.py.
   The previous checkpoint is taken only when the user names it or says ``--resume auto``.
3. Malformed positions.
4. The same from a real shell; a full disk or memory and an interrupt end as one line, too.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tiny import config

from togyz_agents import console
from togyz_agents.agent import make_agent
from togyz_agents.training import checkpoint
from togyz_agents.training.config import to_dict
from togyz_agents.training.loop import train
from togyz_env import CheckpointError, TogyzError

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
        for path in sorted(folder.rglob("*"))
    }


class Ended:
    """How a script ended: status, output and the lines of its error output."""

    def __init__(self, status: int, out: str, error: str) -> None:
        self.status, self.out, self.lines = status, out, error.splitlines()

    def is_refusal(self, *parts: str) -> None:
        """One line of error that holds ``parts``, status 2."""
        assert self.status == 2, (self.out, self.lines)
        assert len(self.lines) == 1, self.lines
        assert self.lines[0].startswith("error: ")
        assert len(self.lines[0]) < 700
        for part in parts:
            assert part in self.lines[0]

    def last_is_refusal(self, *parts: str) -> None:
        """Like ``is_refusal``, after lines of the run's log."""
        assert not [line for line in self.lines[:-1] if line.startswith("error")]
        del self.lines[:-1]
        self.is_refusal(*parts)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a script in this process, as ``python scripts/NAME.py ARGUMENTS`` would."""

    def run(name: str, *arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as caught:
            runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="__main__")
        return Ended(int(caught.value.code or 0), *capfd.readouterr())

    return run


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two checkpoints."""
    run = tmp_path_factory.mktemp("runs") / "sound"
    data = to_dict(config(run={"iterations": 2, "checkpoint_every": 1}, ladder={"every": 1}, rules={"max_plies": 30}))
    train(run, config(**{name: keys for name, keys in data.items() if name != "stages"}))
    return run


@pytest.fixture
def run(sound: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be spoilt."""
    return Path(shutil.copytree(sound, tmp_path / "run"))


# 1


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--learner.lrr", "3"], ["command line: unknown '--learner.lrr'", "did you mean --learner.lr?"]),
        (["--learner.lr", "fast"], ["--learner.lr", "'fast'"]),
        (["--selfplay.workers", "0"], ["selfplay.workers: 0 is not at least 1"]),
        (["quick.yaml"], ["unknown 'quick.yaml'", "--config FILE"]),
        (["--config"], ["command line: argument --config: expected one argument"]),
        (["--resume"], ["command line: argument --resume: expected one argument"]),
        (["--config", "none.yaml"], ["config: cannot read 'none.yaml'", "No such file"]),
        (["--config", "."], ["config: cannot read '.'", "directory"]),
        (["--config", "a", "--resume", "b"], ["--config and --resume exclude each other"]),
        (["--resume", "none"], ["run: 'none' has no config.yaml", "expected a run directory made by scripts/train.py"]),
        (["--run.iterations", "0"], ["run.iterations: 0 is not above 0"]),
        ([], ["run: no end is set; give ", "run.minutes", "run.samples", "run.iterations"]),
        (["--run.iterations", "1", "--run.device", "abacus"], ["device: 'abacus' cannot be used here"]),
        (["--run.iterations", "1", "--run.network", "none.safetensors"], ["network: no file 'none.safetensors'"]),
        (["--run.iterations", "1", "--rules.max_plies", "8"], ["rules.max_plies: 8 leaves no move", "ladder.every"]),
        (["--run.iterations", "1", "--selfplay.slots", "2000000000"], ["selfplay.slots: 2000000000 is not", "at most 1 TiB"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value and "--" in str(value[0]) else "",
)
def test_wrong_arguments_of_train(
    arguments: list[str], parts: list[str], script: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if "--run.iterations" in arguments:
        arguments = [*arguments, "--selfplay.precision", "float32", "--network.width", "8"]
    script("train", *arguments).is_refusal(*parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("learner: {lrr: 1}", ["learner.lrr: unknown key; did you mean 'lr'?"]),
        ("learner: {lr: fast}", ["learner.lr: 'fast' is not a number"]),
        ("learner: {lr: .nan}", ["learner.lr: nan is not above 0"]),
        ("learner: [", ["not YAML"]),
        ("", ["run: no end is set"]),
    ],
)
def test_wrong_configurations_of_train(
    text: str, parts: list[str], script: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(text)
    script("train", "--config", "a.yaml").is_refusal(*parts, *(["a.yaml"] if text else []))
    assert [path.name for path in tmp_path.iterdir()] == ["a.yaml"]


def test_a_run_is_never_trained_over(script: Callable[..., Ended], run: Path) -> None:
    before = digest(run)
    ended = script("train", "--run.dir", run, "--run.iterations", "9")
    ended.is_refusal(f"run: '{run}' exists already", f"--resume {run}", "another run.dir")
    assert digest(run) == before


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("perft", ["--depth", "x"], ["argument --depth", "'x'"]),
        ("perft", ["--depth", "0"], ["argument --depth: 0", "expected a whole number from 1"]),
        ("perft", ["--end", "never"], ["argument --end", "'never'", "majority"]),
        ("perft", ["--zzz"], ["--zzz"]),
        ("export", [], ["source"]),
        ("export", ["none"], ["none"]),
        ("export", [".", "--format", "pdf"], ["argument --format", "'pdf'", "onnx"]),
        ("export", ["."], ["'.' holds no network.safetensors", "expected a run directory or a .safetensors file"]),
    ],
)
def test_wrong_arguments_of_other_scripts(
    name: str, arguments: list[str], parts: list[str], script: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script(name, *arguments).is_refusal(*parts)
    assert list(tmp_path.iterdir()) == []


# 2


def edited(file: Path, **changes: Any) -> None:
    """Change keys of a run's config.yaml by hand: section__key=value."""
    data = yaml.safe_load(file.read_text())
    for key, value in changes.items():
        section, name = key.split("__")
        data[section][name] = value
    file.write_text(yaml.safe_dump(data))


def restate(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a state as another program would have written it: with the right checksums."""
    state = torch.load(file, weights_only=True)
    change(state)
    torch.save(state, file)
    sealed(file.parent)


def sealed(folder: Path) -> None:
    """Make a checkpoint's manifest that of its files as they are now."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in folder.iterdir()
        if path.name != "manifest.json"
    }
    (folder / "manifest.json").write_text(json.dumps({"format": "togyz-checkpoint-2", "files": files}, sort_keys=True) + "\n")


def unsealed(folder: Path) -> None:
    """Make a checkpoint one of the first format, which had no manifest."""
    restate(folder / "state.pt", lambda state: state.update(format="togyz-checkpoint-1"))
    (folder / "manifest.json").unlink()


def foreign(file: Path, content: bytes) -> None:
    """Replace a file with something that was well written, but is something else."""
    file.write_bytes(content)
    sealed(file.parent)


def flipped(file: Path, place: float) -> None:
    """Flip one bit of a file."""
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= 16
    file.write_bytes(data)


def truncated(file: Path, share: float) -> None:
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def npz() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    return buffer.getvalue()


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


GO_BACK = "to go on from the one before"
STATE, REPLAY = "checkpoints/000002/state.pt", "checkpoints/000002/replay.npy"
CHECKSUM = "its checksum is not that of what was written"
MANIFEST = "checkpoints/000002/manifest.json"
DAMAGES: list[tuple[str, Callable[[Path], object], list[str]]] = [
    ("no checkpoints", lambda run: shutil.rmtree(run / "checkpoints"), ["resume: no checkpoint in", "made by scripts/train.py"]),
    ("state missing", lambda run: (run / STATE).unlink(), [STATE, "No such file", GO_BACK]),
    ("state empty", lambda run: (run / STATE).write_bytes(b""), [STATE, "it has 0 bytes, not the", GO_BACK]),
    ("state half", lambda run: truncated(run / STATE, 0.5), [STATE, "that were written", GO_BACK]),
    ("state almost whole", lambda run: truncated(run / STATE, 0.999), [STATE, "that were written", GO_BACK]),
    ("state flipped", lambda run: flipped(run / STATE, 0.5), [STATE, CHECKSUM, GO_BACK]),
    ("state is text", lambda run: foreign(run / STATE, b"hello\nworld"), [STATE, GO_BACK]),
    ("state is a pickle", lambda run: foreign(run / STATE, pickle.dumps(Path("x"))), [STATE, "plain values", GO_BACK]),
    ("state holds code", lambda run: foreign(run / STATE, saved(torch.nn.Linear(1, 1))), [STATE, "plain values", GO_BACK]),
    ("state is a tensor", lambda run: foreign(run / STATE, saved(torch.zeros(3))), [STATE, "has format 'Tensor'", GO_BACK]),
    ("state is foreign", lambda run: foreign(run / STATE, saved({"model": 1})), [STATE, "has format 'None', expected", GO_BACK]),
    ("state of another program", lambda run: restate(run / STATE, lambda s: s.update(format="x-9")), [STATE, "has format 'x-9'"]),
    (
        "state of a newer version",
        lambda run: restate(run / STATE, lambda s: s.update(format="togyz-checkpoint-3")),
        [STATE, "'togyz-checkpoint-3', expected 'togyz-checkpoint-2'; a newer version of the program wrote it", GO_BACK],
    ),
    ("no workers", lambda run: restate(run / STATE, lambda s: s.pop("workers")), [STATE, GO_BACK]),
    ("no learner", lambda run: restate(run / STATE, lambda s: s.pop("learner")), ["does not fit config.yaml", "learner"]),
    ("no progress", lambda run: restate(run / STATE, lambda s: s.update(progress={"x": 1})), ["does not fit config.yaml"]),
    ("a worker too few", lambda run: restate(run / STATE, lambda s: s["workers"].clear()), ["games of 0 workers", "1 workers"]),
    ("torn games", lambda run: restate(run / STATE, lambda s: s["workers"][0].update(state=torch.zeros(5))), [STATE, GO_BACK]),
    (
        "impossible games",
        lambda run: restate(run / STATE, lambda s: s["workers"][0]["state"].fill_(255)),
        ["self-play: the saved games cannot be games of at most 30 plies"],
    ),
    ("replay missing", lambda run: (run / REPLAY).unlink(), [REPLAY, "No such file", GO_BACK]),
    ("replay empty", lambda run: (run / REPLAY).write_bytes(b""), [REPLAY, "it has 0 bytes", GO_BACK]),
    ("replay half", lambda run: truncated(run / REPLAY, 0.5), [REPLAY, "that were written", GO_BACK]),
    ("replay flipped", lambda run: flipped(run / REPLAY, 0.7), [REPLAY, CHECKSUM, GO_BACK]),
    ("replay is empty by design", lambda run: foreign(run / REPLAY, b""), [REPLAY, GO_BACK]),
    ("replay is text", lambda run: foreign(run / REPLAY, b"hello"), [REPLAY, GO_BACK]),
    ("replay of numbers", lambda run: foreign(run / REPLAY, npy(np.zeros(3))), [REPLAY, "no samples of this version", GO_BACK]),
    ("replay is an archive", lambda run: foreign(run / REPLAY, npz()), [REPLAY, "no samples of this version", GO_BACK]),
    ("replay holds code", lambda run: foreign(run / REPLAY, npy(np.array([Path("x")]))), [REPLAY, GO_BACK]),
    (
        "replay of another run",
        lambda run: foreign(run / REPLAY, npy(np.load(run / REPLAY)[5:])),
        [REPLAY, "samples, not the", "of this checkpoint", GO_BACK],
    ),
    (
        "replay of impossible positions",
        lambda run: foreign(run / REPLAY, npy(np.zeros_like(np.load(run / REPLAY)))),
        [REPLAY, "positions that cannot occur", GO_BACK],
    ),
    ("network flipped", lambda run: flipped(run / STATE.replace("state.pt", "network.safetensors"), 0.9), [CHECKSUM, GO_BACK]),
    ("manifest missing", lambda run: (run / MANIFEST).unlink(), [MANIFEST, "No such file", GO_BACK]),
    ("manifest empty", lambda run: (run / MANIFEST).write_bytes(b""), [MANIFEST, "no manifest", GO_BACK]),
    ("manifest half", lambda run: truncated(run / MANIFEST, 0.5), [MANIFEST, "no manifest", GO_BACK]),
    (
        "manifest of a newer version",
        lambda run: (run / MANIFEST).write_text((run / MANIFEST).read_text().replace("checkpoint-2", "checkpoint-12")),
        [MANIFEST, "has format 'togyz-checkpoint-12'", "a newer version of the program wrote it", GO_BACK],
    ),
    (
        "manifest with a foreign file",
        lambda run: ((run / MANIFEST).with_name("more").touch(), sealed((run / MANIFEST).parent)),
        [MANIFEST, "foreign file 'more'", GO_BACK],
    ),
    ("config missing", lambda run: (run / "config.yaml").unlink(), ["has no config.yaml; expected a run directory"]),
    ("config torn", lambda run: (run / "config.yaml").write_text("run: ["), ["cannot read", "config.yaml", "not YAML"]),
    ("config foreign", lambda run: (run / "config.yaml").write_text("a: 1"), ["config.yaml: a: unknown key"]),
    ("another width", lambda run: edited(run / "config.yaml", network__width=33), ["does not fit config.yaml", "size mismatch"]),
    ("another encoder", lambda run: edited(run / "config.yaml", network__encoder="rules"), ["does not fit config.yaml"]),
    ("other slots", lambda run: edited(run / "config.yaml", selfplay__slots=8), ["16 games in progress do not fit into 8 slots"]),
    ("other workers", lambda run: edited(run / "config.yaml", selfplay__workers=2), ["games of 1 workers do not fit 2 workers"]),
    ("shorter games", lambda run: edited(run / "config.yaml", rules__max_plies=9), ["cannot be games of at most 9 plies"]),
    ("figures foreign", lambda run: (run / "metrics.jsonl").write_text("x\n"), ["metrics.jsonl', line 1: no JSON object"]),
    ("ladder foreign", lambda run: (run / "ladder.jsonl").write_text("{}\n"), ["ladder.jsonl', line 1: no JSON object"]),
]


@pytest.mark.parametrize(("damage", "parts"), [damage[1:] for damage in DAMAGES], ids=[damage[0] for damage in DAMAGES])
def test_a_damaged_run_is_not_resumed_and_not_touched(
    damage: Callable[[Path], object], parts: list[str], script: Callable[..., Ended], run: Path
) -> None:
    damage(run)
    before = digest(run)
    script("train", "--resume", run, "--run.iterations", "3").is_refusal(*parts)
    assert digest(run) == before


def iterations(run: Path) -> list[int]:
    return [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_the_advice_helps(script: Callable[..., Ended], run: Path) -> None:
    truncated(run / STATE, 0.5)
    ended = script("train", "--resume", run, "--run.iterations", "3", "--final.pairs", "0")
    match = re.search(r"give --resume '(.*?)' to go on from the one before", ended.lines[0])
    assert match
    assert Path(match[1]) == run / "checkpoints/000001"
    assert script("train", "--resume", match[1], "--run.iterations", "3", "--final.pairs", "0").status == 0
    assert iterations(run) == [1, 2, 3]
    # The damaged one is kept under a name that nobody takes for a checkpoint, beside the one that took its place.
    assert (run / "checkpoints/000002.unused/state.pt").exists()
    assert script("train", "--resume", run, "--run.iterations", "4", "--final.pairs", "0").status == 0
    assert iterations(run) == [1, 2, 3, 4]


def test_an_earlier_checkpoint_is_taken_when_the_user_names_it(script: Callable[..., Ended], run: Path, sound: Path) -> None:
    before = (run / "metrics.jsonl").read_text().splitlines()[0]
    assert script("train", "--resume", run / "checkpoints/000001", "--final.pairs", "0").status == 0
    assert iterations(run) == [1, 2]
    assert (run / "metrics.jsonl").read_text().splitlines()[0] == before
    assert (run / REPLAY).read_bytes() == (sound / REPLAY).read_bytes()  # the same iteration again
    script("train", "--resume", run / "checkpoints/000009").is_refusal("no checkpoint 000009 in")


def test_resume_auto_takes_the_newest_good_one_and_says_so(
    script: Callable[..., Ended], run: Path, sound: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flipped(run / REPLAY, 0.5)
    ended = script("train", "--resume", "auto", "--run.dir", run, "--run.iterations", "2", "--final.pairs", "0")
    assert ended.status == 0
    assert "000002 cannot be used: replay.npy (its checksum" in caplog.text
    assert "000002 is now 000002.unused; the run goes on from iteration 1" in caplog.text
    assert (run / REPLAY).read_bytes() == (sound / REPLAY).read_bytes()
    for path in (run / "checkpoints").glob("0*/state.pt"):
        path.write_bytes(b"")
    script("train", "--resume", "auto", "--run.dir", run, "--run.iterations", "3").last_is_refusal(STATE, "start a new run")


def test_resume_auto_begins_a_run_that_is_not_there(
    script: Callable[..., Ended], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")
    same = ["--config", run / "config.yaml", "--resume", "auto", "--final.pairs", "0", "--run.dir"]
    assert script("train", *same, "new", "--run.iterations", "1").status == 0
    assert iterations(tmp_path / "new") == [1]
    (tmp_path / "new").rename("moved")  # a run can be moved; the same command line goes on with it
    ended = script("train", *same, "moved", "--run.iterations", "2", "--learner.lr", "0.001")
    assert ended.status == 0
    assert "resume: learner.lr was 0.003 and is now 0.001" in caplog.text
    assert iterations(tmp_path / "moved") == [1, 2]


def test_a_checkpoint_of_the_first_format_is_still_read(
    script: Callable[..., Ended], run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unsealed((run / STATE).parent)
    ended = script("train", "--resume", run, "--run.iterations", "3", "--final.pairs", "0")
    assert ended.status == 0
    assert "is of the first format and has no checksums" in caplog.text


@pytest.mark.parametrize("name", ["state.pt", "replay.npy", "network.safetensors", "manifest.json"])
def test_no_flipped_bit_goes_unnoticed(name: str, run: Path) -> None:
    file = run / "checkpoints/000002" / name
    whole = file.read_bytes()
    checkpoint.load(run)
    places = np.random.default_rng(1).integers(0, 8 * len(whole), 40).tolist()
    places += range(8 * len(whole)) if name == "manifest.json" else (0, 8 * len(whole) - 1)
    for place in places:
        data = bytearray(whole)
        data[place // 8] ^= 1 << place % 8
        file.write_bytes(data)
        with pytest.raises(CheckpointError, match=rf"^resume: cannot read '.*' \(.*\); give --resume '.*000001' {GO_BACK}$"):
            checkpoint.load(run)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--network.width", "33"], "resume: network.width was 32 and cannot become 33"),
        (["--run.seed", "2"], "resume: run.seed was 1 and cannot become 2"),
        (["--run.device", "abacus"], "device: 'abacus' cannot be used here"),
        (["--run.dir", "elsewhere"], "resume: run.dir was None and cannot become 'elsewhere'"),
    ],
)
def test_a_resume_that_cannot_be_changes_nothing(arguments: list[str], part: str, script: Callable[..., Ended], run: Path) -> None:
    before = digest(run)
    script("train", "--resume", run, "--run.iterations", "3", *arguments).is_refusal(part)
    assert digest(run) == before


NETWORK_DAMAGES: list[tuple[str, Callable[[Path], object], list[str]]] = [
    ("missing", lambda file: file.unlink(), ["network.safetensors"]),
    ("empty", lambda file: file.write_bytes(b""), ["is not a readable safetensors file"]),
    ("half", lambda file: truncated(file, 0.5), ["is not a readable safetensors file"]),
    ("text", lambda file: file.write_text("hello\nworld"), ["is not a readable safetensors file"]),
    ("a checkpoint", lambda file: shutil.copy(file.parent / STATE, file), ["is not a readable safetensors file"]),
]


@pytest.mark.parametrize(("damage", "parts"), [d[1:] for d in NETWORK_DAMAGES], ids=[d[0] for d in NETWORK_DAMAGES])
def test_a_damaged_network_neither_plays_nor_is_exported(
    damage: Callable[[Path], object], parts: list[str], script: Callable[..., Ended], run: Path
) -> None:
    damage(run / "network.safetensors")
    before = digest(run)
    script("export", run, "--format", "safetensors").is_refusal(str(run), *parts)
    with pytest.raises(TogyzError) as caught:
        make_agent(f"alphazero:run={run},sims=8")
    assert "\n" not in str(caught.value)
    for part in (str(run), *parts):
        assert part in str(caught.value)
    # Training does not read it; the closing matches of a finished run do. One that is missing is made anew from the checkpoint.
    if parts == ["network.safetensors"]:
        assert script("train", "--resume", run).status == 0
        assert (run / "network.safetensors").read_bytes() == (run / STATE).with_name("network.safetensors").read_bytes()
        return
    ended = script("train", "--resume", run)
    assert ended.status == 2
    assert [line for line in ended.lines if line.startswith("error: ")] == ended.lines[-1:]
    assert {name: value for name, value in digest(run).items() if name in before} == before


@pytest.mark.parametrize(
    ("description", "parts"),
    [
        ("alphazero", ["'run' is missing", "run (path, required)"]),
        ("alphazero:run=none", ["network: no file 'none'"]),
        ("alphazero:run={run},sims=0", ["sims must be at least 1, not 0"]),
        ("alphazero:run={run},sims=many", ["sims must be int", "'many'"]),
        ("alphazero:run={run},simulations=8", ["unknown parameter 'simulations'"]),
        ("alphazero:run={run},precision=int4", ["precision: 'int4' is not one of auto, float32, bfloat16, float16"]),
        ("alphazero:run={run},device=abacus", ["device: 'abacus' cannot be used here"]),
        ("alphazero:run={run},end=never", ["'never'", "expected 'majority' or 'playout'"]),
        ("alphazero:run={run},max_plies=0", ["max_plies", "0"]),
    ],
)
def test_wrong_descriptions_of_the_player(description: str, parts: list[str], sound: Path) -> None:
    with pytest.raises(TogyzError) as caught:
        make_agent(description.format(run=sound))
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


# 3


@pytest.mark.parametrize(
    ("fen", "parts"),
    [
        ("", ["''"]),
        ("hello", ["'hello'"]),
        ("9S,9S/9S,9S 0 0 S 1", ["9S,9S"]),
        ("9S,9S,9S,9S,9S,9S,9S,9S,9S/9S,9S,9S,9S,9S,9S,9S,9S,9S 0 1 S 1", ["163"]),
        ("9S,9S,9S,9S,9S,9S,9S,9S,9S/9S,9S,9S,9S,9S,9S,9S,9S,9S 0 0 W 1", ["'W'"]),
        ("9S,9S,9S,9S,9S,9S,9S,9S,9S/9S,9S,9S,9S,9S,9S,9S,9S,xx 0 0 S 1", ["'xx'"]),
    ],
)
def test_malformed_positions(fen: str, parts: list[str], script: Callable[..., Ended]) -> None:
    ended = script("perft", "--depth", "1", "--fen", fen)
    ended.is_refusal(*parts)
    assert ended.out == ""


# 4


def test_from_a_real_shell(run: Path, tmp_path: Path) -> None:
    foreign(run / STATE, pickle.dumps(Path("x")))  # torch has much to say about that
    before = digest(tmp_path)
    commands = [
        (["train.py", "--resume", str(run)], GO_BACK),
        (["perft.py", "--fen", "nonsense"], "nonsense"),
    ]
    running = [
        subprocess.Popen(
            [sys.executable, str(SCRIPTS / command[0]), *command[1:]],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command, _ in commands
    ]
    for process, (_, part) in zip(running, commands):
        out, error = process.communicate(timeout=120)
        Ended(process.returncode, out, error).is_refusal(part)
    assert digest(tmp_path) == before


def test_an_interrupted_run_is_saved_and_can_go_on(sound: Path, tmp_path: Path, script: Callable[..., Ended]) -> None:
    run = tmp_path / "run"
    shutil.copytree(sound, run)
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / "train.py"), "--resume", str(run), "--run.iterations", "1000000", "--selfplay.chunk", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr
    for line in process.stderr:
        if line.startswith("checkpoint ") and "000005" in line:
            process.send_signal(signal.SIGINT)
            break
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "SIGINT: the run is saved and ends" in error
    newest = int(max(path.name for path in (run / "checkpoints").glob("0*")))
    assert newest >= 5
    assert script("train", "--resume", run, "--run.iterations", newest + 1, "--final.pairs", "0").status == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError("Unable to allocate 7 TiB"), "error: not enough memory; Unable to allocate 7 TiB"),
        (OSError(28, "No space left on device", "runs/a"), "error: [Errno 28] No space left on device: 'runs/a'"),
        (TogyzError("two\nlines"), "error: two lines"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_the_end_of_a_script_is_one_line(error: BaseException, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as caught:
        console.run(main)
    assert caught.value.code == 2
    assert capsys.readouterr() == ("", line + "\n")
