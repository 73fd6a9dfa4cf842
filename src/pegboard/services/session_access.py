"""StoredSessionAccess: what a session may see of the others of its store, and say to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from pegboard.config.sessions import SessionSettings
from pegboard.core.call.call import call_id
from pegboard.core.context import Context, current_context
from pegboard.core.errors import BudgetExceeded, InvalidArguments, NotFound, PegboardError, Unavailable
from pegboard.core.events import RunFinished, RunStarted, UserTold
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.session_key import MAIN
from pegboard.ports.messages import InboundMessage
from pegboard.ports.sessions import Reply, SessionEntry, SessionHistory, SessionRow, Visibility
from pegboard.ports.store import Conflict, Put, Store
from pegboard.ports.subagents import AgentSpec
from pegboard.runtime.fold import fold
from pegboard.runtime.session_text import history_of, search
from pegboard.runtime.subagents import GENERAL
from pegboard.services.principals import principal_of
from pegboard.store.inbox import Inbox
from pegboard.store.leases import SessionBusy
from pegboard.store.log import history
from pegboard.store.runs import RunList
from pegboard.store.session_messages import KEPT_S, SentMessage, SessionMessages
from pegboard.store.session_rows import SessionRows, agent_of, find_session

ACTIVE_S: Final = 86400.0
"""Seconds since its last run for which a session counts as active."""
_LOOK_S: Final = 0.2
_REPLY: Final = "reply:"
_PROGRAMS: Final = frozenset({"cli", "local"})
"""Sessions of calls that a person or a program makes: nobody else speaks there."""


class StoredSessionAccess:
    """The SessionAccess port.

    Args:
        store: gives the store in which a session is kept.
        settings: `[sessions]`.
        specs: the agents that can be started by name.
        confined: whether commands run in a sandbox; a subagent then sees its own sessions at most.
        redact: takes secrets out of what is shown.
        serve: runs a session on what waits for it, with a model of this name; None = only other processes do.
        clock: the time.
    """

    def __init__(
        self,
        store: Callable[[str], Awaitable[Store]],
        *,
        settings: SessionSettings | None = None,
        specs: Iterable[AgentSpec] = (),
        confined: bool = True,
        redact: Callable[[str], str] = str,
        serve: Callable[[str, str], Awaitable[None]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._settings = settings or SessionSettings()
        self._specs = tuple(specs)
        self._confined = confined
        self._redact = redact
        self._serve = serve
        self._now = (clock or SystemClock()).now
        self._serving: dict[tuple[str, str], asyncio.Task[None]] = {}

    # -- the port -------------------------------------------------------------------------------

    async def list(self, *, active: bool = False, limit: int = 50) -> Sequence[SessionRow]:
        """See SessionAccess."""
        rows = await self._visible()
        if active:
            since = self._now() - ACTIVE_S
            rows = [r for r in rows if r.last_active >= since or r.waiting or r.status != "idle"]
        return rows[:limit]

    async def find(self, session: str = "", *, label: str = "", agent: str = "") -> SessionRow:
        """See SessionAccess."""
        rows = await self._visible()
        if agent:
            rows = [r for r in rows if r.agent == agent]
        if session:
            return find_session(rows, session)
        if label:
            return find_session(rows, f"@{label.removeprefix('@')}")
        mine = current_context().session
        found = next((r for r in rows if (r.key != mine if agent else r.key == mine)), None)
        if found is None:
            what = f"agent {agent!r} has no session" if agent else f"the session {mine!r} is not kept"
            raise NotFound(what, hint="sessions_list shows those there are.")
        return found

    async def history(self, session: str = "", *, limit: int = 50) -> SessionHistory:
        """See SessionAccess."""
        row = await self.find(session)
        events = await history(await self._here(), row.key)
        return await asyncio.to_thread(history_of, row.key, events, limit=limit, redact=self._redact)

    async def search(self, text: str, *, limit: int = 20) -> Sequence[SessionEntry]:
        """See SessionAccess."""
        keys = [row.key for row in await self._visible()]
        return await search(await self._here(), keys, text, limit=limit, redact=self._redact)

    async def send(self, session: str, message: str, *, timeout_s: float = 0.0) -> Reply:
        """See SessionAccess."""
        context = current_context()
        to = (await self.find(session)).key
        if to == context.session:
            raise InvalidArguments(f"{to!r} is this session itself")
        store = await self._here()
        messages = SessionMessages(store)
        id = call_id("msg", context)
        sent = await messages.get(id)
        if sent is None:
            sent = await self._add(store, messages, id, to, message, context, waits=timeout_s > 0)
        if not sent.waits:
            return Reply(id=id, session=to, status="queued")
        # Its own model goes on; one that has had none yet gets the sender's.
        runs = await RunList(store).list(session=to, limit=1)
        model = runs[0].model if runs and runs[0].model else context.model
        return await self._answer(messages, sent, model, timeout_s)

    def agents(self) -> Sequence[AgentSpec]:
        """See SessionAccess."""
        context = current_context()
        mine = AgentSpec(name=context.agent or MAIN, description="This agent.", model=context.model)
        return [mine, *(spec for spec in (GENERAL, *self._specs) if spec.name != mine.name)]

    # -- for whoever runs the sender ----------------------------------------------------------------

    async def wait_for_report(self, session: str) -> bool:
        """Wait until a session has ended that this one has sent something and that is run here; False without one."""
        tasks = [task for (sender, _), task in self._serving.items() if sender == session]
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return bool(tasks)

    async def close(self) -> None:
        """Stop what is run here; a worker takes it up."""
        tasks = list(self._serving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- who sees whom ------------------------------------------------------------------------------

    async def _here(self) -> Store:
        return await self._store(current_context().session)

    async def _visible(self) -> Sequence[SessionRow]:
        context = current_context()
        rows = _of_same_principal(await SessionRows(await self._here()).list(), context.session)
        seen = {context.session}
        match self._visibility(context):
            case "all":
                return rows
            case "agent":
                mine = agent_of(context.session)
                return [r for r in rows if r.agent == mine or r.key in seen]
            case "tree":
                children: dict[str, list[str]] = {}
                for row in rows:
                    children.setdefault(row.parent, []).append(row.key)
                found = [context.session]
                while found:
                    below = [key for key in children.get(found.pop(), ()) if key not in seen]
                    seen.update(below)
                    found += below
            case _:
                pass
        return [r for r in rows if r.key in seen]

    def _visibility(self, context: Context) -> Visibility:
        if _is_program(context):
            return "all"
        if context.depth and self._confined and self._settings.visibility != "self":
            return "tree"
        return self._settings.visibility

    # -- messages -----------------------------------------------------------------------------------

    async def _add(
        self,
        store: Store,
        messages: SessionMessages,
        id: str,
        to: str,
        text: str,
        context: Context,
        *,
        waits: bool,
    ) -> SentMessage:
        now, sender = self._now(), context.session
        turn = await self._turn(store, messages, context)
        by_program = _is_program(context)
        if turn > self._settings.turns:
            raise BudgetExceeded(
                f"sessions have answered each other {self._settings.turns} times in a row, and no more is sent",
                hint="Say what you found in your own answer.",
            )
        lately = [] if by_program else await messages.sent(sender, since=now - 60)
        if not by_program and len(lately) >= self._settings.per_minute:
            raise BudgetExceeded(
                f"this session has sent {len(lately)} messages to others within a minute, and "
                f"{self._settings.per_minute} may be",
                hint="Go on without, or send one message that says everything.",
                retryable=True,
            )
        # Who waits for this session's answer answers nothing before it has it.
        theirs = await messages.sent(to, since=now - 3600)
        waits = waits and not any(
            m.receiver == sender and m.waits and not (m.late or m.status) for m in theirs
        )
        sent = SentMessage(id=id, sender=sender, receiver=to, at=now, turn=turn, waits=waits)
        goes_back = " Your answer goes back to it." if waits else ""
        inbound = InboundMessage(
            session=to, content=f"[Message from session {sender}.{goes_back}]\n\n{text}", id=id, by="session",
            channel="session", chat_id=sender, sender_id=sender, at=now, labels=tuple(sorted(context.labels)),
            wants_answer=waits,
        )  # fmt: skip
        await messages.prune(sender, before=now - KEPT_S)
        with suppress(Conflict):  # The same call, at the same time.
            await messages.add(sent, Inbox(store).put_of(inbound))
        return await messages.get(id) or sent

    async def _turn(self, store: Store, messages: SessionMessages, context: Context) -> int:
        """1, or one more than that of the message which the run has read."""
        if not context.run:
            return 1
        read: set[str] = set()
        types = (RunStarted.type, UserTold.type)
        for event in await history(store, context.session, run=context.run, types=types):
            if isinstance(event, RunStarted):
                read.add(str(event.detail.get("source", "")))
            elif isinstance(event, UserTold):
                read.add(event.source)
        earlier = [await messages.get(id.removeprefix(_REPLY)) for id in read if id]
        return 1 + max((one.turn for one in earlier if one is not None), default=0)

    async def _answer(
        self, messages: SessionMessages, sent: SentMessage, model: str, timeout_s: float
    ) -> Reply:
        """Wait for the answer; where no other process runs the session, this one does."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                serving = self._run_soon(sent, model)
                while not sent.status and not sent.late:
                    await asyncio.wait([serving], timeout=_LOOK_S) if serving else await asyncio.sleep(
                        _LOOK_S
                    )
                    if serving is not None and serving.done():
                        serving = self._run_soon(sent, model) if _is_busy(serving, sent.receiver) else None
                    sent = await messages.get(sent.id) or sent
        if not sent.status and not sent.late:
            sent = await messages.change(sent.id, _late, lambda _: ()) or sent
        if sent.late:
            return Reply(id=sent.id, session=sent.receiver, status="late")
        status = "answered" if sent.status == "done" else sent.status
        return Reply(
            id=sent.id, session=sent.receiver, status=status, answer=sent.answer, error=sent.error, labels=sent.labels
        )  # fmt: skip

    def _run_soon(self, sent: SentMessage, model: str) -> asyncio.Task[None] | None:
        if self._serve is None:
            return None
        key = (sent.sender, sent.receiver)
        if key not in self._serving:
            task = self._serving[key] = asyncio.ensure_future(self._serve(sent.receiver, model))

            def ended(task: asyncio.Task[None]) -> None:
                self._serving.pop(key, None)
                _ = task.cancelled() or task.exception()  # Nobody may be waiting any more.

            task.add_done_callback(ended)
        return self._serving[key]


def _of_same_principal(rows: Sequence[SessionRow], session: str) -> Sequence[SessionRow]:
    """The sessions of the gateway's principal that a session, or the one that started it, belongs to; all for the owner."""
    parents = {row.key: row.parent for row in rows}

    def principal(key: str) -> str:
        while parent := parents.get(key, ""):
            key = parent
        return principal_of(key)

    mine = principal(session)
    return [row for row in rows if principal(row.key) == mine] if mine else rows


def _is_program(context: Context) -> bool:
    """Whether a person or a program calls, and no model."""
    return context.session in _PROGRAMS and not context.model


def _is_busy(task: asyncio.Task[None], session: str) -> bool:
    """Whether a task has ended since another process works on the session.

    Raises:
        Unavailable: it cannot be run here.
    """
    match task.exception():
        case None:
            return False
        case SessionBusy():
            return True
        case PegboardError() as error:
            raise Unavailable(
                f"session {session!r} cannot be run here: {error}", hint="The message waits for it."
            ) from error
        case error:
            raise error


def _late(sent: SentMessage) -> SentMessage:
    return sent if sent.status else replace(sent, late=True)


async def note_answer(
    store: Callable[[], Store], redact: Callable[[str], str], message: InboundMessage, finished: RunFinished
) -> None:
    """Keep the answer to a message of another session, without secrets; a Worker's `on_answer`."""
    if message.by != "session":
        return
    here = store()
    labels = tuple(sorted(fold(await history(here, message.session)).labels))

    def answered(sent: SentMessage) -> SentMessage:
        if sent.status:
            return sent
        return replace(
            sent,
            status=finished.status,
            answer=redact(finished.answer),
            error=redact(finished.error),
            labels=labels,
        )

    def reply(sent: SentMessage) -> Sequence[Put]:
        # Nothing runs in the session of a single call, so nobody would read it.
        late = sent.late and sent.sender not in _PROGRAMS
        return [Inbox(here).put_of(_reply(sent))] if late else []

    with suppress(Conflict):  # The sender has it.
        await SessionMessages(here).change(message.id, answered, reply)


def _reply(sent: SentMessage) -> InboundMessage:
    why = f" ({sent.error})" if sent.error else ""
    text = f"[Session {sent.receiver} has answered: {sent.status}{why}.]\n\n{sent.answer or '(nothing)'}"
    return InboundMessage(
        session=sent.sender, content=text, id=f"{_REPLY}{sent.id}", by="session", channel="session",
        chat_id=sent.receiver, sender_id=sent.receiver, labels=sent.labels,
    )  # fmt: skip
