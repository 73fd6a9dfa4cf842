"""Lint: what is odd about a list of rules: never reached, said twice, wider than people mean.

Advice, never a refusal: every finding is about rules that can be read. Whether one rule covers all that another does
is asked of the rules themselves: the narrow pattern is filled with names that stand in no rule (short, long and in
several folders), and the wide one must match every one of these targets. So it is right by the matching that decides
calls. Where that proves nothing (brackets, many wildcards, places that depend on the workspace) nothing is said.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pegboard.core.effects import Effect, EffectKind
from pegboard.core.hosts import WEB_PORTS
from pegboard.core.policy.patterns import pattern_words
from pegboard.core.policy.policy import SHIPPED
from pegboard.core.policy.rules import Rule, Situation, target_matches
from pegboard.core.protected import PROTECTED

_RUNS_ANYTHING: Final = frozenset(
    ("bash", "sh", "zsh", "dash", "fish", "python", "python3", "node", "perl", "ruby", "php", "env", "xargs", "sudo", "make",
     "npm", "npx", "uv", "uvx", "pipx", "docker", "podman", "ssh", "find", "awk", "eval", "watch", "nohup", "timeout")
)  # fmt: skip


_NEW: Final = "\u03de"
"""A letter that nobody writes in a rule: only a wildcard matches it."""

_HERE: Final = Situation(workspace=f"/{_NEW}w", home=f"/{_NEW}h")
_WILD: Final = re.compile(r"\*\*/|\*+|\?")
_MOST_WILDCARDS: Final = 4
_PATHS: Final = ("read", "write", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """One remark.

    Attributes:
        kind: unreachable (another rule always decides first), double (said twice), wide (covers more than
            it seems to), idle (its conditions can never hold).
        rule: the rule, and where it stands.
        text: what is odd, one sentence.
        by: the other rule, None where there is none.
    """

    kind: Literal["unreachable", "double", "wide", "idle"]
    rule: Rule
    text: str
    by: Rule | None = None

    def to_dict(self) -> dict[str, str]:
        """`{kind, rule, source, text, by}`."""
        other = "" if self.by is None else f"{self.by} ({self.by.source})"
        return {
            "kind": self.kind,
            "rule": str(self.rule),
            "source": self.rule.source,
            "text": self.text,
            "by": other,
        }


def lint(rules: Iterable[Rule]) -> list[LintFinding]:
    """Everything that is odd about the user's and the project's rules, in their order; the shipped ones stand before them."""
    asked = (f"ask {kind}:{name}" for name in PROTECTED for kind in ("write", "delete") if name != ".git")
    shipped = tuple(Rule.parse(line, source="shipped") for line in (*SHIPPED, *asked))
    listed = (*shipped, *rules)
    out: list[LintFinding] = []
    for number, rule in enumerate(listed):
        # Subclasses decide by more than their text says.
        if number < len(shipped) or type(rule) is not Rule:
            continue
        found = _shadowed(rule, listed[:number], listed[number + 1 :])
        if found is not None:
            out.append(found)
        if (why := _wide(rule)) is not None:
            out.append(LintFinding(kind="wide", rule=rule, text=why))
        if (why := _idle(rule)) is not None:
            out.append(LintFinding(kind="idle", rule=rule, text=why))
    return out


def _shadowed(rule: Rule, before: Sequence[Rule], after: Sequence[Rule]) -> LintFinding | None:
    """A rule that decides nothing: denies win wherever they stand, of the others the first does."""
    if rule.observe:
        return None
    for other in before:
        if not _plain(other) or not _includes(other, rule):
            continue
        if other.verdict == rule.verdict and other.override == rule.override:
            same = _includes(rule, other)
            text = "it is a duplicate" if same else "an earlier, wider rule has the same effect"
            return LintFinding(kind="double", rule=rule, text=text, by=other)
        if rule.verdict != "deny" and other.verdict != "deny" and not rule.override and not other.override:
            return LintFinding(kind="unreachable", rule=rule, text="an earlier rule decides first", by=other)
    if rule.verdict == "deny" or rule.override:
        return None
    for other in (*before, *after):
        if _plain(other) and other.verdict == "deny" and _includes(other, rule):
            return LintFinding(
                kind="unreachable", rule=rule, text="a deny rule covers all of it, and deny wins", by=other
            )
    return None


def _plain(rule: Rule) -> bool:
    return type(rule) is Rule and not rule.observe


def _includes(wide: Rule, narrow: Rule) -> bool:
    """Whether `wide` speaks of everything that `narrow` speaks of, as far as the patterns tell."""
    if wide.kind not in ("*", narrow.kind) or (wide.unless and wide.unless != narrow.unless):
        return False
    if wide.tainted is not None and wide.tainted != narrow.tainted:
        return False
    if not _conditions_include(wide.conditions, narrow.conditions):
        return False
    if wide.kind != narrow.kind or narrow.kind == "*":
        return wide.target in ("*", narrow.target)
    return target_includes(wide, narrow, narrow.kind)


def _conditions_include(wide: Mapping[str, str], narrow: Mapping[str, str]) -> bool:
    return all(pattern == "*" or narrow.get(name) == pattern for name, pattern in wide.items())


def _wide(rule: Rule) -> str | None:
    if rule.verdict != "allow" or rule.observe:
        return None
    bounded = any(pattern != "*" for pattern in rule.conditions.values())
    if rule.target in ("*", "**") and not bounded:
        what = "everything" if rule.kind == "*" else f"every {rule.kind}"
        return f"it allows {what}; name the targets or add a condition"
    if rule.kind == "exec":
        words = pattern_words(rule.target)
        name = words[0].rpartition("/")[2] if words else ""
        if len(words) > 1 and words[1] in ("*", "**") and name in _RUNS_ANYTHING:
            return f"{name} can run any other program, so this allows every command; name the exact ones"
    if rule.kind in ("write", "delete", "read") and rule.target.rstrip("/*") in (
        "",
        "~",
        "/home",
        "/root",
        "/etc",
        "/usr",
    ):
        return f"it allows all of {rule.target}"
    if rule.kind == "connect" and rule.target.startswith("*.") and rule.target.count(".") == 1:
        return f"it allows every host below .{rule.target[2:]}"
    if rule.override and not rule.conditions and rule.target in ("*", "**"):
        return "it overrides every deny"
    return None


def _idle(rule: Rule) -> str | None:
    if rule.kind == "exec" and rule.target != "*" and not pattern_words(rule.target):
        return "its pattern is empty, so it matches nothing"
    if rule.target in rule.unless or "*" in rule.unless:
        return "`unless` excludes everything that it matches"
    if rule.kind == "exec" and not {"|", "||", "&&", ";", ">", ">>", "&"}.isdisjoint(
        pattern_words(rule.target)
    ):
        return "commands are matched one by one after parsing, so a pattern with | ; && or > never matches"
    if rule.kind == "connect" and "://" in rule.target:
        return "hosts are matched, not URLs: write the host alone"
    return None


def target_includes(wide: Rule, narrow: Rule, kind: EffectKind) -> bool:
    """Whether `wide`'s target matches all effects of the kind that `narrow`'s matches, as far as that can be proved."""
    if kind in ("exec", "connect") and wide.verdict == "allow" != narrow.verdict:
        # What permits is read narrowly and what forbids widely: the same words, and every command, mean less here.
        if kind == "exec" and narrow.target in ("*", "**"):
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
                yield from (Effect(kind, f"{text}:{port}") for port in (1, *WEB_PORTS))


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
