"""ModelTurns: one answer of the model after another, streamed, counted and recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from pegboard.core.call.pipeline import distinct_calls
from pegboard.core.content import ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.events import ModelReplied, Recorder, TextPiece, ThinkingPiece
from pegboard.core.transcript import AssistantMessage
from pegboard.models.failures import is_too_long
from pegboard.ports.model import CallDelta, Model, TextDelta, ThinkingDelta, TurnEnd
from pegboard.runtime.compaction import ContextOverflow
from pegboard.runtime.state import RunState
from pegboard.runtime.talk import WindowedConversation
from pegboard.runtime.telemetry import Telemetry


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurns:
    """Asks the model for its next answer; see Loop for what is given."""

    model: Model
    recorder: Recorder
    price: Callable[[str, AssistantMessage], float | None] | None
    charge: Callable[[AssistantMessage], Awaitable[None]] | None
    telemetry: Telemetry | None

    async def next(
        self, conversation: WindowedConversation, state: RunState, *, allow_tools: bool = True
    ) -> ModelReplied:
        """One model turn within the window; if the model says it was too long, once more with less."""
        if (done := conversation.fit()) is not None:
            self.recorder.record(done)
        try:
            return ModelReplied(await self._reply(conversation, state, allow_tools))
        except ModelError as failure:
            if len(conversation.messages) < 4 or not (failure.too_long or is_too_long(str(failure))):
                raise
            try:
                self.recorder.record(conversation.compact(conversation.tokens // 2))
            except ContextOverflow as error:
                # What the model said is what a person can act on; our estimate of it is not.
                raise failure from error
            return ModelReplied(await self._reply(conversation, state, allow_tools))

    async def _reply(
        self, conversation: WindowedConversation, state: RunState, allow_tools: bool
    ) -> AssistantMessage:
        """One model turn, in a span of its own where somebody traces."""
        if self.telemetry is None:
            return await self._streamed(conversation, state, allow_tools)
        with self.telemetry.chat(self.model.name) as replied:
            message = await self._streamed(conversation, state, allow_tools)
            replied(message)
            return message

    async def _streamed(
        self, conversation: WindowedConversation, state: RunState, allow_tools: bool
    ) -> AssistantMessage:
        """Pieces as they stream, then ModelReplied, appended to the talk."""
        message: AssistantMessage | None = None
        record = self.recorder.record
        async for event in conversation.reply(allow_tools=allow_tools):
            match event:
                case TextDelta(text):
                    record(TextPiece(text))
                case ThinkingDelta(text):
                    record(ThinkingPiece(text))
                case TurnEnd(replied):
                    message = replied
                case CallDelta():
                    pass
        if message is None:
            raise ModelError(f"{self.model.name} ended its stream without an answer", retryable=True)
        if message.calls:
            calls = distinct_calls(message.calls, state.call_ids)
            state.call_ids.update(c.id or "" for c in calls)
            if calls != message.calls:
                message = replace(message, content=_with_calls(message, calls))
        if self.price is not None and message.usage.cost_usd is None:
            cost = self.price(self.model.name, message)
            if cost is not None:
                message = replace(message, usage=replace(message.usage, cost_usd=cost))
        # First: a turn that cannot be kept was none, and the run's figures are those of its record.
        conversation.append(message)
        state.turns += 1
        state.usage += message.usage
        record(ModelReplied(message))
        if self.charge is not None:
            await self.charge(message)
        return message


def _with_calls(message: AssistantMessage, calls: tuple[ToolCall, ...]) -> tuple[Any, ...]:
    """The content with its calls replaced by the distinct ones; everything keeps its place."""
    left = list(calls)
    out: list[Any] = []
    for part in message.content:
        if not isinstance(part, ToolCall):
            out.append(part)
        elif left and left[0].name == part.name and left[0].arguments is part.arguments:
            out.append(left.pop(0))
    return tuple(out)
