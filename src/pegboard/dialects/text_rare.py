"""Calls that no mark announces: `<tool name="x">{…}</tool>`, `<call>{…}</call>`, `<x><path>…</path></x>`, steps in lines.

Web pages and prose hold such text too, so a call is taken only where nothing else can be meant: the answer ends
in whole blocks, each names a tool that there is, and gives only parameters of that tool and all that it requires.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, Final, cast

from pegboard.core.schema.json_schema import type_name, types_of
from pegboard.dialects.literals import LiteralError, read_literal, skip_space
from pegboard.dialects.text_calls import ARGUMENT_KEYS, KnownTools, RawCall, calls_of
from pegboard.dialects.text_steps import HEAD, NAME, read_steps
from pegboard.dialects.values import property_schema
from pegboard.dialects.wire import as_dict
from pegboard.dialects.xml_elements import OPEN
from pegboard.dialects.xml_lenient import read_tool_tag

_MOST: Final = 20
"""How many places are tried: an answer that only speaks of tags holds many."""

_INPUT: Final = rf"(?P<input>{'|'.join(ARGUMENT_KEYS)}|action_input)"
_WORDS: Final = "tools?|call|action|tool_invocation|tool_request|use_tool|use_mcp_tool|invocation"
_NAMED: Final = rf"(?:\s+(?:name|tool)\s*=\s*[\"'](?P<name>{NAME})[\"']\s*)?"
_BLOCK: Final = re.compile(rf"<(?P<word>{_WORDS}){_NAMED}>", re.IGNORECASE)
_PAIR: Final = re.compile(
    r"<(?P<word>tool|tool_name|action|function|name)>\s*(?P<name>[\w.:/-]{1,128})\s*</(?P=word)>\s*"
    rf"<{_INPUT}>\s*(?=\{{)",
    re.IGNORECASE,
)
_EXAMPLE: Final = re.compile(
    r"\b(?:example|instance|e\.g\.|such as|format|syntax|form|template|like this|as follows|looks? like)\b[^\n]*\s*\Z",
    re.IGNORECASE,
)
_SERVER: Final = re.compile(r"<server_name>[^<>]{1,128}</server_name>\s*", re.IGNORECASE)


def read_rare(text: str, tools: KnownTools) -> tuple[int, list[tuple[RawCall, str]]]:
    """Where the calls begin that an answer ends in, and each with its text; none where it ends in something else."""
    if not tools.schemas:
        return len(text), []
    starts: set[int] = set()
    if text.rstrip().endswith(">"):
        starts = {m.start() for form in (_BLOCK, _PAIR) for m in form.finditer(text)}
        starts |= {m.start() for m in OPEN.finditer(text) if tools.knows(m[1])}
    tried = sorted(starts)
    for start in tried[:_MOST] + tried[_MOST:][-_MOST:]:
        calls = _blocks(text, start, tools)
        if calls:
            return start, calls
    start, steps = read_steps(text, tools)
    # Within a fence that is still open, it is shown and not made.
    if steps and text.count("```", 0, start) % 2 == 0 and all(_is_exact(call, tools) for call, _ in steps):
        return start, steps
    return len(text), []


def is_example(before: str) -> bool:
    """Whether the words before a call say that it is shown and not made."""
    return _EXAMPLE.search(before[-200:]) is not None


def _blocks(text: str, pos: int, tools: KnownTools) -> list[tuple[RawCall, str]]:
    """The calls of a text that consists of blocks; none where one is no call of a known tool."""
    calls: list[tuple[RawCall, str]] = []
    while pos < len(text):
        repairs = len(tools.work.repairs)
        try:
            found, end = _block(text, pos, tools)
        except LiteralError:
            found, end = [], pos
        if not found or not all(_fits(call, tools) for call in found):
            del tools.work.repairs[repairs:]
            return []
        # The text of several calls belongs to the first of them.
        calls += [(call, text[pos:end] if n == 0 else "") for n, call in enumerate(found)]
        pos = skip_space(text, end)
    return calls


def _block(text: str, pos: int, tools: KnownTools) -> tuple[list[RawCall], int]:
    opened = OPEN.match(text, pos)
    if opened is not None and tools.knows(opened[1]):
        call, end = read_tool_tag(text, opened, tools)
        if not _is_exact(call, tools):
            raise LiteralError(end)
        return [call], end
    block = _BLOCK.match(text, pos)
    if block is None or _PAIR.match(text, pos):
        call, end = _pair(text, pos)
        return [call], end
    inner = skip_space(text, block.end())
    server = _SERVER.match(text, inner)
    inner = server.end() if server else inner
    if text.startswith("<", inner):
        call, end = _pair(text, inner)
        calls = [call]
    else:
        value, end = read_literal(text, inner)
        calls = _called(block, value, tools, inner)
    return calls, _closed(text, end, block["word"])


def _pair(text: str, pos: int) -> tuple[RawCall, int]:
    """A name in one element, and JSON in the next."""
    pair = _PAIR.match(text, pos)
    if pair is None:
        raise LiteralError(pos)
    value, end = read_literal(text, pair.end())
    return RawCall(pair["name"], _object(value, pos)), _closed(text, end, pair["input"])


def _called(block: re.Match[str], value: Any, tools: KnownTools, pos: int) -> list[RawCall]:
    """The calls of a JSON value: its arguments where the tag has the name, else both."""
    if block["name"] is not None:
        return [RawCall(block["name"], _object(value, pos))]
    # `<tools>` is also what a list of definitions stands in.
    several = block["word"].lower() == "tools"
    calls = calls_of(value, tools, marked=not several)
    if len(calls) != 1 and not several:
        raise LiteralError(pos)
    return calls


def _object(value: Any, pos: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LiteralError(pos)
    return cast("dict[str, Any]", value)


def _closed(text: str, pos: int, word: str) -> int:
    close = f"</{word}>"
    pos = skip_space(text, pos)
    if text[pos : pos + len(close)].lower() != close.lower():
        raise LiteralError(pos)
    return pos + len(close)


def _fits(call: RawCall, tools: KnownTools) -> bool:
    """Whether the tool is there, has every parameter that is given, and is given all that it requires."""
    schema: Mapping[str, Any] | None = None if tools.schemas is None else tools.schemas.get(call.name)
    if schema is None or not isinstance(call.sent, dict):
        return False
    known, needed = as_dict(schema.get("properties")), cast("list[str]", schema.get("required") or [])
    return set(call.arguments) <= set(known) and set(needed) <= set(call.arguments)


def _is_exact(call: RawCall, tools: KnownTools) -> bool:
    """Whether a call fits, and each value is of a type that its parameter takes: bare text is easily something else."""
    if not _fits(call, tools):
        return False
    schema = cast("Mapping[str, Mapping[str, Any]]", tools.schemas)[call.name]
    for key, value in call.arguments.items():
        sub = cast("Mapping[str, Any]", property_schema(schema, key))
        kinds, listed = types_of(sub, schema), sub.get("enum")
        if (kinds is not None and type_name(value) not in kinds) or (
            isinstance(listed, list) and value not in listed
        ):
            return False
    return True


_AHEAD: Final = re.compile(
    rf"<(?:{_WORDS}){_NAMED.replace('<name>', '<in_tag>')}>\s*(?P<body>[{{\[<]|\Z)"
    rf"|<(?:tool|tool_name|action|function|name)>\s*(?P<in_pair>{NAME})?(?P<pair_end>[^\w.:/-]|\Z)"
    rf"|(?:^|(?<=\n)){HEAD}(?P<in_line>{NAME}?)(?P<line_end>[^\w.:/-]|\Z)"
    rf"|```\w*[ \t]*\n\s*(?:print\(\s*)?(?:default_api\.|functions\.)?(?P<in_code>[\w.]{{1,128}}?)\(",
)
_UNFINISHED: Final = re.compile(
    r"(?:^|(?<=\n))[ \t]*(?:\*{1,2}[A-Za-z]{0,8}|\**(?:Tool|Function|Action)[ _]?[A-Za-z]{0,4}\**[ \t]*:?[ \t]*\**[ \t]*[`\"']?)\Z"
    r"|```\w*[ \t]*\n?\s*[\w.(]{0,160}\Z"
)


def ahead(buffer: str, known: Container[str], end: int) -> tuple[int, bool]:
    """Where in a text that goes on such a call may begin, and whether it surely looks like one; else `end` and False.

    Args:
        buffer: what has come.
        known: names of the tools.
        end: where something else begins.
    """
    for tag in OPEN.finditer(buffer, 0, end):
        if tag[1] in known:
            return _earlier(buffer, known, tag.start(), True)
    return _earlier(buffer, known, end, False)


def _earlier(buffer: str, known: Container[str], end: int, surely: bool) -> tuple[int, bool]:
    for found in _AHEAD.finditer(buffer, 0):
        if found.start() >= end:
            break
        name = found["in_tag"] or found["in_pair"] or found["in_line"] or found["in_code"]
        if name in known or (name is None and found["body"]):
            return found.start(), True
        if found.end() == len(buffer) and "" in (found["body"], found["pair_end"], found["line_end"]):
            # Its name, or what follows it, is still to come.
            return found.start(), False
    unfinished = _UNFINISHED.search(buffer)
    if unfinished is not None and unfinished.start() < end:
        return unfinished.start(), False
    return end, surely
