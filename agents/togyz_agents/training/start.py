"""From a command line to a run and its closing table."""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from togyz_agents.network import load_network
from togyz_agents.players.alphazero import AlphaZeroAgent
from togyz_agents.tournament.match import MatchResult, play_match
from togyz_agents.tournament.openings import LONGEST_OPENING
from togyz_agents.training import checkpoint
from togyz_agents.training import config as config_
from togyz_agents.training.config import LIMITS, Config
from togyz_agents.training.loop import Progress, Resume, train
from togyz_agents.training.metrics import Scalars
from togyz_agents.training.stopping import Stop
from togyz_env.errors import ConfigError

AUTO = "auto"
"""``--resume auto``: go on with the run if it is there, from its newest good checkpoint; else begin it."""


log = logging.getLogger(__name__)


def main(config_file: Path | None, resume: str | None, overrides: list[str]) -> None:
    """Start or resume a run, then play and print its final matches.

    Args:
        config_file: base of the configuration; a resumed run keeps its own.
        resume: a run directory, a checkpoint in it (RUN/checkpoints/000040), or "auto".
        overrides: further arguments, ``--key value``.

    Exits with status 130 or 143 when the run was stopped by Ctrl-C or SIGTERM.
    """
    if config_file is not None and resume not in (None, AUTO):
        raise ConfigError("command line: --config and --resume exclude each other; a run keeps its configuration")
    run, how = _run_to_resume(config_file, resume, overrides)
    if run is not None and config_file is None:
        base = checkpoint.load_config(run)
    else:
        base = config_.load(config_file) if config_file else Config()
    config = config_.override(base, overrides)
    if run is not None and resume == AUTO:  # the same command line begins a run and goes on with it, wherever it lies now
        config = replace(config, run=replace(config.run, dir=checkpoint.load_config(run).run.dir))
    if (config.ladder.every or config.final.pairs) and config.rules.max_plies <= LONGEST_OPENING:
        raise ConfigError(
            f"rules.max_plies: {config.rules.max_plies} leaves no move after the {LONGEST_OPENING} random plies that open a "
            f"match; expected more, or ladder.every and final.pairs 0"
        )
    if run is None:
        run = Path(config.run.dir) if config.run.dir else _directories(config_file)[1]
    console = Console()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    console.print(f"run {run}")
    threading.excepthook = _one_line
    with Stop() as stop, Watch(console) as watch:
        progress = train(run, config, resume=how, watch=watch, stop=stop)
    if stop.asked():
        saved = f"saved after iteration {progress.iteration}" if progress.iteration else "before its first iteration ended"
        console.print(f"stopped by {stop.name}, {saved}")
        console.print(f"go on       python scripts/train.py --resume {run}")
        sys.exit(stop.status)
    console.print(
        f"trained {progress.seconds / 60:.1f} minutes: {progress.games:,} games, {progress.samples:,} positions, "
        f"{progress.simulations:,} simulations"
    )
    if config.final.pairs:
        console.print(final_table(final_matches(run, config), config))
    console.print(f"network     {run / checkpoint.NETWORK_FILE}")
    console.print(f"curves      tensorboard --logdir {run}")
    console.print(f"go on       python scripts/train.py --resume {run} {longer(config)}")
    console.print(f"export      python scripts/export.py {run}")


def longer(config: Config) -> str:
    """The arguments that make a run twice as long."""
    limits = {name: getattr(config.run, name) for name in LIMITS}
    return " ".join(f"--run.{name} {2 * value}" for name, value in limits.items() if value is not None)


def _one_line(error: threading.ExceptHookArgs) -> None:
    """What a thread of a library (TensorBoard's writer) dies of, without its traceback."""
    log.error("thread %s: %s", error.thread.name if error.thread else "?", " ".join(str(error.exc_value).split()))


def _run_to_resume(config_file: Path | None, resume: str | None, overrides: list[str]) -> tuple[Path | None, Resume]:
    """The run to go on with, None for a new one, and from where in it."""
    if resume is None:
        return None, False
    if resume == AUTO:
        config = config_.override(config_.load(config_file) if config_file else Config(), overrides)
        run = Path(config.run.dir) if config.run.dir else _directories(config_file)[0]
        if run is None or not run.exists():
            return None, False
        return run, True if checkpoint.not_begun(run) else "good"
    path = Path(resume)
    if path.parent.name == "checkpoints" and path.name.isdecimal():
        return path.parent.parent, int(path.name)
    return path, True


def _directories(config_file: Path | None) -> tuple[Path | None, Path]:
    """The newest of the directories runs/NAME-N, if there is one, and the next free one."""
    name = config_file.stem if config_file else "run"
    newest, number = None, 1
    while (path := Path("runs") / f"{name}-{number}").exists():
        newest = path
        number += 1
    return newest, path


class Watch:
    """Shows a run's progress: a bar on a terminal, a plain line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        """Draw nothing yet."""
        columns = (TextColumn("{task.percentage:3.0f} %"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Bar(*columns, console=console) if console.is_terminal else None
        self._task = self._bar.add_task("self-play begins", total=1.0) if self._bar else None
        self._console = console
        self._printed = -1.0

    def __enter__(self) -> Watch:
        """Start the bar."""
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the bar."""
        if self._bar:
            self._bar.stop()

    def __call__(self, progress: Progress, share: float, scalars: Scalars) -> None:
        """Show one iteration."""
        loss = scalars.get("learner/policy", float("nan")), scalars.get("learner/outcome", float("nan"))
        speed = scalars["speed/simulations a second"]
        text = (
            f"iteration {progress.iteration}, {progress.games:,} games, {speed:,.0f} simulations/s, "
            f"policy loss {loss[0]:.3f}, outcome loss {loss[1]:.3f}"
        )
        if "ladder/elo" in scalars:
            low, high = scalars["ladder/elo low"], scalars["ladder/elo high"]
            self._console.print(
                f"iteration {progress.iteration}: Elo {scalars['ladder/elo']:.0f} above random ({low:.0f} to {high:.0f}), "
                f"{scalars['ladder/score greedy']:.0%} against greedy"
            )
        if self._bar and self._task is not None:
            self._bar.update(self._task, completed=share, description=text)
        elif progress.seconds - self._printed >= 15 or share >= 1.0:
            self._printed = progress.seconds
            self._console.print(f"{share:4.0%} {progress.seconds / 60:5.1f} min  {text}", soft_wrap=True)


def final_matches(run: Path, config: Config) -> list[MatchResult]:
    """The trained network of ``run`` against random, greedy and the run's own first network."""
    network = load_network(run / checkpoint.NETWORK_FILE)
    first = load_network(run / checkpoint.FIRST_NETWORK)
    sims = config.final.simulations
    player = AlphaZeroAgent.from_network(network, sims, "trained", config.rules, config.run.device)
    novice = AlphaZeroAgent.from_network(first, sims, "first network", config.rules, config.run.device)
    return [play_match(player, other, config.final.pairs, seed=1, ruleset=config.rules) for other in ("random", "greedy", novice)]


def final_table(results: list[MatchResult], config: Config) -> Table:
    """The closing table: games, distinct games, score and its 95 % interval."""
    title = f"{config.final.simulations} simulations a move, colour-swapped pairs from random openings"
    table = Table(title=title, title_justify="left")
    for name in ("against", "games", "distinct", "won", "drawn", "lost", "score", "95 %"):
        table.add_column(name, justify="left" if name == "against" else "right")
    for result in results:
        low, high = result.interval()
        table.add_row(
            result.second,
            *(str(n) for n in (len(result.games), result.distinct_games, result.wins, result.draws, result.losses)),
            f"{result.score:.1%}",
            f"{low:.1%}-{high:.1%}",
        )
    return table
