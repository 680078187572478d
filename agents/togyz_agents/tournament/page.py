"""The report of a tournament as one self-contained HTML page: no scripts, no outside resources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from togyz_agents.tournament import charts
from togyz_agents.tournament.report import ELO_NOTE, RATING_HEAD, cross_rows, facts, failure_rows, rating_rows, superiority_rows
from togyz_agents.tournament.summary import Summary

BINS = 16


def as_html(summary: Summary, title: str, notes: Sequence[str] = ()) -> str:
    """One page without scripts or outside resources; it follows the reader's choice of light or dark."""
    colours = [row for s in summary.standings for row in ((f"{s.name}, white", s.white), (f"{s.name}, black", s.black))]
    ends = [("all games", summary.colours), *summary.ends.items()]
    by_colour = '<p class="key"><i class="win"></i> white wins <i class="draw"></i> draws <i class="loss"></i> black wins</p>'
    by_player = '<p class="key"><i class="win"></i> won <i class="draw"></i> drawn <i class="loss"></i> lost</p>'
    sections = [
        f"<h1>{escape(title)}</h1>",
        _list([*facts(summary), *notes]),
        f'<section class="beware"><h2>Beware</h2>{_list(summary.warnings)}</section>' if summary.warnings else "",
        "<h2>Ratings</h2>",
        f"<p>{escape(ELO_NOTE)}</p>",
        _figure(charts.ratings(summary.standings)),
        _table(RATING_HEAD, rating_rows(summary)),
        "<h2>Cross table</h2><p>Points of the row's player against the column's, of so many games. The colour is the score.</p>",
        _cross_table(summary),
        "<h2>Likelihood of superiority</h2><p>How likely the row's player is stronger than the column's.</p>",
        _table(*superiority_rows(summary)),
        f"<h2>Colours</h2>{by_player}",
        _figure(charts.result_bars(colours, "Results of each player with each colour")),
        f"<h2>How games ended</h2>{by_colour}",
        _figure(charts.result_bars(ends, "Results by the reason of the end")),
        "<h2>Lengths</h2><p>Games by their plies, openings included.</p>",
        _figure(charts.histogram(summary.lengths, BINS, "Games by length in plies")),
        "<h2>Players</h2>",
        _table(["player", "description"], [[s.name, s.agent] for s in summary.standings]),
    ]
    if summary.failures:
        sections.append("<h2>Forfeits</h2>")
        sections.append(_table(["times", "player and reason"], [[str(count), text] for text, count in failure_rows(summary)]))
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = "\n".join(section for section in sections if section)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body><main>\n{body}\n</main></body></html>\n'
    )


def _cross_table(summary: Summary) -> str:
    head, rows = cross_rows(summary)
    cells = []
    for a, row in enumerate(rows):
        line = [f"<th>{row[0]}</th><td>{escape(row[1])}</td>"]
        for b, text in enumerate(row[2:]):
            meeting = summary.meetings.get((a, b))
            if meeting is None:
                line.append(f'<td class="number">{text}</td>')
                continue
            result = meeting.result
            share = result.points / result.games
            colour, strength = ("--win", share - 0.5) if share >= 0.5 else ("--loss", 0.5 - share)
            style = f"background:color-mix(in srgb, var({colour}) {120 * strength:.0f}%, transparent)"
            tip = f"{result.wins} won, {result.draws} drawn, {result.losses} lost; {meeting.distinct} distinct games"
            line.append(f'<td class="number" style="{style}" title="{tip}">{escape(text)}</td>')
        cells.append(f"<tr>{''.join(line)}</tr>")
    return f'<div class="wide"><table>{_head(head, [False, False, *[True] * len(rows)])}{"".join(cells)}</table></div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    right = [all(_is_number(row[i]) for row in rows) for i in range(len(head))]
    lines = ["".join(f"<td{_side(number)}>{escape(cell)}</td>" for cell, number in zip(row, right)) for row in rows]
    return f'<div class="wide"><table>{_head(head, right)}{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


def _head(head: Sequence[str], right: Sequence[bool]) -> str:
    return f"<tr>{''.join(f'<th{_side(number)}>{escape(cell)}</th>' for cell, number in zip(head, right))}</tr>"


def _side(number: bool) -> str:
    return ' class="number"' if number else ""


def _is_number(text: str) -> bool:
    return text[:1] in "0123456789+-<>·" and len(text) < 18


def _list(lines: Sequence[str]) -> str:
    # A backquoted part, a command, is shown as Markdown would.
    items = [re.sub(r"`(.*)`", r"<code>\1</code>", escape(line)) for line in lines]
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfaf7; --ink: #21201c; --muted: #6d6a61; --line: #dcd8cd; --beware: #fdf1d8;
  --win: #2f7d6b; --draw: #b9b3a3; --loss: #c0662f; --on-win: #fff; --on-draw: #21201c; --on-loss: #fff;
}
@media (prefers-color-scheme: dark) { :root {
  --page: #191a1c; --ink: #e8e6e0; --muted: #9c998f; --line: #3a3b3e; --beware: #3a3120;
  --win: #4fae97; --draw: #6a6860; --loss: #d98a55; --on-win: #10201c; --on-draw: #fff; --on-loss: #2a1407;
} }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .4rem; }
p, ul { margin: .3rem 0 .8rem; }
ul { padding-left: 1.2rem; }
li { overflow-wrap: anywhere; }
.beware { background: var(--beware); border-radius: 8px; padding: .6rem 1rem; margin: 1rem 0; }
.beware h2 { margin: 0 0 .3rem; font-size: 1rem; }
.wide, figure { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
th { color: var(--muted); font-weight: 600; }
.number { text-align: right; }
svg { display: block; width: 100%; min-width: 36rem; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: var(--ink); }
svg .muted { fill: var(--muted); font-size: 12px; }
svg .value { font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--line); }
svg .axis { stroke: var(--muted); }
svg .interval { stroke: var(--win); stroke-width: 6; stroke-linecap: round; opacity: .4; }
svg .dot, svg .win { fill: var(--win); }
svg .draw { fill: var(--draw); }
svg .loss { fill: var(--loss); }
svg .on-win { fill: var(--on-win); }
svg .on-draw { fill: var(--on-draw); }
svg .on-loss { fill: var(--on-loss); }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin: 0 .2rem 0 .8rem; }
.key i:first-child { margin-left: 0; }
.key .win { background: var(--win); }
.key .draw { background: var(--draw); }
.key .loss { background: var(--loss); }
"""
