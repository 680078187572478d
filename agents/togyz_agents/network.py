"""The network: a residual MLP on a flat encoding, with policy, outcome and margin heads; its safetensors file.

A convolution of equal size gives 10 to 30 times fewer evaluations per second on a CPU, and the board has no geometry that it
could use: the only symmetry, swapping the sides, is in the encoding.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from togyz_agents.files import replace_file
from togyz_env.errors import CheckpointError, ConfigError
from togyz_env.observation import ENCODERS
from togyz_env.rules import HOLES

FORMAT = "togyz-network-1"
MARGIN_SCALE = 81.0
"""The margin head predicts the mover's final kazan minus his opponent's, divided by this and clipped to [-1, 1]."""
OUTCOMES = 3
"""Win, draw, loss: the order of the outcome head's logits."""


@dataclass(frozen=True)
class NetworkConfig:
    """Shape of the network."""

    encoder: str = "rules"
    """Input encoding, a key of togyz_env.observation.ENCODERS."""
    width: int = 256
    """Units of each layer."""
    blocks: int = 4
    """Residual blocks ``x + relu(linear(x))``."""

    def __post_init__(self) -> None:
        """Refuse shapes that cannot be built."""
        if self.encoder not in ENCODERS:
            raise ConfigError(f"network.encoder: {self.encoder!r} is not one of {', '.join(sorted(ENCODERS))}")
        if not 1 <= self.width <= 16384:
            raise ConfigError(f"network.width: {self.width!r} is not between 1 and 16384")
        if not 0 <= self.blocks <= 256:
            raise ConfigError(f"network.blocks: {self.blocks!r} is not between 0 and 256")


class NetworkOutput(NamedTuple):
    """What the network says about each position, for the side to move.

    Attributes:
        policy: ``[B, 9]`` logits, illegal actions not masked.
        outcome: ``[B, 3]`` logits of win, draw, loss.
        margin: ``[B]`` in [-1, 1], final kazan difference / MARGIN_SCALE.
    """

    policy: Tensor
    outcome: Tensor
    margin: Tensor


class Network(nn.Module):
    """Residual MLP: input layer, ``blocks`` times ``x + relu(linear(x))``, one output layer for the three heads."""

    def __init__(self, config: NetworkConfig) -> None:
        """Build the network with fresh weights from torch's generator."""
        super().__init__()
        self.config = config
        self.input = nn.Linear(ENCODERS[config.encoder].size, config.width)
        blocks = [nn.Linear(config.width, config.width) for _ in range(config.blocks)]
        self.blocks = nn.ModuleList(blocks)
        self.output = nn.Linear(config.width, HOLES + OUTCOMES + 1)
        for block in blocks:
            nn.init.kaiming_normal_(block.weight, a=0.0)
            with torch.no_grad():
                block.weight.mul_(1.0 / max(1, config.blocks) ** 0.5)  # keeps the residual sum's variance bounded
            nn.init.zeros_(block.bias)

    def forward(self, encoded: Tensor) -> NetworkOutput:
        """Evaluate ``encoded float[B, encoder.size]``."""
        return self.heads(torch.relu(self.input(encoded)))

    def heads(self, x: Tensor) -> NetworkOutput:
        """All but the first layer: from ``x float[B, width]``, the first layer's output."""
        for block in self.blocks:
            x = x + torch.relu(block(x))
        out = self.output(x)
        return NetworkOutput(out[:, :HOLES], out[:, HOLES : HOLES + OUTCOMES], torch.tanh(out[:, -1]))


def widen(network: Network, width: int, seed: int) -> Network:
    """A network with ``width`` units a layer that computes exactly what ``network`` does.

    The new units get fresh weights from ``seed``, but nothing old listens to them yet: their outgoing weights to old units and
    heads are 0 and learn from there (function-preserving growth in the manner of Net2Net, arXiv 1511.05641).

    Raises:
        ConfigError: when ``width`` is less than the network's.
    """
    old = network.config.width
    if width < old:
        raise ConfigError(f"network.width: {width} is less than {old}; a network can only grow")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wide = Network(replace(network.config, width=width))
    with torch.no_grad():
        wide.input.weight[:old] = network.input.weight.cpu()
        wide.input.bias[:old] = network.input.bias.cpu()
        for new_block, old_block in zip(wide.blocks, network.blocks):
            assert isinstance(new_block, nn.Linear)
            assert isinstance(old_block, nn.Linear)
            new_block.weight[:old, :old] = old_block.weight.cpu()
            new_block.weight[:old, old:] = 0.0
            new_block.bias[:old] = old_block.bias.cpu()
        wide.output.weight[:, :old] = network.output.weight.cpu()
        wide.output.weight[:, old:] = 0.0
        wide.output.bias[:] = network.output.bias.cpu()
    return wide.to(network.input.weight.device)


def save_network(network: Network, path: Path, **metadata: str) -> None:
    """Write the weights as safetensors, atomically, with the configuration (and ``metadata``) inside the file."""
    replace_file(path, network_bytes(network, **metadata))


def network_bytes(network: Network, **metadata: str) -> bytes:
    """The content of a file that ``save_network`` writes."""
    header = {"format": FORMAT, "network": json.dumps(asdict(network.config))} | metadata
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    return save(tensors, header)


def load_network(path: Path, device: str = "cpu") -> Network:
    """Read a network written by ``save_network``, in evaluation mode on ``device``.

    Raises:
        CheckpointError: when the file is missing, damaged or not such a network.
    """
    if not path.is_file():
        raise CheckpointError(
            f"network: no file {str(path)!r}; expected a .safetensors file written by training or scripts/export.py"
        )
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"network: {str(path)!r} is not a readable safetensors file ({error})") from None
    if header.get("format") != FORMAT:
        raise CheckpointError(f"network: {str(path)!r} has format {header.get('format')!r}, expected {FORMAT!r}")
    try:
        network = Network(NetworkConfig(**json.loads(header["network"])))
        network.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(f"network: {str(path)!r} does not hold the network that it describes ({reason})") from None
    return network.to(device).eval()
