"""Training when something breaks: it stops loudly, and what was saved stays good.

1. A loss, gradient, weight or output that is no number stops the run, and never gets into a checkpoint.
2. A worker that fails, ends or hangs is noticed within seconds; what the run had learned is saved; it stops with one line.
3. A full disk, a directory that takes no files and a missing one are one clear line; the last checkpoint stays good.
"""

from __future__ import annotations

import os
import resource
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import CUTS, checkpoint_samples, go_on, kill_before, leftovers, metrics, result, small

from togyz_agents.evaluator import NetworkEvaluator
from togyz_agents.network import Network
from togyz_agents.training import checkpoint, loop, workers
from togyz_agents.training.config import override
from togyz_agents.training.learner import Learner
from togyz_agents.training.loop import train
from togyz_agents.training.replay import Replay
from togyz_agents.training.selfplay import SelfPlayWorker
from togyz_env import ConfigError, TogyzError, TrainingError

# 1


def test_a_network_that_gives_no_numbers_stops_the_run_and_is_not_saved(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    load, calls = NetworkEvaluator.load, []

    def damaged(self: NetworkEvaluator, network: Network) -> None:
        calls.append(self)
        load(self, network)
        if len(calls) == 4:  # the first is its construction
            self._bias[0] = np.nan

    with monkeypatch.context() as patch:
        patch.setattr(NetworkEvaluator, "load", damaged)
        with pytest.raises(TogyzError, match="evaluator: NaN, infinite or all on illegal moves"):
            train(run, small())
    assert [path.name for path in checkpoint.checkpoints(run)] == ["000001", "000002"]
    train(run, small(), resume=True)
    assert result(run) == result(whole)


@pytest.mark.parametrize("reuse", [0.6, 5.0])
def test_weights_that_blow_up_are_never_saved(reuse: float, copy: Path) -> None:
    """With one step an iteration only the next loss would tell, and that step comes after the checkpoint."""
    before = result(copy)
    wild = override(go_on(copy, 9), ["--learner.lr", "1e30", "--learner.warmup-steps", "0", "--learner.reuse", str(reuse)])
    with pytest.raises(TrainingError, match=r"learner: .*; lower learner\.lr"):
        train(copy, wild, resume=True)
    assert [path.name for path in checkpoint.checkpoints(copy)] == ["000003", "000004"]
    found = result(copy)
    for part in ("state", "samples", "network"):
        assert found[part] == before[part]


def test_an_infinite_loss_with_finite_gradients_is_an_error(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from togyz_agents.training import learner as learner_

    samples = checkpoint_samples(whole)
    replay = Replay(small().replay)
    replay.add(samples)
    one = Learner(small().learner, Network(small().network), np.random.SeedSequence(1))
    losses = learner_.losses

    def infinite(*arguments: Any) -> Any:
        parts, expected = losses(*arguments)
        return parts._replace(margin=torch.tensor(float("inf"))), expected

    monkeypatch.setattr(learner_, "losses", infinite)
    with pytest.raises(TrainingError, match=r"learner: loss inf with gradient norm [0-9.]+ at step 0"):
        one.train(replay, 1, 0.0)


@pytest.mark.parametrize("part", ["network", "average", "optimiser"])
def test_what_is_not_finite_is_not_saved(part: str, whole: Path) -> None:
    samples = checkpoint_samples(whole)
    replay = Replay(small().replay)
    replay.add(samples)
    one = Learner(small().learner, Network(small().network), np.random.SeedSequence(1))
    one.train(replay, 2, 0.0)
    one.check(samples)
    with torch.no_grad():
        if part == "optimiser":
            next(iter(one._optimiser.state.values()))["exp_avg"][0] = float("inf")
        else:
            getattr(one, part).input.weight[0, 0] = float("nan")
    with pytest.raises(TrainingError, match=f"learner: the {part} .* not saved"):
        one.check(samples)


# 2


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("fails", r"self-play: worker 2 of 2 failed \(ValueError: torn cable\); the run stops"),
        ("exits", r"self-play: worker 2 of 2 failed \(SystemExit: .*\); the run stops"),
        ("hangs", r"self-play: worker 2 of 2 hangs: no batch for \d s, selfplay\.patience is 0\.5 s; the run stops"),
    ],
)
def test_a_worker_that_fails_or_hangs_stops_the_run_and_loses_nothing(
    how: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, released = tmp_path / "run", threading.Event()
    step = SelfPlayWorker._step
    faulty: list[SelfPlayWorker] = []

    def broken(self: SelfPlayWorker, delivered: list[np.ndarray]) -> int:
        if faulty and threading.current_thread().name == "self-play_1":
            if how == "fails":
                raise ValueError("torn\ncable")
            if how == "exits":
                raise SystemExit(3)
            released.wait(100)
        return step(self, delivered)

    def watch(progress: loop.Progress, *_: Any) -> None:
        if progress.iteration == 2:
            faulty.append(self_)

    self_: Any = None
    two = {"workers": 2, "patience": 0.5}
    with monkeypatch.context() as patch:
        patch.setattr(SelfPlayWorker, "_step", broken)
        begun = time.monotonic()
        with pytest.raises(TrainingError, match=message):
            train(run, small(run={"checkpoint_every": 100}, selfplay=two), watch=watch)
        assert time.monotonic() - begun < 30
        released.set()
    reached = int(checkpoint.checkpoints(run)[-1].name)
    assert reached >= 2
    assert len(metrics(run)) == reached
    train(run, small(selfplay=two), resume=True)
    train(tmp_path / "never", small(selfplay=two))
    assert result(run) == result(tmp_path / "never")
    for thread in threading.enumerate():
        if thread.name.startswith("self-play"):
            thread.join(10)
            assert not thread.is_alive()


def test_a_worker_that_hangs_in_its_first_batch_or_ends_without_a_word_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr(workers, "FIRST_BATCH", 1)
    with monkeypatch.context() as patch:
        patch.setattr(SelfPlayWorker, "_step", lambda *_: released.wait(100))
        with pytest.raises(TrainingError, match="worker 1 of 1 hangs"):
            train(tmp_path / "hangs", small(selfplay={"patience": 0.5}))
        released.set()
    monkeypatch.setattr(workers._Thread, "_run", lambda self: None)
    with pytest.raises(TrainingError, match="worker 1 of 1 ended without a word"):
        train(tmp_path / "ends", small())


# 3


class FileSizeLimit:
    """No file of this process can grow beyond so many bytes: like a full disk, every write may fail."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


@pytest.mark.parametrize(
    ("store", "chunk", "size", "file"),
    [
        ("memory", 100, 300, ""),
        ("memory", 100, 16_000, "state.pt"),
        ("memory", 4000, 150_000, "replay.npy"),
        ("file", 4000, 150_000, "00000000.samples"),
    ],
)
def test_a_disk_that_takes_no_more_stops_the_run(store: str, chunk: int, size: int, file: str, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    configuration = small(4 if chunk == 100 else 1, replay={"store": store}, selfplay={"chunk": chunk})
    with FileSizeLimit(size), pytest.raises(TogyzError, match=r"cannot (write|create) '.*' \(File too large\)") as caught:
        train(run, configuration)
    assert "\n" not in str(caught.value)
    assert f"{file}' (File" in str(caught.value)
    if not file:
        assert list(tmp_path.iterdir()) == []
        return
    assert f"the run stops, it has no checkpoint yet; put that right, then give --resume {run}" in str(caught.value)
    assert leftovers(run) == []
    assert train(run, configuration, resume=True).iteration == configuration.run.iterations
    if chunk == 100:
        assert result(run) == result(whole)


FAULTS = {name: cut for name, cut in CUTS.items() if name != "nothing yet"} | {
    "figures": ("togyz_agents.training.metrics", "append_line", 2),
    "replay": ("togyz_agents.training.stores", "naming", 4),
    "configuration": ("togyz_agents.training.checkpoint", "save_config", 2),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_write_leaves_the_last_checkpoint_good(
    fault: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    configuration = small(replay={"store": "file"})
    with monkeypatch.context() as patch:
        kill_before(patch, *FAULTS[fault], OSError(28, "No space left on device"))
        with pytest.raises(
            TrainingError, match=r"^run: cannot write '.*' \(No space left on device\); the run stops, it.*--resume"
        ):
            train(run, configuration)
    for path in checkpoint.checkpoints(run):
        checkpoint.load(run, int(path.name))
    train(run, configuration, resume=True)
    assert result(run) == result(whole)
    assert leftovers(run) == []


def test_a_really_full_disk_is_one_line(copy: Path) -> None:
    figures = copy / "metrics.jsonl"

    def watch(progress: loop.Progress, *_: Any) -> None:
        if progress.iteration == 5:
            shutil.move(figures, copy / "figures")
            figures.symlink_to("/dev/full")

    with pytest.raises(TrainingError) as caught:
        train(copy, go_on(copy, 8), resume=True, watch=watch)
    last = copy / "checkpoints/000005"
    assert str(caught.value) == (
        f"run: cannot write {str(figures)!r} (No space left on device); the run stops, its last checkpoint is {str(last)!r}; "
        f"put that right, then give --resume {copy}"
    )
    shutil.move(copy / "figures", figures)
    assert train(copy, go_on(copy, 6), resume=True).iteration == 6


def test_a_run_directory_that_is_gone_is_one_line(copy: Path) -> None:
    def watch(*_: Any) -> None:
        copy.rename(copy.with_name("elsewhere"))

    with pytest.raises(TrainingError, match=r"run: cannot write .* \(No such file or directory\); the run stops"):
        train(copy, go_on(copy, 6), resume=True, watch=watch)
    assert not copy.exists()


class Nobody:
    """Without the rights of root, where the tests have them."""

    def __enter__(self) -> None:
        self.before = os.geteuid()
        if self.before == 0:
            os.seteuid(65534)

    def __exit__(self, *_: object) -> None:
        os.seteuid(self.before)


def test_a_directory_without_write_permission_is_one_line(whole: Path, copy: Path) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        run = Path(shutil.copytree(copy, folder / "run"))
        for path in (run, run / "checkpoints", folder):
            path.chmod(0o555)
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        try:
            with Nobody(), pytest.raises(TrainingError, match=r"run: cannot write .*run.* \(Permission denied\); .*000004"):
                train(run, go_on(run, 6), resume=True)
            with Nobody(), pytest.raises(ConfigError, match=r"run\.dir: cannot create .*new.* \(Permission denied\)"):
                train(folder / "new", small())
        finally:
            for path in (run, run / "checkpoints", folder):
                path.chmod(0o755)
        assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
        assert result(run) == result(whole)
