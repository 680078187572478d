"""Fit the weights of alpha-beta's evaluation to results of games against itself, and write them.

python scripts/fit_evaluation.py --games 4000 --rounds 2
"""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path

import tyro

from togyz_agents import console
from togyz_agents.search.alphabeta import fit, weights


def main() -> None:
    """Parse the arguments, fit and write the module of weights."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    config = tyro.cli(fit.FitConfig, description=__doc__)
    command = shlex.join(["python", "scripts/fit_evaluation.py", *sys.argv[1:]])
    Path(weights.__file__).write_text(fit.module_text(fit.fit(config), command), encoding="utf-8")


if __name__ == "__main__":
    console.run(main)
