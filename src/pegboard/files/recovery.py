"""Recovery: complete or take back a commit that was interrupted."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from pegboard.core.errors import Conflict, NotFound, ToolError
from pegboard.files.blobs import Blobs
from pegboard.files.dirfd_paths import exact
from pegboard.files.folders import make_folders, remove_empty
from pegboard.files.inspect import digest_at
from pegboard.files.jail import Jail
from pegboard.files.journal import FileRecord, Journal, JournalEntry
from pegboard.files.names import shown
from pegboard.files.staging import StagedFile, discard, place, stage


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
    # Whether folders have their modes yet is not known from here, so an undo of folders is taken back.
    with_folders = entry.type in ("undo", "redo") and (entry.made_dirs or entry.removed_dirs)
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
    with suppress(Conflict), jail.find_parent(exact(path), "delete", follow=False) as aim:
        return (None, None) if aim.missing else digest_at(aim.folder, aim.name)
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
                jail.open_parent(exact(file.moved_to or file.path), "delete", follow=False) as spot,
            ):
                discard(StagedFile(spot.folder, file.temporary))


def _take_away(jail: Jail, path: str, digest: str) -> list[str]:
    with suppress(NotFound, Conflict), jail.open_parent(exact(path), "delete", follow=False) as spot:
        now, _ = digest_at(spot.folder, spot.name)
        if now == digest:
            os.unlink(spot.name, dir_fd=spot.folder)
        elif now:  # a folder that was to make room is none of the entry's files
            return [f"{shown(path)} was changed since and is left as it is."]
    return []


def _bring_back(jail: Jail, file: FileRecord, content: Callable[[str], bytes]) -> list[str]:
    assert file.before is not None
    with jail.open_parent(exact(file.path), "write", make_parents=True, follow=False) as spot:
        now, mode = digest_at(spot.folder, spot.name)
        if now == file.before and mode == file.before_mode:
            return []
        if now not in (None, file.after, file.before):
            return [f"{shown(file.path)} was changed since and is left as it is."]
        staged = stage(spot.folder, content(file.before), like=spot.lstat(), mode=file.before_mode)
        place(staged, spot.folder, spot.name)
    return []


def forget_links(blobs: Blobs, entry: JournalEntry) -> None:
    """A blob that still is a second name of a live file would change with it."""
    for file in entry.files:
        if file.before is not None:
            blobs.unlink_shared(file.before)
