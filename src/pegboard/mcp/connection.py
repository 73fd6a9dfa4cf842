"""One session with one server, owned by one task from opening to closing, and what is said when it fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import httpx2
import mcp_types as types
from mcp.shared.exceptions import MCPError

from pegboard.core.context import current_context
from pegboard.core.errors import Interrupted, PegboardError, TimedOut, ToolError, Unavailable
from pegboard.mcp.catalogue import ServerCatalogue
from pegboard.mcp.config import Transport
from pegboard.mcp.elicitation import ElicitationHandler
from pegboard.mcp.framing import unreadable_result
from pegboard.mcp.inbound import ConnectionClosed, UnreadableAnswer
from pegboard.mcp.listing import list_catalogue
from pegboard.mcp.pages import APP_TYPE, APPS
from pegboard.mcp.process import ServerProcess
from pegboard.mcp.session import ProtocolSession
from pegboard.mcp.stdio import stdio_dispatcher
from pegboard.mcp.streamable_http import HttpRefusal, SessionGone
from pegboard.mcp.text_warnings import sanitise
from pegboard.mcp.wire import HANDSHAKE
from pegboard.ports.people import People

if TYPE_CHECKING:
    from pegboard.mcp.client import MCPServer


from pegboard.mcp.config import ServerConfig

_END_S: Final = 2.0
FREE: Final = 100
"""Notices of one call that all pass."""
EVERY_S: Final = 0.5
"""Seconds between two of the later ones: each is a record that is kept, and a server may send any number."""
_CLOSE_S: Final = 10.0
_RELIST_S: Final = 0.25
_SETTLE_S: Final = 5.0


class Connection:
    """An open session.

    Args:
        server: whose settings hold.

    Attributes:
        alive: whether requests can be sent.
        log: the last messages that the server logged.
    """

    def __init__(self, server: MCPServer) -> None:
        self._server = server
        self.config = server.config
        self.alive = False
        self.log: list[str] = []
        self._session: ProtocolSession | None = None
        self._process: ServerProcess | None = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._stale = asyncio.Event()
        self._listed = asyncio.Event()
        self._listed.set()
        self._ready: asyncio.Future[None] | None = None
        self._asking = ElicitationHandler(self.config.name, server.limits)
        self._active = 0
        self._status = 0

    @property
    def stray(self) -> str:
        """The first line of a program's output that was no message; may be empty."""
        return "" if self._process is None else sanitise(self._process.stray)

    @property
    def stderr(self) -> str:
        """See MCPServer."""
        return "" if self._process is None else self._process.stderr_text

    @property
    def protocol(self) -> str:
        """See MCPServer."""
        return "" if self._session is None else self._session.protocol_version or ""

    @property
    def instructions(self) -> str:
        """See MCPServer."""
        return "" if self._session is None else sanitise(self._session.instructions or "")

    # -- lifetime -----------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the owner task and wait until the session is agreed.

        Raises:
            Unavailable: it ended, refused, or spoke no known revision.
        """
        self._ready = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name=f"mcp-{self.config.name}")
        await asyncio.shield(self._ready)

    async def aclose(self) -> None:
        """End the session and its process; returns when both are gone."""
        self.alive = False
        self._stop.set()
        owner = self._owner
        if owner is None:
            return
        if self._ready is not None and not self._ready.done():
            owner.cancel()
        done, _ = await asyncio.wait([owner], timeout=_CLOSE_S)
        if not done:
            owner.cancel()
            await asyncio.wait([owner], timeout=_CLOSE_S)

    async def _own(self) -> None:
        ready = cast("asyncio.Future[None]", self._ready)
        try:
            if self.config.transport != "http_sse":
                await self._speak(self.config.transport, ready)
                return
            try:
                await self._speak("streamable_http", ready)
            except (MCPError, httpx2.HTTPError, ExceptionGroup) as error:
                cause = first(error)
                if ready.done() or isinstance(cause, httpx2.ConnectError | PegboardError):
                    raise
                if isinstance(cause, HttpRefusal) and (cause.passes or cause.status in (401, 403)):
                    # That says nothing of what is spoken there.
                    raise
                # What speaks only the transport of 2024-11-05 refuses the POST; then its stream is tried.
                try:
                    await self._speak("sse", ready)
                except Exception as second:  # Whatever the second way fails with, both reasons are told.
                    if not ready.done() and not isinstance(first(second), PegboardError):
                        raise Unavailable(
                            f"neither streamable HTTP ({error_text(error)}) nor SSE ({error_text(second)}) is spoken there"
                        ) from None
                    raise
        except BaseException as error:
            if not ready.done():
                if isinstance(error, asyncio.CancelledError):
                    ready.cancel()
                    raise
                ready.set_exception(not_started(error, self.config, self._process, self._status))
                # Whoever waits may have given up already; then nobody looks at this.
                ready.exception()
                return
            if isinstance(error, asyncio.CancelledError):
                raise
            self.log.append(f"the connection ended: {error_text(error)}")
        finally:
            self.alive = False

    async def _speak(self, transport: Transport, ready: asyncio.Future[None]) -> None:
        """Open one transport, agree on a revision, and stay until the end."""
        async with self._dispatcher(transport) as dispatcher:
            async with self._new_session(dispatcher) as session:
                self._session = session
                # The stateless era has no such stream, and old servers fall silent at what they do not know.
                protocol = HANDSHAKE[-1] if transport == "sse" else self.config.protocol
                await session.negotiate(protocol, patient=self._server.auth is not None)
                self.alive = True
                if not ready.done():
                    ready.set_result(None)
                await self._stay(session)

    async def _stay(self, session: ProtocolSession) -> None:
        """Until closed or lost: list again whenever the server says that its lists changed."""
        waits: list[asyncio.Task[Any]] = [
            asyncio.create_task(self._stop.wait()),
            asyncio.create_task(self._relist_forever()),
        ]
        if self._process is not None:
            waits.append(asyncio.create_task(self._process.ended.wait()))
        if session.discover_result is not None and self._announces(session):
            waits.append(asyncio.create_task(self._listen(session)))
        try:
            needed = [w for w in waits if w is not waits[1]][: 2 if self._process is not None else 1]
            await asyncio.wait(needed, return_when=asyncio.FIRST_COMPLETED)
            self.alive = False
        finally:
            self._listed.set()
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _relist_forever(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            with contextlib.suppress(PegboardError, MCPError, httpx2.HTTPError):
                await self._server.refresh()
            self._listed.set()
            # A server that says this without end would have us listing without end.
            await asyncio.sleep(_RELIST_S)

    async def _listen(self, session: ProtocolSession) -> None:
        from mcp.client.subscriptions import SubscriptionLost, listen

        with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError):
            async with listen(
                session, tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            ) as changes:
                async for _ in changes:
                    self._announced()

    @staticmethod
    def _announces(session: ProtocolSession) -> bool:
        has = session.server_capabilities
        return has is not None and any(
            part is not None and part.list_changed for part in (has.tools, has.prompts, has.resources)
        )

    @asynccontextmanager
    async def _dispatcher(self, transport: Transport) -> AsyncGenerator[Any]:
        if transport == "stdio":
            self._process = ServerProcess(self.config, self._server.environment)
            async with stdio_dispatcher(self._process) as dispatcher:
                yield dispatcher
            return
        from pegboard.mcp.http import SseDispatcher, sse_streams
        from pegboard.mcp.streamable_http import http_dispatcher

        def answered(status: int) -> None:
            self._status = status

        if transport == "sse":
            async with sse_streams(self.config, self._server.auth, answered) as (read, write):
                yield SseDispatcher(read, write)
            return
        async with http_dispatcher(self.config, self._server.auth, answered) as dispatcher:
            yield dispatcher

    def _new_session(self, dispatcher: Any) -> ProtocolSession:
        return ProtocolSession(
            dispatcher=dispatcher,
            elicitation_callback=self._asking.elicit,
            logging_callback=self._on_log,
            message_handler=self._on_message,
            client_info=types.Implementation(name="pegboard", version=_version()),
            # Always, also where nobody looks: what a server offers must not depend on who of us asks.
            extensions={APPS: {"mimeTypes": [APP_TYPE]}},
        )

    async def _on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.log.append(sanitise(str(params.data))[:2000])
        del self.log[:-100]

    async def _on_message(self, message: Any) -> None:
        if isinstance(
            message,
            types.ToolListChangedNotification
            | types.ResourceListChangedNotification
            | types.PromptListChangedNotification,
        ):
            self._announced()

    def _announced(self) -> None:
        self._stale.set()
        self._listed.clear()

    async def settled(self) -> None:
        """Wait until what the server has announced so far has been listed again, a few seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                await self._listed.wait()

    def too_slow(self) -> TimedOut:
        """That it did not start in time, and what it said."""
        return too_slow(self.config, self._process)

    # -- requests -----------------------------------------------------------------------------

    async def request(self, method: str, params: dict[str, Any], *, what: str) -> dict[str, Any]:
        """See MCPServer.call."""
        session = self._session
        if session is None or not self.alive:
            raise Unavailable(f"MCP server {self.config.name!r} is not connected")
        limit = self.config.tool_timeouts.get(str(params.get("name", "")), self.config.timeout_s)
        context = _context()
        self._enter(context)
        told = None if context is None else ProgressReporter(context.emit, asyncio.get_running_loop().time)
        limits = self._server.limits
        try:
            # The outer bound holds whatever a server says.
            async with limits.limit(max(limit, self.config.max_s)), limits.limit(limit) as deadline:

                async def progress(done: float, total: float | None, message: str | None) -> None:
                    if self.config.progress_extends:
                        limits.restart(deadline, limit)
                    if told is not None:
                        told.said(done, total, message)

                return await self._asked(session, method, params, what, progress)
        except TimeoutError:
            raise TimedOut(
                f"{what} of MCP server {self.config.name!r} did not answer within {limit:g} s; it was told to stop"
                f"{stray_output(self._process)}",
                hint="Ask for less at once, or set timeout_s of this server higher.",
                details={"timeout_s": limit, "server": self.config.name},
            ) from None
        finally:
            self._leave()

    async def _asked(
        self,
        session: ProtocolSession,
        method: str,
        params: dict[str, Any],
        what: str,
        progress: Callable[..., Any],
    ) -> dict[str, Any]:
        try:
            return await session.ask(method, params, progress=progress)
        except (SessionGone, httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self.alive = False
            raise Interrupted(
                f"MCP server {self.config.name!r} was lost before {what}, which it has not run: {error_text(error)}",
                retryable=True,
                details={"server": self.config.name},
            ) from None
        except (ConnectionClosed, httpx2.HTTPError) as error:
            raise await self._lost(what, error_text(error)) from None
        except UnreadableAnswer as error:
            raise unreadable_result(self.config.name, what, sanitise(error.message)[:500]) from None
        except MCPError as error:
            if isinstance(error, HttpRefusal) and error.status >= 500:
                raise Interrupted(
                    f"MCP server {self.config.name!r} failed at {what}: {error.message}; it is unknown whether it took effect",
                    hint="Find out what happened before you call it again.",
                    details={"server": self.config.name, "status": error.status},
                ) from None
            raise ToolError(
                f"MCP server {self.config.name!r} refused {what}: {sanitise(error.message)[:1000]} (code {error.code})",
                code="mcp_error",
                details={"server": self.config.name, "code": error.code},
            ) from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, RuntimeError):
            raise await self._lost(what) from None

    async def _lost(self, what: str, why: str = "") -> Interrupted:
        self.alive = False
        return await connection_lost(what, why, self.config, self._process)

    def _enter(self, context: Any) -> None:
        self._active += 1
        self._asking.asked = 0
        if context is not None:
            find = getattr(context.ports, "find", context.ports.get)
            self._asking.people = cast("People | None", find(People))

    def _leave(self) -> None:
        self._active -= 1
        if self._active == 0:
            self._asking.people = None

    async def catalogue(self) -> ServerCatalogue:
        """List everything that the server has, page by page.

        Raises:
            Unavailable: the list of tools cannot be had.
        """
        try:
            return await list_catalogue(cast(ProtocolSession, self._session), self.config, self._server.style)
        except (MCPError, httpx2.HTTPError) as error:
            lost_so = await self._lost("listing", error_text(error))
            # Nothing was asked for that could have taken effect.
            raise Unavailable(lost_so.message.replace("; it is unknown whether it took effect", "")) from None


def _context() -> Any:
    try:
        return current_context()
    except LookupError:
        return None


def _version() -> str:
    from pegboard.version import VERSION

    return VERSION


class ProgressReporter:
    """Passes on what one call's server says.

    Args:
        emit: gets each notice that passes.
        clock: monotonic seconds.
    """

    def __init__(self, emit: Callable[[Any], None], clock: Callable[[], float]) -> None:
        self._emit = emit
        self._clock = clock
        self._passed = 0
        self._last = 0.0

    def said(self, done: float, total: float | None, message: str | None) -> None:
        """One notice."""
        now = self._clock()
        if self._passed >= FREE and now - self._last < EVERY_S:
            return
        self._passed += 1
        self._last = now
        self._emit({"progress": done, "total": total, "message": sanitise(message or "")[:500]})


def first(error: BaseException) -> BaseException:
    """The innermost first exception of a group, or the exception itself."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def error_text(error: BaseException) -> str:
    """An error in its own words, as far as they can be shown."""
    error = first(error)
    if isinstance(error, MCPError):
        start = "the answer is " if isinstance(error, UnreadableAnswer) else ""
        return f"{start}{sanitise(error.message)[:500]}"
    return f"{type(error).__name__}: {sanitise(str(error))[:500]}" if str(error) else type(error).__name__


def stderr_tail(process: ServerProcess | None) -> str:
    """The end of what a program wrote to standard error, and what its output held that was no message; may be empty."""
    if process is None:
        return ""
    said = sanitise(process.stderr_text).strip()
    return (f"; it said: {said[-500:]}" if said else "") + stray_output(process)


def stray_output(process: ServerProcess | None) -> str:
    """What a program's output held that was no answer to anything; may be empty."""
    line = "" if process is None else sanitise(process.unread).strip()
    return f"; its output held what answers nothing: {line[:200]}" if line else ""


def not_started(
    error: BaseException, config: ServerConfig, process: ServerProcess | None, status: int
) -> PegboardError:
    """Why a server could not be started or agreed with.

    Args:
        error: how that ended.
        config: of the server.
        process: its program, None where it has none.
        status: of its last HTTP answer, 0 = none.
    """
    error = first(error)
    if isinstance(error, PegboardError):
        text = error.message if isinstance(error, ToolError) else str(error)
        if f"MCP server {config.name!r}" in text:
            return error
        hint = error.hint.replace("NAME", config.name) if isinstance(error, ToolError) and error.hint else ""
        return Unavailable(f"MCP server {config.name!r}: {text}", hint=hint)
    if status == 401 and isinstance(error, MCPError | httpx2.HTTPStatusError):
        return Unavailable(
            f"MCP server {config.name!r} requires a login (HTTP 401)",
            hint=f"Log in: pegboard mcp login {config.name}; or give its token under headers.",
        )
    how = f" (HTTP {status})" if status >= 400 and not isinstance(error, HttpRefusal) else ""
    if process is not None and process.fault:
        # It was ended for this, so that its exit status says nothing.
        how = f": {process.fault}"
    elif process is not None and process.exit_code is not None:
        how = f" (exit status {process.exit_code})"
    return Unavailable(
        f"MCP server {config.name!r} could not be started: {error_text(error)}{how}{stderr_tail(process)}",
        hint=f"It runs: {config.redacted_command}",
        retryable=isinstance(error, httpx2.TransportError)
        or (isinstance(error, HttpRefusal) and error.passes),
    )


def too_slow(config: ServerConfig, process: ServerProcess | None) -> TimedOut:
    """It did not start in time."""
    return TimedOut(
        f"MCP server {config.name!r} did not start within {config.start_s:g} s{stderr_tail(process)}",
        hint="Check its command or address, or set start_s higher.",
    )


async def connection_lost(
    what: str, why: str, config: ServerConfig, process: ServerProcess | None
) -> Interrupted:
    """That a connection was lost during a call; a program's end is waited for, so that it can be told.

    Args:
        what: the call.
        why: in words, where the connection itself says it.
        config: of the server.
        process: its program, None where it has none.
    """
    how = f": {why}" if process is None and why else ""
    if process is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await process.ended.wait()
        if process.exit_code is not None:
            code = process.exit_code
            how = f": it ended with {'signal' if code < 0 else 'exit status'} {abs(code)}"
        if process.fault:
            how += f" ({process.fault})"
    return Interrupted(
        f"MCP server {config.name!r} was lost during {what}{how}; it is unknown whether it took effect"
        f"{stderr_tail(process)}",
        hint="Find out what happened before you call it again; the server is started again at the next call.",
        details={"server": config.name},
    )
