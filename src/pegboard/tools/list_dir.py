"""list_dir: what a folder holds."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, EffectMarker, Inject
from pegboard.core.text import escape_invisible
from pegboard.core.tool import tool
from pegboard.ports.files import DirectoryEntry, DirectoryListing, Files

_FOLDER: Final = EffectMarker(
    "read", "Path of the folder, relative to the workspace.", (
        "dir", "directory", "dir_path", "folder", "directory_path", "folder_path", "target_directory", "absolute_path",
        "relative_workspace_path",
    ),
)  # fmt: skip
_DEEPEST: Final = 50


@tool(
    idempotent=True,
    hints=("list a folder", "what files are there", "ls", "列出目录"),
    example={"path": "src", "depth": 2},
)
async def list_dir(
    path: Annotated[str, _FOLDER] = ".",
    recursive: bool = False,
    depth: Annotated[int | None, Field(ge=1, le=_DEEPEST), Alias("max_depth")] = None,
    max_entries: Annotated[int, Field(ge=1, le=10_000), Alias("limit")] = 1000,
    style: Literal["default", "plain", "emoji"] = "default",
    *,
    files: Inject[Files],
) -> ToolResult:
    """List a folder, including hidden and ignored entries, folders first.

    Use glob to find files by name in a whole tree; it leaves out what git ignores.

    Args:
        path: Path of the folder, relative to the workspace.
        recursive: List what is in the subfolders too.
        depth: How many levels, 1 is the folder alone; recursive without depth means all.
        max_entries: Maximum number of entries.
        style: `[DIR] name/` and `[FILE] name` by default; plain names; or emoji.
    """
    levels = depth or (_DEEPEST if recursive else 1)
    found = await files.list(path, depth=levels, limit=max_entries)
    if style == "emoji":
        # The order of the document that this style comes from: by name alone.
        entries = sorted(found.entries, key=lambda e: e.path.split("/"))
    else:
        entries = list(found.entries)
    lines = [_line(entry, style) for entry in entries] or [f"[{path} is empty]"]
    if found.truncated:
        lines.append(f"[only the first {max_entries} entries; raise max_entries or list a subfolder]")
    lines += [f"[{escape_invisible(sentence)}]" for sentence in found.skipped]
    return ToolResult.from_text("\n".join(lines), data=_data(path, found))


def _line(entry: DirectoryEntry, style: str) -> str:
    folder, path = entry.kind == "dir", escape_invisible(entry.path)
    if style == "emoji":
        return f"{'📁' if folder else '📄'} {path}"
    name = f"{path}/" if folder else path
    if style == "plain":
        return name
    word = {"dir": "DIR", "file": "FILE", "link": "LINK", "other": "OTHER"}[entry.kind]
    return f"[{word}] {name}"


def _data(path: str, found: DirectoryListing) -> dict[str, object]:
    return {
        "path": path,
        "entries": [
            {"path": e.path, "kind": e.kind, "size": e.size, "mtime_ns": e.mtime_ns} for e in found.entries
        ],
        "truncated": found.truncated,
        "skipped": list(found.skipped),
    }
