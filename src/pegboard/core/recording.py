"""Record: what is written before and after a call, what its result is, and how taint follows it (DESIGN 2)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pegboard.core.budgets import Spent
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
from pegboard.core.failing import as_tool_error, log_failure, was_cancelled
from pegboard.core.invocation import (
    Planned,
)
from pegboard.core.marking import SOURCE
from pegboard.core.planning import situation
from pegboard.core.policy import ALLOWED
from pegboard.core.result import ToolResult
from pegboard.core.shaping import wrap
from pegboard.core.taint import PRIVATE, UNTRUSTED
from pegboard.core.values import blank, setter

if TYPE_CHECKING:
    from pegboard.core.pipeline import Pipeline


_set_result: Final = setter(CallFinished, "result")
_HARMLESS: Final = frozenset({"read"})
_BEYOND: Final = frozenset({"send", "spend", "control", "call"})
"""Effects outside this machine: their intent survives a power cut (decisions 18)."""


def labels_of(line: Pipeline, ready: Planned, context: Context) -> frozenset[str]:
    """The labels under which the call ran; its spill carries them."""
    taints = line.safeguards.taints
    if taints is None:
        return context.labels
    labels = taints.labels(context.session, context.labels)
    if not ready.plan.effects:
        return labels
    ready.own = taints.reached(ready.plan, ready.here or situation(ready.tool, context))
    return labels.union(ready.own) if ready.own else labels


def traced(line: Pipeline, result: ToolResult, ready: Planned, context: Context) -> ToolResult:
    """Let taint follow a result into its session and its files, and note where it comes from."""
    taints = line.safeguards.taints
    if taints is None:
        return result
    here = ready.here or situation(ready.tool, context)
    own = taints.reached(ready.plan, here) if ready.own is None else ready.own
    spill, spills = result.notes.spill, line.shaper.spills
    if PRIVATE not in own:
        # What was cut off was brought in too: it lies in the spill.
        text = result.text if spill is None or spills is None else spills.read(spill)
        if (path := taints.found(ready.plan, here, text)) is not None:
            own[PRIVATE] = f"read {path}"
            if spill is not None and spills is not None:
                spills.add_labels(spill, frozenset({PRIVATE}))
    if (
        not own
        and not result.notes.labels
        and ready.plan.effects[0].kind == "read"
        and len(ready.plan.effects) == 1
    ):
        return result
    known = taints.labels(context.session, context.labels)
    for label in result.notes.labels:
        if label not in known and label not in own:
            # The tool itself says so: a subagent, an artifact or a spill that carries it.
            own[label] = ready.tool.name
    extra = result.notes.extra
    try:
        taints.finished(ready.plan, context.session, context.labels, own, result.data, here.workspace)
    except Exception as error:  # noqa: BLE001  The call has happened: its result is told, and that its trace is lost.
        extra = {**extra, "untraced": as_tool_error(error).message}
    if UNTRUSTED in own:
        # Programs read the text as it is; the loop puts marks around it for the model (core/marking.py).
        extra = {**extra, SOURCE: own[UNTRUSTED]}
    labels = tuple(sorted(known.union(own, result.notes.labels)))
    if labels != result.notes.labels or extra is not result.notes.extra:
        result = replace(result, notes=replace(result.notes, labels=labels, extra=extra))
    return result


def room(line: Pipeline, ready: Planned) -> int | None:
    """Characters that a result may have, where a budget limits its bytes too; None = as the shaper has it."""
    own, bytes_left = ready.tool.limits.max_chars, ready.left.bytes_out
    if bytes_left is None:
        return own
    return max(min(line.shaper.max_chars if own is None else own, bytes_left), 1)


def book(
    line: Pipeline,
    ready: Planned | None,
    context: Context,
    started: float,
    bytes_out: int,
    cost: Any = None,
) -> None:
    """Take what a call has used from the budgets."""
    meter = line.safeguards.meter
    if meter is not None and ready is not None and ready.booked:
        # A tool that pays for something says so in its notes, as `cost_usd`.
        money = float(cost) if isinstance(cost, int | float) and cost > 0 else 0.0
        spent = Spent(seconds=line.now() - started, bytes_out=bytes_out, money=money)
        meter.end(ready.tool.name, context, spent)


def record_start(line: Pipeline, ready: Planned, *, weighed: bool) -> None:
    """Write down that a call begins, or that it may not; `weighed`: somebody has decided about it."""
    ready.recorded = True
    started = blank(CallStarted)
    started.call_id = ready.call_id
    started.tool = ready.tool.name
    started.arguments = ready.decoded
    started.rule = ALLOWED.rule
    if weighed:
        _decided(started, ready)
    line.recorder.record(started)


def _decided(started: Any, ready: Planned) -> None:
    decision = ready.decision
    started.effects = ready.plan.effects
    started.changes = ready.plan.changes.changes
    started.decision = decision.verdict
    started.rule = decision.rule
    started.reason = decision.reason
    started.approver = ready.approver
    started.digest = ready.digest
    started.observed = decision.observed


def shaped(
    line: Pipeline, ready: Planned, value: Any, context: Context, started: float, *, weighed: bool
) -> ToolResult:
    """The result of what a function returned, with its labels."""
    tool, now = ready.tool, line.now
    if tool.render is not None:
        value = tool.render(wrap(value), ready.decoded.arguments)
    result = line.shaper.shape(
        value,
        call_id=ready.call_id,
        tool=tool.name,
        max_chars=room(line, ready) if weighed else tool.limits.max_chars,
        labels=labels_of(line, ready, context),
        repairs=ready.decoded.repairs,
        duration_s=now() - started,
    )
    if result.notes.labels or (weighed and ready.plan.effects):
        result = traced(line, result, ready, context)
    return result


def ended(
    line: Pipeline,
    raised: BaseException,
    name: str,
    call_id: str,
    ready: Planned | None,
    context: Context,
    started: float,
) -> ToolResult:
    """The result of a call that did not come to an end of its own.

    Raises:
        CancelledError: somebody cancelled the running task; the call's result is recorded all the same.
    """
    if not isinstance(raised, asyncio.CancelledError):
        log_failure(name, raised, line.shaper.redacted)
        return failed(line, as_tool_error(raised), name, call_id, ready, started)
    if not was_cancelled():
        # Nobody cancelled us: the tool raised it by itself, which is that tool's failure (case args-24).
        error: ToolError = InternalError("the tool ended itself with CancelledError")
        return failed(line, error, name, call_id, ready, started)
    error = CallCancelled("the call was cancelled before it finished")
    finish(line, failed(line, error, name, call_id, ready, started))
    book(line, ready, context, started, 0)
    raise raised from None


def accounted(
    line: Pipeline, ready: Planned, result: ToolResult, context: Context, started: float
) -> ToolResult:
    """The result of a call that was weighed, after its labels are kept and its budgets are charged."""
    if result.error is not None and ready.recorded and ready.plan.effects:
        # A foreign tool's refusal is foreign text too.
        result = traced(line, result, ready, context)
    if ready.booked:
        size = len(result.text.encode("utf-8", "replace"))
        book(line, ready, context, started, size, result.notes.extra.get("cost_usd"))
    return result


def failed(
    line: Pipeline, error: ToolError, name: str, call_id: str, ready: Planned | None, started: float
) -> ToolResult:
    data = {"pending": error.details.get("pending")} if isinstance(error, SuspendedCall) else None
    failed = ToolResult.failed(error)
    if ready is not None and ready.tool.render is not None:
        failed = ready.tool.render(failed, ready.decoded.arguments)
    result = line.shaper.shape(
        failed,
        call_id=call_id,
        tool=ready.tool.name if ready else name,
        repairs=ready.decoded.repairs if ready else (),
        duration_s=line.now() - started,
    )
    if isinstance(error, PermissionDenied | BudgetExceeded) and ready is not None and not ready.recorded:
        _record_denied(line, ready)
    return replace(result, data=data)


def _record_denied(line: Pipeline, ready: Planned) -> None:
    ready.decision = replace(ready.decision, verdict="deny")
    with suppress(Exception):
        # A recorder that breaks must not turn a refusal into an exception; `_finish` tells of it.
        record_start(line, ready, weighed=True)


async def keep_intent(line: Pipeline, ready: Planned) -> None:
    """What will be done is written before it is done, so that a crash leaves no unknown act (G-10)."""
    kinds = {e.kind for e in ready.plan.effects if not e.read_only}
    if kinds - _HARMLESS:
        await line.recorder.flush(power_loss=not kinds.isdisjoint(_BEYOND))


def finish(line: Pipeline, result: ToolResult) -> ToolResult:
    finished = blank(CallFinished)
    _set_result(finished, result)
    try:
        line.recorder.record(finished)
    except Exception as error:  # noqa: BLE001  The call has happened: its result is told, and that it is unrecorded.
        extra = {**result.notes.extra, "unrecorded": as_tool_error(error).message}
        return replace(result, notes=replace(result.notes, extra=extra))
    return result
