"""What people are shown of a call before it runs: without secrets, as the record of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeAlias, cast

from pegboard.core.call.call import Preview
from pegboard.core.effects import Change, Effect
from pegboard.core.events import CallStarted, Event, PermissionRequested
from pegboard.core.policy.approval import Answer, ApprovalRequest, Approver, AskAll, decide_all_of

Redact: TypeAlias = Callable[[str], tuple[str, bool]]


class RedactingApprover:
    """Shows an approver each request without its secrets; the answer is to the request as it is.

    Args:
        approver: whoever answers.
        redact: takes secrets out of a text.
    """

    def __init__(self, approver: Approver, redact: Redact) -> None:
        self._approver = approver
        self._redact = redact

    async def decide(self, request: ApprovalRequest) -> Answer | str:
        """The approver's answer."""
        return await self._approver.decide(shown_request(request, self._redact))

    @property
    def decide_all(self) -> AskAll | None:
        """The approver's answers to a list; None if it takes none."""
        ask = decide_all_of(self._approver)
        if ask is None:
            return None
        return lambda requests: ask([shown_request(r, self._redact) for r in requests])


def shown_request(request: ApprovalRequest, redact: Redact) -> ApprovalRequest:
    """The request as people see it; id and digest stay."""
    return replace(
        request,
        call=replace(request.call, arguments=_shown(request.call.arguments, redact)),
        effects=_effects(request.effects, redact),
        asking=_effects(request.asking, redact),
        changes=shown_changes(request.changes, redact),
        reason=redact(request.reason)[0],
        novel=tuple(redact(text)[0] for text in request.novel),
    )


def shown_preview(preview: Preview, redact: Redact) -> Preview:
    """The preview as people see it."""
    return replace(
        preview,
        effects=_effects(preview.effects, redact),
        changes=shown_changes(preview.changes, redact),
        reason=redact(preview.reason)[0],
    )


def shown_event(event: Event, redact: Redact) -> Event:
    """An event with what a call does, as people see it; any other as it is."""
    match event:
        case CallStarted() | PermissionRequested():
            effects, changes = _effects(event.effects, redact), shown_changes(event.changes, redact)
            return replace(event, effects=effects, changes=changes)
        case _:
            return event


def _effects(effects: Iterable[Effect], redact: Redact) -> tuple[Effect, ...]:
    return tuple(
        replace(
            effect,
            target=redact(effect.target)[0],
            argv=None if effect.argv is None else tuple(redact(word)[0] for word in effect.argv),
            reason=redact(effect.reason)[0],
            decisive=tuple(redact(word)[0] for word in effect.decisive),
        )
        for effect in effects
    )


def shown_changes(changes: Iterable[Change], redact: Redact) -> tuple[Change, ...]:
    """Changes with their diffs as people see them."""
    return tuple(replace(change, diff=redact(change.diff)[0]) for change in changes)


def _shown(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)[0]
    if isinstance(value, dict):
        return {_shown(k, redact): _shown(v, redact) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [_shown(one, redact) for one in cast("list[Any]", value)]
    return value
