"""Syncing: many new files made durable at once, before any of them gets its name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

_THREADS: Final = 16
_ALONE: Final = 4
_MOST_OPEN: Final = 128
_QUIET_KIB: Final = 64 * 1024


class SyncBatch:
    """Descriptors of files that were written, synced together by `finish`.

    One `syncfs` for each file system where the system reports its errors (Linux 5.8) and has
    little else to write, or it would wait for a stranger's download; else `fsync` for each, side by side.

    Raises:
        OSError: from `add` and `finish`: something could not be written.
    """

    def __init__(self, *, whole: bool | None = None) -> None:
        self._whole = whole
        self._open: dict[int, int] = {}  # descriptor -> device
        self._devices: set[int] = set()

    def add(self, fd: int) -> None:
        """Take over one descriptor."""
        if self._whole is None:
            self._whole = syncs_whole()
        self._open[fd] = device = os.fstat(fd).st_dev
        if self._whole and device in self._devices:
            del self._open[fd]
            os.close(fd)
        self._devices.add(device)
        if len(self._open) == _MOST_OPEN:
            self.finish()

    def finish(self) -> None:
        """Return when everything that was added is on the disk."""
        try:
            if self._whole:
                for descriptor in self._open:
                    _syncfs(descriptor)
            else:
                side_by_side(self._open, os.fsync)
        finally:
            self.close()

    def close(self) -> None:
        """Give up what is open."""
        while self._open:
            os.close(self._open.popitem()[0])
        self._devices.clear()


def syncs_whole() -> bool:
    """Whether a whole file system is synced in one call, surely and soon."""
    if sys.platform != "linux":
        return False
    # Before Linux 5.8 it returned before the data was known to be written.
    release = os.uname().release.split(".")
    if not all(part.isdigit() for part in release[:2]) or tuple(map(int, release[:2])) < (5, 8):
        return False
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            waiting = sum(int(line.split()[1]) for line in file if line.startswith(("Dirty:", "Writeback:")))
    except (OSError, ValueError, IndexError):
        return False
    return waiting <= _QUIET_KIB


def _syncfs(fd: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syncfs(fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def side_by_side(things: Iterable[T], act: Callable[[T], None]) -> None:
    """Do slow file-system work in threads: the file system then writes its own journal once for many."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(act, things):
            pass


def sync_folder(dir_fd: int) -> None:
    """Sync a folder's names; some file systems cannot, and then a rename is as durable as it gets."""
    with suppress(OSError):
        os.fsync(dir_fd)


def sync_files(paths: Sequence[Path]) -> None:
    """Sync files and folders by name; one that is gone is no loss."""
    if len(paths) <= _ALONE:
        for path in paths:
            _sync_path(path)
    elif paths[0].parent.is_dir() and syncs_whole():
        descriptor = os.open(paths[0].parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _syncfs(descriptor)
        finally:
            os.close(descriptor)
    else:
        side_by_side(paths, _sync_path)


def _sync_path(path: Path) -> None:
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_folder(descriptor)
        finally:
            os.close(descriptor)
