"""Training for days: settings, seeds, and nothing that piles up.

1. A resume logs every setting that changed, and each setting is either honoured or refused by name.
2. No two random streams of a run are the same; equal games are counted and reported.
3. No descriptor or thread is left behind by runs, and memory stays flat when the replay is full (slow).
4. Long and odd games: self-play of 2,000 plies, of draws only and in cycles stays right and bounded.

Kills and stops are in test_kills, faults in test_faults, fuzzing in test_fuzz, the replay's files in test_replay_files.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.recfunctions import repack_fields
from small_runs import go_on, metrics, result, small
from tiny import config, exact_evaluator

from togyz_agents.evaluator import NetworkEvaluator
from togyz_agents.network import Network
from togyz_agents.search.single import SingleSearch
from togyz_agents.training import checkpoint, workers
from togyz_agents.training.config import Config, from_dict, keys, leaves, override, to_dict
from togyz_agents.training.equal_games import EqualGames
from togyz_agents.training.learner import Learner
from togyz_agents.training.loop import FIXED_ON_RESUME, train
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.selfplay import SelfPlayWorker, WorkerState
from togyz_env import CheckpointError, ConfigError, Position, Ruleset

# 1


def other(key: str, value: Any) -> Any:
    """Another value that the key can take."""
    special = {"learner.lr_drops": [[0.5, 0.5]], "selfplay.precision": "bfloat16", "replay.store": "file", "search.root": "puct"}
    if key in special:
        return special[key]
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 0.5 or 0.25
    if isinstance(value, int):
        return value + 1 if value < 9 or key not in ("search.gumbel_actions",) else value - 1
    return 10**6 if key == "run.samples" else 10.0**6  # limits that are not set


def test_a_resume_logs_what_changed_and_honours_or_refuses_every_setting(copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    old = go_on(copy, 5)
    fixed = [key for key in keys() if key in FIXED_ON_RESUME or key.partition(".")[0] in FIXED_ON_RESUME]
    unchanged = {"stages", "run.device", "search.root", "ladder.every"}  # no other device is at hand here, and no ladder
    changing = [key for key in keys() if key not in fixed and key not in unchanged]
    data = to_dict(old)
    for key in changing:
        section, name = key.split(".")
        data[section][name] = other(key, data[section][name])
    new = from_dict(data, "test")
    train(copy, new, resume=True)
    assert checkpoint.load_config(copy) == new
    logged = [record.getMessage() for record in caplog.records if " is now " in record.getMessage()]
    before, after = leaves(checkpoint_config(old)), leaves(new)
    assert logged == [f"resume: {key} was {before[key]!r} and is now {after[key]!r}" for key in before if before[key] != after[key]]
    assert {line.split()[1] for line in logged} == set(changing)
    assert (copy / "replay").is_dir()
    for key in fixed:
        section, name = key.split(".")
        value = to_dict(new)[section][name]
        changed = to_dict(new)
        words = {"network.encoder": "rules", "rules.end": "playout", "run.dir": "x", "run.network": "x"}
        changed[section][name] = words.get(key, value + 1 if isinstance(value, int) and not isinstance(value, bool) else value)
        with pytest.raises(ConfigError, match=rf"resume: {re.escape(key)} was .* and cannot become"):
            train(copy, from_dict(changed, "test"), resume=True)


def checkpoint_config(config_: Config) -> Config:
    """The configuration as the run was saved with it: four iterations."""
    return override(config_, ["--run.iterations", "4"])


# 2


def test_no_two_streams_of_a_run_meet() -> None:
    """SplitMix64 adds a constant to its state: two streams meet if their states differ by a small multiple of it."""
    configuration = small(selfplay={"workers": 4, "slots": 64})
    seeds = np.random.SeedSequence(configuration.run.seed).spawn(2 + 4)
    some = workers.Workers(configuration, Network(configuration.network), seeds[2:])
    streams = [int(n) for state in some.snapshot() for n in state.stream]
    some.close()
    assert len(set(streams)) == 4 * 64
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    places = sorted(stream * inverse % 2**64 for stream in streams)
    gaps = [b - a for a, b in zip(places, [*places[1:], places[0] + 2**64])]
    assert min(gaps) > 2**40  # draws; a game takes some thousands


def test_two_runs_with_one_seed_are_equal(whole: Path, tmp_path: Path) -> None:
    train(tmp_path / "again", small())
    assert result(tmp_path / "again") == result(whole)
    assert result(whole)["metrics"][-1]["progress/equal games"] == 0


def test_equal_games_are_counted_across_a_resume(tmp_path: Path) -> None:
    always = {
        "opening_plies": 0,
        "temperature_plies": 0,
        "late_sampling": 0.0,
        "full_share": 0.0,
        "slots": 2,
        "chunk": 60,
        "simulations": 1,
        "fast_simulations": 1,
    }
    same = small(3, selfplay=always, learner={"lr": 1e-12}, run={"keep": 9})
    train(tmp_path / "run", override(same, ["--run.iterations", "2"]))
    train(tmp_path / "run", same, resume=True)
    rows = metrics(tmp_path / "run")
    assert [row["progress/equal games"] for row in rows] == [row["progress/games"] - 1 for row in rows]


def test_games_are_equal_when_their_positions_and_moves_are() -> None:
    from test_selfplay import games_of

    few = {"opening_plies": 1, "temperature_plies": 0, "late_sampling": 0.0, "full_share": 0.0}
    evaluator = NetworkEvaluator(Network(small().network), precision="float32")
    one = SelfPlayWorker(small(selfplay=few), evaluator, np.random.SeedSequence(5))
    equal, games = EqualGames(), []
    for _ in range(4):
        chunk = one.run(300)
        equal.add(chunk.keys)
        assert len(chunk.keys) == chunk.counters["games"]
        games += games_of(repack_fields(chunk.samples[["state", "action"]]))
    assert len(equal.keys) == len(set(games)) <= 10
    assert equal.count == len(games) - len(set(games)) > 10


# 3


def open_things() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.mark.parametrize("runs", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_no_descriptor_or_thread_is_left(runs: int, tmp_path: Path) -> None:
    train(tmp_path / "first", small(1))
    before = open_things()
    for n in range(runs):
        run = tmp_path / str(n)
        configuration = small(1, replay={"store": "file" if n % 2 else "memory"}, selfplay={"workers": 2})
        train(run, configuration)
        train(run, override(configuration, ["--run.iterations", "2"]), resume=True)
        with pytest.raises(CheckpointError):
            train(run, configuration)
        shutil.rmtree(run)
    assert open_things() == before


def memory_in_use() -> int:
    """Bytes of this process that are in memory and of no file."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(fields["RssAnon"].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("store", ["memory", "file"])
def test_memory_is_flat_when_the_replay_is_full(store: str, tmp_path: Path) -> None:
    """A scaled-down hour: some hundred iterations after the replay is full. Eight bytes a game are allowed (their keys)."""
    used: list[int] = []
    configuration = small(400, replay={"store": store, "capacity": 3000}, selfplay={"chunk": 600}, run={"checkpoint_every": 10})
    train(tmp_path / "run", configuration, watch=lambda *_: used.append(memory_in_use()))
    assert metrics(tmp_path / "run")[50]["replay/size"] == 3000
    early, late = np.median(used[100:150]), np.median(used[-50:])
    assert late - early < 4e6, (early, late)


# 4


def chasing(slots: int) -> WorkerState:
    """Two lone stones that run in a cycle of 18 plies (test_rules), in every slot, with 80 stones in each kazan."""
    state = np.zeros((slots, 23), np.uint8)
    state[:, [8, 17]] = 1
    state[:, [18, 19]] = 80
    nothing = np.zeros(slots, np.int32)
    return WorkerState(state, nothing, nothing.copy(), np.arange(1, slots + 1, dtype=np.uint64), np.zeros(0, SAMPLE))


def test_games_of_2000_plies_of_draws_only_are_played_and_trained(whole: Path) -> None:
    best_moves = {"full_share": 0.0, "temperature_plies": 0, "late_sampling": 0.0}
    few = {"slots": 4, "simulations": 1, "fast_simulations": 1, "cache_places": 0}
    long = config(rules={"max_plies": 2000}, selfplay=best_moves | few)

    def run_on(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prefers the highest hole: with it the two stones chase each other for ever."""
        logits, values = exact_evaluator(states)
        return np.where(np.isfinite(logits), 10.0 * np.arange(9), logits).astype(np.float32), 0 * values

    one = SelfPlayWorker(long, run_on, np.random.SeedSequence(1), chasing(4))
    chunk = one.run(4 * 2000)
    assert chunk.counters["games"] >= 4
    assert chunk.counters["ply limits"] == chunk.counters["draws"] >= 4
    games = chunk.samples[: 4 * 2000].reshape(4, 2000)
    assert (games["outcome"] == 0).all()
    assert (games["margin"] == 0).all()
    assert (games["state"][:, ::18] == games["state"][:, :1]).all()  # every eighteenth position is the first again
    draws = chunk.samples[: 4 * 2000]
    replay = Replay(long.replay)
    replay.add(draws)
    learner = Learner(long.learner, Network(long.network), np.random.SeedSequence(1))
    before = learner.test(draws)
    figures = learner.train(replay, 30, 0.0)
    assert all(np.isfinite(value) for value in figures.values())
    assert learner.test(draws)["outcome"] < before["outcome"]
    learner.check(draws)


def test_the_ply_limit_inside_the_tree_ends_lines_as_draws() -> None:
    def outputs(states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        logits, values = exact_evaluator(states)
        return logits, np.stack([(1 + values) / 2, 0 * values, (1 - values) / 2], axis=1), 0 * values

    start = Position.start().state
    last = SingleSearch(outputs, ruleset=Ruleset(max_plies=2000)).run(start, 1999, simulations=300)
    assert (last.proof, last.value) == ("draw", 0.0)  # every move is cut off there
    earlier = SingleSearch(outputs, ruleset=Ruleset(max_plies=2000)).run(start, 1997, simulations=2000)
    assert abs(earlier.value) < 0.01  # three plies from the start end no game: all but the first guesses are draws
    assert earlier.nodes <= 1 + 9 + 9**2 + 9**3
