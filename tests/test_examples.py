"""Every example runs, in seconds, with few steps.

1. What `make check` has installed the packages for runs to its end. 2. What wants an environment of its own says so in one line
where its library is missing, and runs where it is there. 3. The README names every example and what it says was measured.
"""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

# Arguments, and what the last line must look like.
RUNS = {
    "maskable_ppo.py --steps 256 --games 4": r"after \d+ steps: [0-4] of 4 games won \(.*%\), 0 illegal moves",
    "maskable_ppo.py --opponent self --steps 256 --games 4": r"after \d+ steps: [0-4] of 4 games won \(.*%\), 0 illegal moves",
    "torchrl_ppo.py --steps 400 --rollout 200": r"itself through PettingZoo: \d+ plies, rewards \[.*\]",
    "openspiel_mcts.py --games 2 --simulations 3 --plies 40": r"MCTS against random: [+-][0-2] in 2 games",
    "openspiel_a2c.py --episodes 4 --games 2 --plies 60": r"The learner as white against random: [0-2] of 2 games won",
    "policy_gradient.py --steps 128 --envs 4 --horizon 16": r"\d+ games, \d+% of the last \d+ won",
}
APART = {
    "rllib_ppo.py --iterations 1 --batch 128": r" +1: mean return .*",
    "tianshou_dqn.py --epochs 1 --steps 200 --games 4": r"mean return of the learner against random, best epoch: .*",
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Run an example in this process, where the libraries are loaded once, and return its last line."""

    def run(command: str) -> str:
        name, *arguments = command.split()
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        monkeypatch.syspath_prepend(str(EXAMPLES))
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()[-1]

    return run


@pytest.mark.parametrize("command", RUNS)
@pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested")
def test_an_example_runs(command: str, run: Callable[[str], str]) -> None:
    assert re.fullmatch(RUNS[command], run(command))


@pytest.mark.parametrize("command", APART)
def test_an_example_with_an_environment_of_its_own(command: str, run: Callable[[str], str]) -> None:
    requirements = f"examples/requirements-{command.split('_')[0]}.txt"
    assert (ROOT / requirements).is_file()
    missing = None
    try:
        last = run(command)
    except SystemExit as error:
        missing = error
    if missing is None:
        assert re.fullmatch(APART[command], last)
    else:
        assert isinstance(missing.__context__, ImportError)
        assert re.fullmatch(rf"error: .*; set up what {requirements} says", str(missing))


def test_the_curve_is_drawn(tmp_path: Path) -> None:
    draw_curve = runpy.run_path(str(EXAMPLES / "curve.py"))["draw_curve"]
    draw_curve(tmp_path / "curve.svg", [(0, 0.2), (50, 1)], "wins")
    svg = (tmp_path / "curve.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg ")
    assert svg.count("<circle ") == 2
    assert (EXAMPLES / "maskable_ppo.svg").read_text(encoding="utf-8").count("<circle ") == 11


def test_the_readme_names_every_example_and_the_plain_one_is_short() -> None:
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        if path.suffix in (".py", ".txt", ".svg") and path.name != "curve.py":
            assert path.name in readme, f"examples/README.md: {path.name} is missing"
    assert len((EXAMPLES / "policy_gradient.py").read_text(encoding="utf-8").splitlines()) < 100
