"""Self-play with continuous batching: each slot of a worker runs its own game and its own search.

A step gives one leaf for each slot, so the network's batch is always full, and a finished game is replaced at once. Everything that
happens between two calls of the network is one compiled kernel that releases the GIL; workers are threads.

At the end of a chunk of samples the searches in progress are dropped (their values come from the old weights) and only the games
stay: ``WorkerState`` is all that a resumed run needs to go on exactly as an uninterrupted one.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from togyz_agents.search import cache as cache_
from togyz_agents.search.batched import Evaluator, absorb, next_leaf, unusable
from togyz_agents.search.cache import Cache, new_cache
from togyz_agents.search.params import SearchParams
from togyz_agents.search.puct import (
    NO_LEAF,
    is_known,
    move_to_play,
    prepare_root,
    root_policy,
    root_value,
)
from togyz_agents.search.tree import (
    PRIOR,
    ROOT,
    STATUS,
    VISITS,
    WIN,
    Tree,
    expand,
    keep_subtree,
    new_tree,
    plant,
    proof_of,
    state_of,
)
from togyz_agents.search.tree import backup as backup_
from togyz_agents.training.config import Config
from togyz_agents.training.samples import POLICY_SCALE, SAMPLE, SURPRISE_SCALE, VALUE_SCALE, sound_states
from togyz_env.batch import random_action
from togyz_env.errors import CheckpointError
from togyz_env.rng import below, new_streams, uniform
from togyz_env.rules import BLACK, HOLES, ONGOING, STATE_SIZE, TO_MOVE, end_reason, final_margin, kernel, play

# Counters of a worker, ``int64[len(COUNTERS)]``.
COUNTERS = ("games", "plies", "white wins", "draws", "black wins", "ply limits", "simulations", "evaluations", "searches", "proven")
GAMES, PLIES, WHITE_WINS, DRAWS, BLACK_WINS, PLY_LIMITS, SIMULATIONS, EVALUATIONS, SEARCHES, PROVEN = range(len(COUNTERS))


# FNV-1a, 64 bits (G. Fowler, L. C. Noll, K.-P. Vo)
_FNV_OFFSET = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)


class PlayParams(NamedTuple):
    """Scalars of self-play, as the kernel takes them (``SelfPlayConfig`` describes each)."""

    simulations: int
    fast_simulations: int
    full_share: float
    temperature: float
    temperature_plies: int
    late_sampling: float
    opening_plies: int
    tree_reuse: bool


class Games(NamedTuple):
    """The games in progress of ``G`` slots.

    Attributes:
        state: ``uint8[G, 23]``, the position to search next.
        ply: ``int32[G]``, plies played.
        recorded: ``int32[G]``, samples of the game so far.
        sample: ``SAMPLE[G, max_plies]``, the first ``recorded`` of each row are in use.
        full: ``uint8[G]``, whether the search in progress is a full one.
        prior: ``float32[G, 9]``, the network's policy at the root, before temperature and noise.
        visits_before: ``int32[G]``, root visits that the search in progress inherited.
        stream: ``uint64[G]``, the random stream of each slot.
    """

    state: np.ndarray
    ply: np.ndarray
    recorded: np.ndarray
    sample: np.ndarray
    full: np.ndarray
    prior: np.ndarray
    visits_before: np.ndarray
    stream: np.ndarray


@kernel
def new_game(games: Games, g: int, play_params: PlayParams, playout: bool) -> None:
    """Put a fresh game into slot ``g``: the start position and 0 to ``opening_plies`` random plies."""
    state = games.state[g]
    while True:
        state[:18] = 9
        state[18:] = 0
        plies = below(games.stream, g, play_params.opening_plies + 1)
        games.ply[g] = plies
        for _ in range(plies):
            if end_reason(state, playout) == ONGOING:
                play(state, random_action(state, games.stream, g))
        if end_reason(state, playout) == ONGOING:
            break
    games.recorded[g] = 0


@kernel
def open_root(ints: np.ndarray, floats: np.ndarray, games: Games, g: int, params: SearchParams) -> None:
    """Note the network's policy at the expanded root of slot ``g``, then let a full search explore there."""
    for action in range(HOLES):
        games.prior[g, action] = floats[ROOT, PRIOR + action]
    prepare_root(ints, floats, params, games.stream, g, games.full[g] == 1)


@kernel
def surprise(policy: np.ndarray, prior: np.ndarray) -> int:
    """Divergence of ``policy`` from ``prior`` (both ``float32[9]``) as a sample stores it."""
    nats = 0.0
    for action in range(HOLES):
        if policy[action] > 0.0:
            nats += policy[action] * math.log(policy[action] / max(np.float64(prior[action]), 1e-9))
    return int(min(255.0, max(0.0, nats * SURPRISE_SCALE)))


@kernel
def begin_search(
    ints: np.ndarray,
    floats: np.ndarray,
    bytes_: np.ndarray,
    games: Games,
    g: int,
    params: SearchParams,
    play_params: PlayParams,
    kept: bool,
) -> None:
    """Start the search of slot ``g``'s position, full or fast by lot; ``kept``: its tree is there already."""
    games.full[g] = uniform(games.stream, g) < play_params.full_share
    if kept:
        games.visits_before[g] = ints[ROOT, VISITS]
        open_root(ints, floats, games, g, params)
    else:
        games.visits_before[g] = 0
        plant(ints, floats, bytes_, games.state[g], games.ply[g], params.playout, params.max_plies)


@kernel
def choose(games: Games, g: int, policy: np.ndarray, best: int, play_params: PlayParams) -> int:
    """Action to play: drawn from ``policy float32[9]`` in the opening and now and then later, else ``best``."""
    late = games.ply[g] >= play_params.temperature_plies
    if late and uniform(games.stream, g) >= play_params.late_sampling:
        return best
    total = 0.0
    for action in range(HOLES):
        if policy[action] > 0.0:
            total += np.float64(policy[action]) ** (1.0 / play_params.temperature)
    draw = uniform(games.stream, g) * total
    for action in range(HOLES):
        if policy[action] > 0.0:
            draw -= np.float64(policy[action]) ** (1.0 / play_params.temperature)
            if draw < 0.0:
                return action
    return best


@kernel
def finish_search(
    ints: np.ndarray, floats: np.ndarray, games: Games, g: int, params: SearchParams, play_params: PlayParams, counters: np.ndarray
) -> int:
    """Record the sample of slot ``g``'s finished search and return the action to play."""
    full = games.full[g] == 1
    policy = np.empty(HOLES, np.float32)
    root_policy(ints, floats, params, full, policy)
    best = move_to_play(ints, floats, params)
    action = choose(games, g, policy, best, play_params)
    status = ints[ROOT, STATUS]
    proven = is_known(status, params.solver)
    sample = games.sample[g, games.recorded[g]]
    for i in range(STATE_SIZE):
        sample.state[i] = games.state[g, i]
    # a search that a proof cut short says little about the moves, unless it found the win
    sample.full = full and (not proven or proof_of(status) == WIN)
    for a in range(HOLES):
        sample.policy[a] = round(policy[a] * POLICY_SCALE)
    sample.value = round(root_value(ints, floats, params) * VALUE_SCALE)
    sample.action = action
    sample.surprise = surprise(policy, games.prior[g])
    sample.margin = 0  # until the game ends
    sample.outcome = 0
    games.recorded[g] += 1
    counters[SEARCHES] += 1
    counters[PROVEN] += proven
    counters[SIMULATIONS] += ints[ROOT, VISITS] - max(games.visits_before[g], 1)
    return action


@kernel
def emit(games: Games, g: int, margin: int, cut: bool, out: np.ndarray, filled: int, keys: np.ndarray, counters: np.ndarray) -> int:
    """Append slot ``g``'s finished game to ``out SAMPLE[C]`` behind ``filled`` rows; return the new number of rows.

    ``keys uint64[K]`` gets a hash of the game's positions and moves at place ``counters[GAMES] % K``.
    """
    key = _FNV_OFFSET
    winner_margin = 0 if cut else margin
    for i in range(games.recorded[g]):
        sample = games.sample[g, i]
        sign = -1 if sample.state[TO_MOVE] == BLACK else 1
        sample.margin = sign * margin
        sample.outcome = sign * ((winner_margin > 0) - (winner_margin < 0))
        out[filled + i] = sample
        for j in range(STATE_SIZE):
            key = (key ^ np.uint64(sample.state[j])) * _FNV_PRIME
        key = (key ^ np.uint64(sample.action)) * _FNV_PRIME
    keys[counters[GAMES] % len(keys)] = key
    counters[GAMES] += 1
    counters[PLIES] += games.ply[g]
    counters[WHITE_WINS] += winner_margin > 0
    counters[BLACK_WINS] += winner_margin < 0
    counters[DRAWS] += winner_margin == 0
    counters[PLY_LIMITS] += cut
    return filled + int(games.recorded[g])


@kernel
def advance(
    tree: Tree,
    games: Games,
    params: SearchParams,
    play_params: PlayParams,
    cache: Cache,
    remap: np.ndarray,
    evaluated: int,
    logits: np.ndarray,
    values: np.ndarray,
    leaf_slot: np.ndarray,
    leaf_node: np.ndarray,
    leaf_state: np.ndarray,
    out: np.ndarray,
    keys: np.ndarray,
    counters: np.ndarray,
) -> tuple[int, int, int]:
    """Run every slot on until it needs the network: its leaf is settled, searches end, moves are played, games end and begin.

    One pass does all for a slot, while its nodes are in the processor's cache.

    Args:
        evaluated: leaves of the last call, in the first rows of ``leaf_slot`` and ``leaf_node``, which ``logits`` and ``values``
            belong to; the new leaves overwrite them.

    Returns:
        ``(leaves gathered, rows of out filled, -1)``, or as the third the first row of an evaluation that no search can use. A slot
        whose finished game finds no room in ``out`` waits for the next call.
    """
    leaves = 0
    filled = 0
    row = 0
    policy = np.empty(HOLES, np.float32)
    for g in range(games.ply.shape[0]):
        ints = tree.ints[g]
        floats = tree.floats[g]
        bytes_ = tree.bytes[g]
        if row < evaluated and leaf_slot[row] == g:
            node = leaf_node[row]
            if not absorb(ints, floats, bytes_, node, logits[row], values[row], params, cache, policy):
                return leaves, filled, row
            if node == ROOT:
                open_root(ints, floats, games, g, params)
            row += 1
        while True:
            full = games.full[g] == 1
            budget = play_params.simulations if full else play_params.fast_simulations
            node = next_leaf(ints, floats, bytes_, budget, params, full, cache)
            if node == ROOT:
                place = cache_.find(cache, ints, ROOT)
                if place >= 0:
                    expand(ints, floats, bytes_, ROOT, cache_.policy_at(cache, place))
                    backup_(ints, floats, ROOT, cache_.value_at(cache, place), params.solver)
                    open_root(ints, floats, games, g, params)
                    continue
            if node != NO_LEAF:
                leaf_slot[leaves] = g
                leaf_node[leaves] = node
                leaf_state[leaves] = state_of(bytes_, node)
                leaves += 1
                break
            if filled + games.recorded[g] + 1 > out.shape[0]:
                break
            action = finish_search(ints, floats, games, g, params, play_params, counters)
            state = games.state[g]
            play(state, action)
            games.ply[g] += 1
            reason = end_reason(state, params.playout)
            kept = False
            if reason != ONGOING or games.ply[g] >= params.max_plies:
                margin = final_margin(state, reason)
                filled = emit(games, g, margin, reason == ONGOING, out, filled, keys, counters)
                new_game(games, g, play_params, params.playout)
            elif play_params.tree_reuse:
                kept = keep_subtree(ints, action, remap)
            begin_search(ints, floats, bytes_, games, g, params, play_params, kept)
    counters[EVALUATIONS] += leaves
    return leaves, filled, -1


@kernel
def begin_all(tree: Tree, games: Games, params: SearchParams, play_params: PlayParams) -> None:
    """Start the search of every slot from its position, with empty trees."""
    for g in range(games.ply.shape[0]):
        begin_search(tree.ints[g], tree.floats[g], tree.bytes[g], games, g, params, play_params, False)


@dataclass(frozen=True)
class WorkerState:
    """A worker between two chunks, in plain arrays: what ``Games`` describes, with the samples of all games in one row.

    Attributes:
        state: ``uint8[G, 23]``. ply, count (``Games.recorded``): ``int32[G]``. stream: ``uint64[G]``.
        samples: ``SAMPLE[sum(count)]``, slot after slot.
    """

    state: np.ndarray
    ply: np.ndarray
    count: np.ndarray
    stream: np.ndarray
    samples: np.ndarray

    def arrays(self) -> dict[str, np.ndarray]:
        """The fields by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass(frozen=True)
class Chunk:
    """What a worker delivers: whole games.

    Attributes:
        samples: ``SAMPLE[N]``, in order.
        keys: ``uint64[games]``, a hash of the positions and moves of each game.
        counters: since the last chunk.
    """

    samples: np.ndarray
    keys: np.ndarray
    counters: dict[str, int]


def _nothing(states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The evaluation of no leaves."""
    return np.empty((0, HOLES), np.float32), np.empty(0, np.float32)


class Stopped(Exception):
    """Self-play was told to stop in mid-chunk."""


class SelfPlayWorker:
    """Plays the games of one thread. Memory: 256 bytes a node, ``simulations + 4`` nodes and ``max_plies`` samples a slot.

    Args:
        config: of the run.
        evaluator: its own; workers share nothing.
        seed: of this worker's random streams, one for each slot.
        state: go on from here instead of from new games.

    Attributes:
        evaluator: of positions; can be replaced between two chunks.
        batches: steps so far: a sign of life.
    """

    def __init__(
        self, config: Config, evaluator: Evaluator, seed: np.random.SeedSequence, state: WorkerState | None = None
    ) -> None:
        """Set up the trees, the games and the cache."""
        play_ = config.selfplay
        slots = play_.slots
        self.evaluator = evaluator
        self._cache = new_cache(play_.cache_places)
        self._tree = new_tree(slots, 1)
        self.configure(config)
        self._counters = np.zeros(len(COUNTERS), np.int64)
        self._stopped = False
        self.batches = 0
        self._leaf_slot = np.empty(slots, np.int64)
        self._leaf_node = np.empty(slots, np.int64)
        self._leaf_state = np.empty((slots, STATE_SIZE), np.uint8)
        self._out = np.zeros(max(65536, 2 * config.rules.max_plies), SAMPLE)
        self._keys = np.zeros(len(self._out), np.uint64)  # every game has a sample
        self._games = Games(
            state=np.zeros((slots, STATE_SIZE), np.uint8),
            ply=np.zeros(slots, np.int32),
            recorded=np.zeros(slots, np.int32),
            sample=np.zeros((slots, config.rules.max_plies), SAMPLE),
            full=np.zeros(slots, np.uint8),
            prior=np.zeros((slots, HOLES), np.float32),
            visits_before=np.zeros(slots, np.int32),
            stream=new_streams(seed, slots),
        )
        if state is None:
            for g in range(slots):
                new_game(self._games, g, self._play, self._params.playout)
        else:
            self._restore(state)

    def configure(self, config: Config) -> None:
        """Take over the settings of a stage; call it between two chunks."""
        play_ = config.selfplay
        self._params = config.search.params(config.rules)
        self._play = PlayParams(
            play_.simulations,
            play_.fast_simulations,
            float(play_.full_share),
            float(play_.temperature),
            play_.temperature_plies,
            float(play_.late_sampling),
            play_.opening_plies,
            play_.tree_reuse,
        )
        nodes = max(play_.simulations, play_.fast_simulations) + 4
        if nodes > self._tree.ints.shape[1]:
            self._tree = new_tree(play_.slots, nodes)
            self._remap = np.zeros(nodes, np.int32)

    def run(self, samples: int) -> Chunk:
        """Play until at least ``samples`` samples of finished games are there; the searches start afresh each time.

        Raises:
            TogyzError: the evaluator returns NaN, an infinity or no legal move.
            Stopped: after ``stop``.
        """
        self.begin()
        delivered: list[np.ndarray] = []
        keys: list[np.ndarray] = []
        missing = samples
        while missing > 0:
            games = int(self._counters[GAMES])
            missing -= self._step(delivered)
            keys.append(self._keys[np.arange(games, self._counters[GAMES]) % len(self._keys)])
            if self._stopped:
                raise Stopped
        return Chunk(np.concatenate(delivered), np.concatenate(keys), dict(zip(COUNTERS, self._counters.tolist())))

    def begin(self) -> None:
        """Drop the searches in progress and what the cache remembers, and search every game's position afresh."""
        self._counters[:] = 0
        self._cache.key[:] = 0
        self._logits, self._values = _nothing(self._leaf_state[:0])
        begin_all(self._tree, self._games, self._params, self._play)

    def play_for(self, seconds: float) -> int:
        """Go on after ``begin`` for so long, to measure speed; games that end leave no samples.

        Returns:
            Simulations done in that time, those of searches in progress included.
        """
        before = self._simulations()
        end = time.perf_counter() + seconds
        while True:
            self._step([])
            if time.perf_counter() >= end:
                return self._simulations() - before

    def _simulations(self) -> int:
        """Simulations since ``begin``, those of searches in progress included."""
        in_progress = self._tree.ints[:, ROOT, VISITS] - np.maximum(self._games.visits_before, 1)
        return int(self._counters[SIMULATIONS] + np.maximum(in_progress, 0).sum())

    def _step(self, delivered: list[np.ndarray]) -> int:
        """One batch; append the samples of games that ended to ``delivered`` and return how many."""
        leaves, filled, bad = advance(
            self._tree,
            self._games,
            self._params,
            self._play,
            self._cache,
            self._remap,
            len(self._values),
            self._logits,
            self._values,
            self._leaf_slot,
            self._leaf_node,
            self._leaf_state,
            self._out,
            self._keys,
            self._counters,
        )
        if bad >= 0:
            raise unusable(state_of(self._tree.bytes[self._leaf_slot[bad]], self._leaf_node[bad]))
        evaluate = self.evaluator if leaves else _nothing
        self._logits, self._values = evaluate(self._leaf_state[:leaves])
        self.batches += 1  # behind the network's first call, which may compile
        if filled:
            delivered.append(self._out[:filled].copy())
        return int(filled)

    def stop(self) -> None:
        """Make ``run``, going on or about to begin in another thread, raise ``Stopped`` after one batch; the worker is done for."""
        self._stopped = True

    def snapshot(self) -> WorkerState:
        """The games in progress, copied; call it between two chunks."""
        games = self._games
        rows = [games.sample[g, :n] for g, n in enumerate(games.recorded)]
        return WorkerState(games.state.copy(), games.ply.copy(), games.recorded.copy(), games.stream.copy(), np.concatenate(rows))

    def _restore(self, state: WorkerState) -> None:
        games = self._games
        if len(state.ply) != len(games.ply):
            raise CheckpointError(f"self-play: {len(state.ply)} games in progress do not fit into {len(games.ply)} slots")
        _check_games(state, games.sample.shape[1])
        games.state[:] = state.state
        games.ply[:] = state.ply
        games.recorded[:] = state.count
        games.stream[:] = state.stream
        for g, rows in enumerate(np.split(state.samples, np.cumsum(state.count)[:-1])):
            games.sample[g, : len(rows)] = rows


def _check_games(state: WorkerState, max_plies: int) -> None:
    """Refuse games that cannot be: compiled kernels do not check their indices."""
    sound = (
        all(len(array) == len(state.ply) for array in (state.state, state.count, state.stream))
        and (state.count >= 0).all()
        and (state.count <= state.ply).all()
        and (state.ply < max_plies).all()
        and state.count.sum(dtype=np.int64) == len(state.samples)
        and sound_states(state.state).all()
        and sound_states(state.samples["state"]).all()
    )
    if not sound:
        raise CheckpointError(f"self-play: the saved games cannot be games of at most {max_plies} plies (rules.max_plies)")
