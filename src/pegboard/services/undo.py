"""Undo: takes back what calls and runs changed in files."""

from __future__ import annotations

from dataclasses import dataclass

from pegboard.files.journal import Journal, JournalEntry
from pegboard.files.undo import ById, Last, UndoReport
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
        runtime = self._runtime
        repository = repository_of(runtime.workspace)
        files = Workspace(
            runtime.workspace, journal=self._journal(), full_access=runtime.policy.mode == "full",
            home=runtime.paths.home, allowed_dirs=runtime.config.allowed_dirs,
            restored_dirs=() if repository is None else (repository.common,),
        )  # fmt: skip
        try:
            if target == LAST:
                made = (
                    e.entry for e in await self.entries() if e.holds and e.entry.type in ("commit", "exec")
                )
                newest = None if redo else next(made, None)
                target = None if newest is None else newest.origin.run or None
            what = Last() if target is None else ById(id=target)
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
