"""The PettingZoo environment.

1. PettingZoo's own tests pass. 2. Each agent sees the board from his side; the mask is all 0 but for the agent to move.
3. Win, loss, draw, the ply limit, an illegal action, calls in the wrong order and after the end: each has its answer.
4. Illegal action, reset, play: the turns are right. 5. Copies go on alike. 6. Without PettingZoo one line says what to install.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from boards import board, games
from pettingzoo.test import api_test, render_test, seed_test

from togyz_env import ConfigError, IllegalMoveError, Outcome, Position, PositionError, togyzqumalaq_v0
from togyz_env.observation import ENCODERS

WINS_WITH_9 = board("0 0 0 0 0 0 0 1 1", "1 0 0 0 0 0 0 0 2", 80)
DRAWS_WITH_9 = board("0 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 79)  # captures two and leaves black no stone: 81 to 81


def play_out(env: Any, seed: int, plies: int = 10_000) -> list[tuple[str, Any]]:
    """Play random legal actions; return what ``last`` said to each agent in turn."""
    rng = np.random.default_rng(seed)
    course = []
    for agent in env.agent_iter(plies):
        observation, reward, terminated, truncated, _ = env.last()
        course.append((agent, (reward, terminated, truncated, observation["action_mask"].tolist())))
        ended = terminated or truncated
        env.step(None if ended else int(rng.choice(np.flatnonzero(observation["action_mask"]))))
    return course


@pytest.mark.parametrize("observation", [*sorted(ENCODERS), "planes", "tokens"])
def test_pettingzoos_api_test_finds_nothing(observation: str, capsys: pytest.CaptureFixture[str]) -> None:
    for make in (togyzqumalaq_v0.env, togyzqumalaq_v0.raw_env):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # Both say that an observation is a dictionary; only PettingZoo's own names may have one unremarked.
            warnings.filterwarnings("ignore", "Observation space for each agent probably")
            warnings.filterwarnings("ignore", "Observation is not a NumPy array")
            api_test(make(observation=observation), num_cycles=300)
    assert "Passed API test" in capsys.readouterr().out


def test_pettingzoos_seed_and_render_tests_find_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    seed_test(togyzqumalaq_v0.env, num_cycles=300)
    render_test(togyzqumalaq_v0.env)


def test_agents_take_turns_and_see_the_board_from_their_side() -> None:
    env = togyzqumalaq_v0.env(observation="rules")
    env.reset(seed=1)
    assert env.possible_agents == env.agents == ["player_0", "player_1"]
    position = Position.start()
    for hole, fen in games()[1]["plies"]:
        mover = f"player_{position.to_move}"
        assert env.agent_selection == mover
        for side, agent in enumerate(env.agents):
            seen = env.observe(agent)
            assert env.observation_space(agent).contains(seen)
            assert seen["action_mask"].dtype == np.int8
            legal = position.legal_moves() if agent == mover else []
            assert (np.flatnonzero(seen["action_mask"]) + 1).tolist() == legal
            row = position.state
            row[-1] = side
            assert np.array_equal(seen["observation"], ENCODERS["rules"].encode(row[None])[0])
        assert np.array_equal(env.state(), position.state)
        env.step(hole - 1)
        position = Position.from_fen(fen)
        assert env.position == position
    assert all(env.terminations.values())
    assert not any(env.observe(agent)["action_mask"].any() for agent in env.agents)


@pytest.mark.parametrize(
    ("start", "rewards", "outcome"),
    [
        (WINS_WITH_9, {"player_0": 1.0, "player_1": -1.0}, Outcome(0, "majority", (82, 77))),
        (WINS_WITH_9.mirrored(), {"player_0": -1.0, "player_1": 1.0}, Outcome(1, "majority", (77, 82))),
        (DRAWS_WITH_9, {"player_0": 0.0, "player_1": 0.0}, Outcome(None, "atsyrau", (81, 81))),
    ],
)
def test_the_end_rewards_both_agents(start: Position, rewards: dict[str, float], outcome: Outcome) -> None:
    env = togyzqumalaq_v0.env()
    env.reset(options={"fen": start.fen()})
    assert env.agent_selection == f"player_{start.to_move}"
    env.step(8)
    assert env.rewards == rewards
    assert env.outcome == outcome
    assert env.terminations == {"player_0": True, "player_1": True}
    assert env.truncations == {"player_0": False, "player_1": False}
    last = {}
    for agent in env.agent_iter():
        last[agent] = env.last()[1]
        env.step(None)
    assert last == rewards
    assert env.agents == []


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_ply_limit_truncates_both_agents(limit: int) -> None:
    env = togyzqumalaq_v0.env(max_plies=limit)
    env.reset()
    course = play_out(env, seed=3)
    assert len(course) == limit + 2
    assert [answer[:3] for _, answer in course[-2:]] == [(0.0, False, True)] * 2
    assert {agent for agent, _ in course[-2:]} == {"player_0", "player_1"}
    assert env.outcome.reason == "ply limit"


def test_an_illegal_action_loses_for_its_agent_alone() -> None:
    env = togyzqumalaq_v0.env()
    env.reset(options={"fen": WINS_WITH_9.fen()})
    env.step(0)
    assert env.rewards == {"player_0": -1.0, "player_1": 0.0}
    assert all(env.terminations.values())
    assert env.position == WINS_WITH_9
    assert env.outcome is None
    assert not any(env.observe(agent)["action_mask"].any() for agent in env.agents)


@pytest.mark.parametrize("plies", [0, 1, 2, 3])
@pytest.mark.parametrize("finish", [False, True])
def test_illegal_action_reset_and_a_whole_game(plies: int, finish: bool) -> None:
    """PettingZoo's wrapper leaves a mark behind that would hand the turn to the wrong agent in the next game."""
    env, fresh = togyzqumalaq_v0.env(), togyzqumalaq_v0.env()
    env.reset()
    for hole in (7, 7, 1)[:plies]:
        env.step(hole - 1)
    illegal = int(np.flatnonzero(env.observe(env.agent_selection)["action_mask"] == 0)[0]) if plies > 1 else None
    if illegal is None:
        env.reset(options={"fen": (WINS_WITH_9 if plies == 0 else WINS_WITH_9.mirrored()).fen()})
        illegal = 0
    env.step(illegal)
    if finish:
        for _ in env.agent_iter():
            env.step(None)
    for seed in range(3):
        env.reset()
        fresh.reset()
        assert play_out(env, seed) == play_out(fresh, seed)
        assert env.agents == []


def test_the_raw_environment_raises_on_an_illegal_action_and_goes_on() -> None:
    env = togyzqumalaq_v0.raw_env()
    env.reset(options={"fen": WINS_WITH_9.fen()})
    for action in (0, 9, -1, "7"):
        with pytest.raises(IllegalMoveError, match=r"legal actions: \[7, 8\]"):
            env.step(action)  # type: ignore[arg-type]
    env.step(7)
    assert env.agent_selection == "player_1"


def test_wrong_calls_are_errors() -> None:
    env = togyzqumalaq_v0.env()
    with pytest.raises(AttributeError, match="reset"):
        _ = env.agents
    env.reset()
    with pytest.raises(AssertionError, match="action space"):
        env.step(9)
    with pytest.raises(PositionError):
        env.reset(options={"fen": "9/9 81 81 S 1"})
    with pytest.raises(ConfigError, match="observation"):
        togyzqumalaq_v0.env(observation="pixels")
    env.reset(options={"fen": WINS_WITH_9.fen()})
    env.step(8)
    with pytest.raises(ValueError, match="None"):
        env.step(3)


def test_a_reset_in_mid_game_begins_anew() -> None:
    env = togyzqumalaq_v0.env()
    env.reset(seed=1)
    env.step(6)
    env.reset(seed=2)
    assert env.agent_selection == "player_0"
    assert env.position == Position.start()
    assert set(env.rewards.values()) == {0.0}


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_alike_and_apart(duplicate: Any) -> None:
    env = togyzqumalaq_v0.env()
    env.reset()
    play_out(env, seed=4, plies=20)
    twin = duplicate(env)
    before = env.position
    course = play_out(twin, seed=5)
    assert env.position == before
    assert play_out(env, seed=5) == course


def test_without_pettingzoo_only_the_environment_is_missing() -> None:
    code = """
import sys
sys.modules["pettingzoo"] = None
import togyz_env
try:
    from togyz_env import togyzqumalaq_v0
except ModuleNotFoundError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [
        "togyz_env.aec: no module named 'pettingzoo'; install the extra: pip install 'togyz[pettingzoo]'"
    ]
