"""The streamed form of Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pegboard.core.errors import ModelError
from pegboard.core.transcript import AssistantMessage
from pegboard.dialects import wire
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk, ToolkitView

if TYPE_CHECKING:
    from pegboard.dialects.openai_responses import OpenAIResponses

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
