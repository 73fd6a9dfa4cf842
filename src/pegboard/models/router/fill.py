"""fill: a tool's arguments, each from what the request says for a parameter of its kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from pegboard.models.router.arguments import (
    ExtractedValue,
    content_of,
    edit_of,
    file_of,
    folder_of,
    glob_of,
    pattern_of,
    scope_of,
    url_of,
)
from pegboard.models.router.commands import command_of
from pegboard.models.router.paths import body_of
from pegboard.models.router.request import ParsedRequest

ParameterKind: TypeAlias = Literal[
    "url", "file", "folder", "scope", "pattern", "glob", "command", "content", "old", "new", "question", "number", "flag", "choice", "other"
]  # fmt: skip


class RoutableTool(Protocol):
    """What the router needs to know of a tool."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def description(self) -> str:
        """What the model reads."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """The arguments as JSON Schema."""
        ...


def properties(tool: RoutableTool) -> dict[str, Mapping[str, Any]]:
    """The tool's parameters: name to schema."""
    found: object = tool.schema.get("properties", {})
    return dict(cast(Mapping[str, Mapping[str, Any]], found)) if isinstance(found, Mapping) else {}


_BY_NAME: Final[tuple[tuple[str, ParameterKind], ...]] = (
    (r"^(url|uri|link|href|address|page)$|_url$", "url"),
    (r"^(command|cmd|shell_command|commandline|command_line)$", "command"),
    (r"^(old_string|old_str|old_text|old|search_text|find|before)$", "old"),
    (r"^(new_string|new_str|new_text|new|replacement|replace|replace_with|after)$", "new"),
    (r"^(content|contents|text|body|data|file_text)$", "content"),
    (r"^(glob|glob_pattern|file_pattern)$", "glob"),
    (r"^(pattern|query|regex|regexp|search|search_term|keyword|keywords|needle|q|term)$", "pattern"),
    (r"^(dir|directory|folder|dir_path|directory_path|folder_path|root|dirname)$", "folder"),
    (r"^(path|file_path|filepath|filename|file|file_name|target_file|target|paths)$|_path$", "file"),
    (r"^(question|questions)$", "question"),
)


def kind_by_name(name: str, spec: Mapping[str, Any]) -> ParameterKind:
    """What a parameter holds, told by its schema's type and its name."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if "enum" in spec:
        return "choice"
    match spec.get("type"):
        case "integer" | "number":
            return "number"
        case "boolean":
            return "flag"
        case _:
            pass
    text = str(spec.get("description", "")).lower()
    for pattern, kind in _BY_NAME:
        if re.search(pattern, plain):
            return "glob" if kind == "pattern" and re.search(r"\bglob\b|\*\*?/|\*\.", text) else kind
    if spec.get("format") == "uri":
        return "url"
    return "other"


def fill(request: ParsedRequest, tool: RoutableTool, profile: tuple[str, ...]) -> dict[str, Any] | None:
    """The arguments, or None where a required one is not in the request."""
    fields = properties(tool)
    required: object = tool.schema.get("required", [])
    wanted = (
        [str(name) for name in cast(Iterable[object], required)] if isinstance(required, list | tuple) else []
    )
    action = profile[0] if profile else ""
    kinds: dict[str, ParameterKind] = {name: kind_by_name(name, spec) for name, spec in fields.items()}
    out: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind in ("number", "flag", "choice", "other", "question") and name not in wanted:
            continue
        copied = _value(request, kind, action, fields[name], set(kinds.values()))
        if copied is not None:
            out[name] = copied
        elif name in wanted:
            return None
    return out


def _value(
    request: ParsedRequest,
    kind: ParameterKind,
    action: str,
    spec: Mapping[str, Any],
    kinds: set[ParameterKind],
) -> Any:
    copied: ExtractedValue | None = None
    match kind:
        case "url":
            copied = url_of(request)
        case "command":
            copied = command_of(request)
        case "pattern":
            copied = pattern_of(request)
            if copied is not None and not _compiles(copied.value):
                return re.escape(copied.value)
        case "glob":
            copied = glob_of(request)
        case "content":
            copied = content_of(request)
        case "old" | "new":
            pair = edit_of(request)
            copied = None if pair is None else pair[0 if kind == "old" else 1]
        case "file" | "folder" | "scope":
            return _path(request, kind, action, kinds)
        case "question" | "other":
            quoted = request.of("quoted")
            copied = ExtractedValue(quoted[0].text) if quoted else _rest(request, kind)
        case "number":
            found = re.search(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", request.masked)
            if found is None:
                return None
            return float(found[0]) if "." in found[0] else int(found[0])
        case "choice":
            options = [str(option) for option in cast(Iterable[object], spec.get("enum", []))]
            return next(
                (
                    option
                    for option in options
                    if re.search(rf"\b{re.escape(option)}\b", request.text, re.IGNORECASE)
                ),
                None,
            )
        case "flag":
            return None
    return None if copied is None else copied.value


def _path(request: ParsedRequest, kind: ParameterKind, action: str, kinds: set[ParameterKind]) -> str | None:
    if action == "list" or (kind == "folder" and "pattern" not in kinds and "glob" not in kinds):
        copied = folder_of(request)
    elif "pattern" in kinds or "glob" in kinds:
        looked_for = pattern_of(request) if "pattern" in kinds else None
        copied = scope_of(request, looked_for)
        if (
            "pattern" not in kinds
            and copied is not None
            and copied.value in {span.text for span in request.of("file")}
        ):
            copied = None
        copied = copied or ExtractedValue(".")
    else:
        copied = file_of(request, writing=action == "write")
    return None if copied is None else copied.value


def _rest(request: ParsedRequest, kind: ParameterKind) -> ExtractedValue | None:
    """For a free text parameter: what follows `ask`, `to`, `for`, `in`, `about`, or a capitalised name."""
    start, end = body_of(request.masked)
    body = request.masked[:end]
    if kind == "question":
        asked = re.search(
            r"\b(?:ask|question)\b\s*(?:me|the user|user|them)?\s*[:,]?\s*(.+)$", body[start:], re.IGNORECASE
        )
        return None if asked is None else ExtractedValue(request.copy(start + asked.start(1), end))
    named = re.search(
        r"\b(?:for|in|about|to|of|at|called|named)\s+([A-Z][\w-]*(?:\s+[A-Z][\w-]*)*|[\ue006]+)", body[start:]
    )
    return (
        None if named is None else ExtractedValue(request.copy(start + named.start(1), start + named.end(1)))
    )


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
