"""The report's pictures as SVG text: ratings with their intervals, bars of results, a histogram; the page's style colours them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from togyz_agents.tournament.summary import Standing, Tally

WIDTH = 760
ROW = 34
LABEL = 230
"""Width of the column of names."""

_CHARACTERS = 32


def ratings(standings: Sequence[Standing]) -> str:
    """A dot for each rating, a bar for its interval, on one scale."""
    low, high = min(s.low for s in standings), max(s.high for s in standings)
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    left, right, bottom = LABEL + 10, WIDTH - 70, ROW * len(standings) + 8

    def x(elo: float) -> float:
        return left + (right - left) * (elo - low) / max(1e-9, high - low)

    parts = []
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="4" y2="{bottom}"/>')
        parts.append(_text(x(tick), bottom + 18, f"{tick:g}", "muted", "middle"))
    for number, standing in enumerate(standings):
        y = ROW * number + ROW / 2 + 4
        parts.append(_text(LABEL, y + 4, _cut(standing.name), "", "end"))
        bar = f'x1="{x(standing.low):.1f}" x2="{x(standing.high):.1f}" y1="{y}" y2="{y}"'
        parts.append(f'<line class="interval" {bar}/><circle class="dot" cx="{x(standing.elo):.1f}" cy="{y}" r="5"/>')
        parts.append(_text(right + 12, y + 4, f"{standing.elo:+.0f}", "value", "start"))
    return _svg(bottom + 28, parts, "Ratings with 95 % intervals")


def result_bars(rows: Sequence[tuple[str, Tally]], title: str) -> str:
    """One bar of 100 % a row: wins, draws, losses of who is named (or of white), with the number of games of each."""
    left, right = LABEL + 10, WIDTH - 70
    parts = []
    for number, (label, tally) in enumerate(rows):
        y = ROW * number + 6
        parts.append(_text(LABEL, y + 16, _cut(label), "", "end"))
        at = float(left)
        for name, count in (("win", tally.wins), ("draw", tally.draws), ("loss", tally.losses)):
            width = (right - left) * count / max(1, tally.games)
            if count:
                parts.append(f'<rect class="{name}" x="{at:.1f}" y="{y}" width="{max(0.5, width - 1.5):.1f}" height="22" rx="2"/>')
                if width > 9 * len(str(count)) + 6:
                    parts.append(_text(at + width / 2, y + 16, str(count), f"on-{name}", "middle"))
            at += width
        share = f"{tally.points / tally.games:.0%}" if tally.games else "-"
        parts.append(_text(right + 12, y + 16, share, "value", "start"))
    return _svg(ROW * len(rows) + 4, parts, title)


def histogram(values: Sequence[int], bins: int, title: str) -> str:
    """Columns of how many of ``values`` (whole numbers) fall into each of about ``bins`` equal ranges."""
    step = _round_step((max(values) - min(values) + 1) / bins)
    first = min(values) // step * step
    counts = [0] * ((max(values) - first) // step + 1)
    for value in values:
        counts[(value - first) // step] += 1
    left, right, top, bottom = 40, WIDTH - 20, 22, 190
    width = (right - left) / len(counts)
    every = max(1, math.ceil(len(counts) / 16))
    parts = [f'<line class="axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>']
    for number, count in enumerate(counts):
        height = (bottom - top) * count / max(counts)
        at = left + width * number
        if count:
            box = f'x="{at + 1:.1f}" y="{bottom - height:.1f}" width="{max(1.0, width - 2):.1f}" height="{height:.1f}"'
            tip = f"{first + number * step} to {first + (number + 1) * step - 1}: {count}"
            parts.append(f'<rect class="win" {box} rx="2"><title>{tip}</title></rect>')
            if width > 9 * len(str(count)):
                parts.append(_text(at + width / 2, bottom - height - 5, str(count), "muted", "middle"))
        if number % every == 0:
            parts.append(_text(at, bottom + 18, str(first + number * step), "muted", "middle"))
    return _svg(bottom + 28, parts, title)


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"])


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers that span ``low`` to ``high``."""
    step = _round_step((high - low) / 6)
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 ... that is not below ``least``."""
    scale = int(10 ** math.floor(math.log10(max(1.0, least))))
    return next(factor * scale for factor in (1, 2, 5, 10) if factor * scale >= least)
