"""Lines `MEDIA:PATH` in an answer, by which a model sends a file with it."""

from __future__ import annotations

import re
from typing import Final

_LINE: Final = re.compile(r"\s{0,3}MEDIA:[ \t]*(?P<path>\S.*?)\s*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_QUOTES: Final = "`\"'"


def take_media_lines(text: str) -> tuple[str, list[str]]:
    """The text without its lines `MEDIA:PATH`, and their paths in order, each once. Code blocks keep theirs.

    A path may stand in backticks or quotes.
    """
    kept: list[str] = []
    paths: list[str] = []
    fence = ""
    for line in text.split("\n"):
        marker = _FENCE.match(line)
        if fence:
            fence = "" if marker and marker[1].startswith(fence) else fence
        elif marker:
            fence = marker[1]
        elif found := _LINE.fullmatch(line):
            paths.append(_unquoted(found["path"]))
            continue
        kept.append(line)
    return ("\n".join(kept).strip(), list(dict.fromkeys(paths))) if paths else (text, [])


def _unquoted(path: str) -> str:
    quoted = len(path) > 2 and path[0] == path[-1] and path[0] in _QUOTES
    return path[1:-1] if quoted else path
