"""From state rows to policy logits and values: the only place for batching, device, precision and masking of a network."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from togyz_agents.network import Network
from togyz_env.batch import start_states
from togyz_env.errors import ConfigError
from togyz_env.observation import ENCODERS
from togyz_env.rules import HOLES, TO_MOVE, fast_kernel, kernel

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

log = logging.getLogger(__name__)


@kernel
def mask_illegal(states: np.ndarray, logits: np.ndarray) -> None:
    """Set the logits ``float32[B, 9]`` of illegal actions to -inf, so that their probability is exactly 0."""
    for b in range(states.shape[0]):
        row = np.int64(states[b, TO_MOVE]) * HOLES
        for action in range(HOLES):
            if states[b, row + action] == 0:
                logits[b, action] = -np.inf


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Use one intra-op thread inside; several of them next to other busy threads cost hundreds of times more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@fast_kernel
def first_layer(
    index: np.ndarray, value: np.ndarray, count: np.ndarray, weight: np.ndarray, bias: np.ndarray, out: np.ndarray
) -> None:
    """relu(weight.T @ input + bias) for inputs given by their non-zero places, into ``out float32[B, width]``.

    A tenth of the inputs are not 0: adding their rows of ``weight float32[size, width]`` is several times cheaper than the product.
    """
    width = out.shape[1]
    for b in range(out.shape[0]):
        row = out[b]
        for j in range(width):
            row[j] = bias[j]
        k = 0
        while k + 4 <= count[b]:  # four at a time: the accumulator is read and written once for them
            w0 = weight[index[b, k]]
            w1 = weight[index[b, k + 1]]
            w2 = weight[index[b, k + 2]]
            w3 = weight[index[b, k + 3]]
            for j in range(width):
                row[j] += value[b, k] * w0[j] + value[b, k + 1] * w1[j] + value[b, k + 2] * w2[j] + value[b, k + 3] * w3[j]
            k += 4
        while k < count[b]:
            w0 = weight[index[b, k]]
            for j in range(width):
                row[j] += value[b, k] * w0[j]
            k += 1
        for j in range(width):
            row[j] = max(row[j], np.float32(0.0))


def usable_device(device: str) -> torch.device:
    """Return ``device`` ("cpu", "cuda", "cuda:1", ...) for torch.

    Raises:
        ConfigError: there is no such device here.
    """
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).cpu()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device: {device!r} cannot be used here ({reason})") from None
    return found


class NetworkEvaluator:
    """A network as an Evaluator: ``(states uint8[B, 23]) -> (policy_logits float32[B, 9], value float32[B])``.

    Both are for the side to move; an illegal action's logit is -inf. The value is P(win) - P(loss). The network is copied, so later
    training does not change it; ``load`` takes new weights over. Calls are not thread-safe: one evaluator for each thread.

    Args:
        network: any device; the copy moves to ``device``.
        device: "cpu", "cuda", "cuda:1", ... Only "cpu" was run by us so far.
        precision: "float32", "bfloat16", "float16", or "auto": whichever is fastest here (``fastest_precision``).
        batch: size at which "auto" measures.
    """

    def __init__(self, network: Network, device: str = "cpu", precision: str = "auto", batch: int = 512) -> None:
        """Copy the network to the device in the chosen precision."""
        if precision != "auto" and precision not in PRECISIONS:
            raise ConfigError(f"precision: {precision!r} is not one of auto, {', '.join(PRECISIONS)}")
        self.device = usable_device(device)
        self.precision = fastest_precision(network, device, batch) if precision == "auto" else precision
        self._encoder = ENCODERS[network.config.encoder]
        self._network = Network(network.config).to(self.device, PRECISIONS[self.precision]).eval()
        # the sparse first layer is for the CPU; a GPU prefers the one large product
        self._sparse = self.device.type == "cpu" and self.precision == "float32"
        self.load(network)

    def load(self, network: Network) -> None:
        """Take over the weights of ``network``, which must have the same shape."""
        self._network.load_state_dict(network.state_dict())
        if self._sparse:
            self._weight = np.ascontiguousarray(self._network.input.weight.detach().numpy().T)
            self._bias = self._network.input.bias.detach().numpy().copy()

    def outputs(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Evaluate ``states uint8[B, 23]``.

        Returns:
            ``(policy_logits float32[B, 9], win/draw/loss probabilities float32[B, 3], margin float32[B])`` for the side to move;
            the margin is in stones / 81.
        """
        with torch.inference_mode():
            if self._sparse:
                hidden = np.empty((states.shape[0], len(self._bias)), np.float32)
                first_layer(*self._encoder.nonzero(states), self._weight, self._bias, hidden)
                out = self._network.heads(torch.from_numpy(hidden))
            else:
                encoded = torch.from_numpy(self._encoder.encode(states))
                out = self._network(encoded.to(self.device, PRECISIONS[self.precision], non_blocking=True))
            logits = out.policy.float().cpu().numpy()
            outcome = torch.softmax(out.outcome.float(), dim=1).cpu().numpy()
            margin = out.margin.float().cpu().numpy()
        logits = np.ascontiguousarray(logits)
        mask_illegal(states, logits)
        return logits, outcome, margin

    def __call__(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate ``states uint8[B, 23]``: ``(policy_logits float32[B, 9], value float32[B])``."""
        logits, outcome, _ = self.outputs(states)
        return logits, outcome[:, 0] - outcome[:, 2]


def fastest_precision(network: Network, device: str = "cpu", batch: int = 512, seconds: float = 1.0) -> str:
    """Measure each precision on this device for its share of ``seconds`` and name the fastest.

    It cannot be hard-coded: with AMX bfloat16 ran three times faster than float32, with plain AVX2 ten times slower.
    """
    candidates = ["float32", "bfloat16"] + (["float16"] if torch.device(device).type != "cpu" else [])
    states = start_states(batch)
    rates: dict[str, float] = {}
    for name in candidates:
        evaluate = NetworkEvaluator(network, device, name)
        evaluate(states)
        calls = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds / len(candidates) or calls < 1:
            evaluate(states)
            calls += 1
        rates[name] = calls * batch / elapsed
    best = max(rates, key=lambda name: rates[name])
    log.info("precision %s on %s (%s evaluations/s)", best, device, ", ".join(f"{n} {r:,.0f}" for n, r in rates.items()))
    return best


def uniform_evaluator(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An Evaluator that knows nothing: equal logits over legal actions, value 0."""
    logits = np.zeros((states.shape[0], HOLES), np.float32)
    mask_illegal(states, logits)
    return logits, np.zeros(states.shape[0], np.float32)
