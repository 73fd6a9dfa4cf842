"""Rule: allow, ask or deny, for an effect and under conditions; read from one line of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from pegboard.core.effects import EFFECT_KINDS, Effect, EffectKind, Verdict
from pegboard.core.errors import ConfigError
from pegboard.core.errors import check_text as given_text
from pegboard.core.hosts import host_matches
from pegboard.core.policy.patterns import (
    NEVER,
    exec_pattern_matches,
    glob,
    path_glob,
    pattern_words,
    wildmatch,
)

if TYPE_CHECKING:
    from pegboard.core.context import Context
    from pegboard.core.tool import Tool

CONDITIONS: Final[dict[str, Callable[[Context, Tool], str]]] = {
    # A rule about exec must hold although a profile shows it as Bash.
    "tool": lambda context, tool: tool.canonical or tool.name,
    "agent": lambda context, tool: context.agent,
    "session": lambda context, tool: context.session,
    "channel": lambda context, tool: context.origin.get("channel", ""),
    "sender": lambda context, tool: context.origin.get("sender", ""),
    "model": lambda context, tool: context.model,
}
"""What a rule can ask about a call, and where its value comes from. A new condition is one line here."""

_PATHS: Final = ("read", "write", "delete")
_OPTIONS: Final = (*CONDITIONS, "unless", "tainted", "override", "observe", "reason")
_WORD: Final = re.compile(rf"(?:^|\s)({'|'.join(_OPTIONS)})=")
_STRAY: Final = re.compile(r"\s([A-Za-z_]{2,20})=(?=\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What conditions of rules look at.

    Attributes:
        values: by the name of a condition, its value, where known.
        workspace: the workspace's absolute path with `/`, empty where there is none.
        home: the user's home folder, for `~` in patterns; may be empty.
        tainted: whether the run holds untrusted content.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    workspace: str = ""
    home: str = ""
    tainted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        verdict: allow, ask or deny.
        kind: the effect's kind, `*` for every kind.
        target: what it is done to. Paths: gitignore globs, relative to the workspace, or absolute
            with a leading `/` or `~`; a pattern that names a folder covers all below it. exec: program and
            arguments, token by token. Hosts: whole labels, `*.example.com`; without a port an allow means ports 80
            and 443, a deny or ask every port, `host:*` is every port too. Others: `*` globs.
            `*` alone is everything.
        unless: targets that the rule leaves out.
        conditions: a glob by the name in `CONDITIONS`, all must hold. `a|b` is either,
            `!a|b` is neither.
        tainted: only when the run is (or is not) tainted; None = always.
        override: an allow that lifts denies; honoured from the user's own config only.
        observe: it decides nothing; what it would have answered is recorded.
        source: where it stands: user, project, shipped, grant, call; and the line.
        reason: shown to whoever is asked or refused.
    """

    verdict: Verdict
    kind: EffectKind | Literal["*"] = "*"
    target: str = "*"
    unless: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict[str, str])
    tainted: bool | None = None
    override: bool = False
    observe: bool = False
    source: str = "user"
    reason: str = ""

    @classmethod
    def parse(cls, line: str, *, source: str = "user") -> Rule:
        """Read `deny exec:git push ** tool=exec unless=exec:git push origin`.

        Form: VERDICT [KIND:TARGET] [CONDITION=GLOB …] [unless=TARGET,…] [tainted=true] [override=true]
        [observe=true] [reason=TEXT]. A rule without KIND:TARGET needs a condition (`ask tool=delete_*`).

        Raises:
            ConfigError: what is wrong with the line.
        """
        text = given_text(line, "a rule", meant="text such as 'ask exec:git push **'").strip()
        verdict, _, rest = text.partition(" ")
        if verdict not in ("allow", "ask", "deny"):
            raise ConfigError(
                f"rule {line!r} starts with {verdict!r}; write allow, ask or deny first"
                + _meant(verdict, ("allow", "ask", "deny"))
            )
        words = list(_WORD.finditer(rest))
        head = rest[: words[0].start()].strip() if words else rest.strip()
        options = {
            m.group(1): rest[m.end() : words[i + 1].start() if i + 1 < len(words) else len(rest)].strip()
            for i, m in enumerate(words)
        }
        _check_options(head, options, line)
        kind, target = _head(head, line)
        if kind is None and not any(c in options for c in CONDITIONS):
            raise ConfigError(f"rule {line!r} needs KIND:TARGET or a condition such as tool=NAME")
        unless = tuple(_unprefixed(u) for u in options.get("unless", "").split(",") if u.strip())
        _check_globs(kind, (target, *unless), line)
        return cls(
            verdict=verdict,
            kind=kind or "*",
            target=target,
            unless=unless,
            conditions={c: options[c] for c in CONDITIONS if c in options},
            tainted=_flag(options["tainted"], line) if "tainted" in options else None,
            override=_flag(options.get("override", "false"), line),
            observe=_flag(options.get("observe", "false"), line),
            source=source,
            reason=options.get("reason", ""),
        )

    @classmethod
    def from_mapping(cls, value: Mapping[str, Any], *, source: str = "user") -> Rule:
        """Read the table form: `{deny = "exec:git push **", unless = [...], tool = "exec"}`.

        Raises:
            ConfigError: an unknown key, or not exactly one of allow, ask, deny.
        """
        verdicts = [v for v in ("allow", "ask", "deny") if v in value]
        known = {*verdicts, *CONDITIONS, "unless", "tainted", "override", "observe", "reason"}
        unknown = [k for k in value if k not in known]
        if len(verdicts) != 1 or unknown:
            problem = (
                f"unknown key {unknown[0]!r}{_meant(str(unknown[0]), (*_OPTIONS, 'allow', 'ask', 'deny'))}"
                if unknown
                else "exactly one of allow, ask, deny is needed"
            )
            raise ConfigError(f"rule {dict(value)!r}: {problem}")
        head = str(value[verdicts[0]]).strip()
        conditions = {c: str(value[c]) for c in CONDITIONS if c in value}
        kind, target = _head(head, str(dict(value)))
        if kind is None and not conditions:
            raise ConfigError(f"rule {dict(value)!r} needs KIND:TARGET or a condition such as tool")
        given: Any = value.get("unless", ())
        unless = tuple(_unprefixed(str(u)) for u in ([given] if isinstance(given, str) else given))
        _check_globs(kind, (target, *unless), str(dict(value)))
        flags = {k: value[k] for k in ("tainted", "override", "observe") if k in value}
        for key, flag in flags.items():
            if not isinstance(flag, bool):
                raise ConfigError(f"rule {dict(value)!r}: {key} is {flag!r}, neither true nor false")
        return cls(
            verdict=cast(Verdict, verdicts[0]),
            kind=kind or "*",
            target=target,
            unless=unless,
            conditions=conditions,
            tainted=cast("bool | None", value.get("tainted")),
            override=bool(value.get("override", False)),
            observe=bool(value.get("observe", False)),
            source=source,
            reason=str(value.get("reason", "")),
        )

    def applies(self, situation: Situation) -> bool:
        """Whether the conditions hold."""
        if self.tainted is not None and self.tainted is not situation.tainted:
            return False
        return all(_holds(p, situation.values.get(name, "")) for name, p in self.conditions.items())

    def covers(self, effect: Effect, situation: Situation) -> bool:
        """Whether the rule speaks of this effect."""
        if self.kind not in ("*", effect.kind):
            return False
        # What forbids is read widely, what allows narrowly.
        forbids = self.verdict != "allow"
        if self.kind == "exec" and not forbids and not self.override and not permits(self.target, effect):
            return False
        if not target_matches(self.target, effect, situation, forbids=forbids):
            return False
        # What a rule that forbids leaves out is permitted by that, so it is read as narrowly, and the other way round.
        return not any(
            target_matches(u, effect, situation, forbids=not forbids) and (not forbids or permits(u, effect))
            for u in self.unless
        )

    def __str__(self) -> str:
        head = (
            [self.verdict]
            if self.kind == "*" and self.target == "*"
            else [self.verdict, f"{self.kind}:{self.target}"]
        )
        head += [f"{k}={v}" for k, v in self.conditions.items()]
        if self.tainted is not None:
            head.append(f"tainted={str(self.tainted).lower()}")
        if self.unless:
            head.append("unless=" + ",".join(self.unless))
        if self.override:
            head.append("override=true")
        if self.observe:
            head.append("observe=true")
        return " ".join(head)


def is_literal(condition: str) -> bool:
    """Whether a condition fits exactly one value, itself; whatever `_holds` gives a meaning is none."""
    return not condition.startswith("!") and not any(sign in condition for sign in "*?|")


def _holds(pattern: str, value: str) -> bool:
    """Whether a condition's glob, one of several, or none of them fits."""
    if "|" not in pattern and not pattern.startswith("!"):
        return glob(pattern)(value)
    fits = any(glob(one)(value) for one in pattern.removeprefix("!").split("|"))
    return fits is not pattern.startswith("!")


def _head(head: str, line: str) -> tuple[EffectKind | Literal["*"] | None, str]:
    if head in ("", "*"):
        return ("*" if head else None), "*"
    kind, colon, target = head.partition(":")
    if kind == "*" or kind in EFFECT_KINDS:
        return kind, (target.strip() or "*") if colon else "*"
    meant = _meant(kind, EFFECT_KINDS)
    if "=" in kind:
        meant = _meant(kind.partition("=")[0], _OPTIONS, "=")
    raise ConfigError(
        f"rule {line!r}: {kind!r} is not an effect kind; use {', '.join(EFFECT_KINDS)} or *{meant}"
    )


def _check_options(head: str, options: Mapping[str, str], line: str) -> None:
    """An option that is spelt wrong must fail: as part of a target it would make a rule that never matches."""
    kind, _, target = head.partition(":")
    for text in (target, *(v for k, v in options.items() if k not in ("reason", "unless"))):
        for match in _STRAY.finditer(text):
            meant = _meant(match[1], _OPTIONS, "=")
            # Commands may hold NAME=VALUE; there only what is nearly an option is taken for one.
            if kind == "exec" and text is target and not meant:
                continue
            raise ConfigError(
                f"rule {line!r}: {match[1]!r} is not an option; use {', '.join(_OPTIONS)}{meant}. "
                "A target that holds it needs the table form"
            )


def _meant(word: str, known: Iterable[str], after: str = "") -> str:
    """`; did you mean 'X'?`, empty where nothing is near."""
    from pegboard.core.schema.problems import nearest

    near = nearest(word, known, cutoff=0.7)
    return f"; did you mean '{near[0]}{after}'?" if near else ""


def _check_globs(kind: str | None, targets: tuple[str, ...], line: str) -> None:
    """A glob that cannot be read must fail here: a deny that never matches would be no deny."""
    if kind is None or kind in ("*", *_PATHS):
        for target in targets:
            try:
                path_glob(target)
            except re.error as error:
                raise ConfigError(f"rule {line!r}: the glob {target!r} cannot be read: {error}") from None


def _unprefixed(target: str) -> str:
    kind, colon, rest = target.strip().partition(":")
    return rest.strip() if colon and (kind == "*" or kind in EFFECT_KINDS) else target.strip()


def _flag(text: str, line: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ConfigError(f"rule {line!r}: {text!r} is neither true nor false")


def permits(pattern: str, effect: Effect) -> bool:
    """Whether a pattern of commands that fits may permit a command, seeing what the guard knows of it.

    A command that was analysed and whose program is still unknown is permitted by no pattern.
    One whose words make it run something else is permitted by a pattern that spells these words: neither
    `*` nor `git **` means `git -c core.pager=./x log`.
    """
    if effect.kind != "exec":
        return True
    if effect.argv is None:
        return effect.at_least != "ask"
    if not effect.decisive:
        return True
    spelt = pattern_words(pattern)
    return all(word in spelt or word.rpartition("/")[2] in spelt for word in effect.decisive)


def target_matches(pattern: str, effect: Effect, situation: Situation, *, forbids: bool = False) -> bool:
    """Whether a target pattern speaks of an effect's target.

    Args:
        forbids: the pattern denies or asks; commands are then matched by any folder of the program, and
            with further arguments, and hosts on every port.
    """
    if pattern == "*":
        return True
    if effect.kind == "exec":
        if effect.argv is None:
            # What could not be analysed is matched by nothing narrower than everything.
            return pattern == "**"
        return exec_pattern_matches(pattern, effect.argv, forbids=forbids)
    if effect.kind in _PATHS:
        return path_matches(pattern, effect.target, situation)
    if effect.kind == "connect":
        return host_matches(pattern, effect.target, any_port=forbids)
    return glob(pattern)(effect.target)


def path_matches(pattern: str, target: str, situation: Situation) -> bool:
    """gitignore matching of a resolved target, relative to the workspace or absolute."""
    if pattern == "~" or pattern.startswith("~/"):
        if not situation.home:
            return False
        pattern = situation.home.rstrip("/") + pattern[1:]
    absolute = target.startswith("/")
    if pattern.startswith("/"):
        full = target if absolute else _joined(situation.workspace, target)
        return bool(full) and path_glob(pattern)(full)
    if not absolute:
        return path_glob(pattern)(target)
    # Outside the workspace a relative pattern speaks only where it names no place: `*.pem`, `**/.ssh/**`.
    return (
        (pattern.startswith("**/") or "/" not in pattern.rstrip("/"))
        and pattern not in ("**",)
        and path_glob(pattern)(target.lstrip("/"))
    )


def _joined(workspace: str, target: str) -> str:
    if not workspace:
        return ""
    return workspace if target == "." else f"{workspace.rstrip('/')}/{target}"


def path_regex(pattern: str) -> str:
    """The regular expression of `path_glob`, for a full match; for patterns of our own alone, see `globs`.

    Raises:
        re.error: see `path_glob`.
    """
    body = pattern.rstrip("/") or "/"
    anchored = "/" in body
    regex = wildmatch(body.lstrip("/"), pathname=True, forgiving=True)
    if NEVER in regex:
        raise re.error("its brackets match nothing", pattern)
    return f"/?{'' if anchored else '(?:.*/)?'}{regex}(?:/.*)?"
