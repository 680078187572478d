"""Train an agent by self-play from nothing.

python scripts/train.py --config configs/quick.yaml --learner.lr 1e-3
python scripts/train.py --resume RUN --run.minutes 60
python scripts/train.py --resume RUN/checkpoints/000040
python scripts/train.py --config configs/cpu.yaml --run.dir runs/a --resume auto
"""

from __future__ import annotations

from pathlib import Path

from togyz_agents.console import Parser, run
from togyz_agents.training import start


def main() -> None:
    """Parse the arguments; the rest of the command line sets keys of the configuration."""
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--resume")
    known, rest = parser.parse_known_args()
    start.main(known.config, known.resume, rest)


if __name__ == "__main__":
    run(main)
