"""Authorise: the policy decides, the approver answers, and the approval holds for exactly what was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pegboard.core.call.call import Call, Parts, Questions, Turn, new_id
from pegboard.core.call.hooks import before_call, hook_answer
from pegboard.core.call.plan import decode, plan, situation_of
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
    approval_digest,
    ask_all,
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
    hooked = call.parts.hooks is not None
    if call.plan.effects or call.tool.level != "auto" or policy.rules or meter is not None or hooked:
        await guards.refresh(call.workspace)
        await _decide(call, turn)
        if guards.novelty is not None:
            guards.novelty.remember(call.workspace, use_keys(call.tool.name, call.plan.effects))
    if meter is not None:
        await meter.reserve(call.tool.name, call.outer)
        call.booked = True
        call.remaining = await meter.remaining(call.tool.name, call.outer)
    if turn is not None and turn.questions is not None:
        turn.questions.open.pop(call.id, None)
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
    origin = outer.origin
    chat = f"{origin.get('channel', '')}:{origin['chat_id']}" if origin.get("chat_id") else ""
    return taints.tighten(
        decision, call.plan, call.situation, outer.session, labels, confined=policy.sandboxed, chat=chat
    )


async def _decide(call: Call, turn: Turn | None) -> None:
    grants = call.parts.grants
    await _evaluate(call, turn)
    if call.parts.hooks is not None and call.decision.verdict != "deny":
        await before_call(call)
    match call.decision.verdict:
        case "allow":
            if grants is not None:
                for grant in call.decision.grants:
                    await grants.use(grant)
        case "deny":
            denial = _denied(call)
            # What a mode denies until a plan is agreed to is not refused for good.
            if turn is not None and call.parts.policy.mode != "plan":
                denied = [e.effect for e in call.decision.effects if e.verdict == "deny"]
                turn.refuse(denied, Refused(call.decision.reason or call.decision.rule, by="policy"))
            raise denial
        case _:
            await _ask(call, turn)


async def _evaluate(call: Call, turn: Turn | None) -> None:
    """Set the decision: what the policy says, what was refused before in the run, and what budgets ask.

    Raises:
        PermissionDenied: it would do what was refused before.
    """
    meter = call.parts.guards.meter
    call.decision = evaluate(call)
    answered = _answered(call, turn)
    # Who answered to this call in a list has seen what else was refused in it.
    if turn is not None and answered is None and (before := turn.refusal(call.plan.effects)) is not None:
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
    if isinstance(answered, Refused) and call.decision.verdict == "allow":
        # A yes to another call of the list may cover the effect; the no was to this one.
        call.decision = replace(call.decision, verdict="ask")


async def _ask(call: Call, turn: Turn | None) -> None:
    call.digest = _digest(call)
    if turn is not None and call.digest in turn.refused:
        refusal = turn.refused[call.digest]
        call.approver = refusal.by or "nobody"
        raise _refused(call, refusal)
    request = _request(call)
    if turn is not None and _answered(call, turn) is None and (by := _allowed(call, request, turn)):
        call.approver = by
        return
    answer = (
        await _hook_answer(call, request, turn)
        or await _automatic_answer(call, request, turn)
        or await _answer(call, request, turn)
    )
    match answer:
        case Waiting():
            raise suspended_error(answer)
        case Refused():
            call.approver = answer.by or "nobody"
            if turn is not None and answer.by != "pegboard":
                turn.refused[call.digest] = answer
                if not call.proposes:  # A no to a plan is none to each of its parts.
                    turn.refuse(request.asking, answer)
            raise _refused(call, answer)
        case _:
            call.approver = answer.by or "approver"
    await _confirm_unchanged(call)
    if answer.scope == "run" and turn is not None:
        turn.allow(call.tool.name, map(_without_reason, request.asking), call.approver)
    if answer.scope in ("once", "run") or call.proposes:
        return
    if call.budget_warning and call.parts.guards.meter is not None:
        call.parts.guards.meter.lift_soft_limit(call.tool.name, call.outer)
    # An approval of a budget alone says nothing about the effects.
    if call.parts.grants is not None and (request.asking or not call.budget_warning):
        await call.parts.grants.add(request, answer, workspace=call.workspace)


def _without_reason(effect: Effect) -> Effect:
    """The effect by what it does; why it asks may change within a run."""
    return Effect(effect.kind, effect.target, argv=effect.argv, bound=effect.bound)


def _allowed(call: Call, request: ApprovalRequest, turn: Turn) -> str | None:
    """Who has allowed it for this run; None if nobody has."""
    if call.budget_warning:
        return None
    return turn.allows(call.tool.name, [_without_reason(e) for e in request.asking])


def _answered(call: Call, turn: Turn | None) -> Answer | None:
    """What was answered to this very call in a list of its turn; None if nothing was."""
    before = None if turn is None or turn.questions is None else turn.questions.answers.get(call.id)
    return before[1] if before is not None and before[0].digest == _digest(call) else None


async def _hook_answer(call: Call, request: ApprovalRequest, turn: Turn | None) -> Answer | None:
    """What a hook answers in a person's place; None if a person has to, or has answered already."""
    if call.parts.hooks is None:
        return None
    answer = await hook_answer(call, request)
    return answer if isinstance(answer, Refused) or _answered(call, turn) is None else None


async def _automatic_answer(call: Call, request: ApprovalRequest, turn: Turn | None) -> Answer | None:
    """What a second model answers in mode `auto`; None if a person has to, or has answered already."""
    if call.parts.policy.mode != "auto" or _answered(call, turn) is not None:
        return None
    from pegboard.core.call.automatic import automatic_answer

    return await automatic_answer(call, request, turn)


async def _answer(call: Call, request: ApprovalRequest, turn: Turn | None) -> Answer:
    """What the approver answers, alone or in the list of the turn's questions."""
    questions = None if turn is None else turn.questions
    if turn is None or questions is None:
        return (await _answers(call.parts, [request]))[0]
    async with questions.lock:
        answer = questions.answer(request)
        if answer is None:
            requests = await _list(call, request, turn, questions)
            answers = await _answers(call.parts, requests)
            asked = {r.call.id or "": (r, a) for r, a in zip(requests, answers, strict=True)}
            questions.answers.update(asked)
            answer = asked[call.id][1]
    return answer


async def _list(
    call: Call, request: ApprovalRequest, turn: Turn, questions: Questions
) -> list[ApprovalRequest]:
    """What the calls of the turn ask now, in their order.

    A call that waits for an earlier one is asked about too; if that one changes what it would do, it asks again. One
    that would change the same file as an earlier one asks when its change is known.
    """
    requests: list[ApprovalRequest] = []
    changed: set[str] = set()
    for sent in tuple(questions.open.values()):
        if sent.id == call.id:
            one = request
        elif sent.id in questions.answers or (one := await _question(call, sent, turn)) is None:
            continue
        paths = {change.path for change in one.changes}
        if one is request or not changed & paths:
            requests.append(one)
        changed |= paths
    return requests


async def _question(asking: Call, sent: ToolCall, turn: Turn) -> ApprovalRequest | None:
    """What another call of the turn would ask now; None if nothing."""
    try:
        call = decode(asking.parts, sent, asking.outer)
        await plan(call)
        check_secrets(call)
        await _evaluate(call, turn)
    except Exception:  # noqa: BLE001  Whatever is wrong with it is reported by the call itself.
        return None
    if call.decision.verdict != "ask" or call.parts.hooks is not None:
        # Hooks are asked before a person is, when its turn has come.
        return None
    call.digest = _digest(call)
    request = _request(call)
    if call.parts.policy.mode == "auto":
        from pegboard.core.call.automatic import needs_person

        if not await needs_person(call, turn):
            return None  # The second model is asked before a person is, when its turn has come.
    return None if call.digest in turn.refused or _allowed(call, request, turn) else request


async def _answers(parts: Parts, requests: Sequence[ApprovalRequest]) -> list[Answer]:
    """What the approver answers to each; one that breaks has refused."""
    for request in requests:
        parts.recorder.record(
            PermissionRequested(
                approval=request.id,
                call_id=request.call.id or "",
                tool=request.tool,
                effects=request.effects,
                changes=request.changes,
                reason=request.reason,
                digest=request.digest,
                novel=request.novel,
                verdicts=request.verdicts,
            )
        )
    try:
        return await ask_all(parts.approver, requests)
    except asyncio.CancelledError:
        if was_cancelled():
            raise
        refused = Refused("the approver ended itself with CancelledError", by="pegboard")
    except Exception as error:  # noqa: BLE001  The approver is foreign code, and no answer is no approval.
        refused = Refused(f"the approver failed with {as_tool_error(error).message}", by="pegboard")
    return [refused] * len(requests)


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
        verdicts=tuple({"decision": e.verdict, "rule": e.rule, "reason": e.reason} for e in decision.effects),
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
