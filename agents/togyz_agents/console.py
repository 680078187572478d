"""How a script ends: a user's mistake is one line on stderr, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from togyz_env.errors import TogyzError

USER_ERROR = 2


def run(main: Callable[[], object]) -> NoReturn:
    """Call ``main`` and exit: status 0, or 2 and one line for a ``TogyzError`` or an interrupt."""
    try:
        main()
    except TogyzError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(USER_ERROR)
    sys.exit(0)
