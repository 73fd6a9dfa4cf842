"""Agent: a model with tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pegboard.app.answer import Answer, answer_of
from pegboard.app.builtins import run_sync
from pegboard.app.executor import Executor
from pegboard.app.parts import key_of, limits_of, model_of, output_of
from pegboard.app.session_hooks import PROMPTERS, SessionHooks
from pegboard.app.tee import Tee
from pegboard.core.call.call import Turn, new_id
from pegboard.core.content import Image
from pegboard.core.errors import BuildError
from pegboard.core.errors import check_text as given_text
from pegboard.core.events import (
    CallStarted,
    ConversationRewound,
    Event,
    PermissionJudged,
    Recorder,
    RunFinished,
    RunStarted,
    UserSaid,
    UserTold,
)
from pegboard.core.limits import Limits
from pegboard.core.policy.approval import Approver, NamedByPerson, Refused
from pegboard.core.policy.budgets import Spent
from pegboard.core.policy.policy import PROPOSE_PLAN, Policy
from pegboard.core.result import text_of
from pegboard.core.session_key import GATEWAY, principal_of
from pegboard.core.tool_search import BEYOND
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Usage, UserMessage
from pegboard.ports.todos import Todos

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.core.call.pipeline import TurnExecutor
    from pegboard.ports.messages import InboundMessage
    from pegboard.ports.subagents import AgentSpec
    from pegboard.runtime.compaction import Window
    from pegboard.runtime.fold import History
    from pegboard.runtime.session import Backing
    from pegboard.runtime.until import UntilCommand
    from pegboard.store.answers import Answers
    from pegboard.store.inbox import Inbox


PLAN_INSTRUCTIONS = (
    "This run begins in mode plan: you can only read until the user agrees to a plan. Read what you need, propose the "
    "plan with propose_plan, and carry it out after a yes."
)


class Agent:
    """A model with tools.

    Args:
        instructions: the system prompt.
        tools: tools, functions and toolkits.
        model: a Model, or a name as `--model` takes it (`openai:gpt-5`, `local`); a list of these = the
            next one answers where one cannot; None = the first found.
        output: a type or a JSON Schema; the final answer is read into it.
        provide: objects that fill `Inject[T]`.
        limits: what ends a run.
        name: the agent's id.
        allow_models: by tool name or pattern, the models that may have it.
        calls_in: `xml` or `text` = the model writes its calls in its text; None = only if the model, or its
            server at the first request, says that it has no tool calls.
        store: where named sessions are kept: a path, `sqlite:PATH`, `postgresql://…`, or `memory`, which ends with this agent; None =
            the command line's history, so that `pegboard runs` lists them. Unnamed runs stay in memory.
        wait_s: seconds to wait for another process that works on the same session.
        tools_from: where the tools were loaded from, and the SHA-256 of each file; recorded with each run.
        subagents: agents that `spawn` and `call_subagent` start by name.
        Further arguments are the Executor's.
    """

    def __init__(
        self,
        *,
        instructions: str = "",
        tools: Toolkit | Iterable[Any] = (),
        model: Any = None,
        output: Any = None,
        provide: Iterable[Any] = (),
        limits: Limits | None = None,
        name: str = "main",
        executor: Executor | None = None,
        allow_models: Mapping[str, Sequence[str]] | None = None,
        calls_in: str | None = None,
        defer_beyond: int = BEYOND,
        store: str | Path | None = None,
        wait_s: float = 10.0,
        tools_from: Mapping[str, str] | None = None,
        subagents: Iterable[AgentSpec] = (),
        **options: Any,
    ) -> None:
        self.instructions = given_text(instructions or "", "instructions=…")
        self.name = given_text(name, "name=…")
        self.limits = limits_of(limits)
        self.executor = executor or Executor(
            tools, provide=provide, agent=name, defer_beyond=defer_beyond, **options
        )
        self._model = model_of(model)
        self.executor.wiring.session_model = self.model
        self.executor.wiring.agent = self
        if subagents:
            from pegboard.app.subagents import offer_agents

            offer_agents(self.executor.wiring, subagents)
        self._output = output_of(output)
        self._allow_models = dict(allow_models or {})
        self._offer: Callable[[str, Toolkit], Toolkit] | None = None
        self._calls_in = calls_in
        self._opened = False
        self._talks: dict[str, list[Event]] = {}
        self._busy: dict[str, tuple[Callable[[str], None], Tee]] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._spent_s: dict[str, float] = {}
        self._store = store
        self._wait_s = wait_s
        self._tools_from = dict(tools_from or {})
        self._backing: Backing | None = None
        self._opening = asyncio.Lock()
        self._kept: Backing | None = None
        self._known: dict[str, list[Event]] = {}

    async def run(
        self,
        task: str,
        *,
        session: str | None = None,
        recorder: Recorder | None = None,
        until: str = "",
    ) -> Answer:
        """Run a task to its end.

        Args:
            task: what to do.
            session: a name; runs of one session share their conversation, and a later process knows it too (see
                `store`). None = a fresh session in memory.
            recorder: receives every event beside the session's own record.
            until: a shell command; the run is done only when it passes. A failure goes back to the model, at most 5
                times and within the limits; then the run has failed. Needs the tool `exec`.

        Raises:
            BuildError: the task or the session's name is not a text, or `until` is given and there is no tool `exec`.
            ConfigError: another process works on the session; the message names it.
            ModelError: no model could be found or opened. What happens later is told by the status.
            StoreError: the store cannot be opened, or the session cannot be written.
        """
        task, session = given_text(task, "a task"), key_of(session)
        tee = Tee(self._history(session), recorder)
        finished = await self._loop(task, tee, session, given=_until(until))
        return answer_of(finished, tee.mine)

    def run_sync(self, task: str, *, session: str | None = None, until: str = "") -> Answer:
        """`run` from code that is not async."""
        return run_sync(self.run(task, session=session, until=until))

    def remember(self, session: str, events: Iterable[Event]) -> None:
        """Keep a session in memory and continue from these events of it."""
        self._talks[session] = list(events)

    def narrowed(
        self, executor: Executor, *, instructions: str, model: str, limits: Limits, name: str
    ) -> Agent:
        """An agent over another executor for a part of this one's work.

        Args:
            executor, instructions, limits, name: see Agent.
            model: as `--model` takes it; empty = this agent's own.
        """
        return Agent(
            executor=executor, instructions=instructions, model=model or self.model(), limits=limits, name=name,
            allow_models=self._allow_models, store="memory",
        )  # fmt: skip

    def keep_in(self, backing: Backing) -> None:
        """The sessions that this agent remembers are written there by whoever opened them: their inbox is there."""
        self._kept = backing

    def session(self, session: str) -> list[Event]:
        """The events of a session that this agent has run in, so far; empty if there is none."""
        return list(self._talks.get(session) or self._known.get(session, ()))

    async def resume(
        self,
        run: str,
        *,
        answers: Mapping[str, Any] | None = None,
        approver: Approver | None = None,
        recorder: Recorder | None = None,
    ) -> Answer:
        """Resume an unfinished run, also one whose process has ended.

        A call that had begun and may not be repeated is reported to the model as interrupted; calls that had not
        begun run now. Nothing is done twice. A run that has ended gives its end again.

        Args:
            run: its id.
            answers: Approved, Refused or text, by the key in `pending`; answers given with `pegboard approvals` count
                as well.
            approver: answers what nobody has answered yet; None = that goes on waiting.
            recorder: receives every new event beside the session's own record.

        Raises:
            BuildError: there is no such run, or its session has gone on without it.
            ConfigError: another process works on its session.
            StoreError: the store cannot be opened or written.
        """
        from pegboard.store.answers import Answers
        from pegboard.store.log import active_s
        from pegboard.store.runs import RunList

        session = self._session_in_memory(run)
        given = _ResumeInput(dict(answers or {}), approver, self._spent_s.get(run, 0.0))
        tee = Tee([], recorder)
        if session is not None:
            tee = Tee(self._history(session), recorder)
        else:
            backing = await self._open_backing()
            row = await RunList(backing.store).get(run)
            if row is None:
                raise BuildError(f"no run {run!r} in this store; see: pegboard runs")
            session = row.stream
            spent_s = active_s(await backing.store.read(session, run=run, bodies=False))
            kept = Answers(backing.store)
            given = replace(given, spent_s=max(given.spent_s, spent_s), kept=kept)
        finished = await self._loop("", tee, session, run, given)
        return answer_of(finished, tee.mine)

    def resume_sync(self, run: str, **options: Any) -> Answer:
        """`resume` from code that is not async."""
        return run_sync(self.resume(run, **options))

    async def resume_events(
        self,
        run: str,
        events: Iterable[Event],
        *,
        recorder: Recorder | None = None,
        answers: Mapping[str, Any] | None = None,
        approver: Approver | None = None,
        spent_s: float = 0.0,
    ) -> AsyncGenerator[Event]:
        """Resume an unfinished run from its session's events, which the caller keeps.

        Calls that had begun and are not idempotent are reported to the model as interrupted; calls
        that had not begun run now. Nothing is done twice. A run that has ended (done, or at a limit)
        gives its end again and does nothing. What a call waits for may have been answered meanwhile: an
        approval holds for what was shown and is void where the call would now do something else; the
        answer to a question becomes its call's result.

        Args:
            run: its id.
            events: its session's events.
            recorder: receives every new event.
            answers: Approved, Refused or text, by the key in `pending`.
            approver: answers what nobody has answered yet; None = that goes on waiting.
            spent_s: seconds that it took in other processes; its time limit goes on from there. Turns,
                calls, tokens and money go on from what the events say.

        Raises:
            BuildError: the events hold no run of that id, or the session has gone on without it.
        """
        known = list(events)
        session = next(
            (e.session for e in reversed(known) if isinstance(e, RunStarted) and e.run == run), None
        )
        if session is None:
            raise BuildError(f"the events contain no run {run!r}")
        ended = _check_resumable(known, run)
        self.remember(session, known)
        if ended is not None:
            yield ended
            return
        given = _ResumeInput(dict(answers or {}), approver, max(spent_s, self._spent_s.get(run, 0.0)))
        async with aclosing(self._streamed("", session, recorder, run=run, given=given)) as stream:
            async for event in stream:
                yield event

    def stream(
        self,
        task: str,
        *,
        session: str | None = None,
        recorder: Recorder | None = None,
        until: str = "",
        images: Sequence[Image] = (),
    ) -> AsyncGenerator[Event]:
        """The run's events as they happen; the last is RunFinished. For the other arguments see `run`.

        Leaving the loop cancels the run; `aclose()` returns when it has ended.

        Args:
            images: pictures that the task brings along.
        """
        given = _ResumeInput(until=given_text(until, "until=…"), images=tuple(images))
        return self._streamed(given_text(task, "a task"), key_of(session), recorder, given=given)

    async def _streamed(
        self,
        task: str,
        session: str | None,
        recorder: Recorder | None,
        run: str | None = None,
        given: _ResumeInput | None = None,
        message: InboundMessage | None = None,
    ) -> AsyncGenerator[Event]:
        waiting: asyncio.Queue[Event | None] = asyncio.Queue()
        tee = Tee(self._history(session), recorder, waiting.put_nowait)
        work = asyncio.ensure_future(self._loop(task, tee, session, run, given, message))
        work.add_done_callback(lambda _: waiting.put_nowait(None))
        try:
            while (event := await waiting.get()) is not None:
                yield event
            await work
        finally:
            if not work.done():
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work

    def stream_message(
        self, message: InboundMessage, *, recorder: Recorder | None = None, until: str = ""
    ) -> AsyncGenerator[Event]:
        """`stream`, on a message of the session's inbox."""
        return self._streamed(
            message.content, message.session, recorder, given=_until(until), message=message
        )

    def tell(self, text: str, *, session: str) -> bool:
        """Give a running session another user message; it is read before the next model turn.

        The run's recorder has it when this returns, and a log on disk writes it with its next batch: a process that
        is killed within that moment loses it. `tell_and_keep` returns when it is written.

        Returns False where no run of that session is going on.
        """
        busy = self._busy.get(session)
        if busy is None:
            return False
        busy[0](text)
        return True

    async def add_message(self, text: str, *, session: str) -> bool:
        """`tell`, and return when the run's recorder has written the message.

        Raises:
            StoreError: it could not be written; the run that goes on reads it all the same.
        """
        busy = self._busy.get(session)
        if busy is None:
            return False
        busy[0](text)
        await busy[1].flush()
        return True

    async def aclose(self) -> None:
        """End the model and what the executor started."""
        if self._model is not None and not isinstance(self._model, str | list | tuple):
            await self._model.aclose()
        await self.executor.aclose()
        if self._backing is not None:
            from pegboard.app.backing import close_store

            await close_store(self._backing.store)
            self._backing = None

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def model(self) -> Any:
        """The model, found and opened at the first use.

        Raises:
            ModelError: none was named and none was found; the message lists the ways.
        """
        if not self._opened:
            self._model = self._open(self._model)
            self._opened = True
        return self._model

    def _open(self, wanted: Any) -> Any:
        from pegboard.runtime.availability import Availability

        if self._allow_models and self._offer is None:
            self._offer = Availability(self._allow_models).kit
        if isinstance(wanted, list | tuple):
            from pegboard.models.fallback import FallbackModel

            several = [self._open(one) for one in cast("Sequence[Any]", wanted)]
            return FallbackModel(several, tools_for=self._offer)
        model = self.executor.wiring.model(wanted) if wanted is None or isinstance(wanted, str) else wanted
        form = self._calls_in or ("xml" if getattr(model, "calls_tools", True) is False else None)
        if form is None and "@http" not in model.name:
            return model
        from pegboard.runtime.text_model import TextCallModel, ToolCallFallbackModel

        # Nobody knows what an own server's model can do before it has been asked.
        return ToolCallFallbackModel(model) if form is None else TextCallModel(model, form)

    def _history(self, session: str | None) -> list[Event]:
        """The events that a session in memory holds; those of one in the store are read when it is opened."""
        if session is None or (self._store != "memory" and session not in self._talks):
            return []
        return self._talks.setdefault(session, [])

    async def _loop(
        self,
        task: str,
        tee: Tee,
        session: str | None,
        run: str | None = None,
        given: _ResumeInput | None = None,
        message: InboundMessage | None = None,
    ) -> RunFinished:
        if session is None:
            return await self._exclusive(task, tee, None, run, given)
        # One worker a session: a second run waits, or the two would weave into one transcript.
        async with self._turns.setdefault(session, asyncio.Lock()):
            if session in self._talks or self._store == "memory":
                return await self._exclusive(task, tee, session, run, given, message, self._kept)
            return await self._in_store(task, tee, session, run, given, message)

    async def _in_store(
        self,
        task: str,
        tee: Tee,
        session: str,
        run: str | None,
        given: _ResumeInput | None,
        message: InboundMessage | None,
    ) -> RunFinished:
        """A run of a session in the store: this process holds it, and writes what happens as it happens."""
        from pegboard.runtime.session import open_session

        backing = await self._open_backing()
        async with open_session(backing, session, run=run or "", wait_s=self._wait_s) as opened:
            tee.attach(opened.events, opened.log)
            self._known[session] = opened.events
            if run is not None and (ended := _check_resumable(opened.events, run)) is not None:
                return ended
            if given is not None and given.kept is not None:
                pending = [str(one["pending"]) for one in _pending(opened.events) if "pending" in one]
                given.answers.update(
                    {k: v for k, v in (await given.kept.of(pending)).items() if k not in given.answers}
                )
            finished = await self._exclusive(task, tee, session, run, given, message, backing)
            if given is not None and given.kept is not None:
                await given.kept.used(given.answers)
            return finished

    async def _open_backing(self) -> Backing:
        async with self._opening:
            if self._backing is None:
                from pegboard.app.backing import open_backing

                self._backing = await open_backing(self._store)
            return self._backing

    def _session_in_memory(self, run: str) -> str | None:
        for session, events in self._talks.items():
            if any(isinstance(e, RunStarted) and e.run == run for e in events):
                return session
        return None

    async def _exclusive(
        self,
        task: str,
        tee: Tee,
        session: str | None,
        run: str | None,
        given: _ResumeInput | None,
        message: InboundMessage | None = None,
        backing: Backing | None = None,
    ) -> RunFinished:
        from pegboard.app.wiring import RunningSession
        from pegboard.runtime.answers import AnsweredApprover
        from pegboard.runtime.budget import overspent
        from pegboard.runtime.fold import fold, user_messages
        from pegboard.runtime.loop import Loop, RunState, own_code
        from pegboard.runtime.output import OutputReader
        from pegboard.runtime.telemetry import telemetry
        from pegboard.runtime.todos import todos_in

        model = self.model()
        await self.executor.refresh_tools()
        state = RunState(id=run or new_id("run"), session=session or new_id("session"))
        state.spent_s = 0.0 if given is None else round(given.spent_s, 3)
        before = tee.before()
        hooks = None
        if self.executor.hooks is not None:
            shaper = self.executor.pipeline.parts.shaper
            hooks = SessionHooks(self.executor.hooks, shaper, state.session, state.id)
            prompted = message is None or message.by in PROMPTERS
            task = await hooks.prompt(task, tee, known=bool(before), prompted=prompted)
        history = fold(before) if before else None
        output = self._output
        if output is None and run is not None and history is not None and history.run is not None:
            output = history.run.detail.get("output")  # As the run was started.
        reader = None if output is None else OutputReader(output)
        if run is not None:
            _refuse_again(state.asked, before, run)
        approver: Approver | None = None
        if given is not None and history is not None:
            approver = given.approver
            if history.waiting or given.answers:
                approver = AnsweredApprover(history.requests, given.answers, approver)
        instructions = self.instructions if reader is None else reader.instructions(self.instructions)
        if self.executor.policy.mode == "plan":
            instructions = f"{instructions}\n\n{PLAN_INSTRUCTIONS}".strip()
        todos = cast("Todos | None", self.executor.wiring.provided.get(Todos))
        if todos is not None:
            todos.put(state.session, todos_in(before))
        traced = telemetry()
        wiring = self.executor.wiring
        meter = wiring.safeguards.meter
        context = replace(self.executor.context, model=model.name)
        origin = _origin(message, None if run is None or history is None else history.run)
        if principal := principal_of(state.session):
            # Whatever woke its session, a job or another session too: what runs there is for this principal.
            kept = {k: v for k, v in origin.items() if k == "message_id"}
            origin = {"channel": GATEWAY, "sender": principal, **kept}
        if origin:
            context = replace(context, origin=origin)
        turn_context = replace(context, run=state.id, session=state.session)

        async def charge(message: AssistantMessage) -> None:
            if meter is not None:
                await meter.charge("", turn_context, Spent(money=message.usage.cost_usd or 0.0))

        async def unpaid() -> str:
            if meter is not None and (why := await meter.exhausted_reason(turn_context)):
                return why
            spent = [await find(state.session, state.id) for find in wiring.spent]
            return overspent(self.limits, Usage.total([state.usage, *spent])) if spent else ""

        turns = self.executor.with_recorder(
            tee, approver=approver, middleware=() if traced is None else (traced.tool,)
        )

        until = self._until_command(run, given, history, tee)

        def latest_policy() -> Mapping[str, str] | None:
            policy = self.executor.policy
            if policy is turns.pipeline.parts.policy:
                return None
            for one in (turns, *(() if until is None else (until.executor,))):
                cast("TurnExecutor", one).pipeline.parts.policy = policy
            return _policy_detail(policy)

        async def latest_tools() -> Toolkit:
            kit = await self.executor.latest_tools()
            if kit is not turns.toolkit:
                turns.pipeline.set_toolkit(kit)
            return kit

        read = _read_messages(before)
        if message is not None:
            read.add(message.id)

        def deliver(text: str, by: str = "user", labels: tuple[str, ...] = (), source: str = "") -> None:
            told = UserTold(UserMessage.of(given_text(text, "a message")), by, labels, source)
            # Kept before it is read: the process may be killed in between.
            tee.record(told)
            state.inbox.append(told)

        async def receive(ending: bool) -> None:
            while True:
                if (inbox := wiring.inbox(state.session)) is not None:
                    await self._take_messages(
                        inbox, state.session, read, deliver, tee, sender=origin.get("sender", "")
                    )
                if not ending or state.inbox or not await self._something_reports(state.session):
                    return

        async def stopped() -> None:
            if (stops := wiring.stops(state.session)) is not None:
                await stops.wait(state.id)

        loop = Loop(
            model=model,
            executor=turns,
            telemetry=traced,
            instructions=instructions,
            recorder=tee,
            limits=self.limits,
            output_schema=None if reader is None else reader.schema,
            read_output=None if reader is None else reader.read,
            price=self.executor.wiring.price,
            window=self._window(model.name, instructions),
            offer=self._offer,
            latest_tools=latest_tools,
            answers={} if given is None else given.answers,
            unpaid=unpaid
            if meter is not None or wiring.spent or self.executor.policy.mode == "auto"
            else None,
            charge=None if meter is None else charge,
            policy=_policy_detail(self.executor.policy),
            latest_policy=latest_policy,
            shown=self._shown_tools,
            until=until,
            code=() if session is None else own_code(self.executor.toolkit),
            tools_from=self._tools_from,
            before_stop=None if hooks is None else hooks.before_stop,
            before_compact=None if hooks is None else hooks.before_compact,
            receive=receive,
            stopped=None if backing is None else stopped,
            task_images=() if given is None else given.images,
            **_sender(message, None if run is None or history is None else history.run),
        )
        listener = self._follow(state.session)
        for event in user_messages(before):
            listener(event)
        tee.listen(listener)
        if traced is not None:
            tee.listen(traced.on_event)

        if session is not None:
            self._busy[session] = (deliver, tee)
        deliver_notice = partial(deliver, by="process")
        wiring.listeners.append(deliver_notice)
        wiring.sessions[state.session] = RunningSession(events=tee.before, backing=backing)
        begun = loop.clock.monotonic()
        try:
            if traced is None:
                return await loop.run(task, state=state, context=context, history=history)
            with traced.agent(self.name, state.session, model.name) as ended:
                finished = await loop.run(task, state=state, context=context, history=history)
                ended(finished)
                return finished
        finally:
            wiring.listeners.remove(deliver_notice)
            wiring.sessions.pop(state.session, None)
            if tee.resumable:
                # It may be taken up again in this process.
                self._spent_s[state.id] = state.spent_s + loop.clock.monotonic() - begun
            else:
                self._spent_s.pop(state.id, None)
            if session is not None:
                self._busy.pop(session, None)

    def _until_command(
        self, run: str | None, given: _ResumeInput | None, history: History | None, tee: Tee
    ) -> UntilCommand | None:
        """The command that ends the run: as given, or as a run that is resumed was started with.

        Raises:
            BuildError: there is none of our tools to run it with.
        """
        from pegboard.runtime.until import UntilCommand

        command = "" if given is None else given.until
        if run is not None and history is not None and history.run is not None:
            command = str(history.run.detail.get("until", ""))
        if not command:
            return None
        if self.executor.toolkit.resolve("exec") is None:
            raise BuildError("until= runs a command and needs the tool exec; add builtin('exec') to tools=…")
        return UntilCommand(
            command=command, executor=self.executor.with_recorder(tee, approver=NamedByPerson("until"))
        )

    def _shown_tools(self, kit: Toolkit) -> Toolkit:
        """The tools that a model is told of: a plan is proposed in mode plan only."""
        if PROPOSE_PLAN not in kit or self.executor.policy.mode == "plan":
            return kit
        return kit.without(PROPOSE_PLAN)

    def window(self) -> Window:
        """What one request to the model may take, and what instructions and tools take of it."""
        return self._window(self.model().name, self.instructions)

    async def _take_messages(
        self,
        inbox: Inbox,
        session: str,
        read: set[str],
        deliver: Callable[[str, str, tuple[str, ...], str], None],
        tee: Tee,
        *,
        sender: str,
    ) -> None:
        """Give the run what waits in its session's inbox.

        A message that wants an answer stays there, to be answered when the run ends; it is in `read` then. In a chat
        of several people the message of another one than the run's sender waits for a run of its own: what the
        sender may do, by rules or grants, is not for everybody.
        """
        waiting = [
            m for m in await inbox.waiting(session)
            if not (sender and m.chat_id and m.sender_id and m.sender_id != sender)
        ]  # fmt: skip
        for message in waiting:
            if message.id not in read:
                read.add(message.id)
                deliver(message.content, message.by, message.labels, message.id)
        if done := [m for m in waiting if not m.wants_answer and m.reply is None]:
            await tee.flush()
            await inbox.drop(done)

    async def _something_reports(self, session: str) -> bool:
        """Wait until something that the session's run has started reports to it; False if nothing is under way."""
        for wait in self.executor.wiring.waits:
            if await wait(session):
                return True
        return False

    def _window(self, model: str, instructions: str) -> Window:
        from pegboard.runtime.compaction import Window
        from pegboard.runtime.tokens import text_tokens, toolkit_tokens

        tokens = self.limits.context_tokens or self.executor.wiring.window(model)
        if tokens is None:
            return Window()
        overhead = text_tokens(instructions) + sum(toolkit_tokens(self.executor.toolkit).values())
        return Window(tokens=tokens, overhead=overhead, reserve=min(8192, tokens // 8))

    def _follow(self, session: str) -> Callable[[Event], None]:
        """What taint learns from a run: the addresses and names that the user typed."""
        guards = self.executor.wiring.safeguards

        def on_event(event: Event) -> None:
            if isinstance(event, UserSaid) and event.by == "user" and guards.taints is not None:
                guards.taints.add_user_text(session, text_of(event.message.content))

        return on_event


def _until(command: str) -> _ResumeInput | None:
    return _ResumeInput(until=given_text(command, "until=…")) if command else None


def _policy_detail(policy: Policy) -> dict[str, str]:
    return {"mode": policy.mode, "revision": policy.revision}


@dataclass(frozen=True, slots=True)
class _ResumeInput:
    """What is at hand when a run begins or is resumed: answers, those that the store keeps, who answers the rest, the
    command that ends it, and the pictures that its task brings along."""

    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    approver: Approver | None = None
    spent_s: float = 0.0
    kept: Answers | None = None
    until: str = ""
    images: tuple[Image, ...] = ()


def _read_messages(events: Iterable[Event]) -> set[str]:
    """Ids of the messages of the inbox that runs of a session have read."""
    ids: set[str] = set()
    for event in events:
        if isinstance(event, UserTold) and event.source:
            ids.add(event.source)
        elif isinstance(event, RunStarted) and "source" in event.detail:
            ids.add(str(event.detail["source"]))
    return ids


def _sender(message: InboundMessage | None, run: RunStarted | None) -> dict[str, Any]:
    """Who wrote the task, as the Loop takes it: the message's sender, or what the run that is resumed tells."""
    if message is not None:
        return {"task_by": message.by, "task_labels": message.labels, "task_source": message.id}
    if run is None:
        return {}
    detail = run.detail
    return {
        "task_by": detail.get("by", "user"),
        "task_labels": tuple(detail.get("labels", ())),
        "task_source": detail.get("source", ""),
    }


def _origin(message: InboundMessage | None, run: RunStarted | None) -> dict[str, str]:
    """Where a run's message came from, or where its answer goes, as a call's context tells it; of a run that is resumed
    as it told."""
    if message is None:
        return dict(run.detail.get("origin", {})) if run is not None else {}
    to = message.reply if message.reply is not None and message.reply.channel != "session" else None
    channel = message.channel or ("" if to is None else to.channel)
    chat = message.chat_id or (to.chat_id if to is not None and to.channel == channel else "")
    found = {"channel": channel, "chat_id": chat, "sender": message.sender_id, "message_id": message.id}
    if to is not None:
        found |= {"account_id": to.account_id, "thread_id": to.thread_id}
    return {k: v for k, v in found.items() if v}


def _check_resumable(events: Sequence[Event], run: str) -> RunFinished | None:
    """The end of a run that has ended, None if it can go on.

    Raises:
        BuildError: the session has gone on without it.
    """
    last = next((e for e in reversed(events) if isinstance(e, RunStarted | ConversationRewound)), None)
    if isinstance(last, ConversationRewound):
        raise BuildError(f"the conversation was taken back since, so {run} can no longer be resumed")
    if last is not None and last.run != run:
        raise BuildError(
            f"the session has continued with run {last.run}, so {run} can no longer be resumed; what "
            "it waited for has expired"
        )
    ended = next((e for e in reversed(events) if isinstance(e, RunFinished) and e.run == run), None)
    return ended if ended is not None and ended.status in ("done", "limit") else None


def _pending(events: Sequence[Event]) -> Sequence[Mapping[str, Any]]:
    """What the last run waits for."""
    last = next((e for e in reversed(events) if isinstance(e, RunFinished)), None)
    return () if last is None else last.pending


def _refuse_again(asked: Turn, events: Sequence[Event], run: str) -> None:
    """What was refused in a run before its process ended stays refused when it is resumed."""
    current = ""
    for event in events:
        if isinstance(event, RunStarted):
            current = event.run
        elif isinstance(event, CallStarted) and current == run and event.decision == "deny":
            judged = [e for e in event.effects if e.at_least in ("ask", "deny")]
            asked.refuse(judged or event.effects, Refused(event.reason, by=event.approver))
        elif isinstance(event, PermissionJudged) and current == run:
            asked.count_judgement(event.answer == "allow")
