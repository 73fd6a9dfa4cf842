"""Outbox: messages to people, each kept until it was delivered once, or was given up for a person to see."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from pegboard.core.errors import NotFound
from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.messages import Attachment, Button, Destination, OutboundMessage
from pegboard.ports.store import Conflict, Put, Rows, Store
from pegboard.store.table import Table, after_prefix

Status: TypeAlias = Literal["waiting", "sending", "sent", "dead"]

_DUE: Final = "outbox_due"
_CHATS: Final = "outbox_chats"
_FILES: Final = "outbox_files"
_ENDED: Final = "outbox_ended"
_RUNS: Final = "outbox_runs"
KEEP_SENT_S: Final = 7 * 86400.0
"""Seconds for which a delivered message is kept, and a second one of its id is the same."""
KEEP_DEAD_S: Final = 30 * 86400.0
"""Seconds for which one that was given up is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxItem:
    """A message and how far it has come.

    Attributes:
        message: without the bytes of its media.
        parts: the texts that it is sent as, in order; none where it has no text.
        status: `waiting`; `sending` while a process hands over a part; `sent`; `dead`.
        sent: ids of the parts that arrived, as the channel names them.
        attempts: how often the next part was tried.
        next_at: when it is tried, seconds since the epoch.
        error: why the last attempt failed.
        created_at: seconds since the epoch, later than those before it in its chat.
        ended_at: when it was sent or given up; 0 = neither.
        session, run: who sent it.
    """

    message: OutboundMessage
    parts: tuple[str, ...] = ()
    status: Status = "waiting"
    sent: tuple[str, ...] = ()
    attempts: int = 0
    next_at: float = 0.0
    error: str = ""
    created_at: float = 0.0
    ended_at: float = 0.0
    session: str = ""
    run: str = ""

    @property
    def id(self) -> str:
        """The message's."""
        return self.message.id

    @property
    def count(self) -> int:
        """Into how many parts it is split."""
        return max(1, len(self.parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """An item as it was read, with the version of its row."""

    item: OutboxItem
    version: int = field(repr=False)


class Outbox:
    """The messages of a store that go to people.

    A message's row, its place in the index by due time and its place in its chat are written together, and only where
    the row is as it was read. Whoever delivers holds the lease of the chat, so that messages of one chat stay in order.

    Args:
        store: where they are.
        clock: tells the time.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._now = (clock or SystemClock()).now
        self._table = Table(store, "outbox", _to_json, _from_json)

    async def add(
        self, message: OutboundMessage, parts: Sequence[str] = (), *, session: str = "", run: str = ""
    ) -> OutboxItem:
        """Keep a message; what became of it where one of its id is there already."""
        chat = chat_of(message.to)
        files = [Put(_FILES, f"{message.id}\x1f{n:02}", file.data, 0) for n, file in enumerate(message.media)]
        bare = tuple(replace(f, data=b"", size=len(f.data)) for f in message.media)
        while True:
            there, _ = await self._table.versioned(message.id)
            if there is not None:
                return there
            last = await self._store.scan(_CHATS, start=f"{chat}\x1f", end=after_prefix(f"{chat}\x1f"),
                                          reverse=True, limit=1)  # fmt: skip
            after = float(last[0].key.split("\x1f")[1]) + 1e-6 if last else 0.0
            now = max(self._now(), after)
            item = OutboxItem(
                message=replace(message, media=bare), parts=tuple(parts), next_at=now, created_at=now, session=session,
                run=run,
            )  # fmt: skip
            try:
                await self._store.put(
                    self._table.put_of(item.id, item, expected=0), *_index(None, item), *files
                )
            except Conflict:
                continue
            return item

    async def get(self, id: str) -> StoredItem:
        """A message by its id.

        Raises:
            NotFound: there is none.
        """
        found, version = await self._table.versioned(id)
        if found is None:
            raise NotFound(f"no message has the id {id!r:.80}", hint="List the messages to see their ids.")
        return StoredItem(item=found, version=version)

    async def beginning(self, prefix: str) -> Sequence[str]:
        """At most two ids that begin so."""
        return [*await self._table.scan(prefix=prefix, limit=2)]

    async def list(
        self, *, status: str = "", run: str = "", limit: int | None = None
    ) -> Sequence[OutboxItem]:
        """The messages, newest first."""
        items = [
            i
            for i in (await self._table.scan()).values()
            if (not status or i.status == status) and (not run or i.run == run)
        ]
        return sorted(items, key=lambda i: (i.created_at, i.id), reverse=True)[:limit]

    async def of_run(self, run: str) -> Sequence[OutboxItem]:
        """The messages that a run has sent, or its answer, oldest first."""
        rows = await self._store.scan(_RUNS, start=f"{run}\x1f", end=after_prefix(f"{run}\x1f"))
        found = await self._table.get_all([row.value.decode() for row in rows]) if run else []
        return sorted(found, key=lambda i: i.created_at)

    async def due(self, limit: int = 100) -> Sequence[str]:
        """The chats with a message that is due, the most overdue first."""
        rows = await self._store.scan(_DUE, end=f"{_place(self._now())}\U0010ffff", limit=limit)
        return list(dict.fromkeys(row.value.decode() for row in rows))

    async def first(self, chat: str) -> StoredItem | None:
        """The oldest message of a chat that was neither sent nor given up; None without any."""
        for row in await self._store.scan(
            _CHATS, start=f"{chat}\x1f", end=after_prefix(f"{chat}\x1f"), limit=1
        ):
            found, version = await self._table.versioned(row.key.split("\x1f")[2])
            if found is not None:
                return StoredItem(item=found, version=version)
        return None

    async def whole(self, item: OutboxItem) -> OutboundMessage:
        """The message with the bytes of its media."""
        rows = await self._store.scan(_FILES, start=f"{item.id}\x1f", end=after_prefix(f"{item.id}\x1f"))
        media = [replace(file, data=row.value) for file, row in zip(item.message.media, rows, strict=True)]
        return replace(item.message, media=tuple(media))

    async def change(self, before: StoredItem, **changes: Any) -> StoredItem:
        """Replace a message that has not changed since it was read.

        Raises:
            Conflict: it has.
        """
        after = replace(before.item, **changes)
        if after.status in ("sent", "dead") and not after.ended_at:
            after = replace(after, ended_at=self._now())
        put = self._table.put_of(after.id, after, expected=before.version)
        versions = await self._store.put(put, *_index(before.item, after))
        return StoredItem(item=after, version=versions[0])

    async def postpone(self, chat: str, until: float) -> None:
        """Let the messages of a chat that are due wait for its first one, which is tried again at `until`."""
        rows = await self._store.scan(_CHATS, start=f"{chat}\x1f", end=after_prefix(f"{chat}\x1f"), limit=100)
        for row in rows:
            found, version = await self._table.versioned(row.key.split("\x1f")[2])
            if found is not None and found.status == "waiting" and found.next_at < until:
                await self.change(StoredItem(item=found, version=version), next_at=until)

    async def drop(self, id: str) -> OutboxItem:
        """Forget a message; what it was.

        Raises:
            NotFound: there is none.
        """
        while True:
            found = await self.get(id)
            try:
                await self._store.put(Put("outbox", id, None, found.version), *_index(found.item, None))
            except Conflict:
                continue
            await self._store.delete(Rows(_FILES, f"{id}\x1f", after_prefix(f"{id}\x1f")))
            return found.item

    async def drop_old(self, limit: int = 100) -> None:
        """Forget messages whose time has passed since they were sent or given up."""
        for row in await self._store.scan(_ENDED, end=f"{_place(self._now())}\U0010ffff", limit=limit):
            id = row.value.decode()
            if await self._table.get(id) is not None:
                await self.drop(id)


def chat_of(to: Destination) -> str:
    """A short key of a chat; its parts may hold anything."""
    return hashlib.sha256(json.dumps(asdict(to), sort_keys=True).encode()).hexdigest()[:32]


def _index(before: OutboxItem | None, after: OutboxItem | None) -> Sequence[Put]:
    """The Puts that move a message in the three indexes; its own row guards them."""
    old, new = _places(before), _places(after)
    puts = [Put(table, key, None) for (table, key) in old if (table, key) not in new]
    return puts + [Put(table, key, value) for (table, key), value in new.items() if (table, key) not in old]


def _places(item: OutboxItem | None) -> dict[tuple[str, str], bytes]:
    if item is None:
        return {}
    places = {(_RUNS, f"{item.run}\x1f{item.id}"): item.id.encode()} if item.run else {}
    if item.ended_at:
        keep = KEEP_SENT_S if item.status == "sent" else KEEP_DEAD_S
        return places | {(_ENDED, f"{_place(item.ended_at + keep)}\x1f{item.id}"): item.id.encode()}
    chat = chat_of(item.message.to)
    return places | {
        (_DUE, f"{_place(item.next_at)}\x1f{item.id}"): chat.encode(),
        (_CHATS, f"{chat}\x1f{_place(item.created_at)}\x1f{item.id}"): b"",
    }


def _place(at: float) -> str:
    """A time as text in the order of time."""
    return f"{max(0.0, at):019.6f}"


def _to_json(item: OutboxItem) -> dict[str, Any]:
    value = asdict(item)
    for file in value["message"]["media"]:
        del file["data"]
    return value


def _from_json(value: Mapping[str, Any]) -> OutboxItem:
    sent = dict(value["message"])
    sent["to"] = Destination(**sent["to"])
    sent["media"] = tuple(Attachment(**one) for one in sent["media"])
    sent["buttons"] = tuple(Button(**one) for one in sent["buttons"])
    sent["options"], sent["labels"] = tuple(sent["options"]), tuple(sent["labels"])
    read: dict[str, Any] = {
        **value, "message": OutboundMessage(**sent), "parts": tuple(value["parts"]), "sent": tuple(value["sent"])
    }  # fmt: skip
    return OutboxItem(**read)
