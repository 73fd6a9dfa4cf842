"""Serving: a kit of the App for clients of ours: one record a client, the workspace's files as resources."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from pegboard.app.executor import Executor
from pegboard.core.approval import Approver
from pegboard.core.effects import Effect
from pegboard.core.errors import NotFound
from pegboard.core.events import Event, RunFinished, RunStarted
from pegboard.core.pipeline import new_id
from pegboard.core.rules import Situation
from pegboard.core.toolkit import Toolkit
from pegboard.mcp.exchange import current_exchange
from pegboard.mcp.offered import WorkspaceResources
from pegboard.ports.files import Files
from pegboard.store.logs import SessionLog

if TYPE_CHECKING:
    from pegboard.app.home import App

MAX_RESOURCE: int = 1_000_000
_LISTED = 1_000


class ClientLogs:
    """A Recorder that writes each client's events to a stream of its own (decisions 9)."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._logs: dict[str, tuple[SessionLog, str]] = {}

    def record(self, event: Event) -> None:
        """See Recorder."""
        exchange = current_exchange()
        self._log(exchange.peer.session if exchange is not None else "mcp").record(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder."""
        for log, _ in list(self._logs.values()):
            await log.flush(power_loss=power_loss)

    def close(self) -> None:
        """End every client's run."""
        for log, run in self._logs.values():
            log.record(RunFinished(run=run, status="done", answer=""))
            log.close()
        self._logs.clear()

    def _log(self, session: str) -> SessionLog:
        found = self._logs.get(session)
        if found is None:
            run = new_id("run")
            found = self._logs[session] = (self._app.log(session), run)
            found[0].record(
                RunStarted(run=run, session=session, agent="mcp", model="", task="served over MCP")
            )
        return found[0]


@asynccontextmanager
async def serving(
    app: App, kit: Toolkit, *, approver: Approver, provide: Iterable[Any] = ()
) -> AsyncGenerator[tuple[Executor, WorkspaceResources | None]]:
    """An executor over the App's workspace for a served kit, and its files where the kit has any."""
    logs = ClientLogs(app)
    try:
        async with app.executor(
            approver=approver, provide=provide, session="mcp", kit=kit, recorder=logs
        ) as door:
            files = cast("Files | None", door.wiring.provided.find(Files))
            yield door, None if files is None else _resources(door, files)
    finally:
        logs.close()


def _resources(door: Executor, files: Files) -> WorkspaceResources:
    async def read(path: str) -> str:
        target = (await files.resolve(path)).target
        decision = door.policy(
            (Effect("read", target),),
            Situation(values={"tool": "resources/read"}, workspace=str(door.wiring.workspace)),
        )
        if decision.verdict != "allow" or target.startswith("/"):
            raise NotFound(
                f"there is no resource {path[:200]!r}", hint="Take an address from resources/list."
            )
        text = (await files.read_bytes(path, limit=MAX_RESOURCE)).decode("utf-8", "replace")
        redactor = door.pipeline.shaper.redactor
        return text if redactor is None else redactor.redact(text)[0]

    async def names() -> list[str]:
        found = await files.list(".", depth=8, limit=_LISTED)
        return [e.path for e in found.entries if e.kind == "file"]

    return WorkspaceResources(read, names)
