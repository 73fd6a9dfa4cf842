"""Children: the subagents of a store, by id, by the session that started them and by their own session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from pegboard.core.transcript import Usage
from pegboard.ports.store import Conflict, Put, Row, Store
from pegboard.ports.subagents import Child
from pegboard.store.table import Table, after_prefix

_BY_PARENT = "children_by_parent"
_BY_SESSION = "children_by_session"


class Children:
    """The subagents that were started, ended ones too."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table = Table[Child](store, "children", asdict, _child)

    async def add(self, child: Child) -> bool:
        """Keep a new one; False if its id is taken."""
        id = child.id.encode()
        try:
            await self._store.put(
                self._table.put_of(child.id, child, expected=0),
                Put(_BY_PARENT, f"{child.parent}\x1f{child.started:017.6f} {child.id}", id),
                Put(_BY_SESSION, child.session, id),
            )
        except Conflict:
            return False
        return True

    async def get(self, id: str) -> Child | None:
        """One by its id, None if there is none."""
        return await self._table.get(id)

    async def of(self, parent: str) -> list[Child]:
        """Those that a session has started, oldest first."""
        prefix = f"{parent}\x1f"
        return await self._found(await self._store.scan(_BY_PARENT, start=prefix, end=after_prefix(prefix)))

    async def all(self) -> list[Child]:
        """All of them, oldest first."""
        return sorted((await self._table.scan()).values(), key=lambda c: (c.started, c.id))

    async def by_session(self, session: str) -> Child | None:
        """The latest one that works in a session; None if it is no subagent's."""
        row = await self._store.get(_BY_SESSION, session)
        return None if row is None else await self.get(row.value.decode())

    async def change(self, id: str, change: Callable[[Child], Child], *puts: Put) -> Child:
        """Replace one by what `change` makes of it, in one transaction with `puts`; what it is then.

        Raises:
            Conflict: one of the puts is not new.
        """
        while True:
            before, version = await self._table.versioned(id)
            assert before is not None
            after = change(before)
            if after == before and not puts:
                return after
            try:
                await self._store.put(self._table.put_of(id, after, expected=version), *puts)
            except Conflict:
                if (await self._table.versioned(id))[1] == version:
                    raise
                continue
            return after

    async def _found(self, rows: Sequence[Row]) -> list[Child]:
        return await self._table.get_all([row.value.decode() for row in rows])


def _child(value: dict[str, Any]) -> Child:
    read: dict[str, Any] = {**value, "labels": tuple(value["labels"]), "usage": Usage(**value["usage"])}
    return Child(**read)
