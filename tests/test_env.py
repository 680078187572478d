"""The Gymnasium environment: its contract, both ways to play, illegal actions, seeds, the end of a game."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from boards import board, games
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from togyz_env import ConfigError, IllegalMoveError, NotationError, Position, PositionError
from togyz_env.env import METADATA, TogyzqumalaqEnv
from togyz_env.observation import ENCODERS

ID = "togyz_env:Togyzqumalaq-v0"
WINS_WITH_9 = board("0 0 0 0 0 0 0 1 1", "1 0 0 0 0 0 0 0 2", 80)


def make(**arguments: Any) -> TogyzqumalaqEnv:
    env = gymnasium.make(ID, **arguments).unwrapped
    assert isinstance(env, TogyzqumalaqEnv)
    return env


def first_legal(position: Position) -> int:
    return position.legal_moves()[0]


class LastLegal:
    """An agent that plays its highest hole and remembers how it was called."""

    name = "last legal"

    def __init__(self) -> None:
        self.seeds: list[int] = []
        self.histories: list[Sequence[Position]] = []
        self.closed = False

    def new_game(self, seed: int) -> None:
        self.seeds.append(seed)

    def select(self, position: Position, history: Sequence[Position], clock: None) -> int:
        self.histories.append([*history, position])
        return position.legal_moves()[-1]

    def close(self) -> None:
        self.closed = True


def play_out(env: TogyzqumalaqEnv, seed: int) -> list[tuple[str, float, bool, bool]]:
    """Play an episode of random legal actions; return what each step gave."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    course = [(env.position.fen(), 0.0, False, False)]
    while not (course[-1][2] or course[-1][3]):
        action = int(rng.choice(np.flatnonzero(observation["action_mask"])))
        observation, reward, terminated, truncated, _ = env.step(action)
        course.append((env.position.fen(), reward, terminated, truncated))
    return course


@pytest.mark.parametrize("observation", sorted(ENCODERS))
@pytest.mark.parametrize("opponent", [None, first_legal])
def test_gymnasium_checker_finds_nothing(observation: str, opponent: Any) -> None:
    env = gymnasium.make(ID, observation=observation, opponent=opponent, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_a_thousand_random_games_keep_to_the_spaces() -> None:
    env = make()
    rng = np.random.default_rng(0)
    ends = {"majority": 0, "atsyrau": 0}
    for game in range(1000):
        observation, info = env.reset()
        done = False
        while not done:
            assert env.observation_space.contains(observation)
            mask = observation["action_mask"]
            assert mask.dtype == np.int8
            action = int((rng.random(9) * mask).argmax())
            observation, reward, done, truncated, info = env.step(action)
            assert not truncated
            assert game % 20 or info["fen"] == env.position.fen()
        assert env.observation_space.contains(observation)
        assert not observation["action_mask"].any()
        assert sum(info["score"]) <= 162
        ends[info["reason"]] += 1
        assert reward in (-1.0, 0.0, 1.0)
    assert min(ends.values()) > 0


def test_observation_mask_and_info_show_the_position_for_the_side_to_move() -> None:
    env = make(observation="rules")
    env.reset(seed=1)
    for hole, fen in games()[0]["plies"][:80]:
        observation, _, _, _, info = env.step(hole - 1)
        position = Position.from_fen(fen)
        assert env.position == position
        assert (info["kazans"], info["to_move"]) == (position.kazans, position.to_move)
        assert np.array_equal(observation["observation"], ENCODERS["rules"].encode(position.state[None])[0])
        expected = [hole in position.legal_moves() for hole in range(1, 10)]
        assert observation["action_mask"].tolist() == info["action_mask"].tolist() == env.action_masks().tolist() == expected
        assert env.action_masks().dtype == np.bool_


def test_observations_already_given_do_not_change() -> None:
    env = make()
    first, info = env.reset(seed=1)
    kept = copy.deepcopy((first, info))
    env.step(3)
    assert np.array_equal(first["observation"], kept[0]["observation"])
    assert np.array_equal(first["action_mask"], kept[0]["action_mask"])
    first["action_mask"][:] = 0  # nor can the caller change what is legal
    env.reset()
    assert env.step(0)[1:4] == (0.0, False, False)


def test_the_position_string_comes_with_every_step() -> None:
    env = make(max_plies=2)
    _, info = env.reset()
    assert info["fen"] == Position.start().fen()
    assert env.step(0)[4]["fen"] == Position.start().play(1).fen()
    assert env.step(0)[4]["fen"] == Position.start().play(1).play(1).fen()
    _, info = env.reset(options={"fen": WINS_WITH_9.fen()})
    assert info["fen"] == WINS_WITH_9.fen()
    assert env.step(8)[4]["fen"] == WINS_WITH_9.play(9).fen()
    env.reset(options={"fen": WINS_WITH_9.fen()})
    assert env.step(0)[4]["fen"] == WINS_WITH_9.fen()  # an illegal action: the position stays
    for opponent in (first_legal, "random"):
        env = make(opponent=opponent, agent_side="black")
        _, info = env.reset(seed=1)
        assert (info["fen"], info["opponent"]) == (env.position.fen(), getattr(opponent, "__name__", opponent))
        assert info["fen"] == env.position.fen() != Position.start().fen()
        assert env.step(0)[4]["fen"] == env.position.fen()


@pytest.mark.parametrize("opponent", [None, "random", first_legal])
def test_a_seed_repeats_the_episode_with_side_and_opponent(opponent: Any) -> None:
    env = make(opponent=opponent, agent_side="random")
    courses = [play_out(env, seed) for seed in (1, 2, 3, 1, 2, 3)]
    assert courses[:3] == courses[3:]
    assert play_out(make(opponent=opponent, agent_side="random"), 1) == courses[0]
    assert courses[0] != courses[1]


def test_an_agent_opponent_gets_a_new_seed_for_each_game() -> None:
    agent = LastLegal()
    env = make(opponent=agent)
    env.reset(seed=5)
    env.reset()
    env.reset(seed=5)
    assert len(set(agent.seeds)) == 2
    assert agent.seeds[0] == agent.seeds[2]


# Rewards and ends, both sides played by the caller.


def test_the_reward_is_the_movers() -> None:
    env = make()
    env.reset(options={"fen": WINS_WITH_9.fen()})
    _, reward, terminated, truncated, info = env.step(8)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["winner"], info["reason"], info["score"]) == (0, "majority", (82, 77))
    env.reset(options={"fen": WINS_WITH_9.mirrored().fen()})
    assert env.step(8)[1] == 1.0


def test_a_mover_who_gives_the_opponent_his_82nd_stone_loses() -> None:
    env = make()
    env.reset(options={"fen": board("3 5 0 0 0 0 0 0 0", "1 0 0 0 0 0 0 0 0", 72, tuzdyks=(0, 3)).fen()})
    _, reward, terminated, _, info = env.step(0)
    assert (reward, terminated, info["winner"]) == (-1.0, True, 1)


def test_a_draw_gives_nothing() -> None:
    env = make()
    env.reset(options={"fen": board("2 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 77).fen()})
    _, reward, terminated, _, info = env.step(8)  # captures black's last stone: atsyrau
    assert (reward, terminated, info["winner"], info["reason"], info["score"]) == (0.0, True, None, "atsyrau", (81, 81))


def test_playout_goes_on_after_82() -> None:
    env = make(end="playout")
    env.reset(options={"fen": WINS_WITH_9.fen()})
    _, reward, terminated, _, info = env.step(8)
    assert (reward, terminated, info["kazans"]) == (0.0, False, (82, 77))
    env.reset(options={"fen": board("5 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 81).fen()})
    _, reward, terminated, _, info = env.step(8)
    assert (reward, terminated, info["reason"], info["score"]) == (1.0, True, "atsyrau", (88, 74))


def test_the_ply_limit_truncates_with_no_reward() -> None:
    env = make(max_plies=4)
    env.reset(seed=1)
    steps = [env.step(action) for action in (0, 0, 1, 1)]
    assert [step[1:4] for step in steps] == [(0.0, False, False)] * 3 + [(0.0, False, True)]
    observation, _, _, _, info = steps[-1]
    assert not observation["action_mask"].any()
    assert (info["winner"], info["reason"], info["score"]) == (None, "ply limit", info["kazans"])
    with pytest.raises(ResetNeeded):
        env.step(2)


def test_a_ply_limit_of_1_is_one_move_and_refused_where_it_could_be_the_opponents() -> None:
    env = make(max_plies=1)
    for _ in range(2):
        env.reset()
        observation, reward, terminated, truncated, info = env.step(3)
        assert (reward, terminated, truncated, info["reason"]) == (0.0, False, True, "ply limit")
        assert not observation["action_mask"].any()
    env = make(max_plies=1, opponent=first_legal)
    env.reset()
    assert env.step(0)[2:4] == (False, True)
    assert env.position == Position.start().play(1)
    for side in ("black", "random", "alternating"):
        with pytest.raises(ConfigError, match=f"max_plies: 1 with agent_side '{side}'.*expected 2 or more"):
            make(max_plies=1, opponent=first_legal, agent_side=side)


def test_a_reset_in_mid_game_starts_anew() -> None:
    agent = LastLegal()
    for opponent in (None, agent):
        env = make(opponent=opponent)
        first, _ = env.reset(seed=4)
        env.step(0)
        env.step(1)
        again, info = env.reset(seed=4)
        assert np.array_equal(first["observation"], again["observation"])
        assert (info["fen"], env.position) == (Position.start().fen(), Position.start())
        env.step(2)
    assert [position.ply for position in agent.histories[-1]] == [0, 1]  # nothing of the game before


@pytest.mark.parametrize("opponent", [None, "greedy"])
def test_an_illegal_action_then_a_reset_then_a_whole_game(opponent: Any) -> None:
    env = make(opponent=opponent)
    env.reset(seed=1)
    assert env.step(9)[1:3] == (-1.0, True)
    course = play_out(env, 1)
    assert course == play_out(make(opponent=opponent), 1)
    assert course[-1][2]
    assert sum(Position.from_fen(course[-1][0]).kazans) > 0


def test_a_finished_games_mask_samples_an_action_that_is_refused() -> None:
    env = make(max_plies=1)
    env.reset()
    observation, *_ = env.step(0)
    assert not observation["action_mask"].any()
    assert env.action_space.sample(mask=observation["action_mask"]) == 0  # Gymnasium's answer to a mask without a 1
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(0)


def test_a_mask_of_a_wrong_type_is_refused_by_the_space() -> None:
    env = make()
    observation, info = env.reset()
    assert info["action_mask"].dtype == observation["action_mask"].dtype == np.int8
    for wrong in (env.action_masks(), info["action_mask"].astype(np.int64), info["action_mask"].tolist()):
        with pytest.raises(AssertionError, match="mask"):
            env.action_space.sample(mask=wrong)
    assert 0 <= env.action_space.sample(mask=env.action_masks().astype(np.int8)) < 9


def test_two_environments_with_the_same_seed_are_one_and_with_different_ones_two() -> None:
    for opponent in ("random", "greedy"):
        one, two = (make(opponent=opponent, agent_side="random") for _ in range(2))
        assert [play_out(one, seed) for seed in range(5)] == [play_out(two, seed) for seed in range(5)]
        one.reset(seed=1)
        two.reset(seed=2)
        rng = np.random.default_rng(0)
        fens: list[list[str]] = [[], []]
        for _ in range(10):
            wish = rng.random(9)
            for env, seen in ((one, fens[0]), (two, fens[1])):
                seen.append(env.step(int(np.argmax(wish * env.action_masks())))[4]["fen"])
        assert fens[0] != fens[1]


def test_the_rules_go_before_the_ply_limit() -> None:
    env = make(max_plies=1)
    env.reset(options={"fen": WINS_WITH_9.fen()})
    assert env.step(8)[1:4] == (1.0, True, False)


def test_a_step_before_reset_or_after_the_end_is_refused() -> None:
    env = make()
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(0)
    env.reset(options={"fen": WINS_WITH_9.fen()})
    env.step(8)
    assert not env.action_masks().any()
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(0)
    env.reset()
    env.step(0)


# Illegal actions.


@pytest.mark.parametrize("action", [3, -1, 9, 10**30, 1.0, "1", None, np.array([1]), np.float32(1)])
@pytest.mark.parametrize("opponent", [None, first_legal])
def test_an_illegal_action_ends_the_episode_and_changes_nothing(action: Any, opponent: Any) -> None:
    env = make(opponent=opponent)
    start = board("9 9 9 0 9 9 9 9 9", "9 9 9 9 9 9 9 9 9", 9)
    env.reset(options={"fen": start.fen()})
    observation, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert info["illegal_action"] is action
    assert not observation["action_mask"].any()
    assert not env.action_masks().any()
    assert env.position == start
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_an_illegal_action_raises_where_that_is_asked_for_and_the_episode_goes_on() -> None:
    env = make(illegal="raise")
    start = board("9 9 9 0 9 9 9 9 9", "9 9 9 9 9 9 9 9 9", 9)
    env.reset(options={"fen": start.fen()})
    for action in (3, 9, -1, 1.5):
        with pytest.raises(IllegalMoveError) as caught:
            env.step(action)
        for part in (repr(action), start.fen(), "[0, 1, 2, 4, 5, 6, 7, 8]"):
            assert part in str(caught.value)
    assert env.position == start
    env.step(0)


@pytest.mark.parametrize("action", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_every_integer_type_is_an_action(action: Any) -> None:
    env = make()
    env.reset()
    env.step(action)
    assert env.position == Position.start().play(4)


# With an opponent.


@pytest.mark.parametrize("side", ["white", "black"])
@pytest.mark.parametrize("opponent", ["random", LastLegal(), first_legal])
def test_the_agent_is_to_move_in_every_observation_and_gets_his_own_reward(side: str, opponent: Any) -> None:
    env = make(opponent=opponent, agent_side=side)
    agent = ["white", "black"].index(side)
    rng = np.random.default_rng(1)
    rewards = set()
    for seed in range(30):
        observation, info = env.reset(seed=seed)
        assert (env.position.ply, info["agent_side"]) == (agent, agent)
        terminated = False
        while not terminated:
            assert info["to_move"] == agent
            assert np.array_equal(observation["observation"], ENCODERS["plain"].encode(env.position.state[None])[0])
            action = int(rng.choice(np.flatnonzero(observation["action_mask"])))
            observation, reward, terminated, truncated, info = env.step(action)
            assert not truncated
            if not terminated:
                assert reward == 0.0
        expected = 0.0 if info["winner"] is None else 1.0 if info["winner"] == agent else -1.0
        assert reward == expected
        rewards.add(reward)
        last = env.position.state
        last[22] = agent
        assert np.array_equal(observation["observation"], ENCODERS["plain"].encode(last[None])[0])
    assert {1.0, -1.0} <= rewards


def test_an_opponent_who_wins_gives_minus_one() -> None:
    start = board("1 0 0 0 0 0 0 0 3", "0 0 0 0 0 0 0 1 1", 76)
    assert start.kazans == (76, 80)
    env = make(opponent=lambda position: 9)
    env.reset(options={"fen": start.fen()})
    _, reward, terminated, _, info = env.step(8)  # black's 9 makes two in white's 1
    assert (reward, terminated, info["winner"], info["kazans"]) == (-1.0, True, 1, (76, 82))


def test_random_sides_are_both_played() -> None:
    env = make(opponent=first_legal, agent_side="random")
    sides = [env.reset(seed=seed)[1]["agent_side"] for seed in range(30)]
    assert set(sides) == {0, 1}
    assert env.reset(options={"agent_side": "black"})[1]["agent_side"] == 1


def test_alternating_sides_alternate_and_a_seed_says_which_begins() -> None:
    env = make(opponent=first_legal, agent_side="alternating")
    assert [env.reset()[1]["agent_side"] for _ in range(4)] == [0, 1, 0, 1]
    for seed in (6, 7, 6):
        sides = [env.reset(seed=seed)[1]["agent_side"], *(env.reset()[1]["agent_side"] for _ in range(3))]
        assert sides == [seed % 2, 1 - seed % 2] * 2
    assert env.reset(options={"agent_side": "white"})[1]["agent_side"] == 0
    assert env.reset()[1]["agent_side"] == 1


def test_an_agent_opponent_sees_the_whole_history() -> None:
    agent = LastLegal()
    env = make(opponent=agent)
    env.reset()
    env.step(0)
    env.step(1)
    assert [[position.ply for position in history] for history in agent.histories] == [[0, 1], [0, 1, 2, 3]]
    assert agent.histories[1][0] == Position.start()


def test_an_illegal_reply_names_the_opponent() -> None:
    class Cheat(LastLegal):
        name = "cheat 3000"

        def select(self, position: Position, history: Sequence[Position], clock: None) -> int:
            return 10

    for opponent, name in ((Cheat(), "cheat 3000"), (lambda position: None, "<lambda>")):
        env = make(opponent=opponent)
        env.reset()
        with pytest.raises(IllegalMoveError, match=f"opponent '{name}' chose an illegal move: hole: (10|None) in"):
            env.step(0)
        with pytest.raises(ResetNeeded):
            env.step(0)


def test_the_ply_limit_counts_both_sides() -> None:
    for limit, plies in ((3, 3), (4, 4)):
        env = make(opponent=first_legal, max_plies=limit)
        env.reset()
        assert env.step(0)[2:4] == (False, False)
        assert env.step(1)[1:4] == (0.0, False, True)
        assert env.position.ply == plies


def test_only_an_opponent_made_here_is_closed_here() -> None:
    agent = LastLegal()
    make(opponent=agent).close()
    assert not agent.closed
    make(opponent="random").close()


# Arguments, options, copies, pictures.


@pytest.mark.parametrize(
    "arguments",
    [
        {"end": "82"},
        {"max_plies": 0},
        {"observation": "picture"},
        {"observation": ["plain"]},
        {"agent_side": "north"},
        {"illegal": "ignore"},
        {"opponent": 5},
        {"opponent": LastLegal},
        {"opponent": "nobody:at=all"},
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        TogyzqumalaqEnv(**arguments)
    with pytest.raises(ConfigError, match="render_mode"):
        TogyzqumalaqEnv(render_mode="hologram")


def test_impossible_options_are_refused() -> None:
    env = make(opponent=first_legal)
    with pytest.raises(ConfigError, match="option of reset: 'start'"):
        env.reset(options={"start": 1})
    with pytest.raises(ConfigError, match="agent_side"):
        env.reset(options={"agent_side": 1})
    with pytest.raises(NotationError):
        env.reset(options={"fen": "9"})
    over = board("0 0 0 0 0 0 0 0 0", "4 0 0 0 0 0 0 0 0", 81)
    with pytest.raises(PositionError, match="the game is over"):
        env.reset(options={"fen": over.fen()})
    with pytest.raises(PositionError, match="first move ends the game"):
        env.reset(options={"fen": board("1 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 1", 79, to_move=1).fen()})
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("opponent", [None, first_legal, "random"])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"])
def test_a_copy_plays_on_by_itself(opponent: Any, duplicate: Any) -> None:
    env = make(opponent=opponent, observation="rules")
    observation, _ = env.reset(seed=3)
    for _ in range(6):
        observation, *_ = env.step(int(np.flatnonzero(observation["action_mask"])[0]))
    twin = duplicate(env)
    before = env.position
    actions = []
    for _ in range(3):
        actions.append(int(np.flatnonzero(observation["action_mask"])[-1]))
        observation, *_ = twin.step(actions[-1])
    assert env.position == before
    for action in actions:
        expected, *_ = env.step(action)
    assert env.position == twin.position
    assert np.array_equal(observation["observation"], expected["observation"])


def test_a_sampled_masked_action_is_legal() -> None:
    env = make()
    observation, _ = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(30):
        observation, reward, terminated, _, _ = env.step(env.action_space.sample(mask=observation["action_mask"]))
        assert not terminated
        assert reward == 0.0


def test_render_modes(capsys: pytest.CaptureFixture[str]) -> None:
    env = make(render_mode="ansi")
    env.reset()
    assert env.render() == str(Position.start()) + "\n"
    env.step(6)
    assert "white played 7: the last stone fell into black's 6, white captured 10" in env.render()
    env.reset()
    assert env.render() == str(Position.start()) + "\n"
    env = make(render_mode="rgb_array")
    env.reset()
    before = env.render()
    env.step(6)
    picture = env.render()
    assert (picture.dtype, picture.shape) == (np.uint8, (484, 720, 3))
    assert not np.array_equal(before, picture)
    assert capsys.readouterr().out == ""
    env = make()
    env.reset()
    with pytest.warns(UserWarning, match="without render_mode"):
        assert env.render() is None


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Any:
    """pygame on a display that nobody sees."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    pygame.display.quit()
    yield pygame
    pygame.display.quit()


def test_human_mode_shows_the_picture_in_a_window(
    screen: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(METADATA, "render_fps", 0)  # no pauses
    env, picture = make(render_mode="human"), make(render_mode="rgb_array")
    assert env.metadata["render_modes"] == ["ansi", "rgb_array", "human"]
    for step in range(3):
        if step == 0:
            env.reset()
            picture.reset()
        else:
            env.step(5 + step)
            picture.step(5 + step)
        shown = screen.surfarray.array3d(screen.display.get_surface()).swapaxes(0, 1)
        assert np.array_equal(shown, picture.render())
    assert env.render() is None
    twin = copy.deepcopy(env)
    twin.step(0)
    assert env.position.ply == 2
    env.close()
    assert screen.display.get_surface() is None
    env.close()
    assert capsys.readouterr().out == ""


def test_without_a_window_human_mode_says_so_once_and_prints_the_board(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)  # as if it were not installed
    env = make(render_mode="human")
    env.reset()
    env.step(6)
    assert env.render() is None
    out = capsys.readouterr().out
    assert out.count("black to move") == 2
    assert "white captured 10" in out
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "needs pygame: pip install 'togyz[human]'; showing the board as text instead" in caplog.text


def test_without_a_display_human_mode_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    import pygame

    monkeypatch.setenv("SDL_VIDEODRIVER", "nonsense")
    pygame.display.quit()
    env = make(render_mode="human")
    env.reset()
    assert "found no display to open a window on; set DISPLAY; showing the board as text instead" in caplog.text
