"""Calls as steps: `Tool: x` with `Input: {…}` on the next line, `Action: x[{…}]`, `Action: x(…)` (the ReAct prompt's forms)."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from pegboard.dialects.literals import LiteralError, read_literal, skip_space
from pegboard.dialects.text_calls import KnownTools, RawCall, read_python

NAME: Final = r"[\w.:/-]{1,128}"
HEAD: Final = (
    r"[ \t]*\**(?:Tool|Function|Action)(?:[ _](?:[Nn]ame|[Cc]all|[Uu]se))?\**[ \t]*:[ \t]*\**[ \t]*[`\"']?"
)
"""What stands before the tool's name in its line."""

_LINE: Final = r"(?:^|(?<=\n))"
_STEP: Final = re.compile(
    rf"{_LINE}{HEAD}(?P<name>{NAME})[`\"']?\**[ \t]*\n\s{{0,9}}\**(?:(?:Tool|Action|Function)[ _])?"
    r"(?:Input|Args|Arguments|Parameters|Params)\**[ \t]*:[ \t]*\**\s*(?:```(?:json)?\s*)?(?=\{)",
    re.IGNORECASE,
)
_BRACKETS: Final = re.compile(rf"{_LINE}{HEAD}(?P<name>[\w.:/-]{{1,128}}?)(?P<open>[\[(])")
_CLOSING: Final = re.compile(r"\s*`{0,3}")


def read_steps(text: str, tools: KnownTools) -> tuple[int, list[tuple[RawCall, str]]]:
    """Where the steps begin that an answer ends in, and each with its text; none where it ends in something else."""
    starts = sorted({m.start() for form in (_STEP, _BRACKETS) for m in form.finditer(text)})
    for start in starts[:10] + starts[10:][-10:]:
        calls: list[tuple[RawCall, str]] = []
        pos = start
        try:
            while pos < len(text):
                call, end = _step(text, pos, tools)
                calls.append((call, text[pos:end]))
                pos = skip_space(text, end)
        except LiteralError:
            continue
        return start, calls
    return len(text), []


def _step(text: str, pos: int, tools: KnownTools) -> tuple[RawCall, int]:
    if (step := _STEP.match(text, pos)) is not None:
        value, end = read_literal(text, step.end())
        closing = cast("re.Match[str]", _CLOSING.match(text, end))
        return RawCall(step["name"], cast("dict[str, Any]", value)), closing.end()
    step = _BRACKETS.match(text, pos)
    if step is None:
        raise LiteralError(pos)
    if step["open"] == "(":
        calls, end = read_python(text, step.start("name"), tools)
        if len(calls) != 1:
            raise LiteralError(end)
        return calls[0], _closed(text, end)
    inside = skip_space(text, step.end())
    if text.startswith("{", inside):
        value, end = read_literal(text, inside)
        end = skip_space(text, end)
        if not text.startswith("]", end):
            raise LiteralError(end)
        return RawCall(step["name"], cast("dict[str, Any]", value)), _closed(text, end + 1)
    return _said(text, step, tools)


def _said(text: str, step: re.Match[str], tools: KnownTools) -> tuple[RawCall, int]:
    """`Action: search[words]`: what the tool's only required parameter is given, to the end of the line."""
    line = text.find("\n", step.end())
    line = len(text) if line < 0 else line
    said = text[step.end() : line].rstrip().rstrip("`")
    required = (tools.schemas or {}).get(step["name"], {}).get("required")
    if not said.endswith("]") or not said[:-1].strip() or not isinstance(required, list):
        raise LiteralError(line)
    names = cast("list[str]", required)
    if len(names) != 1:
        raise LiteralError(line)
    return RawCall(step["name"], {names[0]: said[:-1].strip()}), line


def _closed(text: str, pos: int) -> int:
    """Behind the backtick that a line may end in."""
    return pos + text.startswith("`", pos)
