"""Patterns over a command's program and arguments, matched token by token (decisions 3).

A pattern is read like a command line: blanks separate tokens, quotes keep blanks.

* `*` in the middle stands for exactly one token; `**` stands for any number of them, also none.
* A last `*` after a blank stands for any arguments, also none, because that is what people mean
  by `git *`: `git`, `git log --oneline`. `git diff *` says nothing about `git diff-index HEAD`.
* Inside a token `*` and `?` are wildcards: `test_*`, `./scripts/*`. A pattern that is one such token
  names programs, so any arguments may follow: `./scripts/*` covers `./scripts/a.sh p`.
* Without a wildcard the command must be exactly that: `npm run test` is not `npm run test:deploy`.

A rule that permits is read narrowly and one that forbids widely, since both readings of a
doubtful case would else favour the command (ledger X-23; cases perm-01..perm-09).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from pegboard.core.globs import Matcher, glob

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
