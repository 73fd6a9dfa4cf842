"""SessionLog: a session's typed event stream over a Store, with one writer thread."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from pegboard.core.events import (
    TRANSIENT,
    Event,
    RunFinished,
    RunResumed,
    RunStarted,
)
from pegboard.core.limits import Clock, SystemClock
from pegboard.store import log
from pegboard.store.blocking import BlockingStore, wait_for
from pegboard.store.chain import NewRecord
from pegboard.store.encoding import Redact, encode_all
from pegboard.store.runs import RunRow

_STOP: Final = None


class _QueuedEvent(NamedTuple):
    run: str
    at: float
    event: Event


@dataclass(frozen=True, slots=True)
class _Barrier:
    power_loss: bool
    done: Future[None]


class SessionLog:
    """Writes the events of one session; a Recorder.

    `record` only hands over; a writer thread encodes, chains and commits in batches. What could not be
    written is remembered and raised by the next `flush`.

    Args:
        store: where the records go.
        stream: the session's key.
        key: the chain's key.
        heads: file that keeps number and mac of the last record outside the store, None = none.
        clock: gives records their time.
        run: the run that is taken up again; one that starts names itself.
        redact: takes secrets out of a text, and says whether there was one. What was asked for, said and
            answered is kept without them; results come without them already.
    """

    def __init__(
        self,
        store: BlockingStore,
        stream: str,
        *,
        key: bytes,
        heads: Path | None = None,
        clock: Clock | None = None,
        run: str = "",
        redact: Redact | None = None,
    ) -> None:
        self._redact = redact
        self.store = store
        self.stream = stream
        self._key = key
        self._heads = heads
        self._now = (clock or SystemClock()).now
        self._run = run
        self._unsent: list[_QueuedEvent] = []
        self._queue: queue.SimpleQueue[_QueuedEvent | _Barrier | None] = queue.SimpleQueue()
        self._failure: Exception | None = None
        self._thread: threading.Thread | None = None
        self._rows: dict[str, RunRow] = {}

    def record(self, event: Event) -> None:
        """See Recorder. Transient events are not kept."""
        if event.type in TRANSIENT:
            return
        if isinstance(event, RunStarted):
            self._run = event.run
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="pegboard-log", daemon=True)
            self._thread.start()
        self._queue.put(_QueuedEvent(self._run, self._now(), event))

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder. What could not be written is kept and tried again with what comes next.

        Raises:
            StoreError: something recorded so far could not be written.
        """
        if self._thread is None:
            return
        barrier = _Barrier(power_loss, Future())
        self._queue.put(barrier)
        await asyncio.wrap_future(barrier.done)

    def close(self) -> None:
        """Write what is left and end the thread.

        Raises:
            StoreError: something could not be written.
        """
        if self._thread is not None:
            self._queue.put(_STOP)
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    # -- the writer thread --------------------------------------------------------------------

    def _write(self) -> None:
        going = True
        while going:
            batch: list[_QueuedEvent] = []
            barriers: list[_Barrier] = []
            item = self._queue.get()
            while True:
                if item is None:
                    going = False
                elif isinstance(item, _Barrier):
                    barriers.append(item)
                else:
                    batch.append(item)
                if item is None or len(batch) >= 512:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            self._commit(batch, barriers)

    def _commit(self, batch: list[_QueuedEvent], barriers: list[_Barrier]) -> None:
        self._unsent += batch
        power_loss = any(b.power_loss for b in barriers)
        try:
            if self._unsent or power_loss:
                self._append(self._unsent, power_loss=power_loss)
                self._unsent = []
            self._failure = None
        except Exception as error:  # noqa: BLE001  The thread's boundary: kept for whoever flushes.
            self._failure = error
        for barrier in barriers:
            # Who flushes may have been cancelled meanwhile; that must not end this thread.
            if not barrier.done.set_running_or_notify_cancel():
                continue
            if self._failure is None:
                barrier.done.set_result(None)
            else:
                barrier.done.set_exception(self._failure)

    def _append(self, batch: list[_QueuedEvent], *, power_loss: bool) -> None:
        bodies = encode_all([i.event for i in batch], self._redact)
        drafts = [
            NewRecord(run=i.run, type=i.event.type, at=i.at, body=body)
            for i, body in zip(batch, bodies, strict=True)
        ]
        # In one transaction: a run must not be in the stream and missing from the list, or the reverse.
        rows = self._indexed(batch)
        self.store.append(self.stream, drafts, key=self._key, power_loss=power_loss, rows=rows)
        # They are kept from here on: a failure below must not append them twice.
        self._unsent = []
        if self._heads is not None:
            write_head(self._heads, self.stream, *self.store.head(self.stream))

    def _indexed(self, batch: list[_QueuedEvent]) -> list[RunRow]:
        """The rows of the list of runs that this batch changes; they can be made again from the stream."""
        out: dict[str, RunRow] = {}
        for item in batch:
            event = item.event
            if isinstance(event, RunStarted):
                row = RunRow(
                    id=event.run, stream=self.stream, status="running", task=self._clean(event.task), model=event.model,
                    agent=event.agent, started=item.at,
                )  # fmt: skip
            elif isinstance(event, RunResumed | RunFinished):
                before = self._rows.get(event.run)
                if before is None:
                    before = next((r for r in self.store.runs(limit=-1) if r.id == event.run), None)
                if before is None:
                    continue
                row = (
                    replace(before, status="running", ended=0.0)
                    if isinstance(event, RunResumed)
                    else replace(before, status=event.status, ended=item.at)
                )
            else:
                continue
            self._rows[row.id] = out[row.id] = row
        return list(out.values())

    def _clean(self, text: str) -> str:
        return text if self._redact is None else self._redact(text)[0]


def write_head(path: Path, stream: str, seq: int, mac: str) -> None:
    """Keep a stream's last number and mac in a second file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Named by its writer: two processes may keep the head of one stream.
    fresh = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.new")
    fresh.write_text(json.dumps({"stream": stream, "seq": seq, "mac": mac}), encoding="utf-8")
    fresh.replace(path)


def history(
    store: BlockingStore, stream: str, *, run: str | None = None, after: int = 0, types: Sequence[str] = ()
) -> list[Event]:
    """See `log.history`."""
    return wait_for(log.history(store.store, stream, run=run, after=after, types=types))
