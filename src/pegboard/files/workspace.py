"""Workspace: the Files port over a folder, confined by a Jail and journalled."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pegboard.core.context import current_context
from pegboard.core.effects import ChangeSet
from pegboard.core.errors import Conflict, ToolError
from pegboard.core.protected import OURS, PROTECTED, protected_entry
from pegboard.files.changes import CachedContent, propose, refuse_undeclared, unified
from pegboard.files.commit import commit, recover
from pegboard.files.jail import READ_LIMIT_BYTES, Jail, read_descriptor
from pegboard.files.journal import ChangeOrigin, Checkpoint, Journal, JournalEntry, no_checkpoint, sha256
from pegboard.files.openat import Opener
from pegboard.files.roots import Access, as_text, hard_link_note, shown
from pegboard.files.undo import UndoReport, UndoTarget, undo
from pegboard.ports.files import (
    DirectoryListing,
    EntryKind,
    GrepResult,
    ResolvedPath,
    SearchQuery,
    Slice,
    Wanted,
)

if TYPE_CHECKING:
    from pegboard.files.text import LineIndex

_MOST_FILES: Final = 4096
KEEP_BYTES: Final = 64 * 1024  # contents up to this size are kept, to show what changed
_KEEP_TOTAL_BYTES: Final = 16 * 1024 * 1024
_SHOWN_LINES: Final = 30


@dataclass(slots=True)
class ReadFile:
    """One file as a session last saw it.

    Attributes:
        sha256: of the whole file; empty where it was too large to be read whole.
        size, mtime_ns: as they were then.
        shown: the line ranges that were shown, first and last.
        content: the bytes where the file is small.
    """

    sha256: str
    size: int
    mtime_ns: int
    shown: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    content: bytes | None = None


class ReadState:
    """Files that were read, by session and target; bounded, the longest unused go first."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, str], ReadFile] = OrderedDict()
        self._kept_bytes = 0

    def get(self, session: str, target: str) -> ReadFile | None:
        """What the session saw last, None where it saw nothing."""
        return self._files.get((session, target))

    def note(
        self,
        session: str,
        target: str,
        *,
        digest: str,
        size: int,
        mtime_ns: int,
        lines: tuple[int, int] | None = None,
        content: bytes | None = None,
    ) -> None:
        """Remember a read or a change of the session's own."""
        key = session, target
        old = self._files.pop(key, None)
        self._release(old)
        shown_before = (
            old.shown if old is not None and old.sha256 == digest and digest else set[tuple[int, int]]()
        )
        if lines is not None:
            shown_before.add(lines)
        kept = content if content is not None and len(content) <= KEEP_BYTES else None
        if kept is not None and self._kept_bytes + len(kept) > _KEEP_TOTAL_BYTES:
            kept = None
        self._kept_bytes += len(kept or b"")
        self._files[key] = ReadFile(digest, size, mtime_ns, shown_before, kept)
        while len(self._files) > _MOST_FILES:
            self._release(self._files.popitem(last=False)[1])

    def forget(self, session: str, target: str) -> None:
        """The file is gone."""
        self._release(self._files.pop((session, target), None))

    def check(self, session: str, target: str, now: bytes) -> None:
        """Refuse a change to a file that differs from what the session saw.

        Raises:
            Conflict: naming what changed.
        """
        seen = self._files.get((session, target))
        if seen is None:
            return
        if seen.sha256:
            # The digest decides: a file that was only touched holds what was seen.
            if len(now) == seen.size and hashlib.sha256(now).hexdigest() == seen.sha256:
                return
        elif len(now) == seen.size:
            return
        raise Conflict(
            f"{shown(target)} changed since you read it ({seen.size} bytes then, {len(now)} now)."
            + _what_changed(target, seen, now),
            hint="Read it again, then redo the edit.",
            details={"path": target, "size_then": seen.size, "size_now": len(now)},
        )

    def _release(self, file: ReadFile | None) -> None:
        if file is not None and file.content is not None:
            self._kept_bytes -= len(file.content)


def _what_changed(target: str, seen: ReadFile, now: bytes) -> str:
    if seen.content is None:
        return ""
    lines = unified(target, seen.content, now).split("\n")
    # The two header lines only repeat the name.
    body = lines[2:] if lines[0].startswith("--- ") else lines
    more = "\n…" if len(body) > _SHOWN_LINES else ""
    return " What changed:\n" + "\n".join(body[:_SHOWN_LINES]) + more


T = TypeVar("T")

_INLINE_BYTES: Final = 1 << 20
"""Up to this size a read is faster than the way to a thread and back."""


class Workspace:
    """The files of one folder, safe to share between sessions.

    Args:
        root: the workspace; must exist.
        journal: where changes go so that they can be undone; None = no undo.
        allowed_dirs, read_only_dirs, protected, full_access, masked, deny, home, opener: see Jail.
        restored_dirs: folders outside in which undo alone may write: a command may have changed them too.
        asking: a policy asks about each change of a protected file, so that only our own settings are refused.
        read_limit_bytes: largest file that is read or changed as a whole.
        read_state: what sessions have seen; shared where several workspaces serve one session.
        checkpoint: see commit.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        journal: Journal | None = None,
        allowed_dirs: Iterable[str | os.PathLike[str]] = (),
        read_only_dirs: Iterable[str | os.PathLike[str]] = (),
        protected: Iterable[str] = PROTECTED,
        asking: bool = False,
        full_access: bool = False,
        masked: Iterable[str | os.PathLike[str]] = (),
        deny: Callable[[Access, str], str | None] | None = None,
        home: str | os.PathLike[str] | None = None,
        opener: Opener | None = None,
        restored_dirs: Iterable[str | os.PathLike[str]] = (),
        read_limit_bytes: int = READ_LIMIT_BYTES,
        read_state: ReadState | None = None,
        checkpoint: Checkpoint = no_checkpoint,
    ) -> None:
        allowed, read_only, hidden = tuple(allowed_dirs), tuple(read_only_dirs), tuple(masked)

        def jail(names: Iterable[str], more: Sequence[str | os.PathLike[str]] = ()) -> Jail:
            # A folder that undo may restore may lie in one that agents do not see.
            masks = [m for m in hidden if not any(Path(one).is_relative_to(m) for one in more)]
            return Jail(
                root,
                allowed_dirs=(*allowed, *more),
                read_only_dirs=read_only,
                protected=names,
                full_access=full_access,
                masked=masks,
                deny=deny,
                home=home,
                opener=opener,
                read_limit_bytes=read_limit_bytes,
            )

        self.jail = jail(protected)
        # For changes of protected files: every other one is refused where a link leads it there meanwhile.
        self._asked = jail(OURS) if asking else self.jail
        # A command may have changed protected files; a person who undoes it wants them back.
        self._restorer = jail((), tuple(restored_dirs))
        self.journal = journal
        self.read_state = read_state or ReadState()
        self._lines: LineIndex | None = None
        self._recent: CachedContent | None = None
        self._hashing: asyncio.Future[str] | None = None
        self._limit = read_limit_bytes
        self._checkpoint = checkpoint

    @property
    def root(self) -> Path:
        """The workspace's real path."""
        return self.jail.root

    def close(self) -> None:
        """Close the folder's descriptors."""
        self.jail.close()
        self._asked.close()
        self._restorer.close()

    # ------------------------------------------------------------------ the Files port: looking

    async def resolve(self, path: str, *, write: bool = False) -> ResolvedPath:
        """See Files."""
        real = self.jail.locate(path)
        inside = self.jail.inside(real, write=write)
        target = self.jail.target(real)
        try:
            there = os.lstat(real)
        except OSError:
            return ResolvedPath(target=target, exists=False, kind="file", inside=inside)
        return ResolvedPath(
            target=target,
            exists=True,
            kind=_kind(there.st_mode),
            inside=inside,
            size=there.st_size,
            mtime_ns=there.st_mtime_ns,
            notes=hard_link_note(there.st_nlink) if stat.S_ISREG(there.st_mode) else (),
        )

    async def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        """See Files. Not a read that the model saw: it does not count for the read state."""
        descriptor = self.jail.open_read(path)
        most = self._limit if limit is None else limit

        def read() -> bytes:
            try:
                return read_descriptor(descriptor, most, path)
            finally:
                os.close(descriptor)

        there = os.fstat(descriptor)
        self._recent = None
        if there.st_size <= _INLINE_BYTES:
            return read()
        data = await _in_thread(read)
        # An edit of a large file reads it and then proposes: the old content is then in memory once,
        # and its hash, which the journal names it by, is ready by then.
        self._recent = CachedContent(data, there)
        self._hashing = asyncio.get_running_loop().run_in_executor(None, sha256, data)
        return data

    async def read_slice(self, path: str, *, offset: int = 1, limit: int | None = None) -> Slice:
        """See Files; remembers for the session what it has seen."""
        from pegboard.files.text import read_slice

        descriptor = self.jail.open_read(path)
        there = os.fstat(descriptor)

        def read() -> tuple[Slice, bytes | None]:
            try:
                found = read_slice(descriptor, offset=offset, limit=limit, index=self._line_index())
                small = there.st_size <= KEEP_BYTES
                return found, os.pread(descriptor, KEEP_BYTES, 0) if small else None
            finally:
                os.close(descriptor)

        try:
            target = self.jail.target(self.jail.real_path(descriptor, path))
        except ToolError:
            os.close(descriptor)
            raise
        found, content = read() if there.st_size <= _INLINE_BYTES else await _in_thread(read)
        if content is not None and hashlib.sha256(content).hexdigest() != found.sha256:
            content = None  # written to in between
        lines = found.first, found.last
        seen = self.read_state.get(_session(), target)
        if seen is not None and found.sha256 and seen.sha256 == found.sha256 and lines in seen.shown:
            found = replace(found, repeated=True)
        self.read_state.note(
            _session(),
            target,
            digest=found.sha256,
            size=there.st_size,
            mtime_ns=there.st_mtime_ns,
            lines=lines,
            content=content,
        )
        return found

    def _line_index(self) -> LineIndex:
        from pegboard.files.text import LineIndex

        if self._lines is None:
            self._lines = LineIndex()
        return self._lines

    async def list(
        self,
        path: str = ".",
        *,
        pattern: str | None = None,
        depth: int = 1,
        limit: int = 1000,
        hidden: bool = False,
        no_ignore: bool = False,
        ignore_case: bool = False,
        exclude: str | None = None,
    ) -> DirectoryListing:
        """See Files."""
        from pegboard.files.globs import below, glob_files, list_dir

        root, relative, denied = self._place(path)
        if pattern is not None:
            pattern = below(str(root / relative), pattern)
        if pattern is None:
            found = await _in_thread(
                lambda: list_dir(root, relative, depth=depth, limit=limit, denied=denied)
            )
        else:
            found = await _in_thread(
                lambda: glob_files(
                    root,
                    relative,
                    pattern,
                    limit=limit,
                    hidden=hidden,
                    no_ignore=no_ignore,
                    denied=denied,
                    ignore_case=ignore_case,
                    exclude=exclude,
                )
            )
        return _as_text(found)

    async def search(self, query: SearchQuery) -> GrepResult:
        """See Files."""
        from pegboard.files.globs import below
        from pegboard.files.search import search

        if query.text is not None:
            return await _in_thread(lambda: search(self.root, query))
        root, relative, denied = self._place(query.path, folder=False)
        glob = None if query.glob is None else below(str(root / relative), query.glob)
        there = replace(query, path=relative, glob=glob)
        found = await _in_thread(lambda: search(root, there, denied=denied))
        return replace(
            found,
            matches=tuple(
                [m if m.path.isascii() else replace(m, path=as_text(m.path)) for m in found.matches]
            ),
            counts=tuple([(as_text(path), count) for path, count in found.counts]),
            skipped=tuple(map(as_text, found.skipped)),
        )

    def denied(self, target: str) -> bool:
        """Whether a file must be neither opened nor listed."""
        return not self.jail.readable(target)

    def already_shown(self, path: str, *, offset: int, last: int) -> bool:
        """Whether this session was shown these lines and the file is still the same."""
        try:
            target = self.jail.target(self.jail.locate(path))
            seen = self.read_state.get(_session(), target)
            if seen is None or not seen.sha256 or (offset, last) not in seen.shown:
                return False
            return hashlib.sha256(self.jail.read_bytes(path)).hexdigest() == seen.sha256
        except ToolError:
            return False

    def note_read(self, path: str, data: bytes) -> None:
        """The model was shown this file whole in another form (an image, a document)."""
        target = self.jail.target(self.jail.locate(path))
        self.read_state.note(
            _session(),
            target,
            digest=hashlib.sha256(data).hexdigest(),
            size=len(data),
            mtime_ns=0,
            content=data,
        )

    # ------------------------------------------------------------------ the Files port: changing

    async def propose(self, wanted: Sequence[Wanted]) -> ChangeSet:
        """See Files; Conflict also where a file changed since the session read it."""
        session = _session()

        def check(target: str, now: bytes) -> None:
            self.read_state.check(session, target, now)

        recent, self._recent = self._recent, None
        hashing, self._hashing = self._hashing, None
        if recent is not None and hashing is not None:
            recent = replace(recent, sha256=await hashing)
        return await _in_thread(
            lambda: propose(self._asked, wanted, check=check, limit=self._limit, recent=recent)
        )

    async def commit(self, changes: ChangeSet) -> ChangeSet:
        """See Files."""
        refuse_undeclared(changes)
        origin = _origin()
        protected = any(protected_entry(path) for c in changes.changes for path in (c.path, c.moved_to or ""))
        jail = self._asked if protected else self.jail
        await _in_thread(
            lambda: commit(jail, changes, journal=self.journal, origin=origin, checkpoint=self._checkpoint)
        )
        self._note_own(changes)
        return changes

    def _note_own(self, changes: ChangeSet) -> None:
        """The session knows what it wrote itself."""
        session = _session()
        for change in changes.changes:
            if change.after is None or change.moved_to is not None:
                self.read_state.forget(session, change.path)
            if change.after is not None:
                self.read_state.note(
                    session,
                    change.moved_to or change.path,
                    digest=change.after_sha256 or hashlib.sha256(change.after).hexdigest(),
                    size=len(change.after),
                    mtime_ns=0,
                    content=change.after,
                )

    # ------------------------------------------------------------------ journal

    def history(self) -> list[JournalEntry]:
        """Every journalled change of this workspace, oldest first."""
        if self.journal is None:
            return []
        return [entry for entry in self.journal.entries() if entry.workspace == str(self.root)]

    async def undo(
        self, what: UndoTarget, *, preview: bool = False, redo: bool = False, skip_conflicts: bool = False
    ) -> UndoReport:
        """Revert a call, a run or the last change; see undo.undo."""
        origin = _origin()
        return await _in_thread(
            lambda: undo(
                self._restorer,
                self.journal,
                what,
                preview=preview,
                redo=redo,
                skip_conflicts=skip_conflicts,
                origin=origin,
                checkpoint=self._checkpoint,
            )
        )

    def recover(self) -> list[str]:
        """Complete or take back what an ended process left; see commit.recover."""
        if self.journal is None:
            return []
        with self.journal.lock():
            return recover(self._restorer, self.journal)

    # ------------------------------------------------------------------ inside

    def _place(self, path: str, *, folder: bool = True) -> tuple[Path, str, Callable[[str], bool] | None]:
        """Where the walkers start: a root, the rest of the path without links, and what they must leave out."""
        real = self.jail.check_readable(path, folder=folder)
        target = self.jail.target(real)
        root, relative = (self.jail.root, target) if not target.startswith("/") else (Path(target), ".")
        if not folder and relative == "." and not root.is_dir():
            root, relative = root.parent, root.name
        if self.jail.all_readable_below(real):
            return root, relative, None
        return root, relative, lambda below: not self.jail.readable(str(root / below))


def _as_text(found: DirectoryListing) -> DirectoryListing:
    """Names that are no UTF-8 in the spelling that `read_file` takes back."""
    return replace(
        found,
        entries=tuple([e if e.path.isascii() else replace(e, path=as_text(e.path)) for e in found.entries]),
        skipped=tuple(map(as_text, found.skipped)),
    )


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "other"


def _session() -> str:
    try:
        return current_context().session
    except LookupError:
        return ""


def _origin() -> ChangeOrigin:
    try:
        context = current_context()
    except LookupError:
        return ChangeOrigin()
    return ChangeOrigin(call_id=context.call_id, run=context.run, session=context.session, tool=context.tool)


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.to_thread(function)
