"""Patterns over a command's program and arguments, matched token by token.

A pattern is read like a command line: blanks separate tokens, quotes keep blanks.

* `*` in the middle stands for exactly one token; `**` stands for any number of them, also none.
* A last `*` after a blank stands for any arguments, also none, because that is what people mean
  by `git *`: `git`, `git log --oneline`. `git diff *` says nothing about `git diff-index HEAD`.
* Inside a token `*` and `?` are wildcards: `test_*`, `./scripts/*`. A pattern that is one such token
  names programs, so any arguments may follow: `./scripts/*` covers `./scripts/a.sh p`.
* Without a wildcard the command must be exactly that: `npm run test` is not `npm run test:deploy`.

A rule that permits is read narrowly and one that forbids widely, since both readings of a
doubtful case would else favour the command.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

#: Character classes in brackets, ASCII as in git's C locale and in POSIX.
POSIX_CLASSES: Final[dict[str, str]] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}

#: Matches nothing: what git makes of a malformed pattern.
NEVER: Final = r"(?!)"


def wildmatch(pattern: str, *, pathname: bool, forgiving: bool = False) -> str:
    """The regular expression of one gitignore pattern, to be used with `fullmatch`.

    Args:
        pattern: without `!`, anchoring slash and trailing slash.
        pathname: wildcards do not match `/` and `**` spans folders (git's WM_PATHNAME).
        forgiving: an open bracket and a trailing backslash stand for themselves, and a backslash in
            brackets is a member: for rules, where a pattern that matches nothing protects nothing.

    Otherwise a malformed pattern (open bracket, trailing backslash) matches nothing, as in git.
    """
    out: list[str] = []
    i, n = 0, len(pattern)
    anything = "[^/]" if pathname else "[\\s\\S]"
    star = f"{anything}*"
    while i < n:
        char = pattern[i]
        if char == "\\":
            if i + 1 == n:
                return bounded(out, star) + "\\\\" if forgiving else NEVER
            out.append(re.escape(pattern[i + 1]))
            i += 2
        elif char == "?":
            out.append(anything)
            i += 1
        elif char == "*":
            end = i
            while end < n and pattern[end] == "*":
                end += 1
            piece, i = _stars(pattern, i, end, pathname)
            out.append(piece)
        elif char == "[":
            found = bracket(pattern, i, escape=not forgiving, slash=not pathname)
            if found is None and not forgiving:
                return NEVER
            piece, i = found or ("\\[", i + 1)
            out.append(piece)
        else:
            out.append(re.escape(char))
            i += 1
    return bounded(out, star)


def _stars(pattern: str, start: int, end: int, pathname: bool) -> tuple[str, int]:
    """The piece for a run of stars, and where the pattern goes on."""
    if not pathname:
        return "[\\s\\S]*", end
    alone = end - start == 2 and (start == 0 or pattern[start - 1] == "/")
    if alone and end == len(pattern):
        return "[\\s\\S]*", end
    if alone and pattern[end] == "/":
        return SPAN, end + 1
    return "[^/]*", end


def bracket(pattern: str, start: int, *, escape: bool, slash: bool) -> tuple[str, int] | None:
    """The class that opens at `start` and the index behind it; None where it never closes.

    Args:
        escape: a backslash makes the next character literal.
        slash: whether `/` may be matched by the class.
    """
    i, n = start + 1, len(pattern)
    negated = i < n and pattern[i] in "!^"
    i += negated
    first = i
    items: list[str] = []
    while i < n and (pattern[i] != "]" or i == first):
        if pattern.startswith("[:", i):
            close = pattern.find(":]", i + 2)
            name = pattern[i + 2 : close] if close > 0 else ""
            if close > 0 and name.isalpha():
                if name not in POSIX_CLASSES:
                    return None
                items.append(POSIX_CLASSES[name])
                i = close + 2
                continue
        low, i = _member(pattern, i, escape)
        if i + 1 < n and pattern[i] == "-" and pattern[i + 1] != "]":
            high, i = _member(pattern, i + 1, escape)
            if low <= high:
                items.append(f"{_class_char(low)}-{_class_char(high)}")
        else:
            items.append(_class_char(low))
    if i >= n:
        return None
    guard = "" if slash else "(?!/)"
    body = "".join(items)
    if not body:
        return guard + ("[\\s\\S]" if negated else NEVER), i + 1
    return f"{guard}[{'^' if negated else ''}{body}]", i + 1


def _member(pattern: str, i: int, escape: bool) -> tuple[str, int]:
    if escape and pattern[i] == "\\" and i + 1 < len(pattern):
        return pattern[i + 1], i + 2
    return pattern[i], i + 1


def _class_char(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


_COUNT: Final = itertools.count()

SPAN: Final = "(?:[\\s\\S]*/)?"
"""`**/` at the start of a pattern or behind a slash."""

INNER: Final = "(?:/|/[\\s\\S]*/)"
"""`/**/`, slashes included."""

_LAZY: Final = {SPAN: "(?:[\\s\\S]*?/)??", INNER: "(?:/|/[\\s\\S]*?/)"}


def bounded(pieces: Sequence[str], star: str) -> str:
    """The regular expression of a glob's pieces.

    Args:
        pieces: in order; each is `star`, SPAN, INNER, or the expression of a single character; one that
            begins with `(?:` otherwise is anything, and nothing is assumed of it.
        star: the expression of `*`.
    """
    return "".join(_spans(_merge_stars(pieces, star)))


def _merge_stars(pieces: Sequence[str], star: str) -> list[str]:
    """`*x` before another `*` of the same component, as one atomic piece."""
    within = star.startswith("[^/]")
    out: list[str] = []
    at = 0
    while at < len(pieces):
        end = at + 1
        while end < len(pieces) and not (_wide(pieces[end], star) or (within and _takes_slash(pieces[end]))):
            end += 1
        if pieces[at] == star and end > at + 1 and end < len(pieces) and pieces[end] == star:
            out.append(_atomic(f"{star}?{''.join(pieces[at + 1 : end])}"))
            at = end
        else:
            out.append(pieces[at])
            at += 1
    return out


def _spans(pieces: Sequence[str]) -> list[str]:
    """`**/x/` before another `**/`, as one atomic piece."""
    out: list[str] = []
    at = 0
    while at < len(pieces):
        end = at + 1
        # A class may take a slash too (`[!a]`), and then a part has no fixed number of folders.
        while end < len(pieces) and not (
            pieces[end].startswith("(?:") or (pieces[end].startswith("[") and _takes_slash(pieces[end]))
        ):
            end += 1
        if pieces[at] in _LAZY and end < len(pieces) and pieces[end] in _LAZY:
            whole = "(?=/)" if pieces[end] == INNER else ""
            out.append(_atomic(f"{_LAZY[pieces[at]]}{''.join(pieces[at + 1 : end])}{whole}"))
            at = end
        else:
            out.append(pieces[at])
            at += 1
    return out


def _wide(piece: str, star: str) -> bool:
    return piece == star or piece.startswith("(?:")


def _takes_slash(piece: str) -> bool:
    return re.fullmatch(piece, "/") is not None


def _atomic(source: str) -> str:
    # Names, not numbers: expressions are joined with others. Unique in the process, so that they may be.
    name = f"glob{next(_COUNT)}"
    return f"(?=(?P<{name}>{source}))(?P={name})"


Matcher: TypeAlias = Callable[[str], bool]


@lru_cache(maxsize=4096)
def glob(pattern: str) -> Matcher:
    """A `*` and `?` glob over a whole text as a predicate."""
    pieces = [["." if char == "?" else re.escape(char) for char in piece] for piece in pattern.split("*")]
    return _between_stars(pieces)


@lru_cache(maxsize=4096)
def path_glob(pattern: str) -> Matcher:
    """A gitignore glob as a predicate on paths with `/`; a match of a folder covers all below it.

    A pattern without `/` but at its end fits at any depth. Brackets that never close, and a trailing
    backslash, stand for themselves: a rule that matches nothing would protect nothing.

    Raises:
        re.error: brackets that can match nothing, such as `[z-a]`.
    """
    body = pattern.rstrip("/") or "/"
    levels = _levels(body.lstrip("/"))
    if "/" not in body and levels[:1] != [_DEEP]:
        levels.insert(0, _DEEP)

    def matches(path: str) -> bool:
        if path.startswith("/") and _below(levels, path[1:].split("/")):
            return True
        return _below(levels, path.split("/"))

    return matches


@dataclass(frozen=True, slots=True)
class _Deep:
    """`**`: any number of folders; `last`: at least one name, and all that follows it."""

    last: bool = False


_Level: TypeAlias = Matcher | _Deep
_DEEP: Final = _Deep()
_REST: Final = _Deep(last=True)


def _below(levels: Sequence[_Level], names: Sequence[str]) -> bool:
    """Whether a path's first names fit all levels; with one way back, to the last `**`."""
    at = name = 0
    deep = mark = -1
    while at < len(levels):
        level = levels[at]
        if level is _REST and name < len(names):
            return True
        if level is _DEEP:
            deep, mark = at, name
            at += 1
        elif name < len(names) and not isinstance(level, _Deep) and level(names[name]):
            at += 1
            name += 1
        elif deep >= 0 and mark < len(names):
            mark += 1
            at, name = deep + 1, mark
        else:
            return False
    return True


def _levels(body: str) -> list[_Level]:
    """The pattern's parts between slashes."""
    levels: list[_Level] = []
    pieces: list[list[str]] = [[]]
    at, size = 0, len(body)
    while at < size:
        char = body[at]
        if char == "*":
            end = at
            while end < size and body[end] == "*":
                end += 1
            if end - at == 2 and (at == 0 or body[at - 1] == "/") and (end == size or body[end] == "/"):
                if end == size:
                    return [*levels, _REST]
                levels.append(_DEEP)
                at = end + 1
                continue
            pieces.append([])
            at = end
        elif char == "/" or body.startswith("\\/", at):
            levels.append(_between_stars(pieces))
            pieces = [[]]
            at += 1 if char == "/" else 2
        else:
            unit, at = _unit(body, at)
            pieces[-1].append(unit)
    return [*levels, _between_stars(pieces)]


def _unit(body: str, at: int) -> tuple[str, int]:
    """What fits one character, and where the pattern goes on."""
    char = body[at]
    if char == "\\":
        return re.escape(body[at + 1 : at + 2] or "\\"), at + 2
    if char == "?":
        return ".", at + 1
    if char == "[":
        found = bracket(body, at, escape=False, slash=False)
        if found is not None and NEVER in found[0]:
            raise re.error("its brackets match nothing", body)
        return found or ("\\[", at + 1)
    return re.escape(char), at + 1


def _between_stars(pieces: Sequence[Sequence[str]]) -> Matcher:
    """A text that begins with the first piece, ends with the last and has the others between, in order.

    Each element of a piece is a regular expression of exactly one character.
    """
    first, *between = (re.compile("".join(piece), re.DOTALL) for piece in pieces)
    if not between:
        return lambda text: first.fullmatch(text) is not None
    last = between.pop()
    head, tail = len(pieces[0]), len(pieces[-1])
    inner = [one for one, piece in zip(between, pieces[1:-1], strict=True) if piece]

    def matches(text: str) -> bool:
        at, end = head, len(text) - tail
        if at > end or first.match(text) is None or last.fullmatch(text, end) is None:
            return False
        for one in inner:
            found = one.search(text, at, end)
            if found is None:
                return False
            at = found.end()
        return True

    return matches


_Token: TypeAlias = Matcher | None
"""A token as a predicate; None = any number of tokens."""

SYSTEM_FOLDERS: Final = frozenset(
    {"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"}
)
"""Where a bare program name is expected to lie; `/bin/rm` is `rm`, `./rm` is not."""


def exec_pattern_matches(pattern: str, argv: Sequence[str], *, forbids: bool = False) -> bool:
    """Whether one command segment is covered by a pattern.

    Args:
        pattern: as above; blanks only = matches nothing.
        argv: program and arguments, as parsed.
        forbids: the rule is a deny or an ask. Then a program counts wherever it lies, further
            arguments may follow, and letters of a short option bundle (`-rf`) match in any order.

    Returns:
        True where every token is covered. An empty `argv` is covered by nothing.
    """
    if not argv:
        return False
    tokens = _compiled(pattern, forbids)
    if not tokens:
        return False
    program = posixpath.normpath(argv[0]) if "/" in argv[0] else argv[0]
    folder, _, name = program.rpartition("/")
    spelt = argv[0]
    if not forbids and "/../" in spelt:
        # `./scripts/*` permits what lies in that folder, not what a path through it leads to.
        spelt = program if program.startswith(("/", "../")) else f"./{program}"
    if _covers(tokens, (spelt, *argv[1:]), forbids):
        return True
    # A bare name in the pattern also means that program in its usual folder.
    short = "/" in argv[0] and (forbids or folder in SYSTEM_FOLDERS)
    return short and _covers(tokens, (name, *argv[1:]), forbids)


matches = exec_pattern_matches


def _covers(tokens: tuple[_Token, ...], argv: tuple[str, ...], forbids: bool) -> bool:
    """Two-pointer wildcard match over tokens; linear but for one stored way back."""
    at = word = 0
    star = mark = -1
    while word < len(argv):
        if at < len(tokens) and tokens[at] is None:
            star, mark = at, word
            at += 1
        elif at < len(tokens) and _same(tokens[at], argv[word], forbids):
            at += 1
            word += 1
        elif star >= 0:
            mark += 1
            at, word = star + 1, mark
        else:
            return False
    return all(token is None for token in tokens[at:])


def _same(token: _Token, word: str, forbids: bool) -> bool:
    assert token is not None
    if token(word):
        return True
    return forbids and bool(_BUNDLE.fullmatch(word)) and token(_sorted_bundle(word))


@lru_cache(maxsize=4096)
def _compiled(pattern: str, forbids: bool) -> tuple[_Token, ...]:
    words = pattern_words(pattern)
    out: list[_Token] = []
    for index, word in enumerate(words):
        last = index == len(words) - 1
        if word == "**" or (word == "*" and last):
            out.append(None)
        else:
            if forbids and _BUNDLE.fullmatch(word):
                word = _sorted_bundle(word)
            out.append(glob(word))
    if out and out[-1] is not None and (forbids or (len(words) == 1 and _has_wildcard(words[0]))):
        out.append(None)
    return tuple(out)


def pattern_words(pattern: str) -> list[str]:
    """The tokens of a pattern, quotes taken away."""
    try:
        import shlex

        return shlex.split(pattern, posix=True)
    except ValueError:
        # An apostrophe that closes nowhere is meant as one.
        return pattern.split()


def _has_wildcard(word: str) -> bool:
    return "*" in word or "?" in word


def _sorted_bundle(word: str) -> str:
    return "-" + "".join(sorted(word[1:]))


_BUNDLE: Final = re.compile(r"-[A-Za-z]{2,8}")
