"""Standard input where nobody types it: its lines one by one, or all of it."""

from __future__ import annotations

import asyncio
import os
import queue
import select
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import IO

from pegboard.cli.show import print_note
from pegboard.core.errors import BuildError

_MOST_BYTES = 65_536
_MOST_TASK_BYTES = 4_000_000
_PATIENCE_S = 3.0


def read_all(*, wanted: bool) -> str:
    """All of standard input as text.

    Args:
        wanted: wait for it however long it takes; else input that sends no byte within 3 seconds is left alone.

    Raises:
        BuildError: it is longer than 4 MB.
    """
    try:
        descriptor = sys.stdin.fileno()
    except OSError:  # A test's or a host program's own stream.
        data = sys.stdin.buffer.read()
    else:
        if not select.select([descriptor], [], [], _PATIENCE_S)[0]:
            if not wanted:
                print_note("note: nothing came on standard input within 3 s; continuing without it")
                return ""
            print_note("note: waiting for the task on standard input")
        data = b""
        while len(data) <= _MOST_TASK_BYTES and (more := os.read(descriptor, _MOST_BYTES)):
            data += more
    if len(data) > _MOST_TASK_BYTES:
        raise BuildError(
            "standard input is longer than 4 MB; save it in a file of the workspace and name the file in the task"
        )
    return data.decode("utf-8-sig", "replace")


class StdinLines:
    """Lines of a pipe, file or device, each read when somebody asks for it.

    A thread reads, since no event loop can wait for a file, and straight from the descriptor: a thread that stands
    in Python's own buffered reader when the program ends takes the end of the program with it.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._asked: queue.SimpleQueue[asyncio.AbstractEventLoop] = queue.SimpleQueue()
        self._waiting: deque[asyncio.Future[str]] = deque()
        self._unwanted: list[str] = []
        self._thread: threading.Thread | None = None

    async def line(self) -> str:
        """The next line, without its end.

        Raises:
            EOFError: the input has ended.
        """
        if self._unwanted:
            return self._unwanted.pop(0)
        if self._thread is None:
            self._thread = threading.Thread(target=self._read, name="pegboard-lines", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        wanted: asyncio.Future[str] = loop.create_future()
        self._waiting.append(wanted)
        self._asked.put(loop)
        return await wanted

    async def message(self) -> str:
        """The next line; one with a backslash at its end goes on in the one behind it.

        Raises:
            EOFError: the input has ended.
        """
        text = await self.line()
        while text.endswith("\\"):
            try:
                text = f"{text[:-1]}\n{await self.line()}"
            except EOFError:
                return text[:-1]
        return text

    def _read(self) -> None:
        descriptor = self._file.fileno()
        begun = bytearray()
        ended, first = False, True
        while True:
            loop = self._asked.get()
            seen = 0
            while (end := begun.find(b"\n", seen)) < 0 and not ended:
                seen = len(begun)
                try:
                    data = os.read(descriptor, _MOST_BYTES)
                except OSError:
                    data = b""
                ended = not data
                begun += data
            over = end < 0 and not begun
            line = bytes(begun if end < 0 else begun[:end])
            del begun[: len(begun) if end < 0 else end + 1]
            # An editor's byte order mark before the first line is no part of it.
            text = line.decode("utf-8-sig" if first else "utf-8", "replace").removesuffix("\r")
            first = False
            with suppress(RuntimeError):  # The loop has ended: nobody asks any more.
                loop.call_soon_threadsafe(self._give, None if over else text)

    def _give(self, text: str | None) -> None:
        # Who asked may not have waited so long: then the line is the next one's.
        wanted = next((w for w in iter(self._next, None) if not w.done()), None)
        if wanted is None:
            if text is not None:
                self._unwanted.append(text)
        elif text is None:
            wanted.set_exception(EOFError())
        else:
            wanted.set_result(text)

    def _next(self) -> asyncio.Future[str] | None:
        return self._waiting.popleft() if self._waiting else None
