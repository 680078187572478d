"""The players that a game can have.

python scripts/play.py --list
"""

from __future__ import annotations

from togyz_agents import console
from togyz_agents.agent import agent_help


def main() -> None:
    """Parse the arguments and print."""
    parser = console.Parser(description="Show the players that a game can have.")
    parser.add_argument("--list", action="store_true", required=True, help="list the players with their parameters")
    parser.parse_args()
    print(agent_help())


if __name__ == "__main__":
    console.run(main)
