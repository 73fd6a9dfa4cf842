"""Walks a folder by descriptors, never through a link, with git's ignore rules."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pegboard.core.errors import NotFound, OutsideWorkspace, Unavailable, Unsupported
from pegboard.files.ignore import DOT_IGNORES, GIT_IGNORE, Scope, read_ignore_at, scope_of

MAX_DEPTH: Final = 200
"""One descriptor a level stays open; deeper folders are reported as skipped."""

SHOWN_EXAMPLES: Final = 3

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_IGNORE_NAMES: Final = frozenset((GIT_IGNORE, *DOT_IGNORES, ".git"))


@dataclass(slots=True)
class Skipped:
    """What a walk left out, by reason, with a few names to show."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])

    def add(self, noun: str, why: str, path: str) -> None:
        """Count one left-out thing: `add("folder", "could not be read", "secret")`."""
        key = (noun, why)
        self.counts[key] = self.counts.get(key, 0) + 1
        shown = self.examples.setdefault(key, [])
        if len(shown) < SHOWN_EXAMPLES:
            shown.append(path)

    def merge(self, other: Skipped) -> None:
        """Add what another walk left out."""
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
            names = self.examples.setdefault(key, [])
            names += other.examples[key][: SHOWN_EXAMPLES - len(names)]

    def sentences(self) -> tuple[str, ...]:
        """One sentence a reason: `2 folders could not be read (a, b)`."""
        out: list[str] = []
        for (noun, why), count in sorted(self.counts.items()):
            names = ", ".join(self.examples[(noun, why)]) + (", …" if count > SHOWN_EXAMPLES else "")
            out.append(f"{count} {noun if count == 1 else _plural(noun)} {why} ({names})")
        return tuple(out)


def _plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"


@dataclass(slots=True)
class TreeWalk:
    """One walk below an open folder.

    Attributes:
        top: descriptor of the folder; the caller keeps and closes it.
        scope: the ignore rules that hold in it, None to ignore nothing.
        hidden: whether names that start with a dot are entered and given.
        git: whether `.git` itself is entered (only where a caller names it).
        sort: give entries in path order (component by component, by bytes).
        depth: how many levels to give; 1 = the folder's own entries.
        denied: told each path (below the top); True leaves it out, with all below it.
        folders: give folders too, each before what is in it.
        folders_first: in path order, with a folder's subfolders before its files.
        closed: names of folders that are given but not entered.
        skipped: gathers what could not be read.
    """

    top: int
    scope: Scope | None
    hidden: bool = False
    git: bool = False
    sort: bool = False
    depth: int = MAX_DEPTH
    denied: Callable[[str], bool] | None = None
    folders: bool = False
    folders_first: bool = False
    closed: frozenset[str] = frozenset()
    skipped: Skipped = field(default_factory=Skipped)
    left_out: Skipped = field(default_factory=Skipped)

    def __iter__(self) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        """`(folder descriptor, folder's path with a trailing / or empty, entry)`, links included.

        The descriptor is open only until the next step.
        """
        return self._below(self.top, "", self.scope, 1)

    def _below(
        self, fd: int, prefix: str, scope: Scope | None, level: int
    ) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        for entry in self._entries(fd, prefix):
            name = entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            if not self._wanted(name, is_dir, prefix, scope):
                continue
            if not is_dir:
                yield fd, prefix, entry
                continue
            if self.folders:
                yield fd, prefix, entry
            if level >= self.depth or name in self.closed:
                continue
            if level >= MAX_DEPTH:
                self.skipped.add("folder", f"deeper than {MAX_DEPTH} levels left out", prefix + name)
                continue
            try:
                sub = os.open(name, _FOLDER, dir_fd=fd)
            except OSError as error:
                self.skipped.add("path", _why(error), prefix + name)
                continue
            try:
                inner = None if scope is None else enter_scope(sub, name, scope)
                yield from self._below(sub, f"{prefix}{name}/", inner, level + 1)
            finally:
                os.close(sub)

    def _entries(self, fd: int, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(fd) as found:
                entries = list(found)
        except OSError as error:
            self.skipped.add("path", _why(error), prefix.rstrip("/") or ".")
            return []
        if self.folders_first:
            entries.sort(key=lambda e: (not e.is_dir(follow_symlinks=False), os.fsencode(e.name)))
        elif self.sort:
            entries.sort(key=lambda e: os.fsencode(e.name))
        return entries

    def _wanted(self, name: str, is_dir: bool, prefix: str, scope: Scope | None) -> bool:
        if name[0] == ".":
            if name == ".git" and not self.git:
                return False
            if not self.hidden:
                if name not in _IGNORE_NAMES:
                    self.left_out.add("hidden entry", "left out", prefix + name)
                return False
        if scope is not None and scope.ignored(name, is_dir):
            self.left_out.add("ignored entry", "left out", prefix + name)
            return False
        return self.denied is None or not self.denied(prefix + name)


def enter_scope(fd: int, name: str, outer: Scope) -> Scope:
    """The ignore rules inside the open folder `fd`, called `name` in a folder where `outer` holds."""
    return outer.enter(name, _ignore_names(fd), lambda relative: read_ignore_at(fd, relative))


def _ignore_names(fd: int) -> frozenset[str]:
    """Which ignore files and `.git` the folder has; the kernel is asked by name, not by listing."""
    found: list[str] = []
    for name in _IGNORE_NAMES:
        try:
            os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue
        found.append(name)
    return frozenset(found)


def _why(error: OSError) -> str:
    return f"could not be read: {(error.strerror or 'unknown error').lower()}"


def open_folder(root: Path, relative: str) -> int:
    """A descriptor of the folder `relative` below `root`, reached without following a link.

    `relative` is a resolved path (no link in it): a component that is a link now was swapped
    in after the check.

    Raises:
        NotFound, OutsideWorkspace, Unsupported (it is no folder), Unavailable.
    """
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(error, str(root)) from None
    for part in relative.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            os.close(fd)
            raise OutsideWorkspace(f"the path {relative!r} climbs out of the workspace")
        try:
            sub = os.open(part, _FOLDER, dir_fd=fd)
        except OSError as error:
            raise _refusal(error, relative) from None
        finally:
            os.close(fd)
        fd = sub
    return fd


def open_beneath(dir_fd: int, path: str) -> int | None:
    """A regular file below an open folder, reached without following a link; None where there is none."""
    *above, name = path.split("/")
    fd = dir_fd
    try:
        for part in above:
            sub = os.open(part, _FOLDER, dir_fd=fd)
            if fd != dir_fd:
                os.close(fd)
            fd = sub
        found = os.open(name, _FILE, dir_fd=fd)
    except OSError:
        return None
    finally:
        if fd != dir_fd:
            os.close(fd)
    if stat.S_ISREG(os.fstat(found).st_mode):
        return found
    os.close(found)
    return None


def _refusal(error: OSError, path: str) -> NotFound | Unsupported | Unavailable | OutsideWorkspace:
    if isinstance(error, FileNotFoundError):
        return NotFound(f"Directory not found: {path}", hint="List the folder above it with list_dir.")
    if isinstance(error, NotADirectoryError):
        return Unsupported(f"Not a directory: {path}", hint="Read a file with read_file.")
    if isinstance(error, PermissionError):
        return Unavailable(f"the folder {path} may not be read by this user")
    return OutsideWorkspace(
        f"the folder {path} is reached through a link that appeared just now: {error.strerror}"
    )


def scope_below(root: Path, relative: str) -> Scope:
    """The ignore rules that hold in the folder `relative` of `root`."""
    return scope_of(root / relative if relative not in ("", ".") else root)
