"""How the players with a tree search think: AlphaZero and roll-outs, in the common form of ``togyz_agents.thinking``."""

from __future__ import annotations

import math

from togyz_agents.search.single import Analysis, Line, SingleSearch
from togyz_agents.thinking import LARGEST_SCORE, WIN_SCORE, Limits, Report, Thought, ThoughtLine
from togyz_env.position import Position

REPORT_EVERY = 0.1
"""Seconds between two reports."""


def think_in_tree(
    search: SingleSearch, simulations: int, position: Position, limits: Limits, lines: int, report: Report | None
) -> Thought:
    """Search by ``simulations``, or by ``limits`` in their place."""
    budget, seconds = limits.nodes, limits.seconds
    if limits.infinite:
        seconds = math.inf
    elif budget is None and seconds is None:
        budget = simulations

    def tell(analysis: Analysis) -> None:
        if report is not None:
            report(thought_of(analysis))

    analysis = search.run(
        position.state, position.ply, simulations=budget, seconds=seconds, report=tell, every=REPORT_EVERY, lines=lines
    )
    return thought_of(analysis)


def thought_of(analysis: Analysis) -> Thought:
    """An analysis of a position that is not over, in the common form."""
    lines = tuple(_line(line) for line in analysis.lines)
    return Thought(lines, len(lines[0].moves), analysis.simulations, analysis.seconds)


def _line(line: Line) -> ThoughtLine:
    """Score: the expected margin in hundredths of a stone, or what is proven."""
    if not line.visits and not line.proof:
        return ThoughtLine(line.moves, visits=line.visits, prior=line.prior)
    if line.proof == "draw":
        score = 0
    elif line.proof:
        score = (WIN_SCORE - line.proof_plies) * (1 if line.proof == "win" else -1)
    else:
        score = max(-LARGEST_SCORE, min(LARGEST_SCORE, round(100 * line.margin)))
    outcome = (1 - line.draw + line.value) / 2, line.draw, (1 - line.draw - line.value) / 2
    return ThoughtLine(line.moves, score, outcome, line.visits, line.prior)
