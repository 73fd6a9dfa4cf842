"""The streamed form of Chat Completions: deltas in, the same message out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pegboard.core.transcript import AssistantMessage
from pegboard.dialects import wire
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk, ToolkitView

if TYPE_CHECKING:
    from pegboard.dialects.openai_chat import OpenAIChat

THINKING_FIELDS = ("reasoning_content", "reasoning")


class OpenAIChatStream:
    """Collects `chat.completion.chunk` objects into one completion, then decodes that.

    Servers differ in what they leave out: an index, an id on later pieces, a name sent twice. A
    piece belongs to the call of its index; without an index, to the call of its id; without both,
    to the last call. Some use one index for all calls, or a new id for each piece: then a name begins
    a call where the one before has its arguments whole, or has begun them under another name.
    Of several choices the first is read.
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
        self._choice: int | None = None
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
        for choice in wire.as_dicts(body.get("choices")):
            number = wire.count(choice.get("index"))
            if self._choice is None:
                self._choice = number
            if number != self._choice:
                continue
            self._reason = choice.get("finish_reason") or self._reason
            out += self._delta(wire.as_dict(choice.get("delta")))
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
                out.append(ThinkingChunk(thought))
                break
        self._details += wire.as_dicts(delta.get("reasoning_details"))
        content = delta.get("content")
        if isinstance(content, list):
            content = "".join(
                [_piece(part.get("text")) for part in wire.as_dicts(cast("list[Any]", content))]
            )
        for kept, text in ((self._text, _piece(content)), (self._refusal, _piece(delta.get("refusal")))):
            if text:
                kept.append(text)
                out.append(TextChunk(text))
        for sent in wire.sent_calls(delta):
            out += self._call(sent)
        return out

    def _call(self, sent: dict[str, Any]) -> list[Delta]:
        function = wire.as_dict(sent.get("function"))
        id, name = wire.string(sent.get("id")), wire.string(function.get("name"))
        piece = function.get("arguments")
        # An object where its text should stand, whole.
        piece = wire.to_json(piece) if isinstance(piece, dict) else _piece(piece)
        place = self._place(sent.get("index"), id, name, piece)
        out: list[Delta] = []
        if place is None:
            place = len(self._calls)
            self._calls.append({"id": "", "name": "", "arguments": []})
            if isinstance(index := sent.get("index"), int):
                self._by_index[index] = place
            out.append(CallStartChunk(place, id, name))
        call = self._calls[place]
        call["id"] = call["id"] or id
        # Some servers repeat the whole name in every piece.
        if name != call["name"]:
            call["name"] += name
        if piece:
            call["arguments"].append(piece)
            out.append(CallChunk(place, piece))
        return out

    def _place(self, index: Any, id: str, name: str, piece: str) -> int | None:
        """Which call a piece belongs to, None where it begins a new one."""
        numbered = isinstance(index, int)
        place = self._by_index.get(index) if numbered else len(self._calls) - 1 if self._calls else None
        if place is None:
            return None
        before = self._calls[place]["id"]
        if id and id != before:
            known = next((n for n, c in enumerate(self._calls) if c["id"] == id), None)
            if known is not None:
                return known
            if before:
                return None if name and not self._torn(place, name) else place
            if not numbered:
                return None
        return None if self._begins(place, name, piece) else place

    def _torn(self, place: int, name: str) -> bool:
        """Whether the call of that name has begun its arguments and not ended them."""
        call = self._calls[place]
        text = "".join(call["arguments"]).strip()
        return call["name"] == name and bool(text) and not _is_whole(text)

    def _begins(self, place: int, name: str, piece: str) -> bool:
        """Whether a piece without an id of its own is another call all the same."""
        call = self._calls[place]
        text = "".join(call["arguments"]).strip() if name else ""
        return bool(text) and (name != call["name"] or (bool(piece.strip()) and _is_whole(text)))


def _is_whole(text: str) -> bool:
    if not text.endswith("}"):
        return False
    try:
        return isinstance(wire.from_json(text), dict)
    except ValueError:
        return False


def _piece(value: Any) -> str:
    """A piece of text as it came: half of a surrogate pair may be completed by the next piece."""
    return value if isinstance(value, str) else ""
