"""Stages: settings that change during a run, from the configuration to the weights.

1. A stage changes what it may and nothing else, from its number of games on; the rest is refused by name; files bring it back.
2. A widened network computes the same, and its new units learn.
3. The learner, the replay and the workers take a stage over at once.
4. A run with stages that was interrupted anywhere and resumed equals an uninterrupted one, bit for bit.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from boards import random_positions
from tiny import config, exact_evaluator

from togyz_agents.evaluator import one_torch_thread
from togyz_agents.network import Network, NetworkConfig, load_network, widen
from togyz_agents.training import checkpoint
from togyz_agents.training.config import Config, LearnerConfig, ReplayConfig, at, from_dict, keys, leaves, load, to_dict
from togyz_agents.training.learner import Learner, losses, make_batch
from togyz_agents.training.loop import Progress, train
from togyz_agents.training.replay import LARGEST_WEIGHT, Replay
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.selfplay import Chunk, SelfPlayWorker
from togyz_agents.training.workers import Workers
from togyz_env import ConfigError
from togyz_env.observation import ENCODERS
from togyz_env.rules import HOLES

FIXED = {  # what no stage can change: it decides the shape of what is in memory, or belongs to the run as a whole
    *("selfplay.workers", "selfplay.slots", "selfplay.precision", "selfplay.cache_places", "learner.batch", "replay.capacity"),
    *("network.encoder", "network.blocks", "stages", "replay.store", "selfplay.patience"),
}
FIXED_SECTIONS = ("run", "rules", "ladder", "final")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with one_torch_thread():
        yield


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return SelfPlayWorker(config(), exact_evaluator, np.random.SeedSequence(2)).run(1500).samples


def with_stages(*stages: dict[str, Any], **sections: dict[str, Any]) -> Config:
    return from_dict(to_dict(config(**sections)) | {"stages": list(stages)}, "test")


# 1


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 0.5 or 0.25
    if isinstance(value, int):
        return value + 1 if value != HOLES else value - 1
    return {"puct": "gumbel", "auto": "float32", "memory": "file"}.get(value, [[0.25, 0.5]])


def is_fixed(key: str) -> bool:
    return key in FIXED or key.partition(".")[0] in FIXED_SECTIONS


@pytest.mark.parametrize("key", [key for key in keys() if not is_fixed(key)])
def test_a_stage_changes_its_key_and_nothing_else(key: str) -> None:
    plain = from_dict({"selfplay": {"tree_reuse": key != "search.root"}, "search": {"noise_shaped": False}}, "test")
    value = changed(leaves(plain)[key])
    staged = from_dict(to_dict(plain) | {"stages": [{"games": 10, key: value}]}, "test")
    assert at(staged, 9) == plain
    after = leaves(at(staged, 10))
    differing = {name for name, old in leaves(plain).items() if after[name] != old}
    assert differing == {key}
    assert leaves(from_dict({key.partition(".")[0]: {key.partition(".")[2]: value}} | _reuse(key), "test"))[key] == after[key]


def _reuse(key: str) -> dict[str, Any]:
    return {"selfplay": {"tree_reuse": False}} if key == "search.root" else {}


@pytest.mark.parametrize("key", [key for key in keys() if is_fixed(key)])
def test_what_no_stage_can_change_is_refused_by_name(key: str) -> None:
    value = changed(leaves(Config())[key])
    with pytest.raises(ConfigError, match=re.escape(f"stages[0]: '{key}' cannot be changed")):
        from_dict({"stages": [{"games": 10, key: value}]}, "test")


@pytest.mark.parametrize(
    ("stages", "parts"),
    [
        ([{"games": 5, "learner.lrr": 1.0}], ["stages[0]: 'learner.lrr' cannot be changed", "did you mean 'learner.lr'?"]),
        ([{"games": 5, "simulations": 9}], ["stages[0]: 'simulations' cannot be changed", "did you mean 'selfplay.simulations'?"]),
        ([{"games": 5, "learner": 1.0}], ["stages[0]: 'learner' cannot be changed"]),
        ([{"games": 5}, {"games": 7, "q": 1}], ["stages[1]: 'q' cannot be changed", "search, selfplay, learner, replay"]),
        ([{"games": 5, "learner.lr": "fast"}], ["learner.lr: 'fast' is not a number"]),
        ([{"games": 5, "learner.lr": 0}], ["learner.lr: 0.0 is not above 0"]),
        ([{"games": 5}, {"games": 9, "search.solver": 3}], ["search.solver: 3 is not true or false"]),
        ([{"games": 9}, {"games": 5}], ["stages: [9, 5] is not an ascending list of games from 1"]),
        ([{"games": 5, "network.width": 16}], ["stages: [32, 16] is not a list of network.width that only grows"]),
        ([{"games": 5, "network.width": 64}, {"games": 6, "network.width": 48}], ["[32, 64, 48]", "only grows"]),
        ([{"learner.lr": 1.0}], ["stages[0]", "give games: N"]),
    ],
    ids=str,
)
def test_stages_that_cannot_be_are_refused_by_name(stages: list[dict[str, Any]], parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        with_stages(*stages)
    for part in parts:
        assert part in str(caught.value)


def test_later_stages_go_over_earlier_ones() -> None:
    staged = with_stages(
        {"games": 3, "selfplay.simulations": 20, "learner.lr": 0.1},
        {"games": 3, "learner.clip": 7.0},
        {"games": 8, "selfplay.simulations": 30, "replay.surprise": 0.5},
        {"games": 20, "selfplay.simulations": 10, "network.width": 64},
    )
    seen = [(n, at(staged, n)) for n in (0, 2, 3, 7, 8, 19, 20, 10**9)]
    assert [(n, c.selfplay.simulations, c.learner.lr, c.learner.clip, c.replay.surprise, c.network.width) for n, c in seen] == [
        (0, 8, 3e-3, 1.0, 0.0, 32),
        (2, 8, 3e-3, 1.0, 0.0, 32),
        (3, 20, 0.1, 7.0, 0.0, 32),
        (7, 20, 0.1, 7.0, 0.0, 32),
        (8, 30, 0.1, 7.0, 0.5, 32),
        (19, 30, 0.1, 7.0, 0.5, 32),
        (20, 10, 0.1, 7.0, 0.5, 64),
        (10**9, 10, 0.1, 7.0, 0.5, 64),
    ]
    assert all(c.stages == () for _, c in seen)
    assert all(at(c, 10**9) == c for _, c in seen)


def test_stages_survive_a_file(tmp_path: Path) -> None:
    staged = with_stages(
        {"games": 3, "selfplay.tree_reuse": False, "search.root": "gumbel", "learner.lr_drops": [[0.5, 0.1], [0.75, 0.01]]},
        {"games": 4, "network.width": 40, "search.fpu_reduction": 0.125},
    )
    assert from_dict(to_dict(staged), "test") == staged
    checkpoint.save_config(tmp_path, staged)
    again = checkpoint.load_config(tmp_path)
    assert again == staged
    assert to_dict(again) == to_dict(staged)
    for games in (2, 3, 4):
        assert at(again, games) == at(staged, games)
    assert at(again, 3).learner.lr_drops == ((0.5, 0.1), (0.75, 0.01))


# 2


def new_network(width: int, blocks: int, encoder: str = "plain") -> Network:
    torch.manual_seed(width + blocks)
    network = Network(NetworkConfig(encoder, width, blocks))
    with torch.no_grad():
        for parameter in network.parameters():  # no zeros, so that nothing is right by chance
            parameter += 0.05 * torch.randn_like(parameter)
    return network


def encoded(encoder: str) -> torch.Tensor:
    states = np.stack([position.state for position in random_positions(300, 2)])
    return torch.from_numpy(ENCODERS[encoder].encode(states))


@pytest.mark.parametrize("encoder", ["plain", "tactics"])
@pytest.mark.parametrize("blocks", [0, 1, 4])
@pytest.mark.parametrize(("old", "new"), [(1, 2), (8, 8), (8, 9), (32, 100), (64, 65), (100, 256)])
def test_a_wider_network_computes_the_same(old: int, new: int, blocks: int, encoder: str) -> None:
    network = new_network(old, blocks, encoder)
    wide = widen(network, new, seed=4)
    assert wide.config == NetworkConfig(encoder, new, blocks)
    inputs = encoded(encoder)
    with torch.no_grad():
        for name, before, after in zip(network(inputs)._fields, network(inputs), wide(inputs)):
            torch.testing.assert_close(after, before, rtol=2e-6, atol=2e-6, msg=name)
        twice = widen(wide, new + 3, seed=5)
        torch.testing.assert_close(twice(inputs).policy, network(inputs).policy, rtol=2e-6, atol=2e-6)


def gradients(network: Network, batch: Any) -> dict[str, torch.Tensor]:
    network.zero_grad()
    parts, _ = losses(network, batch)
    (parts.policy + parts.outcome + parts.margin).backward()  # type: ignore[no-untyped-call]
    return {name: value.grad.clone() for name, value in network.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("blocks", [0, 2])
def test_new_units_learn_from_the_first_step_on(blocks: int, samples: np.ndarray) -> None:
    old = 20
    network = widen(new_network(old, blocks), 30, seed=4)
    batch = make_batch(samples[:256], "plain", 0.6)
    # A unit that none of these positions excites has no gradient, as anywhere in a network of relus.
    awake = (network.input(batch.encoded)[:, old:] > 0).any(dim=0)
    assert awake.sum() >= 8
    first = gradients(network, batch)
    # Nothing listens to the new units yet, so at first only their way out has a gradient, every one of them ...
    assert (first["output.weight"][:, old:].abs().amax(dim=0) > 0)[awake].all()
    for block in range(blocks):
        assert first[f"blocks.{block}.weight"][:old, old:].abs().sum() > 0
    assert first["input.weight"][old:].abs().max() == 0
    with torch.no_grad():
        for name, value in network.named_parameters():
            value -= 0.05 * first[name]
    # ... and then their own weights too.
    second = gradients(network, batch)
    assert (second["input.weight"][old:].abs().amax(dim=1) > 0)[awake].all()
    for block in range(blocks):
        assert second[f"blocks.{block}.weight"][old:].abs().sum() > 0


def test_a_network_cannot_shrink_and_new_weights_follow_the_seed() -> None:
    network = new_network(20, 1)
    with pytest.raises(ConfigError, match=re.escape("network.width: 19 is less than 20; a network can only grow")):
        widen(network, 19, seed=1)
    before = torch.get_rng_state()
    one, again, other = (widen(network, 24, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.input.weight, again.input.weight)
    assert not torch.equal(one.input.weight[20:], other.input.weight[20:])


# 3


def learner(**settings: Any) -> Learner:
    return Learner(LearnerConfig(**({"batch": 64, "warmup_steps": 4} | settings)), new_network(16, 1), np.random.SeedSequence(1))


def filled(samples: np.ndarray) -> Replay:
    replay = Replay(ReplayConfig(capacity=10000, minimum=10000))
    replay.add(samples)
    return replay


def test_the_learner_takes_new_settings_over_and_keeps_its_weights(samples: np.ndarray) -> None:
    one, replay = learner(lr=0.01, lr_drops=()), filled(samples)
    one.train(replay, 10, 0.0)
    moments = one.state_dict()["optimiser"]["state"]
    network = one.network
    one.configure(LearnerConfig(batch=64, warmup_steps=4, lr=0.002, lr_drops=(), weight_decay=0.25, reuse=3.0), width=16)
    assert one.network is network
    assert one.step == 10
    state = one.state_dict()["optimiser"]
    assert [group["weight_decay"] for group in state["param_groups"]] == [0.25]
    assert all(torch.equal(state["state"][i]["exp_avg"], moments[i]["exp_avg"]) for i in moments)
    assert one.train(replay, 1, 0.0)["learning rate"] == 0.002  # no second warm-up
    assert sum(one.owe(64) for _ in range(10)) == 30


def test_a_wider_learner_goes_on_from_the_same_function_with_a_fresh_optimiser(samples: np.ndarray) -> None:
    settings = LearnerConfig(batch=64, warmup_steps=4, lr=0.01, lr_drops=(), average=0.1)
    one, replay = learner(lr=0.01, lr_drops=(), average=0.1), filled(samples)
    one.train(replay, 20, 0.0)
    before, average_before = one.network, one.average
    one.configure(settings, width=24)
    inputs = encoded("plain")
    with torch.no_grad():
        for old, new in ((before, one.network), (average_before, one.average)):
            torch.testing.assert_close(new(inputs).policy, old(inputs).policy, rtol=2e-6, atol=2e-6)
    # The new units of both are the same, or their average would not be one.
    assert torch.equal(one.network.input.weight[16:], one.average.input.weight[16:])
    assert torch.equal(one.network.blocks[0].weight[16:], one.average.blocks[0].weight[16:])
    assert one.step == 20
    assert not one.state_dict()["optimiser"]["state"]
    assert one.train(replay, 1, 0.0)["learning rate"] == pytest.approx(0.01 / 4)  # warms up again
    assert one.train(replay, 2, 0.0)["learning rate"] == pytest.approx(0.01 * 3 / 4)
    assert one.train(replay, 30, 0.0)["learning rate"] == 0.01
    assert one.step == 53
    other = Learner(settings, Network(one.network.config), np.random.SeedSequence(9))
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for _ in range(2):
        assert one.train(replay, 3, 0.0) == other.train(replay, 3, 0.0)


def numbered(count: int) -> np.ndarray:
    rows = np.zeros(count, SAMPLE)
    rows["action"] = np.arange(count)
    return rows


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_surprising_samples_are_drawn_by_the_formula(share: float) -> None:
    rng = np.random.default_rng(5)
    rows = numbered(60)
    rows["full"] = rng.random(60) < 0.6
    rows["surprise"] = np.minimum(255, rng.exponential(20, 60)).astype(np.uint8)
    rows["surprise"][rows["full"].nonzero()[0][:2]] = 255
    replay = Replay(ReplayConfig(capacity=100, window=1.0, minimum=1))
    replay.add(rows)
    replay.configure(ReplayConfig(capacity=100, window=1.0, minimum=1, surprise=share))
    mean = rows["surprise"][rows["full"] == 1].mean()
    weight = np.where(rows["full"] == 1, 1 - share + share * rows["surprise"] / mean, 1.0)
    assert share < 1.0 or weight.max() > LARGEST_WEIGHT
    expected = 100_000 * np.minimum(weight, LARGEST_WEIGHT) / np.minimum(weight, LARGEST_WEIGHT).sum()
    counts = np.bincount(replay.draw(100_000, np.random.default_rng(1))["action"], minlength=60)
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected)).all()
    assert counts.sum() == 100_000


def test_without_surprise_in_the_window_all_are_drawn_alike() -> None:
    rows = numbered(20)
    rows["full"] = 1
    replay = Replay(ReplayConfig(capacity=100, window=1.0, minimum=1, surprise=0.5))
    replay.add(rows)
    counts = np.bincount(replay.draw(20_000, np.random.default_rng(1))["action"], minlength=20)
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_a_worker_plays_by_the_new_settings() -> None:
    plain = {"tree_reuse": False, "full_share": 1.0, "simulations": 6}
    staged = with_stages(
        {"games": 1, "selfplay.simulations": 11, "search.noise_fraction": 0.0}, search={"solver": False}, selfplay=plain
    )
    one = SelfPlayWorker(at(staged, 0), exact_evaluator, np.random.SeedSequence(3))
    for games, simulations in ((0, 6), (1, 11), (0, 6)):
        one.configure(at(staged, games))
        counters = one.run(400).counters
        assert counters["simulations"] == simulations * counters["searches"]
    # A worker that was made with these settings, from the same games, plays the same.
    one.configure(at(staged, 1))
    other = SelfPlayWorker(at(staged, 1), exact_evaluator, np.random.SeedSequence(4), one.snapshot())
    assert one.run(400).samples.tobytes() == other.run(400).samples.tobytes()


# 4

STAGES = (
    {"games": 5, "selfplay.simulations": 12, "learner.lr": 0.002},
    {"games": 11, "network.width": 24, "replay.surprise": 0.5, "learner.weight_decay": 0.01},
    {"games": 16, "selfplay.simulations": 6, "search.root": "gumbel", "search.exploration": 2.0},
)
ITERATIONS = 6


def staged_run() -> Config:
    return with_stages(
        *STAGES,
        run={"iterations": ITERATIONS, "checkpoint_every": 1, "keep": ITERATIONS, "seed": 5},
        network={"width": 16},
        search={"solver": False},
        selfplay={"tree_reuse": False, "full_share": 1.0, "chunk": 300, "slots": 8},
        learner={"warmup_steps": 0, "lr_drops": []},
    )


@dataclasses.dataclass(frozen=True)
class Course:
    """An uninterrupted run: its directory, and for each iteration the games so far, its figures and its chunks."""

    run: Path
    games: list[int]
    scalars: list[dict[str, float]]
    chunks: list[list[Chunk]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Course:
    run = tmp_path_factory.mktemp("stages") / "whole"
    games, scalars_, chunks = [], [], []

    def watch(progress: Progress, share: float, scalars: dict[str, float]) -> None:
        games.append(progress.games)
        scalars_.append(scalars)

    class Watched(Workers):
        def wait(self, *arguments: Any) -> list[Chunk] | None:
            found = super().wait(*arguments)
            assert found is not None
            chunks.append(found)
            return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("togyz_agents.training.loop.Workers", Watched)
        train(run, staged_run(), watch=watch)
    return Course(run, games, scalars_, chunks)


def test_the_run_goes_through_all_stages(whole: Course) -> None:
    stages = [sum(games >= stage["games"] for stage in STAGES) for games in whole.games]
    assert set(stages) == {0, 1, 2, 3}
    assert stages == sorted(stages)


def test_each_iteration_of_a_run_follows_its_stage(whole: Course) -> None:
    configuration = staged_run()
    for i, games in enumerate(whole.games):
        # Self-play of an iteration began when the one before was over.
        played_by = at(configuration, whole.games[i - 1] if i else 0)
        counters = whole.chunks[i][0].counters
        assert counters["simulations"] == played_by.selfplay.simulations * counters["searches"]
        now = at(configuration, games)
        assert whole.scalars[i]["learner/learning rate"] == pytest.approx(now.learner.lr)
        folder = whole.run / "checkpoints" / f"{i + 1:06d}"
        assert load_network(folder / "network.safetensors").config == now.network
        state = torch.load(folder / "state.pt", weights_only=True)
        assert state["learner"]["optimiser"]["param_groups"][0]["weight_decay"] == now.learner.weight_decay
        assert state["playing"]["input.weight"].shape[0] == now.network.width
    assert load(whole.run / "config.yaml") == configuration


def same(a: Any, b: Any, path: str = "") -> None:
    """Compare nested states to the last bit; the wall clock may differ."""
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a.keys() - {"seconds", "cpu_seconds"}:
            same(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}/{i}")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), path
    else:
        assert a == b, path


class Interrupted(Exception):
    """The run is killed."""


@pytest.mark.parametrize("iteration", range(2, ITERATIONS + 1))
def test_resume_equals_uninterrupted_run_across_stages(iteration: int, whole: Course, tmp_path: Path) -> None:
    def watch(progress: Progress, share: float, scalars: dict[str, float]) -> None:
        if progress.iteration == iteration:
            raise Interrupted

    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(run, staged_run(), watch=watch)
    assert checkpoint.checkpoints(run)[-1].name == f"{iteration - 1:06d}"
    progress = train(run, load(run / "config.yaml"), resume=True)
    assert progress.games == whole.games[-1]
    for number in range(iteration - 1, ITERATIONS + 1):
        folders = [at_ / "checkpoints" / f"{number:06d}" for at_ in (whole.run, run)]
        same(*(torch.load(folder / "state.pt", weights_only=True) for folder in folders))
        assert (folders[0] / "replay.npy").read_bytes() == (folders[1] / "replay.npy").read_bytes()
        same(*(dict(load_network(folder / "network.safetensors").state_dict()) for folder in folders))
