"""Mode `auto`: a second model answers what a call asks, within limits that do not depend on the model.

Before the model is asked at all, this module decides whether a yes could do harm: only changes that undo restores in
full, and connections to hosts that the user typed, may be answered. Whatever else asks, and every error, goes to a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pegboard.core.call.call import IN_A_ROW, Call, Turn
from pegboard.core.effects import Effect
from pegboard.core.events import PermissionJudged
from pegboard.core.policy.approval import ApprovalRequest, Approved
from pegboard.core.policy.auto import Case, Judgement
from pegboard.core.policy.budgets import Spent
from pegboard.core.text import sanitise

BY: Final = "auto"
"""How the record names the second model as the one who approved."""

MOST_CHARS: Final = 60_000
"""Of arguments and diffs together; a larger call cannot be shown whole, so a person looks at it."""

_MOST_REASON: Final = 300
_EXEC: Final = "exec"
_FETCHES: Final = (("curl",), ("wget",), ("git", "clone"))
"""Commands that fetch what their arguments name and run nothing of the workspace."""
_OPTION: Final = re.compile(r"--[A-Za-z][A-Za-z-]*|-[A-Za-z]|-[fgiIjJkLNOqRsSv]+o?|-n[cdHv]")
"""A plain option. Of the short ones with something behind them only such as send nothing: `-sSL`, not `-Avalue`."""


async def automatic_answer(call: Call, request: ApprovalRequest, turn: Turn | None) -> Approved | None:
    """The second model's yes; None if a person has to answer. What the model said is on record."""
    if await needs_person(call, turn):
        return None
    guards = call.parts.guards
    assert guards.judge is not None
    assert guards.taints is not None
    show = call.parts.shaper.redacted
    case = Case(
        session=call.outer.session,
        run=call.outer.run,
        user_text=show(guards.taints.user_text(call.outer.session)),
        call=_shown(call),
    )
    try:
        judgement = await guards.judge().judge(case)
    except Exception as error:  # noqa: BLE001  The model is foreign code; without its answer, the person is asked.
        judgement = Judgement(allow=False, reason=f"the model could not be asked: {type(error).__name__}")
    reason = " ".join(sanitise(str(show(judgement.reason))).split())[:_MOST_REASON]
    call.parts.recorder.record(
        PermissionJudged(
            approval=request.id,
            call_id=call.id,
            tool=call.tool.name,
            answer="allow" if judgement.allow is True else "ask",
            reason=reason,
            model=judgement.model,
            usage=judgement.usage,
        )
    )
    if guards.meter is not None:
        await guards.meter.charge("", call.outer, Spent(money=judgement.usage.cost_usd or 0.0))
    if turn is not None:
        turn.count_judgement(judgement.allow is True)
    return Approved(by=BY) if judgement.allow is True else None


async def needs_person(call: Call, turn: Turn | None = None) -> str:
    """Why only a person may answer; empty if the second model may be asked."""
    guards, policy, outer = call.parts.guards, call.parts.policy, call.outer
    taints = guards.taints
    if guards.judge is None or taints is None:
        return "no second model is set"
    if turn is not None and len(turn.doubts) >= IN_A_ROW:
        return f"auto did not allow {IN_A_ROW} calls in a row"
    if turn is not None and call.id in turn.waited:
        return "it waits for a person's answer"
    decision = call.decision
    if decision.person or decision.tainted or call.budget_warning or call.proposes:
        return "only a person answers this"
    if call.hook_asks:
        return f"{call.hook_asks} wants a person to decide"
    if not policy.sandboxed:
        return "commands are not sandboxed here, and one could run what is written"
    if call.secrets:
        return "it uses a secret"
    asking = [e.effect for e in decision.effects if e.verdict == "ask"]
    if not asking:
        return "its effects are not known"
    for effect in asking:
        match effect.kind:
            case "write" | "delete":
                why = await _not_restorable(call, effect)
            case "connect":
                why = _not_named(call, effect)
            case _:
                why = f"undo cannot take back: {effect}"
        if why:
            return why
    if outer.origin.get("sender") or not taints.user_text(outer.session):
        return "you have typed nothing in this session"
    if not all(change.shown_whole for change in call.plan.changes.changes):
        return "its diff does not show all of it"
    shown = _shown(call)
    if call.parts.shaper.redacted(shown) != shown:
        return "it holds a secret, which the second model is not shown"
    return f"it has more than {MOST_CHARS:,} characters" if len(repr(shown)) > MOST_CHARS else ""


async def _not_restorable(call: Call, effect: Effect) -> str:
    """Why undo might not restore all of what a call does to a file; empty if it does."""
    undo = call.parts.guards.undo
    if effect.target.startswith("/") or effect.at_least in ("ask", "deny"):
        return effect.reason or f"{effect.target} is outside the workspace"
    # Only exact changes are journalled in advance; a command's, and those of foreign code, are known afterwards.
    exact = {p for c in call.plan.changes.changes for p in (c.path, c.moved_to) if p is not None}
    if undo is None or effect.target not in exact:
        return f"what it would change in {effect.target} is not known exactly"
    why = await undo.loss(effect.target)
    return f"undo cannot restore {effect.target}: {why}" if why else ""


def _not_named(call: Call, effect: Effect) -> str:
    """Why a connection is not plainly the user's own wish; empty if it is."""
    taints, outer = call.parts.guards.taints, call.outer
    assert taints is not None
    assert call.situation is not None
    held = taints.labels(outer.session, outer.labels).union(taints.labels_of_reads(call.plan, call.situation))
    if held:
        # Whoever wrote what was read could say what goes to a host that the user named.
        return f"this session has read {' and '.join(sorted(held))} content"
    if not taints.is_named(outer.session, effect):
        return f"you have not named {effect.target}"
    commands = [e for e in call.plan.effects if e.kind == "exec"]
    if commands:
        return _not_fetched(call, effect, commands)
    if call.tool.idempotent:
        return ""
    # It may send what it is given, and the workspace's files, which nobody labels, may have said what to give it.
    words = [
        w for v in call.decoded.sent.values() for w in _words(v) if not taints.is_typed(outer.session, w)
    ]
    return f"you have not typed {words[0]}" if words else ""


def _words(value: Any) -> Iterator[str]:
    """Every text and number in some arguments."""
    match value:
        case Mapping():
            for one in cast("Mapping[Any, Any]", value).items():
                yield from _words(one)
        case list() | tuple():
            for one in cast("list[Any]", value):
                yield from _words(one)
        case None | bool() | "":
            pass
        case _:
            yield str(value)


def _not_fetched(call: Call, effect: Effect, commands: list[Effect]) -> str:
    """Why a command could send something else than what the user asked for; empty if it only fetches what was typed.

    What a command runs could send any file of the workspace, so it has to be one that runs nothing and reads nothing.
    """
    taints, arguments = call.parts.guards.taints, call.decoded.arguments
    assert taints is not None
    one = commands[0]
    words = one.argv or ()
    program = next((p for p in _FETCHES if words[: len(p)] == p), None)
    if (call.tool.canonical or call.tool.name) != _EXEC or len(commands) > 1 or program is None:
        return f"{one.target} could send more than what you asked for"
    if not one.target.startswith(" ".join(program)):
        return f"{one.target} sets or runs something besides {program[0]}"
    if one.at_least != "allow" or one.decisive or one.bound or effect.at_least != "ask":
        return one.reason or f"{one.target} could do more than fetch"
    if arguments.get("env") or arguments.get("stdin") or any(e.kind == "read" for e in call.plan.effects):
        return f"{one.target} is given data of this machine"
    written = {e.target for e in call.plan.effects if e.kind == "write"}
    for word in words[len(program) :]:
        # A file's name that stands there twice may be sent too: `-o VALUE -A VALUE`.
        output = word in written and words.count(word) == 1
        if not (_OPTION.fullmatch(word) or output or taints.is_typed(call.outer.session, word)):
            return f"you have not typed {word}"
    return ""


def _shown(call: Call) -> dict[str, Any]:
    """The call as the second model sees it."""
    decision = call.decision
    return {
        "tool": call.tool.name,
        "arguments": dict(call.decoded.sent),
        "effects": [
            {
                **e.effect.to_dict(),
                "decision": e.verdict,
                "rule": e.rule,
                "reason": e.reason or e.effect.reason,
            }
            for e in decision.effects
        ],
        "asked_by": {"rule": decision.rule, "reason": decision.reason},
        "changes": [c.to_dict() for c in call.plan.changes.changes],
    }
