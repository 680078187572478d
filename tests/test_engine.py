"""Our players as an engine that speaks the UCI protocol.

1. The engine introduces itself, with an option for each parameter of its player, and is ready when it says so.
2. Positions come as start or string, with moves in any notation; each ``go`` gets one ``bestmove``, a finished game "(none)".
3. Info lines hold depth, nodes, nps, score, wdl and line; MultiPV tells of several moves; a proven win scores as such.
4. Limits are kept; ``stop`` ends an endless search at once; pondering waits; a search does not keep other commands waiting.
5. Options change the player, the notation and the seed; a wrong one changes nothing.
6. What cannot be understood is answered by one ``info string`` line, and the engine goes on.
7. On standard input and output there are lines of the protocol only, without torch, until ``quit`` or the end of the input.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from boards import board

from togyz_agents import agent
from togyz_agents.agent import agent_parameters, register
from togyz_agents.engine.protocol import per_mille, read_go
from togyz_agents.engine.server import Engine
from togyz_agents.evaluator import NetworkEvaluator
from togyz_agents.network import Network, NetworkConfig, load_network, save_network
from togyz_agents.players.random_player import RandomAgent
from togyz_agents.thinking import Limits
from togyz_env import ConfigError, Position
from togyz_env.errors import NotationError

ROOT = Path(__file__).resolve().parent.parent
# White's only move, from hole 9 into black's 1 (i2), captures two and has 82; then the same for black.
WHITE_WINS = "4S,6,5S,1S/8,2S 80 70 S 1"
BLACK_WINS = "2S,8/1S,5S,6,4S 70 80 N 1"
NO_STONES = "8,1S/9 80 81 S 1"  # white is in atsyrau: 80 to 82
PATIENCE = 300.0
"""Kernels may have to be compiled first."""


class Session:
    """An engine in process, and all that it says."""

    def __init__(self, description: str) -> None:
        self.lines: list[str] = []
        self.spoken = threading.Condition()
        self.engine = Engine(description, self.hear)

    def hear(self, line: str) -> None:
        with self.spoken:
            self.lines.append(line)
            self.spoken.notify_all()

    def ask(self, *commands: str, until: str = "") -> list[str]:
        """Send commands; return what was said from then to the first line that begins with ``until``."""
        begin = len(self.lines)
        for command in commands:
            assert self.engine.command(command)
        if until:
            with self.spoken:
                assert self.spoken.wait_for(lambda: any(line.startswith(until) for line in self.lines[begin:]), PATIENCE)
        return self.lines[begin:]

    def move(self, *commands: str) -> str:
        """Send commands that end with a search; return the move."""
        return self.ask(*commands, until="bestmove")[-1].removeprefix("bestmove ")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("run")
    save_network(Network(NetworkConfig(width=16, blocks=1)), path / "network.safetensors")
    return path


@pytest.fixture
def session() -> Iterator[Session]:
    session = Session("alphabeta:depth=3")
    yield session
    session.engine.close()


@pytest.fixture
def zero(run: Path) -> Iterator[Session]:
    session = Session(f"alphazero:run={run},sims=50")
    yield session
    session.engine.close()


def said(lines: list[str]) -> list[tuple[int, int, int, str]]:
    """Depth, number of the line, score and moves of the info lines."""
    pattern = r"info depth (\d+) multipv (\d+) score cp (-?\d+) wdl \d+ \d+ \d+ nodes \d+ nps \d+ time \d+ pv (.+)"
    found = [re.fullmatch(pattern, line) for line in lines if line.startswith("info depth")]
    assert all(found)
    return [(int(match[1]), int(match[2]), int(match[3]), match[4]) for match in found if match]


# 1


def test_the_engine_introduces_itself_with_an_option_for_every_parameter(session: Session, zero: Session) -> None:
    for one, name in ((session, "alphabeta"), (zero, "alphazero")):
        lines = one.ask("uci")
        assert lines[0].startswith("id name Togyz")
        assert name in lines[0]
        assert lines[1].startswith("id author ")
        assert lines[-1] == "uciok"
        options = lines[2:-1]
        assert all(re.fullmatch(r"option name \S+ type (spin|string|combo|check) default \S+.*", line) for line in options)
        names = {line.split()[2] for line in options}
        expected = {"MultiPV", "MoveFormat", "Seed", *agent_parameters(name)}
        assert names == {"Hash" if key == "table" else key for key in expected}
        assert one.ask("isready") == ["readyok"]
    assert "option name MultiPV type spin default 1 min 1 max 9" in session.lines
    assert "option name eval type combo default full var full var kazan" in session.lines
    assert "option name depth type string default 3" in session.lines
    assert "option name sims type spin default 50 min 0 max 1000000000" in zero.lines


def test_a_wrong_description_is_refused_at_once() -> None:
    for description in ("alphabeta:depth=0", "nobody", "alphazero:run=nowhere"):
        with pytest.raises(ValueError, match=r"depth|nobody|nowhere"):
            Session(description)


# 2


def test_positions_follow_each_other(session: Session) -> None:
    assert session.move(f"position fen {WHITE_WINS}", "go depth 2") == "9"
    assert session.move("position startpos", "go depth 1") in "123456789"
    assert session.move(f"position fen {BLACK_WINS} moves", "go depth 2") == "9"
    assert sum(line.startswith("bestmove") for line in session.lines) == 3


def test_moves_come_in_any_notation(session: Session) -> None:
    # RULES, printed example 1: white's 7 ends in black's 6, that is d2; nine stones of black's 9 (a2) end in white's 8
    seen = []
    for words in ("7 9", "g I", "76 9", "g1d2 9", "7 a2h1"):
        session.ask("ucinewgame")
        seen.append(said(session.ask(f"position startpos moves {words}", "go depth 3", until="bestmove")))
    assert seen[0]
    assert seen == [seen[0]] * 5
    after = Position.start().play(7).play(9).fen()
    session.ask("ucinewgame")
    assert said(session.ask(f"position fen {after}", "go depth 3", until="bestmove")) == seen[0]
    before = Position.start().play(7).fen()
    session.ask("ucinewgame")
    assert said(session.ask(f"position fen {before} moves 9", "go depth 3", until="bestmove")) == seen[0]


def test_a_finished_game_has_no_move(session: Session) -> None:
    lines = session.ask(f"position fen {NO_STONES}", "go depth 3", until="bestmove")
    assert lines == ["info string the game is over: atsyrau, 80 to 82", "bestmove (none)"]
    assert session.move(f"position fen {WHITE_WINS} moves 9", "go") == "(none)"


def test_every_player_is_an_engine(run: Path) -> None:
    for description in ("random", "greedy", f"policy:{run}", "rollout:sims=20"):
        session = Session(description)
        assert session.move("isready", "ucinewgame", f"position fen {WHITE_WINS}", "go") == "9"
        assert session.move(f"position fen {BLACK_WINS}", "go movetime 20") == "9"
        session.engine.close()


def test_a_player_that_knows_no_rules_plays_on_where_the_game_goes_on() -> None:
    # Under "playout" a game goes on past 82 stones and past any number of plies; such a player cannot be told so.
    session = Session("greedy")
    assert session.move("position fen 1S,8/1S,1S,7 90 69 S 3000", "go") in ("1", "2")
    assert session.move(f"position fen {NO_STONES}", "go") == "(none)"
    session.engine.close()


def test_a_player_that_fails_says_so_and_names_no_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_registered", {})

    class Broken(RandomAgent):
        def select(self, position: Position, history: object, clock: object) -> int:
            if position.ply == 0:
                raise ConfigError("two\nlines")
            raise KeyError("lost")

    register("broken", Broken, "a test's player")
    session = Session("broken")
    assert session.ask("go", until="bestmove") == ["info string two lines", "bestmove (none)"]
    lines = session.ask("position startpos moves 1", "go", until="bestmove")
    assert lines == ["info string internal error: KeyError('lost')", "bestmove (none)"]


# 3


def test_a_proven_win_scores_30000_less_its_plies(session: Session, zero: Session) -> None:
    for one in (session, zero):
        lines = one.ask(f"position fen {WHITE_WINS}", "go nodes 100", until="bestmove")
        assert " score cp 29999 wdl 1000 0 0 " in lines[-2]
        assert lines[-2].endswith(" pv 9")
    # black's last stone goes to white's 1; white plays it on to 2, black is in atsyrau and white has 83
    lost = board("0 0 0 0 0 0 0 0 2", "0 0 0 0 0 0 0 0 1", 80, to_move=1)
    for one in (session, zero):
        lines = one.ask(f"position fen {lost.fen()}", "go nodes 100", until="bestmove")
        assert " score cp -29998 wdl 0 0 1000 " in lines[-2]
        assert lines[-2].endswith(" pv 9 1")


@pytest.mark.parametrize("kind", ["session", "zero"])
def test_multipv_tells_of_the_best_moves_in_order(kind: str, request: pytest.FixtureRequest) -> None:
    session: Session = request.getfixturevalue(kind)
    session.ask("setoption name MultiPV value 9")
    told = said(session.ask("position startpos", "go nodes 2000", until="bestmove"))[-9:]
    assert [number for _, number, _, _ in told] == list(range(1, 10))
    assert sorted(moves.split()[0] for *_, moves in told) == list("123456789")
    assert session.lines[-1] == f"bestmove {told[0][3].split()[0]}"
    if kind == "session":
        scores = [score for _, _, score, _ in told]
        assert scores == sorted(scores, reverse=True)
    session.ask("setoption name MultiPV value 2")
    told = said(session.ask("go nodes 3000", until="bestmove"))
    assert {number for _, number, _, _ in told} == {1, 2}


def test_outcomes_are_thousandths_that_add_up() -> None:
    rng = np.random.default_rng(1)
    for outcome in [*rng.dirichlet((1, 1, 1), 1000), (0.5005, 0, 0.4995), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0 + 1e-7, 0, -1e-7)]:
        written = per_mille(outcome)
        assert sum(written) == 1000
        assert min(written) >= 0
        assert np.allclose(written, 1000 * np.asarray(outcome), atol=1.01)


def test_the_score_of_a_tree_search_is_the_margin_that_the_network_expects(run: Path, zero: Session) -> None:
    line = zero.ask("ucinewgame", "position startpos", "go nodes 1", until="bestmove")[-2]
    match = re.fullmatch(r"info depth 1 multipv 1 score cp (-?\d+) wdl (\d+) (\d+) (\d+) nodes 1 nps \d+ time \d+ pv (\d)", line)
    assert match
    child = Position.start().play(int(match[5])).state
    _, outcomes, margins = NetworkEvaluator(load_network(run / "network.safetensors"), "cpu", "float32").outputs(child[None])
    # after one simulation nothing is known but the network's view of the position behind the move, which is the opponent's
    assert int(match[1]) == pytest.approx(-100 * 81 * margins[0], abs=1)
    assert [int(match[4]), int(match[3]), int(match[2])] == pytest.approx(1000 * outcomes[0], abs=1.1)


# 4


def test_limits_are_kept(session: Session, zero: Session) -> None:
    session.ask("position startpos")
    assert {depth for depth, *_ in said(session.ask("go depth 5", until="bestmove"))} == {1, 2, 3, 4, 5}
    assert {depth for depth, *_ in said(session.ask("go", until="bestmove"))} == {1, 2, 3}  # its own
    nodes = int(session.ask("go nodes 2000", until="bestmove")[-2].split(" nodes ")[1].split()[0])
    assert 1000 < nodes <= 2000
    for limits, expected in (("", 50), ("nodes 64", 64), ("nodes 70 infinite", None)):
        if expected:
            assert f" nodes {expected} " in zero.ask("ucinewgame", f"go {limits}", until="bestmove")[-2]
    assert zero.move("go wtime 900 btime 900 winc 10 binc 10") in "123456789"
    assert zero.move("go movetime 30") in "123456789"
    assert zero.move("go movetime 0") in "123456789"
    assert zero.ask("go mate 3 searchmoves 1", until="bestmove")[0].startswith("info string go: 'mate 3 searchmoves 1' is ignored")


def test_the_clock_is_that_of_the_side_to_move() -> None:
    words = ["wtime", "30000", "btime", "60000", "winc", "0", "binc", "1000"]
    assert read_go(words, 0).limits == Limits(seconds=1.0)
    assert read_go(words, 1).limits == Limits(seconds=2.8)
    assert read_go(["movetime", "250", "nodes", "7"], 0).limits == Limits(nodes=7, seconds=0.25)
    assert read_go(["wtime", "-5", "btime", "1"], 0).limits == Limits(seconds=0.0)
    assert read_go(["depth", "3", "infinite"], 0).limits == Limits(infinite=True)
    for words in (["nodes"], ["nodes", "x"], ["nodes", "-1"], ["depth", "0"], ["movetime", "1.5"], ["nodes", "9" * 30]):
        with pytest.raises(NotationError, match=words[0]):
            read_go(words, 0)


@pytest.mark.parametrize("kind", ["session", "zero"])
def test_stop_ends_an_endless_search_and_others_are_answered_meanwhile(kind: str, request: pytest.FixtureRequest) -> None:
    session: Session = request.getfixturevalue(kind)
    session.ask("isready", "position startpos")
    session.ask("go infinite", until="info depth")
    assert session.ask("isready", until="readyok")[-1] == "readyok"
    session.ask("setoption name MultiPV value 3", until="info string option 'MultiPV' cannot be set during a search")
    session.ask("go depth 1", until="info string a search is going on")
    session.ask("position startpos moves 1")
    assert not any(line.startswith("bestmove") for line in session.lines)
    assert session.move("stop") in "123456789"
    session.ask("stop", "stop")
    for _ in range(5):  # however soon it comes
        assert session.move("go infinite", "stop") in "123456789"
    assert session.move("go infinite", "stop", "go nodes 1") in "123456789"
    session.ask("isready", until="readyok")
    with session.spoken:
        assert session.spoken.wait_for(lambda: sum(line.startswith("bestmove") for line in session.lines) == 8, PATIENCE)


def test_an_endless_search_that_is_proven_waits_for_stop(session: Session) -> None:
    session.ask(f"position fen {WHITE_WINS}", "go infinite", until="info depth")
    session.ask("isready", until="readyok")
    assert not any(line.startswith("bestmove") for line in session.lines)
    assert session.move("stop") == "9"


def test_pondering_waits_for_the_opponents_move(session: Session) -> None:
    session.ask("position startpos", "go ponder depth 2")
    session.ask("isready", until="readyok")
    assert not any(line.startswith(("info", "bestmove")) for line in session.lines)
    assert session.move("ponderhit") in "123456789"
    session.ask("ponderhit")
    assert session.move("go ponder wtime 1000 btime 1000", "stop") in "123456789"


def test_a_new_game_ends_the_search(session: Session) -> None:
    session.ask("go infinite", until="info depth")
    lines = session.ask("ucinewgame", "go depth 1", until="bestmove")
    with session.spoken:
        assert session.spoken.wait_for(lambda: sum(line.startswith("bestmove") for line in session.lines) == 2, PATIENCE)
    assert not any("is going on" in line for line in lines)


# 5


def test_options_change_the_player(session: Session, zero: Session) -> None:
    assert session.ask("setoption name depth value 2") == []
    assert {depth for depth, *_ in said(session.ask("go", until="bestmove"))} == {1, 2}
    session.ask("setoption name Depth value none", "setoption name NODES value 500", "setoption name Hash value 1")
    assert session.ask("go", until="bestmove")[-1].startswith("bestmove ")
    assert "option name depth type string default none" in session.ask("uci")
    assert "option name Hash type spin default 1 min 0 max 1000000000" in session.lines
    zero.ask("setoption name sims value 33")
    assert " nodes 33 " in zero.ask("go", until="bestmove")[-2]


def test_a_wrong_option_changes_nothing(session: Session) -> None:
    for line, part in (
        ("setoption name depth value 0", "depth must be from 1 to 64"),
        ("setoption name Depth value deep", "depth must be int or none, not 'deep'"),
        ("setoption name MultiPV value 10", "a whole number from 1 to 9"),
        ("setoption name MoveFormat value chess", "one of fromto, coordinates, letter, hole"),
        ("setoption name Contempt value 3", "unknown name 'Contempt'; known: MultiPV"),
        ("setoption depth 3", "expected 'name NAME value VALUE'"),
    ):
        (answer,) = session.ask(line)
        assert answer.startswith("info string ")
        assert part in answer
    assert {depth for depth, *_ in said(session.ask("go", until="bestmove"))} == {1, 2, 3}


@pytest.mark.parametrize(("style", "move"), [("coordinates", "i1i2"), ("fromto", "91"), ("letter", "i"), ("hole", "9")])
def test_moves_are_written_as_the_option_says(style: str, move: str, session: Session) -> None:
    lines = session.ask(f"setoption name MoveFormat value {style}", f"position fen {WHITE_WINS}", "go depth 2", until="bestmove")
    assert lines[-2].endswith(f" pv {move}")
    assert lines[-1] == f"bestmove {move}"


def test_the_seed_is_that_of_the_next_game() -> None:
    session, agent = Session("random"), RandomAgent()
    for seed in (5, 2**32 - 1):
        agent.new_game(seed)
        session.ask(f"setoption name Seed value {seed}", "ucinewgame", "position startpos")
        expected = [agent.select(Position.start(), (), None) for _ in range(12)]
        assert [int(session.move("go")) for _ in range(12)] == expected


# 6


def test_bad_lines_are_one_line_of_explanation_and_nothing_else(session: Session) -> None:
    session.ask(f"position fen {WHITE_WINS}")
    for line, part in (
        ("xyzzy 1 2", "unknown command 'xyzzy 1 2'"),
        ("\x00\x07\ufffd", "unknown command"),
        ("bestmove 3", "unknown command"),
        ("position", "expected 'startpos' or 'fen'"),
        ("position chess", "'chess'; expected 'startpos' or 'fen'"),
        ("position startpos move 7", "'move 7' after 'startpos'"),
        ("position startpos moves 7 7 0", "move: '0' in"),
        ("position startpos moves g1d3", "move: 'g1d3' in"),
        ("position fen 9S/9S 0 0 S 1", "9S/9S"),
        ("position fen", "position"),
        ("position fen " + "9" * 5000, "99999..."),
        ("go depth", "depth ''; expected a whole number"),
        ("go nodes -3", "nodes '-3'"),
        ("go nodes 0", "nodes must be at least 1"),
        ("setoption", "expected 'name NAME value VALUE'"),
        ("y" * 100_000, "unknown command 'yyy"),
    ):
        answers = session.ask(line)
        assert len(answers) == 1, line
        assert answers[0].startswith("info string ")
        assert part in answers[0]
        assert len(answers[0]) < 500
    for line in ("", "   ", "debug on", "register later", "ponderhit", "stop"):
        assert session.ask(line) == []
    assert session.move("go depth 2") == "9"  # the position is still the last good one


# 7


def test_the_output_holds_protocol_lines_only_and_its_end_is_ours() -> None:
    code = """
import sys
from togyz_agents.agent import register
from togyz_agents.engine.server import serve_stdio
from togyz_agents.players.alphabeta import AlphaBetaAgent
class Noisy(AlphaBetaAgent):
    def think(self, *arguments, **more):
        print("noise")
        return super().think(*arguments, **more)
register("noisy", Noisy)
serve_stdio("noisy:depth=2")
sys.exit("torch" in sys.modules)
"""
    commands = f"uci\nisready\nposition fen {WHITE_WINS}\ngo infinite\n"
    ended = subprocess.run(
        [sys.executable, "-c", code], input=commands, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[-1] == "bestmove 9"  # the end of the input stops the search
    assert all(line.startswith(("id ", "option ", "uciok", "readyok", "info ", "bestmove ")) for line in lines)
    assert "noise" in ended.stderr


def test_the_script_refuses_a_wrong_player_in_one_line() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "engine.py"), "--agent", "alphabeta:depth=0"]
    ended = subprocess.run(command, input="quit\n", capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.splitlines() == ["error: alphabeta: depth must be from 1 to 64, not 0"]
