"""Authorise: the policy decides, the approver answers, and the yes holds for what was shown (DESIGN 2)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from pegboard.core import secrets as secret_references
from pegboard.core.approval import Answer, ApprovalRequest, Refused, Waiting, answer_of
from pegboard.core.call import ToolCall
from pegboard.core.context import Context
from pegboard.core.digest import approval_digest
from pegboard.core.errors import (
    Conflict,
    PermissionDenied,
)
from pegboard.core.events import PermissionRequested
from pegboard.core.failing import as_tool_error, suspended, was_cancelled
from pegboard.core.invocation import (
    Planned,
    Turn,
    new_id,
)
from pegboard.core.novelty import things_of
from pegboard.core.planning import plan, situation
from pegboard.core.policy import Decision

if TYPE_CHECKING:
    from pegboard.core.pipeline import Pipeline


def decide(line: Pipeline, ready: Planned, context: Context) -> Decision:
    taints = line.safeguards.taints
    if taints is None:
        return line.policy(ready.plan.effects, situation(ready.tool, context), ready.tool.level)
    labels = taints.labels(context.session, context.labels)
    ready.here = here = situation(ready.tool, context, labels)
    decision = line.policy(ready.plan.effects, here, ready.tool.level)
    if not labels:
        return decision
    return taints.judge(decision, ready.plan, here, context.session, labels, confined=line.policy.sandboxed)


async def weigh(line: Pipeline, ready: Planned, context: Context, turn: Turn | None) -> None:
    """Return when a call that touches something, or that rules or budgets concern, may run.

    Raises:
        ToolError: it cannot be planned, or may not run.
    """
    tool, guards = ready.tool, line.safeguards
    if tool.effects or tool.plan or tool.markers:
        ready.plan = await plan(line, ready, context)
    if guards.secrets is not None:
        ready.secrets = check_secrets(line, ready, guards.secrets)
    if ready.plan.effects or tool.level != "auto" or line.policy.rules or guards.meter is not None:
        await authorise(line, ready, context, turn)
        if guards.novelty is not None:
            guards.novelty.remember(str(context.workspace or ""), things_of(tool.name, ready.plan.effects))
    if guards.meter is not None:
        guards.meter.begin(tool.name, context)
        ready.booked = True
        ready.left = guards.meter.left(tool.name, context)


async def authorise(line: Pipeline, ready: Planned, context: Context, turn: Turn | None) -> None:
    """Return when the call may run; raise PermissionDenied or SuspendedCall where it may not."""
    tool = ready.tool
    meter = line.safeguards.meter
    ready.decision = decision = decide(line, ready, context)
    if meter is not None and decision.verdict != "deny":
        ready.near = meter.near(tool.name, context)
        if ready.near and decision.verdict == "allow":
            ready.decision = decision = replace(decision, verdict="ask", rule="budget", reason=ready.near)
    if decision.verdict == "allow":
        if line.grants is not None:
            for grant in decision.grants:
                line.grants.use(grant)
        return
    if decision.verdict == "deny":
        raise _denied(ready, decision)
    await _ask(line, ready, context, turn)


async def _ask(line: Pipeline, ready: Planned, context: Context, turn: Turn | None) -> None:
    ready.digest = _digest(line, ready, context)
    if turn is not None and ready.digest in turn.refused:
        said = turn.refused[ready.digest]
        ready.approver = said.by or "nobody"
        raise _refused(ready, said)
    request = _request(line, ready, context)
    line.recorder.record(
        PermissionRequested(
            approval=request.id,
            call_id=ready.call_id,
            tool=ready.tool.name,
            effects=request.effects,
            changes=request.changes,
            reason=request.reason,
            digest=request.digest,
            novel=request.novel,
        )
    )
    answer = await _answer(line, request)
    match answer:
        case Waiting():
            raise suspended(answer)
        case Refused():
            ready.approver = answer.by or "nobody"
            if turn is not None and answer.by != "pegboard":
                turn.refused[ready.digest] = answer
            raise _refused(ready, answer)
        case _:
            ready.approver = answer.by or "approver"
    await _confirm_unchanged(line, ready, context)
    if answer.scope == "once":
        return
    if ready.near and line.safeguards.meter is not None:
        line.safeguards.meter.ease(ready.tool.name, context)
    # A yes to a budget alone says nothing of the effects.
    if line.grants is not None and (request.asking or not ready.near):
        line.grants.add(request, answer, workspace=str(context.workspace or ""))


async def _answer(line: Pipeline, request: ApprovalRequest) -> Answer:
    """What the approver says; one that breaks has refused."""
    try:
        return answer_of(await line.approver.decide(request))
    except asyncio.CancelledError:
        if was_cancelled():
            raise
        return Refused("the approver ended itself with CancelledError", by="pegboard")
    except Exception as error:  # noqa: BLE001  The approver is foreign code, and no answer is no yes.
        return Refused(f"the approver failed with {as_tool_error(error).message}", by="pegboard")


async def _confirm_unchanged(line: Pipeline, ready: Planned, context: Context) -> None:
    """Plan again after the yes: what runs must be what was shown (decisions 5)."""
    shown = ready.digest
    ready.plan = await plan(line, ready, context)
    if _digest(line, ready, context) != shown:
        raise Conflict(
            f"what {ready.tool.name} would do has changed since it was approved, so it did not run",
            hint="Check the current state and call again.",
        )


def _request(line: Pipeline, ready: Planned, context: Context) -> ApprovalRequest:
    decision = ready.decision
    novelty, where = line.safeguards.novelty, str(context.workspace or "")
    return ApprovalRequest(
        id=new_id("ap"),
        call=ToolCall(ready.call_id, ready.tool.name, dict(ready.decoded.sent)),
        tool=ready.tool.name,
        effects=ready.plan.effects,
        asking=tuple(e.effect for e in decision.effects if e.verdict == "ask"),
        changes=ready.plan.changes.changes,
        reason=decision.reason or decision.rule,
        digest=ready.digest,
        novel=() if novelty is None else novelty.first(where, things_of(ready.tool.name, ready.plan.effects)),
        tainted=decision.tainted,
        session=context.session,
        agent=context.agent,
        run=context.run,
    )


def _digest(line: Pipeline, ready: Planned, context: Context) -> str:
    return approval_digest(
        ready.tool,
        ready.decoded.sent,
        ready.plan,
        session=context.session,
        workspace=str(context.workspace or ""),
        policy=line.policy.revision,
        environment=line.safeguards.environment,
    )


def check_secrets(line: Pipeline, ready: Planned, handles: secret_references.SecretHandles) -> frozenset[str]:
    return secret_references.check(
        ready.decoded.sent,
        ready.decoded.arguments,
        ready.plan,
        handles,
        placeholders=line.safeguards.placeholders is not None,
    )


def _denied(ready: Planned, decision: Decision) -> PermissionDenied:
    why = decision.reason or decision.rule
    targets = ", ".join(str(e.effect) for e in decision.effects if e.verdict == "deny")
    what = f"{ready.tool.name} may not {targets}" if targets else f"{ready.tool.name} may not run"
    return PermissionDenied(
        f"{what}: {why}" + (f" (rule: {decision.rule})" if decision.reason else ""),
        hint="Do not work around this; tell the user what you need and why.",
        details={"rule": decision.rule, "decision": "deny"},
    )


def _refused(ready: Planned, answer: Refused) -> PermissionDenied:
    why = answer.reason or "the request was refused"
    return PermissionDenied(
        f"{ready.tool.name} was not allowed to run: {why}",
        hint=f"Reason: {ready.decision.reason or ready.decision.rule}. Continue without it, or ask the user.",
        details={"rule": ready.decision.rule, "decision": "ask", "by": answer.by},
    )
