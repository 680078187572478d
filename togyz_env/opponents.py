"""What may stand behind the environments' ``opponent=``; ``togyz_env.roster`` asks it for moves.

| ``opponent=`` | example |
|---|---|
| a name or description from the registry | ``"random"``, ``"greedy"``, ``"alphazero:run=runs/x,sims=64"`` |
| a checkpoint: a run or checkpoint directory, or a network's file | ``"runs/cpu-1"``, ``Path("best.safetensors")`` |
| an agent (``new_game``, ``select`` or ``select_batch``, ``close``) | an object of your own |
| a function from a position to a hole | ``lambda position: position.legal_moves()[0]`` |
| a pool of the former, one drawn for each episode | ``OpponentPool(["greedy", "runs/cpu-1"])`` |

In many games at once, "random" and "greedy" play inside the kernel; an agent with ``select_batch`` is asked for all its games in
one call; a function is called for each game; another agent is copied, one for each game, and asked one by one.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from togyz_env.errors import CheckpointError, ConfigError
from togyz_env.notation import shown
from togyz_env.position import Position, Ruleset
from togyz_env.simple_players import PLAYERS


class Opponent(Protocol):
    """The part of the Agent protocol that the environments call."""

    def new_game(self, seed: int) -> None:
        """Forget the last game."""

    def select(self, position: Position, history: Sequence[Position], clock: Any) -> int:
        """Return the hole 1..9 to play in ``position``; ``history`` holds the positions before it, ``clock`` is None."""

    def close(self) -> None:
        """Release what the agent holds."""


def check_opponent(opponent: object) -> None:
    """Refuse what is no opponent, without loading anything.

    Raises:
        ConfigError: it is none of the things in the table above, or a name that is not registered.
        CheckpointError: a path that does not exist.
    """
    if isinstance(opponent, str | Path):
        if isinstance(opponent, Path) or _is_path(opponent):
            if not Path(opponent).exists():
                raise CheckpointError(f"opponent: {shown(str(opponent))} does not exist; expected a run or a .safetensors file")
        elif opponent.strip() not in PLAYERS:
            name = opponent.partition(":")[0].strip()
            known = _registry().agent_names()
            if name not in known:
                raise ConfigError(f"opponent: unknown name {shown(name)}; known: {', '.join(known)}, or a path")
    elif isinstance(opponent, type) or not (is_agent(opponent) or callable(opponent)):
        raise ConfigError(
            f"opponent: {shown(opponent)}; expected an agent, an agent's description, a checkpoint's path, "
            "a function Position -> hole or an OpponentPool"
        )


def name_of(opponent: object) -> str:
    """What an opponent is called in ``info`` and in errors."""
    if isinstance(opponent, str | Path):
        return str(opponent).strip()
    name = getattr(opponent, "name", None) or getattr(opponent, "__name__", None) or type(opponent).__name__
    return str(name)


def _registry() -> Any:
    # Looked up by name: this package does not depend on the players.
    return importlib.import_module("togyz_agents.agent")


def is_agent(opponent: object) -> bool:
    """Tell whether ``opponent`` has an agent's methods."""

    def has(method: str) -> bool:
        return callable(getattr(opponent, method, None))

    return has("new_game") and has("close") and (has("select") or has("select_batch"))


def _is_path(text: str) -> bool:
    """A name of the registry goes before a file that is called the same."""
    name = text.partition(":")[0].strip()
    if not text.strip() or name in PLAYERS or name in _registry().agent_names():
        return False
    return "/" in text or "\\" in text or text.endswith(".safetensors") or Path(text).exists()


def agent_of(opponent: str | Path, ruleset: Ruleset) -> Opponent:
    """Make the agent of a description or a checkpoint; its search assumes ``ruleset``, unless the description says otherwise."""
    if isinstance(opponent, Path) or _is_path(opponent):
        player = importlib.import_module("togyz_agents.players.alphazero").AlphaZeroAgent
        return cast(Opponent, player(Path(opponent), end=ruleset.end, max_plies=ruleset.max_plies))
    return cast(Opponent, _registry().make_agent(opponent, ruleset))
