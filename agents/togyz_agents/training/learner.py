"""The learner: from samples to better weights, and the running average of them that plays.

loss = cross-entropy(policy, search) on full searches
     + outcome_weight * cross-entropy(outcome, outcome_share * result + (1 - outcome_share) * root value)
     + margin_weight  * (margin - final margin)^2                     (score as an auxiliary target: KataGo, arXiv 1902.10565)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from togyz_agents.network import MARGIN_SCALE, Network, widen
from togyz_agents.training.config import LearnerConfig
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import POLICY_SCALE, VALUE_SCALE
from togyz_env.errors import TrainingError
from togyz_env.observation import ENCODERS
from togyz_env.rules import HOLES, TO_MOVE

CALIBRATION_BINS = 10


class Batch(NamedTuple):
    """A batch for the network, everything for the side to move.

    Attributes:
        encoded: ``float32[B, size]``.
        legal: ``bool[B, 9]``.
        policy: ``float32[B, 9]``, the search's.
        full: ``float32[B]``, 1 where the policy is trained.
        outcome: ``float32[B, 3]``, target probabilities of win, draw, loss.
        margin: ``float32[B]``, in [-1, 1].
        score: ``float32[B]``, what the game gave: 1, 0.5 or 0.
    """

    encoded: Tensor
    legal: Tensor
    policy: Tensor
    full: Tensor
    outcome: Tensor
    margin: Tensor
    score: Tensor


def legal_actions(states: np.ndarray) -> np.ndarray:
    """``bool[B, 9]``: non-empty holes of the side to move."""
    rows = np.where(states[:, TO_MOVE, None] == 0, states[:, :HOLES], states[:, HOLES : 2 * HOLES])
    return rows > 0


def make_batch(samples: np.ndarray, encoder: str, outcome_share: float, device: str = "cpu") -> Batch:
    """Turn ``SAMPLE[B]`` into tensors on ``device``."""
    states = np.ascontiguousarray(samples["state"])
    policy = samples["policy"].astype(np.float32) / POLICY_SCALE
    policy /= np.maximum(policy.sum(axis=1, keepdims=True), 1e-6)
    result = samples["outcome"].astype(np.float32)
    value = samples["value"].astype(np.float32) / VALUE_SCALE
    played = np.stack([result > 0, result == 0, result < 0], axis=1).astype(np.float32)
    searched = np.stack([(1 + value) / 2, np.zeros_like(value), (1 - value) / 2], axis=1)

    def tensor(array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    return Batch(
        encoded=tensor(ENCODERS[encoder].encode(states)),
        legal=tensor(legal_actions(states)),
        policy=tensor(policy),
        full=tensor(samples["full"].astype(np.float32)),
        outcome=tensor(outcome_share * played + (1 - outcome_share) * searched),
        margin=tensor(np.clip(samples["margin"].astype(np.float32) / MARGIN_SCALE, -1, 1)),
        score=tensor((result + 1) / 2),
    )


class Losses(NamedTuple):
    """Mean losses of a batch, and the policy's entropy in nats and its divergence from the search."""

    policy: Tensor
    outcome: Tensor
    margin: Tensor
    entropy: Tensor
    kl: Tensor


def losses(network: Network, batch: Batch) -> tuple[Losses, Tensor]:
    """Evaluate the losses of ``network`` on ``batch``, and its expected score (win 1, draw 0.5) ``float32[B]``."""
    out = network(batch.encoded)
    log_policy = log_softmax(out.policy.masked_fill(~batch.legal, -1e9), dim=1)
    log_outcome = log_softmax(out.outcome, dim=1)
    full = batch.full.sum().clamp(min=1.0)
    cross = -(batch.policy * log_policy).sum(dim=1)
    search_entropy = -(batch.policy * batch.policy.clamp(min=1e-9).log()).sum(dim=1)
    entropy = -(log_policy.exp() * log_policy.clamp(min=-30.0)).sum(dim=1)
    probabilities = log_outcome.exp()
    return (
        Losses(
            policy=(cross * batch.full).sum() / full,
            outcome=-(batch.outcome * log_outcome).sum(dim=1).mean(),
            margin=((out.margin - batch.margin) ** 2).mean(),
            entropy=entropy.mean(),
            kl=((cross - search_entropy) * batch.full).sum() / full,
        ),
        probabilities[:, 0] + 0.5 * probabilities[:, 1],
    )


def learning_rate(config: LearnerConfig, step: int, progress: float) -> float:
    """Learning rate at ``step`` when ``progress`` (0 to 1) of the run is done."""
    factor = 1.0
    for start, drop in config.lr_drops:
        if progress >= start:
            factor = drop
    return config.lr * factor * min(1.0, (step + 1) / max(1, config.warmup_steps))


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


class Learner:
    """Trains ``network`` in place and keeps the average of its weights.

    Attributes:
        network: the weights being trained.
        average: their running average.
        step: optimiser steps so far.
    """

    def __init__(self, config: LearnerConfig, network: Network, seed: np.random.SeedSequence, device: str = "cpu") -> None:
        """Take over ``network`` (moved to ``device``) as start."""
        self._config = config
        self._device = device
        self.network = network.to(device)
        self.average = Network(network.config).to(device).eval()
        self.average.load_state_dict(network.state_dict())
        self._optimiser = self._new_optimiser()
        self._generator = np.random.default_rng(seed)
        self.step = 0
        self._warm_from = 0
        self._owed = 0.0

    def _new_optimiser(self) -> torch.optim.AdamW:
        return torch.optim.AdamW(self.network.parameters(), lr=self._config.lr, weight_decay=self._config.weight_decay)

    def configure(self, config: LearnerConfig, width: int) -> None:
        """Take over the settings of a stage; a larger ``width`` widens both networks and starts the optimiser anew."""
        self._config = config
        self._set_weight_decay()
        if width != self.network.config.width:
            self.network = widen(self.network, width, self.step)
            self.average = widen(self.average, width, self.step).eval()  # the same seed: the average stays an average
            self._optimiser = self._new_optimiser()
            self._warm_from = self.step

    def _set_weight_decay(self) -> None:
        for group in self._optimiser.param_groups:
            group["weight_decay"] = self._config.weight_decay

    def owe(self, samples: int) -> int:
        """Count ``samples`` new samples and return the steps to train now, so that each is used ``reuse`` times on average."""
        self._owed += self._config.reuse * samples / self._config.batch
        steps = int(self._owed)
        self._owed -= steps
        return steps

    def train(self, replay: Replay, steps: int, progress: float) -> dict[str, float]:
        """Do ``steps`` steps on samples from ``replay``; return the mean losses, gradient norm and learning rate.

        Raises:
            TrainingError: when a loss or gradient is not finite; the average still holds the last good weights.
        """
        self.network.train()
        sums: dict[str, Tensor] = {}
        rate = learning_rate(self._config, self.step - self._warm_from, progress)
        for _ in range(steps):
            rate = learning_rate(self._config, self.step - self._warm_from, progress)
            for group in self._optimiser.param_groups:
                group["lr"] = rate
            samples = replay.draw(self._config.batch, self._generator)
            batch = make_batch(samples, self.network.config.encoder, self._config.outcome_share, self._device)
            parts, _ = losses(self.network, batch)
            loss = parts.policy + self._config.outcome_weight * parts.outcome + self._config.margin_weight * parts.margin
            self._optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), self._config.clip)
            if not torch.isfinite(norm + loss):
                raise TrainingError(
                    f"learner: loss {loss.item()} with gradient norm {norm.item()} at step {self.step}; lower learner.lr"
                )
            self._optimiser.step()
            self.step += 1
            self._update_average()
            for name, value in (parts._asdict() | {"gradient norm": norm}).items():
                sums[name] = sums.get(name, torch.zeros(())) + value.detach().cpu()
        return {name: float(total) / steps for name, total in sums.items()} | {"learning rate": rate}

    @torch.no_grad()
    def _update_average(self) -> None:
        rate = max(self._config.average, 1.0 / (self.step + 1))  # the random start must not linger in the average
        for mean, value in zip(self.average.parameters(), self.network.parameters()):
            mean.lerp_(value, rate)

    @torch.no_grad()
    def test(self, samples: np.ndarray) -> dict[str, float]:
        """Losses of the average on ``samples SAMPLE[N]`` it was not trained on, and how well its expected score is calibrated.

        ``calibration`` is the mean distance between predicted and played score over ten bins of the prediction, weighted by
        their samples.
        """
        batch = make_batch(samples, self.average.config.encoder, self._config.outcome_share, self._device)
        parts, expected = losses(self.average, batch)
        expected_, score = expected.cpu().numpy(), batch.score.cpu().numpy()
        bins = np.minimum((expected_ * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
        gaps = [abs((expected_[bins == b] - score[bins == b]).sum()) for b in range(CALIBRATION_BINS)]
        result = {name: float(value) for name, value in parts._asdict().items()}
        return result | {"calibration": float(sum(gaps) / len(samples))}

    @torch.no_grad()
    def check(self, samples: np.ndarray) -> None:
        """Make sure that weights are good enough to be saved, by their losses on ``samples SAMPLE[N]``.

        Raises:
            TrainingError: a weight, a moment of the optimiser or a loss of the network or its average is not finite.
        """
        batch = make_batch(samples, self.network.config.encoder, self._config.outcome_share, self._device)
        for name, network in (("network", self.network), ("average", self.average)):
            parts, _ = losses(network, batch)
            values = torch.stack([*parts, *(weight.sum() for weight in network.parameters())])
            if not torch.isfinite(values).all():
                raise TrainingError(
                    f"learner: the {name} gives no finite loss after step {self.step} and is not saved; lower learner.lr"
                )
        moments = [value.sum() for state in self._optimiser.state.values() for value in state.values()]
        if not all(torch.isfinite(value) for value in moments):
            raise TrainingError(f"learner: the optimiser is not finite after step {self.step} and is not saved; lower learner.lr")

    def state_dict(self) -> dict[str, Any]:
        """Everything that ``load_state_dict`` needs to go on exactly, in plain types."""
        return {
            "network": self.network.state_dict(),
            "average": self.average.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "generator": self._generator.bit_generator.state,
            "step": self.step,
            "warm from": self._warm_from,
            "owed": self._owed,
        }

    def _moments(self, saved: dict[str, Any]) -> dict[str, Any]:
        """The optimiser's state with the moments and learning rate of ``saved``, whose other settings are not ours to take over."""
        state = self._optimiser.state_dict()
        rate = saved["param_groups"][0]["lr"]
        if type(rate) is not float or not 0.0 <= rate < float("inf"):
            raise ValueError(f"optimiser: learning rate {rate!r}")
        state["param_groups"][0]["lr"] = rate
        parameters = list(self.network.parameters())
        state["state"] = dict(saved["state"])
        if state["state"] and state["state"].keys() != set(range(len(parameters))):
            raise ValueError("optimiser: moments of other weights")
        for i, moments in state["state"].items():
            shapes = {"step": torch.Size(), "exp_avg": parameters[i].shape, "exp_avg_sq": parameters[i].shape}
            if {name: value.shape for name, value in moments.items()} != shapes:
                raise ValueError("optimiser: moments of another shape")
            if not all(value.dtype == torch.float32 and torch.isfinite(value).all() for value in moments.values()):
                raise ValueError("optimiser: moments that are no numbers")
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` gave.

        Raises:
            ValueError: counters that cannot be; RuntimeError, KeyError, TypeError: another network, or something else.
        """
        if not (_count(state["step"]) and _count(state["warm from"]) and 0.0 <= float(state["owed"]) < 1.0):
            raise ValueError(f"step {state['step']}, warm from {state['warm from']}, owed {state['owed']}")
        self.network.load_state_dict(state["network"])
        self.average.load_state_dict(state["average"])
        self._optimiser.load_state_dict(self._moments(state["optimiser"]))
        self._set_weight_decay()  # the optimiser's state brings the saved one, the configuration may have changed
        self._generator.bit_generator.state = state["generator"]
        self.step = state["step"]
        self._warm_from = state["warm from"]
        self._owed = state["owed"]
