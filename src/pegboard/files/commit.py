"""Commit: carry out a ChangeSet, all files or none, whatever ends the process (issue 4, 3).

The way: verify every file, keep old and new contents, write the intent, stage the new contents
beside their places, rename, remove, and turn the intent into an entry by one rename. Whoever
next holds the journal's lock finds an intent that was left and completes or takes it back.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import ToolError
from pegboard.files.blobs import HASH_APART_BYTES, LINK_FROM_BYTES, Blobs, sha256
from pegboard.files.folder_cache import FolderCache
from pegboard.files.folders import Folders
from pegboard.files.fsync import SyncBatch, side_by_side, sync_folder
from pegboard.files.jail import Jail
from pegboard.files.journal import (
    ChangeOrigin,
    Checkpoint,
    EntryType,
    FileRecord,
    Journal,
    JournalEntry,
    no_checkpoint,
)
from pegboard.files.os_errors import from_os_error
from pegboard.files.preconditions import FreedPaths, conflict_error, verify, verify_goal
from pegboard.files.recovery import forget_links, recover, roll_back
from pegboard.files.staging import StagedFile, place, stage, temporary_name

_SYNC_ALONE: Final = 4  # up to so many files are synced one after the other


@dataclass(slots=True)
class _Step:
    """One change on its way."""

    change: Change
    there: os.stat_result | None
    record: FileRecord
    linked: bool = False

    @property
    def goal(self) -> str:
        return self.change.moved_to or self.change.path

    @property
    def mode(self) -> int | None:
        """What the staged file gets; a link that is modified without a mode stays a link."""
        if self.change.mode is None and self.there is not None and stat.S_ISLNK(self.there.st_mode):
            return self.there.st_mode
        return self.change.mode


@dataclass(slots=True)
class _Work:
    jail: Jail
    journal: Journal | None
    checkpoint: Checkpoint
    steps: list[_Step]
    entry: JournalEntry
    held: FolderCache
    folders: Folders


def commit(
    jail: Jail,
    changes: ChangeSet,
    *,
    journal: Journal | None = None,
    origin: ChangeOrigin | None = None,
    type: EntryType = "commit",
    undoes: Iterable[str] = (),
    remove_dirs: Sequence[str] = (),
    make_dirs: Sequence[tuple[str, int]] = (),
    checkpoint: Checkpoint = no_checkpoint,
) -> JournalEntry | None:
    """Carry out `changes`; blocking.

    Args:
        jail: where.
        changes: as `propose` or an undo made it; a change whose mode says S_IFLNK makes a link.
        journal: where the entry goes; None = no undo and no safety from crashes.
        origin, type, undoes: for the entry.
        remove_dirs: folders that are removed afterwards where they are empty.
        make_dirs: folders that are made in the end where they are missing, parents first, with modes.
        checkpoint: called at each point where a crash would matter.

    Returns:
        The entry, None without a journal or anything to do.

    Raises:
        Conflict: a file is no longer as the ChangeSet saw it; nothing was changed.
        ToolError: the system refused; nothing was changed.
    """
    if not (changes or remove_dirs or make_dirs):
        return None
    folders = Folders(tuple(remove_dirs), tuple(make_dirs))
    held = FolderCache(jail)
    try:
        return _commit(
            jail, changes, journal, origin or ChangeOrigin(), type, undoes, folders, checkpoint, held
        )
    finally:
        held.close()


def _commit(
    jail: Jail,
    changes: ChangeSet,
    journal: Journal | None,
    origin: ChangeOrigin,
    type: EntryType,
    undoes: Iterable[str],
    folders: Folders,
    checkpoint: Checkpoint,
    folder_cache: FolderCache,
) -> JournalEntry | None:
    if journal is None:
        nowhere = JournalEntry(
            id="", type=type, time=0.0, workspace=str(jail.root), origin=ChangeOrigin(), files=()
        )
        _carry_out(_prepare(jail, None, changes, nowhere, checkpoint, folder_cache, folders))
        return None
    with journal.lock():
        recover(jail, journal)
        entry = journal.new_entry(type, str(jail.root), origin, (), undoes=undoes)
        return _carry_out(_prepare(jail, journal, changes, entry, checkpoint, folder_cache, folders))


# ---------------------------------------------------------------------- before anything changes


def _prepare(
    jail: Jail,
    journal: Journal | None,
    changes: ChangeSet,
    entry: JournalEntry,
    checkpoint: Checkpoint,
    folder_cache: FolderCache,
    folders: Folders,
) -> _Work:
    steps: list[_Step] = []
    made: dict[str, None] = {}
    room = FreedPaths.of(changes, folders.gone)
    digests = _digests(changes)
    for change in changes.changes:
        there = verify(folder_cache, change, room)
        if change.after is not None:
            made.update(dict.fromkeys(verify_goal(folder_cache, change, room)))
        steps.append(_Step(change, there, _record(change, there, digests)))
    made.update(dict.fromkeys(folders.missing(jail)))
    entry = replace(
        entry,
        files=tuple(step.record for step in steps),
        made_dirs=tuple(made),
        removed_dirs=folders.present(jail),
    )
    checkpoint("verified")
    return _Work(jail, journal, checkpoint, steps, entry, folder_cache, folders)


def _digests(changes: ChangeSet) -> dict[int, str]:
    """SHA-256 of every content by its id(); the large ones side by side, for hashing lets go of the lock."""
    contents: dict[int, bytes] = {}
    found: dict[int, str] = {}
    for change in changes.changes:
        for data, digest in ((change.before, change.before_sha256), (change.after, change.after_sha256)):
            if data is not None:
                contents[id(data)] = data
                if digest is not None:
                    found[id(data)] = digest
    large = [data for key, data in contents.items() if len(data) >= HASH_APART_BYTES and key not in found]
    if len(large) > 1:
        side_by_side(large, lambda data: found.__setitem__(id(data), sha256(data)))
    return {key: found.get(key) or sha256(data) for key, data in contents.items()}


def _record(change: Change, st: os.stat_result | None, digests: dict[int, str]) -> FileRecord:
    was = None if st is None else st.st_mode
    after_mode: int | None = None
    if change.after is not None:
        # None for a new file: the umask decides, and `_carry_out` notes what came of it.
        after_mode = change.mode if change.mode is not None else was
        if after_mode is not None and not stat.S_IFMT(after_mode):
            after_mode |= stat.S_IFREG
    return FileRecord(
        path=change.path,
        kind=change.kind,
        before=None if change.before is None else digests[id(change.before)],
        after=None if change.after is None else digests[id(change.after)],
        before_mode=was,
        after_mode=after_mode,
        moved_to=change.moved_to,
        temporary="" if change.after is None else temporary_name(),
    )


def _keep(folder_cache: FolderCache, blobs: Blobs, step: _Step) -> None:
    """Old and new content into the journal; a large old one by a second name for the file itself."""
    change, record, there = step.change, step.record, step.there
    if change.before is not None and record.before is not None and there is not None:
        # Only a file that will be replaced and has no other name becomes ours alone by that.
        if len(change.before) >= LINK_FROM_BYTES and there.st_nlink == 1 and stat.S_ISREG(there.st_mode):
            with folder_cache.find_parent(change.path, "delete") as aim:
                step.linked = blobs.link(record.before, aim.folder, aim.name)
        if not step.linked:
            blobs.put(change.before, record.before)
    if change.after is not None and record.after is not None:
        near = None
        if change.before is not None and record.before is not None and record.before != record.after:
            near = (record.before, change.before)
        blobs.put(change.after, record.after, near=near)


# ---------------------------------------------------------------------- the act


def _carry_out(work: _Work) -> JournalEntry | None:
    try:
        if work.journal is not None:
            _intend(work, work.journal)
        if _flips([step.change for step in work.steps], work.folders):
            # A file takes the place of a folder or the other way round: room must be made first.
            _remove(work)
            work.folders.remove(work.jail)
            work.held.close()
            _stage(work)
            _place(work)
        else:
            _stage(work)
            _place(work)
            _remove(work)
            work.folders.remove(work.jail)
        work.folders.make(work.jail, work.entry.made_dirs)
        work.checkpoint("folders")
    except BaseException as error:
        _take_back(work)
        if isinstance(error, OSError):
            raise from_os_error(error, work.steps[0].change.path if work.steps else ".") from None
        raise
    return None if work.journal is None else _finish(work, work.journal)


def _intend(work: _Work, journal: Journal) -> None:
    """The intent comes first: a second name for a live file must be known to whoever cleans up."""
    journal.begin(work.entry)
    work.checkpoint("intended")
    for step in work.steps:
        _keep(work.held, journal.blobs, step)
        work.checkpoint("kept")
    if len(work.steps) > 1:
        journal.sync(work.entry)
    else:
        # One rename is whole by itself, power or no power; the store may follow later.
        journal.blobs.leave_unsynced()


def _take_back(work: _Work) -> None:
    contents = {step.record.before: step.change.before or b"" for step in work.steps}
    roll_back(work.jail, work.entry, contents.__getitem__)
    if work.journal is not None:
        forget_links(work.journal.blobs, work.entry)
        work.journal.abandon(work.entry)


def _finish(work: _Work, journal: Journal) -> JournalEntry:
    for step in work.steps:
        if step.linked and step.record.before and step.change.before is not None and step.there is not None:
            journal.blobs.detach(step.record.before, step.change.before, step.there)
    work.checkpoint("done")
    journal.finish(work.entry)
    work.checkpoint("finished")
    return work.entry


def _flips(changes: Sequence[Change], folders: Folders) -> bool:
    room = FreedPaths.of(ChangeSet(tuple(changes)), folders.gone)
    goals = [change.moved_to or change.path for change in changes if change.after is not None]
    return any(goal in room.above or room.below_a_gone_file(goal) for goal in goals)


def _stage(work: _Work) -> None:
    puts = [step for step in work.steps if step.change.after is not None]
    alone = len(puts) <= _SYNC_ALONE
    batch = SyncBatch()
    try:
        for step in puts:
            descriptor = _stage_one(work.held, step, sync=alone)
            work.checkpoint("staged")
            if descriptor is not None:
                batch.add(descriptor)
        batch.finish()
    finally:
        batch.close()


def _stage_one(folder_cache: FolderCache, step: _Step, *, sync: bool) -> int | None:
    assert step.change.after is not None
    with folder_cache.open_parent(step.goal, "write", make_parents=True) as spot:
        like = step.there if step.there is not None and stat.S_ISREG(step.there.st_mode) else None
        staged = stage(
            spot.folder, step.change.after, like=like, mode=step.mode, name=step.record.temporary, sync=sync,
            copy_from=spot.name if step.change.kind == "modify" else None,
        )  # fmt: skip
        return staged.descriptor


def _place(work: _Work) -> None:
    folders: dict[str, None] = {}
    alone = len(work.steps) <= _SYNC_ALONE
    for step in work.steps:
        if step.change.after is None:
            continue
        with work.held.open_parent(step.goal, "write") as spot:
            expected = None if step.change.moved_to is not None else step.there
            if not _unchanged(spot.lstat(), expected):
                raise conflict_error(step.change)
            place(StagedFile(spot.folder, step.record.temporary), spot.folder, spot.name, sync=alone)
            folders[os.path.dirname(spot.target)] = None
        work.checkpoint("placed")
    if not alone:
        _sync_folders(work.held, folders)


def _sync_folders(folder_cache: FolderCache, folders: Iterable[str]) -> None:
    for folder in folders:
        with (
            suppress(ToolError, OSError),
            folder_cache.find_parent(f"{folder}/-" if folder else "-", "write") as aim,
        ):
            sync_folder(aim.folder)


def _unchanged(now: os.stat_result | None, then: os.stat_result | None) -> bool:
    if now is None or then is None:
        return now is then
    return (now.st_ino, now.st_size, now.st_mtime_ns) == (then.st_ino, then.st_size, then.st_mtime_ns)


def _remove(work: _Work) -> None:
    folders: dict[str, None] = {}
    for step in work.steps:
        if step.change.kind not in ("delete", "move"):
            continue
        with work.held.open_parent(step.change.path, "delete") as spot:
            if not _unchanged(spot.lstat(), step.there):
                raise conflict_error(step.change)
            os.unlink(spot.name, dir_fd=spot.folder)
            folders[os.path.dirname(spot.target)] = None
        work.checkpoint("removed")
    _sync_folders(work.held, folders)
