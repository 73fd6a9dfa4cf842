"""Folders held by descriptor, so that what is done in one is done there whatever becomes of its path.

Another command may swap a folder for a link between our look at a path and our act on it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def pinned(folder: Path, *, make: bool = False) -> Generator[int]:
    """A descriptor of a folder that is reached by no link.

    Args:
        folder: absolute, as `resolve` gives it.
        make: whether missing folders are made.

    Raises:
        OSError: it is not there, or a link stands on the way to it.
    """
    fd = os.open("/", _FOLDER)
    try:
        for part in folder.parts[1:]:
            try:
                inner = os.open(part, _FOLDER, dir_fd=fd)
            except FileNotFoundError:
                if not make:
                    raise
                os.mkdir(part, dir_fd=fd)
                inner = os.open(part, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def move_out(path: Path, target: Path) -> bool:
    """Move a file, folder or link to `target`; False where no folder of that path holds it any more."""
    try:
        with pinned(path.parent) as fd:
            try:
                os.rename(path.name, target, src_dir_fd=fd)
            except OSError as problem:
                if problem.errno != errno.EXDEV:
                    raise
                shutil.move(f"/proc/self/fd/{fd}/{path.name}", target)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as problem:
        if problem.errno != errno.ELOOP:
            raise
        return False
    return True
