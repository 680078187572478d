"""SIGTERM and Ctrl-C: the first asks the run to save and end, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """While it is entered (in the main thread), a first signal is noted in ``name``; a second one ends the process.

    Attributes:
        name: of the signal, None as long as there was none.
    """

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self.name: str | None = None
        self._before: dict[signal.Signals, object] = {}

    def asked(self) -> bool:
        """Whether the run was asked to stop."""
        return self.name is not None

    @property
    def status(self) -> int:
        """Exit status by the shells' convention: 130 after Ctrl-C, 143 after SIGTERM; 0 without a signal."""
        return 128 + signal.Signals[self.name] if self.name else 0

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.name is not None:
            # At once: no clean-up, no waiting for threads. A checkpoint being written has a temporary name and does not count.
            os.write(2, b"\nstopped at once; --resume goes on from the last checkpoint\n")
            os._exit(128 + number)
        self.name = signal.Signals(number).name
        os.write(2, f"\n{self.name}: the run is saved and ends; once more to end it at once\n".encode())

    def __enter__(self) -> Stop:
        """Take the signals over."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()
