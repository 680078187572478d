"""Compiled kernels follow their sources: a change anywhere in the packages drops them, nothing else does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import togyz_agents
import togyz_env
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


def run_probe(root: Path) -> str:
    code = "from togyz_agents.outer import outer; print(outer())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("package", ["togyz_env", "togyz_agents"])
def test_a_kernel_follows_the_kernel_that_it_calls_in_another_file(package: str, tmp_path: Path) -> None:
    """In a copy of both packages, with a kernel more in each."""
    ignore = shutil.ignore_patterns("__pycache__")
    for copied in (togyz_env, togyz_agents):
        shutil.copytree(Path(copied.__file__).parent, tmp_path / copied.__name__, ignore=ignore)
    inner = "from togyz_env.rules import kernel\n\n\n@kernel\ndef inner():\n    return {}\n"
    outer = (
        f"from togyz_env.rules import kernel\nfrom {package}.inner import inner\n\n\n@kernel\ndef outer():\n    return inner()\n"
    )
    (tmp_path / package / "inner.py").write_text(inner.format(1))
    (tmp_path / "togyz_agents" / "outer.py").write_text(outer)
    assert run_probe(tmp_path) == "1"
    (tmp_path / package / "inner.py").write_text(inner.format(22))
    assert run_probe(tmp_path) == "22"
