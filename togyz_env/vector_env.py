"""Many games at once: the Gymnasium ``VectorEnv`` behind ``gymnasium.make_vec("togyz_env:Togyzqumalaq-v0", num_envs=4096)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from togyz_env import render
from togyz_env.env import METADATA
from togyz_env.episodes import check_first_move, first_move_ends, one_of, side_code, start_position, streams_of
from togyz_env.errors import ConfigError, IllegalMoveError
from togyz_env.fen import fens
from togyz_env.notation import shown
from togyz_env.observation_modes import ObservationMode
from togyz_env.position import Position, Ruleset
from togyz_env.roster import NOT_SIMPLE, Board, Roster
from togyz_env.rules import BLACK, HOLES, ONGOING, STATE_SIZE, TO_MOVE
from togyz_env.vector_info import Info, InfoWriter
from togyz_env.vector_kernels import (
    ILLEGAL_ACTION,
    begin_games,
    first_illegal,
    judge,
    look,
    play_actions,
    play_replies,
    play_simple,
    turn_over,
)

Step = tuple[Any, np.ndarray, np.ndarray, np.ndarray, Info]

NO_EPISODE = ILLEGAL_ACTION + 1
"""Status of a game before the first reset."""


class TogyzqumalaqVectorEnv(VectorEnv[Any, Any, np.ndarray]):
    """``num_envs`` games of ``TogyzqumalaqEnv``, played by compiled code in one call.

    Game ``i`` with seed ``s`` goes exactly as the single environment with seed ``s``: positions, masks, rewards, the agent's side
    and the opponent's moves (unless an agent with ``select_batch`` draws random numbers: it has one seed for all its games).
    Actions are ``int[num_envs]``, 0..8. Rewards are float64, as Gymnasium's own vector environments give them.

    ## Info
    Each key ``k`` has the array ``_k bool[num_envs]`` that says for which games it holds.

    | Key | Value | For |
    |---|---|---|
    | ``action_mask`` | ``int8[N, 9]``, 1 = legal | all |
    | ``kazans``, ``to_move`` | ``int64[N, 2]``, ``int64[N]`` | all |
    | ``agent_side`` | ``int64[N]`` | all, with opponents |
    | ``fen``, ``opponent`` | position string, name | games that have ended, and those of ``reset`` |
    | ``winner``, ``reason``, ``score`` | 0, 1 or None; text; ``int64[N, 2]`` | games ended by the rules or the ply limit |
    | ``illegal_action`` | ``int64[N]`` | games that an illegal action has ended |

    ``fens()`` and ``positions()`` give the positions of all games at any time.

    ## Autoreset
    As Gymnasium documents it. NEXT_STEP: the step after the end ignores the game's action and gives its new start, with reward 0.
    SAME_STEP: the step that ends a game gives the new start already; the last observation and info are ``final_obs`` (an object
    array) and ``final_info``. DISABLED: a game that is over stays so until ``reset(options={"reset_mask": bool[num_envs]})``;
    a step before that raises ``ResetNeeded``. New games begin from the usual start.

    ## Arguments
    Those of ``TogyzqumalaqEnv`` (``render_mode`` without "human"), and

    - ``num_envs``: number of games.
    - ``autoreset_mode``: an ``AutoresetMode`` or its value; NEXT_STEP by default.
    - ``copy``: True by default: what a step returns is yours. False: observations, rewards, flags, masks, kazans and sides stand in
      arrays that the next step or reset writes anew, which saves the time to find fresh memory; ``final_obs`` is always yours.
    """

    metadata = METADATA

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
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
            ConfigError: an argument has an impossible value.
            CheckpointError: the opponent's checkpoint is missing or damaged.
        """
        if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise ConfigError(f"num_envs: {shown(num_envs)}; expected a whole number from 1")
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            modes = ", ".join(repr(mode.value) for mode in AutoresetMode)
            raise ConfigError(f"autoreset_mode: {shown(autoreset_mode)}; expected an AutoresetMode or one of {modes}") from None
        one_of("illegal", illegal, ("terminate", "raise"))
        one_of("render_mode", render_mode, (None, "ansi", "rgb_array"))
        self.num_envs = int(num_envs)
        self.ruleset = Ruleset(end, max_plies)
        self.render_mode = render_mode
        self.metadata = {**METADATA, "render_modes": ["ansi", "rgb_array"], "autoreset_mode": self.autoreset_mode}
        self._mode = ObservationMode(observation)
        self._side = side_code(agent_side)
        self._raises = illegal == "raise"
        self._copy = copy
        self.single_action_space = spaces.Discrete(HOLES)
        self.single_observation_space = self._mode.space
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

        n = self.num_envs
        self._states = np.zeros((n, STATE_SIZE), np.uint8)
        self._plies = np.zeros(n, np.int32)
        self._status = np.full(n, NO_EPISODE, np.uint8)
        self._before = np.zeros((n, STATE_SIZE), np.uint8)  # the states before the last moves
        self._moves = np.full(n, -1, np.int8)
        self._rows = np.empty(n, np.int64)
        self._streams: np.ndarray | None = None
        self._agents = np.full(n, BLACK, np.uint8)
        self._picks = np.zeros(n)
        self._seeds = np.zeros(n, np.uint64)
        self._board = Board(self._states, self._plies)
        self._roster: Roster | None = None
        if opponent is not None:
            check_first_move(self.ruleset, self._side)
            self._roster = Roster(opponent, self.ruleset, self._board)
        self._infos = InfoWriter(self._states, self._plies, self._status, self._agents, self._roster)
        self._buffers = self._new_buffers()

    # What the games show.

    def positions(self) -> list[Position]:
        """Return the position of each game."""
        return [self._board.position(row) for row in range(self.num_envs)]

    def fens(self) -> list[str]:
        """Return the position string of each game."""
        return fens(self._states, self._plies)

    def action_masks(self) -> np.ndarray:
        """Return ``bool[num_envs, 9]``, True = legal for the side to move; all False in games that are over."""
        masks = np.empty((self.num_envs, HOLES), np.bool_)
        look(self._states, self._status, masks, *(buffer.copy() for buffer in self._buffers[4:6]))
        return masks

    def render(self) -> tuple[Any, ...] | None:
        """Return the boards as texts ("ansi") or as ``uint8[484, 720, 3]`` ("rgb_array"), last sowings marked, or None."""
        if self.render_mode is None:
            return None
        pictures: list[Any] = []
        for row, position in enumerate(self.positions()):
            trail = None
            if self._moves[row] >= 0:
                trail = render.Trail.of(Position.from_state(self._before[row]), int(self._moves[row]) + 1)
            if self.render_mode == "ansi":
                pictures.append(render.text(position, trail, owners=True) + "\n")
            else:
                pictures.append(render.rgb_array(position, trail))
        return tuple(pictures)

    # Reset and step.

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, Info]:
        """Start new games, in all rows or in those of ``options["reset_mask"]``.

        Args:
            seed: one number ``s`` for the seeds ``s, s+1, ...``, or one seed or None for each game.
            options: ``fen``, a position string to start from or one for each game; ``agent_side`` of these episodes;
                ``reset_mask bool[num_envs]``, the games to reset.

        Returns:
            ``(observations of all games, info)``; the info is that of the games that were reset.

        Raises:
            ConfigError: an unknown option, a mask or seeds of the wrong type or length.
            NotationError, PositionError: ``fen`` is malformed, cannot occur, or its game is over before the agent can move.
        """
        options = {} if options is None else options
        for key in options:
            one_of("option of reset", key, ("fen", "agent_side", "reset_mask"))
        side = side_code(options["agent_side"]) if "agent_side" in options else self._side
        rows = self._rows_to_reset(options["reset_mask"]) if "reset_mask" in options else np.arange(self.num_envs)
        starts = self._starts(options["fen"], rows) if "fen" in options else None
        self._seed(seed, rows)

        self._begin(rows, side)
        if starts is not None:
            for row, start in zip(rows, starts):
                self._states[row] = start.state
                self._plies[row] = start.ply
        if self._roster is not None:
            if "reset_mask" not in options:
                self._roster.restart(int(self._seeds[0]))
            self._status[rows] = NO_EPISODE  # should an opponent fail
            self._enter(rows)
            self._status[rows] = ONGOING
            self._replies()
            over = rows[self._status[rows] != ONGOING]
            if len(over):
                self._status[rows] = NO_EPISODE
                raise first_move_ends(starts[rows.tolist().index(over[0])] if starts else Position.start())

        self._buffers = self._new_buffers() if self._copy else self._buffers
        masks, kazans, to_move = self._look()
        info: Info = {}
        which = np.zeros(self.num_envs, np.bool_)
        which[rows] = True
        self._infos.add_views(info, masks, kazans, to_move, which)
        self._infos.add_texts(info, rows)
        return self._observations(masks), info

    def step(self, actions: Any) -> Step:
        """Play one action in each game, and with opponents their replies.

        Args:
            actions: ``int[num_envs]``; those of games that are about to be reset (NEXT_STEP) are ignored.

        Returns:
            ``(observations, rewards float64[N], terminations bool[N], truncations bool[N], info)``.

        Raises:
            ConfigError: ``actions`` has another shape or no whole numbers; nothing has changed.
            ResetNeeded: before the first reset, or with DISABLED while a game is over.
            IllegalMoveError: with ``illegal="raise"``, an illegal action, and nothing has changed; or an opponent answers with an
                illegal move, and all games need a reset.
        """
        actions = self._checked(actions)
        if self._copy:
            self._buffers = self._new_buffers()
        rewards, terminated, truncated = self._buffers[:3]
        games = (self._states, self._plies, self._status, self._before, self._moves)
        limits = (self.ruleset.playout, self.ruleset.max_plies)
        if self._roster is not None and self._roster.wants_history.any():
            self._roster.record(np.flatnonzero(self._status == ONGOING))
        over = play_actions(*games, actions, *limits, self._rows)
        if over:  # NEXT_STEP
            fresh = self._rows[:over].copy()
            self._begin(fresh, self._side)
            self._enter(fresh)
        self._replies()

        opposed = self._roster is not None
        count = judge(self._states, self._status, self._agents, opposed, rewards, terminated, truncated, self._rows)
        info: Info = {}
        if count:
            ended = self._rows[:count].copy()
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                self._infos.add_finals(info, ended, actions, self._mode, self._seen(ended))
                self._begin(ended, self._side)
                self._enter(ended)
                self._replies()
            else:
                self._infos.add_ends(info, ended, actions)
        masks, kazans, to_move = self._look()
        self._infos.add_views(info, masks, kazans, to_move, np.ones(self.num_envs, np.bool_))
        return self._observations(masks), rewards, terminated, truncated, info

    # Parts of a step.

    def _checked(self, actions: Any) -> np.ndarray:
        """Return ``actions`` as ``int64[num_envs]``, or raise before anything has changed."""
        if self._status.max() != ONGOING:
            if (self._status == NO_EPISODE).any():
                raise ResetNeeded("step: no episode has begun; call reset() first")
            if self.autoreset_mode is AutoresetMode.DISABLED:
                games = np.flatnonzero(self._status != ONGOING).tolist()
                raise ResetNeeded(f"step: the episodes of games {shown(games)} are over; reset them with options['reset_mask']")
        given = np.asarray(actions)
        if given.shape != (self.num_envs,) or given.dtype.kind not in "iu":
            raise ConfigError(f"actions: {given.dtype} of shape {given.shape}; expected whole numbers of shape ({self.num_envs},)")
        checked = given.astype(np.int64, copy=False)
        if self._raises:
            row = first_illegal(self._states, self._status, checked)
            if row >= 0:
                position = self._board.position(row)
                legal = [hole - 1 for hole in position.legal_moves()]
                raise IllegalMoveError(f"action: {given[row]} in {position.fen()!r}; legal actions: {legal} (game {row})")
        return checked

    def _begin(self, rows: np.ndarray, side: int) -> None:
        """Set new games up in ``rows``."""
        assert self._streams is not None
        drawn = (self._streams, self._agents, side if self._roster is not None else -1, self._picks, self._seeds)
        begin_games(rows, self._states, self._plies, self._status, self._moves, *drawn)

    def _enter(self, rows: np.ndarray) -> None:
        """Seat the opponents of the new games in ``rows``."""
        if self._roster is None:
            return
        if self._roster.kind != NOT_SIMPLE:
            self._board.streams[rows] = self._seeds[rows]
            return
        try:
            for row in rows.tolist():
                self._roster.begin(row, int(self._seeds[row]), float(self._picks[row]))
        except BaseException:
            self._status[:] = NO_EPISODE  # half a step has been made: the episodes cannot go on
            raise

    def _replies(self) -> None:
        """Let the opponents move wherever it is their turn."""
        if self._roster is None:
            return
        games = (self._states, self._plies, self._status, self._before, self._moves)
        limits = (self.ruleset.playout, self.ruleset.max_plies)
        if self._roster.kind != NOT_SIMPLE:
            play_simple(*games, self._agents, self._roster.kind, self._board.streams, *limits)
            return
        rows = self._rows[: turn_over(self._states, self._status, self._agents, self._rows)].copy()
        if not len(rows):
            return
        try:
            actions = self._roster.actions(rows)
        except BaseException:
            self._status[:] = NO_EPISODE  # half a step has been made: the episodes cannot go on
            raise
        self._roster.record(rows)
        play_replies(rows, *games, actions, *limits)

    def _new_buffers(self) -> tuple[np.ndarray, ...]:
        """Rewards, terminated, truncated, masks, kazans, sides to move, observation arrays."""
        n = self.num_envs
        flags = (np.empty(n), np.empty(n, np.bool_), np.empty(n, np.bool_))
        return (*flags, np.empty((n, HOLES), np.int8), np.empty((n, 2), np.int64), np.empty(n, np.int64), self._mode.empty(n))

    def _look(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        masks, kazans, to_move = self._buffers[3:6]
        look(self._states, self._status, masks, kazans, to_move)
        return masks, kazans, to_move

    def _seen(self, rows: np.ndarray | slice) -> np.ndarray:
        """The states of ``rows`` as their agents see them: with opponents from the agents' side, whoever would be to move."""
        states = self._states[rows]
        if self._roster is not None:
            agents = self._agents[rows]
            if (states[:, TO_MOVE] != agents).any():
                states = states.copy()
                states[:, TO_MOVE] = agents
        return states

    def _observations(self, masks: np.ndarray) -> Any:
        return self._mode.observations(self._seen(slice(None)), masks, self._buffers[6])

    # Checks of reset.

    def _rows_to_reset(self, mask: Any) -> np.ndarray:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
            raise ConfigError(f"reset_mask: {shown(mask)}; expected bool[{self.num_envs}] with a True in it")
        return np.flatnonzero(mask)

    def _starts(self, fen: Any, rows: np.ndarray) -> list[Position]:
        if isinstance(fen, str):
            return [start_position(fen, self.ruleset)] * len(rows)
        if not isinstance(fen, Sequence | np.ndarray) or len(fen) != self.num_envs:
            raise ConfigError(f"fen: {shown(fen)}; expected a position string, or {self.num_envs} of them")
        return [start_position(fen[row], self.ruleset) for row in rows.tolist()]

    def _seed(self, seed: Any, rows: np.ndarray) -> None:
        """Give ``rows`` their streams; those without a seed go on with theirs."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        if self._streams is None:
            self._streams = streams_of(self.np_random.integers(2**63, size=self.num_envs))
            self._agents[:] = 1 - np.arange(self.num_envs) % 2  # sides that alternate: half the games begin with white
        if seed is None:
            return
        if isinstance(seed, int | np.integer):
            seed = range(int(seed), int(seed) + self.num_envs)
        elif not isinstance(seed, Sequence | np.ndarray) or len(seed) != self.num_envs:
            raise ConfigError(f"seed: {shown(seed)}; expected a whole number, or {self.num_envs} of them")
        seeds = [seed[row] for row in rows.tolist()]
        seeded = [k for k, value in enumerate(seeds) if value is not None]
        for k in seeded:
            if isinstance(seeds[k], bool) or not isinstance(seeds[k], int | np.integer) or seeds[k] < 0:
                raise ConfigError(f"seed: {shown(seeds[k])} of game {rows[k]}; expected a whole number from 0, or None")
        self._streams[rows[seeded]] = streams_of([seeds[k] for k in seeded])
        self._agents[rows[seeded]] = [1 - int(seeds[k]) % 2 for k in seeded]

    def close_extras(self, **kwargs: Any) -> None:
        """Close the opponents that were made here."""
        if self._roster is not None:
            self._roster.close()
