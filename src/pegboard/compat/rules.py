"""Rules from the documents' security settings.

`compile_rules(document, settings)` gives rules for a Policy, the mode that the settings mean, the settings
that are no rules under their canonical names, and warnings for people. Later pages of the documents' own
systems use further words; they are read too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pegboard.compat.bounded_regex import BoundedRegex, search
from pegboard.core.effects import Effect, Verdict
from pegboard.core.errors import ConfigError
from pegboard.core.policy.policy import Mode
from pegboard.core.policy.rules import Rule, Situation
from pegboard.shell.guard import deny_matches

_INTERPRETERS: Final = frozenset(
    (
        "bash",
        "sh",
        "zsh",
        "python",
        "python3",
        "node",
        "perl",
        "ruby",
        "npm",
        "npx",
        "git",
        "make",
        "env",
        "xargs",
    )
)
"""Programs that run what their arguments say; as safe bins they are as good as no rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRules:
    """What a document's settings mean here.

    Attributes:
        rules: in order of precedence.
        mode: the mode that they ask for, None where they say nothing.
        settings: canonical setting → value, for what is no rule (`exec.timeout_s` …).
        warnings: sentences for people.
    """

    rules: tuple[Rule, ...] = ()
    mode: Mode | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRule(Rule):
    """A rule over command segments that are found by regular expressions or by a document's own rows.

    Attributes:
        shown: what stands for the patterns in `policy explain`.
        patterns: searched in each segment's text, without regard to case.
        full: the whole segment must match, not a part of it (`git status && curl …|sh`).
        negated: the rule speaks of segments that match none.
        profile: rows of this profile count too, in their parsed meaning.
    """

    shown: str = ""
    patterns: tuple[BoundedRegex, ...] = ()
    full: bool = False
    negated: bool = False
    profile: str = ""

    def covers(self, effect: Effect, situation: Situation) -> bool:
        """See Rule."""
        if (
            self.profile
            and effect.kind in ("exec", "write")
            and deny_matches(self.profile, effect.target, [effect]) is not None
        ):
            return not self.negated
        if effect.kind != "exec":
            return False
        return any(self._fits(p, effect.target) for p in self.patterns) is not self.negated

    def _fits(self, pattern: BoundedRegex, text: str) -> bool:
        text = text.strip()
        found = pattern.whole(text) if self.full else pattern.within(text)
        # Where a pattern gave up, a rule about what it names forbids and does not permit.
        return (self.verdict != "allow" and not self.negated) if found is None else found

    def __str__(self) -> str:
        return f"{self.verdict} exec:{self.shown}"


def compile_rules(document: str, settings: Mapping[str, Any] | None = None) -> CompiledRules:
    """What the security settings of one document mean.

    Args:
        document: nanobot, nanobot-hook, nanobot-net, moltbot or artifactflow.
        settings: nanobot: `deny_patterns`, `allow_patterns`, `restrict_to_workspace`, `timeout`,
            `working_dir`; nanobot-hook: `dangerous_tools`, `dangerous_patterns`; nanobot-net:
            `additionalDeniedPatterns`, `timeout`; moltbot: its `tools` section; artifactflow: tool name
            → `auto` or `confirm`. Keys in any casing.

    Raises:
        ConfigError: an unknown document, a word or a pattern that cannot be read.
    """
    compiler = _COMPILERS.get(document.lower().replace("_", "-"))
    if compiler is None:
        raise ConfigError(
            f"no document {document!r} has security settings; known are {', '.join(_COMPILERS)}"
        )
    return compiler(settings or {})


def nanobot(settings: Mapping[str, Any]) -> CompiledRules:
    """Nanobot's exec settings."""
    given = _folded(settings)
    rules: list[Rule] = []
    denied = given.get("denypatterns")
    if denied is None:
        rules.append(_rows("nanobot", "the default deny patterns", "dangerous pattern detected"))
    elif denied:
        rules.append(_searched("deny", _strings(denied, "deny_patterns")))
    allowed = _strings(given.get("allowpatterns") or (), "allow_patterns")
    if allowed:
        patterns = _regexes(allowed, "allow_patterns")
        why = "every part of the command must be one that allow_patterns name"
        rules.append(
            PatternRule(
                verdict="deny", kind="exec", shown=f"* unless={'|'.join(allowed)}", patterns=patterns, full=True,
                negated=True, source="nanobot", reason=why,
            )
        )  # fmt: skip
        rules.append(
            PatternRule(
                verdict="allow", kind="exec", shown="|".join(allowed), patterns=patterns, full=True, source="nanobot"
            )
        )  # fmt: skip
    other = _settings(given, {"timeout": "exec.timeout_s", "workingdir": "exec.working_dir"})
    mode: Mode | None = "workspace" if given.get("restricttoworkspace") else None
    return CompiledRules(rules=tuple(rules), mode=mode, settings=other)


def nanobot_hook(settings: Mapping[str, Any]) -> CompiledRules:
    """Nanobot's SafetyHook."""
    given = _folded(settings)
    tools = _strings(given.get("dangeroustools", ("delete_file", "exec")), "dangerous_tools")
    patterns = _strings(
        given.get("dangerouspatterns", ("rm -rf", "sudo", "DROP TABLE")), "dangerous_patterns"
    )
    own = [p for p in patterns if p not in ("rm -rf", "sudo", "DROP TABLE")]
    rules: list[Rule] = []
    if len(own) < len(patterns):
        rules.append(_rows("nanobot-hook", "rm -rf|sudo|DROP TABLE", "命令包含危险模式"))
    if own:
        rules.append(_searched("deny", [re.escape(p) for p in own], shown=own))
    rules += [Rule.parse(f"ask tool={name}", source="nanobot-hook") for name in tools]
    return CompiledRules(rules=tuple(rules))


def nanobot_net(settings: Mapping[str, Any]) -> CompiledRules:
    """NanoBot.Net's denied texts; `additionalDeniedPatterns` are added to the defaults."""
    given = _folded(settings)
    rules: list[Rule] = [_rows("nanobot-net", "the default denied texts", "Command contains blocked pattern")]
    more = _strings(given.get("additionaldeniedpatterns") or (), "additionalDeniedPatterns")
    if more:
        rules.append(_searched("deny", [re.escape(p) for p in more], shown=more))
    return CompiledRules(rules=tuple(rules), settings=_settings(given, {"timeout": "exec.timeout_s"}))


def moltbot(settings: Mapping[str, Any]) -> CompiledRules:
    """Moltbot's `tools` section."""
    tools = _folded(settings)
    tools = _folded(tools.get("tools", tools))
    execution = _folded(tools.get("exec") or {})
    fetch = _folded(_folded(tools.get("web") or {}).get("fetch") or {})
    search = _folded(_folded(tools.get("web") or {}).get("search") or {})
    bins = _strings(execution.get("safebins") or (), "safeBins")
    rules = [
        *_domains(fetch),
        *_security(execution, [Rule.parse(f"allow exec:{name} **", source="moltbot") for name in bins], bins),
        *_models(execution),
    ]
    if _folded(tools.get("message") or {}).get("enabled") is False:
        rules.append(Rule.parse("deny tool=message reason=tools.message.enabled is false", source="moltbot"))
    warnings = [
        f"safeBins has {name}, which runs whatever its arguments say; name exact commands in rules instead"
        for name in bins
        if name in _INTERPRETERS
    ]
    other = {
        **_settings(
            execution,
            {
                "timeoutsec": "exec.timeout_s",
                "backgroundms": "exec.yield_ms",
                "pathprepend": "exec.path_prepend",
            },
        ),
        **_settings(search, {"provider": "web.search.provider", "timeoutseconds": "web.search.timeout_s"}),
        **_settings(fetch, {"timeoutseconds": "web.fetch.timeout_s"}),
    }
    for name, section in (("search", search), ("fetch", fetch)):
        if "cacheminutes" in section:
            other[f"web.{name}.cache_s"] = section["cacheminutes"] * 60
    return CompiledRules(rules=tuple(rules), settings=other, warnings=tuple(warnings))


def artifactflow(settings: Mapping[str, Any]) -> CompiledRules:
    """ArtifactFlow's levels by tool name: `confirm` asks; `auto` is the tool's own default."""
    rules: list[Rule] = []
    for name, level in settings.items():
        word = str(getattr(level, "value", level)).lower()
        if word not in ("auto", "confirm", "deny"):
            raise ConfigError(f"permission of {name!r} is {level!r}; use auto or confirm")
        if word != "auto":
            rules.append(
                Rule.parse(f"{'ask' if word == 'confirm' else 'deny'} tool={name}", source="artifactflow")
            )
    return CompiledRules(rules=tuple(rules))


_COMPILERS: Final[dict[str, Callable[[Mapping[str, Any]], CompiledRules]]] = {
    "nanobot": nanobot,
    "nanobot-hook": nanobot_hook,
    "nanobot-net": nanobot_net,
    "moltbot": moltbot,
    "artifactflow": artifactflow,
}


def _security(execution: Mapping[str, Any], safe: list[Rule], bins: list[str]) -> list[Rule]:
    """`security` and `ask`, in the document's words and in its system's later ones."""
    security = str(execution.get("security", "auto")).lower()
    ask = execution.get("ask")
    out: list[Rule] = []
    match security:
        case "auto":
            pass
        case "full":
            out.append(Rule.parse("allow exec:*", source="moltbot"))
        case "ask":
            out.append(Rule.parse("ask exec:*", source="moltbot"))
        case "deny":
            out.append(Rule.parse("deny exec:* reason=tools.exec.security is deny", source="moltbot"))
        case "allowlist":
            unless = ",".join(f"exec:{name} **" for name in bins) or "none"
            out.append(Rule.parse(f"deny exec:* unless={unless}", source="moltbot"))
        case other:
            raise ConfigError(f"tools.exec.security is {other!r}; use auto, ask, deny, allowlist or full")
    words = {True: "ask", False: "", None: "", "always": "ask", "on-miss": "ask", "off": ""}
    if ask not in words:
        raise ConfigError(f"tools.exec.ask is {ask!r}; use true, false, off, on-miss or always")
    asks = [Rule.parse("ask exec:*", source="moltbot")] if words[ask] else []
    # The first match decides: `always` asks for safe bins too, the others only for the rest.
    return [*asks, *safe, *out] if ask == "always" else [*safe, *asks, *out]


def _models(execution: Mapping[str, Any]) -> list[Rule]:
    """`applyPatch.allowModels`: other models may not use the tool."""
    allowed = _folded(execution.get("applypatch") or {}).get("allowmodels")
    if not allowed:
        return []
    models = "|".join(_strings(allowed, "applyPatch.allowModels"))
    return [Rule.parse(f"deny tool=apply_patch model=!{models} reason=not in allowModels", source="moltbot")]


def _domains(fetch: Mapping[str, Any]) -> list[Rule]:
    """Blocked hosts first, and they win; then nothing but the allowed ones."""
    blocked = _strings(fetch.get("blockeddomains") or (), "blockedDomains")
    allowed = _strings(fetch.get("alloweddomains") or (), "allowedDomains")
    rules = [
        Rule.parse(f"deny connect:{host} tool=web_*|browser reason=blockedDomains", source="moltbot")
        for name in blocked
        for host in _hosts(name)
    ]
    if allowed:
        unless = ",".join(host for name in allowed for host in _hosts(name))
        rules.append(
            Rule.parse(
                f"deny connect:* tool=web_fetch unless={unless} reason=not in allowedDomains",
                source="moltbot",
            )
        )
        rules += [
            Rule.parse(f"allow connect:{h} tool=web_fetch", source="moltbot")
            for name in allowed
            for h in _hosts(name)
        ]
    return rules


def _hosts(name: str) -> tuple[str, str]:
    bare = name.strip().lower().removeprefix("*.")
    return bare, f"*.{bare}"


def _rows(profile: str, shown: str, reason: str) -> PatternRule:
    return PatternRule(
        verdict="deny", kind="exec", shown=shown, profile=profile, source=profile, reason=reason
    )


def _searched(verdict: Verdict, patterns: Iterable[str], shown: Iterable[str] | None = None) -> PatternRule:
    written = list(patterns)
    return PatternRule(
        verdict=verdict, kind="exec", shown="|".join(shown or written), source="document",
        patterns=_regexes(written, "deny_patterns"), reason="the command holds a denied pattern",
    )  # fmt: skip


def _regexes(patterns: Iterable[str], key: str) -> tuple[BoundedRegex, ...]:
    out: list[BoundedRegex] = []
    for pattern in patterns:
        try:
            out.append(search(pattern))
        except ConfigError as error:
            raise ConfigError(f"{key}: {pattern!r:.200}: {error}") from None
    return tuple(out)


def _folded(section: Any) -> dict[str, Any]:
    """Keys without regard to case, `_` and `-`."""
    if not isinstance(section, Mapping):
        raise ConfigError(f"a section of settings is a {type(section).__name__}; give a table")
    items = cast("Mapping[str, Any]", section).items()
    return {str(k).replace("_", "").replace("-", "").lower(): v for k, v in items}


def _strings(value: Any, key: str) -> list[str]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple, set, frozenset)) or not all(
        isinstance(v, str) for v in cast("Iterable[Any]", value)
    ):
        raise ConfigError(f"{key} is {value!r}; give a list of texts")
    items = cast("Iterable[str]", value)
    return sorted(items) if isinstance(value, (set, frozenset)) else list(items)


def _settings(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {canonical: given[key] for key, canonical in names.items() if given.get(key) is not None}
