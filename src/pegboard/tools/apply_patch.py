"""apply_patch: change many files in one step, all or none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pegboard.core.context import Context
from pegboard.core.effects import ChangeSet, Effect, Plan
from pegboard.core.errors import NotFound
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, Verbatim
from pegboard.core.text import escape_invisible
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.files import Files
from pegboard.textedit.encoding import NUL_NOTE
from pegboard.textedit.patch import paths_of, read_patch
from pegboard.textedit.patch_apply import STRICT, PatchResult, apply_files


async def _plan(files: Files, patch: str, overwrite: bool | None) -> Plan:
    patches = read_patch(patch)
    before: dict[str, bytes | None] = {}
    for path in paths_of(patches):
        try:
            before[path] = await files.read_bytes(path)
        except NotFound:
            before[path] = None
    rules = replace(STRICT, overwrite=overwrite is not False)
    # Placing hunks may take a while in a large file; the event loop must not wait for it.
    patched = await asyncio.to_thread(apply_files, patches, before.__getitem__, rules=rules)
    changes = await files.propose(patched.wanted)
    notes = [note for note in (changes.note, *patched.notes) if note]
    if "\0" in patch:
        notes.append(f"{NUL_NOTE}.")
    effects = changes.effects()
    if overwrite is None and patched.replaced:
        effects = await _asking(files, effects, patched.replaced)
    return Plan(effects, replace(changes, note="\n".join(notes)), await _summary(files, patched, changes))


async def _summary(files: Files, patched: PatchResult, changes: ChangeSet) -> list[tuple[str, str]]:
    """Each line about a file, and how much changes in it."""
    by_target = {change.moved_to or change.path: change for change in changes.changes}
    lines: list[tuple[str, str]] = []
    for line, path in zip(patched.summary, patched.targets, strict=True):
        change = by_target.pop((await files.resolve(path, write=True)).target, None)
        # The diff of a copy, or of a move with a new mode, is not against what was copied or moved.
        if change is not None and change.kind != "move" and line.startswith(("C ", "R ")):
            change = None
        lines.append((line, "" if change is None else change.extent()))
    return lines


async def _asking(files: Files, effects: Sequence[Effect], replaced: Sequence[str]) -> tuple[Effect, ...]:
    """The effects, those asking that put a file in place of one which the patch does not speak of.

    `Add File` on a file that exists may be a slip as well as a wish.
    """
    targets = {(await files.resolve(path, write=True)).target: path for path in replaced}
    return tuple(
        replace(
            effect,
            at_least="ask",
            reason=f"{escape_invisible(targets[effect.target])} exists, and the patch replaces it; set overwrite=true to allow this",
        )
        if effect.kind == "write" and effect.target in targets
        else effect
        for effect in effects
    )


async def plan_patch(call: ValidCall, context: Context) -> Plan:
    """The changes that the call would make; changes nothing."""
    return await _plan(context.port(Files), call.arguments["patch"], call.arguments["overwrite"])


@tool(
    touches=("write", "delete"),
    plan=plan_patch,
    hints=("apply a patch", "apply a diff", "change several files", "打补丁"),
)
async def apply_patch(
    patch: Annotated[str, Verbatim(), Alias("input", "patch_text", "diff")],
    overwrite: bool | None = None,
    *,
    files: Inject[Files],
    planned: Inject[Plan | None] = None,
) -> ToolResult:
    """Change several places or files in one step: all of them, or none if anything does not fit.

    Send a unified diff, or this form:
    *** Begin Patch
    *** Update File: path
    @@ optional line to find first
     kept line
    -removed line
    +added line
    *** Add File: path
    +line
    *** Delete File: path
    *** End Patch
    `*** Move to: path` under an Update header moves the file; `*** End of File` ends a hunk that
    stands at the end.

    Args:
        patch: The patch.
        overwrite: Whether added and moved files may replace files that exist; the person is asked by default.

    Raises:
        InvalidArguments: the patch cannot be read; its line is named.
        NotFound: a file or the lines of a hunk are not there; the closest lines are shown.
        NotUnique: a hunk fits in several places.
        Conflict: an added file exists and overwrite is false, or a file changed since it was last read.
    """
    plan = planned or await _plan(files, patch, overwrite)
    changes = await files.commit(plan.changes) if plan.changes else plan.changes
    summary: list[tuple[str, str]] = plan.private or []
    done = "Successfully applied the patch to" if changes else "The patch changes nothing in"
    lines = [
        f"{done} {_files(len(summary))}:",
        *(escape_invisible(line) + extent for line, extent in summary),
    ]
    if changes.note:
        lines += ["Note: " + changes.note]
    return ToolResult.from_text(
        "\n".join(lines),
        data={
            "files": [line for line, _ in summary],
            "changes": [change.to_dict() for change in changes.changes],
        },
    )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
