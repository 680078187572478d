"""Training: the replay, the learner, the loop, its files and its resumption.

1. The replay is a ring of the newest samples; it draws from its window alone, surprising samples more often if told so.
2. A batch and its losses are what a slow direct computation and a hand give.
3. The learning rate, the average, the debt of steps and the test figures follow their formulas.
4. A run leaves what it promises: configuration, networks, checkpoints, figures, ladder, closing table; its losses fall.
5. A run that was interrupted and resumed equals an uninterrupted one, bit for bit, with one worker and two.
6. A checkpoint appears whole or not at all; the newest are kept; nothing else is taken for one or deleted.
7. Nothing is trained over; a resume honours what may change and refuses by name what may not; a finished run stays as it is.
8. The trained network plays, alone and in batches alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from boards import random_positions
from safetensors import safe_open
from tiny import config, exact_evaluator
from torch import Tensor

from togyz_agents.agent import make_agent
from togyz_agents.evaluator import NetworkEvaluator, one_torch_thread
from togyz_agents.network import Network, NetworkConfig, NetworkOutput, load_network
from togyz_agents.players.alphazero import AlphaZeroAgent
from togyz_agents.training import checkpoint, loop, start
from togyz_agents.training.config import Config, LearnerConfig, ReplayConfig, load, override
from togyz_agents.training.ladder import Ladder
from togyz_agents.training.learner import Batch, Learner, learning_rate, losses, make_batch
from togyz_agents.training.loop import Progress, train
from togyz_agents.training.metrics import drop_later
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.selfplay import SelfPlayWorker
from togyz_env import CheckpointError, ConfigError, Position, TogyzError
from togyz_env.observation import ENCODERS

SCALARS = {  # what TensorBoard and metrics.jsonl promise of every iteration that trained
    *(f"selfplay/{name}" for name in ("plies a game", "white score", "draws", "ply limits", "proven searches")),
    "selfplay/evaluations a simulation",
    *(f"{part}/{name}" for part in ("learner", "test") for name in ("policy", "outcome", "margin", "entropy", "kl")),
    *("test/calibration", "learner/gradient norm", "learner/learning rate"),
    *(f"speed/{name}" for name in ("simulations a second", "samples a second", "trained samples a second", "learner waited")),
    *("replay/size", "replay/window", "progress/samples", "progress/games", "progress/minutes"),
}
LADDER_SCALARS = {"ladder/elo", "ladder/elo low", "ladder/elo high", "ladder/score random", "ladder/score greedy"}
OF_THE_CLOCK = ("speed/", "progress/minutes", "progress/cpu minutes")


def numbered(first: int, count: int) -> np.ndarray:
    """Samples that can be told apart: number ``n`` stands in the position's first bytes."""
    samples = np.zeros(count, SAMPLE)
    samples["state"][:, :4] = np.arange(first, first + count, dtype=np.uint32).view(np.uint8).reshape(count, 4)
    return samples


def numbers(samples: np.ndarray) -> list[int]:
    numbers_: list[int] = np.ascontiguousarray(samples["state"][:, :4]).view(np.uint32)[:, 0].tolist()
    return numbers_


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    """Two thousand samples of self-play."""
    return SelfPlayWorker(config(), exact_evaluator, np.random.SeedSequence(1)).run(2000).samples


def digest(folder: Path) -> dict[str, str]:
    """Each file below ``folder`` and the hash of its content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "directory"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    with one_torch_thread():
        yield


# 1


@pytest.mark.parametrize(
    ("capacity", "share", "minimum"), [(50, 0.5, 10), (50, 0.25, 1), (7, 1.0, 1), (1, 0.5, 30), (400, 0.1, 30)]
)
def test_the_replay_is_a_ring_of_the_newest_samples(capacity: int, share: float, minimum: int) -> None:
    rng = np.random.default_rng(capacity)
    replay = Replay(ReplayConfig(capacity=capacity, window=share, minimum=minimum))
    everything: list[int] = []
    for _ in range(30):
        count = int(rng.integers(0, 40))
        replay.add(numbered(len(everything), count))
        everything += range(len(everything), len(everything) + count)
        held = everything[-capacity:]
        assert replay.total == len(everything)
        assert len(replay) == len(held)
        assert numbers(replay.contents()) == held
        window = min(len(held), max(minimum, int(share * len(everything))))
        assert replay.window() == window
        if held:
            drawn = numbers(replay.draw(40 * window, rng))
            assert set(drawn) <= set(held[-window:])
            if window <= 50:
                assert set(drawn) == set(held[-window:])  # each one is missed with probability e**-40


def test_every_sample_of_the_window_is_drawn_equally_often() -> None:
    replay = Replay(ReplayConfig(capacity=100, window=0.5, minimum=1))
    replay.add(numbered(0, 30))
    counts = np.bincount(numbers(replay.draw(30000, np.random.default_rng(1))), minlength=30)
    assert counts[:15].sum() == 0
    assert np.abs(counts[15:] - 2000).max() < 5 * np.sqrt(2000)


@pytest.mark.parametrize("capacity", [20, 33, 100])
def test_a_restored_replay_goes_on_like_the_saved_one(capacity: int) -> None:
    settings = ReplayConfig(capacity=33, window=0.5, minimum=5, surprise=0.5)
    replay = Replay(settings)
    full = numbered(0, 71)
    full["full"], full["surprise"] = np.arange(71) % 2, np.arange(71)
    replay.add(full[:50])
    other = Replay(ReplayConfig(capacity=capacity, window=0.5, minimum=5, surprise=0.5))
    other.restore(replay.contents(), replay.total)
    assert numbers(other.contents()) == list(range(50))[-min(33, capacity) :]
    for one in (replay, other):
        one.add(full[50:])
    if capacity == 33:
        assert replay.draw(20, np.random.default_rng(3)).tobytes() == other.draw(20, np.random.default_rng(3)).tobytes()
    assert replay.total == other.total == 71
    assert other.window() == min(len(other), 71 // 2)


def test_surprising_samples_are_drawn_by_their_weight() -> None:
    replay = Replay(ReplayConfig(capacity=100, window=1.0, minimum=1, surprise=0.4))
    rows = numbered(0, 4)
    rows["full"] = [0, 1, 1, 1]
    rows["surprise"] = [200, 0, 30, 60]  # the mean of full searches is 30
    replay.add(rows)
    weights = np.array([1.0, 0.6, 0.6 + 0.4, 0.6 + 0.8])
    counts = np.bincount(numbers(replay.draw(20000, np.random.default_rng(1))), minlength=4)
    assert np.abs(counts - 20000 * weights / weights.sum()).max() < 5 * np.sqrt(5000)


# 2


@pytest.mark.parametrize("encoder", ["plain", "rules"])
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_a_batch_is_what_the_samples_say(samples: np.ndarray, encoder: str, share: float) -> None:
    rows = samples[:: len(samples) // 100].copy()
    rows["margin"][:3] = (162, -162, 81)
    rows["outcome"][:3] = (1, -1, 0)
    batch = make_batch(rows, encoder, share)
    for i, row in enumerate(rows):
        position = Position.from_state(row["state"])
        legal = [hole in position.legal_moves() for hole in range(1, 10)]
        assert batch.legal[i].tolist() == legal
        assert np.allclose(batch.policy[i], [n / sum(row["policy"].tolist()) for n in row["policy"].tolist()], atol=1e-6)
        assert batch.full[i] == row["full"]
        played = [float(row["outcome"] == result) for result in (1, 0, -1)]
        value = row["value"] / 32767
        searched = [(1 + value) / 2, 0, (1 - value) / 2]  # no draws: win - loss is the value
        assert np.allclose(batch.outcome[i], [share * p + (1 - share) * s for p, s in zip(played, searched)], atol=1e-6)
        assert batch.margin[i] == pytest.approx(max(-1, min(1, row["margin"] / 81)), abs=1e-6)
        assert batch.score[i] == {1: 1.0, 0: 0.5, -1: 0.0}[int(row["outcome"])]
        assert np.array_equal(batch.encoded[i], ENCODERS[encoder].encode(row["state"][None])[0])


class Fixed(Network):
    """A network that always gives the same answers."""

    def __init__(self, policy: list[list[float]], outcome: list[list[float]], margin: list[float]) -> None:
        super().__init__(NetworkConfig("plain", 1, 0))
        self.answers = NetworkOutput(torch.tensor(policy), torch.tensor(outcome), torch.tensor(margin))

    def forward(self, encoded: Tensor) -> NetworkOutput:
        return self.answers


def test_losses_are_those_worked_out_by_hand() -> None:
    ln = math.log
    # Row 1: two legal moves with probabilities 1/4 and 3/4 and a huge logit on an empty hole; row 2 trains no policy.
    policy = [[0.0, ln(3), 99.0, *[0.0] * 6], [ln(8)] + [0.0] * 8]
    outcome = [[0.0, 0.0, 0.0], [ln(2), 0.0, 0.0]]  # 1/3 each; 1/2, 1/4, 1/4
    batch = Batch(
        encoded=torch.zeros(2, 40),
        legal=torch.tensor([[True, True] + [False] * 7, [True] * 9]),
        policy=torch.tensor([[0.5, 0.5] + [0.0] * 7, [1.0] + [0.0] * 8]),
        full=torch.tensor([1.0, 0.0]),
        outcome=torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]),
        margin=torch.tensor([0.25, -1.0]),
        score=torch.tensor([1.0, 0.0]),
    )
    found, expected_score = losses(Fixed(policy, outcome, [0.5, 0.0]), batch)
    cross = -(0.5 * ln(1 / 4) + 0.5 * ln(3 / 4))
    assert float(found.policy) == pytest.approx(cross, abs=1e-6)
    assert float(found.kl) == pytest.approx(cross - ln(2), abs=1e-6)
    assert float(found.outcome) == pytest.approx((ln(3) + ln(4)) / 2, abs=1e-6)
    assert float(found.margin) == pytest.approx((0.25**2 + 1.0) / 2, abs=1e-6)
    entropies = (-(0.25 * ln(0.25) + 0.75 * ln(0.75)), 0.5 * ln(2) + 0.5 * ln(16))
    assert float(found.entropy) == pytest.approx(sum(entropies) / 2, abs=1e-5)
    assert expected_score.tolist() == pytest.approx([1 / 2, 5 / 8])


def test_a_batch_without_full_searches_has_no_policy_loss() -> None:
    batch = Batch(
        encoded=torch.zeros(1, 40),
        legal=torch.ones(1, 9, dtype=torch.bool),
        policy=torch.full((1, 9), 1 / 9),
        full=torch.zeros(1),
        outcome=torch.tensor([[1.0, 0.0, 0.0]]),
        margin=torch.zeros(1),
        score=torch.ones(1),
    )
    found, _ = losses(Fixed([[1.0] + [0.0] * 8], [[0.0] * 3], [0.0]), batch)
    assert (float(found.policy), float(found.kl)) == (0.0, 0.0)


# 3


def test_the_learning_rate_follows_its_schedule() -> None:
    settings = LearnerConfig(lr=0.1, lr_drops=((0.5, 0.3), (0.8, 0.01)), warmup_steps=4)
    for step, progress, expected in [
        (0, 0.0, 0.025),
        (1, 0.0, 0.05),
        (3, 0.0, 0.1),
        (1000, 0.49, 0.1),
        (1000, 0.5, 0.03),
        (1000, 0.79, 0.03),
        (1000, 0.8, 0.001),
        (1000, 1.0, 0.001),
        (0, 1.0, 0.00025),
    ]:
        assert learning_rate(settings, step, progress) == pytest.approx(expected)
    assert learning_rate(LearnerConfig(lr=0.1, lr_drops=(), warmup_steps=0), 0, 1.0) == 0.1


def learner(**settings: Any) -> Learner:
    torch.manual_seed(1)
    return Learner(LearnerConfig(**({"batch": 64} | settings)), Network(NetworkConfig("plain", 16, 1)), np.random.SeedSequence(1))


def filled(samples: np.ndarray) -> Replay:
    replay = Replay(ReplayConfig(capacity=10000, minimum=10000))
    replay.add(samples)
    return replay


def parameters(network: Network) -> np.ndarray:
    return np.concatenate([value.detach().numpy().ravel().copy() for value in network.parameters()])


def test_the_average_follows_its_formula(samples: np.ndarray) -> None:
    one = learner(average=0.2, lr=0.01, warmup_steps=0)
    replay = filled(samples)
    expected = parameters(one.network).astype(float)
    for step in range(1, 16):
        one.train(replay, 1, 0.0)
        # First the plain mean of all weights so far, later the newest with its share.
        rate = max(0.2, 1 / (step + 1))
        expected += rate * (parameters(one.network) - expected)
        assert np.allclose(parameters(one.average), expected, atol=1e-6)
    assert one.step == 15


def test_a_step_is_adamw_on_the_weighted_losses(samples: np.ndarray) -> None:
    settings: dict[str, Any] = {"lr": 0.01, "warmup_steps": 2, "weight_decay": 0.3, "clip": 0.5, "outcome_weight": 0.7}
    one = learner(**settings, margin_weight=0.2, outcome_share=0.4)
    network = Network(one.network.config)
    network.load_state_dict(one.network.state_dict())
    optimiser = torch.optim.AdamW(network.parameters(), lr=1.0, weight_decay=0.3)
    generator = np.random.default_rng(np.random.SeedSequence(1))
    for rate in (0.005, 0.01, 0.01):
        one.train(filled(samples), 1, 0.0)
        batch = make_batch(filled(samples).draw(64, generator), "plain", 0.4)
        parts, _ = losses(network, batch)
        optimiser.param_groups[0]["lr"] = rate
        optimiser.zero_grad()
        (parts.policy + 0.7 * parts.outcome + 0.2 * parts.margin).backward()  # type: ignore[no-untyped-call]
        norm = torch.sqrt(sum(value.grad.square().sum() for value in network.parameters()))  # type: ignore
        for value in network.parameters():
            assert value.grad is not None
            value.grad *= min(1.0, 0.5 / (float(norm) + 1e-6))
        optimiser.step()
        assert np.allclose(parameters(one.network), parameters(network), atol=1e-6)


def test_training_on_the_same_samples_lowers_every_loss(samples: np.ndarray) -> None:
    one = learner(lr=0.01, average=0.05)
    before = one.test(samples)
    figures = one.train(filled(samples), 300, 0.0)
    after = one.test(samples)
    for name in ("policy", "outcome", "margin", "kl"):
        assert after[name] < before[name]
    assert figures["learning rate"] == 0.01
    assert figures["gradient norm"] > 0


@pytest.mark.parametrize(("reuse", "batch"), [(2.0, 512), (0.3, 100), (3.7, 64), (1.0, 1000)])
def test_steps_use_each_sample_so_often(reuse: float, batch: int) -> None:
    one = learner(reuse=reuse, batch=batch)
    rng = np.random.default_rng(1)
    samples_, steps = 0, 0
    for _ in range(200):
        new = int(rng.integers(0, 900))
        samples_ += new
        steps += one.owe(new)
        assert -1e-6 <= reuse * samples_ - steps * batch < batch * (1 + 1e-6)


def test_test_figures_are_those_of_a_slow_computation(samples: np.ndarray) -> None:
    one = learner(lr=0.01, average=0.05)
    one.train(filled(samples), 40, 0.0)  # the average is behind the network, and it is the one to test
    rows = samples[::40]
    found = one.test(rows)
    evaluator = NetworkEvaluator(one.average, precision="float32")
    gaps: dict[int, list[float]] = {}
    outcome_loss = margin_loss = 0.0
    for row in rows:
        _, outcome, margin = evaluator.outputs(row["state"][None])
        expected = float(outcome[0, 0] + 0.5 * outcome[0, 1])
        gaps.setdefault(min(9, int(10 * expected)), []).append(expected - (int(row["outcome"]) + 1) / 2)
        value = row["value"] / 32767
        target = [0.6 * (row["outcome"] == r) + 0.4 * s for r, s in zip((1, 0, -1), ((1 + value) / 2, 0, (1 - value) / 2))]
        outcome_loss -= sum(t * math.log(p) for t, p in zip(target, outcome[0].tolist())) / len(rows)
        margin_loss += (float(margin[0]) - max(-1, min(1, row["margin"] / 81))) ** 2 / len(rows)
    assert found["calibration"] == pytest.approx(sum(abs(sum(gap)) for gap in gaps.values()) / len(rows), abs=1e-5)
    assert found["outcome"] == pytest.approx(outcome_loss, abs=1e-5)
    assert found["margin"] == pytest.approx(margin_loss, abs=1e-5)
    for count in (1, 2):  # few samples are no special case
        assert all(math.isfinite(value) for value in one.test(samples[:count]).values())


def test_a_loss_that_is_no_number_is_an_error_and_leaves_the_average(samples: np.ndarray) -> None:
    one = learner()
    one.train(filled(samples), 3, 0.0)
    before = parameters(one.average)
    with torch.no_grad():
        one.network.output.bias[10] = float("nan")
    with pytest.raises(TogyzError, match=r"learner: loss nan with gradient norm nan at step 3; lower learner\.lr"):
        one.train(filled(samples), 3, 0.0)
    assert np.array_equal(parameters(one.average), before)


def test_a_learning_rate_that_blows_up_is_an_error(samples: np.ndarray) -> None:
    one = learner(lr=1e30, warmup_steps=0)
    with pytest.raises(TogyzError, match=r"lower learner\.lr"):
        one.train(filled(samples), 10, 0.0)


def test_a_restored_learner_goes_on_like_the_saved_one(samples: np.ndarray) -> None:
    replay = filled(samples)
    one = learner(weight_decay=0.5)
    one.owe(100)
    one.train(replay, 5, 0.0)
    saved = one.state_dict()
    saved = torch.load(io.BytesIO(_saved(saved)), weights_only=True)
    other = learner(weight_decay=0.5)
    other.load_state_dict(saved)
    for each in (one, other):
        each.train(replay, each.owe(500), 0.5)
    assert np.array_equal(parameters(one.network), parameters(other.network))
    assert np.array_equal(parameters(one.average), parameters(other.average))
    assert one.state_dict()["generator"] == other.state_dict()["generator"]
    changed = learner(weight_decay=0.25, lr=0.5)
    changed.load_state_dict(saved)
    assert changed.train(replay, 1, 0.0)["learning rate"] == pytest.approx(0.5 * 6 / 50)
    assert changed.state_dict()["optimiser"]["param_groups"][0]["weight_decay"] == 0.25


def _saved(value: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_progress_is_measured_by_the_nearest_limit() -> None:
    progress = Progress(iteration=3, samples=500, games=9, simulations=1, seconds=30.0, cpu_seconds=30.0)
    for limits, share in [
        ({"iterations": 6}, 0.5),
        ({"samples": 2000}, 0.25),
        ({"minutes": 2.0}, 0.25),
        ({"iterations": 6, "samples": 2000, "minutes": 0.6}, 30 / 36),
        ({"samples": 100}, 1.0),
        ({"cpu_minutes": 4.0}, 0.125),
        ({"cpu_minutes": 4.0, "minutes": 1.0}, 0.5),
    ]:
        assert progress.share(config(run=limits)) == pytest.approx(share)


# 4


def run_config(workers: int = 1, **run: Any) -> Config:
    return config(
        run={"iterations": 4, "checkpoint_every": 1, "keep": 2, "seed": 3} | run,
        selfplay={"workers": workers},
        learner={"lr_drops": [[0.7, 0.5]]},
        ladder={"every": 2},
    )


class Interrupted(Exception):
    """The run is killed."""


def interrupt(run: Path, configuration: Config, iteration: int, **arguments: Any) -> None:
    """Train until ``iteration`` has been played and its figures written, but no checkpoint of it."""

    def watch(progress: Progress, share: float, scalars: dict[str, float]) -> None:
        if progress.iteration == iteration:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(run, configuration, watch=watch, **arguments)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def whole(runs: Path) -> Path:
    """An uninterrupted run of four iterations."""
    train(runs / "whole", run_config())
    return runs / "whole"


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be spoilt."""
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def metrics(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_its_configuration_and_networks(whole: Path) -> None:
    assert load(whole / "config.yaml") == run_config()
    first, newest = load_network(whole / "first.safetensors"), load_network(whole / "network.safetensors")
    assert first.config == newest.config == run_config().network
    assert not np.allclose(parameters(first), parameters(newest))
    assert content(whole / "network.safetensors") == content(whole / "checkpoints/000004/network.safetensors")
    assert content(whole / "network.safetensors")["iteration"] == "4"
    assert sorted(path.name for path in whole.iterdir()) == [
        "checkpoints",
        "config.yaml",
        "first.safetensors",
        "ladder",
        "ladder.jsonl",
        "metrics.jsonl",
        "network.safetensors",
        "tensorboard",
    ]


def content(network: Path) -> dict[str, Any]:
    """Metadata and tensors of a safetensors file; their order in the file is not fixed."""
    with safe_open(network, "pt") as file:
        return file.metadata() | {name: file.get_tensor(name).tolist() for name in file.keys()}  # noqa: SIM118 - not a dict


def board(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Every scalar of TensorBoard as (step, value), as TensorBoard itself reads the files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_figures_of_every_iteration_are_in_the_file_and_on_the_board(whole: Path) -> None:
    rows = metrics(whole)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        assert set(row) >= SCALARS
        assert set(row) & LADDER_SCALARS == (LADDER_SCALARS if row["iteration"] % 2 == 0 else set())
        assert all(math.isfinite(value) for value in row.values())
    found = board(whole)
    names = set().union(*rows) - {"iteration"}
    assert set(found) == {name.replace(" ", "_") for name in names}
    for name in names:
        expected = [(row["iteration"], row[name]) for row in rows if name in row]
        assert [step for step, _ in found[name.replace(" ", "_")]] == [step for step, _ in expected]
        values = [value for _, value in found[name.replace(" ", "_")]]
        assert values == pytest.approx([value for _, value in expected], rel=1e-6)
    learning_rates = [row["learner/learning rate"] for row in rows]
    assert learning_rates == pytest.approx([0.003, 0.003, 0.0015, 0.0015])
    assert rows[-1]["progress/samples"] == rows[-1]["replay/size"] >= 4 * 600


def test_losses_fall(whole: Path) -> None:
    first, *_, last = metrics(whole)
    names = ("policy", "outcome", "margin")
    for name in names:
        assert last[f"test/{name}"] < first[f"test/{name}"]
    # each is the mean over the few batches of its own iteration, so only together do they fall for certain
    assert sum(last[f"learner/{name}"] for name in names) < sum(first[f"learner/{name}"] for name in names)


def test_the_ladder_records_every_match(whole: Path) -> None:
    rows = [json.loads(line) for line in (whole / "ladder.jsonl").read_text().splitlines()]
    assert [(row["iteration"], row["first"], row["second"]) for row in rows] == [
        (2, "network-000002", "random"),
        (2, "network-000002", "greedy"),
        (4, "network-000004", "random"),
        (4, "network-000004", "greedy"),
        (4, "network-000004", "network-000002"),
    ]
    assert all(len(row["pair scores"]) == 1 and 0 <= row["pair scores"][0] <= 1 for row in rows)
    for number in ("000002", "000004"):
        load_network(whole / f"ladder/network-{number}.safetensors")
    final = metrics(whole)[-1]
    assert final["ladder/elo low"] <= final["ladder/elo high"]
    assert final["ladder/score random"] == rows[2]["pair scores"][0]


def test_a_rung_meets_only_the_latest_networks_of_its_own_time_line(tmp_path: Path) -> None:
    configuration = config(ladder={"every": 1, "opponents": 2}, rules={"max_plies": 20})
    network = Network(configuration.network)
    ladder = Ladder(tmp_path, configuration)
    for iteration in (1, 2, 3, 4):
        rung = ladder.climb(network, iteration)
    assert [name for name in rung.scores if name.startswith("network")] == ["network-000002", "network-000003"]
    resumed = Ladder(tmp_path, configuration, iteration=2)  # 3 and 4 belong to a line that was given up
    rung = resumed.climb(network, 5)
    assert [name for name in rung.scores if name.startswith("network")] == ["network-000001", "network-000002"]
    assert rung.low <= rung.elo <= rung.high


def test_a_run_ends_with_its_table(
    whole: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    shutil.copytree(whole, tmp_path / "run")
    start.main(None, tmp_path / "run", [])
    out = capsys.readouterr().out
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.count("│") == 9]
    assert [line[0] for line in lines] == ["random", "greedy", "first network"]
    for line in lines:
        games, distinct, won, drawn, lost = (int(cell) for cell in line[1:6])
        assert games == 2 == won + drawn + lost >= distinct
        assert line[6] == f"{(won + drawn / 2) / 2:.1%}"
    assert "--run.iterations 8" in out


def test_a_run_from_the_command_line_gets_the_next_free_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/some-1").mkdir(parents=True)
    (tmp_path / "some.yaml").write_text("selfplay: {workers: 1, slots: 8, chunk: 100, simulations: 2, fast_simulations: 1}\n")
    arguments = ["--network.encoder", "plain", "--network.width", "8", "--final.pairs", "0", "--ladder.every", "0"]
    start.main(Path("some.yaml"), None, [*arguments, "--run.samples", "150"])
    saved = load(tmp_path / "runs/some-2/config.yaml")
    assert saved.selfplay.precision in ("float32", "bfloat16")  # auto has been measured
    assert (saved.selfplay.slots, saved.network.width, saved.run.samples) == (8, 8, 150)
    assert len(metrics(tmp_path / "runs/some-2")) in (1, 2)
    assert "--run.samples 300" in capsys.readouterr().out


# 5


def same(a: Any, b: Any, path: str = "") -> None:
    """Compare nested states; the wall clock may differ."""
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert a.keys() == b.keys(), path
        for key in a:
            if key not in ("seconds", "cpu_seconds"):
                same(a[key], b[key], f"{path}/{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{path}/{i}")
    elif isinstance(a, torch.Tensor):
        assert torch.equal(a, b), path
    else:
        assert a == b, path


def same_runs(a: Path, b: Path, number: str = "000004") -> None:
    """Everything that two runs leave is equal, but for what the clock says."""
    states = [torch.load(run / "checkpoints" / number / "state.pt", weights_only=True) for run in (a, b)]
    same(*states)
    for name in (f"checkpoints/{number}/replay.npy", "ladder.jsonl", "config.yaml"):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    networks = sorted(str(path.relative_to(a)) for path in a.rglob("*.safetensors"))
    assert networks == sorted(str(path.relative_to(b)) for path in b.rglob("*.safetensors"))
    for name in networks:
        assert content(a / name) == content(b / name), name
    rows = [[{k: v for k, v in row.items() if not k.startswith(OF_THE_CLOCK)} for row in metrics(run)] for run in (a, b)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("workers", [1, 2])
def test_resume_equals_uninterrupted_run(workers: int, runs: Path, tmp_path: Path) -> None:
    configuration = run_config(workers)
    whole = (runs if workers == 1 else tmp_path) / "whole"
    if not whole.exists():
        train(whole, configuration)
    run = tmp_path / "interrupted"
    interrupt(run, configuration, 3)  # the figures of iteration 3 are written, its checkpoint is not
    assert [path.name for path in checkpoint.checkpoints(run)] == ["000001", "000002"]
    train(run, load(run / "config.yaml"), resume=True)
    same_runs(whole, run)
    on_board = board(run)
    assert [step for step, _ in on_board["learner/policy"]] == [1, 2, 3, 4]
    assert [value for _, value in on_board["learner/policy"]] == pytest.approx([row["learner/policy"] for row in metrics(whole)])


def test_two_iterations_and_two_more_equal_four(tmp_path: Path) -> None:
    # Without a schedule the limit has no part in the training.
    flat = ["--learner.lr-drops", "--ladder.every", "0"]
    four = override(run_config(), flat)
    train(tmp_path / "four", four)
    train(tmp_path / "two", override(four, ["--run.iterations", "2"]))
    train(tmp_path / "two", override(load(tmp_path / "two/config.yaml"), ["--run.iterations", "4"]), resume=True)
    (tmp_path / "four/ladder.jsonl").touch()
    (tmp_path / "two/ladder.jsonl").touch()
    same_runs(tmp_path / "four", tmp_path / "two")


def test_another_seed_gives_another_run(whole: Path, tmp_path: Path) -> None:
    train(tmp_path / "other", run_config(seed=4, iterations=1))
    for name in ("first.safetensors", "network.safetensors"):
        assert content(tmp_path / "other" / name) != content(whole / name)


def test_workers_play_with_the_average_of_the_iteration_before(tmp_path: Path) -> None:
    train(tmp_path / "run", override(run_config(), ["--run.keep", "9", "--ladder.every", "0"]))
    states = [torch.load(path / "state.pt", weights_only=True) for path in checkpoint.checkpoints(tmp_path / "run")]
    assert len(states) == 4
    for before, after in itertools.pairwise(states):
        same(after["playing"], before["learner"]["average"])
        assert not torch.equal(after["playing"]["output.weight"], before["learner"]["network"]["output.weight"])


# 6


def test_the_newest_checkpoints_are_kept_and_nothing_else_is_touched(copy: Path) -> None:
    folder = copy / "checkpoints"
    assert [path.name for path in checkpoint.checkpoints(copy)] == ["000003", "000004"]
    for name in ("000003.bak", "notes", ".mine.tmp", "000009 copy"):
        (folder / name).mkdir()
        (folder / name / "state.pt").write_text("mine")
    (folder / "000010").write_text("a file")
    assert [path.name for path in checkpoint.checkpoints(copy)] == ["000003", "000004"]
    longer = override(load(copy / "config.yaml"), ["--run.iterations", "6", "--ladder.every", "0"])
    progress = train(copy, longer, resume=True)
    assert progress.iteration == 6
    assert [path.name for path in checkpoint.checkpoints(copy)] == ["000005", "000006"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [".mine.tmp", "000003.bak", "000005", "000006", "000009 copy", "000010", "notes"]
    )


def test_checkpoints_are_ordered_by_number(tmp_path: Path) -> None:
    for name in ("999999", "1000000", "000001"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert [path.name for path in checkpoint.checkpoints(tmp_path)] == ["000001", "999999", "1000000"]


def test_a_checkpoint_that_was_not_finished_is_never_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if Path(target).name == "000003":
            raise Interrupted
        replace(source, target)

    monkeypatch.setattr("togyz_agents.training.checkpoint.os.replace", fail)
    with pytest.raises(Interrupted):
        train(run, run_config())
    monkeypatch.undo()
    assert [path.name for path in checkpoint.checkpoints(run)] == ["000001", "000002"]
    assert content(run / "network.safetensors") == content(run / "checkpoints/000002/network.safetensors")
    progress = train(run, run_config(), resume=True)
    assert progress.iteration == 4
    assert [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith(".")] == []


def test_a_checkpoint_comes_every_so_many_iterations_and_at_the_end(tmp_path: Path) -> None:
    train(tmp_path / "run", override(run_config(), ["--run.iterations", "5", "--run.checkpoint-every", "2", "--run.keep", "9"]))
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run")] == ["000002", "000004", "000005"]


def test_lines_of_results_behind_a_checkpoint_and_torn_ones_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    good = [{"iteration": 1, "a": 1}, {"iteration": 2, "a": 2}, {"iteration": 2, "a": 3}]
    text = "".join(json.dumps(row) + "\n" for row in good)
    assert drop_later(file, 9) == []
    for torn in ("", '{"iteration": 2, "a": 4', '{"iteration": 3}', '{"iteration": 3}\n{"itera', '{"iteration": 3}\n'):
        file.write_text(text + torn)
        assert drop_later(file, 2) == good
        assert file.read_text() == text
    file.write_text(text)
    assert drop_later(file, 1) == good[:1]
    for wrong in ("nonsense\n", "[1]\n", "{}\n", '{"iteration": "x"}\n', "\n"):
        file.write_text(text + wrong + text)
        with pytest.raises(CheckpointError, match=r"results\.jsonl', line 4: no JSON object with an iteration"):
            drop_later(file, 2)
        assert file.read_text() == text + wrong + text


# 7


@pytest.mark.parametrize("content", ["run", "file", "empty"])
def test_nothing_is_trained_over(content: str, copy: Path, tmp_path: Path) -> None:
    target = copy
    if content == "file":
        target = tmp_path / "file"
        target.write_text("mine")
    elif content == "empty":
        target = tmp_path / "empty"
        target.mkdir()
    before = digest(tmp_path)
    with pytest.raises(CheckpointError, match="exists already; give --resume"):
        train(target, run_config())
    assert digest(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["--network.width", "33"], "network.width was 32 and cannot become 33"),
        (["--network.encoder", "rules"], "network.encoder was 'plain' and cannot become 'rules'"),
        (["--network.blocks", "2"], "network.blocks"),
        (["--rules.end", "playout"], "rules.end was 'majority' and cannot become 'playout'"),
        (["--rules.max-plies", "100"], "rules.max_plies"),
        (["--run.seed", "4"], "run.seed was 3 and cannot become 4"),
        (["--run.dir", "elsewhere"], "run.dir"),
        (["--run.network", "other.safetensors"], "run.network"),
        (["--selfplay.workers", "2"], "selfplay.workers was 1 and cannot become 2"),
        (["--selfplay.slots", "17"], "selfplay.slots was 16 and cannot become 17"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_resume_refuses_by_name_what_cannot_change(arguments: list[str], key: str, copy: Path) -> None:
    before = digest(copy)
    changed = override(load(copy / "config.yaml"), [*arguments, "--run.iterations", "9"])
    with pytest.raises(ConfigError, match=re.escape(f"resume: {key}")):
        train(copy, changed, resume=True)
    assert digest(copy) == before


def test_a_resume_honours_what_may_change(copy: Path) -> None:
    arguments = ["--run.iterations", "6", "--learner.lr", "0.5e-3", "--learner.lr-drops", "--learner.weight-decay", "0.125"]
    arguments += ["--learner.batch", "32", "--selfplay.simulations", "3", "--replay.capacity", "700", "--run.keep", "1"]
    arguments += ["--ladder.every", "0", "--run.minutes", "1000", "--search.exploration", "2"]
    changed = override(load(copy / "config.yaml"), arguments)
    train(copy, changed, resume=True)
    rows = metrics(copy)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["learner/learning rate"] for row in rows[4:]] == pytest.approx([0.5e-3, 0.5e-3])
    assert rows[-1]["replay/size"] == 700
    assert load(copy / "config.yaml") == changed
    assert [path.name for path in checkpoint.checkpoints(copy)] == ["000006"]
    group = torch.load(copy / "checkpoints/000006/state.pt", weights_only=True)["learner"]["optimiser"]["param_groups"][0]
    assert (group["lr"], group["weight_decay"]) == (0.5e-3, 0.125)


def test_a_resume_does_not_need_the_network_it_began_with(whole: Path, tmp_path: Path) -> None:
    given = tmp_path / "given.safetensors"
    shutil.copy(whole / "network.safetensors", given)
    run = tmp_path / "run"
    train(run, run_config(network=str(given), iterations=1))
    first, start_ = load_network(run / "first.safetensors"), load_network(given)
    assert np.array_equal(parameters(first), parameters(start_))
    given.unlink()
    progress = train(run, override(load(run / "config.yaml"), ["--run.iterations", "2"]), resume=True)
    assert progress.iteration == 2


def test_resuming_a_finished_run_changes_nothing(copy: Path) -> None:
    before = digest(copy)
    progress = train(copy, load(copy / "config.yaml"), resume=True)
    assert progress.iteration == 4
    train(copy, override(load(copy / "config.yaml"), ["--run.iterations", "4"]), resume=True)
    after = digest(copy)
    assert {name: hash_ for name, hash_ in after.items() if name in before} == before
    assert all(name.startswith("tensorboard/") for name in after if name not in before)
    assert [step for step, _ in board(copy)["learner/policy"]] == [1, 2, 3, 4]


def test_a_run_without_an_end_or_with_an_impossible_device_leaves_nothing(tmp_path: Path) -> None:
    for configuration, message in [
        (run_config(iterations=None), r"run: no end is set; give .*run\.minutes.*run\.samples.*run\.iterations"),
        (run_config(device="abacus"), "device: 'abacus' cannot be used here"),
        (run_config(device="meta"), "device: 'meta' cannot be used here"),
        (run_config(network=str(tmp_path / "none.safetensors")), "network: no file"),
    ]:
        with pytest.raises(TogyzError, match=message):
            train(tmp_path / "run", configuration)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"run\.dir: cannot create"):
        train(tmp_path / "file/run", run_config())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_error_in_the_loop_stops_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    def fail(*_: Any) -> dict[str, float]:
        raise TogyzError("learner: broken")

    monkeypatch.setattr(Learner, "train", fail)
    with pytest.raises(TogyzError, match="learner: broken"):
        train(tmp_path / "run", override(run_config(), ["--selfplay.chunk", "2000"]))
    assert not any(thread.name.startswith("self-play") for thread in threading.enumerate())
    assert loop.Progress().iteration == 0


# 8


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def test_the_trained_network_plays(whole: Path) -> None:
    for source in (whole, whole / "network.safetensors", whole / "checkpoints/000004"):
        agent = make_agent(f"alphazero:run={source},sims=8")
        agent.new_game(1)
        position, moves = Position.start(), 0
        history: list[Position] = []
        while position.outcome() is None and moves < 40:
            hole = agent.select(position, history, None)
            assert hole in position.legal_moves()
            history.append(position)
            position = position.play(hole)
            moves += 1
        agent.close()


@pytest.mark.parametrize("simulations", [1, 8, 50])
def test_one_game_and_many_are_played_alike(whole: Path, simulations: int) -> None:
    agent = AlphaZeroAgent(whole, sims=simulations)
    positions = list(random_positions(60, 5))
    together = agent.select_batch(
        np.stack([position.state for position in positions]), np.array([position.ply for position in positions], np.int32)
    )
    assert together.tolist() == [agent.select(position, (), None) for position in positions]


def test_one_simulation_plays_the_networks_first_choice(whole: Path) -> None:
    agent = AlphaZeroAgent(whole, sims=1)
    evaluator = NetworkEvaluator(load_network(whole / "network.safetensors"), precision="float32")
    checked = 0
    for position in list(random_positions(80, 6))[:60]:
        logits, _ = evaluator(position.state[None])
        first = int(logits[0].argmax()) + 1
        after = position.play(first)
        if after.outcome() is None and any(
            (end := after.play(hole).outcome()) is not None and end.winner == after.to_move for hole in after.legal_moves()
        ):
            continue  # the search sees that it loses at once
        assert agent.select(position, (), None) == first
        checked += 1
    assert checked > 50
