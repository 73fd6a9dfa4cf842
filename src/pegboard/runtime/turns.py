"""Turns: one answer of the model after another, streamed, counted, recorded, and kept within the model's window."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pegboard.core.call.call import Turn
from pegboard.core.call.pipeline import distinct_calls
from pegboard.core.content import ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.events import (
    ContextCompacted,
    ModelReplied,
    Notice,
    Recorder,
    TextPiece,
    ThinkingPiece,
    UserTold,
)
from pegboard.core.result import new_seed
from pegboard.core.transcript import AssistantMessage, Message, Usage
from pegboard.models.failures import is_too_long
from pegboard.ports.model import (
    AskedAgain,
    CallDelta,
    Conversation,
    Model,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    TurnEnd,
)
from pegboard.runtime.budget import RunBudget
from pegboard.runtime.compaction import ContextOverflow, Window, compact, too_many_images
from pegboard.runtime.shorten import images_in
from pegboard.runtime.telemetry import Telemetry
from pegboard.runtime.tokens import message_tokens

ASKED_AGAIN: Final = "asked_again"
"""Key in a Notice's detail: what streamed of this turn before it is void."""
_SHORTER: Final = 0.98
"""A conversation that keeps a greater share than this has not been shortened."""


@dataclass(slots=True)
class RunState:
    """One run while it goes on.

    Attributes:
        id, session: its names.
        labels: taint labels gathered so far.
        usage, turns: spent so far.
        inbox: messages that arrived while the run was busy.
        pending: what the run waits for when it is suspended.
        budget: what it may still spend, once its turns have begun.
        call_ids: ids that calls of this session have used.
        asked: what was refused in it.
        checks: how often the command that ends it has failed.
        spent_s: seconds that it took before it was taken up again.
        mark: what the ids around untrusted text come from; a run that is taken up again keeps its own.
    """

    id: str
    session: str
    labels: set[str] = field(default_factory=set[str])
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    inbox: list[UserTold] = field(default_factory=list[UserTold])
    pending: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    budget: RunBudget | None = None
    call_ids: set[str] = field(default_factory=set[str])
    asked: Turn = field(default_factory=Turn)
    checks: int = 0
    spent_s: float = 0.0
    mark: str = field(default_factory=new_seed, repr=False)


class WindowedConversation:
    """A conversation and the messages that it holds. Each message is encoded and counted once.

    Args:
        converse: opens an empty conversation with the model.
        window: what a request may take.
    """

    def __init__(self, converse: Callable[[], Conversation], window: Window) -> None:
        self._converse = converse
        self._window = window
        self._talk = converse()
        self.messages: list[Message] = []
        self._sizes: list[int] = []
        self._settled = 0
        self._images: list[int] = []
        self._tokens = self._estimated = 0

    @property
    def estimated(self) -> int:
        """Our own estimate of the messages' tokens."""
        return self._estimated

    def append(self, message: Message) -> None:
        """Add a message."""
        self._talk.append(message)
        self.messages.append(message)
        size = message_tokens(message)
        self._sizes.append(size)
        self._tokens += size
        self._estimated += size
        usage = message.usage if isinstance(message, AssistantMessage) else None
        if usage is not None and usage.input_tokens:
            # The provider has counted: its figure without prompt and tools is better than ours, if higher.
            read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
            counted = read + usage.output_tokens - self._window.overhead
            self._tokens = max(self._tokens, counted)
        if not isinstance(message, AssistantMessage):
            self._images += images_in(message)

    def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """See Conversation."""
        return self._talk.reply(allow_tools=allow_tools)

    @property
    def over(self) -> bool:
        """Whether it has to be made to fit before the next request."""
        budget = self._window.budget
        return (budget is not None and self._tokens > budget) or too_many_images(self._images)

    def fit(self) -> ContextCompacted | None:
        """Make the conversation fit before the next request; what was done, None where nothing had to be.

        Raises:
            ContextOverflow: it cannot be made to fit.
        """
        budget = self._window.budget
        if not self.over:
            return None
        if budget is None:
            return self.compact(self._tokens * 4)
        # What is measured in estimates is cut in estimates: theirs may be lower than the provider's count.
        return self.compact(budget * self._estimated // max(self._tokens, self._estimated, 1))

    def compact(self, budget: int) -> ContextCompacted:
        """Shorten the conversation to `budget` estimated tokens.

        Raises:
            ContextOverflow: it cannot be made to fit.
        """
        before = self._tokens
        done = compact(self.messages, budget, sizes=self._sizes, settled=self._settled)
        self._settled = done.settled
        self.start_again(done.messages, done.sizes)
        return ContextCompacted(
            budget_tokens=budget, before_tokens=before, after_tokens=self._tokens, dropped=done.dropped
        )

    def share(self, figures: tuple[int, int] | None) -> int:
        """What the messages may take, in estimated tokens, where a provider takes and was sent so many of its own."""
        takes, sent = figures or (1, 2)
        return self._estimated * takes // max(sent, 1)

    def start_again(self, messages: Sequence[Message], sizes: Sequence[int]) -> None:
        """Open a new conversation that holds these messages, of these sizes, and no others."""
        self.messages = list(messages)
        self._sizes = list(sizes)
        self._tokens = self._estimated = sum(sizes)
        self._images = [s for m in messages for s in images_in(m)]
        self.reopen()

    def reopen(self) -> None:
        """Open a new conversation that holds the same messages, for tools that have changed."""
        self._talk = self._converse()
        for message in self.messages:
            self._talk.append(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurns:
    """Asks the model for its next answer; see Loop for what is given."""

    model: Model
    recorder: Recorder
    price: Callable[[str, AssistantMessage], float | None] | None
    charge: Callable[[AssistantMessage], Awaitable[None]] | None
    telemetry: Telemetry | None
    before_compact: Callable[[], Awaitable[None]] | None = None

    async def next(
        self, conversation: WindowedConversation, state: RunState, *, allow_tools: bool = True
    ) -> ModelReplied:
        """One model turn within the window; while the model says that it was too long, once more with less."""
        if self.before_compact is not None and conversation.over:
            await self.before_compact()
        if (done := conversation.fit()) is not None:
            self.recorder.record(done)
        while True:
            try:
                return ModelReplied(await self._reply(conversation, state, allow_tools))
            except ModelError as failure:
                if not (failure.too_long or is_too_long(str(failure))):
                    raise
                if not any(self._shorten(conversation, figures) for figures in (failure.figures, None)):
                    # What the model said is what a person can act on; our estimate of it is not.
                    raise

    def _shorten(self, conversation: WindowedConversation, figures: tuple[int, int] | None) -> bool:
        """Shorten to what the provider takes, or to half; whether that was more than a line."""
        before = conversation.estimated
        try:
            done = conversation.compact(conversation.share(figures))
        except ContextOverflow:
            return False
        self.recorder.record(done)
        return conversation.estimated < before * _SHORTER

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
                case AskedAgain(why):
                    record(Notice(text=why, detail={ASKED_AGAIN: True}))
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
