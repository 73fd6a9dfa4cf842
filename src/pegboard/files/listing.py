"""list_dir: the entries below a folder, folders before files, by name (ledger N-43, X-16)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from pegboard.files.walk import TreeWalk, open_folder
from pegboard.ports.files import DirectoryEntry, DirectoryListing, EntryKind


def list_dir(
    root: Path,
    rel: str,
    *,
    depth: int = 1,
    limit: int = 1000,
    denied: Callable[[str], bool] | None = None,
) -> DirectoryListing:
    """Entries below `rel` of `root`, hidden ones too, each folder before what is in it.

    Within a folder: folders first, then the rest, each by name. Links are shown as links and not
    entered. `.git` is shown and not entered.

    Args:
        depth: levels; 1 = the folder itself.
        limit: entries at most; `truncated` says whether there were more.
        denied: told paths below `root`; True leaves one out.

    Raises:
        NotFound, Unsupported (no folder), Unavailable, OutsideWorkspace: about `rel`.
    """
    prefix = "" if rel in ("", ".") else rel.rstrip("/") + "/"
    top = open_folder(root, rel)
    walk = TreeWalk(
        top=top,
        scope=None,
        hidden=True,
        git=True,
        depth=max(1, depth),
        folders=True,
        folders_first=True,
        closed=frozenset((".git",)),
        denied=None if denied is None else lambda path: denied(prefix + path),
    )
    entries: list[DirectoryEntry] = []
    truncated = False
    try:
        for fd, folder, entry in walk:
            if len(entries) >= limit:
                truncated = True
                break
            entries.append(_entry(fd, folder, entry.name))
    finally:
        os.close(top)
    return DirectoryListing(entries=tuple(entries), truncated=truncated, skipped=walk.skipped.sentences())


def _entry(fd: int, folder: str, name: str) -> DirectoryEntry:
    try:
        facts = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return DirectoryEntry(path=folder + name, kind="other")
    return DirectoryEntry(
        path=folder + name, kind=_kind(facts.st_mode), size=facts.st_size, mtime_ns=facts.st_mtime_ns
    )


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "other"
