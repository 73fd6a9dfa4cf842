"""Files: what a tool may ask of the workspace's files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pegboard.core.effects import ChangeSet
from pegboard.core.errors import OutsideWorkspace

EntryKind: TypeAlias = Literal["file", "dir", "link", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """Where a path leads, after every link.

    Attributes:
        target: as effects name it: workspace-relative with `/`, or absolute where outside.
        exists: whether something is there.
        kind: what is there; `file` where nothing is.
        inside: whether it lies in the workspace or an allowed folder (for the asked access).
        size: bytes, 0 where nothing is.
        mtime_ns: modification time, 0 where nothing is.
        notes: what a reader must know about the file, one sentence each.
    """

    target: str
    exists: bool
    kind: EntryKind
    inside: bool
    size: int = 0
    mtime_ns: int = 0
    notes: tuple[str, ...] = ()

    def reachable(self) -> str:
        """The target, of a path that this port may open.

        Raises:
            OutsideWorkspace: it is outside; no approval would change that.
        """
        if self.target.startswith("/") and not self.inside:
            raise OutsideWorkspace.of(self.target)
        return self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryEntry:
    """One directory entry; `path` is relative to the listed folder, with `/`."""

    path: str
    kind: EntryKind
    size: int = 0
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryListing:
    """Entries in a stated order, and what was left out."""

    entries: tuple[DirectoryEntry, ...]
    truncated: bool = False
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some lines of a text file, decoded.

    Attributes:
        text: the lines, line endings as `\\n`.
        first: 1-based number of the first line, 0 where there is none.
        last: number of the last line, 0 where there is none.
        total: number of lines in the file, None where it was not counted.
        encoding: as detected (`utf-8`, `utf-8-sig`, `utf-16-le`, `cp1252` …).
        newline: `\\n`, `\\r\\n`, `\\r` or `mixed`.
        sha256: hex digest of the whole file, empty where it was not read whole.
        size: bytes of the whole file.
        cut: line numbers whose text was shortened because the line is too long.
        repeated: the session was shown exactly these lines before, and the file is the same.
        notes: what the reader must know about the file, one sentence each.
    """

    text: str
    first: int
    last: int
    total: int | None
    encoding: str
    newline: str
    sha256: str = ""
    size: int = 0
    cut: tuple[int, ...] = ()
    repeated: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepMatch:
    """One line that grep shows; `is_match` is False for a context line."""

    path: str
    line: int
    text: str
    is_match: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """What grep looks for; see the tool for the meaning of each field.

    Attributes:
        text: searched instead of any file; `path` then is only its name, and opens nothing.
        before: lines to show before a match, None = as many as `context`.
        after: lines to show after a match, None = as many as `context`.
        whole_words: only where no character of a word stands beside what is found.
    """

    pattern: str
    path: str = "."
    glob: str | None = None
    type: str | None = None
    fixed_strings: bool = False
    ignore_case: bool = False
    multiline: bool = False
    context: int = 0
    mode: Literal["content", "files", "count"] = "content"
    offset: int = 0
    limit: int = 200
    hidden: bool = False
    no_ignore: bool = False
    text: str | None = None
    before: int | None = None
    after: int | None = None
    whole_words: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepResult:
    """What grep found.

    Attributes:
        matches: content mode: lines in path then line order.
        counts: files and count mode: `(path, matching lines)` in path order.
        total: matching lines (content) or files found before paging.
        truncated: more was there than `limit`.
        skipped: why files were not searched, or are shown in an encoding that is a guess; one sentence a kind.
        searched: number of files looked at, 0 where the search stopped early.
        note: what the reader must know about how it was found, may be empty.
    """

    matches: tuple[GrepMatch, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()
    total: int = 0
    truncated: bool = False
    skipped: tuple[str, ...] = ()
    searched: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Wanted: this file holds exactly these bytes; parents are made. `mode` None keeps or defaults."""

    path: str
    data: bytes
    mode: int | None = None
    #: SHA-256 that the file must have now, None = whatever; a difference is a Conflict.
    expected_sha256: str | None = None
    #: The content that it must have now, instead of its hash: no copy and no hashing of a large file.
    expected: bytes | None = None
    #: A file whose permission bits a new one takes, as a copy has them; None = the default ones.
    like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Wanted: this file is gone."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Wanted: the file lies at `to` and holds `data` (None = unchanged content)."""

    path: str
    to: str
    data: bytes | None = None


Wanted: TypeAlias = Write | Delete | Move


class Files(Protocol):
    """The workspace's files, confined; every path a model sends goes through here.

    All methods raise ToolError subclasses: NotFound, OutsideWorkspace, Unsupported
    (a folder, device, FIFO, socket), TooLarge, Conflict, PermissionDenied.
    """

    async def resolve(self, path: str, *, write: bool = False) -> ResolvedPath:
        """Where `path` leads. Never raises for a path that leaves the workspace (`inside=False`);
        raises InvalidArguments for what is no path (NUL, over-long)."""
        ...

    async def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        """The file's bytes, whole; TooLarge over `limit` (default: the workspace's read limit)."""
        ...

    async def read_slice(self, path: str, *, offset: int = 1, limit: int | None = None) -> Slice:
        """Lines from `offset` (1-based; negative counts from the end), at most `limit` (default 2,000)."""
        ...

    async def list(
        self,
        path: str = ".",
        *,
        pattern: str | None = None,
        depth: int = 1,
        limit: int = 1000,
        hidden: bool = False,
        no_ignore: bool = False,
        ignore_case: bool = False,
        exclude: str | None = None,
    ) -> DirectoryListing:
        """Entries below a folder, hidden and ignored ones too, folders before files, by name.

        With a `pattern`: the files at any depth whose path below the folder matches that glob, newest first.
        `hidden`, `no_ignore`, `ignore_case` and `exclude` (globs to leave out, divided by commas) are for that
        alone, as `depth` is for a listing.
        """
        ...

    async def search(self, query: SearchQuery) -> GrepResult:
        """Search in file contents."""
        ...

    async def propose(self, wanted: Sequence[Wanted]) -> ChangeSet:
        """The ChangeSet that would bring about `wanted`, with before-images and diffs; changes nothing."""
        ...

    async def commit(self, changes: ChangeSet) -> ChangeSet:
        """Carry out a ChangeSet, all files or none, journalled; returns what was done.

        Raises:
            Conflict: a file is no longer as the ChangeSet saw it; nothing was changed.
        """
        ...
