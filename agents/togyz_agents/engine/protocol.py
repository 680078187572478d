"""The lines of the UCI protocol, read and written; `docs/engines.md` says how this game uses it.

The Universal Chess Interface (Huber and Meyer-Kahlen, 2000, revised 2006) with this game's position strings and moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from togyz_agents.agent import Clock
from togyz_agents.thinking import Limits, Thought
from togyz_env.errors import NotationError
from togyz_env.notation import MoveStyle, format_move, parse_move, shown
from togyz_env.position import Position

NO_MOVE = "(none)"
"""In place of a move where the game is over."""
LONGEST_LIMIT = 10**12
_LONGEST_SETTING = 1000
_NUMBERS = ("depth", "nodes", "movetime", "wtime", "btime", "winc", "binc", "movestogo")
_FLAGS = ("infinite", "ponder")


@dataclass(frozen=True, slots=True)
class Go:
    """A ``go`` command.

    Attributes:
        limits: when to stop.
        ponder: whether to wait for ``ponderhit`` first.
        ignored: words that this game's engine does not use.
    """

    limits: Limits
    ponder: bool = False
    ignored: tuple[str, ...] = ()


def read_position(words: Sequence[str]) -> list[Position]:
    """Read what follows ``position``: ``startpos`` or ``fen`` and a position string, then ``moves`` in any notation.

    Returns:
        All positions of the game so far; the last one is meant.

    Raises:
        TogyzError: a wrong word, position or move.
    """
    kind, *rest = words or [""]
    end = rest.index("moves") if "moves" in rest else len(rest)
    if kind == "startpos":
        if end:
            raise NotationError(f"position: {shown(' '.join(rest[:end]))} after 'startpos'; expected 'moves' or nothing")
        positions = [Position.start()]
    elif kind == "fen":
        positions = [Position.from_fen(" ".join(rest[:end]))]
    else:
        raise NotationError(f"position: {shown(kind)}; expected 'startpos' or 'fen'")
    for word in rest[end + 1 :]:
        positions.append(positions[-1].play(parse_move(positions[-1], word)))
    return positions


def read_go(words: Sequence[str], side: int) -> Go:
    """Read what follows ``go``; the clock is that of ``side``, 0 white or 1 black.

    Raises:
        NotationError: a limit without a whole number from 0.
    """
    numbers: dict[str, int] = {}
    flags: set[str] = set()
    ignored: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in _FLAGS:
            flags.add(word)
        elif word in _NUMBERS:
            numbers[word] = _number(word, rest.pop(0) if rest else "")
        else:
            ignored.append(word)
    for name in ("depth", "nodes", "movestogo"):
        if numbers.get(name) == 0:
            raise NotationError(f"go: {name} must be at least 1, not 0")
    if "infinite" in flags:
        return Go(Limits(infinite=True), "ponder" in flags, tuple(ignored))
    colour = "b" if side else "w"
    remaining = numbers.get(f"{colour}time")
    moves_to_go = numbers.get("movestogo")
    seconds = None
    if "movetime" in numbers:
        seconds = numbers["movetime"] / 1000
    elif remaining is not None:
        seconds = Clock(remaining=remaining / 1000, increment=numbers.get(f"{colour}inc", 0) / 1000).seconds_for_a_move()
        if moves_to_go is not None and seconds is not None:
            seconds = max(seconds, 0.9 * remaining / 1000 / (moves_to_go + 1))
    return Go(Limits(numbers.get("depth"), numbers.get("nodes"), seconds), "ponder" in flags, tuple(ignored))


def read_option(words: Sequence[str]) -> tuple[str, str]:
    """Read what follows ``setoption``: ``name`` and a name, ``value`` and a value; both may have spaces.

    Raises:
        NotationError: another form.
    """
    line = " ".join(words)
    if not line.startswith("name ") or len(line) > _LONGEST_SETTING:
        raise NotationError(f"setoption: {shown(line)}; expected 'name NAME value VALUE'")
    name, _, value = line.removeprefix("name ").partition(" value ")
    return name.removesuffix(" value").strip(), "" if value == "<empty>" else value


def write_position(positions: Sequence[Position], moves: Sequence[int]) -> str:
    """Write the ``position`` command for ``positions[0]`` and the holes played from there."""
    start = "startpos" if positions[0] == Position.start() else f"fen {positions[0].fen()}"
    return f"position {start}" + (f" moves {' '.join(map(str, moves))}" if moves else "")


def write_go(limits: Limits, clock: Clock | None) -> str:
    """Write the ``go`` command for ``limits`` and the mover's ``clock``, which stands for both sides."""
    words = ["go"]
    for name, number in (("depth", limits.depth), ("nodes", limits.nodes)):
        words += [] if number is None else [name, str(number)]
    seconds = limits.seconds
    if clock is not None and clock.move_time is not None:
        seconds = clock.move_time if seconds is None else min(seconds, clock.move_time)
    if seconds is not None:
        words += ["movetime", _milliseconds(seconds)]
    elif clock is not None and clock.remaining is not None:
        time, increment = _milliseconds(clock.remaining), _milliseconds(clock.increment or 0.0)
        words += ["wtime", time, "btime", time, "winc", increment, "binc", increment]
    return " ".join(words)


def info_lines(thought: Thought, position: Position, style: MoveStyle) -> list[str]:
    """Write a thought about ``position`` as ``info`` lines, one for each of its lines.

    ``score cp`` is in hundredths of a stone, ``wdl`` in per mille, both for the side to move.
    """
    milliseconds = int(1000 * thought.seconds)
    nps = int(thought.nodes / thought.seconds) if thought.seconds > 0 else 0
    written = []
    for number, line in enumerate(thought.lines, 1):
        words = [f"info depth {thought.depth} multipv {number}"]
        if line.score is not None:
            words.append(f"score cp {line.score}")
            if line.outcome is not None:
                words.append("wdl {} {} {}".format(*per_mille(line.outcome)))
        words.append(f"nodes {thought.nodes} nps {nps} time {milliseconds} pv {' '.join(write_line(position, line.moves, style))}")
        written.append(" ".join(words))
    return written


def write_line(position: Position, moves: Sequence[int], style: MoveStyle) -> list[str]:
    """Write holes played one after the other from ``position``."""
    words = []
    for number, hole in enumerate(moves):
        if number:
            position = position.play(moves[number - 1])
        words.append(write_move(position, hole, style))
    return words


def write_move(position: Position, hole: int, style: MoveStyle) -> str:
    """Write a move as one word."""
    return str(hole) if style == "hole" else format_move(position, hole, style, scores=False)


def per_mille(outcome: Sequence[float]) -> tuple[int, int, int]:
    """Round probabilities of win, draw and loss to thousandths that add up to 1000."""
    win, loss = round(1000 * outcome[0]), round(1000 * outcome[2])
    win, loss = max(0, min(1000, win)), max(0, min(1000, loss))
    if win + loss > 1000:  # both were rounded up
        loss = 1000 - win
    return win, 1000 - win - loss, loss


def _number(name: str, text: str) -> int:
    # a clock that has run out is negative in some programs
    digits = text.removeprefix("-") if name.endswith("time") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(LONGEST_LIMIT)):
        raise NotationError(f"go: {name} {shown(text)}; expected a whole number")
    return 0 if text.startswith("-") else int(text)


def _milliseconds(seconds: float) -> str:
    return str(max(0, round(1000 * seconds)))
