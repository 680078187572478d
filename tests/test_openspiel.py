"""The OpenSpiel game.

1. OpenSpiel's random simulations, with serialisation, and a playthrough of a recorded game pass.
2. Parameters, returns, ply limit, observer, texts of states and moves are what the module says.
3. Clones, copies and serialised states go on alike and apart. 4. OpenSpiel's Python algorithms run, and see what is to be seen.
5. Without OpenSpiel one line says what to install.
"""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pyspiel
import pytest
from boards import board, games
from open_spiel.python import rl_environment
from open_spiel.python.algorithms import generate_playthrough, mcts, minimax
from open_spiel.python.observation import make_observation

import togyz_env.openspiel as module
from togyz_env import ConfigError, NotationError, Position
from togyz_env.observation import ENCODERS

SHORT = {"max_plies": 60}
WINS_WITH_9 = board("0 0 0 0 0 0 0 1 1", "1 0 0 0 0 0 0 0 2", 80)


def load(**parameters: Any) -> Any:
    return pyspiel.load_game(module.NAME, parameters)


def after(game: Any, holes: list[int]) -> Any:
    state = game.new_initial_state()
    for hole in holes:
        state.apply_action(hole - 1)
    return state


@pytest.mark.parametrize("parameters", [{}, {"end": "playout"}, {"max_plies": 1}, {"max_plies": 33}])
def test_openspiels_random_simulations_with_serialisation_pass(parameters: dict[str, Any]) -> None:
    pyspiel.random_sim_test(load(**parameters), num_sims=10, serialize=True, verbose=False)


@pytest.mark.parametrize("number", [0, 1])
def test_a_playthrough_of_a_recorded_game_shows_its_positions_and_end(number: int) -> None:
    recorded = games()[number]
    text = generate_playthrough.playthrough(
        f"{module.NAME}(end={recorded['end_rule']})", [hole - 1 for hole, _ in recorded["plies"]]
    )
    fens = {fen for _, fen in recorded["plies"]}
    shown = set(re.findall(r"^# (\S+/\S+ \d+ \d+ [SN] \d+)$", text, re.MULTILINE))
    assert shown <= {Position.start().fen(), *fens}
    assert recorded["plies"][-1][1] in shown
    winner = {"white": "[1, -1]", "black": "[-1, 1]", None: "[0, 0]"}[recorded["winner"]]
    assert f"Returns() = {winner}" in text
    assert "GameType.information = Information.PERFECT_INFORMATION" in text


@pytest.mark.parametrize("recorded", games()[::6], ids=lambda game: f"{game['end_rule']} {game['reason']}")
def test_states_are_the_position_strings_of_recorded_games(recorded: dict[str, Any]) -> None:
    state = load(end=recorded["end_rule"]).new_initial_state()
    for ply, (hole, fen) in enumerate(recorded["plies"]):
        assert state.current_player() == ply % 2
        assert state.returns() == [0.0, 0.0]
        assert hole - 1 in state.legal_actions()
        state.apply_action(hole - 1)
        assert str(state) == fen
    assert state.is_terminal()
    assert state.legal_actions() == []
    assert state.returns() == {"white": [1.0, -1.0], "black": [-1.0, 1.0], None: [0.0, 0.0]}[recorded["winner"]]


def test_the_ply_limit_is_a_draw_and_the_games_length() -> None:
    game = load(max_plies=3)
    assert game.max_game_length() == 3
    state = after(game, [7, 7, 1])
    assert state.is_terminal()
    assert state.returns() == [0.0, 0.0]
    assert state.outcome.reason == "ply limit"


def test_parameters_are_checked_and_kept() -> None:
    assert load().get_parameters() == {"end": "majority", "max_plies": 2000}
    assert str(load(end="playout", max_plies=9)) == "python_togyzqumalaq(end=playout,max_plies=9)"
    for wrong in ({"end": "national"}, {"max_plies": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            load(**wrong)


def test_a_move_is_written_from_to() -> None:
    start = load().new_initial_state()
    # Nine stones: from hole h to hole h + 8, which is the other row's hole h - 1; from 1 to the mover's own 9.
    assert [start.action_to_string(action) for action in range(9)] == ["19", *(f"{hole}{hole - 1}" for hole in range(2, 10))]
    assert start.action_to_string(1, 3) == "4"  # not on move


def test_a_state_can_start_from_a_position_string() -> None:
    game = load()
    state = game.new_initial_state(WINS_WITH_9.fen())
    assert state.legal_actions() == [7, 8]
    twin = pyspiel.deserialize_game_and_state(pyspiel.serialize_game_and_state(game, state))[1]
    state.apply_action(8)
    assert state.returns() == [1.0, -1.0]
    assert str(twin) == WINS_WITH_9.fen()
    assert state.clone().returns() == [1.0, -1.0]
    with pytest.raises(NotationError):
        game.new_initial_state("9S")


@pytest.mark.parametrize("duplicate", [lambda state: state.clone(), copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_copies_go_on_alike_and_apart(duplicate: Any) -> None:
    state = after(load(max_plies=50, end="playout"), [7, 7, 3])
    twin = duplicate(state)
    assert (str(twin), twin.history()) == (str(state), state.history())
    before = str(state)
    while not twin.is_terminal():
        twin.apply_action(twin.legal_actions()[-1])
    assert str(state) == before
    while not state.is_terminal():
        state.apply_action(state.legal_actions()[-1])
    assert (str(twin), twin.returns()) == (str(state), state.returns())


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_the_observer_shows_the_position_from_the_players_side(name: str) -> None:
    game = load()
    observer = make_observation(game, params={"observation": name})
    state = after(game, [7, 7, 3])
    for player in (0, 1):
        observer.set_from(state, player)
        row = state.position.state
        row[-1] = player
        assert np.array_equal(observer.dict["observation"], ENCODERS[name].encode(row[None])[0])
        assert observer.dict["to_move"] == [player == 1]
        assert observer.string_from(state, player) == str(state)
        if name == "plain":
            assert state.observation_tensor(player) == observer.tensor.tolist()
    assert game.observation_tensor_shape() == [ENCODERS["plain"].size + 1]
    assert state.information_state_string(0) == "6, 6, 2"


@pytest.mark.parametrize("wrong", [{"observation": "pixels"}, {"planes": 3}])
def test_the_observer_refuses_what_it_does_not_know(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"observer: .*'plain'"):
        make_observation(load(), params=wrong)


def test_openspiels_mcts_and_alpha_beta_find_a_win_in_one() -> None:
    game = load(**SHORT)
    random = np.random.RandomState(1)
    evaluator = mcts.RandomRolloutEvaluator(1, random)
    state = game.new_initial_state(WINS_WITH_9.fen())
    assert mcts.MCTSBot(game, 1.4, 50, evaluator, random_state=random).step(state) == 8
    value, action = minimax.alpha_beta_search(game, state, maximum_depth=3, value_function=lambda state: 0, maximizing_player_id=0)
    assert (value, action) == (1.0, 8)


def test_openspiels_rl_environment_plays_whole_games() -> None:
    env = rl_environment.Environment(module.NAME, **SHORT)
    rng = np.random.default_rng(1)
    for _ in range(3):
        time_step = env.reset()
        while not time_step.last():
            player = time_step.observations["current_player"]
            time_step = env.step([int(rng.choice(time_step.observations["legal_actions"][player]))])
        assert sum(time_step.rewards) == 0.0


def test_without_openspiel_only_the_game_is_missing() -> None:
    code = """
import sys
sys.modules["pyspiel"] = None
import togyz_env
try:
    import togyz_env.openspiel
except ModuleNotFoundError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [
        "togyz_env.openspiel: no module named 'pyspiel'; install the extra: pip install 'togyz[openspiel]'"
    ]
