"""glob: find files by name."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from pydantic import BeforeValidator, Field

from pegboard.core.params import Alias, EffectMarker, Inject
from pegboard.core.result import ToolResult
from pegboard.core.sanitise import visible
from pegboard.core.tool import tool
from pegboard.ports.files import Files

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
    path: Annotated[str, _FOLDER] = ".",
    limit: Annotated[int, Field(ge=1, le=10_000), Alias("max_results", "maxResults", "head_limit")] = 100,
    hidden: Annotated[bool, Alias("include_hidden")] = False,
    no_ignore: Annotated[bool, Alias("include_ignored")] = False,
    *,
    files: Inject[Files],
) -> ToolResult:
    """Find files by a name pattern, the most recently changed first.

    `*.py` finds in the folder itself, `**/*.py` at any depth, `src/**/*.{ts,tsx}` both endings. What
    git ignores and hidden files are left out unless asked for. Use grep to search in contents.

    Args:
        pattern: Glob over the path below `path`.
        path: Folder to look in, relative to the workspace.
        limit: How many files at most.
        hidden: Find hidden files too.
        no_ignore: Find what .gitignore and .ignore leave out too.
    """
    found = await files.glob(pattern, path, limit=limit, hidden=hidden, no_ignore=no_ignore)
    shown = "" if path in ("", ".") else path.removesuffix("/") + "/"
    paths = [shown + entry.path for entry in found.entries]
    lines = [visible(one) for one in paths] or [f"No file matches {pattern!r} in {path}"]
    if found.truncated:
        lines = [*lines, f"[only the {limit} newest; raise limit or narrow the pattern]"]
    lines = [*lines, *(f"[{visible(sentence)}]" for sentence in found.skipped)]
    data = {
        "paths": paths,
        "entries": [
            {"path": p, "size": e.size, "mtime_ns": e.mtime_ns}
            for p, e in zip(paths, found.entries, strict=True)
        ],
        "truncated": found.truncated,
        "skipped": list(found.skipped),
    }
    return ToolResult.from_text("\n".join(lines), data=data)
