"""Streams: what a response of the server says as events, kept so that it can be taken up again."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pegboard.mcp.asgi import Receive, SendEvent
from pegboard.mcp.request_context import Json, RequestContext

PING_S: Final = 15.0
_KEPT: Final = 256
_EVENTS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(slots=True, kw_only=True)
class EventStream:
    """Messages for one response of the server, kept so that a client can take it up again.

    Attributes:
        name: part of its event ids.
        events: `(number, message)`, the last ones.
        done: no more will come.
        wake: set when something came.
        closed_by_us: the response ends although more may come; the client takes it up again.
        first: settled by the first message.
    """

    name: str
    events: deque[tuple[int, Json]] = field(default_factory=lambda: deque[tuple[int, Json]](maxlen=_KEPT))
    count: int = 0
    done: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    closed_by_us: bool = False
    first: asyncio.Future[None] | None = None

    def put(self, message: Json) -> None:
        """Add a message."""
        self.count += 1
        self.events.append((self.count, message))
        self.wake.set()
        if self.first is not None and not self.first.done():
            self.first.set_result(None)

    def end(self) -> None:
        """Nothing more will come."""
        self.done = True
        self.wake.set()


async def finish(work: asyncio.Future[Json | None], id: Any, stream: EventStream) -> None:
    """Put the answer behind what was said in between."""
    try:
        reply = await work
        if reply is not None:
            stream.put(reply)
    except asyncio.CancelledError:
        if not work.cancelled():
            raise
    finally:
        stream.end()


async def stream_out(
    send: SendEvent, receive: Receive, stream: EventStream, after: int, *, ids: bool,
    gone: asyncio.Future[None] | None = None,
) -> None:  # fmt: skip
    """Events of a stream from number `after` on, until it ends or the client goes."""
    own = gone is None
    gone = gone or asyncio.ensure_future(disconnected(receive))
    try:
        await send({"type": "http.response.start", "status": 200, "headers": _EVENTS})
        # Something at once: the client knows that it is connected, and from which event to go on.
        opening = f"id: {stream.name}.{after}\r\nretry: 500\r\ndata: \r\n\r\n" if ids else ": open\r\n\r\n"
        await send({"type": "http.response.body", "body": opening.encode(), "more_body": True})
        while not gone.done():
            stream.wake.clear()
            for number, message in [e for e in stream.events if e[0] > after]:
                data = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
                mark = f"id: {stream.name}.{number}\r\n" if ids else ""
                event = f"event: message\r\n{mark}data: {data}\r\n\r\n".encode("utf-8", "replace")
                await send({"type": "http.response.body", "body": event, "more_body": True})
                after = number
            if (stream.done and after >= stream.count) or stream.closed_by_us:
                break
            if stream.wake.is_set():
                continue
            waiting = asyncio.ensure_future(stream.wake.wait())
            await asyncio.wait({waiting, gone}, timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                if not gone.done():
                    await send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
        stream.closed_by_us = False
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        if own:
            gone.cancel()


def to_stream(message: Json, ctx: RequestContext | None, standalone: EventStream) -> None:
    """Put a message where it belongs: on the stream of its request, else on the one for everything."""
    sink = standalone if ctx is None or ctx.sink is None else cast(EventStream, ctx.sink)
    sink.put(message)


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
