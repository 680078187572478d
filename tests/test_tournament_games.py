"""Tournaments: their games, how they are played, stopped and resumed, and what is made of them.

1. A game is recorded so that it can be replayed; its opening and seeds follow from its identity alone.
2. A player's error, illegal move or overstepped clock costs it that game and is recorded; the tournament goes on.
3. One and four processes play the same games; a tournament that is killed and resumed equals one that is not.
4. What is on disk is never lost, repeated, or mixed with another tournament: torn lines, damage, other plans, changed networks.
5. Openings that a search calls decided are dropped; files of openings are read; a judge ends games only where it is asked for.
6. A sequential test counts pairs in their order, and stops.
7. The tables of the report add up to the games; repeated games are counted; the page is self-contained.
8. A wrong plan or command is one clear line.
"""

from __future__ import annotations

import json
import os
import random
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from togyz_agents import agent as agent_module
from togyz_agents.agent import make_agent, register
from togyz_agents.tournament.command import Options, play, write_reports
from togyz_agents.tournament.game import Players, play_game
from togyz_agents.tournament.match import play_match
from togyz_agents.tournament.openings import Opening, random_openings, read_openings
from togyz_agents.tournament.plan import TournamentPlan, balance, plan_from_dict, read_plan
from togyz_agents.tournament.record import GameRecord
from togyz_agents.tournament.report import as_dict, as_markdown
from togyz_agents.tournament.run import run_sprt_match, run_tournament
from togyz_agents.tournament.sprt import SprtConfig
from togyz_agents.tournament.store import GAMES_FILE, Store, stored_games
from togyz_agents.tournament.summary import Summary, summarise
from togyz_env.errors import ConfigError
from togyz_env.position import Position, Ruleset

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "configs" / "tournament.yaml"
# RULES, printed example 3: white plays 9, black 1, white 9, black 1; white is in atsyrau and loses 76-86.
ENDGAME = Position.from_state([0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 1, 0, 1, 1, 1, 76, 78, 6, 8, 0])


@pytest.fixture(scope="module", autouse=True)
def registry() -> Iterator[None]:
    """The players that these tests register are gone after them."""
    before = dict(agent_module._registered)
    sys.modules.pop("tournament_players", None)  # so that it registers them when a plan imports it
    yield
    agent_module._registered.clear()
    agent_module._registered.update(before)


def plan(players: list[str] | dict[str, str], **keys: Any) -> TournamentPlan:
    """A plan of cheap players in one process, without a judge."""
    openings = {"judge": None} | keys.pop("openings", {})
    data = {"players": players, "workers": 1, "pairs": 3, "modules": ["tournament_players"], "openings": openings}
    return plan_from_dict(data | keys)


def without_times(games: list[GameRecord]) -> list[GameRecord]:
    return [replace(game, times=()) for game in games]


def outcome_by_rules(game: GameRecord, ruleset: Ruleset) -> Position:
    """Replay a game; the rules must allow each move, and not have ended it before."""
    position = Position.from_fen(game.start)
    for hole in game.opening + game.moves:
        assert position.outcome(ruleset) is None
        position = position.play(hole)
    return position


# 1


def test_every_game_is_recorded_and_can_be_replayed(tmp_path: Path) -> None:
    three = plan(["random", "greedy", "fixed:salt=2"], rules={"max_plies": 120})
    games = run_tournament(three, tmp_path)
    assert [game.key for game in games] == [
        (first, second, pair, game)
        for pair in range(3)
        for first, second in (("greedy", "random"), ("fixed:salt=2", "random"), ("fixed:salt=2", "greedy"))
        for game in (0, 1)
    ]
    for game in games:
        outcome = outcome_by_rules(game, three.rules).outcome(three.rules)
        assert outcome is not None
        assert (game.winner, game.reason, game.score) == (outcome.winner, outcome.reason, outcome.score)
        assert len(game.times) == len(game.moves) > 0
        assert all(seconds >= 0 for seconds in game.times)
        assert game.sides == ((game.second, game.first) if game.game else (game.first, game.second))
        assert 4 <= len(game.opening) <= 8
    # The two games of a pair share the opening; every game has seeds of its own.
    assert [game.opening for game in games[::2]] == [game.opening for game in games[1::2]]
    assert len({game.opening for game in games}) == 9
    assert len({game.seeds for game in games}) == len(games)
    # The file holds the same.
    lines = (tmp_path / GAMES_FILE).read_text().splitlines()
    assert sorted(map(GameRecord.key.fget, map(GameRecord.from_dict, map(json.loads, lines)))) == sorted(g.key for g in games)  # type: ignore[attr-defined]


def test_the_recorded_seeds_give_the_moves_again() -> None:
    task = next(iter(plan(["random", "greedy"]).tasks()))
    game = play_game(task, Players({"random": "random", "greedy": "greedy"}), plan(["random", "greedy"]).game_rules)
    white, black = (make_agent(name) for name in game.sides)
    white.new_game(game.seeds[0])
    black.new_game(game.seeds[1])
    history = Opening(game.opening).positions()
    for hole in game.moves:
        mover = black if history[-1].to_move else white
        assert mover.select(history[-1], history[:-1], None) == hole
        history.append(history[-1].play(hole))


def test_games_do_not_depend_on_other_players_or_their_order(tmp_path: Path) -> None:
    few = run_tournament(plan(["random", "greedy"]), tmp_path / "few")
    many = run_tournament(plan(["fixed", "greedy", "random"]), tmp_path / "many")
    assert without_times(few) == without_times([game for game in many if "fixed" not in game.sides])
    other = run_tournament(plan(["random", "greedy"], seed=2), tmp_path / "other")
    assert {game.opening for game in few}.isdisjoint(game.opening for game in other)


def test_a_gauntlet_lets_the_challengers_meet_the_others_only() -> None:
    gauntlet = plan(["random", "greedy", "fixed", "fixed:1"], format="gauntlet", challengers=["fixed", "greedy"])
    assert sorted(gauntlet.pairings()) == [("fixed", "fixed:1"), ("fixed", "random"), ("fixed:1", "greedy"), ("greedy", "random")]
    assert len(plan(["random", "greedy", "fixed", "fixed:1"]).pairings()) == 6


# 2


@pytest.mark.parametrize(
    ("how", "moves", "detail"),
    [
        ("construct", 0, "OSError: no such engine"),
        ("new_game", 0, "RuntimeError: does not want to play"),
        ("raise", 2, "KeyError: 'lost'"),
        ("illegal", 2, r"illegal move 10 in '.*'; legal moves: \["),
        ("garbage", 2, r"illegal move 'b4' in '.*'; legal moves: \["),
    ],
)
def test_a_failing_player_forfeits_and_the_tournament_goes_on(how: str, moves: int, detail: str, tmp_path: Path) -> None:
    import tournament_players

    tournament_players.Faulty.made = 0
    games = run_tournament(plan({"bad": f"faulty:{how}", "fixed": "fixed:3", "random": "random"}, pairs=2), tmp_path)
    assert len(games) == 12
    for game in games:
        outcome_by_rules(game, Ruleset())
        if "bad" not in game.sides:
            assert game.reason in ("majority", "atsyrau")
            continue
        assert (game.reason, game.winner) == ("forfeit", 1 - game.sides.index("bad"))
        assert re.match(f"bad: {detail}", game.detail)
        first = (len(game.opening) + game.sides.index("bad")) % 2
        assert len(game.moves[first::2]) == moves
        assert len(game.times) == len(game.moves) + (moves > 0)
    text = as_markdown(summarise({"bad": "faulty", "fixed": "fixed:3", "random": "random"}, games), "t")
    assert "bad lost 8 of 8 games by forfeit" in text
    assert "## Forfeits" in text


@pytest.mark.parametrize(
    ("fault", "settings", "detail"),
    [
        ("crash at start", "", "ended with status 3"),
        ("crash in mid-game", "", "ended with signal 9"),
        ("never answers", ",timeout=0.5", "gave no 'bestmove' within 0.5 s"),
        ("garbage", ",timeout=0.5", "which is no move"),
        ("none", "", "legal moves: ["),  # it plays hole 1, then 2, then 3, whatever the rules
    ],
)
def test_an_engine_at_fault_forfeits_in_bounded_time(fault: str, settings: str, detail: str, tmp_path: Path) -> None:
    fake = Path(__file__).parent / "fake_engine.py"
    engine = f"""uci:command='{sys.executable} -S {fake} "{fault}"'{settings}"""
    games = run_tournament(plan({"engine": engine, "fixed": "fixed:3"}, pairs=1), tmp_path)
    assert len(games) == 2
    for game in games:
        assert (game.reason, game.winner) == ("forfeit", 1 - game.sides.index("engine"))
        assert game.detail.startswith("engine: EngineError: ")
        assert detail in game.detail


def test_an_overstepped_clock_loses(tmp_path: Path) -> None:
    late = {"late": "faulty:late", "fixed": "fixed:3"}
    for number, clock in enumerate(({"move_time": 0.45, "grace": 0.05}, {"remaining": 0.4, "increment": 0.04, "grace": 0.0})):
        games = run_tournament(plan(late, pairs=1, clock=clock), tmp_path / str(number))
        for game in games:
            assert (game.reason, game.winner, game.detail) == ("time", 1 - game.sides.index("late"), "")
            assert game.times[-1] > 0.68
            assert len(game.times) == len(game.moves) + 1


def test_players_are_told_the_clock() -> None:
    seen = []

    class Watch:
        def new_game(self, seed: int) -> None: ...

        def select(self, position: Position, history: Any, clock: Any) -> int:
            seen.append(clock)
            time.sleep(0.01)
            return position.legal_moves()[0]

        def close(self) -> None: ...

    register("watch", Watch)
    two = plan(["watch", "fixed"], clock={"remaining": 5, "increment": 0.001}, rules={"max_plies": 30}, pairs=1)
    play_game(next(two.tasks()), Players(two.players), two.game_rules)
    assert [clock.increment for clock in seen] == [0.001] * len(seen)
    assert seen[0].remaining == 5
    assert all(0.005 < before.remaining - after.remaining < 1 for before, after in pairwise(seen))


# 3


def test_one_and_four_processes_play_the_same_games(tmp_path: Path) -> None:
    # Random, greedy and roll-outs draw random numbers, alpha-beta keeps a table from game to game.
    players = ["random", "greedy", "fixed:5", "alphabeta:depth=2,table=1", "rollout:sims=6"]
    one = run_tournament(plan(players, pairs=2, rules={"max_plies": 60}), tmp_path / "one")
    four = run_tournament(plan(players, pairs=2, rules={"max_plies": 60}, workers=4), tmp_path / "four")
    assert without_times(one) == without_times(four)
    assert len(one) == 40


KILLED = {"random": "random", "slow": "fixed:salt=1,wait=0.001", "greedy": "greedy"}


def killed_and_resumed(folder: Path, kills: int, workers: int, pairs: int) -> None:
    """Play in a process of its own, kill it ``kills`` times at random moments, and compare with a tournament left alone."""
    keys = {"players": KILLED, "pairs": pairs, "workers": workers, "modules": ["tournament_players"], "openings": {"judge": None}}
    (folder / "t.yaml").write_text(yaml.safe_dump(keys))
    command = [sys.executable, str(ROOT / "scripts/tournament.py"), "t.yaml", "--out", "out"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "agents"), str(ROOT / "tests")])
    rng = random.Random(4)
    games = folder / "out" / GAMES_FILE
    total, before = 6 * pairs, 0
    for kill in range(kills):
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, stdout=log, stderr=log)
        # Kill it somewhere between two games, or in one, each time further on.
        goal = min(total - 2, max(before + 1, round(total * (kill + rng.random()) / kills)))
        while process.poll() is None and (not games.exists() or games.read_bytes().count(b"\n") < goal):
            time.sleep(0.002)
        time.sleep(0.03 * rng.random())
        process.kill()
        assert process.wait() in (-signal.SIGKILL, 0), (folder / "log").read_text()
        lines = games.read_bytes().splitlines()
        assert len(lines) >= before  # nothing was lost
        before = len(lines)
        if kill % 2:  # a full disk can tear a line, a kill cannot
            games.write_bytes(games.read_bytes() + lines[0][: rng.randrange(1, 200)])
    whole = plan_from_dict(keys)
    resumed = run_tournament(whole, folder / "out")
    assert len(games.read_bytes().splitlines()) == total == len(resumed)
    assert without_times(resumed) == without_times(run_tournament(replace(whole, workers=1), folder / "alone"))


def test_a_killed_tournament_resumes_to_the_same_games(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, kills=2, workers=1, pairs=10)


@pytest.mark.slow
def test_a_tournament_killed_ten_times_resumes_to_the_same_games(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, kills=10, workers=2, pairs=100)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "interrupt", "a process dies"])
def test_no_process_outlives_a_stopped_tournament(end: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    players = {"a": "fixed:salt=1,wait=0.05", "b": "fixed:salt=2,wait=0.05"}
    keys = {"players": players, "pairs": 50, "workers": 2, "modules": ["tournament_players"], "openings": {"judge": None}}
    (tmp_path / "t.yaml").write_text(yaml.safe_dump(keys))
    command = [sys.executable, str(ROOT / "scripts/tournament.py"), "t.yaml", "--out", "out"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "agents"), str(ROOT / "tests")])}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    request.addfinalizer(process.kill)
    games = tmp_path / "out" / GAMES_FILE
    while not games.exists() or not games.read_bytes():
        assert process.poll() is None
        time.sleep(0.05)
    listing = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    )
    pids = [int(line.split()[0]) for line in listing.stdout.splitlines() if "spawn_main" in line]
    assert len(pids) == 2
    if end == "kill":
        process.kill()
    elif end == "interrupt":
        os.killpg(process.pid, signal.SIGINT)
    else:
        os.kill(pids[0], signal.SIGKILL)
    last = process.communicate(timeout=60)[1].splitlines()[-1]
    assert process.returncode == (-signal.SIGKILL if end == "kill" else 2)
    if end == "interrupt":
        assert last == "interrupted"
    if end == "a process dies":
        assert re.fullmatch(
            r"error: tournament: the process that played 'a' against 'b', pair \d+, died \(exit status -9\); .*", last
        )
    deadline = time.monotonic() + 30

    def alive() -> list[int]:
        return [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()]

    while alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive() == []


# 4


def test_a_finished_tournament_plays_nothing_and_a_longer_one_only_what_is_new(tmp_path: Path) -> None:
    short = run_tournament(plan(["random", "greedy"]), tmp_path)
    before = (tmp_path / GAMES_FILE).read_bytes()
    assert run_tournament(plan(["random", "greedy"]), tmp_path) == short
    assert (tmp_path / GAMES_FILE).read_bytes() == before
    long = run_tournament(plan(["random", "greedy", "fixed"], pairs=4), tmp_path)
    assert len(long) == 24
    assert (tmp_path / GAMES_FILE).read_bytes().startswith(before)
    assert [game for game in long if game in short] == short
    # Those who left keep their games, and their descriptions.
    assert run_tournament(plan(["random", "greedy"]), tmp_path) == short
    with pytest.raises(ConfigError, match=r"player 'fixed' has played in .* as 'fixed'; choose another folder"):
        run_tournament(plan({"fixed": "fixed:2", "random": "random"}), tmp_path)


def test_a_torn_line_is_played_again(tmp_path: Path) -> None:
    whole = run_tournament(plan(["random", "greedy"]), tmp_path)
    file = tmp_path / GAMES_FILE
    data = file.read_bytes()
    file.write_bytes(data[:-40])
    again = run_tournament(plan(["random", "greedy"]), tmp_path)
    assert without_times(again) == without_times(whole)
    assert len(file.read_bytes().splitlines()) == 6


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"seed": 2}, "was played with seed 1, not 2"),
        ({"rules": {"max_plies": 90}}, "was played with rules"),
        ({"openings": {"plies": [1, 2]}}, "was played with openings"),
        ({"clock": {"move_time": 1}}, "was played with clock None"),
        ({"adjudication": {"agent": "alphabeta"}}, "was played with adjudication None"),
        ({"players": {"random": "greedy", "greedy": "greedy"}}, "player 'random' has played"),
    ],
)
def test_another_tournament_is_not_continued(keys: dict[str, Any], message: str, tmp_path: Path) -> None:
    run_tournament(plan(["random", "greedy"], pairs=1), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match=message):
        run_tournament(plan(**({"players": ["random", "greedy"]} | keys)), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_damaged_and_foreign_folders_are_refused(tmp_path: Path) -> None:
    two = plan(["random", "greedy"], pairs=1)
    run_tournament(two, tmp_path)
    file = tmp_path / GAMES_FILE
    good = file.read_text()
    for bad, message in (
        ("hello\n" + good, "line 1: no game"),
        (good + '{"first": 1}\n', "line 3: no game"),
        (good + good.splitlines()[0] + "\n", "line 3: a game that an earlier line holds"),
    ):
        file.write_text(bad)
        with pytest.raises(ConfigError, match=message):
            run_tournament(two, tmp_path)
        assert file.read_text() == bad
    file.write_text(good)
    (tmp_path / "tournament.json").write_text("[]")
    with pytest.raises(ConfigError, match="is not of this program"):
        run_tournament(two, tmp_path)
    (tmp_path / "tournament.json").unlink()
    with pytest.raises(ConfigError, match=r"has games but no tournament\.json"):
        run_tournament(two, tmp_path)


def test_two_processes_do_not_play_in_one_folder(tmp_path: Path) -> None:
    two = plan(["random", "greedy"], pairs=1)
    store = Store(tmp_path, two.identity())
    with pytest.raises(ConfigError, match="another process is playing"):
        run_tournament(two, tmp_path)
    assert stored_games(tmp_path, two.identity()) == {}  # a report may look on
    store.close()
    assert len(run_tournament(two, tmp_path)) == 2


def test_a_changed_network_does_not_go_on_under_the_old_name(tmp_path: Path) -> None:
    from togyz_agents.network import Network, NetworkConfig, save_network

    run = tmp_path / "run"
    run.mkdir()
    config = NetworkConfig(encoder="plain", width=8, blocks=1)
    save_network(Network(config), run / "network.safetensors")
    shutil.copy(run / "network.safetensors", tmp_path / "old.safetensors")
    for text in (f"policy:{run}", f"alphazero:run={run},sims=1", f"alphabeta:depth=1,network={run / 'network.safetensors'}"):
        shutil.copy(tmp_path / "old.safetensors", run / "network.safetensors")
        with_network = plan({"net": text, "random": "random"}, pairs=1, rules={"max_plies": 12})
        out = tmp_path / "out" / text.partition(":")[0]
        assert len(run_tournament(with_network, out)) == 2
        save_network(Network(config), run / "network.safetensors")  # other random weights
        with pytest.raises(ConfigError, match=r"player 'net' has played in .* with other contents of .*network\.safetensors"):
            run_tournament(with_network, out)


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    def interrupt(game: GameRecord, finished: int, total: int) -> None:
        if finished == 2:
            raise KeyboardInterrupt

    two = plan(["random", "greedy"])
    with pytest.raises(KeyboardInterrupt):
        run_tournament(two, tmp_path, on_game=interrupt)
    assert len((tmp_path / GAMES_FILE).read_text().splitlines()) == 2
    assert len(run_tournament(two, tmp_path)) == 6


# 5


def test_searches_play_by_the_rules_of_the_tournament(tmp_path: Path) -> None:
    # With 82 stones in a kazan a search that is told nothing takes the game for over.
    (tmp_path / "openings.txt").write_text("2,1S,1S,1S,1S,1S,1S,1/2,1S,1S,1S,1S,1S,1S,1 82 68 S 1\n")
    judge = {"agent": "alphabeta:depth=1", "value": 1.0, "plies": 200}
    players = ["alphabeta:depth=1", "rollout:sims=4"]
    for workers in (1, 2):
        played_out = plan(
            players,
            pairs=1,
            workers=workers,
            rules={"end": "playout", "max_plies": 200},
            adjudication=judge,
            openings={"file": str(tmp_path / "openings.txt")},
        )
        games = run_tournament(played_out, tmp_path / str(workers))
        assert {game.reason for game in games} <= {"atsyrau", "ply limit"}  # no forfeits, no majority
        assert min(len(game.moves) for game in games) > 2
    match = play_match(
        *players, pairs=1, openings=read_openings(tmp_path / "openings.txt", played_out.rules), ruleset=played_out.rules
    )
    assert {game.outcome.reason for game in match.games} <= {"atsyrau", "ply limit"}


def test_decided_openings_are_dropped() -> None:
    judged = plan_from_dict(
        {"players": ["random", "greedy"], "pairs": 12, "openings": {"judge": "alphabeta:depth=3", "decided": 0.4}}
    )
    openings = [task.opening for task in judged.tasks() if task.game == 0]
    agent: Any = make_agent("alphabeta:depth=3")
    values = []
    for opening in openings:
        agent.new_game(0)
        values.append(abs(agent.analyse(opening.position).value))
    assert max(values) < 0.4
    assert len(set(openings)) == 12
    keep = balance(judged.openings, judged.rules)
    assert keep is not None
    verdicts = [keep(opening.position) for opening in random_openings(40, 1)]
    assert 5 < sum(verdicts) < 40  # it drops some, not all
    assert random_openings(5, 1, keep=keep) == [o for o, kept in zip(random_openings(40, 1), verdicts) if kept][:5]


def test_openings_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "openings.txt"
    file.write_text(f"# two openings\n7 5 3   # three plies\n\n{ENDGAME.fen()}\n")
    assert read_openings(file) == [Opening((7, 5, 3)), Opening(start=Position.from_fen(ENDGAME.fen()))]
    (tmp_path / "t.yaml").write_text("{players: [random, greedy], pairs: 2, workers: 1, openings: {file: openings.txt}}")
    read = read_plan(tmp_path / "t.yaml")
    games = run_tournament(read, tmp_path / "out")
    assert [game.opening for game in games] == [(7, 5, 3), (7, 5, 3), (), ()]
    assert [game.start for game in games[2:]] == [ENDGAME.fen()] * 2
    with pytest.raises(ConfigError, match=r"only 2 in .*openings\.txt for 3 pairs"):
        run_tournament(replace(read, pairs=3), tmp_path / "out")
    for text, message in (
        ("7 x\n", "line 1: '7 x' is neither"),
        ("1\n7 0", "line 2: hole: 0"),
        ("", "holds none"),
        ("a/b", "line 1"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=message):
            run_tournament(read, tmp_path / "out")


def test_a_judge_ends_games_only_where_it_is_asked_for(tmp_path: Path) -> None:
    players = ["greedy", "random"]
    free = run_tournament(plan(players), tmp_path / "free")
    judged = run_tournament(
        plan(players, adjudication={"agent": "alphabeta:depth=2", "value": 0.9, "plies": 3}), tmp_path / "judged"
    )
    assert "adjudication" not in {game.reason for game in free}
    ended = [(a, b) for a, b in zip(free, judged) if b.reason == "adjudication"]
    assert len(ended) >= 4
    for whole, short in ended:
        assert whole.moves[: len(short.moves)] == short.moves  # the same game, ended earlier
        assert len(short.moves) < len(whole.moves)
        assert outcome_by_rules(short, Ruleset()).outcome() is None


# 6


def test_a_sequential_test_counts_pairs_in_order_and_stops(tmp_path: Path) -> None:
    # Greedy beats random by far: the test needs few pairs.
    two = plan({"greedy": "greedy", "random": "random"})
    config = SprtConfig(0, 200, max_pairs=200)
    seen = []
    result, games = run_sprt_match(two, tmp_path / "one", config, seen.append)
    assert result.decision == "elo1"
    assert result.pairs < 30
    assert len(games) == 2 * result.pairs
    scores = Counter((games[2 * i].first_points + games[2 * i + 1].first_points) for i in range(result.pairs))
    assert result.counts == tuple(scores[points] for points in (0, 0.5, 1, 1.5, 2))
    assert [entry.pairs for entry in seen] == list(range(1, result.pairs + 1))
    assert run_sprt_match(two, tmp_path / "one", config)[0] == result  # again, from the folder
    # The other way about, the names in the same folder: the weaker one is tested.
    weaker, _ = run_sprt_match(plan({"random": "random", "greedy": "greedy"}), tmp_path / "one", config)
    assert weaker.decision == "elo0"
    assert weaker.counts == tuple(reversed(result.counts))[:5] or weaker.pairs < result.pairs


# 7


def play_repeated(tmp_path: Path) -> tuple[TournamentPlan, list[GameRecord]]:
    """Two deterministic players, 40 games from 5 openings that a file repeats."""
    openings = random_openings(5, 3)
    lines = [" ".join(map(str, opening.moves)) for opening in openings]
    (tmp_path / "openings.txt").write_text("\n".join(lines * 4))
    two = plan(["fixed:1", "fixed:2"], pairs=20, openings={"file": str(tmp_path / "openings.txt")})
    return two, run_tournament(two, tmp_path / "out")


def test_repeated_games_are_counted_and_warned_of(tmp_path: Path) -> None:
    two, games = play_repeated(tmp_path)
    summary = summarise(two.players, games)
    lines = {(game.start, game.opening + game.moves) for game in games}
    assert (summary.games, summary.distinct) == (40, len(lines))
    assert len(lines) <= 10
    text = as_markdown(summary, "t")
    assert f"40 games of 2 players, {len(lines)} of them distinct" in text
    assert f"Games repeat (fixed:1 - fixed:2: {len(lines)} of 40 distinct)" in text
    assert not any("repeat" in warning for warning in summarise(two.players, games[:10]).warnings)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[TournamentPlan, list[GameRecord], Summary]:
    """A tournament with wins, draws, forfeits and cut games, and a name that HTML must not take for a tag."""
    players = {"<b>a&b</b>": "greedy", "random": "random", "x|y": "fixed:4", "bad": "faulty:raise,after=9"}
    four = plan({**players, "bad": "faulty:how=raise,after=9"}, rules={"max_plies": 70}, pairs=4)
    games = run_tournament(four, tmp_path_factory.mktemp("mixed"))
    return four, games, summarise(four.players, games, samples=200)


def test_the_tables_add_up_to_the_games(mixed: tuple[TournamentPlan, list[GameRecord], Summary]) -> None:
    four, games, summary = mixed
    names = [standing.name for standing in summary.standings]
    assert sorted(names) == sorted(four.players)
    assert [standing.elo for standing in summary.standings] == sorted((s.elo for s in summary.standings), reverse=True)
    assert summary.games == len(games) == sum(standing.total.games for standing in summary.standings) / 2 == 48
    points = dict.fromkeys(names, 0.0)
    for game in games:
        for side, name in enumerate(game.sides):
            points[name] += 0.5 if game.winner is None else float(game.winner == side)
    for a, standing in enumerate(summary.standings):
        row = [summary.meetings[a, b] for b in range(4) if b != a]
        assert standing.total.points == points[standing.name] == sum(meeting.result.points for meeting in row)
        assert standing.total.games == 24 == sum(meeting.result.games for meeting in row)
        assert (standing.white.games, standing.black.games) == (12, 12)
        assert standing.low <= standing.elo <= standing.high
        for b in range(4):
            if b != a:
                assert summary.meetings[a, b].result.points + summary.meetings[b, a].result.points == 8
                assert summary.superiority[a][b] == pytest.approx(1 - summary.superiority[b][a])  # type: ignore[operator]
    reasons = Counter(game.reason for game in games)
    assert {reason: tally.games for reason, tally in summary.ends.items()} == reasons
    assert sum(tally.wins for tally in summary.ends.values()) == summary.colours.wins == sum(game.winner == 0 for game in games)
    assert sum(tally.losses for tally in summary.ends.values()) == summary.colours.losses == sum(game.winner == 1 for game in games)
    assert summary.lengths == tuple(sorted(len(game.opening) + len(game.moves) for game in games))
    assert sum(standing.forfeits for standing in summary.standings) == reasons["forfeit"] > 0
    assert sum(count for _, count in summary.failures) == reasons["forfeit"]


def test_mean_times_are_those_of_the_mover() -> None:
    game = GameRecord("a", "b", 0, 1, ENDGAME.fen(), (9,), (1, 9, 1), (1.0, 2.0, 5.0), (0, 0), 1, "atsyrau", "", (76, 86))
    # b is white; after the opening's one ply black, a, moves first.
    summary = summarise({"a": "fixed", "b": "fixed"}, [game], samples=10)
    assert {standing.name: standing.seconds for standing in summary.standings} == {"a": 3.0, "b": 2.0}


class Page(HTMLParser):
    """Collects tags, attributes and text, and checks that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [str(value) for name, value in attrs if name in ("src", "href", "xlink:href", "action", "srcset")]
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_reports_are_complete_and_self_contained(
    mixed: tuple[TournamentPlan, list[GameRecord], Summary], tmp_path: Path
) -> None:
    _, games, summary = mixed
    paths = write_reports(tmp_path, summary, "A <title>", ["a note"])
    assert [path.name for path in paths] == ["report.json", "report.html", "report.md"]
    data = json.loads(paths[0].read_text())
    assert data == json.loads(json.dumps(as_dict(summary, "A <title>", ["a note"])))
    assert sum(player["white"]["wins"] + player["black"]["wins"] for player in data["players"]) == sum(
        game.winner is not None for game in games
    )
    assert [[cell is None for cell in row] for row in data["cross_table"]] == [[a == b for b in range(4)] for a in range(4)]
    text = paths[1].read_text()
    page = Page(text)
    assert page.open == []
    assert page.links == []
    assert page.tags["script"] == page.tags["link"] == page.tags["b"] == page.tags["img"] == 0
    assert "@import" not in text
    assert "url(" not in text
    assert page.tags["svg"] == 4
    assert "prefers-color-scheme: dark" in text
    words = " ".join(page.words)
    for standing in summary.standings:
        assert standing.name in words
    assert "A <title>" in words
    markdown = paths[2].read_text()
    assert "x\\|y" in markdown
    tables = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(tables) == (2 + 4) * 3 + 3 + len(summary.ends)
    for line in tables:
        assert line.replace("\\|", "").count("|") in (13, 7, 5)


def test_groups_that_never_met_are_named() -> None:
    def game(first: str, second: str, pair: int) -> GameRecord:
        return GameRecord(
            first, second, pair, 0, Position.start().fen(), (pair + 1,), (1,), (0.1,), (0, 0), pair % 2, "majority", "", (82, 60)
        )

    games = [game("a", "b", 0), game("a", "b", 1), game("c", "d", 2), game("c", "d", 3)]
    summary = summarise(dict.fromkeys("abcd", "fixed"), games, samples=50)
    assert any("never met" in warning and "a, b | c, d" in warning for warning in summary.warnings)
    place = {standing.name: i for i, standing in enumerate(summary.standings)}
    assert summary.superiority[place["a"]][place["c"]] is None
    assert summary.superiority[place["a"]][place["b"]] is not None
    with pytest.raises(ConfigError, match="no game is finished"):
        summarise({"a": "fixed", "b": "fixed"}, [])


# 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("players: [", "cannot read"),
        ("{players: [random, greedy], pairs: 1, pairs: 2}", "key 'pairs' stands there twice"),
        ("players:\n  a: random\n  a: greedy\n  b: greedy", "key 'a' stands there twice"),
        ("{players: [random, greedy], title: 2026-13-45}", "cannot read"),
        ("hello", "expected keys with values"),
        ("pairs: 3", "players: missing"),
        ("players: [random]", "expected at least two"),
        ("players: [random, random]", "'random' stands there twice"),
        ("players: {a: random, b: 5}", "players.b: 5; expected text"),
        ("{players: [random, greedy], pair: 3}", "pair: unknown key; did you mean 'pairs'?"),
        ("{players: [random, greedy], pairs: 0}", "pairs: 0; expected at least 1"),
        ("{players: [random, greedy], pairs: many}", "pairs: 'many'; expected a whole number"),
        ("{players: [random, greedy], pairs: true}", "pairs: True; expected a whole number"),
        ("{players: [random, greedy], format: swiss}", "format: 'swiss'; expected round robin or gauntlet"),
        ("{players: [random, greedy], format: gauntlet}", "a gauntlet needs them"),
        ("{players: [random, greedy], challengers: [x]}", "challengers: 'x' is not among the players random, greedy"),
        ("{players: [random, greedy], anchor: x}", "anchor: 'x' is not among"),
        ("{players: [random, greedy], openings: {plies: [4]}}", "openings.plies: [4]; expected a list of 2"),
        ("{players: [random, greedy], openings: {plies: [8, 4]}}", "openings.plies: [8, 4]"),
        ("{players: [random, greedy], openings: {decided: 2}}", "openings.decided: 2"),
        ("{players: [random, greedy], openings: {judge: random}}", "openings.judge: 'random' cannot analyse"),
        ("{players: [random, greedy], openings: {file: none.txt}}", "cannot read"),
        ("{players: [random, greedy], openings: 5}", "openings: 5 is not a mapping"),
        ("{players: [random, greedy], rules: {end: never}}", "end: 'never'; expected majority or playout"),
        ("{players: [random, greedy], rules: {max_plies: 8}}", "rules.max_plies: 8 leaves no move"),
        ("{players: [random, greedy], clock: {increment: 1}}", "clock: expected either remaining"),
        ("{players: [random, greedy], clock: {move_time: -1}}", "clock.move_time: -1.0; expected seconds"),
        ("{players: [random, greedy], adjudication: {value: 1}}", "adjudication.agent: missing"),
        ("{players: [random, greedy], adjudication: {agent: random}}", "adjudication: 'random' cannot analyse"),
        ("{players: [random, nobody]}", "unknown name 'nobody'"),
        ("{players: [random, 'alphabeta:depth=0']}", "depth must be from 1"),
        ("{players: [random, greedy], modules: [no_such]}", "cannot import 'no_such'"),
    ],
)
def test_a_wrong_plan_is_one_clear_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        play(Options(plan=tmp_path / "t.yaml", out=tmp_path / "out"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert not (tmp_path / "out").exists()


def test_the_example_is_a_plan_of_six_players_and_600_games() -> None:
    example = read_plan(EXAMPLE)
    assert len(example.players) == 6
    assert len(list(example.game_keys())) == 600
    # What it shows as defaults is what they are.
    shown = yaml.safe_load(EXAMPLE.read_text())
    assert plan_from_dict({"players": shown["players"], "title": shown["title"]}) == example


def test_the_committed_report_is_that_of_the_example() -> None:
    data = json.loads((ROOT / "docs/tournament/report.json").read_text())
    assert {player["name"]: player["agent"] for player in data["players"]} == read_plan(EXAMPLE).players
    assert data["games"] == data["planned"] == 600
    results = [cell["result"] for row in data["cross_table"] for cell in row if cell]
    assert [sum(result.values()) for result in results] == [40] * 30
    assert sum(result["wins"] for result in results) == sum(result["losses"] for result in results)
    assert sum(result["wins"] + result["draws"] / 2 for result in results) == 600
    for name in ("report.html", "report.md"):
        assert "python scripts/tournament.py configs/tournament.yaml" in (ROOT / "docs/tournament" / name).read_text()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Run scripts/tournament.py in ``tmp_path``; return its status, output and last line of error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tournament.py", *arguments])
        with pytest.raises(SystemExit) as caught:
            runpy.run_path(str(ROOT / "scripts/tournament.py"), run_name="__main__")
        out, error = capsys.readouterr()
        return int(caught.value.code or 0), out, (error.splitlines() or [""])[-1]

    return run


def test_the_script_plays_reports_and_tests(script: Any, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text("{players: [random, greedy], workers: 1, pairs: 2, openings: {judge: null}}")
    status, out, _ = script("small.yaml")
    assert status == 0
    assert "4 games of 2 players, 4 of them distinct" in out
    report = (tmp_path / "runs/small/report.html").read_text()
    assert "python scripts/tournament.py small.yaml" in report
    assert script("small.yaml", "--pairs", "3", "--report")[1].count("beware: Unfinished: 4 of 6 games") == 1
    status, out, _ = script("small.yaml", "--sprt", "0", "200", "greedy", "random", "--max-pairs", "60")
    assert status == 0
    assert "accepted: 200 Elo or more" in out
    assert (tmp_path / "runs/sprt-greedy-random/report.md").exists()
    status, out, _ = script("small.yaml", "--sprt", "-5", "5", "random", "random", "--max-pairs", "1", "--model", "normalised")
    assert (status, "undecided after 1 pairs" in out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to play"),
        (["none.yaml"], "cannot read 'none.yaml'"),
        (["--sprt", "0", "x", "random", "greedy"], "sprt: '0 x'; expected two numbers"),
        (["--sprt", "5", "0", "random", "greedy"], "elo0 5 and elo1 0"),
        (["--sprt", "0", "5", "random", "nobody"], "unknown name 'nobody'"),
        (["--sprt", "0", "5", "random"], "expected 4 arguments"),
        (["--sprt", "0", "5", "random", "greedy", "--report"], "--sprt goes with neither"),
        (["--sprt", "0", "5", "random", "greedy", "--alpha", "2"], "alpha 2; expected"),
    ],
)
def test_a_wrong_command_is_one_clear_line(arguments: list[str], message: str, script: Any, tmp_path: Path) -> None:
    status, out, error = script(*arguments)
    assert (status, out) == (2, "")
    assert message in error
    assert list(tmp_path.iterdir()) == []
