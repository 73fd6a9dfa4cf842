"""SubagentRuns: subagents as runs of their own sessions, each of which reports to its parent exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from pegboard.core.call.call import call_id, new_id
from pegboard.core.context import Context, current_context
from pegboard.core.errors import BudgetExceeded, Conflict, InvalidArguments, NotFound, PegboardError
from pegboard.core.events import CallFinished, Event, ModelReplied, RunFinished, RunStarted, UserSaid
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.transcript import Usage
from pegboard.ports.messages import InboundMessage, sender_of
from pegboard.ports.store import Store
from pegboard.ports.subagents import ACTIVE, AgentSpec, Child, ChildRequest, SubagentLimits
from pegboard.runtime.fold import fold
from pegboard.store.children import Children
from pegboard.store.inbox import Inbox
from pegboard.store.leases import SessionBusy

RULES: Final = (
    "You are a subagent. Do the task that you are given, and nothing else. Your last message is the report to the "
    "agent that started you: put everything into it that it needs to know. Do not write to users, and do not start "
    "other agents."
)
GENERAL: Final = AgentSpec(name="general", description="Any task that can be done alone.")
TOOLS: Final = (
    "read_file", "write_file", "edit_file", "list_dir", "exec", "web_search", "web_fetch", "glob", "grep",
)  # fmt: skip
"""What a subagent gets of its parent's tools unless its spec names others."""
_FORKED: Final = 20_000
"""Characters of the parent's conversation that a forked one is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChild:
    """A subagent's session, open for work.

    Attributes:
        events: what it holds.
        start: runs on a message.
        resume: takes up a run of this id, given what was answered to its questions.
    """

    events: Sequence[Event]
    start: Callable[[InboundMessage], AsyncGenerator[Event]]
    resume: Callable[[str, Mapping[str, Any]], AsyncGenerator[Event]]


class Host(Protocol):
    """Where subagents live; the app has one for each executor."""

    def store(self, session: str) -> Store:
        """Where a session's subagents are kept: beside the session, in memory if that is not kept."""
        ...

    async def events(self, session: str, *, beside: str) -> Sequence[Event]:
        """What a session holds so far that is kept beside another one."""
        ...

    def open(self, child: Child, spec: AgentSpec) -> AbstractAsyncContextManager[OpenChild]:
        """Work on a subagent's session until the block ends."""
        ...

    async def finish(self, child: Child, spec: AgentSpec) -> str:
        """A subagent has ended: remove the worktree that it worked in if it is unchanged; else a text that names it."""
        ...


class SubagentRuns:
    """The Subagents port.

    A subagent's report and its end are written in one transaction, so that its parent reads it exactly once. What a
    process left unfinished is taken up by the next one that runs the parent.

    Args:
        host: opens their sessions.
        specs: the agents that can be started by name.
        limits: how many there may be.
        clock: the time.
    """

    def __init__(
        self,
        host: Host,
        *,
        specs: Iterable[AgentSpec] = (),
        limits: SubagentLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._host = host
        self._specs = {spec.name: spec for spec in specs}
        self._limits = limits or SubagentLimits()
        self._clock = clock or SystemClock()
        self._slots = asyncio.Semaphore(self._limits.running)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # -- the port -------------------------------------------------------------------------------

    def agents(self) -> Sequence[AgentSpec]:
        """See Subagents."""
        return tuple(self._specs.values())

    async def start(self, request: ChildRequest) -> Child:
        """See Subagents."""
        context = current_context()
        children = self._children(context.session)
        id = call_id("sub", context)
        child = await children.get(id)
        if child is None:
            self._spec(request.agent)
            child = await self._new_child(id, request, context, children)
            await children.add(child)
        self._run_soon(child)
        return child

    async def wait(self, id: str) -> Child:
        """See Subagents."""
        children = self._children(current_context().session)
        child = await self._mine(id)
        self._run_soon(child)
        if (task := self._tasks.get(id)) is not None:
            await asyncio.wait([task])
        return await children.get(id) or child

    async def list(self) -> list[Child]:
        """See Subagents."""
        session = current_context().session
        return await self._children(session).of(session)

    async def steer(self, id: str, text: str) -> Child:
        """See Subagents."""
        child = await self._mine(id)
        if child.status not in ACTIVE:
            raise Conflict(
                f"subagent {id} has ended: {child.status}",
                hint="Start one that follows it to go on with its work.",
            )
        context = current_context()
        message = InboundMessage(
            session=child.session, content=text, id=new_id("m"), by="agent", channel="system",
            sender_id=context.session, labels=tuple(sorted(context.labels)), wake=False,
        )  # fmt: skip
        await Inbox(self._host.store(context.session)).add(message)
        return child

    async def stop(self, id: str) -> Child:
        """See Subagents."""
        return await self._stop(await self._mine(id), self._children(current_context().session))

    async def log(self, id: str, *, limit: int = 20) -> list[str]:
        """See Subagents."""
        child = await self._mine(id)
        return log_lines(await self._host.events(child.session, beside=child.parent))[-limit:]

    # -- for whoever runs the parent ----------------------------------------------------------------

    def offer(self, specs: Iterable[AgentSpec]) -> None:
        """Let these be started by name too."""
        self._specs |= {spec.name: spec for spec in specs}

    async def wait_for_report(self, session: str) -> bool:
        """Wait until a subagent of a session has reported; False if none is under way.

        Those that an earlier process left unfinished are taken up first.
        """
        for child in await self._children(session).of(session):
            if child.status == "running" and not child.inline:
                self._run_soon(child)
        waiting = [
            self._tasks[c.id] for c in await self._children(session).of(session) if c.id in self._tasks
        ]
        if not waiting:
            return False
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def close(self) -> None:
        """Stop what still runs here; a later run of its parent takes it up."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def resume(self, child: Child, answers: Mapping[str, Any]) -> AsyncGenerator[Event]:
        """Take a subagent further whose process has ended or whose wait is over; its new events as they happen.

        Args:
            child: which.
            answers: see Agent.resume_events.
        """
        async with aclosing(self._work(child, answers)) as events:
            async for event in events:
                yield event

    async def usage(self, session: str, run: str = "") -> Usage:
        """What the subagents of a session, or of one of its runs, and theirs, have used."""
        found: list[Usage] = []
        for child in await self._children(session).of(session):
            if run in ("", child.parent_run):
                found += [child.usage, await self.usage(child.session)]
        return Usage.total(found)

    # -- work ---------------------------------------------------------------------------------------

    def _run_soon(self, child: Child) -> None:
        if child.status == "running" and child.id not in self._tasks:
            task = self._tasks[child.id] = asyncio.create_task(self._run(child))
            task.add_done_callback(lambda _: self._tasks.pop(child.id, None))

    async def _run(self, child: Child) -> None:
        async with self._slots, aclosing(self._work(child)) as events:
            try:
                async for _ in events:
                    pass
            except SessionBusy:
                await self._until_ended(child)  # Another process has taken it up; it reports there.
            except PegboardError as error:
                await self._settle(child, "failed", answer=await self._finish(child), error=str(error))

    async def _until_ended(self, child: Child) -> None:
        while True:
            now = await self._children(child.parent).get(child.id)
            if now is None or now.status != "running":
                return
            await asyncio.sleep(_LOOK_S)

    async def _work(self, child: Child, answers: Mapping[str, Any] | None = None) -> AsyncGenerator[Event]:
        children = self._children(child.parent)
        labels = set(child.labels)
        async with self._host.open(child, self._spec(child.agent)) as opened:
            labels |= fold(opened.events).labels
            run, finished = _own_run(child, opened.events)
            if finished is None or finished.status not in ("done", "limit"):
                events = (
                    opened.start(_first_message(child)) if run is None else opened.resume(run, answers or {})
                )
                async with aclosing(events):
                    async for event in events:
                        yield event
                        match event:
                            case RunFinished():
                                finished = event
                            case CallFinished(result):
                                labels.update(result.notes.labels)
                            case UserSaid():
                                labels.update(event.labels)
                            case _:
                                pass
                        if event.type in _LOOKED_AT and await _is_stopped(children, child):
                            return
        if finished is not None:
            status = "stopped" if finished.status == "cancelled" else finished.status
            made = "" if status == "suspended" else await self._finish(child)
            answer = f"{finished.answer}\n\n{made}".strip() if made else finished.answer
            await self._settle(child, status, answer, finished.error, finished.usage, tuple(sorted(labels)))

    async def _finish(self, child: Child) -> str:
        """See Host."""
        try:
            return await self._host.finish(child, self._spec(child.agent))
        except InvalidArguments:
            return ""  # Its agent is in the settings no more.
        except PegboardError as error:
            return f"Its worktree could not be closed: {error}"

    async def _settle(
        self,
        child: Child,
        status: str,
        answer: str = "",
        error: str = "",
        usage: Usage | None = None,
        labels: tuple[str, ...] = (),
    ) -> None:
        """Write how a subagent ended, and its report, together."""
        ended = replace(
            child, status=status, answer=answer, error=error, usage=usage or Usage(), labels=labels or child.labels,
            ended=0.0 if status == "suspended" else self._clock.now(),
        )  # fmt: skip
        inbox = Inbox(self._host.store(child.parent))
        reports = () if child.inline and status != "suspended" else (inbox.put_of(_report(ended)),)

        def change(now: Child) -> Child:
            return now if now.status not in ACTIVE else ended

        with suppress(Conflict):  # It has reported this before.
            await self._children(child.parent).change(child.id, change, *reports)

    async def _stop(self, child: Child, children: Children) -> Child:
        stopped = await children.change(
            child.id,
            lambda now: (
                replace(now, status="stopped", ended=self._clock.now()) if now.status in ACTIVE else now
            ),
        )
        if (task := self._tasks.get(child.id)) is not None:
            task.cancel()
            await asyncio.wait([task])
        if made := await self._finish(child):
            stopped = await children.change(child.id, lambda now: replace(now, answer=made))
        for below in await children.of(child.session):
            await self._stop(below, children)
        return stopped

    # -- parts --------------------------------------------------------------------------------------

    def _children(self, session: str) -> Children:
        return Children(self._host.store(session))

    def _spec(self, name: str) -> AgentSpec:
        if not name or name == GENERAL.name:
            return self._specs.get(GENERAL.name, GENERAL)
        if name not in self._specs:
            known = ", ".join(dict.fromkeys((GENERAL.name, *self._specs)))
            raise InvalidArguments(f"no agent {name!r}", hint=f"Agents that can be started: {known}.")
        return self._specs[name]

    async def _mine(self, id: str) -> Child:
        session = current_context().session
        children = self._children(session)
        child = await children.get(id)
        if child is None or child.parent != session:
            mine = ", ".join(c.id for c in await children.of(session)) or "none"
            raise NotFound(f"this session has no subagent {id!r}", hint=f"Its subagents: {mine}.")
        return child

    async def _new_child(self, id: str, request: ChildRequest, context: Context, children: Children) -> Child:
        if context.depth >= self._limits.depth:
            raise BudgetExceeded(
                f"this agent is {context.depth} levels below the main one, and subagents go {self._limits.depth} deep",
                hint="Do the work yourself.",
            )
        active = [c for c in await children.of(context.session) if c.status in ACTIVE]
        if len(active) >= self._limits.children:
            raise BudgetExceeded(
                f"{len(active)} subagents of this session are active, and {self._limits.children} may be",
                hint="Wait until one has reported, or stop one.",
            )
        before = None
        if request.follow:
            before = await self._mine(request.follow)
            if before.status in ACTIVE:
                raise Conflict(f"subagent {before.id} is still active", hint="Steer it instead.")
        agent = request.agent or ("" if before is None else before.agent)
        task = request.task
        if request.fork and before is None:
            talk = _conversation(await self._host.events(context.session, beside=context.session))
            task = f"What was said before you were started, for context:\n\n{talk}\n\nYour task:\n\n{task}"
        return Child(
            id=id, parent=context.session, parent_run=context.run, agent=agent, task=task, inline=request.inline,
            session=before.session if before is not None else f"agent:{agent or GENERAL.name}:subagent:task:{id}",
            label=request.label or (before.label if before is not None else ""), depth=context.depth + 1,
            started=self._clock.now(), labels=tuple(sorted(context.labels)),
            origin=sender_of(context.origin),
        )  # fmt: skip


_LOOK_S: Final = 0.5
_LOOKED_AT: Final = frozenset({ModelReplied.type, CallFinished.type})


async def _is_stopped(children: Children, child: Child) -> bool:
    now = await children.get(child.id)
    return now is not None and now.status == "stopped"


def _own_run(child: Child, events: Iterable[Event]) -> tuple[str | None, RunFinished | None]:
    """The run that works on the subagent's task, and how it has ended so far."""
    run = finished = None
    for event in events:
        if isinstance(event, RunStarted) and event.detail.get("source") == child.id:
            run = event.run
        elif isinstance(event, RunFinished) and event.run == run:
            finished = event
    return run, finished


def _first_message(child: Child) -> InboundMessage:
    return InboundMessage(
        session=child.session, content=child.task, id=child.id, by="agent", labels=child.labels,
        channel=child.origin.get("channel", "system"), sender_id=child.origin.get("sender", child.parent),
    )  # fmt: skip


def _report(child: Child) -> InboundMessage:
    """What the parent reads when a subagent has ended, or waits for a person."""
    name = f"{child.label!r} ({child.id})" if child.label else child.id
    if child.status == "suspended":
        id, text = (
            f"{child.id}:suspended",
            f"[Subagent {name} waits for a person's approval. Its report follows.]",
        )
    else:
        id = child.id
        end = "has finished" if child.status == "done" else f"has ended: {child.status}"
        why = f" ({child.error})" if child.error else ""
        text = f"[Subagent {name} {end}{why}. Its report:]\n\n{child.answer or '(none)'}"
    return InboundMessage(
        session=child.parent, content=text, id=f"subagent:{id}", by="subagent",
        channel=child.origin.get("channel", "system"), sender_id=child.origin.get("sender", "subagent"), labels=child.labels, metadata={"child": child.id, "status": child.status},
    )  # fmt: skip


def _conversation(events: Iterable[Event]) -> str:
    """What was said in a session, as text; the end of it if it is long."""
    lines: list[str] = []
    for event in events:
        match event:
            case UserSaid(message) if event.by != "runtime":
                lines.append(f"{event.by}: {message.text}")
            case ModelReplied(message) if message.text.strip():
                lines.append(f"agent: {message.text}")
            case _:
                pass
    text = "\n".join(lines)
    return text if len(text) <= _FORKED else f"[…]\n{text[-_FORKED:]}"


def log_lines(events: Iterable[Event]) -> list[str]:
    """What an agent has said and called, one line each."""
    lines: list[str] = []
    for event in events:
        match event:
            case ModelReplied(message) if message.text.strip():
                lines.append(f"said: {' '.join(message.text.split())[:300]}")
            case CallFinished(result):
                ended = "ok" if result.error is None else f"{result.error.code}: {result.error.message}"
                lines.append(f"{result.tool}: {' '.join(ended.split())[:300]}")
            case UserSaid(message) if event.by not in ("runtime", "agent"):
                lines.append(f"{event.by}: {' '.join(message.text.split())[:300]}")
            case RunFinished():
                lines.append(f"ended: {event.status}{f' ({event.error})' if event.error else ''}")
            case _:
                pass
    return lines
