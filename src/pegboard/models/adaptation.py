"""Adaptation: what a model or its server refuses of a request, and requests without it.

A refusal is recognised by its words, and only if the request holds what they name. It costs one request: the next
ones, of this conversation and of later ones with the same model, are made without it. The transcript keeps everything.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pegboard.core.content import Audio, Block, File, Image, Text, ToolCall
from pegboard.core.errors import BuildError, ModelError
from pegboard.core.schema.json_schema import inline_refs, modern, rewrite
from pegboard.core.transcript import (
    AssistantMessage,
    Message,
    Opaque,
    ResultsMessage,
    UserMessage,
    replace_blocks,
)
from pegboard.dialects.names import OPENAI, wire_name
from pegboard.dialects.protocol import ToolkitView, ToolView

_STATUSES: Final = frozenset({None, 400, 404, 413, 415, 422, 500, 501, 502})
"""Statuses of answers that may be such a refusal; None: an error inside a stream."""
_NONE_OF_IT: Final = re.compile(
    r"(?:\bno\b|not|n't|without|cannot).{0,40}(?:support|accept|allow|capab|enabled|available|vision|modal)|"
    r"unsupported (?:content|input|modal|message|part)|only.{0,20}support|support.{0,20}only|"
    r"unknown variant|missing data|(?:must|should) be.{0,30}(?:string|text)|expected.{0,20}(?:string|text)|"
    r"text[- ]only|不支持|不支援|仅支持",
    re.IGNORECASE,
)
"""Words for what a model takes none of, whatever its size and form."""
_TEXT_ONLY: Final = r"content.{0,80}(?:string|text)|content[ _]type|multi-?modal|多模态|"
_FILE: Final = r"\bfiles?\b|\bpdf|document|attachment|文件|文档"
_MEDIA: Final[tuple[tuple[type[Block], str, re.Pattern[str]], ...]] = (
    (
        Image,
        "pictures",
        re.compile(rf"{_TEXT_ONLY}image|picture|vision|visual|photo|图片|图像|视觉", re.IGNORECASE),
    ),
    (Audio, "sound", re.compile(rf"{_TEXT_ONLY}audio|sound|speech|音频|语音", re.IGNORECASE)),
    (File, "files", re.compile(rf"{_TEXT_ONLY}{_FILE}", re.IGNORECASE)),
)
_SCHEMA: Final = re.compile(
    r"schema|grammar|\bpattern\b|\bregex|keyword|function[ _]?declaration|"
    r"(?:tools?|functions?)\b.{0,60}\b(?:parameters|properties)\b|(?:parameters|properties)\b.{0,60}\btools?\b",
    re.IGNORECASE,
)
_ANSWER_SCHEMA: Final = re.compile(
    r"response_?format|output_config|text\.format|response_?(?:json_?)?schema", re.IGNORECASE
)
_WORD: Final = re.compile(r"[$\w]+")
_PLAIN: Final = frozenset({"type", "description", "properties", "required", "items", "enum"})
"""Keywords that every server takes: they say what to send, the others only what is wrong."""
_TYPES: Final = "a list of types"
"""Stands among the keywords for a `type` that is a list, which not every server takes."""
_CALL_ID: Final = re.compile(r"(?:call|tool_use|function)[\w\[\]. -]{0,30}\bid\b|call_?id", re.IGNORECASE)
_LENGTH: Final = re.compile(r"length\D{0,12}(\d{1,3})", re.IGNORECASE)
_SHORT_ID: Final = 9
_LONG_ID: Final = 64
"""Characters of an id, letters and digits only: the shortest and longest that a server asks for."""
_UNKNOWN: Final = re.compile(
    r"unknown|unexpected|unsupported|unrecogni[sz]ed|not (?:support|permit|allow)|extra|additional|included",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool as it is sent."""

    name: str
    description: str
    schema: Mapping[str, Any]


class Adaptation:
    """What one model has refused so far.

    Args:
        origin: host and port of its server; items that came from another one are left out.
    """

    def __init__(self, origin: str) -> None:
        self.version = 0
        """Raised whenever something more is left out."""
        self._origin = origin
        self._kinds: set[type[Block]] = set()
        self._blocks: set[bytes] = set()
        """Digests of single pictures, sounds and files."""
        self._fields: set[str] = set()
        self._id_length: int | None = None
        self._keywords: set[str] = set()
        self._plain = False
        self._open: set[str] = set()
        """Tools that are sent with free arguments."""
        self._views: tuple[ToolkitView, ToolkitView] | None = None

    def learn(self, refusal: ModelError, messages: Iterable[Message], tools: ToolkitView) -> str:
        """Leave out what a request was refused for; what that is in words for people, empty if it is nothing of this.

        Args:
            refusal: what the server said.
            messages: the request's messages, as they are before `message`.
            tools: the request's tools, as they are before `tools`.
        """
        if refusal.too_long or refusal.status not in _STATUSES:
            return ""
        # Behind the colon are the server's own words; a model's or host's name may be one of ours.
        words, sent = refusal.message.partition(": ")[2], [self.message(m) for m in messages]
        plainly = not refusal.retryable or _NONE_OF_IT.search(words) is not None
        left_out = (
            self._learn_fields(words, sent)
            or self._learn_ids(words, sent)
            or (self._learn_media(words, sent) if plainly else "")
            or self._learn_schemas(words, tools, plainly)
        )
        self.version += bool(left_out)
        return left_out

    def message(self, message: Message) -> Message:
        """The message as this model takes it; the same object if nothing is left out."""
        if isinstance(message, AssistantMessage):
            content = [part for p in message.content if (part := self._part(p)) is not None]
            same = len(content) == len(message.content) and all(map(_is, content, message.content))
            return message if same else replace(message, content=tuple(content))
        if isinstance(message, ResultsMessage) and self._id_length is not None:
            results = [replace(r, call_id=self._id(r.call_id)) for r in message.results]
            message = ResultsMessage(tuple(results))
        return replace_blocks(message, self._block) if self._kinds or self._blocks else message

    def tools(self, tools: ToolkitView) -> ToolkitView:
        """The tools as this model takes them; the same object if nothing is left out."""
        if not (self._keywords or self._plain or self._open):
            return tools
        if self._views is None or self._views[0] is not tools:
            made = [_Tool(t.name, t.description, self._schema(t)) for t in tools]
            self._views = (tools, made)
        return self._views[1]

    # -- what is left out ---------------------------------------------------------------------

    def _part(self, part: Any) -> Any:
        match part:
            case Opaque(origin=origin) if origin and origin != self._origin:
                return None
            case Opaque(value=value) if self._fields and isinstance(value, dict):
                left = _without(cast("dict[str, Any]", value), self._fields)
                return part if left == value else replace(part, value=left) if left else None
            case ToolCall(id=str(id)) if self._id_length is not None:
                return replace(part, id=self._id(id))
            case _:
                return part

    def _id(self, id: str) -> str:
        length = self._id_length
        if length is None or (len(id) == length and id.isalnum() and id.isascii()):
            return id
        return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:length]

    def _block(self, block: Block) -> Block:
        if isinstance(block, Text) or not (type(block) in self._kinds or _digest(block) in self._blocks):
            return block
        match block:
            case Image():
                return Text("[picture left out: the model takes none]" if Image in self._kinds else
                            f"[picture, {block.mime_type}, {len(block.data)} bytes: the model did not take it]")  # fmt: skip
            case Audio(data=data, mime_type=mime):
                return Text(f"[sound, {mime}, {len(data)} bytes: not sent]")
            case File(name=name, mime_type=mime, data=data):
                return Text(f"[file {name}, {mime}, {len(data or b'')} bytes: not sent]")

    def _schema(self, tool: ToolView) -> Mapping[str, Any]:
        if tool.name in self._open:
            return {"type": "object", "properties": {}}
        schema = tool.schema
        if self._plain or self._keywords & {"$ref", "$defs", "definitions"}:
            try:
                schema = inline_refs(modern(schema), max_depth=2)
            except BuildError:
                return {"type": "object", "properties": {}}
        return rewrite(schema, self._node)

    def _node(self, node: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in node.items() if (k in _PLAIN or not self._plain) and k not in self._keywords}
        if self._plain and isinstance(kept.get("type"), list):
            kept["type"] = next((t for t in kept["type"] if t != "null"), "string")
        return kept

    # -- what a refusal means -----------------------------------------------------------------

    def _learn_media(self, words: str, sent: list[Message]) -> str:
        found: list[str] = []
        for kind, name, named in _MEDIA:
            here = [b for m in sent for b in _blocks(m) if isinstance(b, kind) and _has_data(b)]
            if not here or not named.search(words):
                continue
            if _NONE_OF_IT.search(words):
                self._kinds.add(kind)
                found.append(f"it takes no {name}")
            else:
                self._blocks.update(map(_digest, here))
                found.append(f"it did not take {len(here)} of the {name}")
        return f"{' and '.join(found)}: left out of what is sent, kept in the session" if found else ""

    def _learn_fields(self, words: str, sent: list[Message]) -> str:
        attached = {k for m in sent if isinstance(m, AssistantMessage) for k in _attached(m)}
        found = attached & set(_WORD.findall(words))
        if not found or not _UNKNOWN.search(words):
            return ""
        self._fields |= found
        return f"it does not take back {', '.join(sorted(found))}: left out of what is sent"

    def _learn_ids(self, words: str, sent: list[Message]) -> str:
        named = _LENGTH.search(words)
        length = min(max(_SHORT_ID, int(named[1])), _LONG_ID) if named else _SHORT_ID
        if not _CALL_ID.search(words) or length >= (self._id_length or _LONG_ID + 1):
            return ""
        if not any(isinstance(m, AssistantMessage) and m.calls for m in sent):
            return ""
        self._id_length = length
        return f"ids of calls are sent with {length} characters"

    def _learn_schemas(self, words: str, tools: ToolkitView, plainly: bool) -> str:
        if not _SCHEMA.search(words) or _ANSWER_SCHEMA.search(words):
            return ""
        said = {word.lower() for word in _WORD.findall(words)}
        used = {k for t in self.tools(tools) for k in _keywords(t.schema)}
        named = {k for k in used - _PLAIN - self._keywords - {_TYPES} if k.lower() in said}
        names = [t.name for t in tools]
        bad = [n for n in names if n in words or wire_name(n, OPENAI) in words] or names
        if not (named or plainly):
            return ""
        self._views = None
        if named and not self._plain:
            self._keywords |= named
            what = f"{', '.join(sorted(named))} in the tools' schemas"
        elif used - _PLAIN:
            self._plain = True
            what = "all but the plain keywords in the tools' schemas"
        elif not self._open.issuperset(bad):
            self._open.update(bad)
            what = f"the parameters of {', '.join(bad[:5])}{' and others' if len(bad) > 5 else ''}"
        else:
            return ""
        return f"it refused {what}: left out of what is sent; arguments are checked as before"


def _is(one: object, other: object) -> bool:
    return one is other


def _blocks(message: Message) -> Iterator[Block]:
    match message:
        case UserMessage(content):
            yield from content
        case ResultsMessage(results):
            for result in results:
                yield from result.content
        case AssistantMessage():
            return


def _has_data(block: Block) -> bool:
    return not isinstance(block, Text) and bool(block.data)


def _digest(block: Block) -> bytes:
    return b"" if isinstance(block, Text) else hashlib.sha256(block.data or b"").digest()


def _attached(message: AssistantMessage) -> Iterator[str]:
    """The names of the fields that a provider attached to its turn."""
    for part in message.content:
        # With a type it is an item of its own, which goes back whole.
        value: object = part.value if isinstance(part, Opaque) else None
        if isinstance(value, dict) and "type" not in value:
            yield from _names(cast("dict[str, Any]", value))


def _names(value: dict[str, Any]) -> Iterator[str]:
    for key, inner in value.items():
        yield key
        if isinstance(inner, dict):
            yield from _names(cast("dict[str, Any]", inner))


def _without(value: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """The value without fields of these names, and without what is empty for it."""
    out: dict[str, Any] = {}
    for key, inner in value.items():
        left = _without(cast("dict[str, Any]", inner), names) if isinstance(inner, dict) else inner
        if key not in names and (left or left == inner):
            out[key] = left
    return out


def _keywords(schema: Mapping[str, Any]) -> set[str]:
    out: set[str] = set()

    def look(node: dict[str, Any]) -> dict[str, Any]:
        out.update(node)
        if isinstance(node.get("type"), list):
            out.add(_TYPES)
        return node

    rewrite(schema, look)
    return out
