"""ChannelRows: how far each chat channel has come, what it has taken already, and how it does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from pegboard.core.limits import Clock, SystemClock
from pegboard.ports.store import Conflict, Put, Store
from pegboard.store.table import Table

KEEP_SEEN_S: Final = 14 * 86400.0
"""Seconds for which a message that a platform hands over again is known."""

State: TypeAlias = Literal["connected", "waiting", "failed", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A message that was taken: when, and who wrote it."""

    at: float
    sender: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState:
    """How a channel does.

    Attributes:
        state: `connected`; `waiting` to connect again; `failed` for good, until somebody changes something; `stopped`.
        since: seconds since the epoch.
        error: why it is not connected.
        last: when the last message came; 0 = none did.
    """

    state: State
    since: float
    error: str = ""
    last: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The message in which an answer is shown while it is written.

    Attributes:
        channel, chat_id, thread_id: where it stands.
        id: what the channel names it by.
    """

    channel: str
    chat_id: str
    thread_id: str
    id: str


class ChannelRows:
    """The rows of a store that chat channels keep.

    Args:
        store: where they are.
        clock: tells the time.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._now = (clock or SystemClock()).now
        self._seen = Table(store, "channel_seen", asdict, lambda value: Seen(**value))
        self._cursors: Table[str] = Table(store, "channel_cursors", str, str)
        self._states = Table(store, "channel_states", asdict, _state)
        self._drafts = Table(store, "channel_drafts", asdict, lambda value: Draft(**value))

    # -- what came ----------------------------------------------------------------------------------

    async def cursor(self, channel: str) -> str:
        """Where a channel goes on; empty at first."""
        return await self._cursors.get(channel) or ""

    async def save_cursor(self, channel: str, cursor: str) -> None:
        """Keep where a channel goes on."""
        await self._cursors.put(channel, cursor)

    async def seen(self, channel: str, message: str) -> Seen | None:
        """A message that was taken before; None if it was not."""
        return await self._seen.get(f"{channel}\x1f{message}")

    async def take(self, channel: str, message: str, sender: str, cursor: str, puts: Sequence[Put]) -> bool:
        """Keep what comes of a message, that it was taken, and where the channel goes on; all of it, or nothing where
        it was taken before (False)."""
        seen = Seen(at=self._now(), sender=sender)
        first = self._seen.put_of(f"{channel}\x1f{message}", seen, expected=0)
        more = [self._cursors.put_of(channel, cursor)] if cursor else []
        try:
            await self._store.put(first, *more, *puts)
        except Conflict:
            return False
        return True

    async def drop_old(self) -> None:
        """Forget messages that were taken long ago."""
        for key, seen in (await self._seen.scan()).items():
            if self._now() - seen.at > KEEP_SEEN_S:
                await self._seen.delete(key)

    # -- how it does --------------------------------------------------------------------------------

    async def states(self) -> dict[str, ChannelState]:
        """How the channels do, by name."""
        return await self._states.scan()

    async def note(self, channel: str, state: State, error: str = "") -> None:
        """Keep how a channel does."""

        def changed(before: ChannelState | None) -> ChannelState:
            last = 0.0 if before is None else before.last
            if before is not None and (before.state, before.error) == (state, error):
                return before
            return ChannelState(state=state, since=self._now(), error=error, last=last)

        await self._states.change(channel, changed)

    async def note_message(self, channel: str) -> None:
        """Keep that a message came."""

        def changed(before: ChannelState | None) -> ChannelState:
            now = self._now()
            before = before or ChannelState(state="connected", since=now)
            return ChannelState(state=before.state, since=before.since, error=before.error, last=now)

        await self._states.change(channel, changed)

    # -- answers that are being written --------------------------------------------------------------

    async def draft(self, session: str) -> Draft | None:
        """The draft of a session's answer; None without one."""
        return await self._drafts.get(session)

    async def save_draft(self, session: str, draft: Draft | None) -> None:
        """Keep the draft of a session's answer; None = it is none any more."""
        if draft is None:
            with suppress(Conflict):
                await self._drafts.delete(session)
        else:
            await self._drafts.put(session, draft)


def _state(value: dict[str, Any]) -> ChannelState:
    return ChannelState(**value)
