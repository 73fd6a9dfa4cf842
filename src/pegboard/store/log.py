"""Log: the events of one session, numbered and chained above a Store."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from pegboard.core.codec import event_from_dict
from pegboard.core.events import TRANSIENT, Event, Notice, RunStarted
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.store import Conflict, Put, Record, Store, StoreError
from pegboard.store.chain import GENESIS, Chain, NewRecord, chain_records
from pegboard.store.encoding import Redact, encode_all
from pegboard.store.runs import ONE_CALLS, RunList, RunRow
from pegboard.store.table import UNREADABLE

DAMAGED: Final = "damaged"
"""Key in a Notice's detail: number of the record that cannot be read."""

FOLDED: Final = "folded"
"""The table of what the earlier runs of long sessions came to, by stream. It holds their content: a purge deletes it."""

_BATCH: Final = 512
_PAGE: Final = 256


class LeaseLost(StoreError):
    """Another process has gone on with the session; nothing more is written here."""


class _Recorded(NamedTuple):
    run: str
    at: float
    event: Event


class Log:
    """The stream of one session; a Recorder. Open it with `Log.open`; it belongs to the loop that opened it.

    `record` only hands over. Events are encoded off the loop and kept in batches; what could not be written is
    tried again with what comes next, and raised by `flush`.
    """

    def __init__(
        self,
        store: Store,
        stream: str,
        head: tuple[int, str],
        *,
        chain: Chain | None,
        fenced: bool,
        redact: Redact | None,
        run: str,
        clock: Clock,
    ) -> None:
        self.store = store
        self.stream = stream
        self._head = head
        self._chain = chain
        self._fenced = fenced
        self._redact = redact
        self._run = run
        self._now = clock.now
        self._runs = RunList(store)
        self._rows: dict[str, RunRow] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._pending: list[_Recorded] = []
        self._unsent: list[_Recorded] = []
        self._recorded = 0
        self._kept = 0
        self._power_loss = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None
        self._head_task: asyncio.Task[None] | None = None
        self._end_holds: bool | None = None
        self._failure: Exception | None = None

    @classmethod
    async def open(
        cls,
        store: Store,
        stream: str,
        *,
        chain: Chain | None,
        fenced: bool = True,
        redact: Redact | None = None,
        run: str = "",
        clock: Clock | None = None,
    ) -> Log:
        """Open a session's stream at its end.

        Args:
            store: where the records go.
            stream: the session's key.
            chain: what they are chained with; None = only numbered.
            fenced: nobody else may write to the stream: if somebody did, LeaseLost is raised and nothing is written.
                False = the stream is shared, and this log goes on behind what the others wrote.
            redact: takes secrets out of a text, and says whether there was one. What was asked for, said and
                answered is kept without them; results come without them already.
            run: the run that is resumed; one that starts names itself.
            clock: gives records their time.
        """
        head = await _head(store, stream)
        return cls(
            store, stream, head, chain=chain, fenced=fenced, redact=redact, run=run, clock=clock or SystemClock()
        )  # fmt: skip

    @property
    def last(self) -> int:
        """Number of the last record that was kept, 0 for an empty stream."""
        return self._head[0]

    def record(self, event: Event) -> None:
        """See Recorder. From any thread. Transient events are not kept."""
        if event.type in TRANSIENT:
            return
        with self._lock:
            if isinstance(event, RunStarted):
                self._run = event.run
            self._pending.append(_Recorded(self._run, self._now(), event))
            self._recorded += 1
        if threading.get_ident() == self._thread:
            self._write_soon()
        else:
            # A loop that has ended writes nothing more; who flushes hears of it.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._write_soon)

    async def flush(self, *, power_loss: bool = False) -> int:
        """Return when everything recorded so far survives SIGKILL (`power_loss`: and a power cut).

        Returns:
            The number of the last record kept.

        Raises:
            LeaseLost: somebody else has written to a fenced stream.
            StoreError: something recorded so far could not be written.
        """
        if self._kept < self._recorded or power_loss:
            self._power_loss |= power_loss
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append((self._recorded, waiter))
            self._write_soon()
            await waiter
        return self.last

    async def events(
        self, *, run: str | None = None, after: int = 0, types: Sequence[str] = ()
    ) -> AsyncIterator[Event]:
        """The stream's events, oldest first, read page by page; what was recorded so far is among them."""
        await self.flush()
        async for event in iter_history(self.store, self.stream, run=run, after=after, types=types):
            yield event

    async def close(self) -> None:
        """Write what is left.

        Raises:
            StoreError: something could not be written.
        """
        try:
            await self.flush()
        finally:
            if self._head_task is not None:
                await asyncio.wait([self._head_task])

    # -- writing ------------------------------------------------------------------------------

    def _write_soon(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._write())

    async def _write(self) -> None:
        while self._pending or self._unsent or self._waiters:
            with self._lock:
                taken, self._pending = self._pending, []
            self._unsent += taken
            power_loss, self._power_loss = self._power_loss, False
            try:
                if power_loss and not self._unsent:
                    await self.store.append(self.stream, (), power_loss=True)
                while self._unsent:
                    batch = self._unsent[:_BATCH]
                    await self._append(batch, power_loss=power_loss and len(batch) == len(self._unsent))
                    self._kept += len(batch)
                    del self._unsent[: len(batch)]
                self._failure = None
            except Exception as error:  # noqa: BLE001  The task's boundary: raised by `flush`.
                self._failure = error
            waiting, self._waiters = self._waiters, []
            for count, waiter in waiting:
                if waiter.done():
                    continue
                if self._failure is not None:
                    waiter.set_exception(self._failure)
                elif count <= self._kept:
                    waiter.set_result(None)
                else:
                    self._waiters.append((count, waiter))
            if self._failure is not None:
                return

    async def _append(self, batch: list[_Recorded], *, power_loss: bool) -> None:
        if isinstance(self._failure, LeaseLost):
            raise self._failure
        drafts = await asyncio.to_thread(self._encoded, batch)
        puts: list[Put] = []
        if any(one.event.type.startswith("run.") for one in batch):
            events = [(one.at, self._cleaned(one.event)) for one in batch]
            # In one transaction: a run must not be in the stream and missing from the list, or the reverse.
            puts = await self._runs.puts(self.stream, events, self._rows)
            puts += await self._session_puts(batch)
        if self._chain is not None and self._end_holds is None:
            self._end_holds = await _end_holds(self.store, self._chain, self.stream, self._head)
        while True:
            records = chain_records(
                None if self._chain is None else self._chain.key, self.stream, self._head[1], self._head[0], drafts
            )  # fmt: skip
            try:
                await self.store.append(self.stream, records, puts=puts, power_loss=power_loss)
                break
            except Conflict as error:
                if self._fenced:
                    raise LeaseLost(
                        f"another process has gone on with the session {self.stream!r}; nothing more is written here"
                    ) from error
                before, self._head = self._head, await _head(self.store, self.stream)
                if self._head[0] < before[0]:
                    self._end_holds = False
        self._head = (records[-1].seq, records[-1].mac)
        if (
            self._chain is not None
            and self._end_holds
            and (self._head_task is None or self._head_task.done())
        ):
            self._head_task = self._loop.create_task(self._keep_head(self._chain))

    async def _session_puts(self, batch: list[_Recorded]) -> list[Put]:
        """What a batch changes in the list of sessions."""
        runs = [row for run in {one.run for one in batch} if (row := self._rows.get(run)) is not None]
        if all(row.agent in ONE_CALLS for row in runs):
            return []  # A single call need load nothing for it.
        from pegboard.store.session_rows import COUNTED, SessionRows

        messages = sum(one.event.type in COUNTED for one in batch)
        put = await SessionRows(self.store).put_of(
            self.stream, runs, at=batch[-1].at, messages=messages, last=self._head[0], count=len(batch)
        )
        return [] if put is None else [put]

    def _encoded(self, batch: list[_Recorded]) -> list[NewRecord]:
        bodies = encode_all([one.event for one in batch], self._redact)
        return [
            NewRecord(run=one.run, type=one.event.type, at=one.at, body=body)
            for one, body in zip(batch, bodies, strict=True)
        ]

    def _cleaned(self, event: Event) -> Event:
        if self._redact is None or not isinstance(event, RunStarted):
            return event
        return replace(event, task=self._redact(event.task)[0])

    async def _keep_head(self, chain: Chain) -> None:
        """Write down the stream's end outside the store. It may lag behind: an older end proves a little less."""
        kept: tuple[int, str] | None = None
        while kept != self._head:
            kept = self._head
            # Its disk may be full; the records are kept all the same.
            with suppress(OSError):
                await asyncio.to_thread(chain.keep_head, self.stream, *kept)


async def _end_holds(store: Store, chain: Chain, stream: str, end: tuple[int, str]) -> bool:
    """Whether a stream holds its kept head. If not, that stays as it is, so that verifying finds what was cut off.

    A new stream gets its head before its first record: one without a head has lost it.
    """
    kept = await asyncio.to_thread(chain.head, stream)
    if kept is None and end[0] == 0:
        with suppress(OSError):
            await asyncio.to_thread(chain.keep_head, stream, *end)
        return True
    if kept is None or kept[0] >= end[0] or kept[0] == 0:
        return kept in (end, (0, GENESIS))
    return [r.mac for r in await store.read(stream, after=kept[0] - 1, limit=1, bodies=False)] == [kept[1]]


async def _head(store: Store, stream: str) -> tuple[int, str]:
    """Number and mac of a stream's last record."""
    records = await store.read(stream, last=1, bodies=False)
    return (records[0].seq, records[0].mac) if records else (0, GENESIS)


# -- reading ----------------------------------------------------------------------------------


async def history(
    store: Store, stream: str, *, run: str | None = None, after: int = 0, types: Sequence[str] = ()
) -> list[Event]:
    """The events of a session, or of one of its runs, oldest first; `types`: only those.

    A record whose body was deleted is left out. One that cannot be read stands in its place as a Notice with its
    number: a damaged record never takes the others with it, and stays in the store as it is.
    """
    records = await store.read(stream, run=run, after=after, types=types)
    if len(records) <= _PAGE:
        return decode_events(records)
    return await asyncio.to_thread(decode_events, records)


async def iter_history(
    store: Store, stream: str, *, run: str | None = None, after: int = 0, types: Sequence[str] = ()
) -> AsyncIterator[Event]:
    """`history` page by page: a long run shows its beginning at once."""
    while records := await store.read(stream, run=run, after=after, types=types, limit=_PAGE):
        for event in decode_events(records):
            yield event
        after = records[-1].seq


def active_s(records: Iterable[Record]) -> float:
    """Seconds that a run has taken: from the first to the last record of each of its parts.

    What it waited for somebody, or lay still between two processes, does not count.
    """
    total = 0.0
    first = last = None
    for record in records:
        if first is None or record.type == "run.resumed":
            total += (last - first) if first is not None and last is not None else 0.0
            first = record.at
        last = record.at
    return total + ((last - first) if first is not None and last is not None else 0.0)


def decode_events(records: Sequence[Record]) -> list[Event]:
    """The events of some records, oldest first; see `history`."""
    out: list[Event] = []
    for start in range(0, len(records), _PAGE):
        page = [(r.seq, r.body) for r in records[start : start + _PAGE] if r.body is not None]
        try:
            out += [event_from_dict(value) for value in _values([body for _, body in page])]
        except UNREADABLE:
            out += [_event(seq, body) for seq, body in page]
    return out


def _values(bodies: Sequence[bytes]) -> list[Any]:
    """The bodies' JSON values, read in one go: half the time of one by one.

    Raises:
        ValueError: one of them is damaged, or deeper than the quick reader goes.
    """
    # Not at the top: who only writes a history needs no reader.
    from pydantic_core import from_json

    values = from_json(b"[%b]" % b",".join(bodies))
    if len(values) != len(bodies):
        raise ValueError("some body is no single value")
    return cast("list[Any]", values)


def _event(seq: int, body: bytes) -> Event:
    """One record as event, or what is wrong with it."""
    try:
        return event_from_dict(json.loads(body))
    except UNREADABLE as error:
        return Notice(
            text=f"record {seq} of this session is damaged and was left out ({type(error).__name__}: {error}); "
            "it stays in the store as it is",
            detail={DAMAGED: seq},
        )
