"""The folder of a tournament: what is played (tournament.json) and every finished game, one a line (games.jsonl).

A game is on disk as soon as it is known here, so that whatever stops the tournament costs the games in progress and no others. A
line that was torn by a full disk is cut off; that game is played again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from togyz_agents.files import lock, replace_file
from togyz_agents.tournament.record import GameRecord, Key
from togyz_env.errors import ConfigError
from togyz_env.notation import shown

FORMAT = "togyz-tournament-1"
IDENTITY_FILE = "tournament.json"
GAMES_FILE = "games.jsonl"


class Store:
    """The games of one tournament; ``games`` by identity.

    Args:
        folder: made if it is missing.
        identity: of the plan; what is there must agree with it, but new players may join.

    Raises:
        ConfigError: the folder belongs to another tournament, is foreign or damaged, or another process is playing in it.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        """Open the folder and read the games."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / GAMES_FILE
        described = folder / IDENTITY_FILE
        identity = json.loads(json.dumps(identity))
        if described.exists():
            players = _agree(folder, _read_identity(described), identity)
            identity = dict(identity) | {"players": players}
        elif self.path.exists():
            raise ConfigError(f"tournament: {str(folder)!r} has games but no {IDENTITY_FILE}; choose another folder")
        self._file = open(self.path, "ab")  # noqa: SIM115 - closed by close
        try:
            if not lock(self._file.fileno(), folder):
                raise ConfigError(
                    f"tournament: another process is playing in {str(folder)!r}; wait for it or choose another folder"
                )
            replace_file(described, json.dumps({"format": FORMAT, **identity}, indent=1).encode() + b"\n")
            self.games, whole = _read_games(self.path)
            if whole < self.path.stat().st_size:  # the last line was torn
                self._file.truncate(whole)
        except BaseException:
            self._file.close()
            raise

    def add(self, record: GameRecord) -> None:
        """Write a finished game to disk."""
        if record.key in self.games:
            raise RuntimeError(f"a game was played twice: {record.key}")
        self._file.write(json.dumps(record.to_dict(), separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.games[record.key] = record

    def close(self) -> None:
        """Let others play in the folder."""
        self._file.close()


def stored_games(folder: Path, identity: Mapping[str, Any]) -> dict[Key, GameRecord]:
    """Read the games of ``folder``, while another process may be playing in it; ConfigError as for ``Store``."""
    _agree(folder, _read_identity(folder / IDENTITY_FILE), json.loads(json.dumps(identity)))
    return _read_games(folder / GAMES_FILE)[0]


def _read_games(path: Path) -> tuple[dict[Key, GameRecord], int]:
    """The games in a file, and the bytes of its whole lines."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    games: dict[Key, GameRecord] = {}
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            record = GameRecord.from_dict(json.loads(line))
        except (KeyError, TypeError, ValueError):
            raise ConfigError(
                f"tournament: {str(path)!r}, line {number}: no game; remove the line to play that game again"
            ) from None
        if record.key in games:
            raise ConfigError(f"tournament: {str(path)!r}, line {number}: a game that an earlier line holds; remove one")
        games[record.key] = record
    return games, whole


def _read_identity(path: Path) -> dict[str, Any]:
    try:
        data: Any = json.loads(path.read_bytes())
        if data.pop("format") != FORMAT or not isinstance(data["players"], dict):
            raise ValueError
        identity: dict[str, Any] = data
        return identity
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"tournament: {str(path)!r} is not of this program ({FORMAT}); choose another folder") from None


def _agree(folder: Path, old: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the players of both; ConfigError where the tournament in the folder was another one."""
    advice = "choose another folder (--out), or go back to what it was"
    for key in new:
        if key != "players" and old.get(key) != new[key]:
            raise ConfigError(
                f"tournament: {str(folder)!r} was played with {key} {shown(old.get(key))}, not {shown(new[key])}; {advice}"
            )
    for name, player in new["players"].items():
        before = old["players"].get(name, player)
        if before != player:
            what = f"as {before.get('agent')!r}"
            if before.get("agent") == player["agent"]:
                what = f"with other contents of {', '.join({**before['files'], **player['files']})}"
            raise ConfigError(f"tournament: player {name!r} has played in {str(folder)!r} {what}; {advice}, or rename the player")
    joined: dict[str, Any] = old["players"] | new["players"]
    return joined
