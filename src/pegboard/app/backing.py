"""Where an agent's named sessions are kept: the command line's store, or one that the program names."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pegboard.config.environment import secrets_of
from pegboard.config.paths import Paths, this_environment
from pegboard.config.store import StoreSettings, store_of
from pegboard.core.secrets.redact import Redactor
from pegboard.ports.store import Store
from pegboard.runtime.session import Backing
from pegboard.store import STORES, open_store
from pegboard.store.chain import Chain
from pegboard.store.history import HistoryStore


@dataclass(slots=True, eq=False)
class _Shared:
    store: HistoryStore
    users: int = 0


_LOCK: Final = threading.Lock()
_SHARED: Final[dict[tuple[int, str], _Shared]] = {}
"""The open stores of this process (a fork has its own): an agent for each request must not open one each."""


async def open_backing(where: str | Path | None, paths: Paths | None = None) -> Backing:
    """Open a store for sessions, or share the one that another agent of this process has open.

    Args:
        where: a path, `sqlite:PATH`, `postgresql://…` or `memory`; None = the command line's history, so that
            `pegboard runs` lists what is written, and replay, approvals and undo see it.
        paths: of this machine's settings and state.

    Raises:
        StoreError: it cannot be opened; nothing is kept in memory instead.
        ConfigError: the settings file that may name the store is wrong.
    """
    paths = paths or Paths.of()
    redact = Redactor(secrets_of(this_environment())).redact
    kind, colon, _ = str(where).partition(":")
    if isinstance(where, str) and (colon or kind in STORES) and kind not in ("sqlite", "postgresql"):
        return Backing(store=await open_store(where), chain=Chain(key=paths.key()), redact=redact)
    settings = _configured(paths) if where is None else store_of(where)
    store = await _share(settings, paths)
    return Backing(store=store, chain=settings.chain(paths), redact=redact)


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


def _configured(paths: Paths) -> StoreSettings:
    """The store that the user's settings file names."""
    # Not at the top: most programs have no settings file, or name the store themselves.
    from pegboard.config.load import load_config

    return load_config(paths, None).store


async def _share(settings: StoreSettings, paths: Paths) -> HistoryStore:
    key = (os.getpid(), settings.place(paths))
    with _LOCK:
        shared = _SHARED.get(key)
        if shared is None:
            shared = _SHARED[key] = _Shared(settings.store(paths))
        shared.users += 1
    try:
        await shared.store.connect()
    except BaseException:
        await close_store(shared.store)
        raise
    return shared.store
