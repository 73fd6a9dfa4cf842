"""Loop: an agent run as a state machine whose every step is an event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from os.path import basename
from typing import Any, Final, Literal, TypeAlias

from pegboard.core.call.pipeline import CallStep, Executor
from pegboard.core.content import Image, Text, ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import ModelError, ToolError
from pegboard.core.events import (
    CallFinished,
    Event,
    Notice,
    Recorder,
    RunFinished,
    RunResumed,
    RunStarted,
    UserSaid,
    UserTold,
)
from pegboard.core.limits import Clock, Limits, SystemClock
from pegboard.core.result import ToolResult, for_model
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, ResultsMessage, Usage, UserMessage
from pegboard.ports.model import Conversation, Model
from pegboard.runtime.budget import USED_UP, LimitUse, RunBudget
from pegboard.runtime.compaction import Window
from pegboard.runtime.engine import Engine, engine_of
from pegboard.runtime.engine.local import LocalEngine
from pegboard.runtime.fold import History, interrupted_results, split_calls, waits_of
from pegboard.runtime.refusals import failed_call, over_limit_error, refused_calls, truncated_calls
from pegboard.runtime.repeats import RepeatGuard
from pegboard.runtime.stop import StopWatch
from pegboard.runtime.telemetry import Telemetry
from pegboard.runtime.turns import ModelTurns, RunState, WindowedConversation
from pegboard.runtime.until import MOST_ROUNDS, UNTIL_FAILED, UntilCommand

Status: TypeAlias = Literal["done", "suspended", "limit", "failed", "cancelled"]

BUDGET_NOTE: Final = (
    "[The budget of this run is used up ({what}). Answer now with what you have, without calling tools; "
    "say what is missing.]"
)
CUT_NOTE: Final = "[Your answer was cut off by the output limit. Go on where it stopped, in smaller pieces.]"
MALFORMED_NOTE: Final = (
    "[A tool call of yours could not be read and was not run. Send it again in the right form.]"
)
EMPTY_NOTE: Final = "[Your answer was empty. Answer in text, or call a tool.]"
MISFIT_NOTE: Final = (
    "[Your answer does not fit the wanted output: ",
    ". Answer again with JSON only.]",
)
"""What stands before and behind the reason."""
_NUDGES: Final = 2
POLICY: Final = "policy"
"""Key in the detail of the notice that another mode decides from here on."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ends."""

    status: Status
    answer: str
    error: str = ""
    output: Any = None


class CompletionCheck:
    """Judges the turns of one run.

    Args:
        read_output: reads a typed answer; raises ValueError with what is wrong. None = text.
    """

    def __init__(self, read_output: Callable[[str], Any] | None) -> None:
        self._read_output = read_output
        self._nudges = 0
        self.begun = ""
        """What earlier turns of a cut answer said; the answer is the whole of it."""

    def check(self, message: AssistantMessage) -> RunEnd | str:
        """The end, or the note that asks the model for another turn; an empty note where the turn just goes on."""
        ended = self._judge(message)
        if isinstance(ended, str):
            self._nudges += bool(ended)
            self.begun = self.begun + message.text if message.stop in ("length", "pause") else ""
        return ended

    def read(self, text: str) -> Any:
        """The typed output that a text holds, None where it holds none or none is wanted."""
        try:
            return None if self._read_output is None else self._read_output(text)
        except ValueError:
            return None

    def _judge(self, message: AssistantMessage) -> RunEnd | str:
        text = self.begun + message.text
        again = self._nudges < _NUDGES
        if message.stop in ("refusal", "filtered"):
            status: Status = "done" if self._read_output is None else "failed"
            return RunEnd(status, text or "The model declined to answer.", f"stop: {message.stop}")
        if message.stop == "error":
            return RunEnd("failed", text, "the model ended its turn with an error")
        if message.stop == "pause" and message.content:
            return ""
        if again and message.stop == "length":
            return CUT_NOTE
        if message.stop == "malformed":
            failed = RunEnd("failed", text, "the model's tool calls could not be read, three times")
            return MALFORMED_NOTE if again else failed
        if not text.strip():
            return EMPTY_NOTE if again else RunEnd("failed", "", "the model answered nothing, three times")
        cut = "the answer is cut off by the output limit" if message.stop == "length" else ""
        if self._read_output is None:
            return RunEnd("done", text, cut)
        try:
            return RunEnd("done", text, "", self._read_output(text))
        except ValueError as wrong:
            if self.begun and (whole := self.read(message.text)) is not None:
                # It did not go on but began again.
                return RunEnd("done", message.text, "", whole)
            if again:
                return f"{MISFIT_NOTE[0]}{wrong}{MISFIT_NOTE[1]}"
            return RunEnd("failed", text, f"the answer does not fit the wanted output: {wrong}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """What a run needs: model, executor, limits and where events go.

    Attributes:
        model: answers.
        executor: carries out its calls.
        instructions: the system prompt.
        recorder: keeps the events.
        limits: what ends the run.
        clock: where time comes from.
        output_schema: JSON Schema of a typed answer, None = text.
        read_output: reads the answer's text into the typed value; raises ValueError with what is wrong.
        price: dollars of one turn by the model that was asked; None where unknown.
        window: what one request may take.
        offer: the tools that a model of a name may have; None = all.
        latest_tools: the tools that there are now, asked before each request; None = the executor's, which stay.
        answers: what was answered to calls that waited, by the key that they wait for.
        code: the program's own functions among the tools, told with its start: only a program that has them can
            resume it.
        tools_from: where those functions were loaded from, and the SHA-256 of each file, told with its start.
        telemetry: writes spans and metrics; None = nobody traces.
        unpaid: why no further turn of a model may be paid for, empty where one may; None = never asked.
        charge: books what a turn of the model has cost; None = nobody counts.
        policy: mode and revision of the rules that decide its calls, told with its start.
        before_stop: given the answer of a run that is done; a message that it goes on with, empty where it ends.
        before_compact: awaited before the conversation is shortened to fit.
        latest_policy: the same where they have changed since it was asked, else None; asked before each request.
        shown: the tools that a model is told of, of those that it may have; None = all.
        until: the run is done only when this command passes; None = when the model says so.
        receive: takes in what has arrived for the session, asked before each request and once more before the run
            ends (then with True: it may wait for what the run has started); None = nothing arrives.
        task_by, task_labels, task_source: who wrote the task, see UserTold.
        stopped: returns once somebody wants the run to be stopped; None = nobody can.
        task_images: pictures that the task brings along.
    """

    model: Model
    executor: Executor
    instructions: str
    recorder: Recorder
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=SystemClock)
    output_schema: Mapping[str, Any] | None = None
    read_output: Callable[[str], Any] | None = None
    price: Callable[[str, AssistantMessage], float | None] | None = None
    window: Window = field(default_factory=Window)
    offer: Callable[[str, Toolkit], Toolkit] | None = None
    latest_tools: Callable[[], Awaitable[Toolkit]] | None = None
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    telemetry: Telemetry | None = None
    unpaid: Callable[[], Awaitable[str]] | None = None
    charge: Callable[[AssistantMessage], Awaitable[None]] | None = None
    policy: Mapping[str, str] = field(default_factory=dict[str, str])
    code: Sequence[str] = ()
    tools_from: Mapping[str, str] = field(default_factory=dict[str, str])
    before_stop: Callable[[str], Awaitable[str]] | None = None
    before_compact: Callable[[], Awaitable[None]] | None = None
    latest_policy: Callable[[], Mapping[str, str] | None] | None = None
    shown: Callable[[Toolkit], Toolkit] | None = None
    until: UntilCommand | None = None
    receive: Callable[[bool], Awaitable[None]] | None = None
    task_by: str = "user"
    task_labels: tuple[str, ...] = ()
    task_source: str = ""
    stopped: Callable[[], Awaitable[None]] | None = None
    task_images: tuple[Image, ...] = ()

    async def run(
        self, task: str, *, state: RunState, context: Context, history: History | None = None
    ) -> RunFinished:
        """Run `task` to its end; every event goes to the recorder, the last is the one returned.

        With a `history` the conversation goes on from there; with an empty `task` an unfinished run
        is taken up again: open calls that had started are answered as interrupted unless their tool
        is idempotent, calls that waited get their answer, the others run now.
        """
        talk = WindowedConversation(self._converse, self.window)
        before = None if task or history is None else history
        state.budget = RunBudget(
            self.limits,
            self.clock,
            spent_s=state.spent_s,
            calls=None if before is None else before.made,
            noticed=() if before is None else before.noticed,
        )
        over = "" if before is None else before.over
        local = LocalEngine.after(before, self.recorder, self.answers, self.clock)
        engine = engine_of(state.session, local, self.recorder)
        stop = StopWatch(self.stopped)
        try:
            last = self._begin(talk, task, state, context, history)
            if history is not None and not task and history.open_calls:
                await self._resume_calls(talk, history, state, context, engine)
            if state.pending:
                ended = RunEnd("suspended", "")
            elif over and last is not None:
                # Its process ended between its last word and its end.
                ended = RunEnd("limit", last.text, over)
            else:
                ended = await self._turns(talk, state, context, state.budget, last, engine)
        except asyncio.CancelledError:
            ended = RunEnd("cancelled", "")
            if not stop.is_stopped():
                self._record(self._finished(state, ended))
                raise
        except Exception as error:  # noqa: BLE001  The run's boundary: whatever broke, its end is told.
            ended = RunEnd("failed", "", f"{type(error).__name__}: {error}")
        finally:
            await stop.close()
        finished = self._finished(state, ended)
        self._record(finished)
        return finished

    def _converse(self) -> Conversation:
        kit = self.executor.toolkit.advertised()
        offered = kit if self.offer is None else self.offer(self.model.name, kit)
        offered = offered if self.shown is None else self.shown(offered)
        return self.model.converse(
            instructions=self.instructions, tools=offered, output_schema=self.output_schema
        )

    async def _update_tools(self, conversation: WindowedConversation) -> None:
        """Let the next request offer the tools that there are now, in the mode that holds now."""
        before = self.executor.toolkit
        changed = self.latest_tools is not None and await self.latest_tools() is not before
        if self.latest_policy is not None and (policy := self.latest_policy()) is not None:
            self._record(Notice(text=f"mode {policy['mode']}", detail={POLICY: dict(policy)}))
            changed = True
        if changed:
            conversation.reopen()

    def _begin(
        self,
        conversation: WindowedConversation,
        task: str,
        state: RunState,
        context: Context,
        history: History | None,
    ) -> AssistantMessage | None:
        """Lay out the conversation so far; the last answer where a run that is taken up has one already."""
        if not task and history is not None and history.run is not None:
            state.mark = history.mark
        detail: dict[str, Any] = {
            # Empty only in a replay of a record that has none.
            **({"mark": state.mark} if state.mark else {}),
            "limits": asdict(self.limits),
            "window": asdict(self.window),
            "workspace": str(context.workspace or ""),
            "typed": self.read_output is not None,
            **({"policy": dict(self.policy)} if self.policy else {}),
            **({"code": list(self.code)} if self.code else {}),
            **({"tools_from": dict(self.tools_from)} if self.tools_from else {}),
            **({"output": dict(self.output_schema)} if self.output_schema else {}),
            **({"until": self.until.command} if self.until is not None else {}),
            **({"by": self.task_by} if self.task_by != "user" else {}),
            **({"labels": list(self.task_labels)} if self.task_labels else {}),
            **({"source": self.task_source} if self.task_source else {}),
            # A run that is resumed answers there too.
            **({"origin": dict(context.origin)} if context.origin and self.task_source else {}),
        }
        if history is not None:
            for message in history.messages:
                conversation.append(message)
            state.usage, state.turns = history.usage, history.turns
            state.labels |= history.labels
            state.call_ids |= history.call_ids
            state.checks = history.checks
        if task:
            if history is not None and history.open_calls:
                # The conversation goes on without them; the fold of the stream says the same.
                conversation.append(interrupted_results(history))
            for told in () if history is None else history.told:
                # Nor without what the run before was told and never read.
                conversation.append(told.message)
            state.usage, state.turns, state.checks = Usage(), 0, 0
            self._record(
                RunStarted(
                    run=state.id,
                    session=state.session,
                    agent=context.agent,
                    model=self.model.name,
                    task=task,
                    detail=detail,
                )
            )
            self._add_task(conversation, task, state)
            return None
        if state.spent_s:
            detail["spent_s"] = state.spent_s
        if history is not None:
            state.inbox[:0] = history.told
        self._record(RunResumed(run=state.id, model=self.model.name, detail=detail))
        if history is not None and history.run is not None and not history.said:
            # The process ended between the run's start and its first message.
            self._add_task(conversation, history.run.task, state)
        elif history is not None and history.messages:
            message = history.messages[-1]
            if isinstance(message, AssistantMessage) and not message.calls:
                return message
        return None

    # -- turns --------------------------------------------------------------------------------

    async def _turns(
        self,
        conversation: WindowedConversation,
        state: RunState,
        context: Context,
        budget: RunBudget,
        answered: AssistantMessage | None,
        engine: Engine,
    ) -> RunEnd:
        asking = ModelTurns(
            model=self.model,
            recorder=self.recorder,
            price=self.price,
            charge=self.charge,
            telemetry=self.telemetry,
            before_compact=self.before_compact,
        )
        repeats = RepeatGuard()
        ending = CompletionCheck(self.read_output)
        last_text = ""
        while True:
            if self.receive is not None:
                await self.receive(False)
            while state.inbox:
                told = state.inbox.pop(0)
                state.labels.update(told.labels)
                self._add_user_message(conversation, told.message, by=told.by, labels=told.labels)
                # Told behind the last word of a process that ended: that word was not the last.
                answered = None
            if answered is None:
                if self.unpaid is not None and (why := await self.unpaid()):
                    # Not even a last word: it would be paid for too.
                    return RunEnd("limit", last_text, why)
                over, near = budget.check(state.turns, state.usage)
                if over is not None:
                    return await self._final_answer(asking, conversation, state, over, ending, engine)
                if near is not None:
                    self._record(Notice(text=f"{near} are used", detail=asdict(near)))
                await self._update_tools(conversation)
            try:
                # The turn that an ended process has had is given again.
                turn = state.turns + (answered is None)
                message = (
                    await engine.step(
                        f"turn:{turn}", partial(asking.next, conversation, state), idempotent=True
                    )
                ).message
            except ModelError as failure:
                return RunEnd("failed", last_text, str(failure))
            answered = None
            last_text = message.text or last_text
            if message.calls:
                results, warning = await self._calls(message.calls, state, context, repeats, message, engine)
                if state.pending:
                    return RunEnd("suspended", message.text)
                conversation.append(ResultsMessage(for_model(results, state.mark, message.calls)))
                ending.begun = ""
                if why := repeats.no_progress():
                    return RunEnd("failed", last_text, why)
                if warning:
                    # Said and not slipped into a result, so that the stream holds what the model read.
                    self._add_user_message(conversation, UserMessage.of(warning), by="runtime")
            elif not state.inbox:
                ended = ending.check(message)
                if isinstance(ended, RunEnd):
                    if self.receive is not None:
                        await self.receive(True)
                    if state.inbox:
                        continue
                    ended = await self._until(ended, state, context, engine)
                    if isinstance(ended, RunEnd):
                        if (
                            self.before_stop is not None
                            and ended.status == "done"
                            and (more := await self.before_stop(ended.answer))
                        ):
                            state.inbox.append(UserTold(UserMessage.of(more), by="hook"))
                        if state.inbox:
                            continue
                        return ended
                if ended:
                    self._add_user_message(conversation, UserMessage.of(ended), by="runtime")

    async def _until(self, ended: RunEnd, state: RunState, context: Context, engine: Engine) -> RunEnd | str:
        """The end, if the command that ends the run passes; else the message that gives its failure to the model."""
        if self.until is None or ended.status != "done" or ended.error:
            return ended
        number = state.checks + 1
        context = replace(context, run=state.id, session=state.session, labels=frozenset(state.labels))
        result = await self.until.run(number, context, engine)
        state.labels.update(result.notes.labels)
        failure = self.until.failure(result, number, context, state.mark)
        if not failure:
            return ended
        if result.error is not None and result.error.code == "permission_denied":
            return replace(ended, status="failed", error=f"{UNTIL_FAILED}{result.error}")
        if state.checks == MOST_ROUNDS:
            why = f"{UNTIL_FAILED}{self.until.command!r} still fails after {MOST_ROUNDS} rounds"
            return replace(ended, status="failed", error=why)
        state.checks += 1
        return failure

    # -- calls --------------------------------------------------------------------------------

    async def _calls(
        self,
        calls: Sequence[ToolCall],
        state: RunState,
        context: Context,
        repeats: RepeatGuard,
        message: AssistantMessage,
        engine: Engine,
    ) -> tuple[tuple[ToolResult, ...], str]:
        """Carry out the calls of one turn; the executor records them. With a note where they repeat."""
        context = replace(context, run=state.id, session=state.session, labels=frozenset(state.labels))
        offered = self._offered(message.model)
        refused = refused_calls(
            self.executor.toolkit, calls, state.budget, offered, truncated_calls(message)
        )  # fmt: skip
        step = partial(self._step, engine)
        state.asked.check = partial(
            refused_calls, self.executor.toolkit, budget=state.budget, offered=offered, broken={}
        )
        results = await self._call_allowed(calls, refused, context, state, step) if refused else (
            await self.executor.turn(calls, context, state.asked, step=step)
        )  # fmt: skip
        for result in results:
            state.labels.update(result.notes.labels)
            if result.error is not None and result.error.code == "suspended":
                state.pending += waits_of(result.error.details, result.call_id, result.tool)
        warning = repeats.warning(calls, results)
        if warning:
            self._record(Notice(text=warning))
        return results, warning

    def _offered(self, model: str) -> Toolkit | None:
        """The tools that the model which answered may have; None = all."""
        if self.offer is None:
            return None
        # A fallback's answer carries its whole name; any other may call itself what it likes.
        return self.offer(model if ":" in model else self.model.name, self.executor.toolkit)

    async def _call_allowed(
        self,
        calls: Sequence[ToolCall],
        refused: Mapping[str, ToolError],
        context: Context,
        state: RunState,
        step: CallStep,
    ) -> tuple[ToolResult, ...]:
        done: dict[str, ToolResult] = {}
        for call in calls:
            if (error := refused.get(call.id or "")) is not None:
                done[call.id or ""] = result = failed_call(call, error)
                self._record(CallFinished(result))
        rest = [c for c in calls if c.id not in done]
        if rest:
            done |= {r.call_id: r for r in await self.executor.turn(rest, context, state.asked, step=step)}
        return tuple(done[c.id or ""] for c in calls)

    async def _step(
        self, engine: Engine, call: ToolCall, act: Callable[[], Awaitable[ToolResult]]
    ) -> ToolResult:
        """One call as a step; its outcome is the event that the executor has recorded."""

        async def outcome() -> CallFinished:
            return CallFinished(await act())

        tool = self.executor.toolkit.resolve(call.name)
        return (
            await engine.step(f"call:{call.id}", outcome, idempotent=tool is None or tool.idempotent)
        ).result

    async def _resume_calls(
        self,
        conversation: WindowedConversation,
        history: History,
        state: RunState,
        context: Context,
        engine: Engine,
    ) -> None:
        """Answer the calls that an ended process left open, or that waited."""
        kit = self.executor.toolkit
        state.asked.answers = self.answers
        state.asked.waited = {
            key: result.error.details for key, result in history.waiting.items() if result.error is not None
        }
        found = split_calls(history, kit, self.answers)
        state.pending += found.pending
        done = dict(history.done)
        for call, result in found.results:
            done[call.id or ""] = result
            self._record(CallFinished(result))
            if state.budget is not None and not history.over:
                tool = kit.resolve(call.name)
                state.budget.count(call.name if tool is None else tool.name)
        last = next(m for m in reversed(history.messages) if isinstance(m, AssistantMessage))
        if found.rerun:
            results, _ = await self._calls(found.rerun, state, context, RepeatGuard(), last, engine)
            done.update({r.call_id: r for r in results})
        if not state.pending:
            conversation.append(
                ResultsMessage(for_model((done[c.id or ""] for c in last.calls), state.mark, last.calls))
            )

    async def _final_answer(
        self,
        asking: ModelTurns,
        conversation: WindowedConversation,
        state: RunState,
        over: LimitUse,
        ending: CompletionCheck,
        engine: Engine,
    ) -> RunEnd:
        """The budget is used up: one answer without tools."""
        self._record(Notice(text=f"{over}{USED_UP}", detail=asdict(over)))
        self._add_user_message(conversation, UserMessage.of(BUDGET_NOTE.format(what=over)), by="runtime")
        try:
            last = partial(asking.next, conversation, state, allow_tools=False)
            message = (await engine.step(f"turn:{state.turns + 1}", last, idempotent=True)).message
        except ModelError as failure:
            return RunEnd("limit", ending.begun, f"{over}; then: {failure}")
        for call in message.calls:
            # A model may call in spite of being told not to; the call still gets its one result.
            self._record(CallFinished(failed_call(call, over_limit_error(call, str(over)))))
        return RunEnd("limit", message.text or ending.begun, str(over), ending.read(message.text))

    # -- parts --------------------------------------------------------------------------------

    def _record(self, event: Event) -> None:
        self.recorder.record(event)

    def _add_task(self, conversation: WindowedConversation, task: str, state: RunState) -> None:
        state.labels.update(self.task_labels)
        message = UserMessage((Text(task), *self.task_images))
        self._add_user_message(conversation, message, by=self.task_by, labels=self.task_labels)

    def _add_user_message(
        self,
        conversation: WindowedConversation,
        message: UserMessage,
        *,
        by: str = "user",
        labels: tuple[str, ...] = (),
    ) -> None:
        conversation.append(message)
        self.recorder.record(UserSaid(message, by, labels))

    def _finished(self, state: RunState, ended: RunEnd) -> RunFinished:
        # What was told too late to be read stays in the session for its next run. Where this one can be taken
        # up again it reads it then: said now, it would end the wait of the calls that are open.
        while state.inbox and ended.status in ("done", "limit"):
            told = state.inbox.pop(0)
            self._record(UserSaid(told.message, told.by, told.labels))
        return RunFinished(
            run=state.id,
            status=ended.status,
            answer=ended.answer,
            pending=tuple(state.pending),
            usage=state.usage,
            error=ended.error,
            output=ended.output,
        )


def own_code(toolkit: Toolkit) -> tuple[str, ...]:
    """The program's own functions among the tools: `FILE:FUNCTION`."""
    code = [
        (tool.function.__module__, getattr(tool.function, "__code__", None), tool.name) for tool in toolkit
    ]
    return tuple(
        sorted(
            f"{basename(source.co_filename)}:{source.co_qualname if hasattr(source, 'co_qualname') else name}"
            for module, source, name in code
            if source is not None and not module.startswith("pegboard.")
        )
    )
