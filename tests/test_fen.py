"""Position strings written by kernels are those that ``Position.fen`` writes and ``from_fen`` reads.

1. In games, in positions with huge holes, tuzdyks and runs of empty holes, and after many plies.
2. Whatever the buffer held before.
"""

from __future__ import annotations

import numpy as np
from boards import board, games, random_positions

from togyz_env import Position
from togyz_env.fen import FEN_SIZE, fens, write_fen

CRAFTED = [
    Position.start(),
    board("162 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 0", 0),
    board("0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 162", 0, to_move=1),
    board("0 0 0 0 0 0 0 0 153", "0 9 0 0 0 0 0 0 0", 0),
    board("0 0 0 0 0 0 0 0 1", "0 0 0 0 0 0 0 0 0", 161),
    board("0 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 1", 0, tuzdyks=(1, 8)),
    board("0 7 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 0 1", 50, tuzdyks=(8, 1), to_move=1),
    board("1 0 2 37 0 36 2 2 0", "0 2 0 2 20 19 2 2 5", 3, tuzdyks=(1, 2)),
    board("19 19 19 19 19 19 19 19 10", "0 0 0 0 0 0 0 0 0", 0),
]


def test_kernels_write_what_people_read() -> None:
    positions = [*CRAFTED, *random_positions(3000, 5)]
    states = np.stack([position.state for position in positions])
    plies = np.array([position.ply for position in positions])
    texts = fens(states, plies)
    assert texts == [position.fen() for position in positions]
    assert [Position.from_fen(text) for text in texts] == positions


def test_the_strings_of_the_conformance_games_come_back() -> None:
    expected = [fen for game in games()[:20] for _, fen in game["plies"]]
    positions = [Position.from_fen(fen) for fen in expected]
    states = np.stack([position.state for position in positions])
    assert fens(states, np.array([position.ply for position in positions])) == expected


def test_large_move_numbers_and_old_content_of_the_buffer() -> None:
    buffer = np.full(FEN_SIZE, ord("x"), np.uint8)
    for ply in (0, 17, 18, 19, 198, 1998, 2000, 123456):
        for position in CRAFTED:
            position = Position.from_state(position.state, ply)
            length = write_fen(position.state, position.ply, buffer)
            assert buffer[:length].tobytes().decode() == position.fen()
            assert length < FEN_SIZE
