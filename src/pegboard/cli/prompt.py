"""read_line: one line from the person at the terminal, without a thread that Ctrl-C would wait for."""

from __future__ import annotations

import asyncio
import os
import sys

from pegboard.cli.status import LINE

_MOST_BYTES = 65_536


async def read_line(prompt: str) -> str | None:
    """The line without its end, None where the input has ended."""
    with LINE.hidden():
        sys.stdout.write(prompt)
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[bytes] = loop.create_future()
        descriptor = sys.stdin.fileno()

        def read() -> None:
            # A terminal hands over whole lines, so that this never waits.
            if not ready.done():
                try:
                    ready.set_result(os.read(descriptor, _MOST_BYTES))
                except OSError:
                    ready.set_result(b"")  # The terminal is gone.

        loop.add_reader(descriptor, read)
        try:
            data = await ready
        finally:
            loop.remove_reader(descriptor)
    return data.decode("utf-8", "replace").rstrip("\r\n") if data else None
