"""The OpenSpiel game ``python_togyzqumalaq``; importing this module registers it.

``import togyz_env.openspiel; game = pyspiel.load_game("python_togyzqumalaq(end=playout,max_plies=300)")``. Needs the extra:
``pip install 'togyz[openspiel]'``.

OpenSpiel's algorithms in Python run on it (``open_spiel.python``: MCTS, minimax, rl_environment, the PyTorch agents). Its
C++ ``pyspiel.MCTSBot`` crashes the process on *every* game written in Python, OpenSpiel's own ones too: use
``open_spiel.python.algorithms.mcts.MCTSBot``. A state is copied with ``clone()``, some 50 microseconds, for OpenSpiel offers games
in Python no undo; the project's own search does not go this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from togyz_env.errors import ConfigError
from togyz_env.notation import shown
from togyz_env.observation import ENCODERS
from togyz_env.position import Outcome, Position, Ruleset
from togyz_env.rules import BLACK, HOLES, TO_MOVE, WHITE

try:
    import pyspiel
    from open_spiel.python.observation import IIGObserverForPublicInfoGame
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"togyz_env.openspiel: no module named {error.name!r}; install the extra: pip install 'togyz[openspiel]'", name=error.name
    ) from None

NAME = "python_togyzqumalaq"

_DEFAULTS = Ruleset()
_TYPE = pyspiel.GameType(
    short_name=NAME,
    long_name="Togyzqumalaq",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.DETERMINISTIC,
    information=pyspiel.GameType.Information.PERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=2,
    min_num_players=2,
    provides_information_state_string=True,
    provides_information_state_tensor=False,
    provides_observation_string=True,
    provides_observation_tensor=True,
    parameter_specification={"end": _DEFAULTS.end, "max_plies": _DEFAULTS.max_plies},
)


class TogyzqumalaqGame(pyspiel.Game):  # type: ignore[misc]
    """The game: player 0 is white; action ``a`` plays hole ``a + 1``; win +1, loss -1, draw and ply limit 0.

    Parameters:
        end: "majority" or "playout", as in ``togyz_env.Ruleset``.
        max_plies: half-moves after which a game is a draw.

    Raises:
        ConfigError: a parameter has an impossible value.
    """

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        """Read the parameters; pyspiel hands over all of them."""
        params = dict(params or {})
        self.ruleset = Ruleset(params.get("end", _DEFAULTS.end), params.get("max_plies", _DEFAULTS.max_plies))
        info = pyspiel.GameInfo(
            num_distinct_actions=HOLES,
            max_chance_outcomes=0,
            num_players=2,
            min_utility=-1.0,
            max_utility=1.0,
            utility_sum=0.0,
            max_game_length=self.ruleset.max_plies,
        )
        super().__init__(_TYPE, info, params)

    def new_initial_state(self, fen: str | None = None) -> TogyzqumalaqState:
        """Return the start position, or that of a position string.

        Raises:
            NotationError, PositionError: ``fen`` is malformed or cannot occur.
        """
        return TogyzqumalaqState(self, Position.start() if fen is None else Position.from_fen(fen))

    def make_py_observer(self, iig_obs_type: Any = None, params: dict[str, Any] | None = None) -> Any:
        """Return an observer; ``params`` may hold ``observation``, the name of an encoder.

        Raises:
            ConfigError: an unknown parameter or encoder.
        """
        if iig_obs_type is None or (iig_obs_type.public_info and not iig_obs_type.perfect_recall):
            return TogyzqumalaqObserver(params)
        return IIGObserverForPublicInfoGame(iig_obs_type, params)


class TogyzqumalaqState(pyspiel.State):  # type: ignore[misc]
    """A state: a position, and the outcome once the game is over. As text it is the position string."""

    def __init__(self, game: TogyzqumalaqGame, position: Position) -> None:
        """Begin at ``position``; call ``game.new_initial_state()`` instead."""
        super().__init__(game)
        self._ruleset = game.ruleset
        self._position = position
        self._outcome = position.outcome(game.ruleset)

    @property
    def position(self) -> Position:
        """The position."""
        return self._position

    @property
    def outcome(self) -> Outcome | None:
        """How the game has ended, or None."""
        return self._outcome

    def current_player(self) -> int:
        """Return 0 (white) or 1 (black), or the mark of a finished game."""
        return int(pyspiel.PlayerId.TERMINAL) if self._outcome else self._position.to_move

    def is_terminal(self) -> bool:
        """Tell whether the game is over."""
        return self._outcome is not None

    def returns(self) -> list[float]:
        """Return what (white, black) have won: +1, -1, or 0 for a draw and before the end."""
        winner = self._outcome.winner if self._outcome else None
        return [0.0, 0.0] if winner is None else [1.0, -1.0] if winner == WHITE else [-1.0, 1.0]

    def _legal_actions(self, player: int) -> list[int]:
        return [hole - 1 for hole in self._position.legal_moves()]

    def _apply_action(self, action: int) -> None:
        self._position = self._position.play(action + 1)
        self._outcome = self._position.outcome(self._ruleset)

    def _action_to_string(self, player: int, action: int) -> str:
        hole = action + 1
        if player != self._position.to_move or hole not in self._position.legal_moves():
            return str(hole)
        return f"{hole}{self._position.sowing(hole).landing_hole}"

    def __str__(self) -> str:
        """Return the position string."""
        return self._position.fen()


class TogyzqumalaqObserver:
    """What a player sees, in OpenSpiel's own form.

    Attributes:
        tensor: ``float32[encoder's size + 1]``, from that player's side.
        dict: views of it: ``observation``, the encoded position, and ``to_move``, 1 if that player is to move.
    """

    def __init__(self, params: dict[str, Any] | None = None) -> None:
        """Make room for the tensor; ``params`` may hold ``observation``, "plain" by default."""
        params = dict(params or {})
        name = params.pop("observation", "plain")
        if params or name not in ENCODERS:
            wrong = f"parameter {next(iter(params))!r}" if params else f"observation {shown(name)}"
            raise ConfigError(f"observer: {wrong}; expected observation, one of {', '.join(map(repr, ENCODERS))}")
        self._encoder = ENCODERS[name]
        self.tensor = np.zeros(self._encoder.size + 1, np.float32)
        self.dict = {"observation": self.tensor[:-1], "to_move": self.tensor[-1:]}

    def set_from(self, state: TogyzqumalaqState, player: int) -> None:
        """Write what ``player`` sees of ``state``."""
        if player not in (WHITE, BLACK):
            raise ConfigError(f"observer: player {shown(player)}; expected 0 (white) or 1 (black)")
        row = state.position.state
        self.tensor[-1] = row[TO_MOVE] == player
        row[TO_MOVE] = player
        self._encoder.encode(row[None], self.tensor[None, :-1])

    def string_from(self, state: TogyzqumalaqState, player: int) -> str:
        """Return the position string: nothing is hidden."""
        return str(state)


pyspiel.register_game(_TYPE, TogyzqumalaqGame)
