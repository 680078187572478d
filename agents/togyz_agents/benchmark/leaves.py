"""What leaves in batches cost in strength: the search of one position against leaf by leaf, at equal simulations."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from togyz_agents.evaluator import NetworkEvaluator, one_torch_thread
from togyz_agents.network import load_network
from togyz_agents.search.batched import BatchedSearch
from togyz_agents.search.single import SingleSearch, evaluate_fully
from togyz_agents.tournament.match import MatchResult, play_match

GAMES_AT_ONCE = 128


class LeafByLeaf:
    """A BatchAgent that searches many positions at once, one leaf of each at a time."""

    name = "leaf by leaf"

    def __init__(self, evaluator: NetworkEvaluator, simulations: int) -> None:
        """Keep what it searches with."""
        self._search = BatchedSearch(evaluator)
        self._simulations = simulations

    def new_game(self, seed: int) -> None:
        """Nothing is random."""

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Choose a hole 1..9 for each of ``states uint8[B, 23]``."""
        return self._search.run(states, plies, self._simulations).action + 1

    def close(self) -> None:
        """Nothing to close."""


class LeafBatches:
    """A BatchAgent of many searches of one position each, which share the network's calls and nothing else."""

    name = "leaves in batches"

    def __init__(self, evaluator: NetworkEvaluator, simulations: int, batch_share: float) -> None:
        """Keep what it searches with."""
        self._evaluate = evaluator.outputs
        self._simulations = simulations
        self._share = batch_share
        self._searches: list[SingleSearch] = []

    def new_game(self, seed: int) -> None:
        """Nothing is random, and no tree is kept."""

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Choose a hole 1..9 for each of ``states uint8[B, 23]``."""
        while len(self._searches) < len(states):
            self._searches.append(SingleSearch(self._evaluate, batch_share=self._share))
        searches = self._searches[: len(states)]
        for search, state, ply in zip(searches, states, plies):
            search.forget()
            search.begin(state, int(ply))
        running = searches
        while running:
            leaves = [search.waiting_leaves(self._simulations) for search in running]
            asking = [(search, them) for search, them in zip(running, leaves) if them is not None and len(them)]
            if asking:
                outputs = evaluate_fully(self._evaluate, np.concatenate([them for _, them in asking]))
                ends = np.cumsum([len(them) for _, them in asking])[:-1]
                for (search, _), *own in zip(asking, *(np.split(output, ends) for output in outputs)):
                    search.settle_leaves(*own)
            running = [search for search, them in zip(running, leaves) if them is not None]
        return np.array([search.found(count=0).action + 1 for search in searches])

    def close(self) -> None:
        """Nothing to close."""


def compare_leaves(network: Path, simulations: int, pairs: int, batch_share: float, seed: int = 1) -> MatchResult:
    """Play the match: colour-swapped pairs from random openings, both sides with ``network`` and as many simulations.

    Raises:
        CheckpointError: ``network`` is no network.
    """
    with one_torch_thread():
        evaluator = NetworkEvaluator(load_network(network))
        logging.getLogger(__name__).info("%s against %s, %d simulations", LeafBatches.name, LeafByLeaf.name, simulations)
        return play_match(
            lambda: LeafBatches(evaluator, simulations, batch_share),
            lambda: LeafByLeaf(evaluator, simulations),
            pairs,
            seed=seed,
            games_at_once=GAMES_AT_ONCE,
        )
