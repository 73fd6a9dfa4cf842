"""Subagents over an executor: each has an agent, a smaller toolkit and a session of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pegboard.core.call.provide import Provided
from pegboard.core.errors import BuildError, Unavailable
from pegboard.core.events import Event, Recorder
from pegboard.core.limits import Limits
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import Usage
from pegboard.ports.messages import InboundMessage
from pegboard.ports.processes import Processes
from pegboard.ports.store import Store
from pegboard.ports.subagents import AgentSpec, Child, SubagentLimits, Subagents
from pegboard.runtime.subagents import GENERAL, RULES, TOOLS, OpenChild, SubagentRuns

if TYPE_CHECKING:
    from pegboard.runtime.session import Backing
    from pegboard.services.worktrees import Worktree, Worktrees


_IN_TREE: Final = (
    " You work in a git worktree of your own, {tree.workspace}, on the branch {tree.branch}; it began at the last "
    "commit. What you change is committed on that branch when you end."
)


class Parts(Protocol):
    """What subagents use of the wiring of the executor that runs their parent."""

    agent: Any
    executor: Any
    workspace: Path | None
    assembly: Any
    sessions: dict[str, Any]
    memory: Store | None
    ended: dict[str, list[Event]]
    provided: Provided
    waits: list[Callable[[str], Awaitable[bool]]]
    closers: list[Callable[[], Any]]
    spent: list[Callable[[str, str], Awaitable[Usage]]]

    def narrowed(self, provided: Provided) -> Any:
        """See Wiring."""
        ...


@dataclass(slots=True, eq=False)
class ExecutorHost:
    """The Host of one executor's subagents.

    Args:
        wiring: of the executor that runs the parent.
        runs: gives a subagent's own wiring the Subagents port.
        backing: where sessions are kept that do not run here now; None = in memory.
    """

    wiring: Parts
    runs: Callable[[Any], object]
    backing: Backing | None = None
    _trees: Worktrees | None = None
    _places: dict[str, Backing | None] = field(default_factory=dict[str, "Backing | None"])

    def store(self, session: str) -> Store:
        """See Host."""
        backing = self._backing(session)
        if backing is not None:
            return backing.store
        if self.wiring.memory is None:
            from pegboard.store.memory import MemoryStore

            self.wiring.memory = MemoryStore()
        return self.wiring.memory

    async def events(self, session: str, *, beside: str) -> Sequence[Event]:
        """See Host."""
        if (running := self.wiring.sessions.get(session)) is not None:
            return running.events()
        if (backing := self._backing(beside)) is None:
            return self.wiring.ended.get(session, [])
        from pegboard.store.log import history

        return await history(backing.store, session)

    @asynccontextmanager
    async def open(self, child: Child, spec: AgentSpec) -> AsyncGenerator[OpenChild]:
        """See Host."""
        backing = self._backing(child.parent)
        tree = None
        if spec.isolation == "worktree":
            tree = await self._worktrees().open(child.session)
        try:
            agent = self._agent(child, spec, tree)
        except BaseException:
            if tree is not None:
                self._worktrees().release(tree)
            raise
        try:
            if backing is None:
                agent.remember(child.session, self.wiring.ended.get(child.session, ()))
                yield _opened(agent, child, agent.session(child.session), None)
            else:
                from pegboard.runtime.session import open_session

                agent.keep_in(backing)
                async with open_session(backing, child.session) as session:
                    agent.remember(child.session, session.events)
                    yield _opened(agent, child, session.events, session.log)
                    await session.log.flush()
        finally:
            if backing is None:
                self.wiring.ended[child.session] = agent.session(child.session)
            if spec.model:
                await agent.model().aclose()  # Its parent's is not its own.
            await agent.executor.aclose()
            if tree is not None:
                self._worktrees().release(tree)

    async def finish(self, child: Child, spec: AgentSpec) -> str:
        """See Host."""
        if spec.isolation != "worktree":
            return ""
        worktrees = self._worktrees()
        tree = await worktrees.find(child.session)
        if tree is None:
            return ""
        await worktrees.commit(tree, f"{child.label or child.agent or 'subagent'}: {child.task[:200]}")
        changed = await worktrees.close(tree)
        if changed is None:
            return ""
        return (
            f"Its changes are committed on the branch {tree.branch} (worktree {tree.root}):\n{changed}\n"
            f"See them with: git diff HEAD...{tree.branch}; take them over with: git merge {tree.branch}"
        )

    def _worktrees(self) -> Worktrees:
        if self._trees is None:
            from pegboard.config.environment import environment
            from pegboard.config.paths import Paths
            from pegboard.services.worktrees import Worktrees

            assembly = self.wiring.assembly
            folder = self.wiring.workspace or Path.cwd()
            paths = Paths.of() if assembly is None else assembly.paths
            self._trees = Worktrees(paths, folder, environment())
        return self._trees

    def _backing(self, session: str) -> Backing | None:
        running = self.wiring.sessions.get(session)
        if running is not None:
            # Remembered: a subagent may report after its parent's run has ended at a limit.
            self._places[session] = running.backing
        return self._places.get(session, self.backing)

    def _agent(self, child: Child, spec: AgentSpec, tree: Worktree | None) -> Any:
        """An agent like the parent's, with some of its tools."""
        parent = self.wiring.agent
        if parent is None:
            raise Unavailable(
                "no agent runs here, so no model answers a subagent", hint="Start it from a run."
            )
        kit = kit_of(self.wiring.executor.toolkit, spec)
        name = child.agent or GENERAL.name
        wiring = _narrowed(self.wiring, kit, self.runs)
        if tree is not None and self.wiring.assembly is not None:  # Else no tool needs a folder.
            self.wiring.assembly.move(wiring, kit, tree.workspace)
        executor = self.wiring.executor.narrowed(
            kit,
            wiring=wiring,
            session=child.session,
            agent=name,
            depth=child.depth,
        )
        place = "" if tree is None else _IN_TREE.format(tree=tree)
        instructions = f"{RULES}{place}\n\n{spec.instructions}".strip()
        return parent.narrowed(
            executor, instructions=instructions, model=spec.model, limits=Limits(turns=spec.turns), name=name
        )


def _opened(agent: Any, child: Child, events: Sequence[Event], log: Recorder | None) -> OpenChild:
    def start(message: InboundMessage) -> AsyncGenerator[Event]:
        return agent.stream_message(message, recorder=log)

    def resume(run: str, answers: Mapping[str, Any]) -> AsyncGenerator[Event]:
        return agent.resume_events(run, events, recorder=log, answers=answers)

    return OpenChild(events=events, start=start, resume=resume)


def kit_of(parent: Toolkit, spec: AgentSpec) -> Toolkit:
    """The tools that a subagent gets: never one that its parent does not have."""
    from fnmatch import fnmatchcase

    wanted = TOOLS if spec.tools is None else spec.tools
    return Toolkit([tool for tool in parent if any(fnmatchcase(tool.name, name) for name in wanted)])


def _narrowed(wiring: Parts, kit: Toolkit, runs: Callable[[Any], object]) -> Any:
    """The same parts for a subagent: what it starts, and what it offers, is its own."""
    provided = Provided(wiring.provided, wiring.provided.objects)
    if "process" not in kit:
        provided.pop(Processes, None)  # A command must not go on where the subagent cannot follow it.
    narrowed = wiring.narrowed(provided)
    if provided.pop(Subagents, None) is not None:
        runs(narrowed)
    return narrowed


def offer_agents(wiring: Parts, specs: Iterable[AgentSpec]) -> None:
    """Let an executor's runs start these agents by name.

    Raises:
        BuildError: it has no tool that starts agents.
    """
    runs = wiring.provided.find(Subagents)
    if not isinstance(runs, SubagentRuns):
        raise BuildError(
            'Agent(subagents=…) needs a tool that starts them; add builtin("spawn") or builtin("call_subagent") to tools'
        )
    runs.offer(specs)


def subagent_runs(
    wiring: Parts,
    *,
    specs: Sequence[AgentSpec] = (),
    limits: SubagentLimits | None = None,
    backing: Backing | None = None,
) -> SubagentRuns:
    """The Subagents port of an executor; its agent's runs wait for what they have started.

    Args:
        wiring: the executor's parts; takes the port.
        specs, limits: see SubagentRuns.
        backing: where sessions are kept that do not run here now.
    """

    def again(narrowed: Parts) -> SubagentRuns:
        return subagent_runs(narrowed, specs=runs.agents(), limits=limits, backing=backing)

    runs = SubagentRuns(ExecutorHost(wiring, again, backing), specs=specs, limits=limits)
    wiring.waits.append(runs.wait_for_report)
    wiring.spent.append(runs.usage)
    wiring.closers.append(runs.close)
    wiring.provided[Subagents] = runs
    return runs
