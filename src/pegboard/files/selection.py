"""Which entries of the journal an undo or a redo is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pegboard.core.errors import Conflict, NotFound
from pegboard.files.journal import Journal, JournalEntry
from pegboard.files.names import shown


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


UndoTarget: TypeAlias = ByCall | ByRun | Last | ById


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
            held = [e for e in reversed(mine) if holds[e.id] and e.type in ("commit", "exec")]
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
    if not found:
        raise NotFound(
            f"No recorded changes for call or run {shown(id)}.",
            hint="pegboard runs list shows what there is.",
        )
    active = [entry for entry in reversed(found) if holds[entry.id]]
    if not active:
        raise Conflict(f"{shown(id)} is already undone.", hint="Use redo to bring it back.")
    return active


def _select_redo(
    mine: Sequence[JournalEntry], holds: dict[str, bool], what: UndoTarget
) -> list[JournalEntry]:
    undone = [e for e in reversed(mine) if e.type == "undo" and holds[e.id]]
    if not isinstance(what, Last):
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
    return entry.origin.run == id and bool(id) and entry.type in ("commit", "exec")


def _starts(entry: JournalEntry, id: str) -> bool:
    return len(id) >= 4 and (entry.origin.call_id.startswith(id) or entry.id.startswith(id))
