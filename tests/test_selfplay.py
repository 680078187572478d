"""Self-play: what a worker delivers is games of togyzqumalaq, searched and recorded as promised.

1. Played again through the Gymnasium environment, every game gives the same positions, masks, rewards and end (rules or ply limit).
2. A policy lies on legal moves only and sums to 1; outcome and margin are the mover's.
3. A search in self-play is the batched search: the same visits and the same move, with exploration in full searches only.
4. Moves of the opening are drawn from the policy, later ones are the best; the share of full searches is the configured one.
5. Seeds decide everything; a restored worker goes on as if never interrupted; no slot depends on its neighbours.
6. Chunks hold whole games; the counters agree with the samples; no game is played twice.
7. A worker stops within a batch; an unusable evaluation is an error, in a thread too.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from numpy.lib.recfunctions import repack_fields
from reference_rules import Board
from tiny import config, exact_evaluator

from togyz_agents.network import Network
from togyz_agents.search.batched import BatchedSearch
from togyz_agents.training.config import Config
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.selfplay import SelfPlayWorker, Stopped
from togyz_agents.training.workers import Workers
from togyz_env import CheckpointError, Position, TogyzError

RULES = {
    "majority": {"end": "majority"},
    "playout": {"end": "playout"},
    "majority, 60 plies": {"end": "majority", "max_plies": 60},
    "playout, 41 plies": {"end": "playout", "max_plies": 41},
}
OPENING_PLIES = 3
CHUNK = 3000


def worker(configuration: Config, seed: int = 1, **arguments: Any) -> SelfPlayWorker:
    return SelfPlayWorker(configuration, exact_evaluator, np.random.SeedSequence(seed), **arguments)


@cache
def plies_of_openings() -> dict[tuple[int, ...], int]:
    """Every position of at most OPENING_PLIES legal plies and how many they are, by the slow rules."""
    plies = {tuple(Board().row()): 0}
    positions = list(plies)
    for ply in range(1, OPENING_PLIES + 1):
        following = []
        for row in positions:
            for hole in Board.of(list(row)).legal():
                board = Board.of(list(row))
                board.play(hole)
                following.append(tuple(board.row()))
        positions = following
        for row in positions:
            plies.setdefault(row, ply)
    return plies


@dataclass(frozen=True)
class Replayed:
    """A recorded game, played again: its samples, the plies before them and how the environment ended it."""

    samples: np.ndarray
    first_ply: int
    terminated: bool
    winner: int | None


def replay(samples: np.ndarray, rules: dict[str, Any]) -> list[Replayed]:
    """Play ``samples`` again in the environment, which alone decides where each game ends; everything is compared on the way."""
    env = gymnasium.make("togyz_env:Togyzqumalaq-v0", illegal="raise", **rules)
    games = []
    i = 0
    while i < len(samples):
        first = i
        row = tuple(samples["state"][i].tolist())
        first_ply = plies_of_openings()[row]
        fen = Position.from_state(row, first_ply).fen()
        observation, info = env.reset(options={"fen": fen})
        rewards: list[float] = []
        over = terminated = False
        while not over:
            sample = samples[i]
            assert env.unwrapped.position.row == bytes(sample["state"])  # type: ignore[attr-defined]
            mask = observation["action_mask"]
            assert np.array_equal(mask, info["action_mask"])
            assert not sample["policy"][mask == 0].any()
            observation, reward, terminated, truncated, info = env.step(int(sample["action"]))
            rewards.append(float(reward))
            over = terminated or truncated
            i += 1
        assert not any(rewards[:-1])
        played = samples[first:i]
        white = np.where(played["state"][:, 22] == 0, 1, -1)
        assert (white[1:] == -white[:-1]).all()
        # The last reward is the last mover's; going back through the game it changes its sign with the mover.
        assert played["outcome"].tolist() == (rewards[-1] * white * white[-1]).tolist()
        assert played["margin"].tolist() == ((info["score"][0] - info["score"][1]) * white).tolist()
        if not terminated:
            assert rewards[-1] == 0
            assert info["reason"] == "ply limit"
            assert first_ply + len(played) == rules["max_plies"]
        games.append(Replayed(played, first_ply, terminated, info["winner"]))
    return games


@dataclass(frozen=True)
class Course:
    """Two chunks of one worker, played again, and what the worker said about them."""

    games: list[Replayed]
    samples: np.ndarray
    counters: list[dict[str, int]]
    in_progress: list[int]


@cache
def course(name: str) -> Course:
    one = worker(config(rules=RULES[name], selfplay={"slots": 24}))
    chunks, in_progress = [], [0]
    for _ in range(2):
        chunks.append(one.run(CHUNK))
        in_progress.append(int(one.snapshot().count.sum()))
    samples = np.concatenate([chunk.samples for chunk in chunks])
    # Whole games: each chunk alone ends where a game ends.
    games = [game for chunk in chunks for game in replay(chunk.samples, RULES[name])]
    return Course(games, samples, [chunk.counters for chunk in chunks], in_progress)


def games_of(samples: np.ndarray) -> list[bytes]:
    """Cut ``samples`` into games, each as bytes; a game begins where the position is not the last one's successor."""
    starts = [0]
    for i in range(1, len(samples)):
        board = Board.of(samples["state"][i - 1].tolist())
        board.play(int(samples["action"][i - 1]) + 1)
        if board.row() != samples["state"][i].tolist():
            starts.append(i)
    return [part.tobytes() for part in np.split(samples, starts[1:])]


# 1, 2


@pytest.mark.parametrize("name", RULES)
def test_games_played_again_in_the_environment_agree_ply_by_ply(name: str) -> None:
    games = course(name).games
    assert len(games) >= 30
    cut = sum(not game.terminated for game in games)
    assert (0 < cut < len(games)) if name == "majority, 60 plies" else cut == (len(games) if "plies" in name else 0)
    assert {game.winner for game in games if game.terminated} >= ({0, 1} if cut < len(games) else set())


@pytest.mark.parametrize("name", RULES)
def test_policies_sum_to_one_and_values_stay_in_range(name: str) -> None:
    samples = course(name).samples
    # Nine roundings of at most half a unit.
    assert np.abs(samples["policy"].astype(int).sum(axis=1) - 65535).max() <= 4
    assert np.abs(samples["value"].astype(int)).max() <= 32767
    assert set(samples["full"].tolist()) == {0, 1}
    lost = samples["value"] == -32767  # proven: the longest line is played, however few its visits
    assert (samples["policy"][np.arange(len(samples)), samples["action"]][~lost] > 0).all()


def test_a_game_begins_after_none_to_three_random_plies() -> None:
    plies = [game.first_ply for name in RULES for game in course(name).games]
    counts = np.bincount(plies, minlength=OPENING_PLIES + 1)
    assert len(counts) == OPENING_PLIES + 1
    expected = len(plies) / len(counts)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_a_sample_takes_49_bytes() -> None:
    assert SAMPLE.itemsize == 49


# 3


@pytest.mark.parametrize(
    "search",
    [{"solver": False}, {}, {"root_temperature": 2.0}, {"forced_playouts": 2.0, "exploration": 1.5}, {"fpu_reduction": 0.0}],
    ids=str,
)
def test_self_play_searches_as_the_batched_search_does(search: dict[str, Any]) -> None:
    one = config(
        search=search | {"noise_fraction": 0.0},
        selfplay={"tree_reuse": False, "temperature_plies": 0, "late_sampling": 0.0, "simulations": 40, "fast_simulations": 12},
    )
    samples = worker(one).run(600).samples
    plies = np.concatenate([game.first_ply + np.arange(len(game.samples)) for game in replay(samples, {})])
    # A proof that is no win takes the mark of a full search away, so both kinds of search are asked about each sample.
    found = []
    for explore, simulations in ((False, 12), (True, 40)):
        search_ = BatchedSearch(exact_evaluator, one.search, one.rules, explore)
        found.append(search_.run(samples["state"], plies, simulations))
    agrees = []
    for result in found:
        policy = (np.abs(result.policy * 65535 - samples["policy"]) <= 1).all(axis=1)
        value = np.abs(result.value * 32767 - samples["value"]) <= 1
        agrees.append(policy & value & (result.action == samples["action"]))
    full = samples["full"] == 1
    assert agrees[1][full].all()
    assert {found[1].proof[i] for i in np.flatnonzero(full)} <= {"", "win"}
    proven = np.array([proof in ("loss", "draw") for proof in found[1].proof])
    assert (agrees[0] | (agrees[1] & proven))[~full].all()


def test_noise_reaches_full_searches_only() -> None:
    quiet, noisy = (
        worker(config(search={"noise_fraction": noise}, selfplay={"full_share": share, "opening_plies": 0, "temperature_plies": 0}))
        .run(300)
        .samples
        for noise, share in ((0.0, 0.0), (0.9, 0.0))
    )
    assert quiet.tobytes() == noisy.tobytes()
    one = config(search={"noise_fraction": 0.9}, selfplay={"full_share": 1.0, "opening_plies": 0}, rules={"max_plies": 1})
    policies = worker(one).run(200).samples["policy"]  # 200 searches of the start position
    assert len(np.unique(policies, axis=0)) > 20


def test_a_gumbel_search_in_self_play_is_the_batched_one() -> None:
    one = config(
        search={"root": "gumbel"},
        selfplay={"tree_reuse": False, "temperature_plies": 0, "late_sampling": 0.0, "full_share": 0.0, "fast_simulations": 20},
    )
    samples = worker(one).run(300).samples
    plies = np.concatenate([game.first_ply + np.arange(len(game.samples)) for game in replay(samples, {})])
    result = BatchedSearch(exact_evaluator, one.search, one.rules).run(samples["state"], plies, 20)
    assert np.abs(result.policy * 65535 - samples["policy"]).max() <= 1
    assert np.array_equal(result.action, samples["action"])
    full = config(
        search={"root": "gumbel"}, selfplay={"tree_reuse": False, "full_share": 1.0, "opening_plies": 0}, rules={"max_plies": 1}
    )
    assert len(np.unique(worker(full).run(200).samples["policy"], axis=0)) > 3  # here the draws do explore


def test_surprise_is_the_divergence_of_the_search_from_the_network() -> None:
    samples = course("majority").samples  # with noise, kept trees and cached evaluations
    logits, _ = exact_evaluator(samples["state"])
    network = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    search = samples["policy"] / 65535
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = np.where(search > 0, search * np.log(search / network), 0.0).sum(axis=1)
    assert np.abs(np.minimum(255, 64 * nats) - samples["surprise"]).max() < 1.1
    assert samples["surprise"].max() > 64


def test_a_policy_is_the_share_of_visits() -> None:
    one = config(search={"solver": False}, selfplay={"tree_reuse": False, "simulations": 10, "fast_simulations": 7})
    samples = worker(one).run(2000).samples
    shares = samples["policy"] / 65535
    for full, simulations in ((1, 10), (0, 7)):
        visits = shares[samples["full"] == full] * simulations
        assert np.abs(visits - np.round(visits)).max() < 1e-3
        assert (np.round(visits).sum(axis=1) == simulations).all()


# 4


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_opening_moves_are_drawn_from_the_policy(temperature: float) -> None:
    one = config(
        search={"noise_fraction": 0.0},
        selfplay={"full_share": 1.0, "simulations": 30, "opening_plies": 0, "temperature": temperature, "temperature_plies": 1},
        rules={"max_plies": 1},
    )
    samples = worker(one).run(4000).samples  # games of one ply from the start position, which is searched the same each time
    assert len(np.unique(samples["policy"], axis=0)) == 1
    shares = (samples["policy"][0] / 65535) ** (1 / temperature)
    expected = len(samples) * shares / shares.sum()
    found = np.bincount(samples["action"], minlength=9)
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected)).all()


@pytest.mark.parametrize("late_sampling", [0.0, 0.5])
def test_later_moves_are_the_best_but_for_a_share(late_sampling: float) -> None:
    one = config(
        search={"noise_fraction": 0.0},
        selfplay={"simulations": 30, "opening_plies": 0, "temperature_plies": 0, "late_sampling": late_sampling, "full_share": 1.0},
        rules={"max_plies": 1},
    )
    samples = worker(one).run(2000).samples
    share = samples["policy"][0] / 65535
    others = 1 - share.max()  # what a draw does not give to the most visited move
    found = np.mean(samples["action"] != share.argmax())
    assert abs(found - late_sampling * others) <= 5 * np.sqrt(late_sampling * others / len(samples))


@pytest.mark.parametrize("share", [0.0, 0.35, 1.0])
def test_the_share_of_full_searches_is_the_configured_one(share: float) -> None:
    full = worker(config(search={"solver": False}, selfplay={"full_share": share, "slots": 32})).run(4000).samples["full"]
    assert abs(full.mean() - share) <= 5 * np.sqrt(share * (1 - share) / len(full))


# 5


def test_equal_seeds_give_equal_chunks() -> None:
    def chunks(seed: int) -> list[bytes]:
        one = worker(config(), seed)
        return [one.run(400).samples.tobytes() for _ in range(2)]

    assert chunks(7) == chunks(7)
    assert chunks(7) != chunks(8)


def test_a_restored_worker_continues_as_an_uninterrupted_one() -> None:
    one = worker(config(), 5)
    one.run(500)
    state = one.snapshot()
    expected = [one.run(500) for _ in range(2)]
    other = worker(config(), 99, state=state)
    for chunk in expected:
        found = other.run(500)
        assert found.samples.tobytes() == chunk.samples.tobytes()
        assert found.counters == chunk.counters
    assert all(np.array_equal(a, b) for a, b in zip(one.snapshot().arrays().values(), other.snapshot().arrays().values()))


def test_a_snapshot_is_a_copy() -> None:
    one = worker(config())
    one.run(300)
    state = one.snapshot()
    before = {name: array.tobytes() for name, array in state.arrays().items()}
    one.run(300)
    assert before == {name: array.tobytes() for name, array in state.arrays().items()}


def test_games_for_another_number_of_slots_are_refused() -> None:
    for slots in (1, 4, 32):
        state = worker(config(selfplay={"slots": slots})).snapshot()
        with pytest.raises(CheckpointError, match=f"{slots} games in progress do not fit into 16 slots"):
            worker(config(), state=state)


def test_slots_do_not_depend_on_each_other() -> None:
    # The streams of the first slots are the same however many there are; with them alone the same games must come out.
    few = worker(config(selfplay={"slots": 3}), 3).run(1500).samples
    many = worker(config(selfplay={"slots": 9}), 3).run(9000).samples
    assert len(games_of(few)) >= 10
    assert set(games_of(few)) <= set(games_of(many))


def test_a_slot_with_another_stream_leaves_the_others_alone() -> None:
    one = worker(config(selfplay={"slots": 4}), 3)
    state = one.snapshot()
    state.stream[3] += np.uint64(1)
    before = games_of(one.run(2000).samples)
    after = games_of(worker(config(selfplay={"slots": 4}), state=state).run(2000).samples)
    common = len(set(before) & set(after))
    assert 0.5 * len(before) < common < len(before)


# 6


@pytest.mark.parametrize("size", [1, 100, 2000])
def test_a_chunk_is_as_large_as_asked_and_holds_whole_games(size: int) -> None:
    one = worker(config())
    chunk = one.run(size)
    games = replay(chunk.samples, {})
    assert len(chunk.samples) >= size
    assert chunk.counters["games"] == len(games)
    # It ends with the batch that filled it: no more than one game of each slot can end there.
    assert len(chunk.samples) - sum(len(game.samples) for game in games[-16:]) < size


@pytest.mark.parametrize("name", RULES)
def test_counters_agree_with_the_samples(name: str) -> None:
    run = course(name)
    total = {key: sum(counters[key] for counters in run.counters) for key in run.counters[0]}
    assert total["games"] == len(run.games)
    assert total["plies"] == sum(game.first_ply + len(game.samples) for game in run.games)
    assert total["white wins"] == sum(game.winner == 0 for game in run.games)
    assert total["black wins"] == sum(game.winner == 1 for game in run.games)
    assert total["draws"] == sum(game.winner is None for game in run.games)
    assert total["ply limits"] == sum(not game.terminated for game in run.games)
    # Each search gives one sample; those of games in progress come with a later chunk.
    assert total["searches"] == len(run.samples) + run.in_progress[-1]
    assert 0 <= total["proven"] <= total["searches"]
    assert 0 < total["evaluations"] <= total["simulations"] + total["searches"] + 2 * 24


def test_simulations_are_counted_exactly() -> None:
    one = worker(config(search={"solver": False}, selfplay={"tree_reuse": False, "simulations": 9, "fast_simulations": 5}))
    chunk = one.run(1000)
    samples = np.concatenate([chunk.samples, one.snapshot().samples])
    assert chunk.counters["simulations"] == int(np.where(samples["full"] == 1, 9, 5).sum())


def test_visits_of_kept_trees_are_not_counted_again() -> None:
    rows = 0

    def counting(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal rows
        rows += len(states)
        return exact_evaluator(states)

    one = worker(config(search={"solver": False}, selfplay={"cache_places": 0, "simulations": 30, "fast_simulations": 10}))
    one.evaluator = counting
    counters = one.run(1000).counters
    assert counters["evaluations"] == rows
    # Without a cache nearly every simulation ends with an evaluation, the others in a finished game.
    assert 0.9 * counters["simulations"] < rows < counters["simulations"] + counters["searches"]


def test_no_two_games_of_a_run_are_equal() -> None:
    configuration = config(selfplay={"workers": 2, "slots": 32, "chunk": 8000})
    torch.manual_seed(1)
    network = Network(configuration.network)
    workers = Workers(configuration, network, np.random.SeedSequence(1).spawn(2))
    played = []
    try:
        for _ in range(2):
            workers.start(network)
            for chunk in workers.wait():
                played += games_of(repack_fields(chunk.samples[["state", "action"]]))  # without the bytes between the two
    finally:
        workers.close()
    assert len(played) > 100
    assert len(set(played)) == len(played)


# 7


def test_a_stopped_worker_stops_after_its_batch() -> None:
    one = worker(config())
    batches = 0
    running = threading.Event()
    raised: list[BaseException] = []

    def counting(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal batches
        batches += 1
        running.set()
        return exact_evaluator(states)

    def play() -> None:
        try:
            one.run(10**9)
        except Stopped as error:
            raised.append(error)

    one.evaluator = counting
    thread = threading.Thread(target=play)
    thread.start()
    assert running.wait(60)
    one.stop()
    before = batches
    thread.join(60)
    assert not thread.is_alive()
    assert raised
    assert batches <= before + 2
    # A worker that was stopped before its thread came to run it does not begin a chunk.
    with pytest.raises(Stopped):
        one.run(10**9)


def damaged(kind: str) -> Any:
    """The exact evaluator until its hundredth call, in which one row is damaged."""
    calls = 0

    def evaluate(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal calls
        calls += 1
        logits, values = exact_evaluator(states)
        if calls == 100:
            if kind == "NaN value":
                values[-1] = np.nan
            elif kind == "infinite value":
                values[-1] = np.inf
            elif kind == "NaN logit":
                logits[-1, np.flatnonzero(logits[-1] > -np.inf)[0]] = np.nan
            elif kind == "infinite logit":
                logits[-1, np.flatnonzero(logits[-1] > -np.inf)[0]] = np.inf
            elif kind == "no legal move":
                logits[-1] = -np.inf
            else:
                own = 9 * states[:, 22] + np.arange(9)[:, None]
                action, row = np.argwhere(np.take_along_axis(states, own.T, axis=1).T == 0)[0]
                logits[row, action] = -50.0
        return logits, values

    return evaluate


@pytest.mark.parametrize("kind", ["NaN value", "infinite value", "NaN logit", "infinite logit", "no legal move", "an empty hole"])
def test_a_damaged_evaluation_is_an_error(kind: str) -> None:
    one = SelfPlayWorker(config(), damaged(kind), np.random.SeedSequence(1))
    with pytest.raises(TogyzError, match="evaluator: NaN, infinite or all on illegal moves for state"):
        one.run(10**9)


def test_a_damaged_network_is_an_error_and_stops_all_threads() -> None:
    configuration = config(selfplay={"workers": 2, "chunk": 10**9})
    network = Network(configuration.network)
    workers = Workers(configuration, network, np.random.SeedSequence(1).spawn(2))
    one = workers._threads[1].worker
    one.evaluator.load = lambda network: None  # type: ignore[attr-defined]  # this one keeps its good weights
    with torch.no_grad():
        network.output.bias[0] = float("nan")
    workers.start(network)
    with pytest.raises(TogyzError, match="evaluator"):
        workers.wait()  # the other worker's chunk would take hours
    workers.close()
    assert not any(thread.name.startswith("self-play") for thread in threading.enumerate())


def test_closing_workers_right_after_their_start_ends_them() -> None:
    configuration = config(selfplay={"workers": 2, "chunk": 10**9})
    network = Network(configuration.network)
    for _ in range(5):
        workers = Workers(configuration, network, np.random.SeedSequence(1).spawn(2))
        workers.start(network)
        workers.close()
    assert not any(thread.name.startswith("self-play") for thread in threading.enumerate())
