"""Record: what is written before and after a call, what its result is, and how taint follows it (DESIGN 2)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pegboard.core.call.call import (
    Call,
)
from pegboard.core.call.plan import situation
from pegboard.core.call.shape import as_tool_error, log_failure, to_result, was_cancelled
from pegboard.core.context import Context
from pegboard.core.errors import (
    BudgetExceeded,
    CallCancelled,
    InternalError,
    PermissionDenied,
    SuspendedCall,
    ToolError,
)
from pegboard.core.events import CallFinished, CallStarted
from pegboard.core.policy.budgets import Spent
from pegboard.core.policy.policy import ALLOWED
from pegboard.core.policy.taint import PRIVATE, UNTRUSTED
from pegboard.core.result import SOURCE, ToolResult
from pegboard.core.values import blank, setter

if TYPE_CHECKING:
    from pegboard.core.call.pipeline import Pipeline


_set_result: Final = setter(CallFinished, "result")
_HARMLESS: Final = frozenset({"read"})
_BEYOND: Final = frozenset({"send", "spend", "control", "call"})
"""Effects outside this machine: their intent survives a power cut (decisions 18)."""


def labels_of(pipeline: Pipeline, call: Call, context: Context) -> frozenset[str]:
    """The labels under which the call ran; its spill carries them."""
    taints = pipeline.safeguards.taints
    if taints is None:
        return context.labels
    labels = taints.labels(context.session, context.labels)
    if not call.plan.effects:
        return labels
    call.own_labels = taints.labels_of_result(call.plan, call.situation or situation(call.tool, context))
    return labels.union(call.own_labels) if call.own_labels else labels


def propagate_taint(pipeline: Pipeline, result: ToolResult, call: Call, context: Context) -> ToolResult:
    """Let taint follow a result into its session and its files, and note where it comes from."""
    taints = pipeline.safeguards.taints
    if taints is None:
        return result
    here = call.situation or situation(call.tool, context)
    own = taints.labels_of_result(call.plan, here) if call.own_labels is None else call.own_labels
    spill, spills = result.notes.spill, pipeline.shaper.spills
    if PRIVATE not in own:
        # What was cut off was brought in too: it lies in the spill.
        text = result.text if spill is None or spills is None else spills.read(spill)
        if (path := taints.private_match(call.plan, here, text)) is not None:
            own[PRIVATE] = f"read {path}"
            if spill is not None and spills is not None:
                spills.add_labels(spill, frozenset({PRIVATE}))
    if (
        not own
        and not result.notes.labels
        and call.plan.effects[0].kind == "read"
        and len(call.plan.effects) == 1
    ):
        return result
    known = taints.labels(context.session, context.labels)
    for label in result.notes.labels:
        if label not in known and label not in own:
            # The tool itself says so: a subagent, an artifact or a spill that carries it.
            own[label] = call.tool.name
    extra = result.notes.extra
    try:
        taints.propagate(call.plan, context.session, context.labels, own, result.data, here.workspace)
    except Exception as error:  # noqa: BLE001  The call has happened: its result is told, and that its trace is lost.
        extra = {**extra, "untraced": as_tool_error(error).message}
    if UNTRUSTED in own:
        # Programs read the text as it is; the loop puts marks around it for the model (core/marking.py).
        extra = {**extra, SOURCE: own[UNTRUSTED]}
    labels = tuple(sorted(known.union(own, result.notes.labels)))
    if labels != result.notes.labels or extra is not result.notes.extra:
        result = replace(result, notes=replace(result.notes, labels=labels, extra=extra))
    return result


def max_result_chars(pipeline: Pipeline, call: Call) -> int | None:
    """Characters that a result may have, where a budget limits its bytes too; None = as the shaper has it."""
    own, bytes_left = call.tool.limits.max_chars, call.remaining.bytes_out
    if bytes_left is None:
        return own
    return max(min(pipeline.shaper.max_chars if own is None else own, bytes_left), 1)


def charge_budgets(
    pipeline: Pipeline,
    call: Call | None,
    context: Context,
    started: float,
    bytes_out: int,
    cost: Any = None,
) -> None:
    """Take what a call has used from the budgets."""
    meter = pipeline.safeguards.meter
    if meter is not None and call is not None and call.booked:
        # A tool that pays for something says so in its notes, as `cost_usd`.
        money = float(cost) if isinstance(cost, int | float) and cost > 0 else 0.0
        spent = Spent(seconds=pipeline.now() - started, bytes_out=bytes_out, money=money)
        meter.charge(call.tool.name, context, spent)


def record_start(pipeline: Pipeline, call: Call, *, weighed: bool) -> None:
    """Write down that a call begins, or that it may not; `weighed`: somebody has decided about it."""
    call.recorded = True
    started = blank(CallStarted)
    started.call_id = call.call_id
    started.tool = call.tool.name
    started.arguments = call.decoded
    started.rule = ALLOWED.rule
    if weighed:
        _decided(started, call)
    pipeline.recorder.record(started)


def _decided(started: Any, call: Call) -> None:
    decision = call.decision
    started.effects = call.plan.effects
    started.changes = call.plan.changes.changes
    started.decision = decision.verdict
    started.rule = decision.rule
    started.reason = decision.reason
    started.approver = call.approver
    started.digest = call.digest
    started.observed = decision.observed


def shape_result(
    pipeline: Pipeline, call: Call, value: Any, context: Context, started: float, *, weighed: bool
) -> ToolResult:
    """The result of what a function returned, with its labels."""
    tool, now = call.tool, pipeline.now
    if tool.render is not None:
        value = tool.render(to_result(value), call.decoded.arguments)
    result = pipeline.shaper.shape(
        value,
        call_id=call.call_id,
        tool=tool.name,
        max_chars=max_result_chars(pipeline, call) if weighed else tool.limits.max_chars,
        labels=labels_of(pipeline, call, context),
        repairs=call.decoded.repairs,
        duration_s=now() - started,
    )
    if result.notes.labels or (weighed and call.plan.effects):
        result = propagate_taint(pipeline, result, call, context)
    return result


def error_result(
    pipeline: Pipeline,
    raised: BaseException,
    name: str,
    call_id: str,
    call: Call | None,
    context: Context,
    started: float,
) -> ToolResult:
    """The result of a call that did not come to an end of its own.

    Raises:
        CancelledError: somebody cancelled the running task; the call's result is recorded all the same.
    """
    if not isinstance(raised, asyncio.CancelledError):
        log_failure(name, raised, pipeline.shaper.redacted)
        return failed_result(pipeline, as_tool_error(raised), name, call_id, call, started)
    if not was_cancelled():
        # Nobody cancelled us: the tool raised it by itself, which is that tool's failure (case args-24).
        error: ToolError = InternalError("the tool ended itself with CancelledError")
        return failed_result(pipeline, error, name, call_id, call, started)
    error = CallCancelled("the call was cancelled before it finished")
    record_result(pipeline, failed_result(pipeline, error, name, call_id, call, started))
    charge_budgets(pipeline, call, context, started, 0)
    raise raised from None


def settle_result(
    pipeline: Pipeline, call: Call, result: ToolResult, context: Context, started: float
) -> ToolResult:
    """The result of a call that was weighed, after its labels are kept and its budgets are charged."""
    if result.error is not None and call.recorded and call.plan.effects:
        # A foreign tool's refusal is foreign text too.
        result = propagate_taint(pipeline, result, call, context)
    if call.booked:
        size = len(result.text.encode("utf-8", "replace"))
        charge_budgets(pipeline, call, context, started, size, result.notes.extra.get("cost_usd"))
    return result


def failed_result(
    pipeline: Pipeline, error: ToolError, name: str, call_id: str, call: Call | None, started: float
) -> ToolResult:
    data = {"pending": error.details.get("pending")} if isinstance(error, SuspendedCall) else None
    failed = ToolResult.failed(error)
    if call is not None and call.tool.render is not None:
        failed = call.tool.render(failed, call.decoded.arguments)
    result = pipeline.shaper.shape(
        failed,
        call_id=call_id,
        tool=call.tool.name if call else name,
        repairs=call.decoded.repairs if call else (),
        duration_s=pipeline.now() - started,
    )
    if isinstance(error, PermissionDenied | BudgetExceeded) and call is not None and not call.recorded:
        _record_denied(pipeline, call)
    return replace(result, data=data)


def _record_denied(pipeline: Pipeline, call: Call) -> None:
    call.decision = replace(call.decision, verdict="deny")
    with suppress(Exception):
        # A recorder that breaks must not turn a refusal into an exception; `_finish` tells of it.
        record_start(pipeline, call, weighed=True)


async def flush_intent(pipeline: Pipeline, call: Call) -> None:
    """What will be done is written before it is done, so that a crash leaves no unknown act (G-10)."""
    kinds = {e.kind for e in call.plan.effects if not e.read_only}
    if kinds - _HARMLESS:
        await pipeline.recorder.flush(power_loss=not kinds.isdisjoint(_BEYOND))


def record_result(pipeline: Pipeline, result: ToolResult) -> ToolResult:
    finished = blank(CallFinished)
    _set_result(finished, result)
    try:
        pipeline.recorder.record(finished)
    except Exception as error:  # noqa: BLE001  The call has happened: its result is told, and that it is unrecorded.
        extra = {**result.notes.extra, "unrecorded": as_tool_error(error).message}
        return replace(result, notes=replace(result.notes, extra=extra))
    return result
