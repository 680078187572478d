"""Weights of the evaluation "full", for the side to move, in hundredths of a stone. Made by:

python scripts/fit_evaluation.py --games 3000 --rounds 2 --depth 4
"""

from __future__ import annotations

SCALE = 1054.0
"""Score of which the odds of winning are e : 1."""

EMPTY_BOARD = (
    -107,  # tempo
    138,  # kazans
    -8,  # stones in the row
    970,  # mobility
    118,  # my best capture
    -48,  # their best capture
    102,  # my second capture
    -74,  # their second capture
    1982,  # my tuzdyk threat
    -1181,  # their tuzdyk threat
    -153,  # holes of 1
    115,  # holes of 2 open to a tuzdyk
    -65,  # odd holes
    610,  # holes above 12
    -91,  # stones in hole 1
    88,  # stones in hole 2
    23,  # stones in hole 3
    30,  # stones in hole 4
    6,  # stones in hole 5
    16,  # stones in hole 6
    -25,  # stones in hole 7
    -66,  # stones in hole 8
    -35,  # stones in hole 9
    2585,  # tuzdyk 1
    2290,  # tuzdyk 2
    1491,  # tuzdyk 3
    1768,  # tuzdyk 4
    1845,  # tuzdyk 5
    1627,  # tuzdyk 6
    1586,  # tuzdyk 7
    960,  # tuzdyk 8
)

FULL_BOARD = (
    124,  # tempo
    62,  # kazans
    -6,  # stones in the row
    -530,  # mobility
    0,  # my best capture
    -4,  # their best capture
    -14,  # my second capture
    25,  # their second capture
    -448,  # my tuzdyk threat
    253,  # their tuzdyk threat
    -147,  # holes of 1
    -196,  # holes of 2 open to a tuzdyk
    59,  # odd holes
    -448,  # holes above 12
    27,  # stones in hole 1
    -46,  # stones in hole 2
    -21,  # stones in hole 3
    -14,  # stones in hole 4
    -5,  # stones in hole 5
    -21,  # stones in hole 6
    10,  # stones in hole 7
    30,  # stones in hole 8
    -10,  # stones in hole 9
    -154,  # tuzdyk 1
    1806,  # tuzdyk 2
    855,  # tuzdyk 3
    45,  # tuzdyk 4
    557,  # tuzdyk 5
    656,  # tuzdyk 6
    871,  # tuzdyk 7
    847,  # tuzdyk 8
)
