"""Record: what is written before and after a call, and what its labels and budgets keep of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pegboard.core.call.call import Call, Parts
from pegboard.core.call.plan import situation_of
from pegboard.core.call.shape import as_tool_error
from pegboard.core.errors import BudgetExceeded, PermissionDenied
from pegboard.core.events import CallFinished, CallStarted
from pegboard.core.policy.budgets import Spent
from pegboard.core.policy.taint import PRIVATE, UNTRUSTED
from pegboard.core.result import SOURCE, ToolResult

_BEYOND: Final = frozenset({"send", "spend", "control", "call"})
"""Effects outside this machine: their intent survives a power cut."""


async def record_start(call: Call) -> None:
    """Write down that the call begins; what it will change is on disk before it is changed."""
    _record_start(call)
    kinds = {e.kind for e in call.plan.effects if not e.read_only and e.kind != "read"}
    if kinds:
        await call.parts.recorder.flush(power_loss=not kinds.isdisjoint(_BEYOND))


def _record_start(call: Call) -> None:
    call.recorded = True
    decision = call.decision
    call.parts.recorder.record(
        CallStarted(
            call_id=call.id,
            tool=call.tool.name,
            arguments=call.decoded,
            effects=call.plan.effects,
            changes=call.plan.changes.changes,
            decision=decision.verdict,
            rule=decision.rule,
            reason=decision.reason,
            approver=call.approver,
            digest=call.digest,
            observed=decision.observed,
        )
    )


async def record(call: Call, result: ToolResult) -> ToolResult:
    """Labels, budgets and CallFinished of a call that has its result."""
    if isinstance(result.error, PermissionDenied | BudgetExceeded) and not call.recorded:
        call.decision = replace(call.decision, verdict="deny")
        with suppress(Exception):
            # A recorder that breaks must not turn a refusal into an exception; `record_finish` reports it.
            _record_start(call)
    elif call.recorded and (call.plan.effects or result.notes.labels):
        result = _propagate_taint(call, result)
    if call.booked:
        charge(call, result)
    await call.parts.guards.save()
    return record_finish(call.parts, result)


def record_finish(parts: Parts, result: ToolResult) -> ToolResult:
    """Write down a result; one that cannot be written says so in its notes."""
    try:
        parts.recorder.record(CallFinished(result))
    except Exception as error:  # noqa: BLE001  The call has happened: its result says that it is unrecorded.
        extra = {**result.notes.extra, "unrecorded": as_tool_error(error).message}
        return replace(result, notes=replace(result.notes, extra=extra))
    return result


def charge(call: Call, result: ToolResult | None = None) -> None:
    """Charge the budgets with what the call has used; without a result, with its time alone."""
    meter = call.parts.guards.meter
    if meter is None or not call.booked:
        return
    # A tool that pays for something says so in its notes, as `cost_usd`.
    cost: Any = None if result is None else result.notes.extra.get("cost_usd")
    spent = Spent(
        seconds=call.elapsed_s(),
        bytes_out=0 if result is None else len(result.text.encode("utf-8", "replace")),
        money=float(cost) if isinstance(cost, int | float) and cost > 0 else 0.0,
    )
    meter.charge(call.tool.name, call.outer, spent)


def _propagate_taint(call: Call, result: ToolResult) -> ToolResult:
    """Let taint follow a result into its session and its files, and note where it comes from."""
    taints, outer, plan = call.parts.guards.taints, call.outer, call.plan
    if taints is None:
        return result
    situation = call.situation or situation_of(call.tool, outer)
    own = taints.labels_of_result(plan, situation) if call.labels is None else call.labels
    spill, spills = result.notes.spill, call.parts.shaper.spills
    if PRIVATE not in own:
        # What was cut off was brought in too: it is in the spill.
        text = result.text if spill is None or spills is None else spills.read(spill)
        if (path := taints.private_match(plan, situation, text)) is not None:
            own[PRIVATE] = f"read {path}"
            if spill is not None and spills is not None:
                spills.add_labels(spill, frozenset({PRIVATE}))
    if not own and not result.notes.labels and [e.kind for e in plan.effects] == ["read"]:
        return result
    known = taints.labels(outer.session, outer.labels)
    for label in result.notes.labels:
        if label not in known and label not in own:
            # The tool itself says so: a subagent, an artifact or a spill that carries it.
            own[label] = call.tool.name
    extra = result.notes.extra
    try:
        taints.propagate(plan, outer.session, outer.labels, own, result.data, situation.workspace)
    except Exception as error:  # noqa: BLE001  The call has happened: its result says that its trace is lost.
        extra = {**extra, "untraced": as_tool_error(error).message}
    if UNTRUSTED in own:
        # Programs read the text as it is; the loop puts marks around it for the model.
        extra = {**extra, SOURCE: own[UNTRUSTED]}
    labels = tuple(sorted(known.union(own, result.notes.labels)))
    if labels != result.notes.labels or extra is not result.notes.extra:
        result = replace(result, notes=replace(result.notes, labels=labels, extra=extra))
    return result
