"""Keep: what a tool declares as an artifact of its session is kept, and its result says so (ledger K-77)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pegboard.core.artifact import KEEPER, ArtifactSaver, NewArtifact
from pegboard.core.content import Text
from pegboard.core.context import Context, attach, detach
from pegboard.core.failing import as_tool_error
from pegboard.core.inside import call_context
from pegboard.core.invocation import Call
from pegboard.core.result import ToolResult

if TYPE_CHECKING:
    from pegboard.core.pipeline import Pipeline


async def save_artifacts(pipeline: Pipeline, value: Any, call: Call, context: Context) -> ToolResult:
    """The result without its declared artifacts, which are kept, and with a line for each.

    A tool has done its work by then, so what cannot be kept is told in the result and fails nothing.
    """
    result = ToolResult(artifacts=(value,)) if isinstance(value, NewArtifact) else cast(ToolResult, value)
    lines: list[Text] = []
    kept: list[dict[str, Any]] = []
    before = attach(call_context(pipeline, context, call.call_id, call.tool))
    try:
        for made in result.artifacts:
            said, facts = await _save_one(pipeline, made, call.tool.name)
            lines.append(Text(said))
            kept += facts
    finally:
        detach(before)
    notes = replace(result.notes, extra={**result.notes.extra, "artifacts": kept})
    return replace(result, content=(*result.content, *lines), notes=notes, artifacts=())


async def _save_one(pipeline: Pipeline, made: NewArtifact, name: str) -> tuple[str, list[dict[str, Any]]]:
    """What the result says of one artifact, and the facts for programs, none where it was not kept."""
    keeper = cast("ArtifactSaver | None", pipeline.provide.get(KEEPER))
    called = f"artifact '{made.id}'" if made.id else "an artifact"
    if keeper is None:
        return f"[not kept as {called}: nothing keeps artifacts here]", []
    redactor = pipeline.shaper.redactor
    if redactor is not None and isinstance(made.content, str):
        made = replace(made, content=redactor.redact(made.content)[0])
    try:
        there = await keeper.save(made, name=name)
    except Exception as error:  # noqa: BLE001  The keeper may be foreign code, and the call has happened.
        return f"[not kept as {called}: {as_tool_error(error).message}]", []
    facts = {"id": there.id, "version": there.version, "content_type": there.content_type}
    return f"[kept as artifact '{there.id}' (version {there.version}); read_artifact shows it]", [facts]
