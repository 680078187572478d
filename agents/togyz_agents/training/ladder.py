"""The ladder: matches during training that show how strong the network has become, as Elo with random play at 0."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from togyz_agents.network import Network, load_network, save_network
from togyz_agents.players.alphazero import AlphaZeroAgent
from togyz_agents.tournament.match import play_match
from togyz_agents.tournament.rating import bradley_terry_intervals, fit_bradley_terry, points_matrix
from togyz_agents.training.config import Config
from togyz_agents.training.metrics import drop_later

FIXED = ("random", "greedy")


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
            with open(self._file, "a") as file:
                file.write(json.dumps(row) + "\n")
        return self._rate(name, scores)

    def _rate(self, name: str, scores: dict[str, float]) -> Rung:
        names = sorted({str(row[side]) for row in self._results for side in ("first", "second")})
        index = {player: i for i, player in enumerate(names)}
        pairs, points = [], []
        for row in self._results:
            for score in row["pair scores"]:
                pairs.append((index[str(row["first"])], index[str(row["second"])]))
                points.append(score)
        played, results = np.array(pairs), np.array(points)
        elo = fit_bradley_terry(points_matrix(len(names), played, results))
        bounds = bradley_terry_intervals(len(names), played, results, samples=100)
        me, base = index[name], index["random"]
        spread = bounds[me] - elo[me]
        rating = float(elo[me] - elo[base])
        return Rung(name, rating, rating + float(spread[0]), rating + float(spread[1]), scores)
