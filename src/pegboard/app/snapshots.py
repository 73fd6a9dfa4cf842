"""JournalSnapshots: what a command changed, found by comparing, kept for undo (decisions 19)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pegboard.core.context import current_context
from pegboard.files.journal import ChangeOrigin, Journal
from pegboard.files.snapshot import TreeSnapshot as FilesSnapshot
from pegboard.ports.snapshot import Snapshot, SnapshotChanges


class JournalSnapshots:
    """Snapshots of one workspace; their differences go to the journal as the running call's changes."""

    def __init__(self, root: Path, journal: Journal) -> None:
        self._root = root
        self._journal = journal

    async def take(self) -> Snapshot:
        """See Snapshots."""
        before = await asyncio.to_thread(FilesSnapshot.take, self._root, journal=self._journal)
        return _Taken(before, self._root, self._journal, _origin())


class _Taken:
    def __init__(self, before: FilesSnapshot, root: Path, journal: Journal, origin: ChangeOrigin) -> None:
        self._before = before
        self._root = root
        self._journal = journal
        self._origin = origin

    async def changes(self) -> SnapshotChanges:
        """See Snapshot."""
        return await asyncio.to_thread(self._changes)

    def _changes(self) -> SnapshotChanges:
        diff = self._before.diff_after()
        diff.record(self._journal, self._root, self._origin)
        return SnapshotChanges(changes=diff.changes, not_captured=diff.missed)


def _origin() -> ChangeOrigin:
    try:
        context = current_context()
    except LookupError:
        return ChangeOrigin(tool="exec")
    return ChangeOrigin(call_id=context.call_id, run=context.run, session=context.session, tool="exec")
