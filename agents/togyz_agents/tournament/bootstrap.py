"""Intervals by bootstrap over pairs of games.

A pair is two games from one opening with the colours swapped. Its two games are not independent, so intervals resample pairs.
Source: B. Efron, R. J. Tibshirani, "An introduction to the bootstrap", 1993.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from togyz_agents.tournament.rating import ELO, Ratings, Results, fit_results, fit_weighted
from togyz_env.errors import ConfigError

Game = tuple[int, int, float]
"""White, black, and white's points."""


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
    fit = fit_results(results, prior)
    games: list[Game] = []
    weights: list[np.ndarray] = []
    for (low, high), pairs in sorted(_by_meeting(results).items()):
        kinds = Counter(pairs)
        total = sum(kinds.values())
        scores = {sum(p if white == low else 1.0 - p for white, _, p in kind) / len(kind) for kind in kinds}
        if len(scores) > 1:
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
    drawn_games = Results(results.players, columns[0], columns[1], columns[2], np.zeros(len(games), np.int64))
    return fit_weighted(drawn_games, np.array(weights, np.float64).T, prior)


def _by_meeting(results: Results) -> dict[tuple[int, int], list[tuple[Game, ...]]]:
    """The pairs of any two players, each as its sorted games; the lower number stands first."""
    pairs: dict[tuple[int, int, int], list[Game]] = {}
    columns = (results.white, results.black, results.points, results.pair)
    for white, black, points, pair in zip(*(column.tolist() for column in columns)):
        pairs.setdefault((min(white, black), max(white, black), pair), []).append((white, black, points))
    meetings: dict[tuple[int, int], list[tuple[Game, ...]]] = {}
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
