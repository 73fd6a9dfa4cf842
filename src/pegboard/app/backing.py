"""Where an agent's named sessions are kept: the command line's store, or one that the program names."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard.config.environment import secrets_of
from pegboard.config.paths import Paths, this_environment
from pegboard.core.secrets.redact import Redactor
from pegboard.ports.store import Store
from pegboard.runtime.session import Backing
from pegboard.store import STORES, open_store
from pegboard.store.chain import Chain
from pegboard.store.sqlite import SqliteStore


@dataclass(slots=True, eq=False)
class _Shared:
    store: SqliteStore
    users: int = 0


_LOCK: Final = threading.Lock()
_SHARED: Final[dict[tuple[int, Path], _Shared]] = {}
"""The open SQLite files of this process (a fork has its own): an agent for each request must not open one each."""


async def open_backing(where: str | Path | None, paths: Paths | None = None) -> Backing:
    """Open a store for sessions, or share the one that another agent of this process has open.

    Args:
        where: `sqlite:PATH` or a path; None = the command line's history, so that `pegboard runs` lists what is
            written, and replay, approvals and undo see it.
        paths: of this machine's settings and state.

    Raises:
        StoreError: it cannot be opened; nothing is kept in memory instead.
    """
    paths = paths or Paths.of()
    redact = Redactor(secrets_of(this_environment())).redact
    history = paths.state / "history.sqlite"

    def chain() -> Chain:
        # The ends of another store are not noted beside this machine's: two stores may have a session of one name.
        return Chain(key=paths.key(), heads=paths.config / "heads" if where is None else None)

    store = await _open(where or history, chain)
    return Backing(store=store, chain=chain(), redact=redact)


async def close_store(store: Store) -> None:
    """Close a backing's store when its last user lets go; what nobody closes ends with the process."""
    with _LOCK:
        key = next((k for k, shared in _SHARED.items() if shared.store is store), None)
        if key is not None:
            _SHARED[key].users -= 1
            if _SHARED[key].users:
                return
            del _SHARED[key]
    await store.close()


async def _open(where: str | Path, chain: Callable[[], Chain]) -> Store:
    kind, colon, place = str(where).partition(":")
    if isinstance(where, str) and (colon or kind in STORES) and kind != "sqlite":
        return await open_store(where)
    path = Path(place if isinstance(where, str) and colon else where).expanduser().absolute()
    with _LOCK:
        shared = _SHARED.get((os.getpid(), path))
        if shared is None:
            shared = _SHARED[os.getpid(), path] = _Shared(SqliteStore(path, chain=chain))
        shared.users += 1
    try:
        await shared.store.connect()
    except BaseException:
        await close_store(shared.store)
        raise
    return shared.store
