"""Togyzqumalaq for reinforcement learning: the rules, positions and games, and a Gymnasium environment.

Importing the package registers the Gymnasium environment ``Togyzqumalaq-v0``; ``gymnasium.make("togyz_env:Togyzqumalaq-v0")``
imports it by itself. ``gymnasium.make_vec`` makes the vector environment.
"""

from gymnasium.envs.registration import register

from togyz_env import compiled as _compiled  # noqa: F401 - first: before any kernel is defined
from togyz_env.errors import (
    CheckpointError,
    ConfigError,
    ConformanceError,
    IllegalMoveError,
    NotationError,
    PositionError,
    TogyzError,
    TrainingError,
)
from togyz_env.game import Game
from togyz_env.pool import OpponentPool
from togyz_env.position import Outcome, Position, Ruleset, perft

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "ConfigError",
    "ConformanceError",
    "Game",
    "IllegalMoveError",
    "NotationError",
    "OpponentPool",
    "Outcome",
    "Position",
    "PositionError",
    "Ruleset",
    "TogyzError",
    "TrainingError",
    "__version__",
    "perft",
]

register(
    id="Togyzqumalaq-v0",
    entry_point="togyz_env.env:TogyzqumalaqEnv",
    vector_entry_point="togyz_env.vector_env:TogyzqumalaqVectorEnv",
)
