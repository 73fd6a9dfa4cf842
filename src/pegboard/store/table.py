"""Table: typed rows over a Store, and changes that hold whoever else writes.

A row that a bad disk changed is left out of lists, which a warning says once, and an error says what it is where it
is asked for by its key: one row never takes the others with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from pegboard.ports.store import Conflict, Put, Row, Store, StoreError

T = TypeVar("T")

UNREADABLE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What a body raises that is no JSON, or JSON of another shape."""


class Table(Generic[T]):
    """The rows of one table as values of one type, kept as JSON.

    Args:
        store: where they are.
        name: the table's.
        to_json: what of a value is kept.
        from_json: the value of what was kept.
        damaged: in a list, stands for the row of a key that can no longer be read; None = the list leaves it out.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        to_json: Callable[[T], Any],
        from_json: Callable[[Any], T],
        damaged: Callable[[str], T] | None = None,
    ) -> None:
        self.store = store
        self.name = name
        self._to_json = to_json
        self._from_json = from_json
        self._damaged = damaged

    def put_of(self, key: str, value: T, *, expected: int | None = None) -> Put:
        """The Put that keeps a value, for a transaction with others."""
        return Put(self.name, key, self._encode(value), expected)

    async def get(self, key: str) -> T | None:
        """A value, None if there is none.

        Raises:
            StoreError: it is damaged, or the store cannot be read; as all that follow.
        """
        return (await self.versioned(key))[0]

    async def versioned(self, key: str) -> tuple[T | None, int]:
        """A value and its version; None and 0 if there is none."""
        row = await self.store.get(self.name, key)
        return (None, 0) if row is None else (self._decode(row), row.version)

    async def get_all(self, keys: Sequence[str]) -> list[T]:
        """The values of some keys, in their order; without those that are not there."""
        return [value for value, _ in await self.get_all_versioned(keys)]

    async def get_all_versioned(self, keys: Sequence[str]) -> list[tuple[T, int]]:
        """The same, each with its version."""
        rows = {row.key: row for row in await self.store.scan(self.name, keys=keys)} if keys else {}
        listed = [(self._listed(rows[key]), rows[key].version) for key in keys if key in rows]
        return [(value, version) for value, version in listed if value is not None]

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
            value = change(None if row is None else self._decode(row))
            body = None if value is None else self._encode(value)
            if (None if row is None else row.value) == body:
                return value
            try:
                await self.store.put(Put(self.name, key, body, 0 if row is None else row.version))
            except Conflict:
                continue
            return value

    async def delete(self, key: str) -> bool:
        """Delete a value; False if there was none, or somebody else was faster."""
        while (row := await self.store.get(self.name, key)) is not None:
            try:
                await self.store.put(Put(self.name, key, None, row.version))
            except Conflict:
                continue
            return True
        return False

    async def scan(
        self, *, prefix: str = "", reverse: bool = False, limit: int | None = None
    ) -> dict[str, T]:
        """Values whose keys begin with `prefix`, in key order."""
        found = await self.scan_versioned(prefix=prefix, reverse=reverse, limit=limit)
        return {key: value for key, (value, _) in found.items()}

    async def scan_versioned(
        self, *, prefix: str = "", reverse: bool = False, limit: int | None = None
    ) -> dict[str, tuple[T, int]]:
        """The same, each with its version."""
        rows = await self.store.scan(
            self.name, start=prefix, end=after_prefix(prefix), reverse=reverse, limit=limit
        )
        listed = ((row, self._listed(row)) for row in rows)
        return {row.key: (value, row.version) for row, value in listed if value is not None}

    def _encode(self, value: T) -> bytes:
        # Without a lone surrogate, which no store takes.
        return json.dumps(self._to_json(value), ensure_ascii=False).encode("utf-8", "replace")

    def _listed(self, row: Row) -> T | None:
        try:
            return self._decode(row)
        except StoreError as error:
            if self._damaged is not None:
                return self._damaged(row.key)
            _warn(str(error))
            return None

    def _decode(self, row: Row) -> T:
        try:
            return self._from_json(json.loads(row.value))
        except UNREADABLE as error:
            raise StoreError(
                f"the row {row.key!r} of the table {self.name!r} is damaged ({type(error).__name__}: {error}); "
                "look through the whole store with: pegboard store check"
            ) from error


@lru_cache(1000)
def _warn(text: str) -> None:
    """Say it once."""
    import logging

    logging.getLogger("pegboard.store").warning("%s", text)


def after_prefix(prefix: str) -> str | None:
    """The first key that follows all keys with a prefix."""
    return f"{prefix}\U0010ffff" if prefix else None
