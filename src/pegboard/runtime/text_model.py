"""TextCallModel: calls written in the model's text, for models without tool calls of their own."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pegboard.core.content import Text
from pegboard.core.errors import ModelError
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, UserMessage
from pegboard.dialects import dialect, protocol
from pegboard.dialects.text import TextDialect, feedback_of
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

_NO_TOOLS = Toolkit()


class TextCallModel:
    """A model whose tools stand in its prompt and whose calls stand in its text.

    Args:
        model: a model that only writes text.
        form: `xml` (with CDATA) or `text` (JSON in tags).
    """

    def __init__(self, model: Model, form: str = "xml") -> None:
        self._model = model
        found = dialect(form)
        if not isinstance(found, TextDialect):
            raise ValueError(f"{form!r} is not a dialect in text; use xml or text")
        self._form = found

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def destination(self) -> str:
        """Where the data goes."""
        return self._model.destination

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> TextCallConversation:
        """Open a conversation; the model itself is offered no tools."""
        prompt = f"{instructions}\n\n{self._form.render_tools(tools)}".strip()
        talk = self._model.converse(
            instructions=prompt, tools=_NO_TOOLS, output_schema=None if len(tools) else output_schema
        )
        return TextCallConversation(talk, self._form, tools)

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()


class TextCallConversation:
    """One talk in text."""

    def __init__(self, conversation: Conversation, form: TextDialect, tools: Toolkit) -> None:
        self._talk = conversation
        self._form = form
        self._tools = tools
        self._feedback = ""

    def append(self, message: Message) -> None:
        """Add a message as text: calls as they were written, results as user messages."""
        for wire in self._form.encode(message):
            content: Any = wire["content"]
            if wire["role"] == "assistant":
                # What only the runtime needs (calls) is text now; the model reads back what it wrote.
                self._talk.append(AssistantMessage(content=(Text(str(content) or "…"),)))
            elif isinstance(message, UserMessage):
                said, self._feedback = self._feedback, ""
                self._talk.append(UserMessage((*message.content, Text(said))) if said else message)
            else:
                pictures = tuple(b for r in message.results for b in r.content if not isinstance(b, Text)) if (
                    not isinstance(message, AssistantMessage)
                ) else ()  # fmt: skip
                text = content if isinstance(content, str) else _texts(content)
                if self._feedback:
                    text, self._feedback = f"{text}\n{self._feedback}", ""
                self._talk.append(UserMessage((Text(text), *pictures)))

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn: its text outside calls as it comes, its calls, then Replied.

        Raises:
            ModelError: as the model's own conversation.
        """
        reader = self._form.stream(self._tools if allow_tools else None)
        written: list[str] = []
        last: AssistantMessage | None = None
        async for event in self._talk.reply(allow_tools=False):
            match event:
                case TextDelta(text):
                    written.append(text)
                    for delta in reader.feed(text):
                        yield _event(delta)
                case TurnEnd(message):
                    last = message
                case AskedAgain():
                    reader = self._form.stream(self._tools if allow_tools else None)
                    written.clear()
                    yield event
                case _:
                    yield event
        for delta in reader.flush():
            yield _event(delta)
        read = reader.finish()
        if last is None:
            return
        reading = self._form.read("".join(written), self._tools)
        self._feedback = feedback_of(reading)
        stop = read.stop if read.stop != "end" else last.stop
        yield TurnEnd(replace(read, stop=stop, usage=last.usage, model=last.model))


def _event(delta: protocol.Delta) -> ModelEvent:
    match delta:
        case protocol.TextChunk(text):
            return TextDelta(text)
        case protocol.ThinkingChunk(text):
            return ThinkingDelta(text)
        case protocol.CallStartChunk(index=index, id=id, name=name):
            return CallDelta(index=index, id=id, name=name)
        case protocol.CallChunk(index=index, arguments=arguments):
            return CallDelta(index=index, arguments=arguments)


def _texts(parts: list[dict[str, Any]]) -> str:
    return "\n".join(p["text"] for p in parts if p.get("type") == "text")


_NO_TOOL_CALLS: Final = re.compile(
    r"(?:does not|doesn't|not) support (?:tools?|function|tool[ _-]calls?)|"
    r"(?:tools?|function calling|tool[ _-]choice)\b.{0,30}\b(?:not supported|unsupported)",
    re.IGNORECASE,
)
"""How servers refuse a request because their model has no tool calls."""


class ToolCallFallbackModel:
    """A model on somebody's own server: asked with tool calls, and in text once the server refuses them.

    Args:
        model: the model.
        form: see TextCallModel.
    """

    def __init__(self, model: Model, form: str = "xml") -> None:
        self._model = model
        self._in_text = TextCallModel(model, form)
        self.calls_in_text = False
        """Whether the server has refused tool calls: later conversations begin in text."""

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    @property
    def destination(self) -> str:
        """Where the data goes."""
        return self._model.destination

    def converse(
        self, *, instructions: str, tools: Toolkit, output_schema: Mapping[str, Any] | None = None
    ) -> ToolCallFallbackConversation:
        """Open a conversation."""

        def opened(model: Model | TextCallModel) -> Conversation:
            return model.converse(instructions=instructions, tools=tools, output_schema=output_schema)

        return ToolCallFallbackConversation(
            self, opened(self._in_text if self.calls_in_text else self._model), lambda: opened(self._in_text)
        )

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()


class ToolCallFallbackConversation:
    """One talk that goes on in text where it must."""

    def __init__(
        self, model: ToolCallFallbackModel, conversation: Conversation, in_text: Callable[[], Conversation]
    ) -> None:
        self._model = model
        self._talk = conversation
        self._in_text = in_text
        self._messages: list[Message] | None = None if model.calls_in_text else []

    def append(self, message: Message) -> None:
        """Add a message."""
        self._talk.append(message)
        if self._messages is not None:
            self._messages.append(message)

    async def reply(self, *, allow_tools: bool = True) -> AsyncIterator[ModelEvent]:
        """The next turn; asked again in text where the server says that it has no tool calls.

        Raises:
            ModelError: as the model's own conversation.
        """
        begun = False
        try:
            async for event in self._talk.reply(allow_tools=allow_tools):
                begun = not isinstance(event, AskedAgain)
                yield event
            return
        except ModelError as error:
            if begun or self._messages is None or not _NO_TOOL_CALLS.search(str(error)):
                raise
        self._model.calls_in_text = True
        held, self._messages = self._messages, None
        self._talk = self._in_text()
        for message in held:
            self._talk.append(message)
        async for event in self._talk.reply(allow_tools=allow_tools):
            yield event
