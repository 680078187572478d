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
from togyz_env.episodes import check_first_move, draw_episode, first_move_ends, one_of, side_code, start_position, streams_of
from togyz_env.errors import IllegalMoveError
from togyz_env.fen import FEN_SIZE, write_fen
from togyz_env.notation import shown
from togyz_env.observation_modes import ObservationMode
from togyz_env.position import Outcome, Position, Ruleset, outcome_of
from togyz_env.roster import Board, Roster
from togyz_env.rules import BLACK, HOLES, KAZAN, ONGOING, STATE_SIZE, TO_MOVE, WHITE, end_reason, int64, is_legal, kernel, play
from togyz_env.window import open_window

Info = dict[str, Any]

TITLE = "Togyzqumalaq"
METADATA: dict[str, Any] = {"render_modes": ["ansi", "rgb_array", "human"], "render_fps": 2}

_ROW = np.zeros(1, np.int64)  # the one game among those that opponents look at


class _Winner(int):
    """0 or 1. Gymnasium's vector environments put plain numbers into arrays of numbers, where the None of a draw fails."""


_WINNERS = (_Winner(WHITE), _Winner(BLACK))

# All that a step wants to know of a position comes in one whole number: a tuple or another call would cost more than the rules do.
_ILLEGAL = -1
_REASON = 0x3
_WHITE_AT, _BLACK_AT, _LENGTH_AT = 8, 16, 24


@kernel
def _play_and_look(states: np.ndarray, action: int, ply: int, playout: bool, mask: np.ndarray, beside: np.ndarray) -> int:
    """Play ``action`` on ``states uint8[1, 23]`` in place, unless it is illegal; action -1 only looks.

    Fills ``mask int8[9]``, 1 = legal for the side to move then, all 0 when the rules have ended the game, and
    ``beside uint8[23 + FEN_SIZE]``: the state before the action, and the position string after it (``ply`` half-moves).

    Returns:
        ``end reason | white's kazan << 8 | black's kazan << 16 | length of the position string << 24``; _ILLEGAL, and nothing has
        changed.
    """
    state = states[0]
    if action >= 0:
        if not is_legal(state, action):
            return _ILLEGAL
        beside[:STATE_SIZE] = state
        play(state, action)
    reason = end_reason(state, playout)
    for a in range(HOLES):
        mask[a] = reason == ONGOING and is_legal(state, a)
    length = write_fen(state, ply, beside[STATE_SIZE:])
    return reason | int64(state[KAZAN]) << _WHITE_AT | int64(state[KAZAN + 1]) << _BLACK_AT | length << _LENGTH_AT


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
    By default a dictionary, seen from the side to move:

    | Key | Space | Content |
    |---|---|---|
    | ``observation`` | ``Box``, float32, length of the encoder | the position, encoded (``togyz_env.observation``) |
    | ``action_mask`` | ``MultiBinary(9)``, int8 | 1 = legal; all 0 once the episode is over |

    ``observation=`` chooses other contents (one-hot planes, tokens) and the array without the dictionary; the table is in
    ``togyz_env.observation_modes``.

    With ``opponent`` the agent is to move in every observation but the last, and the last one too is seen from his side,
    whoever would be to move.

    ``info`` holds the same ``action_mask``, the position string ``fen``, ``kazans`` (white, black) and ``to_move`` (0 white,
    1 black); with ``opponent`` also ``agent_side``, and the opponent's name ``opponent`` after ``reset`` and at the end; at the
    end of a game ``winner`` (0, 1 or None for a draw), ``reason`` and ``score`` (white, black) of its outcome; after an illegal
    action ``illegal_action``.

    ## Rewards
    Win +1, loss -1, draw 0, and 0 before the end: for the player who has just moved, or with ``opponent`` for the agent. The
    margin does not count. A game cut by the ply limit gives 0, an illegal action -1.

    ## Starting State
    Nine stones in each hole, white to move. ``reset(options=...)`` takes ``fen``, a position string to start from (the game
    must go on there), and ``agent_side`` for this episode. With ``seed`` everything repeats: the agent's side and the opponent
    too.

    ## Episode End
    Terminated: the rules end the game (a kazan with 82 stones, or a side to move without stones), or an illegal action did.
    Truncated: ``max_plies`` half-moves have been played since the start of the game.

    ## Arguments
    - ``end``: "majority" (default) or "playout", which plays on after 82.
    - ``max_plies``: ply limit, 2000 by default; games can go round in circles.
    - ``observation``: "plain" by default; see above.
    - ``opponent``: an agent (``new_game``, ``select``, ``close``), the name or description of one ("random"), a checkpoint's
      path, a function ``Position -> hole``, or an ``OpponentPool``; see ``togyz_env.opponents``. None by default.
    - ``agent_side``: the agent's side when there is an opponent: "white" (default), "black", "random" for each episode, or
      "alternating": the other side than in the episode before; the first one after a seed is white for even seeds, black for odd
      ones, and white without a seed.
    - ``illegal``: "terminate" (default) ends the episode after an illegal action, "raise" raises ``IllegalMoveError``.
    - ``render_mode``: "ansi" (text), "rgb_array" (uint8 pixels) or "human" (a window, by pygame; where that is missing or
      there is no display, one error is logged and the board printed as text).

    ## Version History
    - v0: first version.
    """

    metadata = METADATA

    def __init__(
        self,
        *,
        end: Literal["majority", "playout"] = "majority",
        max_plies: int = 2000,
        observation: str = "plain",
        opponent: object = None,
        agent_side: Literal["white", "black", "random", "alternating"] = "white",
        illegal: Literal["terminate", "raise"] = "terminate",
        render_mode: str | None = None,
    ) -> None:
        """Check the arguments; the class's docstring describes them.

        Raises:
            ConfigError: an argument has an impossible value, or a window cannot be opened.
            CheckpointError: the opponent's checkpoint is missing or damaged.
        """
        self.ruleset = Ruleset(end, max_plies)
        self._mode = ObservationMode(observation)
        self._side = side_code(agent_side)
        one_of("illegal", illegal, ("terminate", "raise"))
        one_of("render_mode", render_mode, (None, *METADATA["render_modes"]))
        self.render_mode = render_mode
        self._raises = illegal == "raise"
        self._playout = self.ruleset.playout
        self.action_space = spaces.Discrete(HOLES)
        self.observation_space = self._mode.space
        self._states = np.zeros((1, STATE_SIZE), np.uint8)
        self._beside = np.zeros(STATE_SIZE + FEN_SIZE, np.uint8)  # see _play_and_look
        self._last_action = -1  # of the state in _beside
        self._to_move = WHITE
        self._ply = 0
        self._over = True  # until the first reset
        self._agent = BLACK  # in the episode before the first one: sides that alternate begin with white
        self._stream: np.ndarray | None = None
        self._roster: Roster | None = None
        self._board = Board(self._states, np.zeros(1, np.int32))
        if opponent is not None:
            check_first_move(self.ruleset, self._side)
            self._roster = Roster(opponent, self.ruleset, self._board)
        self._window = open_window(TITLE, METADATA["render_fps"]) if render_mode == "human" else None

    @property
    def position(self) -> Position:
        """The position on the board now."""
        return Position.from_state(self._states[0], self._ply)

    def action_masks(self) -> np.ndarray:
        """Return ``bool[9]``, True = legal for the side to move; all False once the episode is over."""
        mask = np.zeros(HOLES, np.bool_)
        if not self._over:
            row = HOLES * self._to_move
            np.not_equal(self._states[0, row : row + HOLES], 0, out=mask)
        return mask

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Start a new game, whether or not the last one is over.

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
            one_of("option of reset", key, ("fen", "agent_side"))
        side = side_code(options["agent_side"]) if "agent_side" in options else self._side
        start = start_position(options["fen"], self.ruleset) if "fen" in options else Position.start()
        if seed is not None:
            self._stream = streams_of([seed])
            self._agent = 1 - seed % 2  # sides that alternate begin with the other one
        elif self._stream is None:
            self._stream = streams_of([int(self.np_random.integers(2**63))])

        self._states[0] = start.state
        self._to_move = start.to_move
        self._ply = start.ply
        self._last_action = -1
        mask = np.empty(HOLES, np.int8)
        seen = self._look_only(mask)
        if self._roster is not None:
            self._over = True  # should the opponent fail
            self._agent, pick, opponents_seed = draw_episode(self._stream, 0, side, self._agent)
            self._roster.begin(0, int(opponents_seed), pick)
            if start.to_move != self._agent:
                seen = self._reply(mask)
                if seen & _REASON != ONGOING or self._ply >= self.ruleset.max_plies:
                    raise first_move_ends(start)
        self._over = False
        if self.render_mode == "human":
            self.render()
        observation, info = self._look(seen, mask)
        if self._roster is not None:
            info["opponent"] = self._roster.name(0)
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
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
        if self._roster is not None and seen & _REASON == ONGOING and self._ply < max_plies:
            self._over = True  # should the opponent fail, the episode cannot go on
            seen = self._reply(mask)
            self._over = False
        terminated = seen & _REASON != ONGOING
        truncated = not terminated and self._ply >= max_plies
        reward = 0.0
        if terminated or truncated:
            mask[:] = 0
            outcome = self._end()
            observation, info = self._look(seen, mask)
            if outcome.winner is None:
                info["winner"] = None
            else:
                reward = 1.0 if outcome.winner == mover else -1.0
                info["winner"] = _WINNERS[outcome.winner]
            info["reason"], info["score"] = outcome.reason, outcome.score
            if self._roster is not None:
                info["opponent"] = self._roster.name(0)
        else:
            observation, info = self._look(seen, mask)
        if self.render_mode == "human":
            self.render()
        return observation, reward, terminated, truncated, info

    def _look_only(self, mask: np.ndarray) -> int:
        return _play_and_look(self._states, -1, self._ply, self._playout, mask, self._beside)

    def _advance(self, action: Any, mask: np.ndarray) -> int:
        """Play ``action``, fill the mask, and return what ``_play_and_look`` does; nothing changes if it is _ILLEGAL."""
        try:
            index = operator.index(action)
        except TypeError:
            return _ILLEGAL
        if not 0 <= index < HOLES:
            return _ILLEGAL
        recording = self._roster is not None and self._roster.wants_history[0]
        before = self.position if recording else None
        seen = _play_and_look(self._states, index, self._ply + 1, self._playout, mask, self._beside)
        if seen == _ILLEGAL:
            return _ILLEGAL
        if before is not None:
            self._board.histories[0].append(before)
        self._last_action = index
        self._to_move = 1 - self._to_move
        self._ply += 1
        return seen

    def _refuse(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """End the episode after an illegal action, or raise; the position stays as it is."""
        position = self.position
        if self._raises:
            legal = [hole - 1 for hole in position.legal_moves()]
            raise IllegalMoveError(f"action: {shown(action)} in {position.fen()!r}; legal actions: {legal}")
        self._over = True
        mask = np.empty(HOLES, np.int8)
        seen = self._look_only(mask)
        mask[:] = 0
        observation, info = self._look(seen, mask)
        info["illegal_action"] = action
        if self._roster is not None:
            info["opponent"] = self._roster.name(0)
        return observation, -1.0, True, False, info

    def _reply(self, mask: np.ndarray) -> int:
        """Let the opponent move, fill the mask, and return what ``_play_and_look`` does."""
        assert self._roster is not None
        self._board.plies[0] = self._ply
        return self._advance(self._roster.actions(_ROW)[0], mask)

    def _end(self) -> Outcome:
        """Close the episode, whose game is over, and return the outcome."""
        self._over = True
        outcome = outcome_of(self._states[0], self._ply, self.ruleset)
        assert outcome is not None
        return outcome

    def _look(self, seen: int, mask: np.ndarray) -> tuple[Any, Info]:
        """Return the observation and the info of the present position, of which ``_play_and_look`` has ``seen`` the rest."""
        states = self._states
        info: Info = {
            "action_mask": mask,
            "fen": self._beside[STATE_SIZE : STATE_SIZE + (seen >> _LENGTH_AT)].tobytes().decode(),
            "kazans": (seen >> _WHITE_AT & 0xFF, seen >> _BLACK_AT & 0xFF),
            "to_move": self._to_move,
        }
        if self._roster is not None:
            info["agent_side"] = self._agent
            if self._to_move != self._agent:  # the agent ended the game: he sees it from his side
                states = states.copy()
                states[0, TO_MOVE] = self._agent
        return self._mode.observation(states, mask), info

    def render(self) -> Any:
        """Return the board as text ("ansi") or ``uint8[484, 720, 3]`` ("rgb_array"); with "human" show it.

        The last sowing is marked: the hole played, the stones that each hole got, where the last one fell, and what was captured.
        """
        if self.render_mode is None:
            gymnasium.logger.warn('render: made without render_mode; use gymnasium.make(..., render_mode="ansi")')
            return None
        trail = None
        if self._last_action >= 0:
            trail = render.Trail.of(Position.from_state(self._beside[:STATE_SIZE]), self._last_action + 1)
        if self.render_mode == "rgb_array" or self._window is not None:
            picture = render.rgb_array(self.position, trail)
            if self._window is None:
                return picture
            self._window.show(picture)
            return None
        board = render.text(self.position, trail, owners=True) + "\n"
        if self.render_mode == "ansi":
            return board
        sys.stdout.write(board)  # no window could be opened
        return None

    def close(self) -> None:
        """Close the window, and the opponent if this environment made it; an agent that was handed in is left to its owner."""
        if self._window is not None:
            self._window.close()
            self._window = None
        if self._roster is not None:
            self._roster.close()

    def __getstate__(self) -> dict[str, Any]:
        """Copies open a window of their own, where there is one."""
        return self.__dict__ | {"_window": self._window is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of the environment that was copied."""
        self.__dict__ |= state
        self._window = open_window(TITLE, METADATA["render_fps"]) if state["_window"] else None
