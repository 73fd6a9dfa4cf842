"""The streamed form of the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pegboard.core.errors import ModelError
from pegboard.core.transcript import AssistantMessage
from pegboard.dialects import wire
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk, ToolkitView

if TYPE_CHECKING:
    from pegboard.dialects.anthropic import Anthropic

_PIECES: Final = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


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
        if pieces := self._pieces.get((place, "partial_json")):
            text = "".join(pieces)
            value = wire.plain_object(text)
            out["input"] = text if value is None else value
        return out
