"""Formats that mark whole turns rather than calls: Harmony's channels, Kimi's nested blocks, MiniMax's tags."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from pegboard.core.secrets.clip import clip
from pegboard.dialects.literals import LiteralError, TruncatedLiteral, read_literal, skip_space
from pegboard.dialects.text_calls import KnownTools, RawCall
from pegboard.dialects.xml_elements import Element


@dataclass(slots=True)
class ParsedText:
    """What a model's text says.

    Attributes:
        parts: in order: text, `Thought`, or `Call`.
        cut: the beginning of a call that the text ended in; empty where none is.
        repairs: what had to be repaired to read the calls, one clause each.
        refused: why a call was not read at all, one clause each.
        unread: what looks like a call and could not be read as one; it stays in the text.
    """

    parts: list[str | ThinkingPart | ParsedCall] = field(
        default_factory=list["str | ThinkingPart | ParsedCall"]
    )
    cut: str = ""
    repairs: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    unread: list[str] = field(default_factory=list[str])

    @property
    def calls(self) -> list[ParsedCall]:
        """The calls in order."""
        return [part for part in self.parts if isinstance(part, ParsedCall)]


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call and the text that it was read from."""

    named: RawCall
    raw: str


# Harmony -------------------------------------------------------------------------------------

_HARMONY_START = re.compile(r"\s*(?:<\|start\|>|<\|channel\|>|to=[\w.]+|assistant\b)")
_MESSAGE = "<|message|>"
_HEADER_MARKS = re.compile(r"<\|(?:start|channel|constrain)\|>")
_BODY_END = re.compile(r"<\|(?:end|call|return|start|channel|eot|eom)\|>")
_TO = re.compile(r"to=([\w.-]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


def is_harmony(text: str) -> bool:
    """Whether the text is in channels: `<|channel|>final<|message|>…`, ` to=functions.f<|message|>…`."""
    return _MESSAGE in text and _HARMONY_START.match(text) is not None


def read_harmony(text: str, tools: KnownTools) -> ParsedText:
    """Channels: `analysis` and `to=self` are reasoning, `to=functions.NAME` with an object is a call."""
    reading = ParsedText()
    pos = 0
    while (message := text.find(_MESSAGE, pos)) >= 0:
        header, start = text[pos:message], message + len(_MESSAGE)
        to = _TO.findall(header)
        channels = _CHANNEL.findall(header)
        recipient = to[-1] if to else ""
        name = _function(recipient, tools)
        if name is not None:
            pos = _harmony_call(text, pos, start, name, reading)
            continue
        ended = _BODY_END.search(text, start)
        end = ended.start() if ended else len(text)
        if channels[-1:] == ["analysis"] or recipient == "self":
            reading.parts.append(ThinkingPart(text[start:end]))
        elif recipient in ("", "user", "all", "assistant"):
            reading.parts.append(text[start:end])
        pos = end if ended is None or ended[0] in ("<|start|>", "<|channel|>") else ended.end()
    return reading


def _function(recipient: str, tools: KnownTools) -> str | None:
    if recipient.startswith("functions."):
        return recipient.removeprefix("functions.")
    return recipient if tools.knows(recipient) else None


def _harmony_call(text: str, begin: int, start: int, name: str, reading: ParsedText) -> int:
    try:
        value, end = read_literal(text, skip_space(text, start))
    except TruncatedLiteral:
        reading.cut = text[begin:]
        return len(text)
    except LiteralError:
        value, end = None, start
    ended = _BODY_END.search(text, end)
    if isinstance(value, dict):
        reading.parts.append(ParsedCall(RawCall(name, value), text[begin:end]))  # pyright: ignore[reportUnknownArgumentType]
    else:
        said = text[start : ended.start() if ended else len(text)]
        reading.parts.append(said)
        reading.unread.append(f"to={name} {clip(' '.join(said.split()), 0, 60)}")
    if ended is None:
        return len(text)
    return ended.start() if ended[0] in ("<|start|>", "<|channel|>") else ended.end()


# Trees -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Node:
    """An element of a nested format: its tag, attributes, own text and children."""

    tag: str
    attributes: dict[str, str]
    begin: int
    text: str = ""
    children: list[Node] = field(default_factory=list["Node"])
    end: int = -1


_ATTRIBUTE = re.compile(r'([\w-]+)\s*=\s*"([^"]*)"')
_KIMI = re.compile(r"<\|(open|close)\|>([^<]*)<\|sep\|>")
MINIMAX: Final = "]<]minimax[>["
_MINIMAX = re.compile(re.escape(MINIMAX) + r"<(/?)([^\s>]+)([^>]*)>")
MAX_NESTING: Final = 60


def is_kimi_blocks(text: str) -> bool:
    """Whether the text is in Kimi's nested blocks: `<|open|>response<|sep|>…<|close|>response<|sep|>`."""
    return _KIMI.search(text) is not None


def read_kimi_blocks(text: str, tools: KnownTools) -> ParsedText:
    """Blocks `think`, `response`, and `tools` with `call` and `argument`."""
    reading = ParsedText()
    marks = [(m, m[1] == "close", *_split(m[2])) for m in _KIMI.finditer(text)]
    # The template may have opened the first block already.
    if marks and marks[0][1]:
        opened = marks[0][2]
        before = text[: marks[0][0].start()]
        reading.parts.append(ThinkingPart(before) if opened == "think" else before)
        marks = marks[1:]
    root = _tree(text, [(m.start(), m.end(), closed, tag, attrs) for m, closed, tag, attrs in marks])
    for node in root.children:
        if node.tag == "think":
            reading.parts.append(ThinkingPart(node.text))
        elif node.tag == "response":
            reading.parts.append(node.text)
        elif node.tag == "tools":
            for call in node.children:
                if call.end < 0:
                    reading.cut = text[call.begin :]
                elif call.tag == "call" and call.attributes.get("tool"):
                    name = call.attributes["tool"]
                    arguments = {
                        a.attributes["key"]: _kimi_value(a, name, tools)
                        for a in call.children
                        if "key" in a.attributes
                    }
                    reading.parts.append(ParsedCall(RawCall(name, arguments), text[call.begin : call.end]))
    return reading


def _kimi_value(node: Node, name: str, tools: KnownTools) -> Any:
    if node.attributes.get("type") == "string":
        return node.text
    return tools.value(name, node.attributes["key"], node.text)


def read_minimax(text: str, begin: int, tools: KnownTools) -> tuple[list[RawCall], int]:
    """MiniMax's tags, each behind its own mark: `<invoke name="f">` with one element a parameter.

    Raises:
        CutOff: the text ends inside a call.
        Unreadable: there is none.
    """
    marks = [
        (m.start(), m.end(), m[1] == "/", m[2], dict(_ATTRIBUTE.findall(m[3])))
        for m in _MINIMAX.finditer(text, begin)
    ]
    root = _tree(text, marks)
    top = root.children[0] if root.children else None
    if top is None or top.tag != "tool_call":
        raise LiteralError(begin)
    if top.end < 0:
        raise TruncatedLiteral(len(text))
    calls: list[RawCall] = []
    for node in top.children:
        name = node.attributes.get("name", "")
        if node.tag == "invoke" and name:
            arguments = {
                child.tag: tools.element(name, child.tag, _element(child)) for child in node.children
            }
            calls.append(RawCall(name, arguments))
    return calls, top.end


def _element(node: Node) -> Element:
    return Element(node.tag, node.text, [_element(child) for child in node.children])


def _split(header: str) -> tuple[str, dict[str, str]]:
    tag, _, rest = header.strip().partition(" ")
    return tag, dict(_ATTRIBUTE.findall(rest))


def _tree(text: str, marks: list[tuple[int, int, bool, str, dict[str, str]]]) -> Node:
    """The elements as a tree; an element that is never closed keeps `end` -1."""
    root = Node("", {}, 0)
    stack = [root]
    for n, (begin, end, closed, tag, attributes) in enumerate(marks):
        following = marks[n + 1][0] if n + 1 < len(marks) else len(text)
        if not closed:
            node = Node(tag, attributes, begin, text[end:following])
            stack[-1].children.append(node)
            if len(stack) < MAX_NESTING:
                stack.append(node)
        elif any(open.tag == tag for open in stack[1:]):
            while stack[-1].tag != tag:
                stack.pop()
            stack.pop().end = end
    return root
