"""Store: where streams of records and versioned rows live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pegboard.core.errors import Conflict, PegboardError


class StoreError(PegboardError):
    """The store cannot be opened, read or written; the message names it and says what can be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a stream.

    Attributes:
        seq: 1 for the first record of its stream, then one more each.
        run: the run that it belongs to.
        type: the event's type.
        at: seconds since the epoch.
        digest: SHA-256 (hex) of `body`.
        mac: HMAC-SHA-256 (hex) over the previous mac and this record, empty in an unchained stream.
        body: the event as JSON text in UTF-8; None if it was deleted or not asked for.
    """

    seq: int
    run: str
    type: str
    at: float
    digest: str
    mac: str
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Row:
    """One value with its version: 1 when it is new, then one more at every put."""

    key: str
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Put:
    """One row to write.

    Attributes:
        table, key: where.
        value: what; None deletes the row.
        expected: write only if the row has this version; 0 = only if there is none, None = whatever there is.
    """

    table: str
    key: str
    value: bytes | None
    expected: int | None = None

    def check(self, version: int) -> None:
        """Compare with the version that the row has, 0 for none.

        Raises:
            Conflict: another was expected.
        """
        if self.expected not in (None, version):
            there = f"has version {version}" if version else "does not exist"
            wanted = f"version {self.expected} was expected" if self.expected else "it was expected to be new"
            raise Conflict(
                f"the row {self.key!r} of {self.table} {there}, but {wanted}",
                hint="Read it again and repeat the change.",
            )


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table with `start` <= key < `end`; `end` None = to the last."""

    table: str
    start: str = ""
    end: str | None = None


@dataclass(frozen=True, slots=True)
class Bodies:
    """The bodies of a stream's records up to number `through`; the records themselves stay, and their chain holds."""

    stream: str
    through: int


class Store(Protocol):
    """Streams of records, and tables of rows. Safe to use from several loops, threads and processes at once.

    A waiter that is cancelled spoils nothing: what it asked for is done as a whole or not at all.

    Raises:
        StoreError: the store cannot be read or written, or is closed.
    """

    async def append(
        self,
        stream: str,
        records: Sequence[Record],
        *,
        puts: Sequence[Put] = (),
        power_loss: bool = False,
    ) -> None:
        """Write some records and some rows, all or nothing.

        Args:
            stream: its key; a stream begins with its first record.
            records: numbered without gaps.
            puts: rows that are written in the same transaction.
            power_loss: return when this and all before it survives a power cut; else when it survives SIGKILL.

        Raises:
            Conflict: the first number does not follow the stream's last, or a row has another version.
        """
        ...

    async def read(
        self,
        stream: str,
        *,
        after: int = 0,
        last: int | None = None,
        run: str | None = None,
        types: Sequence[str] = (),
        bodies: bool = True,
        limit: int | None = None,
    ) -> list[Record]:
        """Records in order.

        Args:
            after: only those with a higher number.
            last: only the last so many of them.
            run: only those of this run.
            types: only those of these types; empty = all.
            bodies: False leaves them out.
            limit: at most so many.
        """
        ...

    async def get(self, table: str, key: str) -> Row | None:
        """One row, None if there is none."""
        ...

    async def put(self, *puts: Put) -> tuple[int, ...]:
        """Write some rows, all or nothing; the new version of each, 0 for a deleted one.

        Raises:
            Conflict: a row has another version than expected.
        """
        ...

    async def delete(self, what: Rows | Bodies) -> int:
        """Delete a range of rows, or the bodies of old records; how many there were."""
        ...

    async def scan(
        self,
        table: str,
        *,
        start: str = "",
        end: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        keys: Sequence[str] | None = None,
    ) -> list[Row]:
        """Rows with `start` <= key < `end` in the order of their keys' code points.

        Args:
            end: None = to the last.
            reverse: from the last key down.
            limit: at most so many.
            keys: only these; None = whichever there are.
        """
        ...

    async def close(self) -> None:
        """Finish what is under way and let go. Closing twice is fine."""
        ...


__all__ = ["Bodies", "Conflict", "Put", "Record", "Row", "Rows", "Store", "StoreError"]
