"""The strict transcript validator: what every provider demands of a conversation, checked at once.

`assert_valid_transcript(wire_messages, dialect="openai-chat")` raises AssertionError with every
fault found. It knows the wire forms of openai-chat, openai-responses, anthropic and gemini, and is
written from their API references, not from our encoders.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Transcript:
    """The walk over one transcript: open calls, seen ids, faults."""

    open: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def fault(self, where: int, text: str) -> None:
        self.faults.append(f"message {where}: {text}")

    def call(self, where: int, id: Any, name: Any, arguments: Any, *, text: bool) -> None:
        """A call with a new id, a sendable name, and an object as arguments."""
        if not isinstance(id, str) or not id:
            self.fault(where, f"call {name!r} has no id")
            return
        if id in self.seen:
            self.fault(where, f"call id {id!r} is used twice")
        self.seen.add(id)
        self.open[id] = str(name)
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.\-]{1,64}", name):
            self.fault(where, f"call name {name!r} is refused by providers")
        if text:
            if not isinstance(arguments, str):
                self.fault(where, f"arguments of {id!r} are {type(arguments).__name__}, not text")
                return
            try:
                arguments = json.loads(arguments, parse_constant=_no_constant)
            except ValueError as error:
                self.fault(where, f"arguments of {id!r} are no JSON: {error}")
                return
        if not isinstance(arguments, dict):
            self.fault(where, f"arguments of {id!r} are no object")

    def result(self, where: int, id: Any) -> None:
        """A result of an open call."""
        if id in self.open:
            del self.open[id]
        elif id in self.seen:
            self.fault(where, f"second result for {id!r}")
        else:
            self.fault(where, f"result for {id!r} without a call")

    def settled(self, where: int, what: str) -> None:
        """Nothing but results may stand between calls and their results."""
        if self.open:
            self.fault(where, f"{what} while calls {sorted(self.open)} have no result")
            self.open.clear()


def assert_valid_transcript(messages: Iterable[dict[str, Any]], dialect: str = "openai-chat") -> None:
    """Raise AssertionError that lists every fault of the transcript.

    Every call has exactly one result, directly behind the turn that made it; ids are unique;
    arguments are JSON objects; no result stands first; nothing is empty that may not be; the
    whole is UTF-8 encodable, strict JSON.
    """
    listed = list(messages)
    state = Transcript()
    for where, message in enumerate(listed):
        try:
            json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8")
        except (ValueError, TypeError) as error:
            state.fault(where, f"cannot be sent: {type(error).__name__}: {error}")
        CHECKS[dialect.replace("_", "-")](state, where, message)
    state.settled(len(listed), "the end")
    assert not state.faults, "\n".join(state.faults)


def _openai_chat(state: Transcript, where: int, message: dict[str, Any]) -> None:
    role = message.get("role")
    if role == "tool":
        state.result(where, message.get("tool_call_id"))
        if not isinstance(message.get("content"), str) or not message["content"]:
            state.fault(where, "a tool message needs text")
        return
    state.settled(where, f"a {role} message")
    if role not in ("system", "developer", "user", "assistant"):
        state.fault(where, f"role {role!r} is unknown")
    calls = message.get("tool_calls")
    if calls is not None and (role != "assistant" or not calls):
        state.fault(where, "tool_calls stand only in assistant messages, never empty")
    content = message.get("content")
    if content is None and not calls:
        state.fault(where, "neither content nor calls")
    if content == [] or (isinstance(content, list) and not all(p.get("type") for p in content)):
        state.fault(where, "content parts must be there and have a type")
    for call in calls or []:
        if call.get("type") != "function":
            state.fault(where, "a call's type is function")
        function = call.get("function") or {}
        state.call(where, call.get("id"), function.get("name"), function.get("arguments"), text=True)


def _openai_responses(state: Transcript, where: int, item: dict[str, Any]) -> None:
    kind = item.get("type", "message")
    if kind == "function_call":
        state.call(where, item.get("call_id"), item.get("name"), item.get("arguments"), text=True)
    elif kind == "function_call_output":
        state.result(where, item.get("call_id"))
        if not item.get("output"):
            state.fault(where, "an output may not be empty")
    elif kind == "message":
        if item.get("role") != "assistant":
            state.settled(where, f"a {item.get('role')} message")
        if not item.get("content"):
            state.fault(where, "a message may not be empty")


def _anthropic(state: Transcript, where: int, message: dict[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant"):
        state.fault(where, f"role {role!r} is unknown")
    if not content:
        state.fault(where, "a message may not be empty")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])
    kinds = [b.get("type") for b in blocks]
    if role == "assistant" and state.open:
        state.settled(where, "an assistant message")
    late = next((n for n, k in enumerate(kinds) if k != "tool_result"), len(kinds))
    if "tool_result" in kinds[late:]:
        state.fault(where, "tool_result blocks stand before everything else")
    for block, kind in zip(blocks, kinds, strict=True):
        if kind == "tool_use":
            state.call(where, block.get("id"), block.get("name"), block.get("input"), text=False)
        elif kind == "tool_result":
            state.result(where, block.get("tool_use_id"))
        elif kind == "text" and not str(block.get("text", "")).strip():
            state.fault(where, "a text block may not be blank")
    if role == "user":
        state.settled(where, "the end of a user message")


def _gemini(state: Transcript, where: int, content: dict[str, Any]) -> None:
    role, parts = content.get("role"), content.get("parts") or []
    if role not in ("user", "model"):
        state.fault(where, f"role {role!r} is unknown")
    if not parts:
        state.fault(where, "a content may not be empty")
    if role == "model":
        state.settled(where, "a model turn")
    for part in parts:
        if call := part.get("functionCall"):
            state.call(where, call.get("id"), call.get("name"), call.get("args", {}), text=False)
        elif answer := part.get("functionResponse"):
            id = answer.get("id")
            if state.open.get(str(id)) not in (None, answer.get("name")):
                state.fault(where, f"the response to {id!r} names another function")
            state.result(where, id)
            if not isinstance(answer.get("response"), dict):
                state.fault(where, "a response is an object")
    if role == "user":
        state.settled(where, "the end of a user turn")


CHECKS: dict[str, Callable[[Transcript, int, dict[str, Any]], None]] = {
    "openai-chat": _openai_chat,
    "openai-chat-strict": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")
