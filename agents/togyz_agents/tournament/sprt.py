"""SPRT: is the first of two players at least ``elo1`` or at most ``elo0`` stronger, with as few pairs of games as it takes.

The generalised sequential probability ratio test on pairs (pentanomial): the log-likelihood ratio of the two hypotheses, each with
the most likely distribution of the five pair scores that it allows. Sources: A. Wald, "Sequential tests of statistical hypotheses",
Ann. Math. Stat. 16, 1945 (bounds); M. Van den Bergh, "A practical introduction to the GSPRT" and "The normalized Elo model"
(the engine testers' framework fishtest).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np

from togyz_agents.tournament.rating import ELO, PAIR_SCORES, elo_from_score
from togyz_env.errors import ConfigError

Model = Literal["logistic", "normalised"]
Decision = Literal["", "elo0", "elo1", "undecided"]

NORMALISED = 2.0 * ELO
"""Normalised Elo in one standard deviation of a game's result: 800 / ln 10."""

BISECTIONS = 60

_ABSENT = 1e-3  # a score that has not occurred counts so much: a ratio of zeros says nothing
_SCORES = np.array(PAIR_SCORES)


@dataclass(frozen=True)
class SprtConfig:
    """What is tested, and how sure the answer has to be."""

    elo0: float = 0.0
    """The first player's Elo above the second's under the hypothesis that is kept without proof."""
    elo1: float = 10.0
    """The same under the hypothesis to prove; above elo0."""
    alpha: float = 0.05
    """Chance to accept elo1 where elo0 is true."""
    beta: float = 0.05
    """Chance to accept elo0 where elo1 is true."""
    max_pairs: int = 5000
    """The test ends undecided after so many pairs."""
    model: Model = "logistic"
    """The unit of elo0 and elo1: logistic, Elo as in ratings; normalised, (score - 1/2) / (deviation of a game) * 800 / ln 10."""

    def __post_init__(self) -> None:
        """Refuse what cannot be tested."""
        if not (math.isfinite(self.elo0) and math.isfinite(self.elo1) and self.elo0 < self.elo1):
            raise ConfigError(f"sprt: elo0 {self.elo0:g} and elo1 {self.elo1:g}; expected two numbers, the first one smaller")
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0 < value < 0.5:
                raise ConfigError(f"sprt: {name} {value:g}; expected a chance of error between 0 and 0.5, such as 0.05")
        if self.max_pairs < 1:
            raise ConfigError(f"sprt: max_pairs {self.max_pairs}; expected at least 1")
        if self.model not in ("logistic", "normalised"):
            raise ConfigError(f"sprt: model {self.model!r}; expected logistic or normalised")

    @property
    def bounds(self) -> tuple[float, float]:
        """The ratios' logarithms at which elo0 (lower) and elo1 (upper) are accepted: ln(b / (1 - a)) and ln((1 - b) / a)."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)


@dataclass(frozen=True)
class SprtResult:
    """Where a test stands.

    Attributes:
        decision: "elo1" or "elo0", the hypothesis that is accepted; "undecided" at ``max_pairs``; "" while it goes on.
        llr: log-likelihood ratio of elo1 to elo0.
        pairs: pairs counted.
        counts: pairs by the first player's points in the two games: 0, 1/2, 1, 3/2, 2.
    """

    decision: Decision
    llr: float
    pairs: int
    counts: tuple[int, int, int, int, int]

    @property
    def score(self) -> float:
        """The first player's points per game, 0..1; biased away from the middle by the early stop."""
        return float(np.dot(self.counts, _SCORES) / max(1, self.pairs))


class Sprt:
    """A test in progress: ``add`` the pairs in their order until ``result.decision`` is not empty."""

    def __init__(self, config: SprtConfig) -> None:
        """Begin without pairs."""
        self.config = config
        self._counts = [0] * len(PAIR_SCORES)
        self.result = SprtResult("", 0.0, 0, (0, 0, 0, 0, 0))

    def add(self, score: float) -> SprtResult:
        """Count the first player's mean score in a pair (0, 1/4, 1/2, 3/4 or 1); a test that is decided stays as it is."""
        if self.result.decision:
            return self.result
        self._counts[PAIR_SCORES.index(score)] += 1
        pairs = sum(self._counts)
        llr = log_likelihood_ratio(self._counts, self.config)
        low, high = self.config.bounds
        decision: Decision = (
            "elo1" if llr >= high else "elo0" if llr <= low else "undecided" if pairs >= self.config.max_pairs else ""
        )
        a, b, c, d, e = self._counts
        self.result = SprtResult(decision, llr, pairs, (a, b, c, d, e))
        return self.result


def run_sprt(scores: Iterable[float], config: SprtConfig) -> SprtResult:
    """Test the pair scores in their order, as far as needed."""
    test = Sprt(config)
    for score in scores:
        if test.add(score).decision:
            break
    return test.result


def log_likelihood_ratio(counts: Sequence[int], config: SprtConfig) -> float:
    """Logarithm of how much more likely ``counts`` (pairs by score 0, 1/4, 1/2, 3/4, 1) are under elo1 than under elo0."""
    if sum(counts) == 0:
        return 0.0
    seen = np.maximum(np.asarray(counts, np.float64), _ABSENT)
    shares = seen / seen.sum()
    fit = _with_mean if config.model == "logistic" else _with_ratio
    p0, p1 = (fit(shares, elo) for elo in (config.elo0, config.elo1))
    return float(np.dot(seen, np.log(p1 / p0)))


def pairs_needed(counts: Sequence[float], config: SprtConfig, elo: float) -> float:
    """Return how many pairs the test takes on average if the first player is ``elo`` (logistic) stronger.

    Wald's approximation: the mean ratio at the end, by the chance of either end, divided by the mean and variance of its growth per
    pair. ``counts`` of pairs by score, from a match of such players, say how results vary; only their shares matter.
    """
    shares = _with_mean(np.maximum(np.asarray(counts, np.float64), _ABSENT) / np.sum(counts), elo)
    fit = _with_mean if config.model == "logistic" else _with_ratio
    growth = np.log(fit(shares, config.elo1) / fit(shares, config.elo0))
    mean = float(shares @ growth)
    variance = float(shares @ (growth - mean) ** 2)
    low, high = config.bounds
    if abs(mean) < 1e-9 * variance:
        return -low * high / variance
    drift = 2 * mean / variance
    # The chance to end above, of a Brownian motion with this drift.
    upper = (
        (1 - math.exp(-drift * low)) / (math.exp(-drift * high) - math.exp(-drift * low)) if abs(drift) < 100 else float(drift > 0)
    )
    return (upper * high + (1 - upper) * low) / mean


def match_pairs(counts: Sequence[float], elo: float, confidence: float = 0.95, power: float = 0.9) -> float:
    """Return how many pairs a match of fixed length needs to tell a player ``elo`` stronger from an equal one.

    ``power``: the chance that such a player's two-sided interval of ``confidence`` lies above 0; ``counts`` as in ``pairs_needed``.
    """
    shares = np.asarray(counts, np.float64) / np.sum(counts)
    variance = float(shares @ (_SCORES - shares @ _SCORES) ** 2)
    normal = NormalDist()
    deviations = normal.inv_cdf((1 + confidence) / 2) + normal.inv_cdf(power)
    return deviations**2 * variance / (_score_of(elo) - 0.5) ** 2


def _score_of(elo: float) -> float:
    return 1.0 / (1.0 + math.exp(-elo / ELO))


def _with_mean(shares: np.ndarray, elo: float) -> np.ndarray:
    """The distribution nearest to ``shares`` whose mean is the score that ``elo`` stands for."""
    return _tilted(shares, _SCORES - _score_of(elo))


def _with_ratio(shares: np.ndarray, normalised: float) -> np.ndarray:
    """The same where ``(mean - 1/2) / deviation`` is what ``normalised`` Elo stands for; a pair varies half as much as a game."""
    ratio = normalised / NORMALISED * math.sqrt(2.0)
    fitted = np.full_like(shares, 1 / len(shares))
    for _ in range(20):
        before = fitted
        mean = float(fitted @ _SCORES)
        deviation = math.sqrt(float(fitted @ (_SCORES - mean) ** 2))
        # The condition, linearised about the last fit.
        fitted = _tilted(shares, _SCORES - 0.5 - ratio * deviation * (1 + ((mean - _SCORES) / deviation) ** 2) / 2)
        if np.abs(fitted - before).max() < 1e-9:
            break
    return fitted


def _tilted(shares: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The distribution p that makes ``shares`` most likely among those with ``p @ values == 0``: shares / (1 + x values)."""
    pairs = list(zip(shares.tolist(), values.tolist()))
    # The sum falls from infinity to minus infinity between these two; few numbers, so plain ones are the fastest.
    low, high = -1.0 / max(value for _, value in pairs), -1.0 / min(value for _, value in pairs)
    for _ in range(BISECTIONS):
        x = 0.5 * (low + high)
        if sum(share * value / (1.0 + x * value) for share, value in pairs) > 0:
            low = x
        else:
            high = x
    tilted = shares / (1 + x * values)
    return np.asarray(tilted / tilted.sum())


def describe(result: SprtResult, config: SprtConfig) -> str:
    """One or two lines for people: the decision, what it means and the figures behind it."""
    low, high = config.bounds
    unit = "Elo" if config.model == "logistic" else "normalised Elo"
    verdict = {
        "elo1": f"accepted: {config.elo1:g} {unit} or more",
        "elo0": f"refused: {config.elo0:g} {unit} or less is the better explanation",
        "undecided": f"undecided after {config.max_pairs} pairs",
        "": "in progress",
    }[result.decision]
    elo = elo_from_score(result.score) if result.pairs else 0.0
    return (
        f"SPRT of {config.elo0:g} against {config.elo1:g} {unit} (alpha {config.alpha:g}, beta {config.beta:g}): {verdict}\n"
        f"log-likelihood ratio {result.llr:.2f} in [{low:.2f}, {high:.2f}]; {result.pairs} pairs, by points 0 1/2 1 3/2 2: "
        f"{' '.join(map(str, result.counts))}; score {result.score:.1%}, Elo {elo:+.0f} (biased by the early stop)"
    )
