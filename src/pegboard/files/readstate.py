"""What a session has seen of each file, so that a change made since by others is noticed (ledger K-37)."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from pegboard.core.errors import Conflict
from pegboard.files.blobs import sha256
from pegboard.files.diffs import unified
from pegboard.files.names import shown

_MOST_FILES: Final = 4096
KEEP_BYTES: Final = 64 * 1024  # contents up to this size are kept, to show what changed
_KEEP_TOTAL_BYTES: Final = 16 * 1024 * 1024
_SHOWN_LINES: Final = 30


@dataclass(slots=True)
class ReadFile:
    """One file as a session last saw it.

    Attributes:
        sha256: of the whole file; empty where it was too large to be read whole.
        size, mtime_ns: as they were then.
        shown: the line ranges that were shown, first and last.
        content: the bytes where the file is small.
    """

    sha256: str
    size: int
    mtime_ns: int
    shown: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    content: bytes | None = None


class ReadState:
    """Files that were read, by session and target; bounded, the longest unused go first."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[str, str], ReadFile] = OrderedDict()
        self._kept_bytes = 0

    def get(self, session: str, target: str) -> ReadFile | None:
        """What the session saw last, None where it saw nothing."""
        return self._files.get((session, target))

    def note(
        self,
        session: str,
        target: str,
        *,
        digest: str,
        size: int,
        mtime_ns: int,
        lines: tuple[int, int] | None = None,
        content: bytes | None = None,
    ) -> None:
        """Remember a read or a change of the session's own."""
        key = session, target
        old = self._files.pop(key, None)
        self._release(old)
        shown_before = (
            old.shown if old is not None and old.sha256 == digest and digest else set[tuple[int, int]]()
        )
        if lines is not None:
            shown_before.add(lines)
        kept = content if content is not None and len(content) <= KEEP_BYTES else None
        if kept is not None and self._kept_bytes + len(kept) > _KEEP_TOTAL_BYTES:
            kept = None
        self._kept_bytes += len(kept or b"")
        self._files[key] = ReadFile(digest, size, mtime_ns, shown_before, kept)
        while len(self._files) > _MOST_FILES:
            self._release(self._files.popitem(last=False)[1])

    def forget(self, session: str, target: str) -> None:
        """The file is gone."""
        self._release(self._files.pop((session, target), None))

    def check(self, session: str, target: str, now: bytes) -> None:
        """Refuse a change to a file that differs from what the session saw.

        Raises:
            Conflict: naming what changed.
        """
        seen = self._files.get((session, target))
        if seen is None:
            return
        if seen.sha256:
            # The digest decides: a file that was only touched holds what was seen.
            if len(now) == seen.size and sha256(now) == seen.sha256:
                return
        elif len(now) == seen.size:
            return
        raise Conflict(
            f"{shown(target)} changed since you read it ({seen.size} bytes then, {len(now)} now)."
            + _what_changed(target, seen, now),
            hint="Read it again, then redo the edit.",
            details={"path": target, "size_then": seen.size, "size_now": len(now)},
        )

    def _release(self, file: ReadFile | None) -> None:
        if file is not None and file.content is not None:
            self._kept_bytes -= len(file.content)


def _what_changed(target: str, seen: ReadFile, now: bytes) -> str:
    if seen.content is None:
        return ""
    lines = unified(target, seen.content, now).split("\n")
    # The two header lines only repeat the name.
    body = lines[2:] if lines[0].startswith("--- ") else lines
    more = "\n…" if len(body) > _SHOWN_LINES else ""
    return " What changed:\n" + "\n".join(body[:_SHOWN_LINES]) + more
