"""From what is wanted to the exact ChangeSet, changing nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, assert_never

from pegboard.core.context import current_context
from pegboard.core.effects import Change, ChangeSet, Effect
from pegboard.core.errors import Conflict, InvalidArguments, PermissionDenied, TooLarge, Unsupported
from pegboard.files.jail import Jail, PlannedPath
from pegboard.files.journal import HASH_APART_BYTES, sha256
from pegboard.files.openat import READ_FLAGS
from pegboard.files.roots import (
    check_new,
    check_replaceable,
    from_os_error,
    hard_link_warning,
    no_regular_file,
    shown,
)
from pegboard.ports.files import Delete, Move, Wanted, Write
from pegboard.textedit import diff

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file or link: its content (a link's is its target), its stat, and the content's SHA-256 where known."""

    data: bytes
    stat: os.stat_result
    sha256: str | None = None

    @property
    def mode(self) -> int:
        """st_mode with its type."""
        return self.stat.st_mode


@dataclass(frozen=True, slots=True)
class CachedContent:
    """A large content that was read a moment ago, so that it is not in memory twice.

    Whether it is still right is known in the end by `holds`, which compares every byte.
    """

    data: bytes
    stat: os.stat_result
    sha256: str | None = None

    def of(self, st: os.stat_result) -> bytes | None:
        """The content, where the file looks unchanged."""
        then = self.stat
        same = (then.st_dev, then.st_ino, then.st_size, then.st_mtime_ns, then.st_ctime_ns) == (
            st.st_dev,
            st.st_ino,
            st.st_size,
            st.st_mtime_ns,
            st.st_ctime_ns,
        )
        return self.data if same else None


def read_entry(
    dir_fd: int, name: str, path: str, *, limit: int | None = None, recent: CachedContent | None = None
) -> FileContent | None:
    """Read what is there; None where nothing is.

    Args:
        folder, name: the place.
        path: as messages name it.
        limit: bytes of the largest file that is read.
        recent: used instead of reading where it is this very file.

    Raises:
        Unsupported: a folder, device, FIFO or socket.
        TooLarge: over `limit` bytes.
    """
    try:
        there = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISLNK(there.st_mode):
            return FileContent(os.fsencode(os.readlink(name, dir_fd=dir_fd)), there)
        if not stat.S_ISREG(there.st_mode):
            raise no_regular_file(there.st_mode, path)
        descriptor = os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise from_os_error(error, path) from None
    try:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode):
            raise no_regular_file(there.st_mode, path)
        if limit is not None and there.st_size > limit:
            raise TooLarge(
                f"{shown(path)} is {there.st_size} bytes; the limit is {limit}.", hint="Use a smaller file."
            )
        known = None if recent is None else recent.of(there)
        if known is not None:
            return FileContent(known, there, None if recent is None else recent.sha256)
        parts: list[bytes] = []
        # One read asks for one byte more than the size and so needs no second one to see the end.
        while part := os.read(descriptor, max(there.st_size + 1 - sum(map(len, parts)), 1)):
            parts.append(part)
            if len(part) == there.st_size:
                break
        return FileContent(parts[0] if len(parts) == 1 else b"".join(parts), there)
    except OSError as error:
        raise from_os_error(error, path) from None
    finally:
        os.close(descriptor)


def content_equals(dir_fd: int, name: str, expected: bytes | None) -> os.stat_result | bool | None:
    """Whether exactly `expected` is there, read in pieces so that no second copy is in memory.

    Returns:
        False where something else is there; else the file's stat, or None where nothing is there
        and nothing was expected.
    """
    try:
        there = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None if expected is None else False
    if expected is None:
        return False
    try:
        if stat.S_ISLNK(there.st_mode):
            return there if os.fsencode(os.readlink(name, dir_fd=dir_fd)) == expected else False
        if not stat.S_ISREG(there.st_mode) or there.st_size != len(expected):
            return False
        descriptor = os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=dir_fd)
    except OSError:
        return False
    try:
        there = os.fstat(descriptor)
        at = 0
        while part := os.read(descriptor, _CHUNK):
            if part != expected[at : at + len(part)]:
                return False
            at += len(part)
        return there if at == len(expected) else False
    finally:
        os.close(descriptor)


def digest_at(dir_fd: int, name: str) -> tuple[str | None, int | None]:
    """SHA-256 and mode of what is there; `(None, None)` for nothing, `("", mode)` for what has no content."""
    try:
        there = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    if not (stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode)):
        return "", there.st_mode
    seen = read_entry(dir_fd, name, name)
    return (None, None) if seen is None else (sha256(seen.data), seen.mode)


MAX_CHARS: Final = 200_000
"""A longer diff of one file is cut; the change itself is never cut."""


def unified(
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    moved_to: str | None = None,
    mode: int | None = None,
) -> str:
    """The diff of one file; one line for binary content, links and new modes.

    Args:
        path: as shown in the header.
        before, after: whole contents, None where the file is not there.
        moved_to: the new path of a move.
        mode: the new mode; a link's content is its target.
    """
    if before != after and mode is not None and stat.S_ISLNK(mode):
        return f"Symbolic link {shown(path)}: {_link(before)} -> {_link(after)}\n"
    if before == after and moved_to is None:
        return f"mode {shown(path)} => {stat.S_IMODE(mode or 0):o}\n"
    return diff.unified(
        shown(path),
        before,
        after,
        moved_to=None if moved_to is None else shown(moved_to),
        max_chars=MAX_CHARS,
        visible_returns=True,
    )


def _link(target: bytes | None) -> str:
    return "none" if target is None else shown(target.decode("utf-8", "backslashreplace"))


_CHANGING: Final = frozenset({"write", "delete"})
_ANYTHING: Final = frozenset({"exec", "call", "control", "spawn"})
"""Effects of which nobody can say beforehand which files they touch; they were judged as that."""


def refuse_undeclared(changes: ChangeSet) -> None:
    """Let pass what the call that runs here was authorised to change; outside a call, everything.

    Raises:
        PermissionDenied: a file of `changes` lies under no declared write or delete.
    """
    try:
        context = current_context()
    except LookupError:
        return
    effects = context.effects
    if effects is None or any(e.kind in _ANYTHING and not e.read_only for e in effects):
        return
    for change in changes.changes:
        for path in (change.path, change.moved_to):
            if path is not None and not any(_covers(e, path) for e in effects):
                declared = ", ".join(map(str, effects)) or "none"
                raise PermissionDenied(
                    f"{context.tool} tried to change {path}, which is none of its declared effects ({declared})",
                    hint="Nothing was changed. This tool is not made for that; use one that writes.",
                    details={"rule": "declared effects", "decision": "deny"},
                )


def _covers(effect: Effect, path: str) -> bool:
    if effect.kind not in _CHANGING:
        return False
    target = effect.target.rstrip("/")
    return target == path or path.startswith(f"{target}/") or (target == "." and not path.startswith("/"))


@dataclass(slots=True)
class _File:
    """One file between before and after; several wants of one path meet here."""

    target: str
    before: FileContent | None
    after: bytes | None
    mode: int | None = None


@dataclass(slots=True)
class _Draft:
    files: dict[str, _File] = field(default_factory=dict[str, _File])
    moves: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    recent: CachedContent | None = None
    notes: list[str] = field(default_factory=list[str])


Check = Callable[[str, bytes], None]
"""Given target and present content of a file that will be changed; raises Conflict where it is stale."""


def propose(
    jail: Jail,
    wanted: Sequence[Wanted],
    *,
    check: Check | None = None,
    limit: int,
    recent: CachedContent | None = None,
) -> ChangeSet:
    """The ChangeSet that brings about `wanted`, with before-images and diffs.

    Args:
        jail: where the files are.
        wanted: taken one after the other; several of one path become one change.
        check: asked for each file that is there and will be changed.
        limit: bytes of the largest file that is read.
        recent: a content that was read a moment ago.

    Raises:
        Conflict: not the expected content, a target of a move that exists, a new name that a
            neighbour has in another spelling, a file where a folder is needed.
        NotFound, OutsideWorkspace, PermissionDenied, Unsupported, TooLarge, InvalidArguments.
    """
    draft = _Draft(recent=recent)
    for want in wanted:
        match want:
            case Write():
                _write(jail, draft, want, limit)
            case Delete():
                _delete(jail, draft, want, limit)
            case Move():
                _move(jail, draft, want, limit)
            case _:
                assert_never(want)
    _refuse_nested(draft)
    if check is not None:
        for file in draft.files.values():
            if file.before is not None and not stat.S_ISLNK(file.before.mode):
                check(file.target, file.before.data)
    return ChangeSet(tuple(_changes(draft)), note=" ".join(draft.notes))


def _open(
    jail: Jail, draft: _Draft, parent: PlannedPath, path: str, limit: int, *, new: bool, leaving: str = ""
) -> _File:
    """The draft's file at a place; read from the disk the first time.

    `leaving` is a neighbour's name that goes with the same change: a rename may change its case.
    """
    known = draft.files.get(parent.target)
    if known is not None:
        return known
    seen = (
        None
        if parent.missing
        else read_entry(parent.folder, parent.name, path, limit=limit, recent=draft.recent)
    )
    if seen is None and new:
        names: list[str] = []
        if not parent.missing:
            folder = os.path.dirname(parent.path)
            if folder not in draft.names:
                draft.names[folder] = os.listdir(parent.folder)
            names = [name for name in draft.names[folder] if name != leaving]
        for name in (*parent.missing, parent.name):
            check_new(parent.folder, name, path, names)
            names = []
    file = _File(parent.target, seen, None if seen is None else seen.data)
    draft.files[parent.target] = file
    return file


def _write(jail: Jail, draft: _Draft, want: Write, limit: int) -> None:
    with jail.find_parent(want.path, "write") as parent:
        file = _open(jail, draft, parent, want.path, limit, new=True)
        if file.before is not None and stat.S_ISREG(file.before.mode):
            check_replaceable(file.before.stat, want.path)
            draft.notes += hard_link_warning(file.target, file.before.stat.st_nlink)
    if want.expected is not None and file.after != want.expected:
        raise _unexpected(want, file, sha256(want.expected))
    if want.expected_sha256 is not None and _digest_of(file.after) != want.expected_sha256.lower():
        raise _unexpected(want, file, want.expected_sha256)
    file.after = want.data
    if want.mode is not None:
        file.mode = want.mode
    elif want.like is not None and file.before is None:
        file.mode = _mode_like(jail, want.like)


def _mode_like(jail: Jail, path: str) -> int | None:
    """The permission bits of a file, None where it is none."""
    with jail.find_parent(path, "read") as parent:
        try:
            there = os.stat(parent.name, dir_fd=parent.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
    return stat.S_IMODE(there.st_mode) if stat.S_ISREG(there.st_mode) else None


def _digest_of(data: bytes | None) -> str | None:
    return None if data is None else sha256(data)


def _unexpected(want: Write, file: _File, expected: str) -> Conflict:
    now = _digest_of(file.after)
    return Conflict(
        f"{shown(want.path)} is not what was expected: its SHA-256 is {now or 'none, for it is not there'}.",
        hint="Read the file again, then redo the edit.",
        details={"path": file.target, "sha256": now, "expected": expected},
    )


def _delete(jail: Jail, draft: _Draft, want: Delete, limit: int) -> None:
    with jail.find_parent(want.path, "delete", follow=False) as parent:
        file = _open(jail, draft, parent, want.path, limit, new=False)
    if file.after is None:
        raise jail.missing(want.path)
    file.after = None


def _move(jail: Jail, draft: _Draft, want: Move, limit: int) -> None:
    with jail.find_parent(want.path, "delete", follow=False) as parent:
        source = _open(jail, draft, parent, want.path, limit, new=False)
        folder, name = os.path.split(parent.path)
    if source.after is None:
        raise jail.missing(want.path)
    is_link = source.before is not None and stat.S_ISLNK(source.before.mode)
    if is_link and want.data is not None:
        raise Unsupported(
            f"{shown(want.path)} is a symbolic link.", hint="Edit and move the file that it leads to."
        )
    with jail.find_parent(want.to, "write", follow=False) as parent:
        if parent.target == source.target:
            source.after = source.after if want.data is None else want.data
            return
        leaving = name if os.path.dirname(parent.path) == folder else ""
        goal = _open(jail, draft, parent, want.to, limit, new=True, leaving=leaving)
    if goal.after is not None:
        raise Conflict(
            f"{shown(want.to)} exists already; {shown(want.path)} was not moved.",
            hint="Delete it first, or choose another name.",
        )
    goal.after = source.after if want.data is None else want.data
    if goal.before is None and source.before is not None:
        goal.mode = source.before.mode
    if source.before is not None and goal.before is None:
        draft.moves[source.target] = goal.target
    source.after = None


def _refuse_nested(draft: _Draft) -> None:
    """A file cannot lie below another file."""
    kept = {target for target, file in draft.files.items() if file.after is not None}
    for target in kept:
        parent = target.rpartition("/")[0]
        while parent:
            if parent in kept:
                raise InvalidArguments(
                    f"{shown(target)} would lie below the file {shown(parent)}.", hint="Choose other names."
                )
            parent = parent.rpartition("/")[0]


def _changes(draft: _Draft) -> list[Change]:
    out: list[Change] = []
    arrived = set(draft.moves.values())
    for target, file in draft.files.items():
        before = None if file.before is None else file.before.data
        goal = draft.files.get(draft.moves.get(target, ""))
        if goal is not None and file.after is None and goal.after is not None:
            diff = unified(target, before, goal.after, moved_to=goal.target)
            mode = goal.mode if goal.mode is not None and stat.S_ISLNK(goal.mode) else None
            out.append(
                Change(
                    path=target, kind="move", before=before, after=goal.after,
                    moved_to=goal.target, mode=mode, diff=diff,
                )
            )  # fmt: skip
        elif target in arrived and file.after is not None and _still_moved(draft, target):
            continue
        else:
            out += _plain_change(draft, file, before)
    return out


def _still_moved(draft: _Draft, target: str) -> bool:
    return any(goal == target and draft.files[source].after is None for source, goal in draft.moves.items())


def _plain_change(draft: _Draft, file: _File, before: bytes | None) -> list[Change]:
    if before is None and file.after is None:
        return []
    was = None if file.before is None else file.before.mode
    mode = file.mode
    same_mode = was is not None and (mode is None or stat.S_IMODE(mode) == stat.S_IMODE(was))
    if before == file.after and same_mode:
        draft.notes.append(f"{shown(file.target)} already holds this content.")
        return []
    kind = "create" if before is None else "delete" if file.after is None else "modify"
    look_mode = was if file.after is None else mode
    diff, after_sha256 = _shown_and_hashed(file, before, look_mode)
    return [
        Change(
            path=file.target, kind=kind, before=before, after=file.after,
            mode=mode if file.after is not None else None, diff=diff,
            before_sha256=None if file.before is None else file.before.sha256, after_sha256=after_sha256,
        )
    ]  # fmt: skip


def _shown_and_hashed(file: _File, before: bytes | None, mode: int | None) -> tuple[str, str | None]:
    """The diff, and beside it the hash of a large new content: both let go of the interpreter's lock."""
    after = file.after
    if after is None or len(after) < HASH_APART_BYTES:
        return unified(file.target, before, after, mode=mode), None
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(sha256, after)
        return unified(file.target, before, after, mode=mode), digest.result()
