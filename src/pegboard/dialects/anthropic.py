"""anthropic: the Messages API (ledger D-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pegboard.core.content import Block, File, Image, Text, ToolCall
from pegboard.core.errors import ModelError
from pegboard.core.transcript import (
    AssistantMessage,
    Message,
    Opaque,
    StopReason,
    Thinking,
    Usage,
    UserMessage,
)
from pegboard.dialects import media, wire
from pegboard.dialects.names import ANTHROPIC, Alphabet, wire_name
from pegboard.dialects.protocol import ToolkitView
from pegboard.dialects.rendering import RenderedTools, ToolRenderer
from pegboard.dialects.schemas import sendable

STOP: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
IDS: Final = Alphabet(re.compile(r"[^a-zA-Z0-9_-]"), re.compile(r"[a-zA-Z0-9_-]"), 64)
"""What the API takes as the id of a call: ids of other providers are changed, both ways alike."""


class Anthropic:
    """Messages."""

    name = "anthropic"

    def __init__(self) -> None:
        self._catalogue = ToolRenderer(self.name, ANTHROPIC, _render)

    def render_tools(self, toolkit: ToolkitView) -> list[dict[str, Any]]:
        """`[{name, description, input_schema}]`."""
        return self._catalogue.tools(toolkit)

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """Nothing: the API takes every schema that has an object at its root."""
        return ()

    def encode(self, message: Message) -> list[dict[str, Any]]:
        """One message of content blocks; results are blocks of a user message, images inside them.

        A turn without anything to send is left out: the API refuses an empty one.
        """
        if isinstance(message, UserMessage):
            blocks = [b for block in message.content if (b := _block(block)) is not None]
            return [{"role": "user", "content": blocks or [{"type": "text", "text": "(empty)"}]}]
        if isinstance(message, AssistantMessage):
            blocks = [b for block in message.content if (b := _sent(block)) is not None]
            return [{"role": "assistant", "content": blocks}] if blocks else []
        results: list[dict[str, Any]] = []
        for result in message.results:
            inner = [b for block in result.content if (b := _block(block)) is not None]
            sent: dict[str, Any] = {
                "type": "tool_result",
                "tool_use_id": _id(result.call_id),
                "content": inner or [{"type": "text", "text": media.EMPTY}],
            }
            if not result.ok:
                sent["is_error"] = True
            results.append(sent)
        return [{"role": "user", "content": results}] if results else []

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The calls of a message.

        Raises:
            ModelError: the reply is no message.
        """
        return list(self.decode_message(reply, toolkit).calls)

    def decode_message(self, reply: Any, toolkit: ToolkitView | None = None) -> AssistantMessage:
        """The message's blocks in order; thinking with its signature, other blocks verbatim.

        Raises:
            ModelError: the reply is no message.
        """
        body = wire.reply_dict(reply, "Messages")
        if not isinstance(body.get("content"), list):
            error = wire.as_dict(body.get("error"))
            said = wire.string(error.get("message")) or "it has no content"
            raise ModelError(f"the reply is no Messages response: {said}")
        content: list[Text | Thinking | Opaque | ToolCall] = []
        for block in wire.as_dicts(body["content"]):
            match block.get("type"):
                case "text":
                    content += [Text(text)] if (text := wire.string(block.get("text"))) else []
                case "thinking":
                    thought, signature = wire.string(block.get("thinking")), block.get("signature")
                    content.append(Thinking(thought, wire.string(signature)))
                case "tool_use":
                    call = wire.call_of(block.get("id"), block.get("name"), block.get("input"))
                    own = self._catalogue.own_name(call.name, toolkit)
                    content.append(ToolCall(call.id, own, call.arguments))
                case _:
                    content.append(Opaque("anthropic", block))
        return AssistantMessage(
            content=tuple(content),
            stop=STOP.get(wire.string(body.get("stop_reason")), "end"),
            usage=_usage(body.get("usage")),
            model=wire.string(body.get("model")),
        )

    def stream(self, toolkit: ToolkitView | None = None) -> Any:
        """A reader for the stream's events."""
        from pegboard.dialects.anthropic_stream import AnthropicStream

        return AnthropicStream(self, toolkit)


def _render(toolkit: ToolkitView) -> RenderedTools:
    return RenderedTools(
        [
            {
                "name": wire_name(t.name, ANTHROPIC),
                "description": t.description,
                "input_schema": sendable(t.schema),
            }
            for t in toolkit
        ]
    )


def _id(id: str | None) -> str:
    return wire_name(id, IDS) if id else ""


def _sent(block: Text | Thinking | Opaque | ToolCall) -> dict[str, Any] | None:
    match block:
        case Text():
            return _block(block)
        case Thinking(text, signature):
            # Thinking without a signature is another provider's, and refused.
            sent = {"type": "thinking", "thinking": wire.clean_text(text), "signature": signature}
            return sent if signature else None
        case ToolCall():
            return {
                "type": "tool_use",
                "id": _id(block.id),
                "name": wire_name(block.name, ANTHROPIC),
                "input": wire.arguments_object(block.arguments),
            }
        case _:
            return wire.clean_value(block.value) if block.dialect == "anthropic" else None


def _block(block: Block) -> dict[str, Any] | None:
    """A content block; None for blank text, which the API refuses."""
    if isinstance(block, Image) and media.is_sendable_image(block):
        return {"type": "image", "source": _source(block.data, block.mime_type)}
    if isinstance(block, File) and block.data is not None and media.is_pdf(block):
        title = wire.clean_text(block.name)
        return {"type": "document", "source": _source(block.data, block.mime_type), "title": title}
    text = media.block_text(block)
    return {"type": "text", "text": text} if text.strip() else None


def _source(data: bytes, mime_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": mime_type, "data": media.base64_text(data)}


def _usage(value: Any) -> Usage:
    body = wire.as_dict(value)
    return Usage(
        input_tokens=wire.count(body.get("input_tokens")),
        output_tokens=wire.count(body.get("output_tokens")),
        cache_read_tokens=wire.count(body.get("cache_read_input_tokens")),
        cache_write_tokens=wire.count(body.get("cache_creation_input_tokens")),
        requests=1,
    )
