"""Session: a conversation, its event stream, and the one process that works on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from pegboard.core.codec import event_from_dict, event_to_dict
from pegboard.core.errors import ConfigError, InvalidArguments
from pegboard.core.events import Event, HistoryFolded, Notice, RunStarted
from pegboard.core.session_key import check_session_key
from pegboard.ports.store import Conflict, Put, Store, StoreError
from pegboard.runtime.fold import folded, goes_before
from pegboard.store.chain import Chain
from pegboard.store.encoding import Redact
from pegboard.store.leases import Leases
from pegboard.store.log import DAMAGED, FOLDED, Log, decode_events, history
from pegboard.store.table import UNREADABLE

WAIT_S = 10.0
"""Seconds that a process waits for another one that works on the same session."""

FOLD_EVERY: Final = 500
"""Events of earlier runs after which a session's next opening does not read them any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """Where sessions are kept.

    Attributes:
        store: their events and leases.
        chain: what their streams are chained with; None = they are only numbered.
        redact: takes secrets out of a text before it is kept, and says whether there was one.
        leases: the store's, where somebody has looked at them already; None = new ones.
    """

    store: Store
    chain: Chain | None = None
    redact: Redact | None = None
    leases: Leases | None = None


@dataclass(slots=True, kw_only=True)
class Session:
    """A session that this process works on.

    Attributes:
        key: its name.
        log: its stream.
        events: what the stream held when it was opened, in a long one a HistoryFolded in the place of earlier runs;
            whoever runs in the session adds to it.
    """

    key: str
    log: Log
    events: list[Event] = field(default_factory=list[Event])


@asynccontextmanager
async def open_session(
    backing: Backing, key: str, *, run: str = "", wait_s: float = WAIT_S
) -> AsyncGenerator[Session]:
    """Work on a session until the block ends: its lease is held, and its stream is written by this process alone.

    Args:
        backing: where it is kept.
        key: its name.
        run: the run that is resumed; one that starts names itself.
        wait_s: how long to wait for another process that works on it.

    Raises:
        ConfigError: the key cannot be one, or another process still works on it; the message names that process.
        StoreError: the store cannot be read, or, at the end of the block, something could not be written.
    """
    try:
        check_session_key(key)
    except InvalidArguments as error:
        raise ConfigError(error.message) from None
    lease = await (backing.leases or Leases(backing.store)).acquire(key, wait_s)
    try:
        log = await Log.open(backing.store, key, chain=backing.chain, redact=backing.redact, run=run)
        earlier = await _folded(backing.store, key, log.last)
        events = await history(backing.store, key, after=0 if earlier is None else earlier.through)
        if earlier is not None and goes_before(events):
            # Taken back to before what stands for the earlier runs.
            earlier, events = None, await history(backing.store, key)
        session = Session(key=key, log=log, events=events if earlier is None else [earlier, *events])
        try:
            yield session
        finally:
            await log.close()
            # Only the next opening is slower without it.
            with suppress(StoreError, Conflict):
                await _fold(backing.store, key, earlier)
    finally:
        await lease.release()


async def _folded(store: Store, key: str, last: int) -> HistoryFolded | None:
    """What stands for a session's earlier runs; None if nothing does, or it is not about this stream."""
    row = await store.get(FOLDED, key)
    if row is None:
        return None
    try:
        kept = await asyncio.to_thread(json.loads, row.value)
        event = await asyncio.to_thread(event_from_dict, kept["event"])
    except UNREADABLE:
        # Another version's, or damaged: the stream says the same.
        return None
    if not isinstance(event, HistoryFolded) or event.through > last:
        return None
    records = await store.read(key, after=event.through - 1, limit=1, bodies=False)
    return event if records and records[0].mac == kept["mac"] else None


async def _fold(store: Store, key: str, earlier: HistoryFolded | None) -> None:
    """Keep what a session's runs before the last one came to, once many events have come since that was kept."""
    before = 0 if earlier is None else earlier.through
    starts = await store.read(key, after=before, types=(RunStarted.type,), last=1, bodies=False)
    if not starts or starts[0].seq - 1 - before < FOLD_EVERY:
        return
    # From the store, where secrets are redacted, not from what this process has seen.
    records = await store.read(key, after=before, limit=starts[0].seq - before)

    def encoded() -> bytes | None:
        events = decode_events(records)
        if any(isinstance(event, Notice) and DAMAGED in event.detail for event in events):
            return None
        if earlier is not None and goes_before(events):
            return None
        done = folded(events if earlier is None else [earlier, *events], starts[0].seq - 1)
        value = {"mac": records[-2].mac, "event": event_to_dict(done)}
        return json.dumps(value, ensure_ascii=False).encode()

    value = await asyncio.to_thread(encoded)
    if value is not None:
        await store.put(Put(FOLDED, key, value))
