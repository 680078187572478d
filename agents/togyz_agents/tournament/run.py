"""Playing a tournament: its games in processes of their own, each game written down when it ends.

What stops this process, a kill included, stops the others within seconds: each watches a pipe whose other end lives here.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from togyz_agents.tournament.game import GameStopped, Players, play_game
from togyz_agents.tournament.plan import TournamentPlan, import_modules
from togyz_agents.tournament.record import JUDGE, GameRecord, GameRules, GameTask
from togyz_agents.tournament.sprt import Sprt, SprtConfig, SprtResult
from togyz_agents.tournament.store import Store
from togyz_env.errors import ConfigError, TogyzError

SECONDS_TO_STOP = 10.0
"""What a process has to close its players when the tournament stops."""

log = logging.getLogger(__name__)


def run_tournament(
    plan: TournamentPlan,
    folder: Path,
    *,
    on_game: Callable[[GameRecord, int, int], bool | None] | None = None,
) -> list[GameRecord]:
    """Play what is not yet played of ``plan`` in ``folder``; return all its games, in the order of the plan.

    Args:
        plan: what to play; ``folder`` may hold games of it.
        folder: see ``Store``; made if it is missing.
        on_game: called here with each game, how many are finished and how many there are: first those that the folder holds, in the
            plan's order, then the others as they end. True ends the tournament early.

    Raises:
        ConfigError: a wrong player, or a folder of another tournament.
        TogyzError: a process died; what was finished stays, and the same call goes on.
    """
    import_modules(plan.modules)
    plan.check_players()
    store = Store(folder, plan.identity())
    try:
        order = {key: number for number, key in enumerate(plan.game_keys())}
        done = sorted(order.keys() & store.games.keys(), key=order.__getitem__)
        stop = False
        for number, key in enumerate(done, 1):
            stop = bool(on_game and on_game(store.games[key], number, len(order))) or stop
        left = len(order) - len(done)
        if left and not stop:
            processes = min(plan.process_count, left)
            log.info("%d of %d games to play, %d at once", left, len(order), processes)
            tasks = plan.tasks(frozenset(done))
            with closing(_results(plan, tasks, processes)) as results:
                for number, record in enumerate(results, len(done) + 1):
                    store.add(record)
                    if on_game is not None and on_game(record, number, len(order)):
                        break
        return [store.games[key] for key in order if key in store.games]
    finally:
        store.close()


def run_sprt_match(
    plan: TournamentPlan, folder: Path, config: SprtConfig, on_pair: Callable[[SprtResult], None] | None = None
) -> tuple[SprtResult, list[GameRecord]]:
    """Test whether the first of the plan's two players is stronger, with ``config.max_pairs`` pairs at most.

    The pairs count in the order of the plan, so that the verdict does not depend on how many processes play; games beyond the last
    pair counted are kept in the folder and returned, but do not count. ``on_pair`` sees each new result.
    """
    if len(plan.players) != 2:
        raise ConfigError(f"sprt: {len(plan.players)} players; expected two")
    tested = next(iter(plan.players))
    test = Sprt(config)
    points: dict[tuple[int, int], float] = {}

    def count(record: GameRecord, number: int, total: int) -> bool:
        points[record.pair, record.game] = record.first_points if record.first == tested else 1.0 - record.first_points
        while not test.result.decision and all((test.result.pairs, game) in points for game in (0, 1)):
            pair = test.result.pairs
            test.add((points[pair, 0] + points[pair, 1]) / 2)
            if on_pair is not None:
                on_pair(test.result)
        return bool(test.result.decision)

    games = run_tournament(replace(plan, pairs=config.max_pairs), folder, on_game=count)
    return test.result, games


def _results(plan: TournamentPlan, tasks: Iterator[GameTask], processes: int) -> Generator[GameRecord, None, None]:
    """Yield the finished games as they come; closing the iterator stops the players."""
    descriptions = dict(plan.players)
    if plan.adjudication is not None:
        descriptions[JUDGE] = plan.adjudication.agent
    if processes == 1:
        players = Players(descriptions, plan.rules)
        try:
            for task in tasks:
                yield play_game(task, players, plan.game_rules)
        finally:
            players.close()
        return
    context = multiprocessing.get_context("spawn")
    workers: dict[Connection, BaseProcess] = {}
    lifelines: list[Connection] = []
    playing: dict[Connection, GameTask] = {}

    def hand_out(connection: Connection) -> None:
        if (task := next(tasks, None)) is not None:
            connection.send(task)
            playing[connection] = task

    try:
        for _ in range(processes):
            here, there = context.Pipe()
            end, lifeline = context.Pipe(duplex=False)
            arguments = (there, end, descriptions, plan.game_rules, plan.modules)
            process: BaseProcess = context.Process(target=_work, args=arguments, name="togyz-tournament")
            process.start()
            there.close()
            end.close()
            workers[here] = process
            lifelines.append(lifeline)
            hand_out(here)
        while playing:
            ready = wait(list(playing))
            for connection in [connection for connection in playing if connection in ready]:
                task = playing.pop(connection)
                try:
                    answer = connection.recv()
                except (EOFError, OSError):
                    workers[connection].join(SECONDS_TO_STOP)
                    raise TogyzError(
                        f"tournament: the process that played {task.first!r} against {task.second!r}, pair {task.pair + 1}, died "
                        f"(exit status {workers[connection].exitcode}); the same command goes on with that game"
                    ) from None
                if not isinstance(answer, GameRecord):
                    raise TogyzError(str(answer))
                hand_out(connection)
                yield answer
    finally:
        for pipe in (*lifelines, *workers):
            pipe.close()
        until = time.monotonic() + SECONDS_TO_STOP + 1.0
        for process in workers.values():
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()


def _work(
    connection: Connection, lifeline: Connection, descriptions: Mapping[str, str], rules: GameRules, modules: tuple[str, ...]
) -> None:
    """Play what comes through ``connection``, until it or ``lifeline`` is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt reaches the whole group; the first process says when to stop
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes with several threads each would stand in each other's way
    stopped = threading.Event()
    threading.Thread(target=_watch, args=(lifeline, stopped), daemon=True).start()
    players = Players(descriptions, rules.ruleset)
    try:
        import_modules(modules)
        while True:
            connection.send(play_game(connection.recv(), players, rules, stopped.is_set))
    except (EOFError, BrokenPipeError, ConnectionResetError, GameStopped):
        pass
    except (TogyzError, MemoryError) as error:
        connection.send(f"{type(error).__name__}: {error}" if isinstance(error, MemoryError) else str(error))
    finally:
        players.close()


def _watch(lifeline: Connection, stopped: threading.Event) -> None:
    """Wait until the first process stops or dies; then end this one, if need be in the middle of a move."""
    wait([lifeline])
    stopped.set()
    time.sleep(SECONDS_TO_STOP)
    os._exit(1)
