"""Snapshots: the state of the workspace before a command, and what the command changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pegboard.core.effects import NO_CHANGES, Change, ChangeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChanges:
    """What a command changed.

    Attributes:
        changes: the changes, already journalled, so that undo can revert them.
        not_captured: what cannot be undone, one sentence each (`node_modules is ignored`).
    """

    changes: ChangeSet = NO_CHANGES
    not_captured: tuple[str, ...] = ()


class Snapshot(Protocol):
    """The workspace as it was."""

    async def changes(self) -> SnapshotChanges:
        """The differences between then and now; to be called once."""
        ...

    async def made_since(self) -> tuple[Change, ...]:
        """The files that were not there then; nothing is journalled."""
        ...


class Snapshots(Protocol):
    """Takes snapshots of one workspace."""

    async def take(self) -> Snapshot:
        """Remember the workspace as it is."""
        ...
