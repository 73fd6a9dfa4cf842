"""Shortening: old results, arguments and pictures in fewer words, still valid."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from pegboard.core.content import Block, Image, Text, ToolCall, describe
from pegboard.core.result import ToolResult
from pegboard.core.schema.numerals import Numeral, written
from pegboard.core.transcript import (
    AssistantMessage,
    Message,
    Opaque,
    ResultsMessage,
    UserMessage,
    replace_blocks,
)

Shortened: TypeAlias = tuple[Message, int]
"""A message, and how many of its parts were shortened."""

_UNREADABLE: Final = "_unreadable"
CUT_LINE: Final = len("\n[…  characters left out to save room …]\n") + 1
"""Characters that cutting a text adds at least."""
_LEFT_OUT: Final = re.compile(r"\n\[… (\d{1,12}) characters left out to save room[^\n]{0,200}? …\]\n")
"""The line that stands for what was left out."""


def shorten_text(text: str, most: int, *, where: str = "") -> str:
    """The head and tail of a text with a line between that says how much is missing.

    Args:
        text: any text; one of at most `most` characters comes back as it is.
        most: characters to keep.
        where: where the whole is, for the line between.
    """
    if len(text) <= most + CUT_LINE:
        # Short enough, or (cut before, mostly) no longer than what would come of it.
        return text
    head = most // 2
    tail = most - head
    gone = text[head : len(text) - tail]
    # Of what was left out before only the line is here: its characters count, the line's own do not.
    count = len(gone) + sum(int(m[1]) - len(m[0]) for m in _LEFT_OUT.finditer(gone))
    left = f"[… {count} characters left out to save room{f'; the whole is in {where}' if where else ''} …]"
    shorter = f"{text[:head]}\n{left}\n{text[len(text) - tail :] if tail else ''}"
    return shorter if len(shorter) < len(text) else text


def shorten_results(message: ResultsMessage, most: int) -> Shortened:
    """Each text of each result cut to `most` characters; which call it answers stays."""
    count = 0
    results: list[ToolResult] = []
    for result in message.results:
        blocks = _shorter_all(result.content, most, result.notes.spill or "")
        if blocks is not result.content:
            count += 1
            result = ToolResult(
                content=blocks, data=result.data, error=result.error, notes=result.notes,
                artifacts=result.artifacts, call_id=result.call_id, tool=result.tool,
            )  # fmt: skip
        results.append(result)
    return (ResultsMessage(tuple(results)), count) if count else (message, 0)


def shorten_calls(message: AssistantMessage, most: int) -> Shortened:
    """Long strings inside the calls' arguments cut to `most` characters; the arguments stay an object.

    A message with a provider's own items is left as it is: those are bound to what stands beside them.
    """
    if any(isinstance(p, Opaque) for p in message.content):
        return message, 0
    count = 0
    content: list[Any] = []
    for part in message.content:
        if isinstance(part, ToolCall):
            fresh = shorten_call(part, most)
            count += fresh is not part
            part = fresh
        content.append(part)
    if not count:
        return message, 0
    # A dialect in text sends calls as they were written if any has its text: then none may have it.
    content = [replace(p, raw="") if isinstance(p, ToolCall) and p.raw else p for p in content]
    return replace(message, content=tuple(content)), count


def shorten_call(call: ToolCall, most: int) -> ToolCall:
    """The call with long string leaves cut; the same object where there is none."""
    arguments = call.arguments
    if isinstance(arguments, str):
        if len(arguments) <= most:
            return call
        try:
            value: Any = json.loads(arguments, parse_float=Numeral)
        except ValueError:
            return ToolCall(call.id, call.name, _json({_UNREADABLE: shorten_text(arguments, most)}))
        fresh = _leaves(value, most)
        return call if fresh == value else ToolCall(call.id, call.name, _json(fresh))
    value = dict(arguments or {})
    fresh = _leaves(value, most)
    return call if fresh == value else ToolCall(call.id, call.name, fresh)


def shorten_user(message: UserMessage, most: int) -> Shortened:
    """Long texts of a user message cut to `most` characters."""
    blocks = _shorter_all(message.content, most, "")
    return (message, 0) if blocks is message.content else (UserMessage(blocks), 1)


def without_images(message: Message) -> Shortened:
    """Every picture replaced by a line that names it."""
    count = len(images_in(message))
    return (replace_blocks(message, _named) if count else message), count


def images_in(message: Message) -> list[int]:
    """The size in bytes of each picture."""
    match message:
        case UserMessage(content):
            return [len(b.data) for b in content if isinstance(b, Image)]
        case ResultsMessage(results):
            return [len(b.data) for r in results for b in r.content if isinstance(b, Image)]
        case _:
            return []


def _named(block: Block) -> Block:
    return Text(f"{describe(block)[:-1]}, left out to save room]") if isinstance(block, Image) else block


def _shorter_all(blocks: tuple[Block, ...], most: int, where: str) -> tuple[Block, ...]:
    """The blocks with long texts cut; the same tuple where there is none."""
    for block in blocks:
        if isinstance(block, Text) and len(block.text) > most + CUT_LINE:
            break
    else:
        return blocks
    out = tuple([_shorter(b, most, where) for b in blocks])
    return blocks if out == blocks else out


def _shorter(block: Block, most: int, where: str) -> Block:
    return Text(shorten_text(block.text, most, where=where)) if isinstance(block, Text) else block


def _leaves(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return shorten_text(value, most)
    if isinstance(value, Mapping):
        return {k: _leaves(v, most) for k, v in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_leaves(v, most) for v in cast("list[Any]", value)]
    return value


def _json(value: Any) -> str:
    return written(value)
