"""Evaluators and the network's file: one place between state rows and network outputs, and nothing lost on the way.

1. Illegal moves have probability exactly 0; legal ones have the network's logits; the value is P(win) - P(loss).
2. A result does not depend on the rest of the batch, nor on the colours: a mirrored position gives the same.
3. The weights are copied: later training does not reach an evaluator until ``load``, which takes over everything.
4. Precisions and devices: the known ones work, others are refused; "auto" picks a known one.
5. A network's file gives the same network again; a damaged or foreign one is refused in one line.
6. A widened network computes what it did before.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from boards import random_positions
from safetensors.torch import save_file

from togyz_agents.evaluator import PRECISIONS, NetworkEvaluator, fastest_precision, one_torch_thread, uniform_evaluator
from togyz_agents.network import Network, NetworkConfig, load_network, save_network, widen
from togyz_env import CheckpointError, ConfigError
from togyz_env.observation import ENCODERS

STATES = np.stack([position.state for position in random_positions(300, 11)])
LEGAL = np.where(STATES[:, 22:] == 0, STATES[:, :9], STATES[:, 9:18]) > 0


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> object:
    with one_torch_thread():
        yield


def network(encoder: str = "rules", width: int = 48, blocks: int = 2, seed: int = 1) -> Network:
    torch.manual_seed(seed)
    return Network(NetworkConfig(encoder, width, blocks)).eval()


def outputs(of: Network, states: np.ndarray) -> tuple[np.ndarray, ...]:
    """What the network itself says about the encoded states, by torch alone."""
    with torch.inference_mode():
        out = of(torch.from_numpy(ENCODERS[of.config.encoder].encode(states)))
    return tuple(value.numpy() for value in (out.policy, torch.softmax(out.outcome, 1), out.margin))


# 1


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_illegal_moves_have_probability_exactly_zero(encoder: str, precision: str) -> None:
    logits, value = NetworkEvaluator(network(encoder), precision=precision)(STATES)
    assert logits.shape == (300, 9)
    assert value.shape == (300,)
    assert logits.dtype == value.dtype == np.float32
    assert (~LEGAL).sum() > 100
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    assert (probabilities[~LEGAL] == 0.0).all()
    assert (probabilities[LEGAL] > 0.0).all()
    assert np.isfinite(logits[LEGAL]).all()


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("width", "blocks"), [(1, 0), (33, 3)])
def test_legal_moves_value_and_margin_are_the_networks(encoder: str, width: int, blocks: int) -> None:
    one = network(encoder, width, blocks)
    evaluator = NetworkEvaluator(one, precision="float32")
    policy, outcome, margin = outputs(one, STATES)
    found = evaluator.outputs(STATES)
    assert np.abs(found[0][LEGAL] - policy[LEGAL]).max() < 1e-5
    assert np.abs(found[1] - outcome).max() < 1e-5
    assert np.abs(found[2] - margin).max() < 1e-5
    assert np.allclose(found[1].sum(axis=1), 1.0, atol=1e-6)
    logits, value = evaluator(STATES)
    assert np.array_equal(logits, found[0])
    assert np.array_equal(value, found[1][:, 0] - found[1][:, 2])


def test_the_evaluator_that_knows_nothing() -> None:
    logits, value = uniform_evaluator(STATES)
    assert (logits[LEGAL] == 0.0).all()
    assert (logits[~LEGAL] == -np.inf).all()
    assert not value.any()


def test_the_states_are_left_as_they_are() -> None:
    before = STATES.copy()
    NetworkEvaluator(network(), precision="float32")(STATES)
    assert np.array_equal(STATES, before)


# 2


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_result_does_not_depend_on_the_rest_of_the_batch(encoder: str) -> None:
    evaluator = NetworkEvaluator(network(encoder), precision="float32")
    logits, value = evaluator(STATES)
    order = np.random.default_rng(1).permutation(len(STATES))
    for rows in ([7], [0, 299], list(range(64)), order[:255], order):
        part_logits, part_value = evaluator(STATES[rows])
        assert np.abs(part_value - value[rows]).max() < 1e-5
        assert np.abs(part_logits[LEGAL[rows]] - logits[rows][LEGAL[rows]]).max() < 1e-5
        assert (part_logits[~LEGAL[rows]] == -np.inf).all()
    again = evaluator(STATES)
    assert np.array_equal(again[0], logits)  # nothing of an earlier call is left over
    assert np.array_equal(again[1], value)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_mirrored_colours_give_the_same(encoder: str) -> None:
    mirrored = STATES.copy()
    mirrored[:, :9], mirrored[:, 9:18] = STATES[:, 9:18], STATES[:, :9]
    mirrored[:, [18, 19, 20, 21]] = STATES[:, [19, 18, 21, 20]]
    mirrored[:, 22] = 1 - STATES[:, 22]
    evaluator = NetworkEvaluator(network(encoder), precision="float32")
    assert np.array_equal(ENCODERS[encoder].encode(STATES), ENCODERS[encoder].encode(mirrored))
    (logits, *others), (mirrored_logits, *mirrored_others) = evaluator.outputs(STATES), evaluator.outputs(mirrored)
    assert np.array_equal(logits == -np.inf, mirrored_logits == -np.inf)
    for a, b in zip((logits[LEGAL], *others), (mirrored_logits[LEGAL], *mirrored_others)):
        assert np.abs(a - b).max() < 1e-6


# 3


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_later_training_does_not_reach_an_evaluator(precision: str) -> None:
    one = network()
    evaluator = NetworkEvaluator(one, precision=precision)
    before = evaluator(STATES)
    with torch.no_grad():
        for value in one.parameters():
            value.mul_(1.5).add_(0.01)
    after = evaluator(STATES)
    assert np.array_equal(before[0], after[0])
    assert np.array_equal(before[1], after[1])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("part", ["input.weight", "input.bias", "blocks.1.weight", "output.weight", "output.bias"])
def test_load_takes_every_weight_over(part: str, precision: str) -> None:
    one = network()
    evaluator = NetworkEvaluator(one, precision=precision)
    before = evaluator.outputs(STATES)
    with torch.no_grad():
        one.state_dict()[part].add_(torch.linspace(0.0, 1.0, one.state_dict()[part].numel()).reshape(one.state_dict()[part].shape))
    evaluator.load(one)
    after = evaluator.outputs(STATES)
    expected = NetworkEvaluator(one, precision=precision).outputs(STATES)
    for a, b, c in zip(after, expected, before):
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)


def test_the_network_itself_is_not_touched() -> None:
    one = network()
    before = {name: value.clone() for name, value in one.state_dict().items()}
    for precision in PRECISIONS:
        NetworkEvaluator(one, precision=precision)(STATES[:5])
    assert all(torch.equal(value, before[name]) for name, value in one.state_dict().items())


# 4


@pytest.mark.parametrize(("precision", "tolerance"), [("bfloat16", 0.1), ("float16", 0.02)])
def test_lower_precision_says_nearly_the_same(precision: str, tolerance: float) -> None:
    one = network()
    exact = NetworkEvaluator(one, precision="float32").outputs(STATES)
    rough = NetworkEvaluator(one, precision=precision).outputs(STATES)
    assert np.abs(rough[0][LEGAL] - exact[0][LEGAL]).max() < tolerance
    assert np.abs(rough[1] - exact[1]).max() < tolerance
    assert np.abs(rough[2] - exact[2]).max() < tolerance


def test_auto_picks_a_known_precision() -> None:
    evaluator = NetworkEvaluator(network(width=8, blocks=0), precision="auto", batch=4)
    assert evaluator.precision in PRECISIONS
    assert fastest_precision(network(width=8, blocks=0), batch=4, seconds=0.01) in PRECISIONS


@pytest.mark.parametrize("precision", ["int8", "", "Float32", "fp32"])
def test_an_unknown_precision_is_refused(precision: str) -> None:
    with pytest.raises(ConfigError, match=f"precision: '{precision}' is not one of auto, float32, bfloat16, float16"):
        NetworkEvaluator(network(), precision=precision)


@pytest.mark.parametrize("device", ["abacus", "cpu:x", "", "meta", "cuda:77"])
def test_a_device_that_is_not_here_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match=f"device: '{device}' cannot be used here") as caught:
        NetworkEvaluator(network(), device=device, precision="float32")
    assert "\n" not in str(caught.value)


def test_the_number_of_torch_threads_comes_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    inside = []

    @one_torch_thread()
    def fail() -> None:
        inside.append(torch.get_num_threads())
        raise KeyError

    try:
        with pytest.raises(KeyError):
            fail()
        assert inside == [1]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# 5


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_saved_network_is_the_same_network(encoder: str, tmp_path: Path) -> None:
    one = network(encoder)
    save_network(one, tmp_path / "a.safetensors", iteration="7")
    other = load_network(tmp_path / "a.safetensors")
    assert other.config == one.config
    assert not other.training
    for a, b in zip(outputs(one, STATES), outputs(other, STATES)):
        assert np.array_equal(a, b)
    save_network(network(encoder, seed=2), tmp_path / "a.safetensors")  # replaces it whole
    assert not np.array_equal(outputs(load_network(tmp_path / "a.safetensors"), STATES)[0], outputs(one, STATES)[0])
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def header(**changes: str) -> dict[str, str]:
    return {
        "format": "togyz-network-1",
        "network": json.dumps({"encoder": "plain", "width": 4, "blocks": 1}),
    } | changes


@pytest.mark.parametrize(
    ("metadata", "part"),
    [
        ({}, "has format None, expected 'togyz-network-1'"),
        (header(format="other-1"), "has format 'other-1'"),
        (header(network="{"), "does not hold the network that it describes"),
        (header(network="[1]"), "does not hold"),
        (header(network='{"encoder": "conv"}'), "network.encoder: 'conv'"),
        (header(network='{"encoder": "plain", "width": "4", "blocks": 1}'), "does not hold"),
        (header(network='{"encoder": "plain", "width": 4, "depth": 1}'), "does not hold"),
        (header(network='{"encoder": "plain", "width": 5, "blocks": 1}'), "does not hold"),
        (header(network='{"encoder": "rules", "width": 4, "blocks": 1}'), "does not hold"),
        (header(network='{"encoder": "plain", "width": 4, "blocks": 2}'), "does not hold"),
        ({"format": "togyz-network-1"}, "does not hold"),
    ],
)
def test_a_foreign_network_is_refused(metadata: dict[str, str], part: str, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    weights = {name: value.contiguous() for name, value in network("plain", 4, 1).state_dict().items()}
    save_file(weights, path, metadata)
    with pytest.raises(CheckpointError) as caught:
        load_network(path)
    assert str(path) in str(caught.value)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_network_file_is_refused(tmp_path: Path) -> None:
    save_network(network("plain", 4, 1), tmp_path / "good.safetensors")
    good = (tmp_path / "good.safetensors").read_bytes()
    path = tmp_path / "a.safetensors"
    for content in (b"", b"text", good[:7], good[:100], good[: len(good) // 2], good[:-1], b"\xff" * 8 + good[8:], good[8:]):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="is not a readable safetensors file") as caught:
            load_network(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    for missing in (tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(CheckpointError, match="network: no file"):
            load_network(missing)


# 6


def test_a_widened_network_computes_the_same_and_can_learn_more() -> None:
    one = network("rules", 20, 3)
    wide = widen(one, 33, 5)
    assert wide.config == NetworkConfig("rules", 33, 3)
    for a, b in zip(outputs(one, STATES), outputs(wide, STATES)):
        assert np.abs(a - b).max() < 1e-5
    again = widen(one, 33, 5)
    assert all(torch.equal(a, b) for a, b in zip(wide.parameters(), again.parameters()))
    assert not torch.equal(widen(one, 33, 6).input.weight, wide.input.weight)
    # The gradient reaches the new units' way out, so they join in from the first step on.
    wide(torch.from_numpy(ENCODERS["rules"].encode(STATES))).outcome.sum().backward()  # type: ignore[no-untyped-call]
    assert wide.output.weight.grad is not None
    assert wide.output.weight.grad[:, 20:].abs().sum() > 0
    with pytest.raises(ConfigError, match="a network can only grow"):
        widen(one, 19, 5)
