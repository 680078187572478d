"""The benchmark: what it reports, not how fast anything is.

1. Every group gives its figures, as JSON that says what was measured on which machine.
2. Best is not below the median; a ratio stands beside the figures that it is made of.
3. Self-play counts the simulations that the evaluator was asked for.
4. What is asked for wrongly ends as one line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from togyz_agents import benchmark
from togyz_agents.benchmark import GROUPS, RATIO, Figure, Plan, measure, repeatedly, to_dict, to_text
from togyz_agents.evaluator import uniform_evaluator
from togyz_agents.network import NetworkConfig
from togyz_agents.training.config import Config, SelfPlayConfig
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.selfplay import SelfPlayWorker
from togyz_env import ConfigError
from togyz_env.batch import random_states

ROOT = Path(__file__).resolve().parent.parent
TINY = Plan(
    seconds=0.002,
    repeats=2,
    networks=(NetworkConfig(width=8, blocks=1), NetworkConfig(width=4, blocks=0, encoder="plain")),
    batches=(1, 4),
    precisions=("float32",),
    workers=(1, 2),
    slots=(4, 6),
    simulations=5,
    training_batches=(16,),
    depth=2,
)


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """What JSON readers get of a tiny benchmark."""
    result: dict[str, Any] = json.loads(json.dumps(to_dict(measure(TINY), TINY, benchmark.machine())))
    return result


def of(result: dict[str, Any], group: str) -> list[dict[str, Any]]:
    return [figure for figure in result["figures"] if figure["group"] == group]


def test_every_group_gives_its_figures(result: dict[str, Any]) -> None:
    assert {group: len(of(result, group)) for group in GROUPS} == {
        "rules": 1,
        "environment": 2,
        "alphabeta": 3,
        "tree": 2,
        "evaluator": 4,  # 2 networks x 1 precision x 2 batches
        "selfplay": 20,  # 2 slots x 2 workers x (evaluations alone, 2 ways to play, 2 ratios)
        "training": 1,
        "sample": 1,
    }
    keys = {"group", "what", "unit", "threads", "best", "median", "first"}
    assert all(set(figure) == keys for figure in result["figures"])
    names = [(figure["what"], figure["unit"], figure["threads"]) for figure in result["figures"]]
    assert len(set(names)) == len(names)
    assert of(result, "sample")[0]["best"] == SAMPLE.itemsize


def test_best_is_not_below_the_median(result: dict[str, Any]) -> None:
    for figure in result["figures"]:
        if figure["unit"] != RATIO:
            assert figure["best"] >= figure["median"] > 0, figure


def test_a_ratio_is_that_of_the_figures_beside_it(result: dict[str, Any]) -> None:
    figures = of(result, "selfplay")
    ratios = 0
    for before, figure in pairwise(figures):
        if before["unit"] == "evaluations/s":
            alone = before
        if figure["unit"] == RATIO:
            assert (before["what"], before["threads"]) == (figure["what"], figure["threads"])
            assert alone["threads"] == figure["threads"]
            assert figure["best"] == pytest.approx(before["best"] / alone["best"])
            ratios += 1
    assert ratios == 8


def test_the_machine_and_the_plan_are_told(result: dict[str, Any]) -> None:
    machine = result["machine"]
    assert machine["cpu"]
    assert machine["cores"] >= 1
    assert set(machine["versions"]) == {"togyz", "numpy", "numba", "torch", "gymnasium"}
    assert machine["torch capability"] in benchmark.machine_line(machine)
    assert result["plan"]["networks"][0] == {"encoder": "rules", "width": 8, "blocks": 1}


def test_the_table_holds_every_figure() -> None:
    figures = [Figure("a", "moves of a", "moves/s", 1, 1234567.0, 1000.4, 0.25), Figure("b", "b against a", RATIO, 2, 0.912, 0.5)]
    lines = to_text(figures, TINY).splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["moves", "of", "a", "1,234,567", "1,000", "moves/s", "1", "0.2", "s"],
        [],
        ["b", "against", "a", "0.91", "0.50", *RATIO.split(), "2"],
    ]


def test_work_is_done_at_least_once_and_counted() -> None:
    calls: list[int] = []

    def step() -> int:
        calls.append(1)
        return 10

    assert repeatedly(step)(0.0) > 0
    assert len(calls) == 1


def test_self_play_counts_the_simulations_that_the_evaluator_was_asked_for() -> None:
    asked = 0

    def evaluator(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal asked
        asked += len(states)
        return uniform_evaluator(states)

    settings = SelfPlayConfig(slots=8, simulations=50, full_share=1.0, tree_reuse=False, cache_places=0)
    worker = SelfPlayWorker(Config(selfplay=settings), evaluator, np.random.SeedSequence(1))
    worker.begin()
    done = 0
    while asked < 8 * 51 * 10:  # ten searches of each game; so early no leaf has ended a game
        done += worker.play_for(0.0)
    assert asked - 8 * 11 <= done <= asked - 8 * 10  # a search asks once more, for its root


def test_random_states_are_positions_of_many_lengths() -> None:
    states = random_states(60, seed=3, plies=30)
    assert (states[:, :20].sum(axis=1) == 162).all()
    assert len(np.unique(states, axis=0)) > 55
    assert np.array_equal(states[:, 22], np.arange(1, 61) % 2)  # nobody wins by chance in 30 plies here
    assert np.array_equal(states, random_states(60, seed=3, plies=30))


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ConfigError, match="'speed' is not one of rules, environment"):
        measure(TINY, ["speed"])
    with pytest.raises(ConfigError, match="seconds a repeat"):
        Plan(seconds=0.0)
    with pytest.raises(ConfigError, match="repeats"):
        Plan(repeats=0)


def test_the_script_prints_json_and_nothing_else() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "benchmark.py"), "--json", "--only", "sample", "rules", "--seconds", "0.01"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [figure["group"] for figure in json.loads(result.stdout)["figures"]] == ["rules", "sample"]
