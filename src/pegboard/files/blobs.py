"""File contents by their SHA-256, in a private folder."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

from pegboard.core.errors import NotFound, Unavailable
from pegboard.files.fsync import sync_files
from pegboard.textedit.spans import common_ends

LINK_FROM_BYTES: Final = 256 * 1024
"""From this size on, an old content is kept by a hard link instead of a copy."""
HASH_APART_BYTES: Final = 4 * 1024 * 1024
"""From this size on, a content is hashed in a thread of its own."""
_DELTA_FROM_BYTES: Final = 64 * 1024
_DELTA: Final = ".delta"


def sha256(data: bytes) -> str:
    """Hex digest."""
    return hashlib.sha256(data).hexdigest()


def private_folder(path: Path) -> None:
    """Make a folder for its owner only; parents that are missing are made so too.

    Raises:
        Unavailable: it cannot be made, for example below a read-only HOME.
    """
    if not path.is_dir():
        # mkdir's own `parents` gives the mode to the last one only.
        private_folder(path.parent)
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"the journal's folder {path} cannot be made ({error.strerror}), so the change could not be undone",
                hint="Nothing was changed. Set XDG_STATE_HOME to a folder that may be written.",
            ) from None


class Blobs:
    """A content-addressed folder; files 0600 in folders 0700, every read verified.

    A content that differs little from another is kept as that difference (`HASH.delta`).

    Args:
        folder: made on first use.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.added_bytes = 0
        self._fresh: list[Path] = []
        self._spares: dict[int, Path] = {}

    def put(self, data: bytes, digest: str, *, near: tuple[str, bytes] | None = None) -> None:
        """Keep `data`.

        Args:
            data: the content.
            digest: its SHA-256.
            near: digest and content of a blob kept here already that is probably much like it.
        """
        # By text: a thousand files ask this a thousand times, and a Path costs more than the question.
        if os.path.exists(self._name(digest)):
            return
        path = self._path(digest)
        if near is not None and len(data) >= _DELTA_FROM_BYTES:
            prefix, suffix = common_ends(near[1], data)
            middle = len(data) - prefix - suffix
            if middle < len(data) // 4:
                head = json.dumps({"base": near[0], "prefix": prefix, "suffix": suffix, "size": len(data)})
                tail = data[prefix : prefix + middle]
                self._write(path.with_name(path.name + _DELTA), head.encode() + b"\n" + tail)
                return
        self._write(path, data)

    def link(self, digest: str, dir_fd: int, name: str) -> bool:
        """Keep the content of a file that is about to be replaced, by a second name for it.

        Returns:
            False where it must be copied instead. Where True, `settle` is owed once it was replaced.
        """
        path = self._path(digest)
        if path.exists():
            return False
        private_folder(path.parent)
        try:
            os.link(name, path, src_dir_fd=dir_fd, follow_symlinks=False)
        except OSError:
            return False  # another file system, or a system that forbids linking others' files
        return True

    @contextmanager
    def temporary(self) -> Generator[BinaryIO]:
        """An empty private file beside the blobs, removed unless it is adopted."""
        private_folder(self._folder)
        path = self._folder / f".{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w+b", buffering=0) as file:
                file = cast(BinaryIO, file)
                self._spares[file.fileno()] = path
                yield file
        finally:
            self._spares.pop(descriptor, None)
            path.unlink(missing_ok=True)

    def adopt(self, spare: BinaryIO, digest: str) -> None:
        """Keep what was written into a spare file."""
        path = self._path(digest)
        if not path.exists():
            private_folder(path.parent)
            self._spares[spare.fileno()].rename(path)
            self.added_bytes += os.fstat(spare.fileno()).st_size

    def detach(self, digest: str, data: bytes, seen: os.stat_result) -> None:
        """Make a linked blob private, or copy the content where someone else still has the file."""
        path = self._path(digest)
        now = path.stat()
        if now.st_nlink == 1 and (now.st_size, now.st_mtime_ns) == (seen.st_size, seen.st_mtime_ns):
            path.chmod(0o600)
            with suppress(FileNotFoundError):
                path.with_name(path.name + _DELTA).unlink()
            return
        path.unlink()
        self._write(path, data)

    def unlink_shared(self, digest: str) -> None:
        """Forget a linked blob whose file was not replaced after all."""
        path = self._path(digest)
        with suppress(FileNotFoundError):
            if path.stat().st_nlink > 1:
                path.unlink()

    def get(self, digest: str) -> bytes:
        """The content.

        Raises:
            NotFound: it is not here any more, or was damaged.
        """
        data = self._read(digest)
        if data is None or sha256(data) != digest:
            raise NotFound(
                f"The content {digest[:12]} is no longer in the journal.",
                hint="It was older than the journal keeps, or was damaged.",
            )
        return data

    def has(self, digest: str) -> bool:
        """Whether it is here, whole or as a difference."""
        path = self._path(digest)
        return path.exists() or path.with_name(path.name + _DELTA).exists()

    def sync(self) -> None:
        """Make every content that was put since the last call durable against loss of power."""
        fresh, self._fresh = self._fresh, []
        sync_files(fresh)

    def leave_unsynced(self) -> None:
        """Leave what was put to the system's own time."""
        self._fresh.clear()

    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self._files())

    def keep_only(self, digests: Collection[str]) -> int:
        """Remove every other blob; returns how many bytes that freed."""
        keep = set(digests)
        for digest in digests:
            base = self._base(digest)
            if base is not None:
                keep.add(base)
        freed = 0
        for path in list(self._files()):
            if path.name.removesuffix(_DELTA) not in keep:
                freed += path.stat().st_size
                path.unlink()
        return freed

    def _files(self) -> Iterator[Path]:
        return self._folder.glob("??/*")

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def _name(self, digest: str) -> str:
        return f"{self._folder}/{digest[:2]}/{digest}"

    def _base(self, digest: str) -> str | None:
        path = self._path(digest)
        if path.exists():
            return None
        with suppress(FileNotFoundError), path.with_name(path.name + _DELTA).open("rb") as file:
            return str(json.loads(file.readline())["base"])
        return None

    def _read(self, digest: str) -> bytes | None:
        with suppress(FileNotFoundError), open(self._name(digest), "rb", buffering=0) as file:
            return file.readall()
        path = self._path(digest)
        with suppress(FileNotFoundError, ValueError, KeyError):
            head, _, middle = path.with_name(path.name + _DELTA).read_bytes().partition(b"\n")
            facts = json.loads(head)
            base = self._read(facts["base"])
            if base is not None:
                return base[: facts["prefix"]] + middle + base[len(base) - facts["suffix"] :]
        return None

    def _write(self, path: Path, data: bytes) -> None:
        private_folder(path.parent)
        spare = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        except BaseException:
            spare.unlink()
            raise
        finally:
            os.close(descriptor)
        spare.rename(path)
        self._fresh.append(path)
        self.added_bytes += len(data)
