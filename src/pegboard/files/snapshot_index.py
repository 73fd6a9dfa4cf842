"""What a snapshot remembers of each file between commands."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pegboard.files.blobs import sha256
from pegboard.files.journal import Journal

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One file or link as it was: `sha256` is empty where its content was not kept."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    sha256: str
    racy: bool

    def same_stat(self, st: os.stat_result) -> bool:
        # The change time cannot be set back by a program, the modification time can.
        return (self.inode, self.size, self.mtime_ns, self.ctime_ns, self.mode) == (
            st.st_ino,
            st.st_size,
            st.st_mtime_ns,
            st.st_ctime_ns,
            st.st_mode,
        )


def index_path(journal: Journal, root: Path) -> Path:
    return journal.snapshots / f"{sha256(os.fsencode(root))[:32]}.json"


def load(path: Path) -> dict[str, IndexEntry]:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        if document["version"] != _VERSION:
            return {}
        return {name: IndexEntry(*row) for name, row in document["files"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def save(path: Path, marks: dict[str, IndexEntry]) -> None:
    rows = {
        name: (m.inode, m.size, m.mtime_ns, m.ctime_ns, m.mode, m.sha256, m.racy) for name, m in marks.items()
    }
    document = {"version": _VERSION, "digests": sorted({m.sha256 for m in marks.values()}), "files": rows}
    spare = path.with_suffix(".new")
    descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(document, file, separators=(",", ":"))
    spare.replace(path)
