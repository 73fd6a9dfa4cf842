"""The real parts behind the ports of an executor; a new port is one line in `PORTS`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pegboard.app.diagnostics import SessionWriteChecks
from pegboard.app.wiring import LazyArtifactSaver, artifacts_of, needs_of
from pegboard.config.environment import environment as this_environment
from pegboard.config.environment import secrets_of
from pegboard.config.load import Config
from pegboard.config.paths import Paths, check_implicit, current_folder
from pegboard.config.secrets import ConfiguredSecrets
from pegboard.core.call.call import PATH_RESOLVER, new_id
from pegboard.core.content import KEEPER
from pegboard.core.context import Context
from pegboard.core.effects import Effect
from pegboard.core.errors import Unavailable
from pegboard.core.isolation import Workers
from pegboard.core.policy.approval import Waiting
from pegboard.core.policy.budgets import Meter
from pegboard.core.policy.grants import MemoryGrants
from pegboard.core.policy.guards import Guards, StoredState
from pegboard.core.policy.rules import Situation
from pegboard.core.policy.taint import TaintTracker
from pegboard.core.protected import protected_entry
from pegboard.core.result import Shaper, Spills
from pegboard.core.secrets.redact import Redactor
from pegboard.core.text import sanitise
from pegboard.ports.artifacts import Artifacts
from pegboard.ports.browser import Browser
from pegboard.ports.code import CodeIndex
from pegboard.ports.documents import Documents
from pegboard.ports.files import Files
from pegboard.ports.gateway import GatewayControl
from pegboard.ports.media import Canvas, ImageGenerator, Speech
from pegboard.ports.memory import Memory
from pegboard.ports.messages import Messages
from pegboard.ports.nodes import Nodes
from pegboard.ports.people import People, Question, waiting_for
from pegboard.ports.plans import Plans
from pegboard.ports.processes import Processes
from pegboard.ports.programs import Programs
from pegboard.ports.schedules import Schedules
from pegboard.ports.session_model import SessionModel
from pegboard.ports.sessions import SessionAccess
from pegboard.ports.shell import Shell
from pegboard.ports.store import Store
from pegboard.ports.subagents import Subagents
from pegboard.ports.todos import Todos
from pegboard.ports.tool_search import ToolSearch
from pegboard.ports.web import Web, WebSearch
from pegboard.store.grants import StoredGrants
from pegboard.store.provenance import StoredAccounts, StoredFirstUses, StoredProvenance
from pegboard.store.spills import SpillFolder

if TYPE_CHECKING:
    from pegboard.app.wiring import Wiring
    from pegboard.config.network import NetworkSettings
    from pegboard.core.policy.policy import Policy
    from pegboard.core.toolkit import Toolkit
    from pegboard.net.client import HttpClient

MASKED = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".config/gh",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".netrc",
)
"""Below the home folder: what an explicit workspace that holds it still does not show."""


@dataclass(slots=True, kw_only=True)
class Assembly:
    """What the parts of one executor are made from.

    Attributes:
        wiring: takes the parts, and knows the policy and the workspace that was named.
        toolkit: the executor's tools.
        paths, config: where things lie, and the settings.
        store: opens the store; None = nothing outlives the process.
        nodes: the nodes that a gateway of this process may hold; None = those of its store.
        serve: runs another session on what waits for it, with a model of this name; None = other processes do.
        redactor: takes secrets out of what is shown; `assemble` sets it.
    """

    wiring: Wiring
    toolkit: Toolkit
    paths: Paths
    config: Config
    store: Callable[[], Store] | None = None
    serve: Callable[[str, str], Awaitable[None]] | None = None
    nodes: Callable[[], Nodes] | None = None
    redactor: Redactor | None = None

    @property
    def workspace(self) -> Path:
        """The folder that the tools work in: the current one unless one was named.

        Raises:
            ConfigError: nobody named a folder, and the current one is `/`, the home folder or the like.
        """
        if self.wiring.workspace is None:
            root = current_folder().resolve()
            check_implicit(root, self.paths)
            self.wiring.workspace = root
        return self.wiring.workspace

    def port(self, kind: Any) -> Any:
        """The part behind a port; made when it is first asked for."""
        provided = self.wiring.provided
        if provided.find(kind) is None:
            provided[kind] = PORTS[kind](self)
        return provided.find(kind)

    def move(self, wiring: Wiring, toolkit: Toolkit, workspace: Path) -> None:
        """Let an executor inside this one's run read files and run commands in another folder.

        Args:
            wiring: its parts, as `Wiring.narrowed` gives them.
            toolkit: its tools.
            workspace: the folder.

        Raises:
            Unavailable: the program brings files or commands of its own, which know nothing of the folder.
        """
        for kind in _IN_WORKSPACE:
            wiring.provided.pop(kind, None)
            if wiring.provided.find(kind) is not None:
                raise Unavailable(
                    f"this program provides its own {getattr(kind, '__name__', kind)}, so a subagent cannot work in "
                    f"{workspace}",
                    hint='Leave isolation="worktree" out of the agent.',
                )
        wiring.workspace = workspace
        wiring.provided.pop(_SERVERS, None)
        moved = wiring.assembly = replace(self, wiring=wiring, toolkit=toolkit)
        _protect(moved)
        _write_checks(moved)
        needs = needs_of(toolkit, wiring.provided)
        for kind in PORTS:
            if kind in needs & _IN_WORKSPACE:
                moved.port(kind)


def assemble(assembly: Assembly, needs: Set[Any], *, redactor: Redactor | None = None) -> None:
    """Make the parts that a kit's tools ask for, and those that every executor over a workspace has.

    Args:
        assembly: what they are made from.
        needs: the ports, as `Inject[T]` names them. One that is not in `PORTS` is left to the caller.
        redactor: takes secrets out of results; None = those of this machine's environment.

    Raises:
        ConfigError: see `Assembly.workspace`.
    """
    wiring, config, store = assembly.wiring, assembly.config, assembly.store
    spills = SpillFolder(assembly.paths.state / "spills")
    redactor = assembly.redactor = redactor or Redactor(secrets_of(this_environment()))
    wiring.shaper = Shaper(redactor=redactor, clean=sanitise, spills=spills)
    wiring.safeguards = _guards(config, redactor, store, spills, wiring.grants)
    wiring.provided.setdefault(Spills, spills)
    wiring.provided[KEEPER] = LazyArtifactSaver(wiring.provided, store)
    required = {
        port
        for tool in assembly.toolkit
        for name, port in tool.signature.inject.items()
        if name not in tool.signature.optional_inject
    }
    if Processes not in required:
        # A command moves to the background only where a tool of the kit can follow it there.
        needs = needs - {Processes}
    wiring.assembly = assembly
    if needs & PORTS.keys() & {PATH_RESOLVER, Files, Shell}:
        _protect(assembly)
    if needs & {PATH_RESOLVER, Files}:
        _write_checks(assembly)
    for kind in PORTS:  # In the table's order, so that parts always end in the same one.
        if kind in needs:
            assembly.port(kind)


def _protect(assembly: Assembly) -> None:
    """Let the policy know the files of the workspace that are protected."""
    wiring, workspace = assembly.wiring, assembly.workspace
    own = (*assembly.config.tool_files.python_inside(workspace), *_hook_scripts(assembly))
    wiring.policy = replace(wiring.policy, protected=partial(_protected, workspace, assembly.paths.home, own))


def _guards(
    config: Config,
    redactor: Redactor,
    store: Callable[[], Store] | None,
    spills: SpillFolder,
    grants: MemoryGrants | None,
) -> Guards:
    """Taint always; budgets and secrets where the settings name any."""
    provenance = None if store is None else StoredProvenance(store)
    first_uses = None if store is None else StoredFirstUses(store)
    stored: list[StoredState] = [] if provenance is None or first_uses is None else [provenance, first_uses]
    if store is not None and isinstance(grants, StoredGrants):
        stored.append(grants)
    meter = secrets = None
    if config.budgets:
        meter = Meter(config.budgets, accounts=None if store is None else StoredAccounts(store))
    if config.secrets:
        secrets = ConfiguredSecrets(config.secrets, environment=this_environment(), learn=redactor.learn)
        secrets.learn_present()
    return Guards(
        taints=TaintTracker(config.taint, provenance=provenance, spilled=spills.labels),
        meter=meter,
        novelty=first_uses,
        secrets=secrets,
        stored=tuple(stored),
    )


def _artifacts(assembly: Assembly) -> Any:
    return artifacts_of(assembly.wiring.provided, assembly.store)


def _browser(assembly: Assembly) -> Any:
    from pegboard.app.browser import chromium_browser

    return chromium_browser(assembly)


def _canvas(assembly: Assembly) -> Any:
    from pegboard.media.drawing import Drawing

    return Drawing()


def _code_index(assembly: Assembly) -> Any:
    from pegboard.lsp.code import ServerCodeIndex

    return ServerCodeIndex(
        _server_pool(assembly), assembly.port(Files), checkers=assembly.config.diagnostics.files
    )


def _write_checks(assembly: Assembly) -> None:
    """Let results say what their writes broke; nothing is loaded before a file changes that something looks at."""
    wiring, settings = assembly.wiring, assembly.config.diagnostics
    if settings.enabled:
        wiring.write_checks = SessionWriteChecks(
            settings, assembly.workspace, pool=lambda: _server_pool(assembly), closers=wiring.closers
        )


_SERVERS: Final = "language servers"
"""Under this key the parts hold the ServerPool of their folder."""


def _server_pool(assembly: Assembly) -> Any:
    """The language servers and checkers of the session."""
    from pegboard.app.diagnostics import server_pool
    from pegboard.app.shell import WORKED, choose_backend

    wiring, config = assembly.wiring, assembly.config
    if wiring.provided.get(_SERVERS) is None:

        def choose(search_path: str) -> Any:
            backend = choose_backend(
                wiring.policy, assembly.workspace, assembly.paths, config, worked=WORKED, frozen=True,
                search_path=search_path,
            ).backend  # fmt: skip
            wiring.closers.append(partial(asyncio.to_thread, backend.close))
            return backend

        pool = wiring.provided[_SERVERS] = server_pool(assembly.workspace, config, choose)
        wiring.closers.append(pool.aclose)
    return wiring.provided[_SERVERS]


def _documents(assembly: Assembly) -> Any:
    from pegboard.documents.child import DocumentReader

    return DocumentReader()


def _files(assembly: Assembly) -> Any:
    """The workspace, which resolves the paths of every plan too."""
    from pegboard.files.journal import Journal
    from pegboard.files.workspace import Workspace

    root, paths, config = assembly.workspace, assembly.paths, assembly.config
    policy = assembly.wiring.policy
    situation = Situation(workspace=str(root), home=str(paths.home.resolve()))
    # Only rules can deny a single file that a listing or a search comes by; without any, asking costs time.
    rules = tuple(
        r
        for r in policy.rules
        if r.verdict == "deny" and not r.observe and r.kind in ("*", "read", "write", "delete")
    )

    def denied(access: str, target: str) -> str | None:
        kind = "write" if access == "write" else "read"
        for rule in rules:
            if rule.covers(Effect(kind, target), situation) and rule.applies(situation):
                return rule.reason or str(rule)
        return None

    files = Workspace(
        root,
        journal=Journal(paths.state / "journal"),
        restored_dirs=(*_shared_repository(root), *_memory_folder(assembly)),
        allowed_dirs=config.allowed_dirs,
        read_only_dirs=config.read_only_dirs,
        full_access=policy.mode == "full",
        masked=[paths.home / name for name in MASKED if (paths.home / name).exists()]
        + [p for p in (paths.config, paths.state, paths.data) if p.exists()],
        deny=denied if rules else None,
        asking=policy.shipped,
        home=paths.home,
    )
    cover_by_undo(assembly.wiring, root)
    assembly.wiring.closers.append(files.close)
    assembly.wiring.provided.setdefault(PATH_RESOLVER, files)
    assembly.wiring.provided.setdefault(Files, files)
    return files


def _shared_repository(root: Path) -> tuple[Path, ...]:
    """Where the repository lies outside the workspace, which then is a linked worktree of it."""
    if not (root / ".git").is_file():
        return ()  # Nearly always, and nothing need be loaded.
    from pegboard.shell.sandbox.git import repository_of

    repository = repository_of(root)
    return () if repository is None else (repository.common,)


def _memory_folder(assembly: Assembly) -> tuple[Path, ...]:
    """Where undo finds the notes, if the kit keeps any."""
    if not any(Memory in tool.signature.inject.values() for tool in assembly.toolkit):
        return ()
    from pegboard.files.journal import private_folder
    from pegboard.files.memory import memory_folder

    folder = memory_folder(assembly.paths.state, assembly.workspace)
    private_folder(folder)
    return (folder,)


def _hook_scripts(assembly: Assembly) -> tuple[str, ...]:
    """Workspace-relative names of the files that hooks run."""
    if not assembly.config.hooks:
        return ()
    from pegboard.config.hooks import script_names

    return script_names(assembly.config.hooks, assembly.workspace)


def _protected(root: Path, home: Path, own: Sequence[str], target: str) -> str | None:
    """The entry that protects a target: of the list, a file that holds our tools or that hooks run, or what git's
    configuration takes in now."""
    if (entry := protected_entry(target)) is not None:
        return entry
    from pegboard.shell.sandbox import git

    names = (
        *own,
        *git.started_by(root),
        *git.inside(root, git.included_files(git.own_settings(home), home)),
    )
    return next((name for name in names if target == name or target.startswith(f"{name}/")), None)


def cover_by_undo(wiring: Wiring, root: Path) -> None:
    """Let deletions be judged by what undo can restore."""
    from pegboard.files.restorable import Restorable

    wiring.safeguards = replace(wiring.safeguards, undo=Restorable(root))


def _image_generator(assembly: Assembly) -> Any:
    from pegboard.app.media import image_generator

    settings = assembly.config.media.image
    return image_generator(
        settings, http_client(assembly, tool="image_generate", timeout_s=settings.timeout_s)
    )


def _speech(assembly: Assembly) -> Any:
    from pegboard.app.media import speech

    settings = assembly.config.media.tts
    return speech(settings, http_client(assembly, tool="tts", timeout_s=settings.timeout_s))


def _memory(assembly: Assembly) -> Any:
    from pegboard.files.journal import Journal
    from pegboard.files.memory import MemoryFolder, memory_folder

    wiring, state, root = assembly.wiring, assembly.paths.state, assembly.workspace
    redactor = assembly.redactor or Redactor(secrets_of(this_environment()))

    def held(context: Context) -> dict[str, str]:
        taints = wiring.safeguards.taints
        if taints is None:
            return dict.fromkeys(context.labels, "this session")
        sources = taints.sources(context.session)
        labels = taints.labels(context.session, context.labels)
        return {label: ", ".join(sources.get(label, ())) or "this session" for label in sorted(labels)}

    memory = MemoryFolder(
        memory_folder(state, root), root, journal=Journal(state / "journal"),
        redact=lambda text: redactor.redact(text)[0], held=held,
    )  # fmt: skip
    wiring.closers.append(memory.close)
    return memory


def _messages(assembly: Assembly) -> Any:
    """Over the store of the executor; where it has none, over the command line's, from which a worker delivers."""
    from pegboard.app.messages import stored_messages

    store, close = _durable(assembly)
    redactor = assembly.wiring.shaper.redactor or Redactor(secrets_of(this_environment()))
    messages = stored_messages(
        store, config=assembly.config, policy=assembly.wiring.policy, redact=redactor, workspace=assembly.workspace
    )  # fmt: skip
    assembly.wiring.closers += [close, messages.aclose]
    return messages


def _gateway(assembly: Assembly) -> Any:
    """The settings alone: a gateway provides its own."""
    from pegboard.services.gateway_control import ServedGateway
    from pegboard.services.settings import SettingsFiles

    return ServedGateway(
        SettingsFiles(assembly.paths, assembly.workspace), store=_no_store, workspace=str(assembly.workspace)
    )


def _no_store() -> Any:
    raise LookupError("nothing is restarted here")


def _nodes(assembly: Assembly) -> Any:
    from pegboard.services.nodes import PairedNodes

    return PairedNodes(_kept(assembly)) if assembly.nodes is None else assembly.nodes()


def _people(assembly: Assembly) -> Any:
    return SuspendingPeople()


def _processes(assembly: Assembly) -> Any:
    from pegboard.app.shell import background_commands

    return background_commands(assembly)


def _schedules(assembly: Assembly) -> Any:
    """Over the store of the executor; where it has none, over the command line's: a job in memory never fires."""
    from pegboard.services.schedules import StoredSchedules

    return StoredSchedules(_kept(assembly), settings=assembly.config.schedules, workspace=assembly.workspace)


def _kept(assembly: Assembly) -> Callable[[], Awaitable[Store]]:
    """What `_durable` opens; it is closed with the executor."""
    store, close = _durable(assembly)
    assembly.wiring.closers.append(close)
    return store


def _durable(assembly: Assembly) -> tuple[Callable[[], Awaitable[Store]], Callable[[], Awaitable[None]]]:
    """What opens the executor's store, or the command line's where it has none, and what closes it."""
    from pegboard.app.backing import close_store, open_backing

    opened: list[Store] = []

    async def store() -> Store:
        if assembly.store is not None:
            return assembly.store()
        if not opened:
            opened.append((await open_backing(None, assembly.paths)).store)
        return opened[0]

    async def close() -> None:
        while opened:
            await close_store(opened.pop())

    return store, close


def _programs(assembly: Assembly) -> Any:
    """Programs that wait are kept where their session is."""
    from pegboard.runtime.programs import MontyPrograms, ProgramLimits

    wiring, code = assembly.wiring, assembly.config.code

    async def store(session: str) -> Store:
        running = wiring.sessions.get(session)
        if running is not None and running.backing is not None:
            return running.backing.store
        if assembly.store is not None:
            return assembly.store()
        if wiring.memory is None:
            from pegboard.store.memory import MemoryStore

            wiring.memory = MemoryStore()
        return wiring.memory

    limits = ProgramLimits(time_s=code.time_s, memory_bytes=code.memory_mb * 2**20, calls=code.calls)
    programs = MontyPrograms(store, limits=limits)
    wiring.closers.append(programs.aclose)
    return programs


def _session_access(assembly: Assembly) -> Any:
    """Over the store of the session that calls, where it is kept; else over the executor's."""
    from pegboard.services.session_access import StoredSessionAccess

    wiring, config, kept = assembly.wiring, assembly.config, _kept(assembly)
    redactor = assembly.redactor or Redactor(secrets_of(this_environment()))

    async def store(session: str) -> Store:
        running = wiring.sessions.get(session)
        return await kept() if running is None or running.backing is None else running.backing.store

    access = StoredSessionAccess(
        store, settings=config.sessions, specs=config.all_agents(), confined=config.sandbox != "none",
        redact=lambda text: redactor.redact(text)[0], serve=assembly.serve,
    )  # fmt: skip
    wiring.waits.append(access.wait_for_report)
    wiring.closers.append(access.close)
    return access


def _session_model(assembly: Assembly) -> Any:
    from pegboard.app.session_model import AgentModel

    return AgentModel(assembly.wiring)


def _web(assembly: Assembly) -> Any:
    from pegboard.web.fetch import WebReader

    web = assembly.config.web
    return WebReader(
        http_client(assembly, tool="web_fetch", timeout_s=web.timeout_s), assembly.port(Documents), cache_s=web.cache_minutes * 60,
        reader=web.reader,
    )  # fmt: skip


def _web_search(assembly: Assembly) -> Any:
    from pegboard.app.search import searcher

    settings = assembly.config.web.search
    return searcher(settings, http_client(assembly, tool="web_search", timeout_s=settings.timeout_s))


def http_client(assembly: Assembly, *, tool: str, **options: Any) -> HttpClient:
    """See `guarded_client`, by the policy and the settings of an executor."""
    return guarded_client(assembly.wiring.policy, assembly.config.network, tool=tool, **options)


def guarded_client(policy: Policy, network: NetworkSettings, *, tool: str, **options: Any) -> HttpClient:
    """A client that reaches what is public and what the settings open, and no host that a rule denies a tool."""
    from pegboard.net.client import HttpClient

    situation = Situation(values={"tool": tool})
    rules = [r for r in policy.rules if r.verdict == "deny" and not r.observe and r.kind in ("*", "connect")]

    def refuse(host: str) -> str:
        for rule in rules:
            if rule.covers(Effect("connect", host), situation) and rule.applies(situation):
                return rule.reason or f"the rule {str(rule)!r}"
        return ""

    return HttpClient(allow=network.allow_hosts, allow_cidrs=network.allow_cidrs, refuse=refuse, **options)


def _shell(assembly: Assembly) -> Any:
    from pegboard.app.shell import command_shell

    return command_shell(assembly)


def _plans(assembly: Assembly) -> Any:
    return ExecutorPlans(assembly.wiring)


def _todos(assembly: Assembly) -> Any:
    from pegboard.runtime.todos import SessionTodos

    return SessionTodos()


def _subagents(assembly: Assembly) -> Any:
    from pegboard.app.subagents import subagent_runs

    config = assembly.config
    return subagent_runs(assembly.wiring, specs=config.all_agents(), limits=config.subagents)


def _tool_search(assembly: Assembly) -> Any:
    from pegboard.core.tool_search import ToolIndex

    return ToolIndex(assembly.toolkit)


def _workers(assembly: Assembly) -> Any:
    from pegboard.process.isolated import WorkerPool

    pool = WorkerPool()
    assembly.wiring.closers.append(pool.close)
    return pool


class SuspendingPeople:
    """The People port where nobody can answer now: questions wait."""

    async def ask(self, questions: Sequence[Question]) -> Waiting:
        """Keep the question for later."""
        return waiting_for(questions, new_id("q"))


class ExecutorPlans:
    """The Plans port of the executor that stands over some parts."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring

    @property
    def is_planning(self) -> bool:
        """See Plans."""
        executor = self._wiring.executor
        return executor is not None and executor.policy.mode == "plan"

    def start(self, effects: Sequence[Effect]) -> None:
        """See Plans."""
        executor = self._wiring.executor
        executor.set_policy(replace(executor.policy, mode="workspace", planned=tuple(effects)))


_IN_WORKSPACE: Final = frozenset({PATH_RESOLVER, Files, Shell, Processes, CodeIndex})
"""The ports whose parts work in one folder."""

PORTS: Final[Mapping[Any, Callable[[Assembly], Any]]] = {
    PATH_RESOLVER: _files,
    Artifacts: _artifacts,
    Browser: _browser,
    Canvas: _canvas,
    CodeIndex: _code_index,
    Documents: _documents,
    Files: _files,
    GatewayControl: _gateway,
    ImageGenerator: _image_generator,
    Memory: _memory,
    Messages: _messages,
    Nodes: _nodes,
    People: _people,
    Plans: _plans,
    Processes: _processes,
    Programs: _programs,
    Schedules: _schedules,
    SessionAccess: _session_access,
    SessionModel: _session_model,
    Shell: _shell,
    Speech: _speech,
    Todos: _todos,
    Subagents: _subagents,
    ToolSearch: _tool_search,
    Web: _web,
    WebSearch: _web_search,
    Workers: _workers,
}
"""What stands behind each port unless the caller provides it. A new port is one line here."""
