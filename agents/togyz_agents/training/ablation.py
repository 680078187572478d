"""Comparing settings honestly: the same core-minutes for each, then matches of the networks at equal time.

Each variant trains on one core of its own (self-play thread and learner together), as many at once as there are cores; the order is
the file's. Then every network meets the first variant's in colour-swapped pairs. A variant whose evaluations are slower gets fewer
simulations in the match, in the ratio of the two runs' self-play speeds, where the file asks for it (``equal_time: true``).
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from togyz_agents.network import load_network
from togyz_agents.players.alphazero import AlphaZeroAgent
from togyz_agents.tournament.match import MatchResult, play_match
from togyz_agents.training.checkpoint import NETWORK_FILE
from togyz_agents.training.config import Config, override
from togyz_agents.yaml_file import read_yaml
from togyz_env.errors import ConfigError

TRAIN = Path(__file__).parents[3] / "scripts" / "train.py"
KEYS = {"base", "minutes", "pairs", "simulations", "seed", "variants"}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """An ablation as its YAML file describes it.

    Attributes:
        base: settings of every variant, dotted keys.
        minutes: processor time of each one's training, so that other users of the machine cost no variant more than another.
        pairs: of each match against the first variant.
        simulations: for each move in the matches.
        seed: of the matches' openings.
        variants: name to its settings (dotted keys); ``equal_time`` scales its simulations. The first one is the reference.
    """

    base: dict[str, Any]
    minutes: float
    pairs: int
    simulations: int
    seed: int
    variants: dict[str, dict[str, Any]]


def read_plan(path: Path) -> Plan:
    """Read a plan; ConfigError names what is wrong with it, or with one of its variants: none is found out after an hour."""
    data = read_yaml(path, "ablation")
    if not isinstance(data, dict) or data.keys() != KEYS or not data["variants"]:
        raise ConfigError(f"{path}: expected the keys {', '.join(sorted(KEYS))} and at least one variant")
    if not isinstance(data["base"], dict) or not isinstance(data["variants"], dict):
        raise ConfigError(f"{path}: base and variants must be mappings, of keys to values and of names to such mappings")
    plan = Plan(**data | {"variants": {str(name): settings or {} for name, settings in data["variants"].items()}})
    for name, settings in plan.variants.items():
        if not isinstance(settings, dict):
            raise ConfigError(f"{path}: variant {name!r}: {settings!r} is not a mapping of keys to values")
        try:
            override(Config(), _arguments(plan, name, Path()))
        except ConfigError as error:
            raise ConfigError(f"{path}: variant {name!r}: {error}") from None
    return plan


def train_all(plan: Plan, folder: Path) -> None:
    """Train every variant that has no finished run in ``folder``, one on each core."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    waiting = [name for name in plan.variants if not _is_finished(folder / name)]
    running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
    try:
        while waiting or running:
            for core in cores:
                if core not in running and waiting:
                    name = waiting.pop(0)
                    log.info("training %s", name)
                    running[core] = (name, _start(plan, name, folder, core))
            time.sleep(0.5)
            for core, (name, process) in list(running.items()):
                if process.poll() is not None:
                    del running[core]
                    if process.returncode != 0:
                        raise ConfigError(f"ablation: training of {name!r} failed; see {folder / (name + '.log')}")
    finally:
        for _, process in running.values():
            process.kill()


def _arguments(plan: Plan, name: str, folder: Path) -> list[str]:
    settings = plan.base | {k: v for k, v in plan.variants[name].items() if k != "equal_time"}
    settings |= {
        "run.cpu_minutes": plan.minutes,
        "run.dir": str(folder / name),
        "selfplay.workers": 1,
        "selfplay.precision": "float32",
    }
    settings |= {"ladder.every": 0, "final.pairs": 0, "run.checkpoint_every": 1_000_000}
    return [text for key, value in settings.items() for text in _argument(key, value)]


def _start(plan: Plan, name: str, folder: Path, core: int) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    pin: Callable[[], None] | None = (lambda: os.sched_setaffinity(0, {core})) if hasattr(os, "sched_setaffinity") else None
    with open(folder / f"{name}.log", "wb") as output:
        return subprocess.Popen(
            [sys.executable, str(TRAIN), *_arguments(plan, name, folder)], stdout=output, stderr=output, preexec_fn=pin
        )


def _argument(key: str, value: Any) -> list[str]:
    if isinstance(value, bool):  # tyro's flags
        section, _, name = key.partition(".")
        return [f"--{key}" if value else f"--{section}.no-{name}"]
    return [f"--{key}", str(value)]


def _is_finished(run: Path) -> bool:
    if not (run / NETWORK_FILE).is_file():
        if run.exists():
            raise ConfigError(f"ablation: {str(run)!r} was begun and not finished; remove it to train it again")
        return False
    return True


@dataclass(frozen=True)
class Row:
    """One variant's result: its training and its match against the reference, from its own view."""

    name: str
    games: int
    speed: float
    simulations: int
    result: MatchResult | None


def compare(plan: Plan, folder: Path) -> list[Row]:
    """Play every variant against the first one."""
    names = list(plan.variants)
    speeds = {name: _training(folder / name) for name in names}
    reference = names[0]
    rows = [Row(reference, speeds[reference][0], speeds[reference][1], plan.simulations, None)]
    for name in names[1:]:
        simulations = plan.simulations
        if plan.variants[name].get("equal_time"):
            simulations = max(1, round(plan.simulations * speeds[name][1] / speeds[reference][1]))
        players = [
            AlphaZeroAgent.from_network(load_network(folder / n / NETWORK_FILE), sims, n)
            for n, sims in ((name, simulations), (reference, plan.simulations))
        ]
        result = play_match(players[0], players[1], plan.pairs, seed=plan.seed)
        log.info("%s: %.1f %%", name, 100 * result.score)
        rows.append(Row(name, speeds[name][0], speeds[name][1], simulations, result))
    return rows


def _training(run: Path) -> tuple[int, float]:
    """Games of a run, and its simulations in a second of processor time, learning included."""
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return int(last["progress/games"]), last["progress/simulations"] / (60 * last["progress/cpu minutes"])


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    text = ["| variant | games of training | simulations/s | simulations in the match | games | distinct | score | 95 % interval |"]
    text.append("|---|---|---|---|---|---|---|---|")
    for row in rows:
        start = f"| {row.name} | {row.games:,} | {row.speed:,.0f} | {row.simulations} |"
        if row.result is None:
            text.append(f"{start} | | reference | |")
        else:
            low, high = row.result.interval()
            games = row.result
            text.append(f"{start} {len(games.games)} | {games.distinct_games} | {games.score:.1%} | {low:.1%} to {high:.1%} |")
    return "\n".join(text)
