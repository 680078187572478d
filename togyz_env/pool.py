"""A pool of opponents, one of them drawn for each episode: past selves, checkpoints, fixed yardsticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from togyz_env.errors import ConfigError
from togyz_env.notation import shown
from togyz_env.opponents import check_opponent, name_of


@dataclass(frozen=True)
class Member:
    """One opponent of a pool.

    Attributes:
        key: a number that no other member of the pool has or has had.
        opponent: what ``opponent=`` takes: a name or description, a checkpoint, an agent or a function.
        name: shown in ``info["opponent"]`` and in errors.
        weight: how often it is drawn, in proportion to the others.
        keep: whether it stays when the pool is full.
    """

    key: int
    opponent: object
    name: str
    weight: float
    keep: bool


class OpponentPool:
    """Opponents of which an environment draws one for each episode, from the seed of that episode.

    ``opponent=pool`` in ``gymnasium.make`` or ``make_vec``; members added later play from the next episodes on. Environments in
    other processes hold copies of the pool, which do not see what is added here.

    Args:
        opponents: first members, each with weight 1.
        max_size: with so many members, each further one drops the oldest that is not to be kept; None for no limit.

    Raises:
        ConfigError: a member that no environment could play against, or an impossible limit.
    """

    def __init__(self, opponents: Iterable[object] = (), *, max_size: int | None = None) -> None:
        """Make a pool of ``opponents``."""
        if max_size is not None and (isinstance(max_size, bool) or not isinstance(max_size, int) or max_size < 1):
            raise ConfigError(f"max_size of a pool: {shown(max_size)}; expected a whole number from 1, or None")
        self.max_size = max_size
        self._members: list[Member] = []
        self._keys = 0
        for opponent in opponents:
            self.add(opponent)

    def add(self, opponent: object, weight: float = 1.0, *, name: str | None = None, keep: bool = False) -> None:
        """Add a member; in a full pool the oldest one that is not to be kept makes room.

        Args:
            opponent: what ``opponent=`` takes, but no pool.
            weight: how often it is drawn, in proportion to the others; above 0.
            name: for ``info`` and errors; taken from the opponent if left out, and made different from all others.
            keep: never drop it.

        Raises:
            ConfigError: an impossible opponent or weight, a name that is taken, or a pool full of members to keep.
        """
        if isinstance(opponent, OpponentPool):
            raise ConfigError("opponent: a pool in a pool; add its members instead")
        check_opponent(opponent)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < float("inf"):
            raise ConfigError(f"weight of an opponent: {shown(weight)}; expected a number above 0")
        taken = {member.name for member in self._members}
        if name is None:
            plain = name_of(opponent)
            name = next(free for n in count(1) if (free := plain if n == 1 else f"{plain} ({n})") not in taken)
        elif name in taken:
            raise ConfigError(f"name of an opponent: {name!r} is in the pool already")
        if self.max_size is not None and len(self._members) >= self.max_size:
            droppable = [member for member in self._members if not member.keep]
            if not droppable:
                raise ConfigError(f"pool: all {self.max_size} members are to be kept; {name!r} finds no room")
            self._members.remove(droppable[0])
        self._members.append(Member(self._keys, opponent, name, float(weight), keep))
        self._keys += 1

    def remove(self, name: str) -> None:
        """Drop the member called ``name``; episodes against it are played to their end.

        Raises:
            ConfigError: there is none.
        """
        for member in self._members:
            if member.name == name:
                self._members.remove(member)
                return
        raise ConfigError(f"pool: no member {shown(name)}; members: {', '.join(map(repr, self.names)) or 'none'}")

    @property
    def members(self) -> tuple[Member, ...]:
        """The members, oldest first."""
        return tuple(self._members)

    @property
    def names(self) -> list[str]:
        """The members' names, oldest first."""
        return [member.name for member in self._members]

    def pick(self, number: float) -> Member:
        """Return the member that ``number`` from [0, 1) falls on, each with a share of the interval as large as its weight.

        Raises:
            ConfigError: the pool is empty.
        """
        if not self._members:
            raise ConfigError("opponent: the pool is empty; add() an opponent before reset()")
        rest = number * sum(member.weight for member in self._members)
        for member in self._members:
            rest -= member.weight
            if rest < 0:
                return member
        return self._members[-1]

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self._members)

    def __repr__(self) -> str:
        """Show the names."""
        return f"OpponentPool({self.names})"
