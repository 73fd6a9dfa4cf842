"""Held folders: a commit of many files opens each folder once."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pegboard.files.access_rules import Access
from pegboard.files.dirfd_paths import DirfdPath, PlannedPath, exact
from pegboard.files.jail import Jail

_MOST_FOLDERS: Final = 64


class FolderCache:
    """Places by target, as Jail.aim and Jail.spot give them, with the last folders kept open.

    Every place is authorised as ever, once for each access; its answer and the way to its folder are
    remembered. For one commit: a folder that is replaced meanwhile is still the one that was checked.
    """

    def __init__(self, jail: Jail) -> None:
        self._jail = jail
        self._folders: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._allowed: set[tuple[str, Access]] = set()

    @contextmanager
    def find_parent(self, target: str, access: Access) -> Generator[PlannedPath]:
        """See Jail.aim; links are not followed."""
        held = self._held(target)
        if held is not None:
            yield self._at(held, target, access)
            return
        with self._jail.find_parent(exact(target), access, follow=False) as aim:
            if not aim.missing:
                self._hold(target, aim.folder, aim.path)
            yield aim

    @contextmanager
    def open_parent(self, target: str, access: Access, *, make_parents: bool = False) -> Generator[DirfdPath]:
        """See Jail.spot; links are not followed."""
        held = self._held(target)
        if held is not None:
            aim = self._at(held, target, access)
            yield DirfdPath(aim.folder, aim.name, aim.target, aim.path)
            return
        with self._jail.open_parent(exact(target), access, make_parents=make_parents, follow=False) as spot:
            self._hold(target, spot.folder, spot.path)
            yield spot

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
