"""Where records and rows are kept: Store over memory and SQLite, and what stands on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pegboard.ports.store import Conflict, Put, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pegboard.store.recovery import Recovery


async def open_store(where: str | Path, *, recovered: Callable[[Recovery], None] | None = None) -> Store:
    """Open a store.

    Args:
        where: `memory`, `sqlite:PATH`, or a path, which is an SQLite file.
        recovered: see SqliteStore.open.

    Raises:
        StoreError: it cannot be opened, or there is no store of that kind.
    """
    kind, colon, rest = str(where).partition(":")
    if where == "memory":
        from pegboard.store.memory import MemoryStore

        return MemoryStore()
    if isinstance(where, Path) or not colon or kind == "sqlite":
        from pegboard.store.sqlite import SqliteStore

        path = rest if colon and kind == "sqlite" and not isinstance(where, Path) else str(where)
        if not path:
            raise StoreError(f"the store {str(where)!r} names no file; write sqlite:PATH")
        return await SqliteStore.open(Path(path).expanduser(), recovered=recovered)
    raise StoreError(f"cannot open a store of the kind {kind!r}; use memory or sqlite:PATH")


__all__ = ["Conflict", "Put", "Store", "StoreError", "open_store"]
