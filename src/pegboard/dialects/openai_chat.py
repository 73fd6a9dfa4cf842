"""openai-chat: OpenAI Chat Completions, and every server that speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.content import Audio, Block, File, Image, Text, ToolCall
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
from pegboard.dialects.names import CHAT_CALL_IDS, OPENAI, wire_name
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk, ToolkitView
from pegboard.dialects.rendering import RenderedTools, ToolRenderer
from pegboard.dialects.schemas import sendable

STOP: Final[Mapping[str, StopReason]] = {
    "stop": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "filtered",
}
THINKING_FIELDS: Final = ("reasoning_content", "reasoning")
"""Where compatible servers put reasoning text; OpenAI itself sends none."""
_KNOWN: Final = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio", "name"}
)
_KNOWN_OF_CALL: Final = frozenset({"id", "type", "function", "index"})
_OF_CALL: Final = "tool_calls"
"""Key of an Opaque that holds the unknown fields of the call behind it; no unknown field has this name."""


class OpenAIChat:
    """Chat Completions.

    What a server attaches to its message or to a call beside the documented fields (reasoning under any name,
    signatures) is kept as Opaque and sent back where it stood: many servers want it, and OpenAI sends none.

    Args:
        strict: send tools with `strict: true` where their schema can be said so.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.name = "openai-chat-strict" if strict else "openai-chat"
        self._catalogue = ToolRenderer(self.name, OPENAI, _render_strict if strict else _render)

    def render_tools(self, toolkit: ToolkitView) -> list[dict[str, Any]]:
        """`[{type: function, function: {name, description, parameters}}]`."""
        return self._catalogue.tools(toolkit)

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """Which tools could not be sent strict, and why."""
        return self._catalogue.notes(toolkit)

    def encode(self, message: Message) -> list[dict[str, Any]]:
        """User and assistant messages, and one `tool` message for each result.

        Tool messages hold text only; their images follow in one user message (the API's rule).
        """
        if isinstance(message, UserMessage):
            return [{"role": "user", "content": _user_content(message.content)}]
        if isinstance(message, AssistantMessage):
            return [self._assistant(message)]
        out: list[dict[str, Any]] = [
            {"role": "tool", "tool_call_id": _id(r.call_id), "content": media.result_text(r)}
            for r in message.results
        ]
        shown: list[dict[str, Any]] = []
        for result in message.results:
            parts = [p for b in result.content if not isinstance(b, Text) and (p := _part(b)) is not None]
            if parts:
                label = f"From the result of {result.tool or 'the call'} ({result.call_id}):"
                shown += [_text_part(label), *parts]
        return [*out, {"role": "user", "content": shown}] if shown else out

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The calls of a completion.

        Raises:
            ModelError: the reply holds no choice with a message.
        """
        return list(self.decode_message(reply, toolkit).calls)

    def decode_message(self, reply: Any, toolkit: ToolkitView | None = None) -> AssistantMessage:
        """The first choice's message.

        Raises:
            ModelError: the reply holds no choice with a message.
        """
        if written := wire.encoded(reply):
            reply = {"choices": [{"message": written[0], "finish_reason": "tool_calls"}]}
        body = wire.reply_dict(reply, "Chat Completions")
        choices = wire.as_dicts(body.get("choices"))
        if not choices:
            error = wire.as_dict(body.get("error"))
            said = wire.string(error.get("message")) or "it has no choices"
            raise ModelError(f"the reply is no Chat Completions response: {said}")
        return self._message(wire.as_dict(choices[0].get("message")), choices[0], body, toolkit)

    def stream(self, toolkit: ToolkitView | None = None) -> Any:
        """A reader for `chat.completion.chunk` objects."""
        return OpenAIChatStream(self, toolkit)

    def _message(
        self,
        message: dict[str, Any],
        choice: dict[str, Any],
        body: dict[str, Any],
        toolkit: ToolkitView | None,
    ) -> AssistantMessage:
        content: list[Text | Thinking | Opaque | ToolCall] = []
        for field in THINKING_FIELDS:
            if thought := wire.string(message.get(field)):
                content.append(Thinking(thought))
                break
        if attached := wire.unknown_fields(message, _KNOWN):
            content.append(Opaque("openai-chat", attached))
        refusal = wire.string(message.get("refusal"))
        if text := _text_of(message.get("content")) + refusal:
            content.append(Text(text))
        for sent in wire.sent_calls(message):
            function = wire.as_dict(sent.get("function"))
            call = wire.call_of(sent.get("id"), function.get("name"), function.get("arguments"))
            own = call.name if toolkit is None else self._catalogue.own_name(call.name, toolkit)
            if attached := wire.unknown_fields(sent, _KNOWN_OF_CALL):
                content.append(Opaque("openai-chat", {_OF_CALL: attached}))
            content.append(ToolCall(id=call.id, name=own, arguments=call.arguments))
        return AssistantMessage(
            content=tuple(content),
            stop=_stop(choice.get("finish_reason"), bool(refusal), content),
            usage=usage_of(body.get("usage")),
            model=wire.string(body.get("model")),
        )

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        out: dict[str, Any] = {"role": "assistant", "content": wire.clean_text(message.text) or None}
        calls: list[dict[str, Any]] = []
        of_call: dict[str, Any] = {}
        for block in message.content:
            match block:
                case Opaque("openai-chat", value):
                    attached = wire.as_dict(wire.clean_value(value))
                    of_call = wire.as_dict(attached.pop(_OF_CALL, None))
                    out.update(attached)
                case ToolCall():
                    calls.append({**of_call, **_call(block)})
                    of_call = {}
                case _:
                    pass
        if calls:
            out["tool_calls"] = calls
        elif out["content"] is None:
            # An assistant message with neither text nor calls is refused.
            out["content"] = ""
        return out


def _id(id: str | None) -> str:
    return wire_name(id, CHAT_CALL_IDS) if id else ""


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": _id(call.id),
        "type": "function",
        "function": {
            "name": wire_name(call.name, OPENAI),
            "arguments": wire.arguments_text(call.arguments),
        },
    }


def usage_of(value: Any) -> Usage:
    """Tokens of one request; cached tokens are part of `prompt_tokens` on the wire, apart here."""
    body = wire.as_dict(value)
    if not body:
        return Usage(requests=1)
    cached = wire.count(wire.as_dict(body.get("prompt_tokens_details")).get("cached_tokens"))
    return Usage(
        input_tokens=max(0, wire.count(body.get("prompt_tokens")) - cached),
        output_tokens=wire.count(body.get("completion_tokens")),
        cache_read_tokens=cached,
        requests=1,
    )


def _render(toolkit: ToolkitView) -> RenderedTools:
    return RenderedTools([_function(t.name, t.description, sendable(t.schema)) for t in toolkit])


def _render_strict(toolkit: ToolkitView) -> RenderedTools:
    from pegboard.dialects.strict import strict_or_plain

    tools: list[dict[str, Any]] = []
    notes: list[str] = []
    for tool in toolkit:
        parameters, note = strict_or_plain(tool)
        rendered = _function(tool.name, tool.description, parameters)
        if note:
            notes.append(note)
        else:
            rendered["function"]["strict"] = True
        tools.append(rendered)
    return RenderedTools(tools, tuple(notes))


def _function(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": wire_name(name, OPENAI),
            "description": description,
            "parameters": parameters,
        },
    }


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        parts = wire.as_dicts(cast("list[Any]", content))
        return "".join(wire.string(p.get("text")) for p in parts)
    return wire.string(content)


def _stop(reason: Any, refused: bool, content: list[Any]) -> StopReason:
    if refused:
        return "refusal"
    known = STOP.get(wire.string(reason), "end")
    # Many compatible servers say "stop" though they call tools.
    if known == "end" and any(isinstance(b, ToolCall) for b in content):
        return "tools"
    return known


def _user_content(blocks: tuple[Block, ...]) -> str | list[dict[str, Any]]:
    if all(isinstance(b, Text) for b in blocks):
        return media.blocks_text(blocks)
    return [_part(b) or _text_part(media.block_text(b)) for b in blocks]


def _part(block: Block) -> dict[str, Any] | None:
    """The block as a content part, None where the API takes no such block."""
    if isinstance(block, Image) and media.is_sendable_image(block):
        return {"type": "image_url", "image_url": {"url": media.data_uri(block.data, block.mime_type)}}
    if isinstance(block, Audio) and (form := media.audio_format(block)):
        return {"type": "input_audio", "input_audio": {"data": media.base64_text(block.data), "format": form}}
    if isinstance(block, File) and block.data is not None and media.is_pdf(block):
        uri = media.data_uri(block.data, block.mime_type)
        return {"type": "file", "file": {"filename": wire.clean_text(block.name), "file_data": uri}}
    return None


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def strict() -> OpenAIChat:
    """The dialect with `strict: true` tools."""
    return OpenAIChat(strict=True)


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
        self._attached: dict[str, Any] = {}
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
            # Some gateways put the whole message into one event.
            out += self._delta(wire.as_dict(choice.get("delta") or choice.get("message")))
        return out

    def flush(self) -> list[Delta]:
        """Nothing: no piece is held back."""
        return []

    def finish(self) -> AssistantMessage:
        """The whole message; an unfinished call keeps its text as it is, which no executor runs."""
        message: dict[str, Any] = {
            **self._attached,
            "content": "".join(self._text),
            "refusal": "".join(self._refusal),
            "tool_calls": [
                {
                    **call["attached"],
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
                out.append(ThinkingChunk(thought))
                break
        _join(self._attached, wire.unknown_fields(delta, _KNOWN))
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
            self._calls.append({"id": "", "name": "", "arguments": [], "attached": {}})
            if isinstance(index := sent.get("index"), int):
                self._by_index[index] = place
            out.append(CallStartChunk(place, id, name))
        call = self._calls[place]
        call["id"] = call["id"] or id
        _join(call["attached"], wire.unknown_fields(sent, _KNOWN_OF_CALL))
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


def _join(whole: dict[str, Any], piece: dict[str, Any]) -> None:
    """Add a further piece of unknown fields: texts and lists go on, of anything else the last one counts."""
    for key, value in piece.items():
        before = whole.get(key)
        if isinstance(before, str) and isinstance(value, str):
            whole[key] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            whole[key] = [*cast("list[Any]", before), *cast("list[Any]", value)]
        elif isinstance(before, dict) and isinstance(value, dict):
            whole[key] = {**cast("dict[str, Any]", before), **cast("dict[str, Any]", value)}
        else:
            whole[key] = value


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
