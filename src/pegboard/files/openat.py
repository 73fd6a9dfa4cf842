"""Opening a path beneath a folder descriptor so that no link swapped in meanwhile leads out.

Two ways with one contract: the kernel's openat2 (Linux 5.6), and a walk in user space that
opens one component at a time without following links. Both behave as RESOLVE_BENEATH does:
a relative link is followed, `..` above the folder and absolute links fail with EXDEV.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import sys
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Final, Protocol

O_PATH: Final[int] = getattr(os, "O_PATH", os.O_RDONLY)
READ_FLAGS: Final[int] = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""For files that a model names: opening a FIFO must not wait, a terminal must not become ours."""
LOOK_FLAGS: Final[int] = O_PATH | os.O_CLOEXEC if O_PATH else READ_FLAGS
"""For learning what and where something is; opens no device where the system can do without."""
FOLDER_FLAGS: Final[int] = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_MAX_LINKS: Final = 40  # as Linux has it (path_resolution(7))
_EAGAIN_TRIES: Final = 64

# linux/openat2.h
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
_SYS_OPENAT2: Final = 437  # the same on every Linux architecture but alpha


class Opener(Protocol):
    """Opens `path` beneath a folder descriptor."""

    def open(self, dir_fd: int, path: str, flags: int, *, links: bool = True) -> int:
        """A descriptor, to be closed by the caller.

        Args:
            folder: descriptor of the folder that must not be left.
            path: relative, `/`-separated; `.` and empty mean the folder itself.
            flags: as for os.open, without O_CREAT.
            links: False refuses every symbolic link on the way, the last one included.

        Raises:
            OSError: EXDEV where the path leaves the folder or meets an absolute link; ELOOP
                for a refused link or more than 40; else as open(2).
        """
        ...


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class KernelOpener:
    """openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS.

    Raises:
        OSError: ENOSYS from the constructor where the kernel or a seccomp filter has no openat2.
    """

    def __init__(self) -> None:
        if sys.platform != "linux" or platform.machine().startswith("alpha"):
            raise OSError(errno.ENOSYS, "openat2 is a Linux system call")
        syscall = ctypes.CDLL(None, use_errno=True).syscall
        syscall.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
        syscall.restype = ctypes.c_long
        self._syscall: Callable[[int, int, bytes, int, int], int] = syscall
        # One immutable struct for each pair of flags: building one costs more than the call.
        self._hows: dict[tuple[int, bool], tuple[_OpenHow, int]] = {}
        here = os.open(".", FOLDER_FLAGS)
        try:
            os.close(self.open(here, ".", FOLDER_FLAGS))
        finally:
            os.close(here)

    def open(self, dir_fd: int, path: str, flags: int, *, links: bool = True) -> int:
        """See Opener."""
        try:
            address = self._hows[flags, links][1]
        except KeyError:
            address = self._how(flags, links)
        name = os.fsencode(path) or b"."
        for _ in range(_EAGAIN_TRIES):
            descriptor = self._syscall(_SYS_OPENAT2, dir_fd, name, address, 24)
            if descriptor >= 0:
                return descriptor
            code = ctypes.get_errno()
            # EAGAIN: a rename elsewhere made the kernel unsure about a `..`; it asks to try again.
            if code not in (errno.EAGAIN, errno.EINTR):
                raise OSError(code, os.strerror(code))
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _how(self, flags: int, links: bool) -> int:
        resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if links else _RESOLVE_NO_SYMLINKS)
        how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
        address = ctypes.addressof(how)
        self._hows[flags, links] = (how, address)
        return address


class WalkOpener:
    """One component at a time by descriptor with O_NOFOLLOW, for systems without openat2."""

    def open(self, dir_fd: int, path: str, flags: int, *, links: bool = True) -> int:
        """See Opener."""
        if path.startswith("/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        ahead = deque(path.split("/"))
        # Folders entered so far; `..` goes back to the one that was passed, never to a new parent.
        trail = [os.dup(dir_fd)]
        followed = 0
        try:
            while ahead:
                name = ahead.popleft()
                if name in ("", "."):
                    continue
                if name == "..":
                    if len(trail) == 1:
                        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                    os.close(trail.pop())
                    continue
                last = not any(part not in ("", ".") for part in ahead)
                descriptor = self._step(trail[-1], name, flags, last, folder_asked=bool(ahead))
                if descriptor is not None and last:
                    return descriptor
                if descriptor is not None:
                    trail.append(descriptor)
                    continue
                followed += 1
                if not links or followed > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = os.readlink(name, dir_fd=trail[-1])
                if target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
                ahead.extendleft(reversed(target.split("/")))
            return os.open(".", flags | os.O_CLOEXEC, dir_fd=trail[-1])
        finally:
            for descriptor in trail:
                os.close(descriptor)

    @staticmethod
    def _step(dir_fd: int, name: str, flags: int, last: bool, *, folder_asked: bool) -> int | None:
        """Open one component; None where it is a symbolic link."""
        wanted = flags if last else O_PATH | os.O_DIRECTORY
        if last and folder_asked:
            wanted |= os.O_DIRECTORY
        try:
            if (
                last
                and flags & O_PATH
                and stat.S_ISLNK(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
            ):
                return None  # O_PATH | O_NOFOLLOW would open the link itself
            return os.open(name, wanted | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
        except OSError as error:
            # Which code O_NOFOLLOW gives for a link differs between systems and with O_DIRECTORY.
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise
            if stat.S_ISLNK(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode):
                return None
            raise


def best_opener(kernel: Callable[[], Opener] = KernelOpener) -> Opener:
    """The kernel's way where it works, else the walk."""
    try:
        return kernel()
    except OSError:
        return WalkOpener()


@cache
def process_opener() -> Opener:
    """The opener of this process: what its kernel takes does not change."""
    return best_opener()


def real_path(fd: int) -> str | None:
    """The path of an open file or folder as the kernel knows it; None where it has none any more.

    Raises:
        OSError: this system cannot tell.
    """
    path = os.readlink(f"/proc/self/fd/{fd}")
    if path.endswith(" (deleted)") and os.fstat(fd).st_nlink == 0:
        return None
    return path
