"""The searching players by their descriptions: alpha-beta, roll-outs, policy alone.

1. Descriptions set limits, evaluation and table; what cannot be is refused in one line; the list names every parameter.
2. The alpha-beta player keeps to its limits and the clock, repeats its games, plays the only move at once, and needs no torch.
3. A network at the leaves of alpha-beta is searched as exactly as the evaluations; its score says what the network says.
4. The roll-out player values positions by the results of random games, finds a win, and repeats with its seed.
5. The policy player plays the network's likeliest move, or draws by its probabilities.
6. All of them play matches.
7. A tree search tells the visits and the prior of every move.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from boards import board, random_positions

from togyz_agents.agent import Agent, BatchAgent, Clock, agent_help, agent_name, agent_names, make_agent
from togyz_agents.evaluator import NetworkEvaluator
from togyz_agents.network import Network, NetworkConfig, save_network
from togyz_agents.players.alphabeta import AlphaBetaAgent
from togyz_agents.search.alphabeta.evaluation import PROVEN, WIN
from togyz_agents.search.rollout import RolloutEvaluator
from togyz_agents.thinking import Limits
from togyz_agents.tournament.match import play_match
from togyz_env import ConfigError, Position, TogyzError

ROOT = Path(__file__).resolve().parent.parent
MIDDLE = Position.from_fen("12S,1S,12S,12S,1S,10S,2S,10S,11S/2S,11S,1S,12S,12S,1S,12S,1S,11S 10 18 S 8")
WON = board("0 0 0 0 0 0 0 0 2", "1 5 0 0 0 0 0 0 4", 80)  # white's 9 captures two and has 82


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("network") / "network.safetensors"
    save_network(Network(NetworkConfig(width=16, blocks=1)), path)
    return path


def made(description: str) -> Any:
    return make_agent(description)


# 1


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("alphabeta:depth=0", ["depth must be from 1 to 64", "0"]),
        ("alphabeta:depth=65", ["depth must be from 1 to 64", "65"]),
        ("alphabeta:depth=six", ["depth must be int or none", "'six'"]),
        ("alphabeta:nodes=0", ["nodes must be at least 1"]),
        ("alphabeta:time=0", ["time must be more than 0 seconds"]),
        ("alphabeta:time=inf", ["time must be more than 0 seconds"]),
        ("alphabeta:time=nan", ["time must be more than 0 seconds"]),
        ("alphabeta:eval=stones", ["eval must be full or kazan", "'stones'"]),
        ("alphabeta:table=-1", ["table of -1 MiB"]),
        ("alphabeta:end=never", ["end of a ruleset", "'never'"]),
        ("alphabeta:max_plies=0", ["max_plies"]),
        ("alphabeta:network=nowhere", ["nowhere"]),
        ("rollout:sims=0", ["sims must be at least 1"]),
        ("rollout:rollouts=0", ["rollouts must be at least 1"]),
        ("rollout:exploration=-1", ["exploration"]),
        ("policy", ["'run' is missing"]),
        ("policy:nowhere", ["nowhere"]),
    ],
)
def test_wrong_descriptions_are_one_line(description: str, expected: list[str]) -> None:
    with pytest.raises(TogyzError) as caught:
        make_agent(description)
    message = str(caught.value)
    assert "\n" not in message
    for part in expected:
        assert part in message


def test_a_policy_cannot_be_colder_than_cold(network: Path) -> None:
    with pytest.raises(ConfigError, match="temperature must be 0 or more"):
        make_agent(f"policy:{network},temperature=-1")


def test_names_tell_what_plays(network: Path) -> None:
    for description, name in {
        "alphabeta": "alphabeta:depth=6",
        "alphabeta:8": "alphabeta:depth=8",
        "alphabeta:nodes=1000,time=0.5": "alphabeta:nodes=1000,time=0.5",
        "alphabeta:depth=4,eval=kazan,quiescence=off": "alphabeta:depth=4,eval=kazan,quiescence=off",
        f"alphabeta:depth=2,network={network}": f"alphabeta:depth=2,network={network}",
        "rollout:100": "rollout:sims=100",
        f"policy:{network}": f"policy:{network}",
    }.items():
        agent = make_agent(description)
        assert isinstance(agent, Agent)
        assert agent_name(agent) == name
        agent.close()


def test_the_script_lists_every_player_with_its_parameters() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "play.py"), "--list"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text == agent_help() + "\n"
    for name in agent_names():
        if name in ("random", "greedy", "alphabeta", "rollout", "policy", "alphazero"):
            assert any(line.startswith(f"{name}: ") for line in text.splitlines())
    for entry in ("depth (int or none, default None)", "eval (full or kazan, default full)", "run (path, required)"):
        assert f"    {entry}" in text.splitlines()


# 2


def moves(agent: Agent, seed: int, plies: int = 30) -> list[int]:
    agent.new_game(seed)
    position, holes = Position.start(), []
    while position.outcome() is None and len(holes) < plies:
        holes.append(agent.select(position, (), None))
        position = position.play(holes[-1])
    return holes


@pytest.mark.parametrize("limits", ["depth=4", "nodes=3000", "depth=5,nodes=5000,eval=kazan,table=0"])
def test_the_same_game_gives_the_same_moves(limits: str) -> None:
    agent = make_agent(f"alphabeta:{limits}")
    first = moves(agent, 1)
    assert moves(agent, 2) == first  # nothing of the last game is left
    assert moves(make_agent(f"alphabeta:{limits}"), 1) == first


def test_limits_hold_together() -> None:
    assert made("alphabeta").analyse(MIDDLE).depth == 6
    assert made("alphabeta:depth=3").analyse(MIDDLE).depth == 3
    assert made("alphabeta:nodes=2000").analyse(MIDDLE).nodes == 2000
    both = made("alphabeta:depth=3,nodes=100000").analyse(MIDDLE)
    assert both.depth == 3
    assert both.nodes < 100000
    timed = made("alphabeta:time=0.1").analyse(MIDDLE)
    assert timed.depth > 3
    assert 0.05 < timed.seconds < 5


def test_a_clock_holds_beside_the_limits_and_in_place_of_the_default() -> None:
    agent = made("alphabeta")
    assert agent.analyse(MIDDLE, Clock(move_time=0.2)).depth > 6
    assert agent.analyse(MIDDLE, Clock(move_time=0.0)).depth >= 1
    assert made("alphabeta:depth=3").analyse(MIDDLE, Clock(move_time=5.0)).depth == 3
    assert made("alphabeta:time=9").analyse(MIDDLE, Clock(move_time=0.1)).seconds < 5
    assert agent.analyse(MIDDLE, Clock()).depth == 6


def test_a_clock_is_shared_out_over_the_game() -> None:
    assert Clock().seconds_for_a_move() is None
    assert Clock(move_time=2.0, remaining=1.0).seconds_for_a_move() == 2.0
    assert Clock(remaining=60.0).seconds_for_a_move() == pytest.approx(2.0)
    assert Clock(remaining=60.0, increment=1.0).seconds_for_a_move() == pytest.approx(2.8)
    assert Clock(remaining=0.1, increment=5.0).seconds_for_a_move() == pytest.approx(0.05)  # never more than there is


def test_the_only_move_is_played_at_once() -> None:
    agent = AlphaBetaAgent(time=60.0)
    assert agent.select(board("0 0 0 0 5 0 0 0 0", "1 5 0 9 0 0 7 0 4"), (), None) == 5


def test_alphabeta_wins_when_it_can() -> None:
    for description in ("alphabeta:1", "alphabeta:depth=3,eval=kazan,quiescence=off", "alphabeta:nodes=1"):
        assert make_agent(description).select(WON, (), None) == 9


def test_alphabeta_and_rollouts_load_no_torch() -> None:
    code = (
        "import sys; from togyz_agents.agent import make_agent; make_agent('alphabeta'); make_agent('rollout');"
        " sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# 3


def test_a_network_at_the_leaves_is_searched_exactly(network: Path) -> None:
    from togyz_agents.network import load_network

    evaluator = NetworkEvaluator(load_network(network), "cpu", "float32")

    def value(position: Position, depth: int) -> float:
        """Plain search; a won or lost game is worth more than anything else."""
        outcome = position.outcome()
        if outcome is not None:
            return 0.0 if outcome.winner is None else 2.0 if outcome.winner == position.to_move else -2.0
        if depth == 0:
            return float(evaluator(position.state[None])[1][0])
        return max(-value(position.play(hole), depth - 1) for hole in position.legal_moves())

    agent = made(f"alphabeta:depth=2,network={network}")
    for position in list(random_positions(60, 9))[::6]:
        result = agent.analyse(position)
        expected = value(position, 2)
        if abs(expected) == 2.0:
            assert result.score in (WIN - 1, 2 - WIN)
        else:
            assert abs(result.score) < PROVEN
            assert result.value == pytest.approx(expected, abs=2e-3)
            # another of nearly the same value may be first: scores are whole hundredths of a stone
            assert -value(position.play(result.action + 1), 1) == pytest.approx(expected, abs=4e-3)


# 4


def test_rollouts_are_the_results_of_random_games() -> None:
    evaluator = RolloutEvaluator(rollouts=2000)
    lost = board("0 0 0 0 0 0 0 1 0", "1 0 0 0 0 0 0 0 1", 80)
    states = np.stack([WON.state, lost.state, Position.start().state, Position.start().mirrored().state])
    logits, outcomes, margins = evaluator.outputs(states)
    assert np.array_equal(np.isfinite(logits[0]), [hole in WON.legal_moves() for hole in range(1, 10)])
    assert logits[2].tolist() == [0.0] * 9
    assert outcomes.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert outcomes[0].tolist() == [1.0, 0.0, 0.0]  # the only hole to play wins
    assert margins[0] * 81 == pytest.approx(WON.play(9).kazans[0] - WON.play(9).kazans[1], abs=1e-4)
    assert abs(outcomes[2, 0] - outcomes[3, 0]) < 5 * np.sqrt(0.5 / 2000)  # the mirrored start: five standard deviations
    evaluator.reseed(1)
    first = evaluator.outputs(states)
    evaluator.reseed(1)
    for again, before in zip(evaluator.outputs(states), first):
        assert np.array_equal(again, before)


def test_the_rollout_player_finds_a_win_and_repeats_with_its_seed() -> None:
    agent = make_agent("rollout:sims=60")
    assert agent.select(board("0 0 0 0 0 1 0 0 2", "1 5 0 0 0 0 0 0 4", 80), (), None) == 9
    first = moves(agent, 1, plies=16)
    assert moves(agent, 1, plies=16) == first
    assert moves(agent, 2, plies=16) != first
    assert isinstance(agent, BatchAgent)
    states = np.stack([MIDDLE.state, Position.start().state])
    chosen = agent.select_batch(states, np.array([14, 0], np.int32))
    assert all(hole in position.legal_moves() for hole, position in zip(chosen, (MIDDLE, Position.start())))
    assert made("rollout").analyse(MIDDLE, Clock(move_time=0.05)).simulations > 10


# 5


def test_the_policy_player_plays_the_likeliest_move_or_draws(network: Path) -> None:
    from togyz_agents.network import load_network

    evaluator = NetworkEvaluator(load_network(network), "cpu", "float32")
    positions = list(random_positions(40, 2))
    agent = make_agent(f"policy:{network}")
    states = np.stack([position.state for position in positions])
    logits = evaluator(states)[0]
    assert isinstance(agent, BatchAgent)
    assert agent.select_batch(states, np.zeros(40, np.int32)).tolist() == (logits.argmax(axis=1) + 1).tolist()
    assert agent.select(positions[7], (), None) == logits[7].argmax() + 1

    drawing = make_agent(f"policy:{network},temperature=1")
    assert isinstance(drawing, BatchAgent)
    drawing.new_game(4)
    drawn = drawing.select_batch(np.tile(MIDDLE.state, (9000, 1)), np.zeros(9000, np.int32))
    expected = np.exp(evaluator(MIDDLE.state[None])[0][0].astype(float))
    expected /= expected.sum()
    share = np.bincount(drawn, minlength=10)[1:] / 9000
    assert np.all(np.abs(share - expected) <= 5 * np.sqrt(expected * (1 - expected) / 9000))


# 6


def test_all_of_them_play_matches(network: Path) -> None:
    for first, second in (
        ("alphabeta:depth=2", "rollout:sims=8"),
        ("alphabeta:depth=2,eval=kazan", "alphabeta:depth=1"),
        (f"policy:{network}", "alphabeta:nodes=100"),
    ):
        result = play_match(first, second, pairs=2, seed=1)
        assert len(result.games) == 4
        assert all(game.outcome is not None for game in result.games)
    strong = play_match("alphabeta:depth=4", "random", pairs=5, seed=1)
    assert strong.score == 1.0


# 7


def test_a_thought_tells_visits_and_priors_of_every_move(network: Path) -> None:
    agent = made(f"alphazero:run={network},sims=50")
    lines = agent.think(Position.start(), [], Limits(), lines=9).lines
    assert sorted(line.moves[0] for line in lines) == list(range(1, 10))
    assert sum(line.prior for line in lines) == pytest.approx(1, abs=1e-5)
    assert 49 <= sum(line.visits for line in lines) <= 50  # the first visit is the root's own
