"""The ``info`` of the vector environment, in the form that ``gymnasium.vector.SyncVectorEnv`` collects it.

Each key ``k`` holds one value for each game, and ``_k bool[N]`` says for which games it means something.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from togyz_env.fen import fens
from togyz_env.observation_modes import ObservationMode
from togyz_env.position import PLY_LIMIT as BY_PLY_LIMIT
from togyz_env.position import REASONS
from togyz_env.roster import Roster
from togyz_env.rules import ATSYRAU, BLACK, HOLES, KAZAN, MAJORITY, TO_MOVE, WHITE
from togyz_env.vector_kernels import ILLEGAL_ACTION, outcomes

Info = dict[str, Any]

_WINNERS = np.array([WHITE, BLACK, None], object)
_REASONS = np.array([None, REASONS[MAJORITY], REASONS[ATSYRAU], BY_PLY_LIMIT], object)  # by status


def put(info: Info, count: int, key: str, rows: np.ndarray, values: Any, shape: tuple[int, ...] = (), dtype: Any = object) -> None:
    """Add ``values`` of the games in ``rows int64[K]``, of ``count`` games, under ``key``."""
    array = np.full(count, None, object) if dtype is object else np.zeros((count, *shape), dtype)
    array[rows] = values
    which = np.zeros(count, np.bool_)
    which[rows] = True
    info |= {key: array, f"_{key}": which}


class InfoWriter:
    """Tells of the games of a vector environment, whose arrays it looks at.

    Args:
        states, plies, status, agents: the environment's ``uint8[N, 23]``, ``int32[N]``, ``uint8[N]`` and ``uint8[N]``.
        roster: its opponents, or None.
    """

    def __init__(
        self, states: np.ndarray, plies: np.ndarray, status: np.ndarray, agents: np.ndarray, roster: Roster | None
    ) -> None:
        """Look at the arrays, which the environment changes in place."""
        self._count = len(states)
        self._states = states
        self._plies = plies
        self._status = status
        self._agents = agents
        self._roster = roster

    def add_views(self, info: Info, masks: np.ndarray, kazans: np.ndarray, to_move: np.ndarray, which: np.ndarray) -> None:
        """Add what every step tells, for the games in ``which bool[N]``."""
        info |= {"action_mask": masks, "kazans": kazans, "to_move": to_move}
        info |= {"_action_mask": which, "_kazans": which.copy(), "_to_move": which.copy()}
        if self._roster is not None:
            info |= {"agent_side": self._agents.astype(np.int64), "_agent_side": which.copy()}

    def add_texts(self, info: Info, rows: np.ndarray) -> None:
        """Add the position strings and the opponents' names of ``rows int64[K]``."""
        put(info, self._count, "fen", rows, fens(self._states[rows], self._plies[rows]))
        if self._roster is not None:
            put(info, self._count, "opponent", rows, [self._roster.name(row) for row in rows.tolist()])

    def add_ends(self, info: Info, ended: np.ndarray, actions: np.ndarray) -> None:
        """Add how the games in ``ended int64[K]`` ended; ``actions int64[N]`` were the agents' last ones."""
        self.add_texts(info, ended)
        wrong = self._status[ended] == ILLEGAL_ACTION
        illegal, played = ended[wrong], ended[~wrong]
        if len(illegal):
            put(info, self._count, "illegal_action", illegal, actions[illegal], (), np.int64)
        if len(played):
            winners, scores = np.empty(len(played), np.int64), np.empty((len(played), 2), np.int64)
            outcomes(self._states, self._status, played, winners, scores)
            put(info, self._count, "winner", played, _WINNERS[winners])
            put(info, self._count, "reason", played, _REASONS[self._status[played]])
            put(info, self._count, "score", played, scores, (2,), np.int64)

    def add_finals(self, info: Info, ended: np.ndarray, actions: np.ndarray, mode: ObservationMode, seen: np.ndarray) -> None:
        """Add ``final_obs`` and ``final_info`` of the games in ``ended int64[K]``, whose agents have ``seen uint8[K, 23]``."""
        final: Info = {}
        masks = np.zeros((len(ended), HOLES), np.int8)
        states = self._states[ended]
        put(final, self._count, "action_mask", ended, masks, (HOLES,), np.int8)
        put(final, self._count, "kazans", ended, states[:, KAZAN : KAZAN + 2], (2,), np.int64)
        put(final, self._count, "to_move", ended, states[:, TO_MOVE], (), np.int64)
        if self._roster is not None:
            put(final, self._count, "agent_side", ended, self._agents[ended], (), np.int64)
        self.add_ends(final, ended, actions)
        arrays = mode.empty(len(ended))
        mode.write(seen, arrays)
        observations = np.full(self._count, None, object)
        for k, row in enumerate(ended.tolist()):
            observations[row] = {"observation": arrays[k], "action_mask": masks[k]} if mode.masked else arrays[k]
        which = np.zeros(self._count, np.bool_)
        which[ended] = True
        info |= {"final_obs": observations, "_final_obs": which, "final_info": final, "_final_info": which.copy()}
