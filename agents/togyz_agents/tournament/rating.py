"""Ratings: Elo from a score, maximum-likelihood Bradley-Terry for many players, and bootstrap intervals over pairs of games.

A pair is two games from one opening with the colours swapped. Its two games are not independent, so intervals resample pairs.
Source: R. A. Bradley, M. E. Terry, "Rank analysis of incomplete block designs", Biometrika 39, 1952.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from togyz_env.errors import ConfigError

ELO = 400.0 / math.log(10.0)
"""Elo points in one unit of log-odds."""

MAX_NEWTON_STEPS = 200
TOLERANCE = 1e-9


def elo_from_score(score: float) -> float:
    """Return the Elo difference at which the stronger side expects ``score`` (0..1) of the points; infinite at 0 and 1.

    Raises:
        ConfigError: a score outside of 0..1.
    """
    if not 0.0 <= score <= 1.0:
        raise ConfigError(f"score: {score}; expected points divided by games, 0 to 1")
    if score in (0.0, 1.0):
        return math.inf if score else -math.inf
    return ELO * math.log(score / (1.0 - score))


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


def points_matrix(players: int, pairs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Sum results of pairs into ``float64[N, N]``: the points that the row's player took from the column's.

    Args:
        players: N.
        pairs: ``int[M, 2]``, the two players of each pair of games.
        scores: ``float[M]``, the mean score of the first one over the pair's two games, 0..1.
    """
    points = np.zeros((players, players))
    np.add.at(points, (pairs[:, 0], pairs[:, 1]), 2.0 * scores)
    np.add.at(points, (pairs[:, 1], pairs[:, 0]), 2.0 * (1.0 - scores))
    return points


def fit_bradley_terry(points: np.ndarray, prior: float = 0.5) -> np.ndarray:
    """Return ``float64[N]``: the most likely Elo of each player, with mean 0.

    Args:
        points: ``float[N, N]``, points that the row's player took from the column's; a draw is half a point for each.
        prior: as if each player had drawn so many games against one of average strength; it keeps the unbeaten finite.

    Raises:
        ConfigError: not a square table of points, or ``prior=0`` where some players never lost a point to the others.
    """
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or points.shape[0] != points.shape[1] or not np.all(points >= 0) or prior < 0:
        raise ConfigError(f"ratings: expected a square table of points from 0 and a prior from 0, not {points.shape} and {prior}")
    players = len(points)
    if prior == 0 and not _connected(points):
        raise ConfigError("ratings: without a prior each group of players must have lost points to the others; use prior > 0")
    points = points * (1 - np.eye(players))
    games = points + points.T
    # Without a prior the likelihood does not change when all ratings move together; the added constant fixes their sum.
    anchor = 1.0 / players if prior == 0 else 0.0
    theta = np.zeros(players)
    likelihood = _log_likelihood(theta, points, prior)
    for _ in range(MAX_NEWTON_STEPS):
        expected = _sigmoid(theta[:, None] - theta[None, :])
        average = _sigmoid(theta)
        gradient = (points - games * expected).sum(axis=1) + prior * (0.5 - average)
        weights = games * expected * (1 - expected)
        hessian = np.diag(weights.sum(axis=1) + prior * average * (1 - average)) - weights
        step = np.linalg.solve(hessian + anchor, gradient)
        # Far from the optimum a full Newton step can overshoot: halve it until it gains.
        while np.abs(step).max() > TOLERANCE and _log_likelihood(theta + step, points, prior) < likelihood:
            step *= 0.5
        theta = theta + step
        likelihood = _log_likelihood(theta, points, prior)
        if np.abs(step).max() <= TOLERANCE:
            break
    return np.asarray((theta - theta.mean()) * ELO)


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
    """Return ``float64[N, 2]``: the bootstrap interval of each player's Elo, resampling pairs (arguments as ``points_matrix``).

    Raises:
        ConfigError: no pairs, or a confidence outside of 0..1.
    """
    if len(pairs) == 0:
        raise ConfigError("interval: there are no pairs of games to take it from")
    rng = np.random.default_rng(seed)
    ratings = np.empty((samples, players))
    for i in range(samples):
        drawn = rng.integers(len(pairs), size=len(pairs))
        ratings[i] = fit_bradley_terry(points_matrix(players, pairs[drawn], scores[drawn]), prior)
    return np.asarray(np.quantile(ratings, _tails(confidence), axis=0).T)


def _tails(confidence: float) -> tuple[float, float]:
    if not 0.0 < confidence < 1.0:
        raise ConfigError(f"confidence: {confidence}; expected a number between 0 and 1, such as 0.95")
    return (1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _log_likelihood(theta: np.ndarray, points: np.ndarray, prior: float) -> float:
    # -log(sigmoid(x)) = log(1 + exp(-x))
    against_others = points * np.logaddexp(0.0, theta[None, :] - theta[:, None])
    against_average = 0.5 * prior * (np.logaddexp(0.0, theta) + np.logaddexp(0.0, -theta))
    return -float(against_others.sum() + against_average.sum())


def _connected(points: np.ndarray) -> bool:
    """Tell whether from each player a chain of lost points leads to every other (L. R. Ford, Am. Math. Monthly 64, 1957)."""
    reach = (points > 0) | np.eye(len(points), dtype=bool)
    for _ in range(len(points).bit_length()):
        reach = (reach.astype(np.int64) @ reach.astype(np.int64)) > 0
    return bool(reach.all())
