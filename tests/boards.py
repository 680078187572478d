"""Positions written down for tests, and the conformance data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import togyz_env
from togyz_env import Position

DATA = Path(__file__).parent / "data"
FACTS = Path(togyz_env.__file__).parent / "data"


def board(
    white: str, black: str, white_kazan: int | None = None, *, tuzdyks: tuple[int, int] = (0, 0), to_move: int = 0
) -> Position:
    """Make a position of counts in holes 1..9 of each row; the black kazan gets the stones that are left of 162.

    Without ``white_kazan`` the rest is halved.
    """
    holes = [int(cell) for cell in (white + " " + black).split()]
    rest = 162 - sum(holes)
    kazan = rest // 2 if white_kazan is None else white_kazan
    return Position.from_state([*holes, kazan, rest - kazan, *tuzdyks, to_move])


def games() -> list[dict[str, Any]]:
    """Return the 120 games of the conformance data."""
    return [json.loads(line) for line in (FACTS / "games.jsonl").read_text().splitlines()]


def random_positions(count: int, seed: int) -> Iterator[Position]:
    """Yield positions of random play that are not over."""
    rng = np.random.default_rng(seed)
    position = Position.start()
    for _ in range(count):
        yield position
        position = position.play(int(rng.choice(position.legal_moves())))
        if position.outcome() is not None:
            position = Position.start()
