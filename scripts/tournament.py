"""Play a tournament, or test whether one player is stronger than another.

python scripts/tournament.py configs/tournament.yaml
python scripts/tournament.py --sprt 0 20 alphabeta:depth=5 alphabeta:depth=4
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
from pathlib import Path

from togyz_agents import console
from togyz_agents.tournament.command import Options, play
from togyz_agents.tournament.sprt import SprtConfig


def main() -> None:
    """Parse the arguments and play."""
    parser = console.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path, nargs="?", help="YAML file of the tournament, such as configs/tournament.yaml")
    parser.add_argument("--out", type=Path, help="folder of games and report; the same one again goes on (default: runs/NAME)")
    parser.add_argument("--workers", type=int, help="processes that play (default: the plan's, or one for each core)")
    parser.add_argument("--pairs", type=int, help="pairs of games of any two players, in place of the plan's")
    parser.add_argument("--report", action="store_true", help="write the report of the games that are finished, and play none")
    sprt = parser.add_argument_group("sequential test of two players")
    sprt.add_argument(
        "--sprt",
        nargs=4,
        metavar=("ELO0", "ELO1", "AGENT", "AGENT"),
        help="is the first player ELO1 stronger, or only ELO0? with a plan: its openings, rules and clock",
    )
    sprt.add_argument("--alpha", type=float, default=SprtConfig.alpha, help="chance to accept ELO1 where ELO0 is true")
    sprt.add_argument("--beta", type=float, default=SprtConfig.beta, help="chance to accept ELO0 where ELO1 is true")
    sprt.add_argument("--max-pairs", type=int, default=SprtConfig.max_pairs, help="end undecided after so many pairs")
    sprt.add_argument("--model", choices=["logistic", "normalised"], default=SprtConfig.model, help="unit of ELO0 and ELO1")
    sprt.add_argument("--seed", type=int, help="of openings and players, in place of the plan's")
    options = Options(**vars(parser.parse_args()), command=shlex.join(["python", "scripts/tournament.py", *sys.argv[1:]]))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    print(play(options))


if __name__ == "__main__":
    console.run(main)
