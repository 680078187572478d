"""The options of our engine: those of the protocol, and every parameter that the player's description can set."""

from __future__ import annotations

import inspect
import typing
from typing import Literal

from togyz_agents.agent import agent_parameters, parse_description
from togyz_env.errors import ConfigError
from togyz_env.notation import MOVE_STYLES, MoveStyle, shown
from togyz_env.rules import HOLES

ALIASES = {"Hash": "table"}
"""Names that programs know from other engines, for the player's parameters."""
LARGEST_SEED = 2**32 - 1
_LARGEST = 1_000_000_000
_WORDS = ("true", "false")


class Options:
    """What ``setoption`` has set.

    Attributes:
        lines: moves to tell about (MultiPV).
        style: how moves are written (MoveFormat).
        seed: of the next game (Seed).
        texts: the player's parameters, as in its description.
    """

    def __init__(self, description: str) -> None:
        """Begin with what ``description`` says; ConfigError if it says something wrong."""
        self.lines = 1
        self.style: MoveStyle = "hole"
        self.seed = 0
        self.name, self.texts = parse_description(description)
        self._parameters = agent_parameters(self.name)

    def declared(self) -> list[str]:
        """The ``option`` lines, with what is set now as default."""
        styles = " ".join(f"var {style}" for style in MOVE_STYLES)
        own = [
            f"option name MultiPV type spin default {self.lines} min 1 max {HOLES}",
            f"option name MoveFormat type combo default {self.style} {styles}",
            f"option name Seed type spin default {self.seed} min 0 max {LARGEST_SEED}",
        ]
        names = {key: name for name, key in ALIASES.items()}
        return own + [
            f"option name {names.get(key, key)} type {self._kind(key, parameter)}" for key, parameter in self._parameters.items()
        ]

    def set(self, name: str, text: str) -> dict[str, str] | None:
        """Set an option.

        Returns:
            The player's parameters with the new one, if it is the player's; they hold once they stand in ``texts``. Else None.

        Raises:
            ConfigError: an unknown name, or a value that the option does not take.
        """
        key = name.lower()
        if key == "multipv":
            self.lines = _whole(name, text, 1, HOLES)
        elif key == "moveformat":
            style = next((style for style in MOVE_STYLES if style == text.lower()), None)
            if style is None:
                raise ConfigError(f"option {name}: {shown(text)}; expected one of {', '.join(MOVE_STYLES)}")
            self.style = style
        elif key == "seed":
            self.seed = _whole(name, text, 0, LARGEST_SEED)
        else:
            aliases = {alias.lower(): parameter for alias, parameter in ALIASES.items() if parameter in self._parameters}
            lower = {parameter.lower(): parameter for parameter in self._parameters} | aliases
            if key not in lower:
                known = ["MultiPV", "MoveFormat", "Seed", *self._parameters]
                raise ConfigError(f"option: unknown name {shown(name)}; known: {', '.join(known)}")
            return self.texts | {lower[key]: text}
        return None

    def _kind(self, key: str, parameter: inspect.Parameter) -> str:
        """Type and default of a parameter; a number that may be left out is a text, "none" without it."""
        default = self.texts.get(key, "" if parameter.default is parameter.empty else str(parameter.default))
        if isinstance(parameter.default, bool) or parameter.annotation is bool:
            return f"check default {default.lower() if default.lower() in _WORDS else _WORDS[0]}"
        if parameter.annotation is int:
            return f"spin default {default} min 0 max {_LARGEST}"
        if typing.get_origin(parameter.annotation) is Literal:
            choices = " ".join(f"var {choice}" for choice in typing.get_args(parameter.annotation))
            return f"combo default {default} {choices}"
        return f"string default {default.lower() if default == 'None' else default or '<empty>'}"


def _whole(name: str, text: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(most)) or not least <= int(text) <= most:
        raise ConfigError(f"option {name}: {shown(text)}; expected a whole number from {least} to {most}")
    return int(text)
