"""Where a run's figures go: TensorBoard, RUN/metrics.jsonl and whoever watches."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from togyz_agents.files import append_line, naming, replace_file
from togyz_env.errors import CheckpointError

Scalars = dict[str, float]


def drop_later(path: Path, iteration: int) -> list[dict[str, Any]]:
    """Drop what a JSON-lines file says of iterations behind ``iteration``, and a torn last line; return the rest.

    Raises:
        CheckpointError: a line is no such record.
    """
    if not path.exists():
        return []
    text = path.read_bytes()
    kept, rows = b"", []
    for number, line in enumerate(text.split(b"\n")[:-1], 1):  # whatever stands behind the last line's end is torn
        try:
            row = json.loads(line)
            if row["iteration"] <= iteration:
                rows.append(row)
                kept += line + b"\n"
        except (ValueError, TypeError, KeyError):
            raise CheckpointError(f"resume: {str(path)!r}, line {number}: no JSON object with an iteration") from None
    if kept != text:
        replace_file(path, kept)
    return rows


class Metrics:
    """Writes scalars by iteration; on resume the lines behind the checkpoint are dropped.

    Args:
        run: directory of the run.
        iteration: the last one that counts.
    """

    def __init__(self, run: Path, iteration: int = 0) -> None:
        """Open both outputs."""
        from torch.utils.tensorboard import SummaryWriter  # takes seconds to import

        self._file = run / "metrics.jsonl"
        drop_later(self._file, iteration)
        with naming(self._file), open(self._file, "a"):  # an error here is ours to tell; TensorBoard's are a thread's
            pass
        self._board = SummaryWriter(str(run / "tensorboard"), purge_step=iteration + 1)

    def write(self, iteration: int, scalars: Scalars) -> None:
        """Record ``scalars`` (names like "loss/policy") of one iteration."""
        append_line(self._file, json.dumps({"iteration": iteration} | scalars))
        for name, value in scalars.items():
            self._board.add_scalar(name.replace(" ", "_"), value, iteration)

    def __enter__(self) -> Metrics:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Flush and close TensorBoard's file."""
        self._board.close()
