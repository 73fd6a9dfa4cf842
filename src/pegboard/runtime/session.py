"""Session: a conversation, its event stream, and the one process that works on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pegboard.core.errors import ConfigError, InvalidArguments
from pegboard.core.events import Event
from pegboard.core.session_key import check_session_key
from pegboard.ports.store import Store
from pegboard.store.chain import Chain
from pegboard.store.encoding import Redact
from pegboard.store.leases import Leases
from pegboard.store.log import Log, history

WAIT_S = 10.0
"""Seconds that a process waits for another one that works on the same session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """Where sessions are kept.

    Attributes:
        store: their events and leases.
        chain: what their streams are chained with; None = they are only numbered.
        redact: takes secrets out of a text before it is kept, and says whether there was one.
    """

    store: Store
    chain: Chain | None = None
    redact: Redact | None = None


@dataclass(slots=True, kw_only=True)
class Session:
    """A session that this process works on.

    Attributes:
        key: its name.
        log: its stream.
        events: what the stream held when it was opened; whoever runs in the session adds to it.
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
    lease = await Leases(backing.store).acquire(key, wait_s)
    try:
        log = await Log.open(backing.store, key, chain=backing.chain, redact=backing.redact, run=run)
        session = Session(key=key, log=log, events=await history(backing.store, key))
        try:
            yield session
        finally:
            await log.close()
    finally:
        await lease.release()
