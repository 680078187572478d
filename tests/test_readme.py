"""What the README shows is true.

1. Its Python session runs as written, in a folder where a training run has left its network.
2. Every path that it names exists.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tiny import config

from togyz_agents.training.loop import train

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_session_runs_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train(Path("runs/quick-1"), config(run={"iterations": 1}))
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(blocks) == 6
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    output = capsys.readouterr().out
    assert "from the start it plays hole" in output
    assert "9S,9S,9S,1,10S,10S,10S,10S,10S/9S,9S,9S,9S,9S,9S,1S,10S,10S 10 0 N 1" in output  # printed in the national rules


def test_every_named_path_exists() -> None:
    paths = re.findall(r"`((?:togyz_env|agents|configs|scripts|tests|docs)/[\w./-]*)`", README)
    paths += re.findall(r"(?:scripts|configs)/\w+\.\w+", README)
    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []
