"""Authorise: the policy decides, the approver answers, and the approval holds for exactly what was shown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from pegboard.core.call.call import Call, Turn, new_id
from pegboard.core.call.plan import plan, situation_of
from pegboard.core.call.shape import as_tool_error, record_start, suspended_error, was_cancelled
from pegboard.core.content import ToolCall
from pegboard.core.effects import Effect
from pegboard.core.errors import Conflict, PermissionDenied
from pegboard.core.events import PermissionRequested
from pegboard.core.policy.approval import (
    Answer,
    ApprovalRequest,
    Refused,
    Waiting,
    answer_of,
    approval_digest,
)
from pegboard.core.policy.guards import use_keys
from pegboard.core.policy.policy import Decision
from pegboard.core.secrets.handles import check_references


async def authorise(call: Call, turn: Turn | None = None) -> None:
    """Return when the call may run and its start is on record.

    Raises:
        PermissionDenied: the policy or a person refuses it.
        SuspendedCall: it waits for an answer.
        BudgetExceeded: a budget is used up.
        Conflict: what it would do has changed since it was approved.
    """
    guards = call.parts.guards
    check_secrets(call)
    meter, policy = guards.meter, call.parts.policy
    if call.plan.effects or call.tool.level != "auto" or policy.rules or meter is not None:
        await guards.refresh(call.workspace)
        await _decide(call, turn)
        if guards.novelty is not None:
            guards.novelty.remember(call.workspace, use_keys(call.tool.name, call.plan.effects))
    if meter is not None:
        await meter.reserve(call.tool.name, call.outer)
        call.booked = True
        call.remaining = await meter.remaining(call.tool.name, call.outer)
    await record_start(call)


def check_secrets(call: Call) -> None:
    """Set the names of the secrets that the arguments refer to.

    Raises:
        PermissionDenied: a secret is not bound to what the call would do.
    """
    guards = call.parts.guards
    if guards.secrets is not None:
        call.secrets = check_references(
            call.decoded.sent,
            call.decoded.arguments,
            call.plan,
            guards.secrets,
            placeholders=guards.placeholders is not None,
        )


def evaluate(call: Call) -> Decision:
    """The policy's decision, tightened by what the session has read; asks nobody."""
    policy, taints, outer = call.parts.policy, call.parts.guards.taints, call.outer
    labels = outer.labels if taints is None else taints.labels(outer.session, outer.labels)
    call.situation = situation_of(call.tool, outer, labels)
    decision = policy(call.plan.effects, call.situation, call.tool.level)
    if taints is None or not labels:
        return decision
    return taints.tighten(
        decision, call.plan, call.situation, outer.session, labels, confined=policy.sandboxed
    )


async def _decide(call: Call, turn: Turn | None) -> None:
    meter, grants = call.parts.guards.meter, call.parts.grants
    call.decision = evaluate(call)
    if turn is not None and (before := turn.refusal(call.plan.effects)) is not None:
        effect, refusal = before
        call.approver = refusal.by or "nobody"
        why = f": {refusal.reason}" if refusal.reason else ""
        call.decision = replace(call.decision, rule=REFUSED_BEFORE, reason=refusal.reason)
        raise PermissionDenied(
            f"{call.tool.name} may not {_named(effect)}, which was refused before in this run{why}",
            hint=STOP,
            details={"rule": call.decision.rule, "decision": "deny", "by": refusal.by},
        )
    if meter is not None and call.decision.verdict != "deny":
        call.budget_warning = await meter.soft_limit_warning(call.tool.name, call.outer)
        if call.budget_warning and call.decision.verdict == "allow":
            call.decision = replace(call.decision, verdict="ask", rule="budget", reason=call.budget_warning)
    match call.decision.verdict:
        case "allow":
            if grants is not None:
                for grant in call.decision.grants:
                    await grants.use(grant)
        case "deny":
            denial = _denied(call)
            if turn is not None:
                denied = [e.effect for e in call.decision.effects if e.verdict == "deny"]
                turn.refuse(denied, Refused(call.decision.reason or call.decision.rule, by="policy"))
            raise denial
        case _:
            await _ask(call, turn)


async def _ask(call: Call, turn: Turn | None) -> None:
    call.digest = _digest(call)
    if turn is not None and call.digest in turn.refused:
        refusal = turn.refused[call.digest]
        call.approver = refusal.by or "nobody"
        raise _refused(call, refusal)
    request = _request(call)
    if turn is not None and not call.budget_warning:
        by = turn.allows(call.tool.name, [_without_reason(e) for e in request.asking])
        if by is not None:
            call.approver = by
            return
    call.parts.recorder.record(
        PermissionRequested(
            approval=request.id,
            call_id=call.id,
            tool=call.tool.name,
            effects=request.effects,
            changes=request.changes,
            reason=request.reason,
            digest=request.digest,
            novel=request.novel,
        )
    )
    answer = await _answer(call, request)
    match answer:
        case Waiting():
            raise suspended_error(answer)
        case Refused():
            call.approver = answer.by or "nobody"
            if turn is not None and answer.by != "pegboard":
                turn.refused[call.digest] = answer
                turn.refuse(request.asking, answer)
            raise _refused(call, answer)
        case _:
            call.approver = answer.by or "approver"
    await _confirm_unchanged(call)
    if answer.scope == "run" and turn is not None:
        turn.allow(call.tool.name, map(_without_reason, request.asking), call.approver)
    if answer.scope in ("once", "run"):
        return
    if call.budget_warning and call.parts.guards.meter is not None:
        call.parts.guards.meter.lift_soft_limit(call.tool.name, call.outer)
    # An approval of a budget alone says nothing about the effects.
    if call.parts.grants is not None and (request.asking or not call.budget_warning):
        await call.parts.grants.add(request, answer, workspace=call.workspace)


def _without_reason(effect: Effect) -> Effect:
    """The effect by what it does; why it asks may change within a run."""
    return Effect(effect.kind, effect.target, argv=effect.argv, bound=effect.bound)


async def _answer(call: Call, request: ApprovalRequest) -> Answer:
    """What the approver answers; one that breaks has refused."""
    try:
        return answer_of(await call.parts.approver.decide(request))
    except asyncio.CancelledError:
        if was_cancelled():
            raise
        return Refused("the approver ended itself with CancelledError", by="pegboard")
    except Exception as error:  # noqa: BLE001  The approver is foreign code, and no answer is no approval.
        return Refused(f"the approver failed with {as_tool_error(error).message}", by="pegboard")


async def _confirm_unchanged(call: Call) -> None:
    """Plan again after the approval: what runs must be what was shown."""
    shown = call.digest
    await plan(call)
    if _digest(call) != shown:
        raise Conflict(
            f"what {call.tool.name} would do has changed since it was approved, so it did not run",
            hint="Check the current state and call again.",
        )


def _request(call: Call) -> ApprovalRequest:
    decision, novelty, outer = call.decision, call.parts.guards.novelty, call.outer
    keys = use_keys(call.tool.name, call.plan.effects)
    return ApprovalRequest(
        id=new_id("ap"),
        call=ToolCall(call.id, call.tool.name, dict(call.decoded.sent)),
        tool=call.tool.name,
        effects=call.plan.effects,
        asking=tuple(e.effect for e in decision.effects if e.verdict == "ask"),
        changes=call.plan.changes.changes,
        reason=decision.reason or decision.rule,
        digest=call.digest,
        novel=() if novelty is None else novelty.unseen(call.workspace, keys),
        tainted=decision.tainted,
        person=decision.person,
        session=outer.session,
        agent=outer.agent,
        run=outer.run,
    )


def _digest(call: Call) -> str:
    return approval_digest(
        call.tool,
        call.decoded.sent,
        call.plan,
        session=call.outer.session,
        workspace=call.workspace,
        policy=call.parts.policy.revision,
        environment=call.parts.guards.environment,
    )


REFUSED_BEFORE: Final = "refused before in this run"
"""The rule of a call that would do what was refused in its run."""

STOP: Final = "Do not try the same by another way; say what you need and why."
"""What every refusal tells the model."""

_VERBS: Final = {"exec": "run", "connect": "connect to"}
"""How a sentence names an effect whose kind is no verb that fits its target."""


def _named(effect: Effect) -> str:
    return f"{_VERBS.get(effect.kind, effect.kind)} {effect.target}"


def _denied(call: Call) -> PermissionDenied:
    decision = call.decision
    reason = decision.reason or decision.rule
    denied = [e.effect for e in decision.effects if e.verdict == "deny"]
    targets = ", ".join(map(_named, denied))
    what = f"{call.tool.name} may not {targets}" if targets else f"{call.tool.name} may not run"
    return PermissionDenied(
        f"{what}: {reason}" + (f" (rule: {decision.rule})" if decision.reason else ""),
        hint=STOP,
        details={"rule": decision.rule, "decision": "deny"},
    )


def _refused(call: Call, answer: Refused) -> PermissionDenied:
    decision = call.decision
    reason = answer.reason or "the request was refused"
    return PermissionDenied(
        f"{call.tool.name} was not allowed to run: {reason}",
        hint=f"It needed approval: {decision.reason or decision.rule}. {STOP}",
        details={"rule": decision.rule, "decision": "ask", "by": answer.by},
    )
