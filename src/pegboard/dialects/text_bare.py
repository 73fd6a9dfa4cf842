"""Calls that no mark announces: the whole answer, or the fenced block that it ends in."""

from __future__ import annotations

import re

from pegboard.core.secrets.clip import clip
from pegboard.dialects.literals import LiteralError, read_literal, skip_space
from pegboard.dialects.text_calls import KnownTools, RawCall, calls_of, read_python
from pegboard.dialects.text_turns import ParsedCall, ParsedText, ThinkingPart

_FENCE_LINE = re.compile(r"```(?:json|tool(?:_(?:calls?|code|use))?|function_calls?|python)?[ \t]*\n")
_CALL_AHEAD = re.compile(r"""\{\s*["'](?:name|tool|tool_name|function)["']\s*:\s*["']([\w.-]{1,100})["']""")
_NAMED = re.compile(
    r"""(?:^|\n)[ \t*`]*(?:<(?:\w+\s+(?:name|tool)\s*=\s*["']|\w+>\s*)?|(?:Tool|Function|Action)[\w ]{0,9}\**:[\s*]*[`"']?)"""
    r"""([\w.:/-]{1,128}?)(?:\s+\w+\s*=|["']?\s*/?>\s*[<{]|</\w+>\s*<|[`"'*]*\s*\n[^\n{]{0,40}(?:\n\s*(?:```\w*\s*)?)?\{|[(\[])""",
    re.IGNORECASE,
)
"""A tool's name with arguments behind it, as its tag, in a tag, or as a step: `Action: search[…]`."""
_NOTHING_MORE = re.compile(r"[\s`*;.\]]*(?:</?[\w:-]+>[\s`]*){0,4}|[\s`]*\[/?\w+\]\s*")
_RESPONSE = re.compile(r"\s*<response>(.*?)(?:</response>\s*)?$", re.DOTALL)


def read_bare(reading: ParsedText, tools: KnownTools) -> None:
    """Calls without any mark: the whole answer, or the fenced block that it ends in."""
    answer = "".join(p for p in reading.parts if isinstance(p, str))
    stripped = answer.strip()
    if wrapped := _RESPONSE.match(answer):
        _answer(reading, wrapped[1], [])
        return
    begin, body = _fenced(stripped)
    calls = _whole(body, tools)
    if calls:
        _answer(reading, stripped[:begin], [(c, stripped[begin:]) for c in calls])
        return
    if shown := _ends_in_call(stripped, tools):
        reading.unread.append(shown)
    elif stripped.startswith("all\n") and tools.knows("all") is False and tools.schemas:
        # Functionary names the recipient on the first line; `all` is the person.
        _answer(reading, stripped[4:], [])


def _ends_in_call(text: str, tools: KnownTools) -> str:
    """The beginning of a call that a text ends in, empty if it ends in none.

    It may be an example that a person asked for, so it is not run; said it must be, since a model that
    writes its calls so waits for a result.
    """
    for found in _CALL_AHEAD.finditer(text):
        if not tools.knows(found[1]):
            continue
        try:
            value, end = read_literal(text, found.start())
            calls = calls_of(value, tools, marked=False)
        except LiteralError:
            continue
        if calls and _NOTHING_MORE.fullmatch(text, end):
            return _shown(text, found.start())
    if text.endswith((">", "}", "]", ")", "`")):
        for found in _NAMED.finditer(text):
            if tools.knows(found[1]):
                return _shown(text, found.start())
    return ""


def _shown(text: str, start: int) -> str:
    return " ".join(clip(text, start, start + 60).split())


def _fenced(text: str) -> tuple[int, str]:
    """Where the fenced block begins that a text ends in, and its content; else 0 and the text."""
    if text.endswith("```"):
        begin = text.rfind("```", 0, len(text) - 3)
        if begin >= 0 and (line := _FENCE_LINE.match(text, begin)):
            return begin, text[line.end() : -3].strip()
    return 0, text


def _answer(reading: ParsedText, text: str, calls: list[tuple[RawCall, str]]) -> None:
    thoughts: list[str | ThinkingPart | ParsedCall] = [
        p for p in reading.parts if isinstance(p, ThinkingPart)
    ]
    reading.parts = [*thoughts, *([text] if text else [])]
    reading.parts += [ParsedCall(named, raw if n == 0 else "") for n, (named, raw) in enumerate(calls)]


def _whole(body: str, tools: KnownTools) -> list[RawCall]:
    """The calls that a text consists of; none where there is anything else in it."""
    if not body or (body[0] not in "{[" and not (body[-1] == ")" and tools.schemas)):
        return []
    try:
        if body[0] == "{" or '"' in body[:40].lstrip("[ \n")[:3]:
            calls: list[RawCall] = []
            pos = 0
            while pos < len(body):
                value, pos = read_literal(body, pos)
                calls += calls_of(value, tools, marked=False)
                pos = skip_space(body, pos)
                if body[pos : pos + 1] == ";":
                    pos = skip_space(body, pos + 1)
            return calls
        calls, pos = read_python(body, 0, tools)
    except LiteralError:
        try:
            calls, pos = read_python(body, 0, tools)
        except LiteralError:
            return []
    known = bool(calls) and all(tools.knows(call.name) for call in calls)
    return calls if known and skip_space(body, pos) == len(body) else []
