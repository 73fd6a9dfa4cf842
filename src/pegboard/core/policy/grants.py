"""Grants: remembered yeses with scope, expiry and use count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, cast

from pegboard.core.effects import PATH_KINDS, Effect
from pegboard.core.errors import PermissionDenied
from pegboard.core.limits import Clock, SystemClock
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.rules import Rule, Situation, glob

ALWAYS_S: Final = 30 * 24 * 3600.0
"""How long an `always` lasts unless the person says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One remembered yes: this tool, these exact targets, this workspace; or a rule that an owner gave to one sender.

    Attributes:
        id: shown by `pegboard grants`, taken by `pegboard grants revoke`.
        tool: the tool's name.
        effects: `(kind, target)` pairs that it covers; exec targets are the inner command's words.
        bound: for each of these the content that the yes is bound to, empty where there is none.
        workspace: the workspace's real path.
        session: the session it holds in; empty = every session (scope always).
        expires_at: seconds since the epoch.
        uses_left: None = no limit.
        by: who gave it.
        sender: for whom it holds, as `CHANNEL:SENDER`; empty = for everybody.
        rule: for a sender, what it allows, as an allow rule writes it; `tool` and `effects` are empty then.
    """

    id: str
    tool: str
    effects: tuple[tuple[str, str], ...]
    bound: tuple[str, ...] = ()
    workspace: str = ""
    session: str = ""
    expires_at: float = 0.0
    uses_left: int | None = None
    by: str = ""
    sender: str = ""
    rule: str = ""

    @property
    def scope(self) -> Literal["session", "always"]:
        """`session` where it is bound to one."""
        return "session" if self.session else "always"

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, effects as `{kind, target}`."""
        return {
            "id": self.id,
            "tool": self.tool,
            "effects": [
                {"kind": k, "target": t, **({"bound": b} if b else {})}
                for (k, t), b in zip(self.effects, self.bound or ("",) * len(self.effects), strict=True)
            ],
            "workspace": self.workspace,
            "session": self.session,
            "scope": self.scope,
            "expires_at": self.expires_at,
            "uses_left": self.uses_left,
            "by": self.by,
            **({"sender": self.sender, "rule": self.rule} if self.sender else {}),
        }

    def covers(self, effect: Effect) -> bool:
        """Whether it was given for exactly this target with this content."""
        wanted = (effect.kind, target_of(effect))
        if not self.bound:
            return not effect.bound and wanted in self.effects
        return (wanted, effect.bound) in zip(self.effects, self.bound, strict=True)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Grant:
        """The grant that `to_dict` wrote."""
        rows = cast(list[dict[str, str]], value["effects"])
        return cls(
            id=value["id"],
            tool=value["tool"],
            effects=tuple((r["kind"], r["target"]) for r in rows),
            bound=_content(r.get("bound", "") for r in rows),
            workspace=value["workspace"],
            session=value.get("session", ""),
            expires_at=float(value["expires_at"]),
            uses_left=value.get("uses_left"),
            by=value.get("by", ""),
            sender=value.get("sender", ""),
            rule=value.get("rule", ""),
        )

    def is_live(self, now: float, situation: Situation) -> bool:
        """Whether it holds now and here."""
        return (
            self.workspace == situation.workspace
            and self.session in ("", situation.values.get("session", ""))
            and self.expires_at > now
            and self.uses_left != 0
        )


class MemoryGrants:
    """The grants of one process, kept in memory."""

    def __init__(self, grants: Iterable[Grant] = (), *, clock: Clock | None = None) -> None:
        self._grants = {g.id: g for g in grants}
        self._clock = clock or SystemClock()

    def find(self, tool: str, effect: Effect, situation: Situation) -> str | None:
        """The id of a live grant for exactly this tool, target and workspace."""
        now = self._clock.now()
        for grant in self._grants.values():
            if grant.tool == tool and grant.covers(effect) and grant.is_live(now, situation):
                return grant.id
        return None

    def find_for_sender(self, effect: Effect, situation: Situation) -> str | None:
        """The id of a live grant whose rule allows this to whoever sent what the run answers."""
        now, values = self._clock.now(), situation.values
        sender = f"{values.get('channel', '')}:{values.get('sender', '')}"
        for grant in self._grants.values():
            if grant.sender == sender and grant.rule and grant.is_live(now, situation):
                rule = _rule(grant.rule)
                if rule.covers(effect, situation) and rule.applies(situation):
                    return grant.id
        return None

    async def add(self, request: ApprovalRequest, answer: Approved, *, workspace: str) -> Grant:
        """Remember a `session` or `always` answer for the effects that asked."""
        asking = request.asking or request.effects
        grant = Grant(
            id="gr_" + request.id.removeprefix("ap_"),
            tool=request.tool,
            effects=tuple((e.kind, target_of(e)) for e in asking),
            bound=_content(e.bound for e in asking),
            workspace=workspace,
            session=request.session if answer.scope == "session" else "",
            expires_at=self._clock.now() + (ALWAYS_S if answer.expires_s is None else answer.expires_s),
            uses_left=answer.uses,
            by=answer.by,
        )
        self._grants[grant.id] = grant
        return grant

    async def use(self, grant: str) -> None:
        """Count one use; the last one ends the grant.

        Raises:
            PermissionDenied: it has ended since it was found.
        """
        known = self._grants.get(grant)
        if known is None or known.uses_left == 0 or known.expires_at <= self._clock.now():
            raise PermissionDenied(
                f"approval {grant} has expired",
                hint="Call again to be asked.",
            )
        if known.uses_left is not None:
            self._grants[grant] = replace(known, uses_left=max(0, known.uses_left - 1))

    async def revoke(self, grant: str) -> bool:
        """End a grant; False if there is none of that id."""
        return self._grants.pop(grant, None) is not None

    def list(self) -> tuple[Grant, ...]:
        """Live grants, oldest first."""
        now = self._clock.now()
        return tuple(g for g in self._grants.values() if g.expires_at > now and g.uses_left != 0)


@lru_cache(maxsize=256)
def _rule(line: str) -> Rule:
    return Rule.parse(line, source="grant")


def _content(bound: Iterable[str]) -> tuple[str, ...]:
    contents = tuple(bound)
    return contents if any(contents) else ()


def does_the_same(effect: Effect, refused: Effect) -> bool:
    """Whether an effect is one that was refused: the same on the same target.

    A path below a refused one is refused with it; a deletion also where it takes the refused path along.
    """
    if effect.kind != refused.kind:
        return False
    if effect.kind not in PATH_KINDS:
        return (target_of(effect), effect.bound) == (target_of(refused), refused.bound)
    if below(refused.target, effect.target):
        return True
    takes = effect.kind == "delete"
    return takes and (below(effect.target, refused.target) or glob(effect.target)(refused.target))


def below(folder: str, path: str) -> bool:
    """Whether `path` is `folder` or lies in it; `.` holds every relative path."""
    return path == folder or path.startswith(folder.rstrip("/") + "/") or (folder == "." and path[:1] != "/")


def target_of(effect: Effect) -> str:
    """What a grant remembers of an effect's target: for exec the parsed words, never raw text.

    Quoted, so that a yes to `rm "a b"` is none to `rm a b`.
    """
    if effect.argv is None:
        return effect.target
    import shlex

    return shlex.join(effect.argv)
