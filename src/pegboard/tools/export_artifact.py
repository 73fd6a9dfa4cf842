"""export_artifact: write an artifact to a file of the workspace."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pegboard.core.context import Context, attach, detach
from pegboard.core.effects import Plan
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, WritePath
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.artifacts import Artifacts
from pegboard.ports.files import Files, Write


async def _plan(artifacts: Artifacts, files: Files, id: str, path: str, version: int | None) -> Plan:
    found = await artifacts.read(id, version)
    data = found.raw
    changes = await files.propose([Write(path=path, data=data)])
    return Plan(changes.effects(), changes, (found.version, len(data)))


async def plan_export(call: ValidCall, context: Context) -> Plan:
    """The file that the call would write; changes nothing."""
    given = call.arguments
    ports = context.port(Artifacts), context.port(Files)
    # Which session's artifacts are meant is known from the context, which is entered only to run.
    before = attach(context)
    try:
        return await _plan(*ports, given["id"], given["path"], given["version"])
    finally:
        detach(before)


@tool(plan=plan_export, hints=("save an artifact as a file", "export an artifact"))
async def export_artifact(
    id: Annotated[str, Alias("artifact_id", "name")],
    path: WritePath,
    version: Annotated[int, Field(ge=1)] | None = None,
    *,
    artifacts: Inject[Artifacts],
    files: Inject[Files],
    planned: Inject[Plan | None] = None,
) -> ToolResult:
    """Write an artifact to a file of the workspace, its newest version by default.

    Args:
        id: The artifact.
        path: Path of the file, relative to the workspace.
        version: Which version.

    Raises:
        NotFound: no such artifact or version.
        OutsideWorkspace: the path leaves the workspace.
    """
    plan = planned or await _plan(artifacts, files, id, path, version)
    if plan.changes:
        await files.commit(plan.changes)
    number, size = plan.private
    return ToolResult.from_text(
        f"Exported artifact '{id}' (version {number}) to {path}: {size} bytes",
        data={"id": id, "version": number, "path": path, "bytes": size},
    )
