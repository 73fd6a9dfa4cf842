"""Inclusion: whether one rule's target speaks of everything that another's does.

It is asked of the rules themselves: the narrow pattern is filled with names that stand in no rule (short, long and in
several folders), and the wide one must match every one of these targets. So it is right by the matching that decides
calls. Where that proves nothing (brackets, many wildcards, places that depend on the workspace) the answer is no.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from pegboard.core.effects import Effect, EffectKind
from pegboard.core.policy.patterns import pattern_words
from pegboard.core.policy.rules import Rule, Situation, target_matches

_NEW: Final = "\u03de"
"""A letter that nobody writes in a rule: only a wildcard matches it."""

_HERE: Final = Situation(workspace=f"/{_NEW}w", home=f"/{_NEW}h")
_WILD: Final = re.compile(r"\*\*/|\*+|\?")
_MOST_WILDCARDS: Final = 4
_PATHS: Final = ("read", "write", "delete")


def target_includes(wide: Rule, narrow: Rule, kind: EffectKind) -> bool:
    """Whether `wide`'s target matches all effects of the kind that `narrow`'s matches, as far as that can be proved."""
    if kind == "exec" and wide.verdict == "allow" != narrow.verdict:
        # What permits is read narrowly and what forbids widely: the same words, and everything, mean less here.
        if narrow.target in ("*", "**"):
            return False
    elif wide.target in ("*", narrow.target):
        return True
    if "[" in wide.target + narrow.target or len(_WILD.findall(narrow.target)) > _MOST_WILDCARDS:
        return False
    if kind in _PATHS and _absolute(narrow.target) and not _absolute(wide.target):
        # The same place has another name where the workspace lies above it.
        return False
    long = _NEW * (len(wide.target) + 1)
    found = [e for e in _effects(kind, narrow.target, long) if _matches(narrow, e)]
    return bool(found) and all(_matches(wide, e) for e in found)


def _matches(rule: Rule, effect: Effect) -> bool:
    return target_matches(rule.target, effect, _HERE, forbids=rule.verdict != "allow")


def _absolute(pattern: str) -> bool:
    return pattern.startswith(("/", "~"))


def _effects(kind: EffectKind, pattern: str, long: str) -> Iterator[Effect]:
    """Effects that the pattern may speak of; those that it does not are left out by the caller."""
    if kind == "exec":
        yield Effect("exec", _NEW)  # A command that could not be analysed.
        for argv in _commands(pattern_words(pattern), long):
            yield Effect("exec", " ".join(argv), argv=argv)
        return
    deep = f"{_NEW}/{long}/{_NEW}"
    texts = _filled(pattern, (("", _NEW, long) if kind not in _PATHS else ("", _NEW, long, deep)), deep)
    for text in texts:
        if kind in _PATHS:
            text = f"{_HERE.home}{text[1:]}" if text.startswith("~") else text
            before = ("",) if _absolute(text) else ("", f"{_NEW}/", f"/{_NEW}/")
            for start, end in itertools.product(before, ("", f"/{deep}")):
                yield Effect(kind, start + text.rstrip("/") + end)
        else:
            yield Effect(kind, text)
            if kind == "connect":
                yield Effect(kind, f"{text}:1")


def _commands(words: list[str], long: str) -> Iterator[tuple[str, ...]]:
    """Command lines: `**` and a last `*` are any arguments, in a word they are letters."""
    choices: list[list[tuple[str, ...]]] = []
    for at, word in enumerate(words):
        if word == "**" or (word == "*" and at == len(words) - 1):
            choices.append([(), (_NEW,), (_NEW,) * len(long)])
        else:
            # Sorted: a rule that forbids reads `-rf` in any order, and what matches this order matches each.
            bundle = re.fullmatch(r"-[A-Za-z]{2,8}", word)
            filled = (
                {word, "-" + "".join(sorted(word[1:]))} if bundle else _filled(word, ("", _NEW, long), "")
            )
            choices.append([(text,) for text in filled])
    for chosen in itertools.product(*choices):
        argv = tuple(itertools.chain.from_iterable(chosen))
        if argv and argv[0]:
            for folder, more in itertools.product(("", "/usr/bin/", f"/{_NEW}/"), ((), (_NEW,))):
                yield (folder + argv[0] if "/" not in argv[0] else argv[0], *argv[1:], *more)


def _filled(pattern: str, fills: tuple[str, ...], deep: str) -> Iterator[str]:
    """The pattern with every wildcard filled in each way."""
    wild = _WILD.findall(pattern)
    texts = _WILD.split(pattern)
    ways = {"?": (_NEW,), "**/": ("", f"{_NEW}/", f"{deep}/")}
    for chosen in itertools.product(*(ways.get(one, fills) for one in wild)):
        yield "".join(itertools.chain(*itertools.zip_longest(texts, chosen, fillvalue="")))
