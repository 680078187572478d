"""The replay in files: ``replay.store: file``.

1. It holds, draws and trains exactly what the replay in memory does, across files, resumes and changes of the store.
2. A checkpoint finds its samples unchanged, or says which file is at fault; files that no checkpoint needs go.
3. It can be larger than the memory that a process may use (slow).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import checkpoint_samples, go_on, result, small

from togyz_agents.training import checkpoint, stores
from togyz_agents.training.config import ReplayConfig, override
from togyz_agents.training.loop import train
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.stores import FileStore
from togyz_env import CheckpointError

ROOT = Path(__file__).resolve().parent.parent


def random_samples(rng: np.random.Generator, count: int) -> np.ndarray:
    samples = np.zeros(count, SAMPLE)
    samples["state"][:, 0] = 162 - (value := rng.integers(0, 163, count))
    samples["state"][:, 1] = value
    samples["full"] = rng.integers(0, 2, count)
    samples["surprise"] = rng.integers(0, 256, count)
    return samples


# 1


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    capacity=st.integers(1, 120),
    rows=st.integers(1, 50),
    window=st.floats(0.01, 1.0),
    minimum=st.integers(1, 50),
    reopen=st.integers(0, 11),
    seed=st.integers(0, 2**32 - 1),
)
def test_files_and_memory_hold_and_draw_the_same(
    counts: list[int],
    capacity: int,
    rows: int,
    window: float,
    minimum: int,
    reopen: int,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("replay") / "files"
    keys = {"capacity": capacity, "window": window, "minimum": minimum, "surprise": 0.5}
    memory, files = Replay(ReplayConfig(**keys)), Replay(ReplayConfig(**keys, store="file"), folder)  # type: ignore[arg-type]
    files._store = FileStore(folder, rows)
    rng = np.random.default_rng(seed)
    everything = np.zeros(0, SAMPLE)
    for n, count in enumerate(counts):
        new = random_samples(rng, count)
        everything = np.concatenate([everything, new])
        for replay in (memory, files):
            replay.add(new)
        assert len(files) == len(memory) == min(capacity, len(everything))
        assert files.contents().tobytes() == memory.contents().tobytes() == everything[len(everything) - len(files) :].tobytes()
        newest = everything[len(everything) - memory.window() :]
        surprises = newest["surprise"][newest["full"] == 1].astype(float)
        assert memory._mean_surprise() == files._mean_surprise() == (max(1.0, surprises.mean()) if len(surprises) else 1.0)
        if len(everything):
            drawn = [replay.draw(16, np.random.default_rng(seed)).tobytes() for replay in (memory, files)]
            assert drawn[0] == drawn[1]
        if n == reopen:
            sealed = json.loads(json.dumps(files.seal()))
            files.add(random_samples(rng, 30))  # of a time that is given up: the process is killed here
            total, held = memory.total, len(memory)
            files.close()
            store = FileStore(folder)
            store.restore(sealed, total)
            files = Replay(ReplayConfig(**keys, store="file"), folder)  # type: ignore[arg-type]
            files.restore(store, total, held)
            files.prune(total)
    files.close()


def test_a_run_can_change_its_store(tmp_path: Path) -> None:
    always, now_and_then = small(6), tmp_path / "changing"
    train(tmp_path / "memory", always)
    train(now_and_then, override(always, ["--run.iterations", "2"]))
    for iterations, store in ((4, "file"), (5, "memory"), (6, "file")):
        train(now_and_then, override(go_on(now_and_then, iterations), ["--replay.store", store]), resume=True)
    assert result(now_and_then) == result(tmp_path / "memory")


# 2


def samples_file(run: Path, number: int = 0) -> Path:
    return run / f"replay/{number:08d}.samples"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1000])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (Path.unlink, r"No such file or directory"),
        (lambda file: file.write_bytes(b""), r"it holds 0 samples, not the \d+ of the checkpoint"),
        (cut, r"it holds \d+ samples, not the \d+ of the checkpoint"),
        (flip, "its checksum is not that of what was written"),
        (lambda file: file.write_bytes(bytes(file.stat().st_size)), "its checksum is not that of what was written"),
    ],
)
def test_a_damaged_file_is_named(damage: Callable[[Path], object], reason: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(run, small(3, replay={"store": "file"}))
    damage(samples_file(run))
    with pytest.raises(CheckpointError, match=rf"resume: cannot read '.*00000000\.samples' \({reason}\); give --resume '.*000002'"):
        train(run, go_on(run, 4), resume=True)
    if damage is cut:  # the end of the file is not that of the checkpoint before
        assert train(run, go_on(run, 4), resume="good").iteration == 4


def test_files_go_when_no_checkpoint_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileStore.__init__, "__defaults__", (150,))
    run = tmp_path / "run"
    train(run, small(12, replay={"store": "file", "capacity": 500}))
    held = sorted(int(path.name[:8]) for path in (run / "replay").iterdir())
    total = checkpoint.load(run).state["replay total"]
    first_needed = min(json.loads(path.read_text())["first"] for path in (run / "checkpoints").glob("*/replay.json"))
    assert held == list(range(first_needed // 150, -(-total // 150)))
    assert held[0] > 0
    assert len(checkpoint_samples(run)) == 500
    for path in checkpoint.checkpoints(run):
        checkpoint.load(run, int(path.name))
    assert all(path.stat().st_size <= 150 * SAMPLE.itemsize for path in (run / "replay").iterdir())


# 3


@pytest.mark.slow
def test_a_replay_can_be_larger_than_memory(tmp_path: Path) -> None:
    code = f"""
        import resource, sys
        from pathlib import Path
        import numpy as np
        from togyz_agents.training.config import ReplayConfig
        from togyz_agents.training.replay import Replay
        from togyz_agents.training.samples import SAMPLE
        piece = np.zeros(500_000, SAMPLE)
        piece["state"][:, 0] = 162
        fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
        limit = 1024 * int(fields["VmData"].split()[0]) + 200_000_000
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            Replay(ReplayConfig(capacity=10_000_000))
        except MemoryError:
            print("memory: too small")
        replay = Replay(ReplayConfig(capacity=10_000_000, store="file"), Path({str(tmp_path / "replay")!r}))
        for n in range(24):
            piece["margin"] = n
            replay.add(piece)
        drawn = replay.draw(1000, np.random.default_rng(1))
        print(len(replay), replay.total, sorted(set(drawn["margin"].tolist())))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "agents")])},
    )
    assert ended.stdout.splitlines() == ["memory: too small", f"10000000 12000000 {list(range(12, 24))}"], ended.stderr
    assert stores.FILE_ROWS < 10_000_000
