"""The seal of a store's tables: rows that stand beside the streams cannot be edited, added or removed unnoticed.

Each row carries a mac, and the seal carries the sum of all macs with the number of changes so far. The seal of the last
change is kept outside the store as well, so that an older state of the tables, put back as a whole, is missed too.
"""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from pegboard.ports.store import Row
from pegboard.store.chain import ROWS, Chain, Fault

PURGED: Final = "purged_before"
"""Streams whose payloads were deleted before purges were recorded: the number of the last record without one."""

_MODULUS: Final = 1 << 128


class SealState(NamedTuple):
    """The seal: how many changes there were, the sum of the rows' macs, and the mac over both."""

    changes: int
    total: str
    mac: str


class Seal:
    """Keeps the seal of one SQLite file. Every method belongs into the thread of its connection.

    Args:
        chain: gives the key, and the folder outside the store; asked for at the first write.
    """

    def __init__(self, chain: Callable[[], Chain]) -> None:
        self._make = chain
        self._chain: Chain | None = None
        self._whole = True
        self._unkept: SealState | None = None

    def open(self, db: sqlite3.Connection) -> None:
        """Seal the tables if they never were; called inside the first transaction that writes to a file.

        A seal that does not hold is left as it is, now and at every later change, so that `faults` finds it.
        """
        chain = self._chain = self._chain or self._make()
        kept = chain.head(ROWS)
        state = _state(db)
        if state is None and kept is None:
            self._first(db)
            state = _state(db)
        self._whole = state is not None and self._holds(state)

    def mac(self, table: str, row: Row) -> str:
        """The mac of a row."""
        assert self._chain is not None
        head = f"{len(table)}:{table}{len(row.key)}:{row.key}{row.version}:"
        return hmac.digest(
            self._chain.key, head.encode("utf-8", "surrogatepass") + row.value, "sha256"
        ).hex()[:32]

    def change(self, db: sqlite3.Connection, difference: int) -> None:
        """Take a change of rows into the seal.

        Args:
            difference: the macs of the new rows less those of the rows that they replace.
        """
        state = _state(db)
        if state is None:
            return
        if not self._whole:
            # Another process may have sealed the tables anew since.
            self._whole = self._holds(state)
            if not self._whole:
                return
        total = f"{(int(state.total, 16) + difference) % _MODULUS:032x}"
        self._write(db, SealState(state.changes + 1, total, self._mac_of(state.changes + 1, total)))

    def keep(self) -> None:
        """Write the seal of the last change down outside the store. It may lag behind: then it proves a little less."""
        state, self._unkept = self._unkept, None
        if state is not None and self._chain is not None:
            # Its disk may be full; the rows are kept all the same.
            with suppress(OSError):
                self._chain.keep_head(ROWS, state.changes, state.mac)

    def renew(self, db: sqlite3.Connection) -> None:
        """Seal the tables as they are, although their seal does not hold: a person has accepted that."""
        assert self._chain is not None
        kept, state = self._chain.head(ROWS), _state(db)
        before = max(0 if kept is None else kept[0], 0 if state is None else state.changes)
        self._seal_rows(db, before + 1)
        self._whole = True

    def faults(self, db: sqlite3.Connection, ends: Mapping[str, tuple[int, str]]) -> list[Fault]:
        """What is wrong with the tables.

        Args:
            ends: earlier seals, by what says so: number of changes and mac.
        """
        out: list[str] = []
        total = 0
        for table, key, value, version, mac in db.execute("SELECT tbl, key, value, version, mac FROM kept"):
            row = Row(str(key), value if isinstance(value, bytes) else str(value).encode(), version)
            if not hmac.compare_digest(self.mac(str(table), row), str(mac)):
                out.append(f"{table}: the row {key!r} was changed, or written without the key")
            total += number_of(mac)
        state = _state(db)
        if state is None:
            return [Fault(seq=0, problem=problem) for problem in (*out, "the seal of the tables is missing")]
        if state.mac != self._mac_of(state.changes, state.total):
            out.append("the seal of the tables was changed")
        elif total % _MODULUS != int(state.total, 16):
            out.append("tables: rows were removed, added or put back")
        for what, (changes, mac) in ends.items():
            if changes > state.changes:
                out.append(f"tables: an older state was put back ({what})")
            elif changes == state.changes and mac != state.mac:
                out.append(f"tables: {what} names another state")
        return [Fault(seq=0, problem=problem) for problem in out]

    def _first(self, db: sqlite3.Connection) -> None:
        """Seal what an older Pegboard wrote, and what it had deleted by then."""
        db.execute(
            "INSERT OR REPLACE INTO kept SELECT ?, e.stream, CAST(MAX(e.seq) AS BLOB), 1, '' FROM entries e "
            "LEFT JOIN payloads p ON p.stream=e.stream AND p.seq=e.seq WHERE p.seq IS NULL GROUP BY e.stream",
            (PURGED,),
        )
        self._seal_rows(db, 1)

    def _seal_rows(self, db: sqlite3.Connection, changes: int) -> None:
        total = 0
        for table, key, value, version in db.execute("SELECT tbl, key, value, version FROM kept").fetchall():
            row = Row(str(key), value if isinstance(value, bytes) else str(value).encode(), version)
            mac = self.mac(str(table), row)
            db.execute("UPDATE kept SET value=?, mac=? WHERE tbl=? AND key=?", (row.value, mac, table, key))
            total += int(mac, 16)
        text = f"{total % _MODULUS:032x}"
        self._write(db, SealState(changes, text, self._mac_of(changes, text)))

    def _holds(self, state: SealState) -> bool:
        """Whether a seal was made with the key, and none is known that is later."""
        assert self._chain is not None
        kept = self._chain.head(ROWS)
        return state.mac == self._mac_of(state.changes, state.total) and (
            kept is None or kept[0] <= state.changes
        )

    def _write(self, db: sqlite3.Connection, state: SealState) -> None:
        db.execute("INSERT OR REPLACE INTO seal VALUES (1, ?, ?, ?)", state)
        self._unkept = state

    def _mac_of(self, changes: int, total: str) -> str:
        assert self._chain is not None
        return hmac.digest(self._chain.key, f"seal {changes} {total}".encode(), "sha256").hex()


def number_of(mac: str) -> int:
    """A row's mac as a number for the sum; 0 for one that is none."""
    try:
        return int(mac, 16)
    except ValueError:
        return 0


def seal_of(db: sqlite3.Connection) -> tuple[int, str] | None:
    """Number of changes and mac of a file's seal, None if it was never sealed."""
    state = _state(db)
    return None if state is None else (state.changes, state.mac)


def _state(db: sqlite3.Connection) -> SealState | None:
    row = db.execute("SELECT changes, total, mac FROM seal").fetchone()
    return None if row is None else SealState(*row)
