"""Players for tests of tournaments, registered at import; a plan names this module in ``modules``."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence

from togyz_agents.agent import Clock, register
from togyz_env.position import Position


class Fixed:
    """A deterministic player: a fixed function of the position, after ``wait`` seconds."""

    def __init__(self, salt: int = 0, wait: float = 0.0) -> None:
        self.salt, self.wait = salt, wait

    def new_game(self, seed: int) -> None:
        """Nothing depends on the seed."""

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        if self.wait:
            time.sleep(self.wait)
        legal = position.legal_moves()
        return legal[zlib.crc32(position.row, self.salt) % len(legal)]

    def close(self) -> None:
        """Nothing to release."""


class Faulty(Fixed):
    """Plays as ``fixed`` until its ``after``-th move, then does what ``how`` says."""

    made = 0
    closed = 0

    def __init__(self, how: str = "raise", after: int = 3) -> None:
        super().__init__()
        Faulty.made += 1
        if how == "construct" and Faulty.made > 1:  # the first one is made to check the description
            raise OSError("no such engine")
        self.how, self.after, self.count = how, after, 0

    def new_game(self, seed: int) -> None:
        self.count = 0
        if self.how == "new_game":
            raise RuntimeError("does not want\nto play")

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        self.count += 1
        if self.count >= self.after:
            if self.how == "raise":
                raise KeyError("lost")
            if self.how == "illegal":
                return 10
            if self.how == "garbage":
                return "b4"  # type: ignore[return-value]
            if self.how == "late" and self.count == self.after:
                time.sleep(0.7)
        return super().select(position, history, clock)

    def close(self) -> None:
        Faulty.closed += 1
        raise OSError("dead already")


register("fixed", Fixed)
register("faulty", Faulty)
