"""write_file: create a file or replace it whole."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Annotated

from pegboard.core.context import Context
from pegboard.core.effects import ChangeSet, Plan
from pegboard.core.errors import NotFound, TooLarge
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, Verbatim, WritePath
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.files import Files, Write
from pegboard.textedit.encoding import NUL_NOTE, as_before
from pegboard.textedit.redaction_marks import refuse_marks


async def _plan(files: Files, path: str, content: str) -> Plan:
    try:
        before = await files.read_bytes(path)
    except (NotFound, TooLarge):
        before = b""
    refuse_marks(content, before.decode("utf-8", "replace"), path)
    data, kept = as_before(content, before)
    changes = await files.propose([Write(path=path, data=data)])
    notes = [changes.note, f"Note: {kept}." if kept else "", f"Note: {NUL_NOTE}." if "\0" in content else ""]
    return Plan(changes.effects(), replace(changes, note="\n".join(filter(None, notes))), data)


async def plan_write(call: ValidCall, context: Context) -> Plan:
    """The change that the call would make; changes nothing."""
    return await _plan(context.port(Files), call.arguments["path"], call.arguments["content"])


@tool(plan=plan_write, hints=("create a file", "save text to a file", "write a file", "写文件"))
async def write_file(
    path: WritePath,
    content: Annotated[str, Verbatim(), Alias("contents", "text", "file_text")],
    *,
    files: Inject[Files],
    planned: Inject[Plan | None] = None,
) -> ToolResult:
    """Create a file with this content, or replace the whole file that is there.

    Creates missing folders. A file that is there keeps its encoding, byte order mark and line ends. To change part of a file, use edit_file.

    Args:
        path: Path of the file, relative to the workspace.
        content: The whole new content.

    Raises:
        OutsideWorkspace: the path leaves the workspace.
        Unsupported: the path is a folder or a device.
        Conflict: the file changed since it was last read.
        InvalidArguments: the content holds a mark that stands for a hidden secret.
    """
    plan = planned or await _plan(files, path, content)
    data: bytes = plan.private
    changes: ChangeSet = await files.commit(plan.changes) if plan.changes else plan.changes
    text = f"Successfully wrote {len(data)} bytes to {path}"
    if not changes:
        text += " (the file had this content already)"
    said = [change.summary() for change in changes.changes if change.kind != "create"]
    return ToolResult.from_text(
        "\n".join([text, *said, *filter(None, [changes.note if changes else ""])]),
        data={
            "path": path,
            "bytes": len(data),
            "created": any(change.kind == "create" for change in changes.changes),
            "sha256": hashlib.sha256(data).hexdigest(),
        },
    )
