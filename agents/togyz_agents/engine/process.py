"""A program that is spoken to in lines: nothing it does can block us for long, fill our memory or outlive us.

One selector pumps its input, output and error output, always up to a deadline, so that neither side waits for ever on a full pipe;
what it writes while nobody asks stays in the pipe and stops it there. It runs in a process group of its own, which is killed as a
whole. Needs a POSIX system (Linux, macOS).
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from togyz_env.errors import ConfigError, EngineError
from togyz_env.notation import shown

LONGEST_LINE = 1 << 16
MOST_BYTES = 16 << 20
"""Output that one answer may have."""
KEPT_ERRORS = 2000
_CHUNK = 1 << 16
_log = logging.getLogger(__name__)

# Waits for the end of its input, which comes when we die, however we die; a line says that all is well.
_GUARD = 'read -r word; [ "$word" = done ] || kill -s KILL -- "-$1"'


class EngineProcess:
    """A running program; errors name it and kill it.

    Args:
        name: for error messages.
        arguments: the program and its arguments.
        directory: where it runs.

    Raises:
        EngineError: it cannot be started.
        ConfigError: not on a POSIX system.
    """

    def __init__(self, name: str, arguments: Sequence[str], directory: Path | None = None) -> None:
        """Start the program."""
        if os.name != "posix":
            raise ConfigError(f"engine {name!r}: external engines need a POSIX system (Linux, macOS), not {sys.platform}")
        self.name = name
        self._lines: deque[str] = deque()
        self._taken = 0
        self._endless = False
        self._partial = b""
        self._out = b""
        self._errors = b""
        self._last = ""
        try:
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=directory,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise EngineError(f"engine {name!r}: cannot be started: {error}") from None
        try:
            guard = _guard(self._process.pid)
        except OSError as error:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise EngineError(f"engine {name!r}: no shell to guard it: {error}") from None
        self._finish = weakref.finalize(self, _destroy, self._process, guard, os.getpid())
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is None:
                raise RuntimeError("a pipe is missing")
            os.set_blocking(stream.fileno(), False)
        self._stdin, self._stdout, self._stderr = (
            stream.fileno() for stream in (self._process.stdin, self._process.stdout, self._process.stderr) if stream is not None
        )
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stderr, selectors.EVENT_READ)
        self._ended = False

    @property
    def pid(self) -> int:
        """The process, and its group."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it can be spoken to."""
        return self._finish.alive and not self._ended

    def send(self, line: str) -> None:
        """Queue a line; it is written while we wait for an answer."""
        self._out += line.encode() + b"\n"

    def wait_for(self, word: str, seconds: float, doing: str, others: list[str] | None = None) -> str:
        """Return the first line that begins with ``word``.

        Args:
            word: first word of the answer.
            seconds: time for it.
            doing: what was asked, for the error message.
            others: the lines before it are added here.

        Raises:
            EngineError: the program ended, did not answer in time, or wrote too much; it has been killed.
        """
        deadline = time.monotonic() + seconds
        self._taken = 0
        try:
            while True:
                while self._lines:
                    line = self._lines.popleft()
                    self._last = line or self._last
                    if line.split(maxsplit=1)[:1] == [word]:
                        return line
                    if others is not None:
                        others.append(line)
                if self._endless:
                    raise self.failure(f"wrote a line of more than {LONGEST_LINE} bytes, {doing}")
                if self._taken > MOST_BYTES:
                    raise self.failure(f"wrote {self._taken} bytes and no {word!r}, {doing}")
                if self._ended:
                    raise self.failure(f"ended with {self._status()}, {doing}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self.failure(f"gave no {word!r} within {seconds:g} s, {doing}")
                self._pump(left)
        except BaseException:
            self.kill()  # an interrupt: its answer must not be taken for that of the next question
            raise

    def failure(self, what: str) -> EngineError:
        """Kill the program and return the error that says what it did and what it said last."""
        if self._finish.alive:
            self._pump(0.05)  # its last words
        self.kill()
        said = [f"its last line: {shown(self._last)}"] if self._last else []
        errors = " ".join(self._errors.decode(errors="replace").split())
        if errors:
            said.append(f"on its error output: {shown(errors[-80:])}")
        return EngineError(f"engine {self.name!r}: {'; '.join([what, *said])}")

    def quit(self, seconds: float = 2.0) -> None:
        """Ask the program to quit; terminate, then kill it if it does not. Takes at most twice ``seconds``, and a moment."""
        if not self._finish.alive:
            return
        self.send("quit")
        if not self._wait_for_end(seconds):
            _log.warning("engine %r ignores quit; it is terminated", self.name)
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._wait_for_end(seconds)
        self.kill()

    def kill(self) -> None:
        """End the program and all that it has started, now."""
        if self._finish.alive:
            self._finish()
            self._selector.close()
        self._ended = True

    def _wait_for_end(self, seconds: float) -> bool:
        """Pump until the program ends."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if self._ended:  # it closed its output but lives on
                time.sleep(min(left, 0.01))
            else:
                self._pump(min(left, 0.05))
            self._lines.clear()
        return True

    def _status(self) -> str:
        """How it ended, in words."""
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1.0)
            return f"status {code}" if code >= 0 else f"signal {-code}"
        return "closed output"

    def _pump(self, seconds: float) -> None:
        """Move what can be moved in either direction; wait for something to move for up to ``seconds``."""
        registered = self._stdin in self._selector.get_map()
        if self._out and not registered:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        elif registered and not self._out:
            self._selector.unregister(self._stdin)
        for key, _ in self._selector.select(seconds):
            if key.fd == self._stdin:
                self._push()
            elif key.fd == self._stdout:
                self._read()
            else:
                self._read_errors()

    def _push(self) -> None:
        try:
            self._out = self._out[os.write(self._stdin, self._out[:_CHUNK]) :]
        except BlockingIOError:
            pass
        except OSError:  # it does not listen any more; the end of its output says the rest
            self._out = b""

    def _read(self) -> None:
        data = self._take(self._stdout)
        if data is None:
            return
        if not data:
            self._selector.unregister(self._stdout)
            self._ended = True
            data = b"\n" if self._partial else b""
        self._taken += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        self._lines += [line.decode(errors="replace").strip() for line in lines]
        if len(self._partial) > LONGEST_LINE:
            self._last, self._partial = self._partial[:200].decode(errors="replace"), b""
            self._endless = True

    def _read_errors(self) -> None:
        data = self._take(self._stderr)
        if data == b"":
            self._selector.unregister(self._stderr)
        self._errors = (self._errors + (data or b""))[-KEPT_ERRORS:]

    @staticmethod
    def _take(descriptor: int) -> bytes | None:
        """What is there; empty at the end, None if there is nothing after all."""
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""


def _guard(group: int) -> subprocess.Popen[bytes]:
    """Start a shell that kills the process ``group`` if we die without ``_destroy``."""
    return subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "guard", str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _destroy(process: subprocess.Popen[bytes], guard: subprocess.Popen[bytes], owner: int) -> None:
    """Kill the process group, then dismiss the guard; called once, at the latest when the interpreter ends."""
    if os.getpid() != owner:  # a fork of ours ends; the program is not its own
        return
    with suppress(OSError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(5.0)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with suppress(OSError, subprocess.TimeoutExpired):
        guard.communicate(b"done\n", timeout=5.0)
