"""SessionMessages: what sessions have said to each other, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pegboard.ports.store import Conflict, Put, Row, Store
from pegboard.store.table import Table, after_prefix

KEPT_S: Final = 7 * 86400.0
"""Seconds after which a message is forgotten."""
_BY_SENDER: Final = "session_messages_by_sender"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message from one session to another.

    Attributes:
        id, sender, receiver: its id in the receiver's inbox, and the sessions' keys.
        at: seconds since the epoch.
        turn: 1 for the first of a chain of messages that answer each other.
        waits: the sender wants the answer; `late`: it has stopped waiting, and gets it as a message.
        status, answer, error, labels: how the run that read it ended; empty before that.
    """

    id: str
    sender: str
    receiver: str
    at: float
    turn: int = 1
    waits: bool = False
    late: bool = False
    status: str = ""
    answer: str = ""
    error: str = ""
    labels: tuple[str, ...] = ()


class SessionMessages:
    """The messages of a store, by id and by sender."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._table = Table[SentMessage](store, "session_messages", asdict, _sent)

    async def add(self, message: SentMessage, *puts: Put) -> None:
        """Keep a new one, in one transaction with `puts`.

        Raises:
            Conflict: it is there, or one of the puts is not new.
        """
        await self._store.put(
            self._table.put_of(message.id, message, expected=0),
            Put(_BY_SENDER, f"{message.sender}\x1f{message.at:017.6f} {message.id}", message.id.encode()),
            *puts,
        )

    async def get(self, id: str) -> SentMessage | None:
        """One by its id, None if there is none."""
        return await self._table.get(id)

    async def sent(self, sender: str, *, since: float) -> list[SentMessage]:
        """What a session has sent since a time, oldest first."""
        prefix = f"{sender}\x1f"
        start = f"{prefix}{max(since, 0.0):017.6f}"
        return await self._found(
            await self._store.scan(_BY_SENDER, start=start, end=after_prefix(prefix), limit=100)
        )

    async def change(
        self,
        id: str,
        change: Callable[[SentMessage], SentMessage],
        puts: Callable[[SentMessage], Sequence[Put]],
    ) -> SentMessage | None:
        """Replace one by what `change` makes of it, in one transaction with `puts` of that; what it is then.

        Raises:
            Conflict: one of the puts is not new.
        """
        while True:
            before, version = await self._table.versioned(id)
            if before is None:
                return None
            after = change(before)
            if after == before:
                return after
            try:
                await self._store.put(self._table.put_of(id, after, expected=version), *puts(after))
            except Conflict:
                if (await self._table.versioned(id))[1] == version:
                    raise
                continue
            return after

    async def prune(self, sender: str, *, before: float) -> None:
        """Forget what a session has sent before a time."""
        prefix = f"{sender}\x1f"
        rows = await self._store.scan(
            _BY_SENDER, start=prefix, end=f"{prefix}{max(before, 0.0):017.6f}", limit=100
        )
        if rows:
            gone = [Put("session_messages", row.value.decode(), None) for row in rows]
            await self._store.put(*gone, *(Put(_BY_SENDER, row.key, None) for row in rows))

    async def purge(self, *, before: float) -> None:
        """Forget what all sessions have sent before a time."""
        old = {key for key, message in (await self._table.scan()).items() if message.at < before}
        rows = [row for row in await self._store.scan(_BY_SENDER) if row.value.decode() in old]
        gone = [Put("session_messages", id, None) for id in sorted(old)]
        if gone:
            await self._store.put(*gone, *(Put(_BY_SENDER, row.key, None) for row in rows))

    async def _found(self, rows: Sequence[Row]) -> list[SentMessage]:
        return await self._table.get_all([row.value.decode() for row in rows])


def _sent(value: dict[str, Any]) -> SentMessage:
    return replace(SentMessage(**value), labels=tuple(value["labels"]))
