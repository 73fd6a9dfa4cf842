"""Where records and rows are kept: Store over memory, SQLite and PostgreSQL, and what stands on it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pegboard.ports.store import Conflict, Put, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pegboard.store.recovery import Recovery

STORES: Final[dict[str, str]] = {
    "memory": "pegboard.store.memory:open_memory",
    "sqlite": "pegboard.store.sqlite:open_sqlite",
    "postgresql": "pegboard.store.postgres:open_postgres",
}
"""The family: kind to module and function of what stands behind the colon. A new store is one file and one line here."""


async def open_store(where: str | Path, *, recovered: Callable[[Recovery], None] | None = None) -> Store:
    """Open a store.

    Args:
        where: `KIND:PLACE`, such as `memory`, `sqlite:PATH` or `postgresql://USER@HOST/DATABASE`; a path is an SQLite file.
        recovered: see SqliteStore.open.

    Raises:
        StoreError: it cannot be opened, or there is no store of that kind.
    """
    kind, colon, place = str(where).partition(":")
    if isinstance(where, Path) or (not colon and kind not in STORES):
        kind, place = "sqlite", str(where)
    found = STORES.get(kind)
    if found is None:
        raise StoreError(f"cannot open a store of the kind {kind!r}; known: {', '.join(STORES)}")
    module, _, name = found.partition(":")
    opener: Any = getattr(import_module(module), name)
    return await opener(place, recovered=recovered)


__all__ = ["STORES", "Conflict", "Put", "Store", "StoreError", "open_store"]
