"""ChatDrafts: answers that are shown in a chat while they are written: one message of ours, changed as the text grows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pegboard.bus.media_lines import take_media_lines
from pegboard.bus.split import split
from pegboard.config.channels import ChatAccess
from pegboard.core.call.call import new_id
from pegboard.core.errors import InvalidArguments, ToolError
from pegboard.core.events import Event, ModelReplied, RunFinished, RunResumed, RunStarted, TextPiece
from pegboard.core.session_key import SessionKey
from pegboard.ports.channel import Channel
from pegboard.ports.messages import Destination, OutboundMessage
from pegboard.services.history import History
from pegboard.services.redaction import Redact
from pegboard.store.channels import ChannelRows, Draft
from pegboard.store.runs import RunRow

_SEND_S: Final = 20.0
_MORE: Final = " …"
_FENCE: Final = re.compile(r"^ {0,3}(```|~~~)", re.MULTILINE)
_KEY_BLOCK: Final = "-----BEGIN "

Pause = Callable[[asyncio.Event, float], Awaitable[None]]
"""Waits for an event, at most so many seconds."""


async def pause(event: asyncio.Event, seconds: float) -> None:
    """See Pause."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


@dataclass(slots=True)
class _Writing:
    """The answer of a run that goes on."""

    channel: Channel
    to: Destination
    text: str = ""
    fresh: bool = True
    status: str = ""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class ChatDrafts:
    """A Watcher of the worker that shows what the model writes, where the settings of a channel want that.

    A draft is no message of the outbox: it may fail. The answer that replaces it is one.

    Args:
        history: its store keeps the ids of drafts.
        channels: those on which people write back by name, and whether they show drafts.
        redact: takes secrets out of a text.
        pause: waits between two changes of a message.
    """

    def __init__(
        self,
        history: History,
        channels: Mapping[str, tuple[Channel, ChatAccess]],
        redact: Redact,
        *,
        pause: Pause = pause,
    ) -> None:
        self._history = history
        self._channels = channels
        self._redact = redact
        self._pause = pause
        self._writing: dict[str, _Writing] = {}

    # -- Watcher ------------------------------------------------------------------------------------

    async def on_resume(self, row: RunRow) -> None:
        """See Watcher."""

    def on_event(self, session: str, event: Event) -> None:
        """See Watcher."""
        match event:
            case RunStarted() | RunResumed():
                self._begin(session)
            case TextPiece() if (writing := self._writing.get(session)) is not None:
                writing.text = event.text if writing.fresh else writing.text + event.text
                writing.fresh = False
                writing.changed.set()
            case ModelReplied() if (writing := self._writing.get(session)) is not None:
                writing.fresh = True
            case RunFinished() if (writing := self._writing.get(session)) is not None:
                writing.status = event.status
            case _:
                pass

    def on_pause(self, session: str) -> None:
        """See Watcher."""
        if (writing := self._writing.get(session)) is not None:
            writing.ended.set()
            writing.changed.set()

    # -- the end ------------------------------------------------------------------------------------

    async def end(self, session: str) -> str:
        """Stop writing in a session; the id of the draft that its answer replaces, empty if there is none."""
        writing = self._writing.pop(session, None)
        if writing is not None and writing.task is not None:
            writing.ended.set()
            writing.changed.set()
            await asyncio.wait([writing.task], timeout=_SEND_S)
            writing.task.cancel()
        rows = ChannelRows(self._history.store)
        draft = await rows.draft(session)
        if draft is None:
            return ""
        await rows.save_draft(session, None)
        return draft.id

    async def delete(self, to: Destination, id: str) -> None:
        """Take a draft away that nothing replaces."""
        channel = self._channels.get(to.channel, (None, None))[0]
        if channel is not None and channel.capabilities.delete:
            await _try(channel, OutboundMessage(to=to, id=new_id("draft"), action="delete", target_id=id))

    async def close(self) -> None:
        """Stop writing."""
        tasks = [w.task for w in self._writing.values() if w.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writing.clear()

    # -- writing ------------------------------------------------------------------------------------

    def _begin(self, session: str) -> None:
        try:
            key = SessionKey.parse(session)
        except InvalidArguments:
            return
        channel, access = self._channels.get(key.channel, (None, ChatAccess()))
        if channel is None or not access.stream or session in self._writing:
            return
        if not channel.capabilities.edit or not channel.capabilities.edit_every_s:
            return
        to = Destination(channel=key.channel, chat_id=key.id, thread_id=key.thread)
        writing = self._writing[session] = _Writing(channel, to)
        writing.task = asyncio.create_task(self._write(session, writing))

    async def _write(self, session: str, writing: _Writing) -> None:
        rows = ChannelRows(self._history.store)
        channel, every_s = writing.channel, writing.channel.capabilities.edit_every_s
        draft = await rows.draft(session)
        shown = ""
        while True:
            await writing.changed.wait()
            writing.changed.clear()
            ended = writing.ended.is_set()
            if ended and writing.status != "suspended":
                return  # The answer is sent by whoever ends the run.
            text = self._showable(channel, writing)
            wait_s = every_s
            if text and text != shown:
                message = OutboundMessage(to=writing.to, id=new_id("draft"), content=text, silent=True)
                if draft is None:
                    id, wait_s = await _try(channel, message)
                    if id:
                        draft = Draft(
                            channel=writing.to.channel, chat_id=writing.to.chat_id,
                            thread_id=writing.to.thread_id, id=id,
                        )  # fmt: skip
                        await rows.save_draft(session, draft)
                else:
                    edit = OutboundMessage(
                        to=writing.to, id=message.id, content=text, action="edit", target_id=draft.id
                    )
                    _, wait_s = await _try(channel, edit)
                shown = text
                wait_s = max(wait_s, every_s)
            if ended:
                # What it waits for is asked below it, and the answer comes below that.
                await rows.save_draft(session, None)
                self._writing.pop(session, None)
                return
            await self._pause(writing.ended, wait_s)

    def _showable(self, channel: Channel, writing: _Writing) -> str:
        """What is written so far, without secrets and without a last word that may be half of one."""
        text = writing.text
        if not writing.ended.is_set():
            text = text[: max(text.rfind(" "), text.rfind("\n")) + 1]
            begin = text.rfind(_KEY_BLOCK)
            if begin >= 0 and "-----END " not in text[begin:]:
                text = text[:begin]
        can = channel.capabilities
        most = max(1, can.max_chars - can.length(f"{_MORE}\n```")) if can.max_chars else 0
        parts = split(self._redact(take_media_lines(text)[0])[0], most, length=can.length)
        if not parts:
            return ""
        more = "" if writing.ended.is_set() and len(parts) == 1 else _MORE
        fences = _FENCE.findall(parts[0])
        # What stands in a block of code whose end is not written yet.
        return f"{parts[0].rstrip()}{more}" + (f"\n{fences[-1]}" if len(fences) % 2 else "")


async def _try(channel: Channel, message: OutboundMessage) -> tuple[str, float]:
    """The id of a message that was sent, empty if it was not, and the seconds that the other side asks to wait."""
    try:
        async with asyncio.timeout(_SEND_S):
            return await channel.send(message, message.id), 0.0
    except ToolError as error:
        asked = error.details.get("retry_after_s", 0)
        return "", float(asked) if isinstance(asked, int | float) else 0.0
    except OSError:
        return "", 0.0
