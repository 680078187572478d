"""What the games of a tournament say: ratings, tables, how games went and ended, and what to beware of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from togyz_agents.tournament.bootstrap import bootstrap, interval, superiority
from togyz_agents.tournament.rating import Results, fit_results
from togyz_agents.tournament.record import FORFEIT, TIME, GameRecord
from togyz_env.errors import ConfigError
from togyz_env.rules import BLACK, WHITE

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Tally:
    """Wins, draws and losses."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @property
    def games(self) -> int:
        """How many games."""
        return self.wins + self.draws + self.losses

    @property
    def points(self) -> float:
        """A win counts 1, a draw 1/2."""
        return self.wins + 0.5 * self.draws


@dataclass(frozen=True)
class Standing:
    """One player.

    Attributes:
        name, agent: its name and description.
        elo: rating; ``low`` and ``high`` are its 95 % interval.
        white, black: results with each colour.
        forfeits: games lost by failing or by the clock.
        seconds: mean time of a move.
    """

    name: str
    agent: str
    elo: float
    low: float
    high: float
    white: Tally
    black: Tally
    forfeits: int
    seconds: float

    @property
    def total(self) -> Tally:
        """Results of all games."""
        return _sum((self.white, self.black))


@dataclass(frozen=True)
class Meeting:
    """All games of two players, from the first one's view: result, how many games differ, chance that the first is stronger."""

    result: Tally
    distinct: int
    superiority: float | None


@dataclass(frozen=True)
class Summary:
    """A report's content.

    Attributes:
        standings: the players, best first.
        meetings: by the numbers of two players in ``standings``, both ways; absent where they have not met.
        superiority: ``[N][N]``, the chance that the row's player is stronger than the column's; None where games cannot tell.
        games, planned, distinct: finished games, games of the plan, and how many of the finished ones differ.
        first_move: (Elo, low, high) that moving first is worth.
        colours: white's results.
        lengths: plies of each game, openings included, ascending.
        ends: reason to how often white won, nobody, black.
        failures: what went wrong in forfeits, "player: what", the most frequent first, with its count.
        warnings: sentences.
    """

    standings: tuple[Standing, ...]
    meetings: dict[tuple[int, int], Meeting]
    superiority: tuple[tuple[float | None, ...], ...]
    games: int
    planned: int
    distinct: int
    first_move: tuple[float, float, float]
    colours: Tally
    lengths: tuple[int, ...]
    ends: dict[str, Tally]
    failures: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...]


def summarise(
    players: Mapping[str, str],
    games: Sequence[GameRecord],
    *,
    planned: int | None = None,
    anchor: str | None = None,
    samples: int = 1000,
) -> Summary:
    """Rate and count ``games`` of ``players`` (name to description).

    Args:
        planned: games of the whole tournament, if more than these.
        anchor: the player whose Elo is 0; by default the mean is 0.
        samples: of the bootstrap.

    Raises:
        ConfigError: no games.
    """
    if not games:
        raise ConfigError("report: no game is finished yet")
    names = list(players)
    index = {name: i for i, name in enumerate(names)}
    results = Results(
        len(names),
        np.array([index[game.sides[WHITE]] for game in games]),
        np.array([index[game.sides[BLACK]] for game in games]),
        np.array([game.white_points for game in games]),
        np.array(_pair_numbers(games)),
    )
    fit, drawn = fit_results(results), bootstrap(results, samples=samples)
    shift, shifts = (0.0, np.zeros(samples)) if anchor is None else (fit.elo[index[anchor]], drawn.elo[:, index[anchor]])
    elo, bounds = fit.elo - shift, interval(drawn.elo - shifts[:, None], CONFIDENCE)
    above = superiority(drawn.elo)
    group = _groups(len(names), results)
    order = sorted(range(len(names)), key=lambda i: (-elo[i], i))
    place = {names[i]: rank for rank, i in enumerate(order)}
    colour = [_by_player(games, side) for side in (WHITE, BLACK)]
    forfeits = Counter(game.sides[1 - game.winner] for game in games if game.reason in (FORFEIT, TIME) and game.winner is not None)
    seconds = _seconds(games)
    standings = tuple(
        Standing(
            names[i],
            players[names[i]],
            float(elo[i]),
            float(min(bounds[i, 0], elo[i])),
            float(max(bounds[i, 1], elo[i])),
            colour[WHITE].get(names[i], Tally()),
            colour[BLACK].get(names[i], Tally()),
            forfeits[names[i]],
            seconds.get(names[i], 0.0),
        )
        for i in order
    )
    chances = tuple(tuple(None if i == j or group[i] != group[j] else float(above[i, j]) for j in order) for i in order)
    meetings: dict[tuple[int, int], Meeting] = {}
    for pairing, met in _by_pairing(games).items():
        a, b = (place[name] for name in pairing)
        distinct = len({game.line for game in met})
        result = _tally(game.first_points for game in met)
        meetings[a, b] = Meeting(result, distinct, chances[a][b])
        meetings[b, a] = Meeting(Tally(result.losses, result.draws, result.wins), distinct, chances[b][a])
    advantage = interval(drawn.advantage, CONFIDENCE).tolist()
    ends = {
        reason: _tally(game.white_points for game in games if game.reason == reason)
        for reason, _ in Counter(game.reason for game in games).most_common()
    }
    failures = Counter(game.detail for game in games if game.detail)
    summary = Summary(
        standings,
        meetings,
        chances,
        len(games),
        max(planned or 0, len(games)),
        len({game.line for game in games}),
        (float(fit.advantage), min(float(fit.advantage), advantage[0]), max(float(fit.advantage), advantage[1])),
        _tally(game.white_points for game in games),
        tuple(sorted(game.plies for game in games)),
        ends,
        tuple(failures.most_common()),
        (),
    )
    warnings = _warnings(summary, [{names[i] for i in order if group[i] == g} for g in sorted(set(group))])
    return Summary(**{**vars(summary), "warnings": warnings})


def _warnings(summary: Summary, groups: Sequence[set[str]]) -> tuple[str, ...]:
    found = []
    if summary.games < summary.planned:
        found.append(f"Unfinished: {summary.games} of {summary.planned} games.")
    repeated = [
        f"{summary.standings[a].name} - {summary.standings[b].name}: {meeting.distinct} of {meeting.result.games}"
        for (a, b), meeting in sorted(summary.meetings.items())
        if a < b and meeting.distinct < meeting.result.games
    ]
    if repeated:
        found.append(
            f"Games repeat ({'; '.join(repeated)} distinct). A repeated game proves nothing new, and the intervals do not know it; "
            "give more openings."
        )
    if len(groups) > 1:
        parts = " | ".join(", ".join(sorted(group)) for group in groups)
        found.append(f"These groups never met, so that ratings compare within each only: {parts}.")
    for standing in summary.standings:
        total = standing.total
        if total.games and total.points in (0, total.games):
            word = "won" if total.points else "lost"
            found.append(f"{standing.name} has {word} all its games: its rating is a bound set by the prior, not an estimate.")
        if standing.forfeits:
            found.append(f"{standing.name} lost {standing.forfeits} of {total.games} games by forfeit.")
    return tuple(found)


def _pair_numbers(games: Iterable[GameRecord]) -> list[int]:
    numbers: dict[tuple[str, str, int], int] = {}
    return [numbers.setdefault((game.first, game.second, game.pair), len(numbers)) for game in games]


def _by_pairing(games: Iterable[GameRecord]) -> dict[tuple[str, str], list[GameRecord]]:
    found: dict[tuple[str, str], list[GameRecord]] = {}
    for game in games:
        found.setdefault((game.first, game.second), []).append(game)
    return found


def _by_player(games: Iterable[GameRecord], side: int) -> dict[str, Tally]:
    points: dict[str, list[float]] = {}
    for game in games:
        points.setdefault(game.sides[side], []).append(game.white_points if side == WHITE else 1.0 - game.white_points)
    return {name: _tally(values) for name, values in points.items()}


def _seconds(games: Iterable[GameRecord]) -> dict[str, float]:
    """Mean time of a move by player."""
    times: dict[str, list[float]] = {}
    for game in games:
        begins = (len(game.opening) + (game.start.split()[3] == "N")) % 2
        for side in (WHITE, BLACK):
            times.setdefault(game.sides[side], []).extend(game.times[(side - begins) % 2 :: 2])
    return {name: float(np.mean(values)) for name, values in times.items() if values}


def _groups(players: int, results: Results) -> list[int]:
    """Number of the group of each player: within a group, games lead from everyone to everyone."""
    group = list(range(players))
    for white, black in set(zip(results.white.tolist(), results.black.tolist())):
        old, new = group[white], group[black]
        group = [new if g == old else g for g in group]
    return group


def _tally(points: Iterable[float]) -> Tally:
    count = Counter(points)
    return Tally(count[1.0], count[0.5], count[0.0])


def _sum(tallies: Iterable[Tally]) -> Tally:
    parts = list(tallies)
    return Tally(sum(t.wins for t in parts), sum(t.draws for t in parts), sum(t.losses for t in parts))
