"""The AlphaZero player: PUCT search guided by a trained network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from togyz_agents.agent import Clock
from togyz_agents.evaluator import NetworkEvaluator, one_torch_thread
from togyz_agents.network import Network, load_network
from togyz_agents.search.batched import BatchedSearch
from togyz_agents.search.params import SearchConfig
from togyz_agents.search.single import Analysis, SingleSearch
from togyz_env.errors import CheckpointError, ConfigError
from togyz_env.position import Position, Ruleset

NETWORK_FILE = "network.safetensors"


def find_network(run: Path) -> Path:
    """The network file that ``run`` means: the file itself, or the newest network of a run or checkpoint directory."""
    if run.is_dir():
        if not (run / NETWORK_FILE).is_file():
            raise CheckpointError(f"agent: {str(run)!r} holds no {NETWORK_FILE}; expected a run directory or a .safetensors file")
        return run / NETWORK_FILE
    return run


class AlphaZeroAgent:
    """Plays the move that a search of ``sims`` simulations likes best; no noise, no temperature.

    ``select`` keeps its tree from move to move and evaluates several leaves at once (``SingleSearch``); ``select_batch`` searches
    each of many games afresh, one leaf a game and step.

    Args:
        run: a run directory, a checkpoint directory or a network's .safetensors file.
        sims: simulations for each move; 1 plays the network's first choice. A clock that gives the time for a move replaces it in
            ``select``.
        device: where the network runs.
        precision: of the network: float32, bfloat16, float16 or auto (measured, takes a second).
        end: the end rule that the search assumes.
        max_plies: the ply limit that the search assumes.
    """

    def __init__(
        self,
        run: Path,
        sims: int = 400,
        device: str = "cpu",
        precision: str = "float32",
        end: str = "majority",
        max_plies: int = 2000,
    ) -> None:
        """Load the network; CheckpointError or ConfigError say what is wrong."""
        if sims < 1:
            raise ConfigError(f"alphazero: sims must be at least 1, not {sims}")
        ruleset = Ruleset(end=end, max_plies=max_plies)  # type: ignore[arg-type]  # Ruleset refuses other words itself
        network = load_network(find_network(Path(run)))
        self._begin(NetworkEvaluator(network, device, precision), sims, ruleset, f"alphazero:{run},sims={sims}")

    @classmethod
    def from_network(
        cls, network: Network, sims: int, name: str, ruleset: Ruleset | None = None, device: str = "cpu"
    ) -> AlphaZeroAgent:
        """An agent around a network in memory, called ``name``."""
        agent = cls.__new__(cls)
        agent._begin(NetworkEvaluator(network, device, "float32"), sims, ruleset or Ruleset(), name)
        return agent

    def _begin(self, evaluator: NetworkEvaluator, sims: int, ruleset: Ruleset, name: str) -> None:
        self.name = name
        self._sims = sims
        self._search = BatchedSearch(evaluator, SearchConfig(), ruleset)
        self._single = SingleSearch(evaluator.outputs, SearchConfig(), ruleset)

    def new_game(self, seed: int) -> None:
        """Drop the last game's tree; a search draws no random numbers."""
        self._single.forget()

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return the hole 1..9 that the search prefers, by ``sims`` or by the clock."""
        return self.analyse(position, clock).action + 1

    def analyse(self, position: Position, clock: Clock | None = None) -> Analysis:
        """What the search of ``select`` finds out about ``position``."""
        seconds = None if clock is None else clock.seconds_for_a_move()
        with one_torch_thread():
            simulations = self._sims if seconds is None else None
            return self._single.run(position.state, position.ply, simulations=simulations, seconds=seconds)

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Return ``int64[B]``: the hole 1..9 to play in each of ``states uint8[B, 23]``, ``plies int32[B]`` into their games."""
        with one_torch_thread():
            return self._search.run(states, plies, self._sims).action + 1

    def close(self) -> None:
        """Nothing to release."""
