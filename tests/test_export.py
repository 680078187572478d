"""Export: the files that a trained network leaves a run in.

1. The ONNX file is one file, takes any batch, and gives what PyTorch gives.
2. It says what a program must know to use it, and nothing about the machine that made it.
3. The safetensors file is the network with its configuration.
4. What is printed runs as it stands.
5. Nothing is overwritten unasked; mistakes end as errors of one line.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from togyz_agents import export as export_
from togyz_agents.export import Exported, export, instructions, largest_difference, onnx_bytes
from togyz_agents.network import Network, NetworkConfig, load_network, save_network
from togyz_env.batch import random_states
from togyz_env.errors import CheckpointError, ConfigError, TogyzError
from togyz_env.observation import ENCODERS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

ROOT = Path(__file__).resolve().parent.parent


def new_network(seed: int = 5, **config: Any) -> Network:
    """A small network whose three outputs are far from 0."""
    torch.manual_seed(seed)
    network = Network(NetworkConfig(**({"width": 24, "blocks": 2} | config))).eval()
    with torch.no_grad():
        network.output.weight.mul_(10)
    return network


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that looks like a run."""
    path = tmp_path_factory.mktemp("run")
    save_network(new_network(), path / "network.safetensors", iteration="7")
    return path


@pytest.fixture(scope="module")
def exported(run: Path) -> Exported:
    return export(run)


def test_a_run_is_exported_to_its_own_folder(run: Path, exported: Exported) -> None:
    assert exported.safetensors == run / "export" / "network.safetensors"
    assert exported.onnx == run / "export" / "network.onnx"
    assert {path.name for path in (run / "export").iterdir()} == {"network.safetensors", "network.onnx"}  # no external data


@pytest.mark.parametrize("batch", [1, 2, 5, 100])
def test_onnx_gives_what_pytorch_gives_at_any_batch(exported: Exported, batch: int) -> None:
    session = onnxruntime.InferenceSession(str(exported.onnx))
    encoded = ENCODERS["rules"].encode(random_states(batch, seed=1))
    policy, outcome, margin = session.run(["policy", "outcome", "margin"], {"encoded": encoded})
    assert [array.shape for array in (policy, outcome, margin)] == [(batch, 9), (batch, 3), (batch,)]
    with torch.inference_mode():
        expected = new_network()(torch.from_numpy(encoded))
    for ours, theirs in zip(expected, (policy, outcome, margin)):
        assert np.abs(theirs).max() > 0.01
        np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-5)


def test_the_onnx_file_describes_itself(exported: Exported) -> None:
    model = onnx.load(exported.onnx)
    onnx.checker.check_model(model, full_check=True)
    (given,) = model.graph.input
    batch, size = given.type.tensor_type.shape.dim
    assert (given.name, batch.dim_param, size.dim_value) == ("encoded", "batch", 598)
    assert given.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    told = {entry.key: entry.value for entry in model.metadata_props}
    assert (told["encoder"], told["input_size"], told["margin_scale"]) == ("rules", "598", "81.0")
    assert told["view"].startswith("side to move")
    assert "win, draw, loss" in told["outcome"]
    assert ROOT.as_posix().encode() not in exported.onnx.read_bytes()  # type: ignore[union-attr]


def test_another_encoder_and_no_blocks_are_exported_too() -> None:
    network = new_network(encoder="plain", blocks=0)
    assert largest_difference(network, onnx_bytes(network)) < 1e-5


def test_the_safetensors_file_is_the_network_with_its_metadata(run: Path, exported: Exported) -> None:
    assert exported.safetensors is not None
    network = load_network(exported.safetensors)
    assert network.config == NetworkConfig(width=24, blocks=2)
    for name, tensor in new_network().state_dict().items():
        assert torch.equal(network.state_dict()[name], tensor)
    assert exported.safetensors.read_bytes() == (run / "network.safetensors").read_bytes()


def test_what_is_printed_runs_as_it_stands(exported: Exported) -> None:
    scope: dict[str, Any] = {}
    exec(instructions(exported), scope)
    assert scope["policy"].shape == (1, 9)
    assert scope["network"].config.width == 24
    assert "sims=400" in scope["agent"].name


def test_nothing_is_overwritten_unless_forced(run: Path, exported: Exported, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"network\.safetensors' exists already; give --force"):
        export(run)
    for name in ("network.safetensors", "network.onnx"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(ConfigError, match=f"{name}' exists already"):
            export(run, tmp_path)
        assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
        (tmp_path / name).unlink()
    (tmp_path / "network.safetensors").write_text("mine")
    export(run, tmp_path, "safetensors", force=True)
    assert load_network(tmp_path / "network.safetensors").config.width == 24


def test_one_format_alone(run: Path, tmp_path: Path) -> None:
    exported = export(run / "network.safetensors", tmp_path / "new" / "folder", "safetensors")
    assert (exported.onnx, exported.difference) == (None, None)
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["network.safetensors"]
    assert "onnx" not in instructions(exported)


def test_a_file_that_differs_from_the_network_is_not_written(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exported.onnx is not None
    of_another = exported.onnx.read_bytes()
    monkeypatch.setattr(export_, "onnx_bytes", lambda network: of_another)
    save_network(new_network(seed=6), tmp_path / "network.safetensors")
    with pytest.raises(TogyzError, match="differs from the network by"):
        export(tmp_path)
    assert list((tmp_path / "export").iterdir()) == []


def test_what_is_no_network_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no network"):
        export(tmp_path)
    with pytest.raises(CheckpointError, match="no file"):
        export(tmp_path / "missing")
    (tmp_path / "notes.safetensors").write_text("not a network")
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        export(tmp_path / "notes.safetensors")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write to"):
        export(run, tmp_path / "file", "safetensors")


def test_without_the_packages_one_line_names_the_extra(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "togyz\[onnx\]"'):
        export(run, tmp_path)
    assert list(tmp_path.iterdir()) == []
    export(run, tmp_path, "safetensors")


def test_the_script_ends_with_one_line(run: Path, exported: Exported, tmp_path: Path) -> None:
    def script(*arguments: str) -> tuple[int, str, list[str]]:
        command = [sys.executable, str(ROOT / "scripts" / "export.py"), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return result.returncode, result.stdout, result.stderr.splitlines()

    status, printed, errors = script(str(run), "--out", str(tmp_path), "--format", "safetensors")
    assert (status, errors) == (0, [])
    assert f'load_network(Path("{tmp_path / "network.safetensors"}"))' in printed
    status, printed, errors = script(str(run), "--format", "pickle")
    assert (status, printed, len(errors)) == (2, "", 1)
    assert errors[0].startswith("error: command line: ")
