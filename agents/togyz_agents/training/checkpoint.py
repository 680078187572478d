"""Checkpoints: everything that a run needs to go on exactly, in a directory that appears whole or not at all.

    RUN/checkpoints/000040/state.pt             counters, learner, generators, games in progress (torch, weights_only loads it)
                           replay.npy           the replay's samples, oldest first
                           network.safetensors  the average network alone, with its configuration
    RUN/network.safetensors                     the newest of these
    RUN/config.yaml                             the full configuration

A checkpoint is written under a temporary name and renamed; the newest ``keep`` stay.
"""

from __future__ import annotations

import os
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from togyz_agents.files import replace_file
from togyz_agents.network import Network, save_network
from togyz_agents.training import config as config_
from togyz_agents.training.config import Config
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.selfplay import WorkerState
from togyz_env.errors import CheckpointError

FORMAT = "togyz-checkpoint-1"
NETWORK_FILE = "network.safetensors"
CONFIG_FILE = "config.yaml"
FIRST_NETWORK = "first.safetensors"


def _tensors(state: WorkerState) -> dict[str, torch.Tensor]:
    """A worker's arrays as byte tensors: plain types that ``weights_only`` loading accepts, whatever their dtype."""
    return {name: torch.from_numpy(np.frombuffer(array.tobytes(), np.uint8).copy()) for name, array in state.arrays().items()}


def _worker_state(tensors: dict[str, torch.Tensor]) -> WorkerState:
    raw = {name: tensor.numpy() for name, tensor in tensors.items()}
    return WorkerState(
        state=raw["state"].reshape(-1, 23),
        ply=raw["ply"].view(np.int32),
        count=raw["count"].view(np.int32),
        stream=raw["stream"].view(np.uint64),
        samples=raw["samples"].view(SAMPLE),
    )


def save(
    run: Path, number: int, state: dict[str, Any], workers: list[WorkerState], replay: Replay, network: Network, keep: int
) -> Path:
    """Write checkpoint ``number`` of ``run`` and drop all but the newest ``keep``; return its directory."""
    parent = run / "checkpoints"
    parent.mkdir(parents=True, exist_ok=True)
    final = parent / f"{number:06d}"
    temporary = parent / f".{final.name}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    payload = state | {
        "format": FORMAT,
        "workers": [_tensors(worker) for worker in workers],
        "replay total": replay.total,
        "replay held": len(replay),
    }
    torch.save(payload, temporary / "state.pt")
    np.save(temporary / "replay.npy", replay.contents())
    save_network(network, temporary / NETWORK_FILE, iteration=str(number))
    for path in temporary.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    if final.exists():
        shutil.rmtree(final)
    os.replace(temporary, final)
    save_network(network, run / NETWORK_FILE, iteration=str(number))
    for old in checkpoints(run)[:-keep]:
        shutil.rmtree(old)
    return final


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of ``run``, oldest first; directories with other names (a temporary one, a copy) are none."""
    found = (path for path in (run / "checkpoints").glob("[0-9]*") if path.name.isdecimal() and path.is_dir())
    return sorted(found, key=lambda path: int(path.name))


def load(run: Path) -> tuple[dict[str, Any], list[WorkerState], np.ndarray]:
    """Read the newest checkpoint of ``run``: its state, its workers and the replay's contents.

    Raises:
        CheckpointError: when there is none, or it is damaged or of another program or version.
    """
    found = checkpoints(run)
    if not found:
        raise CheckpointError(
            f"resume: no checkpoint in {str(run / 'checkpoints')!r}; expected a run directory made by scripts/train.py"
        )
    advice = f"remove {str(found[-1])!r} to go on from the one before" if len(found) > 1 else "start a new run"
    path = found[-1] / "state.pt"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that are refused anyway
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling a damaged or foreign file can raise nearly anything
        raise _unreadable(path, error, advice) from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        kind = state.get("format") if isinstance(state, dict) else type(state).__name__
        raise CheckpointError(f"resume: {str(path)!r} has format {kind!r}, expected {FORMAT!r}; {advice}")
    try:
        workers = [_worker_state(worker) for worker in state["workers"]]
        held = state.get("replay held")
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise _unreadable(path, error, advice) from None
    path = found[-1] / "replay.npy"
    try:
        contents = np.load(path, allow_pickle=False)
        if not isinstance(contents, np.ndarray) or contents.dtype != SAMPLE:
            raise ValueError("these are no samples of this version")
        if held is not None and len(contents) != held:
            raise ValueError(f"{len(contents)} samples, not the {held} of this checkpoint")
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise _unreadable(path, error, advice) from None
    return state, workers, contents


def _unreadable(path: Path, error: Exception, advice: str) -> CheckpointError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if isinstance(error, pickle.UnpicklingError):  # its own text advises to load the file all the same
        reason = "not a file of tensors and plain values"
    return CheckpointError(f"resume: cannot read {str(path)!r} ({reason}); {advice}")


def save_config(run: Path, config: Config) -> None:
    """Write the full configuration into the run's directory."""
    replace_file(run / CONFIG_FILE, yaml.safe_dump(config_.to_dict(config), sort_keys=False).encode())


def load_config(run: Path) -> Config:
    """Read the configuration of a run; CheckpointError when ``run`` is no run directory."""
    if not (run / CONFIG_FILE).is_file():
        raise CheckpointError(f"run: {str(run)!r} has no {CONFIG_FILE}; expected a run directory made by scripts/train.py")
    return config_.load(run / CONFIG_FILE)
