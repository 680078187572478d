"""Does the search of one position play as well with leaves in batches as leaf by leaf?

python scripts/compare_leaves.py runs/quick-1/network.safetensors --simulations 400 --pairs 200
"""

from __future__ import annotations

from pathlib import Path

from togyz_agents.console import Parser, run


def main() -> None:
    """Parse the arguments, play the match and print its score."""
    parser = Parser(prog="compare_leaves.py", description="Leaves in batches against leaf by leaf, at equal simulations.")
    parser.add_argument("network", type=Path, help="a .safetensors file")
    parser.add_argument("--simulations", type=int, default=400, help="for each move (default: 400)")
    parser.add_argument("--pairs", type=int, default=200, help="colour-swapped pairs of games (default: 200)")
    parser.add_argument("--share", type=float, default=0.02, help="a batch is at most this share of the visits (default: 0.02)")
    parser.add_argument("--seed", type=int, default=1, help="of the openings (default: 1)")
    arguments = parser.parse_args()

    from togyz_agents.benchmark.leaves import compare_leaves  # imports torch, which takes seconds

    result = compare_leaves(arguments.network, arguments.simulations, arguments.pairs, arguments.share, arguments.seed)
    low, high = result.interval()
    games = f"{len(result.games)} games, {result.distinct_games} distinct"
    print(f"leaves in batches: {result.score:.1%} ({low:.1%} to {high:.1%}) of {games}")


if __name__ == "__main__":
    run(main)
