"""Inbox: messages for sessions, each kept until a run has read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.messages import Destination, InboundMessage
from pegboard.ports.store import Conflict, Put, Store
from pegboard.store.table import Table

_TABLE = "inbox"


class Inbox:
    """The messages of a store that no run has read yet.

    Whoever reads them records each with its id first and drops it then: a message that is still here after a crash
    and whose id stands in the session's stream was read.

    Args:
        store: where they are.
        clock: gives each its time.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._now = (clock or SystemClock()).now
        self._table = Table(store, _TABLE, asdict, _message)

    async def add(self, message: InboundMessage) -> bool:
        """Keep a message; False if one of its id waits for that session already."""
        try:
            await self._store.put(self.put_of(message))
        except Conflict:
            return False
        return True

    def put_of(self, message: InboundMessage) -> Put:
        """The Put that keeps a message, for a transaction with others; it conflicts where the message is there."""
        stamped = message if message.at else replace(message, at=self._now())
        return self._table.put_of(_key(message), stamped, expected=0)

    async def waiting(self, session: str) -> list[InboundMessage]:
        """The messages for a session, oldest first."""
        return sorted((await self._table.scan(prefix=f"{session}\x1f")).values(), key=lambda m: (m.at, m.id))

    async def holds(self, session: str, message: str) -> bool:
        """Whether a message of this id waits for a session."""
        return await self._store.get(_TABLE, f"{session}\x1f{message}") is not None

    async def all(self) -> list[InboundMessage]:
        """All messages, oldest first."""
        return sorted((await self._table.scan()).values(), key=lambda m: (m.at, m.id))

    async def drop(self, messages: Iterable[InboundMessage]) -> None:
        """Forget messages that were read."""
        await self._store.put(*(Put(_TABLE, _key(m), None) for m in messages))


def _key(message: InboundMessage) -> str:
    return f"{message.session}\x1f{message.id}"


def _message(value: dict[str, Any]) -> InboundMessage:
    reply = value["reply"]
    read: dict[str, Any] = {
        **value,
        "labels": tuple(value["labels"]),
        "media": tuple(value["media"]),
        "reply": None if reply is None else Destination(**reply),
    }
    return InboundMessage(**read)
