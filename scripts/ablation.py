"""Train and compare variants of a configuration: ``ablation.py configs/ablation.yaml --out runs/ablation``."""

from __future__ import annotations

import logging
from pathlib import Path

from togyz_agents.console import Parser, run
from togyz_agents.training.ablation import compare, read_plan, table, train_all


def main() -> None:
    """Parse the arguments, train what is missing, play the matches and print the table."""
    parser = Parser(prog="ablation.py", description=__doc__)
    parser.add_argument("plan", type=Path, help="YAML file with the variants")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"), help="folder of the runs")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    plan = read_plan(arguments.plan)
    train_all(plan, arguments.out)
    print(table(compare(plan, arguments.out)))


if __name__ == "__main__":
    run(main)
