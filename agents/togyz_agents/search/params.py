"""The settings of a search: as a configuration with its sources, and as the scalars that kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from togyz_env.errors import ConfigError
from togyz_env.position import Ruleset
from togyz_env.rules import HOLES

LARGEST = 1e9
"""Of a setting. Scores are float32 and must stay finite: a search would not end on NaN."""


class SearchParams(NamedTuple):
    """Scalars of the search, as the kernels take them (``SearchConfig`` describes each)."""

    exploration: float
    exploration_growth: float
    exploration_base: float
    fpu_reduction: float
    root_temperature: float
    noise_fraction: float
    noise_alpha: float
    noise_shaped: bool
    forced_playouts: float
    solver: bool
    gumbel: bool
    gumbel_actions: int
    gumbel_visit_offset: float
    gumbel_scale: float
    playout: bool
    max_plies: int


@dataclass(frozen=True)
class SearchConfig:
    """How a tree is searched. Noise and forced playouts act only where a caller asks for exploration."""

    root: Literal["puct", "gumbel"] = "puct"
    """How moves are chosen in the tree: PUCT, or Gumbel root selection with sequential halving and completed Q-values."""
    exploration: float = 1.0
    """PUCT constant; AlphaZero's 1.25 (arXiv 1712.01815) did worse than 1.0 in this game."""
    exploration_growth: float = 0.0
    """Weight of the logarithmic growth with visits; AlphaZero uses 1 with a base of 19652."""
    exploration_base: float = 19652.0
    """Visits at which the growth sets in."""
    fpu_reduction: float = 0.25
    """First-play urgency: how far an unvisited child is valued below its parent (KataGo 0.2)."""
    root_temperature: float = 1.0
    """Softens the root's policy in exploring searches; KataGo starts at 1.25."""
    noise_fraction: float = 0.25
    """Share of Dirichlet noise in the root's policy in exploring searches (AlphaZero)."""
    noise_alpha: float = 0.8
    """Concentration of the noise for each legal move."""
    noise_shaped: bool = False
    """Half of the concentration follows the policy (KataGo)."""
    forced_playouts: float = 0.0
    """KataGo's k (2 there) in exploring searches; the surplus is pruned from the policy target. 0: off."""
    gumbel_actions: int = 9
    """Root actions that sequential halving considers (16 in the paper; here there are at most 9)."""
    gumbel_visit_offset: float = 50.0
    """The paper's c_visit: how much values count while there are few visits."""
    gumbel_scale: float = 1.0
    """The paper's c_scale: how much values count against the policy."""
    solver: bool = True
    """Carry proven results up the tree and stop once the root is proven."""

    def __post_init__(self) -> None:
        """Refuse values that no search can use."""
        for name in ("exploration", "root_temperature", "exploration_base", "noise_alpha", "gumbel_scale"):
            if not 0 < getattr(self, name) <= LARGEST:
                raise ConfigError(f"search.{name}: {getattr(self, name)!r} is not above 0 and at most {LARGEST:g}")
        for name in ("fpu_reduction", "exploration_growth", "forced_playouts", "gumbel_visit_offset"):
            if not 0 <= getattr(self, name) <= LARGEST:
                raise ConfigError(f"search.{name}: {getattr(self, name)!r} is not between 0 and {LARGEST:g}")
        if not 0 <= self.noise_fraction <= 1:
            raise ConfigError(f"search.noise_fraction: {self.noise_fraction!r} is not between 0 and 1")
        if not 1 <= self.gumbel_actions <= HOLES:
            raise ConfigError(f"search.gumbel_actions: {self.gumbel_actions!r} is not between 1 and {HOLES}")

    def params(self, ruleset: Ruleset) -> SearchParams:
        """The kernels' view of this configuration under ``ruleset``."""
        return SearchParams(
            exploration=float(self.exploration),
            exploration_growth=float(self.exploration_growth),
            exploration_base=float(self.exploration_base),
            fpu_reduction=float(self.fpu_reduction),
            root_temperature=float(self.root_temperature),
            noise_fraction=float(self.noise_fraction),
            noise_alpha=float(self.noise_alpha),
            noise_shaped=bool(self.noise_shaped),
            forced_playouts=float(self.forced_playouts),
            solver=bool(self.solver),
            gumbel=self.root == "gumbel",
            gumbel_actions=int(self.gumbel_actions),
            gumbel_visit_offset=float(self.gumbel_visit_offset),
            gumbel_scale=float(self.gumbel_scale),
            playout=ruleset.end == "playout",
            max_plies=int(ruleset.max_plies),
        )
