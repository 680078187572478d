"""Position strings from kernels: the same text as ``notation.format_position``, written into a buffer of bytes.

In Python a position string costs as much as several moves; here a fraction of a microsecond, so that it can stand in every
``info``. The format is described in ``togyz_env.notation``.
"""

from __future__ import annotations

import numpy as np

from togyz_env.rules import BLACK, HOLES, KAZAN, RING, TO_MOVE, TUZDYK, int64, kernel

FEN_SIZE = 128
"""Bytes of a buffer that holds every position string (the longest position has 18 holes of two digits: 106 bytes)."""

_ZERO, _COMMA, _SLASH, _SPACE = 48, 44, 47, 32
_S, _N, _T, _t = 83, 78, 84, 116


@kernel
def _put_number(out: np.ndarray, n: int, number: int) -> int:
    size = 1
    rest = number // 10
    while rest > 0:
        size += 1
        rest //= 10
    for i in range(n + size - 1, n - 1, -1):
        out[i] = _ZERO + number % 10
        number //= 10
    return n + size


@kernel
def _put_row(state: np.ndarray, first: int, step: int, tuzdyk: int, letter: int, out: np.ndarray, n: int) -> int:
    """Write nine holes from ring index ``first`` on; ``tuzdyk`` is the ring index of the row's tuzdyk, or -1."""
    run = 0
    begin = n
    hole = first
    for i in range(HOLES + 1):
        stones = int64(state[hole]) if i < HOLES else 0
        is_tuzdyk = i < HOLES and hole == tuzdyk
        if i < HOLES and stones == 0 and not is_tuzdyk:
            run += 1
        else:
            if run > 0:
                if n > begin:
                    out[n] = _COMMA
                    n += 1
                out[n] = _ZERO + run
                n += 1
                run = 0
            if i < HOLES:
                if n > begin:
                    out[n] = _COMMA
                    n += 1
                if is_tuzdyk:
                    out[n] = letter
                else:
                    n = _put_number(out, n, stones)
                    out[n] = _S
                n += 1
        hole += step
    return n


@kernel
def write_fen(state: np.ndarray, ply: int, out: np.ndarray) -> int:
    """Write the position string of ``state uint8[23]`` after ``ply`` half-moves into ``out uint8[FEN_SIZE]``; return its length."""
    white, black = int64(state[TUZDYK]), int64(state[TUZDYK + 1])
    n = _put_row(state, RING - 1, -1, HOLES + white - 1 if white > 0 else -1, _T, out, 0)
    out[n] = _SLASH
    n = _put_row(state, 0, 1, black - 1, _t, out, n + 1)
    out[n] = _SPACE
    n = _put_number(out, n + 1, int64(state[KAZAN]))
    out[n] = _SPACE
    n = _put_number(out, n + 1, int64(state[KAZAN + 1]))
    out[n] = _SPACE
    out[n + 1] = _N if state[TO_MOVE] == BLACK else _S
    out[n + 2] = _SPACE
    return _put_number(out, n + 3, ply // 2 + 1)


@kernel
def _write_fens(states: np.ndarray, plies: np.ndarray, out: np.ndarray) -> None:
    for b in range(states.shape[0]):
        end = write_fen(states[b], int64(plies[b]), out[b])
        out[b, end:] = 0


def fens(states: np.ndarray, plies: np.ndarray) -> list[str]:
    """Return the position strings of ``states uint8[B, 23]``, ``plies int[B]`` half-moves into their games."""
    out = np.empty((len(states), FEN_SIZE), np.uint8)
    _write_fens(states, plies, out)
    texts: list[str] = out.view(f"S{FEN_SIZE}")[:, 0].astype(f"U{FEN_SIZE}").tolist()
    return texts
