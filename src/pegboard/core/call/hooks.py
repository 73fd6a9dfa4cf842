"""Hooks of a call: what the user's own programs say before it runs, where it asks, and after it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pegboard.core.call.call import Call, HookAnswer
from pegboard.core.content import Text
from pegboard.core.errors import PermissionDenied
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused
from pegboard.core.result import ToolResult

MAX_TEXT: Final = 10_000
"""Characters of what the hooks of one call say to the model."""

_HINT: Final = "Do what the reason asks for, or say what you need and why."


_SILENT: Final = HookAnswer()


async def _answer(event: str, call: Call, fields: Mapping[str, Any]) -> HookAnswer:
    hooks = call.parts.hooks
    if hooks is None or not hooks.watches(event, call):
        return _SILENT
    try:
        answer = await hooks.on_call(event, call, fields)
    except Exception as error:  # noqa: BLE001  Hooks guard: what breaks must not let calls pass.
        broken = f"the hooks of {event} failed with {type(error).__name__}"
        answer = HookAnswer(decision="deny", by="hooks", reason=broken, failures=(broken,))
    call.hook_texts += answer.context
    call.hook_failures += answer.failures
    return answer


async def before_call(call: Call) -> None:
    """PreToolUse: a hook may refuse a call or have it ask. A yes of one counts only where the call asks.

    Raises:
        PermissionDenied: a hook refuses it.
    """
    answer = await _answer("PreToolUse", call, {})
    decision = call.decision
    match answer.decision:
        case "deny":
            call.approver = answer.by
            call.decision = replace(decision, verdict="deny", rule=answer.by, reason=answer.reason)
            raise PermissionDenied(
                f"{call.tool.name} was refused by {answer.by}: {answer.reason}",
                hint=_HINT,
                details={"rule": answer.by, "decision": "deny", "by": answer.by},
            )
        case "ask":
            call.hook_asks = answer.by
            if decision.verdict == "allow":
                reason = answer.reason or f"{answer.by} asks"
                call.decision = replace(decision, verdict="ask", rule=answer.by, reason=reason)
        case "allow":
            call.hook_yes = answer.by
        case _:
            pass


async def hook_answer(call: Call, request: ApprovalRequest) -> Approved | Refused | None:
    """PermissionRequest: what a hook answers in a person's place; None if a person has to.

    What only a person may answer, no hook does; it may refuse that too.
    """
    answer = await _answer("PermissionRequest", call, {"reason": request.reason})
    if answer.decision == "deny":
        return Refused(answer.reason, by=answer.by)
    by = answer.by if answer.decision == "allow" else call.hook_yes
    if by and not (request.tainted or request.person or call.budget_warning):
        return Approved(by=by)
    message = f"{call.tool.name} needs your approval: {request.reason}"
    await _answer("Notification", call, {"message": message, "notification_type": "permission_prompt"})
    return None


async def after_call(call: Call, result: ToolResult) -> ToolResult:
    """PostToolUse and PostToolUseFailure: the result with what the hooks of the call say to the model behind it."""
    if call.ran and (result.error is None or result.error.code != "suspended"):
        event = "PostToolUse" if result.ok else "PostToolUseFailure"
        answer = await _answer(event, call, {"result": result})
        if answer.decision == "deny":
            call.hook_texts += (f"{answer.by}: {answer.reason}",)
    if call.hook_texts:
        said = call.parts.shaper.shape(
            "\n\n".join(call.hook_texts), call_id=call.id, tool=call.tool.name, max_chars=MAX_TEXT
        )
        result = replace(result, content=(*result.content, Text(f"\n[from a hook]\n{said.text}")))
    if call.hook_failures:
        failures = call.parts.shaper.redacted(list(call.hook_failures))
        extra = {**result.notes.extra, "hooks": failures}
        result = replace(result, notes=replace(result.notes, extra=extra))
    return result
