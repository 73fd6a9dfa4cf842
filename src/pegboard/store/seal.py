"""The seal of a store's tables: rows that stand beside the streams cannot be edited, added or removed unnoticed.

Each row carries a mac, and the seal carries the sum of all macs with the number of changes so far. The seal of the last
change is kept outside the store as well, so that an older state of the tables, put back as a whole, is missed too.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping
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
    """The arithmetic of one store's seal; the store keeps rows and state, and calls this inside its transactions.

    Args:
        chain: gives the key, and the folder outside the store; asked for at the first write.
    """

    def __init__(self, chain: Callable[[], Chain]) -> None:
        self._make = chain
        self._chain: Chain | None = None
        self._whole = True
        self._unkept: SealState | None = None

    def open(self, state: SealState | None) -> bool:
        """Look at the state before the first change; whether the rows were never sealed, so that `first` must.

        A seal that does not hold is left as it is, now and at every later change, so that `faults` finds it.
        """
        chain = self._chain = self._chain or self._make()
        kept = chain.head(ROWS)
        if state is None and kept is None:
            self._whole = True
            return True
        self._whole = state is not None and self._holds(state)
        return False

    def first(self, macs: Iterable[str]) -> SealState:
        """The first state over rows that have these macs."""
        return self._state(1, sum(number_of(mac) for mac in macs))

    def renew(self, macs: Iterable[str], state: SealState | None) -> SealState:
        """The state over rows as they are, although their seal does not hold: a person has accepted that.

        Args:
            macs: the rows' own, made anew.
            state: before.
        """
        assert self._chain is not None
        kept = self._chain.head(ROWS)
        before = max(0 if kept is None else kept[0], 0 if state is None else state.changes)
        self._whole = True
        return self._state(before + 1, sum(number_of(mac) for mac in macs))

    def mac(self, table: str, row: Row) -> str:
        """The mac of a row."""
        assert self._chain is not None
        head = f"{len(table)}:{table}{len(row.key)}:{row.key}{row.version}:"
        return hmac.digest(
            self._chain.key, head.encode("utf-8", "surrogatepass") + row.value, "sha256"
        ).hex()[:32]

    def next(self, state: SealState | None, difference: int) -> SealState | None:
        """The state after a change of rows; None where the seal does not hold and stays as it is.

        Args:
            state: before the change.
            difference: the macs of the new rows less those of the rows that they replace.
        """
        if state is None:
            return None
        if not self._whole:
            # Another process may have sealed the tables anew since.
            self._whole = self._holds(state)
            if not self._whole:
                return None
        return self._state(state.changes + 1, int(state.total, 16) + difference)

    def keep(self) -> None:
        """Write the seal of the last change down outside the store. It may lag behind: then it proves a little less."""
        state, self._unkept = self._unkept, None
        if state is not None and self._chain is not None:
            # Its disk may be full; the rows are kept all the same.
            with suppress(OSError):
                self._chain.keep_head(ROWS, state.changes, state.mac)

    def discard(self) -> None:
        """Forget the last change: its transaction did not hold."""
        self._unkept = None

    def faults(
        self,
        rows: Iterable[tuple[str, Row, str]],
        state: SealState | None,
        ends: Mapping[str, tuple[int, str]],
    ) -> list[Fault]:
        """What is wrong with the tables.

        Args:
            rows: all of them, each with its table and its mac.
            state: the store's.
            ends: earlier seals, by what says so: number of changes and mac.
        """
        out: list[str] = []
        total = 0
        for table, row, mac in rows:
            if not hmac.compare_digest(self.mac(table, row), mac):
                out.append(f"{table}: the row {row.key!r} was changed, or written without the key")
            total += number_of(mac)
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

    def _state(self, changes: int, total: int) -> SealState:
        text = f"{total % _MODULUS:032x}"
        self._unkept = SealState(changes, text, self._mac_of(changes, text))
        return self._unkept

    def _holds(self, state: SealState) -> bool:
        """Whether a seal was made with the key, and none is known that is later."""
        assert self._chain is not None
        kept = self._chain.head(ROWS)
        return state.mac == self._mac_of(state.changes, state.total) and (
            kept is None or kept[0] <= state.changes
        )

    def _mac_of(self, changes: int, total: str) -> str:
        assert self._chain is not None
        return hmac.digest(self._chain.key, f"seal {changes} {total}".encode(), "sha256").hex()


def number_of(mac: str) -> int:
    """A row's mac as a number for the sum; 0 for one that is none."""
    try:
        return int(mac, 16)
    except ValueError:
        return 0
