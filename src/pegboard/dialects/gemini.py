"""gemini: generateContent of the Gemini API."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

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
from pegboard.dialects.gemini_schema import gemini_schema
from pegboard.dialects.names import CALL_IDS, GEMINI, wire_name
from pegboard.dialects.protocol import CallChunk, CallStartChunk, Delta, TextChunk, ThinkingChunk, ToolkitView
from pegboard.dialects.rendering import RenderedTools, ToolRenderer

STOP: Final[Mapping[str, StopReason]] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "LANGUAGE": "refusal",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "MALFORMED_RESPONSE": "malformed",
    # It called where no call was allowed: told so, it may answer.
    "UNEXPECTED_TOOL_CALL": "malformed",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "MODEL_ARMOR": "filtered",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "IMAGE_OTHER": "error",
    "NO_IMAGE": "error",
    "OTHER": "error",
}
SIGNATURE: Final = "thoughtSignature"


class Gemini:
    """generateContent.

    A part's thought signature is kept as an Opaque right before what the part held, and is put on
    that part again. Field names are read in both spellings: the wire's and the SDK's.
    """

    name = "gemini"

    def __init__(self) -> None:
        self._catalogue = ToolRenderer(self.name, GEMINI, _render)

    def render_tools(self, toolkit: ToolkitView) -> list[dict[str, Any]]:
        """The request's `tools`: `[{functionDeclarations: [{name, description, parameters}]}]`."""
        return self._catalogue.tools(toolkit)

    def notes(self, toolkit: ToolkitView) -> tuple[str, ...]:
        """What Gemini's schema subset could not say."""
        return self._catalogue.notes(toolkit)

    def encode(self, message: Message) -> list[dict[str, Any]]:
        """One content; images of results follow the responses in the same content."""
        if isinstance(message, UserMessage):
            parts = [_part(b) for b in message.content] or [{"text": ""}]
            return [{"role": "user", "parts": parts}]
        if isinstance(message, AssistantMessage):
            parts = _sent(message)
            return [{"role": "model", "parts": parts}] if parts else []
        parts = [
            {
                "functionResponse": {
                    "id": wire_name(r.call_id, CALL_IDS) if r.call_id else "",
                    "name": wire_name(r.tool, GEMINI),
                    "response": {"output" if r.ok else "error": media.result_text(r)},
                }
            }
            for r in message.results
        ]
        blocks = [b for r in message.results for b in r.content if not isinstance(b, Text)]
        parts += [p for b in blocks if "inlineData" in (p := _part(b))]
        return [{"role": "user", "parts": parts}] if parts else []

    def decode(self, reply: Any, toolkit: ToolkitView | None = None) -> list[ToolCall]:
        """The calls of a response.

        Raises:
            ModelError: the reply is no response.
        """
        return list(self.decode_message(reply, toolkit).calls)

    def decode_message(self, reply: Any, toolkit: ToolkitView | None = None) -> AssistantMessage:
        """The first candidate's parts in order; a blocked prompt is a message that says nothing.

        Raises:
            ModelError: the reply is no response.
        """
        if written := wire.encoded(reply):
            reply = {"candidates": [{"content": written[0], "finishReason": "STOP"}]}
        body = wire.reply_dict(reply, "Gemini")
        candidates = wire.as_dicts(body.get("candidates"))
        blocked = wire.as_dict(_get(body, "promptFeedback")).get("blockReason")
        if not candidates and not (blocked or wire.as_dict(_get(body, "promptFeedback"))):
            said = wire.string(wire.as_dict(body.get("error")).get("message")) or "it has no candidates"
            raise ModelError(f"the reply is no Gemini response: {said}")
        candidate = candidates[0] if candidates else {}
        content: list[Text | Thinking | Opaque | ToolCall] = []
        for part in wire.as_dicts(wire.as_dict(candidate.get("content")).get("parts")):
            content += self._read(part, toolkit)
        reason = _word(_get(candidate, "finishReason")) if candidates else "SAFETY"
        stop = STOP.get(reason, "end")
        if stop == "end" and any(isinstance(b, ToolCall) for b in content):
            stop = "tools"
        return AssistantMessage(
            content=tuple(content),
            stop=stop,
            usage=_usage(_get(body, "usageMetadata")),
            model=wire.string(_get(body, "modelVersion")),
        )

    def stream(self, toolkit: ToolkitView | None = None) -> GeminiStream:
        """A reader for streamed responses."""
        return GeminiStream(self, toolkit)

    def _read(
        self, part: dict[str, Any], toolkit: ToolkitView | None
    ) -> list[Text | Thinking | Opaque | ToolCall]:
        out: list[Text | Thinking | Opaque | ToolCall] = []
        signature = _get(part, SIGNATURE)
        if isinstance(signature, bytes):
            signature = base64.b64encode(signature).decode("ascii")
        if isinstance(signature, str) and signature:
            out.append(Opaque("gemini", {SIGNATURE: signature}))
        sent = wire.as_dict(_get(part, "functionCall"))
        text = part.get("text")
        if sent:
            call = wire.call_of(sent.get("id"), sent.get("name"), sent.get("args") or {})
            out.append(ToolCall(call.id, self._catalogue.own_name(call.name, toolkit), call.arguments))
        elif isinstance(text, str):
            said = wire.clean_text(text)
            out += [Thinking(said) if part.get("thought") else Text(said)] if said else []
        elif any(value is not None for key, value in part.items() if key != SIGNATURE):
            out.append(Opaque("gemini", {"part": part}))
        return out


class GeminiStream:
    """Joins the parts of streamed responses: pieces of text that follow each other are one part."""

    def __init__(self, dialect: Gemini, toolkit: ToolkitView | None) -> None:
        self._dialect = dialect
        self._toolkit = toolkit
        self._parts: list[dict[str, Any]] = []
        self._body: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._index: int | None = None
        self._calls = 0

    def feed(self, chunk: Any) -> list[Delta]:
        """What this response adds.

        Raises:
            ModelError: it is no object.
        """
        body = wire.reply_dict(chunk, "Gemini")
        self._body.update({k: v for k, v in body.items() if v is not None and k != "candidates"})
        out: list[Delta] = []
        for candidate in wire.as_dicts(body.get("candidates")):
            index = wire.count(candidate.get("index"))
            if self._index is None:
                self._index = index
            if index != self._index:
                # Of several candidates the first is read.
                continue
            self._candidate.update({k: v for k, v in candidate.items() if v is not None})
            for part in wire.as_dicts(wire.as_dict(candidate.get("content")).get("parts")):
                out += self._part(part)
        return out

    def flush(self) -> list[Delta]:
        """Nothing: no piece is held back."""
        return []

    def finish(self) -> AssistantMessage:
        """The whole message.

        Raises:
            ModelError: nothing of a response came.
        """
        whole = dict(self._body)
        if self._candidate:
            whole["candidates"] = [{**self._candidate, "content": {"parts": self._parts}}]
        return self._dialect.decode_message(whole, self._toolkit)

    def _part(self, part: dict[str, Any]) -> list[Delta]:
        text = part.get("text")
        last = self._parts[-1] if self._parts else {}
        follows = isinstance(text, str) and isinstance(last.get("text"), str)
        if follows and bool(last.get("thought")) == bool(part.get("thought")) and not _get(last, SIGNATURE):
            self._parts[-1] = {**last, **part, "text": last["text"] + text}
        else:
            self._parts.append(part)
        if isinstance(text, str) and text:
            return [ThinkingChunk(text) if part.get("thought") else TextChunk(text)]
        sent = wire.as_dict(_get(part, "functionCall"))
        if not sent:
            return []
        index, self._calls = self._calls, self._calls + 1
        started = CallStartChunk(index, wire.string(sent.get("id")), wire.string(sent.get("name")))
        return [started, CallChunk(index, wire.to_json(sent.get("args") or {}))]


def _render(toolkit: ToolkitView) -> RenderedTools:
    declarations: list[dict[str, Any]] = []
    notes: list[str] = []
    for tool in toolkit:
        parameters, lost = gemini_schema(tool.schema, tool.name)
        notes += lost
        declarations.append(
            {"name": wire_name(tool.name, GEMINI), "description": tool.description, "parameters": parameters}
        )
    return RenderedTools([{"functionDeclarations": declarations}] if declarations else [], tuple(notes))


def _sent(message: AssistantMessage) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    signature: dict[str, Any] = {}
    for block in message.content:
        part: dict[str, Any] | None = None
        match block:
            case Opaque("gemini", value):
                if SIGNATURE in value:
                    signature = {SIGNATURE: value[SIGNATURE]}
                else:
                    part = wire.clean_value(value.get("part"))
            case Text(text):
                part = {"text": wire.clean_text(text)}
            case Thinking(text) if signature:
                part = {"text": wire.clean_text(text), "thought": True}
            case ToolCall():
                name, args = wire_name(block.name, GEMINI), wire.arguments_object(block.arguments)
                part = {
                    "functionCall": {
                        "id": wire_name(block.id, CALL_IDS) if block.id else "",
                        "name": name,
                        "args": args,
                    }
                }
            case _:
                pass
        if part is not None:
            parts.append({**part, **signature})
            signature = {}
    # A signature may stand on an empty part at the end.
    return [*parts, {"text": "", **signature}] if signature else parts


def _part(block: Block) -> dict[str, Any]:
    """Inline data for what Gemini looks at or listens to, text for the rest."""
    match block:
        case Image(data=data, mime_type=mime) | Audio(data=data, mime_type=mime):
            return {"inlineData": {"mimeType": mime, "data": media.base64_text(data)}}
        case File(data=bytes() as data, mime_type="application/pdf" as mime):
            return {"inlineData": {"mimeType": mime, "data": media.base64_text(data)}}
        case _:
            return {"text": media.block_text(block)}


def _get(body: dict[str, Any], key: str) -> Any:
    """A field under its wire name or the SDK's."""
    if key in body:
        return body[key]
    return body.get("".join(f"_{c.lower()}" if c.isupper() else c for c in key))


def _word(value: Any) -> str:
    """The word of an enumeration: text on the wire, a member in the SDK."""
    return wire.string(getattr(value, "value", value))


def _usage(value: Any) -> Usage:
    body = wire.as_dict(value)
    cached = wire.count(_get(body, "cachedContentTokenCount"))
    return Usage(
        input_tokens=max(0, wire.count(_get(body, "promptTokenCount")) - cached),
        output_tokens=wire.count(_get(body, "candidatesTokenCount"))
        + wire.count(_get(body, "thoughtsTokenCount")),
        cache_read_tokens=cached,
        requests=1,
    )
