"""What is at a place now: content and mode of a file or link, without following it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from pegboard.core.errors import TooLarge
from pegboard.files.blobs import sha256
from pegboard.files.names import shown
from pegboard.files.openat import READ_FLAGS
from pegboard.files.os_errors import from_os_error, no_regular_file

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file or link: its content (a link's is its target), its stat, and the content's SHA-256 where known."""

    data: bytes
    stat: os.stat_result
    sha256: str | None = None

    @property
    def mode(self) -> int:
        """st_mode with its type."""
        return self.stat.st_mode


@dataclass(frozen=True, slots=True)
class CachedContent:
    """A large content that was read a moment ago, so that it is not in memory twice.

    Whether it is still right is known in the end by `holds`, which compares every byte.
    """

    data: bytes
    stat: os.stat_result
    sha256: str | None = None

    def of(self, st: os.stat_result) -> bytes | None:
        """The content, where the file looks unchanged."""
        then = self.stat
        same = (then.st_dev, then.st_ino, then.st_size, then.st_mtime_ns, then.st_ctime_ns) == (
            st.st_dev,
            st.st_ino,
            st.st_size,
            st.st_mtime_ns,
            st.st_ctime_ns,
        )
        return self.data if same else None


def read_entry(
    dir_fd: int, name: str, path: str, *, limit: int | None = None, recent: CachedContent | None = None
) -> FileContent | None:
    """Read what is there; None where nothing is.

    Args:
        folder, name: the place.
        path: as messages name it.
        limit: bytes of the largest file that is read.
        recent: used instead of reading where it is this very file.

    Raises:
        Unsupported: a folder, device, FIFO or socket.
        TooLarge: over `limit` bytes.
    """
    try:
        there = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        if stat.S_ISLNK(there.st_mode):
            return FileContent(os.fsencode(os.readlink(name, dir_fd=dir_fd)), there)
        if not stat.S_ISREG(there.st_mode):
            raise no_regular_file(there.st_mode, path)
        descriptor = os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise from_os_error(error, path) from None
    try:
        there = os.fstat(descriptor)
        if not stat.S_ISREG(there.st_mode):
            raise no_regular_file(there.st_mode, path)
        if limit is not None and there.st_size > limit:
            raise TooLarge(
                f"{shown(path)} is {there.st_size} bytes; the limit is {limit}.", hint="Use a smaller file."
            )
        known = None if recent is None else recent.of(there)
        if known is not None:
            return FileContent(known, there, None if recent is None else recent.sha256)
        parts: list[bytes] = []
        # One read asks for one byte more than the size and so needs no second one to see the end.
        while part := os.read(descriptor, max(there.st_size + 1 - sum(map(len, parts)), 1)):
            parts.append(part)
            if len(part) == there.st_size:
                break
        return FileContent(parts[0] if len(parts) == 1 else b"".join(parts), there)
    except OSError as error:
        raise from_os_error(error, path) from None
    finally:
        os.close(descriptor)


def content_equals(dir_fd: int, name: str, expected: bytes | None) -> os.stat_result | bool | None:
    """Whether exactly `expected` is there, read in pieces so that no second copy is in memory.

    Returns:
        False where something else is there; else the file's stat, or None where nothing is there
        and nothing was expected.
    """
    try:
        there = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None if expected is None else False
    if expected is None:
        return False
    try:
        if stat.S_ISLNK(there.st_mode):
            return there if os.fsencode(os.readlink(name, dir_fd=dir_fd)) == expected else False
        if not stat.S_ISREG(there.st_mode) or there.st_size != len(expected):
            return False
        descriptor = os.open(name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=dir_fd)
    except OSError:
        return False
    try:
        there = os.fstat(descriptor)
        at = 0
        while part := os.read(descriptor, _CHUNK):
            if part != expected[at : at + len(part)]:
                return False
            at += len(part)
        return there if at == len(expected) else False
    finally:
        os.close(descriptor)


def digest_at(dir_fd: int, name: str) -> tuple[str | None, int | None]:
    """SHA-256 and mode of what is there; `(None, None)` for nothing, `("", mode)` for what has no content."""
    try:
        there = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    if not (stat.S_ISREG(there.st_mode) or stat.S_ISLNK(there.st_mode)):
        return "", there.st_mode
    seen = read_entry(dir_fd, name, name)
    return (None, None) if seen is None else (sha256(seen.data), seen.mode)


def read_descriptor(fd: int, most: int, path: str) -> bytes:
    """A file's bytes from an open descriptor to its end.

    Raises:
        TooLarge: over `most` bytes.
    """
    size = os.fstat(fd).st_size
    if size > most:
        raise TooLarge(
            f"{shown(path)} is {size} bytes; the limit is {most}.",
            hint="Read part of it with offset and limit, or search it with grep.",
            details={"size": size, "limit": most},
        )
    # One byte more than the size: a read that ends there needs no second one to see the end.
    data = os.read(fd, size + 1)
    if len(data) == size and size:
        return data
    parts = [data]
    total = len(data)
    while data:
        if total > most:
            raise TooLarge(
                f"{shown(path)} is over {most} bytes.", hint="Read a part of it.", details={"limit": most}
            )
        data = os.read(fd, min(1 << 20, most - total + 1))
        parts.append(data)
        total += len(data)
    return b"".join(parts)
