"""Ignore rules as git has them: `.gitignore`, `.ignore`, `.git/info/exclude`, nested and negated."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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

    One that is itself a link is read through it, as ripgrep does and git does not (decision 0040).
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
