"""ASGI: heads, bodies and plain answers of HTTP requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

Json: TypeAlias = dict[str, Any]
Scope: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
SendEvent: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]

MAX_BODY: Final = 4 * 1024 * 1024
_BODY_S: Final = 30.0
_JSON: Final = (b"content-type", b"application/json")


def headers_of(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; one that came twice holds both values with a NUL between, which no header has."""
    out: dict[str, str] = {}
    for key, value in cast("list[tuple[bytes, bytes]]", scope["headers"]):
        name, text = key.decode("latin-1").lower(), value.decode("latin-1")
        out[name] = f"{out[name]}\0{text}" if name in out else text
    return out


def accepts(header: str, wanted: str) -> bool:
    """Whether an Accept header takes a media type."""
    kinds = [part.partition(";")[0].strip().lower() for part in header.replace("\0", ",").split(",")]
    return any(k in (wanted, "*/*", wanted.partition("/")[0] + "/*") for k in kinds)


async def json_answer(
    send: SendEvent, status: int, value: Json | list[Json], extra: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with a JSON value."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = [_JSON, (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def plain_answer(
    send: SendEvent, status: int, text: str, extra: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with a line of text."""
    body = text.encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        *extra,
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def lifespan(receive: Receive, send: SendEvent) -> None:
    """The protocol's start and end, where a server speaks it."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


async def body_of(headers: Mapping[str, str], receive: Receive, send: SendEvent) -> bytes | None:
    """The whole body; None where it was too long or too slow and has been answered."""
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > MAX_BODY:
        await plain_answer(send, 413, f"a message may have {MAX_BODY} bytes", [(b"connection", b"close")])
        return None
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                event = await receive()
                if event["type"] == "http.disconnect":
                    return None
                part = event.get("body", b"")
                size += len(part)
                if size > MAX_BODY:
                    await plain_answer(
                        send, 413, f"a message may have {MAX_BODY} bytes", [(b"connection", b"close")]
                    )
                    return None
                parts.append(part)
                if not event.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        await plain_answer(send, 408, "the body came too slowly", [(b"connection", b"close")])
        return None
