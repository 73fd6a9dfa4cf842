"""openai-responses: OpenAI's Responses API."""

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
from pegboard.dialects.names import CALL_IDS, OPENAI, wire_name
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk, ToolkitView
from pegboard.dialects.rendering import RenderedTools, ToolRenderer
from pegboard.dialects.schemas import sendable
from pegboard.dialects.strict import strict_or_plain

PROVIDER: Final = "Responses"
INCOMPLETE: Final[Mapping[str, StopReason]] = {
    "max_output_tokens": "length",
    "content_filter": "filtered",
}
_DIALECT: Final = "openai-responses"
_KNOWN: Final[Mapping[str, frozenset[str]]] = {
    "message": frozenset({"type", "id", "status", "role", "content"}),
    "function_call": frozenset({"type", "id", "status", "call_id", "name", "arguments"}),
}
"""Fields of the items that are read; an Opaque without a `type` holds the others, of the item behind it."""
_REFUSAL: Final = "response.refusal.delta"
_TEXT: Final = ("response.output_text.delta", _REFUSAL)
_THINKING: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
PASSING: Final = (
    "",
    "server_error",
    "rate_limit_exceeded",
    "server_is_overloaded",
    "slow_down",
    "vector_store_timeout",
)
"""Codes of failures that may pass; none is said where something broke."""
_LAST: Final = ("response.completed", "response.incomplete", "response.failed")


class OpenAIResponses:
    """Responses.

    Reasoning items, and items of the provider's own tools, are kept whole as Opaque and sent back
    verbatim at their place; their summaries are Thinking besides, for people.

    Args:
        strict: send tools with `strict: true` where their schema can be said so.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.name = "openai-responses-strict" if strict else "openai-responses"
        self._catalogue = ToolRenderer(self.name, OPENAI, _render_strict if strict else _render)

    def render_tools(self, toolkit: ToolkitView) -> list[dict[str, Any]]:
        """`[{type: function, name, description, parameters, strict}]`."""
        return self._catalogue.tools(toolkit)

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """Which tools could not be sent strict, and why."""
        return self._catalogue.notes(toolkit)

    def encode(self, message: Message) -> list[dict[str, Any]]:
        """Input items; images and PDF files of results stay in their result."""
        if isinstance(message, UserMessage):
            parts = [_part(b) for b in message.content]
            return [{"type": "message", "role": "user", "content": parts or [_input_text("")]}]
        if isinstance(message, AssistantMessage):
            items: list[dict[str, Any]] = []
            attached: dict[str, Any] = {}
            for block in message.content:
                if isinstance(block, Opaque) and block.dialect == _DIALECT and "type" not in block.value:
                    attached = wire.clean_value(block.value)
                    continue
                items += [{**attached, **item} for item in _items(block)]
                attached = {}
            return items
        return [
            {
                "type": "function_call_output",
                "call_id": wire_name(r.call_id, CALL_IDS) if r.call_id else "",
                "output": _output(r.content),
            }
            for r in message.results
        ]

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The calls of a response.

        Raises:
            ModelError: no response, or a failed one.
        """
        return list(self.decode_message(reply, toolkit).calls)

    def decode_message(self, reply: Any, toolkit: ToolkitView | None = None) -> AssistantMessage:
        """The response's output items in order.

        Raises:
            ModelError: no response, or a failed one.
        """
        if written := wire.encoded(reply):
            reply = {"output": written, "status": "completed"}
        body = wire.reply_dict(reply, PROVIDER)
        error = wire.as_dict(body.get("error"))
        if error or not isinstance(body.get("output"), list):
            said = wire.string(error.get("message")) or "it has no output"
            raise ModelError(f"the reply is no {PROVIDER} response: {said}")
        content: list[Text | Thinking | Opaque | ToolCall] = []
        refused = False
        for item in wire.as_dicts(body["output"]):
            kind = item.get("type")
            if kind in _KNOWN and (attached := wire.unknown_fields(item, _KNOWN[kind])):
                content.append(Opaque(_DIALECT, attached))
            if kind == "function_call":
                call = wire.call_of(item.get("call_id"), item.get("name"), item.get("arguments"))
                own = self._catalogue.own_name(call.name, toolkit)
                content.append(ToolCall(call.id, own, call.arguments))
            elif kind == "message":
                for part in wire.as_dicts(item.get("content")):
                    refused = refused or part.get("type") == "refusal"
                    if text := wire.string(part.get("text")) or wire.string(part.get("refusal")):
                        content.append(Text(text))
            else:
                if kind == "reasoning" and (thought := _thought(item)):
                    content.append(Thinking(thought))
                content.append(Opaque(_DIALECT, item))
        return AssistantMessage(
            content=tuple(content),
            stop=_stop(body, refused, content),
            usage=_usage(body.get("usage")),
            model=wire.string(body.get("model")),
        )

    def stream(self, toolkit: ToolkitView | None = None) -> Any:
        """A reader for `response.*` events."""
        return OpenAIResponsesStream(self, toolkit)


def strict() -> OpenAIResponses:
    """The dialect with `strict: true` tools."""
    return OpenAIResponses(strict=True)


def _render(toolkit: ToolkitView) -> RenderedTools:
    # The API takes a missing `strict` for true.
    return RenderedTools([_tool(t.name, t.description, sendable(t.schema), strict=False) for t in toolkit])


def _render_strict(toolkit: ToolkitView) -> RenderedTools:
    tools: list[dict[str, Any]] = []
    notes: list[str] = []
    for tool in toolkit:
        parameters, note = strict_or_plain(tool)
        notes += [note] if note else []
        tools.append(_tool(tool.name, tool.description, parameters, strict=not note))
    return RenderedTools(tools, tuple(notes))


def _tool(name: str, description: str, parameters: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    return {
        "type": "function",
        "name": wire_name(name, OPENAI),
        "description": description,
        "parameters": parameters,
        "strict": strict,
    }


def _items(block: Text | Thinking | Opaque | ToolCall) -> list[dict[str, Any]]:
    match block:
        case Text(text):
            part: dict[str, Any] = {"type": "output_text", "text": wire.clean_text(text), "annotations": []}
            return [{"type": "message", "role": "assistant", "content": [part]}] if text else []
        case ToolCall():
            return [
                {
                    "type": "function_call",
                    "call_id": wire_name(block.id, CALL_IDS) if block.id else "",
                    "name": wire_name(block.name, OPENAI),
                    "arguments": wire.arguments_text(block.arguments),
                }
            ]
        case Opaque(dialect, value) if dialect == _DIALECT:
            # Nothing is stored at the provider: reasoning that is not in the item itself cannot be read there.
            lost = value.get("type") == "reasoning" and not value.get("encrypted_content")
            return [] if lost else [wire.clean_value(value)]
        case _:
            return []


def _output(blocks: tuple[Block, ...]) -> str | list[dict[str, Any]]:
    if all(isinstance(b, Text) for b in blocks):
        return media.blocks_text(blocks) or media.EMPTY
    return [_part(b) for b in blocks]


def _part(block: Block) -> dict[str, Any]:
    if isinstance(block, Image) and media.is_sendable_image(block):
        return {"type": "input_image", "image_url": media.data_uri(block.data, block.mime_type)}
    if isinstance(block, File) and block.data is not None and media.is_pdf(block):
        uri = media.data_uri(block.data, block.mime_type)
        return {"type": "input_file", "filename": wire.clean_text(block.name), "file_data": uri}
    return _input_text(media.block_text(block))


def _input_text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _thought(item: dict[str, Any]) -> str:
    parts = [*wire.as_dicts(item.get("summary")), *wire.as_dicts(item.get("content"))]
    return "\n".join(text for p in parts if (text := wire.string(p.get("text"))))


def _stop(body: dict[str, Any], refused: bool, content: list[Any]) -> StopReason:
    if refused:
        return "refusal"
    if body.get("status") == "incomplete":
        reason = wire.string(wire.as_dict(body.get("incomplete_details")).get("reason"))
        return INCOMPLETE.get(reason, "length")
    return "tools" if any(isinstance(b, ToolCall) for b in content) else "end"


def _usage(value: Any) -> Usage:
    body = wire.as_dict(value)
    cached = wire.count(wire.as_dict(body.get("input_tokens_details")).get("cached_tokens"))
    return Usage(
        input_tokens=max(0, wire.count(body.get("input_tokens")) - cached),
        output_tokens=wire.count(body.get("output_tokens")),
        cache_read_tokens=cached,
        requests=1,
    )


class OpenAIResponsesStream:
    """Reads `response.*` events; the last one holds the whole response and wins.

    A stream that ends without it, or whose last event has no output though some came, is put together from its pieces.
    """

    def __init__(self, dialect: OpenAIResponses, toolkit: ToolkitView | None) -> None:
        self._dialect = dialect
        self._toolkit = toolkit
        self._whole: dict[str, Any] | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}
        self._refused: set[int] = set()

    def feed(self, chunk: Any) -> list[Delta]:
        """What this event adds.

        Raises:
            ModelError: an error event, or no object.
        """
        event = wire.reply_dict(chunk, "Responses")
        kind, place = event.get("type"), wire.count(event.get("output_index"))
        piece = event.get("delta")
        if kind == "error":
            said, code = wire.string(event.get("message")) or "no message", wire.string(event.get("code"))
            raise ModelError(
                f"the model's stream ended in an error: {said}{f' ({code})' if code else ''}",
                retryable=code in PASSING,
            )
        if kind in _LAST:
            self._whole = wire.as_dict(event.get("response"))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(place, wire.as_dict(event.get("item")))
        elif isinstance(piece, str) and piece:
            if kind in _THINKING:
                return [ThinkingChunk(piece)]
            if kind in _TEXT:
                self._pieces.setdefault(place, []).append(piece)
                if kind == _REFUSAL:
                    self._refused.add(place)
                return [TextChunk(piece)]
            if kind == "response.function_call_arguments.delta" and place in self._calls:
                self._pieces.setdefault(place, []).append(piece)
                return [CallChunk(self._calls[place], piece)]
        return []

    def flush(self) -> list[Delta]:
        """Nothing: no piece is held back."""
        return []

    def finish(self) -> AssistantMessage:
        """The whole message.

        Raises:
            ModelError: the response failed.
        """
        whole = self._whole or {"output": [], "status": "incomplete"}
        if whole.get("output") == []:
            places = sorted({*self._items, *self._pieces})
            whole = {**whole, "output": [item for n in places for item in self._put_together(n)]}
        return self._dialect.decode_message(whole, self._toolkit)

    def _item(self, place: int, item: dict[str, Any]) -> list[Delta]:
        self._items[place] = item
        if item.get("type") != "function_call" or place in self._calls:
            return []
        index = self._calls[place] = len(self._calls)
        return [CallStartChunk(index, wire.string(item.get("call_id")), wire.string(item.get("name")))]

    def _put_together(self, place: int) -> list[dict[str, Any]]:
        """What came at a place: the item, with the pieces that it does not hold itself."""
        item = self._items.get(place)
        before = [] if item is None else [item]
        text = "".join(self._pieces.get(place, ()))
        if not text or (item is not None and item.get("type") == "message" and item.get("content")):
            return before
        if item is not None and item.get("type") == "function_call":
            return [{**item, "arguments": text}]
        kind, field = ("refusal", "refusal") if place in self._refused else ("output_text", "text")
        said = {"type": "message", "content": [{"type": kind, field: text}]}
        # Text at the place of something else (an index that is missing counts as 0) stands behind that.
        return [said] if item is None or item.get("type") == "message" else [*before, said]
