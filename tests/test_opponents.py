"""Opponents: what may stand behind ``opponent=``, in the single environment and in many games.

1. Names, descriptions, checkpoints, agents and functions; what is none of them is refused before anything is loaded.
2. A pool draws a member for each episode, by weights and from the seed; it drops the oldest when it is full, but not those to keep.
3. "random" and "greedy" inside the environment are uniform and greedy.
4. What an environment makes it closes, and nothing else.
"""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from boards import board, random_positions

from togyz_agents import agent as registry
from togyz_agents.network import Network, NetworkConfig, save_network
from togyz_env import CheckpointError, ConfigError, IllegalMoveError, OpponentPool, Position
from togyz_env.env import TogyzqumalaqEnv
from togyz_env.rng import new_streams
from togyz_env.simple_players import GREEDY, RANDOM, simple_actions
from togyz_env.vector_env import TogyzqumalaqVectorEnv


def first_legal(position: Position) -> int:
    return position.legal_moves()[0]


def last_legal(position: Position) -> int:
    return position.legal_moves()[-1]


class Closing:
    """An agent that notes when it is closed; it is made from the registry here."""

    made: list[Closing]

    def __init__(self) -> None:
        self.closed = 0
        Closing.made.append(self)

    def new_game(self, seed: int) -> None:
        pass

    def select(self, position: Position, history: Sequence[Position], clock: Any) -> int:
        return first_legal(position)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> list[Closing]:
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("closing", Closing)
    Closing.made = []
    return Closing.made


def checkpoint(folder: Path, seed: int) -> Path:
    import torch

    torch.manual_seed(seed)
    folder.mkdir()
    save_network(Network(NetworkConfig(width=8, blocks=1, encoder="plain")), folder / "network.safetensors")
    return folder


def opponents_first_move(env: TogyzqumalaqEnv, seed: int) -> tuple[str, str]:
    """(the opponent's name, the position after its first move)."""
    _, info = env.reset(seed=seed, options={"agent_side": "black"})
    return info["opponent"], info["fen"]


# What an opponent can be.


def test_a_checkpoint_is_an_opponent_by_its_path(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "run-1", 1)
    for opponent in (str(folder), folder, folder / "network.safetensors", f"alphazero:run={folder},sims=4"):
        env = TogyzqumalaqEnv(opponent=opponent, max_plies=30)
        name, fen = opponents_first_move(env, 1)
        assert name == str(opponent)
        assert Position.from_fen(fen).ply == 1
    env = TogyzqumalaqEnv(opponent=f"alphazero:run={folder},sims=4", max_plies=8)
    assert env.reset()[1]["opponent"] == env.reset(seed=1)[1]["opponent"]
    many = TogyzqumalaqVectorEnv(3, opponent=folder, max_plies=6, agent_side="black")
    many.reset(seed=1)
    many.step(np.argmax(many.action_masks(), axis=1))
    assert [position.ply for position in many.positions()] == [3, 3, 3]


@pytest.mark.parametrize("opponent", ["alphabeta:depth=1", "rollout:sims=4"])
def test_a_described_search_plays_by_the_rules_of_the_environment(opponent: str) -> None:
    # White is to move with 82 stones in a kazan, and past the 2,000 plies that players assume by themselves.
    start = {"fen": "2,1S,1S,1S,1S,1S,1S,1/2,1S,1S,1S,1S,1S,1S,1 82 68 S 1101"}
    single = TogyzqumalaqEnv(end="playout", max_plies=4000, opponent=opponent)
    many = TogyzqumalaqVectorEnv(2, end="playout", max_plies=4000, opponent=opponent)
    _, info = single.reset(seed=1, options=start)
    many.reset(seed=1, options=start)
    assert info["kazans"][0] == 82
    single.step(int(np.flatnonzero(info["action_mask"])[0]))
    many.step(np.argmax(many.action_masks(), axis=1))
    assert single.position.ply == 2202
    assert [position.ply for position in many.positions()] == [2202, 2202]


@pytest.mark.parametrize(
    ("opponent", "error", "message"),
    [
        ("nobody", ConfigError, "opponent: unknown name 'nobody'; known: .*random.*, or a path"),
        ("nobody:at=all", ConfigError, "unknown name 'nobody'"),
        ("", ConfigError, "unknown name ''"),
        ("runs/missing", CheckpointError, "opponent: 'runs/missing' does not exist"),
        (Path("missing"), CheckpointError, "opponent: 'missing' does not exist"),
        ("best.safetensors", CheckpointError, "does not exist"),
        (5, ConfigError, "opponent: 5; expected an agent, an agent's description, a checkpoint's path"),
        (Closing, ConfigError, "expected an agent"),
        ("alphazero:sims=4", ConfigError, "'run' is missing"),
        ("greedy:depth=3", ConfigError, "greedy has no parameters"),
    ],
)
def test_what_is_no_opponent_is_refused(opponent: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TogyzqumalaqEnv(opponent=opponent)
    with pytest.raises(error, match=message):
        TogyzqumalaqVectorEnv(2, opponent=opponent)


def test_a_name_goes_before_a_file_that_is_called_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "greedy").mkdir()
    (tmp_path / "other").mkdir()
    TogyzqumalaqEnv(opponent="greedy").reset()
    with pytest.raises(CheckpointError, match="holds no network"):
        TogyzqumalaqEnv(opponent="other")


def test_an_agent_of_many_games_only_is_an_opponent_of_one() -> None:
    class Many:
        def new_game(self, seed: int) -> None:
            self.seed = seed

        def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
            assert states.shape == (1, 23)
            return np.array([first_legal(Position.from_state(states[0], int(plies[0])))])

        def close(self) -> None:
            pass

    env = TogyzqumalaqEnv(opponent=Many())
    _, info = env.reset(seed=1)
    assert info["opponent"] == "Many"
    assert env.step(3)[4]["fen"] == Position.start().play(4).play(1).fen()


def test_wrong_shapes_of_answers_name_the_opponent() -> None:
    class Short:
        name = "short"

        def new_game(self, seed: int) -> None:
            pass

        def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
            return np.ones(1, np.int64)

        def close(self) -> None:
            pass

    env = TogyzqumalaqVectorEnv(3, opponent=Short())
    env.reset()
    with pytest.raises(IllegalMoveError, match=r"opponent 'short' gave holes of shape \(1,\) for 3 games"):
        env.step(np.array([0, 0, 0]))


# Pools.


def test_members_are_drawn_by_weight_from_the_seed() -> None:
    pool = OpponentPool([first_legal])
    pool.add(last_legal, weight=3.0)
    env = TogyzqumalaqEnv(opponent=pool)
    names = [opponents_first_move(env, seed)[0] for seed in range(400)]
    assert names == [opponents_first_move(env, seed)[0] for seed in range(400)]
    counts = Counter(names)
    assert abs(counts["last_legal"] - 300) < 5 * (400 * 0.75 * 0.25) ** 0.5
    assert set(counts) == {"first_legal", "last_legal"}
    moved = dict(opponents_first_move(env, seed) for seed in range(20))
    assert moved == {"first_legal": Position.start().play(1).fen(), "last_legal": Position.start().play(9).fen()}
    many = TogyzqumalaqVectorEnv(400, opponent=pool)
    assert many.reset(seed=0)[1]["opponent"].tolist() == names


def test_the_end_of_a_game_tells_against_whom_it_was() -> None:
    env = TogyzqumalaqEnv(opponent=OpponentPool(["random", "greedy"]), max_plies=4)
    for seed in range(10):
        _, info = env.reset(seed=seed)
        name = info["opponent"]
        *_, info = env.step(0)
        assert "opponent" not in info
        *_, info = env.step(1)
        assert info["opponent"] == name


def test_a_full_pool_drops_the_oldest_that_is_not_to_be_kept() -> None:
    pool = OpponentPool(max_size=3)
    pool.add("random", keep=True)
    for generation in range(4):
        pool.add(first_legal, name=f"self {generation}")
    assert pool.names == ["random", "self 2", "self 3"]
    assert len(pool) == 3
    pool.remove("self 2")
    pool.add(first_legal)
    pool.add(first_legal, keep=True)
    assert pool.names == ["random", "first_legal", "first_legal (2)"]
    pool.remove("first_legal")
    pool.add(last_legal, keep=True)
    with pytest.raises(ConfigError, match="all 3 members are to be kept"):
        pool.add("greedy")


def test_members_added_later_play_from_the_next_episode_on() -> None:
    pool = OpponentPool([first_legal])
    single, many = TogyzqumalaqEnv(opponent=pool), TogyzqumalaqVectorEnv(2, opponent=pool, max_plies=4)
    single.reset(seed=1)
    many.reset(seed=1)
    pool.add(last_legal)
    pool.remove("first_legal")
    single.step(3)
    many.step(np.array([3, 3]))
    begun = Position.start().play(4).play(1)
    assert [single.position, *many.positions()] == [begun] * 3
    assert single.reset()[1]["opponent"] == "last_legal"
    *_, info = many.step(np.array([4, 4]))
    assert info["opponent"].tolist() == ["first_legal"] * 2
    many.step(np.array([0, 0]))
    many.step(np.array([3, 3]))
    assert many.positions() == [Position.start().play(4).play(9)] * 2


def test_impossible_pools_are_refused() -> None:
    pool = OpponentPool()
    with pytest.raises(ConfigError, match="the pool is empty"):
        TogyzqumalaqEnv(opponent=pool).reset()
    for weight in (0, -1.0, float("nan"), float("inf"), "1", True):
        with pytest.raises(ConfigError, match="weight of an opponent"):
            pool.add("random", weight)  # type: ignore[arg-type]
    for size in (0, -1, 1.5, True):
        with pytest.raises(ConfigError, match="max_size of a pool"):
            OpponentPool(max_size=size)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown name 'nobody'"):
        pool.add("nobody")
    with pytest.raises(ConfigError, match="a pool in a pool"):
        pool.add(OpponentPool())
    pool.add("random")
    with pytest.raises(ConfigError, match="'random' is in the pool already"):
        pool.add(first_legal, name="random")
    with pytest.raises(ConfigError, match="no member 'greedy'; members: 'random'"):
        pool.remove("greedy")
    assert pool.names == ["random"]


def test_an_illegal_reply_names_the_member() -> None:
    pool = OpponentPool()
    pool.add(lambda position: 0, name="cheat 3000")
    env = TogyzqumalaqEnv(opponent=pool)
    env.reset()
    with pytest.raises(IllegalMoveError, match="opponent 'cheat 3000' chose an illegal move: hole: 0 in"):
        env.step(0)


def test_an_environment_with_a_pool_can_be_copied() -> None:
    for env in (TogyzqumalaqEnv(opponent=OpponentPool(["random", "greedy"])),):
        env.reset(seed=1)
        for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
            assert twin.step(2)[4]["fen"] == copy.deepcopy(env).step(2)[4]["fen"]


# The players inside.


def test_random_plays_every_legal_hole_equally_often() -> None:
    position = board("3 0 1 0 20 0 9 9 0", "9 9 9 9 9 9 9 9 9", 20)
    count = 20_000
    states = np.tile(position.state, (count, 1))
    out = np.empty(count, np.int64)
    simple_actions(states, np.arange(count), RANDOM, new_streams(1, count), out)
    counts = np.bincount(out + 1, minlength=10)
    assert [hole for hole in range(10) if counts[hole]] == position.legal_moves() == [1, 3, 5, 7, 8]
    assert np.abs(counts[[1, 3, 5, 7, 8]] - count / 5).max() < 5 * (count * 0.2 * 0.8) ** 0.5


def test_greedy_takes_the_most_and_breaks_ties_evenly() -> None:
    streams = new_streams(2, 1)
    for position in random_positions(400, 3):
        out = np.empty(1, np.int64)
        simple_actions(position.state[None], np.zeros(1, np.int64), GREEDY, streams, out)
        gains = {hole: position.sowing(hole).gained for hole in position.legal_moves()}
        assert gains[int(out[0]) + 1] == max(gains.values())
    count = 20_000
    out = np.empty(count, np.int64)
    # From the start white's 2 to 9 capture ten each; only 1 does not reach black's row.
    gains = [Position.start().sowing(hole).gained for hole in range(1, 10)]
    best = [hole - 1 for hole in range(1, 10) if gains[hole - 1] == max(gains)]
    simple_actions(np.tile(Position.start().state, (count, 1)), np.arange(count), GREEDY, new_streams(3, count), out)
    counts = np.bincount(out, minlength=9)
    share = 1 / len(best)
    assert [action for action in range(9) if counts[action]] == best
    assert np.abs(counts[best] - count * share).max() < 5 * (count * share * (1 - share)) ** 0.5


# Closing.


def test_what_an_environment_makes_it_closes(closing: list[Closing]) -> None:
    mine = Closing()
    for opponent in ("closing", mine):
        single, many = TogyzqumalaqEnv(opponent=opponent), TogyzqumalaqVectorEnv(3, opponent=opponent)
        single.reset()
        single.close()
        many.reset()
        many.step(np.zeros(3, np.int64))
        many.close()
        many.close()
    assert closing[0] is mine
    assert len(closing) == 5  # with a description one for the single environment and one for each game
    assert [agent.closed for agent in closing[1:]] == [1, 1, 1, 1]
    assert mine.closed == 0


def test_members_dropped_and_no_longer_needed_are_closed(closing: list[Closing]) -> None:
    pool = OpponentPool(["closing"])
    env = TogyzqumalaqEnv(opponent=pool)
    env.reset()
    pool.add("random")
    pool.remove("closing")
    assert closing[0].closed == 0
    env.step(0)
    env.reset()
    pool.add(first_legal)
    pool.remove("random")
    env.reset()
    assert closing[0].closed == 1
