"""The seal of a checkpoint: format, size and SHA-256 of each of its files, in a text that cannot change unnoticed.

    {"files": {"state.pt": {"bytes": ..., "sha256": "..."}, ...}, "format": "togyz-checkpoint-2"}

The text is canonical JSON: what differs by a single bit from the text that its own content would give is damaged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from togyz_agents.files import naming

MANIFEST = "manifest.json"
_FAMILY = "togyz-checkpoint-"
VERSION = 2
FORMAT = f"{_FAMILY}{VERSION}"
FIRST_FORMAT = f"{_FAMILY}1"
"""Without a manifest; still read."""
_PIECE = 1 << 20


class Damaged(Exception):
    """A file that is not what was written: ``path`` and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        """Keep both."""
        super().__init__(reason)
        self.path = path


@dataclass(frozen=True)
class Entry:
    """A file as it was written: its size in bytes and its SHA-256."""

    bytes: int
    sha256: str


def write_file(path: Path, pieces: Iterable[bytes | memoryview]) -> Entry:
    """Write ``pieces`` one after the other, flush them to disk, and say what was written; OSError as usual."""
    digest, size = hashlib.sha256(), 0
    with naming(path), open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return Entry(size, digest.hexdigest())


def seal(folder: Path, files: dict[str, Entry]) -> None:
    """Write the manifest of ``files`` into ``folder``."""
    write_file(folder / MANIFEST, [_text(FORMAT, files)])


def _text(format_: str, files: dict[str, Entry]) -> bytes:
    data = {"format": format_, "files": {name: vars(entry) for name, entry in files.items()}}
    return (json.dumps(data, sort_keys=True) + "\n").encode()


def read(folder: Path) -> dict[str, Entry]:
    """Read the manifest of ``folder``.

    Raises:
        Damaged: it is missing, changed, foreign or of a newer program.
    """
    path = folder / MANIFEST
    try:
        text = path.read_bytes()
    except OSError as error:
        raise Damaged(path, error.strerror or str(error)) from None
    try:
        data: Any = json.loads(text)
        format_ = data["format"]
        check_format(path, format_)
        files = {str(name): Entry(**entry) for name, entry in data["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Damaged(path, "this is no manifest of a checkpoint") from None
    if _text(format_, files) != text:
        raise Damaged(path, "its text was changed")
    return files


def check_format(path: Path, format_: object) -> None:
    """Raise Damaged unless a file says that it has this program's format (or the first one)."""
    if format_ in (FORMAT, FIRST_FORMAT):
        return
    number = format_.removeprefix(_FAMILY) if isinstance(format_, str) and format_.startswith(_FAMILY) else ""
    newer = number.isdecimal() and len(number) < 10 and int(number) > VERSION
    hint = "; a newer version of the program wrote it" if newer else ""
    raise Damaged(path, f"it has format {str(format_)[:60]!r}, expected {FORMAT!r}{hint}")


def check_file(path: Path, entry: Entry) -> None:
    """Compare a file with its ``entry``, piece by piece.

    Raises:
        Damaged: it is missing, or has another size or content.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise Damaged(path, error.strerror or str(error)) from None
    if size != entry.bytes:
        raise Damaged(path, f"it has {size} bytes, not the {entry.bytes} that were written")
    if digest.hexdigest() != entry.sha256:
        raise Damaged(path, "its checksum is not that of what was written")
