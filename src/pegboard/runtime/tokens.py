"""Token estimates: how much of a model's window something takes, without any tokenizer or download."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pegboard.core.content import Block, File, Text, ToolCall
from pegboard.core.result import ToolResult
from pegboard.core.toolkit import Toolkit
from pegboard.core.transcript import AssistantMessage, Message, Opaque, Thinking, UserMessage

BYTES_PER_TOKEN: Final = 3.5
"""UTF-8 bytes of one token. English prose has about 4.2, source code 3.2, Chinese and Japanese 3 to 4: a
little too high an estimate is harmless, too low a one loses the request."""

MEDIA_TOKENS: Final = 1600
"""Of one image, sound or attached file; providers scale pictures down to about this."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=str)
MESSAGE_TOKENS: Final = 4
"""Of what stands around each message, call and result on the wire."""


def text_tokens(text: str) -> int:
    """The estimate for a text; 0 for an empty one, else at least 1."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return int(size / BYTES_PER_TOKEN) + 1 if size else 0


def message_tokens(message: Message) -> int:
    """The estimate for one message with its calls or results."""
    match message:
        case UserMessage(content):
            return MESSAGE_TOKENS + _blocks(content)
        case AssistantMessage():
            return MESSAGE_TOKENS + sum(map(_part, message.content))
        case _:
            return sum(map(result_tokens, message.results))


def result_tokens(result: ToolResult) -> int:
    """The estimate for what a model reads of one result."""
    return MESSAGE_TOKENS + _blocks(result.content)


def toolkit_tokens(toolkit: Toolkit) -> dict[str, int]:
    """The estimate for each tool's name, description and schema."""
    return {
        tool.name: MESSAGE_TOKENS
        + text_tokens(json.dumps([tool.name, tool.description, tool.schema], ensure_ascii=False, default=str))
        for tool in toolkit
    }


def _blocks(blocks: Iterable[Block]) -> int:
    total = 0
    for block in blocks:
        if isinstance(block, Text):
            total += text_tokens(block.text)
        elif not (isinstance(block, File) and block.data is None):
            total += MEDIA_TOKENS
    return total


def _part(part: Text | Thinking | Opaque | ToolCall) -> int:
    match part:
        case Text(text):
            return text_tokens(text)
        case Thinking(text, signature):
            return text_tokens(text) + text_tokens(signature)
        case Opaque(value=value):
            return text_tokens(json.dumps(value, default=str))
        case ToolCall(name=name, arguments=arguments):
            return MESSAGE_TOKENS + text_tokens(name) + text_tokens(_arguments(arguments))


def _arguments(arguments: str | Mapping[str, Any] | None) -> str:
    if isinstance(arguments, str):
        return arguments
    return _ENCODER.encode(dict(arguments or {}))
