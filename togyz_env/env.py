"""The Gymnasium environment ``Togyzqumalaq-v0``."""

from __future__ import annotations

import operator
import sys
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from togyz_env import render
from togyz_env.errors import ConfigError, IllegalMoveError, PositionError
from togyz_env.notation import shown
from togyz_env.observation import ENCODERS
from togyz_env.opponents import Opponent, make_opponent, opponents_move
from togyz_env.position import Outcome, Position, Ruleset, outcome_of
from togyz_env.rules import (
    BLACK,
    HOLES,
    KAZAN,
    LANDING_MASK,
    ONGOING,
    STATE_SIZE,
    TO_MOVE,
    WHITE,
    end_reason,
    int64,
    is_legal,
    kernel,
    play,
)

Observation = dict[str, np.ndarray]
Info = dict[str, Any]

_SIDES = {"white": WHITE, "black": BLACK}


# All that a step wants to know of a position comes in one whole number: a tuple or another call would cost more than the rules do.
_ILLEGAL = -1
_REASON = 0x3
_LANDING_AT, _WHITE_AT, _BLACK_AT = 2, 8, 16


@kernel
def _play_and_look(states: np.ndarray, action: int, mask: np.ndarray, playout: bool) -> int:
    """Play ``action`` on ``states uint8[1, 23]`` in place, unless it is illegal; action -1 only looks.

    Fills ``mask int8[9]``, 1 = legal for the side to move then, all 0 when the rules have ended the game.

    Returns:
        ``end reason | landing ring index << 2 | white's kazan << 8 | black's kazan << 16``; _ILLEGAL, and nothing has changed.
    """
    state = states[0]
    landing = 0
    if action >= 0:
        if not is_legal(state, action):
            return _ILLEGAL
        landing = play(state, action) & LANDING_MASK
    reason = end_reason(state, playout)
    for a in range(HOLES):
        mask[a] = reason == ONGOING and is_legal(state, a)
    return reason | landing << _LANDING_AT | int64(state[KAZAN]) << _WHITE_AT | int64(state[KAZAN + 1]) << _BLACK_AT


class TogyzqumalaqEnv(gymnasium.Env[Any, Any]):
    """Togyzqumalaq, a mancala game of two players with complete information and no chance.

    ## Description
    Each player has nine holes with nine stones each, and a kazan. A move sows the stones of one hole counter-clockwise. A last
    stone that makes an even number in an opponent's hole captures it; one that makes three can turn the hole into a tuzdyk,
    which collects every later stone for its owner. Who has 82 of the 162 stones wins.

    Without ``opponent`` the caller plays both sides in turn. With ``opponent`` he plays one side, and each step is his move
    and the reply.

    ## Action Space
    ``Discrete(9)``: action ``a`` plays hole ``a + 1`` of the side to move. Legal are the holes that are not empty; see the
    mask. ``action_masks()`` gives it as bool.

    ## Observation Space
    A dictionary, seen from the side to move:

    | Key | Space | Content |
    |---|---|---|
    | ``observation`` | ``Box``, float32, length of the encoder | the position, encoded (``togyz_env.observation``) |
    | ``action_mask`` | ``MultiBinary(9)``, int8 | 1 = legal; all 0 once the episode is over |

    With ``opponent`` the agent is to move in every observation but the last, and the last one too is seen from his side,
    whoever would be to move.

    ``info`` holds the same ``action_mask``, ``kazans`` (white, black) and ``to_move`` (0 white, 1 black), with ``opponent`` also
    ``agent_side``; at the end of a game ``winner`` (0, 1 or None for a draw), ``reason`` and ``score`` (white, black) of its
    outcome; after an illegal action ``illegal_action``. The position string ``fen`` is there after ``reset`` and at the end of an
    episode; in between it would cost as much as the step, and ``env.unwrapped.position.fen()`` gives it.

    ## Rewards
    Win +1, loss -1, draw 0, and 0 before the end: for the player who has just moved, or with ``opponent`` for the agent. The
    margin does not count. A game cut by the ply limit gives 0, an illegal action -1.

    ## Starting State
    Nine stones in each hole, white to move. ``reset(options=...)`` takes ``fen``, a position string to start from (the game
    must go on there), and ``agent_side``. With ``seed`` everything repeats: the agent's side and the opponent too.

    ## Episode End
    Terminated: the rules end the game (a kazan with 82 stones, or a side to move without stones), or an illegal action did.
    Truncated: ``max_plies`` half-moves have been played since the start of the game.

    ## Arguments
    - ``end``: "majority" (default) or "playout", which plays on after 82.
    - ``max_plies``: ply limit, 2000 by default; games can go round in circles.
    - ``observation``: name of the encoder, a key of ``togyz_env.observation.ENCODERS``; "plain" by default.
    - ``opponent``: an agent (``new_game``, ``select``, ``close``), the description of one ("random"), or a function
      ``Position -> hole``. None by default.
    - ``agent_side``: "white" (default), "black" or "random", the agent's side when there is an opponent.
    - ``illegal``: "terminate" (default) ends the episode after an illegal action, "raise" raises ``IllegalMoveError``.
    - ``render_mode``: "ansi" (text), "rgb_array" (uint8 pixels) or "human" (text to the standard output).

    ## Version History
    - v0: first version.
    """

    metadata = {"render_modes": ["ansi", "rgb_array", "human"], "render_fps": 2}  # noqa: RUF012 - Gymnasium's own form

    def __init__(
        self,
        *,
        end: Literal["majority", "playout"] = "majority",
        max_plies: int = 2000,
        observation: str = "plain",
        opponent: object = None,
        agent_side: Literal["white", "black", "random"] = "white",
        illegal: Literal["terminate", "raise"] = "terminate",
        render_mode: str | None = None,
    ) -> None:
        """Check the arguments; the class's docstring describes them.

        Raises:
            ConfigError: an argument has an impossible value.
        """
        self.ruleset = Ruleset(end, max_plies)
        _one_of("observation", observation, ENCODERS)
        _one_of("agent_side", agent_side, (*_SIDES, "random"))
        _one_of("illegal", illegal, ("terminate", "raise"))
        _one_of("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.render_mode = render_mode
        self._encoder = observation  # the name: an encoder's kernel is not copied with the environment
        self._agent_side: str = agent_side
        self._raises = illegal == "raise"
        self._playout = self.ruleset.playout
        self._owns_opponent = isinstance(opponent, str)
        self._opponent: Opponent | None = None if opponent is None else make_opponent(opponent)
        encoder = ENCODERS[observation]
        self.action_space = spaces.Discrete(HOLES)
        self.observation_space = spaces.Dict(
            {
                "observation": spaces.Box(encoder.low, encoder.high, (encoder.size,), np.float32),
                "action_mask": spaces.MultiBinary(HOLES),
            }
        )
        self._scratch = encoder.scratch(1)
        self._states = np.zeros((1, STATE_SIZE), np.uint8)
        self._to_move = WHITE
        self._ply = 0
        self._agent = WHITE
        self._over = True  # until the first reset
        self._history: list[Position] = []
        self._last_move: tuple[int, int, int] | None = None  # side, action, landing ring index

    @property
    def position(self) -> Position:
        """The position on the board now."""
        return Position.from_state(self._states[0], self._ply)

    def action_masks(self) -> np.ndarray:
        """Return ``bool[9]``, True = legal for the side to move; all False once the episode is over."""
        mask = np.zeros(HOLES, np.bool_)
        if not self._over:
            _play_and_look(self._states, -1, mask, self._playout)
        return mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Start a new game.

        Args:
            seed: makes the episode repeat, with the agent's side and the opponent.
            options: ``fen``, the position string to start from, and ``agent_side``.

        Raises:
            ConfigError: an unknown option.
            NotationError, PositionError: ``fen`` is malformed, cannot occur, or its game is over before the agent can move.
        """
        super().reset(seed=seed)
        options = {} if options is None else options
        for key in options:
            _one_of("option of reset", key, ("fen", "agent_side"))
        side = options.get("agent_side", self._agent_side)
        _one_of("agent_side", side, (*_SIDES, "random"))
        start = Position.from_fen(options["fen"]) if "fen" in options else Position.start()
        if start.outcome(self.ruleset) is not None:
            raise PositionError(f"fen: the game is over in {start.fen()!r}; expected a position to play on from")

        self._states[0] = start.state
        self._to_move = start.to_move
        self._ply = start.ply
        self._history = []
        self._last_move = None
        mask = np.empty(HOLES, np.int8)
        seen = _play_and_look(self._states, -1, mask, self._playout)
        if self._opponent is not None:
            self._agent = int(self.np_random.integers(2)) if side == "random" else _SIDES[side]
            self._opponent.new_game(int(self.np_random.integers(2**31)))
            if start.to_move != self._agent:
                self._over = True  # should the opponent fail
                seen = self._reply(mask)
                if seen & _REASON != ONGOING or self._ply >= self.ruleset.max_plies:
                    raise PositionError(
                        f"fen: the opponent's first move ends the game in {start.fen()!r}; expected the agent to move"
                    )
        self._over = False
        if self.render_mode == "human":
            self.render()
        observation, info = self._look(seen, mask)
        info["fen"] = self.position.fen()
        return observation, info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """Play ``action``, and with an opponent its reply.

        Raises:
            ResetNeeded: the episode is over, or none has begun.
            IllegalMoveError: with ``illegal="raise"``, an illegal action; or the opponent answers with an illegal move.
        """
        if self._over:
            raise ResetNeeded("step: the episode is over, or none has begun; call reset() first")
        mover = self._to_move  # with an opponent, the agent
        mask = np.empty(HOLES, np.int8)
        seen = self._advance(action, mask)
        if seen == _ILLEGAL:
            return self._refuse(action)
        max_plies = self.ruleset.max_plies
        if self._opponent is not None and seen & _REASON == ONGOING and self._ply < max_plies:
            self._over = True  # should the opponent fail, the episode cannot go on
            seen = self._reply(mask)
            self._over = False
        terminated = seen & _REASON != ONGOING
        truncated = not terminated and self._ply >= max_plies
        reward = 0.0
        if terminated or truncated:
            mask[:] = 0
            outcome = self._end()
            if outcome.winner is not None:
                reward = 1.0 if outcome.winner == mover else -1.0
            observation, info = self._look(seen, mask)
            info |= {"fen": self.position.fen(), "winner": outcome.winner, "reason": outcome.reason, "score": outcome.score}
        else:
            observation, info = self._look(seen, mask)
        if self.render_mode == "human":
            self.render()
        return observation, reward, terminated, truncated, info

    def _advance(self, action: Any, mask: np.ndarray) -> int:
        """Play ``action``, fill the mask, and return what ``_play_and_look`` does; nothing changes if it is _ILLEGAL."""
        try:
            index = operator.index(action)
        except TypeError:
            return _ILLEGAL
        if not 0 <= index < HOLES:
            return _ILLEGAL
        before = None if self._opponent is None else self.position
        seen = _play_and_look(self._states, index, mask, self._playout)
        if seen == _ILLEGAL:
            return _ILLEGAL
        if before is not None:
            self._history.append(before)
        self._last_move = (self._to_move, index, seen >> _LANDING_AT & LANDING_MASK)
        self._to_move = 1 - self._to_move
        self._ply += 1
        return seen

    def _refuse(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """End the episode after an illegal action, or raise; the position stays as it is."""
        position = self.position
        if self._raises:
            legal = [hole - 1 for hole in position.legal_moves()]
            raise IllegalMoveError(f"action: {shown(action)} in {position.fen()!r}; legal actions: {legal}")
        self._over = True
        mask = np.empty(HOLES, np.int8)
        seen = _play_and_look(self._states, -1, mask, self._playout)
        mask[:] = 0
        observation, info = self._look(seen, mask)
        info |= {"fen": position.fen(), "illegal_action": action}
        return observation, -1.0, True, False, info

    def _reply(self, mask: np.ndarray) -> int:
        """Let the opponent move, fill the mask, and return what ``_play_and_look`` does."""
        assert self._opponent is not None
        hole = opponents_move(self._opponent, self.position, tuple(self._history))
        return self._advance(hole - 1, mask)

    def _end(self) -> Outcome:
        """Close the episode, whose game is over, and return the outcome."""
        self._over = True
        outcome = outcome_of(self._states[0], self._ply, self.ruleset)
        assert outcome is not None
        return outcome

    def _look(self, seen: int, mask: np.ndarray) -> tuple[Observation, Info]:
        """Return the observation and the info of the present position, of which ``_play_and_look`` has ``seen`` the rest."""
        states = self._states
        info: Info = {
            "action_mask": mask,
            "kazans": (seen >> _WHITE_AT & 0xFF, seen >> _BLACK_AT),
            "to_move": self._to_move,
        }
        if self._opponent is not None:
            info["agent_side"] = self._agent
            if self._to_move != self._agent:  # the agent ended the game: he sees it from his side
                states = states.copy()
                states[0, TO_MOVE] = self._agent
        return {"observation": ENCODERS[self._encoder].encode(states, None, self._scratch)[0], "action_mask": mask}, info

    def render(self) -> Any:
        """Return the board as text ("ansi") or ``uint8[484, 720, 3]`` ("rgb_array"); with "human" print it."""
        if self.render_mode is None:
            gymnasium.logger.warn('render: made without render_mode; use gymnasium.make(..., render_mode="ansi")')
            return None
        if self.render_mode == "rgb_array":
            if self._last_move is None:
                return render.rgb_array(self.position)
            side, action, landing = self._last_move
            return render.rgb_array(self.position, (side, action + 1), (landing // HOLES, landing % HOLES + 1))
        board = render.text(self.position) + "\n"
        if self.render_mode == "ansi":
            return board
        sys.stdout.write(board)
        return None

    def close(self) -> None:
        """Close the opponent if this environment made it; an agent that was handed in is left to its owner."""
        if self._opponent is not None and self._owns_opponent:
            self._opponent.close()


def _one_of(what: str, value: object, allowed: Any) -> None:
    if value not in tuple(allowed):
        raise ConfigError(f"{what}: {shown(value)}; expected one of {', '.join(map(repr, allowed))}")
