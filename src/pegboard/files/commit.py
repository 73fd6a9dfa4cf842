"""Commit: carry out a ChangeSet, all files or none, whatever ends the process; and recovery."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from pegboard.core.effects import Change, ChangeSet
from pegboard.core.errors import Conflict, NotFound, ToolError
from pegboard.files.changes import content_equals, digest_at
from pegboard.files.jail import DirfdPath, Jail, PlannedPath, exact
from pegboard.files.journal import (
    HASH_APART_BYTES,
    LINK_FROM_BYTES,
    Blobs,
    ChangeOrigin,
    Checkpoint,
    EntryType,
    FileRecord,
    Journal,
    JournalEntry,
    no_checkpoint,
    sha256,
)
from pegboard.files.openat import FOLDER_FLAGS
from pegboard.files.roots import Access, from_os_error, shown
from pegboard.files.staging import (
    StagedFile,
    SyncBatch,
    discard,
    place,
    side_by_side,
    stage,
    sync_folder,
    temporary_name,
)

_MOST_FOLDERS: Final = 64


class FolderCache:
    """Places by target, as Jail.find_parent and Jail.open_parent give them, with the last folders kept open.

    Every place is authorised as ever, once for each access; its answer and the way to its folder are
    remembered. For one commit: a folder that is replaced meanwhile is still the one that was checked.
    """

    def __init__(self, jail: Jail) -> None:
        self._jail = jail
        self._folders: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._allowed: set[tuple[str, Access]] = set()

    @contextmanager
    def find_parent(self, target: str, access: Access) -> Generator[PlannedPath]:
        """See Jail.find_parent; links are not followed."""
        held = self._held(target)
        if held is not None:
            yield self._at(held, target, access)
            return
        with self._jail.find_parent(exact(target), access, follow=False) as parent:
            if not parent.missing:
                self._hold(target, parent.folder, parent.path)
            yield parent

    @contextmanager
    def open_parent(self, target: str, access: Access, *, make_parents: bool = False) -> Generator[DirfdPath]:
        """See Jail.open_parent; links are not followed."""
        held = self._held(target)
        if held is not None:
            parent = self._at(held, target, access)
            yield DirfdPath(parent.folder, parent.name, parent.target, parent.path)
            return
        with self._jail.open_parent(exact(target), access, make_parents=make_parents, follow=False) as parent:
            self._hold(target, parent.folder, parent.path)
            yield parent

    def close(self) -> None:
        """Close what is open; it may be used again."""
        while self._folders:
            os.close(self._folders.popitem()[1][0])
        self._allowed.clear()

    def _held(self, target: str) -> tuple[int, str] | None:
        return self._folders.get(target.rpartition("/")[0])

    def _at(self, held: tuple[int, str], target: str, access: Access) -> PlannedPath:
        name = target.rpartition("/")[2]
        path = f"{held[1].rstrip('/')}/{name}"
        if (path, access) not in self._allowed:
            self._jail.authorise(access, path, target)
            self._allowed.add((path, access))
        return PlannedPath(held[0], name, target, path)

    def _hold(self, target: str, dir_fd: int, path: str) -> None:
        while len(self._folders) >= _MOST_FOLDERS:
            os.close(self._folders.popitem(last=False)[1][0])
        self._folders[target.rpartition("/")[0]] = os.dup(dir_fd), os.path.dirname(path)


@dataclass(frozen=True, slots=True)
class Folders:
    """What a commit does to folders.

    Attributes:
        gone: removed where they are empty.
        made: made where they are missing, parents first, with their modes.
    """

    gone: tuple[str, ...] = ()
    made: tuple[tuple[str, int], ...] = ()

    def missing(self, jail: Jail) -> list[str]:
        """Those of `made` that are not there, or where a file is that has to go first."""
        return [path for path, _ in self.made if not stat.S_ISDIR(mode_of(jail, path) or 0)]

    def present(self, jail: Jail) -> tuple[tuple[str, int], ...]:
        """Those of `gone` that are there, with their modes, parents first."""
        found = [(path, mode_of(jail, path)) for path in self.gone]
        return tuple(
            sorted(
                ((path, mode) for path, mode in found if mode is not None and stat.S_ISDIR(mode)),
                key=lambda pair: pair[0].count("/"),
            )
        )

    def remove(self, jail: Jail) -> None:
        """See remove_empty."""
        remove_empty(jail, self.gone)

    def make(self, jail: Jail, ours: Collection[str]) -> None:
        """Make those that are missing; a mode is set on those among `ours`, which the commit made."""
        make_folders(jail, [pair for pair in self.made if pair[0] in ours])


def mode_of(jail: Jail, path: str) -> int | None:
    """st_mode of what lies at a target, None where nothing does."""
    with suppress(Conflict), jail.find_parent(exact(path), "write", follow=False) as parent:
        if not parent.missing:
            with suppress(FileNotFoundError, NotADirectoryError):
                return os.stat(parent.name, dir_fd=parent.folder, follow_symlinks=False).st_mode
    return None


def make_folders(jail: Jail, folders: Sequence[tuple[str, int]]) -> None:
    """Make folders with their modes, parents first.

    Raises:
        Conflict: something else is in a folder's place.
    """
    for path, _ in folders:
        with jail.open_parent(exact(path), "write", make_parents=True, follow=False) as parent:
            try:
                os.mkdir(parent.name, 0o700, dir_fd=parent.folder)
            except FileExistsError:
                there = parent.lstat()
                if there is None or not stat.S_ISDIR(there.st_mode):
                    raise Conflict(
                        f"{shown(path)} was a folder and is none now.", hint="Move it away, then undo."
                    ) from None
    # The modes come last and from below: one may close a folder to ourselves.
    for path, mode in reversed(folders):
        with jail.open_parent(exact(path), "write", follow=False) as parent:
            descriptor = os.open(parent.name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=parent.folder)
            try:
                os.fchmod(descriptor, stat.S_IMODE(mode))
            finally:
                os.close(descriptor)


def remove_empty(jail: Jail, folders: Sequence[str]) -> None:
    """Remove those folders that are empty, the deepest first."""
    for folder in sorted(folders, key=lambda path: -path.count("/")):
        with suppress(ToolError, OSError), jail.open_parent(exact(folder), "delete", follow=False) as parent:
            os.rmdir(parent.name, dir_fd=parent.folder)


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
    with folder_cache.find_parent(change.path, access) as parent:
        if change.before is None and parent.target in freed.above:
            return None
        found = None if parent.missing else content_equals(parent.folder, parent.name, change.before)
        if parent.missing and change.before is not None:
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
    with folder_cache.find_parent(goal, "write") as parent:
        if (
            change.moved_to is not None
            and not parent.missing
            and content_equals(parent.folder, parent.name, None) is not None
        ):
            raise Conflict(f"{shown(goal)} exists already; nothing was changed.", hint="Choose another name.")
        return _missing_dirs(parent)


def _missing_dirs(parent: PlannedPath) -> list[str]:
    parts = parent.target.rsplit("/", len(parent.missing) + 1)
    stem = parts[0] if len(parts) == len(parent.missing) + 2 else None
    out: list[str] = []
    for name in parent.missing:
        stem = name if stem is None else f"{stem}/{name}"
        out.append(stem)
    return out


def recover(jail: Jail, journal: Journal) -> list[str]:
    """Complete or take back what a process that ended in the middle left behind; call it under the lock.

    Returns:
        One sentence for each file that could not be brought back because it was changed since.
    """
    left: list[str] = []
    for entry in journal.intents():
        if entry.workspace != str(jail.root):
            continue
        try:
            left += _recover_one(jail, journal, entry)
        except ToolError as error:
            # The intent stays: the next one to take the lock tries again.
            left.append(
                f"An interrupted change of {shown(entry.files[0].path)} is not taken back yet: {error.message}"
            )
    return left


def _recover_one(jail: Jail, journal: Journal, entry: JournalEntry) -> list[str]:
    # Whether folders have their modes yet is not known from here, so what makes or removes some itself is taken back.
    with_folders = entry.type in ("transaction", "undo", "redo") and (entry.made_dirs or entry.removed_dirs)
    if not with_folders and all(_is_done(jail, file) for file in entry.files):
        _remove_temporaries(jail, entry)
        journal.finish(entry)
        return []
    left = roll_back(jail, entry, journal.blobs.get)
    forget_links(journal.blobs, entry)
    journal.abandon(entry)
    return left


def _is_done(jail: Jail, file: FileRecord) -> bool:
    if file.after is None:
        return _state(jail, file.path)[0] is None
    goal, mode = _state(jail, file.moved_to or file.path)
    if goal != file.after or (
        file.after_mode is not None and mode != file.after_mode and file.before == file.after
    ):
        return False
    return file.moved_to is None or _state(jail, file.path)[0] is None


def _state(jail: Jail, path: str) -> tuple[str | None, int | None]:
    with suppress(Conflict), jail.find_parent(exact(path), "delete", follow=False) as parent:
        return (None, None) if parent.missing else digest_at(parent.folder, parent.name)
    return None, None  # a file lies where a folder would be


def roll_back(jail: Jail, entry: JournalEntry, content: Callable[[str], bytes]) -> list[str]:
    """Bring back what an entry's files were; what was changed since by others is left and named."""
    left: list[str] = []
    _remove_temporaries(jail, entry)
    for file in reversed(entry.files):
        goal = file.moved_to or (file.path if file.before is None else None)
        if goal is not None and file.after is not None:
            left += _take_away(jail, goal, file.after)
    remove_empty(jail, entry.made_dirs)
    for file in reversed(entry.files):
        if file.before is not None:
            left += _bring_back(jail, file, content)
    with suppress(ToolError, OSError):
        make_folders(jail, entry.removed_dirs)
    return left


def _remove_temporaries(jail: Jail, entry: JournalEntry) -> None:
    for file in entry.files:
        if file.temporary:
            with (
                suppress(NotFound, Conflict),
                jail.open_parent(exact(file.moved_to or file.path), "delete", follow=False) as parent,
            ):
                discard(StagedFile(parent.folder, file.temporary))


def _take_away(jail: Jail, path: str, digest: str) -> list[str]:
    with suppress(NotFound, Conflict), jail.open_parent(exact(path), "delete", follow=False) as parent:
        now, _ = digest_at(parent.folder, parent.name)
        if now == digest:
            os.unlink(parent.name, dir_fd=parent.folder)
        elif now:  # a folder that was to make room is none of the entry's files
            return [f"{shown(path)} was changed since and is left as it is."]
    return []


def _bring_back(jail: Jail, file: FileRecord, content: Callable[[str], bytes]) -> list[str]:
    assert file.before is not None
    with jail.open_parent(exact(file.path), "write", make_parents=True, follow=False) as parent:
        now, mode = digest_at(parent.folder, parent.name)
        if now == file.before and mode == file.before_mode:
            return []
        if now not in (None, file.after, file.before):
            return [f"{shown(file.path)} was changed since and is left as it is."]
        staged = stage(parent.folder, content(file.before), like=parent.lstat(), mode=file.before_mode)
        place(staged, parent.folder, parent.name)
    return []


def forget_links(blobs: Blobs, entry: JournalEntry) -> None:
    """A blob that still is a second name of a live file would change with it."""
    for file in entry.files:
        if file.before is not None:
            blobs.unlink_shared(file.before)


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
            with folder_cache.find_parent(change.path, "delete") as parent:
                step.linked = blobs.link(record.before, parent.folder, parent.name)
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
    with folder_cache.open_parent(step.goal, "write", make_parents=True) as parent:
        like = step.there if step.there is not None and stat.S_ISREG(step.there.st_mode) else None
        staged = stage(
            parent.folder, step.change.after, like=like, mode=step.mode, name=step.record.temporary, sync=sync,
            copy_from=parent.name if step.change.kind == "modify" else None,
        )  # fmt: skip
        return staged.descriptor


def _place(work: _Work) -> None:
    folders: dict[str, None] = {}
    alone = len(work.steps) <= _SYNC_ALONE
    for step in work.steps:
        if step.change.after is None:
            continue
        with work.held.open_parent(step.goal, "write") as parent:
            expected = None if step.change.moved_to is not None else step.there
            if not _unchanged(parent.lstat(), expected):
                raise conflict_error(step.change)
            place(StagedFile(parent.folder, step.record.temporary), parent.folder, parent.name, sync=alone)
            folders[os.path.dirname(parent.target)] = None
        work.checkpoint("placed")
    if not alone:
        _sync_folders(work.held, folders)


def _sync_folders(folder_cache: FolderCache, folders: Iterable[str]) -> None:
    for folder in folders:
        with (
            suppress(ToolError, OSError),
            folder_cache.find_parent(f"{folder}/-" if folder else "-", "write") as parent,
        ):
            sync_folder(parent.folder)


def _unchanged(now: os.stat_result | None, then: os.stat_result | None) -> bool:
    if now is None or then is None:
        return now is then
    return (now.st_ino, now.st_size, now.st_mtime_ns) == (then.st_ino, then.st_size, then.st_mtime_ns)


def _remove(work: _Work) -> None:
    folders: dict[str, None] = {}
    for step in work.steps:
        if step.change.kind not in ("delete", "move"):
            continue
        with work.held.open_parent(step.change.path, "delete") as parent:
            if not _unchanged(parent.lstat(), step.there):
                raise conflict_error(step.change)
            os.unlink(parent.name, dir_fd=parent.folder)
            folders[os.path.dirname(parent.target)] = None
        work.checkpoint("removed")
    _sync_folders(work.held, folders)
