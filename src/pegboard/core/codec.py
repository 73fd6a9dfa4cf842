"""Codec: events as JSON-able values, and back; only file contents stay out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never, cast

from pegboard.core.content import Text, ToolCall, block_from_dict
from pegboard.core.effects import Change, Effect
from pegboard.core.errors import ToolError
from pegboard.core.events import (
    CallFinished,
    CallStarted,
    CallUpdate,
    ContextCompacted,
    ConversationRewound,
    DestinationTried,
    Event,
    HistoryFolded,
    ModelReplied,
    Notice,
    PayloadsPurged,
    PermissionJudged,
    PermissionRequested,
    RunFinished,
    RunResumed,
    RunStarted,
    TextPiece,
    ThinkingPiece,
    UserSaid,
    UserTold,
)
from pegboard.core.result import Notes, ToolResult, to_jsonable
from pegboard.core.transcript import (
    AssistantMessage,
    Message,
    Opaque,
    ResultsMessage,
    Thinking,
    Usage,
    UserMessage,
)


def message_to_dict(message: Message) -> dict[str, Any]:
    """A message as JSON-able dict with its `role`: user, assistant or results."""
    match message:
        case UserMessage(content):
            return {"role": "user", "content": [b.to_dict() for b in content]}
        case AssistantMessage():
            return {
                "role": "assistant",
                "content": [_part_to_dict(p) for p in message.content],
                "stop": message.stop,
                "usage": message.usage.to_dict(),
                "model": message.model,
            }
        case ResultsMessage(results):
            return {"role": "results", "results": [result_to_dict(r) for r in results]}
        case _:
            assert_never(message)


def message_from_dict(value: Mapping[str, Any]) -> Message:
    """The message that `message_to_dict` wrote.

    Raises:
        ValueError: an unknown role.
    """
    match value["role"]:
        case "assistant":
            return assistant_from_dict(value)
        case "user":
            return UserMessage(tuple([block_from_dict(b) for b in value["content"]]))
        case "results":
            return ResultsMessage(tuple([result_from_dict(r) for r in value["results"]]))
        case other:
            raise ValueError(f"unknown message role {other!r}")


def assistant_from_dict(value: Mapping[str, Any]) -> AssistantMessage:
    """The assistant's message of `message_to_dict`."""
    return AssistantMessage(
        content=tuple([_part_from_dict(p) for p in value["content"]]),
        stop=value["stop"],
        usage=Usage(**value["usage"]),
        model=value["model"],
    )


def _part_to_dict(part: Text | Thinking | Opaque | ToolCall) -> dict[str, Any]:
    match part:
        case Text():
            return part.to_dict()
        case Thinking(text, signature):
            return {"type": "thinking", "text": text, "signature": signature}
        case Opaque(dialect, value, origin):
            sender = {"origin": origin} if origin else {}
            return {"type": "opaque", "dialect": dialect, "value": to_jsonable(value), **sender}
        case ToolCall(call_id, name, arguments, raw):
            return {
                "type": "call",
                "id": call_id,
                "name": name,
                "arguments": arguments
                if arguments is None or isinstance(arguments, str)
                else to_jsonable(dict(arguments)),
                "raw": raw,
            }
        case _:
            assert_never(part)


def _part_from_dict(value: Mapping[str, Any]) -> Text | Thinking | Opaque | ToolCall:
    match value["type"]:
        case "call":
            return ToolCall(value["id"], value["name"], value["arguments"], value["raw"])
        case "thinking":
            return Thinking(value["text"], value["signature"])
        case "opaque":
            return Opaque(value["dialect"], value["value"], value.get("origin", ""))
        case _:
            return Text(value["text"])


def result_to_dict(result: ToolResult) -> dict[str, Any]:
    """A result whole: content blocks, data, error, notes, call id and tool."""
    return {
        "call_id": result.call_id,
        "tool": result.tool,
        "content": [b.to_dict() for b in result.content],
        "data": to_jsonable(result.data),
        "error": None if result.error is None else to_jsonable(result.error.to_dict()),
        "notes": to_jsonable(result.notes.to_dict()),
    }


def result_from_dict(value: Mapping[str, Any]) -> ToolResult:
    """The result that `result_to_dict` wrote; its error is a plain ToolError of the same code."""
    error, found = value["error"], value["notes"]
    return ToolResult(
        content=tuple([block_from_dict(b) for b in value["content"]]),
        data=value["data"],
        error=None if error is None else error_from_dict(error),
        notes=Notes(
            duration_s=found["duration_s"],
            truncated=found["truncated"],
            spill=found["spill"],
            labels=tuple(found["labels"]),
            repairs=tuple(found["repairs"]),
            extra={k: v for k, v in found.items() if k not in _NOTES},
        ),
        call_id=value["call_id"],
        tool=value["tool"],
    )


_NOTES: Final = frozenset({"duration_s", "truncated", "spill", "labels", "repairs"})


def error_from_dict(value: Mapping[str, Any]) -> ToolError:
    """The ToolError that `to_dict` wrote."""
    return ToolError(
        value["message"],
        hint=value["hint"],
        code=value["code"],
        retryable=value["retryable"],
        details=value.get("details"),
    )


def event_to_dict(event: Event) -> dict[str, Any]:
    """The event as JSON-able dict with its `type`; `event_from_dict` gives it back."""
    out: dict[str, Any] = {"type": event.type}
    match event:
        case RunStarted():
            out |= {
                "run": event.run,
                "session": event.session,
                "agent": event.agent,
                "model": event.model,
                "task": event.task,
                "detail": to_jsonable(event.detail),
            }
        case RunResumed():
            out |= {"run": event.run, "model": event.model, "detail": to_jsonable(event.detail)}
        case UserSaid(message):
            out["message"] = message_to_dict(message)
            _put_origin(out, event)
        case UserTold(message):
            out["message"] = message_to_dict(message)
            _put_origin(out, event)
            if event.source:
                out["source"] = event.source
        case ModelReplied(message):
            out["message"] = message_to_dict(message)
        case TextPiece(text) | ThinkingPiece(text):
            out["text"] = text
        case CallStarted():
            out |= {
                "call_id": event.call_id,
                "tool": event.tool,
                "arguments": to_jsonable(dict(event.arguments)),
                "effects": [_effect_to_dict(e) for e in event.effects],
                "changes": [_change_to_dict(c) for c in event.changes],
                "decision": event.decision,
                "rule": event.rule,
                "reason": event.reason,
                "approver": event.approver,
                "digest": event.digest,
                **({"observed": list(event.observed)} if event.observed else {}),
                **({"parent": event.parent} if event.parent else {}),
            }
        case PermissionRequested():
            out |= {
                "approval": event.approval,
                "call_id": event.call_id,
                "tool": event.tool,
                "effects": [_effect_to_dict(e) for e in event.effects],
                "changes": [_change_to_dict(c) for c in event.changes],
                "reason": event.reason,
                "digest": event.digest,
                **({"novel": list(event.novel)} if event.novel else {}),
                **({"verdicts": [dict(v) for v in event.verdicts]} if event.verdicts else {}),
            }
        case PermissionJudged():
            out |= {
                "approval": event.approval,
                "call_id": event.call_id,
                "tool": event.tool,
                "answer": event.answer,
                "reason": event.reason,
                "model": event.model,
                "usage": event.usage.to_dict(),
            }
        case CallUpdate():
            out |= {"call_id": event.call_id, "tool": event.tool, "update": to_jsonable(event.update)}
        case DestinationTried():
            out |= {
                "call_id": event.call_id,
                "tool": event.tool,
                "host": event.host,
                "port": event.port,
                "allowed": event.allowed,
                "reason": event.reason,
                **({"secrets": list(event.secrets)} if event.secrets else {}),
            }
        case CallFinished(result):
            out["result"] = result_to_dict(result)
        case Notice():
            out |= {"text": event.text, "detail": to_jsonable(event.detail)}
        case PayloadsPurged(through):
            out["through"] = through
        case ContextCompacted():
            out |= {
                "budget_tokens": event.budget_tokens,
                "before_tokens": event.before_tokens,
                "after_tokens": event.after_tokens,
                "dropped": list(event.dropped),
            }
        case ConversationRewound(run):
            out["run"] = run
        case HistoryFolded():
            out |= {
                "through": event.through,
                "messages": [message_to_dict(one) for one in event.messages],
                "said": [event_to_dict(one) for one in event.said],
                "labels": list(event.labels),
                "call_ids": list(event.call_ids),
                "sizes": list(event.sizes),
                "settled": event.settled,
            }
        case RunFinished():
            out |= {
                "run": event.run,
                "status": event.status,
                "answer": event.answer,
                "pending": [to_jsonable(p) for p in event.pending],
                "usage": event.usage.to_dict(),
            }
            if event.error:
                out["error"] = event.error
            if event.output is not None:
                out["output"] = to_jsonable(event.output)
        case _:
            assert_never(event)
    return out


def _put_origin(out: dict[str, Any], event: UserSaid | UserTold) -> None:
    if event.by != "user":
        out["by"] = event.by
    if event.labels:
        out["labels"] = list(event.labels)


def event_from_dict(value: Mapping[str, Any]) -> Event:
    """The event that `event_to_dict` wrote.

    Raises:
        ValueError: an unknown type.
    """
    read = _READERS.get(value["type"])
    if read is None:
        raise ValueError(f"unknown event type {value['type']!r}")
    return read(value)


def _run_started(value: Mapping[str, Any]) -> Event:
    return RunStarted(
        run=value["run"],
        session=value["session"],
        agent=value["agent"],
        model=value["model"],
        task=value["task"],
        detail=value.get("detail", {}),
    )


def _call_started(value: Mapping[str, Any]) -> Event:
    effects, changes = value["effects"], value["changes"]
    return CallStarted(
        call_id=value["call_id"],
        tool=value["tool"],
        arguments=value["arguments"],
        effects=tuple([_effect_from_dict(e) for e in effects]) if effects else (),
        changes=tuple([_change_from_dict(c) for c in changes]) if changes else (),
        decision=value["decision"],
        rule=value["rule"],
        reason=value["reason"],
        approver=value["approver"],
        digest=value["digest"],
        observed=tuple(value.get("observed", ())),
        parent=value.get("parent", ""),
    )


def _model_replied(value: Mapping[str, Any]) -> Event:
    return ModelReplied(assistant_from_dict(value["message"]))


def _call_finished(value: Mapping[str, Any]) -> Event:
    return CallFinished(result_from_dict(value["result"]))


def _permission_requested(value: Mapping[str, Any]) -> Event:
    return PermissionRequested(
        approval=value["approval"],
        call_id=value["call_id"],
        tool=value["tool"],
        effects=tuple(map(_effect_from_dict, value["effects"])),
        changes=tuple(map(_change_from_dict, value["changes"])),
        reason=value["reason"],
        digest=value.get("digest", ""),
        novel=tuple(value.get("novel", ())),
        verdicts=tuple(value.get("verdicts", ())),
    )


def _permission_judged(value: Mapping[str, Any]) -> Event:
    return PermissionJudged(
        approval=value["approval"],
        call_id=value["call_id"],
        tool=value["tool"],
        answer=value["answer"],
        reason=value["reason"],
        model=value["model"],
        usage=Usage(**value["usage"]),
    )


def _destination_tried(value: Mapping[str, Any]) -> Event:
    return DestinationTried(
        call_id=value["call_id"],
        tool=value["tool"],
        host=value["host"],
        port=value["port"],
        allowed=value["allowed"],
        reason=value["reason"],
        secrets=tuple(value.get("secrets", ())),
    )


def _context_compacted(value: Mapping[str, Any]) -> Event:
    return ContextCompacted(
        budget_tokens=value["budget_tokens"],
        before_tokens=value["before_tokens"],
        after_tokens=value["after_tokens"],
        dropped=tuple(value["dropped"]),
    )


def _history_folded(value: Mapping[str, Any]) -> Event:
    return HistoryFolded(
        through=value["through"],
        messages=tuple(message_from_dict(one) for one in value["messages"]),
        said=tuple(cast(UserSaid, event_from_dict(one)) for one in value["said"]),
        labels=tuple(value["labels"]),
        call_ids=tuple(value["call_ids"]),
        sizes=tuple(value["sizes"]),
        settled=value["settled"],
    )


def _run_finished(value: Mapping[str, Any]) -> Event:
    return RunFinished(
        run=value["run"],
        status=value["status"],
        answer=value["answer"],
        pending=tuple(value["pending"]),
        usage=Usage(**value["usage"]),
        error=value.get("error", ""),
        output=value.get("output"),
    )


# A table and no chain of comparisons: a history of ten thousand events opens in the blink of an eye.
_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Event]]] = {
    "run.started": _run_started,
    "run.resumed": lambda v: RunResumed(run=v["run"], model=v["model"], detail=v["detail"]),
    "message.user": lambda v: UserSaid(
        cast(UserMessage, message_from_dict(v["message"])), v.get("by", "user"), tuple(v.get("labels", ()))
    ),
    "message.told": lambda v: UserTold(
        cast(UserMessage, message_from_dict(v["message"])),
        v.get("by", "user"),
        tuple(v.get("labels", ())),
        v.get("source", ""),
    ),
    "model.replied": _model_replied,
    "model.text": lambda v: TextPiece(v["text"]),
    "model.thinking": lambda v: ThinkingPiece(v["text"]),
    "call.started": _call_started,
    "permission.request": _permission_requested,
    "permission.judged": _permission_judged,
    "call.update": lambda v: CallUpdate(call_id=v["call_id"], tool=v["tool"], update=v["update"]),
    "call.destination": _destination_tried,
    "call.finished": _call_finished,
    "notice": lambda v: Notice(text=v["text"], detail=v["detail"]),
    "history.purged": lambda v: PayloadsPurged(int(v["through"])),
    "context.compacted": _context_compacted,
    "conversation.rewound": lambda v: ConversationRewound(v["run"]),
    "history.folded": _history_folded,
    "run.finished": _run_finished,
}


def _effect_to_dict(effect: Effect) -> dict[str, Any]:
    out = effect.to_dict()
    if effect.argv is not None:
        out["argv"] = list(effect.argv)
    if effect.read_only:
        out["read_only"] = True
    if effect.at_least is not None:
        out["at_least"] = effect.at_least
    if effect.reason:
        out["reason"] = effect.reason
    if effect.bound:
        out["bound"] = effect.bound
    if effect.decisive:
        out["decisive"] = list(effect.decisive)
    return out


def _effect_from_dict(value: Mapping[str, Any]) -> Effect:
    argv = value.get("argv")
    return Effect(
        value["kind"],
        value["target"],
        None if argv is None else tuple(argv),
        value.get("read_only", False),
        value.get("at_least"),
        value.get("reason", ""),
        value.get("bound", ""),
        decisive=tuple(value.get("decisive", ())),
    )


def _change_to_dict(change: Change) -> dict[str, Any]:
    # Without the files' contents: before-images lie in the journal and nowhere else.
    out = {"path": change.path, "kind": change.kind, "moved_to": change.moved_to, "diff": change.diff}
    return out if change.mode is None else {**out, "mode": change.mode}


def _change_from_dict(value: Mapping[str, Any]) -> Change:
    return Change(
        path=value["path"],
        kind=value["kind"],
        before=None,
        after=None,
        moved_to=value["moved_to"],
        mode=value.get("mode"),
        diff=value["diff"],
    )
