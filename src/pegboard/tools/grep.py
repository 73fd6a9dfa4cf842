"""grep: search in file contents."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from pegboard.core.errors import InvalidArguments, Unavailable
from pegboard.core.result import Spills, ToolResult
from pegboard.core.schema.annotations import Alias, EffectMarker, Inject, Unadvertised
from pegboard.core.text import escape_invisible
from pegboard.core.tool import tool
from pegboard.ports.files import Files, GrepMatch, GrepResult, SearchQuery
from pegboard.tools._search_options import Exclude, Globs, Places

_PLACE: Final = EffectMarker(
    "read", "Folder or file to search, relative to the workspace.", (
        "file_path", "dir", "directory", "file", "folder", "dir_path", "directory_path", "target_directory",
        "cwd",
    ),
)  # fmt: skip

#: What other programs call the three ways to show what was found.
_MODES: Final = {
    "fileswithmatches": "files", "filesonly": "files", "filenames": "files", "filepaths": "files", "paths": "files",
    "file": "files", "lines": "content", "matches": "content", "matchinglines": "content", "text": "content",
    "counts": "count", "countmatches": "count",
}  # fmt: skip
_MOST: Final = 10_000


def _mode(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    folded = given.lower().replace("_", "").replace("-", "").replace(" ", "")
    return _MODES.get(folded, folded if folded in ("content", "files", "count") else given)


def _without(glob: str | None, exclude: str | None) -> str | None:
    """`glob` with the globs to leave out behind it, each with the `!` that says so."""
    if not exclude:
        return glob
    unwanted = (one.strip().lstrip("!") for one in re.split(r",(?![^{]*\})", exclude))
    return ",".join(filter(None, (glob, *(f"!{one}" for one in unwanted if one)))) or None


def _limit(given: Any) -> Any:
    """0 is how others say that there is no limit."""
    return _MOST if str(given) == "0" else given


@tool(
    idempotent=True,
    hints=("search in files", "find text", "find in code", "rg", "搜索内容"),
    example={"pattern": "def main", "type": "py"},
)
async def grep(
    pattern: Annotated[str, Alias("query", "regex", "search", "search_pattern", "search_term", "regexp")],
    path: Annotated[Places, _PLACE] = ".",
    glob: Annotated[
        Globs,
        Alias("include", "file_pattern", "include_pattern", "includes", "file_glob"),
    ] = None,
    type: Annotated[str | None, Alias("file_type")] = None,
    mode: Annotated[
        Literal["content", "files", "count"],
        BeforeValidator(_mode),
        Alias("output_mode", "output"),
    ] = "content",
    context: Annotated[int, Field(ge=0, le=50), Alias("C", "context_lines")] = 0,
    before: Annotated[int | None, Field(ge=0, le=50), Alias("B", "before_context", "lines_before")] = None,
    after: Annotated[int | None, Field(ge=0, le=50), Alias("A", "after_context", "lines_after")] = None,
    ignore_case: Annotated[bool, Alias("i", "case_insensitive")] = False,
    fixed_strings: Annotated[bool, Alias("fixed", "literal", "F", "literal_text")] = False,
    multiline: Annotated[bool, Alias("U")] = False,
    line_numbers: Annotated[bool, Alias("n", "line_number", "show_line_numbers", "with_line_numbers")] = True,
    limit: Annotated[
        int,
        Field(ge=1, le=_MOST),
        BeforeValidator(_limit),
        Alias("head_limit", "max", "max_results", "max_count", "max_matches", "num_results"),
    ] = 100,
    offset: Annotated[int, Field(ge=0)] = 0,
    hidden: Annotated[bool, Alias("include_hidden")] = False,
    no_ignore: Annotated[bool, Alias("include_ignored")] = False,
    exclude: Exclude = None,
    word: Annotated[
        bool,
        Unadvertised(),
        Alias("w", "words", "whole_word", "whole_words", "word_regexp", "match_whole_word"),
    ] = False,
    case_sensitive: Annotated[bool | None, Unadvertised(), Alias("match_case")] = None,
    *,
    files: Inject[Files],
    spills: Inject[Spills | None] = None,
) -> ToolResult:
    """Search file contents with a regular expression; gives `path:line:text`.

    `a|b` finds either, `\\(` a literal bracket; set fixed_strings for plain text. What git ignores,
    hidden and binary files are left out; the answer says so.

    Args:
        pattern: Regular expression, matched within each line.
        path: Folder or file to search, relative to the workspace, or `spill:ID` of a cut result.
        glob: Only files that match, for example `*.ts` or `!*.min.js`.
        type: Only files of a type, for example py, js, md.
        mode: content shows lines, files the paths, count the matching lines of each file.
        context: Lines to show before and after each match.
        before: Lines to show before each match, where that is another number.
        after: Lines to show after each match, where that is another number.
        ignore_case: Ignore case.
        fixed_strings: Take the pattern as plain text.
        multiline: Let the pattern span lines; `.` then matches line ends.
        line_numbers: Show the number of each line.
        limit: How many lines (or files) at most.
        offset: How many to leave out first, to page.
        hidden: Search hidden files too.
        no_ignore: Search what .gitignore and .ignore leave out too.
    """
    if case_sensitive is not None:
        if ignore_case and case_sensitive:
            raise InvalidArguments("ignore_case and case_sensitive are both true", hint="Send one of them.")
        ignore_case = not case_sensitive
    query = SearchQuery(
        pattern=pattern, glob=_without(glob, exclude), type=type, fixed_strings=fixed_strings,
        ignore_case=ignore_case, multiline=multiline, context=context, mode=mode, offset=offset,
        limit=limit, hidden=hidden, no_ignore=no_ignore, before=before, after=after, whole_words=word,
    )  # fmt: skip
    paths = list(dict.fromkeys(path)) if isinstance(path, list) else [path]
    found = await _in_each(paths, query, files, spills)
    shown = _text(found, pattern, ", ".join(paths), mode, offset, limit, line_numbers)
    return ToolResult.from_text("\n".join(shown), data=_data(found))


async def _in_each(paths: list[str], query: SearchQuery, files: Files, spills: Spills | None) -> GrepResult:
    """What is found in one place after the other, on the page that the query asks for of all of it."""
    offset, limit = query.offset, query.limit
    parts: list[GrepResult] = []
    for path in paths:
        # Of what lies behind a full page only one is looked for: that there is more.
        there = replace(query, path=path, text=_spilled(path, spills), offset=offset, limit=max(1, limit))
        found = await files.search(there)
        full = limit <= 0
        if full:
            found = replace(found, matches=(), counts=(), truncated=found.total > 0)
        parts.append(found)
        if found.truncated:
            break
        limit -= max(0, found.total - offset)
        offset = max(0, offset - found.total)
    if len(parts) == 1:
        return parts[0]
    return GrepResult(
        matches=tuple(match for part in parts for match in part.matches),
        counts=tuple(count for part in parts for count in part.counts),
        total=sum(part.total for part in parts),
        truncated=parts[-1].truncated,
        skipped=tuple(dict.fromkeys(sentence for part in parts for sentence in part.skipped)),
        searched=sum(part.searched for part in parts),
        note=" ".join(dict.fromkeys(part.note for part in parts if part.note)),
    )


def _spilled(path: str, spills: Spills | None) -> str | None:
    if not path.startswith("spill:"):
        return None
    if spills is None:
        raise Unavailable(
            "no spilled results are kept here", hint="Run the call again with a narrower question."
        )
    return spills.read(path)


def _text(
    found: GrepResult, pattern: str, path: str, mode: str, offset: int, limit: int, numbers: bool
) -> list[str]:
    lines: list[str] = []
    before: GrepMatch | None = None
    for match in found.matches:
        if before is not None and (match.path != before.path or match.line > before.line + 1):
            # Groups are divided only where context makes them groups.
            lines += ["--"] if any(not m.is_match for m in found.matches) else []
        mark = ":" if match.is_match else "-"
        lines.append(
            f"{escape_invisible(match.path)}{mark}{f'{match.line}{mark}' if numbers else ''}{match.text}"
        )
        before = match
    lines += [
        escape_invisible(path) if mode == "files" else f"{escape_invisible(path)}:{count}"
        for path, count in found.counts
    ]
    if not lines:
        files = "1 file" if found.searched == 1 else f"{found.searched} files"
        looked = f" ({files} searched)" if found.searched else ""
        lines.append(
            f"No results after {offset}." if offset else f"No matches for {pattern!r} in {path}{looked}"
        )
    if found.note:
        lines.insert(0, f"[{found.note}]")
    if found.truncated:
        shown = f"{offset + 1}-{offset + limit}"
        lines.append(
            f"[{'matches' if mode == 'content' else 'files'} {shown}; more exist: offset={offset + limit} goes on]"
        )
    if any(m.text.startswith("[… ") or m.text.endswith(" bytes …]") for m in found.matches):
        lines.append("[long lines are cut: read_file with offset and column=1 shows one whole, page by page]")
    return [*lines, *(f"[{escape_invisible(sentence)}]" for sentence in found.skipped)]


def _data(found: GrepResult) -> dict[str, object]:
    return {
        "matches": [
            {"path": m.path, "line": m.line, "text": m.text, "is_match": m.is_match} for m in found.matches
        ],
        "counts": [{"path": path, "count": count} for path, count in found.counts],
        "total": found.total,
        "truncated": found.truncated,
        "skipped": list(found.skipped),
        "searched": found.searched,
        "note": found.note,
    }
