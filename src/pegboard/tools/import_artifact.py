"""import_artifact: keep a file of the workspace as an artifact."""

from __future__ import annotations

import mimetypes
import re
from pathlib import PurePosixPath
from typing import Annotated, Final

from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, ReadPath
from pegboard.core.tool import tool
from pegboard.ports.artifacts import Artifacts
from pegboard.ports.files import Files
from pegboard.textedit.encoding import NotText, decode

_NO_ID: Final = re.compile(r"[^A-Za-z0-9._-]+")


@tool(hints=("keep a file as an artifact", "import a picture"))
async def import_artifact(
    path: ReadPath,
    id: Annotated[str, Alias("artifact_id", "name")] | None = None,
    title: str | None = None,
    *,
    artifacts: Inject[Artifacts],
    files: Inject[Files],
) -> ToolResult:
    """Keep a file of the workspace as a new artifact: a text, a picture or another file.

    Args:
        path: Path of the file, relative to the workspace.
        id: A new id of letters, digits, '.', '_' and '-'; the file's name by default.
        title: What the artifact is called; the file's name by default.

    Raises:
        NotFound: no file at `path`.
        OutsideWorkspace: the path leaves the workspace.
        Conflict: the id is taken.
        TooLarge: the file is larger than an artifact may be.
    """
    data = await files.read_bytes(path)
    name = PurePosixPath(path).name
    kind = mimetypes.guess_type(name)[0]
    try:
        content: str | bytes = decode(data).text
        kind = "markdown" if kind == "text/markdown" else kind or "text/plain"
    except NotText:
        content, kind = data, kind or "application/octet-stream"
    id = _id_of(name) if id is None else id
    made = await artifacts.create(id, title=title or name, content=content, content_type=kind)
    return ToolResult.from_text(
        f"Imported {path} as artifact '{id}' (version 1, {kind}, {len(data)} bytes)",
        data={"id": id, "version": made.version, "content_type": kind, "bytes": len(data)},
    )


def _id_of(name: str) -> str:
    """An id from a file's name: what no id may hold becomes `-`, and no id begins with a sign."""
    return _NO_ID.sub("-", name).lstrip("._-")[:128] or "file"
