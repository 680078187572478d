"""The report of a tournament as plain values for JSON, and as Markdown for a README; its tables are those of the page, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from togyz_agents.tournament.summary import Summary, Tally

FORMAT = "togyz-report-1"
SHOWN_FAILURES = 20

ELO_NOTE = (
    "Elo by maximum likelihood: a draw is half a point, and moving first has a rating of its own. Intervals are 95 %, by bootstrap "
    "over pairs of games (one opening, colours swapped)."
)


def as_dict(summary: Summary, title: str, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Plain values; players are in the order of their ratings, tables follow that order."""
    size = range(len(summary.standings))
    cross = [[asdict(summary.meetings[a, b]) if (a, b) in summary.meetings else None for b in size] for a in size]
    data = {key: value for key, value in asdict(summary).items() if key not in ("standings", "meetings", "first_move", "colours")}
    return {
        "format": FORMAT,
        "title": title,
        "notes": list(notes),
        "players": [asdict(standing) for standing in summary.standings],
        "cross_table": cross,
        "first_move": dict(zip(("elo", "low", "high"), summary.first_move)),
        "white": asdict(summary.colours),
        **data,
    }


def as_markdown(summary: Summary, title: str, notes: Sequence[str] = ()) -> str:
    """Headings, tables and lists."""
    lines = [f"# {title}", "", *(f"- {note}" for note in (*facts(summary), *notes)), ""]
    if summary.warnings:
        lines += ["**Beware:**", "", *(f"- {warning}" for warning in summary.warnings), ""]
    lines += ["## Ratings", "", ELO_NOTE, ""]
    lines += _markdown_table(RATING_HEAD, rating_rows(summary))
    lines += ["", "## Cross table", "", "Points of the row's player against the column's, and games.", ""]
    lines += _markdown_table(*cross_rows(summary))
    lines += ["", "## Likelihood of superiority", "", "How likely the row's player is stronger than the column's.", ""]
    lines += _markdown_table(*superiority_rows(summary))
    lines += ["", "## Colours and ends", ""]
    lines += _markdown_table(
        ["", "white wins", "draws", "black wins"], [[name, *map(str, values)] for name, values in end_rows(summary)]
    )
    if summary.failures:
        lines += [
            "",
            "## Forfeits",
            "",
            *(f"- {count} times: `{text.replace('`', chr(39))}`" for text, count in failure_rows(summary)),
        ]
    return "\n".join(lines) + "\n"


def facts(summary: Summary) -> list[str]:
    """What stands above the tables."""
    elo, low, high = summary.first_move
    lengths = summary.lengths
    colours = summary.colours
    return [
        f"{summary.games} games of {len(summary.standings)} players, {summary.distinct} of them distinct.",
        f"White won {colours.wins}, drew {colours.draws} and lost {colours.losses}; moving first is worth {signed(elo)} Elo "
        f"({signed(low)} to {signed(high)}).",
        f"Lengths: {lengths[0]} to {lengths[-1]} plies, median {lengths[len(lengths) // 2]}.",
    ]


RATING_HEAD = ["", "player", "Elo", "95 % interval", "games", "score", "won", "drawn", "lost", "as white", "as black", "s/move"]


def rating_rows(summary: Summary) -> list[list[str]]:
    """The table of ratings as text, a row for each player."""
    rows = []
    for place, standing in enumerate(summary.standings, 1):
        total = standing.total
        rows.append(
            [
                str(place),
                standing.name,
                signed(standing.elo),
                f"{signed(standing.low)} to {signed(standing.high)}",
                str(total.games),
                _share(total),
                str(total.wins),
                str(total.draws),
                str(total.losses),
                _share(standing.white),
                _share(standing.black),
                f"{standing.seconds:.3f}",
            ]
        )
    return rows


def signed(elo: float) -> str:
    """``elo`` as a whole number with its sign."""
    return f"{round(elo):+d}"


def _share(tally: Tally) -> str:
    return f"{tally.points / tally.games:.1%}" if tally.games else "-"


def cross_rows(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the cross table as text: points/games."""
    size = range(len(summary.standings))
    rows = []
    for a in size:
        cells = [summary.meetings.get((a, b)) for b in size]
        shown = [
            "·" if a == b else "-" if cell is None else f"{cell.result.points:g}/{cell.result.games}"
            for b, cell in enumerate(cells)
        ]
        rows.append([str(a + 1), summary.standings[a].name, *shown])
    return ["", "player", *(str(b + 1) for b in size)], rows


def superiority_rows(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the likelihoods of superiority as text."""
    size = range(len(summary.standings))
    rows = []
    for a, chances in enumerate(summary.superiority):
        shown = ["·" if a == b else "-" if chance is None else _chance(chance) for b, chance in enumerate(chances)]
        rows.append([str(a + 1), summary.standings[a].name, *shown])
    return ["", "player", *(str(b + 1) for b in size)], rows


def _chance(chance: float) -> str:
    """A bootstrap of a thousand samples says nothing finer than a thousandth."""
    return "> 99.9 %" if chance > 0.999 else "< 0.1 %" if chance < 0.001 else f"{100 * chance:.1f} %"


def end_rows(summary: Summary) -> list[tuple[str, tuple[int, int, int]]]:
    """White's wins, draws and losses in all games, then by the reason of the end."""
    rows = [("all games", summary.colours), *summary.ends.items()]
    return [(name, (tally.wins, tally.draws, tally.losses)) for name, tally in rows]


def failure_rows(summary: Summary) -> list[tuple[str, int]]:
    """The most frequent failures."""
    return list(summary.failures[:SHOWN_FAILURES])


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    text = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *text)]
