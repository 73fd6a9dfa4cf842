"""Stdio: a server process as a transport of package `mcp`, bounded in every direction.

The process gets an allow-listed environment, its own session and a mark by which its whole tree is found
and ended. Messages are read within a size limit; a line that is too long, too deep or no JSON becomes an
error answer to the request it belongs to, where its id can be read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import INTERNAL_ERROR, JSONRPCError, jsonrpc_message_adapter
from mcp_types.jsonrpc import ErrorData

from pegboard.core.errors import Unavailable
from pegboard.mcp.config import PASSED, ServerConfig
from pegboard.mcp.guardian import Guardian
from pegboard.process import tree
from pegboard.process.ring import Ring
from pegboard.process.spawner import Spawn, spawn

MAX_MESSAGE: Final = 16 * 1024 * 1024
"""Bytes of one message; a longer one is dropped while it arrives."""
MAX_GARBAGE: Final = 20
"""Lines in a row that are no messages, after which the server is given up."""

_GRACE_S: Final = 2.0
_CHUNK: Final = 1 << 16
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,18}|"(?:[^"\\]|\\.){0,200}")')
_MARK: Final = f"mcp{secrets.token_hex(6)}"
_guardians: list[Guardian] = []


class ServerProcess:
    """One started server.

    Attributes:
        pid: its process id.
        stderr: the head and the tail of what it wrote there.
        exit_code: its status once it has ended; negative = killed by that signal.
        fault: why reading was given up, empty where it was not.
    """

    def __init__(self, config: ServerConfig, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self._mark = f"{_MARK}.{secrets.token_hex(4)}"
        self._process: Any = None
        self.pid = 0
        self.stderr = Ring(65_536)
        self.exit_code: int | None = None
        self.fault = ""
        self.ended = asyncio.Event()

    @property
    def stderr_text(self) -> str:
        """What it wrote to standard error, the middle left out where it was long."""
        head, tail = self.stderr.parts()
        between = f"\n… [{self.stderr.dropped} bytes] …\n".encode() if self.stderr.dropped else b""
        return (head + between + tail).decode("utf-8", "replace")

    async def start(self) -> tuple[asyncio.StreamReader, asyncio.StreamReader, asyncio.StreamWriter]:
        """Start it; readers of its output and errors, and a writer of its input.

        Raises:
            Unavailable: it could not be started; the message names the command.
        """
        if not _guardians:
            _guardians.append(await asyncio.to_thread(Guardian, _MARK))
        config = self._config
        env = {k: v for k in PASSED if (v := self._environment.get(k)) and not v.startswith("()")}
        env.update(config.env)
        env[tree.MARK] = self._mark
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipes
        what = Spawn(argv=(config.command, *config.args), env=env, cwd=config.cwd, stdin=in_r, stdout=out_w, stderr=err_w)
        try:
            self._process = await spawn(what)
        except (OSError, ValueError) as error:
            for fd in (in_w, out_r, err_r):
                os.close(fd)
            raise Unavailable(
                f"MCP server {config.name!r} could not be started: {config.command_line}: {error}",
                hint="Check the command, and that it is on PATH.",
            ) from None
        except BaseException:
            for fd in (in_w, out_r, err_r):
                os.close(fd)
            raise
        finally:
            for fd in (in_r, out_w, err_w):
                os.close(fd)
        self.pid = self._process.pid
        out, err = await _reader(out_r), await _reader(err_r)
        return out, err, await _writer(in_w)

    async def watch(self) -> None:
        """Return when the process itself has ended."""
        try:
            fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            self.exit_code = await asyncio.to_thread(self._process.wait)
            self.ended.set()
            return
        loop, gone = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(fd, gone.set)
        try:
            await gone.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)
        self.exit_code = self._process.wait()
        self.ended.set()

    async def stop(self) -> None:
        """End it and everything that it started: wait briefly, SIGTERM, then SIGKILL of the whole tree."""
        if self.exit_code is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S / 2):
                    await self.ended.wait()
        if self.exit_code is None:
            tree.kill_group(self.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S / 2):
                    await self.ended.wait()
        await asyncio.to_thread(tree.kill_tree, self.pid, self._mark)
        if self.exit_code is None:
            self.exit_code = await asyncio.to_thread(self._process.wait)


@asynccontextmanager
async def stdio_transport(process: ServerProcess) -> AsyncGenerator[tuple[Any, Any]]:
    """The stream pair of a server process; it is ended with the block, cancelled or not."""
    out, err, stdin = await process.start()
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](64)
    tasks = [
        asyncio.ensure_future(_read(process, out, to_session)),
        asyncio.ensure_future(_keep(err, process.stderr)),
        asyncio.ensure_future(_write(from_session, stdin)),
        asyncio.ensure_future(process.watch()),
    ]
    try:
        yield from_server, to_server
    finally:
        ending = asyncio.ensure_future(_shut_down(process, stdin, tasks))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise
        finally:
            for stream in (to_session, from_server, to_server, from_session):
                stream.close()


async def _shut_down(process: ServerProcess, stdin: asyncio.StreamWriter, tasks: list[asyncio.Future[None]]) -> None:
    stdin.close()
    await process.stop()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with contextlib.suppress(OSError):
        await stdin.wait_closed()


async def _read(process: ServerProcess, out: asyncio.StreamReader, sink: Any) -> None:
    """Lines from the server as messages, until it ends or says nothing sensible."""
    lines = LineSplitter(MAX_MESSAGE)
    garbage = 0
    try:
        while chunk := await out.read(_CHUNK):
            for line in lines.feed(chunk):
                message = parse(line) if isinstance(line, bytes) else line.answer()
                if message is None:
                    garbage += 1
                    if garbage > MAX_GARBAGE:
                        process.fault = f"it wrote {garbage} lines that are no messages"
                        return
                    continue
                garbage = 0
                await sink.send(SessionMessage(message))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        return
    finally:
        sink.close()


async def _write(source: Any, stdin: asyncio.StreamWriter) -> None:
    try:
        async for message in source:
            stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await stdin.drain()
    except (ConnectionError, RuntimeError):
        # The server has closed its input; the reader will notice its end.
        return
    finally:
        source.close()


async def _keep(err: asyncio.StreamReader, ring: Ring) -> None:
    while chunk := await err.read(_CHUNK):
        ring.feed(chunk)


class Oversized:
    """A message over the size limit, of which only its edges are known."""

    def __init__(self, head: bytes, limit: int) -> None:
        self.head = head
        self.tail = b""
        self._limit = limit

    def answer(self) -> JSONRPCError | None:
        """An error answer to the request that it would have answered, None where its id is not to be seen."""
        return _error_for(self.head + b"\n" + self.tail, f"the server's message is over {self._limit} bytes and was dropped")


class LineSplitter:
    """Cuts a byte stream into lines; one over the limit is dropped as it arrives, its edges are kept."""

    def __init__(self, limit: int) -> None:
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
        self._take(rest)
        return [line for line in out if not isinstance(line, bytes) or line.strip()]

    def _take(self, piece: bytes) -> None:
        if self._over is not None:
            self._over.tail = (self._over.tail + piece)[-4096:]
            return
        self._size += len(piece)
        self._parts.append(piece)
        if self._size > self._limit:
            self._over = Oversized(b"".join(self._parts)[:4096], self._limit)
            self._parts = []

    def _finish(self) -> bytes | Oversized:
        line: bytes | Oversized = b"".join(self._parts) if self._over is None else self._over
        self._parts, self._size, self._over = [], 0, None
        return line


def parse(line: bytes) -> Any | None:
    """A line as a message; an error answer where only its id can be read; None where it is garbage."""
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    try:
        # Lone surrogates are legal JSON escapes and no legal text; they are replaced (corpus mcp-051).
        value = json.loads(line, parse_constant=_no_constant)
        return jsonrpc_message_adapter.validate_python(_without_surrogates(value), by_name=False)
    except (ValueError, RecursionError, UnicodeDecodeError) as error:
        return _error_for(line, f"the server's message cannot be read ({type(error).__name__})")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {_without_surrogates(k): _without_surrogates(v) for k, v in table.items()}
    if isinstance(value, list):
        return [_without_surrogates(v) for v in cast("list[Any]", value)]
    return value


def _error_for(text: bytes, why: str) -> JSONRPCError | None:
    ids = _ID.findall(text[:4096]) or _ID.findall(text[-4096:])
    if not ids or b'"jsonrpc"' not in text:
        return None
    return JSONRPCError(jsonrpc="2.0", id=json.loads(ids[0]), error=ErrorData(code=INTERNAL_ERROR, message=why))


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_CHUNK)
    pipe = os.fdopen(fd, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(fd, "wb", 0))
    return asyncio.StreamWriter(transport, protocol, None, loop)
