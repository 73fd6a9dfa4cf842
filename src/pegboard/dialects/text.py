"""text: calls inside a model's text, in some seventy vendor formats; Hermes' form on the way out.

For models and servers without tool calls of their own. The tools go into the system prompt, the
results into user messages; what comes back is read by `text_scan`. Only what a model wrote is read
for calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pegboard.core.content import Block, Text, ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.result import ToolResult
from pegboard.core.schema.json_schema import modern
from pegboard.core.schema.numerals import as_sent
from pegboard.core.transcript import AssistantMessage, Message, Thinking, UserMessage
from pegboard.dialects import media, wire
from pegboard.dialects.openai_chat import OpenAIChat
from pegboard.dialects.protocol import ToolkitView
from pegboard.dialects.rendering import ToolkitCache
from pegboard.dialects.text_calls import KnownTools, RawCall
from pegboard.dialects.text_scan import read_text
from pegboard.dialects.text_stream import TextStream
from pegboard.dialects.text_turns import ParsedCall, ParsedText, ThinkingPart
from pegboard.dialects.values import guessed

INTRODUCTION: Final = """\
You can call tools. Each line between <tools> and </tools> describes one as JSON, its parameters as \
JSON Schema:
<tools>
{tools}
</tools>
To call one, write this and nothing else after it, one block for each call:
<tool_call>
{{"name": "the tool's name", "arguments": {{"parameter": "value"}}}}
</tool_call>
The result comes back in <tool_response>. Do not write results yourself."""

_chat = OpenAIChat()


class TextDialect:
    """Calls as text.

    A call has no id here: the executor makes one. A text that ends inside a call gives a message
    with `stop` "length" and `feedback` that says so; the beginning of a call is never run. One with
    nothing but calls that could not be read has `stop` "malformed".
    """

    name = "text"
    guess: Callable[[str], Any] = staticmethod(guessed)
    tags = False

    def __init__(self) -> None:
        self._schemas = ToolkitCache(lambda kit: {tool.name: tool.schema for tool in kit})
        self._prompts = ToolkitCache(self.prompt)

    def render_tools(self, toolkit: ToolkitView) -> str:
        """The instruction for the system prompt."""
        return self._prompts(toolkit)

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """Nothing: text can say every schema."""
        return ()

    def encode(self, message: Message) -> list[dict[str, Any]]:
        """`{role, content}` messages; the calls of an assistant's message as it wrote them."""
        if isinstance(message, UserMessage):
            return _chat.encode(message)
        if isinstance(message, AssistantMessage):
            return [{"role": "assistant", "content": self._assistant(message)}]
        blocks: list[Block] = [Text("\n".join(self.result(r) for r in message.results))]
        for result in message.results:
            blocks += [b for b in result.content if not isinstance(b, Text)]
        return _chat.encode(UserMessage(tuple(blocks)))

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The complete calls of a text.

        Args:
            reply: the model's text; or a Chat Completions response, whose text is read.
            toolkit: types untyped values, and makes calls without any mark readable.

        Raises:
            ModelError: neither text nor such a response.
        """
        return [_tool_call(call) for call in self.read(reply, toolkit).calls]

    def decode_message(self, reply: Any, toolkit: ToolkitView | None = None) -> AssistantMessage:
        """Reasoning, text and calls.

        Raises:
            ModelError: neither text nor a Chat Completions response.
        """
        return message_of(self.read(reply, toolkit))

    def feedback(self, reply: Any, toolkit: ToolkitView | None = None) -> str:
        """What to tell the model about its text: a call that was cut off, refused or repaired; else empty."""
        return feedback_of(self.read(reply, toolkit))

    def stream(self, toolkit: ToolkitView | None = None) -> TextStream:
        """A reader for pieces of text."""
        names = self._schemas(toolkit) if toolkit is not None else ()
        return TextStream(
            lambda text: self.read(text, toolkit), message_of, names if self.tags else (), names
        )

    def read(self, reply: Any, toolkit: ToolkitView | None = None) -> ParsedText:
        """What a text says, with cut-off, repairs and refusals."""
        schemas = None if toolkit is None else self._schemas(toolkit)
        return read_text(text_of_reply(reply), KnownTools(schemas, self.guess), tags=self.tags)

    def prompt(self, toolkit: ToolkitView) -> str:
        """The instruction that `render_tools` caches."""
        lines = [
            wire.to_json({"name": t.name, "description": t.description, "parameters": modern(t.schema)})
            for t in toolkit
        ]
        return INTRODUCTION.format(tools="\n".join(lines)) if lines else ""

    def call(self, call: ToolCall) -> str:
        """A call that was not read from text, in this dialect's form."""
        body = f'{{"name": {wire.to_json(call.name)}, "arguments": {wire.arguments_text(call.arguments)}}}'
        return f"<tool_call>\n{body}\n</tool_call>"

    def result(self, result: ToolResult) -> str:
        """A result in this dialect's form: one data block, whatever stands in it."""
        body = wire.to_json({"name": result.tool, "content": media.result_text(result)})
        # No result can close its own block or open a call.
        return "<tool_response>\n" + body.replace("<", "\\u003c") + "\n</tool_response>"

    def _assistant(self, message: AssistantMessage) -> str:
        as_written = any(call.raw for call in message.calls)
        parts: list[str] = []
        for block in message.content:
            if isinstance(block, Text):
                parts.append(wire.clean_text(block.text))
            elif isinstance(block, ToolCall):
                parts.append(wire.clean_text(block.raw) if as_written else f"\n{self.call(block)}")
        return "".join(parts).strip("\n")


def text_of_reply(reply: Any) -> str:
    """The text of a model's reply.

    Raises:
        ModelError: neither text nor a Chat Completions response.
    """
    if isinstance(reply, str):
        return reply
    if written := wire.encoded(reply):
        return wire.string(written[0].get("content"))
    if isinstance(reply, Mapping) or hasattr(reply, "model_dump"):
        return _chat.decode_message(reply).text
    raise ModelError(f"the reply is not text: got {type(reply).__name__}")


def message_of(reading: ParsedText) -> AssistantMessage:
    """The message that a reading amounts to; text that is nothing but white space is left out."""
    content: list[Text | Thinking | ToolCall] = []
    before: str | ThinkingPart | ParsedCall = ""
    for part in _joined(reading.parts):
        match part:
            case ParsedCall():
                content.append(_tool_call(part))
            case ThinkingPart(text):
                content += [Thinking(wire.clean_text(text))] if text else []
            case _:
                text = part.lstrip() if isinstance(before, ThinkingPart) else part
                content += [Text(wire.clean_text(text))] if text.strip() else []
        before = part
    if reading.cut:
        return AssistantMessage(content=tuple(content), stop="length")
    lost = bool(reading.refused or reading.unread)
    return AssistantMessage(
        content=tuple(content), stop="tools" if reading.calls else "malformed" if lost else "end"
    )


def feedback_of(reading: ParsedText) -> str:
    """What a model should hear about its text, empty where all was well."""
    said: list[str] = []
    if reading.cut:
        said.append(
            "Your last tool call was cut off before its end and was not run. "
            "Send it again, whole; if it is long, do the work in smaller pieces."
        )
    if reading.refused:
        said.append(f"A tool call was refused and not run: {'; '.join(reading.refused)}.")
    if reading.unread:
        said.append(
            f"What looks like a tool call could not be read and was not run: {'; '.join(reading.unread)}. "
            "Send it again, exactly in the form of the example."
        )
    if reading.repairs:
        said.append(
            f"Your tool calls had to be repaired: {'; '.join(dict.fromkeys(reading.repairs))}. "
            "Keep exactly to the form of the example."
        )
    return "\n".join(said)


def _tool_call(call: ParsedCall) -> ToolCall:
    named: RawCall = call.named
    return ToolCall(id=None, name=named.name, arguments=as_sent(named.sent), raw=call.raw)


def _joined(parts: Iterable[str | ThinkingPart | ParsedCall]) -> list[str | ThinkingPart | ParsedCall]:
    """Neighbouring texts as one."""
    out: list[str | ThinkingPart | ParsedCall] = []
    for part in parts:
        if isinstance(part, str) and out and isinstance(out[-1], str):
            out[-1] += part
        else:
            out.append(part)
    return out
