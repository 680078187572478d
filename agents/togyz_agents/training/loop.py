"""The training loop: self-play and learning side by side, one chunk apart.

    iteration i:   workers play chunk i + 1 with the average weights of iteration i - 1
                   the learner trains on chunks 1 .. i

The hand-over happens between chunks only, so a run with given seeds is the same however fast its threads are, and a checkpoint
taken there (the learner, the replay, the games in progress, the weights the workers were given) continues bit for bit.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from togyz_agents.evaluator import fastest_precision, one_torch_thread, usable_device
from togyz_agents.files import lock
from togyz_agents.network import Network, load_network, save_network
from togyz_agents.training import checkpoint
from togyz_agents.training.checkpoint import FIRST_NETWORK, Saved
from togyz_agents.training.config import LIMITS, Config, at, leaves
from togyz_agents.training.equal_games import EqualGames
from togyz_agents.training.ladder import Ladder
from togyz_agents.training.learner import Learner
from togyz_agents.training.metrics import Metrics, Scalars
from togyz_agents.training.replay import Replay
from togyz_agents.training.samples import SAMPLE
from togyz_agents.training.selfplay import Chunk, WorkerState
from togyz_agents.training.stopping import Stop
from togyz_agents.training.workers import Workers
from togyz_env.errors import CheckpointError, ConfigError, TogyzError, TrainingError

FIXED_ON_RESUME = ("network", "rules", "run.seed", "run.dir", "run.network", "selfplay.workers", "selfplay.slots")
"""Settings that a resumed run cannot change: its weights, games and random streams depend on them."""

TEST_SAMPLES = 2048

log = logging.getLogger(__name__)


@dataclass
class Progress:
    """How far a run is; also what is saved of it.

    Attributes:
        iteration: iterations done.
        samples, games, simulations: totals of self-play.
        seconds: wall-clock time of training so far.
        cpu_seconds: processor time of training so far, over all threads.
    """

    iteration: int = 0
    samples: int = 0
    games: int = 0
    simulations: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def check(self) -> None:
        """Refuse totals that cannot be, with a ValueError."""
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            kind = float if f.name.endswith("seconds") else int
            if type(value) is not kind or not 0 <= value < 2**62:
                raise ValueError(f"progress {f.name} {value!r}")

    def share(self, config: Config) -> float:
        """Share of the run that is done, by the limit that is nearest."""
        run = config.run
        shares = [
            done / limit
            for done, limit in (
                (self.seconds / 60, run.minutes),
                (self.cpu_seconds / 60, run.cpu_minutes),
                (self.samples, run.samples),
                (self.iteration, run.iterations),
            )
            if limit is not None
        ]
        return min(1.0, max(shares, default=0.0))


Watcher = Callable[[Progress, float, Scalars], None]
"""Called after each iteration with the progress, its share of the run and the iteration's scalars."""


Resume = bool | int | Literal["good"]
"""False: a new run. True: from the newest checkpoint; "good": from the newest one that is not damaged; a number: from that one."""


def train(
    run: Path, config: Config, *, resume: Resume = False, watch: Watcher = lambda *_: None, stop: Stop | None = None
) -> Progress:
    """Train in directory ``run`` until the configured end; return the totals.

    Args:
        run: created for a new run; with ``resume`` it must hold one.
        config: of the run; on resume some settings must be the saved ones.
        resume: go on from a checkpoint; a run that was killed before its first one begins again.
        watch: called after each iteration.
        stop: when it is asked for, the run is saved as after its last whole iteration, and ends.

    Raises:
        ConfigError: no end is set, or a setting changed that cannot change on resume.
        CheckpointError: ``run`` exists already (new run), holds no usable checkpoint (resume) or is in use.
        TrainingError: a loss that is no number, a worker that failed or hangs, a disk that takes no more: the run stops.
    """
    if all(getattr(config.run, name) is None for name in LIMITS):
        raise ConfigError(f"run: no end is set; give one of {', '.join(f'run.{name}' for name in LIMITS)}")
    with one_torch_thread(), ExitStack() as stack:
        saved: Saved | None = None
        first: Network | None = None
        if resume is not False:
            old = checkpoint.load_config(run)
            stack.enter_context(_alone(run))
            _check_unchanged(old, config)
            if resume is True and checkpoint.not_begun(run):
                log.info("resume: %s was stopped before its first checkpoint and begins again", run)
                first = load_network(run / FIRST_NETWORK)
            else:
                number = resume if type(resume) is int else None
                saved = checkpoint.load(run, number, fall_back=resume == "good")
            config = _keep_precision(old, config)
        elif run.exists():
            raise CheckpointError(f"run: {str(run)!r} exists already; give --resume {run} to go on, or another run.dir")
        usable_device(config.run.device)
        seeds = np.random.SeedSequence(config.run.seed).spawn(2 + config.selfplay.workers)
        torch.manual_seed(int(seeds[0].generate_state(1)[0]))
        network = first or (_first_network(config) if saved is None else Network(config.network))
        config = _resolve_precision(config, network)
        progress = Progress()
        with _fits(run) if saved is not None else nullcontext():
            if saved is not None:
                progress = Progress(**saved.state["progress"])
                progress.check()
                total, held = saved.state["replay total"], saved.state.get("replay held", 0)
                if type(total) is not int or type(held) is not int or not 0 <= held <= total < 2**62:
                    raise ValueError(f"a replay of {held} samples of {total}")
                _check_network(at(checkpoint.load_config(run), progress.games), at(config, progress.games))
                network = Network(at(config, progress.games).network)
            now = at(config, progress.games)
            learner = Learner(now.learner, network, seeds[1], config.run.device)
            replay = Replay(now.replay, run / checkpoint.REPLAY_FOLDER)
            stack.callback(replay.close)
            playing = Network(now.network).eval()  # the weights that the workers use
            playing.load_state_dict(network.state_dict())
            equal = EqualGames()
            if saved is not None:
                learner.load_state_dict(saved.state["learner"])
                playing.load_state_dict(saved.state["playing"])
                replay.restore(saved.samples, saved.state["replay total"], saved.state.get("replay held"))
                if "equal games" in saved.state:
                    equal = EqualGames(saved.state["game keys"].numpy().view(np.uint64), saved.state["equal games"])
            workers = Workers(now, playing, seeds[2:], saved.workers if saved is not None else None)
        stack.callback(workers.close)
        if resume is False:
            _make_directory(run, config, network)
            stack.enter_context(_alone(run))
        else:
            _log_changes(old, config)
        with _stops_when_full(run):
            if resume is not False:
                checkpoint.clean(run)
                checkpoint.set_aside(run, progress.iteration)
                if saved is not None:
                    checkpoint.refresh_network(saved)
            ladder = Ladder(run, config, progress.iteration)
            with Metrics(run, progress.iteration) as metrics:
                checkpoint.save_config(run, config)
                _iterate(run, config, workers, learner, replay, equal, progress, playing, ladder, metrics, watch, stop or Stop())
    return progress


def _iterate(
    run: Path,
    config: Config,
    workers: Workers,
    learner: Learner,
    replay: Replay,
    equal: EqualGames,
    progress: Progress,
    playing: Network,
    ladder: Ladder,
    metrics: Metrics,
    watch: Watcher,
    stop: Stop,
) -> None:
    started = time.perf_counter() - progress.seconds
    cpu_started = time.process_time() - progress.cpu_seconds
    if progress.share(config) >= 1.0:
        return
    now = at(config, progress.games)
    saved = progress.iteration
    samples = np.zeros(0, SAMPLE)
    states: list[WorkerState] = []

    def save() -> int:
        """Save the run as it is after its last whole iteration."""
        learner.check(samples[:TEST_SAMPLES])
        state = {
            "learner": learner.state_dict(),
            "playing": playing.state_dict(),
            "progress": dataclasses.asdict(progress),
            "game keys": torch.from_numpy(equal.keys.view(np.int64).copy()),
            "equal games": equal.count,
        }
        path = checkpoint.save(run, progress.iteration, state, states, replay, learner.average, config.run.keep)
        log.info("checkpoint %s", path)
        return progress.iteration

    workers.start(playing)
    while True:
        chunk_started = time.perf_counter()
        try:
            chunks = workers.wait(stop.asked)
        except TrainingError:  # of a worker; the learner and the games of the last hand-over are good
            if saved != progress.iteration:
                save()
            raise
        if chunks is None:
            if saved != progress.iteration:
                save()
            return
        waited = time.perf_counter() - chunk_started
        states = workers.snapshot()
        samples = np.concatenate([chunk.samples for chunk in chunks])
        progress.iteration += 1
        progress.samples += len(samples)
        progress.games += sum(chunk.counters["games"] for chunk in chunks)
        progress.simulations += sum(chunk.counters["simulations"] for chunk in chunks)
        progress.seconds = time.perf_counter() - started
        progress.cpu_seconds = time.process_time() - cpu_started
        equal.add(np.concatenate([chunk.keys for chunk in chunks]))
        share = progress.share(config)
        last = share >= 1.0
        if (stage := at(config, progress.games)) != now:
            now = stage
            log.info("stage from %d games on, at iteration %d", progress.games, progress.iteration)
            learner.configure(now.learner, now.network.width)
            replay.configure(now.replay)
            playing = Network(now.network).eval()
            workers.configure(now, playing)
        playing.load_state_dict(learner.average.state_dict())
        if not last:
            workers.start(playing)
        scalars = _selfplay_scalars(chunks)
        tested = learner.test(samples[np.linspace(0, len(samples) - 1, min(TEST_SAMPLES, len(samples))).astype(int)])
        scalars |= {f"test/{name}": value for name, value in tested.items()}
        replay.add(samples)
        steps = learner.owe(len(samples))
        if steps:
            trained = learner.train(replay, steps, share)
            scalars |= {f"learner/{name}": value for name, value in trained.items()}
        if config.ladder.every and (progress.iteration % config.ladder.every == 0 or last):
            rung = ladder.climb(learner.average, progress.iteration)
            scalars |= {"ladder/elo": rung.elo, "ladder/elo low": rung.low, "ladder/elo high": rung.high}
            scalars |= {f"ladder/score {name}": score for name, score in rung.scores.items() if not name.startswith("network")}
        progress.seconds = time.perf_counter() - started
        progress.cpu_seconds = time.process_time() - cpu_started
        seconds = time.perf_counter() - chunk_started
        scalars |= {
            "speed/simulations a second": sum(chunk.counters["simulations"] for chunk in chunks) / seconds,
            "speed/samples a second": len(samples) / seconds,
            "speed/trained samples a second": steps * config.learner.batch / seconds,
            "speed/learner waited": waited / seconds,
            "replay/size": len(replay),
            "replay/window": replay.window(),
            "progress/samples": progress.samples,
            "progress/games": progress.games,
            "progress/simulations": progress.simulations,
            "progress/equal games": equal.count,
            "progress/minutes": progress.seconds / 60,
            "progress/cpu minutes": progress.cpu_seconds / 60,
        }
        metrics.write(progress.iteration, scalars)
        watch(progress, share, scalars)
        if last or progress.iteration % config.run.checkpoint_every == 0:
            saved = save()
        if last:
            return


def _selfplay_scalars(chunks: list[Chunk]) -> Scalars:
    total = {name: sum(chunk.counters[name] for chunk in chunks) for name in chunks[0].counters}
    games = max(1, total["games"])
    return {
        "selfplay/plies a game": total["plies"] / games,
        "selfplay/white score": (total["white wins"] + 0.5 * total["draws"]) / games,
        "selfplay/draws": total["draws"] / games,
        "selfplay/ply limits": total["ply limits"] / games,
        "selfplay/evaluations a simulation": total["evaluations"] / max(1, total["simulations"]),
        "selfplay/proven searches": total["proven"] / max(1, total["searches"]),
    }


def _first_network(config: Config) -> Network:
    if config.run.network is None:
        return Network(config.network)
    network = load_network(Path(config.run.network))
    if network.config != config.network:
        raise ConfigError(f"run.network: {config.run.network!r} is {network.config}, the configuration says {config.network}")
    return network


def _resolve_precision(config: Config, network: Network) -> Config:
    if config.selfplay.precision != "auto":
        return config
    precision: Any = fastest_precision(network, config.run.device, config.selfplay.slots)
    return dataclasses.replace(config, selfplay=dataclasses.replace(config.selfplay, precision=precision))


def _keep_precision(old: Config, new: Config) -> Config:
    """On resume "auto" means what it was found to mean when the run began."""
    if new.selfplay.precision != "auto" or new.run.device != old.run.device:
        return new
    return dataclasses.replace(new, selfplay=dataclasses.replace(new.selfplay, precision=old.selfplay.precision))


def _check_network(old: Config, new: Config) -> None:
    if old.network != new.network:
        raise ConfigError(
            f"resume: the stages make the network {new.network} by now, it is {old.network}; change later stages only"
        )


def _check_unchanged(old: Config, new: Config) -> None:
    after = leaves(new)
    for key, before in leaves(old).items():
        if (key in FIXED_ON_RESUME or key.partition(".")[0] in FIXED_ON_RESUME) and before != after[key]:
            raise ConfigError(f"resume: {key} was {before!r} and cannot become {after[key]!r}")


def _log_changes(old: Config, new: Config) -> None:
    after = leaves(new)
    for key, before in leaves(old).items():
        if before != after[key]:
            log.info("resume: %s was %r and is now %r", key, before, after[key])


@contextmanager
def _alone(run: Path) -> Iterator[None]:
    """Hold ``run`` for this process; the system lets it go when the process ends, however it ends."""
    descriptor = os.open(run, os.O_RDONLY)
    try:
        if not lock(descriptor, run):
            raise CheckpointError(f"run: {str(run)!r} is in use by another process; expected a run that has stopped")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _stops_when_full(run: Path) -> Iterator[None]:
    """Say in one line which file could not be written and what is left to go on from."""
    try:
        yield
    except OSError as error:
        found = checkpoint.checkpoints(run)
        left = f"its last checkpoint is {str(found[-1])!r}" if found else "it has no checkpoint yet"
        raise TrainingError(
            f"run: cannot write {str(error.filename or run)!r} ({error.strerror or error}); the run stops, {left}; "
            f"put that right, then give --resume {run}"
        ) from error


@contextmanager
def _fits(run: Path) -> Iterator[None]:
    """Turn what a checkpoint of another shape causes into a CheckpointError."""
    try:
        yield
    except TogyzError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        reason = textwrap.shorten(f"{type(error).__name__}: {error}", 250)
        raise CheckpointError(
            f"resume: the checkpoint in {str(run)!r} does not fit {checkpoint.CONFIG_FILE} ({reason}); start a new run"
        ) from None


def _make_directory(run: Path, config: Config, network: Network) -> None:
    """Create ``run`` with its configuration and first network, whole or not at all."""
    temporary = run.with_name(f".{run.name}.tmp")
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        save_network(network, temporary / FIRST_NETWORK, iteration="0")
        checkpoint.save_config(temporary, config)
        os.rename(temporary, run)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise ConfigError(f"run.dir: cannot create {str(run)!r} ({error.strerror})") from None
