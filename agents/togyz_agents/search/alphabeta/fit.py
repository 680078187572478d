"""Fitting the weights of the evaluation: games of the search against itself, and a logistic regression of their results.

The result of a game is regressed on the features of every position in it, so a weight says how much a feature changes the odds of
winning, everything else equal. Several rounds: each plays with the weights of the one before, the first with the kazans alone.
(The idea is the "Texel tuning" of chess engines.)
"""

from __future__ import annotations

import logging
import multiprocessing
from dataclasses import dataclass
from functools import partial

import numpy as np

from togyz_agents.search.alphabeta.evaluation import FEATURES, KAZANS, NAMES, STONE, features_batch
from togyz_agents.search.alphabeta.searcher import AlphaBetaConfig, AlphaBetaSearch
from togyz_env.errors import ConfigError
from togyz_env.position import outcome_of
from togyz_env.rules import HOLES, STATE_SIZE, STONES, TO_MOVE, is_legal, play, start_state

log = logging.getLogger(__name__)

Game = tuple[np.ndarray, np.ndarray]
"""``(states uint8[plies, 23], results float64[plies])``: 1, 0.5 or 0 for the side to move."""
NEWTON_STEPS = 25


@dataclass(frozen=True)
class FitConfig:
    """How much is played and how."""

    games: int = 4000
    """Games of each round."""
    rounds: int = 2
    """Rounds of playing and fitting."""
    depth: int = 4
    """Depth of the search that plays, captures searched on."""
    opening_plies: int = 12
    """Most random plies at the start of a game; each number from 0 is equally likely."""
    random_share: float = 0.05
    """Share of random moves afterwards."""
    penalty: float = 3.0
    """Weight of the squared coefficients, of features scaled to variance 1."""
    seed: int = 1
    """Of the games; each game has its own stream."""
    workers: int = 1
    """Processes; the weights do not depend on their number."""

    def __post_init__(self) -> None:
        """Refuse what cannot be played or fitted."""
        for name, least in (("games", 10), ("rounds", 1), ("depth", 1), ("workers", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"fit: {name} {getattr(self, name)}; expected at least {least}")
        if not 0 <= self.random_share <= 1 or self.opening_plies < 0 or not self.penalty > 0:
            raise ConfigError(
                f"fit: random share {self.random_share}, {self.opening_plies} opening plies, penalty {self.penalty};"
                " expected a share, no negative number and a penalty above 0"
            )


@dataclass(frozen=True)
class Fit:
    """Fitted weights.

    Attributes:
        weights: ``int64[2, FEATURES]``, on an empty and on a full board, in hundredths of a stone.
        scale: score of which the odds are e : 1.
        loss: cross-entropy per position on a tenth of the games that was not fitted on.
        baseline: the same of the difference of the kazans alone (with its own scale).
        positions: positions fitted on.
    """

    weights: np.ndarray
    scale: float
    loss: float
    baseline: float
    positions: int


def play_game(index: int, config: FitConfig, search: AlphaBetaSearch, round_: int) -> Game:
    """Play one game of the search against itself, after random opening plies."""
    rng = np.random.default_rng([config.seed, round_, index])
    search.forget()
    state = start_state()
    random_plies = int(rng.integers(config.opening_plies + 1))
    states = []
    ply = 0
    while (outcome := outcome_of(state, ply, search.ruleset)) is None:
        if ply >= random_plies:
            states.append(state.copy())
        if ply < random_plies or rng.random() < config.random_share:
            action = int(rng.choice([a for a in range(HOLES) if is_legal(state, a)]))
        else:
            action = search.run(state, ply, depth=config.depth).action
        play(state, action)
        ply += 1
    rows = np.array(states, np.uint8).reshape(-1, STATE_SIZE)
    white = 0.5 if outcome.winner is None else float(outcome.winner == 0)
    return rows, np.where(rows[:, TO_MOVE] == 0, white, 1.0 - white)


def _play_many(indices: list[int], config: FitConfig, weights: np.ndarray | None, round_: int) -> list[Game]:
    settings = AlphaBetaConfig("kazan" if weights is None else "full", table=1)
    search = AlphaBetaSearch(settings, weights=weights)
    return [play_game(index, config, search, round_) for index in indices]


def play_games(config: FitConfig, weights: np.ndarray | None, round_: int) -> list[Game]:
    """Play the games of one round with ``weights`` (None: the kazans alone), in ``config.workers`` processes."""
    chunks = [list(range(start, min(start + 50, config.games))) for start in range(0, config.games, 50)]
    work = partial(_play_many, config=config, weights=weights, round_=round_)
    if config.workers == 1:
        return [game for chunk in chunks for game in work(chunk)]
    with multiprocessing.get_context("spawn").Pool(config.workers) as pool:
        return [game for games in pool.imap(work, chunks) for game in games]


def design_matrix(states: np.ndarray) -> np.ndarray:
    """Return ``float64[B, 2 * FEATURES]``: the features times the empty and the full part of the board."""
    values, board = features_batch(states)
    full = (board / STONES)[:, None]
    return np.concatenate([values * (1 - full), values * full], axis=1)


def logistic_regression(inputs: np.ndarray, results: np.ndarray, penalty: float) -> np.ndarray:
    """Return the coefficients that minimise cross-entropy plus ``penalty`` times their squares, those of scaled inputs.

    Newton's method.
    """
    spread = np.maximum(inputs.std(axis=0), 1e-9)
    scaled = inputs / spread
    coefficients = np.zeros(inputs.shape[1])
    for _ in range(NEWTON_STEPS):
        expected = 1 / (1 + np.exp(-scaled @ coefficients))
        gradient = scaled.T @ (expected - results) + 2 * penalty * coefficients
        hessian = (scaled * (expected * (1 - expected))[:, None]).T @ scaled + 2 * penalty * np.eye(len(coefficients))
        step = np.linalg.solve(hessian, gradient)
        coefficients -= step
        if np.abs(step).max() < 1e-8:
            break
    return np.asarray(coefficients / spread)


def cross_entropy(inputs: np.ndarray, results: np.ndarray, coefficients: np.ndarray) -> float:
    """Mean cross-entropy in nats of predicting ``results`` from ``inputs``."""
    logits = inputs @ coefficients
    return float(np.mean(np.logaddexp(0, logits) - results * logits))


def fit_games(games: list[Game], penalty: float) -> Fit:
    """Fit the weights to nine tenths of the games and measure them on the rest."""
    fitted_on = [game for number, game in enumerate(games) if number % 10]
    (inputs, results), (held_inputs, held_results) = (
        (design_matrix(np.concatenate([states for states, _ in part])), np.concatenate([results for _, results in part]))
        for part in (fitted_on, games[::10])
    )
    coefficients = logistic_regression(inputs, results, penalty)
    kazans = [KAZANS, KAZANS + FEATURES]
    alone = logistic_regression(inputs[:, kazans].sum(axis=1, keepdims=True), results, penalty)
    # a stone in the kazan is worth STONE in the middle between an empty and a full board
    scale = STONE / coefficients[kazans].mean()
    return Fit(
        weights=np.rint(coefficients * scale).astype(np.int64).reshape(2, FEATURES),
        scale=float(scale),
        loss=cross_entropy(held_inputs, held_results, coefficients),
        baseline=cross_entropy(held_inputs[:, kazans].sum(axis=1, keepdims=True), held_results, alone),
        positions=len(results),
    )


def fit(config: FitConfig) -> Fit:
    """Play and fit, round after round; return the last fit."""
    found: Fit | None = None
    for round_ in range(config.rounds):
        games = play_games(config, None if found is None else found.weights, round_)
        found = fit_games(games, config.penalty)
        log.info(
            "round %d: %d games, %d positions, cross-entropy %.4f (kazans alone %.4f), scale %.0f",
            round_ + 1, len(games), found.positions, found.loss, found.baseline, found.scale,
        )  # fmt: skip
    if found is None:
        raise RuntimeError("a fit without rounds")
    return found


def module_text(found: Fit, command: str) -> str:
    """The source of ``weights.py``: the weights as constants, with the command that made them."""
    lines = [
        '"""Weights of the evaluation "full", for the side to move, in hundredths of a stone. Made by:',
        "",
        command,
        '"""',
        "",
        "from __future__ import annotations",
        "",
        f"SCALE = {found.scale:.1f}",
        '"""Score of which the odds of winning are e : 1."""',
    ]
    for name, row in zip(("EMPTY_BOARD", "FULL_BOARD"), found.weights):
        lines += ["", f"{name} = ("]
        lines += [f"    {weight},  # {feature}" for weight, feature in zip(row, NAMES)]
        lines += [")"]
    return "\n".join(lines) + "\n"
