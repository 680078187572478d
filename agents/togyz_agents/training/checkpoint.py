"""Checkpoints: everything that a run needs to go on exactly, in a directory that appears whole or not at all.

    RUN/checkpoints/000040/state.pt             counters, learner, generators, games in progress (torch, weights_only loads it)
                           replay.npy           the replay's samples, oldest first (``replay.store: memory``)
                           replay.json          or what its files are (``replay.store: file``)
                           network.safetensors  the average network alone, with its configuration
                           manifest.json        format, sizes and checksums of these
    RUN/replay/                                 these files
    RUN/network.safetensors                     the newest of the networks
    RUN/config.yaml                             the full configuration

A checkpoint is written under a temporary name and renamed; the newest ``keep`` stay. Nothing in it is pickled, and nothing of it
is used before its checksums are found right.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors import SafetensorError, safe_open

from togyz_agents.files import replace_file
from togyz_agents.network import Network, network_bytes
from togyz_agents.training import config as config_
from togyz_agents.training import manifest
from togyz_agents.training.config import Config
from togyz_agents.training.manifest import FIRST_FORMAT, FORMAT, MANIFEST, Damaged
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import SAMPLE, sound_states
from togyz_agents.training.selfplay import WorkerState
from togyz_agents.training.stores import FileStore
from togyz_env.errors import CheckpointError

STATE_FILE = "state.pt"
REPLAY_FILE = "replay.npy"
STORE_FILE = "replay.json"
REPLAY_FOLDER = "replay"
NETWORK_FILE = "network.safetensors"
CONFIG_FILE = "config.yaml"
FIRST_NETWORK = "first.safetensors"
_LEFTOVER = re.compile(r"\.\d+(\.old)?\.tmp|\..*\.\d+\.tmp")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """A checkpoint as read.

    Attributes:
        path: its directory.
        state: what the loop, the learner and the replay noted.
        workers: the games in progress.
        samples: ``SAMPLE[N]``, the replay's contents, oldest first, or the store that holds them.
    """

    path: Path
    state: dict[str, Any]
    workers: list[WorkerState]
    samples: np.ndarray | FileStore


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
    """Write checkpoint ``number`` of ``run`` and drop all but the newest ``keep``; return its directory.

    Raises:
        OSError: the disk takes no more, say; the checkpoints that were there are as before.
    """
    parent = run / "checkpoints"
    parent.mkdir(exist_ok=True)  # not its parents: a run that was removed does not come back as half of one
    final = parent / f"{number:06d}"
    temporary = parent / f".{final.name}.tmp"
    payload = state | {
        "format": FORMAT,
        "workers": [_tensors(worker) for worker in workers],
        "replay total": replay.total,
        "replay held": len(replay),
    }
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        buffer = io.BytesIO()
        torch.save(payload, buffer)
        written = {STATE_FILE: manifest.write_file(temporary / STATE_FILE, [buffer.getbuffer()])}
        if (sealed := replay.seal()) is None:
            written[REPLAY_FILE] = manifest.write_file(temporary / REPLAY_FILE, _npy(replay))
        else:
            written[STORE_FILE] = manifest.write_file(temporary / STORE_FILE, [json.dumps(sealed).encode()])
        weights = network_bytes(network, iteration=str(number))
        written[NETWORK_FILE] = manifest.write_file(temporary / NETWORK_FILE, [weights])
        manifest.seal(temporary, written)
        if final.exists():
            _drop(final)
        os.replace(temporary, final)
        _flush(parent)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    replace_file(run / NETWORK_FILE, weights)
    kept = checkpoints(run)[-keep:]
    for old in checkpoints(run)[: -len(kept)]:
        _drop(old)
    if sealed is not None:
        replay.prune(min(json.loads(path.read_bytes())["first"] for path in parent.glob(f"[0-9]*/{STORE_FILE}")))
    return final


def _npy(replay: Replay) -> Iterator[bytes]:
    """The replay as the pieces of a .npy file."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": np.lib.format.dtype_to_descr(SAMPLE), "fortran_order": False, "shape": (len(replay),)}
    )
    yield header.getvalue()
    for rows in replay.pieces():
        yield rows.tobytes()


def _flush(folder: Path) -> None:
    """Make a rename in ``folder`` last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _drop(folder: Path) -> None:
    """Delete a checkpoint; one that is deleted in part never has a checkpoint's name."""
    doomed = folder.with_name(f".{folder.name}.old.tmp")
    shutil.rmtree(doomed, ignore_errors=True)
    os.replace(folder, doomed)
    shutil.rmtree(doomed)


def clean(run: Path) -> None:
    """Remove what a killed process left half-written; only names that this package gives."""
    for folder in (run, run / "checkpoints", run / "ladder"):
        for path in folder.glob(".*.tmp"):
            if _LEFTOVER.fullmatch(path.name):
                log.info("removed %s, left by a process that was killed", path)
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def set_aside(run: Path, after: int) -> None:
    """Rename the checkpoints that are newer than number ``after``, so that none of them is taken for this run's future."""
    for path in checkpoints(run):
        if int(path.name) > after:
            target = path.with_name(f"{path.name}.unused")
            copies = 1
            while target.exists():
                copies += 1
                target = path.with_name(f"{path.name}.unused-{copies}")
            os.replace(path, target)
            log.warning("resume: %s is now %s; the run goes on from iteration %d", path, target.name, after)


def refresh_network(saved: Saved) -> None:
    """Bring RUN/network.safetensors up to the checkpoint, if the process was killed between the two."""
    newest = saved.path.parent.parent / NETWORK_FILE
    number = int(saved.path.name)
    with contextlib.suppress(SafetensorError, OSError, ValueError):
        if newest.exists():
            with safe_open(newest, framework="pt") as file:
                if int((file.metadata() or {}).get("iteration", number)) == number:
                    return
        replace_file(newest, (saved.path / NETWORK_FILE).read_bytes())


def checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of ``run``, oldest first; directories with other names (a temporary one, a copy) are none."""
    found = (path for path in (run / "checkpoints").glob("[0-9]*") if path.name.isdecimal() and path.is_dir())
    return sorted(found, key=lambda path: int(path.name))


def not_begun(run: Path) -> bool:
    """Whether ``run`` was stopped before its first checkpoint, so that going on means to begin again."""
    return (
        (run / CONFIG_FILE).is_file()
        and not checkpoints(run)
        and not (run / NETWORK_FILE).exists()
        and (run / FIRST_NETWORK).exists()
    )


def load(run: Path, number: int | None = None, fall_back: bool = False) -> Saved:
    """Read a checkpoint of ``run``.

    Args:
        run: directory of the run.
        number: which one; the newest by default.
        fall_back: where the newest is damaged take the newest good one, and log why.

    Raises:
        CheckpointError: when there is none, or it is damaged or of another program or version.
    """
    found = [path for path in checkpoints(run) if number is None or int(path.name) <= number]
    if not found or (number is not None and int(found[-1].name) != number):
        which = "no checkpoint" if number is None else f"no checkpoint {number:06d}"
        raise CheckpointError(f"resume: {which} in {str(run / 'checkpoints')!r}; expected a run directory made by scripts/train.py")
    first: Damaged | None = None
    while found:
        try:
            return _load(found[-1])
        except Damaged as error:
            first = first or error
            bad = found.pop()
            if not fall_back:
                break
            log.warning("resume: %s cannot be used: %s (%s)", bad, error.path.name, error)
    assert first is not None
    if found:
        advice = f"give --resume {str(found[-1])!r} to go on from the one before"
    else:
        advice = "start a new run" if number is None else f"give --resume {str(run)!r} for the newest, or start a new run"
    raise CheckpointError(f"resume: cannot read {str(first.path)!r} ({first}); {advice}")


def _load(folder: Path) -> Saved:
    """Read one checkpoint; Damaged when it is not as it was written."""
    path = folder / STATE_FILE
    files = None
    if (folder / MANIFEST).exists():
        files = manifest.read(folder)
        for name, entry in files.items():
            if name not in (STATE_FILE, REPLAY_FILE, STORE_FILE, NETWORK_FILE):
                raise Damaged(folder / MANIFEST, f"it tells of a foreign file {name[:60]!r}")
            manifest.check_file(folder / name, entry)
    state = _read_state(path)
    if files is None:
        if state["format"] != FIRST_FORMAT:
            raise Damaged(folder / MANIFEST, "No such file or directory")
        log.warning("resume: %s is of the first format and has no checksums", folder)
    try:
        workers = [_worker_state(worker) for worker in state["workers"]]
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise Damaged(path, _first_line(error)) from None
    samples: np.ndarray | FileStore
    if files is not None and STORE_FILE in files:
        samples = _read_store(folder / STORE_FILE, folder.parent.parent / REPLAY_FOLDER, state.get("replay total"))
    else:
        samples = _read_replay(folder / REPLAY_FILE, state.get("replay held"))
    return Saved(folder, state, workers, samples)


def _read_state(path: Path) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about files that are refused anyway
            state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # its own text advises to load the file all the same
        raise Damaged(path, "not a file of tensors and plain values") from None
    except Exception as error:  # unpickling a damaged or foreign file can raise nearly anything
        raise Damaged(path, _first_line(error)) from None
    if not isinstance(state, dict):
        raise Damaged(path, f"it has format {type(state).__name__!r}, expected {FORMAT!r}")
    manifest.check_format(path, state.get("format"))
    return state


def _read_replay(path: Path, held: object) -> np.ndarray:
    try:
        contents = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError, TypeError, SyntaxError, MemoryError) as error:
        raise Damaged(path, _first_line(error)) from None
    if not isinstance(contents, np.ndarray) or contents.dtype != SAMPLE or contents.ndim != 1:
        raise Damaged(path, "these are no samples of this version")
    if held is not None and len(contents) != held:
        raise Damaged(path, f"{len(contents)} samples, not the {held} of this checkpoint")
    if not sound_states(contents["state"]).all():
        raise Damaged(path, "it holds positions that cannot occur")
    return contents


def _read_store(path: Path, folder: Path, total: object) -> FileStore:
    store = FileStore(folder)
    try:
        sealed = json.loads(path.read_bytes())
        if not isinstance(total, int):
            raise TypeError("no total")
        store.restore(sealed, total)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Damaged(path, _first_line(error)) from None
    return store


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def save_config(run: Path, config: Config) -> None:
    """Write the full configuration into the run's directory."""
    replace_file(run / CONFIG_FILE, yaml.safe_dump(config_.to_dict(config), sort_keys=False).encode())


def load_config(run: Path) -> Config:
    """Read the configuration of a run; CheckpointError when ``run`` is no run directory."""
    if not (run / CONFIG_FILE).is_file():
        raise CheckpointError(f"run: {str(run)!r} has no {CONFIG_FILE}; expected a run directory made by scripts/train.py")
    return config_.load(run / CONFIG_FILE)
