"""Fixtures of several test files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_runs import small

from togyz_agents.training.loop import train


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of four iterations; not to be changed."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    train(run, small())
    return run


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be spoilt or gone on with."""
    return Path(shutil.copytree(whole, tmp_path / "copy"))
