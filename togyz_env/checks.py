"""A public conformance check: known facts about the game against anyone's implementation of it.

The facts lie in ``togyz_env/data``: hard cases worked out by hand (``cases.jsonl``, each also with the colours swapped), counts
of legal sequences on which three independent programs agree (``perft.txt``), and 120 whole games (``games.jsonl``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from togyz_env.errors import ConfigError, ConformanceError, NotationError, PositionError
from togyz_env.notation import shown
from togyz_env.position import Position, Ruleset

ENDS = ("majority", "playout")
_WINNERS = {"white": 0, "black": 1, None: None}
EXPECTED_ANSWER = "(position string, legal holes, None or (winner, white's stones, black's stones))"

Result = tuple[int | None, int, int] | None
"""Winner (0 white, 1 black, None for a draw) and the stones of white and black; None while the game goes on."""
Implementation = Callable[[str, list[int], str], tuple[str, Sequence[int], Result]]
"""``(position string, holes to play, "majority" or "playout") -> (position string, legal holes, result)``."""


@dataclass(frozen=True)
class Failure:
    """A fact with which an implementation disagrees.

    Attributes:
        fact: which one: the hard case, the perft line or the game and its ply.
        call: what the implementation was asked, as Python writes the call's arguments.
        expected, given: what is right, and what came.
    """

    fact: str
    call: str
    expected: str
    given: str

    def __str__(self) -> str:
        """All in one line."""
        return f"{self.fact}: {self.given} from {self.call}; expected {self.expected}"


class _WrongError(Exception):
    """Carries a failure to the fact that it belongs to; never leaves this module."""


def check_implementation(
    implementation: Implementation, *, ends: Sequence[str] = ENDS, perft_positions: int = 2_000, games: int | None = None
) -> int:
    """Check an implementation of the game against every known fact; the ply limit is left out.

    Args:
        implementation: a function ``(fen, moves, end) -> (fen, legal, result)``. It sets up the position of the string ``fen``
            (form: ``togyz_env.notation``), plays ``moves``, a list of holes 1..9, each for the side to move then, and returns
            the position string that it comes to, the legal holes there, and None or ``(winner, white's stones, black's
            stones)`` if the game is over: winner 0 for white, 1 for black, None for a draw. ``end`` is "majority" or "playout".
            The move number in the string and the legal holes of a finished game are not looked at.
        ends: end rules that the implementation has.
        perft_positions: most positions to set up for one line of counts; deeper counts are left out.
        games: how many of the whole games to replay; all by default.

    Returns:
        The number of facts, all of which agree: hard cases, counts and games.

    Raises:
        ConformanceError: it disagrees with a fact, or fails; the message shows the first one, ``failures`` has them all.
        ConfigError: an unknown end rule, or none; numbers of positions or games that are none.
    """
    for name, number in (("perft_positions", perft_positions), ("games", games)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
            raise ConfigError(f"{name}: {shown(number)}; expected a whole number from 0")
    if not ends or any(end not in ENDS for end in ends):
        raise ConfigError(f"ends: {shown(ends)}; expected some of {', '.join(map(repr, ENDS))}")
    failures: list[Failure] = []
    facts = 0
    for check in _facts(_Examiner(implementation), ends, perft_positions, games):
        facts += 1
        try:
            check()
        except _WrongError as wrong:
            failures.append(wrong.args[0])
    if failures:
        raise ConformanceError(f"{len(failures)} of {facts} facts disagree; the first: {failures[0]}", tuple(failures))
    return facts


def position_implementation(fen: str, moves: list[int], end: str) -> tuple[str, list[int], Result]:
    """This package's own ``Position`` in the form that ``check_implementation`` takes: an example to copy."""
    position = Position.from_fen(fen)
    for hole in moves:
        position = position.play(hole)
    outcome = position.outcome(Ruleset(end=end))  # type: ignore[arg-type]
    return position.fen(), position.legal_moves(), None if outcome is None else (outcome.winner, *outcome.score)


class _Examiner:
    """Asks an implementation and compares its answers."""

    def __init__(self, implementation: Implementation) -> None:
        self.implementation = implementation

    def ask(self, fact: str, fen: str, moves: list[int], end: str) -> tuple[Position, list[int], Result]:
        """Return the answer in our own types."""

        def wrong(given: str, expected: str = EXPECTED_ANSWER) -> _WrongError:
            return _WrongError(Failure(fact, _call(fen, moves, end), expected, given))

        try:
            answer: Any = self.implementation(fen, list(moves), end)
        except Exception as error:
            raise wrong(f"{type(error).__name__}: {error}") from None
        try:
            text, legal, result = answer
            holes = sorted(_whole(hole) for hole in legal)
            if result is not None:
                winner, white, black = result
                result = (winner if winner is None else _whole(winner), _whole(white), _whole(black))
        except (TypeError, ValueError, OverflowError):
            raise wrong(shown(answer)) from None
        try:
            return Position.from_fen(text), holes, result
        except (TypeError, NotationError, PositionError) as error:
            raise wrong(f"{shown(text)} ({error})", "the string of a possible position") from None

    def compare(self, fact: str, fen: str, moves: list[int], end: str, after: Position, result: Result) -> None:
        """Ask, and compare the answer with the position ``after`` and the ``result``."""
        position, legal, given = self.ask(fact, fen, moves, end)
        pairs = [
            (repr(after.fen()), repr(position.fen()), position.row == after.row),
            (f"result {result}", f"result {given}", result == given),
        ]
        if result is None:
            pairs.append((f"legal holes {after.legal_moves()}", f"legal holes {legal}", legal == after.legal_moves()))
        for expected, got, same in pairs:
            if not same:
                raise _WrongError(Failure(fact, _call(fen, moves, end), expected, got))

    def game(self, fact: str, plies: list[tuple[int, str]], end: str, result: Result) -> None:
        """Replay a game ply by ply, then in one call."""
        fen = Position.start().fen()
        for ply, (hole, after) in enumerate(plies, start=1):
            last = ply == len(plies)
            self.compare(f"{fact}, ply {ply}", fen, [hole], end, Position.from_fen(after), result if last else None)
            fen = after
        self.compare(f"{fact}, whole", Position.start().fen(), [hole for hole, _ in plies], end, Position.from_fen(fen), result)

    def perft(self, fact: str, fen: str, counts: list[int], most: int) -> None:
        """Count legal sequences level by level under "majority"; a wrong count is traced to the first wrong answer behind it."""
        asked: list[tuple[str, list[int]]] = [(fen, [])]
        level = [self.ask(fact, fen, [], "majority")]
        for depth, expected in enumerate(counts, start=1):
            moves = [(position.fen(), [hole]) for position, legal, result in level if result is None for hole in legal]
            if len(moves) != expected:
                for text, holes in asked:
                    after = position_implementation(text, holes, "majority")
                    self.compare(f"{fact}, depth {depth}", text, holes, "majority", Position.from_fen(after[0]), after[2])
                raise _WrongError(Failure(f"{fact}, depth {depth}", repr(fen), str(expected), str(len(moves))))
            if len(asked) + len(moves) > most:
                return
            asked += moves
            level = [self.ask(f"{fact}, depth {depth}", text, holes, "majority") for text, holes in moves]


def _facts(examiner: _Examiner, ends: Sequence[str], perft_positions: int, games: int | None) -> Iterator[Callable[[], None]]:
    """Yield every fact as a function that raises ``_WrongError`` if the implementation disagrees."""
    for case in _json_lines("cases.jsonl")[1:]:
        if case["end"] in ends:
            before, after = Position.from_fen(case["fen"]), Position.from_fen(case["after"])
            result = None if case["outcome"] is None else tuple(case["outcome"])
            name = f"hard case {case['name']!r}"
            yield partial(examiner.compare, name, before.fen(), case["moves"], case["end"], after, result)
            if result is not None:
                winner = None if result[0] is None else 1 - result[0]
                result = (winner, result[2], result[1])
            name = f"{name} with the colours swapped"
            yield partial(examiner.compare, name, before.mirrored().fen(), case["moves"], case["end"], after.mirrored(), result)
    if "majority" in ends:
        for line in _lines("perft.txt"):
            if not line.startswith("#"):
                fen, counts = line.split(" ; ")
                yield partial(examiner.perft, f"perft of {fen!r}", fen, [int(count) for count in counts.split()], perft_positions)
    for number, game in enumerate(_json_lines("games.jsonl")[:games], start=1):
        if game["end_rule"] in ends:
            result = (_WINNERS[game["winner"]], *game["score"])
            yield partial(examiner.game, f"game {number}", game["plies"], game["end_rule"], result)


def _whole(value: Any) -> int:
    """A whole number of any type, as text or as a float too; ValueError for 1.5, which ``int`` would cut off."""
    number = int(value)
    if not isinstance(value, str) and number != value:
        raise ValueError(value)
    return number


def _call(fen: str, moves: list[int], end: str) -> str:
    return f"({fen!r}, {moves}, {end!r})"


def _lines(name: str) -> list[str]:
    return [line for line in (files("togyz_env") / "data" / name).read_text(encoding="utf-8").splitlines() if line]


def _json_lines(name: str) -> list[Any]:
    return [json.loads(line) for line in _lines(name)]
