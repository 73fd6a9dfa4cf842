"""Folders that a change removes and makes beside its files: empty ones are seen by no file."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pegboard.core.errors import Conflict, ToolError
from pegboard.files.dirfd_paths import exact
from pegboard.files.jail import Jail
from pegboard.files.names import shown
from pegboard.files.openat import FOLDER_FLAGS


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
    with suppress(Conflict), jail.find_parent(exact(path), "write", follow=False) as aim:
        if not aim.missing:
            with suppress(FileNotFoundError, NotADirectoryError):
                return os.stat(aim.name, dir_fd=aim.folder, follow_symlinks=False).st_mode
    return None


def make_folders(jail: Jail, folders: Sequence[tuple[str, int]]) -> None:
    """Make folders with their modes, parents first.

    Raises:
        Conflict: something else is in a folder's place.
    """
    for path, _ in folders:
        with jail.open_parent(exact(path), "write", make_parents=True, follow=False) as spot:
            try:
                os.mkdir(spot.name, 0o700, dir_fd=spot.folder)
            except FileExistsError:
                there = spot.lstat()
                if there is None or not stat.S_ISDIR(there.st_mode):
                    raise Conflict(
                        f"{shown(path)} was a folder and is none now.", hint="Move it away, then undo."
                    ) from None
    # The modes come last and from below: one may close a folder to ourselves.
    for path, mode in reversed(folders):
        with jail.open_parent(exact(path), "write", follow=False) as spot:
            descriptor = os.open(spot.name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=spot.folder)
            try:
                os.fchmod(descriptor, stat.S_IMODE(mode))
            finally:
                os.close(descriptor)


def remove_empty(jail: Jail, folders: Sequence[str]) -> None:
    """Remove those folders that are empty, the deepest first."""
    for folder in sorted(folders, key=lambda path: -path.count("/")):
        with suppress(ToolError, OSError), jail.open_parent(exact(folder), "delete", follow=False) as spot:
            os.rmdir(spot.name, dir_fd=spot.folder)
