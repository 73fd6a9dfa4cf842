"""Whether a change set can be carried out: what it needs is as it saw it, and nothing is in the way."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import Conflict
from pegboard.files.dirfd_paths import PlannedPath
from pegboard.files.folder_cache import FolderCache
from pegboard.files.inspect import content_equals
from pegboard.files.names import shown


@dataclass(frozen=True, slots=True)
class FreedPaths:
    """Paths that a change set frees: files that go, and the folders that may go with them or by themselves."""

    gone: frozenset[str]
    above: frozenset[str]

    @classmethod
    def of(cls, changes: ChangeSet, folders: Iterable[str] = ()) -> FreedPaths:
        gone = frozenset(c.path for c in changes.changes if c.kind in ("delete", "move"))
        return cls(gone, frozenset(parent for path in gone for parent in _parents(path)).union(folders))

    def below_a_gone_file(self, path: str) -> str | None:
        """The file that makes room for a folder above `path`."""
        return next((parent for parent in _parents(path) if parent in self.gone), None)


def _parents(path: str) -> list[str]:
    out: list[str] = []
    while path := path.rpartition("/")[0]:
        out.append(path)
    return out


def verify(folder_cache: FolderCache, change: Change, freed: FreedPaths) -> os.stat_result | None:
    if change.before is None and freed.below_a_gone_file(change.path):
        return None
    access = "write" if change.kind in ("create", "modify") else "delete"
    with folder_cache.find_parent(change.path, access) as aim:
        if change.before is None and aim.target in freed.above:
            return None
        found = None if aim.missing else content_equals(aim.folder, aim.name, change.before)
        if aim.missing and change.before is not None:
            found = False
    if found is False or found is True:
        raise conflict_error(change)
    return found


def conflict_error(change: Change) -> Conflict:
    was = "did not exist" if change.before is None else f"held {len(change.before)} bytes"
    return Conflict(
        f"{shown(change.path)} changed before the edit was written (it {was}); nothing was changed.",
        hint="Read it again, then redo the edit.",
        details={"path": change.path},
    )


def verify_goal(folder_cache: FolderCache, change: Change, freed: FreedPaths) -> list[str]:
    """Folders that will be made for a change's goal, parents first."""
    goal = change.moved_to or change.path
    file = freed.below_a_gone_file(goal)
    if file is not None:
        return [
            parent for parent in reversed(_parents(goal)) if parent == file or parent.startswith(file + "/")
        ]
    with folder_cache.find_parent(goal, "write") as aim:
        if (
            change.moved_to is not None
            and not aim.missing
            and content_equals(aim.folder, aim.name, None) is not None
        ):
            raise Conflict(f"{shown(goal)} exists already; nothing was changed.", hint="Choose another name.")
        return _missing_dirs(aim)


def _missing_dirs(aim: PlannedPath) -> list[str]:
    parts = aim.target.rsplit("/", len(aim.missing) + 1)
    stem = parts[0] if len(parts) == len(aim.missing) + 2 else None
    out: list[str] = []
    for name in aim.missing:
        stem = name if stem is None else f"{stem}/{name}"
        out.append(stem)
    return out
