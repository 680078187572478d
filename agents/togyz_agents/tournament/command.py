"""What scripts/tournament.py does: read the plan, play or test, write the reports, and say how it went."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from togyz_agents.files import replace_file
from togyz_agents.tournament.page import as_html
from togyz_agents.tournament.plan import TournamentPlan, read_plan
from togyz_agents.tournament.record import GameRecord
from togyz_agents.tournament.report import RATING_HEAD, as_dict, as_markdown, facts, rating_rows
from togyz_agents.tournament.run import run_sprt_match, run_tournament
from togyz_agents.tournament.sprt import SprtConfig, SprtResult, describe
from togyz_agents.tournament.store import stored_games
from togyz_agents.tournament.summary import Summary, summarise
from togyz_env.errors import ConfigError
from togyz_env.notation import shown

SECONDS_BETWEEN_LINES = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """The command line."""

    plan: Path | None = None
    out: Path | None = None
    workers: int | None = None
    pairs: int | None = None
    seed: int | None = None
    report: bool = False
    sprt: list[str] | None = None
    alpha: float = SprtConfig.alpha
    beta: float = SprtConfig.beta
    max_pairs: int = SprtConfig.max_pairs
    model: str = SprtConfig.model
    command: str = ""


def play(options: Options) -> str:
    """Play what is asked for and write the reports; return the text to print. ConfigError says what is wrong with the options."""
    if options.plan is None and options.sprt is None:
        raise ConfigError("tournament: nothing to play; give a YAML file, such as configs/tournament.yaml, or --sprt")
    plan = None if options.plan is None else read_plan(options.plan)
    test = None
    if options.sprt is not None:
        if options.report or options.pairs is not None:
            raise ConfigError("tournament: --sprt goes with neither --report nor --pairs (it has --max-pairs)")
        test = _test(options)
        plan = _plan_of_two(plan, *options.sprt[2:])
    if plan is None:
        raise RuntimeError("no plan")
    changes = {key: value for key in ("workers", "pairs", "seed") if (value := getattr(options, key)) is not None}
    plan = replace(plan, **changes)
    folder = options.out or Path("runs") / _folder_name(options, plan)
    notes = [f"Openings: {_openings(plan)}. Seed {plan.seed}.", *([f"Made by `{options.command}`"] if options.command else [])]
    if test is not None:
        result, games = run_sprt_match(plan, folder, test, _PairProgress())
        verdict = describe(result, test)
        summary = summarise(plan.players, games, anchor=plan.anchor)
        write_reports(folder, summary, plan.title, [*verdict.splitlines(), *notes])
        return f"{verdict}\nreport: {folder}"
    games = _games_of(plan, folder) if options.report else run_tournament(plan, folder, on_game=_GameProgress())
    summary = summarise(plan.players, games, planned=2 * plan.pairs * len(plan.pairings()), anchor=plan.anchor)
    paths = write_reports(folder, summary, plan.title, notes)
    return "\n".join([*_table(summary), *facts(summary), *(f"beware: {text}" for text in summary.warnings), f"report: {paths[1]}"])


def write_reports(folder: Path, summary: Summary, title: str, notes: Sequence[str] = ()) -> list[Path]:
    """Write the three reports into ``folder``; return their paths. ``notes`` are lines about how the games were played."""
    texts = {
        "report.json": json.dumps(as_dict(summary, title, notes), indent=1, ensure_ascii=False) + "\n",
        "report.html": as_html(summary, title, notes),
        "report.md": as_markdown(summary, title, notes),
    }
    for name, text in texts.items():
        replace_file(folder / name, text.encode())
    return [folder / name for name in texts]


def _test(options: Options) -> SprtConfig:
    words = (options.sprt or [])[:2]
    try:
        elo0, elo1 = map(float, words)
    except ValueError:
        raise ConfigError(f"sprt: {' '.join(words)!r}; expected two numbers ELO0 ELO1, then two players") from None
    return SprtConfig(elo0, elo1, options.alpha, options.beta, options.max_pairs, options.model)  # type: ignore[arg-type]  # refuses others


def _plan_of_two(plan: TournamentPlan | None, first: str, second: str) -> TournamentPlan:
    """The test's plan: names of players of ``plan`` stand for their descriptions, anything else describes itself."""
    known = {} if plan is None else plan.players
    players = {first: known.get(first, first)}
    players[second if second != first else f"{second} (2)"] = known.get(second, second)
    title = f"{first} against {second}"
    if plan is None:
        return TournamentPlan(players=players, title=title)
    return replace(plan, players=players, title=title, format="round robin", challengers=(), anchor=None)


def _folder_name(options: Options, plan: TournamentPlan) -> str:
    if options.sprt is None and options.plan is not None:
        return options.plan.stem
    return re.sub(r"[^\w.=-]+", "_", "sprt-" + "-".join(plan.players))[:120]


def _openings(plan: TournamentPlan) -> str:
    openings = plan.openings
    if openings.file is not None:
        return f"from {openings.file}"
    text = f"{openings.plies[0]} to {openings.plies[1]} random plies"
    return text if openings.judge is None else f"{text} that {openings.judge} values below {openings.decided:g}"


def _games_of(plan: TournamentPlan, folder: Path) -> list[GameRecord]:
    if not folder.is_dir():
        raise ConfigError(f"report: no folder {str(folder)!r}; expected one where a tournament was played (--out)")
    games = stored_games(folder, plan.identity())
    return [games[key] for key in plan.game_keys() if key in games]


def _table(summary: Summary) -> list[str]:
    rows = [RATING_HEAD, *rating_rows(summary)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(RATING_HEAD))]
    left = (1,)
    return [
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip() for row in rows
    ]


class _GameProgress:
    """A line in the log every ten seconds, and for each forfeit."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, game: GameRecord, finished: int, total: int) -> bool:
        if game.detail:
            log.warning("forfeit in game %d of pair %d: %s", game.game + 1, game.pair + 1, shown(game.detail))
        if time.monotonic() >= self._next or finished == total:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            log.info("%d of %d games", finished, total)
        return False


class _PairProgress:
    """The same for a test."""

    def __init__(self) -> None:
        self._next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, result: SprtResult) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            log.info("%d pairs, score %.1f %%, log-likelihood ratio %.2f", result.pairs, 100 * result.score, result.llr)
