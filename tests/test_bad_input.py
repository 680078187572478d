"""Bad input to the programs: one line that says what, where and what would be right; status 2; nothing is overwritten.

1. Wrong arguments and configurations of every script.
2. Run directories that are missing, foreign, truncated or edited: train.py, the AlphaZero player and export.py.
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
from togyz_agents.training.config import to_dict
from togyz_agents.training.loop import train
from togyz_env import TogyzError

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
    state = torch.load(file, weights_only=True)
    change(state)
    torch.save(state, file)


def truncated(file: Path, share: float) -> None:
    file.write_bytes(file.read_bytes()[: int(share * file.stat().st_size)])


def saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def npz(file: Path) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    file.write_bytes(buffer.getvalue())


GO_BACK = "to go on from the one before"
STATE, REPLAY = "checkpoints/000002/state.pt", "checkpoints/000002/replay.npy"
DAMAGES: list[tuple[str, Callable[[Path], object], list[str]]] = [
    ("no checkpoints", lambda run: shutil.rmtree(run / "checkpoints"), ["resume: no checkpoint in", "made by scripts/train.py"]),
    ("state missing", lambda run: (run / STATE).unlink(), [STATE, "No such file", GO_BACK]),
    ("state empty", lambda run: (run / STATE).write_bytes(b""), [STATE, GO_BACK]),
    ("state half", lambda run: truncated(run / STATE, 0.5), [STATE, GO_BACK]),
    ("state almost whole", lambda run: truncated(run / STATE, 0.99), [STATE, GO_BACK]),
    ("state is text", lambda run: (run / STATE).write_text("hello\nworld"), [STATE, GO_BACK]),
    ("state is a pickle", lambda run: (run / STATE).write_bytes(pickle.dumps(Path("x"))), [STATE, "plain values", GO_BACK]),
    ("state holds code", lambda run: (run / STATE).write_bytes(saved(torch.nn.Linear(1, 1))), [STATE, "plain values", GO_BACK]),
    ("state is a tensor", lambda run: (run / STATE).write_bytes(saved(torch.zeros(3))), [STATE, "has format 'Tensor'", GO_BACK]),
    ("state is foreign", lambda run: (run / STATE).write_bytes(saved({"model": 1})), [STATE, "has format None, expected", GO_BACK]),
    ("state of another version", lambda run: restate(run / STATE, lambda s: s.update(format="x-9")), [STATE, "has format 'x-9'"]),
    ("no workers", lambda run: restate(run / STATE, lambda s: s.pop("workers")), [STATE, GO_BACK]),
    ("no learner", lambda run: restate(run / STATE, lambda s: s.pop("learner")), ["does not fit config.yaml", "learner"]),
    ("no progress", lambda run: restate(run / STATE, lambda s: s.update(progress={"x": 1})), ["does not fit config.yaml"]),
    ("a worker too few", lambda run: restate(run / STATE, lambda s: s["workers"].clear()), ["games of 0 workers", "1 workers"]),
    ("torn games", lambda run: restate(run / STATE, lambda s: s["workers"][0].update(state=torch.zeros(5))), [STATE, GO_BACK]),
    ("replay missing", lambda run: (run / REPLAY).unlink(), [REPLAY, "No such file", GO_BACK]),
    ("replay empty", lambda run: (run / REPLAY).write_bytes(b""), [REPLAY, GO_BACK]),
    ("replay half", lambda run: truncated(run / REPLAY, 0.5), [REPLAY, GO_BACK]),
    ("replay is text", lambda run: (run / REPLAY).write_text("hello"), [REPLAY, GO_BACK]),
    ("replay of numbers", lambda run: np.save(run / REPLAY, np.zeros(3)), [REPLAY, "no samples of this version", GO_BACK]),
    ("replay is an archive", lambda run: npz(run / REPLAY), [REPLAY, "no samples of this version", GO_BACK]),
    ("replay holds code", lambda run: np.save(run / REPLAY, np.array([Path("x")]), allow_pickle=True), [REPLAY, GO_BACK]),
    (
        "replay of another run",
        lambda run: np.save(run / REPLAY, np.load(run / REPLAY)[5:]),
        [REPLAY, "samples, not the", "of this checkpoint", GO_BACK],
    ),
    ("config missing", lambda run: (run / "config.yaml").unlink(), ["has no config.yaml; expected a run directory"]),
    ("config torn", lambda run: (run / "config.yaml").write_text("run: ["), ["config.yaml: not YAML"]),
    ("config foreign", lambda run: (run / "config.yaml").write_text("a: 1"), ["config.yaml: a: unknown key"]),
    ("another width", lambda run: edited(run / "config.yaml", network__width=33), ["does not fit config.yaml", "size mismatch"]),
    ("another encoder", lambda run: edited(run / "config.yaml", network__encoder="rules"), ["does not fit config.yaml"]),
    ("other slots", lambda run: edited(run / "config.yaml", selfplay__slots=8), ["16 games in progress do not fit into 8 slots"]),
    ("other workers", lambda run: edited(run / "config.yaml", selfplay__workers=2), ["games of 1 workers do not fit 2 workers"]),
    ("shorter games", lambda run: edited(run / "config.yaml", rules__max_plies=9), ["does not fit config.yaml"]),
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


def test_the_advice_helps(script: Callable[..., Ended], run: Path) -> None:
    truncated(run / STATE, 0.5)
    ended = script("train", "--resume", run, "--run.iterations", "3", "--final.pairs", "0")
    match = re.search(r"remove '(.*?)'", ended.lines[0])
    assert match
    shutil.rmtree(match[1])
    assert script("train", "--resume", run, "--run.iterations", "3", "--final.pairs", "0").status == 0
    assert [json.loads(line)["iteration"] for line in (run / "metrics.jsonl").read_text().splitlines()] == [1, 2, 3]


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
    # Training does not read it; the closing matches of a finished run do.
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
    (run / STATE).write_bytes(pickle.dumps(Path("x")))  # torch has much to say about that
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


def test_an_interrupted_run_ends_at_once_and_can_go_on(sound: Path, tmp_path: Path, script: Callable[..., Ended]) -> None:
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
    assert process.returncode == 2
    assert error.splitlines()[-1] == "interrupted"
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
