"""The project itself: what is installed, what imports what, and that set-up is one command.

1. The wheel holds every module of exactly two packages, togyz_env and togyz_agents.
2. Imports go down the layers only, and what must do without torch does.
3. constraints.txt pins every dependency within its range; the Makefile refuses an old Python in one line.
4. A script ends with one line for a user's mistake; the examples in CONTRIBUTING.md run.
"""

from __future__ import annotations

import ast
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from togyz_agents import agent
from togyz_env import observation
from togyz_env.batch import start_states

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (ROOT, ROOT / "agents")

# From the bottom up; a module may import its own layer and those below it. A new module of togyz_agents says here where it belongs.
LAYERS = (
    ("togyz_env.rules", "togyz_env.errors"),
    ("togyz_env",),
    ("togyz_agents.agent", "togyz_agents.console", "togyz_agents.files", "togyz_agents.thinking", "togyz_agents.yaml_file"),
    ("togyz_agents.network",),
    ("togyz_agents.evaluator",),
    ("togyz_agents.search",),
    ("togyz_agents.players", "togyz_agents.engine", "togyz_agents.export"),
    ("togyz_agents.tournament",),
    ("togyz_agents.training", "togyz_agents.web"),
    ("togyz_agents.benchmark",),
    ("scripts",),
)
RULES_LAYER = {"togyz_env.rules", "togyz_env.errors"}
WITHOUT_TORCH = (
    "togyz_env",
    "togyz_agents.agent",
    "togyz_agents.console",
    "togyz_agents.engine",
    "togyz_agents.search",
    "togyz_agents.thinking",
    "togyz_agents.tournament",
)
TOURNAMENT_MAY_IMPORT = (
    "togyz_env",
    "togyz_agents.agent",
    "togyz_agents.files",
    "togyz_agents.thinking",
    "togyz_agents.tournament",
    "togyz_agents.yaml_file",
)
EXTRAS = ("pettingzoo", "pyspiel", "open_spiel", "pygame")


def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name; scripts as ``scripts.name``."""
    found = {}
    for source, package in ((ROOT, "togyz_env"), (ROOT / "agents", "togyz_agents"), (ROOT, "scripts")):
        for path in sorted((source / package).rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function, those for type checkers included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by absolute names"
            yield from (f"{node.module}.{name.name}" for name in node.names)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def layer(module: str) -> int:
    """The layer whose name is the longest prefix of ``module``; the package itself only sees to what was compiled."""
    if module == "togyz_agents":
        return layer("togyz_agents.agent")
    matches = [(len(name), number) for number, names in enumerate(LAYERS) for name in names if within(module, name)]
    assert matches, f"{module}: say in LAYERS where it belongs"
    return max(matches)[1]


def test_the_wheel_holds_every_module_of_exactly_two_packages(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("togyz_env", "agents", "configs", "scripts", "tests"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignore)
    code = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"
    built = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=source, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packages = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {"togyz_env", "togyz_agents"}
    # A new sub-package that pyproject.toml does not list would be missing here, and only here.
    expected = {path.relative_to(base).as_posix() for base in SOURCES for path in base.glob("togyz_*/**/*.py")}
    assert {name for name in names if name.endswith(".py")} == expected
    assert {"togyz_env/py.typed", "togyz_agents/py.typed"} <= set(names)
    assert {f"togyz_env/data/{name}" for name in ("cases.jsonl", "games.jsonl", "perft.txt")} <= set(names)
    assert any(name.endswith("LICENSE") for name in names)


def test_agents_is_a_folder_and_no_package() -> None:
    assert not (ROOT / "agents" / "__init__.py").exists()
    assert list((ROOT / "agents").glob("*.py")) == []


def test_imports_go_down_only() -> None:
    wrong = []
    for module, path in modules().items():
        for name in imports(path):
            if name.split(".")[0] in ("togyz_env", "togyz_agents", "scripts") and layer(name) > layer(module):
                wrong.append(f"{module} imports {name}")
    assert wrong == []


def test_the_rules_need_nothing_else_of_the_project() -> None:
    for module in RULES_LAYER:
        assert [name for name in imports(modules()[module]) if name.startswith("togyz")] == []


def test_tournaments_know_only_agents_and_the_environment() -> None:
    for module, path in modules().items():
        if within(module, "togyz_agents.tournament"):
            for name in imports(path):
                if name.startswith("togyz"):
                    assert any(within(name, allowed) for allowed in TOURNAMENT_MAY_IMPORT), f"{module} imports {name}"


def test_no_file_below_the_network_imports_torch() -> None:
    for module, path in modules().items():
        if any(within(module, package) for package in WITHOUT_TORCH):
            assert not any(within(name, "torch") for name in imports(path)), f"{module} imports torch"


def test_the_environment_loads_no_torch() -> None:
    names = [name for name in modules() if within(name, "togyz_env")]
    code = f"""
import importlib, sys
for name in {names}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # an optional extra
        assert error.name.split(".")[0] in {EXTRAS}, error
sys.exit("torch" in sys.modules and "torch was imported")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("body", "status", "lines"),
    [
        ("raise ConfigError('sims: 0')", 2, ["error: sims: 0"]),
        ("raise KeyboardInterrupt", 2, ["interrupted"]),
        ("return 7", 0, []),
    ],
)
def test_a_script_ends_with_one_line_and_no_traceback(body: str, status: int, lines: list[str]) -> None:
    code = f"from togyz_agents import console\nfrom togyz_env.errors import ConfigError\ndef main():\n    {body}\nconsole.run(main)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr.splitlines()) == (status, lines)


def requirements() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    return [requirement for requirement in map(Requirement, texts) if requirement.name != project["name"]]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_pin_every_dependency_within_its_range() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {}
    for line in lines:
        if line and not line.startswith("#"):
            match = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][A-Za-z0-9.]*)", line)
            assert match, f"not an exact public version: {line}"
            assert canonical(match[1]) not in pins, f"pinned twice: {line}"
            pins[canonical(match[1])] = match[2]
    for requirement in requirements():
        assert canonical(requirement.name) in pins, f"not pinned: {requirement}"
        assert requirement.specifier.contains(pins[canonical(requirement.name)]), f"out of range: {requirement}"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_an_old_python_is_refused_in_one_line(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    old = tmp_path / "python2"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    result = subprocess.run(
        ["make", "venv", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert result.returncode != 0
    errors = [line for line in result.stderr.splitlines() if not line.startswith("make")]
    assert len(errors) == 1
    assert "Python 3.11" in errors[0]
    assert str(old) in errors[0]
    assert not (tmp_path / ".venv").exists()


def test_the_examples_for_contributors_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(observation, "ENCODERS", dict(observation.ENCODERS))
    monkeypatch.setattr(agent, "_registered", {})
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 2
    for number, example in enumerate(examples):
        path = tmp_path / f"example{number}.py"  # compiled kernels need a file
        path.write_text(example, encoding="utf-8")
        runpy.run_path(str(path))
    assert 0.0 <= float(capsys.readouterr().out) <= 1.0
    encoded = observation.ENCODERS["holes"].encode(start_states(2))
    assert encoded == pytest.approx(np.full((2, 18), 9 / 162))
