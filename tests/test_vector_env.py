"""The vector environment: Gymnasium's SyncVectorEnv over single environments is the reference, step by step.

1. 500 seeded games are the same as in single environments: positions, observations, masks, rewards, ends, infos; in every autoreset
   mode, with and without opponents, with illegal actions among the others.
2. Seeds: one number or a list; equal seeds give equal games, different ones different games; a game does not depend on the others.
3. What a step has returned does not change later, unless ``copy=False``.
4. Illegal actions, actions after the end, resets in mid-game, masks of a wrong type, a ply limit of 1: each has a defined answer.
5. Copies and pickles play on by themselves.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from boards import board
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from togyz_env import ConfigError, IllegalMoveError, NotationError, OpponentPool, Position, PositionError
from togyz_env.env import TogyzqumalaqEnv
from togyz_env.vector_env import TogyzqumalaqVectorEnv

ID = "togyz_env:Togyzqumalaq-v0"
WINS_WITH_9 = board("0 0 0 0 0 0 0 1 1", "1 0 0 0 0 0 0 0 2", 80)
MODES = list(AutoresetMode)


def make(num_envs: int, **arguments: Any) -> TogyzqumalaqVectorEnv:
    env = gymnasium.make_vec(ID, num_envs=num_envs, **arguments)
    assert isinstance(env, TogyzqumalaqVectorEnv)
    return env


def first_legal(position: Position) -> int:
    return position.legal_moves()[0]


class Dice:
    """An agent of one game at a time, whose moves follow from its seed and from how long the history is."""

    name = "dice"

    def new_game(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def select(self, position: Position, history: Sequence[Position], clock: Any) -> int:
        assert len(history) == position.ply
        assert all(before.ply == ply for ply, before in enumerate(history))
        return int(self.rng.choice(position.legal_moves()))

    def close(self) -> None:
        pass


class LastLegal:
    """An agent of many games, without chance; it counts its calls."""

    name = "last legal"

    def __init__(self) -> None:
        self.calls = 0
        self.seeds: list[int] = []

    def new_game(self, seed: int) -> None:
        self.seeds.append(seed)

    def select(self, position: Position, history: Sequence[Position], clock: Any) -> int:
        return position.legal_moves()[-1]

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        assert (states.dtype, plies.dtype) == (np.uint8, np.int32)
        self.calls += 1
        return np.array([Position.from_state(state, int(ply)).legal_moves()[-1] for state, ply in zip(states, plies)])

    def close(self) -> None:
        pass


def same(ours: Any, reference: Any) -> None:
    """Observations, or batches of them, are equal."""
    if isinstance(reference, dict):
        assert set(ours) == set(reference)
        for key in reference:
            same(ours[key], reference[key])
    else:
        assert ours.dtype == reference.dtype
        assert np.array_equal(ours, reference)


def same_infos(ours: dict[str, Any], reference: dict[str, Any], leaves_out: tuple[str, ...] = ("fen", "opponent")) -> None:
    """Every key stands for the same games with the same values; the reference gives some of them for more games."""
    keys = {key for key in {*ours, *reference} if not key.startswith("_")}
    for key in keys:
        nobody = np.zeros(len(next(value for name, value in reference.items() if name.startswith("_"))), bool)
        here, there = ours.get("_" + key, nobody), reference.get("_" + key, nobody)
        assert here.dtype == np.bool_
        if key in leaves_out:
            assert not (here & ~there).any()
        else:
            assert np.array_equal(here, there), key
        if key == "final_info":
            same_infos(ours[key], reference[key])
            continue
        for i in np.flatnonzero(here):
            mine, right = ours[key][i], reference[key][i]
            if key == "final_obs":
                same(mine, right)
            else:
                assert np.array_equal(mine, right) and type(mine) is not float, (key, i, mine, right)  # noqa: PT018


def play_beside_the_reference(
    num_envs: int, games: int, mode: AutoresetMode, illegal: float = 0.0, seed: int = 3, **arguments: Any
) -> None:
    """Play the same actions in both, until so many games have ended; everything that comes back is compared."""
    env = make(num_envs, autoreset_mode=mode, **arguments)
    reference = SyncVectorEnv([lambda: TogyzqumalaqEnv(**copy.deepcopy(arguments))] * num_envs, autoreset_mode=mode)
    assert env.metadata["autoreset_mode"] is mode
    assert env.single_observation_space == reference.single_observation_space
    assert env.observation_space == reference.observation_space
    assert env.action_space == reference.action_space
    (observation, info), (expected, expected_info) = env.reset(seed=seed), reference.reset(seed=seed)
    same(observation, expected)
    same_infos(info, expected_info, ())
    rng = np.random.default_rng(seed)
    over = np.zeros(num_envs, bool)
    ended = 0
    reasons = set()
    while ended < games:
        actions = np.argmax(rng.random((num_envs, 9)) * info["action_mask"], axis=1)
        wrong = rng.random(num_envs) < illegal
        actions[wrong] = rng.integers(0, 9, wrong.sum())  # legal or not
        if mode is AutoresetMode.DISABLED and over.any():
            options = {"reset_mask": over}
            observation, info = env.reset(options=options)
            assert options == {"reset_mask": over}
            expected, expected_info = reference.reset(options=options.copy())
            same(observation, expected)
            same_infos(info, expected_info, ())
            actions[over] = 0
        steps = env.step(actions), reference.step(actions)
        (observation, rewards, terminated, truncated, info), (expected, *flags, expected_info) = steps
        same(observation, expected)
        for mine, right in zip((rewards, terminated, truncated), flags):
            same(mine, right)
        same_infos(info, expected_info)
        assert env.fens() == [position.fen() for position in env.positions()] == expected_info["fen"].tolist()
        assert np.array_equal(env.action_masks(), info["action_mask"])
        over = terminated | truncated
        ended += int(over.sum())
        final = info.get("final_info", info)
        assert np.array_equal(final.get("_fen", np.zeros(num_envs, bool)), over)
        if "reason" in final:
            reasons |= set(final["reason"][final["_reason"]])
    assert reasons <= {"majority", "atsyrau", "ply limit"}
    assert reasons
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_500_games_are_those_of_single_environments(mode: AutoresetMode) -> None:
    play_beside_the_reference(100, 500 if mode is AutoresetMode.NEXT_STEP else 60, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("opponent", "side"), [("random", "alternating"), ("greedy", "random"), (first_legal, "black"), (Dice(), "alternating")]
)
def test_games_against_opponents_are_those_of_single_environments(mode: AutoresetMode, opponent: Any, side: str) -> None:
    slow = isinstance(opponent, Dice)
    play_beside_the_reference(10, 12 if slow else 40, mode, illegal=0.01, opponent=opponent, agent_side=side, max_plies=120)


def test_games_against_a_pool_are_those_of_single_environments() -> None:
    pool = OpponentPool(["random", first_legal, LastLegal(), "greedy"])
    play_beside_the_reference(12, 40, AutoresetMode.SAME_STEP, opponent=pool, agent_side="random")


@pytest.mark.parametrize("observation", ["flat", "rules", "array:planes", "tokens"])
def test_every_observation_mode_is_that_of_single_environments(observation: str) -> None:
    play_beside_the_reference(6, 8, AutoresetMode.SAME_STEP, observation=observation, opponent="greedy", illegal=0.01)


def test_playout_and_short_games_are_those_of_single_environments() -> None:
    play_beside_the_reference(10, 20, AutoresetMode.NEXT_STEP, end="playout", max_plies=150)
    env = make(3, max_plies=1)
    env.reset()
    for _ in range(3):
        _, rewards, terminated, truncated, info = env.step(np.array([0, 1, 2]))
        assert (rewards.tolist(), terminated.tolist(), truncated.tolist()) == ([0.0] * 3, [False] * 3, [True] * 3)
        assert info["reason"].tolist() == ["ply limit"] * 3
        assert info["winner"].tolist() == [None] * 3
        _, rewards, terminated, truncated, info = env.step(np.array([8, 8, 8]))  # ignored: the games begin
        assert not (terminated | truncated).any()
        assert env.positions() == [Position.start()] * 3


def test_the_last_move_of_a_draw_and_a_win_come_in_one_step() -> None:
    draw = board("2 0 0 0 0 0 0 0 1", "1 0 0 0 0 0 0 0 0", 77)
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED):
        reference = SyncVectorEnv([TogyzqumalaqEnv] * 3, autoreset_mode=mode)
        for env, start in zip(reference.envs, (WINS_WITH_9, draw, WINS_WITH_9)):
            env.reset(options={"fen": start.fen()})
        ours = make(3, autoreset_mode=mode)
        ours.reset(options={"fen": [WINS_WITH_9.fen(), draw.fen(), WINS_WITH_9.fen()]})
        for step in (ours.step(np.array([8, 8, 7])), reference.step(np.array([8, 8, 7]))):
            assert step[1].tolist() == [1.0, 0.0, 0.0]
            assert step[4]["winner"].tolist() == [0, None, None]
            assert step[4]["_winner"].tolist() == [True, True, False]
            assert step[4]["reason"].tolist() == ["majority", "atsyrau", None]


# Seeds.


def courses(env: TogyzqumalaqVectorEnv, seed: Any, steps: int = 30) -> list[list[str]]:
    """The position strings of each game."""
    env.reset(seed=seed)
    rng = np.random.default_rng(0)
    found = [env.fens()]
    for _ in range(steps):
        draws = np.repeat(rng.random((1, 9)), env.num_envs, axis=0)  # the same wishes in every game
        env.step(np.argmax(draws * env.action_masks(), axis=1))
        found.append(env.fens())
    return [list(course) for course in zip(*found)]


@pytest.mark.parametrize("opponent", ["random", "greedy", Dice()])
def test_a_game_depends_on_its_own_seed_only(opponent: Any) -> None:
    env = make(4, opponent=opponent, agent_side="random")
    one = courses(env, 7)
    assert one == courses(env, 7) == courses(env, [7, 8, 9, 10]) == courses(make(4, opponent=opponent, agent_side="random"), 7)
    other = courses(env, [8, 8, 7, 7])
    assert [other[0], other[1], other[2], other[3]] == [one[1], one[1], one[0], one[0]]
    assert len({tuple(course) for course in one}) == 4
    assert courses(env, [7, None, 9, None])[0::2] == one[0::2]


def test_games_without_a_seed_differ() -> None:
    assert courses(make(4, opponent="random"), None) != courses(make(4, opponent="random"), None)


def test_alternating_sides_begin_with_the_parity_of_the_seed_and_alternate() -> None:
    env = make(4, opponent="random", agent_side="alternating", autoreset_mode=AutoresetMode.SAME_STEP, max_plies=6)
    _, info = env.reset(seed=10)
    sides = [info["agent_side"].tolist()]
    assert sides == [[0, 1, 0, 1]]
    for _ in range(12):
        _, _, terminated, truncated, info = env.step(np.argmax(env.action_masks(), axis=1))
        over = terminated | truncated
        for game in np.flatnonzero(over):
            assert info["agent_side"][game] == 1 - info["final_info"]["agent_side"][game]
        assert np.array_equal(info["agent_side"], info["to_move"])
    _, info = make(4, opponent="random", agent_side="alternating").reset()
    assert info["agent_side"].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("seed", [[1, 2], "1", [1, -2, 3], [1.5, 2, 3], {1, 2, 3}])
def test_impossible_seeds_are_refused(seed: Any) -> None:
    with pytest.raises(ConfigError, match="seed"):
        make(3).reset(seed=seed)


# What comes back.


def test_what_was_returned_does_not_change_later() -> None:
    env = make(5, opponent="random")
    returned = [env.reset(seed=1)]
    kept = copy.deepcopy(returned)
    for _ in range(3):
        returned.append(env.step(np.argmax(env.action_masks(), axis=1)))  # type: ignore[arg-type]
        kept.append(copy.deepcopy(returned[-1]))
        returned[-1][-1]["action_mask"][:] = returned[-1][-1]["action_mask"]
    for (first, *_), (second, *_) in zip(returned, kept):
        same(first, second)
    returned[-1][0]["action_mask"][:] = 0  # nor can the caller change what is legal
    assert env.action_masks().any(axis=1).all()
    assert not env.step(np.argmax(env.action_masks(), axis=1))[2].any()


def test_without_copies_the_values_are_the_same_and_the_arrays_too() -> None:
    ours, theirs = make(8, copy=False), make(8)
    (first, info), (expected, _) = ours.reset(seed=2), theirs.reset(seed=2)
    same(first, expected)
    for _ in range(20):
        actions = np.argmax(info["action_mask"], axis=1)
        observation, rewards, _, _, info = ours.step(actions)
        expected, expected_rewards, *_ = theirs.step(actions)
        same(observation, expected)
        assert np.array_equal(rewards, expected_rewards)
    assert observation["observation"] is first["observation"]


def test_infos_become_dictionaries_of_single_games() -> None:
    env = DictInfoToList(make(3, opponent="random"))
    _, infos = env.reset(seed=1)
    assert [info["agent_side"] for info in infos] == [0, 0, 0]  # type: ignore[index]
    assert infos[0]["fen"] == Position.start().fen()  # type: ignore[index]


def test_every_observation_lies_in_the_space() -> None:
    env = make(16, opponent="greedy", autoreset_mode=AutoresetMode.SAME_STEP)
    observation, info = env.reset(seed=1)
    rng = np.random.default_rng(1)
    for _ in range(80):
        assert env.observation_space.contains(observation)
        observation, *_, info = env.step(np.argmax(rng.random((16, 9)) * info["action_mask"], axis=1))
        for final in info.get("final_obs", ()):
            assert final is None or env.single_observation_space.contains(final)


def test_sampling_with_the_masks_gives_legal_actions() -> None:
    env = make(6)
    observation, _ = env.reset(seed=1)
    for _ in range(10):
        actions = env.action_space.sample(mask=tuple(observation["action_mask"]))
        observation, _, terminated, _, _ = env.step(actions)
        assert not terminated.any()


# Opponents.


def test_an_agent_of_many_games_is_asked_once_a_step() -> None:
    agent = LastLegal()
    env = make(50, opponent=agent)
    env.reset(seed=1)
    assert (agent.calls, len(agent.seeds)) == (0, 1)
    for step in range(5):
        env.step(np.argmax(env.action_masks(), axis=1))
        assert agent.calls == step + 1
    env.reset(seed=1)
    assert agent.seeds[0] == agent.seeds[1]


@pytest.mark.parametrize("answer", [10, None, 0, "1"])
def test_an_illegal_reply_names_the_opponent_and_the_game(answer: Any) -> None:
    def cheat(position: Position) -> Any:
        return answer if position.holes[1] == 1 else first_legal(position)

    env = make(3, opponent=cheat)
    env.reset()
    with pytest.raises(IllegalMoveError, match=rf"opponent 'cheat' chose an illegal move: hole: {answer!r} in .*\(game 2\)"):
        env.step(np.array([0, 0, 1]))
    with pytest.raises(ResetNeeded):
        env.step(np.array([0, 0, 0]))
    env.reset()
    env.step(np.array([0, 0, 0]))


def test_an_opponent_that_fails_at_the_start_of_a_game_stops_all_until_reset() -> None:
    pool = OpponentPool([first_legal])
    env = make(2, opponent=pool, max_plies=2)
    env.reset()
    env.step(np.array([0, 0]))
    pool.remove("first_legal")
    with pytest.raises(ConfigError, match="the pool is empty"):
        env.step(np.array([0, 0]))
    with pytest.raises(ResetNeeded):
        env.step(np.array([0, 0]))
    pool.add("random")
    env.reset()
    env.step(np.array([0, 0]))


@pytest.mark.parametrize("mode", MODES)
def test_gymnasiums_statistics_of_episodes_are_those_of_the_games(mode: AutoresetMode) -> None:
    env = RecordEpisodeStatistics(make(6, opponent="random", autoreset_mode=mode))
    env.reset(seed=1)
    rng = np.random.default_rng(1)
    over = np.zeros(6, bool)
    ended = 0
    while ended < 12:
        if mode is AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
        actions = np.argmax(rng.random((6, 9)) * env.unwrapped.action_masks(), axis=1)  # type: ignore[attr-defined]
        _, rewards, terminated, truncated, info = env.step(actions)
        over = terminated | truncated
        for game in np.flatnonzero(over):
            episode = info.get("final_info", info)["episode"] if "episode" not in info else info["episode"]
            assert episode["r"][game] == rewards[game]
            assert 10 < episode["l"][game] < 300
            ended += 1


def test_an_agent_that_cannot_be_copied_is_refused_with_advice() -> None:
    class Stubborn(Dice):
        def __deepcopy__(self, memo: Any) -> None:
            raise TypeError("no")

    with pytest.raises(ConfigError, match="opponent 'dice' cannot be copied for each game"):
        make(2, opponent=Stubborn()).reset()


# Illegal actions, ends, resets.


def test_an_illegal_action_ends_its_game_only_and_the_next_game_is_whole() -> None:
    env = make(3)
    env.reset(options={"fen": board("9 9 9 0 9 9 9 9 9", "9 9 9 9 9 9 9 9 9", 9).fen()})
    observation, rewards, terminated, truncated, info = env.step(np.array([3, 0, 12]))
    assert rewards.tolist() == [-1.0, 0.0, -1.0]
    assert (terminated.tolist(), truncated.any()) == ([True, False, True], False)
    assert info["illegal_action"].tolist() == [3, 0, 12]
    assert info["_illegal_action"].tolist() == [True, False, True]
    assert "winner" not in info
    assert not observation["action_mask"][[0, 2]].any()
    assert env.positions()[0].holes[3] == 0
    _, _, terminated, _, info = env.step(np.array([3, 0, 3]))
    assert not terminated.any()
    assert env.positions()[0] == env.positions()[2] == Position.start()
    rng = np.random.default_rng(1)
    reasons = []
    while len(reasons) < 3:
        *_, info = env.step(np.argmax(rng.random((3, 9)) * env.action_masks(), axis=1))
        reasons += [reason for reason in info.get("reason", ()) if reason]
    assert set(reasons) <= {"majority", "atsyrau"}


def test_an_illegal_action_raises_where_that_is_asked_for_and_nothing_changes() -> None:
    env = make(3, illegal="raise")
    start = board("9 9 9 0 9 9 9 9 9", "9 9 9 9 9 9 9 9 9", 9)
    env.reset(options={"fen": start.fen()})
    with pytest.raises(IllegalMoveError, match=r"action: 3 in .*legal actions: \[0, 1, 2, 4.*\(game 1\)"):
        env.step(np.array([0, 3, 0]))
    assert env.positions() == [start] * 3
    env.step(np.array([0, 0, 0]))


@pytest.mark.parametrize("actions", [[0, 1], 3, None, [0.0, 1.0, 2.0], [[0], [1], [2]], ["0", "1", "2"], [True, False, True]])
def test_actions_of_a_wrong_form_are_refused_and_nothing_changes(actions: Any) -> None:
    env = make(3)
    env.reset()
    with pytest.raises(ConfigError, match=r"actions: .*expected whole numbers of shape \(3,\)"):
        env.step(actions)
    assert env.positions() == [Position.start()] * 3


@pytest.mark.parametrize(
    "convert", [list, tuple, lambda actions: actions.astype(np.uint8), lambda actions: actions.astype(np.int32)]
)
def test_every_array_of_whole_numbers_is_actions(convert: Callable[[np.ndarray], Any]) -> None:
    env = make(3)
    env.reset()
    env.step(convert(np.array([0, 1, 2])))
    assert env.positions() == [Position.start().play(hole) for hole in (1, 2, 3)]


def test_a_step_before_reset_or_after_the_end_is_refused() -> None:
    env = make(2, autoreset_mode="Disabled")
    with pytest.raises(ResetNeeded, match="call reset"):
        env.step(np.array([0, 0]))
    env.reset(options={"fen": WINS_WITH_9.fen()})
    env.step(np.array([7, 8]))
    assert not env.action_masks()[1].any()
    with pytest.raises(ResetNeeded, match=r"games \[1\] are over"):
        env.step(np.array([0, 0]))
    before = env.positions()[0]
    _, info = env.reset(options={"reset_mask": np.array([False, True])})
    assert info["_fen"].tolist() == [False, True]
    assert env.positions() == [before, Position.start()]
    env.step(np.argmax(env.action_masks(), axis=1))


@pytest.mark.parametrize("mode", MODES)
def test_a_reset_in_mid_game_starts_all_anew(mode: AutoresetMode) -> None:
    env = make(3, autoreset_mode=mode, opponent="random")
    env.reset(seed=1)
    env.step(np.array([0, 1, 2]))
    _, info = env.reset(seed=1)
    assert env.positions() == [Position.start()] * 3
    assert info["fen"].tolist() == [Position.start().fen()] * 3
    mask = np.array([True, False, False])
    env.step(np.array([0, 1, 2]))
    kept = env.positions()[1:]
    env.reset(options={"reset_mask": mask})
    assert env.positions() == [Position.start(), *kept]


@pytest.mark.parametrize(
    "mask", [[True, False], np.array([1, 0]), np.array([1, 0], np.int8), np.array([False, False]), np.array([True]), None]
)
def test_a_reset_mask_of_a_wrong_type_is_refused(mask: Any) -> None:
    env = make(2)
    env.reset()
    with pytest.raises(ConfigError, match=r"reset_mask: .*expected bool\[2\] with a True in it"):
        env.reset(options={"reset_mask": mask})


def test_impossible_options_and_starts_are_refused() -> None:
    env = make(2, opponent=first_legal)
    with pytest.raises(ConfigError, match="option of reset: 'start'"):
        env.reset(options={"start": 1})
    with pytest.raises(NotationError):
        env.reset(options={"fen": "9"})
    with pytest.raises(ConfigError, match="fen"):
        env.reset(options={"fen": [WINS_WITH_9.fen()]})
    over = board("0 0 0 0 0 0 0 0 0", "4 0 0 0 0 0 0 0 0", 81)
    with pytest.raises(PositionError, match="the game is over"):
        env.reset(options={"fen": over.fen()})
    ends = board("1 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 1", 79, to_move=1)
    with pytest.raises(PositionError, match="first move ends the game"):
        env.reset(options={"fen": [WINS_WITH_9.fen(), ends.fen()]})
    with pytest.raises(ResetNeeded):
        env.step(np.array([0, 0]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"end": "82"},
        {"observation": "picture"},
        {"agent_side": "north"},
        {"illegal": "ignore"},
        {"opponent": 5},
        {"render_mode": "human"},
        {"autoreset_mode": "Never"},
        {"num_envs": 0},
        {"num_envs": True},
        {"max_plies": 1, "opponent": "random", "agent_side": "random"},
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        TogyzqumalaqVectorEnv(**{"num_envs": 2} | arguments)


# Copies, pictures, the registration.


@pytest.mark.parametrize("opponent", [None, "random", first_legal, Dice()])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"])
def test_a_copy_plays_on_by_itself(opponent: Any, duplicate: Callable[[Any], Any]) -> None:
    env = make(4, opponent=opponent, observation="rules")
    env.reset(seed=3)
    for _ in range(6):
        env.step(np.argmax(env.action_masks(), axis=1))
    twin = duplicate(env)
    before = env.fens()
    played = []
    for _ in range(5):
        played.append(np.argmax(twin.action_masks(), axis=1))
        theirs = twin.step(played[-1])
    assert env.fens() == before != twin.fens()
    for actions in played:
        ours = env.step(actions)
    assert env.fens() == twin.fens()
    same(ours[0], theirs[0])


def test_pictures_of_all_games() -> None:
    env = make(2, render_mode="ansi")
    env.reset()
    assert env.render() == (str(Position.start()) + "\n",) * 2
    env.step(np.array([6, 0]))
    texts = env.render()
    assert texts is not None
    assert "white captured 10" in texts[0]
    assert "white played 1" in texts[1]
    env = make(2, render_mode="rgb_array")
    env.reset()
    pictures = env.render()
    assert pictures is not None
    assert [(picture.dtype, picture.shape) for picture in pictures] == [(np.uint8, (484, 720, 3))] * 2
    assert make(2).render() is None


def test_make_vec_makes_it_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make_vec(ID, num_envs=3, opponent="greedy", autoreset_mode=AutoresetMode.SAME_STEP)
        assert isinstance(env, TogyzqumalaqVectorEnv)
        assert env.spec is not None
        assert env.spec.kwargs["num_envs"] == 3
        env.close()
        sync = gymnasium.make_vec(ID, num_envs=2, vectorization_mode="sync")
        assert isinstance(sync, SyncVectorEnv)
