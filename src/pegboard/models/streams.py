"""Streams: what lies between the bytes of a streamed response and the SDK that reads them as events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from pegboard.models.failures import Endpoint, no_stream

_BOM: Final = b"\xef\xbb\xbf"
_OTHER: Final = (b"<", b"{", b"[")
"""How a page, or JSON without a stream, begins; no line of an event stream does (WHATWG HTML §9.2.5)."""
_WHOLE: Final = 16 * 1024 * 1024
"""Of a reply without a stream at most so many bytes are read."""
_WITHOUT_DATA: Final = (b":", b"retry:", b"id:")

Hook = Callable[[Any], Awaitable[None]]


def watched(endpoint: Endpoint, *, named: bool = True) -> dict[str, list[Hook]]:
    """`event_hooks` of an SDK's HTTP client: what a streamed response must not be is told before it is read.

    A byte order mark before the first event would lose that event without a word: readers take it for a part of the
    field's name. A page (a login of the network, a proxy's notice) or a JSON object in the place of the stream
    would be an empty stream, and what it says would be lost. Lines that bring no data (comments, which keep a
    connection alive, `retry` and `id`) are taken out: readers differ in what they make of them.

    Args:
        endpoint: where requests go.
        named: whether the SDK reads the names of events; one that does not takes them for data.
    """
    passed_over = _WITHOUT_DATA if named else (*_WITHOUT_DATA, b"event:")

    async def hook(response: Any) -> None:
        plain = response.headers.get("content-encoding", "identity").strip().lower() in ("", "identity")
        if not (200 <= response.status_code < 300 and _is_stream(response.request)):
            return
        if plain:
            response.stream = _checked(response.stream, endpoint, _Lines(passed_over))
        elif "json" in response.headers.get("content-type", ""):
            await response.aread()
            raise no_stream(response.text, endpoint)

    return {"response": [hook]}


def _is_stream(request: Any) -> bool:
    # Inside a text of JSON the quotes would be escaped, so this is the field itself.
    return "alt=sse" in str(request.url.query) or b'"stream":true' in request.content


class _Lines:
    """A stream's lines without those that bring no data, in whatever pieces they come."""

    def __init__(self, passed_over: tuple[bytes, ...]) -> None:
        self._passed_over = passed_over
        self._longest = max(map(len, passed_over))
        self._begun = b""
        self._inside: bool | None = None
        """Whether the line that goes on is one to keep; None at the beginning of a line."""
        self._last = b""

    def keep(self, piece: bytes) -> bytes:
        """What of a piece is for the reader; the beginning of a line waits until it can be told what it is."""
        data = self._begun + piece
        self._begun = b""
        out: list[bytes] = []
        place = 0
        while place < len(data):
            end = data.find(b"\n", place) + 1
            if self._inside is None:
                head = data[place : place + self._longest]
                if (
                    not end
                    and len(head) < self._longest
                    and any(p.startswith(head) for p in self._passed_over)
                ):
                    self._begun = head
                    break
                self._inside = not head.startswith(self._passed_over)
            line = data[place : end or len(data)]
            if self._inside:
                out.append(line)
            self._last = line if line.strip() else self._last
            place += len(line)
            if end:
                self._inside = None
        return b"".join(out)

    def rest(self) -> bytes:
        """The end of the last event, where a server leaves that out and the line is a whole object all the same."""
        return b"\n\n" if self._last.rstrip().endswith(b"}") else b""


def _checked(stream: Any, endpoint: Endpoint, lines: _Lines) -> Any:
    import httpx2

    class Checked(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            begun = b""
            first = True
            async for piece in stream:
                if not first:
                    if kept := lines.keep(piece):
                        yield kept
                    continue
                begun += piece
                if _BOM.startswith(begun):
                    continue
                begun = begun.removeprefix(_BOM)
                start = begun.lstrip()
                if not start:
                    continue
                if start.startswith(_OTHER):
                    if len(begun) < _WHOLE:
                        continue
                    break
                first = False
                if kept := lines.keep(begun):
                    yield kept
            yield lines.rest()
            if first and begun.lstrip().startswith(_OTHER):
                raise no_stream(begun.decode("utf-8", "replace"), endpoint)

        async def aclose(self) -> None:
            await stream.aclose()

    return Checked()
