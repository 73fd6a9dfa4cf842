"""MCPServer: a foreign server whose tools, resources and prompts are tools here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.core.errors import Interrupted, NotFound, PegboardError, ToolError, Unavailable, check_sequence
from pegboard.core.result import ToolResult
from pegboard.core.tool import Tool
from pegboard.mcp.catalogue import RemoteTool, ServerCatalogue
from pegboard.mcp.config import ServerConfig, Transport
from pegboard.mcp.naming import Style
from pegboard.mcp.pins import Pins

_BACKOFF_S: Final = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class TimeLimits:
    """The time limits of one server; they stand still while a person is waited for, as in a login."""

    def __init__(self) -> None:
        self._left: dict[asyncio.Timeout, float] = {}
        self._waits = 0

    @contextlib.asynccontextmanager
    async def limit(self, seconds: float) -> AsyncGenerator[asyncio.Timeout]:
        """Bound a block to so many seconds of the server's own time.

        Raises:
            TimeoutError: it took longer.
        """
        async with asyncio.timeout(None) as timeout:
            self._left[timeout] = seconds
            self.restart(timeout, seconds)
            try:
                yield timeout
            finally:
                del self._left[timeout]

    def restart(self, timeout: asyncio.Timeout, seconds: float) -> None:
        """Give a limit that has not passed so many seconds from now."""
        self._left[timeout] = seconds
        if not timeout.expired():
            timeout.reschedule(None if self._waits else asyncio.get_running_loop().time() + seconds)

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """Stop every limit for the block, in which a person is waited for."""
        now = asyncio.get_running_loop().time()
        self._waits += 1
        for timeout in self._left:
            if not timeout.expired() and (ends := timeout.when()) is not None:
                self._left[timeout] = ends - now
                timeout.reschedule(None)
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                for timeout, seconds in self._left.items():
                    self.restart(timeout, seconds)


class MCPServer:
    """One foreign server. Give it to an Agent or Executor like a tool; it is started at first use.

    Args:
        name: how it is called here.
        command, args, env, cwd: a program on standard input and output.
        url, headers, transport: an HTTP server; streamable HTTP unless `transport` says `sse`.
        timeout_s: wall seconds of one call.
        config: everything at once, in place of the above.
        pins: approved definitions; None = they hold for this process.
        style: how tool names are made; None = as the config says.
        environment: our own variables, of which a program gets a short allow-list.
        auth: an `httpx2.Auth` for HTTP; see `pegboard.mcp.auth`.

    Attributes:
        warnings: what a person should know: refused tools, suspicious descriptions, broken lists, stray output.
        revision: grows whenever the list of tools has changed.

    Raises:
        ConfigError: a bad name, transport or url.
    """

    def __init__(
        self,
        name: str = "",
        *,
        command: str = "",
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        timeout_s: float = 30.0,
        config: ServerConfig | None = None,
        pins: Pins | None = None,
        style: Style | None = None,
        environment: Mapping[str, str] | None = None,
        auth: Any = None,
    ) -> None:
        self.config = config or ServerConfig(
            name=name,
            transport=transport or ("streamable_http" if url else "stdio"),
            command=command,
            args=check_sequence(args, f"MCP server {name!r}, args=…", "arguments"),
            env=dict(env or {}),
            cwd=None if cwd is None else str(cwd),
            url=url,
            headers=dict(headers or {}),
            timeout_s=timeout_s,
        )
        self.pins = pins or Pins()
        self.style: Style = style or self.config.naming
        self.environment = dict(environment or {})
        self.auth = auth
        self.limits: TimeLimits = getattr(auth, "limits", None) or TimeLimits()
        self.revision = 0
        self._catalogue: ServerCatalogue | None = None
        self._connection: Any = None
        self._lock = asyncio.Lock()
        self._failures = 0
        self._not_before = 0.0
        self._closed = False
        self._collisions: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The configured name."""
        return self.config.name

    @property
    def warnings(self) -> tuple[str, ...]:
        """See the class."""
        listed = () if self._catalogue is None else self._catalogue.warnings
        stray = "" if self._connection is None else self._connection.stray
        printed = (
            [f"{self.name} prints other text to standard output, which breaks other clients: {stray!r}"]
            if stray
            else []
        )
        return (*listed, *self._collisions.values(), *printed)

    @property
    def stderr(self) -> str:
        """What the program wrote to standard error, its middle left out where it was long."""
        return "" if self._connection is None else self._connection.stderr

    @property
    def protocol(self) -> str:
        """The revision that is spoken, empty while not connected."""
        return "" if self._connection is None else self._connection.protocol

    @property
    def instructions(self) -> str:
        """The server's own words about itself: foreign text, never part of a prompt by itself."""
        return "" if self._connection is None else self._connection.instructions

    @property
    def catalogue(self) -> ServerCatalogue | None:
        """What the server offers, None before the first listing."""
        return self._catalogue

    # -- ToolSource ---------------------------------------------------------------------------

    async def tools(self) -> list[Tool]:
        """Its tools; connects first.

        Raises:
            Unavailable: it could not be started or listed within its limit; the message names it and why.
        """
        await self._connected()
        catalogue = cast("ServerCatalogue", self._catalogue)
        return [self._tool(offer) for offer in catalogue.offers if "model" in offer.callers]

    def collided(self, name: str) -> bool:
        """Whether a tool of ours is left out where its name is taken: with raw names only, and told."""
        if self.style != "raw":
            return False
        self._collisions[name] = (
            f"{self.name}: the tool {name!r} is refused: another tool has this name, and naming is raw; "
            "set naming to mcp, or name it in deny"
        )
        return True

    async def aclose(self) -> None:
        """End the connection and, for a program, the program and everything that it started."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def __aenter__(self) -> MCPServer:
        await self._connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- calls --------------------------------------------------------------------------------

    async def call(
        self, method: str, params: dict[str, Any], *, what: str, idempotent: bool = False
    ) -> dict[str, Any]:
        """One request of the protocol, under the deadline of its tool; the raw result.

        A lost connection is opened again; the request is repeated once, and only where it is idempotent or the
        server has certainly not run it.

        Raises:
            TimedOut, Unavailable, Interrupted, ToolError: each names the server.
        """
        connection = await self._connected()
        try:
            return await connection.request(method, params, what=what)
        except Interrupted as error:
            if not (idempotent or error.retryable):
                raise
        connection = await self._connected()
        return await connection.request(method, params, what=what)

    def _tool(self, offer: RemoteTool) -> Tool:
        from pegboard.mcp.tools import tool_of

        return tool_of(self, offer)

    def current(self, offer: RemoteTool) -> RemoteTool:
        """The offer as it stands now.

        Raises:
            NotFound: the server no longer has it.
        """
        found = None if self._catalogue is None else self._catalogue.find(offer.kind, offer.original)
        if found is None:
            raise NotFound(
                f"{offer.original} of MCP server {self.name!r} is no longer available",
                hint="The server has changed its list; look at the tools that are there now.",
            )
        return found

    async def settled(self) -> None:
        """Wait until the changes of its lists that it has announced are taken in."""
        if self._connection is not None:
            await self._connection.settled()

    async def refresh(self) -> None:
        """List again; called when the server says that its lists have changed."""
        connection = self._connection
        if connection is not None:
            self._take(await connection.catalogue())

    # -- connection ---------------------------------------------------------------------------

    async def _connected(self) -> Any:
        if self._closed:
            raise Unavailable(f"MCP server {self.name!r} has been closed")
        async with self._lock:
            connection = self._connection
            if connection is not None and connection.alive:
                return connection
            if connection is not None:
                await connection.aclose()
                self._connection = None
            await self._wait_out_backoff()
            return await self._connect()

    async def _wait_out_backoff(self) -> None:
        left = self._not_before - asyncio.get_running_loop().time()
        if left > 5.0:
            raise Unavailable(
                f"MCP server {self.name!r} failed {self._failures} times in a row; the next try is in {left:.0f} s",
                retryable=True,
            )
        if left > 0:
            await asyncio.sleep(left)

    async def _connect(self) -> Any:
        from pegboard.mcp.connection import Connection

        if self.config.fault:
            raise Unavailable(self.config.fault, hint="Set it and start again.")
        connection = Connection(self)
        loop = asyncio.get_running_loop()
        try:
            try:
                async with self.limits.limit(self.config.start_s):
                    await connection.open()
                    catalogue = await connection.catalogue()
            except TimeoutError:
                raise connection.too_slow() from None
        except BaseException as error:
            with contextlib.suppress(PegboardError):
                await connection.aclose()
            if isinstance(error, Exception):
                self._failures += 1
                wait = _BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)]
                self._not_before = loop.time() + wait
            raise
        self._failures = 0
        self._connection = connection
        self._take(catalogue)
        return connection

    def _take(self, catalogue: ServerCatalogue) -> None:
        if self._catalogue is None or self._catalogue.offers != catalogue.offers:
            self.revision += 1
        self._catalogue = catalogue


async def start_all(servers: Sequence[MCPServer]) -> dict[str, list[Tool] | ToolError]:
    """Start servers side by side; each one's tools, or why it has none. A dead one holds up nobody.

    Returns:
        By server name, in the given order.
    """

    async def one(server: MCPServer) -> list[Tool] | ToolError:
        try:
            return await server.tools()
        except ToolError as error:
            return error
        except PegboardError as error:
            return Unavailable(str(error))

    found = await asyncio.gather(*(one(s) for s in servers if not s.config.disabled))
    return dict(zip([s.name for s in servers if not s.config.disabled], found, strict=True))


__all__ = ["MCPServer", "ToolResult", "replace", "start_all"]
