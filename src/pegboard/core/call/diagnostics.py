"""Diagnostics of a call: what its writes broke, said behind its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pegboard.core.call.call import Call, WriteReport
from pegboard.core.content import Text
from pegboard.core.effects import Change
from pegboard.core.result import ToolResult

MAX_TEXT: Final = 8000
"""Characters of what is said of one call."""


class InnerChanges:
    """The changes that the calls of one program made: what they broke is said once, when the program has ended.

    Args:
        call: the program.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    async def check(self, changes: Sequence[Change]) -> WriteReport | None:
        """Keep the changes for the program's own result."""
        self._call.inner_changes += tuple(changes)
        return None


async def add_diagnostics(call: Call, result: ToolResult) -> ToolResult:
    """The result with what the call's writes broke; as it is where they broke nothing, or were not carried out."""
    checks = call.parts.write_checks
    changes = (*call.inner_changes, *call.plan.changes.changes)
    waits = result.error is not None and result.error.code == "suspended"
    if checks is None or not changes or waits or call.proposes or not (result.ok or call.inner_changes):
        return result
    try:
        report = await checks.check(changes)
    except Exception as error:  # noqa: BLE001  The write has happened: a check that breaks must not turn it into a failure.
        report = WriteReport(
            text=f"[not checked: {type(error).__name__}]", data={"failed": type(error).__name__}
        )
    if report is None:
        return result
    said = call.parts.shaper.shape(report.text, call_id=call.id, tool=call.tool.name, max_chars=MAX_TEXT)
    extra = {**result.notes.extra, "diagnostics": call.parts.shaper.redacted(dict(report.data))}
    return replace(
        result,
        content=(*result.content, Text(f"\n{said.text}")),
        notes=replace(result.notes, extra=extra),
    )
