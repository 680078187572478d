"""A learning curve as a small SVG picture, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 260, 56, 20, 34, 40


def draw_curve(path: Path, points: Sequence[tuple[float, float]], title: str) -> None:
    """Write ``points``, pairs of steps and a share from 0 to 1, as a line."""
    most = max(max(steps for steps, _ in points), 1)

    def at(steps: float, share: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - RIGHT) * steps / most, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"',
        ' font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/><text x="{LEFT}" y="20" font-size="13">{title}</text>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        x, y = at(0, share)
        parts.append(f'<path d="M{x:.0f} {y:.0f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{share:.0%}</text>')
    for share in (0, 0.5, 1):
        x, _ = at(most * share, 0)
        parts.append(f'<text x="{x:.0f}" y="{HEIGHT - 18}" text-anchor="middle">{most * share:,.0f}</text>')
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
    parts.append(f'<text x="{WIDTH / 2:.0f}" y="{HEIGHT - 3}" text-anchor="middle">steps</text>')
    parts.append(f'<polyline points="{line}" fill="none" stroke="#8a5a30" stroke-width="2.5"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#8a5a30"/>' for x, y in (at(*point) for point in points)]
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")
