"""RuleIndex: which of many rules can speak of an effect at all, found without trying each.

A rule is filed under the one key that every target it covers must share: the program of a command, the
leading folders or the name of a path, the registered end of a host, or a literal condition. What has no
such key (`*.log?`, `exec:*`) is tried every time. The index only leaves rules out; the rules themselves
decide, in their order, so its answers are those of trying them all.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from pegboard.core.effects import Effect
from pegboard.core.hosts import split_port
from pegboard.core.policy.patterns import pattern_words
from pegboard.core.policy.rules import Rule, Situation, is_literal

Found: TypeAlias = tuple[Rule | None, Rule | None, Rule | None]
"""The first deny, the first allow or ask, and the user's first override that cover an effect."""

_PATHS: Final = ("read", "write", "delete")
_WILD: Final = re.compile(r"[*?\[\\]")
_BUNDLE: Final = re.compile(r"-[A-Za-z]{2,8}")
_TRIED_ALWAYS: Final = ("any", "")


class RuleIndex:
    """Some rules, filed.

    Args:
        rules: in order of precedence.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._filed: dict[tuple[str, str], list[int]] = {}
        named: dict[str, None] = {}
        for number, rule in enumerate(self._rules):
            key = _key(rule)
            if key[0].startswith("?"):
                named[key[0][1:]] = None
            self._filed.setdefault(key, []).append(number)
        self._conditions = tuple(named)

    def find(self, effect: Effect, situation: Situation) -> Found:
        """The first deny, the first allow or ask, and the first user's override that match."""
        deny = first = override = None
        rules = self._rules
        for number in self._candidates(effect, situation):
            rule = rules[number]
            if rule.verdict == "deny":
                wanted = deny is None
            elif rule.override:
                wanted = override is None and rule.verdict == "allow" and rule.source.startswith("user")
            else:
                wanted = first is None
            if not wanted or not (rule.applies(situation) and rule.covers(effect, situation)):
                continue
            if rule.verdict == "deny":
                deny = rule
            elif rule.override:
                override = rule
            else:
                first = rule
            if deny is not None and first is not None and override is not None:
                break
        return deny, first, override

    def _candidates(self, effect: Effect, situation: Situation) -> list[int]:
        filed = self._filed
        out: list[int] = []
        for key in self._looked_for(effect, situation):
            if (numbers := filed.get(key)) is not None:
                out += numbers
        out.sort()
        return out

    def _looked_for(self, effect: Effect, situation: Situation) -> Iterator[tuple[str, str]]:
        yield _TRIED_ALWAYS
        for name in self._conditions:
            yield f"?{name}", situation.values.get(name, "")
        if effect.kind == "exec":
            yield from _of_command(effect)
        elif effect.kind in _PATHS:
            yield from _of_path(effect.target, situation)
        elif effect.kind == "connect":
            yield from _of_host(effect.target)
        else:
            yield "exact", effect.target


def _key(rule: Rule) -> tuple[str, str]:
    """Where a rule is filed."""
    return _by_target(rule.kind, rule.target) or _by_condition(rule)


def _by_target(kind: str, target: str) -> tuple[str, str] | None:
    if kind == "*" or target == "*":
        return None
    if kind == "exec":
        words = pattern_words(target)
        literal = bool(words) and not _WILD.search(words[0]) and not _BUNDLE.fullmatch(words[0])
        return ("program", words[0]) if literal else None
    if kind in _PATHS:
        return _by_path(target)
    if kind == "connect":
        host = split_port(target)[0].rstrip(".").removeprefix("*.")
        return None if _WILD.search(host) else ("host", host)
    return None if _WILD.search(target) else ("exact", target)


def _by_condition(rule: Rule) -> tuple[str, str]:
    """The first literal condition; a rule for one sender need not be tried for the others."""
    for name, pattern in rule.conditions.items():
        if is_literal(pattern):
            return f"?{name}", pattern
    return _TRIED_ALWAYS


def _by_path(pattern: str) -> tuple[str, str] | None:
    body = pattern.rstrip("/")
    if not body:
        return None
    if "/" not in body and body != "~":
        if not _WILD.search(body):
            return "name", body
        dot = body.rfind(".")
        # `*.pem`: every name that it covers ends in `.pem`.
        tail = body[dot:]
        return ("ending", tail) if dot > 0 and not _WILD.search(tail) else None
    if body.startswith("/"):
        body = "/" + body.lstrip("/")
    literal: list[str] = []
    for part in body.split("/"):
        if _WILD.search(part):
            break
        literal.append(part)
    return ("below", "/".join(literal)) if any(literal) else None


def _of_command(effect: Effect) -> Iterator[tuple[str, str]]:
    if not effect.argv:
        return
    program = effect.argv[0]
    yield "program", program
    if "/" in program:
        yield "program", posixpath.basename(posixpath.normpath(program))


def _of_path(target: str, situation: Situation) -> Iterator[tuple[str, str]]:
    for part in target.split("/"):
        yield "name", part
        at = part.rfind(".")
        if at >= 0:
            yield "ending", part[at:]
    absolute = target.startswith("/")
    if not absolute:
        yield from _prefixes(target)
        if not situation.workspace:
            return
        base = situation.workspace.rstrip("/")
        target = situation.workspace if target == "." else f"{base}/{target}"
    yield from _prefixes(target)
    home = situation.home.rstrip("/")
    if situation.home and (target == home or target.startswith(home + "/")):
        yield from _prefixes("~" + target[len(home) :])


def _prefixes(path: str) -> Iterator[tuple[str, str]]:
    """`a`, `a/b`, `a/b/c` of `a/b/c`."""
    at = path.find("/", 1)
    while at > 0:
        yield "below", path[:at]
        at = path.find("/", at + 1)
    yield "below", path


def _of_host(target: str) -> Iterator[tuple[str, str]]:
    host = split_port(target)[0].rstrip(".")
    yield "host", host
    at = host.find(".")
    while at >= 0:
        yield "host", host[at + 1 :]
        at = host.find(".", at + 1)
