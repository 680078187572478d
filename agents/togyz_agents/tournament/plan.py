"""What a tournament plays, as its YAML file says it: players, pairings, openings, rules; and each game that follows from it.

A game's opening and seeds follow from the seed of the tournament and from who plays whom in which pair, not from the order in which
games are played: the same plan gives the same games in any order, in any number of processes, and beside other players.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import importlib
import json
import os
import types
import typing
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from togyz_agents.agent import Agent, agent_files, make_agent
from togyz_agents.thinking import Analyst
from togyz_agents.tournament.game import Players
from togyz_agents.tournament.openings import LONGEST_OPENING, Opening, opening_stream, read_openings
from togyz_agents.tournament.record import ClockRule, GameRules, GameTask, Key, Verdict
from togyz_agents.yaml_file import read_yaml
from togyz_env.errors import ConfigError, TogyzError
from togyz_env.notation import shown
from togyz_env.position import Position, Ruleset


@dataclass(frozen=True, slots=True)
class OpeningPlan:
    """Where the openings come from; each is played twice, with the colours swapped."""

    plies: tuple[int, int] = (4, LONGEST_OPENING)
    """Fewest and most random plies; every two players get openings of their own."""
    judge: str | None = "alphabeta:depth=6"
    """This player analyses each random opening; null keeps them all."""
    decided: float = 0.7
    """Openings to which the judge gives this value or more, for either side (1 = won), are dropped."""
    file: Path | None = None
    """Play the openings of this file instead, the first for pair 1 and so on; they are not judged."""

    def __post_init__(self) -> None:
        """Refuse what yields no openings."""
        if not 0 <= self.plies[0] <= self.plies[1]:
            raise ConfigError(f"openings.plies: {list(self.plies)}; expected the fewest and the most plies, from 0")
        if not 0 < self.decided <= 1:
            raise ConfigError(f"openings.decided: {self.decided}; expected a value above 0, at most 1")


@dataclass(frozen=True)
class TournamentPlan:
    """A tournament."""

    players: dict[str, str]
    """Names and what they play: ``name: description``; a plain list of descriptions names the players by them."""
    title: str = "Tournament"
    """Stands above the report."""
    format: Literal["round robin", "gauntlet"] = "round robin"
    """Everybody meets everybody, or the challengers meet all others."""
    challengers: tuple[str, ...] = ()
    """Names of the gauntlet's challengers; they do not meet each other."""
    pairs: int = 20
    """Pairs of games of any two players that meet."""
    seed: int = 1
    """Of openings and players."""
    workers: int = 0
    """Processes that play; 0: one for each core. The games do not depend on it."""
    openings: OpeningPlan = field(default_factory=OpeningPlan)
    """Where the openings come from."""
    rules: Ruleset = field(default_factory=Ruleset)
    """When a game ends. Searches assume it, unless a player's description says otherwise."""
    clock: ClockRule | None = None
    """Time beside the limits in the players' descriptions; games with time limits are not repeatable."""
    adjudication: Verdict | None = None
    """When a judge may end a game; null: never."""
    anchor: str | None = None
    """The player whose rating is 0; null: the mean is 0."""
    modules: tuple[str, ...] = ()
    """Python modules to import first, which register players of their own."""

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        if len(self.players) < 2:
            raise ConfigError(f"players: {list(self.players)}; expected at least two")
        for name in self.players:
            if not name.strip() or len(name) > 60 or not name.isprintable():
                raise ConfigError(f"players: the name {shown(name)} is not 1 to 60 printable characters")
        for key in ("pairs", "seed", "workers"):
            least = 1 if key == "pairs" else 0
            if getattr(self, key) < least:
                raise ConfigError(f"{key}: {getattr(self, key)}; expected at least {least}")
        named = {"challengers": self.challengers, "anchor": () if self.anchor is None else (self.anchor,)}
        for key, names in named.items():
            for name in names:
                if name not in self.players:
                    raise ConfigError(f"{key}: {shown(name)} is not among the players {', '.join(self.players)}")
        if (self.format == "gauntlet") != bool(self.challengers):
            raise ConfigError("challengers: a gauntlet needs them, a round robin has none")
        if self.format == "gauntlet" and set(self.challengers) == set(self.players):
            raise ConfigError("challengers: all players are challengers, so that nobody is left to meet")
        if self.openings.file is None and self.rules.max_plies <= self.openings.plies[1]:
            raise ConfigError(
                f"rules.max_plies: {self.rules.max_plies} leaves no move after {self.openings.plies[1]} plies of opening"
            )

    @property
    def game_rules(self) -> GameRules:
        """What holds for every game."""
        return GameRules(self.rules, self.clock, self.adjudication)

    @property
    def process_count(self) -> int:
        """How many processes play."""
        if self.workers:
            return self.workers
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def pairings(self) -> list[tuple[str, str]]:
        """Who meets whom; the two names in alphabetical order."""
        meets: Callable[[str, str], bool] = lambda a, b: True  # noqa: E731
        if self.format == "gauntlet":
            meets = lambda a, b: (a in self.challengers) != (b in self.challengers)  # noqa: E731
        return [(min(pair), max(pair)) for pair in combinations(self.players, 2) if meets(*pair)]

    def game_keys(self) -> Iterator[Key]:
        """Yield the identities of the games in the order of play: pair 1 of all pairings, pair 2 of all, and so on."""
        pairings = self.pairings()
        for pair in range(self.pairs):
            for first, second in pairings:
                for game in (0, 1):
                    yield first, second, pair, game

    def tasks(self, done: Container[Key] = ()) -> Iterator[GameTask]:
        """Yield the games in the order of play, without those that are ``done``.

        Raises:
            ConfigError: the openings run out.
        """
        keep = None if self.openings.file is not None else balance(self.openings, self.rules)
        books = {pairing: _Book(self, pairing, keep) for pairing in self.pairings()}
        for key in self.game_keys():
            if key not in done:
                first, second, pair, game = key
                seeds = _numbers(self.seed, first, second, pair, game, "players")
                yield GameTask(first, second, pair, game, books[first, second][pair], seeds)

    def identity(self) -> dict[str, Any]:
        """All that decides what a game is, as plain values: two tournaments with one identity have the same games.

        Networks and opening files stand in it with their SHA-256.
        """
        openings: dict[str, Any] = {
            "plies": list(self.openings.plies),
            "judge": self.openings.judge,
            "decided": self.openings.decided,
        }
        if self.openings.file is not None:
            read_openings(self.openings.file, self.rules)
            openings = {"file": hashlib.sha256(self.openings.file.read_bytes()).hexdigest()}
        elif self.openings.judge is not None:
            openings["judge files"] = agent_files(self.openings.judge)
        verdict = self.adjudication
        return {
            "seed": self.seed,
            "rules": dataclasses.asdict(self.rules),
            "openings": openings,
            "clock": None if self.clock is None else dataclasses.asdict(self.clock),
            "adjudication": None if verdict is None else dataclasses.asdict(verdict) | {"files": agent_files(verdict.agent)},
            "players": {name: {"agent": text, "files": agent_files(text)} for name, text in self.players.items()},
        }

    def check_players(self) -> None:
        """Make and close every player once: a wrong description shows now, not in the middle; TogyzError says what is wrong."""
        for name, text in self.players.items():
            players = Players({name: text}, self.rules)
            try:
                players.get(name)
            except TogyzError:
                raise
            except Exception as error:  # whatever a player's code does wrong
                detail = " ".join(f"{type(error).__name__}: {error}".split())
                raise ConfigError(f"player {name!r}: cannot be made ({detail})") from None
            finally:
                players.close()
        judges = {"adjudication": self.adjudication.agent if self.adjudication else None}
        judges["openings.judge"] = self.openings.judge if self.openings.file is None else None
        for key, judge in judges.items():
            if judge is not None:
                _analyst(judge, key, self.rules)[0].close()


def import_modules(modules: Sequence[str]) -> None:
    """Import ``modules``, which register players; ConfigError if one cannot be."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # whatever their code does
            raise ConfigError(f"modules: cannot import {module!r} ({type(error).__name__}: {error})") from None


def _analyst(description: str, key: str, rules: Ruleset) -> tuple[Agent, Analyst]:
    agent = make_agent(description, rules)
    if not isinstance(agent, Analyst):
        agent.close()
        raise ConfigError(f"{key}: {description!r} cannot analyse; expected a player with a search, such as alphabeta:depth=6")
    return agent, agent


class _Book:
    """The openings of one pairing, found as they are asked for."""

    def __init__(self, plan: TournamentPlan, pairing: tuple[str, str], keep: Callable[[Position], bool] | None) -> None:
        self._plan = plan
        self._openings: list[Opening] = []
        self._more: Iterator[Opening] = iter(())
        if plan.openings.file is not None:
            self._openings = read_openings(plan.openings.file, plan.rules)
        else:
            seed = _numbers(plan.seed, *pairing, "openings")[0]
            self._more = opening_stream(seed, plan.openings.plies, plan.rules, keep)

    def __getitem__(self, pair: int) -> Opening:
        while len(self._openings) <= pair:
            opening = next(self._more, None)
            if opening is None:
                found = len(self._openings)
                where = f"in {self._plan.openings.file}" if self._plan.openings.file else "of these plies that are not decided"
                raise ConfigError(f"openings: only {found} {where} for {self._plan.pairs} pairs; expected one for each pair")
            self._openings.append(opening)
        return self._openings[pair]


def balance(openings: OpeningPlan, rules: Ruleset) -> Callable[[Position], bool] | None:
    """Return what tells the positions that the judge does not call decided; None without a judge."""
    if openings.judge is None:
        return None
    agent, analyst = _analyst(openings.judge, "openings.judge", rules)

    def undecided(position: Position) -> bool:
        agent.new_game(0)  # so that a verdict does not depend on those before
        return abs(float(analyst.analyse(position).value)) < openings.decided

    return undecided


def _numbers(*identity: str | int) -> tuple[int, int]:
    """Two numbers below 2**32 that follow from ``identity`` alone."""
    digest = hashlib.sha256(json.dumps(identity).encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")


def read_plan(path: Path) -> TournamentPlan:
    """Read a plan; relative paths of opening files are taken from the file's folder.

    Raises:
        ConfigError: one line with the file, the key, what is wrong and what would be right.
    """
    data = read_yaml(path, "tournament")
    try:
        plan = plan_from_dict(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if plan.openings.file is not None and not plan.openings.file.is_absolute():
        openings = dataclasses.replace(plan.openings, file=path.parent / plan.openings.file)
        plan = dataclasses.replace(plan, openings=openings)
    return plan


def plan_from_dict(data: object) -> TournamentPlan:
    """Make a plan of plain values; ConfigError names the key that is wrong."""
    if not isinstance(data, dict):
        raise ConfigError("expected keys with values, at least players")
    if isinstance(data.get("players"), list):
        names = [str(player) for player in data["players"]]
        if doubled := [name for name in names if names.count(name) > 1]:
            raise ConfigError(f"players: {doubled[0]!r} stands there twice; give each a name of its own, name: description")
        data = data | {"players": dict(zip(names, names))}
    plan: TournamentPlan = _build(TournamentPlan, data, "")
    return plan


def _build(annotation: Any, value: Any, key: str) -> Any:
    """Return ``value`` as an ``annotation``, strictly."""
    if dataclasses.is_dataclass(annotation):
        if not isinstance(value, dict):
            raise ConfigError(f"{key}: {shown(value)} is not a mapping of keys to values")
        hints = typing.get_type_hints(annotation)
        known = {entry.name: entry for entry in dataclasses.fields(annotation)}
        for name in value:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise ConfigError(f"{f'{key}.' if key else ''}{name}: unknown key; {hint}")
        for name, entry in known.items():
            if name not in value and entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
                raise ConfigError(f"{f'{key}.' if key else ''}{name}: missing")
        return typing.cast(Any, annotation)(
            **{name: _build(hints[name], item, f"{key}.{name}" if key else str(name)) for name, item in value.items()}
        )
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _build(next(option for option in options if option is not type(None)), value, key)
    if origin is Literal and value in options:
        return value
    if origin is tuple and isinstance(value, list):
        kinds = [options[0]] * len(value) if options[-1] is ... else options
        if len(kinds) == len(value):
            return tuple(_build(kind, item, f"{key}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value)))
    if origin is dict and isinstance(value, Mapping):
        return {str(name): _build(options[1], item, f"{key}.{name}") for name, item in value.items()}
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if annotation is Path and isinstance(value, str):
        return Path(value)
    if type(value) is annotation:
        return value
    names = {int: "a whole number", float: "a number", str: "text", Path: "a path"}
    expected = (
        " or ".join(map(str, options)) if origin is Literal else "a list" if origin is tuple else names.get(annotation, "a mapping")
    )
    if origin is tuple and options[-1] is not ...:
        expected = f"a list of {len(options)}"
    raise ConfigError(f"{key}: {shown(value)}; expected {expected}")
