"""The environments in other libraries' hands.

1. The acceptance tests of Stable-Baselines3 and TorchRL pass (Gymnasium's is in test_env, PettingZoo's in test_aec,
   OpenSpiel's in test_openspiel). 2. MaskablePPO finds the mask; TorchRL's random actions are legal in both wrappers.
3. The Gymnasium, PettingZoo and OpenSpiel forms give the same positions, masks, observations and results for the same games.
"""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pyspiel
import pytest
import torch
from sb3_contrib.common.maskable.utils import get_action_masks
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import DummyVecEnv
from torchrl.envs import ActionMask, GymWrapper, PettingZooWrapper, TransformedEnv, check_env_specs

import togyz_env.openspiel  # noqa: F401 - registers the game
from togyz_env import Ruleset, togyzqumalaq_v0
from togyz_env.observation import ENCODERS

ID = "togyz_env:Togyzqumalaq-v0"


@pytest.mark.parametrize("observation", sorted(ENCODERS))
@pytest.mark.parametrize("opponent", [None, "random"])
def test_stable_baselines3s_checker_finds_nothing(observation: str, opponent: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(ID, observation=observation, opponent=opponent))


def test_sb3_contrib_finds_the_masks_through_wrappers_and_vectors() -> None:
    envs = DummyVecEnv([lambda: gymnasium.make(ID)] * 3)
    observations = envs.reset()
    masks = get_action_masks(envs)
    assert masks.shape == (3, 9)
    assert masks.dtype == np.bool_
    assert np.array_equal(masks, observations["action_mask"])
    assert not isinstance(envs.envs[0], ActionMasker)


def gym_wrapper(**arguments: Any) -> TransformedEnv:
    env = gymnasium.make(ID, **arguments)
    return TransformedEnv(GymWrapper(env, categorical_action_encoding=True), ActionMask())


def pettingzoo_wrapper() -> PettingZooWrapper:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PettingZoo in TorchRL is tested")
        return PettingZooWrapper(togyzqumalaq_v0.env(), use_mask=True)


@pytest.mark.parametrize("arguments", [{}, {"opponent": "random", "agent_side": "random"}])
def test_torchrls_specs_of_the_gymnasium_environment_hold(arguments: dict[str, Any]) -> None:
    check_env_specs(gym_wrapper(**arguments))


def test_torchrls_specs_of_the_pettingzoo_environment_hold() -> None:
    check_env_specs(pettingzoo_wrapper())


def test_torchrls_random_actions_are_legal() -> None:
    torch.manual_seed(1)
    games = gym_wrapper(max_plies=50).rollout(300, break_when_any_done=False)
    chosen = games["action_mask"].gather(-1, games["action"].reshape(-1, 1))
    assert chosen.all()
    game = pettingzoo_wrapper().rollout(1000)
    assert bool(game[-1]["next", "done"])
    rewards = [game["next", player, "reward"].sum().item() for player in ("player_0", "player_1")]
    assert sum(rewards) == 0.0


@pytest.mark.parametrize(("end", "max_plies", "games"), [("majority", 2000, 300), ("playout", 2000, 150), ("majority", 60, 50)])
def test_single_pettingzoo_and_openspiel_forms_play_the_same_500_games(end: str, max_plies: int, games: int) -> None:
    single: Any = gymnasium.make(ID, end=end, max_plies=max_plies).unwrapped
    aec = togyzqumalaq_v0.raw_env(end=end, max_plies=max_plies)  # type: ignore[arg-type]
    game = pyspiel.load_game("python_togyzqumalaq", {"end": end, "max_plies": max_plies})
    rng = np.random.default_rng(max_plies + games)
    reasons = set()
    for seed in range(games):
        observation, info = single.reset(seed=seed)
        aec.reset(seed=seed)
        state = game.new_initial_state()
        ended = False
        while not ended:
            mover = info["to_move"]
            seen = aec.observe(aec.agent_selection)
            assert aec.agent_selection == f"player_{mover}"
            assert state.current_player() == mover
            assert aec.position == state.position
            assert np.array_equal(observation["action_mask"], seen["action_mask"])
            assert np.flatnonzero(seen["action_mask"]).tolist() == state.legal_actions()
            assert np.array_equal(observation["observation"], seen["observation"])
            action = int((rng.random(9) * seen["action_mask"]).argmax())
            observation, reward, terminated, truncated, info = single.step(action)
            aec.step(action)
            state.apply_action(action)
            ended = terminated or truncated
            assert ended == state.is_terminal()
        assert single.position == aec.position == state.position
        assert state.outcome == aec.outcome == single.position.outcome(Ruleset(end, max_plies))  # type: ignore[arg-type]
        rewards = [reward, -reward] if mover == 0 else [-reward, reward]
        assert [aec.rewards["player_0"], aec.rewards["player_1"]] == state.returns() == rewards
        assert set(aec.terminations.values()) == {terminated}
        assert set(aec.truncations.values()) == {truncated}
        reasons.add(info["reason"])
    assert (
        reasons == {"playout": {"atsyrau"}, "majority": {"majority", "atsyrau"}}[end]
        if max_plies > 60
        else {"ply limit"} <= reasons
    )
