"""How a tool call looks in an editor: kind, title, the files that it is about, and its diffs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pegboard.core.content import Image
from pegboard.core.effects import PATH_KINDS, Change, Effect
from pegboard.core.hosts import host_note
from pegboard.core.result import ToolResult, text_of
from pegboard.core.secrets.clip import clip
from pegboard.core.text import escape_invisible
from pegboard.gateway.acp.connection import Json

MAX_TEXT: Final = 20_000
"""Characters of a result that an editor is shown."""
_MAX_TITLE: Final = 300
_MAX_LOCATIONS: Final = 20

_SEARCHES: Final = frozenset({"grep", "glob", "list_dir", "web_search", "search_tools", "grep_artifact"})
_OF_TOOL: Final = {"todo": "think", "propose_plan": "switch_mode"} | dict.fromkeys(_SEARCHES, "search")
_OF_EFFECT: Final = {
    "exec": "execute", "delete": "delete", "write": "edit", "connect": "fetch", "read": "read",
}  # fmt: skip
"""The protocol's kinds by what a call does, the most telling first."""

_HUNK: Final = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(slots=True)
class Hunk:
    """One part of a unified diff: where it begins in the new file, its lines before and its lines after."""

    line: int
    old: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])


def hunks(diff: str) -> list[Hunk]:
    """The parts of a unified diff, without its head and without what says that it was cut."""
    out: list[Hunk] = []
    touched: tuple[list[str], ...] = ()
    for line in diff.split("\n"):
        if (found := _HUNK.match(line)) is not None:
            out.append(Hunk(int(found[1])))
        elif out and line[:1] in (" ", "-", "+"):
            old, new = out[-1].old, out[-1].new
            touched = {" ": (old, new), "-": (old,), "+": (new,)}[line[0]]
            for side in touched:
                side.append(f"{line[1:]}\n")
        elif out and line.startswith("\\ "):  # No newline at end of file.
            for side in touched:
                side[-1] = side[-1].removesuffix("\n")
    return out


def kind_of(tool: str, effects: Iterable[Effect]) -> str:
    """The protocol's kind of a call, for its icon."""
    kinds = {effect.kind for effect in effects}
    known = _OF_TOOL.get(tool)
    return known or next((name for kind, name in _OF_EFFECT.items() if kind in kinds), "other")


def title_of(tool: str, effects: Sequence[Effect], arguments: Mapping[str, Any]) -> str:
    """One line for a call: a command itself, else the tool and what it is about."""
    command = arguments.get("command")
    if isinstance(command, str) and any(effect.kind == "exec" for effect in effects):
        shown = command.strip().replace("\n", " ⏎ ")
    else:
        looks_for = next(
            (arguments[k] for k in ("pattern", "query") if isinstance(arguments.get(k), str)), ""
        )
        targets = list(dict.fromkeys(f"{e.target}{host_note(e.target)}" for e in effects))
        more = f" and {len(targets) - 3} more" if len(targets) > 3 else ""
        shown = " ".join(part for part in (tool, looks_for, ", ".join(targets[:3])) if part) + more
    line = escape_invisible(shown)
    return line if len(line) <= _MAX_TITLE else f"{clip(line, 0, _MAX_TITLE)}…"


def locations_of(
    workspace: Path, effects: Iterable[Effect], changes: Iterable[Change], arguments: Mapping[str, Any]
) -> list[Json]:
    """The files that a call is about, with the line where it looks or changes."""
    lines: dict[str, int] = {}
    for change in changes:
        if parts := hunks(change.diff):
            lines[change.moved_to or change.path] = parts[0].line
    offset = arguments.get("offset")
    paths = [e.target for e in effects if e.kind in PATH_KINDS and "*" not in e.target]
    out: list[Json] = []
    for path in list(dict.fromkeys(paths))[:_MAX_LOCATIONS]:
        row: Json = {"path": str(workspace / path)}
        line = lines.get(path) or (offset if isinstance(offset, int) and offset > 0 else 0)
        if line:
            row["line"] = line
        out.append(row)
    return out


def diffs_of(workspace: Path, changes: Iterable[Change]) -> list[Json]:
    """The changes as the protocol's diffs, one for each part; one line of text where a file has no lines to show."""
    out: list[Json] = []
    for change in changes:
        path = str(workspace / (change.moved_to or change.path))
        parts = hunks(change.diff)
        for part in parts:
            row: Json = {"type": "diff", "path": path, "newText": "".join(part.new)}
            if change.kind != "create":
                row["oldText"] = "".join(part.old)
            out.append(row)
        if not parts or change.kind in ("delete", "move") or "\n[diff cut here" in change.diff:
            out.append(text_content(change.summary()))
    return out


def text_content(text: str) -> Json:
    """A text as content of a tool call."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def fenced(text: str, language: str = "") -> str:
    """A text as a Markdown block: nothing in it is markup."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def content_of(result: ToolResult, kind: str, shown: Iterable[str]) -> list[Json]:
    """What a call came to.

    Args:
        result: its result.
        kind: the call's.
        shown: diffs that the editor shows already.
    """
    texts = [block for block in result.content if not isinstance(block, Image)]
    text = text_of(tuple(texts)) if result.ok else str(result.error)
    for diff in shown:
        text = text.replace(diff.strip("\n"), "")
    text = text.strip("\n")
    if len(text) > MAX_TEXT:
        text = f"{clip(text, 0, MAX_TEXT)}\n… ({len(text)} characters)"
    out = [text_content(fenced(text) if kind in ("execute", "read", "search") else text)] if text else []
    for one in result.content:
        if isinstance(one, Image):
            picture = {"type": "image", "mimeType": one.mime_type, "data": one.to_dict()["data"]}
            out.append({"type": "content", "content": picture})
    return out
