"""Compiled kernels follow their sources: a change anywhere in the packages drops them, nothing else does."""

from __future__ import annotations

import os
from pathlib import Path

from togyz_env.compiled import drop_stale


def package(folder: Path, name: str) -> Path:
    root = folder / name
    (root / "sub" / "__pycache__").mkdir(parents=True)
    (root / "__pycache__").mkdir()
    (root / "rules.py").write_text("x = 1\n")
    (root / "sub" / "user.py").write_text("y = 2\n")
    return root


def compiled(root: Path) -> Path:
    index = root / "sub" / "__pycache__" / "user.kernel-1.py311.nbi"
    index.write_text("code")
    return index


def test_unchanged_sources_keep_what_was_compiled(tmp_path: Path) -> None:
    root = package(tmp_path, "a")
    drop_stale(root)
    index = compiled(root)
    drop_stale(root)
    assert index.exists()


def test_a_change_in_another_file_drops_what_was_compiled(tmp_path: Path) -> None:
    root, other = package(tmp_path, "a"), package(tmp_path, "b")
    drop_stale(root, other)
    for source in (root / "rules.py", other / "rules.py"):
        index = compiled(root)
        source.write_text(source.read_text() + "z = 3\n")
        drop_stale(root, other)
        assert not index.exists()
    index = compiled(root)
    os.utime(root / "rules.py", ns=(1, 1))  # the same size at another time
    drop_stale(root, other)
    assert not index.exists()


def test_new_and_removed_files_count_too(tmp_path: Path) -> None:
    root = package(tmp_path, "a")
    drop_stale(root)
    index = compiled(root)
    (root / "new.py").write_text("")
    drop_stale(root)
    assert not index.exists()
