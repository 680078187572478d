"""The roll-out player: Monte-Carlo tree search with random games in place of a network, the classic UCT yardstick."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from togyz_agents.agent import Clock
from togyz_agents.search.batched import BatchedSearch
from togyz_agents.search.params import SearchConfig
from togyz_agents.search.rollout import RolloutEvaluator
from togyz_agents.search.single import Analysis, SingleSearch
from togyz_env.errors import ConfigError
from togyz_env.position import Position, Ruleset


class RolloutAgent:
    """Plays the move that a search of ``sims`` simulations visits most; each new leaf is valued by random games.

    It is the AlphaZero player's search with equal priors. Kocsis and Szepesvari, "Bandit based Monte-Carlo planning", ECML 2006.

    Args:
        sims: simulations for each move; a clock that gives the time for a move replaces it in ``select``.
        rollouts: random games for each simulation.
        exploration: PUCT constant; the higher, the more evenly moves are tried.
        end: the end rule of the games.
        max_plies: the ply limit that the tree assumes.
    """

    def __init__(
        self, sims: int = 500, rollouts: int = 1, exploration: float = 2.0, end: str = "majority", max_plies: int = 2000
    ) -> None:
        """Make the search; ConfigError says what is wrong."""
        if sims < 1:
            raise ConfigError(f"rollout: sims must be at least 1, not {sims}")
        ruleset = Ruleset(end=end, max_plies=max_plies)  # type: ignore[arg-type]  # Ruleset refuses other words itself
        config = SearchConfig(exploration=exploration)
        self._evaluator = RolloutEvaluator(rollouts, ruleset.playout)
        self._sims = sims
        self._single = SingleSearch(self._evaluator.outputs, config, ruleset)
        self._search = BatchedSearch(self._evaluator, config, ruleset)
        self.name = f"rollout:sims={sims}" + (f",rollouts={rollouts}" if rollouts != 1 else "")

    def new_game(self, seed: int) -> None:
        """Drop the last game's tree; the random games of the next one follow from ``seed``."""
        self._single.forget()
        self._evaluator.reseed(seed)

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return the hole 1..9 that the search prefers, by ``sims`` or by the clock."""
        return self.analyse(position, clock).action + 1

    def analyse(self, position: Position, clock: Clock | None = None) -> Analysis:
        """What the search of ``select`` finds out about ``position``."""
        seconds = None if clock is None else clock.seconds_for_a_move()
        simulations = self._sims if seconds is None else None
        return self._single.run(position.state, position.ply, simulations=simulations, seconds=seconds)

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Return ``int64[B]``: the hole 1..9 to play in each of ``states uint8[B, 23]``, ``plies int32[B]`` into their games."""
        return self._search.run(states, plies, self._sims).action + 1

    def close(self) -> None:
        """Nothing to release."""
