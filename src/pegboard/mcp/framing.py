"""A server's output as messages, within limits; what cannot be read answers the request it belongs to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, cast

from pegboard.core.errors import ToolError

Json = dict[str, Any]

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message; a longer one is dropped while it arrives."""

_EDGE: Final = 4096
_BOM: Final = b"\xef\xbb\xbf"
"""May be ignored (RFC 8259 §8.1); some programs begin their output with it."""
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,18}|"(?:[^"\\]|\\.){0,200}")')


class Oversized:
    """A message over the size limit, of which only its edges are known."""

    def __init__(self, head: bytes, limit: int) -> None:
        self.head = head
        self.tail = b""
        self._limit = limit

    @property
    def id(self) -> str | int | None:
        """The id that it names, None where that is not to be seen."""
        return _id_of(self.head, self.tail)

    def answer(self) -> Json | None:
        """What stands for the answer that it would have been, None where its id is not to be seen."""
        return _unreadable(self.head, self.tail, f"over {size_text(self._limit)} and was dropped")


def size_text(count: int) -> str:
    """So many bytes, in MiB where it is one or more."""
    return f"{count / (1 << 20):g} MiB" if count >= 1 << 20 else f"{count} bytes"


class LineSplitter:
    """Cuts a byte stream into lines; one over the limit is dropped as it arrives, its edges are kept."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._over: Oversized | None = None

    def feed(self, chunk: bytes) -> list[bytes | Oversized]:
        """The lines that this chunk completes."""
        out: list[bytes | Oversized] = []
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._take(piece)
            out.append(self._finish())
        if rest:
            self._take(rest)
        return [line for line in out if not isinstance(line, bytes) or line.strip()]

    def _take(self, piece: bytes) -> None:
        if self._over is not None:
            self._over.tail = (self._over.tail + piece)[-_EDGE:]
            return
        self._size += len(piece)
        self._parts.append(piece)
        if self._size > self._limit:
            self._over = Oversized(self._parts[0][:_EDGE], self._limit)
            self._over.tail = piece[-_EDGE:]
            self._parts = []

    def _finish(self) -> bytes | Oversized:
        line: bytes | Oversized = b"".join(self._parts) if self._over is None else self._over
        self._parts, self._size, self._over = [], 0, None
        return line


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Several messages in one, whatever each of them is (JSON-RPC 2.0 §6)."""

    entries: list[Any]


def parse(line: bytes) -> Json | MessageBatch | None:
    """A line as a message; `unreadable` says why where only its id can be read; None where it is garbage."""
    try:
        value: Any = _DECODER.decode(line.removeprefix(_BOM).decode("utf-8", "replace"))
        if b"\\ud" in line or b"\\uD" in line:
            # Lone surrogates are legal JSON escapes and no legal text; they are replaced.
            value = _without_surrogates(value)
    except (ValueError, RecursionError) as error:
        return _unreadable(line[:_EDGE], line[-_EDGE:], f"not JSON that can be read ({type(error).__name__})")
    if isinstance(value, list):
        return MessageBatch(cast("list[Any]", value))
    if not isinstance(value, dict) or cast("Json", value).get("jsonrpc") != "2.0":
        return None
    return cast("Json", value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    # 1e999 is a JSON number, but none of ours: written again it would be `Infinity`.
    return value if isfinite(value) else _no_constant(digits[:40])


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        table = cast("Json", value)
        return {_without_surrogates(k): _without_surrogates(v) for k, v in table.items()}
    if isinstance(value, list):
        return [_without_surrogates(v) for v in cast("list[Any]", value)]
    return value


def _unreadable(head: bytes, tail: bytes, why: str) -> Json | None:
    id = _id_of(head, tail)
    if id is None or (b'"jsonrpc"' not in head and b'"jsonrpc"' not in tail):
        return None
    return {"jsonrpc": "2.0", "id": id, "unreadable": why}


def _id_of(head: bytes, tail: bytes) -> str | int | None:
    """A message's own id, before or behind everything nested: an id further in belongs to something else."""
    before = re.split(rb"[{\[]", head.partition(b"{")[2], maxsplit=1)[0]
    behind = re.split(rb"[}\]]", tail.rstrip().removesuffix(b"}"))[-1]
    found = _ID.search(before) or _ID.search(behind)
    if found is None:
        return None
    try:
        return json.loads(found[1])
    except ValueError:
        # What is broken is the id itself: 007, or a text that is none.
        return None


def unreadable_result(server: str, what: str, why: str) -> ToolError:
    """That a call has run and what came of it cannot be known."""
    return ToolError(
        f"{what} of MCP server {server!r} has run, but its answer cannot be read: it is {why}",
        code="result_unreadable",
        hint="Do not repeat it blindly: find out first what it did.",
        details={"server": server},
    )
