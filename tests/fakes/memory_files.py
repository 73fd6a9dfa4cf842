"""MemoryFiles: reading and changing whole files of the Files port, in a dict."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Sequence

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import Conflict, NotFound, OutsideWorkspace
from pegboard.ports.files import Delete, Move, Resolved, Wanted, Write
from pegboard.textedit.diff import unified


class MemoryFiles(dict[str, bytes]):
    """Files by path; `commits` are the change sets that were carried out."""

    def __init__(self, files: dict[str, str | bytes] | None = None) -> None:
        super().__init__({k: v.encode() if isinstance(v, str) else v for k, v in (files or {}).items()})
        self.commits: list[ChangeSet] = []

    def _at(self, path: str) -> str:
        target = posixpath.normpath(path)
        if target.startswith(("..", "/")):
            raise OutsideWorkspace(f"Path {path} outside allowed directory")
        return target

    async def resolve(self, path: str, *, write: bool = False) -> Resolved:
        target = posixpath.normpath(path)
        return Resolved(
            target=target, exists=target in self, kind="file", inside=not target.startswith(("..", "/"))
        )

    async def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        try:
            return self[self._at(path)]
        except KeyError:
            raise NotFound(f"File not found: {path}") from None

    async def propose(self, wanted: Sequence[Wanted]) -> ChangeSet:
        changes: list[Change] = []
        for want in wanted:
            path = self._at(want.path)
            before = self.get(path)
            match want:
                case Write(data=data, expected_sha256=expected):
                    if expected is not None and hashlib.sha256(before or b"").hexdigest() != expected:
                        raise Conflict(f"{path} changed")
                    if data == before:
                        continue
                    kind = "create" if before is None else "modify"
                    changes.append(
                        Change(
                            path=path,
                            kind=kind,
                            before=before,
                            after=data,
                            mode=want.mode,
                            diff=unified(path, before, data),
                        )
                    )
                case Delete():
                    if before is None:
                        raise NotFound(f"File not found: {path}")
                    changes.append(
                        Change(
                            path=path,
                            kind="delete",
                            before=before,
                            after=None,
                            diff=unified(path, before, None),
                        )
                    )
                case Move(to=to, data=data):
                    after = before if data is None else data
                    changes.append(
                        Change(
                            path=path,
                            kind="move",
                            before=before,
                            after=after,
                            moved_to=to,
                            diff=unified(path, before, after, moved_to=to),
                        )
                    )
        return ChangeSet(tuple(changes))

    async def commit(self, changes: ChangeSet) -> ChangeSet:
        for change in changes.changes:
            if self.get(change.path) != change.before:
                raise Conflict(f"{change.path} is no longer as it was")
        for change in changes.changes:
            if change.kind in ("delete", "move"):
                del self[change.path]
            if change.after is not None:
                self[change.moved_to or change.path] = change.after
        self.commits.append(changes)
        return changes
