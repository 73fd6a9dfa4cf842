"""edit_file: replace text in one file, byte for byte elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import Field

from pegboard.core.context import Context
from pegboard.core.effects import Plan
from pegboard.core.errors import NotFound
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject, Verbatim, WritePath
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.files import Files, Write
from pegboard.textedit.edit import Edit, EditResult, apply_edits
from pegboard.textedit.encoding import NUL_NOTE, UTF8
from pegboard.textedit.match import EXPLAINED
from pegboard.textedit.redaction_marks import refuse_marks
from pegboard.textedit.style import name_lines

_MAX_DIFF: Final = 4000

Old = Annotated[str, Alias("old_text", "old_str", "oldString")]
New = Annotated[str, Verbatim(), Alias("new_text", "new_str", "newString")]


@dataclass(frozen=True, slots=True)
class Replacement:
    """One more replacement in the same file."""

    old_string: str
    new_string: str
    replace_all: bool = False


async def _plan(files: Files, path: str, edits: Sequence[Edit]) -> Plan:
    try:
        before = await files.read_bytes(path)
    except NotFound:
        if edits[0].old or len(edits) > 1:
            raise
        refuse_marks(edits[0].new, "", path)
        changes = await files.propose([Write(path=path, data=UTF8.encode(edits[0].new))])
        return Plan(changes.effects(), replace(changes, note=changes.note or _nul(edits)), ())
    if not before and not edits[0].old and len(edits) == 1:
        refuse_marks(edits[0].new, "", path)
        done = (EditResult(data=UTF8.encode(edits[0].new), strategy="exact", lines=(1,)),)
    else:
        # The search may take a while in a large file; the event loop must not wait for it.
        done = await asyncio.to_thread(apply_edits, before, edits, path=path)
    changes = await files.propose([Write(path=path, data=done[-1].data, expected=before)])
    notes = [changes.note.removesuffix("."), *(EXPLAINED[edited.strategy] for edited in done), _nul(edits)]
    changes = replace(changes, note="; ".join(dict.fromkeys(filter(None, notes))))
    return Plan(changes.effects(), changes, tuple((edited.strategy, edited.lines) for edited in done))


def _nul(edits: Sequence[Edit]) -> str:
    return NUL_NOTE if any("\0" in edit.new for edit in edits) else ""


def _edits(arguments: dict[str, Any]) -> list[Edit]:
    first = Edit(
        old=arguments["old_string"],
        new=arguments["new_string"],
        replace_all=arguments["replace_all"],
        occurrence=arguments["occurrence"],
        line_hint=arguments["line_hint"],
        expected=arguments["expected_replacements"],
    )
    more: Sequence[Replacement] = arguments["more_edits"] or ()
    return [first, *(Edit(old=m.old_string, new=m.new_string, replace_all=m.replace_all) for m in more)]


async def plan_edit(call: ValidCall, context: Context) -> Plan:
    """The change that the call would make; changes nothing."""
    return await _plan(context.port(Files), call.arguments["path"], _edits(call.arguments))


@tool(plan=plan_edit, hints=("replace text in a file", "change a line", "edit a file", "修改文件"))
async def edit_file(
    path: WritePath,
    old_string: Old,
    new_string: New,
    replace_all: bool = False,
    occurrence: Annotated[int, Field(ge=1)] | None = None,
    line_hint: Annotated[int, Field(ge=1)] | None = None,
    expected_replacements: Annotated[int, Field(ge=1)] | None = None,
    more_edits: Annotated[list[Replacement] | None, Verbatim(), Alias("edits")] = None,
    *,
    files: Inject[Files],
    planned: Inject[Plan | None] = None,
) -> ToolResult:
    """Replace one piece of text in a file with another.

    `old_string` must occur exactly once, or say which occurrence you mean. Copy it from the file without line
    numbers. An empty `old_string` creates a file that does not exist.

    Args:
        path: Path of the file, relative to the workspace.
        old_string: The text to replace, exactly as it is in the file.
        new_string: The text to put in its place.
        replace_all: Replace every occurrence.
        occurrence: Which occurrence to replace, counted from 1.
        line_hint: Line number near the occurrence to replace.
        expected_replacements: Replace all occurrences, but only if there are exactly this many.
        more_edits: Further replacements in the same file, made after this one; all or none.

    Raises:
        NotFound: no such file, or the text is not in it; the closest text is shown.
        NotUnique: the text occurs several times; the lines are named.
        Conflict: the file changed since it was last read.
        Unsupported: the file is binary, or its encoding lacks a character of the new text.
    """
    plan = planned or await _plan(
        files,
        path,
        _edits(
            {
                "old_string": old_string,
                "new_string": new_string,
                "replace_all": replace_all,
                "occurrence": occurrence,
                "line_hint": line_hint,
                "expected_replacements": expected_replacements,
                "more_edits": more_edits,
            }
        ),
    )
    changes, after, digest = plan.changes, None, None
    if changes and changes.changes[0].after is not None:
        after = changes.changes[0].after
        digest = changes.changes[0].after_sha256 or hashlib.sha256(after).hexdigest()
        changes = await files.commit(changes)
    found: tuple[tuple[str, tuple[int, ...]], ...] = plan.private or ()
    lines = [line for _, numbers in found for line in numbers]
    where = f" ({name_lines(lines)})" if lines else ""
    text = f"Successfully edited {path}{where}" if changes else f"Nothing to change in {path}{where}"
    text += "".join(f"\n{change.summary()}" for change in changes.changes)
    if changes.note:
        text += f"\nNote: {changes.note}."
    diff = changes.changes[0].diff if changes else ""
    if diff and len(diff) <= _MAX_DIFF:
        text += f"\n{diff}"
    return ToolResult.from_text(
        text,
        data={
            "path": path,
            "created": any(change.kind == "create" for change in changes.changes),
            "replacements": len(lines),
            "strategies": [strategy for strategy, _ in found],
            "lines": lines,
            "bytes": None if after is None else len(after),
            "sha256": digest,
        },
    )
