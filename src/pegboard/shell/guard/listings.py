"""The names that search programs hand on: known by their tests and patterns before they run.

A search is tried on the files of a repository, on a file of any name, and on the patterns that it spells itself.
What it may take becomes one word each: `./.git`, `./**` for everything, `./**/*.py`.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pegboard.shell.guard.calls import ProgramSpec, names, parse, stands_for
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
            return [_word(text, "**", root)]
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
                word = _word(text, f"**/{shown}" if below else shown, root)
                if not any(_covers(pattern, word.text) for pattern in covered):
                    made.append(word)
                    covered.append(posixpath.join(text, f"**/{shown}"))
            if inside:
                break
        return made or [_word(text, f"**/{HOLE}", root)]

    def _pattern(self, root: Word, pattern: str) -> Word:
        if "/" not in pattern:
            return _word(root.text, f"**/{pattern}" if self.deep else pattern, root)
        if pattern.startswith("*"):
            return _word(root.text, f"**/{pattern.lstrip('*').lstrip('/')}", root)
        return Word(pattern, root.source, True)


def _covers(pattern: str, path: str) -> bool:
    return fnmatch.fnmatchcase(path.lower(), pattern.lower().replace("**/", "*"))


def _word(root: str, name: str, source: Word) -> Word:
    return Word(posixpath.join(root, name), source.source, HOLE not in name)


# -- find

_VALUES: Final = names(
    "-amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename "
    "-links -lname -mmin -mtime -name -newer -path -perm -regex -samefile -size -type -uid -used -user -wholename -xtype "
    "-maxdepth -mindepth -regextype -files0-from -fls -fprint -fprint0 -printf -D"
)
_ACTIONS: Final = names(
    "-delete -exec -execdir -ok -okdir -print -print0 -printf -ls -fprint -fprint0 -fprintf -fls"
)
_RUNS: Final = names("-exec -execdir -ok -okdir")
_SINGLES_OUT: Final = re.compile(r"-(?:[acm]min|[acm]time|a?newer\w*|cnewer|used|size|empty|samefile|inum)")
"""Tests that a file of any name does not pass, though one of a repository may."""


@dataclass(slots=True)
class _Part:
    """A piece of an expression: `kind` is and, or, comma, not, or the word itself."""

    kind: str
    parts: list[_Part] = field(default_factory=list["_Part"])
    value: str = ""
    action: int = -1


@dataclass(slots=True)
class Action:
    """An action of `find`: its word, what stands behind it, and where the arguments go on."""

    name: str
    words: list[Word]


class Find(Search):
    """`find` with its expression (POSIX; findutils 4.9). Tests that cannot be worked out may go either way."""

    def __init__(self, args: Sequence[Word]) -> None:
        at = next(
            (
                i
                for i, w in enumerate(args)
                if w.text[:1] in ("-", "(", "!") and w.text not in ("-L", "-P", "-H")
            ),
            len(args),
        )
        self.roots = [w for w in args[:at] if w.text not in ("-L", "-P", "-H")] or [Word(".", ".")]
        self.actions: list[Action] = []
        self.unknown = False
        self._args = args
        self._at: int = at
        self._values: dict[str, list[str]] = {}
        self._expression = self._sequence()
        self._wanted = -1
        self._sure = True
        texts = {w.text for w in args}
        self._prunes = "-prune" in texts and not texts & {"-depth", "-d", "-delete"}

    def by(self, action: int) -> list[Word]:
        """What the action with this number gets; -1 = what is printed where no action is."""
        self._wanted = action
        return self.found()

    def printed(self) -> list[Word]:
        """The names on standard output."""
        acting = [i for i, a in enumerate(self.actions) if not a.name.startswith("-f")]
        if not acting:
            return self.by(-1)
        out: list[Word] = []
        for index in acting:
            action = self.actions[index]
            form = action.words[0].text if action.words else ""
            if action.name in ("-print", "-print0") or (
                action.name == "-printf" and re.fullmatch(r"%p(?:\\n|\\0| )?", form)
            ):
                out += self.by(index)
            elif action.name != "-delete":
                return [Word(HOLE, "what find prints")]
        return out

    @property
    def deep(self) -> bool:
        """Whether it goes below the folders directly in a root."""
        return self._values.get("-maxdepth") not in (["0"], ["1"])

    def patterns(self) -> Iterator[str]:
        """Names and paths of the expression's tests."""
        for test in ("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename"):
            yield from self._values.get(test, ())

    def takes(self, root: str, entry: Entry) -> bool:
        """Whether the wanted action may be reached for an entry."""
        limits = [(self._values.get(o, [""])[-1], s) for o, s in (("-maxdepth", 1), ("-mindepth", -1))]
        # A pattern of names stands for files at any depth.
        if entry.kind != "pattern" and any(v.isdigit() and (entry.depth - int(v)) * s > 0 for v, s in limits):
            return False
        parts = entry.path.split("/") if entry.kind != "pattern" else []
        if self._prunes and any(self._pruned(root, "/".join(parts[:n])) for n in range(len(parts))):
            return False
        reached: set[int] = set()
        passed = self._reach(self._expression, root, entry, reached)
        return passed is not False if self._wanted < 0 else self._wanted in reached

    def _pruned(self, root: str, folder: str) -> bool:
        reached: set[int] = set()
        self._sure = True
        self._reach(self._expression, root, Entry(folder, True, "any"), reached)
        return self._sure and _PRUNE in reached

    def _reach(self, part: _Part, root: str, entry: Entry, reached: set[int]) -> bool | None:
        """Whether a part is true of an entry, None = either way; notes the actions that may run."""
        sofar: bool | None = part.kind != "or"
        match part.kind:
            case "and" | "or":
                for inner in part.parts:
                    value = self._reach(inner, root, entry, reached)
                    if value is (part.kind == "or"):
                        return value
                    sofar = None if value is None else sofar
                return sofar
            case "comma":
                return [self._reach(inner, root, entry, reached) for inner in part.parts][-1]
            case "not":
                value = self._reach(part.parts[0], root, entry, reached)
                return None if value is None else not value
            case "-prune":
                reached.add(_PRUNE)
                return True
            case _ if part.action >= 0:
                reached.add(part.action)
                return None if part.kind in _RUNS else True
            case _:
                value = _passes(part.kind, part.value, root, entry, self._values)
                self._sure = self._sure and value is not None
                return value

    def _sequence(self) -> _Part:
        comma, branches, parts = _Part("comma"), _Part("or"), _Part("and")
        branches.parts, comma.parts = [parts], [branches]
        negated = False
        while self._at < len(self._args):
            text = self._args[self._at].text
            self._at += 1
            if text in (")", "\\)"):
                break
            if text in ("!", "-not"):
                negated = not negated
                continue
            if text in ("-o", "-or"):
                parts = _Part("and")
                branches.parts.append(parts)
            elif text == ",":
                parts = _Part("and")
                branches = _Part("or", [parts])
                comma.parts.append(branches)
            elif text not in ("-a", "-and"):
                made = self._sequence() if text in ("(", "\\(") else self._primary(text)
                parts.parts.append(_Part("not", [made]) if negated else made)
            negated = False
        return comma

    def _primary(self, text: str) -> _Part:
        start = self._at
        if text in _RUNS:
            stop = next(
                (i for i in range(start, len(self._args)) if self._args[i].text in (";", "\\;", "+")),
                len(self._args),
            )
            self._at = stop + 1
        else:
            stop = start + (2 if text == "-fprintf" else text in _VALUES or text.startswith("-newer"))
            self._at = stop
        words = list(self._args[start:stop])
        value = words[0].text if words else ""
        if text in _ACTIONS:
            self.actions.append(Action(text, words))
            return _Part(text, action=len(self.actions) - 1)
        self.unknown = self.unknown or HOLE in text
        self._values.setdefault(text, []).append(value)
        return _Part(text, value=value)


_PRUNE: Final = -2


def _passes(test: str, value: str, root: str, entry: Entry, values: dict[str, list[str]]) -> bool | None:
    """One test of `find`."""
    name = entry.name or posixpath.basename(root.rstrip("/")) or root
    path = posixpath.join(root, entry.path) if entry.path else root
    pattern = entry.kind == "pattern"
    if HOLE in value:
        return None
    if test in (
        "-true",
        "-depth",
        "-d",
        "-mount",
        "-xdev",
        "-maxdepth",
        "-mindepth",
        "-noleaf",
        "-follow",
        "-regextype",
        "-warn",
        "-nowarn",
        "-daystart",
    ):
        return True
    if test == "-false":
        return False
    if test in ("-name", "-iname"):
        return _fits(name, value, test[1] == "i", pattern)
    if test in ("-path", "-wholename", "-ipath", "-iwholename"):
        if pattern and entry.path != value:
            return None
        return _fits(entry.path if pattern else path, value, test[1] == "i", pattern)
    if test in ("-regex", "-iregex"):
        return None if pattern else _regex(value, path, "-regextype" in values, test == "-iregex")
    if test in ("-type", "-xtype"):
        return None if entry.folder is None else ("d" if entry.folder else "f") in value.split(",")
    if test == "-empty" or (test == "-size" and re.fullmatch(r"0[bcwkMG]?", value)):
        return None if pattern else False
    if _SINGLES_OUT.fullmatch(test):
        return False if entry.kind == "any" else None
    return None


def _fits(text: str, pattern: str, ignore_case: bool, is_pattern: bool) -> bool | None:
    if ignore_case:
        text, pattern = text.lower(), pattern.lower()
    if fnmatch.fnmatchcase(text, pattern.replace("[^", "[!")):
        return True
    return None if is_pattern and re.search(r"[*?\[]", text) else False


def _regex(pattern: str, text: str, extended: bool, ignore_case: bool) -> bool | None:
    """Whether a regular expression of `find` fits a whole path; None where Python cannot tell."""
    # In the default syntax groups and alternatives are written with a backslash (findutils, emacs).
    spelt = pattern if extended else re.sub(r"\\([(){}|])|([(){}|])", lambda m: m[1] or "\\" + m[2], pattern)
    try:
        return re.fullmatch(spelt, text, re.IGNORECASE if ignore_case else 0) is not None
    except re.error:
        return None


# -- fd, ripgrep, grep, git

_FD: Final = ProgramSpec(
    takes="deEtSojclC", long_takes=names(
        "--max-depth --min-depth --exact-depth --extension --exclude --type --size --owner --threads --color --changed-within "
        "--changed-before --search-path --base-directory --ignore-file --path-separator --max-results --format --newer --older"
    ),
)  # fmt: skip
_RG: Final = ProgramSpec(
    takes="efgtTABCmrEMjd", long_takes=names(
        "--glob --iglob --type --type-not --regexp --file --max-depth --max-count --sort --sortr --threads --ignore-file --color "
        "--context --after-context --before-context --type-add --encoding --max-columns --max-filesize"
    ),
)  # fmt: skip
_GREP: Final = ProgramSpec(
    takes="efABCmdD", long_takes=names("--regexp --file --include --exclude --exclude-dir --max-count --context --after-context --before-context")
)  # fmt: skip


@dataclass(slots=True)
class Listing(Search):
    """A search by patterns of names: `fd`, `rg --files`, `grep -l`, `git ls-files`.

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


def fd_search(args: Sequence[Word]) -> Listing:
    """`fd [PATTERN] [FOLDER …]`; a pattern is a regular expression unless told otherwise (fd 10)."""
    options, operands = parse(args, _FD)
    flags = {o.flag for o in options}

    def values(*wanted: str) -> tuple[str, ...]:
        return tuple(o.value.text for o in options if o.value is not None and o.flag in wanted)

    pattern = operands[0].text if operands else ""
    kinds = values("-t", "--type")
    globs = tuple(f"*.{ext.lstrip('.')}" for ext in values("-e", "--extension"))
    is_glob = bool(flags & {"-g", "--glob"})
    if is_glob and pattern:
        globs = (pattern,)
    roots = [*operands[1:], *(o.value for o in options if o.value and o.flag == "--search-path")]
    spelt = re.escape(pattern) if flags & {"-F", "--fixed-strings"} else pattern
    return Listing(
        roots or [Word(".", ".")], globs, "" if is_glob or pattern == "." else spelt.replace(HOLE, ".*"),
        whole_path=bool(flags & {"-p", "--full-path"}), hidden=bool(flags & {"-H", "--hidden", "-u", "--unrestricted"}),
        excluded=values("-E", "--exclude"), folders=not kinds or any(k in ("d", "dir", "directory") for k in kinds),
        files=not kinds or any(k not in ("d", "dir", "directory") for k in kinds),
        picks=bool(values("-S", "--size", "--changed-within", "--changed-before", "-o", "--owner")),
        shallow=values("-d", "--max-depth", "--exact-depth")[-1:] == ("1",),
    )  # fmt: skip


def printed_names(argv: Sequence[Word]) -> list[Word]:
    """The names that a program prints; one unknown word where nothing tells them."""
    unknown = [Word(HOLE, "what a program prints")]
    name, args = (argv[0].text.rpartition("/")[2], argv[1:]) if argv else ("", argv)
    if name in ("find", "gfind", "bfs"):
        return Find(args).printed()
    if name in ("fd", "fdfind"):
        return (
            unknown
            if any(w.text in FD_RUNS or w.text == "--format" for w in args)
            else fd_search(args).found()
        )
    if name in ("rg", "ag", "ack"):
        options, operands = parse(args, _RG)
        flags = {o.flag for o in options}
        listed = "--files" in flags
        if not listed and not any(
            stands_for(f, names("-l --files-with-matches --files-without-match")) for f in flags
        ):
            return unknown
        globs = [o.value.text for o in options if o.value and o.flag in ("-g", "--glob", "--iglob")]
        roots = operands if listed or flags & {"-e", "-f", "--regexp", "--file"} else operands[1:]
        return Listing(
            roots or [Word(".", ".")], tuple(g for g in globs if g[:1] != "!"), folders=False,
            hidden=bool(flags & {"--hidden", "-.", "-uu"}), excluded=tuple(g[1:] for g in globs if g[:1] == "!"),
        ).found()  # fmt: skip
    if name in ("grep", "egrep", "fgrep", "zgrep", "rgrep"):
        options, operands = parse(args, _GREP)
        flags = {o.flag for o in options}
        if not any(stands_for(f, names("-l -L --files-with-matches --files-without-match")) for f in flags):
            return unknown
        roots = operands if flags & {"-e", "-f", "--regexp", "--file"} else operands[1:]
        if not flags & {"-r", "-R", "--recursive", "--dereference-recursive"} and name != "rgrep":
            return list(roots) or unknown
        globs = [o.value.text for o in options if o.value and o.flag == "--include"]
        return Listing(roots or [Word(".", ".")], tuple(globs), folders=False, hidden=True).found()
    if name == "git" and args:
        listed = args[0].text in ("ls-files", "ls-tree") or any(
            w.text in ("--name-only", "-l", "--files-with-matches") for w in args if args[0].text in ("diff", "grep", "show", "log", "diff-tree")
        )  # fmt: skip
        if not listed:
            return unknown
        behind = [w.text for w in args].index("--") + 1 if any(w.text == "--" for w in args) else 1
        paths = (
            [w for w in args[behind:] if w.text[:1] != "-"]
            if behind > 1 or args[0].text == "ls-files"
            else []
        )
        spelt = [w for w in paths if "/" not in w.text and re.search(r"[*?]", w.text)]
        below = [w for w in paths if w not in spelt]
        return (
            Listing([Word(".", ".")], tuple(w.text for w in spelt), folders=False).found()
            if spelt or not below
            else [w if "*" in w.text else Word(posixpath.join(w.text, "**"), w.source, True) for w in below]
        )
    return unknown


FD_RUNS: Final = ("-x", "--exec", "-X", "--exec-batch")
