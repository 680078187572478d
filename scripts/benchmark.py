"""Measure speed on this machine: rules, environment, alpha-beta, tree search, network, self-play, training.

python scripts/benchmark.py
python scripts/benchmark.py --only evaluator selfplay --seconds 1 --json > speed.json
"""

from __future__ import annotations

import json
import logging
import sys

from togyz_agents import console


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = console.Parser(description="Measure speed on this machine; some three minutes for everything.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help="rules, environment, alphabeta, tree, evaluator, selfplay, training, sample",
    )
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a repeat (default: 0.5)")
    arguments = parser.parse_args()

    from togyz_agents import benchmark  # imports torch, which takes seconds

    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    plan = benchmark.Plan(seconds=arguments.seconds)
    machine = benchmark.machine()
    figures = benchmark.measure(plan, arguments.only)
    if arguments.json:
        print(json.dumps(benchmark.to_dict(figures, plan, machine), indent=2))
    else:
        print(benchmark.machine_line(machine))
        print(benchmark.to_text(figures, plan))


if __name__ == "__main__":
    console.run(main)
