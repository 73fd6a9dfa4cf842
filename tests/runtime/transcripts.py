"""Transcripts for tests of the loop."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from pegboard.core.content import Image, Text, ToolCall
from pegboard.core.result import ToolResult
from pegboard.core.transcript import AssistantMessage, Message, ResultsMessage, UserMessage
from pegboard.dialects import dialect
from tests.transcript import assert_valid_transcript

DIALECTS = ("openai-chat", "openai-responses", "anthropic", "gemini")


def turn(number: int, calls: int, *, chars: int = 200, content: int = 50) -> list[Message]:
    """One turn: an assistant's calls and their results."""
    made = tuple(
        ToolCall(f"c{number}-{n}", "write_file", {"path": f"f{n}.txt", "content": "x" * content})
        for n in range(calls)
    )
    results = tuple(ToolResult(content=(Text("r" * chars),), call_id=c.id or "", tool=c.name) for c in made)
    return [AssistantMessage(content=(Text(f"turn {number}"), *made), stop="tools"), ResultsMessage(results)]


def talk(turns: int, *, seed: int = 1, chars: int = 200, content: int = 50) -> list[Message]:
    """A task and some turns with one to three parallel calls, a user's word between here and there."""
    chance = random.Random(seed)
    out: list[Message] = [UserMessage.of("the task")]
    for number in range(turns):
        out += turn(number, chance.randint(1, 3), chars=chars, content=content)
        if chance.random() < 0.2:
            out.append(UserMessage.of(f"and another thing {number}"))
    return out


def picture(number: int, size: int) -> list[Message]:
    """A turn whose result is a screenshot."""
    call = ToolCall(f"p{number}", "screenshot", {})
    image = Image(data=bytes(size), mime_type="image/png")
    return [
        AssistantMessage(content=(call,), stop="tools"),
        ResultsMessage((ToolResult(content=(image,), call_id=f"p{number}", tool="screenshot"),)),
    ]


def valid(messages: Sequence[Message]) -> None:
    """Every provider would take it."""
    for name in DIALECTS:
        wire: list[dict[str, Any]] = [m for one in messages for m in dialect(name).encode(one)]
        assert_valid_transcript(wire, name)
