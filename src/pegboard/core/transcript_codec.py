"""Messages and results as JSON-able values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

from pegboard.core.call import ToolCall
from pegboard.core.content import Text, block_from_dict
from pegboard.core.errors import ToolError
from pegboard.core.result import Notes, ToolResult
from pegboard.core.shaping import to_jsonable
from pegboard.core.transcript import (
    AssistantMessage,
    Message,
    Opaque,
    ResultsMessage,
    Thinking,
    Usage,
    UserMessage,
)
from pegboard.core.values import blank, setter

_set_id, _set_name, _set_arguments, _set_raw = (
    setter(ToolCall, field) for field in ("id", "name", "arguments", "raw")
)
_USAGE: Final = len(Usage().to_dict())


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
    # Field by field, here and below: a long history is made of these, at half the price of calling their classes.
    message = blank(AssistantMessage)
    message.content = tuple([_part_from_dict(p) for p in value["content"]])
    message.stop, message.usage, message.model = value["stop"], _usage(value["usage"]), value["model"]
    return message


def _usage(value: Mapping[str, Any]) -> Usage:
    if len(value) != _USAGE:
        return Usage(**value)
    usage = blank(Usage)
    usage.input_tokens, usage.output_tokens = value["input_tokens"], value["output_tokens"]
    usage.cache_read_tokens, usage.cache_write_tokens = (
        value["cache_read_tokens"],
        value["cache_write_tokens"],
    )
    usage.requests, usage.cost_usd = value["requests"], value["cost_usd"]
    return usage


def _part_to_dict(part: Text | Thinking | Opaque | ToolCall) -> dict[str, Any]:
    match part:
        case Text():
            return part.to_dict()
        case Thinking(text, signature):
            return {"type": "thinking", "text": text, "signature": signature}
        case Opaque(dialect, value):
            return {"type": "opaque", "dialect": dialect, "value": to_jsonable(value)}
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
            call = blank(ToolCall)
            _set_id(call, value["id"])
            _set_name(call, value["name"])
            _set_arguments(call, value["arguments"])
            _set_raw(call, value["raw"])
            return call
        case "thinking":
            return Thinking(value["text"], value["signature"])
        case "opaque":
            return Opaque(value["dialect"], value["value"])
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
    notes = blank(Notes)
    notes.duration_s, notes.truncated, notes.spill = found["duration_s"], found["truncated"], found["spill"]
    notes.labels, notes.repairs = tuple(found["labels"]), tuple(found["repairs"])
    notes.extra = {} if len(found) == 5 else {k: v for k, v in found.items() if k not in _NOTES}
    made = blank(ToolResult)
    made.content = tuple(
        [Text(b["text"]) if b.get("type") == "text" else block_from_dict(b) for b in value["content"]]
    )
    made.data, made.error = value["data"], None if error is None else error_from_dict(error)
    made.notes, made.artifacts = notes, ()
    made.call_id, made.tool = value["call_id"], value["tool"]
    return made


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
