"""Training on machines that die: runs that are killed or told to stop.

1. A run killed at any moment, also at any step of the writing of a checkpoint, resumes and equals one that was never killed: no
   game or sample is trained twice or lost; what the killed process left half-written is removed.
2. SIGTERM and Ctrl-C save and exit with a message; the second one exits at once. One process at a time uses a run.

Damaged files are in test_bad_input, other promises about resuming in test_training.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from small_runs import CUTS, Killed, go_on, kill_before, leftovers, metrics, result, small

from togyz_agents.training import checkpoint, loop
from togyz_agents.training.config import Config, override, to_dict
from togyz_agents.training.loop import train
from togyz_agents.training.stopping import Stop
from togyz_env import CheckpointError

ROOT = Path(__file__).resolve().parent.parent


def script(run: Path, before: str = "") -> subprocess.Popen[str]:
    """``train.py --resume auto`` on ``run`` in a process of its own, after the lines ``before``; ``written`` was called for it."""
    arguments = ["train.py", "--config", f"{run}.yaml", "--resume", "auto", "--run.dir", str(run)]
    lines = f"""
        import os, signal, sys, runpy
        sys.argv = {arguments!r}
    """
    train_py = str(ROOT / "scripts/train.py")
    code = textwrap.dedent(lines) + textwrap.dedent(before) + f"runpy.run_path({train_py!r}, run_name='__main__')"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "agents")])},
    )


def written(run: Path, configuration: Config) -> Path:
    """Lay the configuration of ``run`` beside it, for ``script``; return ``run``."""
    data = to_dict(configuration)
    data["final"]["pairs"] = 0
    run.with_name(run.name + ".yaml").write_text(json.dumps(data))
    return run


# 1


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize("cut", CUTS)
def test_a_run_that_ends_at_any_step_of_a_checkpoint_goes_on_to_the_same(
    cut: str, store: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    configuration = small(replay={"store": store})
    with monkeypatch.context() as patch:
        kill_before(patch, *CUTS[cut])
        with pytest.raises(Killed):
            train(run, configuration)
    before = len(checkpoint.checkpoints(run))
    assert before >= 1
    train(run, configuration, resume=True)
    found, expected = result(run), result(whole)
    assert found == expected
    assert leftovers(run) == []


@pytest.mark.parametrize("step", ["save_network", "save_config"])
def test_a_run_appears_whole_or_not_at_all(step: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "togyz_agents.training.loop" if step == "save_network" else "togyz_agents.training.checkpoint"
    with monkeypatch.context() as patch:
        kill_before(patch, module, step, 1)
        with pytest.raises(Killed):
            train(tmp_path / "run", small())
    assert not (tmp_path / "run").exists()
    train(tmp_path / "run", small())  # the same command again
    assert result(tmp_path / "run") == result(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_that_ends_before_its_first_checkpoint_begins_again(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def watch(*_: Any) -> None:
        raise Killed

    with pytest.raises(Killed):
        train(run, small(), watch=watch)
    assert metrics(run) == metrics(whole)[:1]  # figures of an iteration that is not saved
    train(run, small(), resume=True)
    assert result(run) == result(whole)


def kill_and_resume(run: Path, times: int, rng: random.Random, longest: float) -> list[float]:
    """SIGKILL the run's process so many times: at random moments, every second time while it writes a checkpoint."""
    moments = []
    for n in range(times):
        inside = """
            from togyz_agents.training import manifest
            whole, calls = manifest.write_file, 0
            def write_file(path, pieces):
                global calls
                calls += 1
                if calls == {call}:
                    data = b"".join(bytes(piece) for piece in pieces)
                    with open(path, "wb") as file:
                        file.write(data[: len(data) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return whole(path, pieces)
            manifest.write_file = write_file
        """
        process = script(run, inside.format(call=rng.randint(1, 12)) if n % 2 else "")
        assert process.stderr
        begun = time.monotonic()
        if n % 2 == 0:
            # Begin to count with the process's first word of training: before it nothing is open.
            while not (line := process.stderr.readline()).startswith("checkpoint") and line:
                pass
            time.sleep(rng.uniform(0, longest))
            process.kill()
        _, error = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, error
        moments.append(time.monotonic() - begun)
    return moments


@pytest.mark.parametrize(("times", "store"), [(1, "memory"), pytest.param(20, "file", marks=pytest.mark.slow)])
def test_a_run_killed_again_and_again_equals_one_that_never_was(times: int, store: str, tmp_path: Path) -> None:
    iterations = 400 * times
    run = written(tmp_path / "killed", small(iterations, run={"seed": 7}, replay={"store": store, "capacity": 3000}))
    kill_and_resume(run, times, random.Random(times), 1.0)
    reached = int(checkpoint.checkpoints(run)[-1].name)
    train(run, go_on(run, reached + 2), resume=True)
    train(tmp_path / "never", checkpoint.load_config(run))
    assert result(run) == result(tmp_path / "never")
    assert [row["iteration"] for row in metrics(run)] == list(range(1, reached + 3))
    assert leftovers(run) == []


# 2


def wait_for(file: Path, lines: int) -> None:
    """Wait until a file has so many lines."""
    end = time.monotonic() + 200
    while not file.exists() or file.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_sigterm_and_ctrl_c_save_and_a_second_one_ends_at_once(tmp_path: Path) -> None:
    never_saved = small(10**6, run={"checkpoint_every": 10**6})
    slow = """
        from togyz_agents.training import checkpoint
        import time
        checkpoint.save = lambda *_: time.sleep(1000)
    """
    terminated, interrupted = (written(tmp_path / name, never_saved) for name in ("terminated", "interrupted"))
    first, second = script(terminated), script(interrupted, slow)
    for run, process, number in ((terminated, first, signal.SIGTERM), (interrupted, second, signal.SIGINT)):
        wait_for(run / "metrics.jsonl", 2)
        process.send_signal(number)
    out, error = first.communicate(timeout=60)
    assert first.returncode == 128 + signal.SIGTERM
    assert "SIGTERM: the run is saved and ends; once more to end it at once" in error
    match = re.search(r"stopped by SIGTERM, saved after iteration (\d+)", out)
    assert match
    assert f"--resume {terminated}" in out.replace("\n", "")
    reached = int(match[1])
    assert checkpoint.checkpoints(terminated)[-1].name == f"{reached:06d}"
    assert len(metrics(terminated)) == reached

    assert second.stderr
    assert any(line.startswith("SIGINT: the run is saved") for line in iter(second.stderr.readline, ""))
    asked = time.monotonic()
    second.send_signal(signal.SIGINT)
    _, error = second.communicate(timeout=60)
    assert time.monotonic() - asked < 30
    assert second.returncode == 128 + signal.SIGINT
    assert "stopped at once; --resume goes on from the last checkpoint" in error
    assert checkpoint.not_begun(interrupted)

    train(terminated, override(go_on(terminated, reached + 1), ["--run.checkpoint-every", "1"]), resume=True)
    train(tmp_path / "never", small(reached + 1))
    assert result(terminated) == result(tmp_path / "never")


@pytest.mark.parametrize("iteration", [1, 3])
def test_a_stop_saves_what_the_last_whole_iteration_left(iteration: int, whole: Path, tmp_path: Path) -> None:
    stop = Stop()

    def watch(progress: loop.Progress, *_: Any) -> None:
        if progress.iteration == iteration:
            stop.name = "SIGTERM"

    run = tmp_path / "run"
    assert train(run, small(run={"checkpoint_every": 100}), watch=watch, stop=stop).iteration == iteration
    assert [path.name for path in checkpoint.checkpoints(run)] == [f"{iteration:06d}"]
    train(run, small(), resume=True)
    assert result(run) == result(whole)


def test_a_stop_does_not_wait_for_a_long_chunk(tmp_path: Path) -> None:
    stop = Stop()
    timer = threading.Timer(1.0, lambda: setattr(stop, "name", "SIGINT"))
    timer.start()
    progress = train(tmp_path / "run", small(selfplay={"chunk": 10**9}), stop=stop)
    assert (progress.iteration, stop.status) == (0, 130)
    assert checkpoint.not_begun(tmp_path / "run")
    timer.join()


def test_signals_are_given_back(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Stop():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_two_processes_do_not_train_in_one_run(copy: Path) -> None:
    def watch(*_: Any) -> None:
        with pytest.raises(CheckpointError, match="is in use by another process"):
            train(copy, go_on(copy, 6), resume=True)

    train(copy, go_on(copy, 5), resume=True, watch=watch)
    train(copy, go_on(copy, 6), resume=True)  # the lock is gone
