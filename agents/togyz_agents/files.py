"""Writing files so that a reader never sees half of one, and holding a folder for one process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an OSError that does not say which file it is about (a full disk, say) the name ``path``."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise


def append_line(path: Path, line: str) -> None:
    """Append ``line`` and its end to a text file."""
    with naming(path), open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def replace_file(path: Path, data: bytes) -> None:
    """Write ``data`` to a temporary name beside ``path``, flush it to disk, then rename it into place."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path), open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def lock(descriptor: int, path: Path) -> bool:
    """Hold the open file or folder ``path`` for this process; False if another one holds it.

    The system lets it go when the process ends, however it ends. Where there are no locks a warning is logged, and it is held.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError) as error:  # a system or a file system without locks
        log.warning("%s cannot be locked (%s); see to it that one process at a time uses it", path, error)
    return True
