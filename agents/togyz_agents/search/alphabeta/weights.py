"""Weights of the evaluation "full"."""

from __future__ import annotations

SCALE = 700.0
EMPTY_BOARD = (0, 100, *(0,) * 29)
FULL_BOARD = (0, 100, *(0,) * 29)
