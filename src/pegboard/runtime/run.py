"""Run: the agent loop. A state machine whose every step is an event (DESIGN 4, Step; decisions 14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from pegboard.core.call import ToolCall
from pegboard.core.clock import Clock, SystemClock
from pegboard.core.content import Text
from pegboard.core.context import Context
from pegboard.core.errors import ModelError, PermissionDenied, SuspendedCall
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
_NUDGES: Final = 2


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
    ) -> RunFinished:
        """Run `task` to its end; every event goes to the recorder, the last is the one returned.

        With a `history` the conversation goes on from there; with an empty `task` an unfinished run
        is taken up again: open calls that had started are answered as interrupted unless their tool
        is idempotent, the others run now.
        """
        talk = self.model.converse(
            instructions=self.instructions,
            tools=self.executor.pipeline.toolkit.advertised(),
            output_schema=self.output_schema,
        )
        try:
            if history is not None:
                for message in history.messages:
                    talk.append(message)
                state.usage, state.turns = history.usage, history.turns
            if task:
                state.usage, state.turns = Usage(), 0
                self._record(
                    RunStarted(
                        run=state.id,
                        session=state.session,
                        agent=context.agent,
                        model=self.model.name,
                        task=task,
                    )
                )
                self._say(talk, UserMessage.of(task))
            elif history is not None and history.open_calls:
                await self._take_up(talk, history, state, context)
            ended = _Ended("suspended", "") if state.pending else await self._turns(talk, state, context)
        except asyncio.CancelledError:
            self._record(self._finished(state, _Ended("failed", "", "cancelled")))
            raise
        finished = self._finished(state, ended)
        self._record(finished)
        return finished

    # -- turns --------------------------------------------------------------------------------

    async def _turns(self, talk: Conversation, state: RunState, context: Context) -> _Ended:
        started = self.clock.monotonic()
        repeats = RepeatGuard()
        nudges = 0
        last_text = ""
        while True:
            while state.inbox:
                self._say(talk, state.inbox.pop(0))
            over = self._over(state, started)
            if over:
                return await self._last_word(talk, state, over)
            try:
                message = await self._model_turn(talk, state)
            except ModelError as failure:
                return _Ended("failed", last_text, str(failure))
            last_text = message.text or last_text
            if message.calls:
                results = await self._calls(message.calls, state, context, repeats)
                if state.pending:
                    return _Ended("suspended", message.text)
                talk.append(ResultsMessage(results))
            elif not state.inbox:
                ended, note = self._judge(message, nudges)
                if ended is not None:
                    return ended
                nudges += 1
                self._say(talk, UserMessage.of(note))

    def _judge(self, message: AssistantMessage, nudges: int) -> tuple[_Ended | None, str]:
        """What a turn without calls means: the end, or a note to the model and another turn."""
        text = message.text
        if message.stop in ("refusal", "filtered"):
            return _Ended("done", text or "The model declined to answer.", f"stop: {message.stop}"), ""
        if nudges < _NUDGES and message.stop == "length":
            return None, _CUT_NOTE
        if not text.strip():
            if nudges < _NUDGES:
                return None, _EMPTY_NOTE
            return _Ended("failed", "", "the model answered nothing, three times"), ""
        if self.read_output is None:
            return _Ended("done", text), ""
        try:
            return _Ended("done", text, "", self.read_output(text)), ""
        except ValueError as wrong:
            if nudges < _NUDGES:
                return (
                    None,
                    f"Your answer does not fit the wanted output: {wrong}. Answer again with JSON only.",
                )
            return _Ended("failed", text, f"the answer does not fit the wanted output: {wrong}"), ""

    async def _model_turn(
        self, talk: Conversation, state: RunState, *, allow_tools: bool = True
    ) -> AssistantMessage:
        """One model turn: pieces as they stream, then ModelReplied, appended to the talk."""
        message: AssistantMessage | None = None
        record = self.recorder.record
        async for event in talk.reply(allow_tools=allow_tools):
            match event:
                case TextDelta(text):
                    record(TextPiece(text))
                case ThinkingDelta(text):
                    record(ThinkingPiece(text))
                case Replied(replied):
                    message = replied
                case CallDelta():
                    pass
        if message is None:
            raise ModelError(f"{self.model.name} ended its stream without an answer", retryable=True)
        if message.calls:
            calls = distinct_calls(message.calls)
            if calls != message.calls:
                message = replace(message, content=_with_calls(message, calls))
        cost = self.price(message.model or self.model.name, message.usage) if self.price else None
        if cost is not None:
            message = replace(message, usage=replace(message.usage, cost_usd=cost))
        state.turns += 1
        state.usage += message.usage
        talk.append(message)
        record(ModelReplied(message))
        return message

    async def _calls(
        self, calls: Sequence[ToolCall], state: RunState, context: Context, repeats: RepeatGuard
    ) -> tuple[ToolResult, ...]:
        """Carry out the calls of one turn; the executor records them."""
        context = replace(context, run=state.id, session=state.session, labels=frozenset(state.labels))
        warning = repeats.warning(calls)
        results = await self.executor.turn(calls, context)
        for result in results:
            state.labels.update(result.notes.labels)
            if isinstance(result.error, SuspendedCall):
                state.pending.append({**result.error.details, "call_id": result.call_id, "tool": result.tool})
        if warning:
            self._record(Notice(text=warning))
            return (*results[:-1], replace(results[-1], content=(*results[-1].content, Text(warning))))
        return results

    async def _take_up(self, talk: Conversation, history: History, state: RunState, context: Context) -> None:
        """Answer the calls that an ended process left open (ledger G-10)."""
        kit = self.executor.pipeline.toolkit
        again: list[ToolCall] = []
        done = dict(history.done)
        for call in history.open_calls:
            found = kit.resolve(call.name)
            if call.id in history.started and not (found is not None and found.idempotent):
                result = done[call.id or ""] = interrupted(call, history.started)
                self._record(CallFinished(result))
            else:
                again.append(call)
        if again:
            results = await self._calls(again, state, context, RepeatGuard())
            done.update({r.call_id: r for r in results})
        if not state.pending:
            last = next(m for m in reversed(history.messages) if isinstance(m, AssistantMessage))
            talk.append(ResultsMessage(tuple(done[c.id or ""] for c in last.calls)))

    async def _last_word(self, talk: Conversation, state: RunState, over: str) -> _Ended:
        """The budget is used up: one answer without tools (ledger K-51)."""
        self._say(talk, UserMessage.of(_BUDGET_NOTE.format(what=over)))
        try:
            message = await self._model_turn(talk, state, allow_tools=False)
        except ModelError as failure:
            return _Ended("limit", "", f"{over}; then: {failure}")
        for call in message.calls:
            # A model may call in spite of being told not to; the call still gets its one result.
            self._record(CallFinished(_not_run(call, over)))
        return _Ended("limit", message.text, over)

    def _over(self, state: RunState, started: float) -> str:
        """Which budget is used up, with its figures; empty while none is."""
        limits, usage = self.limits, state.usage
        if state.turns >= limits.turns:
            return f"{state.turns} of {limits.turns} turns"
        tokens = usage.input_tokens + usage.output_tokens
        if limits.tokens is not None and tokens >= limits.tokens:
            return f"{tokens} of {limits.tokens} tokens"
        if limits.money is not None and (usage.cost_usd or 0.0) >= limits.money:
            return f"${usage.cost_usd or 0.0:.4f} of ${limits.money:.4f}"
        if limits.wall_s is not None:
            spent = self.clock.monotonic() - started
            if spent >= limits.wall_s:
                return f"{spent:.0f} of {limits.wall_s:.0f} s"
        return ""

    # -- parts --------------------------------------------------------------------------------

    def _record(self, event: Event) -> None:
        self.recorder.record(event)

    def _say(self, talk: Conversation, message: UserMessage) -> None:
        talk.append(message)
        self.recorder.record(UserSaid(message))

    def _finished(self, state: RunState, ended: _Ended) -> RunFinished:
        return RunFinished(
            run=state.id,
            status=ended.status,
            answer=ended.answer,
            pending=tuple(state.pending),
            usage=state.usage,
            error=ended.error,
            output=ended.output,
        )


@dataclass(frozen=True, slots=True)
class _Ended:
    status: Status
    answer: str
    error: str = ""
    output: Any = None


def _with_calls(message: AssistantMessage, calls: tuple[ToolCall, ...]) -> tuple[Any, ...]:
    """The content with its calls replaced, in order, by the distinct ones."""
    others = [p for p in message.content if not isinstance(p, ToolCall)]
    return (*others, *calls)


def _not_run(call: ToolCall, over: str) -> ToolResult:
    failed = ToolResult.failed(PermissionDenied(f"{call.name} did not run: the budget is used up ({over})"))
    return replace(failed, call_id=call.id or "", tool=call.name)
