"""Table: typed rows over a Store, and changes that hold whoever else writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pegboard.ports.store import Conflict, Put, Store

T = TypeVar("T")


class Table(Generic[T]):
    """The rows of one table as values of one type, kept as JSON.

    Args:
        store: where they are.
        name: the table's.
        to_json: what of a value is kept.
        from_json: the value of what was kept.
    """

    def __init__(
        self, store: Store, name: str, to_json: Callable[[T], Any], from_json: Callable[[Any], T]
    ) -> None:
        self.store = store
        self.name = name
        self._to_json = to_json
        self._from_json = from_json

    def put_of(self, key: str, value: T, *, expected: int | None = None) -> Put:
        """The Put that keeps a value, for a transaction with others."""
        return Put(self.name, key, self._encode(value), expected)

    async def get(self, key: str) -> T | None:
        """A value, None if there is none."""
        return (await self.versioned(key))[0]

    async def versioned(self, key: str) -> tuple[T | None, int]:
        """A value and its version; None and 0 if there is none."""
        row = await self.store.get(self.name, key)
        return (None, 0) if row is None else (self._decode(row.value), row.version)

    async def put(self, key: str, value: T) -> None:
        """Keep a value, whatever was there."""
        await self.store.put(self.put_of(key, value))

    async def change(self, key: str, change: Callable[[T | None], T | None]) -> T | None:
        """Replace a value by what `change` makes of it, which is asked again if another was faster; the new value.

        Args:
            key: the row's.
            change: gets the value or None; None as its answer deletes the row. May raise to change nothing.
        """
        while True:
            row = await self.store.get(self.name, key)
            value = change(None if row is None else self._decode(row.value))
            body = None if value is None else self._encode(value)
            if (None if row is None else row.value) == body:
                return value
            try:
                await self.store.put(Put(self.name, key, body, 0 if row is None else row.version))
            except Conflict:
                continue
            return value

    async def delete(self, key: str) -> bool:
        """Delete a value; False if there was none."""
        there = await self.store.get(self.name, key)
        if there is not None:
            await self.store.put(Put(self.name, key, None))
        return there is not None

    async def scan(
        self, *, prefix: str = "", reverse: bool = False, limit: int | None = None
    ) -> dict[str, T]:
        """Values whose keys begin with `prefix`, in key order."""
        rows = await self.store.scan(
            self.name, start=prefix, end=after_prefix(prefix), reverse=reverse, limit=limit
        )
        return {row.key: self._decode(row.value) for row in rows}

    def _encode(self, value: T) -> bytes:
        # Without a lone surrogate, which no store takes.
        return json.dumps(self._to_json(value), ensure_ascii=False).encode("utf-8", "replace")

    def _decode(self, value: bytes) -> T:
        return self._from_json(json.loads(value))


def after_prefix(prefix: str) -> str | None:
    """The first key that follows all keys with a prefix."""
    return f"{prefix}\U0010ffff" if prefix else None
