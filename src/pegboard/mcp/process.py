"""ServerProcess: a server program, started with an allow-listed environment and ended with its whole tree."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import secrets
import signal
from collections.abc import Mapping
from typing import Any, Final

from pegboard.core.errors import Unavailable
from pegboard.mcp.config import PASSED, ServerConfig
from pegboard.mcp.reaper import Reaper
from pegboard.process import child
from pegboard.process.child import Spawn, spawn
from pegboard.process.output import HeadTailBuffer

_GRACE_S: Final = 2.0
CHUNK: Final = 1 << 16
_MARK: Final = f"mcp{secrets.token_hex(6)}"
_reapers: list[Reaper] = []


class ServerProcess:
    """One started server.

    Attributes:
        pid: its process id.
        stderr: the head and the tail of what it wrote there.
        exit_code: its status once it has ended; negative = killed by that signal.
        fault: why reading was given up, empty where it was not.
        stray: the first line of its output that was no message.
        unread: the last line of its output that was no message, or that answered nothing.
    """

    def __init__(self, config: ServerConfig, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self._mark = f"{_MARK}.{secrets.token_hex(4)}"
        self._process: Any = None
        self.pid = 0
        self.stderr = HeadTailBuffer(65_536)
        self.exit_code: int | None = None
        self.fault = ""
        self.stray = self.unread = ""
        self.ended = asyncio.Event()
        self._transports: list[asyncio.BaseTransport] = []

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
        if not _reapers:
            reaper = await asyncio.to_thread(Reaper, _MARK)
            _reapers.append(reaper)
            atexit.register(reaper.close)
        config = self._config
        env = {k: v for k in PASSED if (v := self._environment.get(k)) and not v.startswith("()")}
        env.update(config.env)
        env[child.MARK] = self._mark
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]
        (in_r, in_w), (out_r, out_w), (err_r, err_w) = pipes
        what = Spawn(
            argv=(config.command, *config.args),
            env=env,
            cwd=config.cwd,
            stdin=in_r,
            stdout=out_w,
            stderr=err_w,
        )
        try:
            self._process = await spawn(what)
        except (OSError, ValueError) as error:
            for fd in (in_w, out_r, err_r):
                os.close(fd)
            raise Unavailable(
                f"MCP server {config.name!r} could not be started: {config.redacted_command}: {error}",
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
        out, err = await self._reader(out_r), await self._reader(err_r)
        return out, err, await self._writer(in_w)

    async def _reader(self, fd: int) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=CHUNK)
        pipe = os.fdopen(fd, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._transports.append(transport)
        return reader

    async def _writer(self, fd: int) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(fd, "wb", 0)
        )
        return asyncio.StreamWriter(transport, protocol, None, loop)

    def close(self) -> None:
        """Let go of its pipes; something that survived may hold their other ends."""
        for transport in self._transports:
            transport.close()

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
            child.kill_group(self.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S / 2):
                    await self.ended.wait()
        await asyncio.to_thread(child.kill_tree, self.pid, self._mark)
        if self.exit_code is None:
            self.exit_code = await asyncio.to_thread(self._process.wait)
