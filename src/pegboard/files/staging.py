"""New content in a temporary beside its place, synced, then one rename."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
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


TEMPORARY_PREFIX: Final = ".pegboard-"
TEMPORARY_SUFFIX: Final = ".tmp"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A temporary file that lies in the same folder as its future name.

    `descriptor` is open where the caller has to sync and close it.
    """

    folder: int
    name: str
    descriptor: int | None = None


def temporary_name() -> str:
    """A name that no one guesses; O_EXCL refuses it where someone did."""
    return f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"


def stage(
    dir_fd: int,
    data: bytes,
    *,
    like: os.stat_result | None = None,
    mode: int | None = None,
    name: str | None = None,
    sync: bool = True,
    copy_from: str | None = None,
) -> StagedFile:
    """Write `data` to a temporary in an open folder, synced.

    Args:
        folder: descriptor of the folder.
        data: the content; for a link (`mode` says S_IFLNK) its target.
        like: the file that it will replace: owner and permission bits are kept.
        mode: permission bits that win over `like`; None with no `like` = the umask's default.
        name: of the temporary, made up by default.
        sync: False leaves it to the caller, who gets the open descriptor.
        copy_from: name of the old file in the folder, whose extended attributes are kept.

    Raises:
        OSError: nothing is left behind.
    """
    staged = StagedFile(dir_fd, name or temporary_name())
    if mode is not None and stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(data), staged.name, dir_fd=dir_fd)
        return staged
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Private until its final permissions are known, so that a secret is never readable in between.
    descriptor = os.open(staged.name, flags, 0o666 if like is None and mode is None else 0o600, dir_fd=dir_fd)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if like is not None:
            _keep_owner(descriptor, like)
        if copy_from is not None and like is not None:
            _keep_attributes(descriptor, dir_fd, copy_from)
        if mode is not None or like is not None:
            # Set-user and set-group bits are not carried over: the content is another's now.
            bits = stat.S_IMODE(mode if mode is not None else like.st_mode) & 0o1777  # type: ignore[union-attr]
            os.fchmod(descriptor, bits)
        if sync:
            os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(staged.name, dir_fd=dir_fd)
        raise
    if not sync:
        return StagedFile(dir_fd, staged.name, descriptor)
    os.close(descriptor)
    return staged


def place(staged: StagedFile, dir_fd: int, name: str, *, sync: bool = True) -> None:
    """Give a staged file its name in one step; removes it where that fails.

    Raises:
        OSError: the old content is still there.
    """
    try:
        os.rename(staged.name, name, src_dir_fd=staged.folder, dst_dir_fd=dir_fd)
    except BaseException:
        discard(staged)
        raise
    if sync:
        sync_folder(dir_fd)


def discard(staged: StagedFile) -> None:
    """Remove a temporary, if it is there."""
    with suppress(OSError):
        os.unlink(staged.name, dir_fd=staged.folder)


def _keep_owner(fd: int, like: os.stat_result) -> None:
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) == (like.st_uid, like.st_gid):
        return
    # Only root may give a file away; a member may set the group. What fails stays ours.
    for uid, gid in ((like.st_uid, like.st_gid), (-1, like.st_gid)):
        with suppress(OSError):
            os.fchown(fd, uid, gid)
            return


def _keep_attributes(fd: int, dir_fd: int, name: str) -> None:
    if sys.platform != "linux":
        return
    # By name in the open folder: opening the old file for this would cost more than all the rest.
    source = f"/proc/self/fd/{dir_fd}/{name}"
    with suppress(OSError):
        for attribute in os.listxattr(source, follow_symlinks=False):
            with suppress(OSError):
                os.setxattr(fd, attribute, os.getxattr(source, attribute, follow_symlinks=False))
