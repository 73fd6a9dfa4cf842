"""Ignore files that are no files: a pipe by the name of `.gitignore`, which whoever opens it waits at."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pegboard.files.ignore import DOT_IGNORES, GIT_IGNORE

_NAMES: Final = frozenset((*DOT_IGNORES, GIT_IGNORE))
_EXCLUDE: Final = ".git/info/exclude"


def special_ignores(dir_fd: int, *, hidden: bool) -> Iterator[bool]:
    """Step by step, whether an ignore file that holds in or below an open folder is a pipe, socket or device.

    Folders above it count too. One step looks at one folder; nothing is opened but folders.

    Args:
        folder: descriptor of the folder.
        hidden: look below hidden folders.
    """
    above = Path(os.path.realpath(f"/proc/self/fd/{dir_fd}")).parents
    yield any(_is_special(f"{parent}/{name}") for parent in above for name in (*_NAMES, _EXCLUDE))
    level = [f"/proc/self/fd/{dir_fd}"]
    while level:
        path = level.pop()
        found, inner = _look(path, hidden)
        yield found
        level += inner


def _look(path: str, hidden: bool) -> tuple[bool, list[str]]:
    """Whether a folder holds such an ignore file, and its subfolders."""
    found = False
    inner: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name == ".git":
                    found = found or _is_special(f"{path}/{_EXCLUDE}")
                elif name in _NAMES:
                    found = found or _is_special(entry.path)
                elif (hidden or not name.startswith(".")) and entry.is_dir(follow_symlinks=False):
                    inner.append(entry.path)
    except OSError:
        return found, inner  # The search itself tells what cannot be read.
    return found, inner


def _is_special(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode  # through a link, as ripgrep opens it
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
