"""Server-sent events that a client can resume with Last-Event-ID (WHATWG HTML §9.2)."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from sse_starlette import EventSourceResponse, ServerSentEvent

MAX_KEPT: Final = 256
"""Messages of a stream that can be sent again."""
PING_S: Final = 15.0
_RETRY_MS: Final = 500


class EventStream:
    """JSON messages for one response; the last `MAX_KEPT` are kept, so that a client can resume.

    Args:
        name: the part of its event ids before the number; empty = events have no ids and cannot be resumed.

    Attributes:
        count: messages put so far; the number of the last one.
        ended: no more will come.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.count = 0
        self.ended = False
        self._paused = False
        self._kept: deque[tuple[int, Any]] = deque(maxlen=MAX_KEPT)
        self._changed = asyncio.Event()

    def put(self, message: Any) -> None:
        """Add a message."""
        self.count += 1
        self._kept.append((self.count, message))
        self.wake()

    def end(self) -> None:
        """Say that no more will come; a response ends once it has sent the rest."""
        self.ended = True
        self.wake()

    def pause(self) -> None:
        """End the response although more will come; the client reconnects for the rest."""
        self._paused = True
        self.wake()

    def wake(self) -> None:
        """Let `changed` return."""
        self._changed.set()

    async def changed(self) -> None:
        """Return after the next `put`, `end`, `pause` or `wake`."""
        await self._changed.wait()

    async def events(self, after: int = 0) -> AsyncIterator[ServerSentEvent]:
        """The messages with a number above `after`, until the stream ends or is paused."""
        if self.name:
            # Sent at once, so that a client that loses its connection before the first message can resume too.
            yield ServerSentEvent("", id=f"{self.name}.{after}", retry=_RETRY_MS)
        while True:
            for number, message in [kept for kept in self._kept if kept[0] > after]:
                yield ServerSentEvent(event_text(message), id=f"{self.name}.{number}" if self.name else None)
                after = number
            if after < self.count:
                continue
            if self.ended or self._paused:
                self._paused = False
                return
            self._changed.clear()
            await self._changed.wait()


def parse_event_id(last_event_id: str) -> tuple[str, int]:
    """The stream's name and the message's number of a Last-Event-ID; `("", 0)` if it is none of ours."""
    name, _, number = last_event_id.rpartition(".")
    return (name, int(number)) if number.isascii() and number.isdecimal() and len(number) < 19 else ("", 0)


class EventResponse(EventSourceResponse):
    """The response that sends a stream, with a comment as a sign of life every `PING_S` seconds.

    Args:
        stream: what is sent.
        after: of an EventStream, the number of the last message that the client has.
        headers: further headers.
    """

    def __init__(
        self,
        stream: EventStream | AsyncIterator[ServerSentEvent],
        after: int = 0,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        sent = stream.events(after) if isinstance(stream, EventStream) else stream
        all_headers = {"Cache-Control": "no-cache, no-transform", **(headers or {})}
        super().__init__(sent, headers=all_headers, ping=PING_S)  # pyright: ignore[reportUnknownMemberType]

    async def _listen_for_exit_signal_with_grace(self) -> None:
        # The library would end every stream of the process, for good, once any uvicorn server in it got a signal, and
        # it looks for one twice a second. Whoever puts messages into the stream ends it.
        await asyncio.Event().wait()


def event_text(message: Any) -> str:
    """A message as JSON on one line."""
    # Lone surrogates, which JSON may hold and UTF-8 may not, become question marks.
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()
