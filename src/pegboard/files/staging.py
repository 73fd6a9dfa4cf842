"""Staging: new content in a temporary beside its place, then one rename."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pegboard.files.fsync import sync_folder

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
