"""The search once more, slowly: one object for each node, from the published formulas alone. Only for tests.

PUCT (Silver et al., Science 2018), first-play urgency, forced playouts and policy target pruning (KataGo, arXiv 1902.10565),
MCTS-solver (Winands et al., 2008). It shares no code with ``togyz_agents.search`` and takes the rules from ``reference_rules``.
Sums are float32 like those of the search under test, so that both see the same ties.

``golden_search.json`` is written by this search. After an intended change of the search's behaviour write it anew with
``python tests/reference_search.py`` and say why in the commit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from reference_rules import Board

GOLDEN = Path(__file__).parent / "data" / "golden_search.json"
LOSS, DRAW, WIN = -1, 0, 1
PROOFS = {None: "", LOSS: "loss", DRAW: "draw", WIN: "win"}
F = np.float32

Evaluator = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@cache
def hash_table(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, (23, 10), np.uint64)


@dataclass(frozen=True)
class HashEvaluator:
    """An Evaluator made of a hash of the state: logits within ``+-logit_scale``, values within ``+-value_scale``.

    With ``levels`` the outputs are rounded to so many steps on each side of 0, which makes ties. With ``banned`` a third of the
    legal actions get a logit of -inf, but never all.
    """

    seed: int
    logit_scale: float = 2.0
    value_scale: float = 0.8
    levels: int = 0
    banned: bool = False

    def __call__(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        words = states.astype(np.uint64) @ hash_table(self.seed)
        words ^= words >> np.uint64(29)
        words *= np.uint64(0xBF58476D1CE4E5B9)
        words ^= words >> np.uint64(32)
        unit = (words >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0  # 24 bits, exact in float32
        if self.levels:
            unit = np.round(unit * self.levels) / self.levels
        rows = np.where(states[:, 22:] == 0, states[:, :9], states[:, 9:18])
        possible = rows > 0
        if self.banned:
            kept = possible & (words[:, :9] % np.uint64(3) != 0)
            possible = np.where(kept.any(axis=1, keepdims=True), kept, possible)
        logits = np.where(possible, unit[:, :9] * self.logit_scale, -np.inf)
        return logits.astype(np.float32), (unit[:, 9] * self.value_scale).astype(np.float32)


@dataclass(frozen=True)
class Settings:
    """What a search is told; the names are those of ``SearchConfig`` and ``Ruleset``."""

    exploration: float = 1.0
    exploration_growth: float = 0.0
    exploration_base: float = 19652.0
    fpu_reduction: float = 0.25
    root_temperature: float = 1.0
    forced_playouts: float = 0.0
    solver: bool = True
    end: str = "majority"
    max_plies: int = 2000
    explore: bool = False


class Node:
    """A position, the simulations through it, and what is proven: everything for the side to move here."""

    def __init__(self, board: Board, ply: int, settings: Settings, is_root: bool = False) -> None:
        self.board, self.ply, self.moves, self.playout = board, ply, board.legal(), settings.end == "playout"
        self.visits = 0
        self.total = F(0)
        self.prior: dict[int, np.float32] = {}
        self.children: dict[int, Node] = {}
        self.result: int | None = None
        self.plies = 0
        end = board.end(self.playout)
        if end is not None:
            margin = end[1] - end[2] if board.mover == 0 else end[2] - end[1]
            self.result = (margin > 0) - (margin < 0)
        elif ply >= settings.max_plies:
            self.result = DRAW
        self.over = self.result is not None
        self.winning = self.winning_move() if settings.solver and not self.over and not is_root else None
        if self.winning is not None:
            self.result, self.plies = WIN, 1

    def winning_move(self) -> int | None:
        """Lowest move that ends the game at once in favour of the side to move."""
        for move in self.moves:
            after = Board.of(self.board.row())
            after.play(move)
            end = after.end(self.playout)
            if end is not None and (end[1] - end[2]) * (1 if self.board.mover == 0 else -1) > 0:
                return move
        return None

    def child_visits(self, move: int) -> int:
        return self.children[move].visits if move in self.children else 0

    def mean_of(self, move: int) -> np.float32:
        """Mean value of a visited move for the side to move here."""
        child = self.children[move]
        return -child.total / F(child.visits)

    def result_of(self, move: int) -> int | None:
        """What is proven about ``move``, for the side to move here."""
        if move == self.winning:
            return WIN
        child = self.children.get(move)
        return None if child is None or child.result is None else -child.result

    def prove(self) -> None:
        """A winning move proves a win, the shortest one; with all moves proven the best counts, and the longest of the equal."""
        results = {move: self.result_of(move) for move in self.moves}
        lengths = {move: child.plies + 1 for move, child in self.children.items()}
        if WIN in results.values():
            self.result = WIN
            self.plies = min(lengths[move] for move, result in results.items() if result == WIN)
        elif None not in results.values():
            self.result = max(result for result in results.values() if result is not None)
            self.plies = max(lengths[move] for move, result in results.items() if result == self.result)


class ReferenceSearch:
    """One tree. ``run`` may be called again with a larger number to search on.

    Args:
        row: state row, 23 numbers.
        ply: half-moves played before it.
        root_prior: replaces the root's policy (9 numbers), as noise would.
    """

    def __init__(
        self, row: list[int], ply: int, evaluator: Evaluator, settings: Settings, root_prior: np.ndarray | None = None
    ) -> None:
        self.evaluator, self.settings, self.root_prior = evaluator, settings, root_prior
        self.root = Node(Board.of(row), ply, settings, is_root=True)

    def is_known(self, node: Node) -> bool:
        return node.over or (self.settings.solver and node.result is not None)

    def run(self, simulations: int) -> ReferenceSearch:
        while not self.is_known(self.root) and self.root.visits <= simulations:
            self.simulate()
        return self

    def keep(self, move: int) -> None:
        """Go on from the position after ``move`` with what is known below it."""
        self.root = self.root.children[move]

    def simulate(self) -> None:
        path = [self.root]
        while path[-1].visits > 0 and not self.is_known(path[-1]):
            node = path[-1]
            move = self.select(node)
            if move not in node.children:
                board = Board.of(node.board.row())
                board.play(move)
                node.children[move] = Node(board, node.ply + 1, self.settings)
            path.append(node.children[move])
        value = F(path[-1].result) if self.is_known(path[-1]) else self.evaluate(path[-1])
        for node in reversed(path):
            if node is not path[-1]:
                value = -value
                if self.settings.solver:
                    node.prove()
                    if node.result is not None:
                        value = F(node.result)
            node.visits += 1
            node.total += value

    def evaluate(self, node: Node) -> np.float32:
        logits, values = self.evaluator(np.array([node.board.row()], np.uint8))
        prior = np.exp(logits[0] - logits[0].max())
        prior /= prior.sum()
        if node is self.root and self.settings.explore:
            prior = prior.astype(np.float64) ** (1.0 / self.settings.root_temperature)
            prior = (prior / prior.sum()).astype(np.float32)
        if node is self.root and self.root_prior is not None:
            prior = self.root_prior
        node.prior = {move: F(prior[move - 1]) for move in node.moves}
        return values[0]

    def scale(self, node: Node) -> float:
        """c(N) * sqrt(N), with the node's own evaluation counted in N."""
        s, n = self.settings, node.visits
        return (s.exploration + s.exploration_growth * math.log(1.0 + n / s.exploration_base)) * math.sqrt(n)

    def forced_visits(self, move: int) -> float:
        """KataGo's n_forced of a move at the root: sqrt(k * P * visits of all children)."""
        return math.sqrt(self.settings.forced_playouts * float(self.root.prior[move]) * (self.root.visits - 1))

    def select(self, node: Node) -> int:
        moves = node.moves
        if self.settings.solver:
            won = [move for move in moves if node.result_of(move) == WIN]
            if won:
                return won[0]
            moves = [move for move in moves if node.result_of(move) != LOSS] or moves[:1]
        if self.settings.explore and node is self.root:
            for move in moves:
                if 0 < node.child_visits(move) < self.forced_visits(move):
                    return move
        mass = F(0)
        for move in node.moves:
            if node.child_visits(move) > 0:
                mass += node.prior[move]
        urgency = node.total / F(node.visits) - F(self.settings.fpu_reduction) * np.sqrt(mass)
        scale = F(self.scale(node))
        scores = []
        for move in moves:
            n = node.child_visits(move)
            q = node.mean_of(move) if n > 0 else urgency
            scores.append(q + scale * node.prior[move] / F(1 + n))
        return moves[scores.index(max(scores))]

    # what is read from a finished search

    def visits(self) -> list[int]:
        return [self.root.child_visits(move) for move in range(1, 10)]

    def value(self) -> float:
        if self.is_known(self.root):
            assert self.root.result is not None
            return float(self.root.result)
        return float(self.root.total) / self.root.visits if self.root.visits else 0.0

    def proof(self) -> str:
        return PROOFS[self.root.result]

    def action(self) -> int:
        """The best move's action; -1 without a search."""
        return self.best(self.root) - 1 if self.root.visits else -1

    def best(self, node: Node) -> int:
        """The shortest win, else the most visited move that is not lost, else the longest loss."""

        def key(move: int) -> tuple[int, int, float]:
            n, result = node.child_visits(move), node.result_of(move)
            value = float(node.mean_of(move)) if n > 0 else float(node.prior.get(move, 0.0))
            plies = node.children[move].plies if result is not None and move != node.winning else 0
            if result == WIN:
                return 2, -plies, value
            return (0, plies, value) if result == LOSS else (1, n, value)

        return max(node.moves, key=key)

    def policy(self) -> list[float]:
        """Visit shares; forced playouts that PUCT would not have made are taken back one by one."""
        shares = [float(n) for n in self.visits()]
        if self.settings.solver and self.root.result == WIN:
            return [float(action == self.action()) for action in range(9)]
        if self.settings.solver and self.root.result != LOSS:
            searched = sum(shares) > 0
            shares = [0.0 if self.root.result_of(move) == LOSS else n for move, n in zip(range(1, 10), shares, strict=True)]
            if searched and sum(shares) == 0:
                return [float(action == self.action()) for action in range(9)]
        if self.settings.explore and self.settings.forced_playouts > 0.0 and sum(shares) > 0:
            best = shares.index(max(shares)) + 1
            scale = self.scale(self.root)

            def score(move: int, n: float) -> float:
                return float(self.root.mean_of(move)) + scale * float(self.root.prior[move]) / (1.0 + n)

            for move, child in self.root.children.items():
                if move == best or shares[move - 1] == 0:
                    continue
                n = child.visits
                for _ in range(math.floor(self.forced_visits(move))):
                    if n > 0 and score(move, n - 1) <= score(best, self.root.child_visits(best)):
                        n -= 1
                shares[move - 1] = n if n > 1 else 0
        total = sum(shares)
        return [share / total for share in shares] if total else shares

    def principal_variation(self) -> list[int]:
        """The best move of each node, as far as something is known below it."""
        line: list[int] = []
        node = self.root
        while node.visits > 0 and not node.over:
            if node is not self.root and node.result is None and not any(child.visits for child in node.children.values()):
                break
            line.append(self.action() + 1 if node is self.root else self.best(node))
            if line[-1] not in node.children:
                break
            node = node.children[line[-1]]
        return line


def exhaustive(board: Board, depth: int, playout: bool, cut: bool = False) -> tuple[int, int] | None:
    """Best result for the side to move and the plies to it, when ``depth`` plies decide it, else None. No heuristics, no cut-offs.

    Who wins wants the shortest way, who loses the longest. With ``cut`` the game is a draw after ``depth`` plies.
    """
    end = board.end(playout)
    if end is not None:
        margin = end[1] - end[2] if board.mover == 0 else end[2] - end[1]
        return (margin > 0) - (margin < 0), 0
    if depth == 0:
        return (DRAW, 0) if cut else None
    replies = []
    for move in board.legal():
        after = Board.of(board.row())
        after.play(move)
        replies.append(exhaustive(after, depth - 1, playout, cut))
    wins = [reply[1] + 1 for reply in replies if reply is not None and reply[0] == LOSS]
    if wins:
        return WIN, min(wins)
    if None in replies:
        return None
    decided = [(-reply[0], reply[1] + 1) for reply in replies if reply is not None]
    return max(decided)


def golden(count: int = 1000) -> list[dict[str, Any]]:
    """Searches of the first ``count`` of some fixed positions of one random game, with what the reference found."""
    cases = []
    settings = [
        Settings(),
        Settings(exploration=2.5, exploration_growth=1.0, exploration_base=50.0, fpu_reduction=0.0),
        Settings(solver=False, end="playout"),
        Settings(explore=True, forced_playouts=2.0, root_temperature=1.25),
    ]
    board, ply = Board(), 0
    rng = np.random.default_rng(11)
    while board.end(playout=False) is None and len(cases) < count:
        if ply % 9 == 0:
            chosen = replace(settings[len(cases) % len(settings)], max_plies=ply + 3 if ply == 72 else 2000)
            evaluator = HashEvaluator(len(cases), logit_scale=1.0 + len(cases) % 3)
            search = ReferenceSearch(board.row(), ply, evaluator, chosen).run(200)
            cases.append(
                {
                    "row": board.row(),
                    "ply": ply,
                    "simulations": 200,
                    "settings": asdict(chosen),
                    "evaluator": asdict(evaluator),
                    "visits": search.visits(),
                    "value": round(search.value(), 6),
                    "proof": search.proof(),
                    "action": search.action(),
                    "policy": [round(p, 6) for p in search.policy()],
                    "principal_variation": search.principal_variation(),
                }
            )
        board.play(int(rng.choice(board.legal())))
        ply += 1
    return cases


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(case) for case in golden())
    GOLDEN.write_text(f"[\n{lines}\n]\n")
