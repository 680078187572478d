"""The project's errors. All are ValueErrors; a message says what was wrong, where, and what would have been right."""

from __future__ import annotations


class TogyzError(ValueError):
    """Base of every error that a user's input can cause."""


class NotationError(TogyzError):
    """A text (position string, move, record) that does not follow its notation."""


class PositionError(TogyzError):
    """A well-formed position that cannot occur: stones that do not add up to 162, an impossible tuzdyk."""


class IllegalMoveError(TogyzError):
    """A move that the rules do not allow in this position."""


class ConfigError(TogyzError):
    """An unknown key, a wrong type or an impossible value in a configuration or an agent's description."""


class CheckpointError(TogyzError):
    """A run directory or checkpoint file that is missing, foreign or damaged."""


class TrainingError(TogyzError):
    """A run that cannot go on: a loss that is no number, a self-play worker that died or hangs, a disk that takes no more."""


class EngineError(TogyzError):
    """An external engine that crashed, hung, or said what it may not; it has lost the game that it was playing."""


class ConformanceError(TogyzError):
    """An implementation of the game that disagrees with known facts (``togyz_env.checks``); ``failures`` has all of them."""

    def __init__(self, message: str, failures: tuple[object, ...] = ()) -> None:
        """Keep the failures, first to last."""
        super().__init__(message)
        self.failures = failures
