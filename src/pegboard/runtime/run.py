"""Run: the agent loop. A state machine whose every step is an event (DESIGN 4, Step; decisions 14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from pegboard.core.call import ToolCall
from pegboard.core.clock import Clock, SystemClock
from pegboard.core.context import Context
from pegboard.core.errors import ModelError, SuspendedCall
from pegboard.core.events import (
    CallFinished,
    Event,
    ModelReplied,
    Notice,
    Recorder,
    RunFinished,
    RunStarted,
    TextPiece,
    ThinkingPiece,
    UserSaid,
)
from pegboard.core.executor import TurnExecutor, distinct_calls
from pegboard.core.limits import Limits
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, ResultsMessage, Usage, UserMessage
from pegboard.ports.model import CallDelta, Conversation, Model, Replied, TextDelta, ThinkingDelta
from pegboard.runtime.repeats import RepeatGuard
from pegboard.runtime.transcripts import History, interrupted

Status: TypeAlias = Literal["done", "suspended", "limit", "failed"]

_BUDGET_NOTE: Final = (
    "The budget of this run is used up ({what}). Answer now with what you have, without calling tools; "
    "say what is missing."
)
_CUT_NOTE: Final = "Your answer was cut off by the output limit. Go on where it stopped, in smaller pieces."
_EMPTY_NOTE: Final = "Your answer was empty. Answer in text, or call a tool."
_MODEL_TRIES: Final = 3


@dataclass(slots=True)
class RunState:
    """One run while it goes on.

    Attributes:
        id, session: its names.
        labels: taint labels gathered so far.
        usage, turns: spent so far.
        inbox: user messages that arrived while the run was busy (ledger K-52).
        pending: what the run waits for when it is suspended.
    """

    id: str
    session: str
    labels: set[str] = field(default_factory=set[str])
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    inbox: list[UserMessage] = field(default_factory=list[UserMessage])
    pending: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])


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
        price: dollars of one turn's usage, None where unknown.
    """

    model: Model
    executor: TurnExecutor
    instructions: str
    recorder: Recorder
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=SystemClock)
    output_schema: Mapping[str, Any] | None = None
    read_output: Callable[[str], Any] | None = None
    price: Callable[[str, Usage], float | None] | None = None

    async def run(
        self, task: str, *, state: RunState, context: Context, history: History | None = None
    ) -> AsyncIterator[Event]:
        """Run `task` to its end, yielding events as they happen; the last is RunFinished.

        With a `history` the conversation goes on from there; with an empty `task` an unfinished run
        is taken up again: open calls that had started are answered as interrupted unless their tool
        is idempotent, the others run now.
        """
        talk = self.model.converse(
            instructions=self.instructions, tools=self.executor.pipeline.toolkit, output_schema=self.output_schema
        )
        started = self.clock.monotonic()
        status: Status = "failed"
        answer, error, output = "", "", None
        try:
            if history is not None:
                for message in history.messages:
                    talk.append(message)
                state.usage, state.turns = history.usage, history.turns
            if task:
                state.usage, state.turns = Usage(), 0
                yield self._record(
                    RunStarted(run=state.id, session=state.session, agent=context.agent, model=self.model.name, task=task)
                )
                said = UserMessage.of(task)
                talk.append(said)
                yield self._record(UserSaid(said))
            elif history is not None and history.open_calls:
                async for event in self._take_up(talk, history, state, context):
                    yield event
            async with aclosing(self._turns(talk, state, context, started)) as turns:
                async for event in turns:
                    if isinstance(event, _Ended):
                        status, answer, error, output = event.status, event.answer, event.error, event.output
                    else:
                        yield event
        except asyncio.CancelledError:
            self.recorder.record(self._finished(state, "failed", answer, "cancelled", None))
            raise
        yield self._record(self._finished(state, status, answer, error, output))

    # -- turns --------------------------------------------------------------------------------

    async def _turns(
        self, talk: Conversation, state: RunState, context: Context, started: float
    ) -> AsyncIterator[Event | _Ended]:
        repeats = RepeatGuard()
        nudges = 0
        last_text = ""
        while True:
            for said in _drain(state.inbox):
                talk.append(said)
                yield self._record(UserSaid(said))
            over = self._over(state, started)
            if over:
                async for event in self._last_word(talk, state, over):
                    yield event
                return
            message: AssistantMessage | None = None
            try:
                async for event in self._model_turn(talk, state):
                    if isinstance(event, ModelReplied):
                        message = event.message
                    yield event
            except ModelError as failure:
                yield _Ended("failed", last_text, str(failure))
                return
            assert message is not None
            last_text = message.text or last_text
            if message.calls:
                results: tuple[ToolResult, ...] = ()
                async for event in self._calls(message.calls, state, context, repeats):
                    if isinstance(event, _Results):
                        results = event.results
                    else:
                        yield event
                if state.pending:
                    yield _Ended("suspended", message.text, "")
                    return
                talk.append(ResultsMessage(results))
                continue
            if state.inbox:
                continue
            ended, note = self._judge(message, nudges)
            if ended is not None:
                yield ended
                return
            nudges += 1
            said = UserMessage.of(note)
            talk.append(said)
            yield self._record(UserSaid(said))

    def _judge(self, message: AssistantMessage, nudges: int) -> tuple[_Ended | None, str]:
        """What a turn without calls means: the end, or a note to the model and another turn."""
        text = message.text
        if message.stop in ("refusal", "filtered"):
            return _Ended("done", text or "The model declined to answer.", f"stop: {message.stop}"), ""
        if nudges < 2 and message.stop == "length":
            return None, _CUT_NOTE
        if not text.strip():
            if nudges < 2:
                return None, _EMPTY_NOTE
            return _Ended("failed", "", "the model answered nothing, three times"), ""
        if self.read_output is None:
            return _Ended("done", text), ""
        try:
            return _Ended("done", text, "", self.read_output(text)), ""
        except ValueError as wrong:
            if nudges < 2:
                return None, f"Your answer does not fit the wanted output: {wrong}. Answer again with JSON only."
            return _Ended("failed", text, f"the answer does not fit the wanted output: {wrong}"), ""

    async def _model_turn(
        self, talk: Conversation, state: RunState, *, allow_tools: bool = True
    ) -> AsyncIterator[Event]:
        """One model turn: pieces as they stream, then ModelReplied, appended to the talk."""
        message: AssistantMessage | None = None
        async with aclosing(_generator(talk.reply(allow_tools=allow_tools))) as stream:
            async for event in stream:
                match event:
                    case TextDelta(text):
                        yield TextPiece(text)
                    case ThinkingDelta(text):
                        yield ThinkingPiece(text)
                    case CallDelta():
                        pass
                    case Replied(message):
                        pass
        if message is None:
            raise ModelError(f"{self.model.name} ended its stream without an answer", retryable=True)
        calls = distinct_calls(message.calls)
        if calls != message.calls:
            message = replace(message, content=_with_calls(message, calls))
        cost = self.price(message.model or self.model.name, message.usage) if self.price else None
        if cost is not None:
            message = replace(message, usage=replace(message.usage, cost_usd=cost))
        state.turns += 1
        state.usage += message.usage
        talk.append(message)
        yield self._record(ModelReplied(message))

    async def _calls(
        self, calls: Sequence[ToolCall], state: RunState, context: Context, repeats: RepeatGuard
    ) -> AsyncIterator[Event | _Results]:
        """Carry out the calls of one turn; CallFinished events, then the results."""
        context = replace(context, run=state.id, session=state.session, labels=frozenset(state.labels))
        warning = repeats.warning(calls)
        results = await self.executor.turn(calls, context)
        for result in results:
            state.labels.update(result.notes.labels)
            if isinstance(result.error, SuspendedCall):
                state.pending.append({**result.error.details, "call_id": result.call_id, "tool": result.tool})
            yield CallFinished(result)
        if warning:
            results = (*results[:-1], _noted(results[-1], warning))
            yield self._record(Notice(text=warning))
        yield _Results(results)

    async def _take_up(
        self, talk: Conversation, history: History, state: RunState, context: Context
    ) -> AsyncIterator[Event]:
        """Answer the calls that an ended process left open (ledger G-10)."""
        kit = self.executor.pipeline.toolkit
        again: list[ToolCall] = []
        done = dict(history.done)
        for call in history.open_calls:
            found = kit.resolve(call.name)
            if call.id in history.started and not (found is not None and found.idempotent):
                result = interrupted(call, history.started)
                done[call.id or ""] = result
                yield self._record(CallFinished(result))
            else:
                again.append(call)
        if again:
            async for event in self._calls(again, state, context, RepeatGuard()):
                if isinstance(event, _Results):
                    done.update({r.call_id: r for r in event.results})
                else:
                    yield event
        last = next(m for m in reversed(history.messages) if isinstance(m, AssistantMessage))
        talk.append(ResultsMessage(tuple(done[c.id or ""] for c in last.calls)))

    async def _last_word(self, talk: Conversation, state: RunState, over: str) -> AsyncIterator[Event | _Ended]:
        """The budget is used up: one answer without tools (ledger K-51)."""
        said = UserMessage.of(_BUDGET_NOTE.format(what=over))
        talk.append(said)
        yield self._record(UserSaid(said))
        text = ""
        try:
            async for event in self._model_turn(talk, state, allow_tools=False):
                if isinstance(event, ModelReplied):
                    text = event.message.text
                    if event.message.calls:
                        for call in event.message.calls:
                            yield self._record(CallFinished(_not_run(call, over)))
                yield event
        except ModelError as failure:
            yield _Ended("limit", text, f"{over}; then: {failure}")
            return
        yield _Ended("limit", text, over)

    def _over(self, state: RunState, started: float) -> str:
        """Which budget is used up, with its figures; empty while none is."""
        limits, usage = self.limits, state.usage
        tokens = usage.input_tokens + usage.output_tokens
        if state.turns >= limits.turns:
            return f"{state.turns} of {limits.turns} turns"
        if limits.tokens is not None and tokens >= limits.tokens:
            return f"{tokens} of {limits.tokens} tokens"
        if limits.money is not None and (usage.cost_usd or 0.0) >= limits.money:
            return f"${usage.cost_usd:.4f} of ${limits.money:.4f}"
        spent = self.clock.monotonic() - started
        if limits.wall_s is not None and spent >= limits.wall_s:
            return f"{spent:.0f} of {limits.wall_s:.0f} s"
        return ""

    # -- parts --------------------------------------------------------------------------------

    def _record(self, event: Event) -> Event:
        self.recorder.record(event)
        return event

    def _finished(self, state: RunState, status: Status, answer: str, error: str, output: Any) -> RunFinished:
        return RunFinished(
            run=state.id, status=status, answer=answer, pending=tuple(state.pending), usage=state.usage,
            error=error, output=output,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Ended:
    status: Status
    answer: str
    error: str = ""
    output: Any = None


@dataclass(frozen=True, slots=True)
class _Results:
    results: tuple[ToolResult, ...]


def _drain(inbox: list[UserMessage]) -> list[UserMessage]:
    taken = inbox[:]
    inbox.clear()
    return taken


def _with_calls(message: AssistantMessage, calls: tuple[ToolCall, ...]) -> tuple[Any, ...]:
    """The content with its calls replaced, in order, by the distinct ones."""
    others = [p for p in message.content if not isinstance(p, ToolCall)]
    return (*others, *calls)


def _noted(result: ToolResult, note: str) -> ToolResult:
    from pegboard.core.content import Text

    return replace(result, content=(*result.content, Text(note)))


def _not_run(call: ToolCall, over: str) -> ToolResult:
    from pegboard.core.errors import PermissionDenied

    failed = ToolResult.failed(PermissionDenied(f"{call.name} did not run: the budget is used up ({over})"))
    return replace(failed, call_id=call.id or "", tool=call.name)


async def _generator(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for event in stream:
        yield event
