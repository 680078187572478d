"""Any program that speaks the UCI protocol, as a player."""

from __future__ import annotations

import inspect
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from togyz_agents.agent import Clock
from togyz_agents.engine.process import EngineProcess
from togyz_agents.engine.protocol import write_go, write_position
from togyz_agents.thinking import Limits
from togyz_agents.yaml_file import read_yaml
from togyz_env.errors import ConfigError, EngineError, IllegalMoveError, NotationError
from togyz_env.notation import parse_move, shown
from togyz_env.position import Position

FAILED_GAMES = 3
"""Games in a row that the engine may fail; after that it is not started again."""


class UciAgent:
    """Plays the moves of another program, which is started with the first game and kept until ``close``.

    A crash, silence, an illegal move or garbage raises ``EngineError`` and kills the program: the game is lost. The next game
    starts it again. The program is told the game's seed if it has an option ``Seed``.

    Args:
        command: the program and its arguments, as in a shell, or a list of them.
        file: a YAML file with any of these parameters, in place of all others.
        depth: plies to look ahead.
        nodes: positions or simulations for each move.
        movetime: seconds for each move. A clock holds beside these limits; without any limit it gets a bare ``go``, which not every
            program ends by itself.
        options: what to set before the first game, ``Hash=64;Ponder=false`` or a mapping.
        timeout: seconds for a move without a limit in time.
        overtime: seconds that an answer may take beyond the time given for the move.
        start: seconds to start and to get ready for a game.
        directory: where the program runs.

    Raises:
        ConfigError: no such program, or a value that cannot be.
    """

    def __init__(
        self,
        command: str | Sequence[str] | None = None,
        file: Path | None = None,
        depth: int | None = None,
        nodes: int | None = None,
        movetime: float | None = None,
        options: str | Mapping[str, object] = "",
        timeout: float = 60.0,
        overtime: float = 5.0,
        start: float = 60.0,
        directory: Path | None = None,
    ) -> None:
        """Check the parameters; the program is started later."""
        given: dict[str, Any] = {key: value for key, value in locals().items() if key in _PARAMETERS}
        if file is not None:
            defaults = {key: parameter.default for key, parameter in inspect.signature(UciAgent).parameters.items()}
            beside = [key for key in given if key != "file" and given[key] != defaults[key]]
            if beside:
                raise ConfigError(f"uci: {', '.join(beside)} beside file={str(file)!r}; put all into the file")
            given = defaults | _read_file(Path(file))
        self._limits, self._seconds = _limits(given)
        self._options = _options(given["options"])
        self._directory = None if given["directory"] is None else Path(given["directory"])
        self._arguments = _arguments(given["command"], self._directory)
        settings = {"depth": given["depth"], "nodes": given["nodes"], "movetime": given["movetime"]}
        shown_settings = "".join(f",{key}={value}" for key, value in settings.items() if value is not None)
        self.name = f"uci:{shlex.join(self._arguments) if file is None else file}{shown_settings}"
        self._process: EngineProcess | None = None
        self._largest_seed: int | None = None
        self._failures = 0
        self._failed = False
        self._line: tuple[Position, ...] = ()
        self._moves: tuple[int, ...] = ()

    def new_game(self, seed: int) -> None:
        """Tell the program that a game begins, starting it where it does not run.

        Raises:
            EngineError: it does not get ready, or failed too many games in a row.
        """
        self._failures = self._failures + 1 if self._failed else 0
        if self._failures >= FAILED_GAMES:
            raise EngineError(f"engine {self.name!r}: failed {self._failures} games in a row; it is not started again")
        self._failed = True
        process = self._started()
        if self._largest_seed is not None:
            process.send(f"setoption name Seed value {seed % (self._largest_seed + 1)}")
        process.send("ucinewgame")
        self._synchronise(process, "getting ready for a game")
        self._line, self._moves = (), ()
        self._failed = False

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return the program's move, a hole 1..9.

        Raises:
            EngineError: it gave none in time, or one that is no legal move.
        """
        if self._process is None or not self._process.is_alive:
            if self._failed:
                raise EngineError(f"engine {self.name!r}: is not running after its failure; a new game starts it again")
            self.new_game(0)
        process = self._started()
        self._failed = True
        try:
            return self._ask(process, position, history, clock)
        finally:
            self._failed = not process.is_alive

    def close(self) -> None:
        """Ask the program to quit, and make sure that it does."""
        if self._process is not None:
            self._process.quit()
            self._process = None

    def _started(self) -> EngineProcess:
        """The running program, started and set up if need be."""
        if self._process is None or not self._process.is_alive:
            self._process = EngineProcess(self.name, self._arguments, self._directory)
            self._process.send("uci")
            self._set_up(self._process)
        return self._process

    def _set_up(self, process: EngineProcess) -> None:
        lines: list[str] = []
        process.wait_for("uciok", self._seconds["start"], "starting", lines)
        declared = {match[1].lower(): match[2] for match in map(_OPTION.fullmatch, lines) if match}
        for name, value in self._options.items():
            if name.lower() not in declared:
                raise process.failure(f"has no option {shown(name)}; it has: {', '.join(sorted(declared)) or 'none'}")
            process.send(f"setoption name {name} value {value or '<empty>'}")
        most = re.search(r" max ([0-9]{1,18})\b", declared.get("seed", ""))
        self._largest_seed = int(most[1]) if most and "seed" not in map(str.lower, self._options) else None
        self._synchronise(process, "starting")

    def _synchronise(self, process: EngineProcess, doing: str) -> None:
        process.send("isready")
        process.wait_for("readyok", self._seconds["start"], doing)

    def _ask(self, process: EngineProcess, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        self._follow((*history, position))
        process.send(write_position(self._line, self._moves))
        self._synchronise(process, "told the position")  # whatever it still says of the last search is over then
        command = write_go(self._limits, clock)
        process.send(command)
        seconds = self._patience(clock)
        doing = f"asked for a move by {command!r} in {position.fen()!r}"
        if command == "go":
            doing += " (nodes, depth or movetime would limit its search)"
        answer = process.wait_for("bestmove", seconds, doing).split()
        text = answer[1] if len(answer) > 1 else ""
        try:
            return parse_move(position, text)
        except IllegalMoveError:
            what = f"played the illegal move {shown(text)}"
        except NotationError:
            what = f"answered {shown(' '.join(answer))}, which is no move,"
        raise process.failure(f"{what} in {position.fen()!r}; legal moves: {position.legal_moves()}")

    def _patience(self, clock: Clock | None) -> float:
        """Seconds until a missing answer is a failure."""
        times = [self._limits.seconds]
        if clock is not None:
            times += [clock.move_time if clock.move_time is not None else clock.remaining]
        given = [seconds for seconds in times if seconds is not None]
        return min(given) + self._seconds["overtime"] if given else self._seconds["timeout"]

    def _follow(self, line: tuple[Position, ...]) -> None:
        """Note the game so far, as the moves that lead through ``line``; only its end if they do not."""
        known = len(self._line)
        moves = list(self._moves) if known and line[:known] == self._line else []
        for before, after in zip(line[len(moves) :], line[len(moves) + 1 :]):
            hole = next((hole for hole in before.legal_moves() if before.play(hole) == after), None)
            if hole is None:
                line, moves = line[-1:], []
                break
            moves.append(hole)
        self._line, self._moves = line, tuple(moves)


_OPTION = re.compile(r"option\s+name\s+(.+?)\s+type\s+(.*)")
_PARAMETERS = ("command", "file", "depth", "nodes", "movetime", "options", "timeout", "overtime", "start", "directory")


def _read_file(path: Path) -> dict[str, Any]:
    """The parameters in a YAML file."""
    content = read_yaml(path, "uci")
    if not isinstance(content, dict):
        raise ConfigError(f"uci: {str(path)!r} holds {shown(content)}; expected keys and values")
    known = [key for key in _PARAMETERS if key != "file"]
    for key in content:
        if key not in known:
            raise ConfigError(f"uci: unknown key {shown(key)} in {str(path)!r}; known: {', '.join(known)}")
    return content


def _limits(given: Mapping[str, Any]) -> tuple[Limits, dict[str, float]]:
    """The limits of a search, and the times that we wait."""
    for key in ("depth", "nodes"):
        value = given[key]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"uci: {key} must be a whole number from 1, not {shown(value)}")
    for key in ("movetime", "timeout", "overtime", "start"):
        value = given[key]
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1e6
        if not number and not (key == "movetime" and value is None):
            raise ConfigError(f"uci: {key} must be more than 0 seconds and at most a million, not {shown(value)}")
    seconds = None if given["movetime"] is None else float(given["movetime"])
    return Limits(given["depth"], given["nodes"], seconds), {key: float(given[key]) for key in ("timeout", "overtime", "start")}


def _options(given: object) -> dict[str, str]:
    """Names and values to set."""
    if isinstance(given, str):
        pairs = [part.partition("=") for part in given.split(";") if part.strip()]
        wrong = [name for name, equals, _ in pairs if not equals or not name.strip()]
        if wrong:
            raise ConfigError(f"uci: option {shown(wrong[0])} has no value; expected 'Name=value;Name=value'")
        options = {name.strip(): value.strip() for name, _, value in pairs}
    elif isinstance(given, Mapping):
        options = {str(name): _setting(value) for name, value in given.items()}
    else:
        raise ConfigError(f"uci: options {shown(given)}; expected names and values")
    for name, value in options.items():
        if not (name + value).isprintable():
            raise ConfigError(f"uci: option {shown(name)}={shown(value)} does not fit into a line")
    return options


def _setting(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _arguments(command: object, directory: Path | None) -> list[str]:
    """The program and its arguments."""
    if isinstance(command, str):
        try:
            arguments = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"uci: command {shown(command)}: {error}") from None
    elif isinstance(command, Sequence) and all(isinstance(word, (str, Path)) for word in command):
        arguments = [str(word) for word in command]
    else:
        raise ConfigError(f"uci: command {shown(command)}; expected a program with its arguments")
    if not arguments:
        raise ConfigError("uci: the command is empty; expected a program with its arguments")
    if directory is not None and not directory.is_dir():
        raise ConfigError(f"uci: directory {str(directory)!r} does not exist")
    # the system looks for a relative file in the program's own directory
    place = directory / arguments[0] if directory is not None and "/" in arguments[0] else arguments[0]
    if not shutil.which(place):
        raise ConfigError(f"uci: no program {arguments[0]!r} to run; expected one in the path or a file that can be executed")
    return arguments
