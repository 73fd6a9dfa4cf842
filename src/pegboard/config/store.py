"""The key `store` of a settings file: where history, grants and sessions are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegboard.config.environment import environment as this_environment
from pegboard.config.paths import Paths
from pegboard.config.reading import path_of, table_of, typed
from pegboard.config.secrets import read_source
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.ports.store import StoreError
from pegboard.store.chain import Chain
from pegboard.store.history import HistoryStore

if TYPE_CHECKING:
    from pegboard.store.recovery import Recovery

_FORMS = "sqlite:PATH or postgresql://USER@HOST:PORT/DATABASE"
_SOURCES = "env:NAME, file:PATH or keyring:SERVICE/USER"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Which store.

    Attributes:
        url: `sqlite:PATH` or `postgresql://USER@HOST:PORT/DATABASE`; empty = `history.sqlite` among our own files.
        password: for the server's user: `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`; empty = as the URL or
            `~/.pgpass` says.
    """

    url: str = ""
    password: str = ""

    def file(self, paths: Paths) -> Path | None:
        """The SQLite file; None for a server."""
        if not self.url:
            return paths.state / "history.sqlite"
        kind, _, rest = self.url.partition(":")
        return Path(rest).expanduser().absolute() if kind == "sqlite" else None

    def place(self, paths: Paths) -> str:
        """The file, or the server's URL without a password."""
        file = self.file(paths)
        if file is not None:
            return str(file)
        from pegboard.store.postgres import shown_url

        return shown_url(self.url)

    def chain(self, paths: Paths) -> Chain:
        """What the store's records and rows are chained with. The ends of each store are noted in a folder of its
        own: two may have a session of one name."""
        name = f"heads-{hashlib.sha256(self.place(paths).encode()).hexdigest()[:12]}" if self.url else "heads"
        return Chain(key=paths.key(), heads=paths.config / name)

    def store(self, paths: Paths, *, recovered: Callable[[Recovery], None] | None = None) -> HistoryStore:
        """The store, not opened yet.

        Args:
            paths: of this machine's files.
            recovered: see SqliteStore.

        Raises:
            StoreError: the URL is of no known kind, or the password is not where it should be.
        """
        file = self.file(paths)
        if file is not None:
            from pegboard.store.sqlite import SqliteStore

            return SqliteStore(file, recovered=recovered, chain=lambda: self.chain(paths))
        from pegboard.store.postgres import PostgresStore

        try:
            password = self.password and read_source(
                f"the password of the store {self.place(paths)}", self.password, this_environment()
            )
        except Unavailable as error:
            raise StoreError(f"{error.message}; the setting store.password names it") from None
        return PostgresStore(self.url, password=password or None, chain=lambda: self.chain(paths))


def read_store(value: Any, path: Path) -> StoreSettings:
    """The setting `store`: a text, or a table with `url` and `password`.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    if isinstance(value, str):
        return StoreSettings(url=_url(value, path, "store"))
    table: Mapping[str, Any] = table_of(value, path, "store", ("url", "password"))
    password = typed(str, table.get("password", ""), path, "store.password")
    if password and password.partition(":")[0] not in ("env", "file", "keyring"):
        # Not quoted: it may be the password itself.
        raise ConfigError(f"{path}: store.password must say where the password is: {_SOURCES}")
    return StoreSettings(
        url=_url(typed(str, table.get("url", ""), path, "store.url"), path, "store.url"), password=password
    )


def store_of(where: str | Path) -> StoreSettings:
    """The store that a program or a command names: a path, `sqlite:PATH` or a server's URL.

    Raises:
        StoreError: it is of another kind.
    """
    kind, colon, rest = str(where).partition(":")
    if isinstance(where, Path) or not colon:
        return StoreSettings(url=f"sqlite:{where}")
    if kind not in ("sqlite", "postgresql") or not rest:
        raise StoreError(f"cannot use a store of the kind {kind!r:.40}; write {_FORMS}")
    return StoreSettings(url=str(where))


def _url(text: str, path: Path, key: str) -> str:
    kind, _, rest = text.partition(":")
    if kind == "sqlite" and rest:
        return f"sqlite:{path_of(rest, path, key)}"
    if kind == "postgresql" and rest:
        return text
    # The start alone: it may hold a password.
    raise ConfigError(f"{path}: {key} must be {_FORMS}, not {kind!r:.40}")
