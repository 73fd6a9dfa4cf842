"""Walks a folder by descriptors, never through a link, with git's ignore rules."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from pegboard.core.errors import NotFound, OutsideWorkspace, Unavailable, Unsupported
from pegboard.core.policy.patterns import NEVER, wildmatch

#: Strongest first. `.rgignore` and `.ignore` beat every `.gitignore`, as in ripgrep.
DOT_IGNORES: Final = (".rgignore", ".ignore")
GIT_IGNORE: Final = ".gitignore"
MAX_IGNORE_BYTES: Final = 1 << 20

ReadText = Callable[[str], str | None]
"""Reads a file of the folder at hand, None where there is none."""


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of an ignore file.

    Attributes:
        source: regular expression, for `fullmatch`.
        negated: the line started with `!`.
        folders_only: the line ended in `/`.
        on_path: match the path below the ignore file's folder, else the last name.
    """

    source: str
    negated: bool
    folders_only: bool
    on_path: bool


def parse_rule(line: str) -> IgnoreRule | None:
    """The rule of one line, None for a comment or a blank line (gitignore(5))."""
    if line.startswith("#"):
        return None
    line = _strip_trailing_spaces(line)
    negated = line.startswith("!")
    body = line[negated:]
    folders_only = body.endswith("/")
    if folders_only:
        body = body[:-1]
    if not body:
        return None
    on_path = "/" in body
    return IgnoreRule(wildmatch(body.removeprefix("/"), pathname=on_path), negated, folders_only, on_path)


def _strip_trailing_spaces(line: str) -> str:
    """Without trailing spaces, except one that a backslash protects."""
    end = len(line)
    while end and line[end - 1] == " ":
        slashes = 0
        while end - 2 - slashes >= 0 and line[end - 2 - slashes] == "\\":
            slashes += 1
        if slashes % 2:
            break
        end -= 1
    return line[:end]


class IgnoreFile:
    """The rules of one ignore file; the last rule that matches decides."""

    __slots__ = ("_any_name", "_any_path", "_rules")

    def __init__(self, text: str) -> None:
        lines = as_bytes_text(text.removeprefix("\ufeff")).split("\n")
        found = [parse_rule(line.removesuffix("\r")) for line in lines]
        rules = [rule for rule in found if rule is not None and rule.source != NEVER]
        # Strongest (last) first, each compiled once; two joined patterns say quickly that none fits.
        self._rules = [(re.compile(r.source), r) for r in reversed(rules)]
        self._any_name = _joined(r.source for r in rules if not r.on_path)
        self._any_path = _joined(r.source for r in rules if r.on_path)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def verdict(self, path: str, name: str, is_dir: bool) -> bool | None:
        """True: ignored; False: kept by a negation; None: nothing said.

        Args:
            path: below this file's folder, with `/`; as `as_bytes_text` gives it. A trailing `/` is
                matched as it stands, which is what `git check-ignore folder/` does.
            name: the last component of `path`.
            is_dir: whether it is a folder.
        """
        by_name = self._any_name is not None and self._any_name.fullmatch(name) is not None
        by_path = self._any_path is not None and self._any_path.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for regex, rule in self._rules:
            if rule.folders_only and not is_dir:
                continue
            if regex.fullmatch(path if rule.on_path else name):
                return not rule.negated
        return None


def _joined(sources: Iterable[str]) -> re.Pattern[str] | None:
    joined = "|".join(f"(?:{s})" for s in sources)
    return re.compile(joined) if joined else None


def as_bytes_text(text: str) -> str:
    """One character a byte, because git matches bytes: `?` is one byte of UTF-8."""
    return text if text.isascii() else os.fsencode(text).decode("latin-1")


@dataclass(frozen=True, slots=True)
class Scope:
    """The ignore files that hold in one folder, and how to get there from the walk's root.

    Attributes:
        dots: one tuple of (prefix, file) a name in DOT_IGNORES, deepest first.
        gits: `.gitignore` files from this folder up to its repository's top, deepest first.
        exclude: `.git/info/exclude` of that repository.
        prefix: this folder's path from the outermost folder known, ending in `/`, or empty.
    """

    dots: tuple[tuple[tuple[str, IgnoreFile], ...], ...] = ((), ())
    gits: tuple[tuple[str, IgnoreFile], ...] = ()
    exclude: tuple[tuple[str, IgnoreFile], ...] = ()
    prefix: str = ""

    @property
    def silent(self) -> bool:
        """Whether no rule at all holds here."""
        return not (self.gits or self.exclude or self.dots[0] or self.dots[1])

    def enter(self, name: str, names: frozenset[str] | set[str], read: ReadText) -> Scope:
        """The scope inside the subfolder `name` (empty for the outermost folder).

        Args:
            names: the names in that subfolder, as far as they start with a dot.
            read: reads a file of that subfolder; also asked for `.git/info/exclude`.
        """
        prefix = f"{self.prefix}{as_bytes_text(name)}/" if name else self.prefix
        dots, gits, exclude = self.dots, self.gits, self.exclude
        if ".git" in names:
            # A nested repository's files are its own business: outer .gitignore files end here.
            gits, exclude = (), _with(prefix, read(".git/info/exclude"), ())
        if GIT_IGNORE in names:
            gits = _with(prefix, read(GIT_IGNORE), gits)
        if any(n in names for n in DOT_IGNORES):
            dots = tuple(
                _with(prefix, read(n), known) if n in names else known
                for n, known in zip(DOT_IGNORES, self.dots, strict=True)
            )
        return Scope(dots, gits, exclude, prefix)

    def ignored(self, name: str, is_dir: bool) -> bool:
        """Whether an entry of this folder is ignored."""
        if self.silent:
            return False
        name = as_bytes_text(name)
        path = self.prefix + name
        for group in (*self.dots, self.gits, self.exclude):
            for prefix, file in group:
                verdict = file.verdict(path[len(prefix) :], name, is_dir)
                if verdict is not None:
                    return verdict
        return False


def _with(
    prefix: str, text: str | None, known: tuple[tuple[str, IgnoreFile], ...]
) -> tuple[tuple[str, IgnoreFile], ...]:
    file = IgnoreFile(text) if text else None
    return ((prefix, file), *known) if file else known


def read_ignore_at(folder_fd: int, relative: str) -> str | None:
    """Text of an ignore file below an open folder, None where it is missing or no regular file.

    One that is itself a link is read through it, as ripgrep does and git does not.
    """
    try:
        # Looked at first: a pipe's writer would take an opening for a reader.
        if not stat.S_ISREG(os.stat(relative, dir_fd=folder_fd).st_mode):
            return None
        fd = os.open(relative, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return os.read(fd, MAX_IGNORE_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(fd)


def scope_of(folder: Path) -> Scope:
    """The scope inside `folder` (a real path), with the rules of all folders above it."""
    scope = Scope()
    chain = [*reversed(folder.parents), folder]
    for step, path in enumerate(chain):
        name = "" if step == 0 else path.name
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            scope = scope.enter(name, frozenset(), lambda _: None)
            continue
        try:
            known = (".git", GIT_IGNORE, *DOT_IGNORES)
            names = frozenset(n for n in known if _exists(fd, n))
            scope = scope.enter(name, names, lambda relative, fd=fd: read_ignore_at(fd, relative))
        finally:
            os.close(fd)
    return scope


def _exists(folder_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


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

    def sentences(self, *, complete: bool = True) -> tuple[str, ...]:
        """One sentence a reason: `2 folders could not be read (a, b)`; `at least 2 …` where not all was looked at."""
        out: list[str] = []
        for (noun, why), count in sorted(self.counts.items()):
            names = ", ".join(sorted(self.examples[(noun, why)])) + (", …" if count > SHOWN_EXAMPLES else "")
            out.append(
                f"{'' if complete else 'at least '}{count} {noun if count == 1 else _plural(noun)} {why} ({names})"
            )
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
        left_out: gathers hidden and ignored entries, of files only those that `fits` takes.
        fits: told a file's path (below the top): whether the caller looks for it; None = every file.
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
    fits: Callable[[str], bool] | None = None

    def __iter__(self) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        """`(folder descriptor, folder's path with a trailing / or empty, entry)`, links included.

        The descriptor is open only until the next step.
        """
        return self._below(self.top, "", self.scope, 1)

    def account(self, most: int) -> bool:
        """Gather in `left_out` what the walk leaves out, the outer folders first, and give nothing.

        Args:
            most: entries after which no further folder is looked into.

        Returns:
            Whether everything was looked at.
        """
        seen = 0
        pending = deque([("", self.scope)])
        while pending and seen < most:
            prefix, scope = pending.popleft()
            try:
                fd = _open_below(self.top, prefix)
            except OSError:
                continue
            try:
                if scope is not None and prefix:
                    scope = enter_scope(fd, prefix[:-1].rpartition("/")[2], scope)
                with os.scandir(fd) as found:
                    entries = sorted(islice(found, most), key=_name)
            except OSError:
                continue
            finally:
                os.close(fd)
            seen += len(entries)
            for entry in entries:
                is_dir = entry.is_dir(follow_symlinks=False)
                counts = is_dir or self.fits is None or self.fits(prefix + entry.name)
                if self._wanted(entry.name, is_dir, prefix, scope, counts=counts) and is_dir:
                    pending.append((f"{prefix}{entry.name}/", scope))
        return not pending and seen < most

    def _below(
        self, fd: int, prefix: str, scope: Scope | None, level: int
    ) -> Iterator[tuple[int, str, os.DirEntry[str]]]:
        for entry in self._entries(fd, prefix):
            name = entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            # What could not have been found in any case is not missed.
            counts = level < self.depth if is_dir else self.fits is None or self.fits(prefix + name)
            if not self._wanted(name, is_dir, prefix, scope, counts=counts):
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

    def _wanted(self, name: str, is_dir: bool, prefix: str, scope: Scope | None, *, counts: bool) -> bool:
        if name[0] == ".":
            if name == ".git" and not self.git:
                return False
            if not self.hidden:
                if name not in _IGNORE_NAMES and counts:
                    self.left_out.add("hidden entry", "left out: hidden=true", prefix + name)
                return False
        if scope is not None and scope.ignored(name, is_dir):
            if counts:
                self.left_out.add("ignored entry", "left out: no_ignore=true", prefix + name)
            return False
        return self.denied is None or not self.denied(prefix + name)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _open_below(top: int, path: str) -> int:
    """A descriptor of the folder `path` (empty, or with a trailing `/`) below an open one; no link is followed.

    Raises:
        OSError: it is gone, unreadable or a link.
    """
    fd = os.dup(top)
    for part in path.split("/")[:-1]:
        try:
            sub = os.open(part, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = sub
    return fd


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
