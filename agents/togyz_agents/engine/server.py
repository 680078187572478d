"""Our engine: any player of the registry, spoken to in the UCI protocol.

Commands are read in one thread and a search runs in another, so that ``stop`` and ``isready`` are answered while it goes on.
What cannot be understood is answered by an ``info string`` line and changes nothing.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import togyz_env
from togyz_agents.agent import Agent, Clock, agent_name, make_agent, make_description
from togyz_agents.engine.options import Options
from togyz_agents.engine.protocol import NO_MOVE, Go, info_lines, read_go, read_option, read_position, write_move
from togyz_agents.thinking import Limits, Report, Thinker, Thought, ThoughtLine
from togyz_env.errors import TogyzError
from togyz_env.notation import MoveStyle, shown
from togyz_env.position import Position, Ruleset

FAREWELL = 5.0
"""Seconds that a search has to end after ``quit``."""
LONGEST_LINE = 1 << 20
"""Characters; a longer line is read as several."""
_log = logging.getLogger(__name__)


class _Plain:
    """A player that only names its move: it thinks without reports and cannot be stopped.

    It knows no rule about the end of a game: while there is a move, whoever asks for one gets it.
    """

    ruleset = Ruleset(end="playout", max_plies=sys.maxsize)

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def think(
        self, position: Position, history: Sequence[Position], limits: Limits, *, lines: int = 1, report: Report | None = None
    ) -> Thought:
        clock = None if limits.seconds is None else Clock(move_time=limits.seconds)
        return Thought((ThoughtLine((int(self._agent.select(position, history, clock)),)),))

    def stop(self) -> None:
        pass


class Engine:
    """A player behind the protocol; ``command`` takes its lines one by one.

    Args:
        description: the player, as for ``make_agent``.
        write: called with each line of the answer, from two threads, never at the same time.

    Raises:
        TogyzError: the description or what it names is wrong.
    """

    def __init__(self, description: str, write: Callable[[str], None]) -> None:
        """Make the player."""
        self._write = write
        self._writing = threading.Lock()
        self._options = Options(description)
        self._use(make_agent(description))
        self._ready = False
        self._positions = [Position.start()]
        self._search: threading.Thread | None = None
        self._searching = False
        self._stopping = threading.Event()
        self._waiting: Go | None = None

    def command(self, line: str) -> bool:
        """Carry out one line; False after ``quit``."""
        words = line.split()
        name, rest = (words[0], words[1:]) if words else ("", [])
        try:
            if name == "quit":
                return False
            if name in _COMMANDS:
                _COMMANDS[name](self, rest)
            elif name:
                self._say(f"info string unknown command {shown(line.strip())}; known: {', '.join(_COMMANDS)}, quit")
        except TogyzError as error:
            self._explain(error)
        return True

    def close(self) -> None:
        """End the search, which still names its move, and release the player."""
        self._stop([])
        if self._search is not None:
            self._search.join(FAREWELL)
        self._agent.close()

    def _use(self, agent: Agent) -> None:
        self._agent = agent
        self._thinker: Thinker = agent if isinstance(agent, Thinker) else _Plain(agent)

    def _say(self, *lines: str) -> None:
        with self._writing:
            for line in lines:
                self._write(line)

    def _explain(self, error: Exception) -> None:
        self._say(f"info string {' '.join(str(error).split())}")

    def _identify(self, words: list[str]) -> None:
        name = f"id name Togyz {togyz_env.__version__} {agent_name(self._agent)}"
        self._say(name, "id author the Togyz project", *self._options.declared(), "uciok")

    def _warm_up(self, words: list[str]) -> None:
        """Load what the first search needs, so that it does not take from the clock."""
        if not self._ready and not self._searching:
            self._thinker.think(Position.start(), (), Limits(nodes=1))
            self._agent.new_game(self._options.seed)
            self._ready = True
        self._say("readyok")

    def _new_game(self, words: list[str]) -> None:
        self._finish_search()
        self._positions = [Position.start()]
        self._agent.new_game(self._options.seed)
        self._ready = True

    def _set_position(self, words: list[str]) -> None:
        self._positions = read_position(words)

    def _set_option(self, words: list[str]) -> None:
        name, text = read_option(words)
        if self._is_busy():
            self._say(f"info string option {shown(name)} cannot be set during a search; send stop first")
            return
        texts = self._options.set(name, text)
        if texts is not None:
            agent = make_agent(make_description(self._options.name, texts))
            self._agent.close()
            self._options.texts = texts
            self._use(agent)
            self._agent.new_game(self._options.seed)

    def _go(self, words: list[str]) -> None:
        if self._is_busy() or self._waiting is not None:
            self._say("info string a search is going on; send stop first")
            return
        go = read_go(words, self._positions[-1].to_move)
        if go.ignored:
            self._say(f"info string go: {shown(' '.join(go.ignored))} is ignored")
        if go.ponder:  # the opponent's time is not used: the search begins with ponderhit
            self._waiting = go
        else:
            self._begin(go.limits)

    def _ponder_hit(self, words: list[str]) -> None:
        if self._waiting is not None:
            limits, self._waiting = self._waiting.limits, None
            self._begin(limits)

    def _stop(self, words: list[str]) -> None:
        if self._waiting is not None:  # whoever let us ponder waits for a move
            self._waiting = None
            self._begin(Limits(seconds=0.0))
        self._stopping.set()
        if self._searching:
            self._thinker.stop()

    def _is_busy(self) -> bool:
        """Whether a search is going on; one that has been told to stop is waited for."""
        if self._searching and self._stopping.is_set() and self._search is not None:
            self._search.join(FAREWELL)
        return self._searching

    def _finish_search(self) -> None:
        """Stop a search and wait for its move."""
        self._stop([])
        if self._search is not None:
            self._search.join()

    def _begin(self, limits: Limits) -> None:
        self._stopping.clear()
        self._searching = True
        work = (list(self._positions), limits, self._options.lines, self._options.style)
        self._search = threading.Thread(target=self._run, args=work, name="search", daemon=True)
        self._search.start()

    def _run(self, positions: list[Position], limits: Limits, lines: int, style: MoveStyle) -> None:
        """Search and answer; whatever happens, there is exactly one ``bestmove``."""
        answer = NO_MOVE
        try:
            *history, position = positions
            outcome = position.outcome(self._thinker.ruleset)
            if outcome is not None:
                self._say(f"info string the game is over: {outcome.reason}, {outcome.score[0]} to {outcome.score[1]}")
            else:
                answer = write_move(position, self._think(position, history, limits, lines, style), style)
        except TogyzError as error:
            self._explain(error)
        except Exception as error:
            _log.exception("search")
            self._say(f"info string internal error: {' '.join(repr(error).split())}")
        if limits.infinite:  # the protocol asks to wait with the move
            self._stopping.wait()
        self._searching = False  # before the answer: the next command may follow at once
        self._say(f"bestmove {answer}")

    def _think(self, position: Position, history: list[Position], limits: Limits, lines: int, style: MoveStyle) -> int:
        told: list[Thought] = []

        def report(thought: Thought) -> None:
            told[:] = [thought]
            self._say(*info_lines(thought, position, style))
            if self._stopping.is_set():  # it came before the search had begun
                self._thinker.stop()

        thought = self._thinker.think(position, history, limits, lines=lines, report=report)
        if told != [thought]:
            self._say(*info_lines(thought, position, style))
        return thought.hole


_COMMANDS: dict[str, Callable[[Engine, list[str]], None]] = {
    "uci": Engine._identify,
    "isready": Engine._warm_up,
    "ucinewgame": Engine._new_game,
    "position": Engine._set_position,
    "setoption": Engine._set_option,
    "go": Engine._go,
    "stop": Engine._stop,
    "ponderhit": Engine._ponder_hit,
    "debug": lambda engine, words: None,
    "register": lambda engine, words: None,
}


def serve(description: str, lines: Iterable[str], write: Callable[[str], None]) -> None:
    """Answer ``lines`` until ``quit`` or their end."""
    engine = Engine(description, write)
    try:
        for line in lines:
            if not engine.command(line):
                break
    finally:
        engine.close()


def serve_stdio(description: str) -> None:
    """Be an engine on standard input and output until ``quit`` or the end of the input.

    Whatever else writes to the standard output goes to the standard error: the output holds lines of the protocol only.
    """
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def write(line: str) -> None:
        with suppress(OSError):  # whoever asked is gone; the end of the input follows
            output.write(line.encode() + b"\n")

    lines = os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8", errors="replace")
    serve(description, iter(lambda: lines.readline(LONGEST_LINE), ""), write)
