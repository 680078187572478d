"""The policy player: a trained network without search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from togyz_agents.agent import Clock
from togyz_agents.evaluator import NetworkEvaluator, one_torch_thread
from togyz_agents.network import load_network
from togyz_agents.players.alphazero import find_network
from togyz_env.errors import ConfigError
from togyz_env.position import Position


class PolicyAgent:
    """Plays the move to which the network gives the highest probability, or draws one by the probabilities.

    Args:
        run: a run directory, a checkpoint directory or a network's .safetensors file.
        temperature: 0 plays the likeliest move; 1 draws by the network's probabilities; above, more evenly.
        device: where the network runs.
        precision: of the network: float32, bfloat16, float16 or auto (measured, takes a second).
    """

    def __init__(self, run: Path, temperature: float = 0.0, device: str = "cpu", precision: str = "float32") -> None:
        """Load the network; CheckpointError or ConfigError say what is wrong."""
        if not 0 <= temperature < float("inf"):
            raise ConfigError(f"policy: temperature must be 0 or more, not {temperature}")
        self._evaluator = NetworkEvaluator(load_network(find_network(Path(run))), device, precision)
        self._temperature = temperature
        self.name = f"policy:{run}" + (f",temperature={temperature:g}" if temperature else "")
        self.new_game(0)

    def new_game(self, seed: int) -> None:
        """Draw the next game's moves from ``seed``."""
        self._rng = np.random.default_rng(seed)

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return the hole 1..9 that the network likes, or one drawn by its probabilities."""
        return int(self.select_batch(position.state[None], np.zeros(1, np.int32))[0])

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Return ``int64[B]``: a hole 1..9 for each of ``states uint8[B, 23]``."""
        with one_torch_thread():
            logits = self._evaluator(states)[0].astype(np.float64)
        if self._temperature > 0:
            # the largest of logits with Gumbel noise is drawn by their softmax
            logits = logits / self._temperature + self._rng.gumbel(size=logits.shape)
        return np.asarray(np.argmax(logits, axis=1) + 1)

    def close(self) -> None:
        """Nothing to release."""
