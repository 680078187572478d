"""A player as an engine: speaks the UCI protocol on standard input and output, for GUIs and other programs.

python scripts/engine.py --agent alphabeta:time=1
python scripts/engine.py --agent alphazero:run=runs/quick-1,sims=400
"""

from __future__ import annotations

from togyz_agents import console
from togyz_agents.engine.server import serve_stdio


def main() -> None:
    """Parse the arguments and serve."""
    parser = console.Parser(description="Speak the UCI protocol on standard input and output (docs/engines.md).")
    parser.add_argument("--agent", required=True, help="the player, such as alphabeta:depth=8; scripts/play.py --list shows all")
    serve_stdio(parser.parse_args().agent)


if __name__ == "__main__":
    console.run(main)
