"""Survey: every file, link and folder of a workspace, with what the system says of each."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pegboard.files.names import shown
from pegboard.files.openat import FOLDER_FLAGS


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


def survey(root: Path, ignored: tuple[str, ...], most: int) -> TreeScan:
    """Look by descriptor, no link followed."""
    tree = TreeScan()
    names = frozenset(entry for entry in ignored if "/" not in entry)
    pairs = frozenset(entry for entry in ignored if "/" in entry)
    pending = [(os.open(root, FOLDER_FLAGS), "")]
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
    return tree


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


def unwatched_told(before: TreeScan, now: TreeScan) -> list[str]:
    """Ignored folders and special files that came or went: one sentence each."""
    was = {path: "folder" for path in before.left_out} | {
        p: _NOUNS.get(m, "device") for p, m in before.special.items()
    }
    here = {path: "folder" for path in now.left_out} | {
        p: _NOUNS.get(m, "device") for p, m in now.special.items()
    }
    gone = [
        f"The {noun} {shown(path)} was removed; undo cannot restore it (not tracked)."
        for path, noun in was.items()
        if path not in here
    ]
    come = [
        f"The {noun} {shown(path)} was created; undo will not remove it (not tracked)."
        for path, noun in here.items()
        if path not in was
    ]
    return gone + come


_NOUNS = {stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
