"""Count the positions reachable in exactly N moves, to check the rules against other programs.

python scripts/perft.py --depth 6
python scripts/perft.py --fen "8,T/1S,t,7 80 81 N 53" --depth 4 --divide
"""

from __future__ import annotations

import time

from togyz_agents import console
from togyz_env import Position, Ruleset, perft
from togyz_env.errors import ConfigError


def main() -> None:
    """Parse the arguments and print the counts."""
    parser = console.Parser(description="Count the legal sequences of exactly N moves; a finished game is not played on.")
    parser.add_argument("--fen", help="position string to start from; the start position if left out")
    parser.add_argument("--depth", type=int, default=6, help="deepest N to count (default: 6)")
    parser.add_argument("--end", choices=("majority", "playout"), default="majority", help="how a game ends (default: majority)")
    parser.add_argument("--divide", action="store_true", help="show the count behind each first move at the deepest N")
    arguments = parser.parse_args()
    position = Position.start() if arguments.fen is None else Position.from_fen(arguments.fen)
    ruleset = Ruleset(end=arguments.end)
    if arguments.depth < 1:
        raise ConfigError(f"argument --depth: {arguments.depth}; expected a whole number from 1")

    print(position)
    print(position.fen())
    for depth in range(1, arguments.depth + 1):
        began = time.perf_counter()
        count = perft(position, depth, ruleset)
        print(f"perft {depth}: {count:,} ({time.perf_counter() - began:.2f} s)", flush=True)
    if arguments.divide and position.outcome(ruleset) is None:
        for hole in position.legal_moves():
            print(f"  {hole}: {perft(position.play(hole), arguments.depth - 1, ruleset):,}")


if __name__ == "__main__":
    console.run(main)
