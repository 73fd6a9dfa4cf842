"""Streams: what lies between the bytes of a streamed response and the SDK that reads them as events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from typing import Any, Final

from pegboard.models.failures import Endpoint, no_stream

_BOM: Final = b"\xef\xbb\xbf"
_OTHER: Final = (b"<", b"{", b"[")
"""How a page, or JSON without a stream, begins; no line of an event stream does (WHATWG HTML §9.2.5)."""
_READ: Final = 65_536

Hook = Callable[[Any], Awaitable[None]]


def watched(endpoint: Endpoint) -> dict[str, list[Hook]]:
    """`event_hooks` of an SDK's HTTP client: what a streamed response must not be is told before it is read.

    A byte order mark before the first event would lose that event without a word: readers take it for a part of the
    field's name. A page (a login of the network, a proxy's notice) or a JSON object in the place of the stream
    would be an empty stream, and what it says would be lost.
    """

    async def hook(response: Any) -> None:
        plain = response.headers.get("content-encoding", "identity").strip().lower() in ("", "identity")
        if plain and 200 <= response.status_code < 300 and _is_stream(response.request):
            response.stream = _checked(response.stream, endpoint)

    return {"response": [hook]}


def _is_stream(request: Any) -> bool:
    # Inside a text of JSON the quotes would be escaped, so this is the field itself.
    return "alt=sse" in str(request.url.query) or b'"stream":true' in request.content


def _checked(stream: Any, endpoint: Endpoint) -> Any:
    # SDKs differ in which of httpx and its successor they use; each wants streams of its own kind.
    base: Any = import_module(type(stream).__module__.partition(".")[0]).AsyncByteStream

    class Checked(base):  # type: ignore[misc]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            begun = b""
            first = True
            async for piece in stream:
                if not first:
                    yield piece
                    continue
                begun += piece
                if _BOM.startswith(begun):
                    continue
                begun = begun.removeprefix(_BOM)
                start = begun.lstrip()
                if not start:
                    continue
                if start.startswith(_OTHER):
                    if len(begun) < _READ:
                        continue
                    break
                first = False
                yield begun
            if first and begun.lstrip().startswith(_OTHER):
                raise no_stream(begun[:_READ].decode("utf-8", "replace"), endpoint)

        async def aclose(self) -> None:
            await stream.aclose()

    return Checked()
