"""glob: find files by name."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pegboard.core.params import Alias, EffectMarker, Inject
from pegboard.core.result import ToolResult
from pegboard.core.sanitise import visible
from pegboard.core.tool import tool
from pegboard.ports.files import Files

_FOLDER: Final = EffectMarker(
    "read", "Folder to look in, relative to the workspace.", ("dir", "directory", "folder", "root")
)


@tool(
    idempotent=True,
    hints=("find files by name", "which files match", "find", "查找文件"),
    example={"pattern": "**/*.py"},
)
async def glob(
    pattern: Annotated[str, Alias("glob", "query", "name")],
    path: Annotated[str, _FOLDER] = ".",
    limit: Annotated[int, Field(ge=1, le=10_000), Alias("max_results", "maxResults")] = 100,
    hidden: bool = False,
    no_ignore: bool = False,
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
