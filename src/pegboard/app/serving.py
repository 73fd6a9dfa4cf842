"""Serving: tools of an App for MCP clients: a record for each, files and artifacts as resources, skills as prompts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Hashable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pegboard.app.executor import Executor
from pegboard.core.call.call import new_id
from pegboard.core.context import attach, detach
from pegboard.core.effects import Effect
from pegboard.core.errors import ConfigError, NotFound
from pegboard.core.events import Event, RunFinished, RunStarted
from pegboard.core.policy.rules import Situation
from pegboard.core.secrets.clip import clip
from pegboard.core.toolkit import Toolkit, ToolSource
from pegboard.mcp.prompts import Prompt, Prompts, Resources, TextPrompts
from pegboard.mcp.request_context import current_request
from pegboard.mcp.resources import ArtifactResources, SchemeResources, WorkspaceResources
from pegboard.ports.artifacts import Artifacts, Version
from pegboard.ports.files import Files, ResolvedPath
from pegboard.services.runtime import Interaction
from pegboard.store.logs import SessionLog

if TYPE_CHECKING:
    from pegboard.app.app import App
    from pegboard.interop.skills import Skill, Skills

MAX_RESOURCE: int = 1_000_000
_LISTED = 1_000


class ClientLogs:
    """A Recorder that writes each client's events to a stream of its own."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._logs: dict[str, tuple[SessionLog, str]] = {}
        self._marks = ExitStack()

    def record(self, event: Event) -> None:
        """See Recorder."""
        request = current_request()
        self._log(request.peer.session if request is not None else "mcp").record(event)

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
        self._marks.close()

    def _log(self, session: str) -> SessionLog:
        found = self._logs.get(session)
        if found is None:
            run = new_id("run")
            found = self._logs[session] = (self._app.history.log(session), run)
            self._marks.enter_context(self._app.history.at_work.one_call(run))
            found[0].record(
                RunStarted(run=run, session=session, agent="mcp", model="", task="served over MCP")
            )
        return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedToolkit:
    """What is served to clients.

    Attributes:
        executor: carries out their calls.
        resources: the workspace's files and each client's own artifacts; None where the kit has neither.
        prompts: skills; None without any.
    """

    executor: Executor
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
        ) as executor:
            yield ServedToolkit(executor=executor, resources=_resources(executor), prompts=prompts)
    finally:
        logs.close()


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
