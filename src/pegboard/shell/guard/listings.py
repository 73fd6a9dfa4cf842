"""Programs that list names: `fd`, `rg --files`, `grep -l`, `git ls-files`, and what any program prints."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pegboard.shell.guard.calls import Option, parse, stands_for
from pegboard.shell.guard.find_expression import Find
from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.search import Entry, Search
from pegboard.shell.guard.specs import ProgramSpec, names, spec_of
from pegboard.shell.guard.words import Word


@dataclass(slots=True)
class Listing(Search):
    """A search by patterns of names.

    Attributes:
        roots: folders, or single files.
        globs: patterns of which one must fit, none = every name.
        expression: a regular expression that must be in the name, or in the path.
        whole_path: it is tried on the path.
        hidden: names with a dot in front are found too.
        excluded: patterns that must not fit.
        folders, files: whether these are found.
        picks: other tests, which a file of any name does not pass.
        shallow: it stays in the folder itself.
    """

    roots: Sequence[Word] = ()
    globs: tuple[str, ...] = ()
    expression: str = ""
    whole_path: bool = False
    hidden: bool = False
    excluded: tuple[str, ...] = ()
    folders: bool = True
    files: bool = True
    picks: bool = False
    shallow: bool = False

    @property
    def deep(self) -> bool:
        """Whether it goes below the folders directly in a root."""
        return not self.shallow

    def patterns(self) -> Iterable[str]:
        """The patterns of names."""
        return [glob.removeprefix("**/") for glob in self.globs]

    def takes(self, root: str, entry: Entry) -> bool:
        """Whether an entry may be found."""
        name, path = entry.name, entry.path
        if not path or (self.shallow and entry.depth > 1 and entry.kind != "pattern"):
            return False
        if entry.kind == "pattern":
            return True
        if not self.hidden and any(part.startswith(".") for part in path.split("/")):
            return False
        if entry.folder is not None and not (self.folders if entry.folder else self.files):
            return False
        if any(
            fnmatch.fnmatchcase(part, glob)
            for glob in self.excluded
            for part in (name, path, *path.split("/"))
        ):
            return False
        if self.globs and not any(
            fnmatch.fnmatchcase(part, glob.removeprefix("**/"))
            for glob in self.globs
            for part in (name, path)
        ):
            return False
        if self.expression:
            try:
                if not re.search(
                    self.expression, posixpath.join(root, path) if self.whole_path else name, re.IGNORECASE
                ):
                    return False
            except re.error:
                return entry.kind == "repository"
        return not self.picks or entry.kind == "repository"


FD_RUNS: Final = ("-x", "--exec", "-X", "--exec-batch")
_HERE: Final = Word(".", ".")
_UNKNOWN: Final = Word(HOLE, "what a program prints")


def _split(program: str, args: Sequence[Word]) -> tuple[list[Option], list[Word], set[str]]:
    """Options, operands and flags, as the program's row splits them."""
    options, operands = parse(args, spec_of(program) or ProgramSpec())
    return options, operands, {o.flag for o in options}


def _values(options: Iterable[Option], *wanted: str) -> tuple[str, ...]:
    return tuple(o.value.text for o in options if o.value is not None and o.flag in wanted)


def fd_search(args: Sequence[Word]) -> Listing:
    """`fd [PATTERN] [FOLDER …]`; a pattern is a regular expression unless told otherwise (fd 10)."""
    options, operands, flags = _split("fd", args)
    pattern = operands[0].text if operands else ""
    kinds = _values(options, "-t", "--type")
    globs = tuple(f"*.{ext.lstrip('.')}" for ext in _values(options, "-e", "--extension"))
    is_glob = bool(flags & {"-g", "--glob"})
    if is_glob and pattern:
        globs = (pattern,)
    roots = [*operands[1:], *(o.value for o in options if o.value and o.flag == "--search-path")]
    spelt = re.escape(pattern) if flags & {"-F", "--fixed-strings"} else pattern
    folders = [kind in ("d", "dir", "directory") for kind in kinds]
    return Listing(
        roots or [_HERE], globs, "" if is_glob or pattern == "." else spelt.replace(HOLE, ".*"),
        whole_path=bool(flags & {"-p", "--full-path"}), hidden=bool(flags & {"-H", "--hidden", "-u", "--unrestricted"}),
        excluded=_values(options, "-E", "--exclude"), folders=not kinds or any(folders), files=not kinds or not all(folders),
        picks=bool(_values(options, "-S", "--size", "--changed-within", "--changed-before", "-o", "--owner")),
        shallow=_values(options, "-d", "--max-depth", "--exact-depth")[-1:] == ("1",),
    )  # fmt: skip


def printed_names(argv: Sequence[Word]) -> list[Word]:
    """The names that a program prints; one unknown word where nothing tells them."""
    name, args = (argv[0].text.rpartition("/")[2], argv[1:]) if argv else ("", argv)
    if name in ("find", "gfind", "bfs"):
        return Find(args).printed()
    if name in ("fd", "fdfind") and not any(w.text in (*FD_RUNS, "--format") for w in args):
        return fd_search(args).found()
    if name in ("rg", "ag", "ack"):
        return _ripgrep(args)
    if name in ("grep", "egrep", "fgrep", "zgrep", "rgrep"):
        return _grep(name, args)
    if name == "git" and args:
        return _git(args[0].text, args)
    return [_UNKNOWN]


_PATTERNS: Final = frozenset(("-e", "-f", "--regexp", "--file"))


def _ripgrep(args: Sequence[Word]) -> list[Word]:
    options, operands, flags = _split("rg", args)
    listed = "--files" in flags
    lists = names("-l --files-with-matches --files-without-match")
    if not listed and not any(stands_for(flag, lists) for flag in flags):
        return [_UNKNOWN]
    globs = _values(options, "-g", "--glob", "--iglob")
    roots = operands if listed or flags & _PATTERNS else operands[1:]
    return Listing(
        roots or [_HERE], tuple(g for g in globs if g[:1] != "!"), folders=False,
        hidden=bool(flags & {"--hidden", "-.", "-uu"}), excluded=tuple(g[1:] for g in globs if g[:1] == "!"),
    ).found()  # fmt: skip


def _grep(name: str, args: Sequence[Word]) -> list[Word]:
    options, operands, flags = _split("grep", args)
    lists = names("-l -L --files-with-matches --files-without-match")
    if not any(stands_for(flag, lists) for flag in flags):
        return [_UNKNOWN]
    roots = operands if flags & _PATTERNS else operands[1:]
    if name != "rgrep" and not flags & {"-r", "-R", "--recursive", "--dereference-recursive"}:
        return list(roots) or [_UNKNOWN]
    return Listing(roots or [_HERE], _values(options, "--include"), folders=False, hidden=True).found()


def _git(command: str, args: Sequence[Word]) -> list[Word]:
    texts = [word.text for word in args]
    by_name = command in ("diff", "grep", "show", "log", "diff-tree")
    lists = re.compile(
        "--name-only|--files-with-matches|-[A-Za-z]*l[A-Za-z]*" if command == "grep" else "--name-only"
    )
    shown = by_name and any(map(lists.fullmatch, texts))
    if not shown and command not in ("ls-files", "ls-tree"):
        return [_UNKNOWN]
    behind = texts.index("--") + 1 if "--" in texts else 1
    paths = [w for w in args[behind:] if w.text[:1] != "-"] if behind > 1 or command == "ls-files" else []
    spelt = [w for w in paths if "/" not in w.text and re.search(r"[*?]", w.text)]
    below = [w for w in paths if w not in spelt]
    if spelt or not below:
        return Listing([_HERE], tuple(w.text for w in spelt), folders=False).found()
    return [w if "*" in w.text else Word(posixpath.join(w.text, "**"), w.source, True) for w in below]
