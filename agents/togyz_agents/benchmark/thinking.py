"""Speed of the searches: alpha-beta, and one position with a network."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import numpy as np

from togyz_agents.benchmark.measuring import (
    PLIES,
    Figure,
    Plan,
    Task,
    measure_tasks,
    network_name,
    repeatedly,
)
from togyz_agents.evaluator import NetworkEvaluator, fastest_precision
from togyz_agents.network import Network
from togyz_agents.search.alphabeta.searcher import AlphaBetaConfig, AlphaBetaSearch
from togyz_agents.search.single import SingleSearch
from togyz_env.batch import end_reason_batch, random_states
from togyz_env.rules import ONGOING, TO_MOVE


def alphabeta(plan: Plan) -> list[Figure]:
    """Nodes of alpha-beta from positions of random games, each searched afresh to the same depth."""
    states = random_states(64, seed=1, plies=80)
    positions = [state for state in states if end_reason_batch(state[None], False)[0] == ONGOING]
    tasks = []
    for config in (AlphaBetaConfig("kazan", 0), AlphaBetaConfig("kazan"), AlphaBetaConfig("full")):
        search = AlphaBetaSearch(config)
        turn = cycle(positions)

        def step(search: AlphaBetaSearch = search, turn: Iterator[np.ndarray] = turn) -> int:
            state = next(turn)
            search.forget()
            return search.run(state, int(state[TO_MOVE]), depth=plan.depth).nodes

        captures = "captures searched on" if config.quiescence else "no captures beyond"
        name = f"alpha-beta, evaluation {config.evaluation}, depth {plan.depth}, {captures}"
        tasks.append(Task(name, "nodes/s", repeatedly(step)))
    return measure_tasks("alphabeta", tasks, plan)[0]


def single(plan: Plan) -> list[Figure]:
    """Search of one position with a network, leaves in batches, until the tree holds so many simulations; each position afresh."""
    network = Network(plan.networks[0])
    evaluate = NetworkEvaluator(network, precision=fastest_precision(network, batch=64))
    states = random_states(64, seed=1, plies=PLIES // 2)
    positions = cycle([state for state in states if end_reason_batch(state[None], False)[0] == ONGOING])
    tasks = []
    for simulations in plan.single_simulations:
        search = SingleSearch(evaluate.outputs)

        def step(search: SingleSearch = search, simulations: int = simulations) -> int:
            search.forget()
            state = next(positions)
            return search.run(state, int(state[TO_MOVE]), simulations=simulations).simulations

        name = f"one position, network {network_name(network.config)}, {simulations} simulations"
        tasks.append(Task(name, "simulations/s", repeatedly(step)))
    return measure_tasks("single", tasks, plan)[0]
