"""Talk: a model conversation that is kept within the model's window."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from pegboard.core.events import ContextCompacted
from pegboard.core.transcript import AssistantMessage, Message
from pegboard.ports.model import Conversation, ModelEvent
from pegboard.runtime.compaction import Window, compact, too_many_images
from pegboard.runtime.shorten import images_in
from pegboard.runtime.tokens import message_tokens


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
    def tokens(self) -> int:
        """Estimated tokens of the messages."""
        return self._tokens

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

    def fit(self) -> ContextCompacted | None:
        """Make the conversation fit before the next request; what was done, None where nothing had to be.

        Raises:
            ContextOverflow: it cannot be made to fit.
        """
        budget = self._window.budget
        over = budget is not None and self._tokens > budget
        if not over and not too_many_images(self._images):
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

    def start_again(self, messages: Sequence[Message], sizes: Sequence[int]) -> None:
        """Open a new conversation that holds these messages, of these sizes, and no others."""
        self._talk = self._converse()
        self.messages = list(messages)
        self._sizes = list(sizes)
        self._tokens = self._estimated = sum(sizes)
        self._images = [s for m in messages for s in images_in(m)]
        for message in messages:
            self._talk.append(message)
