"""The streamed form of Chat Completions: deltas in, the same message out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pegboard.core.transcript import AssistantMessage
from pegboard.dialects import wire
from pegboard.dialects.protocol import CallDelta, CallStarted, Delta, TextDelta, ThinkingDelta, ToolkitView

if TYPE_CHECKING:
    from pegboard.dialects.openai_chat import OpenAIChat

THINKING_FIELDS = ("reasoning_content", "reasoning")


class OpenAIChatStream:
    """Collects `chat.completion.chunk` objects into one completion, then decodes that.

    Servers differ in what they leave out: an index, an id on later pieces, a name sent twice. A
    piece belongs to the call of its index; without an index, to the call of its id; without both,
    to the last call.
    """

    def __init__(self, dialect: OpenAIChat, toolkit: ToolkitView | None) -> None:
        self._dialect = dialect
        self._toolkit = toolkit
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._details: list[Any] = []
        self._refusal: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._by_index: dict[int, int] = {}
        self._reason: Any = None
        self._usage: Any = None
        self._model: Any = None

    def feed(self, chunk: Any) -> list[Delta]:
        """What this chunk adds.

        Raises:
            ModelError: the chunk is no object.
        """
        body = wire.reply_dict(chunk, "Chat Completions")
        self._model = self._model or body.get("model")
        self._usage = body.get("usage") or self._usage
        out: list[Delta] = []
        for choice in wire.records(body.get("choices"))[:1]:
            self._reason = choice.get("finish_reason") or self._reason
            out += self._delta(wire.record(choice.get("delta")))
        return out

    def flush(self) -> list[Delta]:
        """Nothing: no piece is held back."""
        return []

    def finish(self) -> AssistantMessage:
        """The whole message; an unfinished call keeps its text as it is, which no executor runs."""
        message: dict[str, Any] = {
            "content": "".join(self._text),
            "reasoning_content": "".join(self._thinking),
            "reasoning_details": self._details,
            "refusal": "".join(self._refusal),
            "tool_calls": [
                {
                    "id": call["id"],
                    "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
                }
                for call in self._calls
            ],
        }
        choice = {"message": message, "finish_reason": self._reason}
        whole = {"choices": [choice], "usage": self._usage, "model": self._model}
        return self._dialect.decode_message(whole, self._toolkit)

    def _delta(self, delta: dict[str, Any]) -> list[Delta]:
        out: list[Delta] = []
        for field in THINKING_FIELDS:
            if thought := _piece(delta.get(field)):
                self._thinking.append(thought)
                out.append(ThinkingDelta(thought))
                break
        self._details += wire.records(delta.get("reasoning_details"))
        for kept, field in ((self._text, "content"), (self._refusal, "refusal")):
            if text := _piece(delta.get(field)):
                kept.append(text)
                out.append(TextDelta(text))
        for sent in wire.records(delta.get("tool_calls")):
            out += self._call(sent)
        return out

    def _call(self, sent: dict[str, Any]) -> list[Delta]:
        function = wire.record(sent.get("function"))
        id, name = wire.string(sent.get("id")), wire.string(function.get("name"))
        place = self._place(sent.get("index"), id)
        out: list[Delta] = []
        if place is None:
            place = len(self._calls)
            self._calls.append({"id": "", "name": "", "arguments": []})
            if isinstance(index := sent.get("index"), int):
                self._by_index[index] = place
            out.append(CallStarted(place, id, name))
        call = self._calls[place]
        call["id"] = call["id"] or id
        # Some servers repeat the whole name in every piece.
        if name != call["name"]:
            call["name"] += name
        if piece := _piece(function.get("arguments")):
            call["arguments"].append(piece)
            out.append(CallDelta(place, piece))
        return out

    def _place(self, index: Any, id: str) -> int | None:
        """Which call a piece belongs to, None where it begins a new one."""
        if isinstance(index, int):
            place = self._by_index.get(index)
            # Some servers send every call under index 0, each whole and with its own id.
            if place is not None and id and self._calls[place]["id"] not in ("", id):
                return next((n for n, c in enumerate(self._calls) if c["id"] == id), None)
            return place
        if id:
            return next((n for n, c in enumerate(self._calls) if c["id"] == id), None)
        return len(self._calls) - 1 if self._calls else None


def _piece(value: Any) -> str:
    """A piece of text as it came: half of a surrogate pair may be completed by the next piece."""
    return value if isinstance(value, str) else ""
