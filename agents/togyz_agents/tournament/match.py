"""A match: pairs of games from the same openings with the colours swapped, many games at once.

Games advance in lockstep on state rows. A ``BatchAgent`` answers all its games in one call; any other agent gets one instance
for each game in progress, or, where there is only one instance, plays game after game.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from togyz_agents.agent import Agent, BatchAgent, agent_name, make_agent
from togyz_agents.tournament.bootstrap import pair_bootstrap
from togyz_agents.tournament.openings import LONGEST_OPENING, Opening, random_openings
from togyz_agents.tournament.rating import elo_from_score
from togyz_env.batch import end_reason_batch, play_batch
from togyz_env.errors import ConfigError, IllegalMoveError, TogyzError
from togyz_env.position import Outcome, Position, Ruleset, outcome_of
from togyz_env.rules import BLACK, HOLES, ONGOING, STATE_SIZE, TO_MOVE, WHITE

Player = str | Agent | BatchAgent | Callable[[], Agent] | Callable[[], BatchAgent]
"""A description for ``make_agent``, an agent, or a function without arguments that makes one."""

BATCH_GAMES = 256
INSTANCES = 16


@dataclass(frozen=True, slots=True)
class MatchGame:
    """One finished game.

    Attributes:
        pair: number of its pair, from 0.
        opening: the moves that were played for both.
        first_side: the side of the match's first player, 0 white, 1 black.
        moves: the holes that the players chose, after the opening's.
        outcome: winner (0 white, 1 black, None for a draw), reason and score; a game cut at the ply limit is a draw.
    """

    pair: int
    opening: Opening
    first_side: int
    moves: tuple[int, ...]
    outcome: Outcome

    @property
    def points(self) -> float:
        """Points of the match's first player: 1 for a win, 0.5 for a draw."""
        if self.outcome.winner is None:
            return 0.5
        return float(self.outcome.winner == self.first_side)


@dataclass(frozen=True)
class MatchResult:
    """All games of a match, from the first player's view; games 2k and 2k+1 are pair k.

    Attributes:
        first: name of the first player.
        second: name of the second player.
        games: the games; the first player is white in the even ones.
    """

    first: str
    second: str
    games: tuple[MatchGame, ...]

    @property
    def wins(self) -> int:
        """Games that the first player won."""
        return sum(game.points == 1.0 for game in self.games)

    @property
    def draws(self) -> int:
        """Games without a winner, those cut at the ply limit included."""
        return sum(game.points == 0.5 for game in self.games)

    @property
    def losses(self) -> int:
        """Games that the first player lost."""
        return sum(game.points == 0.0 for game in self.games)

    @property
    def score(self) -> float:
        """The first player's points divided by the games, 0 to 1."""
        return float(np.mean([game.points for game in self.games]))

    @property
    def elo(self) -> float:
        """The Elo difference that the score stands for; infinite for a clean sweep."""
        return elo_from_score(self.score)

    @property
    def pair_scores(self) -> np.ndarray:
        """``float64[pairs]``: the first player's mean score in each pair, one of 0, 0.25, 0.5, 0.75, 1."""
        return np.array([(white.points + black.points) / 2 for white, black in zip(self.games[::2], self.games[1::2])])

    @property
    def distinct_games(self) -> int:
        """How many games differ in start or moves; deterministic players repeat themselves, and a repeated game proves nothing."""
        return len({(game.opening.start, game.opening.moves + game.moves) for game in self.games})

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the bootstrap interval of the score over pairs."""
        return pair_bootstrap(self.pair_scores, confidence)

    def colour_score(self, side: int) -> float:
        """Return the first player's score in the games where he is white (0) or black (1)."""
        return float(np.mean([game.points for game in self.games if game.first_side == side]))


def play_match(
    first: Player,
    second: Player,
    pairs: int,
    seed: int = 0,
    *,
    opening_plies: tuple[int, int] = (4, LONGEST_OPENING),
    openings: Sequence[Opening] | None = None,
    ruleset: Ruleset = Ruleset(),  # noqa: B008 - a frozen value
    games_at_once: int | None = None,
    on_game: Callable[[MatchGame], None] | None = None,
) -> MatchResult:
    """Play ``2 * pairs`` games and return them; the same ones for the same seed and deterministic players.

    Args:
        first: a description, an agent or a factory; agents that the match makes it also closes.
        second: likewise.
        pairs: openings to play, each twice, with the colours swapped.
        seed: of the random openings and of each game's ``new_game``.
        opening_plies: fewest and most plies of the random openings.
        openings: play these instead of random ones; ``pairs`` of them.
        ruleset: when a game ends; at its ply limit a game is a draw. Players that are described here assume it.
        games_at_once: most games in progress; 256 between batch agents by default, 16 where the other player needs an instance for
            each. Without a ``BatchAgent``, or with only one instance of another agent, it is always one.
        on_game: called with each game when it ends, in order of ending.

    Raises:
        ConfigError: a wrong description, or too few different openings.
        IllegalMoveError: an agent chose a hole that it may not play; the message names it.
    """
    if pairs < 1 or (games_at_once is not None and games_at_once < 1):
        raise ConfigError(f"match: {pairs} pairs, {games_at_once} games at once; expected at least 1 of each")
    if openings is None:
        openings = random_openings(pairs, seed, opening_plies, ruleset)
    elif len(openings) < pairs:
        raise ConfigError(f"match: {len(openings)} openings for {pairs} pairs; each pair needs one")
    seeds = np.random.SeedSequence(seed, spawn_key=(1,)).generate_state(4 * pairs).reshape(2 * pairs, 2)
    tasks = [
        _Game(pair, openings[pair], side, (int(seeds[2 * pair + side, 0]), int(seeds[2 * pair + side, 1])))
        for pair in range(pairs)
        for side in (WHITE, BLACK)
    ]
    seats: list[_Seat] = []
    try:
        seats.append(_Seat(first, ruleset))
        seats.append(_Seat(second, ruleset))
        if not any(seat.is_batch for seat in seats) or any(seat.is_single for seat in seats):
            games_at_once = 1
        elif games_at_once is None:
            games_at_once = BATCH_GAMES if all(seat.is_batch for seat in seats) else INSTANCES
        for seat, seat_seed in zip(seats, seeds[0]):
            seat.begin(int(seat_seed), games_at_once)
        _play_all(tasks, seats, ruleset, games_at_once, on_game)
    finally:
        for seat in seats:
            seat.close()
    return MatchResult(seats[0].name, seats[1].name, tuple(game.record() for game in tasks))


@dataclass(slots=True)
class _Game:
    """A game to play, in progress or finished."""

    pair: int
    opening: Opening
    first_side: int
    seeds: tuple[int, int]
    moves: list[int] = field(default_factory=list)
    history: list[Position] = field(default_factory=list)
    outcome: Outcome | None = None

    def record(self) -> MatchGame:
        if self.outcome is None:
            raise RuntimeError("a game of the match was not finished")
        return MatchGame(self.pair, self.opening, self.first_side, tuple(self.moves), self.outcome)

    def position(self) -> Position:
        """Return the current position; ``history`` then holds all before it."""
        while len(self.history) <= len(self.opening.moves) + len(self.moves):
            if not self.history:
                self.history = self.opening.positions()
            else:
                self.history.append(self.history[-1].play(self.moves[len(self.history) - len(self.opening.moves) - 1]))
        return self.history[-1]


class _Seat:
    """One side of the match: a batch agent for all games, or an agent for each slot of games in progress."""

    def __init__(self, player: Player, ruleset: Ruleset) -> None:
        self._made: list[Agent | BatchAgent] = []
        self._make: Callable[[], Agent | BatchAgent] | None = None
        self._slots: dict[int, Agent] = {}
        # A class has the methods of its agents, too, but is a factory.
        if not isinstance(player, (str, type)) and isinstance(player, (Agent, BatchAgent)):
            agent: Agent | BatchAgent = player
        else:
            if not isinstance(player, str) and not callable(player):
                raise ConfigError(f"match: {player!r} is no agent, no agent's description and no function that makes one")
            self._make = partial(make_agent, player, ruleset) if isinstance(player, str) else player
            agent = self._make()
            if not isinstance(agent, (Agent, BatchAgent)):
                raise ConfigError(f"match: {player!r} made {agent!r}, which is no agent")
            self._made.append(agent)
        self.name = player if isinstance(player, str) else agent_name(agent)
        self.agent = agent
        self.is_batch = isinstance(agent, BatchAgent)
        self.is_single = not self.is_batch and self._make is None
        self._together = False

    def begin(self, seed: int, games_at_once: int) -> None:
        # A single game is better left to ``select``, which knows the history and can keep its tree.
        self._together = self.is_batch and (games_at_once > 1 or not isinstance(self.agent, Agent))
        if self._together:
            self.agent.new_game(seed)
        elif isinstance(self.agent, Agent):
            self._slots[0] = self.agent

    def new_game(self, slot: int, seed: int) -> None:
        if self._together:
            return
        if slot not in self._slots:
            if self._make is None:
                raise RuntimeError("one instance cannot play two games at once")
            agent = self._make()
            self._made.append(agent)
            if not isinstance(agent, Agent):
                raise ConfigError(f"match: the maker of {self.name!r} made {agent!r}, which plays no single games")
            self._slots[slot] = agent
        self._slots[slot].new_game(seed)

    def choose(self, slots: np.ndarray, states: np.ndarray, plies: np.ndarray, games: Sequence[_Game]) -> np.ndarray:
        """Return ``int64[B]`` legal holes for ``states uint8[B, 23]`` of the games in ``slots int64[B]``."""
        if self._together and isinstance(self.agent, BatchAgent):
            holes = np.asarray(self.agent.select_batch(states.copy(), plies))
            if holes.shape != (len(states),) or holes.dtype.kind not in "iu":
                raise TogyzError(
                    f"agent {self.name!r}: select_batch gave {holes.dtype}{holes.shape}, not {len(states)} whole numbers"
                )
        else:
            chosen = []
            for slot, game in zip(slots, games):
                position = game.position()
                answer = self._slots[int(slot)].select(position, tuple(game.history[:-1]), None)
                try:
                    chosen.append(operator.index(answer))
                except TypeError:
                    raise TogyzError(f"agent {self.name!r}: answered {answer!r} in {position.fen()!r}, not a hole 1..9") from None
            holes = np.array(chosen)
        own = states[:, TO_MOVE].astype(np.int64) * HOLES
        in_row = (holes >= 1) & (holes <= HOLES)
        legal = in_row & (states[np.arange(len(states)), own + np.where(in_row, holes, 1) - 1] > 0)
        if not legal.all():
            wrong = int(np.argmin(legal))
            position = Position.from_state(states[wrong], int(plies[wrong]))
            raise IllegalMoveError(
                f"agent {self.name!r}: hole {holes[wrong]} in {position.fen()!r}; legal moves: {position.legal_moves()}"
            )
        return holes.astype(np.int64)

    def close(self) -> None:
        for agent in self._made:
            agent.close()


def _play_all(
    tasks: Sequence[_Game],
    seats: Sequence[_Seat],
    ruleset: Ruleset,
    games_at_once: int,
    on_game: Callable[[MatchGame], None] | None,
) -> None:
    """Play all ``tasks``, in order of start; a finished game's slot goes to the next one."""
    waiting: Iterator[_Game] = iter(tasks)
    count = min(games_at_once, len(tasks))
    games: list[_Game | None] = [None] * count
    states = np.zeros((count, STATE_SIZE), np.uint8)
    plies = np.zeros(count, np.int32)
    first_sides = np.zeros(count, np.uint8)

    def start(slot: int) -> None:
        game = games[slot] = next(waiting, None)
        if game is not None:
            position = game.opening.position
            states[slot], plies[slot], first_sides[slot] = position.state, position.ply, game.first_side
            for seat, seed in zip(seats, game.seeds):
                seat.new_game(slot, seed)

    for slot in range(count):
        start(slot)
    while True:
        over = (end_reason_batch(states, ruleset.playout) != ONGOING) | (plies >= ruleset.max_plies)
        for slot in map(int, np.flatnonzero(over)):
            # A given opening may be over itself: go on until the slot has a game to play.
            while (game := games[slot]) is not None:
                game.outcome = outcome_of(states[slot], int(plies[slot]), ruleset)
                if game.outcome is None:
                    break
                if on_game is not None:
                    on_game(game.record())
                start(slot)
        active = np.flatnonzero([game is not None for game in games])
        if len(active) == 0:
            return
        firsts_turn = states[active, TO_MOVE] == first_sides[active]
        for seat, slots in zip(seats, (active[firsts_turn], active[~firsts_turn])):
            if len(slots) == 0:
                continue
            turn = [game for slot in slots if (game := games[slot]) is not None]
            rows = states[slots]
            holes = seat.choose(slots, rows, plies[slots], turn)
            play_batch(rows, holes - 1)
            states[slots] = rows
            plies[slots] += 1
            for game, hole in zip(turn, holes):
                game.moves.append(int(hole))
