"""Calls in tags that are no mark: `<tool name="x">{…}</tool>`, `<call>{…}</call>`, `<action>…</action>`.

Web pages and prose hold such tags too, so a call is taken only where nothing else can be meant: the answer ends
in whole blocks, each names a tool that there is, and its JSON has only parameters of that tool and all that
it requires.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.dialects.literals import Unreadable, read_literal, skip_space
from pegboard.dialects.text_calls import ARGUMENT_KEYS, Named, Tools, calls_of
from pegboard.dialects.wire import record

_MOST: Final = 20
"""How many places are tried: an answer that only speaks of tags holds many."""

_INPUT: Final = rf"(?P<input>{'|'.join(ARGUMENT_KEYS)}|action_input)"
_BLOCK: Final = re.compile(
    r"<(?P<word>tool|call|action|tool_invocation|tool_request|use_tool|use_mcp_tool|invocation)"
    r"(?:\s+(?:name|tool)\s*=\s*[\"'](?P<name>[\w.:/-]{1,128})[\"']\s*)?>",
    re.IGNORECASE,
)
_PAIR: Final = re.compile(
    r"<(?P<word>tool|tool_name|action|function|name)>\s*(?P<name>[\w.:/-]{1,128})\s*</(?P=word)>\s*"
    rf"<{_INPUT}>\s*(?=\{{)",
    re.IGNORECASE,
)
_SERVER: Final = re.compile(r"<server_name>[^<>]{1,128}</server_name>\s*", re.IGNORECASE)


def read_rare(text: str, tools: Tools) -> tuple[int, list[tuple[Named, str]]]:
    """Where the calls begin that an answer ends in, and each with its text; none where it ends in something else."""
    ends = text.rstrip().endswith(">")
    starts = sorted({m.start() for form in (_BLOCK, _PAIR) for m in form.finditer(text)}) if ends else []
    for start in starts[-_MOST:]:
        calls = _blocks(text, start, tools)
        if calls:
            return start, calls
    return len(text), []


def _blocks(text: str, pos: int, tools: Tools) -> list[tuple[Named, str]]:
    """The calls of a text that consists of blocks; none where one is no call of a known tool."""
    calls: list[tuple[Named, str]] = []
    while pos < len(text):
        try:
            call, end = _block(text, pos, tools)
        except Unreadable:
            return []
        if not _fits(call, tools):
            return []
        calls.append((call, text[pos:end]))
        pos = skip_space(text, end)
    return calls


def _block(text: str, pos: int, tools: Tools) -> tuple[Named, int]:
    block = _BLOCK.match(text, pos)
    if block is None or _PAIR.match(text, pos):
        return _pair(text, pos)
    inner = skip_space(text, block.end())
    server = _SERVER.match(text, inner)
    inner = server.end() if server else inner
    if text.startswith("<", inner):
        call, end = _pair(text, inner)
    else:
        value, end = read_literal(text, inner)
        call = _called(block["name"], value, tools, inner)
    return call, _closed(text, end, block["word"])


def _pair(text: str, pos: int) -> tuple[Named, int]:
    """A name in one element, and JSON in the next."""
    pair = _PAIR.match(text, pos)
    if pair is None:
        raise Unreadable(pos)
    value, end = read_literal(text, pair.end())
    return Named(pair["name"], _object(value, pos)), _closed(text, end, pair["input"])


def _called(name: str | None, value: Any, tools: Tools, pos: int) -> Named:
    """The call of a JSON object: its arguments where the tag has the name, else both."""
    if name is not None:
        return Named(name, _object(value, pos))
    calls = calls_of(value, tools, marked=True)
    if len(calls) != 1:
        raise Unreadable(pos)
    return calls[0]


def _object(value: Any, pos: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(pos)
    return cast("dict[str, Any]", value)


def _closed(text: str, pos: int, word: str) -> int:
    close = f"</{word}>"
    pos = skip_space(text, pos)
    if text[pos : pos + len(close)].lower() != close.lower():
        raise Unreadable(pos)
    return pos + len(close)


def _fits(call: Named, tools: Tools) -> bool:
    """Whether the tool is there, has every parameter that is given, and is given all that it requires."""
    schema: Mapping[str, Any] | None = None if tools.schemas is None else tools.schemas.get(call.name)
    if schema is None or not isinstance(call.sent, dict):
        return False
    known, needed = record(schema.get("properties")), cast("list[str]", schema.get("required") or [])
    return set(call.arguments) <= set(known) and set(needed) <= set(call.arguments)
