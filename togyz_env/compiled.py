"""Compiled kernels on disk stay true to their sources.

Numba keeps machine code beside each module and compiles anew when *that* file changes; a kernel that calls one of another file
would go on with the old rules after an update. So a stamp of all sources lies beside the code, and a new stamp drops what was
compiled. The packages import this module before their kernels; importing it sees to ``togyz_env``.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

STAMP = "togyz-sources"


def drop_stale(package: Path, *others: Path) -> None:
    """Delete the compiled kernels below ``package`` if a source in it or in ``others`` is not what they were compiled from.

    Where the folder is read-only nothing is deleted.
    """
    digest = hashlib.sha256()
    for folder in (package, *others):
        for source in sorted(folder.rglob("*.py")):
            status = source.stat()
            digest.update(f"{source.relative_to(folder)} {status.st_size} {status.st_mtime_ns}\n".encode())
    stamp = package / "__pycache__" / STAMP
    with suppress(OSError):
        if stamp.is_file() and stamp.read_text() == digest.hexdigest():
            return
        for index in package.rglob("__pycache__/*.nbi"):
            index.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest.hexdigest())


drop_stale(Path(__file__).parent)
