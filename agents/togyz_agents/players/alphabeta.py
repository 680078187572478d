"""The alpha-beta player: looks as deep as depth, nodes or time allow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from togyz_agents.agent import Clock
from togyz_agents.search.alphabeta import weights as fitted
from togyz_agents.search.alphabeta.evaluation import score_of_value
from togyz_agents.search.alphabeta.kernel import MAX_DEPTH
from togyz_agents.search.alphabeta.searcher import AlphaBetaConfig, AlphaBetaResult, AlphaBetaSearch, LeafEvaluator
from togyz_env.errors import ConfigError
from togyz_env.position import Position, Ruleset

DEFAULT_DEPTH = 6


def network_leaves(network: Path, device: str, precision: str) -> LeafEvaluator:
    """Scores of leaves from the value of a trained network (a run, checkpoint or .safetensors file)."""
    from togyz_agents.evaluator import NetworkEvaluator, one_torch_thread  # torch takes seconds to import
    from togyz_agents.network import load_network
    from togyz_agents.players.alphazero import find_network

    evaluator = NetworkEvaluator(load_network(find_network(network)), device, precision)

    def scores(states: np.ndarray) -> np.ndarray:
        with one_torch_thread():
            return score_of_value(evaluator(states)[1], fitted.SCALE)

    return scores


class AlphaBetaAgent:
    """Plays the best move of an alpha-beta search with iterative deepening; it draws no random numbers.

    With limits of depth or nodes the same game gives the same moves. Several limits hold together. What was found out for one move
    is kept in the table for the next. A network's leaves are evaluated nine at most at a time, so a search with one visits
    thousands of positions a second where the evaluations visit millions.

    Args:
        depth: plies to look ahead; 6 if no other limit is given.
        nodes: positions to visit for each move.
        time: seconds for each move.
        eval: full (fitted weights) or kazan (the difference of the kazans).
        quiescence: whether captures are searched on at the leaves; by default they are, but not with a network.
        table: memory of the transposition table in MiB, for each player made; 0 for none.
        network: evaluate leaves with this network (a run, a checkpoint or a .safetensors file) in place of ``eval``.
        device: where the network runs.
        precision: of the network: float32, bfloat16, float16 or auto.
        end: the end rule that the search assumes.
        max_plies: the ply limit that the search assumes.
    """

    def __init__(
        self,
        depth: int | None = None,
        nodes: int | None = None,
        time: float | None = None,
        eval: Literal["full", "kazan"] = "full",
        quiescence: bool | None = None,
        table: int = 16,
        network: Path | None = None,
        device: str = "cpu",
        precision: str = "float32",
        end: str = "majority",
        max_plies: int = 2000,
    ) -> None:
        """Allocate the table and load the network; ConfigError or CheckpointError say what is wrong."""
        if depth is not None and not 1 <= depth <= MAX_DEPTH:
            raise ConfigError(f"alphabeta: depth must be from 1 to {MAX_DEPTH}, not {depth}")
        if nodes is not None and nodes < 1:
            raise ConfigError(f"alphabeta: nodes must be at least 1, not {nodes}")
        if time is not None and not 0 < time < float("inf"):
            raise ConfigError(f"alphabeta: time must be more than 0 seconds, not {time}")
        ruleset = Ruleset(end=end, max_plies=max_plies)  # type: ignore[arg-type]  # Ruleset refuses other words itself
        captures = network is None if quiescence is None else quiescence
        config = AlphaBetaConfig(eval, AlphaBetaConfig.quiescence if captures else 0, table)
        evaluator = None if network is None else network_leaves(Path(network), device, precision)
        self.search = AlphaBetaSearch(config, ruleset, evaluator)
        limits = {"depth": depth, "nodes": nodes, "time": time}
        given = [f"{key}={value}" for key, value in limits.items() if value is not None] or [f"depth={DEFAULT_DEPTH}"]
        settings = [f"network={network}"] if network is not None else ["eval=kazan"] if eval == "kazan" else []
        self.name = "alphabeta:" + ",".join([*given, *settings, *(["quiescence=off"] if network is None and not captures else [])])
        self._depth, self._nodes, self._time = depth, nodes, time

    def new_game(self, seed: int) -> None:
        """Forget the last game; the search draws no random numbers."""
        self.search.forget()

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return the hole 1..9 that the search likes best; at once where only one can be played."""
        legal = position.legal_moves()
        return legal[0] if len(legal) == 1 else self.analyse(position, clock).action + 1

    def analyse(self, position: Position, clock: Clock | None = None, lines: int = 1) -> AlphaBetaResult:
        """What the search of ``select`` finds out about ``position``, with exact scores of the best ``lines`` moves.

        A clock's time for the move holds beside the player's own limits, and in place of the default depth.
        """
        seconds = None if clock is None else clock.seconds_for_a_move()
        if self._time is not None:
            seconds = self._time if seconds is None else min(seconds, self._time)
        depth = self._depth
        if depth is None and self._nodes is None and seconds is None:
            depth = DEFAULT_DEPTH
        return self.search.run(position.state, position.ply, depth=depth, nodes=self._nodes, seconds=seconds, lines=lines)

    def close(self) -> None:
        """Nothing to release."""
