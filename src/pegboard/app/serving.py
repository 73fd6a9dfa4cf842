"""Serving: tools of an App for MCP clients: a record for each, files and artifacts as resources, skills as prompts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pegboard.app.executor import Executor
from pegboard.core.call.call import new_id
from pegboard.core.context import attach, detach
from pegboard.core.effects import Effect
from pegboard.core.errors import ConfigError, NotFound
from pegboard.core.events import Event, RunFinished, RunStarted
from pegboard.core.policy.policy import PROPOSE_PLAN
from pegboard.core.policy.rules import Situation
from pegboard.core.secrets.clip import clip
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit
from pegboard.mcp.prompts import Prompt, Prompts, Resources, TextPrompts
from pegboard.mcp.request_context import current_request
from pegboard.mcp.resources import ArtifactResources, SchemeResources, WorkspaceResources
from pegboard.mcp.server import ToolServer
from pegboard.mcp.upstream import Upstream, could_name
from pegboard.ports.artifacts import Artifacts, Version
from pegboard.ports.files import Files, ResolvedPath
from pegboard.ports.store import StoreError
from pegboard.services.runtime import Interaction
from pegboard.store.log import Log
from pegboard.version import VERSION

if TYPE_CHECKING:
    from pegboard.app.app import App
    from pegboard.interop.skills import Skill, Skills

READ_ONLY = frozenset({"read", "connect"})
"""Kinds of effect that a served tool may have by default."""

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
        self._workspace = str(app.workspace)
        self._clients: dict[str, _ClientLog] = {}
        self._opening = asyncio.Lock()
        self._open = AsyncExitStack()
        self._loop = asyncio.get_running_loop()
        self._first_flush: asyncio.Task[None] | None = None

    def record(self, event: Event) -> None:
        """See Recorder."""
        request = current_request()
        session = request.peer.session if request is not None else "mcp"
        client = self._clients.get(session)
        if client is None:
            client = self._clients[session] = _ClientLog(session)
            client.record(
                RunStarted(
                    run=client.run,
                    session=session,
                    agent="mcp",
                    model="",
                    task="served over MCP",
                    detail={"workspace": self._workspace},
                )
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


@asynccontextmanager
async def serve_tools(
    app: App,
    patterns: Sequence[str] = (),
    *,
    trusted: bool = False,
    approved: bool = False,
    skills: Sequence[Path] = (),
    notify: Callable[[str], None],
) -> AsyncGenerator[ToolServer]:
    """A server of an App's tools over its workspace, ended with the block; stdio or HTTP carries it.

    Clients are offered files and artifacts as resources, and skills as prompts.

    Args:
        patterns: tools that are offered although they are not read-only, those of the configured servers too.
        trusted: clients' users may approve calls.
        approved: everything that asks is approved.
        skills: folders of skills; those of the settings are offered too.
        notify: is given a sentence for each tool that is offered, and each warning.

    Raises:
        ConfigError: a pattern matches no tool, nothing is left to serve, or a folder is missing.
    """
    from pegboard.mcp.client_approver import ClientApprover, ClientPeople
    from pegboard.mcp.request_context import CallingClient

    def on_offer(tool: Tool) -> None:
        notify(f"offers {tool.name}: {', '.join(tool.kinds()) or 'no effects'}")

    toolkit = Toolkit(_served(app.toolkit, patterns))
    upstream = _upstream(app, patterns, on_offer)
    if not len(toolkit) and not upstream:
        raise ConfigError("no tools to serve; add some with --tools PATTERN")
    for tool in toolkit:
        on_offer(tool)
    interaction = Interaction(
        approver=ClientApprover(trusted=trusted, approved=approved, waits=app.approvals),
        people=[ClientPeople(), CallingClient()],
        notify=notify,
    )
    logs = ClientLogs(app)
    prompts = _prompts(app, skills)
    try:
        async with app.executor(
            interaction, session="mcp", toolkit=toolkit, recorder=logs, sources=upstream
        ) as executor:
            yield ToolServer(
                executor.pipeline, executor.context, resources=_resources(executor), prompts=prompts,
                sources=executor, version=VERSION,
            )  # fmt: skip
    finally:
        await logs.close()


def _served(toolkit: Toolkit, patterns: Sequence[str]) -> list[Tool]:
    """The tools that are offered: read-only ones, and those whose names a pattern names.

    A plan that names no kinds in advance could do anything, so such a tool has to be named.
    """
    out: list[Tool] = []
    for tool in toolkit:
        kinds = set(tool.kinds())
        quiet = kinds <= READ_ONLY and (bool(kinds) or (tool.plan is None and tool.effects == ()))
        if tool.name == PROPOSE_PLAN:
            continue  # It changes the mode of an agent, and a client's calls have none.
        if quiet or any(fnmatchcase(tool.name, p) for p in patterns):
            out.append(tool)
    return out


def _upstream(app: App, patterns: Sequence[str], on_offer: Callable[[Tool], None]) -> list[Upstream]:
    """The configured servers of which a pattern could name a tool, none of them started.

    Raises:
        ConfigError: a pattern names no tool of ours and can name none of a server.
    """
    servers = app.mcp_servers() if patterns else []
    for pattern in patterns:
        own = any(fnmatchcase(name, pattern) for name in app.toolkit.names)
        if not own and not any(could_name(pattern, server) for server in servers):
            of = f", and those of the MCP servers {', '.join(s.name for s in servers)}" if servers else ""
            raise ConfigError(
                f"--tools {pattern!r} matches no tool; available: {', '.join(app.toolkit.names)}{of}"
            )
    return [
        Upstream(server, patterns, offers=on_offer)
        for server in servers
        if any(could_name(pattern, server) for pattern in patterns)
    ]


def _prompts(app: App, folders: Sequence[Path]) -> Prompts | None:
    """The settings' skills and those of named folders, as prompts without arguments; None where nothing names any."""
    missing = [str(f) for f in folders if not f.is_dir()]
    if missing:
        raise ConfigError(f"no skills folder at {', '.join(missing)}")
    if not folders and app.skills is None:
        return None
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
        self._executor = executor
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
        request = current_request()
        session = "mcp" if request is None else request.peer.session
        before = attach(replace(self._executor.context, session=session))
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


class SkillPrompts:
    """Read anew whenever asked: a skill that has changed, come or gone is so for a client too.

    Args:
        folders: each is a skill or holds skills; the first of a name counts.
        settings: knows which of them the user has to trust, and a changed one is trusted no more; None = none.
    """

    def __init__(self, folders: Sequence[Path], settings: Skills | None) -> None:
        self._folders = tuple(folders)
        self._settings = settings

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """See Prompts."""
        return await self._now().list()

    async def get(self, name: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        """See Prompts."""
        return await self._now().get(name, arguments)

    async def complete(self, name: str, argument: str, value: str) -> Sequence[str]:
        """See Prompts."""
        return ()

    async def etag(self) -> Hashable:
        """See Prompts."""
        return tuple([(s.name, s.description, s.stamp()) for s in self._skills()])

    def _skills(self) -> Sequence[Skill]:
        from pegboard.interop.skills import there_now

        found = there_now(self._folders)
        return found if self._settings is None else [s for s in found if self._settings.trusts(s)]

    def _now(self) -> TextPrompts:
        return TextPrompts([Prompt(s.name, s.description, s.body()) for s in self._skills()])
