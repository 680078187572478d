"""Where the replay's samples lie: a ring in memory, or files on a disk that are mapped into memory.

Samples are numbered from the first of the run. A store keeps at least the newest ``capacity`` of them.

    RUN/replay/00000003.samples    samples 3 * rows .. 4 * rows - 1, 49 bytes each, and nothing else

A file is only ever appended to, so every checkpoint that is kept finds its own samples unchanged: it notes how many there were and
the checksum of each file up to there. A file goes when no kept checkpoint needs it.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from togyz_agents.files import naming
from togyz_agents.training.manifest import Damaged
from togyz_agents.training.samples import SAMPLE, sound_states

FILE_ROWS = 1 << 21
"""Samples of one file, 100 MB: a replay of a thousand million needs 500 descriptors."""
PIECE = 1 << 16
"""Samples that are read at once where all are read."""
_NAME = re.compile(r"\d{8}\.samples")


class Store(Protocol):
    """What the replay needs of a store."""

    def add(self, first: int, samples: np.ndarray) -> None:
        """Keep ``samples SAMPLE[N]`` as numbers ``first``, ``first + 1``, ..., the next in order."""

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """``SAMPLE[N]`` by their ``numbers int64[N]``."""

    def close(self) -> None:
        """Give memory and descriptors back."""


class MemoryStore:
    """A ring of ``capacity`` samples; memory is touched only as it fills."""

    def __init__(self, capacity: int) -> None:
        """Reserve the ring."""
        self._ring = np.zeros(capacity, SAMPLE)

    def add(self, first: int, samples: np.ndarray) -> None:
        """See ``Store``."""
        kept = samples[-len(self._ring) :]
        first += len(samples) - len(kept)
        self._ring[np.arange(first, first + len(kept)) % len(self._ring)] = kept

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """See ``Store``."""
        rows: np.ndarray = self._ring[numbers % len(self._ring)]
        return rows

    def close(self) -> None:
        """Give the ring back."""
        self._ring = self._ring[:0]


class FileStore:
    """Files of ``rows`` samples in ``folder``, read through memory maps: the page cache holds what is drawn often.

    Args:
        folder: created with the first sample.
        rows: of one file.
    """

    def __init__(self, folder: Path, rows: int = FILE_ROWS) -> None:
        """Nothing is read or written yet."""
        self._folder = folder
        self._rows = rows
        self._begins = 0  # the first sample in the files
        self._maps: dict[int, np.ndarray] = {}
        self._hashes: dict[int, Any] = {}  # running SHA-256 of each file that is held

    def path(self, number: int) -> Path:
        """The file ``number``."""
        return self._folder / f"{number:08d}.samples"

    def add(self, first: int, samples: np.ndarray) -> None:
        """See ``Store``; OSError when the disk takes no more, and then nothing that was kept has changed."""
        self._folder.mkdir(exist_ok=True)
        done = 0
        while done < len(samples):
            number, offset = divmod(first + done, self._rows)
            part = samples[done : done + self._rows - offset]
            path = self.path(number)
            with naming(path), open(path, "r+b" if offset and path.exists() else "wb") as file:
                file.seek(offset * SAMPLE.itemsize)  # a replay that begins in mid-file leaves a hole before it
                file.write(data := part.tobytes())
                file.truncate()
            self._hash(number).update(data)
            self._map(number, offset + len(part))
            done += len(part)

    def _hash(self, number: int) -> Any:
        return self._hashes.setdefault(number, hashlib.sha256())

    def _map(self, number: int, rows: int) -> None:
        self._maps[number] = np.memmap(self.path(number), SAMPLE, "r", shape=(rows,))

    def take(self, numbers: np.ndarray) -> np.ndarray:
        """See ``Store``."""
        out = np.empty(len(numbers), SAMPLE)
        files, rows = np.divmod(numbers, self._rows)
        for number in np.unique(files):
            here = files == number
            out[here] = self._maps[int(number)][rows[here]]
        return out

    def seal(self, first: int) -> dict[str, Any]:
        """Flush everything to disk; return what ``restore`` needs, in plain types, to find the samples from ``first`` on."""
        sealed = {}
        for number in self._maps:
            if (number + 1) * self._rows > first:
                path = self.path(number)
                with naming(path), open(path, "rb") as file:
                    os.fsync(file.fileno())
                sealed[path.name] = self._hash(number).hexdigest()
        return {"rows": self._rows, "begins": self._begins, "first": first, "files": sealed}

    def begin(self, first: int) -> None:
        """Say that sample ``first`` is the first that is added; files of another history are removed."""
        self.close()
        self._begins = first
        for path in self._files():
            path.unlink()

    def restore(self, sealed: dict[str, Any], total: int) -> None:
        """Go on from what ``seal`` said when ``total`` samples had been added; the next ``add`` cuts off what lies beyond.

        Raises:
            Damaged: a file is missing or is not as it was; nothing was changed.
        """
        self.close()
        self._rows, self._begins, first = int(sealed["rows"]), int(sealed["begins"]), int(sealed["first"])
        if not (self._rows >= 1 and 0 <= self._begins <= first <= total):
            raise ValueError("these numbers of samples cannot be")
        for number in range(first // self._rows, -(-total // self._rows)):
            path = self.path(number)
            begin, rows = max(0, self._begins - number * self._rows), min(self._rows, total - number * self._rows)
            digest, sound = hashlib.sha256(), True
            try:
                held = path.stat().st_size // SAMPLE.itemsize
                if held < rows:
                    raise Damaged(path, f"it holds {held} samples, not the {rows} of the checkpoint")
                self._map(number, rows)
            except OSError as error:
                raise Damaged(path, error.strerror or str(error)) from None
            for at in range(begin, rows, PIECE):
                part = self._maps[number][at : min(rows, at + PIECE)]
                digest.update(part.tobytes())
                sound = sound and bool(sound_states(part["state"]).all())
            if digest.hexdigest() != sealed["files"].get(path.name):
                raise Damaged(path, "its checksum is not that of what was written")
            if not sound:
                raise Damaged(path, "it holds positions that cannot occur")
            self._hashes[number] = digest

    def prune(self, first: int) -> None:
        """Remove the files whose samples are all before number ``first``."""
        for path in self._files():
            if (int(path.name[:8]) + 1) * self._rows <= first:
                self._maps.pop(int(path.name[:8]), None)
                self._hashes.pop(int(path.name[:8]), None)
                path.unlink()

    def _files(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("*.samples") if _NAME.fullmatch(path.name))

    def close(self) -> None:
        """Unmap the files."""
        self._maps.clear()
        self._hashes.clear()
