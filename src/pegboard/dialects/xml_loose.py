"""Calls whose mark is nearly `<tool_call>`: attributes, other case, spaces, namespaces, hyphens.

The block is written as it should have been and read like any other; what stands in a parameter stays.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

from pegboard.core.secrets.clip import clip
from pegboard.dialects.literals import LiteralError, TruncatedLiteral, read_literal, skip_space
from pegboard.dialects.text_calls import ARGUMENT_KEYS, XML_END, KnownTools, RawCall, read_body
from pegboard.dialects.text_markers import LOOSE
from pegboard.dialects.wire import as_dict
from pegboard.dialects.xml_elements import CDATA, CDATA_END

_ATTRIBUTE: Final = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"<>]*)\"|'([^'<>]*)'|([^\s\"'<>/]+))")
_NAMES: Final = frozenset({"name", "tool", "tool_name", "function"})
_STRUCTURE: Final = frozenset({*_NAMES, "params", "parameters", "arguments"})
_TAG: Final = re.compile(r"<\s*(/?)\s*(?:[\w.-]+:)?([\w.-]+)((?:\s[^<>]*?)?)\s*(/?)>")


class UnreadableCall(LiteralError):
    """A block that promises a call and holds none that can be read; `end` lies behind it."""


def read_loose(text: str, begin: int, tools: KnownTools) -> tuple[list[RawCall], int]:
    """The calls of a block whose mark stands at `begin`, and the position behind it.

    Raises:
        CutOff: the text ends inside it.
        NotRead: the block is there and cannot be read.
        Unreadable: there is none.
    """
    mark = LOOSE.match(text, begin)
    if mark is None:
        raise LiteralError(begin)
    start = skip_space(text, mark.end())
    name = next((v for key, v in _attributes(mark["attributes"] or "") if key in _NAMES), "")
    if mark["self"]:
        raise UnreadableCall(mark.end()) if name else LiteralError(begin)
    if text[start : start + 1] not in ("{", "[", "<", "") and not text.startswith("```", start):
        raise LiteralError(begin)
    found = _end(text, start, mark["word"])
    tools.work.left -= (len(text) if found is None else found.end()) - begin
    if found is None:
        raise TruncatedLiteral(len(text))
    body = _written_rightly(text[start : found.start()])
    try:
        calls = [_taken_out(call, tools) for call in _calls(body, name, tools)]
    except LiteralError as error:
        raise UnreadableCall(found.end()) from error
    tools.work.repairs.append(
        "tags inside <tool_call> were put right"
        if mark[0] == "<tool_call>"
        else f"{clip(' '.join(mark[0].split()), 0, 60)} was read as <tool_call>"
    )
    return calls, found.end()


def _calls(body: str, name: str, tools: KnownTools) -> list[RawCall]:
    if name and body.startswith("{"):
        value, end = read_literal(body, 0)
        if body[end:].strip():
            raise LiteralError(end)
        return [RawCall(name, value)]
    whole = f"{f'<name>{name}</name>' if name else ''}{body}{XML_END}"
    calls, end = read_body(whole, 0, tools, (XML_END,))
    if end < len(whole) or not calls:
        raise LiteralError(end)
    return calls


def _taken_out(call: RawCall, tools: KnownTools) -> RawCall:
    """The call whose arguments stand as JSON in one element around them (`<input>{…}</input>`)."""
    if len(call.arguments) != 1 or not tools.knows(call.name):
        return call
    ((key, value),) = call.arguments.items()
    known = as_dict(as_dict(tools.schemas)[call.name].get("properties"))
    if (
        key in known
        or key not in ARGUMENT_KEYS
        or not isinstance(value, str)
        or not value.lstrip().startswith("{")
    ):
        return call
    found, end = read_literal(value, skip_space(value, 0))
    if value[end:].strip() or not isinstance(found, dict):
        raise LiteralError(end)
    return RawCall(call.name, cast("dict[str, Any]", found))


def _end(text: str, pos: int, word: str) -> re.Match[str] | None:
    """The closing tag of the block, outside of CDATA."""
    close = re.compile(rf"<\s*/\s*(?:[\w.-]+:)?{re.escape(word)}\s*>", re.IGNORECASE)
    while True:
        found = close.search(text, pos)
        section = text.find(CDATA, pos, found.start() if found else len(text))
        if found is None or section < 0:
            return found
        ended = text.find(CDATA_END, section)
        if ended < 0:
            return None
        pos = ended


def _written_rightly(body: str) -> str:
    """The block with its own tags in their plain form."""
    parts: list[str] = []
    pos = 0
    while (tag := _TAG.search(body, pos)) is not None:
        slash, word, attributes, single = tag[1], tag[2], tag[3], tag[4]
        parts.append(body[pos : tag.start()])
        pos = tag.end()
        plain = word.lower().replace("-", "_")
        if plain in _STRUCTURE:
            parts.append(f"<{slash}{'name' if plain in _NAMES else plain}{single}>")
            continue
        kept = "".join(f' {k}="{v}"' for k, v in _attributes(attributes) if k in ("name", "type"))
        parts.append(f"<{slash}{word}{kept}{single}>")
        if slash or single:
            continue
        ended = _end(body, pos, word)
        if ended is None:
            break
        parts += [body[pos : ended.start()], f"</{word}>"]
        pos = ended.end()
    return "".join([*parts, body[pos:]])


def _attributes(text: str) -> list[tuple[str, str]]:
    return [(m[1].lower(), m[2] or m[3] or m[4] or "") for m in _ATTRIBUTE.finditer(text)]
