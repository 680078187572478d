"""Small training runs for tests: what they leave, without clocks, and how they are brought to an end."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tiny import config

from togyz_agents.training import checkpoint
from togyz_agents.training.config import Config, override

ROOT = Path(__file__).resolve().parent.parent
OF_THE_CLOCK = ("speed/", "progress/minutes", "progress/cpu minutes")


def small(iterations: int = 4, **sections: dict[str, Any]) -> Config:
    """A run of seconds that saves each iteration; without a schedule, so that its length has no part in its training."""
    run = {"iterations": iterations, "checkpoint_every": 1, "keep": 2} | sections.pop("run", {})
    selfplay = {"chunk": 100, "slots": 8} | sections.pop("selfplay", {})
    learner = {"lr_drops": []} | sections.pop("learner", {})
    return config(run=run, selfplay=selfplay, learner=learner, rules={"max_plies": 30}, **sections)


def metrics(run: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if not name.startswith(OF_THE_CLOCK)} for row in rows]


def plain(value: Any) -> Any:
    """Nested states with tensors as bytes and without clocks."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in ("seconds", "cpu_seconds")}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.numpy().tobytes() if isinstance(value, torch.Tensor) else value


def result(run: Path) -> dict[str, Any]:
    """Everything that a run has learned and reports, but for what the clock says."""
    newest = checkpoint.checkpoints(run)[-1]
    with safe_open(run / "network.safetensors", "pt") as file:
        network = {name: file.get_tensor(name).numpy().tobytes() for name in file.keys()}  # noqa: SIM118 - not a dict
    return {
        "number": newest.name,
        "state": plain(torch.load(newest / "state.pt", weights_only=True)),
        "samples": hashlib.sha256(np.ascontiguousarray(checkpoint_samples(run))).hexdigest(),
        "network": network,
        "metrics": metrics(run),
    }


def checkpoint_samples(run: Path) -> np.ndarray:
    saved = checkpoint.load(run)
    if isinstance(saved.samples, np.ndarray):
        return saved.samples
    total, held = saved.state["replay total"], saved.state["replay held"]
    return saved.samples.take(np.arange(total - held, total))


def leftovers(run: Path) -> list[str]:
    return [str(path.relative_to(run)) for path in run.rglob("*") if path.name.endswith(".tmp")]


def go_on(run: Path, iterations: int) -> Config:
    return override(checkpoint.load_config(run), ["--run.iterations", str(iterations)])


CUTS = {  # what a kill can leave, one step of the writing of a checkpoint after the other
    "nothing yet": ("togyz_agents.training.checkpoint", "network_bytes", 2),
    "first file": ("togyz_agents.training.manifest", "write_file", 5),
    "second file": ("togyz_agents.training.manifest", "write_file", 6),
    "third file": ("togyz_agents.training.manifest", "write_file", 7),
    "manifest": ("togyz_agents.training.manifest", "write_file", 8),
    "renamed": ("togyz_agents.training.checkpoint", "_flush", 2),
    "newest network": ("togyz_agents.training.checkpoint", "replace_file", 4),
    "an old one": ("togyz_agents.training.checkpoint", "_drop", 1),
}


class Killed(BaseException):
    """The process is killed: nobody catches this but the tests."""


def kill_before(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str, call: int, error: type[BaseException] | OSError = Killed
) -> None:
    """Let call number ``call`` of a function be the end of the process."""
    whole_function = getattr(sys.modules[module], name)
    count = 0

    def function(*arguments: Any, **settings: Any) -> Any:
        nonlocal count
        count += 1
        if count == call:
            raise error
        return whole_function(*arguments, **settings)

    monkeypatch.setattr(f"{module}.{name}", function)
