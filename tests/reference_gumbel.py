"""Gumbel search once more, slowly, from the paper alone (Danihelka et al., Policy improvement by planning with Gumbel, ICLR 2022).

Only for tests. Tree, values and proofs are those of ``reference_search``; what differs is how moves are chosen.
"""

from __future__ import annotations

import math

import numpy as np
from reference_search import LOSS, WIN, Evaluator, F, Node, ReferenceSearch, Settings

C_VISIT, C_SCALE = 50.0, 1.0


def halving(actions: int, simulations: int) -> list[int]:
    """Visits that the action of each simulation has before it: every phase visits its actions equally, then drops half of them."""
    if actions <= 1:
        return list(range(simulations))
    order: list[int] = []
    visits = [0] * actions
    while len(order) < simulations:
        for _ in range(max(1, simulations // (math.ceil(math.log2(actions)) * len(visits)))):
            order += visits
            visits = [n + 1 for n in visits]
        visits = visits[: max(2, len(visits) // 2)]
    return order[:simulations]


class GumbelSearch(ReferenceSearch):
    """One tree; ``budget`` must be the number given to ``run``.

    Args:
        gumbel: the root's Gumbel variables (9 numbers), 0 without exploration.
        considered: root actions that share the simulations at first.
    """

    def __init__(
        self,
        row: list[int],
        ply: int,
        evaluator: Evaluator,
        settings: Settings,
        budget: int,
        gumbel: np.ndarray | None = None,
        considered: int = 9,
    ) -> None:
        super().__init__(row, ply, evaluator, settings)
        self.gumbel = np.zeros(9) if gumbel is None else gumbel
        self.order = halving(min(len(self.root.moves), considered), budget)

    def logits(self, node: Node) -> dict[int, np.float32]:
        """log P + sigma(completed Q)."""
        visited = {move: child for move, child in node.children.items() if child.visits > 0}
        n = sum(child.visits for child in visited.values())
        own = float(node.total) + sum(float(child.total) for child in visited.values())  # the network's value of the node
        mixed = own
        mass = sum(float(node.prior[move]) for move in visited)
        if mass > 0.0:
            weighted = sum(float(node.prior[move]) * float(node.mean_of(move)) for move in visited) / mass
            mixed = (own + n * weighted) / (1 + n)
        mixed = min(1.0, max(-1.0, mixed))
        most = max((child.visits for child in visited.values()), default=0)
        result = {}
        for move in node.moves:
            q = float(node.mean_of(move)) if move in visited else mixed
            sigma = (C_VISIT + most) * C_SCALE * (q + 1.0) / 2.0
            result[move] = F(math.log(float(node.prior[move]) + 1e-30) + sigma)
        return result

    def improved(self, node: Node) -> dict[int, float]:
        logits = self.logits(node)
        top = max(logits.values())
        powers = {move: math.exp(logit - top) for move, logit in logits.items()}
        return {move: power / sum(powers.values()) for move, power in powers.items()}

    def open_moves(self, node: Node) -> list[int]:
        """All moves but those that are proven lost, if there are others."""
        if not self.settings.solver:
            return node.moves
        return [move for move in node.moves if node.result_of(move) != LOSS] or node.moves

    def best_root_move(self, visits: int | None) -> int:
        """Best g + log P + sigma(Q) of the open moves with ``visits`` visits (None: with the most); of all if none has so many."""
        moves = self.open_moves(self.root)
        if visits is None:
            visits = max(self.root.child_visits(move) for move in moves)
        logits = self.logits(self.root)
        chosen = [move for move in moves if self.root.child_visits(move) == visits] or moves
        return max(chosen, key=lambda move: F(self.gumbel[move - 1]) + logits[move])

    def select(self, node: Node) -> int:
        if node is self.root:
            return self.best_root_move(self.order[node.visits - 1])
        improved = self.improved(node)
        n = sum(child.visits for child in node.children.values())
        return max(self.open_moves(node), key=lambda move: improved[move] - node.child_visits(move) / (1.0 + n))

    def action(self) -> int:
        if self.root.visits == 0 or self.is_known(self.root):
            return super().action()
        return self.best_root_move(None) - 1

    def policy(self) -> list[float]:
        if self.root.visits == 0 or self.root.result == WIN:
            return super().policy()
        improved = self.improved(self.root)
        return [improved.get(move, 0.0) for move in range(1, 10)]
