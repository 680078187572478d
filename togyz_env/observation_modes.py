"""What ``observation=`` of the environments may name: the content of an observation, and the container it comes in.

| content | array | values |
|---|---|---|
| ``plain``, ``counts``, ``rules``, ``tactics`` | float32[size] | an encoder of ``togyz_env.observation``, a flat vector |
| ``planes`` | float32[40, 18] | one-hot planes over the 18 holes, see below |
| ``tokens`` | int64[20] | whole numbers 0..164, see below |

| name | observation |
|---|---|
| ``plain`` (or any content) | ``Dict(observation, action_mask)`` |
| ``array:plain`` (or any content) | the array alone; the mask is in ``info`` and ``action_masks()`` |
| ``dict`` | short for ``plain`` |
| ``flat`` | short for ``array:plain`` |

All are seen from the side to move, and stand in sowing order from the mover's hole 1: 0..8 are his holes, 9..17 his opponent's.

Planes: 0 to 31 the hole holds so many stones, 32 an even number of 32 or more, 33 an odd number of 33 or more; 34 its stones as a
part of 162; 35 the mover's tuzdyk, 36 the opponent's; 37 and 38 the mover's and the opponent's kazan as a part of 162, the same
everywhere; 39 the mover's row. Reshaped to ``(40, 2, 9)`` they are two rows, both from left to right of their owner.

Tokens: one for each hole, the number of its stones, or 163 for the mover's tuzdyk and 164 for the opponent's; then the stones in
the mover's and the opponent's kazan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from togyz_env.errors import ConfigError
from togyz_env.notation import shown
from togyz_env.observation import ENCODERS, SINGLE_COUNTS, Listed, write_plain_batch
from togyz_env.rules import HOLES, KAZAN, RING, STONES, TO_MOVE, TUZDYK, int64, kernel

ARRAY = "array:"
SHORT = {"dict": "plain", "flat": ARRAY + "plain"}

PLANES_SHAPE = (40, RING)
_STONES_PLANE = SINGLE_COUNTS + 2
_TUZDYK_PLANE = _STONES_PLANE + 1
_KAZAN_PLANE = _TUZDYK_PLANE + 2
_ROW_PLANE = _KAZAN_PLANE + 2

TOKENS = RING + 2
VOCABULARY = STONES + 3
"""Tokens are below this number: counts 0..162 and the two tuzdyks."""
_TUZDYK_TOKEN = STONES + 1


@kernel
def _write_planes(states: np.ndarray, out: np.ndarray) -> None:
    out[:] = 0.0
    part = np.float32(1.0 / STONES)
    for b in range(states.shape[0]):
        state = states[b]
        mover = int64(state[TO_MOVE])
        for i in range(RING):
            stones = int64(state[(mover * HOLES + i) % RING])
            out[b, stones if stones < SINGLE_COUNTS else SINGLE_COUNTS + stones % 2, i] = 1.0
            out[b, _STONES_PLANE, i] = stones * part
            out[b, _KAZAN_PLANE, i] = state[KAZAN + mover] * part
            out[b, _KAZAN_PLANE + 1, i] = state[KAZAN + 1 - mover] * part
        for side in range(2):  # the mover's tuzdyk lies in the other row
            number = int64(state[TUZDYK + (mover if side == 0 else 1 - mover)])
            if number > 0:
                out[b, _TUZDYK_PLANE + side, (1 - side) * HOLES + number - 1] = 1.0
        out[b, _ROW_PLANE, :HOLES] = 1.0


@kernel
def _write_tokens(states: np.ndarray, out: np.ndarray) -> None:
    for b in range(states.shape[0]):
        state = states[b]
        mover = int64(state[TO_MOVE])
        for i in range(RING):
            out[b, i] = state[(mover * HOLES + i) % RING]
        for side in range(2):
            player = mover if side == 0 else 1 - mover
            number = int64(state[TUZDYK + player])
            if number > 0:
                out[b, (1 - side) * HOLES + number - 1] = _TUZDYK_TOKEN + side
            out[b, RING + side] = state[KAZAN + player]


_KERNELS: dict[str, Callable[[np.ndarray, np.ndarray], None]] = {
    "plain": write_plain_batch,
    "planes": _write_planes,
    "tokens": _write_tokens,
}
"""Contents with a kernel that writes them; the others are listed by their encoders."""


class ObservationMode:
    """One of the names above, with its space and its way to make observations.

    Args:
        name: see the tables above.

    Attributes:
        name: as it was given.
        content: the array's space: ``Box`` or ``MultiDiscrete``.
        space: the space of an observation: ``content``, or a ``Dict`` with it and ``action_mask``, ``MultiBinary(9)``.
        masked: whether the observation is the dictionary.

    Raises:
        ConfigError: an unknown name.
    """

    def __init__(self, name: str) -> None:
        """Look the name up."""
        full = SHORT.get(name, name) if isinstance(name, str) else ""
        self.name = name
        self.masked = not full.startswith(ARRAY)
        self._content = full.removeprefix(ARRAY)
        self._kernel = _KERNELS.get(self._content)
        self._scratch: Listed | None = None
        if self._content == "planes":
            self.content: spaces.Space[Any] = spaces.Box(0.0, 1.0, PLANES_SHAPE, np.float32)
        elif self._content == "tokens":
            self.content = spaces.MultiDiscrete(np.full(TOKENS, VOCABULARY))
        elif self._content in ENCODERS:
            encoder = ENCODERS[self._content]
            self.content = spaces.Box(encoder.low, encoder.high, (encoder.size,), np.float32)
        else:
            known = ", ".join(map(repr, observation_names()))
            raise ConfigError(f"observation: {shown(name)}; expected one of {known}, or {ARRAY!r} before any of the first ones")
        assert self.content.shape is not None
        self._shape: tuple[int, ...] = self.content.shape
        self._one = (1, *self._shape)
        self._dtype = self.content.dtype
        self.space: spaces.Space[Any] = self.content
        if self.masked:
            self.space = spaces.Dict({"observation": self.content, "action_mask": spaces.MultiBinary(HOLES)})

    def empty(self, count: int) -> np.ndarray:
        """Room for ``count`` arrays."""
        return np.empty((count, *self._shape), self._dtype)

    def write(self, states: np.ndarray, out: np.ndarray) -> None:
        """Write the arrays of ``states uint8[B, 23]`` into ``out``, room for B of them, for the side to move."""
        if self._kernel is not None:
            self._kernel(states, out)
            return
        encoder = ENCODERS[self._content]
        if self._scratch is None or len(self._scratch[2]) != len(states):
            self._scratch = encoder.scratch(len(states))
        encoder.encode(states, out, self._scratch)

    def observations(self, states: np.ndarray, masks: np.ndarray, out: np.ndarray | None = None) -> Any:
        """Return the batched observation of ``states uint8[B, 23]`` with ``masks int8[B, 9]``; its arrays in ``out`` if given."""
        if out is None:
            out = self.empty(len(states))
        self.write(states, out)
        return {"observation": out, "action_mask": masks} if self.masked else out

    def observation(self, states: np.ndarray, mask: np.ndarray) -> Any:
        """Return the observation of the one state in ``states uint8[1, 23]`` with ``mask int8[9]``."""
        out = np.empty(self._one, self._dtype)
        self.write(states, out)
        return {"observation": out[0], "action_mask": mask} if self.masked else out[0]

    def __reduce__(self) -> tuple[type[ObservationMode], tuple[str]]:
        """Copy and pickle by name: kernels and scratch space are not copied."""
        return ObservationMode, (self.name,)


def observation_names() -> list[str]:
    """Every content by name, and the short names."""
    return [*ENCODERS, "planes", "tokens", *SHORT]
