"""glob: find files by name."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field

from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, EffectMarker, Inject, Unadvertised
from pegboard.core.text import escape_invisible
from pegboard.core.tool import tool
from pegboard.ports.files import DirectoryEntry, Files
from pegboard.tools._search_options import Exclude, Places

_FOLDER: Final = EffectMarker(
    "read", "Folder to look in, relative to the workspace.", (
        "dir", "directory", "folder", "root", "cwd", "dir_path", "directory_path", "target_directory", "base_path",
    ),
)  # fmt: skip


def _one(given: Any) -> Any:
    """A list of globs as one with braces."""
    if not isinstance(given, list):
        return given
    globs = cast("list[Any]", given)
    if not globs or not all(isinstance(one, str) for one in globs):
        return globs
    return globs[0] if len(globs) == 1 else "{" + ",".join(globs) + "}"


@tool(
    idempotent=True,
    hints=("find files by name", "which files match", "find", "查找文件"),
    example={"pattern": "**/*.py"},
)
async def glob(
    pattern: Annotated[
        str, BeforeValidator(_one), Alias("glob", "query", "name", "glob_pattern", "file_pattern", "patterns")
    ],
    path: Annotated[Places, _FOLDER] = ".",
    limit: Annotated[int, Field(ge=1, le=10_000), Alias("max_results", "head_limit")] = 100,
    hidden: Annotated[bool, Alias("include_hidden")] = False,
    no_ignore: Annotated[bool, Alias("include_ignored")] = False,
    exclude: Exclude = None,
    ignore_case: Annotated[bool, Unadvertised(), Alias("i", "case_insensitive", "nocase")] = False,
    case_sensitive: Annotated[bool | None, Unadvertised(), Alias("match_case")] = None,
    *,
    files: Inject[Files],
) -> ToolResult:
    """Find files by a name pattern, the most recently changed first.

    `*.py` finds in the folder itself, `**/*.py` at any depth, `src/**/*.{ts,tsx}` both endings. What
    git ignores and hidden files are skipped by default. Use grep to search in contents.

    Args:
        pattern: Glob over the path below `path`.
        path: Folder to look in, relative to the workspace.
        limit: Maximum number of files.
        hidden: Find hidden files too.
        no_ignore: Find what .gitignore and .ignore leave out too.
    """
    if case_sensitive is not None:
        if ignore_case and case_sensitive:
            raise InvalidArguments("ignore_case and case_sensitive are both true", hint="Send one of them.")
        ignore_case = not case_sensitive
    folders = list(dict.fromkeys(path)) if isinstance(path, list) else [path]
    entries: dict[str, DirectoryEntry] = {}
    skipped: dict[str, None] = {}
    truncated = False
    for folder in folders:
        found = await files.list(
            folder,
            pattern=pattern,
            limit=limit,
            hidden=hidden,
            no_ignore=no_ignore,
            ignore_case=ignore_case,
            exclude=exclude,
        )
        prefix = "" if folder in ("", ".") else folder.removesuffix("/") + "/"
        entries |= {prefix + entry.path: entry for entry in found.entries}
        skipped |= dict.fromkeys(found.skipped)
        truncated |= found.truncated
    paths = list(entries)
    if len(folders) > 1:
        paths.sort(key=lambda one: (-entries[one].mtime_ns, one))
        truncated |= len(paths) > limit
        paths = paths[:limit]
    lines = [escape_invisible(one) for one in paths] or [
        f"No file matches {pattern!r} in {', '.join(folders)}"
    ]
    if truncated:
        lines = [*lines, f"[only the {limit} newest; raise limit or narrow the pattern]"]
    lines = [*lines, *(f"[{escape_invisible(sentence)}]" for sentence in skipped)]
    data = {
        "paths": paths,
        "entries": [{"path": p, "size": entries[p].size, "mtime_ns": entries[p].mtime_ns} for p in paths],
        "truncated": truncated,
        "skipped": list(skipped),
    }
    return ToolResult.from_text("\n".join(lines), data=data)
