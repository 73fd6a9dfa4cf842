"""Site: a real HTTP server on loopback that answers each path as a test says, byte by byte if it must."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from tests.serving import ending

Write = Callable[[bytes], Awaitable[None]]
Handler = Callable[["Asked", Write], Awaitable[None]]


@dataclass
class Asked:
    """One request: its method, path and headers (names in lower case)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


@dataclass
class Site:
    """What the server answers, and what it was asked."""

    port: int = 0
    pages: dict[str, bytes | Handler] = field(default_factory=dict[str, "bytes | Handler"])
    asked: list[Asked] = field(default_factory=list[Asked])
    greeting: bytes = b""
    tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str) -> str:
        return f"http://{self.place}{path}"

    def answer(
        self,
        path: str,
        body: bytes | str,
        content_type: str = "text/html",
        status: str = "200 OK",
        **headers: str,
    ) -> str:
        """Answer a path with a whole body; the path's URL."""
        data = body.encode("utf-8") if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(data)}", "connection: close"]
        lines += [f"content-type: {content_type}"] if content_type else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.pages[path] = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data
        return self.url(path)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            if self.greeting:
                await write(self.greeting)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(method, path, headers, body)
            self.asked.append(asked)
            page = self.pages.get(
                path.partition("?")[0], b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
            )
            if isinstance(page, bytes):
                await write(page)
            else:
                await page(asked, write)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def site(context: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """A running site on a free port; with a context it speaks TLS."""
    here = Site()
    server = await asyncio.start_server(here.serve, "127.0.0.1", 0, ssl=context)
    here.port = server.sockets[0].getsockname()[1]
    async with ending(server):
        yield here
        for task in list(here.tasks):
            task.cancel()
        await asyncio.gather(*here.tasks, return_exceptions=True)
        await asyncio.sleep(0)  # What was aborted is closed in the next turn of the loop.
