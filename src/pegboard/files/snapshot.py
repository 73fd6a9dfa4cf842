"""Snapshot: what a command changed in the workspace, with the old contents."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import NotFound
from pegboard.files.changes import unified
from pegboard.files.journal import ChangeOrigin, FileRecord, Journal, JournalEntry, sha256
from pegboard.files.openat import FOLDER_FLAGS, READ_FLAGS
from pegboard.files.roots import shown
from pegboard.store.private_file import replace_private


@dataclass(slots=True)
class TreeScan:
    """What is there.

    Attributes:
        files: files and links by path.
        dirs: folders and their modes.
        special: devices, FIFOs and sockets, which are not watched, and their modes.
        left_out: ignored folders that are there and were not entered.
        too_many: the rest was not looked at.
    """

    files: dict[str, os.stat_result] = field(default_factory=dict[str, os.stat_result])
    dirs: dict[str, int] = field(default_factory=dict[str, int])
    special: dict[str, int] = field(default_factory=dict[str, int])
    left_out: list[str] = field(default_factory=list[str])
    too_many: bool = False


def survey(root: Path, beside: tuple[Path, ...], ignored: tuple[str, ...], most: int) -> TreeScan:
    """Look by descriptor, no link followed.

    Paths are below `root`; in a folder `beside` it they are absolute.
    """
    tree = TreeScan()
    _survey(root, "", tree, ignored, most)
    for folder in beside:
        with suppress(OSError):  # taken away meanwhile
            _survey(folder, f"{folder}/", tree, ignored, most)
            tree.dirs[str(folder)] = os.lstat(folder).st_mode
    return tree


def _survey(root: Path, prefix: str, tree: TreeScan, ignored: tuple[str, ...], most: int) -> None:
    names = frozenset(entry for entry in ignored if "/" not in entry)
    pairs = frozenset(entry for entry in ignored if "/" in entry)
    pending = [(os.open(root, FOLDER_FLAGS), prefix)]
    try:
        while pending:
            descriptor, prefix = pending.pop()
            try:
                for child, mode in _scan(descriptor, prefix, tree, most):
                    path = prefix + child
                    tail = "/".join(path.rsplit("/", 2)[-2:])
                    if child in names or tail in pairs:
                        tree.left_out.append(path)
                        continue
                    tree.dirs[path] = mode
                    with suppress(OSError):  # unreadable, or replaced by a link meanwhile
                        deeper = os.open(child, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=descriptor)
                        pending.append((deeper, path + "/"))
            finally:
                os.close(descriptor)
            if tree.too_many:
                break
    finally:
        for descriptor, _ in pending:
            os.close(descriptor)


def _scan(fd: int, prefix: str, tree: TreeScan, most: int) -> Iterator[tuple[str, int]]:
    folders: list[tuple[str, int]] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            with suppress(OSError):
                there = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(there.st_mode):
                    folders.append((entry.name, there.st_mode))
                    continue
                if len(tree.files) >= most:
                    tree.too_many = True
                    break
                if stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode):
                    tree.files[prefix + entry.name] = there
                else:
                    tree.special[prefix + entry.name] = stat.S_IFMT(there.st_mode)
    yield from folders


def folders_told(before: TreeScan, now: TreeScan) -> list[str]:
    """Folders whose permissions changed, which no undo brings back: one sentence each."""
    return [
        f"The mode of the folder {shown(path)} was changed from {stat.S_IMODE(mode):o} to "
        f"{stat.S_IMODE(now.dirs[path]):o} and is not undoable."
        for path, mode in before.dirs.items()
        if path in now.dirs and now.dirs[path] != mode
    ]


def special_told(before: TreeScan, now: TreeScan) -> list[str]:
    """Devices, FIFOs and sockets that came or went: one sentence each."""
    nouns = {path: _NOUNS.get(mode, "device") for path, mode in (before.special | now.special).items()}
    return [
        *(_removed(nouns[path], path) for path in before.special if path not in now.special),
        *(_created(nouns[path], path) for path in now.special if path not in before.special),
    ]


def unwatched_told(before: TreeScan, now: TreeScan) -> dict[str, str]:
    """Unwatched folders that came or went, caches left out: a sentence each, by path."""
    was, here = ({*t.left_out, *filter(_holds_objects, t.dirs)} for t in (before, now))
    out = {path: _removed("folder", path) for path in sorted(was - here) if not _holds_objects(path)}
    out |= {path: _created("folder", path) for path in sorted(here - was)}
    return {path: text for path, text in out.items() if path.rpartition("/")[2] not in CACHES}


def _removed(noun: str, path: str) -> str:
    return f"The {noun} {shown(path)} was removed; undo cannot restore it (not tracked)."


def _created(noun: str, path: str) -> str:
    return f"The {noun} {shown(path)} was created; undo will not remove it (not tracked)."


_NOUNS = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}


_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One file or link as it was: `sha256` is empty where its content was not kept."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    sha256: str
    racy: bool

    def same_stat(self, st: os.stat_result) -> bool:
        # The change time cannot be set back by a program, the modification time can.
        return (self.inode, self.size, self.mtime_ns, self.ctime_ns, self.mode) == (
            st.st_ino,
            st.st_size,
            st.st_mtime_ns,
            st.st_ctime_ns,
            st.st_mode,
        )


def index_path(journal: Journal, root: Path) -> Path:
    return journal.snapshots / f"{sha256(os.fsencode(root))[:32]}.json"


def load(path: Path) -> dict[str, IndexEntry]:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        if document["version"] != _VERSION:
            return {}
        return {name: IndexEntry(*row) for name, row in document["files"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def save(path: Path, marks: dict[str, IndexEntry]) -> None:
    rows = {
        name: (m.inode, m.size, m.mtime_ns, m.ctime_ns, m.mode, m.sha256, m.racy) for name, m in marks.items()
    }
    document = {"version": _VERSION, "digests": sorted({m.sha256 for m in marks.values()}), "files": rows}
    replace_private(path, json.dumps(document, separators=(",", ":")), errors="surrogateescape")


CACHES: Final[tuple[str, ...]] = (
    "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".cache", ".tox", ".nox", ".gradle",
)  # fmt: skip
"""Folders that tools make and throw away by themselves: neither watched nor mentioned."""

IGNORED: Final[tuple[str, ...]] = (*CACHES, "node_modules", ".venv", "venv", ".terraform", ".git/lfs")
"""Folders that are made again by a command; a name, or a name below a named parent."""

_OBJECTS: Final = ".git/objects"
"""Git only adds to it: what is new there needs no undo, what is gone or was overwritten does."""


def _is_object(path: str) -> bool:
    return f"/{path}".find(f"/{_OBJECTS}/") >= 0


def _holds_objects(path: str) -> bool:
    return f"/{path}".endswith(f"/{_OBJECTS}")


_RACY_NS: Final = 20_000_000
"""A file changed so shortly before the snapshot may change again without its times telling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """What a snapshot keeps.

    Attributes:
        max_files: files looked at.
        max_file_bytes: a larger file is watched, not kept.
        max_total_bytes: contents kept for one workspace.
    """

    max_files: int = 200_000
    max_file_bytes: int = 16 * 1024 * 1024
    max_total_bytes: int = 512 * 1024 * 1024

    def of_file(self, path: str) -> int:
        """The limit of one file: of a loose object only the total counts, since it may be the only copy."""
        loose = _is_object(path) and "/pack/" not in path
        return self.max_total_bytes if loose else self.max_file_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDiff:
    """What changed since the snapshot.

    Attributes:
        changes: captured changes, in path order.
        missed: what changed and cannot be undone, one sentence each.
        unwatched: unwatched folders that came or went, a sentence each by path.
        made_dirs: folders that are new, parents first.
        removed_dirs: folders that are gone, parents first, with their modes.
        files: the same changes as journal records.
    """

    changes: ChangeSet
    missed: tuple[str, ...] = ()
    unwatched: Mapping[str, str] = field(default_factory=dict[str, str])
    made_dirs: tuple[str, ...] = ()
    removed_dirs: tuple[tuple[str, int], ...] = ()
    files: tuple[FileRecord, ...] = ()

    def record(self, journal: Journal, root: Path, origin: ChangeOrigin) -> JournalEntry | None:
        """Put the changes into the journal as an exec's entry; None where nothing changed."""
        missed = (*self.missed, *self.unwatched.values())
        if not (self.files or missed or self.made_dirs or self.removed_dirs):
            return None
        with journal.lock():
            entry = journal.new_entry(
                "exec",
                os.path.realpath(root),
                origin,
                self.files,
                made_dirs=self.made_dirs,
                removed_dirs=self.removed_dirs,
                missed=missed,
            )
            journal.append(entry)
            return entry


class TreeSnapshot:
    """The workspace's files as they were at one moment.

    Use `take`; the contents lie in the journal's store and are shared between snapshots.
    """

    def __init__(
        self,
        root: Path,
        beside: tuple[Path, ...],
        others: Callable[[str], bool],
        journal: Journal,
        marks: dict[str, IndexEntry],
        tree: TreeScan,
        limits: SnapshotLimits,
        ignored: tuple[str, ...],
    ) -> None:
        self._root = root
        self._beside = beside
        self._others = others
        self._journal = journal
        self._marks = marks
        self._tree = tree
        self._limits = limits
        self._ignored = ignored
        self.left_out = tuple(tree.left_out)
        """Ignored folders that are there and are not watched."""

    @classmethod
    def take(
        cls,
        root: str | os.PathLike[str],
        *,
        journal: Journal,
        beside: tuple[Path, ...] = (),
        others: Callable[[str], bool] = lambda _: False,
        ignored: tuple[str, ...] = IGNORED,
        limits: SnapshotLimits | None = None,
    ) -> TreeSnapshot:
        """Look at every file and keep the contents that the store lacks; blocking.

        The first one reads the whole workspace; later ones only what changed by inode, size,
        times or mode since the last snapshot of this workspace.

        Args:
            root: the workspace.
            journal: where contents go.
            beside: real paths of folders outside that commands may change too; their paths are absolute.
            others: told paths; True for what others change meanwhile, of which only what is gone counts.
            ignored: names of folders, or `parent/name`, that are not looked into.
            limits: what is kept.

        Raises:
            NotFound: `root` is no folder.
        """
        real = Path(os.path.realpath(root))
        if not real.is_dir():
            raise NotFound(f"{shown(str(root))} is not a folder.", hint="Name the workspace.")
        limits = limits or SnapshotLimits()
        with journal.lock():
            known = load(index_path(journal, real))
            moment = journal.wall_ns()
            tree = survey(real, beside, ignored, limits.max_files)
            marks = _mark_all(real, journal, tree, known, limits, moment)
            if marks != known:
                save(index_path(journal, real), marks)
        return cls(real, beside, others, journal, marks, tree, limits, ignored)

    def diff_after(self) -> SnapshotDiff:
        """What is different now; keeps the new contents, so that the next snapshot is short. Blocking."""
        journal, limits = self._journal, self._limits
        with journal.lock():
            moment = journal.wall_ns()
            tree = survey(self._root, self._beside, self._ignored, limits.max_files)
            found = _Found()
            marks: dict[str, IndexEntry] = {}
            for path in sorted(self._marks.keys() | tree.files.keys()):
                self._compare(path, tree.files.get(path), marks, found, moment)
            if marks != self._marks:
                save(index_path(journal, self._root), marks)
        found.missed += _told_hard_links(self._marks, tree, found)
        was = self._tree
        if tree.too_many:
            found.missed.append(
                f"The workspace has over {limits.max_files} files; changes to the rest cannot be undone."
            )
        else:
            # What was not looked at is not gone.
            found.missed += folders_told(was, tree) + special_told(was, tree)
        gone = () if tree.too_many else was.dirs.keys() - tree.dirs.keys()
        made = [path for path in tree.dirs.keys() - was.dirs.keys() if not _is_object(f"{path}/")]
        return SnapshotDiff(
            changes=ChangeSet(tuple(found.changes)),
            missed=tuple(found.missed),
            unwatched={} if tree.too_many else unwatched_told(was, tree),
            made_dirs=tuple(sorted(made, key=_level)),
            removed_dirs=tuple((path, was.dirs[path]) for path in sorted(gone, key=_level)),
            files=tuple(found.files),
        )

    def _compare(
        self,
        path: str,
        st: os.stat_result | None,
        marks: dict[str, IndexEntry],
        found: _Found,
        moment: int,
    ) -> None:
        was = self._marks.get(path)
        if was is not None and st is not None and not was.racy and was.same_stat(st):
            marks[path] = was
            return
        if st is not None and self._others(path):
            if was is not None:
                marks[path] = was  # The next snapshot sees that it is another, and keeps it.
            return
        data: bytes | None = None
        if st is not None and was is None and _is_object(path):
            marks[path] = _mark(st, "", moment)
            return
        if st is not None:
            keep = st.st_size <= self._limits.of_file(path) and found.bytes < self._limits.max_total_bytes
            data = read_below(self._root, path, st) if keep else None
            marks[path] = _mark(st, "" if data is None else sha256(data), moment)
        digest = None if st is None else marks[path].sha256
        if was is not None and st is not None and digest and digest == was.sha256 and was.mode == st.st_mode:
            return
        if was is not None and st is not None and was.same_stat(st) and not (digest and was.sha256):
            return  # contents that were not kept can be told by their times only
        if digest == "" or (was is not None and not was.sha256):
            verb = "removed" if st is None else "created" if was is None else "changed"
            size = max(0 if was is None else was.size, 0 if st is None else st.st_size)
            most = self._limits.of_file(path)
            why = f", it has {size} bytes and the limit is {most}" if size > most else ""
            found.missed.append(
                f"{shown(path)} was {verb} and cannot be undone: its content was not saved{why}."
            )
            return
        self._capture(path, was, st, data, found)

    def _capture(
        self,
        path: str,
        was: IndexEntry | None,
        st: os.stat_result | None,
        data: bytes | None,
        found: _Found,
    ) -> None:
        blobs = self._journal.blobs
        try:
            before = None if was is None else blobs.get(was.sha256)
        except NotFound:
            found.missed.append(f"{shown(path)} was changed and is not undoable: its old content is gone.")
            return
        digest = None
        if data is not None:
            digest = sha256(data)
            near = (was.sha256, before) if was is not None and before is not None else None
            blobs.put(data, digest, near=near if near is not None and near[0] != digest else None)
            found.bytes += len(data)
        kind = "create" if was is None else "delete" if st is None else "modify"
        after_mode = None if st is None else st.st_mode
        before_mode = None if was is None else was.mode
        if not _is_object(path):
            mode = before_mode if after_mode is None else after_mode
            diff = unified(path, before, data, mode=mode)
            found.changes.append(
                Change(path=path, kind=kind, before=before, after=data, mode=after_mode, diff=diff)
            )
        found.files.append(
            FileRecord(
                path=path,
                kind=kind,
                before=None if was is None else was.sha256,
                after=digest,
                before_mode=before_mode,
                after_mode=after_mode,
            )
        )


def _told_hard_links(was: dict[str, IndexEntry], now: TreeScan, found: _Found) -> list[str]:
    """Files written in place that have names elsewhere: those changed too, and undo does not reach them."""
    inside = Counter((there.st_dev, there.st_ino) for there in now.files.values())
    out: list[str] = []
    for change in found.changes:
        there = now.files.get(change.path)
        if change.kind != "modify" or there is None or there.st_ino != was[change.path].inode:
            continue
        others = there.st_nlink - inside[there.st_dev, there.st_ino]
        if others > 0:
            names = "1 other name" if others == 1 else f"{others} other names"
            out.append(
                f"{shown(change.path)} is a hard link: the same change shows under its {names} outside the workspace,"
                " which undo does not change back."
            )
    return out


def _level(path: str) -> tuple[int, str]:
    return path.count("/"), path


@dataclass(slots=True)
class _Found:
    changes: list[Change] = field(default_factory=list[Change])
    files: list[FileRecord] = field(default_factory=list[FileRecord])
    missed: list[str] = field(default_factory=list[str])
    bytes: int = 0


# ---------------------------------------------------------------------- keeping contents


def _mark_all(
    root: Path,
    journal: Journal,
    tree: TreeScan,
    known: dict[str, IndexEntry],
    limits: SnapshotLimits,
    moment: int,
) -> dict[str, IndexEntry]:
    marks: dict[str, IndexEntry] = {}
    kept = 0
    # Objects last: where the total is used up, the files that are worked on come first.
    for path in sorted(tree.files, key=_is_object):
        there, was = tree.files[path], known.get(path)
        if (
            was is not None
            and was.same_stat(there)
            and not was.racy
            and was.sha256
            and journal.blobs.has(was.sha256)
        ):
            marks[path] = was
            kept += there.st_size
            continue
        digest = ""
        if there.st_size <= limits.of_file(path) and kept + there.st_size <= limits.max_total_bytes:
            digest = _keep(root, path, there, journal)
            kept += there.st_size
        marks[path] = _mark(there, digest, moment)
    return marks


def _mark(st: os.stat_result, digest: str, moment: int) -> IndexEntry:
    racy = max(st.st_ctime_ns, st.st_mtime_ns) >= moment - _RACY_NS
    return IndexEntry(st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_mode, digest, racy)


def _keep(root: Path, path: str, st: os.stat_result, journal: Journal) -> str:
    """The content into the store; its SHA-256, empty where it cannot be read."""
    if stat.S_ISLNK(st.st_mode) or st.st_size < _CLONE_FROM_BYTES:
        data = read_below(root, path, st)
        if data is None:
            return ""
        digest = sha256(data)
        journal.blobs.put(data, digest)
        return digest
    return _clone(root, path, journal)


_CLONE_FROM_BYTES: Final = 1 << 20
_FICLONE: Final = 0x40049409  # linux/fs.h


def _clone(root: Path, path: str, journal: Journal) -> str:
    """A large file by reflink where the file system has it, else copied in pieces.

    Never by hard link: the command may write into the file itself.
    """
    source = _open(root, path)
    if source is None:
        return ""
    try:
        with journal.blobs.temporary() as spare:
            with suppress(OSError):
                fcntl.ioctl(spare.fileno(), _FICLONE, source)
            digest = hashlib.sha256()
            os.lseek(source, 0, os.SEEK_SET)
            cloned = os.fstat(spare.fileno()).st_size > 0
            while piece := os.read(spare.fileno() if cloned else source, 1 << 20):
                digest.update(piece)
                if not cloned:
                    spare.write(piece)
            journal.blobs.adopt(spare, digest.hexdigest())
        return digest.hexdigest()
    finally:
        os.close(source)


def _open(root: Path, path: str) -> int | None:
    """A file below the root, or at an absolute path, no link followed; None where it is gone or unreadable."""
    folder = os.open("/" if path.startswith("/") else root, FOLDER_FLAGS)
    try:
        *parents, name = path.removeprefix("/").split("/")
        for parent in parents:
            deeper = os.open(parent, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = deeper
        return os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)


def read_below(root: Path, path: str, st: os.stat_result) -> bytes | None:
    """The content of a file, or the target of a link, no link followed; None if it is gone or unreadable."""
    if stat.S_ISLNK(st.st_mode):
        with suppress(OSError):
            return os.fsencode(os.readlink(root / path))
        return None
    descriptor = _open(root, path)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
