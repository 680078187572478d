"""The sample: one position of a self-play game with everything that a learner wants of it, in 49 bytes."""

from __future__ import annotations

import numpy as np

from togyz_env.rules import HOLES, RING, STATE_SIZE, STONES, TO_MOVE

SAMPLE = np.dtype(
    [
        ("state", "u1", (STATE_SIZE,)),  # the position
        ("action", "u1"),  # what was played, 0..8
        ("full", "u1"),  # 1: the policy comes from a full search and may be trained
        ("policy", "<u2", (HOLES,)),  # the search's policy, times POLICY_SCALE
        ("value", "<i2"),  # the search's root value for the side to move, times VALUE_SCALE
        ("margin", "<i2"),  # final stones of the side to move minus the opponent's
        ("outcome", "i1"),  # +1, 0, -1 for the side to move
        ("surprise", "u1"),  # divergence of the search's policy from the network's, in nats times SURPRISE_SCALE, at most 255
    ]
)
POLICY_SCALE = 65535
VALUE_SCALE = 32767
SURPRISE_SCALE = 64


def sound_states(states: np.ndarray) -> np.ndarray:
    """``bool[N]``: rows of ``states uint8[N, 23]`` whose stones add up and whose tuzdyks and side to move exist.

    Compiled kernels do not check their indices, so a row that comes from a file must pass here first.
    """
    stones = states[:, : RING + 2].sum(axis=1, dtype=np.int64)
    return np.asarray((stones == STONES) & (states[:, RING + 2 : TO_MOVE] <= HOLES).all(axis=1) & (states[:, TO_MOVE] <= 1))
