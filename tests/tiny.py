"""Small self-play and training set-ups for tests, and an evaluator whose answers depend on the position alone, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from togyz_agents.training.config import Config, from_dict

_RNG = np.random.default_rng(20240229)
_LOGITS = _RNG.integers(0, 1000, (23, 9))
_VALUES = _RNG.integers(0, 1000, 23)


def exact_evaluator(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An Evaluator in whole numbers: logits within +-1, values within +-0.5, -inf on empty holes."""
    rows = states.astype(np.int64)
    logits = (((rows @ _LOGITS) % 1009) / 504.5 - 1.0).astype(np.float32)
    values = (((rows @ _VALUES) % 1013) / 1013 - 0.5).astype(np.float32)
    own = np.where(rows[:, 22:] == 0, rows[:, :9], rows[:, 9:18])
    logits[own == 0] = -np.inf
    return logits, values


def config(**sections: dict[str, Any]) -> Config:
    """A configuration that needs seconds: ``config(selfplay={"slots": 4})`` changes single keys of it."""
    small: dict[str, dict[str, Any]] = {
        "network": {"encoder": "plain", "width": 32, "blocks": 1},
        "selfplay": {
            "workers": 1,
            "slots": 16,
            "chunk": 600,
            "simulations": 8,
            "fast_simulations": 4,
            "cache_places": 4096,
            "precision": "float32",
        },
        "replay": {"capacity": 20000, "minimum": 500},
        "learner": {"batch": 64, "warmup_steps": 5, "lr": 3e-3},
        "ladder": {"every": 0, "pairs": 1, "simulations": 2},
        "final": {"pairs": 1, "simulations": 2},
    }
    for name, keys in sections.items():
        small[name] = small.get(name, {}) | keys
    return from_dict(small, "test")
