"""Staged: a copy of a workspace to work in, and what has to change in the workspace so that it is like the copy."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import TooLarge, Unavailable
from pegboard.files.changes import unified
from pegboard.files.journal import sha256
from pegboard.files.roots import shown
from pegboard.files.snapshot import CACHES, TreeScan, read_below, survey

MAX_FILES: Final = 500_000
MAX_BYTES: Final = 512 * 1024 * 1024
"""Old and new contents of one change of a workspace; they are in memory while it is carried out."""
_FICLONE: Final = 0x40049409  # linux/fs.h

Stamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size, modification time in ns and mode of a file."""
Content: TypeAlias = tuple[str, int]
"""SHA-256 and mode of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a copy began with.

    Attributes:
        files: by path, the stamp of the original (None = it came while it was copied), and that of the copy with its
            change time behind it, which no program can set back.
        dirs: folders and their modes.
    """

    files: dict[str, tuple[Stamp | None, tuple[Stamp, int]]]
    dirs: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"files": {k: [o, [*c[0], c[1]]] for k, (o, c) in self.files.items()}, "dirs": self.dirs}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Baseline:
        """From `to_dict`."""
        files = {
            path: (None if there is None else _four(there), (_four(copy), copy[4]))
            for path, (there, copy) in value["files"].items()
        }
        return cls(files=files, dirs=value["dirs"])


@dataclass(slots=True, kw_only=True)
class StagedDiff:
    """What lands in the workspace.

    Attributes:
        changes: of files and links, in path order.
        made_dirs: new folders with their modes, parents first.
        removed_dirs: folders that are gone.
        conflicts: paths that were changed in the workspace too since it was copied.
        notes: what does not land, one sentence each.
    """

    changes: ChangeSet = field(default_factory=ChangeSet)
    made_dirs: tuple[tuple[str, int], ...] = ()
    removed_dirs: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def verified(self, root: Path) -> dict[str, Content]:
        """What the files to be changed hold now, which `difference` has found to be as at the beginning."""
        return {
            c.path: (sha256(c.before), _mode(root / c.path))
            for c in self.changes.changes
            if c.before is not None
        }

    def __bool__(self) -> bool:
        return bool(self.changes.changes or self.made_dirs or self.removed_dirs or self.conflicts)


def copy_tree(root: Path, into: Path) -> Baseline:
    """Copy a workspace; blocking. Files share their blocks where the file system can (reflinks).

    Args:
        root: the workspace.
        into: the folder that is made; its parent must exist.

    Raises:
        TooLarge: it has more than MAX_FILES files.
        Unavailable: a file could not be copied.
    """
    before = survey(root, (), (), MAX_FILES)
    if before.too_many:
        raise TooLarge(
            f"{root} has more than {MAX_FILES} files, too many to copy for a transaction",
            hint="Use a smaller folder as the workspace, or leave --transaction out.",
        )

    def left_out(folder: str, names: list[str]) -> Collection[str]:
        below = os.path.relpath(folder, root)
        prefix = "" if below == "." else f"{below}/"
        return [n for n in names if f"{prefix}{n}" in before.special]

    try:
        shutil.copytree(root, into, symlinks=True, ignore=left_out, copy_function=_clone)
    except shutil.Error as error:
        missed = [(source, why) for source, _, why in error.args[0] if os.path.lexists(source)]
        if missed:
            raise Unavailable(
                f"{missed[0][0]} could not be copied: {missed[0][1]}"
                + (f" (and {len(missed) - 1} more)" if missed[1:] else ""),
                hint="Make it readable or free some space, or leave --transaction out.",
            ) from None
    if os.geteuid() == 0:
        _keep_owners(root, into, before)
    after = survey(into, (), CACHES, MAX_FILES)
    files = {
        path: (_stamp(before.files[path]) if path in before.files else None, (_stamp(st), st.st_ctime_ns))
        for path, st in after.files.items()
    }
    return Baseline(files=files, dirs=after.dirs)


def difference(
    root: Path,
    copy: Path,
    base: Baseline,
    *,
    skip: Collection[str] = (),
    as_before: Collection[str] = (),
    verified: Mapping[str, Content] | None = None,
) -> StagedDiff:
    """What has to change in the workspace so that it is like the copy; blocking, changes nothing.

    Args:
        root, copy, base: the workspace, its copy, and what that began with.
        skip: files that are left as they are.
        as_before: files that say the same in the workspace as at the beginning, whatever their times say.
        verified: what files held when they were known to be as at the beginning: an apply that was taken back after
            a kill gives them other times.

    Raises:
        TooLarge: the contents of what changed are more than MAX_BYTES.
    """
    now = survey(copy, (), CACHES, MAX_FILES)
    if now.too_many:
        raise TooLarge(
            f"the copy {copy} has more than {MAX_FILES} files now; nothing was changed in {root}",
            hint="Remove what is not needed from the copy.",
        )
    out = StagedDiff()
    changes: list[Change] = []
    conflicts: list[str] = []
    total = 0
    for path, ours in _touched(base, now):
        if path in skip:
            continue
        total += 0 if ours is None else ours.st_size
        found = _compare(root, copy, base, path, ours, path in as_before, (verified or {}).get(path))
        if isinstance(found, str):
            conflicts.append(found)
        elif found is not None:
            changes.append(found)
            total += len(found.before or b"")
        if total > MAX_BYTES:
            raise TooLarge(
                f"more than {MAX_BYTES >> 20} MB were changed in {copy}, too much to apply at once; nothing was "
                f"changed in {root}",
                hint="Copy the large files by hand and remove them from the copy.",
            )
    out.changes, out.conflicts = ChangeSet(tuple(changes)), tuple(conflicts)
    out.made_dirs = tuple(
        sorted(
            ((p, m) for p, m in now.dirs.items() if p not in base.dirs and not (root / p).is_dir()),
            key=lambda pair: pair[0].count("/"),
        )
    )
    gone = [p for p in base.dirs.keys() - now.dirs.keys() if stat.S_ISDIR(_mode(root / p))]
    out.removed_dirs = tuple(sorted(gone))
    out.notes = tuple(_notes(base, now))
    return out


def _touched(base: Baseline, now: TreeScan) -> Iterator[tuple[str, os.stat_result | None]]:
    for path in sorted(base.files.keys() | now.files.keys()):
        ours, known = now.files.get(path), base.files.get(path)
        if known is None or ours is None or known[1] != (_stamp(ours), ours.st_ctime_ns):
            yield path, ours


def _compare(
    root: Path,
    copy: Path,
    base: Baseline,
    path: str,
    ours: os.stat_result | None,
    as_before: bool,
    verified: Content | None,
) -> Change | str | None:
    """One file: its change, the path if it is in conflict, None if there is nothing to do."""
    theirs: os.stat_result | None = None
    with suppress(OSError):
        theirs = os.lstat(root / path)
    if theirs is not None and stat.S_ISDIR(theirs.st_mode):
        # It was a folder at the beginning: then its files are deleted, and the new one takes its place.
        theirs = None if path in base.dirs else theirs
        if theirs is not None:
            return path
    before = None if theirs is None else read_below(root, path, theirs)
    after = None if ours is None else read_below(copy, path, ours)
    if (theirs is not None and before is None) or (ours is not None and after is None):
        return path  # Unreadable, or something else by now.
    if before == after and (ours is None or theirs is None or ours.st_mode == theirs.st_mode):
        return None
    known = base.files.get(path)
    unchanged = (None if theirs is None else _stamp(theirs)) == (None if known is None else known[0])
    if theirs is not None and before is not None and verified is not None:
        unchanged = unchanged or verified == (sha256(before), theirs.st_mode)
    if not (unchanged or as_before):
        return path
    kind = "create" if before is None else "delete" if after is None else "modify"
    mode = None if ours is None else ours.st_mode
    shown_mode = mode if mode is not None else None if theirs is None else theirs.st_mode
    diff = unified(path, before, after, mode=shown_mode)
    return Change(path=path, kind=kind, before=before, after=after, mode=mode, diff=diff)


def _notes(base: Baseline, now: TreeScan) -> Iterator[str]:
    for path, mode in now.dirs.items():
        if path in base.dirs and base.dirs[path] != mode:
            yield f"the mode of the folder {shown(path)} stays {stat.S_IMODE(base.dirs[path]):o}"
    for path in now.special:
        yield f"{shown(path)} is not a regular file and is left out"


def _clone(source: str, target: str) -> None:
    """Copy one file with its mode, times and attributes."""
    with open(source, "rb") as read, open(target, "xb") as write, suppress(OSError):
        fcntl.ioctl(write.fileno(), _FICLONE, read.fileno())
        shutil.copystat(source, target)
        return
    shutil.copy2(source, target)


def _keep_owners(root: Path, into: Path, tree: TreeScan) -> None:
    """Root copies files as their owner's: commands may run as that user."""
    for path in ("", *tree.dirs, *tree.files):
        with suppress(OSError):
            owner = os.lstat(root / path)
            if (owner.st_uid, owner.st_gid) != (0, 0):
                os.chown(into / path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _stamp(st: os.stat_result) -> Stamp:
    return st.st_ino, st.st_size, st.st_mtime_ns, st.st_mode


def _four(row: list[int]) -> Stamp:
    return row[0], row[1], row[2], row[3]


def _mode(path: Path) -> int:
    with suppress(OSError):
        return os.lstat(path).st_mode
    return 0
