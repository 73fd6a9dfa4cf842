"""The expression of `find`: what each of its actions gets."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pegboard.shell.guard.operands import HOLE
from pegboard.shell.guard.search import Entry, Search
from pegboard.shell.guard.specs import names
from pegboard.shell.guard.words import Word

_VALUES: Final = names(
    "-amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex -iwholename "
    "-links -lname -mmin -mtime -name -newer -path -perm -regex -samefile -size -type -uid -used -user -wholename -xtype "
    "-maxdepth -mindepth -regextype -files0-from -fls -fprint -fprint0 -printf -D"
)
_ACTIONS: Final = names(
    "-delete -exec -execdir -ok -okdir -print -print0 -printf -ls -fprint -fprint0 -fprintf -fls"
)
_ALWAYS: Final = names(
    "-true -depth -d -mount -xdev -maxdepth -mindepth -noleaf -follow -regextype -warn -nowarn -daystart"
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
    if test in _ALWAYS:
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
