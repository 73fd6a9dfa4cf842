"""Shape and record: a call's one result, and what is written before and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, cast

from pegboard.core.call.call import Call, Parts
from pegboard.core.call.plan import situation_of
from pegboard.core.content import KEEPER, ArtifactSaver, NewArtifact, Text, ToolCall
from pegboard.core.context import attach, detach
from pegboard.core.errors import (
    BudgetExceeded,
    BuildError,
    CallCancelled,
    InternalError,
    PermissionDenied,
    SuspendedCall,
    TimedOut,
    ToolError,
)
from pegboard.core.events import CallFinished, CallStarted
from pegboard.core.policy.approval import Waiting
from pegboard.core.policy.budgets import Spent
from pegboard.core.policy.policy import ALLOWED, Decision
from pegboard.core.policy.taint import PRIVATE, UNTRUSTED
from pegboard.core.result import REACHED, SOURCE, ToolResult, to_result
from pegboard.core.secrets.clip import clip


async def shape(call: Call, value: Any) -> ToolResult:
    """The result of what the function returned: artifacts saved, rendered, redacted and cut."""
    if isinstance(value, NewArtifact) or (isinstance(value, ToolResult) and value.artifacts):
        value = await _save_artifacts(call, value)
    if call.tool.render is not None:
        value = call.tool.render(to_result(value), call.decoded.arguments)
    return call.parts.shaper.shape(
        value,
        call_id=call.id,
        tool=call.tool.name,
        max_chars=_max_chars(call),
        labels=_labels(call, value),
        repairs=call.decoded.repairs,
        duration_s=call.elapsed_s(),
    )


def shape_error(
    parts: Parts, sent: ToolCall, call: Call | None, error: BaseException, *, duration_s: float
) -> ToolResult:
    """The result of a call that raised; `call` is None if it could not even be decoded."""
    if isinstance(error, asyncio.CancelledError):
        if was_cancelled():
            failure: ToolError = CallCancelled("the call was cancelled before it finished")
        else:
            # Nobody cancelled the task: the tool raised it by itself, which is that tool's failure.
            failure = InternalError("the tool ended itself with CancelledError")
    else:
        log_failure(str(sent.name), error, parts.shaper.redacted)
        failure = as_tool_error(error)
    data = {"pending": failure.details.get("pending")} if isinstance(failure, SuspendedCall) else None
    result = ToolResult.failed(failure)
    if call is not None and call.tool.render is not None:
        result = call.tool.render(result, call.decoded.arguments)
    result = parts.shaper.shape(
        result,
        call_id=(sent.id or "") if call is None else call.id,
        tool=sent.name if call is None else call.tool.name,
        repairs=() if call is None else call.decoded.repairs,
        duration_s=duration_s,
    )
    return replace(result, data=data)


def _labels(call: Call, value: Any) -> frozenset[str]:
    """The labels under which the call ran; its spill carries them."""
    taints, outer = call.parts.guards.taints, call.outer
    if taints is None or not (taints.held or call.plan.effects):
        return outer.labels
    labels = taints.labels(outer.session, outer.labels)
    if not call.plan.effects or not call.ran or call.proposes:
        return labels
    call.labels = taints.labels_of_result(
        call.plan, call.situation or situation_of(call.tool, outer), reached=_reached(value)
    )
    return labels.union(call.labels) if call.labels else labels


def _max_chars(call: Call) -> int | None:
    """Characters that the result may have, if a budget limits its bytes too; None = the shaper's limit."""
    limit, bytes_left = call.tool.limits.max_chars, call.remaining.bytes_out
    if bytes_left is None:
        return limit
    return max(min(call.parts.shaper.max_chars if limit is None else limit, bytes_left), 1)


# -- artifacts --------------------------------------------------------------------------------


async def _save_artifacts(call: Call, value: NewArtifact | ToolResult) -> ToolResult:
    """The result without its declared artifacts, which are saved, and with a line for each.

    The tool has done its work by then, so an artifact that cannot be saved is reported in the result and fails
    nothing.
    """
    result = ToolResult(artifacts=(value,)) if isinstance(value, NewArtifact) else value
    lines: list[Text] = []
    saved: list[dict[str, Any]] = []
    before = attach(call.inner_context())
    try:
        for artifact in result.artifacts:
            line, facts = await _save_artifact(call, artifact)
            lines.append(Text(line))
            saved += facts
    finally:
        detach(before)
    notes = replace(result.notes, extra={**result.notes.extra, "artifacts": saved})
    return replace(result, content=(*result.content, *lines), notes=notes, artifacts=())


async def _save_artifact(call: Call, artifact: NewArtifact) -> tuple[str, list[dict[str, Any]]]:
    """What the result says of one artifact, and the facts for programs, none if it was not saved."""
    saver = cast("ArtifactSaver | None", call.parts.provide.get(KEEPER))
    name = f"artifact '{artifact.id}'" if artifact.id else "an artifact"
    if saver is None:
        return f"[not kept as {name}: nothing keeps artifacts here]", []
    redactor = call.parts.shaper.redactor
    if redactor is not None and isinstance(artifact.content, str):
        artifact = replace(artifact, content=redactor.redact(artifact.content)[0])
    try:
        ref = await saver.save(artifact, name=call.tool.name)
    except Exception as error:  # noqa: BLE001  The saver may be foreign code, and the call has happened.
        return f"[not kept as {name}: {as_tool_error(error).message}]", []
    facts = {"id": ref.id, "version": ref.version, "content_type": ref.content_type}
    return f"[kept as artifact '{ref.id}' (version {ref.version}); read_artifact shows it]", [facts]


# -- errors -----------------------------------------------------------------------------------


def was_cancelled() -> bool:
    """Whether somebody cancelled the running task (or there is none, and only the caller could)."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def log_failure(tool: str, error: BaseException, redacted: Callable[[str], str]) -> None:
    """Give the traceback of what a tool raised to `logging`, where its developer finds it; no model sees it.

    The logger is `pegboard.tools`. Without a handler of the program's own, nothing is shown.
    """
    if isinstance(error, ToolError | TimeoutError | PermissionError):
        return  # Raised on purpose, or reported as what it is.
    import logging
    import traceback

    package = logging.getLogger("pegboard")
    if not package.handlers:
        # Else Python's handler of last resort would print it in every program that sets up no logging.
        package.addHandler(logging.NullHandler())
    text = redacted("".join(traceback.format_exception(error)))
    package.getChild("tools").error("tool %s failed\n%s", tool, text.rstrip())


def suspended_error(waiting: Waiting) -> SuspendedCall:
    """The error of a call that waits for an answer."""
    return SuspendedCall(
        f"the call waits for {waiting.kind} {waiting.key}",
        hint=str(waiting.detail.get("how") or "It continues once it is answered."),
        details={
            "pending": waiting.key,
            "kind": waiting.kind,
            "deadline": waiting.deadline,
            **waiting.detail,
        },
    )


def as_tool_error(error: BaseException) -> ToolError:
    """What a model may read of an exception: its type and message, no traceback, no system detail."""
    match error:
        case ToolError():
            return error
        case TimeoutError():
            return TimedOut(str(error) or "the operation timed out")
        case PermissionError():
            # The operating system's own text names real paths.
            return PermissionDenied("the operating system does not permit this")
        case SystemExit():
            return InternalError(f"the tool tried to end the whole program with sys.exit({error.code!r})")
        case BuildError():
            return InternalError(str(error))
        case _:
            text = str(error).strip()
            name = type(error).__name__
            return InternalError(
                f"{name}: {clip(text, 0, 500)}" if text else f"{name} (it carries no message)",
                details={"type": name},
            )


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
            parent=call.outer.call_id,
        )
    )


def denial(decision: Decision, error: ToolError) -> Decision:
    """The decision on a call that was refused: by a budget, before the policy was asked, or by the decision itself."""
    if isinstance(error, BudgetExceeded):
        return Decision("deny", "budget", error.message)
    if decision is ALLOWED:
        return Decision("deny", str(error.details.get("rule") or error.code), error.message)
    return replace(decision, verdict="deny")


async def record(call: Call, result: ToolResult) -> ToolResult:
    """Labels, budgets and CallFinished of a call that has its result."""
    if isinstance(result.error, PermissionDenied | BudgetExceeded) and not call.recorded:
        call.decision = denial(call.decision, result.error)
        with suppress(Exception):
            # A recorder that breaks must not turn a refusal into an exception; `record_finish` reports it.
            _record_start(call)
    elif (
        call.ran
        and (call.plan.effects or result.notes.labels)
        and not call.proposes
        and not _did_nothing(call, result.error)
    ):
        result = _propagate_taint(call, result)
    if call.booked:
        await charge(call, result)
    if call.parts.guards.stored:
        await call.parts.guards.save()
    return record_finish(call.parts, result)


_TOUCHES_NOTHING: Final = {
    "read": frozenset({"not_found", "outside_workspace", "invalid_arguments", "unavailable"}),
    "connect": frozenset({"unavailable"}),
}
"""By kind of effect: the failures after which nothing was read or reached. Those of commands and servers may hold
what others wrote."""


def _did_nothing(call: Call, error: ToolError | None) -> bool:
    """Whether a call that failed has read and reached nothing, so that it leaves no label."""
    if error is None:
        return False
    kinds = {e.kind for e in call.plan.effects}
    refused = isinstance(error, PermissionDenied)
    return bool(kinds) and all(
        k in _TOUCHES_NOTHING and (refused or error.code in _TOUCHES_NOTHING[k]) for k in kinds
    )


def _reached(value: Any) -> Iterable[str] | None:
    """The hosts that a confined command has reached, None where nobody watched."""
    return value.notes.extra.get(REACHED) if isinstance(value, ToolResult) else None


def record_finish(parts: Parts, result: ToolResult) -> ToolResult:
    """Write down a result; one that cannot be written says so in its notes."""
    try:
        parts.recorder.record(CallFinished(result))
    except Exception as error:  # noqa: BLE001  The call has happened: its result says that it is unrecorded.
        extra = {**result.notes.extra, "unrecorded": as_tool_error(error).message}
        return replace(result, notes=replace(result.notes, extra=extra))
    return result


async def charge(call: Call, result: ToolResult | None = None) -> None:
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
    await meter.charge(call.tool.name, call.outer, spent)


def _propagate_taint(call: Call, result: ToolResult) -> ToolResult:
    """Let taint follow a result into its session and its files, and note where it comes from."""
    taints, outer, plan = call.parts.guards.taints, call.outer, call.plan
    if taints is None:
        return result
    situation = call.situation or situation_of(call.tool, outer)
    own = call.labels
    if own is None:
        own = taints.labels_of_result(plan, situation, reached=_reached(result))
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
            named = result.notes.extra.get(SOURCE) if label == UNTRUSTED else None
            own[label] = call.tool.name if named is None else str(named)
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
