"""Other programs as players: what they do wrong costs them the game, in bounded time, and never us.

1. A command line is found in a description, a list or a YAML file; what cannot be is refused in one line.
2. A sound engine plays its moves, is told options, seed and limits, and ends with ``close``.
3. Each fault ends as an EngineError that names the engine and what it did, and leaves no process behind.
4. After a fault the next game starts the engine again, a few times in a row at most.
5. However our own process ends, the engine ends too.
6. Our own engine plays the moves that the player plays in process.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from boards import board

from togyz_agents.agent import Agent, Clock, make_agent, make_description, parse_description
from togyz_agents.engine.protocol import write_go
from togyz_agents.network import Network, NetworkConfig, save_network
from togyz_agents.players.uci import FAILED_GAMES, UciAgent
from togyz_agents.thinking import Limits
from togyz_agents.tournament.match import play_match
from togyz_env import ConfigError, Position, TogyzError
from togyz_env.errors import EngineError

ROOT = Path(__file__).resolve().parent.parent
FAKE = Path(__file__).parent / "fake_engine.py"
START = Position.start()
WITHOUT_FIRST = board("0 9 9 9 9 9 9 9 9", "9 9 9 9 9 9 9 9 9")


def fake(fault: str, *files: Path) -> list[str]:
    # -S and -E: it starts in some milliseconds
    return [sys.executable, "-S", "-E", str(FAKE), fault, *map(str, files)]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().splitlines() if line.isdigit()]


def all_ended(file: Path, seconds: float = 20.0) -> bool:
    """Whether every process in ``file`` ends; a killed one takes a moment."""
    deadline = time.monotonic() + seconds
    while any(map(is_alive, started(file))):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# 1


def test_quotes_keep_commas_and_equals_signs_in_a_value() -> None:
    for command in ("engine --threads=1,2", "engine 'a b',\"", 'engine "a, b" --x', "engine", "", " lead", "'quoted'"):
        try:
            text = make_description("uci", {"command": command, "nodes": "5"})
        except ConfigError:
            assert "'" in command and '"' in command  # noqa: PT018 - one reason: no quote is left to put around it
        else:
            assert parse_description(text) == ("uci", {"command": command, "nodes": "5"})
    assert parse_description("uci:engine --a=b --c") == ("uci", {"command": "engine --a=b --c"})
    assert parse_description("alphabeta: depth = 3 , eval=kazan,") == ("alphabeta", {"depth": "3", "eval": "kazan"})
    assert parse_description("alphazero:run=o'brien/x,sims=2") == ("alphazero", {"run": "o'brien/x", "sims": "2"})


@pytest.mark.parametrize(
    ("description", "parts"),
    [
        ("uci", ["command None"]),
        ("uci:command=", ["the command is empty"]),
        ("uci:command=no-such-engine --x", ["no program 'no-such-engine'"]),
        ("uci:command='cat \"'", ["command 'cat \"'", "quotation"]),
        ("uci:command='cat", ["'cat", "quotes"]),
        ("uci:command='cat'x", ["'cat'x", "quotes"]),
        ("uci:cat,dog", ["'dog' is not key=value"]),
        ("uci:cat,nodes=0", ["nodes must be a whole number from 1, not 0"]),
        ("uci:cat,depth=x", ["depth must be int or none"]),
        ("uci:cat,movetime=-1", ["movetime must be more than 0 seconds"]),
        ("uci:cat,timeout=inf", ["timeout must be more than 0 seconds"]),
        ("uci:cat,options=Hash", ["option 'Hash' has no value"]),
        ("uci:cat,directory=/no/such", ["directory '/no/such' does not exist"]),
        ("uci:file=/no/such.yaml", ["uci: cannot read '/no/such.yaml'"]),
        ("uci:cat,file=x.yaml", ["command beside file='x.yaml'"]),
    ],
)
def test_wrong_descriptions_are_one_line(description: str, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        make_agent(description)
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("- a", ["expected keys and values"]),
        ("command: [cat]\nspeed: 3", ["unknown key 'speed'", "movetime"]),
        ("command: [1]", ["command [1]"]),
        ("command: cat\nnodes: many", ["nodes", "'many'"]),
        ("command: cat\ntimeout: yes", ["timeout", "True"]),
        ("command: cat\noptions: 3", ["options 3"]),
        ('command: cat\noptions: {Hash: "1\\n2"}', ["does not fit into a line"]),
        ("a: [", ["cannot read"]),
        ("{nodes: 1, nodes: 2}", ["key 'nodes' stands there twice"]),
    ],
)
def test_wrong_files_are_one_line(text: str, parts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "engine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        make_agent(f"uci:file={path}")
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


# 2


def test_a_sound_engine_of_a_file_plays_gets_its_options_and_ends(tmp_path: Path) -> None:
    heard, path = tmp_path / "heard", tmp_path / "engine.yaml"
    path.write_text(
        f"command: {fake('none', heard)}\nnodes: 10\noptions: {{hash: 8, Move Order: 3, 1}}\n".replace("3, 1", "'3, 1'")
    )
    agent = make_agent(f"uci:file={path}")
    assert isinstance(agent, Agent)
    assert not heard.exists()  # it starts with the first game
    agent.new_game(205)
    position, history = START, []
    for _ in range(3):  # it answers 1, 2, 3 to 0, 2, 4 moves: it was told them
        hole = agent.select(position, history, None)
        assert hole == len(history) // 2 + 1
        for played in (hole, 9 - len(history) // 2):
            history.append(position)
            position = position.play(played)
    agent.close()
    assert all_ended(heard)
    lines = heard.read_text().splitlines()
    assert len(started(heard)) == 1
    assert lines[1:] == [
        "setoption name hash value 8",
        "setoption name Move Order value 3, 1",
        "setoption name Seed value 5",  # 205 within the 100 seeds that it knows
    ]


def test_a_history_that_is_no_game_still_gives_a_move() -> None:
    agent = UciAgent(fake("none"))
    assert agent.select(START.play(5), [START.play(3)], None) == 1  # told the position alone
    assert agent.select(START.play(5), (), None) == 1
    agent.close()


def test_a_second_answer_is_not_taken_for_that_to_the_next_question() -> None:
    agent = UciAgent(fake("answers twice"))
    assert agent.select(START, (), None) == 1
    line = [START, START.play(1), START.play(1).play(9)]
    assert agent.select(line[-1], line[:-1], None) == 2
    agent.close()


def test_the_clock_becomes_the_protocols() -> None:
    assert write_go(Limits(), None) == "go"
    assert write_go(Limits(nodes=5, seconds=2.0), Clock(move_time=0.25)) == "go nodes 5 movetime 250"
    assert write_go(Limits(), Clock(remaining=9.5, increment=0.1)) == "go wtime 9500 btime 9500 winc 100 binc 100"
    assert write_go(Limits(seconds=1.0), Clock(remaining=9.5)) == "go movetime 1000"


# 3


def begin_and_play(agent: Agent, line: Sequence[Position]) -> None:
    agent.new_game(1)
    agent.select(line[-1], line[:-1], None)


@pytest.mark.parametrize(
    ("fault", "settings", "parts"),
    [
        ("crash at start", {}, ["ended with status 3, starting", "cannot load my book"]),
        ("silent at start", {"start": 1.0}, ["gave no 'uciok' within 1 s", "option name Seed"]),
        ("deaf", {"start": 1.0}, ["gave no 'uciok' within 1 s"]),
        ("crash in mid-game", {}, ["ended with signal 9, asked for a move by 'go'", "segmentation violation"]),
        ("never answers", {"timeout": 1.0}, ["gave no 'bestmove' within 1 s", "info depth 1", "nodes, depth or movetime"]),
        ("never answers", {"movetime": 0.5, "overtime": 0.5}, ["within 1 s, asked for a move by 'go movetime 500'"]),
        ("illegal move", {}, ["played the illegal move '1'", WITHOUT_FIRST.fen(), "legal moves: [2, 3, 4, 5, 6, 7, 8, 9]"]),
        ("garbage", {"timeout": 1.0}, ["answered 'bestmove', which is no move", WITHOUT_FIRST.fen()]),
        ("floods", {"timeout": 600.0}, ["bytes and no 'bestmove'", "info string flood"]),
        ("endless line", {"timeout": 600.0}, ["a line of more than 65536 bytes", "xxx"]),
        ("family", {"options": "Ponder=true"}, ["has no option 'Ponder'; it has: hash, move order, seed"]),
    ],
)
def test_a_fault_is_an_error_in_bounded_time_and_leaves_no_process(
    fault: str, settings: dict[str, Any], parts: list[str], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    agent = UciAgent(fake(fault, pids), **settings)
    line = [START, START.play(1), START.play(1).play(9)] if fault == "crash in mid-game" else [WITHOUT_FIRST]
    with pytest.raises(EngineError) as caught:
        begin_and_play(agent, line)
    message = str(caught.value)
    assert isinstance(caught.value, TogyzError)
    assert "\n" not in message
    for part in ("fake_engine.py", *parts):
        assert part in message
    assert started(pids)
    assert all_ended(pids)
    agent.close()


@pytest.mark.parametrize("fault", ["ignores quit", "floods after quit", "family"])
def test_close_ends_whatever_ignores_it(fault: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    agent = UciAgent(fake(fault, pids))
    assert agent.select(START, (), None) == 1
    assert all(map(is_alive, started(pids)))
    agent.close()
    agent.close()
    assert all_ended(pids)
    assert len(started(pids)) == (2 if fault == "family" else 1)


def test_a_program_that_is_no_engine_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("no interpreter here\n")
    script.chmod(0o755)
    with pytest.raises(EngineError, match=r"engine .*script'?: (cannot be started|ended with)"):
        UciAgent(str(script), start=5.0).new_game(1)
    with pytest.raises(EngineError, match="ended with status 0, starting; its last line: 'hello'"):
        UciAgent(["echo", "hello"]).new_game(1)


# 4


def test_the_next_game_starts_a_failed_engine_again_a_few_times_in_a_row(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    agent = UciAgent(fake("illegal move", pids))
    for game in range(1, FAILED_GAMES + 1):
        agent.new_game(game)
        assert agent.select(START, (), None) == 1  # legal here: the program runs anew
        with pytest.raises(EngineError, match="illegal move"):
            agent.select(WITHOUT_FIRST, (), None)
        with pytest.raises(EngineError, match="is not running after its failure"):
            agent.select(START, (), None)
        assert len(started(pids)) == game
    with pytest.raises(EngineError, match=f"failed {FAILED_GAMES} games in a row; it is not started again"):
        agent.new_game(9)
    assert len(started(pids)) == FAILED_GAMES
    assert all_ended(pids)


def test_a_match_names_the_engine_that_failed() -> None:
    command = shlex.join(fake("garbage"))
    description = make_description("uci", {"command": command, "timeout": "1"})
    with pytest.raises(EngineError, match="which is no move"):
        play_match(description, "greedy", pairs=1, seed=1)


# 5


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_engine_does_not_outlive_us(number: signal.Signals, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"""
from togyz_agents.players.uci import UciAgent
agent = UciAgent({fake("deaf", pids)!r}, start=600)
agent.new_game(1)
"""
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not (pids.exists() and started(pids)):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        assert is_alive(started(pids)[0])
        process.send_signal(number)
        process.wait()
    assert all_ended(pids)


# 6


def played(agent: Agent, seed: int, plies: int, clock: Clock | None = None) -> list[int]:
    """The holes of a game of ``agent`` against itself."""
    agent.new_game(seed)
    line: list[Position] = [START]
    holes: list[int] = []
    while line[-1].outcome() is None and len(holes) < plies:
        holes.append(agent.select(line[-1], tuple(line[:-1]), clock))
        line.append(line[-1].play(holes[-1]))
    return holes


def our_engine(agent: str) -> Sequence[str]:
    return [sys.executable, str(ROOT / "scripts" / "engine.py"), "--agent", agent]


@pytest.mark.parametrize(
    ("engine", "settings", "description", "plies"),
    [
        ("alphabeta:depth=3", {}, "alphabeta:depth=3", 300),
        ("alphazero:{run}", {"options": {"sims": 24}}, "alphazero:{run},sims=24", 40),
    ],
)
def test_our_engine_plays_the_moves_of_the_player_in_process(
    engine: str, settings: dict[str, Any], description: str, plies: int, tmp_path: Path
) -> None:
    torch.manual_seed(3)
    save_network(Network(NetworkConfig(width=16, blocks=1)), tmp_path / "network.safetensors")
    ours = make_agent(description.format(run=tmp_path))
    agent = UciAgent(our_engine(engine.format(run=tmp_path)), start=300.0, timeout=300.0, **settings)
    try:
        for seed in (1, 2):
            holes = played(agent, seed, plies)
            assert holes == played(ours, seed, plies)
        assert len(holes) >= 40
    finally:
        agent.close()
