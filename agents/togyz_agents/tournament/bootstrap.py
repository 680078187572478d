"""Intervals by bootstrap over pairs of games.

A pair is two games from one opening with the colours swapped. Its two games are not independent, so intervals resample pairs.
Source: B. Efron, R. J. Tibshirani, "An introduction to the bootstrap", 1993.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from togyz_agents.tournament.rating import ELO, Ratings, Results, fit_results, fit_weighted
from togyz_env.errors import ConfigError

Game = tuple[int, int, float]
"""White, black, and white's points."""
Pair = tuple[Game, ...]
"""The games from one opening, sorted."""


def pair_bootstrap(
    pair_scores: Sequence[float] | np.ndarray, confidence: float = 0.95, *, samples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean of ``pair_scores`` (each 0..1, the mean score of a pair's games).

    A match with equal pairs gives an interval of no width: resampling knows nothing about results that never occurred.

    Raises:
        ConfigError: no pairs, or a confidence outside of 0..1.
    """
    scores = np.asarray(pair_scores, np.float64)
    if scores.ndim != 1 or len(scores) == 0:
        raise ConfigError("interval: there are no pairs of games to take it from")
    values, counts = np.unique(scores, return_counts=True)
    # Resampling pairs and averaging is a multinomial draw over the few scores that a pair can have.
    drawn = np.random.default_rng(seed).multinomial(len(scores), counts / len(scores), size=samples)
    low, high = np.quantile(drawn @ values / len(scores), _tails(confidence))
    return float(low), float(high)


def bootstrap(results: Results, *, prior: float = 0.5, samples: int = 1000, seed: int = 0) -> Ratings:
    """Return the ratings of ``samples`` resampled tournaments: elo ``[samples, N]``, advantage ``[samples]``.

    The pairs that two players have played against each other are drawn anew, as many as there were. Equal pairs (a clean sweep,
    draws only, a single pair) know nothing about results that did not occur, and would give intervals of no width: such games are
    won or lost anew with the chances that the ratings give them.

    Raises:
        ConfigError: no games, or a prior that is not above 0.
    """
    if len(results.points) == 0:
        raise ConfigError("interval: there are no games to take it from")
    rng = np.random.default_rng(seed)
    fit, meetings = fit_results(results, prior), _by_meeting(results)

    def draw(worth: Callable[[Pair], float]) -> Ratings:
        return fit_weighted(*_resample(results.players, meetings, fit, worth, samples, rng), prior)

    drawn = draw(_first_score)
    if all(len({_white_score(pair) for pair in pairs}) == 1 for pairs in meetings.values()):
        # Pairs that differ, but not in what white got, know nothing about the first move either.
        return Ratings(drawn.elo, draw(_white_score).advantage)
    return drawn


def _resample(
    players: int,
    meetings: dict[tuple[int, int], list[Pair]],
    fit: Ratings,
    worth: Callable[[Pair], float],
    samples: int,
    rng: np.random.Generator,
) -> tuple[Results, np.ndarray]:
    """Return games and ``float64[samples, G]``, how often each stands in each sample.

    Where the pairs of two players are all worth the same, their games are drawn from ``fit`` instead.
    """
    games: list[Game] = []
    weights: list[np.ndarray] = []
    for (low, high), pairs in sorted(meetings.items()):
        kinds = Counter(pairs)
        total = sum(kinds.values())
        if len({worth(kind) for kind in kinds}) > 1:
            # Pairs with the same results are the same: a draw of pairs is a multinomial draw of their kinds.
            drawn = rng.multinomial(total, [count / total for count in kinds.values()], size=samples)
            for kind, times in zip(kinds, drawn.T):
                games += kind
                weights += [times] * len(kind)
            continue
        for white, black in ((low, high), (high, low)):
            count = sum(sum(game[0] == white for game in kind) * times for kind, times in kinds.items())
            logit = (fit.elo[white] - fit.elo[black] + fit.advantage) / ELO
            wins = rng.binomial(count, 1.0 / (1.0 + np.exp(-logit)), size=samples)
            games += [(white, black, 1.0), (white, black, 0.0)]
            weights += [wins, count - wins]
    columns = [np.array(column) for column in zip(*games)]
    drawn_games = Results(players, columns[0], columns[1], columns[2], np.zeros(len(games), np.int64))
    return drawn_games, np.array(weights, np.float64).T


def _first_score(pair: Pair) -> float:
    """The mean score of the player with the lower number."""
    return sum(points if white < black else 1.0 - points for white, black, points in pair) / len(pair)


def _white_score(pair: Pair) -> float:
    """The mean score of white."""
    return sum(points for _, _, points in pair) / len(pair)


def _by_meeting(results: Results) -> dict[tuple[int, int], list[Pair]]:
    """The pairs of any two players, each as its sorted games; the lower number stands first."""
    pairs: dict[tuple[int, int, int], list[Game]] = {}
    columns = (results.white, results.black, results.points, results.pair)
    for white, black, points, pair in zip(*(column.tolist() for column in columns)):
        pairs.setdefault((min(white, black), max(white, black), pair), []).append((white, black, points))
    meetings: dict[tuple[int, int], list[Pair]] = {}
    for (low, high, _), played in pairs.items():
        meetings.setdefault((low, high), []).append(tuple(sorted(played)))
    return meetings


def interval(samples: np.ndarray, confidence: float = 0.95) -> np.ndarray:
    """Return ``float64[..., 2]``: the percentile interval of values over their first axis.

    Raises:
        ConfigError: a confidence outside of 0..1.
    """
    return np.asarray(np.moveaxis(np.quantile(samples, _tails(confidence), axis=0), 0, -1))


def superiority(elo: np.ndarray) -> np.ndarray:
    """Return ``float64[N, N]``: how often the row's player is above the column's in bootstrapped ``elo float64[B, N]``."""
    above = (elo[:, :, None] > elo[:, None, :]).mean(axis=0)
    return np.asarray(above + 0.5 * (elo[:, :, None] == elo[:, None, :]).mean(axis=0))


def bradley_terry_intervals(
    players: int,
    pairs: np.ndarray,
    scores: np.ndarray,
    *,
    prior: float = 0.5,
    confidence: float = 0.95,
    samples: int = 500,
    seed: int = 0,
) -> np.ndarray:
    """Return ``float64[N, 2]``: the interval of each player's Elo (arguments as ``Results.from_pairs`` and ``bootstrap``).

    Raises:
        ConfigError: no pairs, or a confidence outside of 0..1.
    """
    results = Results.from_pairs(players, pairs, scores)
    return interval(bootstrap(results, prior=prior, samples=samples, seed=seed).elo, confidence)


def _tails(confidence: float) -> tuple[float, float]:
    if not 0.0 < confidence < 1.0:
        raise ConfigError(f"confidence: {confidence}; expected a number between 0 and 1, such as 0.95")
    return (1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0
