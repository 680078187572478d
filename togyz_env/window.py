"""The window behind ``render_mode="human"``: pictures of ``render.rgb_array``, shown by pygame (the extra ``human``).

Where no window can be opened the board is shown as text: ``open_window`` logs one error that says why, and gives None.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import numpy as np

from togyz_env.errors import ConfigError

log = logging.getLogger(__name__)


class Window:
    """A window that shows one picture after the other. It opens with the first picture.

    Args:
        title: of the window.
        fps: pictures in a second at most: ``show`` waits for its turn, so that people can follow; 0 for no wait.

    Raises:
        ConfigError: pygame is not installed, or there is no display. With the environment variable ``SDL_VIDEODRIVER=dummy`` no
            display is needed, and nothing is seen.
    """

    def __init__(self, title: str, fps: float) -> None:
        """Check that a window can be opened."""
        try:
            import pygame
        except ImportError:
            raise ConfigError("render_mode 'human' needs pygame: pip install 'togyz[human]'") from None
        self._pygame: Any = pygame
        try:
            pygame.display.init()
            # Without a display SDL draws into memory, and the user would wait for a window that never comes.
            found = pygame.display.get_driver() != "offscreen" or os.environ.get("SDL_VIDEODRIVER") == "offscreen"
        except pygame.error:
            found = False
        if not found:
            pygame.display.quit()
            raise ConfigError("render_mode 'human' found no display to open a window on; set DISPLAY")
        self._title = title
        self._fps = fps
        self._clock = pygame.time.Clock()
        self._screen: Any = None

    def show(self, picture: np.ndarray) -> None:
        """Show ``picture uint8[height, width, 3]``, after a pause that keeps to ``fps``."""
        pygame = self._pygame
        if self._screen is None:
            if not pygame.display.get_init():
                pygame.display.init()
            pygame.display.set_caption(self._title)
            self._screen = pygame.display.set_mode((picture.shape[1], picture.shape[0]))
        self._screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()  # the system asks a window now and then whether it is alive
        pygame.display.flip()
        if self._fps:
            self._clock.tick(self._fps)

    def close(self) -> None:
        """Close the window."""
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None


def open_window(title: str, fps: float) -> Window | None:
    """Open a window, or log why there is none and return None."""
    try:
        return Window(title, fps)
    except ConfigError as error:
        log.error("%s; showing the board as text instead", error)
        return None
