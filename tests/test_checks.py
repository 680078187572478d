"""The public conformance check, on implementations that are right and on ones that are wrong in one thing.

1. Ours and the slow reference pass, and the package carries the facts. 2. Each wrong rule is found, by the fact that names it.
3. An answer in the wrong form and an implementation that fails are failures that say so.
4. A failure shows the fact, the call, what is expected and what was given.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from boards import FACTS
from reference_rules import Board

from togyz_env import ConfigError, ConformanceError, Position
from togyz_env.checks import ENDS, Failure, check_implementation, position_implementation
from togyz_env.notation import format_position

QUICK = {"perft_positions": 100, "games": 4}


def reference(fen: str, moves: list[int], end: str, fault: str = "") -> Any:
    """The slow reference of the tests, which shares nothing with the package's rules; with one ``fault`` built in, if named."""
    board = Board.of(list(Position.from_fen(fen).row))
    for hole in moves:
        if fault:
            play_faulty(board, hole, fault)
        else:
            board.play(hole)
    over = end_faulty(board, end == "playout", fault) if fault else board.end(end == "playout")
    result = None
    if over is not None:
        white, black = over[-2:]
        result = (None if white == black else int(white < black), white, black)
    return format_position(board.row(), board.mover), board.legal(), result


def play_faulty(board: Board, number: int, fault: str) -> None:
    me, other = board.mover, 1 - board.mover
    board.mover = other
    start = row, place = me, number - 1
    stones, board.rows[row][place] = board.rows[row][place], 0
    stays = stones > 1 or fault == "a single stone stays"
    swallowed = False
    for n in range(stones):
        steps = n > 0 or not stays or fault == "the first stone goes to the next hole"
        while steps:
            row, place = (row, place + 1) if place < 8 else (1 - row, 0)
            steps = fault == "a round leaves out the starting hole" and (row, place) == start
        swallowed = board.tuzdyks[1 - row] == place + 1
        if swallowed:
            board.kazans[me if fault == "a tuzdyk feeds the sower" else 1 - row] += 1
        else:
            board.rows[row][place] += 1
    count = board.rows[row][place]
    if swallowed or (row == me and fault != "captures in the mover's own row"):
        return
    allowed = (
        row == other
        and (board.tuzdyks[me] == 0 or fault == "a second tuzdyk")
        and (place != 8 or fault == "a tuzdyk in hole 9")
        and (board.tuzdyks[other] != place + 1 or fault == "a mirrored tuzdyk")
        and fault != "no tuzdyk at all"
    )
    if count == 3 and allowed:
        board.tuzdyks[me] = place + 1
    elif count % 2 == (fault != "captures odd numbers") and not (count == 3 and fault == "three are captured without a tuzdyk"):
        return
    board.kazans[other if fault == "the opponent gets the captured stones" else me] += count
    board.rows[row][place] = 0


def end_faulty(board: Board, playout: bool, fault: str) -> tuple[int, int] | None:
    white, black = board.kazans
    rows = [sum(row) for row in board.rows]
    limit = {"wins with 81": 81, "wins with 83": 83}.get(fault, 82)
    if max(white, black) >= limit and (not playout or fault == "playout ends at 82"):
        return white, black
    if fault == "atsyrau as soon as any row is empty" and min(rows) == 0:
        return white + rows[0], black + rows[1]
    if rows[board.mover]:
        return None
    if fault == "atsyrau leaves the stones on the board":
        return white, black
    if (board.mover == 0) == (fault == "atsyrau gives the stones to the player who has none"):
        return white + sum(rows), black
    return white, black + sum(rows)


# A fault, and words of the fact that must find it.
FAULTS = {
    "a single stone stays": "a single stone moves on",
    "the first stone goes to the next hole": "printed example 1",
    "a round leaves out the starting hole": "more than 18 stones",
    "a tuzdyk feeds the sower": "into the opponent's tuzdyk",
    "captures in the mover's own row": "in the mover's own row captures nothing",
    "captures odd numbers": "an odd number above three",
    "the opponent gets the captured stones": "printed example 1",
    "three are captured without a tuzdyk": "no second tuzdyk",
    "a second tuzdyk": "no second tuzdyk",
    "a tuzdyk in hole 9": "no tuzdyk in hole 9",
    "a mirrored tuzdyk": "no tuzdyk with the opponent's number",
    "no tuzdyk at all": "printed example 2",
    "wins with 81": "81 stones are not enough",
    "wins with 83": "the opponent's tuzdyk can win for him",
    "playout ends at 82": "with playout a game goes on after 82",
    "atsyrau as soon as any row is empty": "has not lost yet",
    "atsyrau leaves the stones on the board": "printed example 3",
    "atsyrau gives the stones to the player who has none": "printed example 3",
}


def failures(implementation: Any, **arguments: Any) -> list[Failure]:
    with pytest.raises(ConformanceError) as caught:
        check_implementation(implementation, **{**QUICK, **arguments})
    found: list[Any] = list(caught.value.failures)
    assert str(found[0]) in str(caught.value)
    assert "\n" not in str(caught.value)
    return found


def test_our_own_implementation_passes_every_fact() -> None:
    cases = 2 * (len((FACTS / "cases.jsonl").read_text().splitlines()) - 1)
    assert check_implementation(position_implementation) == cases + 6 + 120


def test_the_slow_reference_passes() -> None:
    assert check_implementation(reference, **QUICK) > 70
    assert check_implementation(partial(reference, fault="none"), **QUICK) > 70  # what the faults are built into


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_named(fault: str) -> None:
    facts = [failure.fact for failure in failures(partial(reference, fault=fault))]
    assert any(FAULTS[fault] in fact for fact in facts), facts


def test_games_alone_find_a_wrong_rule_at_its_ply() -> None:
    found = [failure for failure in failures(partial(reference, fault="no tuzdyk at all")) if failure.fact.startswith("game 1,")]
    (failure,) = found
    plies = json.loads((FACTS / "games.jsonl").read_text().splitlines()[0])["plies"]
    ply = int(failure.fact.split()[-1])
    first = next(number for number, (_, fen) in enumerate(plies, start=1) if "t" in fen.lower())
    assert (ply, failure.expected) == (first, repr(plies[first - 1][1]))


def test_a_wrong_count_is_traced_to_the_position_behind_it() -> None:
    wrong = Position.start().play(7).play(1).fen()

    def forgets_a_move(fen: str, moves: list[int], end: str) -> Any:
        text, legal, result = position_implementation(fen, moves, end)
        return text, [hole for hole in legal if hole != 9 or text != wrong], result

    (failure,) = (failure for failure in failures(forgets_a_move) if failure.fact.startswith("perft of '9S,9S,9S,9S,9S"))
    assert failure.fact.endswith("depth 3")
    # Black's ten from hole 1 have ended in white's hole 1 and captured all of it.
    assert failure.expected == "legal holes [2, 3, 4, 5, 6, 7, 8, 9]"
    assert failure.given == "legal holes [2, 3, 4, 5, 6, 7, 8]"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (None, "None"),
        (("9/9 81 81 S 1", [1]), "('9/9 81 81 S 1', [1])"),
        (("9/9 81 81 S 1", None, None), "('9/9 81 81 S 1', None, None)"),
        (("9/9 81 81 S 1", [], 0), "('9/9 81 81 S 1', [], 0)"),
        (("9/9 80 81 S 1", [], None), "'9/9 80 81 S 1' (stones: 161"),
        ((7, [], None), "7"),
        (("9/9 81 81 S 1", [1.5], None), "('9/9 81 81 S 1', [1.5], None)"),
        (("9/9 81 81 S 1", [], (0, float("inf"), 0)), "('9/9 81 81 S 1', [], (0, inf, 0))"),
        (("9/9 81 81 S 1", [], (0, 81.5, 81)), "('9/9 81 81 S 1', [], (0, 81.5, 81))"),
    ],
)
def test_an_answer_in_the_wrong_form_is_shown(given: Any, shown: str) -> None:
    assert failures(lambda fen, moves, end: given)[0].given.startswith(shown)


def test_an_implementation_that_fails_is_a_failure_of_each_fact() -> None:
    def breaks(fen: str, moves: list[int], end: str) -> Any:
        raise KeyError(fen)

    found = failures(breaks)
    assert len(found) == check_implementation(position_implementation, **QUICK)
    assert found[0].given.startswith("KeyError: ")
    assert found[0].call == f"({Position.start().fen()!r}, [], 'majority')"


def test_only_what_is_asked_for_is_checked_and_impossible_wishes_are_refused() -> None:
    asked = set()

    def records(fen: str, moves: list[int], end: str) -> Any:
        asked.add(end)
        return position_implementation(fen, moves, end)

    assert check_implementation(records, ends=["playout"], games=4) < check_implementation(position_implementation, **QUICK)
    assert asked == {"playout"}
    for ends in ([], ["national"]):
        with pytest.raises(ConfigError, match=r"ends: .*'majority', 'playout'"):
            check_implementation(records, ends=ends)
    for numbers in ({"games": -1}, {"games": 1.5}, {"perft_positions": -1}, {"perft_positions": "all"}):
        with pytest.raises(ConfigError, match=f"{next(iter(numbers))}: .*; expected a whole number from 0"):
            check_implementation(records, **numbers)  # type: ignore[arg-type]
    assert ENDS == ("majority", "playout")


def test_move_numbers_and_the_moves_of_a_finished_game_do_not_matter() -> None:
    def minimal(fen: str, moves: list[int], end: str) -> Any:
        text, legal, result = position_implementation(fen, moves, end)
        return text.rsplit(" ", 1)[0].replace("t", "T") + " 1", [] if result else legal[::-1], result

    assert check_implementation(minimal, **QUICK) > 70
