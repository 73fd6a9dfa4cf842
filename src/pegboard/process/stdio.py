"""Standard input and output as streams of an event loop, for programs that speak a protocol there."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Final

CHUNK: Final = 1 << 16
_LEAVE_S: Final = 2.0


def claim_stdout() -> int:
    """A descriptor of the real standard output; whatever prints from now on goes to standard error instead."""
    sys.stdout.flush()
    real = os.dup(1)
    os.dup2(2, 1)
    return real


@asynccontextmanager
async def open_streams(
    source: int = 0, sink: int = 1
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A reader and a writer of two descriptors, of pipes or of files; both are closed at the end.

    What was written has left this process at the end, if the other side reads it within 2 seconds.

    Args:
        source, sink: descriptors, of pipes as hosts give them, or of files (`< calls.jsonl > answers.jsonl`,
            `/dev/null`).
    """
    loop = asyncio.get_running_loop()
    source, _ = _piped(source, reads=True)
    sink, written = _piped(sink, reads=False)
    reader = asyncio.StreamReader(limit=CHUNK)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", 0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(sink, "wb", 0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError, OSError, TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                await writer.wait_closed()
        if written is not None:
            await asyncio.to_thread(written.join, _LEAVE_S)


def _piped(fd: int, *, reads: bool) -> tuple[int, threading.Thread | None]:
    """A descriptor that an event loop can wait for: a file's bytes go through a pipe and a thread."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd):
        return fd, None
    out, into = os.pipe()
    ends = (fd, into) if reads else (out, fd)
    thread = threading.Thread(target=_copy, args=ends, name="pegboard-stdio", daemon=True)
    thread.start()
    return (out if reads else into), thread


def _copy(source: int, sink: int) -> None:
    with suppress(OSError), os.fdopen(source, "rb", 0) as read, os.fdopen(sink, "wb", 0) as write:
        while chunk := read.read(CHUNK):
            write.write(chunk)
