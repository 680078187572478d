"""How a script begins and ends: a user's mistake is one line on stderr, not a traceback."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from togyz_env.errors import ConfigError, TogyzError

USER_ERROR = 2


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors are the project's, so that they end as one line."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise ConfigError(f"command line: {message}")


def run(main: Callable[[], object]) -> NoReturn:
    """Call ``main`` and exit: status 0, or 2 and one line for a ``TogyzError``, a full disk or memory, or an interrupt."""
    try:
        main()
    except (TogyzError, OSError) as error:
        print("error:", *str(error).splitlines(), file=sys.stderr)
        sys.exit(USER_ERROR)
    except MemoryError as error:
        print("error: not enough memory;", *str(error).splitlines(), file=sys.stderr)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(USER_ERROR)
    sys.exit(0)
