"""Restorable: whether undo brings back in full what a deletion takes away, whichever tool makes it."""

from __future__ import annotations

import asyncio
import glob
import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pegboard.files.roots import shown
from pegboard.files.snapshot import IGNORED, SnapshotLimits

MOST_FILES: Final = 50
"""Files of a tree that may be deleted without a question."""

REBUILT: Final = frozenset(name for name in IGNORED if "/" not in name) | {
    "build", "dist", "target", ".eggs", ".next", ".nuxt", ".turbo", ".parcel-cache", ".svelte-kit", ".angular",
    "htmlcov",
}  # fmt: skip
"""Names of folders that tools make again by themselves."""

_UNKNOWN: Final = "…"
"""Stands in a target for what is not known before a command runs."""


class Restorable:
    """What undo can restore in a workspace.

    Args:
        root: the workspace's real path.
        limits: what a snapshot keeps.
    """

    def __init__(self, root: Path, limits: SnapshotLimits | None = None) -> None:
        self._root = root
        self._limits = limits or SnapshotLimits()

    async def loss(self, target: str) -> str:
        """Why undo could not restore all of what is deleted; empty where it can.

        Args:
            target: an effect's target: relative to the workspace with `/`, or absolute where outside. May be a
                pattern, or hold `…` for what is not known before the command runs.
        """
        return await asyncio.to_thread(self._loss, target)

    def _loss(self, target: str) -> str:
        if target.startswith("/"):
            return "it is outside the workspace"
        parts = target.split("/")
        if ".git" in parts:
            return "it belongs to the repository's history"
        if not REBUILT.isdisjoint(parts):
            return ""
        files = size = 0
        for path in self._named(target):
            for found, there in _tree(path):
                if posixpath.basename(found) == ".git":
                    return f"{self._shown(found)} belongs to a repository's history"
                if stat.S_ISREG(there.st_mode) and there.st_size > self._limits.max_file_bytes:
                    most = self._limits.max_file_bytes
                    return f"{self._shown(found)} has {there.st_size} bytes; undo keeps files of up to {most}"
                if not (stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode)):
                    return f"{self._shown(found)} is neither a file nor a folder"
                files, size = files + 1, size + there.st_size
                if files > MOST_FILES:
                    return f"it deletes more than {MOST_FILES} files"
        return "it has more bytes than undo keeps" if size > self._limits.max_total_bytes else ""

    def _named(self, target: str) -> Iterator[str]:
        """The paths that a target stands for."""
        path = str(self._root) if target == "." else f"{self._root}/{target}"
        if os.path.lexists(path):
            yield path
        elif _UNKNOWN in target:
            # It may be anything below what is known.
            yield posixpath.dirname(f"{self._root}/{target.partition(_UNKNOWN)[0]}x")
        elif glob.has_magic(target):
            yield from (
                f"{self._root}/{p}" for p in glob.iglob(target, root_dir=self._root, include_hidden=True)
            )

    def _shown(self, path: str) -> str:
        return shown(os.path.relpath(path, self._root))


def _tree(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """What is no folder, of a path and all below it; and each repository's `.git` as a whole.

    Links are not followed, and what tools make again is left out.
    """
    try:
        there = os.lstat(path)
        if not stat.S_ISDIR(there.st_mode) or posixpath.basename(path) == ".git":
            yield path, there
            return
        names = os.listdir(path)
    except OSError:
        # Gone meanwhile, or unreadable: then it cannot be deleted either.
        return
    for name in names:
        if name not in REBUILT:
            yield from _tree(f"{path}/{name}")
