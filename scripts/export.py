"""Take a trained network out of a run, as safetensors and as one ONNX file, and show how to load them.

python scripts/export.py runs/quick-1
python scripts/export.py runs/quick-1/first.safetensors --out /tmp/network --format onnx
"""

from __future__ import annotations

from pathlib import Path

from togyz_agents import console


def main() -> None:
    """Parse the arguments, export and print what was written."""
    parser = console.Parser(description="Write the network of a run for use elsewhere.")
    parser.add_argument("source", type=Path, help="run directory, checkpoint directory or .safetensors file")
    parser.add_argument("--out", type=Path, help="directory to write to (default: export/ beside the network)")
    parser.add_argument("--format", choices=("safetensors", "onnx", "both"), default="both", help="which files (default: both)")
    parser.add_argument("--force", action="store_true", help="replace files that are there")
    arguments = parser.parse_args()

    from togyz_agents.export import export, instructions  # imports torch, which takes seconds

    print(instructions(export(arguments.source, arguments.out, arguments.format, force=arguments.force)))


if __name__ == "__main__":
    console.run(main)
