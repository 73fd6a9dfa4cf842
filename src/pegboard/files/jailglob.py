"""Glob patterns of the jail: `*`, `?`, `[…]` within a name, `**` over folders."""

from __future__ import annotations

import re
from collections.abc import Callable


def glob_regex(pattern: str) -> Callable[[str], bool]:
    """A test for relative paths with `/`; `**` is any number of folders, nothing else crosses `/`."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    out: list[str] = []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            out.append(".*" if last else "(?:[^/]+/)*")
        else:
            out.append(_one_name(part) + ("" if last else "/"))
    compiled = re.compile("".join(out), re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _one_name(part: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(part):
        char = part[position]
        position += 1
        if char == "*":
            # Several stars in a row mean one; left apart they backtrack without end.
            if out[-1:] != ["[^/]*"]:
                out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[" and (end := _class_end(part, position)) > 0:
            body = part[position:end]
            negated = body[0] in "!^"
            inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if negated else body)
            out.append(f"(?!/)[{'^' if negated else ''}{inner}]")
            position = end + 1
        else:
            out.append(re.escape(char))
    return "".join(out)


def _class_end(part: str, start: int) -> int:
    """Where the class that opens before `start` closes; a `]` in the first place is a member."""
    first = start + (part[start : start + 1] in ("!", "^"))
    return part.find("]", first + 1)
