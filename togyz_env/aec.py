"""The PettingZoo environment ``togyzqumalaq_v0``: two agents that move in turn, around the Gymnasium environment.

``from togyz_env import togyzqumalaq_v0; env = togyzqumalaq_v0.env()``. Needs the extra: ``pip install 'togyz[pettingzoo]'``.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from togyz_env.env import TogyzqumalaqEnv
from togyz_env.errors import ConfigError
from togyz_env.notation import shown
from togyz_env.observation_modes import ObservationMode
from togyz_env.position import Outcome, Position
from togyz_env.rules import HOLES, STATE_SIZE, STONES, TO_MOVE

try:
    from pettingzoo import AECEnv
    from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper, TerminateIllegalWrapper
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"togyz_env.aec: no module named {error.name!r}; install the extra: pip install 'togyz[pettingzoo]'", name=error.name
    ) from None

ILLEGAL_REWARD = -1.0

Observation = dict[str, np.ndarray]


def env(**arguments: Any) -> AECEnv[str, Observation, int]:
    """Return the environment with PettingZoo's usual wrappers; ``raw_env`` describes the arguments.

    An illegal action ends the game with -1 for the agent that played it and 0 for the other; one outside ``Discrete(9)`` is an
    AssertionError, a call out of order PettingZoo's own error.
    """
    wrapped: AECEnv[str, Observation, int] = raw_env(**arguments)
    wrapped = TerminateIllegalWrapper(wrapped, illegal_reward=ILLEGAL_REWARD)
    wrapped = AssertOutOfBoundsWrapper(wrapped)
    return OrderEnforcingWrapper(wrapped)


class raw_env(AECEnv[str, Observation, int]):  # type: ignore[misc]
    """Togyzqumalaq for two agents that move in turn.

    ## Description
    The game of ``togyz_env.env.TogyzqumalaqEnv``. ``player_0`` is white and moves first, ``player_1`` is black.

    ## Action Space
    ``Discrete(9)`` for each agent: action ``a`` plays hole ``a + 1`` of his row. None once he is terminated or truncated.

    ## Observation Space
    A dictionary for each agent, seen from his side, whoever is to move:

    | Key | Space | Content |
    |---|---|---|
    | ``observation`` | that of the mode | the position (``togyz_env.observation_modes``) |
    | ``action_mask`` | ``MultiBinary(9)``, int8 | 1 = legal; all 0 for the agent that is not to move, and after the end |

    ``state()`` is the state row, ``uint8[23]``. ``env.position`` and ``env.outcome`` tell people the rest, through the wrappers
    too. ``infos`` stay empty: TorchRL wants nothing but numbers in them, and tianshou no text that is not always there.

    ## Rewards
    Win +1, loss -1, draw 0, and 0 before the end. A game cut by the ply limit gives 0 to both.

    ## Starting State
    Nine stones in each hole, white to move. ``reset(options={"fen": ...})`` starts from a position string.

    ## Episode End
    The rules end it: both agents are terminated. ``max_plies`` half-moves have been played: both are truncated.
    An illegal action raises ``IllegalMoveError`` here, and changes nothing; in ``env()`` it ends the game.

    ## Arguments
    - ``end``: "majority" (default) or "playout", which plays on after 82.
    - ``max_plies``: ply limit, 2000 by default.
    - ``observation``: "plain" by default; any of ``togyz_env.observation_modes`` that comes with the mask.
    - ``render_mode``: as in ``TogyzqumalaqEnv``.

    ## Version History
    - v0: first version.
    """

    metadata = {  # noqa: RUF012 - PettingZoo's own form
        "name": "togyzqumalaq_v0",
        "render_modes": TogyzqumalaqEnv.metadata["render_modes"],
        "render_fps": TogyzqumalaqEnv.metadata["render_fps"],
        "is_parallelizable": False,
    }

    def __init__(
        self,
        *,
        end: Literal["majority", "playout"] = "majority",
        max_plies: int = 2000,
        observation: str = "plain",
        render_mode: str | None = None,
    ) -> None:
        """Check the arguments; the class's docstring describes them.

        Raises:
            ConfigError: an argument has an impossible value.
        """
        super().__init__()
        self._game = TogyzqumalaqEnv(
            end=end, max_plies=max_plies, observation=observation, illegal="raise", render_mode=render_mode
        )
        self.render_mode = render_mode
        self._mode = ObservationMode(observation)
        if not self._mode.masked:
            raise ConfigError(f"observation: {shown(observation)}; expected one with the mask: agents look for it there")
        self.possible_agents = ["player_0", "player_1"]
        self.agents: list[str] = []  # until the first reset
        self._seen: Observation = {}  # what the agent to move sees
        self.action_spaces = {agent: spaces.Discrete(HOLES) for agent in self.possible_agents}
        self.observation_spaces = {
            agent: spaces.Dict(
                {
                    "observation": copy.deepcopy(self._mode.content),  # one for each agent: a space has its own seed
                    "action_mask": spaces.MultiBinary(HOLES),
                }
            )
            for agent in self.possible_agents
        }
        self.state_space = spaces.Box(0, STONES, (STATE_SIZE,), np.uint8)

    @property
    def position(self) -> Position:
        """The position on the board now."""
        return self._game.position

    @property
    def outcome(self) -> Outcome | None:
        """How the rules or the ply limit have ended the game, or None; an illegal action is no outcome."""
        return self.position.outcome(self._game.ruleset)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """Return the observation space of ``agent``."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of ``agent``."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a new game; ``options`` takes ``fen``, a position string to start from. The game itself has no chance.

        Other options are passed over: PettingZoo's ``api_test`` wants it so.

        Raises:
            NotationError, PositionError: ``fen`` is malformed, cannot occur, or its game is over.
        """
        options = {key: value for key, value in (options or {}).items() if key == "fen"}
        self._seen, info = self._game.reset(seed=seed, options=options)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[info["to_move"]]
        # Else the agent who was to move when an illegal action ended the last game would come up again after this one.
        self._skip_agent_selection = None

    def step(self, action: int | None) -> None:
        """Play ``action`` for the agent to move; None for one whose game is over.

        Raises:
            IllegalMoveError: the action is not legal; the message shows it, the position and the legal actions.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._seen, reward, terminated, truncated, _ = self._game.step(action)  # the next agent's view
        other = self.possible_agents[1 - self.possible_agents.index(agent)]
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if terminated or truncated:
            self.rewards = {agent: reward, other: -reward}
            self.terminations = dict.fromkeys(self.agents, terminated)
            self.truncations = dict.fromkeys(self.agents, truncated)
        self._accumulate_rewards()
        self.agent_selection = other

    def observe(self, agent: str) -> Observation:
        """Return what ``agent`` sees now, from his side."""
        over = self.terminations.get(agent, True) or self.truncations.get(agent, True)
        if agent == self.agent_selection and not over:
            return {key: array.copy() for key, array in self._seen.items()}
        state = self.state()
        state[TO_MOVE] = self.possible_agents.index(agent)
        seen: Observation = self._mode.observation(state[None], np.zeros(HOLES, np.int8))
        return seen

    def state(self) -> np.ndarray:
        """Return the state row, ``uint8[23]`` (layout in ``togyz_env.rules``)."""
        return self.position.state

    def render(self) -> Any:
        """Return the board as text ("ansi") or pixels ("rgb_array"); with "human" show it."""
        return self._game.render()

    def close(self) -> None:
        """Release what rendering holds."""
        self._game.close()
