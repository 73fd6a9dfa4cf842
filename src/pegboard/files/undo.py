"""Undo and redo: revert journalled changes and keep what was changed by hand since."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pegboard.core.effects import NO_CHANGES, Change, ChangeSet
from pegboard.core.errors import Conflict, NotFound, ToolError, Unavailable, Unsupported
from pegboard.files.changes import read_entry, unified
from pegboard.files.commit import FolderCache, commit, mode_of, recover
from pegboard.files.git_index import INDEX, same_index
from pegboard.files.jail import Jail
from pegboard.files.journal import (
    MADE,
    Blobs,
    ChangeOrigin,
    Checkpoint,
    FileRecord,
    Journal,
    JournalEntry,
    no_checkpoint,
    sha256,
)
from pegboard.files.roots import shown
from pegboard.textedit.diff import merge3


@dataclass(frozen=True, slots=True, kw_only=True)
class ByCall:
    """Undo what one call did; `id` is a call id or an entry's id, or the unique start of one."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByRun:
    """Undo what a run did, the newest change first."""

    id: str


@dataclass(frozen=True, slots=True)
class Last:
    """Undo the newest change that still holds.

    A later command of which nothing was captured is no change that an undo could take back: it is
    chosen together with the change before it, so that what stays of it is told.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ById:
    """Undo the call or the run of that id, as the command line takes it."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByOrigin:
    """Undo all that a session did, or all that some runs and calls did, the newest change first.

    Attributes:
        session: its key; empty = any.
        ids: of runs and calls; empty = all of the session's.
    """

    session: str = ""
    ids: frozenset[str] = frozenset()


UndoTarget: TypeAlias = ByCall | ByRun | Last | ById | ByOrigin


def select(journal: Journal, workspace: str, what: UndoTarget, *, redo: bool = False) -> list[JournalEntry]:
    """The entries that an undo reverts, the newest first.

    Raises:
        NotFound, Conflict: see undo.
    """
    holds = journal.active()
    mine = [entry for entry in journal.entries() if entry.workspace == workspace]
    if redo:
        return _select_redo(mine, holds, what)
    match what:
        case Last():
            held = [e for e in reversed(mine) if holds[e.id] and e.type in MADE]
            if not held:
                raise NotFound("Nothing left to undo.", hint="Changes that were undone: use redo.")
            newest = next((i for i, entry in enumerate(held) if _can_be_undone(entry)), len(held) - 1)
            return held[: newest + 1]
        case ByCall(id=id):
            found = [e for e in mine if _is_call(e, id)] or [e for e in mine if _starts(e, id)]
        case ByRun(id=id):
            found = [e for e in mine if _is_run(e, id)]
        case ById(id=id):
            found = [e for e in mine if _is_call(e, id)] or [e for e in mine if _is_run(e, id)]
            found = found or [e for e in mine if _starts(e, id)]
        case ByOrigin():
            return [e for e in reversed(mine) if holds[e.id] and _is_of(e, what)]
    if not found:
        raise NotFound(
            f"No recorded changes for call or run {shown(id)}.",
            hint="pegboard undo --list shows what there is.",
        )
    active = [entry for entry in reversed(found) if holds[entry.id]]
    if not active:
        raise Conflict(f"{shown(id)} is already undone.", hint="Use redo to bring it back.")
    return active


def _select_redo(
    mine: Sequence[JournalEntry], holds: dict[str, bool], what: UndoTarget
) -> list[JournalEntry]:
    undone = [e for e in reversed(mine) if e.type == "undo" and holds[e.id]]
    if isinstance(what, ByOrigin):
        wanted = {e.id for e in mine if _is_of(e, what)}
        undone = [e for e in undone if wanted.intersection(e.undoes)]
    elif not isinstance(what, Last):
        wanted = {e.id for e in mine if _is_call(e, what.id) or _is_run(e, what.id) or _starts(e, what.id)}
        undone = [e for e in undone if e.id in wanted or wanted.intersection(e.undoes)]
    if not undone:
        raise NotFound("There is nothing to redo.", hint="Only what was undone can be redone.")
    return undone[:1]


def _can_be_undone(entry: JournalEntry) -> bool:
    return bool(entry.files or entry.made_dirs or entry.removed_dirs)


def _is_call(entry: JournalEntry, id: str) -> bool:
    return id in (entry.id, entry.origin.call_id) and bool(id)


def _is_run(entry: JournalEntry, id: str) -> bool:
    # The undo of a run is no part of it, though it may be made within one.
    return entry.origin.run == id and bool(id) and entry.type in MADE


def _is_of(entry: JournalEntry, what: ByOrigin) -> bool:
    origin = entry.origin
    return (
        entry.type in MADE
        and what.session in ("", origin.session)
        and (not what.ids or not what.ids.isdisjoint((origin.run, origin.call_id)))
    )


def _starts(entry: JournalEntry, id: str) -> bool:
    return len(id) >= 4 and (entry.origin.call_id.startswith(id) or entry.id.startswith(id))


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoConflict:
    """A file that was changed since in the same place; it is left as it is."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport:
    """What an undo did, or in a preview would do.

    Attributes:
        changes: the file changes.
        entries: ids of the entries that are reverted.
        kept: files whose later changes were merged in.
        unchanged: files that were already as they would be.
        conflicts: files that are left because later changes touch the same or adjacent lines.
        missed: what an exec did that was never captured and is not undone.
        made_dirs: folders that are made again.
        removed_dirs: folders that go where they are empty.
        applied: False in a preview and where there was nothing to do.
        entry: id of the undo's own entry, with which it can be undone itself.
    """

    changes: ChangeSet
    entries: tuple[str, ...]
    kept: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    conflicts: tuple[UndoConflict, ...] = ()
    missed: tuple[str, ...] = ()
    made_dirs: tuple[str, ...] = ()
    removed_dirs: tuple[str, ...] = ()
    applied: bool = False
    entry: str = ""


@dataclass(slots=True)
class _Now:
    """A file as it is and as it will be."""

    before: bytes | None
    before_mode: int | None
    data: bytes | None
    mode: int | None


@dataclass(slots=True)
class _Plan:
    held: FolderCache
    files: dict[str, _Now] = field(default_factory=dict[str, _Now])
    kept: dict[str, None] = field(default_factory=dict[str, None])
    unchanged: dict[str, None] = field(default_factory=dict[str, None])
    conflicts: dict[str, str] = field(default_factory=dict[str, str])
    gone: dict[str, None] = field(default_factory=dict[str, None])
    made: dict[str, int] = field(default_factory=dict[str, int])


def undo(
    jail: Jail,
    journal: Journal | None,
    what: UndoTarget,
    *,
    preview: bool = False,
    redo: bool = False,
    skip_conflicts: bool = False,
    origin: ChangeOrigin | None = None,
    checkpoint: Checkpoint = no_checkpoint,
) -> UndoReport:
    """Revert entries of the journal in this workspace; blocking.

    Args:
        jail: where the files are.
        journal: None is refused.
        what: which entries.
        preview: say what would happen and touch nothing.
        redo: revert an undo instead of a change; `what` then names undone calls or runs.
        skip_conflicts: revert the other files where some conflict.
        origin: whose undo it is.
        checkpoint: see commit.

    Raises:
        NotFound: no such call or run, nothing left to undo, or its contents are pruned.
        Conflict: undone already; or later changes touch the same or adjacent lines (nothing was changed;
            the message shows them; `details["conflicts"]`).
        Unavailable: there is no journal.
    """
    if journal is None:
        raise Unavailable(
            "No undo history is kept for this workspace.",
            hint="Give the workspace a journal to undo changes.",
        )
    with journal.lock():
        recover(jail, journal)
        chosen = select(journal, str(jail.root), what, redo=redo)
        plan = _plan(jail, journal.blobs, chosen)
        report = _report(jail, plan, chosen)
    if preview:
        return report
    if report.conflicts and not skip_conflicts:
        raise _refused(report.conflicts)
    entry = commit(
        jail,
        report.changes,
        journal=journal,
        origin=origin,
        type="redo" if redo else "undo",
        undoes=[entry.id for entry in chosen],
        remove_dirs=report.removed_dirs,
        make_dirs=[(path, plan.made[path]) for path in report.made_dirs],
        checkpoint=checkpoint,
    )
    if entry is None:
        entry = _note_empty(journal, str(jail.root), chosen, origin, redo=redo)
    return replace(report, applied=True, entry=entry.id)


def _note_empty(
    journal: Journal,
    workspace: str,
    chosen: Sequence[JournalEntry],
    origin: ChangeOrigin | None,
    *,
    redo: bool,
) -> JournalEntry:
    """All files were as they would be: the entries count as undone all the same."""
    with journal.lock():
        entry = journal.new_entry(
            "redo" if redo else "undo",
            workspace,
            origin or ChangeOrigin(),
            (),
            undoes=[entry.id for entry in chosen],
        )
        journal.append(entry)
        return entry


# ---------------------------------------------------------------------- what becomes of each file


def _plan(jail: Jail, blobs: Blobs, entries: Sequence[JournalEntry]) -> _Plan:
    plan = _Plan(FolderCache(jail))
    try:
        return _filled(plan, blobs, entries)
    finally:
        plan.held.close()


def _filled(plan: _Plan, blobs: Blobs, entries: Sequence[JournalEntry]) -> _Plan:
    for entry in entries:
        for record in reversed(entry.files):
            _revert(blobs, plan, record)
        for path, mode in entry.removed_dirs:
            plan.made[path] = mode
            plan.gone.pop(path, None)
        for path in entry.made_dirs:
            plan.gone[path] = None
            plan.made.pop(path, None)
    return plan


def _now(plan: _Plan, path: str) -> _Now:
    if path not in plan.files:
        seen = None
        # A folder in the file's place, or a file in its folder's: the commit finds out whether it goes.
        with suppress(Unsupported, Conflict), plan.held.find_parent(path, "write") as parent:
            seen = None if parent.missing else read_entry(parent.folder, parent.name, path)
        if seen is None:
            plan.files[path] = _Now(None, None, None, None)
        else:
            plan.files[path] = _Now(seen.data, seen.mode, seen.data, seen.mode)
    return plan.files[path]


def _revert(blobs: Blobs, plan: _Plan, record: FileRecord) -> None:
    try:
        if record.moved_to is not None:
            _revert_move(blobs, plan, record, record.moved_to)
            return
        now = _now(plan, record.path)
        data, mode = _reverted(blobs, plan, record.path, record, now)
    except Conflict as conflict:
        plan.conflicts[record.path] = conflict.message
    except ToolError as error:
        plan.conflicts[record.path] = error.message
    else:
        now.data, now.mode = data, mode


def _reverted(
    blobs: Blobs, plan: _Plan, path: str, record: FileRecord, now: _Now
) -> tuple[bytes | None, int | None]:
    """Content and mode of `path` without the record's change."""
    digest = _digest(blobs, record, now)
    if digest == record.after:
        before = None if record.before is None else blobs.get(record.before)
        if before is None:
            return None, None
        return before, _mode_back(record, now)
    if digest == record.before and (record.before is None or now.mode == record.before_mode):
        plan.unchanged[path] = None
        return now.data, now.mode
    if now.data is None:
        raise Conflict(f"{shown(path)} was deleted since.")
    if record.after is None:
        raise Conflict(f"{shown(path)} was made again since, with other content.")
    if record.before is None:
        raise Conflict(f"{shown(path)} was changed since it was created; undoing would delete those changes.")
    if now.mode is not None and stat.S_ISLNK(now.mode):
        raise Conflict(f"{shown(path)} is a symbolic link to elsewhere now.")
    merged = merge3(blobs.get(record.after), now.data, blobs.get(record.before))
    if merged.data is None:
        raise Conflict(f"{shown(path)} was changed since in the same place:\n" + "\n".join(merged.conflicts))
    plan.kept[path] = None
    return merged.data, _mode_back(record, now)


def _digest(blobs: Blobs, record: FileRecord, now: _Now) -> str | None:
    """SHA-256 of what the file holds now; of git's index, that of the recorded content that says the same.

    Git writes new times into its index whenever somebody looks, as `git status` does.
    """
    if now.data is None:
        return None
    digest = sha256(now.data)
    if now.data.startswith(INDEX) and digest not in (record.after, record.before):
        for known in (record.after, record.before):
            if known is not None and same_index(now.data, blobs.get(known)):
                return known
    return digest


def _mode_back(record: FileRecord, now: _Now) -> int | None:
    """The old mode, unless someone set another since."""
    if record.after_mode is None or now.mode is None or now.mode == record.after_mode:
        return record.before_mode
    return now.mode


def _revert_move(blobs: Blobs, plan: _Plan, record: FileRecord, moved_to: str) -> None:
    there = _now(plan, moved_to)
    here = _now(plan, record.path)
    if here.data is not None:
        raise Conflict(f"{shown(record.path)} was made again since it was moved away.")
    data, mode = _reverted(blobs, plan, moved_to, record, there)
    here.data, here.mode = data, mode if mode is not None else record.before_mode
    there.data = there.mode = None


# ---------------------------------------------------------------------- the report


def _report(jail: Jail, plan: _Plan, chosen: Sequence[JournalEntry]) -> UndoReport:
    modes: dict[str, int | None] = {}
    for path in (*plan.made, *plan.gone):
        try:
            modes[path] = mode_of(jail, path)
        except ToolError as error:
            modes[path] = None
            if path in plan.made:
                plan.conflicts.setdefault(path, error.message)
    for path in plan.made:
        there = modes[path]
        stays = path not in plan.files or plan.files[path].data is not None
        if there is not None and not stat.S_ISDIR(there) and stays:
            plan.conflicts.setdefault(path, f"{shown(path)} was a folder and is a file now.")
    changes = [
        change
        for path, now in plan.files.items()
        if path not in plan.conflicts and (change := _change(path, now)) is not None
    ]
    missed = dict.fromkeys(text for entry in chosen for text in entry.missed)
    return UndoReport(
        changes=ChangeSet(tuple(changes)) if changes else NO_CHANGES,
        entries=tuple(entry.id for entry in chosen),
        kept=tuple(path for path in plan.kept if path not in plan.conflicts),
        unchanged=tuple(path for path in plan.unchanged if plan.files[path].data == plan.files[path].before),
        conflicts=tuple(UndoConflict(path=path, reason=reason) for path, reason in plan.conflicts.items()),
        missed=tuple(missed),
        made_dirs=tuple(
            path
            for path in sorted(plan.made, key=lambda path: path.count("/"))
            if path not in plan.conflicts and not stat.S_ISDIR(modes[path] or 0)
        ),
        removed_dirs=tuple(path for path in plan.gone if stat.S_ISDIR(modes[path] or 0)),
    )


def _change(path: str, now: _Now) -> Change | None:
    if now.data == now.before and (now.mode == now.before_mode or now.data is None):
        return None
    kind = "create" if now.before is None else "delete" if now.data is None else "modify"
    mode = now.mode if now.data is not None else None
    return Change(
        path=path,
        kind=kind,
        before=now.before,
        after=now.data,
        mode=mode,
        diff=unified(path, now.before, now.data, mode=now.before_mode if now.data is None else now.mode),
    )


def _refused(conflicts: Sequence[UndoConflict]) -> Conflict:
    shown_conflicts = "\n".join(f"- {conflict.reason}" for conflict in conflicts)
    count = "1 file was" if len(conflicts) == 1 else f"{len(conflicts)} files were"
    return Conflict(
        f"{count} changed since then, and undo would overwrite that; nothing was changed:\n{shown_conflicts}",
        hint="Change those places by hand, or undo the other files only.",
        details={"conflicts": [{"path": c.path, "reason": c.reason} for c in conflicts]},
    )
