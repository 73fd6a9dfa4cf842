"""Authorise: the policy decides, the approver answers, and the yes holds for what was shown (DESIGN 2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from pegboard.core.call.call import (
    Call,
    Turn,
    new_id,
)
from pegboard.core.call.plan import plan, situation
from pegboard.core.call.shape import as_tool_error, suspended_error, was_cancelled
from pegboard.core.content import ToolCall
from pegboard.core.context import Context
from pegboard.core.errors import (
    Conflict,
    PermissionDenied,
)
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
from pegboard.core.secrets import handles as secret_references

if TYPE_CHECKING:
    from pegboard.core.call.pipeline import Pipeline


def evaluate(pipeline: Pipeline, call: Call, context: Context) -> Decision:
    taints = pipeline.safeguards.taints
    if taints is None:
        return pipeline.policy(call.plan.effects, situation(call.tool, context), call.tool.level)
    labels = taints.labels(context.session, context.labels)
    call.situation = here = situation(call.tool, context, labels)
    decision = pipeline.policy(call.plan.effects, here, call.tool.level)
    if not labels:
        return decision
    return taints.tighten(
        decision, call.plan, here, context.session, labels, confined=pipeline.policy.sandboxed
    )


async def authorise(pipeline: Pipeline, call: Call, context: Context, turn: Turn | None) -> None:
    """Return when a call that touches something, or that rules or budgets concern, may run.

    Raises:
        ToolError: it cannot be planned, or may not run.
    """
    tool, guards = call.tool, pipeline.safeguards
    if tool.effects or tool.plan or tool.markers:
        call.plan = await plan(pipeline, call, context)
    if guards.secrets is not None:
        call.secrets = check_secrets(pipeline, call, guards.secrets)
    if call.plan.effects or tool.level != "auto" or pipeline.policy.rules or guards.meter is not None:
        await check_policy(pipeline, call, context, turn)
        if guards.novelty is not None:
            guards.novelty.remember(str(context.workspace or ""), use_keys(tool.name, call.plan.effects))
    if guards.meter is not None:
        guards.meter.reserve(tool.name, context)
        call.booked = True
        call.remaining = guards.meter.remaining(tool.name, context)


async def check_policy(pipeline: Pipeline, call: Call, context: Context, turn: Turn | None) -> None:
    """Return when the call may run; raise PermissionDenied or SuspendedCall where it may not."""
    tool = call.tool
    meter = pipeline.safeguards.meter
    call.decision = decision = evaluate(pipeline, call, context)
    if meter is not None and decision.verdict != "deny":
        call.budget_warning = meter.soft_limit_warning(tool.name, context)
        if call.budget_warning and decision.verdict == "allow":
            call.decision = decision = replace(
                decision, verdict="ask", rule="budget", reason=call.budget_warning
            )
    if decision.verdict == "allow":
        if pipeline.grants is not None:
            for grant in decision.grants:
                pipeline.grants.use(grant)
        return
    if decision.verdict == "deny":
        raise _denied(call, decision)
    await _ask(pipeline, call, context, turn)


async def _ask(pipeline: Pipeline, call: Call, context: Context, turn: Turn | None) -> None:
    call.digest = _digest(pipeline, call, context)
    if turn is not None and call.digest in turn.refused:
        said = turn.refused[call.digest]
        call.approver = said.by or "nobody"
        raise _refused(call, said)
    request = _request(pipeline, call, context)
    pipeline.recorder.record(
        PermissionRequested(
            approval=request.id,
            call_id=call.call_id,
            tool=call.tool.name,
            effects=request.effects,
            changes=request.changes,
            reason=request.reason,
            digest=request.digest,
            novel=request.novel,
        )
    )
    answer = await _answer(pipeline, request)
    match answer:
        case Waiting():
            raise suspended_error(answer)
        case Refused():
            call.approver = answer.by or "nobody"
            if turn is not None and answer.by != "pegboard":
                turn.refused[call.digest] = answer
            raise _refused(call, answer)
        case _:
            call.approver = answer.by or "approver"
    await _confirm_unchanged(pipeline, call, context)
    if answer.scope == "once":
        return
    if call.budget_warning and pipeline.safeguards.meter is not None:
        pipeline.safeguards.meter.lift_soft_limit(call.tool.name, context)
    # A yes to a budget alone says nothing of the effects.
    if pipeline.grants is not None and (request.asking or not call.budget_warning):
        pipeline.grants.add(request, answer, workspace=str(context.workspace or ""))


async def _answer(pipeline: Pipeline, request: ApprovalRequest) -> Answer:
    """What the approver says; one that breaks has refused."""
    try:
        return answer_of(await pipeline.approver.decide(request))
    except asyncio.CancelledError:
        if was_cancelled():
            raise
        return Refused("the approver ended itself with CancelledError", by="pegboard")
    except Exception as error:  # noqa: BLE001  The approver is foreign code, and no answer is no yes.
        return Refused(f"the approver failed with {as_tool_error(error).message}", by="pegboard")


async def _confirm_unchanged(pipeline: Pipeline, call: Call, context: Context) -> None:
    """Plan again after the yes: what runs must be what was shown (decisions 5)."""
    shown = call.digest
    call.plan = await plan(pipeline, call, context)
    if _digest(pipeline, call, context) != shown:
        raise Conflict(
            f"what {call.tool.name} would do has changed since it was approved, so it did not run",
            hint="Check the current state and call again.",
        )


def _request(pipeline: Pipeline, call: Call, context: Context) -> ApprovalRequest:
    decision = call.decision
    novelty, where = pipeline.safeguards.novelty, str(context.workspace or "")
    return ApprovalRequest(
        id=new_id("ap"),
        call=ToolCall(call.call_id, call.tool.name, dict(call.decoded.sent)),
        tool=call.tool.name,
        effects=call.plan.effects,
        asking=tuple(e.effect for e in decision.effects if e.verdict == "ask"),
        changes=call.plan.changes.changes,
        reason=decision.reason or decision.rule,
        digest=call.digest,
        novel=() if novelty is None else novelty.unseen(where, use_keys(call.tool.name, call.plan.effects)),
        tainted=decision.tainted,
        session=context.session,
        agent=context.agent,
        run=context.run,
    )


def _digest(pipeline: Pipeline, call: Call, context: Context) -> str:
    return approval_digest(
        call.tool,
        call.decoded.sent,
        call.plan,
        session=context.session,
        workspace=str(context.workspace or ""),
        policy=pipeline.policy.revision,
        environment=pipeline.safeguards.environment,
    )


def check_secrets(pipeline: Pipeline, call: Call, handles: secret_references.SecretHandles) -> frozenset[str]:
    return secret_references.check_references(
        call.decoded.sent,
        call.decoded.arguments,
        call.plan,
        handles,
        placeholders=pipeline.safeguards.placeholders is not None,
    )


def _denied(call: Call, decision: Decision) -> PermissionDenied:
    why = decision.reason or decision.rule
    targets = ", ".join(str(e.effect) for e in decision.effects if e.verdict == "deny")
    what = f"{call.tool.name} may not {targets}" if targets else f"{call.tool.name} may not run"
    return PermissionDenied(
        f"{what}: {why}" + (f" (rule: {decision.rule})" if decision.reason else ""),
        hint="Do not work around this; tell the user what you need and why.",
        details={"rule": decision.rule, "decision": "deny"},
    )


def _refused(call: Call, answer: Refused) -> PermissionDenied:
    why = answer.reason or "the request was refused"
    return PermissionDenied(
        f"{call.tool.name} was not allowed to run: {why}",
        hint=f"Reason: {call.decision.reason or call.decision.rule}. Continue without it, or ask the user.",
        details={"rule": call.decision.rule, "decision": "ask", "by": answer.by},
    )
