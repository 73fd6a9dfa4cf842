"""EditorAgent: the agent's side of the Agent Client Protocol (version 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

from pegboard.app.app import App
from pegboard.config.paths import check_implicit
from pegboard.core.call.call import new_id
from pegboard.core.text import escape_invisible
from pegboard.gateway.acp.connection import Connection, Json, list_param, text_param
from pegboard.gateway.acp.session import EditorSession
from pegboard.mcp.wire import INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError
from pegboard.services.servers import ClientServers
from pegboard.version import VERSION

PROTOCOL: Final = 1
MAX_SESSIONS: Final = 32
"""Sessions that are open at once."""
_LISTED: Final = 100


class EditorAgent:
    """Serves sessions to one editor.

    Args:
        app: the settings; each session opens its own over the folder that the editor names.
        model: as `--model` takes it, for sessions that choose none.
        mode: the mode that sessions begin in; None = the folder's own.
        notify: is given each sentence that belongs in the editor's log.
    """

    def __init__(
        self, app: App, *, model: str | None, mode: str | None, notify: Callable[[str], None]
    ) -> None:
        self._app = app
        self._model = model
        self._mode = mode
        self._notify = notify
        self._sessions: dict[str, EditorSession] = {}
        self._opening: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: Json = {}
        self._connection = Connection(notify)
        self._connection.requests = {
            "initialize": self.initialize,
            "session/new": self.new_session,
            "session/load": self.load_session,
            "session/resume": self.resume_session,
            "session/list": self.list_sessions,
            "session/close": self.close_session,
            "session/prompt": self.prompt,
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_option,
        }
        self._connection.notifications = {"session/cancel": self.cancel}

    async def serve(self, source: int = 0, sink: int = 1) -> None:
        """Serve until the editor closes its end, then end what still runs; see `Connection.serve`."""
        try:
            await self._connection.serve(source, sink)
        finally:
            await asyncio.gather(*(s.close() for s in self._sessions.values()), return_exceptions=True)

    # -- methods of the protocol ------------------------------------------------------------------

    async def initialize(self, params: Json) -> Json:
        """Which version and abilities hold."""
        self._client = params
        return {
            "protocolVersion": PROTOCOL,
            "agentInfo": {"name": "pegboard", "title": "Pegboard", "version": VERSION},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "authMethods": [],
        }

    async def new_session(self, params: Json) -> Json:
        """A fresh conversation in a folder."""
        session = await self._open(new_id("chat"), params)
        return {"sessionId": session.key, **await self._started(session)}

    async def load_session(self, params: Json) -> Json:
        """Continue a conversation, and show what was said in it."""
        session = await self._open(text_param(params, "sessionId"), params, earlier=True)
        await session.replay()
        return await self._started(session)

    async def resume_session(self, params: Json) -> Json:
        """Continue a conversation that the editor shows already."""
        return await self._started(await self._open(text_param(params, "sessionId"), params, earlier=True))

    async def list_sessions(self, params: Json) -> Json:
        """The latest conversations of a folder; without one, of the folder that this process works in."""
        folder = _folder(params) if params.get("cwd") else self._app.workspace
        with self._app.at(folder) as app:
            rows = await app.sessions.conversations(limit=_LISTED)
            redact = app.redactor.redact
        sessions = [
            {"sessionId": row.session, "cwd": str(folder), "title": escape_invisible(redact(row.task)[0])[:80],
             "updatedAt": datetime.fromtimestamp(row.last, UTC).isoformat()}
            for row in rows
        ]  # fmt: skip
        return {"sessions": sessions}

    async def close_session(self, params: Json) -> Json:
        """End a session's work and let go of it; its conversation is kept."""
        session = self._session(params)
        del self._sessions[session.key]
        await session.close()
        return {}

    async def prompt(self, params: Json) -> Json:
        """Answer a message."""
        return {"stopReason": await self._session(params).prompt(list_param(params, "prompt"))}

    def cancel(self, params: Json) -> None:
        """End the answer that is being given."""
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None:
            self._start(session.cancel())

    async def set_mode(self, params: Json) -> Json:
        """Decide by another mode."""
        await self._session(params).set_mode(text_param(params, "modeId"))
        return {}

    async def set_option(self, params: Json) -> Json:
        """Choose a model or mode; all options as they are now."""
        session = self._session(params)
        await session.set_option(text_param(params, "configId"), text_param(params, "value"))
        return {"configOptions": await session.options()}

    # -- parts ------------------------------------------------------------------------------------

    def _session(self, params: Json) -> EditorSession:
        key = text_param(params, "sessionId")
        if key not in self._sessions:
            raise RpcError(RESOURCE_NOT_FOUND, f"no session {key!r} is open here; load it first")
        return self._sessions[key]

    async def _open(self, key: str, params: Json, *, earlier: bool = False) -> EditorSession:
        """Open a session.

        Raises:
            RpcError: the folder cannot be used, there is no such conversation, or it is open already.
        """
        folder, rows = _folder(params), list_param(params, "mcpServers")
        if key in self._sessions or key in self._opening:
            raise RpcError(INVALID_PARAMS, f"the session {key!r} is open here already")
        if len(self._sessions) + len(self._opening) >= MAX_SESSIONS:
            raise RpcError(INVALID_PARAMS, f"{MAX_SESSIONS} sessions are open; close one first")
        check_implicit(folder, self._app.paths)
        self._opening.add(key)
        try:
            session = await self._made(key, folder, rows, earlier=earlier)
            self._sessions[key] = session
            return session
        finally:
            self._opening.discard(key)

    async def _made(self, key: str, folder: Path, rows: list[Json], *, earlier: bool) -> EditorSession:
        app = self._app.at(folder, mode=self._mode)
        try:
            if earlier and not await app.sessions.history(key):
                raise RpcError(RESOURCE_NOT_FOUND, f"there is no conversation {key!r} on this machine")
            for line in app.config.ignored:
                self._notify(line)
            session = EditorSession(
                app, key, self._connection, model=self._model,
                servers=ClientServers(app.paths).read(rows, source="the editor"),
                reads_buffers=self._can("fs", "readTextFile"),
            )  # fmt: skip
            if not session.asks_first:
                await session.open()
            return session
        except BaseException:
            app.close()
            raise

    def _can(self, *names: str) -> bool:
        """Whether the editor has an ability."""
        value: Any = self._client.get("clientCapabilities")
        for name in names:
            value = cast("Json", value).get(name) if isinstance(value, dict) else None
        return value is True

    async def _started(self, session: EditorSession) -> Json:
        """The state of a session that was just opened; what follows its answer is told after it."""
        state = await session.state()
        self._start(self._follow(session))
        return state

    async def _follow(self, session: EditorSession) -> None:
        await session.tell_commands()
        if session.asks_first:
            # The editor knows the session by now, so that its person can be asked about its servers.
            await session.open()

    def _start(self, work: Coroutine[Any, Any, None] | Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._noted(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _noted(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  Nobody waits for it; the editor's log has it.
            self._notify(f"{type(error).__name__}: {error}")


def _folder(params: Json) -> Path:
    """The folder of a session.

    Raises:
        RpcError: it is no absolute path of a folder.
    """
    folder = Path(text_param(params, "cwd"))
    if not folder.is_absolute() or not folder.is_dir():
        raise RpcError(INVALID_PARAMS, f"cwd must be the absolute path of a folder, not {str(folder)!r}")
    return folder.resolve()
