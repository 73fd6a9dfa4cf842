"""Journal: what was done to files, so that it can be shown, undone and finished after a crash."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, TypeAlias, cast

from pegboard.core.errors import NotFound, Unavailable
from pegboard.core.limits import Clock, SystemClock
from pegboard.files.staging import sync_files
from pegboard.store.private_file import replace_private
from pegboard.textedit.diff import common_bytes

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
            prefix, suffix = common_bytes(near[1], data)
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


EntryType: TypeAlias = Literal["commit", "exec", "transaction", "undo", "redo"]
MADE: Final = frozenset({"commit", "exec", "transaction"})
"""The types of entries that are somebody's work, which undo takes back."""

MAX_BYTES: Final = 2 * 1024**3
MAX_AGE_S: Final = 30 * 86_400.0
LOCK_TIMEOUT_S: Final = 60.0
_PRUNE_EVERY: Final = 512  # entries
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One file of an entry.

    Attributes:
        path: workspace-relative, or absolute outside.
        kind: create, modify, delete or move.
        before, after: SHA-256 of the contents; None where the file was or is not there.
        before_mode, after_mode: st_mode with its type; a link's content is its target.
        moved_to: the new path of a move.
        temporary: name of the staged file, in an intent.
    """

    path: str
    kind: Literal["create", "modify", "delete", "move"]
    before: str | None
    after: str | None
    before_mode: int | None = None
    after_mode: int | None = None
    moved_to: str | None = None
    temporary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOrigin:
    """Whose change it is."""

    call_id: str = ""
    run: str = ""
    session: str = ""
    tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One journalled change.

    Attributes:
        id: unique in the journal, in order of time.
        type: commit (a file tool), exec (found by a snapshot), transaction (a run that was applied whole), undo or redo.
        time: seconds since the epoch.
        workspace: its real path.
        origin: call, run, session and tool.
        files: what was changed, in order.
        made_dirs: folders that were made, parents first.
        removed_dirs: folders that were removed, parents first, with their modes.
        undoes: ids of the entries that this one reverts.
        missed: what an exec changed and the snapshot did not capture, for people.
    """

    id: str
    type: EntryType
    time: float
    workspace: str
    origin: ChangeOrigin
    files: tuple[FileRecord, ...]
    made_dirs: tuple[str, ...] = ()
    removed_dirs: tuple[tuple[str, int], ...] = ()
    undoes: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()


class Journal:
    """Entries and the contents they need, in one private folder (0700, files 0600).

    Several processes may use one folder: changes happen under `lock`.

    Args:
        folder: made on first use; outside every workspace.
        clock: for times and ages.
        max_bytes: contents kept on disk; the oldest entries go first.
        max_age_s: seconds that an entry is kept.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        max_bytes: int = MAX_BYTES,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        self.folder = Path(folder)
        self.blobs = Blobs(self.folder / "blobs")
        self._clock = clock or SystemClock()
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._entries = self.folder / "entries"
        self._intents = self.folder / "intents"
        self.snapshots = self.folder / "snapshots"
        """Where snapshots keep what they know between commands."""
        self._read: dict[str, JournalEntry] = {}

    @contextmanager
    def lock(self, timeout_s: float = LOCK_TIMEOUT_S) -> Generator[None]:
        """Exclude every other process and thread; blocking.

        Raises:
            Unavailable: another holds it for longer than `timeout_s` seconds.
        """
        for folder in (self.folder, self._entries, self._intents, self.snapshots):
            private_folder(folder)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._wait_for(descriptor, timeout_s)
            yield
        finally:
            os.close(descriptor)

    def _wait_for(self, fd: int, timeout_s: float) -> None:
        # A real clock: flock has no deadline of its own, and another process does not know ours.
        end = time.monotonic() + timeout_s
        pause = 0.0005
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise Unavailable(
                        f"Another process has held the journal for {timeout_s:g} seconds.",
                        hint="Wait for the other run, or end it.",
                        retryable=True,
                    ) from None
                time.sleep(pause)
                pause = min(pause * 2, 0.05)
            else:
                return

    # ------------------------------------------------------------------ entries

    def entries(self) -> list[JournalEntry]:
        """Every entry, oldest first."""
        try:
            names = sorted(os.listdir(self._entries))
        except FileNotFoundError:
            return []
        names = [name for name in names if name.endswith(".json")]
        known = self._read
        read = {name: known.get(name) or _load(self._entries / name) for name in names}
        self._read = {name: entry for name, entry in read.items() if entry is not None}
        return list(self._read.values())

    def new_entry(
        self,
        type: EntryType,
        workspace: str,
        origin: ChangeOrigin,
        files: Iterable[FileRecord],
        *,
        made_dirs: Iterable[str] = (),
        removed_dirs: Iterable[tuple[str, int]] = (),
        undoes: Iterable[str] = (),
        missed: Iterable[str] = (),
    ) -> JournalEntry:
        """An entry with the next id; call it under the lock."""
        return JournalEntry(
            id=self._next_id(),
            type=type,
            time=self._clock.now(),
            workspace=workspace,
            origin=origin,
            files=tuple(files),
            made_dirs=tuple(made_dirs),
            removed_dirs=tuple(removed_dirs),
            undoes=tuple(undoes),
            missed=tuple(missed),
        )

    def append(self, entry: JournalEntry) -> None:
        """Keep a finished entry; call it under the lock."""
        self._write(self._entries / f"{entry.id}.json", entry)
        self._count(entry)

    def begin(self, entry: JournalEntry) -> None:
        """Keep what is about to happen, so that `intents` finds it after a crash."""
        self._write(self._intents / f"{entry.id}.json", entry)

    def finish(self, entry: JournalEntry) -> None:
        """An intent came true: one rename makes it an entry."""
        os.rename(self._intents / f"{entry.id}.json", self._entries / f"{entry.id}.json")
        self._count(entry)

    def sync(self, entry: JournalEntry) -> None:
        """Make a begun entry and the contents it needs durable against loss of power."""
        self.blobs.sync()
        sync_files([self._intents / f"{entry.id}.json", self._intents])

    def abandon(self, entry: JournalEntry) -> None:
        """An intent was taken back."""
        with suppress(FileNotFoundError):
            (self._intents / f"{entry.id}.json").unlink()

    def intents(self) -> list[JournalEntry]:
        """What was begun and neither finished nor abandoned; call it under the lock."""
        names = sorted(name for name in os.listdir(self._intents) if name.endswith(".json"))
        found = (_load(self._intents / name) for name in names)
        return [entry for entry in found if entry is not None]

    def active(self) -> dict[str, bool]:
        """For each entry whether it holds, that is, was not undone (or was redone)."""
        entries = {entry.id: entry for entry in self.entries()}
        holds = dict.fromkeys(entries, True)

        def turn(id: str, value: bool) -> None:
            if id in holds:
                holds[id] = value
                for other in entries[id].undoes:
                    turn(other, not value)

        for entry in entries.values():
            for id in entry.undoes:
                turn(id, False)
        return holds

    def wall_ns(self) -> int:
        """Now in nanoseconds, as file times count."""
        return int(self._clock.now() * 1e9)

    # ------------------------------------------------------------------ keeping it small

    def prune(self) -> int:
        """Drop entries over the age and, oldest first, over the size; returns bytes freed.

        Call it under the lock. The contents of unfinished intents are kept.
        """
        entries = self.entries()
        oldest = self._clock.now() - self._max_age_s
        kept = [entry for entry in entries if entry.time >= oldest]
        freed = self._keep(entries, kept)
        while kept and self.blobs.size() > self._max_bytes:
            # A quarter at a time: one by one would look at every file for each.
            fewer = kept[max(1, len(kept) // 4) :]
            freed += self._keep(kept, fewer)
            kept = fewer
        if self.blobs.size() > self._max_bytes:
            # What is left belongs to snapshots; the next one reads the workspace anew.
            for index in self.snapshots.glob("*.json"):
                index.unlink()
            freed += self._keep(kept, kept)
        self.blobs.added_bytes = 0
        return freed

    def purge(self) -> int:
        """Drop every entry and content; returns bytes freed. Call it under the lock."""
        for index in self.snapshots.glob("*.json"):
            index.unlink()
        return self._keep(self.entries(), [])

    def _keep(self, before: list[JournalEntry], kept: list[JournalEntry]) -> int:
        gone = {entry.id for entry in before} - {entry.id for entry in kept}
        for id in gone:
            with suppress(FileNotFoundError):
                (self._entries / f"{id}.json").unlink()
        needed: set[str] = set()
        for entry in (*kept, *self.intents()):
            for file in entry.files:
                needed.update(digest for digest in (file.before, file.after) if digest is not None)
        for index in self.snapshots.glob("*.json"):
            with suppress(ValueError, KeyError):
                needed.update(json.loads(index.read_bytes())["digests"])
        return self.blobs.keep_only(needed)

    def _count(self, entry: JournalEntry) -> None:
        # By the journal's own count: a process often appends one entry and ends.
        if int(entry.id[:10]) % _PRUNE_EVERY == 0 or self.blobs.added_bytes > self._max_bytes // 8:
            self.prune()

    # ------------------------------------------------------------------ files

    def _next_id(self) -> str:
        """`NNNNNNNNNN-xxxxxx`: a counter that sorts, and chance, so that ids of two journals differ."""
        descriptor = os.open(self.folder / "counter", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                last = int(os.read(descriptor, 32))
            except ValueError:
                names = [*os.listdir(self._entries), *os.listdir(self._intents)]
                last = max((int(name[:10]) for name in names if name[:10].isdigit()), default=0)
            # In place: a rename over the old one makes some file systems write it out at once.
            os.pwrite(descriptor, b"%010d" % (last + 1), 0)
            os.ftruncate(descriptor, 10)
        finally:
            os.close(descriptor)
        return f"{last + 1:010d}-{secrets.token_hex(3)}"

    @staticmethod
    def _write(path: Path, entry: JournalEntry) -> None:
        document = {"version": _VERSION, **_plain(entry, JournalEntry)}
        # By hand: asdict copies deeply, which for a thousand files takes longer than writing them.
        document["origin"] = _plain(entry.origin, ChangeOrigin)
        document["files"] = [_plain(file, FileRecord) for file in entry.files]
        replace_private(path, json.dumps(document, separators=(",", ":")), errors="surrogatepass")


def _plain(value: object, kind: type) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(kind)}


def _load(path: Path) -> JournalEntry | None:
    """One entry; None for a file of a later version or a damaged one, which is left where it is."""
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        if document.pop("version") != _VERSION:
            return None
        return JournalEntry(
            id=document["id"],
            type=document["type"],
            time=document["time"],
            workspace=document["workspace"],
            origin=ChangeOrigin(**document["origin"]),
            files=tuple(FileRecord(**file) for file in document["files"]),
            made_dirs=tuple(document["made_dirs"]),
            # Entries of the first versions have none.
            removed_dirs=tuple((str(path), int(mode)) for path, mode in document.get("removed_dirs", ())),
            undoes=tuple(document["undoes"]),
            missed=tuple(document["missed"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


Checkpoint: TypeAlias = Callable[[str], None]
"""Called with a label at each point where a crash would matter; tests end the process there."""


def no_checkpoint(_: str) -> None:
    """The checkpoint of ordinary use."""
