"""delete_file: delete one file; `pegboard undo` brings it back."""

from __future__ import annotations

from pegboard.core.context import Context
from pegboard.core.effects import Plan
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import DeletePath, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.files import Delete, Files


async def _plan(files: Files, path: str) -> Plan:
    changes = await files.propose([Delete(path=path)])
    return Plan(changes.effects(), changes)


async def plan_delete(call: ValidCall, context: Context) -> Plan:
    """The deletion that the call would make; changes nothing."""
    return await _plan(context.port(Files), call.arguments["path"])


@tool(plan=plan_delete, hints=("delete a file", "remove a file", "删除文件"))
async def delete_file(
    path: DeletePath, *, files: Inject[Files], planned: Inject[Plan | None] = None
) -> ToolResult:
    """Delete one file. The user is asked first if undo could not restore it. Folders cannot be deleted with it.

    Args:
        path: Path of the file, relative to the workspace.

    Raises:
        NotFound: no file at `path`.
        OutsideWorkspace: the path leaves the workspace.
        Unsupported: the path is a folder or a device.
        Conflict: the file changed since it was last read.
    """
    plan = planned or await _plan(files, path)
    changes = await files.commit(plan.changes)
    size = sum(len(change.before or b"") for change in changes.changes)
    text = f"Successfully deleted {path} ({size} bytes)"
    return ToolResult.from_text(
        f"{text}\n{changes.note}" if changes.note else text, data={"path": path, "bytes": size}
    )
