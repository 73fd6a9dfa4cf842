"""anthropic: the Messages API."""

from __future__ import annotations

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
from pegboard.dialects.names import ANTHROPIC, CALL_IDS, wire_name
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk, ToolkitView
from pegboard.dialects.rendering import RenderedTools, ToolRenderer
from pegboard.dialects.schemas import sendable

STOP: Final[Mapping[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "pause",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"type", "text"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "tool_use": frozenset({"type", "id", "name", "input"}),
}
"""Fields of the blocks that are read; an Opaque without a `type` holds the others, of the block behind it."""
_PIECES: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


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
            turn: list[dict[str, Any]] = []
            attached: dict[str, Any] = {}
            for block in message.content:
                if isinstance(block, Opaque) and block.dialect == self.name and "type" not in block.value:
                    attached = wire.clean_value(block.value)
                elif (made := _sent(block, attached)) is not None:
                    turn.append({**attached, **made})
                    attached = {}
            return [{"role": "assistant", "content": turn}] if turn else []
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
        if written := wire.encoded(reply):
            reply = {**written[0], "stop_reason": "tool_use"}
        body = wire.reply_dict(reply, "Messages")
        if not isinstance(body.get("content"), list):
            error = wire.as_dict(body.get("error"))
            said = wire.string(error.get("message")) or "it has no content"
            raise ModelError(f"the reply is no Messages response: {said}")
        content: list[Text | Thinking | Opaque | ToolCall] = []
        for block in wire.as_dicts(body["content"]):
            kind = block.get("type")
            attached = wire.unknown_fields(block, _KNOWN.get(wire.string(kind), block))
            if kind == "thinking" and block.get("signature") == "" and block is not body["content"][-1]:
                # Whole and unsigned: a server that does not sign its thinking wants it back as it was.
                attached["signature"] = ""
            if attached:
                content.append(Opaque(self.name, attached))
            match kind:
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
    return wire_name(id, CALL_IDS) if id else ""


def _sent(block: Text | Thinking | Opaque | ToolCall, attached: Mapping[str, Any]) -> dict[str, Any] | None:
    match block:
        case Text():
            return _block(block)
        case Thinking(text, signature):
            # Thinking without a signature is another provider's, and refused.
            sent = {"type": "thinking", "thinking": wire.clean_text(text), "signature": signature}
            return sent if signature or "signature" in attached else None
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


class AnthropicStream:
    """Collects content blocks by their index, then decodes them as one message.

    A block that begins under an index which was begun before is one more block; a piece of text whose block never
    began begins it.
    """

    def __init__(self, dialect: Anthropic, toolkit: ToolkitView | None) -> None:
        self._dialect = dialect
        self._toolkit = toolkit
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._moved: dict[int, int] = {}
        """Where the last block that was begun under an index is kept, if not there."""
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._calls: dict[int, int] = {}
        self._usage: dict[str, Any] = {}

    def feed(self, chunk: Any) -> list[Delta]:
        """What this event adds.

        Raises:
            ModelError: an error event, or no object.
        """
        event = wire.reply_dict(chunk, "Messages")
        place = wire.count(event.get("index"))
        match event.get("type"):
            case "message_start":
                self._message = wire.as_dict(event.get("message"))
                self._usage.update(wire.as_dict(self._message.get("usage")))
            case "content_block_start":
                return self._start(place, wire.as_dict(event.get("content_block")))
            case "content_block_delta":
                return self._piece(place, wire.as_dict(event.get("delta")))
            case "message_delta":
                delta = wire.as_dict(event.get("delta"))
                self._message.update({k: v for k, v in delta.items() if v is not None})
                usage = wire.as_dict(event.get("usage"))
                self._usage.update({k: v for k, v in usage.items() if v is not None})
            case "error":
                said = wire.string(wire.as_dict(event.get("error")).get("message")) or "no message"
                raise ModelError(f"the model's stream ended in an error: {said}", retryable=True)
            case _:
                pass
        return []

    def flush(self) -> list[Delta]:
        """Nothing: no piece is held back."""
        return []

    def finish(self) -> AssistantMessage:
        """The whole message; arguments that are no plain JSON object stay text, as they were sent."""
        content = [self._block(n, block) for n, block in sorted(self._blocks.items())]
        whole = {**self._message, "content": content, "usage": self._usage}
        return self._dialect.decode_message(whole, self._toolkit)

    def _start(self, place: int, block: dict[str, Any]) -> list[Delta]:
        if place in self._blocks:
            self._moved[place] = max(self._blocks) + 1
            place = self._moved[place]
        self._blocks[place] = block
        match block.get("type"):
            case "tool_use":
                index = self._calls[place] = len(self._calls)
                return [CallStartChunk(index, wire.string(block.get("id")), wire.string(block.get("name")))]
            case "text" if text := wire.string(block.get("text")):
                return [TextChunk(text)]
            case _:
                return []

    def _piece(self, place: int, delta: dict[str, Any]) -> list[Delta]:
        field = _PIECES.get(wire.string(delta.get("type")), "")
        piece = delta.get(field)
        place = self._moved.get(place, place)
        if not isinstance(piece, str) or not piece:
            return []
        if place not in self._blocks:
            if field not in ("text", "thinking"):
                return []
            self._blocks[place] = {"type": field, field: ""}
        self._pieces.setdefault((place, field), []).append(piece)
        if field == "text":
            return [TextChunk(piece)]
        if field == "thinking":
            return [ThinkingChunk(piece)]
        if field == "partial_json" and place in self._calls:
            return [CallChunk(self._calls[place], piece)]
        return []

    def _block(self, place: int, block: dict[str, Any]) -> dict[str, Any]:
        out = dict(block)
        for field in ("text", "thinking", "signature"):
            if pieces := self._pieces.get((place, field)):
                out[field] = wire.string(block.get(field)) + "".join(pieces)
        if block.get("type") != "text" and (pieces := self._pieces.get((place, "partial_json"))):
            text = "".join(pieces)
            value = wire.plain_object(text)
            out["input"] = text if value is None else value
        return out
