"""The Agent protocol: what every player of the game is; and the registry that makes players from text.

A description is ``name``, or ``name:key=value,key=value``: ``random``, ``alphazero:run=runs/x,sims=400``. One bare word stands
for the player's first parameter: ``alphazero:runs/x``. A value with commas is put in single or double quotes:
``uci:command='engine --threads 1,2',nodes=1000``; what is between them is taken as it stands.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from togyz_env.errors import ConfigError
from togyz_env.position import Position, Ruleset


@dataclass(frozen=True, slots=True)
class Clock:
    """The time for one move, in seconds; None = no limit.

    Attributes:
        move_time: exactly so much for this move.
        remaining: what the player has left for the rest of the game.
        increment: what he gets back after each move.
    """

    move_time: float | None = None
    remaining: float | None = None
    increment: float | None = None

    def seconds_for_a_move(self) -> float | None:
        """Seconds to spend on one move: the move's own time, or a fair share of what remains; None without a limit."""
        if self.move_time is not None:
            return self.move_time
        if self.remaining is None:
            return None
        return max(0.0, min(self.remaining / 30 + 0.8 * (self.increment or 0.0), 0.5 * self.remaining))


@runtime_checkable
class Agent(Protocol):
    """A player of one game at a time, deterministic for a given seed. A ``name`` attribute, if it has one, is shown in reports."""

    def new_game(self, seed: int) -> None:
        """Forget the last game; every random choice of the next one follows from ``seed``."""

    def select(self, position: Position, history: Sequence[Position], clock: Clock | None) -> int:
        """Return the hole 1..9 to play for the side to move in ``position``, which is not over.

        Args:
            position: where the game stands.
            history: the positions before it in this game, oldest first.
            clock: the time limits, None for none.
        """

    def close(self) -> None:
        """Release what the agent holds (processes, threads); it is not used afterwards."""


@runtime_checkable
class BatchAgent(Protocol):
    """A player of many games at once, deterministic for a given seed. An agent can be both this and an ``Agent``."""

    def new_game(self, seed: int) -> None:
        """Forget all games; every random choice of the next ones, played together, follows from ``seed``."""

    def select_batch(self, states: np.ndarray, plies: np.ndarray) -> np.ndarray:
        """Return ``int64[B]``: the hole 1..9 to play in each of B different games, none of them over.

        Args:
            states: ``uint8[B, 23]``, each seen by its side to move.
            plies: ``int32[B]``, the moves that each game has seen so far.
        """

    def close(self) -> None:
        """Release what the agent holds (processes, threads); it is not used afterwards."""


def agent_name(agent: object) -> str:
    """Return the agent's ``name``, or that of its class."""
    return str(getattr(agent, "name", None) or type(agent).__name__)


AgentFactory = Callable[..., Agent]
"""A class or function that makes an agent from keyword arguments; its annotations say how text becomes values."""

# Modules are named, not imported: the random player must not wait for torch.
_BUILT_IN: dict[str, tuple[str, str, str]] = {
    "random": ("togyz_agents.players.random_player", "RandomAgent", "a uniformly random legal move"),
    "greedy": ("togyz_agents.players.greedy", "GreedyAgent", "the move that wins the most stones at once"),
    "alphabeta": (
        "togyz_agents.players.alphabeta",
        "AlphaBetaAgent",
        "alpha-beta search with an evaluation or a network at its leaves",
    ),
    "rollout": ("togyz_agents.players.rollout", "RolloutAgent", "tree search that values a position by random games from it"),
    "policy": ("togyz_agents.players.policy", "PolicyAgent", "the move that a trained network likes best, without search"),
    "alphazero": ("togyz_agents.players.alphazero", "AlphaZeroAgent", "tree search guided by a trained network"),
    "uci": ("togyz_agents.players.uci", "UciAgent", "another program that speaks the UCI protocol"),
}
_registered: dict[str, tuple[AgentFactory, str]] = {}


def register(name: str, factory: AgentFactory, help: str = "") -> None:
    """Make ``factory`` available as ``make_agent(name)``; a name can be taken anew, a built-in one cannot.

    Raises:
        ConfigError: the name is a built-in one, or could not be told from the rest of a description.
    """
    if name in _BUILT_IN:
        raise ConfigError(f"agent name: {name!r} is built in; choose another")
    if not name or any(character in name for character in ":,= \t\n"):
        raise ConfigError(f"agent name: {name!r} must be one word without ':', ',' or '='")
    _registered[name] = (factory, help)


def agent_names() -> dict[str, str]:
    """Return every name that ``make_agent`` knows, with a line of help."""
    built_in = {name: help for name, (_, _, help) in _BUILT_IN.items()}
    return built_in | {name: help for name, (_, help) in _registered.items()}


def agent_help() -> str:
    """Return a text for people: every name, what it plays, and its parameters with their defaults."""
    blocks = []
    for name, help in agent_names().items():
        lines = [f"{name}: {help}" if help else name]
        try:
            parameters = _parameters(_factory(name))
        except ConfigError as error:  # a module that is not installed
            lines.append(f"    {error}")
        else:
            lines += [f"    {entry}" for entry in _entries(parameters)]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def make_agent(description: str, ruleset: Ruleset | None = None) -> Agent:
    """Make the player that ``name:key=value,...`` describes.

    Args:
        description: the player.
        ruleset: of the games to play: a player with the parameters ``end`` and ``max_plies`` assumes it, unless the description
            sets them.

    Raises:
        ConfigError: unknown name, unknown, missing or doubled parameter, or a value of the wrong type; the message lists what
            would be right.
    """
    name, texts = parse_description(description)
    factory = _factory(name)
    parameters = agent_parameters(name)
    values: dict[str, Any] = {}
    for key, text in texts.items():
        try:
            values[key] = _convert(text, parameters[key].annotation)
        except ValueError:
            expected = _type_name(parameters[key].annotation) or "set in code"
            raise ConfigError(f"agent {description!r}: {key} must be {expected}, not {text!r}") from None
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in values:
            raise ConfigError(f"agent {description!r}: parameter {key!r} is missing; {_listing(name, parameters)}")
    if ruleset is not None and {"end", "max_plies"} <= parameters.keys():
        values = {"end": ruleset.end, "max_plies": ruleset.max_plies} | values
    return factory(**values)


def parse_description(description: str) -> tuple[str, dict[str, str]]:
    """Return the player's name and the texts of its parameters, in the order of ``description``; the texts are not converted yet.

    Raises:
        ConfigError: unknown name, unknown or doubled parameter, a bare word behind the first, or a quote that is not closed.
    """
    name, _, options = description.strip().partition(":")
    name = name.strip()
    parameters = agent_parameters(name)
    texts: dict[str, str] = {}
    for number, match in enumerate(_OPTION.finditer(options)):
        key, value = match["key"], match["value"].strip()
        if value[:1] in ("'", '"'):
            if len(value) < 2 or value[-1] != value[0] or value[0] in value[1:-1]:
                raise ConfigError(f"agent {description!r}: {value!r} is no text between two quotes, followed by a comma or the end")
            value = value[1:-1]
        elif not value and key is None:
            continue
        if key is None:  # a bare word is the first parameter's value
            if number or not parameters:
                raise ConfigError(f"agent {description!r}: {value!r} is not key=value; {_listing(name, parameters)}")
            key = next(iter(parameters))
        if key not in parameters:
            raise ConfigError(f"agent {description!r}: unknown parameter {key!r}; {_listing(name, parameters)}")
        if key in texts:
            raise ConfigError(f"agent {description!r}: parameter {key!r} is given twice")
        texts[key] = value
    return name, texts


def make_description(name: str, texts: Mapping[str, str]) -> str:
    """Write what ``parse_description`` reads.

    Raises:
        ConfigError: a text that has a comma and both kinds of quotes.
    """
    options = []
    for key, text in texts.items():
        if "," in text or text != text.strip() or text[:1] in ("'", '"'):
            quote = next((quote for quote in ("'", '"') if quote not in text), None)
            if quote is None:
                raise ConfigError(f"agent {name!r}: {key}={text!r} cannot be written: it has a comma and both kinds of quotes")
            text = f"{quote}{text}{quote}"
        options.append(f"{key}={text}")
    return f"{name}:{','.join(options)}" if options else name


def agent_parameters(name: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of the player ``name`` that text can set, with their annotations evaluated.

    Raises:
        ConfigError: an unknown name.
    """
    return _parameters(_factory(name))


_OPTION = re.compile(
    r"""\s*(?:(?P<key>[^\s=,'"]*)\s*=\s*)?       # key=, or a bare word
        (?P<value>'[^']*'[^,]*|"[^"]*"[^,]*|[^,]*)  # in quotes, or up to the next comma
        (?:,|$)""",
    re.VERBOSE,
)


def agent_files(description: str) -> dict[str, str]:
    """Return the SHA-256 of every file that a path parameter of ``description`` names: equal texts can mean different networks.

    Of a directory (a run), the .safetensors files in it count; what does not exist is left out. The keys are the paths.
    """
    name, texts = parse_description(description)
    parameters = agent_parameters(name)
    files: dict[str, str] = {}
    for key, text in texts.items():
        if text and "path" in _type_name(parameters[key].annotation).split(" or "):
            path = Path(text)
            for file in sorted(path.glob("*.safetensors")) if path.is_dir() else [path]:
                if file.is_file():
                    with open(file, "rb") as content:
                        files[str(file)] = hashlib.file_digest(content, "sha256").hexdigest()
    return files


def _factory(name: str) -> AgentFactory:
    if name in _registered:
        return _registered[name][0]
    if name not in _BUILT_IN:
        raise ConfigError(f"agent: unknown name {name!r}; known: {', '.join(agent_names())}")
    module, attribute, _ = _BUILT_IN[name]
    try:
        return typing.cast(AgentFactory, getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        raise ConfigError(f"agent {name!r} needs a module that is not installed: {error.name}") from error


def _parameters(factory: AgentFactory) -> dict[str, inspect.Parameter]:
    """Return the parameters that text can set, with their annotations evaluated."""
    function: Any = factory.__init__ if inspect.isclass(factory) else factory
    scope = getattr(function, "__globals__", None) or vars(sys.modules[factory.__module__])
    settable = {}
    for name, parameter in inspect.signature(factory).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            annotation = parameter.annotation
            if isinstance(annotation, str):
                try:
                    annotation = eval(annotation, dict(scope))
                except NameError:  # imported for type checkers only: nothing that text could give
                    annotation = object
            if _type_name(annotation) or parameter.default is parameter.empty:
                settable[name] = parameter.replace(annotation=annotation)
    return settable


def _type_name(annotation: Any) -> str:
    """Say what text is wanted for ``annotation``; the empty string if text cannot give it."""
    if annotation in (int, float, bool, str, Path):
        return {int: "int", float: "float", bool: "true or false", str: "text", Path: "path"}[annotation]
    if annotation is inspect.Parameter.empty:
        return "text"
    if annotation is None or annotation is type(None):
        return "none"
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " or ".join(str(argument) for argument in arguments)
    if origin in (typing.Union, types.UnionType):
        names = [name for name in map(_type_name, arguments) if name]
        return " or ".join(names) if names != ["none"] else ""
    return ""


def _convert(text: str, annotation: Any) -> Any:
    """Return ``text`` as a value of ``annotation``; ValueError if it is none."""
    if annotation is bool:
        word = text.lower()
        if word not in ("true", "yes", "on", "1", "false", "no", "off", "0"):
            raise ValueError(text)
        return word in ("true", "yes", "on", "1")
    if annotation in (int, float, str, Path):
        return annotation(text)
    if annotation is inspect.Parameter.empty:
        return text
    if annotation is None or annotation is type(None):
        if text.lower() != "none":
            raise ValueError(text)
        return None
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal:
        for argument in arguments:
            if text == str(argument):
                return argument
        raise ValueError(text)
    # A union: the strictest reading that fits, so that "none" is None and "3" an int before either is text.
    for member in sorted(
        arguments, key=lambda member: (member is str or member is Path, member is float, member is not type(None))
    ):
        try:
            return _convert(text, member)
        except ValueError:
            continue
    raise ValueError(text)


def _listing(name: str, parameters: dict[str, inspect.Parameter]) -> str:
    if not parameters:
        return f"{name} has no parameters"
    return f"parameters of {name}: {', '.join(_entries(parameters))}"


def _entries(parameters: dict[str, inspect.Parameter]) -> list[str]:
    """Return ``key (type, default)`` for each parameter."""
    entries = []
    for key, parameter in parameters.items():
        default = "required" if parameter.default is parameter.empty else f"default {parameter.default}"
        entries.append(f"{key} ({_type_name(parameter.annotation) or 'set in code'}, {default})")
    return entries
