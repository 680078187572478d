"""The ladder: matches during training that show how strong the network has become, as Elo with random play at 0."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from togyz_agents.files import append_line
from togyz_agents.network import Network, load_network, save_network
from togyz_agents.players.alphazero import AlphaZeroAgent
from togyz_agents.tournament.bootstrap import bootstrap, interval
from togyz_agents.tournament.match import play_match
from togyz_agents.tournament.rating import Results, fit_results
from togyz_agents.training.config import Config
from togyz_agents.training.metrics import drop_later

FIXED = ("random", "greedy")
SAMPLES = 200
"""Of the bootstrap: ratings are shown during training, and exact digits of their intervals do not matter."""


@dataclass(frozen=True)
class Rung:
    """One step of the ladder.

    Attributes:
        name: of the network, "network-000040".
        elo: rating with random at 0, from all games of the run so far.
        low, high: its 95 % interval, by bootstrap over pairs.
        scores: points per game against each opponent of this rung.
    """

    name: str
    elo: float
    low: float
    high: float
    scores: dict[str, float]


class Ladder:
    """Keeps every result of a run in RUN/ladder.jsonl and the networks that played in RUN/ladder/.

    Args:
        run: directory of the run.
        config: of the run.
        iteration: forget results of later iterations (they are played again after a resume).
    """

    def __init__(self, run: Path, config: Config, iteration: int = 0) -> None:
        """Read the results so far."""
        self._folder = run / "ladder"
        self._file = run / "ladder.jsonl"
        self._config = config
        self._results = drop_later(self._file, iteration)

    def climb(self, network: Network, iteration: int) -> Rung:
        """Play ``network`` against random, greedy and the latest rungs; record the results and rate everybody."""
        settings = self._config.ladder
        name = f"network-{iteration:06d}"
        self._folder.mkdir(exist_ok=True)
        earlier = sorted({row["first"] for row in self._results})
        save_network(network, self._folder / f"{name}.safetensors", iteration=str(iteration))
        player = AlphaZeroAgent.from_network(network, settings.simulations, name, self._config.rules)
        scores = {}
        recent = earlier[max(0, len(earlier) - settings.opponents) :]
        for opponent in (*FIXED, *recent):
            if opponent in FIXED:
                other: AlphaZeroAgent | str = opponent
            else:
                weights = load_network(self._folder / f"{opponent}.safetensors")
                other = AlphaZeroAgent.from_network(weights, settings.simulations, opponent, self._config.rules)
            result = play_match(player, other, settings.pairs, seed=iteration, ruleset=self._config.rules)
            scores[opponent] = result.score
            row = {"iteration": iteration, "first": name, "second": opponent, "pair scores": result.pair_scores.tolist()}
            self._results.append(row)
            append_line(self._file, json.dumps(row))
        return self._rate(name, scores)

    def _rate(self, name: str, scores: dict[str, float]) -> Rung:
        names = sorted({str(row[side]) for row in self._results for side in ("first", "second")})
        index = {player: i for i, player in enumerate(names)}
        pairs, points = [], []
        for row in self._results:
            for score in row["pair scores"]:
                pairs.append((index[str(row["first"])], index[str(row["second"])]))
                points.append(score)
        results = Results.from_pairs(len(names), np.array(pairs), np.array(points))
        elo, drawn = fit_results(results).elo, bootstrap(results, samples=SAMPLES).elo
        me, base = index[name], index["random"]
        low, high = interval(drawn[:, me] - drawn[:, base])
        rating = float(elo[me] - elo[base])
        return Rung(name, rating, min(float(low), rating), max(float(high), rating), scores)
