"""App: Pegboard opened on this machine over a workspace: its settings, its services, and executors and agents."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from weakref import WeakSet

from pegboard.app.agent import Agent
from pegboard.app.executor import Executor
from pegboard.app.instructions import (
    ROLE,
    memory_prompt,
    project_files,
    surroundings,
    with_project_files,
)
from pegboard.app.offered import ConfiguredTools
from pegboard.app.ports import Assembly, assemble
from pegboard.app.wiring import Wiring, needs_of
from pegboard.config.environment import environment as this_environment
from pegboard.config.environment import secrets_of
from pegboard.config.load import Config, load_config, read_rules
from pegboard.config.models import open_model
from pegboard.config.paths import Paths, check_implicit, current_folder
from pegboard.config.store import store_of
from pegboard.config.tools import ToolSettings, python_place
from pegboard.core.call.provide import Provided
from pegboard.core.errors import ConfigError
from pegboard.core.events import Recorder
from pegboard.core.policy.approval import AllowOnce, SuspendAll
from pegboard.core.policy.policy import Mode, Policy
from pegboard.core.result import Shaper
from pegboard.core.secrets.redact import Redactor
from pegboard.core.tool import Tool
from pegboard.core.toolkit import RUN_CODE, Toolkit
from pegboard.ports.store import StoreError
from pegboard.services.history import History
from pegboard.services.redaction import RedactingApprover
from pegboard.services.runtime import NOBODY, Instructions, Interaction
from pegboard.store.grants import StoredGrants
from pegboard.store.history import HistoryStore

if TYPE_CHECKING:
    from pegboard.interop.skills import Skills
    from pegboard.mcp.config import ServerConfig
    from pegboard.mcp.server import ToolServer
    from pegboard.runtime.engine.dbos import QueueLimits
    from pegboard.runtime.scheduler import Scheduler
    from pegboard.runtime.session import Backing
    from pegboard.runtime.subagents import SubagentRuns
    from pegboard.services.agents import Agents
    from pegboard.services.approvals import Approvals
    from pegboard.services.artifacts import Artifacts
    from pegboard.services.audit import Audit
    from pegboard.services.backups import Backups
    from pegboard.services.calls import Calls
    from pegboard.services.channels import Channels
    from pegboard.services.checks import Checks
    from pegboard.services.evals import Evals
    from pegboard.services.files import WorkspaceFiles
    from pegboard.services.memory import Memory
    from pegboard.services.nodes import PairedNodes
    from pegboard.services.outbox import StoredMessages
    from pegboard.services.pages import Pages
    from pegboard.services.pairing import Pairings
    from pegboard.services.policies import Policies
    from pegboard.services.principals import Tokens
    from pegboard.services.retention import Retention
    from pegboard.services.runs import Runs
    from pegboard.services.sandbox import Sandbox
    from pegboard.services.schedules import StoredSchedules
    from pegboard.services.servers import Servers
    from pegboard.services.sessions import Sessions
    from pegboard.services.settings import Settings
    from pegboard.services.slash_commands import SlashCommands
    from pegboard.services.transactions import Transactions
    from pegboard.services.undo import Undo
    from pegboard.services.usage import UsageReports
    from pegboard.services.worker import Watcher, Worker
    from pegboard.services.worktrees import Worktrees
    from pegboard.shell.sandbox.selection import SelectedBackend


AT_START: Final = ("store", "channels", "schedules")
"""Settings that a process reads when it starts, and no later."""


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class App:
    """Pegboard opened over a workspace; a context manager. What can be done with it is in its services.

    Attributes:
        paths, config: where things lie, and the settings.
        workspace: the folder that tools work in.
        named_workspace: the same where a person named it, else None.
        config_file: the config file that was named in place of the user's own.
        policy: mode and rules as they hold.
        on_warning: is given what a person must know and did not ask for, such as that the history was damaged.
        client_servers: MCP servers that a client named for its session and a person let start.
    """

    def __init__(
        self,
        paths: Paths,
        config: Config,
        *,
        workspace: Path | None,
        policy: Policy,
        config_file: Path | None = None,
        policy_file: Path | None = None,
        store: str | None = None,
        tools_from: Sequence[str] = (),
    ) -> None:
        self.paths = paths
        self.config = config
        self.config_file = config_file
        self.named_workspace = workspace
        self.workspace = (workspace or current_folder()).resolve()
        self.policy = policy
        self.on_warning: Callable[[str], None] = _warn
        self.client_servers: Sequence[ServerConfig] = ()
        self._policy_file = policy_file
        self._tools_from = tuple(tools_from)
        self._named_store = store
        self._named_mode: str | None = None
        self._store: HistoryStore | None = None
        self._workers: WeakSet[Worker] = WeakSet()
        self._redactor: Redactor | None = None
        self._nodes: PairedNodes | None = None
        self._offered = ConfiguredTools(config, paths, lambda text: self.on_warning(text))
        self.history = History(
            lambda: self.store, paths, lambda text: self.redactor.redact(text), settings=config.store
        )

    @classmethod
    def open(
        cls,
        *,
        workspace: Path | None = None,
        mode: str | None = None,
        policy: Path | None = None,
        config: Path | None = None,
        store: str | None = None,
        paths: Paths | None = None,
        tools_from: Sequence[str] = (),
        code: bool = False,
    ) -> App:
        """Open by the settings of this machine and folder.

        Args:
            workspace: a folder that a person named; None = the current one, refused for `/`, the
                home folder and the like when a tool needs it.
            mode, policy, config, store: from the command line; they win over the files.
            tools_from: Python files and modules whose tools are offered too, as a person named them; a relative
                file starts at the current folder.
            code: models call tools from programs, whatever the settings say.

        Raises:
            ConfigError: a file, key, mode, rule or folder is wrong.
            StoreError: the store is of no known kind.
        """
        paths = paths or Paths.of()
        if workspace is not None and not workspace.expanduser().is_dir():
            raise ConfigError(
                f"the workspace {workspace} does not exist or is not a folder; create it, or choose another"
            )
        folder = workspace.expanduser() if workspace else None
        settings = load_config(paths, folder or current_folder(), file=config)
        # The settings may know its password.
        if store is not None and store != settings.store.url:
            settings = replace(settings, store=store_of(store))
        if tools_from:
            own = ToolSettings(python=tuple(python_place(t, current_folder()) for t in tools_from))
            settings = replace(settings, tool_files=settings.tool_files + own)
        if code:
            settings = replace(settings, code=replace(settings.code, enabled=True))
        rules = settings.rules if policy is None else read_rules(policy)
        chosen = cast(Mode, mode or settings.mode or "workspace")
        decided = Policy(mode=chosen, rules=rules, home=str(paths.home.resolve()))
        app = cls(
            paths, settings, workspace=folder, policy=decided, config_file=config, policy_file=policy, store=store,
            tools_from=tools_from,
        )  # fmt: skip
        app.policy = replace(decided, grants=StoredGrants(lambda: app.store))
        app._named_mode = mode
        return app

    def at(self, workspace: Path, *, mode: str | None = None) -> App:
        """The same settings over another workspace and in another mode."""
        app = App.open(
            workspace=workspace,
            mode=mode,
            policy=self._policy_file,
            config=self.config_file,
            store=self._named_store,
            paths=self.paths,
            tools_from=self._tools_from,
            code=self.config.code.enabled,
        )
        app.on_warning = self.on_warning
        return app

    def staged(self, copy: Path) -> App:
        """The same settings over a copy of the workspace: folders outside it can be read only."""
        app = self.at(copy, mode=self.policy.mode)
        config = app.config
        app.config = replace(
            config, allowed_dirs=(), read_only_dirs=(*config.read_only_dirs, *config.allowed_dirs)
        )
        return app

    async def reload(self) -> tuple[str, ...]:
        """Read the settings again; calls and runs that begin from now on go by them, what goes on keeps its own.

        Returns:
            The keys that were changed and hold after a restart only.

        Raises:
            ConfigError: a file, key, rule or tool is wrong; then everything stays as it is.
        """

        def read() -> tuple[Config, Policy, ConfiguredTools]:
            fresh = App.open(
                workspace=self.named_workspace, mode=self._named_mode, policy=self._policy_file,
                config=self.config_file, store=self._named_store, paths=self.paths, tools_from=self._tools_from,
            )  # fmt: skip
            offered = ConfiguredTools(fresh.config, self.paths, lambda text: self.on_warning(text))
            _ = offered.toolkit  # What is wrong with a tool of theirs is told now.
            return fresh.config, fresh.policy, offered

        config, policy, offered = await asyncio.to_thread(read)
        later = tuple(key for key in AT_START if getattr(config, key) != getattr(self.config, key))
        self.config = replace(config, **{key: getattr(self.config, key) for key in AT_START})
        self.policy = replace(policy, grants=self.policy.grants)
        self._offered = offered
        return later

    @property
    def store(self) -> HistoryStore:
        """The store of the history; it is opened when it is first read or written."""
        if self._store is None:
            self._store = self.config.store.store(
                self.paths, recovered=lambda saved: self.on_warning(str(saved))
            )
        return self._store

    @property
    def redactor(self) -> Redactor:
        """Takes the secrets of this machine's environment and settings out of what is kept and shown."""
        if self._redactor is None:
            self._redactor = Redactor(secrets_of(this_environment()))
        return self._redactor

    @property
    def toolkit(self) -> Toolkit:
        """The offered tools."""
        return self._offered.toolkit

    @property
    def tools_from(self) -> dict[str, str]:
        """The Python files and modules that tools were loaded from, and the SHA-256 of each file."""
        return self._offered.python_digests()

    @property
    def skills(self) -> Skills | None:
        """The skills that the settings name; None without any."""
        return self._offered.skills

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.end()
            self._store = None

    # -- services -----------------------------------------------------------------------------

    @property
    def agents(self) -> Agents:
        """Agents that can be started by name, and subagents."""
        from pegboard.services.agents import Agents

        return Agents(self, self.history)

    @property
    def approvals(self) -> Approvals:
        """What waits for an answer, and the answers that were kept."""
        from pegboard.services.approvals import Approvals

        return Approvals(self.history, cast(StoredGrants, self.policy.grants))

    @property
    def artifacts(self) -> Artifacts:
        """What sessions have made apart from the workspace."""
        from pegboard.services.artifacts import Artifacts

        return Artifacts(self.history)

    @property
    def audit(self) -> Audit:
        """Proof of what was done."""
        from pegboard.services.audit import Audit

        return Audit(self.history, self.paths)

    @property
    def backups(self) -> Backups:
        """Copies of the store."""
        from pegboard.services.backups import Backups

        return Backups(self.history, self.audit, self.paths)

    @property
    def calls(self) -> Calls:
        """Single calls."""
        from pegboard.services.calls import Calls

        return Calls(self, self.history)

    @property
    def channels(self) -> Channels:
        """The ways to people, and what they write back."""
        return self.open_channels(self.on_warning)

    def open_channels(self, notify: Callable[[str], None], *, gateway: bool = False) -> Channels:
        """The same for a worker.

        Args:
            notify: is given each sentence that a person should know.
            gateway: whether this process serves a gateway, through which people reach some channels.
        """
        from pegboard.app.messages import chat_channels

        return chat_channels(
            self, self.history, messages=self.messages, config=self.config, sessions=self.sessions,
            runs=self.runs, approvals=self.approvals, pairings=self.pairings, notify=notify,
            gateway=gateway,
        )  # fmt: skip

    @property
    def checks(self) -> Checks:
        """The conformance checks."""
        from pegboard.services.checks import Checks

        def executor(toolkit: Toolkit, folder: Path, consent: bool) -> Executor:
            mode = self.policy.mode
            return Executor(
                toolkit, workspace=folder, mode=mode, approver=AllowOnce() if consent else None
            )  # fmt: skip

        return Checks(
            executor, paths=self.paths, workspace=self.named_workspace, project=self.workspace,
            file=self.config_file,
        )  # fmt: skip

    @property
    def evals(self) -> Evals:
        """Tasks with checks, tried with models."""
        from pegboard.services.evals import Evals

        return Evals(self, self.history)

    @property
    def memory(self) -> Memory:
        """The notes that sessions of this workspace have kept."""
        from pegboard.services.memory import Memory

        return Memory(self)

    @property
    def messages(self) -> StoredMessages:
        """The messages that go to people."""
        from pegboard.app.messages import read_answer_files, stored_messages

        return stored_messages(
            self._connected, config=self.config, policy=self.policy, redact=self.redactor, workspace=self.workspace,
            notify=self.on_warning, answer_files=partial(read_answer_files, self.executor),
        )  # fmt: skip

    @property
    def nodes(self) -> PairedNodes:
        """Paired machines and phones; always the same object, since it knows which of them are connected here."""
        if self._nodes is None:
            from pegboard.services.nodes import PairedNodes

            self._nodes = PairedNodes(self._connected)
        return self._nodes

    @property
    def files(self) -> WorkspaceFiles:
        """The files of the workspace, to look at."""
        from pegboard.services.files import WorkspaceFiles

        return WorkspaceFiles(self)

    @property
    def pages(self) -> Pages:
        """The pages that MCP servers bring along for their tools' results."""
        from pegboard.services.pages import Pages

        return Pages(self, self.calls)

    @property
    def pairings(self) -> Pairings:
        """Senders and devices that were let in."""
        from pegboard.services.pairing import Pairings

        return Pairings(lambda: self.store)

    @property
    def policies(self) -> Policies:
        """Why calls are allowed, asked or denied."""
        from pegboard.services.policies import Policies

        return Policies(self, self.history)

    @property
    def retention(self) -> Retention:
        """What is kept of past work."""
        from pegboard.services.retention import Retention

        return Retention(self.history, self.paths)

    @property
    def runs(self) -> Runs:
        """The runs of agents."""
        from pegboard.services.runs import Runs

        return Runs(self, self.history, self.sessions, self.approvals)

    @property
    def sandbox(self) -> Sandbox:
        """The confinement of commands."""
        from pegboard.services.sandbox import Sandbox

        return Sandbox(self)

    @property
    def schedules(self) -> StoredSchedules:
        """The jobs that put messages into sessions at their times."""
        from pegboard.services.schedules import StoredSchedules

        return StoredSchedules(self._connected, settings=self.config.schedules, workspace=self.workspace)

    @property
    def servers(self) -> Servers:
        """The MCP servers whose tools we use."""
        from pegboard.services.servers import Servers

        return Servers(self.paths, self.workspace, file=self.config_file)

    @property
    def sessions(self) -> Sessions:
        """The conversations."""
        from pegboard.services.sessions import Sessions

        return Sessions(self, self.history)

    @property
    def settings(self) -> Settings:
        """What this machine has and enforces."""
        from pegboard.services.settings import Settings

        return Settings(self, self.history, named=self.named_workspace is not None)

    @property
    def slash_commands(self) -> SlashCommands:
        """Prompts that are called by name."""
        from pegboard.services.slash_commands import SlashCommands

        return SlashCommands(self.paths, self.workspace)

    @property
    def tokens(self) -> Tokens:
        """The tokens of those who use the gateway."""
        from pegboard.services.principals import Tokens

        return Tokens(lambda: self.store)

    @property
    def transactions(self) -> Transactions:
        """Runs in a copy of the workspace, whose changes land together or not at all."""
        from pegboard.services.transactions import Transactions

        return Transactions(self, this_environment())

    @property
    def undo(self) -> Undo:
        """The journal of file changes."""
        from pegboard.services.undo import Undo

        return Undo(self)

    @property
    def usage(self) -> UsageReports:
        """Tokens, money and time."""
        from pegboard.services.usage import UsageReports

        return UsageReports(self.history, lambda: self.toolkit)

    @property
    def worktrees(self) -> Worktrees:
        """Git worktrees for sessions that work apart from a person."""
        from pegboard.services.worktrees import Worktrees

        return Worktrees(self.paths, self.workspace, this_environment())

    async def scheduler(self, notify: Callable[[str], None] | None = None) -> Scheduler:
        """What fires the jobs of the store; checks run by this App's settings, heartbeats are those of the settings.

        Args:
            notify: is given each sentence that a person should know; None = `on_warning`.
        """
        return await self.schedules.scheduler(self, self.history, notify=notify or self.on_warning)

    def worker(
        self,
        interaction: Interaction = NOBODY,
        *,
        model: str | None = None,
        watcher: Watcher | None = None,
        channels: Channels | None = None,
        engine: Literal["local", "dbos"] = "local",
        limits: QueueLimits | None = None,
    ) -> Worker:
        """Runs sessions on what waits for them, fires schedules and delivers messages.

        Args:
            interaction: who answers.
            model: as `--model` takes it; None = the first that is found.
            watcher: sees its runs' events.
            channels: those on which it receives and delivers; None = new ones of this App.
            engine: `dbos` hands the sessions of this workspace out among all workers of a PostgreSQL store.
            limits: how many sessions run at once; those beyond one worker hold with `dbos` only.

        Raises:
            ConfigError: `dbos` without a PostgreSQL store, or limits of all workers without `dbos`.
        """
        from pegboard.runtime.engine.dbos import DbosQueue, QueueLimits
        from pegboard.services.outbox import OutboxDuty
        from pegboard.services.schedules import ScheduleDuty
        from pegboard.services.session_access import note_answer
        from pegboard.services.worker import Worker

        limits = limits or QueueLimits()
        queue: DbosQueue | None = None
        if engine == "dbos":
            from pegboard.store.postgres import PostgresStore

            if not isinstance(self.store, PostgresStore):
                raise ConfigError(
                    "the engine dbos needs a PostgreSQL store; name one with --store postgresql://… or the setting store"
                )
            url, schema = self.store.login
            queue = DbosQueue(
                url, schema=f"{schema}_dbos", name=str(self.workspace), store=self.store, limits=limits
            )
        elif limits.together is not None or limits.per_minute is not None:
            raise ConfigError("limits of all workers together need the engine dbos; add --engine dbos")
        notify = interaction.notify
        channels = channels or self.open_channels(notify)
        messages = channels.parts.messages
        worker = Worker(
            self, self.history, self.sessions, self.runs, interaction=interaction, model=model, most=limits.each,
            watchers=[channels.parts.drafts, *([] if watcher is None else [watcher])],
            duties=[
                ScheduleDuty(partial(self.scheduler, notify), notify=notify), channels,
                OutboxDuty(messages, notify=notify),
            ],
            on_answer=[
                channels.answer, self.schedules.note_answer,
                partial(note_answer, lambda: self.store, lambda text: self.redactor.redact(text)[0]),
            ],
            queue=queue,
        )  # fmt: skip
        channels.on_received = worker.look_now
        self._workers.add(worker)
        return worker

    def look_now(self) -> None:
        """Let the workers of this process look now instead of within half a second."""
        for worker in self._workers:
            worker.look_now()

    async def _serve(self, session: str, model: str) -> None:
        """Run another session on what waits for it, as a worker would; what it asks waits in the approvals."""
        await self.worker(Interaction(approver=SuspendAll()), model=model or None).serve(session)

    # -- executors and agents -----------------------------------------------------------------

    @asynccontextmanager
    async def executor(
        self,
        interaction: Interaction = NOBODY,
        *,
        session: str = "cli",
        only: str | None = None,
        recorded: bool = True,
        mode: str | None = None,
        toolkit: Toolkit | None = None,
        recorder: Recorder | None = None,
        sources: Iterable[Any] = (),
        code: bool = False,
    ) -> AsyncGenerator[Executor]:
        """An executor over the workspace, ended with the block.

        Args:
            interaction: who answers.
            session, recorder: see Executor.
            only: build just what the tool of this name needs, for one call.
            recorded: False for a preview: nothing is written.
            mode: decide by this mode; None = the App's.
            toolkit: offer these; None = the App's tools and those of the configured MCP servers, which
                are started when a tool that is not ours is wanted.
            sources: what brings further tools to a given toolkit.
            code: offer `run_code` whatever the settings say: a run that uses it goes on.
        """
        if toolkit is None:
            toolkit = self.toolkit if only is None else self._offered.only(only)
            if code and RUN_CODE not in toolkit:
                toolkit = self._offered.only(RUN_CODE)
            if RUN_CODE in toolkit:
                from pegboard.core.code_mode import with_code_mode

                toolkit = with_code_mode(toolkit)
            sources = self.mcp_servers() if only is None or only not in toolkit else []
        wiring = Wiring(
            workspace=self.workspace, provided=Provided(objects=interaction.people),
            policy=self.policy if mode is None else replace(self.policy, mode=cast(Mode, mode)),
            shaper=Shaper(), grants=cast(StoredGrants, self.policy.grants), models=self._model,
            auto=self.config.auto,
        )  # fmt: skip
        needs = needs_of(toolkit, wiring.provided)
        # Opened before anything is done: a damaged history must not be found out afterwards. A preview writes
        # nothing, so it makes no history where there is none.
        store = await self._open_store(recorded)
        if self.named_workspace is None:
            check_implicit(self.workspace, self.paths)
        assembly = Assembly(
            wiring=wiring, toolkit=toolkit, paths=self.paths, config=self.config,
            store=None if store is None else lambda: store, serve=self._serve, nodes=lambda: self.nodes,
        )  # fmt: skip
        assemble(assembly, needs, redactor=self.redactor)
        timeout = self.config.exec_timeout_s
        approver = interaction.approver
        async with Executor(
            [toolkit, *sources], wiring=wiring, recorder=recorder, session=session,
            approver=None if approver is None else RedactingApprover(approver, self.redactor.redact),
            middleware=interaction.middleware, timeout_s=max(600.0, timeout or 0.0), hooks=self._hooks(),
        ) as executor:  # fmt: skip
            executor.on_warning = interaction.notify
            yield executor

    async def _connected(self) -> HistoryStore:
        await self.store.connect()
        return self.store

    def _hooks(self) -> list[Any]:
        """The hooks of the settings, and those of the project that the user trusts."""
        if not self.config.hooks:
            return []
        from pegboard.config.hooks import refusal
        from pegboard.config.trust import Trust
        from pegboard.interop.hooks import Hooks

        trust, folder = Trust(self.paths), self.workspace
        return [
            Hooks(
                self.config.hooks, environment=this_environment(), workspace=folder,
                refused=lambda hook: refusal(hook, trust, folder),
            )
        ]  # fmt: skip

    async def _open_store(self, recorded: bool) -> HistoryStore | None:
        """The open store. For what writes nothing None if there is none, or if it cannot be opened (a full disk)."""
        if not recorded and not self.history.exists:
            return None
        try:
            await self.store.connect()
        except StoreError as error:
            if recorded:
                raise
            self.on_warning(f"earlier use is not counted: {error}")
            return None
        return self.store

    def agent(
        self, executor: Executor, *, model: str | None, turns: int | None = None, output: Any = None
    ) -> Agent:
        """An agent by the settings over an executor of this App.

        Raises:
            NoModel: none was named and none was found; the message lists the ways.
            ModelError: the model cannot be used.
        """
        opened = self._model(model or self.config.model)
        # A model that a person names for this run alone is the one that gets the data.
        others = () if model else self.config.fallback_models
        limits = self.config.limits
        agent = Agent(
            instructions=self._role(),
            model=[opened, *map(self._model, others)] if others else opened,
            allow_models=self.config.allow_models,
            limits=limits if turns is None else replace(limits, turns=turns),
            output=output,
            executor=executor,
            store="memory",
            tools_from=self.tools_from,
        )
        agent.keep_in(self.backing)
        return agent

    @property
    def backing(self) -> Backing:
        """Where sessions are kept."""
        from pegboard.runtime.session import Backing

        return Backing(store=self.store, chain=self.history.chain, redact=self.redactor.redact)

    def subagents(self, executor: Executor, *, model: str | None) -> SubagentRuns:
        """See Runtime."""
        from pegboard.app.subagents import subagent_runs

        self.agent(executor, model=model)  # Its model is theirs.
        return subagent_runs(
            executor.wiring,
            specs=self.config.all_agents(),
            limits=self.config.subagents,
            backing=self.backing,
        )

    async def instructions(self, executor: Executor, *, session: str) -> Instructions:
        """What an agent of this App is told before a run of a session: its role, where it works, the settings'
        instructions, and what the project's files say. These are content: the session holds their labels.
        """
        wiring = executor.wiring
        await wiring.safeguards.refresh(str(self.workspace))
        files = project_files(
            self.workspace, self.config.instructions_files, executor.policy, wiring.safeguards.taints,
            lambda text: self.redactor.redact(text)[0],
        )  # fmt: skip
        for file in files:
            for label, source in file.labels.items():
                if wiring.safeguards.taints is not None:
                    wiring.safeguards.taints.add(session, label, source)
        backend = next((e for e in wiring.safeguards.environment if e.startswith("sandbox:")), "sandbox:none")
        where = surroundings(
            self.workspace, executor.policy, now=datetime.now().astimezone(),
            sandbox=backend.removeprefix("sandbox:"), commands="exec" in executor.toolkit,
        )  # fmt: skip
        text = with_project_files(f"{self._role()}\n\n{where}", files)
        if self.config.memory.enabled:
            told = memory_prompt(self.memory.list(), tokens=self.config.memory.prompt_tokens)
            text = f"{text}\n\n{told.text}".rstrip()
            for label, source in told.labels.items():
                if wiring.safeguards.taints is not None:
                    wiring.safeguards.taints.add(session, label, source)
        return Instructions(text=text, files=tuple(file.target for file in files))

    def _role(self) -> str:
        text = ROLE.format(workspace=self.workspace)
        if self.skills is not None:
            text = f"{text}\n\n{self.skills.prompt()}"
        return f"{text}\n\n{self.config.instructions}".strip()

    def _model(self, name: str | None) -> Any:
        ports, keys = self.config.model_servers, self.config.model_keys
        model = open_model(name, paths=self.paths, ports=ports, keys=keys)
        if self.config.rate_limits:
            from pegboard.runtime.rate_limits import limited

            return limited(model, self.config.rate_limits, store=self._connected)
        return model

    def select_sandbox(
        self, folder: Path | None = None, *, backend: str | None = None, require: bool | None = None
    ) -> SelectedBackend:
        """The confinement for commands in a folder (the workspace), found by running something in it.

        Raises:
            ConfigError: the current folder is refused as a workspace that nobody named.
            Unavailable: one is required and none works here, or the named one does not.
        """
        from pegboard.app.shell import choose_backend

        if folder is None and self.named_workspace is None:
            check_implicit(self.workspace, self.paths)
        config = self.config if require is None else replace(self.config, require_sandbox=require)
        return choose_backend(self.policy, folder or self.workspace, self.paths, config, backend=backend)

    def tool(self, name: str) -> Tool | None:
        """The offered tool of that name or alias; loads no other where it can."""
        return self._offered.only(name).resolve(name)

    # -- MCP ----------------------------------------------------------------------------------

    def mcp_servers(self) -> list[Any]:
        """The configured MCP servers, none of them started; empty without any."""
        from pegboard.config.servers import any_servers, load_servers

        if not self.client_servers and not any_servers(self.paths, self.workspace):
            return []
        from pegboard.services.servers import opened

        configured = load_servers(self.paths, self.workspace).with_servers(self.client_servers)
        return list(opened(configured, self.paths))

    def serving(
        self, patterns: Sequence[str] = (), **options: Any
    ) -> AbstractAsyncContextManager[ToolServer]:
        """A server of our tools for MCP clients; see `pegboard.app.serving.serve_tools`."""
        from pegboard.app.serving import serve_tools

        return serve_tools(self, patterns, **options)
