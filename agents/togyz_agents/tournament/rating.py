"""Ratings: Elo from a score, and by maximum likelihood for many players, with the advantage of the first move.

The model is that of Bradley and Terry: white expects ``1 / (1 + 10 ** (-(elo of white - elo of black + advantage) / 400))`` points,
and a draw counts as half a win and half a loss.
Sources: R. A. Bradley, M. E. Terry, "Rank analysis of incomplete block designs", Biometrika 39, 1952; the term for the first move:
R. R. Davidson, R. J. Beaver, "On extending the Bradley-Terry model to incorporate within-pair order effects", Biometrics 33, 1977.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from togyz_env.errors import ConfigError

ELO = 400.0 / math.log(10.0)
"""Elo points in one unit of log-odds."""

PAIR_SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Mean scores that a pair of games can have."""

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


@dataclass(frozen=True)
class Results:
    """Finished games of ``players`` players, for rating.

    Attributes:
        players: N; the players are the numbers 0..N-1.
        white: ``int64[G]``, who was white.
        black: ``int64[G]``, who was black.
        points: ``float64[G]``, what white got: 1, 0.5 or 0.
        pair: ``int64[G]``, equal for the games of one pair and for no others.
    """

    players: int
    white: np.ndarray
    black: np.ndarray
    points: np.ndarray
    pair: np.ndarray

    @classmethod
    def from_pairs(cls, players: int, pairs: np.ndarray, scores: np.ndarray) -> Results:
        """Results of which only the mean score of each pair is known; they say nothing about the first move.

        Args:
            players: N.
            pairs: ``int[M, 2]``, the two players of each pair of games.
            scores: ``float[M]``, the mean score of the first one over the pair's two games, 0..1.
        """
        pairs, scores = np.asarray(pairs, np.int64).reshape(-1, 2), np.asarray(scores, np.float64)
        white, black = pairs.ravel(), pairs[:, ::-1].ravel()
        points = np.column_stack([scores, 1.0 - scores]).ravel()
        return cls(players, white, black, points, np.repeat(np.arange(len(pairs)), 2))


@dataclass(frozen=True)
class Ratings:
    """A fit: ``elo float64[..., N]`` with mean 0, and ``advantage float64[...]``, the Elo that the first move is worth."""

    elo: np.ndarray
    advantage: np.ndarray


def points_matrix(players: int, pairs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Sum results of pairs (as ``Results.from_pairs``) into ``float64[N, N]``: the row's player's points against the column's."""
    results = Results.from_pairs(players, pairs, scores)
    won, lost = _tables(results, np.ones((1, len(results.points))))
    return np.asarray((won + lost.swapaxes(-1, -2))[0])


def fit_bradley_terry(points: np.ndarray, prior: float = 0.5) -> np.ndarray:
    """Return ``float64[N]``: the most likely Elo of each player, with mean 0, from points without regard to who moved first.

    Args:
        points: ``float[N, N]``, points that the row's player took from the column's; a draw is half a point for each.
        prior: as if each player had drawn so many games against one of average strength; it keeps the unbeaten finite.

    Raises:
        ConfigError: not a square table of points, or ``prior=0`` where some players never lost a point to the others.
    """
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or points.shape[0] != points.shape[1] or not np.all(points >= 0) or prior < 0:
        raise ConfigError(f"ratings: expected a square table of points from 0 and a prior from 0, not {points.shape} and {prior}")
    if prior == 0 and not _connected(points):
        raise ConfigError("ratings: without a prior each group of players must have lost points to the others; use prior > 0")
    points = points * (1 - np.eye(len(points)))
    return np.asarray(_newton(points[None], np.zeros_like(points)[None], prior, first_move=False).elo[0])


def fit_results(results: Results, prior: float = 0.5) -> Ratings:
    """Return the most likely Elo of each player, ``float64[N]``, and of the first move.

    ``prior`` (above 0) as in ``fit_bradley_terry``, and as if so many games between equals had been drawn.
    """
    fit = fit_weighted(results, np.ones((1, len(results.points))), prior)
    return Ratings(fit.elo[0], fit.advantage[0])


def fit_weighted(results: Results, weights: np.ndarray, prior: float) -> Ratings:
    """Fit B data sets at once: elo ``[B, N]``, advantage ``[B]``; game g stands ``weights[b, g]`` times in the b-th."""
    if not prior > 0:
        raise ConfigError(f"ratings: prior {prior}; expected more than 0")
    return _newton(*_tables(results, weights), prior, first_move=True)


def _tables(results: Results, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points by colour, each ``float64[B, N, N]``: the row's player's as white against the column's, and the latter's as black."""
    size = results.players
    cell = results.white * size + results.black
    order = np.argsort(cell, kind="stable")
    cells, starts = np.unique(cell[order], return_index=True)
    won, games = np.zeros((2, len(weights), size * size))
    if len(cells):
        won[:, cells] = np.add.reduceat((weights * results.points)[:, order], starts, axis=1)
        games[:, cells] = np.add.reduceat(weights[:, order], starts, axis=1)
    return won.reshape(-1, size, size), (games - won).reshape(-1, size, size)


def _newton(won: np.ndarray, lost: np.ndarray, prior: float, *, first_move: bool) -> Ratings:
    """Maximise the likelihood of B tables at once, by Newton steps that are halved until they gain (concave: one maximum).

    Args:
        won: ``float64[B, N, N]``, points of the row's player, white, against the column's.
        lost: ``float64[B, N, N]``, points of the column's player, black, against the row's.
        prior: drawn games of each player against the average; of the first move against none.
        first_move: whether to fit the first move's advantage; else it is 0.
    """
    batch, players = won.shape[:2]
    games = won + lost
    # Without a prior the likelihood does not change when all ratings move together; the added constant fixes their sum.
    anchor = np.zeros((players + 1, players + 1))
    anchor[:players, :players] = 1.0 / players if prior == 0 else 0.0
    x = np.zeros((batch, players + 1))  # ratings, then the advantage, in log-odds
    likelihood = _log_likelihood(x, won, lost, prior)
    for _ in range(MAX_NEWTON_STEPS):
        expected = _sigmoid(x[:, :players, None] - x[:, None, :players] + x[:, players, None, None])
        average = _sigmoid(x)
        excess = won - games * expected
        gradient = prior * (0.5 - average)
        gradient[:, :players] += excess.sum(axis=2) - excess.sum(axis=1)
        gradient[:, players] += excess.sum(axis=(1, 2))
        weight = games * expected * (1 - expected)
        both = weight + weight.swapaxes(1, 2)
        hessian = np.zeros((batch, players + 1, players + 1))
        hessian[:, :players, :players] = -both
        diagonal = np.arange(players + 1)
        hessian[:, diagonal[:players], diagonal[:players]] += both.sum(axis=2)
        hessian[:, players, :players] = hessian[:, :players, players] = weight.sum(axis=2) - weight.sum(axis=1)
        hessian[:, players, players] = weight.sum(axis=(1, 2))
        hessian[:, diagonal, diagonal] += prior * average * (1 - average)
        if not first_move:
            gradient[:, players] = 0.0
            hessian[:, players, :] = hessian[:, :, players] = 0.0
            hessian[:, players, players] = 1.0
        step = np.linalg.solve(hessian + anchor, gradient[..., None])[..., 0]
        # Far from the optimum a full Newton step can overshoot: halve it until it gains.
        while True:
            reached = _log_likelihood(x + step, won, lost, prior)
            worse = (reached < likelihood) & (np.abs(step).max(axis=1) > TOLERANCE)
            if not worse.any():
                break
            step[worse] *= 0.5
        x, likelihood = x + step, reached
        if np.abs(step).max() <= TOLERANCE:
            break
    theta = x[:, :players]
    return Ratings((theta - theta.mean(axis=1, keepdims=True)) * ELO, x[:, players] * ELO)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))


def _log_likelihood(x: np.ndarray, won: np.ndarray, lost: np.ndarray, prior: float) -> np.ndarray:
    players = won.shape[-1]
    logit = x[:, :players, None] - x[:, None, :players] + x[:, players, None, None]
    # -log(sigmoid(x)) = log(1 + exp(-x))
    loss = won * np.logaddexp(0.0, -logit) + lost * np.logaddexp(0.0, logit)
    against_average = 0.5 * prior * (np.logaddexp(0.0, x) + np.logaddexp(0.0, -x))
    return -np.asarray(loss.sum(axis=(1, 2)) + against_average.sum(axis=1))


def _connected(points: np.ndarray) -> bool:
    """Tell whether from each player a chain of lost points leads to every other (L. R. Ford, Am. Math. Monthly 64, 1957)."""
    reach = (points > 0) | np.eye(len(points), dtype=bool)
    for _ in range(len(points).bit_length()):
        reach = (reach.astype(np.int64) @ reach.astype(np.int64)) > 0
    return bool(reach.all())
