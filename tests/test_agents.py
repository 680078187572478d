"""Agents: descriptions become players, and the two simplest players do what they say.

1. A description gives each parameter as the type that its factory names; a mistake is one line that lists what would be right.
2. Making a simple player does not load torch.
3. The random player plays each legal hole equally often, the greedy one a most profitable hole; both repeat with their seed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from reference_rules import Board

from togyz_agents import agent
from togyz_agents.agent import Agent, BatchAgent, agent_name, agent_names, make_agent, register
from togyz_agents.players.greedy import GreedyAgent, kazan_gains
from togyz_agents.players.random_player import RandomAgent
from togyz_env.errors import ConfigError
from togyz_env.position import Position

# RULES, printed example 2: black to move. Worked out by hand, hole by hole: 1..6 and their last stones bring nothing, 7 makes
# a tuzdyk of white's 7 (three stones), 8 makes twelve in white's 8, 9 is empty.
EXAMPLE = Position.from_state([10, 10, 10, 10, 10, 10, 2, 11, 1, 11, 11, 11, 11, 11, 1, 10, 10, 0, 12, 0, 0, 0, 1])
EXAMPLE_GAINS = [0, 0, 0, 0, 0, 0, 3, 12, -1]

# RULES, printed example 4 after white's 8: black's 9 falls into white 1, his own tuzdyk; his 8 goes to his 9.
OWN_TUZDYK = Position.from_state([0, 0, 0, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 1, 77, 78, 6, 1, 1])


class Recorder(RandomAgent):
    """Keeps what it was made with."""

    def __init__(
        self,
        run: Path,
        sims: int = 400,
        *,
        temperature: float = 0.0,
        noise: bool = False,
        mode: Literal["fast", "exact"] = "exact",
        label: str = "",
        limit: int | None = 7,
        hook: Any = None,
    ) -> None:
        super().__init__()
        self.made_with = (run, sims, temperature, noise, mode, label, limit, hook)


@pytest.fixture(autouse=True)
def _recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_registered", {})  # other tests list all names
    register("recorder", Recorder, "a test's player")


def made(description: str) -> Any:
    agent: Any = make_agent(description)
    return agent.made_with


def test_names_have_help_and_make_agents() -> None:
    assert {"random", "greedy", "alphazero"} <= set(agent_names())
    assert all(help for help in agent_names().values())
    for name in ("random", "greedy"):
        agent = make_agent(name)
        assert isinstance(agent, Agent)
        assert isinstance(agent, BatchAgent)
        assert agent_name(agent) == name


def test_parameters_get_the_types_of_the_factory() -> None:
    assert made("recorder:run=runs/x") == (Path("runs/x"), 400, 0.0, False, "exact", "", 7, None)
    description = "recorder: run=a=b/c:d, sims=50,temperature=1e-1,noise=Yes,mode=fast,label=x y,limit=none"
    assert made(description) == (Path("a=b/c:d"), 50, 0.1, True, "fast", "x y", None, None)
    assert made("recorder:run=x,noise=off,limit=12") == (Path("x"), 400, 0.0, False, "exact", "", 12, None)


def test_a_bare_word_is_the_first_parameter() -> None:
    assert made("recorder:runs/x,sims=50")[:2] == (Path("runs/x"), 50)


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("randm", ["'randm'", "random", "greedy", "alphazero"]),
        ("", ["''", "random"]),
        ("random:seed=3", ["'seed'", "random has no parameters"]),
        ("random:3", ["'3'", "random has no parameters"]),
        ("recorder", ["'run' is missing", "run (path, required)"]),
        ("recorder:run=x,sim=3", ["'sim'", "sims (int, default 400)", "mode (fast or exact, default exact)"]),
        ("recorder:run=x,sims=3.5", ["sims must be int", "'3.5'"]),
        ("recorder:run=x,sims=", ["sims must be int", "''"]),
        ("recorder:run=x,temperature=hot", ["temperature must be float", "'hot'"]),
        ("recorder:run=x,noise=perhaps", ["noise must be true or false", "'perhaps'"]),
        ("recorder:run=x,mode=slow", ["mode must be fast or exact", "'slow'"]),
        ("recorder:run=x,limit=many", ["limit must be int or none", "'many'"]),
        ("recorder:run=x,hook=f", ["unknown parameter 'hook'"]),
        ("recorder:run=x,run=y", ["'run' is given twice"]),
        ("recorder:sims=3,x", ["'x' is not key=value"]),
    ],
)
def test_a_wrong_description_is_one_line_that_says_what_would_be_right(description: str, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        make_agent(description)
    message = str(caught.value)
    assert "\n" not in message
    for part in expected:
        assert part in message


def test_registered_names_cannot_hide_built_in_ones_or_break_descriptions() -> None:
    for name in ("random", "", "a:b", "a,b", "a=b", "a b"):
        with pytest.raises(ConfigError):
            register(name, RandomAgent)


def test_simple_players_do_not_load_torch() -> None:
    code = (
        "import sys; from togyz_agents.agent import make_agent; import togyz_agents.tournament.match; make_agent('random');"
        " make_agent('greedy'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_random_plays_each_legal_hole_equally_often() -> None:
    agent = RandomAgent()
    agent.new_game(1)
    holes = agent.select_batch(np.tile(OWN_TUZDYK.state, (4000, 1)), np.ones(4000, np.int32))
    counts = np.bincount(holes, minlength=10)
    assert counts[8] + counts[9] == 4000
    assert abs(counts[8] - 2000) < 5 * np.sqrt(1000)  # five standard deviations
    counts = np.bincount(agent.select_batch(np.tile(EXAMPLE.state, (8000, 1)), np.ones(8000, np.int32)), minlength=10)
    assert counts[9] == 0
    assert np.all(np.abs(counts[1:9] - 1000) < 5 * np.sqrt(875))


def test_greedy_gains_are_those_counted_by_hand() -> None:
    gains = kazan_gains(np.stack([EXAMPLE.state, OWN_TUZDYK.state, Position.start().state]))
    assert gains[0].tolist() == EXAMPLE_GAINS
    assert gains[1].tolist() == [-1, -1, -1, -1, -1, -1, -1, 0, 1]
    # From the start hole 1 ends in white's own 9; every other one makes ten in black's row.
    assert gains[2].tolist() == [0] + [10] * 8


def test_greedy_gains_agree_with_the_slow_rules() -> None:
    rng = np.random.default_rng(3)
    position = Position.start()
    for _ in range(500):
        if position.outcome() is not None:
            position = Position.start()
        expected = [-1] * 9
        for hole in position.legal_moves():
            board = Board.of(list(position.row))
            board.play(hole)
            expected[hole - 1] = board.kazans[position.to_move] - position.kazans[position.to_move]
        assert kazan_gains(position.state[None])[0].tolist() == expected, position
        position = position.play(int(rng.choice(position.legal_moves())))


def test_greedy_plays_the_largest_gain_and_breaks_ties_at_random() -> None:
    agent = GreedyAgent()
    assert agent.select(EXAMPLE, (), None) == 8
    assert agent.select(OWN_TUZDYK, (), None) == 9
    chosen = set()
    for seed in range(60):
        agent.new_game(seed)
        chosen.add(agent.select(Position.start(), (), None))
    assert chosen == {2, 3, 4, 5, 6, 7, 8, 9}


@pytest.mark.parametrize("name", ["random", "greedy"])
def test_the_same_seed_gives_the_same_moves(name: str) -> None:
    def moves(seed: int) -> list[int]:
        agent = make_agent(name)
        agent.new_game(seed)
        position = Position.start()
        holes = []
        while position.outcome() is None:
            holes.append(agent.select(position, (), None))
            position = position.play(holes[-1])
        return holes

    assert moves(5) == moves(5)
    assert moves(5) != moves(6)
