"""The names that a search hands on, worked out before it runs.

A search is tried on the files of a repository, on a file of any name, and on the patterns that it spells itself.
What it may take becomes one word each: `./.git`, `./**` for everything, `./**/*.py`.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pegboard.shell.guard.operands import HOLE, fits_protected, is_protected, outermost
from pegboard.shell.guard.words import Word

Kind: TypeAlias = Literal["repository", "any", "pattern"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file on which a search is tried: its path below the root, and what is known of it.

    Attributes:
        path: relative to the searched folder, empty for that folder itself.
        folder: whether it is one; None = not known.
        kind: of a repository (old, large and not empty), of any name, or a pattern that stands for its files.
    """

    path: str
    folder: bool | None
    kind: Kind

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)

    @property
    def depth(self) -> int:
        """Folders below the root, 0 for the root itself."""
        return self.path.count("/") + 1 if self.path else 0


_HASH: Final = "3f786850e387550fdab836ed7e6dc881de23001b"
_REPOSITORY: Final = {
    ".git": True, ".git/objects": True, ".git/objects/pack": True, f".git/objects/pack/pack-{_HASH}.pack": False,
    f".git/objects/pack/pack-{_HASH}.idx": False, ".git/objects/3f": True, f".git/objects/3f/{_HASH[2:]}": False,
    ".git/refs": True, ".git/refs/heads": True, ".git/refs/heads/main": False, ".git/packed-refs": False, ".git/HEAD": False,
    ".git/index": False, ".git/config": False, ".git/hooks": True, ".hg": True, ".jj": True, ".svn": True,
    ".envrc": False, ".vscode": True, ".vscode/tasks.json": False, ".mcp.json": False, ".husky": True, ".idea": True, ".gitmodules": False,
}  # fmt: skip
"""Files that a command must not take unasked, and whether each is a folder."""
_ANY: Final = ("jqj", "jqj.jqj", "jqj/jqj", ".jqj")
"""Names that no test singles out; a search that takes most of them takes everything."""


class Search(ABC):
    """One search: its roots, and what it takes."""

    roots: Sequence[Word] = ()

    @abstractmethod
    def takes(self, root: str, entry: Entry) -> bool:
        """Whether a file below `root` may be among what is found."""

    @abstractmethod
    def patterns(self) -> Iterable[str]:
        """Patterns of names, or of paths where a `/` is in them, that the search spells."""

    @property
    def deep(self) -> bool:
        """Whether it goes below the folders directly in a root."""
        return True

    def found(self) -> list[Word]:
        """A word for each kind of name that is handed on."""
        return [word for root in self.roots for word in self._below(root)]

    def _below(self, root: Word) -> list[Word]:
        text = root.text
        base = "" if text in (".", "./") else text.rstrip("/") or "/"
        whole = self.takes(text, Entry("", True, "any"))
        if whole and base:
            return [root]
        if sum(self.takes(text, Entry(p, f, "any")) for p in _ANY for f in (True, False)) > len(_ANY) // 2:
            return [word_below(text, "**", root)]
        if whole:
            return [root]
        made = [
            self._pattern(root, pattern)
            for pattern in dict.fromkeys(self.patterns())
            if self.takes(text, Entry(pattern, None, "pattern"))
        ]
        covered = [w.text for w in made if is_protected(w.text) or fits_protected(w.text.removeprefix("./"))]
        inside = base[base.rindex(".git") :] + "/" if re.search(r"(?:^|/)\.git(?:/|$)", base) else ""
        # What is old or large in a folder that is not the repository's is not taken for a repository.
        kind: Kind = "any" if base and not inside else "repository"
        for below in ("", "jqj/"):
            there = {p.removeprefix(inside): f for p, f in _REPOSITORY.items() if p.startswith(inside)}
            taken = outermost(p for p, f in there.items() if self.takes(text, Entry(below + p, f, kind)))
            for path in taken[:2]:
                shown = path.replace(_HASH, "*").replace(_HASH[2:], "*")
                word = word_below(text, f"**/{shown}" if below else shown, root)
                if not any(_covers(pattern, word.text) for pattern in covered):
                    made.append(word)
                    covered.append(posixpath.join(text, f"**/{shown}"))
            if inside:
                break
        return made or [word_below(text, f"**/{HOLE}", root)]

    def _pattern(self, root: Word, pattern: str) -> Word:
        if "/" not in pattern:
            return word_below(root.text, f"**/{pattern}" if self.deep else pattern, root)
        if pattern.startswith("*"):
            return word_below(root.text, f"**/{pattern.lstrip('*').lstrip('/')}", root)
        return Word(pattern, root.source, True)


def _covers(pattern: str, path: str) -> bool:
    return fnmatch.fnmatchcase(path.lower(), pattern.lower().replace("**/", "*"))


def word_below(root: str, name: str, source: Word) -> Word:
    return Word(posixpath.join(root, name), source.source, HOLE not in name)
