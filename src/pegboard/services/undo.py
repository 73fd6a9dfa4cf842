"""Undo: takes back what calls and runs changed in files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pegboard.core.effects import Change
from pegboard.files.changes import unified
from pegboard.files.journal import MADE, Journal, JournalEntry
from pegboard.files.memory import memory_folder
from pegboard.files.undo import ById, ByOrigin, Last, UndoReport, UndoTarget
from pegboard.files.workspace import Workspace
from pegboard.services.history import LAST
from pegboard.services.runtime import Runtime
from pegboard.shell.sandbox.git import repository_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoEntry:
    """One change of the journal, and whether it holds: False where it was undone."""

    entry: JournalEntry
    holds: bool


class Undo:
    """The journal of one workspace.

    Args:
        runtime: the workspace and its settings.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def undo(
        self, target: str | None = None, *, preview: bool = False, redo: bool = False
    ) -> UndoReport:
        """Take back what a call or run changed, keeping later edits.

        Args:
            target: the id of a call or run; None = the last change; `last` = what the run of that change did.
            preview: only say what would change.
            redo: undo an undo.

        Raises:
            ToolError: the journal has no such call or run.
        """
        if target == LAST:
            made = (e.entry for e in await self.entries() if e.holds and e.entry.type in MADE)
            newest = None if redo else next(made, None)
            target = None if newest is None else newest.origin.run or None
        return await self._undo(Last() if target is None else ById(id=target), preview=preview, redo=redo)

    async def undo_all(self, ids: Collection[str], *, preview: bool = False) -> UndoReport | None:
        """Take back all that some runs and calls changed, keeping later edits; None if they changed nothing.

        Raises:
            ToolError: later changes touch the same lines; nothing was changed.
        """
        what = ByOrigin(ids=frozenset(ids))
        found = await self._undo(what, preview=True) if ids else None
        if found is None or not found.entries:
            return None
        return found if preview else await self._undo(what)

    async def session_changes(self, session: str) -> list[Change]:
        """What a session has changed in files and not undone, as one change a file: before it, and now."""
        report = await self._undo(ByOrigin(session=session), preview=True)
        return [_reversed(change) for change in report.changes.changes]

    async def _undo(self, what: UndoTarget, *, preview: bool = False, redo: bool = False) -> UndoReport:
        runtime = self._runtime
        repository = repository_of(runtime.workspace)
        beside = [memory_folder(runtime.paths.state, runtime.workspace)]
        files = Workspace(
            runtime.workspace, journal=self._journal(), full_access=runtime.policy.mode == "full",
            home=runtime.paths.home, allowed_dirs=runtime.config.allowed_dirs,
            restored_dirs=[p for p in beside if p.is_dir()] + ([] if repository is None else [repository.common]),
        )  # fmt: skip
        try:
            return await files.undo(what, preview=preview, redo=redo)
        finally:
            files.close()

    async def entries(self, *, everywhere: bool = False) -> list[UndoEntry]:
        """What the journal has of this workspace, or of all, newest first."""
        journal = self._journal()
        holds = journal.active()
        workspace = str(self._runtime.workspace.resolve())
        return [
            UndoEntry(entry=entry, holds=holds[entry.id])
            for entry in reversed(journal.entries())
            if everywhere or entry.workspace == workspace
        ]

    def _journal(self) -> Journal:
        return Journal(self._runtime.paths.state / "journal")


def _reversed(change: Change) -> Change:
    """What happened, from what would take it back."""
    kind = "create" if change.kind == "delete" else "delete" if change.kind == "create" else change.kind
    return replace(
        change, kind=kind, before=change.after, after=change.before,
        diff=unified(change.path, change.after, change.before, mode=change.mode),
    )  # fmt: skip
