"""Reading YAML files that people write: a key that stands twice is an error, where YAML readers keep the last one silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from togyz_env.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """The safe loader, strict about keys. YAML 1.2.2, 3.2.1.3: the keys of a mapping are unique."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"key {key.value!r} stands there twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path, what: str) -> Any:
    """Return the plain values in the file ``path``.

    Args:
        path: the file.
        what: who wants it, the first word of an error.

    Raises:
        ConfigError: it cannot be read or is no YAML, or a key stands twice in a mapping.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except RecursionError:
        raise ConfigError(f"{what}: {str(path)!r} is nested too deeply; expected sections with keys") from None
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: no UTF-8, or a date that does not exist
        reason = "not YAML: " if isinstance(error, yaml.YAMLError) else ""
        raise ConfigError(f"{what}: cannot read {str(path)!r} ({reason}{' '.join(str(error).split())})") from None
