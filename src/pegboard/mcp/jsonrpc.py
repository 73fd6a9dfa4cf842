"""Answers to one message, whatever fails, and to a batch of messages (JSON-RPC 2.0 §6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from pegboard.mcp.request_context import Json, Peer
from pegboard.mcp.server import ToolServer
from pegboard.mcp.wire import BATCHING, INTERNAL_ERROR, INVALID_REQUEST, error_reply

if TYPE_CHECKING:
    from pegboard.net.asgi.sse import EventStream

MAX_BATCH: Final = 100
"""Messages of one batch."""


async def handle_message(
    service: ToolServer, message: Any, peer: Peer, stream: EventStream | None = None
) -> Json | None:
    """The answer to one message, None where it wants none; an error of ours is one without detail."""
    try:
        return await service.handle(message, peer, stream=stream)
    except Exception as error:  # noqa: BLE001  The boundary of a message: one bad answer must not end the others.
        id = cast("Json", message).get("id")
        return error_reply(id, INTERNAL_ERROR, f"the server failed with {type(error).__name__}")


async def handle_batch(
    service: ToolServer, entries: list[Any], peer: Peer | None
) -> Json | list[Json] | None:
    """The answers to a batch, run side by side; one error where it is refused as a whole, None where all want none.

    Only 2025-03-26 has batches; they came with it and went with the next revision.
    """
    if peer is None or peer.version != BATCHING:
        spoken = "none is agreed on" if peer is None or not peer.version else f"this is {peer.version}"
        return error_reply(
            None,
            INVALID_REQUEST,
            f"JSON-RPC batches are part of revision {BATCHING} alone, and {spoken}; send one message at a time",
        )
    if not 0 < len(entries) <= MAX_BATCH:
        return error_reply(
            None, INVALID_REQUEST, f"a batch has 1 to {MAX_BATCH} messages, not {len(entries)}"
        )
    replies = await asyncio.gather(*(_entry(service, entry, peer) for entry in entries))
    return [reply for reply in replies if reply is not None] or None


async def _entry(service: ToolServer, entry: Any, peer: Peer) -> Json | None:
    id: Any = cast("Json", entry).get("id") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(id, str | int) or isinstance(id, bool):
        return await handle_message(service, entry, peer)
    message = cast("Json", entry)
    if "method" not in message:
        return await handle_message(service, message, peer)
    if message["method"] == "initialize":
        return error_reply(id, INVALID_REQUEST, "initialize must not be part of a batch")
    if id in peer.inflight:
        return error_reply(id, INVALID_REQUEST, f"request {id!r} is already running")
    work = peer.inflight[id] = asyncio.ensure_future(handle_message(service, message, peer))
    try:
        return await work
    except asyncio.CancelledError:
        if not work.cancelled() or _ending():
            work.cancel()
            raise
        # The client asked for it and expects no answer (2025-03-26, cancellation).
        return None
    finally:
        if peer.inflight.get(id) is work:
            del peer.inflight[id]


def _ending() -> bool:
    """Whether it is this very task that is to end, and not one that it waits for."""
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0
