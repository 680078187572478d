"""Where a run's figures go: TensorBoard, RUN/metrics.jsonl and whoever watches."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType

Scalars = dict[str, float]


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
        if self._file.exists():
            lines = [line for line in self._file.read_text().splitlines() if line.endswith("}")]
            kept = [line for line in lines if json.loads(line)["iteration"] <= iteration]
            self._file.write_text("".join(line + "\n" for line in kept))
        self._board = SummaryWriter(str(run / "tensorboard"), purge_step=iteration + 1)

    def write(self, iteration: int, scalars: Scalars) -> None:
        """Record ``scalars`` (names like "loss/policy") of one iteration."""
        for name, value in scalars.items():
            self._board.add_scalar(name.replace(" ", "_"), value, iteration)
        with open(self._file, "a") as file:
            file.write(json.dumps({"iteration": iteration} | scalars) + "\n")

    def __enter__(self) -> Metrics:
        """Return itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Flush and close TensorBoard's file."""
        self._board.close()
