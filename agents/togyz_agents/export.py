"""Taking a trained network out: safetensors for PyTorch, and one ONNX file for everything else.

The ONNX file takes ``encoded float32[batch, size]`` with any batch (an encoder of ``togyz_env.observation`` makes it) and gives
``policy [batch, 9]`` (logits, illegal actions not masked), ``outcome [batch, 3]`` (logits of win, draw, loss) and
``margin [batch]``, all for the side to move. Its metadata says which encoder, which order and which scale.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from togyz_agents.files import replace_file
from togyz_agents.network import MARGIN_SCALE, OUTCOMES, Network, NetworkOutput, load_network
from togyz_agents.players.alphazero import find_network
from togyz_env.batch import random_states
from togyz_env.errors import ConfigError, TogyzError
from togyz_env.observation import ENCODERS
from togyz_env.rules import HOLES

Format = Literal["safetensors", "onnx", "both"]
ONNX_FORMAT = "togyz-onnx-1"
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
INPUT = "encoded"
OUTPUTS = NetworkOutput._fields
CHECKED_BATCHES = (1, 3, 64, 257)
TOLERANCE = 1e-4
"""Largest accepted difference between an ONNX file and PyTorch; a sound file stays below 1e-5."""


@dataclass(frozen=True)
class Exported:
    """What an export has written.

    Attributes:
        encoder: name of the network's encoder.
        safetensors, onnx: the files; None where that format was not asked for.
        difference: largest difference between the outputs of the ONNX file and those of PyTorch, None without an ONNX file.
    """

    encoder: str
    safetensors: Path | None
    onnx: Path | None
    difference: float | None


def export(source: Path, out: Path | None = None, format: Format = "both", *, force: bool = False) -> Exported:
    """Write the network of ``source`` (a run or checkpoint directory, or a .safetensors file) for use elsewhere.

    Args:
        source: where the network is.
        out: directory to write to; by default ``export`` beside the network, so ``RUN/export``.
        format: which files.
        force: replace files that are there.

    Raises:
        CheckpointError: ``source`` holds no network, or a damaged one.
        ConfigError: a file exists already, the directory cannot be made, or the packages for ONNX are not installed.
        TogyzError: the ONNX file does not compute what the network does.
    """
    path = find_network(source)
    network = load_network(path)
    if format != "safetensors":
        _need_onnx()
    out = path.parent / "export" if out is None else out
    safetensors = out / f"{path.stem}.safetensors" if format != "onnx" else None
    onnx = out / f"{path.stem}.onnx" if format != "safetensors" else None
    for target in (safetensors, onnx):
        if target is not None and target.exists() and not force:
            raise ConfigError(f"export: {str(target)!r} exists already; give --force to replace it, or another --out")
    try:
        out.mkdir(parents=True, exist_ok=True)
        difference = None
        if onnx is not None:
            model = onnx_bytes(network)
            difference = largest_difference(network, model)
            if not difference <= TOLERANCE:
                raise TogyzError(f"export: the ONNX file differs from the network by {difference:.1e}, more than {TOLERANCE}")
            replace_file(onnx, model)
        if safetensors is not None:
            replace_file(safetensors, path.read_bytes())  # a valid one, as loading it has shown; its metadata stay
    except OSError as error:
        raise ConfigError(f"export: cannot write to {str(out)!r} ({error.strerror})") from None
    return Exported(network.config.encoder, safetensors, onnx, difference)


def onnx_bytes(network: Network) -> bytes:
    """Return ``network`` as an ONNX model in one piece, with a batch of any size.

    Raises:
        ConfigError: the packages for ONNX are not installed.
    """
    _need_onnx()
    size = ENCODERS[network.config.encoder].size
    network = network.to("cpu", torch.float32).eval()
    with _quiet():
        program = torch.onnx.export(
            network,
            (torch.zeros(2, size),),  # a batch of one would be taken for a constant
            dynamo=True,
            input_names=[INPUT],
            output_names=list(OUTPUTS),
            dynamic_shapes={INPUT: {0: torch.export.Dim("batch")}},
            external_data=False,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for node in model.graph.node:  # traces of this machine's folders
        del node.metadata_props[:]
    for key, value in metadata(network).items():
        model.metadata_props.add(key=key, value=value)
    data: bytes = model.SerializeToString()
    return data


def metadata(network: Network) -> dict[str, str]:
    """What a program needs to know of an ONNX file, as texts."""
    return {
        "format": ONNX_FORMAT,
        "network": json.dumps(asdict(network.config)),
        "encoder": network.config.encoder,
        "input_size": str(ENCODERS[network.config.encoder].size),
        "view": "side to move: inputs and outputs are seen from the player whose turn it is",
        "policy": f"{HOLES} logits, holes 1 to 9 of the side to move; empty holes are not masked",
        "outcome": f"{OUTCOMES} logits: win, draw, loss; value = P(win) - P(loss)",
        "margin": "final kazan of the side to move minus the opponent's, divided by margin_scale",
        "margin_scale": str(MARGIN_SCALE),
    }


def largest_difference(network: Network, model: bytes) -> float:
    """Compare an ONNX ``model`` run by ONNX Runtime with ``network`` on positions of random games, in batches of several sizes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    encoder = ENCODERS[network.config.encoder]
    worst = 0.0
    for batch in CHECKED_BATCHES:
        encoded = encoder.encode(random_states(batch, seed=batch))
        with torch.inference_mode():
            expected = network(torch.from_numpy(encoded))
        for ours, theirs in zip(expected, session.run(list(OUTPUTS), {INPUT: encoded}), strict=True):
            gap = np.abs(ours.numpy() - theirs)
            if gap.shape != tuple(ours.shape):
                raise TogyzError(
                    f"export: the ONNX file gives shape {theirs.shape} for a batch of {batch}, not {tuple(ours.shape)}"
                )
            worst = max(worst, float(gap.max()))
    return worst


def instructions(exported: Exported) -> str:
    """Say where the files are, and show how to load them: Python that runs as it stands."""
    lines = []
    if exported.safetensors is not None:
        lines += [
            f"# {exported.safetensors}: the network with its configuration",
            "from pathlib import Path",
            "from togyz_agents.agent import make_agent",
            "from togyz_agents.network import load_network",
            f'network = load_network(Path("{exported.safetensors.as_posix()}"))',
            f'agent = make_agent("alphazero:run={exported.safetensors.as_posix()},sims=400")',
            "",
        ]
    if exported.onnx is not None:
        lines += [
            f"# {exported.onnx}: differs from PyTorch by {exported.difference:.1e} at most",
            "import onnxruntime",
            "from togyz_env import Position",
            "from togyz_env.observation import ENCODERS",
            f'session = onnxruntime.InferenceSession("{exported.onnx.as_posix()}")',
            f'encoded = ENCODERS["{exported.encoder}"].encode(Position.start().state[None])',
            f'{", ".join(OUTPUTS)} = session.run(None, {{"{INPUT}": encoded}})  # for the side to move; see its metadata',
            "",
        ]
    return "\n".join(lines).rstrip()


def _need_onnx() -> None:
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f'export: ONNX needs {", ".join(missing)}; pip install "togyz[onnx]", or give --format safetensors')


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what the exporter has to say about packages and about itself."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
