"""Store: where streams of records and keyed values live."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a stream.

    Attributes:
        seq: 1 for the first record of its stream, then one more each.
        run: the run that it belongs to.
        type: the event's type.
        at: seconds since the epoch.
        digest: SHA-256 (hex) of `body`.
        mac: HMAC-SHA-256 (hex) over the previous mac and this record; see store/logs.py.
        body: the event as JSON text in UTF-8; None where the payload has been purged.
    """

    seq: int
    run: str
    type: str
    at: float
    digest: str
    mac: str
    body: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """One record before it is chained: run, type, time and body."""

    run: str
    type: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """What the list of runs shows.

    Attributes:
        id, stream: the run and the session stream it lies in.
        status: running (or its process ended before it did), done, suspended, limit, failed.
        task, model, agent: what was asked of whom.
        started, ended: seconds since the epoch; ended is 0 while it goes on.
    """

    id: str
    stream: str
    status: str
    task: str
    model: str
    agent: str
    started: float
    ended: float = 0.0


class Store(Protocol):
    """Streams, runs and keyed values. Every method may be called from any thread.

    Raises:
        StoreError: the medium failed; the message names it.
    """

    def append(
        self,
        stream: str,
        drafts: Sequence[NewRecord],
        *,
        key: bytes,
        power_loss: bool = False,
        rows: Sequence[RunRow] = (),
    ) -> str:
        """Chain and keep some records, and rows of the list of runs, as a whole; the stream's new head mac.

        `power_loss`: return only when they survive a power cut, else when they survive SIGKILL.
        """
        ...

    def head(self, stream: str) -> tuple[int, str]:
        """Number and mac of the last record; `(0, GENESIS)` for an empty stream."""
        ...

    def read(self, stream: str, *, after: int = 0, run: str | None = None, limit: int = -1) -> list[Record]:
        """Records with a number above `after`, in order; of one run where it is named."""
        ...

    def bodies(
        self,
        stream: str,
        *,
        after: int = 0,
        run: str | None = None,
        types: Sequence[str] = (),
        without: str = "",
        limit: int = -1,
    ) -> list[tuple[int, bytes | None]]:
        """Number and body of what `read` gives, without the chain: what reading a history needs.

        Args:
            types: only events of these; empty = all.
            without: none of this type, and none whose payload was purged; not together with a run or types.
                Told by how a body begins: half the price of looking each type up. A damaged one may be among them.
        """
        ...

    def purge(self, stream: str, *, before: float) -> int:
        """Drop payloads older than a time, keeping the chain; how many went."""
        ...

    def save_run(self, row: RunRow) -> None:
        """Add or replace a row of the list of runs."""
        ...

    def runs(self, *, limit: int = 50, stream: str | None = None, status: str | None = None) -> list[RunRow]:
        """The latest runs, newest first."""
        ...

    def put(self, table: str, key: str, value: bytes) -> None:
        """Keep a value; one under the same key is replaced."""
        ...

    def get(self, table: str, key: str) -> bytes | None:
        """The value, or None."""
        ...

    def change(self, table: str, key: str, change: Callable[[bytes | None], bytes]) -> bytes:
        """Replace a value by what `change` makes of it, alone among all who share the store; the new value."""
        ...

    def delete(self, table: str, key: str) -> bool:
        """Drop a value; False where there was none."""
        ...

    def list(self, table: str, *, prefix: str = "") -> list[tuple[str, bytes]]:
        """Keys and values of a table in key order."""
        ...

    def close(self) -> None:
        """Finish what is under way and let go."""
        ...
