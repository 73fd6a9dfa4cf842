"""Serving: a kit of the App for clients of ours: one record a client, files and artifacts as resources, skills as prompts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pegboard.app.executor import Executor
from pegboard.core.call.call import new_id
from pegboard.core.context import attach, detach
from pegboard.core.effects import Effect
from pegboard.core.errors import ConfigError, NotFound
from pegboard.core.events import Event, RunFinished, RunStarted
from pegboard.core.policy.rules import Situation
from pegboard.core.secrets.clip import clip
from pegboard.core.toolkit import Toolkit, ToolSource
from pegboard.mcp.prompts import Prompts, Resources
from pegboard.mcp.request_context import current_request
from pegboard.mcp.resources import ArtifactResources, SchemeResources, WorkspaceResources
from pegboard.ports.artifacts import Artifacts, Version
from pegboard.ports.files import Files, ResolvedPath
from pegboard.ports.store import StoreError
from pegboard.services.runtime import Interaction
from pegboard.store.log import Log

if TYPE_CHECKING:
    from pegboard.app.app import App

MAX_RESOURCE: int = 1_000_000
_LISTED = 1_000


class _ClientLog:
    """The events of one client; until its log is open they wait here."""

    def __init__(self, session: str) -> None:
        self.run = new_id("run")
        self.session = session
        self.log: Log | None = None
        self._lock = threading.Lock()
        self._waiting: list[Event] = []

    def record(self, event: Event) -> None:
        with self._lock:
            if self.log is None:
                self._waiting.append(event)
                return
        self.log.record(event)

    def opened(self, log: Log) -> None:
        with self._lock:
            for event in self._waiting:
                log.record(event)
            self._waiting.clear()
            self.log = log


class ClientLogs:
    """A Recorder that writes each client's events to a stream of its own."""

    def __init__(self, app: App) -> None:
        self._history = app.history
        self._clients: dict[str, _ClientLog] = {}
        self._opening = asyncio.Lock()
        self._open = AsyncExitStack()
        self._loop = asyncio.get_running_loop()
        self._first_flush: asyncio.Task[None] | None = None

    def record(self, event: Event) -> None:
        """See Recorder."""
        exchange = current_request()
        session = exchange.peer.session if exchange is not None else "mcp"
        client = self._clients.get(session)
        if client is None:
            client = self._clients[session] = _ClientLog(session)
            client.record(
                RunStarted(run=client.run, session=session, agent="mcp", model="", task="served over MCP")
            )
            self._loop.call_soon_threadsafe(self._flush_soon)
        client.record(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        """See Recorder."""
        async with self._opening:
            for client in list(self._clients.values()):
                if client.log is None:
                    log = await self._open.enter_async_context(self._history.log(client.session))
                    await self._open.enter_async_context(self._history.single_call(client.run))
                    client.opened(log)
        for client in list(self._clients.values()):
            if client.log is not None:
                await client.log.flush(power_loss=power_loss)

    async def close(self) -> None:
        """End every client's run."""
        for client in self._clients.values():
            client.record(RunFinished(run=client.run, status="done", answer=""))
        try:
            await self.flush()
        finally:
            self._clients.clear()
            await self._open.aclose()

    def _flush_soon(self) -> None:
        """Open a new client's log also where its calls wait for nothing to be written."""
        if self._first_flush is None or self._first_flush.done():
            self._first_flush = self._loop.create_task(self._try_flush())

    async def _try_flush(self) -> None:
        # Whoever flushes next is told.
        with suppress(StoreError):
            await self.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedToolkit:
    """What is served to clients.

    Attributes:
        door: the executor over the kit.
        resources: the workspace's files and each client's own artifacts; None where the kit has neither.
        prompts: skills; None without any.
    """

    door: Executor
    resources: SchemeResources | None
    prompts: Prompts | None


@asynccontextmanager
async def serve_toolkit(
    app: App,
    toolkit: Toolkit,
    *,
    interaction: Interaction,
    skills: Sequence[Path] = (),
    sources: Sequence[ToolSource] = (),
) -> AsyncGenerator[ServedToolkit]:
    """An executor over the App's workspace for a served kit, with what else its clients are offered.

    Args:
        skills: folders of skills that the owner named; those of the settings are offered too.
        sources: what brings further tools.
    """
    logs = ClientLogs(app)
    prompts = _prompts(app, skills)
    try:
        async with app.executor(
            interaction, session="mcp", toolkit=toolkit, recorder=logs, sources=sources
        ) as door:
            yield ServedToolkit(door=door, resources=_resources(door), prompts=prompts)
    finally:
        await logs.close()


def _prompts(app: App, folders: Sequence[Path]) -> Prompts | None:
    """The settings' skills and those of named folders, as prompts without arguments; None where nothing names any."""
    missing = [str(f) for f in folders if not f.is_dir()]
    if missing:
        raise ConfigError(f"no skills folder at {', '.join(missing)}")
    if not folders and app.skills is None:
        return None
    from pegboard.app.skill_prompts import SkillPrompts
    from pegboard.interop.skills import Skills

    # What is broken from the start is a mistake to tell; what breaks later is only left out.
    Skills(folders)
    return SkillPrompts([*folders, *app.config.tool_files.skills], app.skills)


def _resources(executor: Executor) -> SchemeResources | None:
    def redact(text: str) -> str:
        redactor = executor.pipeline.parts.shaper.redactor
        return text if redactor is None else redactor.redact(text)[0]

    kinds: dict[str, Resources] = {}
    files = cast("Files | None", executor.wiring.provided.find(Files))
    if files is not None:
        kinds["workspace"] = _workspace(executor, files, redact)
    artifacts = cast("Artifacts | None", executor.wiring.provided.find(Artifacts))
    if artifacts is not None:
        kinds["artifact"] = ArtifactResources(_ClientArtifacts(executor, artifacts), redact)
    return SchemeResources(kinds) if kinds else None


class _ClientArtifacts:
    """Artifacts of the session of the client that asks: resources are read outside of any call."""

    def __init__(self, executor: Executor, artifacts: Artifacts) -> None:
        self._door = executor
        self._artifacts = artifacts

    async def list(self) -> Sequence[Version]:
        """See Artifacts."""
        with self._session():
            return await self._artifacts.list()

    async def read(self, id: str, version: int | None = None) -> Version:
        """See Artifacts."""
        with self._session():
            return await self._artifacts.read(id, version)

    @contextmanager
    def _session(self) -> Generator[None]:
        exchange = current_request()
        session = "mcp" if exchange is None else exchange.peer.session
        before = attach(replace(self._door.context, session=session))
        try:
            yield
        finally:
            detach(before)


def _workspace(executor: Executor, files: Files, redact: Callable[[str], str]) -> WorkspaceResources:
    async def readable(path: str) -> ResolvedPath:
        there = await files.resolve(path)
        decision = executor.policy(
            (Effect("read", there.target),),
            Situation(values={"tool": "resources/read"}, workspace=str(executor.wiring.workspace)),
        )
        if decision.verdict != "allow" or there.target.startswith("/"):
            raise NotFound(f"no resource {clip(path, 0, 200)!r}", hint="Take an address from resources/list.")
        return there

    async def read(path: str) -> str:
        await readable(path)
        return redact((await files.read_bytes(path, limit=MAX_RESOURCE)).decode("utf-8", "replace"))

    async def mark(path: str) -> tuple[bool, int, int]:
        there = await readable(path)
        return (there.exists, there.size, there.mtime_ns)

    async def names() -> list[str]:
        found = await files.list(".", depth=8, limit=_LISTED)
        return [e.path for e in found.entries if e.kind == "file"]

    return WorkspaceResources(read, names, mark)
