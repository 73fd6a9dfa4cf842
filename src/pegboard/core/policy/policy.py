"""Policy: whether a planned call may run. Pure: values in, a Decision out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from pegboard.core.effects import Effect, Verdict
from pegboard.core.errors import ConfigError, check_sequence
from pegboard.core.policy.grants import target_of
from pegboard.core.policy.rule_index import Found, RuleIndex
from pegboard.core.policy.rules import Rule, Situation
from pegboard.core.protected import OURS, protected_entry
from pegboard.core.tool import Level

Mode: TypeAlias = Literal["read-only", "plan", "ask", "workspace", "auto", "full"]
MODES: Final[tuple[Mode, ...]] = ("read-only", "plan", "ask", "workspace", "auto", "full")
"""The strictest first. `auto` decides as `workspace` does; where that asks, a second model may answer first."""

PROPOSE_PLAN: Final = "propose_plan"
"""The tool that ends mode `plan` when a person agrees to its effects, which it allows and does not have."""

SHIPPED: Final[tuple[str, ...]] = (
    "deny delete:.git reason=it holds the repository's history",
    *(
        f"deny {kind}:{name} reason=only people may change the policy"
        for name in OURS
        for kind in ("write", "delete")
    ),
)
"""Rules that stand before every other; only a user's `override` lifts a deny."""


SETTING: Final = "gateway:setting "
"""What the target of a `control` effect begins with that changes the user's settings: a person answers, in every mode."""


@dataclass(frozen=True, slots=True)
class EffectDecision:
    """The answer for one effect: which rule or default gave it, and why.

    `despite_taint`: a rule that allows with `tainted=true` has said that taint is no reason to ask.
    `person`: it asks, and no `--yes` answers.
    """

    effect: Effect
    verdict: Verdict
    rule: str
    reason: str = ""
    despite_taint: bool = False
    person: bool = False

    def to_dict(self) -> dict[str, Any]:
        """`{kind, target, decision, rule}` and `reason` where there is one."""
        out: dict[str, Any] = {**self.effect.to_dict(), "decision": self.verdict, "rule": self.rule}
        if self.reason:
            out["reason"] = self.reason
        return out


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer for a call: its strictest effect's.

    Attributes:
        verdict: allow, ask or deny.
        rule: the rule or default that decided.
        reason: one sentence for people and models.
        effects: each effect's own answer, in order.
        grants: ids of the grants that were leaned on.
        observed: what rules in observation would have answered otherwise.
        tainted: sources of untrusted and private content that make this call a question which no
            `--yes` answers; empty where taint plays no part.
        person: it asks about protected files, which no `--yes` answers either.
    """

    verdict: Verdict
    rule: str
    reason: str = ""
    effects: tuple[EffectDecision, ...] = ()
    grants: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    tainted: tuple[str, ...] = ()
    person: bool = False

    def to_dict(self) -> dict[str, Any]:
        """`{decision, rule, reason, effects}`, as `policy explain --json` prints it."""
        out: dict[str, Any] = {
            "decision": self.verdict,
            "rule": self.rule,
            "reason": self.reason,
            "effects": [e.to_dict() for e in self.effects],
        }
        if self.observed:
            out["observed"] = list(self.observed)
        return out


class Grants(Protocol):
    """Remembered yeses."""

    def find(self, tool: str, effect: Effect, situation: Situation) -> str | None:
        """The id of a live grant for exactly this, or None; uses nothing up."""
        ...

    def find_for_sender(self, effect: Effect, situation: Situation) -> str | None:
        """The id of a live grant that an owner gave to the sender of this run, or None; uses nothing up."""
        ...


ALLOWED: Final = Decision("allow", "no effects")
_ASK_TOOL: Final = Decision("ask", "tool level: confirm", "the tool always needs approval")
_DENY_TOOL: Final = Decision("deny", "tool level: deny", "the tool is disabled")

_RANK: Final[dict[str, int]] = {"allow": 0, "ask": 1, "deny": 2}
_NEVER_READ_ONLY: Final = frozenset({"write", "delete", "send", "schedule", "control", "spawn", "spend"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Mode, rules and grants.

    Attributes:
        mode: the ceiling and the defaults: read-only, plan, ask, workspace, auto, full.
        rules: in order of precedence within their verdict; see Rule. The shipped rules come first.
        grants: remembered yeses, None = none.
        sandboxed: whether exec runs confined; where not, every exec asks (security.md).
        shipped: whether the shipped rules apply, and a change of a protected file asks.
        protected: the entry that protects a target, None where nothing does.
        home: the user's home folder, real path, for `~` in rules where the situation names none.
        planned: what a person allowed with a plan: what goes beyond it asks; None = there was no plan.

    Raises:
        ConfigError: an unknown mode.
    """

    mode: Mode = "workspace"
    rules: tuple[Rule, ...] = ()
    grants: Grants | None = None
    sandboxed: bool = True
    shipped: bool = True
    protected: Callable[[str], str | None] = field(default=protected_entry, compare=False)
    home: str = ""
    planned: tuple[Effect, ...] | None = None
    _all: tuple[Rule, ...] = field(init=False, repr=False, compare=False, default=())
    _index: RuleIndex = field(init=False, repr=False, compare=False, default=RuleIndex(()))
    _watched: RuleIndex | None = field(init=False, repr=False, compare=False, default=None)
    _cache: dict[Any, Found] = field(init=False, repr=False, compare=False, default_factory=dict[Any, Any])

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"unknown mode {self.mode!r}; use {', '.join(MODES)}")
        before = _shipped_rules() if self.shipped else ()
        object.__setattr__(self, "rules", _rules(self.rules))
        every = before + self.rules
        decide = tuple(r for r in every if not r.observe)
        object.__setattr__(self, "_all", every)
        object.__setattr__(self, "_index", RuleIndex(decide))
        if len(decide) < len(every):
            object.__setattr__(self, "_watched", RuleIndex(r for r in every if r.observe))

    @property
    def every_rule(self) -> tuple[Rule, ...]:
        """The rules in their order, the shipped ones first."""
        return self._all

    @property
    def revision(self) -> str:
        """A short digest of mode, rules and sandbox; part of what an approval is bound to."""
        planned = () if self.planned is None else ("plan", *map(str, map(_planned_key, self.planned)))
        text = "\n".join([self.mode, str(self.sandboxed), *map(str, self._all), *planned])
        import hashlib

        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @classmethod
    def of(
        cls, rules: Iterable[str | Rule] = (), *, mode: str = "workspace", sandboxed: bool = True
    ) -> Policy:
        """A policy from rule lines."""
        return cls(mode=cast(Mode, mode), rules=_rules(rules), sandboxed=sandboxed)

    def __call__(self, effects: tuple[Effect, ...], situation: Situation, level: Level = "auto") -> Decision:
        """Decide one call.

        Args:
            effects: the planned effects.
            situation: tool, agent, session, channel, sender, model, workspace, taint.
            level: the tool's own level.
        """
        if level == "deny":
            return _DENY_TOOL
        if not effects:
            if not self.rules and level == "auto":
                return ALLOWED
            return self._toolwide(situation, level)
        grants: list[str] = []
        answers = tuple([self._effect(e, situation, level, grants) for e in effects])
        worst = answers[0] if len(answers) == 1 else max(answers, key=lambda a: _RANK[a.verdict])
        # One call is one use of a grant, however many of its effects lean on it.
        used = tuple(dict.fromkeys(grants)) if grants else ()
        observed = () if self._watched is None else self._observe(self._watched, answers, situation)
        person = any(a.person for a in answers)
        return Decision(worst.verdict, worst.rule, worst.reason, answers, used, observed, person=person)

    def _observe(
        self, watched: RuleIndex, answers: tuple[EffectDecision, ...], situation: Situation
    ) -> tuple[str, ...]:
        """What rules in observation would have answered otherwise; they decide nothing."""
        here = self._at_home(situation)
        out: list[str] = []
        for answer in answers:
            deny, first, _ = watched.find(answer.effect, here)
            would = deny or first
            if would is not None and would.verdict != answer.verdict:
                out.append(f"{answer.effect}: {answer.verdict} -> {would.verdict} by {would}")
        return tuple(out)

    def _toolwide(self, situation: Situation, level: Level) -> Decision:
        """A call without effects: only rules that name no kind can speak of it."""
        deny, first, override = _sorted(
            [r for r in self._all if not r.observe and _of_tools(r) and r.applies(situation)]
        )
        if override is not None:
            return Decision("allow", str(override), "a deny was overridden" if deny else override.reason)
        if deny is not None:
            return Decision("deny", str(deny), deny.reason)
        if first is not None:
            return Decision(first.verdict, str(first), first.reason)
        return ALLOWED if level == "auto" else _ASK_TOOL

    def _effect(
        self, effect: Effect, situation: Situation, level: Level, grants: list[str]
    ) -> EffectDecision:
        proposed = self.mode == "plan" and situation.values.get("tool") == PROPOSE_PLAN
        ceiling = None if proposed else self._ceiling(effect)
        if ceiling is not None:
            return EffectDecision(effect, "deny", ceiling, _CEILINGS[self.mode])
        deny, first, override = self._find(effect, situation)
        if deny is not None and override is None:
            return EffectDecision(effect, "deny", str(deny), deny.reason)
        if effect.at_least == "deny" and override is None:
            return EffectDecision(effect, "deny", "guard", effect.reason)
        if proposed:
            # No rule and no grant agrees to a plan: each was written for one act, and this allows many.
            return EffectDecision(effect, "ask", "mode plan", "the plan needs your approval")
        if override is not None:
            return EffectDecision(effect, "allow", str(override), "a deny was overridden", _despite(override))
        if self.grants is not None and (
            grant := self.grants.find(situation.values.get("tool", ""), effect, situation)
        ):
            grants.append(grant)
            return EffectDecision(effect, "allow", f"grant {grant}")
        if self.shipped and effect.kind in ("write", "delete") and (entry := self.protected(effect.target)):
            reason = f"{effect.target} is protected ({entry}): other programs run it as you"
            return EffectDecision(effect, "ask", "protected files", reason, person=True)
        if self.shipped and effect.kind == "control" and effect.target.startswith(SETTING):
            reason = "the settings decide what agents may do"
            return EffectDecision(effect, "ask", "protected settings", reason, person=True)
        # Behind what only a person answers: a rule cannot know what it would be given for.
        if (
            self.grants is not None
            and situation.values.get("sender")
            and (grant := self.grants.find_for_sender(effect, situation))
        ):
            grants.append(grant)
            return EffectDecision(effect, "allow", f"grant {grant}")
        if first is not None:
            return EffectDecision(effect, first.verdict, str(first), first.reason, _despite(first))
        verdict, why = self._default(effect)
        if level == "confirm" and verdict == "allow":
            return EffectDecision(effect, "ask", _ASK_TOOL.rule, _ASK_TOOL.reason)
        return EffectDecision(effect, verdict, f"mode {self.mode}", why)

    def _find(self, effect: Effect, situation: Situation) -> tuple[Rule | None, Rule | None, Rule | None]:
        """The first matching deny, the first matching allow or ask, and a matching override."""
        key = (
            effect.kind,
            effect.target,
            effect.argv,
            effect.at_least,
            effect.decisive,
            situation.tainted,
            situation.workspace,
            situation.home,
            *situation.values,
            *situation.values.values(),
        )
        found = self._cache.get(key)
        if found is None:
            here = self._at_home(situation)
            found = self._index.find(effect, here)
            if len(self._cache) > 4096:
                self._cache.clear()
            self._cache[key] = found
        return found

    def _at_home(self, situation: Situation) -> Situation:
        return situation if situation.home or not self.home else replace(situation, home=self.home)

    def _ceiling(self, effect: Effect) -> str | None:
        if self.mode not in _CEILINGS:
            return None
        if effect.kind in _NEVER_READ_ONLY or (effect.kind == "exec" and not effect.read_only):
            return f"mode {self.mode} (ceiling)"
        return None

    def _default(self, effect: Effect) -> tuple[Verdict, str]:
        """What the mode says where no rule speaks, and why."""
        kind, mode = effect.kind, self.mode
        if kind == "exec" and not self.sandboxed and mode != "full":
            return "ask", "no sandbox works here, so every command needs approval"
        if mode == "full":
            return "allow", ""
        inside = not effect.target.startswith("/")
        if self.planned is not None and kind != "read" and not (kind == "exec" and effect.read_only):
            if _planned_key(effect) in map(_planned_key, self.planned):
                return "allow", ""
            if not (kind == "exec" and _does_nothing_itself(effect)):
                return "ask", "it is not part of the plan that you approved"
        if effect.at_least == "ask":
            return "ask", effect.reason or "the tool requires approval"
        if kind == "read":
            return ("allow", "") if inside else ("ask", "the path is outside the workspace")
        if kind == "exec" and effect.argv is None and effect.at_least is None:
            return "ask", "the command was not analysed"
        if kind == "exec" and (mode != "ask" or _does_nothing_itself(effect)):
            return "allow", ""
        working = mode in ("workspace", "auto")
        if working and kind == "write":
            if ".git" in effect.target.lower().split("/"):
                return "ask", "it belongs to the repository's history"
            return ("allow", "") if inside else ("ask", "the path is outside the workspace")
        if working and effect.at_least == "allow":
            return "allow", ""
        return "ask", f"{kind} needs approval in mode {mode}"


_CEILINGS: Final[Mapping[str, str]] = {
    "read-only": "mode read-only allows no changes",
    "plan": "mode plan only reads until the user agrees to a plan; propose it with propose_plan",
}
"""What each mode that only reads says of a change."""


@cache
def _shipped_rules() -> tuple[Rule, ...]:
    return tuple(Rule.parse(line, source="shipped") for line in SHIPPED)


def _planned_key(effect: Effect) -> tuple[str, str, str]:
    """What makes an act the one that was planned: kind, exact target and the content that it is bound to."""
    target = target_of(effect)
    if effect.kind == "connect":
        # A host means the ports of the web unless another is named.
        target = target.removesuffix(":443").removesuffix(":80")
    return effect.kind, target, effect.bound


_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


def _does_nothing_itself(effect: Effect) -> bool:
    """`cd`, and a shell around commands that are effects of their own."""
    if effect.at_least != "allow" or not effect.argv:
        return False
    program, *options = effect.argv
    around = program.rpartition("/")[2] in _SHELLS and any(
        o.startswith("-") and "c" in o for o in options[:1]
    )
    return program == "cd" or around


def _rules(given: object) -> tuple[Rule, ...]:
    """Rules, and rule lines read as such."""
    return tuple(
        r if isinstance(r, Rule) else Rule.parse(r) for r in check_sequence(given, "a policy", "rules")
    )


def _despite(rule: Rule) -> bool:
    # A project's own file, even a trusted one, is not who decides what may leave this machine.
    return rule.verdict == "allow" and rule.tainted is True and rule.source.startswith("user")


def _of_tools(rule: Rule) -> bool:
    return rule.kind == "*" and rule.target == "*"


def _sorted(matching: list[Rule]) -> tuple[Rule | None, Rule | None, Rule | None]:
    """Of the rules that match: the first deny, the first allow or ask, and the user's first override."""
    return (
        next((r for r in matching if r.verdict == "deny"), None),
        next((r for r in matching if r.verdict != "deny" and not r.override), None),
        next(
            (r for r in matching if r.override and r.verdict == "allow" and r.source.startswith("user")), None
        ),
    )


def explain(
    policy: Policy,
    effects: tuple[Effect, ...],
    situation: Situation,
    level: Level = "auto",
    *,
    decision: Decision | None = None,
) -> dict[str, Any]:
    """The decision with, for each effect, every rule that was tried and whether it matched.

    `decision`: one that was made of these already, with what taint adds to the policy.
    """
    decision = policy(effects, situation, level) if decision is None else decision
    out = decision.to_dict()
    here = policy._at_home(situation)  # pyright: ignore[reportPrivateUsage]
    for row, answer in zip(out["effects"], decision.effects, strict=True):
        row["tried"] = [
            {
                "rule": str(rule),
                "source": rule.source,
                "matches": rule.covers(answer.effect, here) and rule.applies(here),
                **({"observe": True} if rule.observe else {}),
            }
            for rule in policy.every_rule
        ]
    return out
