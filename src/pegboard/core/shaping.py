"""Shaping: a tool's value becomes content: redacted, cleaned, cut, the whole kept in a spill."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, Protocol, cast

from pegboard.core.content import Block, File, Text
from pegboard.core.limits import MAX_CHARS
from pegboard.core.result import NO_NOTES, Notes, ToolResult

EMPTY: Final = "(no output)"
"""What a model reads where a tool returned nothing, so that it does not wait for more."""


class Redactor(Protocol):
    """Takes secrets out of text."""

    def redact(self, text: str) -> tuple[str, bool]:
        """The text with every known secret replaced by a mark, and whether there was one."""
        ...


class Spills(Protocol):
    """Keeps whole texts that were cut (decisions 17)."""

    def save(self, text: str, *, call_id: str, labels: frozenset[str]) -> str:
        """Keep `text`; the name `spill:ID` under which `read` finds it."""
        ...

    def read(self, name: str) -> str:
        """The whole text.

        Raises:
            NotFound: no such spill, or it has ended with its session.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaper:
    """How results become readable.

    Attributes:
        redactor: takes out secrets; None = there are none to take out.
        clean: takes out terminal escapes and invisible characters; None = no cleaning.
        spills: keeps what was cut; None = it is lost, and the result says so.
        max_chars: characters of text for the model.
    """

    redactor: Redactor | None = None
    clean: Callable[[str], str] | None = None
    spills: Spills | None = None
    max_chars: int = MAX_CHARS

    def shape(
        self,
        value: Any,
        *,
        call_id: str,
        tool: str,
        max_chars: int | None = None,
        labels: frozenset[str] = frozenset(),
        repairs: tuple[str, ...] = (),
        duration_s: float = 0.0,
    ) -> ToolResult:
        """The one result for a value that a tool returned."""
        result = wrap(value)
        limit = self.max_chars if max_chars is None else max_chars
        content, truncated, spill = self._text(result.content, limit, call_id, labels)
        given = result.notes
        data = result.data
        if data is not None and self.redactor is not None:
            data = self._data(data)
        return ToolResult(
            content=content,
            data=data,
            error=result.error,
            notes=Notes(
                duration_s=duration_s,
                truncated=truncated or given.truncated,
                spill=spill or given.spill,
                labels=tuple(sorted(labels.union(given.labels))) if labels or given.labels else (),
                repairs=repairs,
                extra=given.extra,
            ),
            call_id=call_id,
            tool=tool,
        )

    def _text(
        self, blocks: tuple[Block, ...], limit: int, call_id: str, labels: frozenset[str]
    ) -> tuple[tuple[Block, ...], bool, str | None]:
        """The blocks with clean text, at most `limit` characters of it over all text blocks."""
        out: list[Block] = []
        truncated, spill, left = False, None, limit
        for block in blocks:
            if not isinstance(block, Text):
                out.append(block)
                continue
            text = self._safe(block.text)
            if len(text) > left:
                truncated = True
                if self.spills is not None:
                    spill = self.spills.save(text, call_id=call_id, labels=labels)
                text = cut(text, left, spill)
            left = max(0, left - len(text))
            out.append(block if text is block.text else Text(text))
        return tuple(out), truncated, spill

    def _safe(self, text: str) -> str:
        if self.redactor is not None:
            text = self.redactor.redact(text)[0]
        return text if self.clean is None else self.clean(text)

    def _data(self, value: Any) -> Any:
        """Redact every string inside a JSON-able value; other values stay as they are."""
        match value:
            case str():
                return cast(Redactor, self.redactor).redact(value)[0]
            case dict():
                return {k: self._data(v) for k, v in cast(dict[Any, Any], value).items()}
            case list():
                return [self._data(v) for v in cast(list[Any], value)]
            case _:
                return value


def cut(text: str, limit: int, spill: str | None) -> str:
    """Half head and half tail of `text`, with a line between that says what is missing (ledger X-19)."""
    dropped = len(text) - limit
    where = f"the whole text: read_file path={spill}" if spill else "the rest was not kept"
    mark = f"\n\n… [{dropped} characters left out; {where}] …\n\n"
    if limit <= 0:
        return mark.strip()
    head = _border(text, limit - limit // 2)
    tail = len(text) - limit // 2
    while tail < len(text) and _joins(text[tail]):
        tail += 1
    return text[:head] + mark + text[tail:]


def _border(text: str, index: int) -> int:
    """The next place at or before `index` that does not split a combining sequence."""
    while 0 < index < len(text) and _joins(text[index]):
        index -= 1
    return index


def _joins(char: str) -> bool:
    """Whether `char` belongs to the character before it (combining mark, joiner, variation selector)."""
    point = ord(char)
    return point > 0x2FF and (
        point <= 0x36F
        or 0x1AB0 <= point <= 0x1AFF
        or 0x1DC0 <= point <= 0x1DFF
        or point == 0x200D
        or 0x20D0 <= point <= 0x20FF
        or 0xFE00 <= point <= 0xFE0F
        or 0x1F3FB <= point <= 0x1F3FF
    )


def wrap(value: Any) -> ToolResult:
    """The result that a tool's return value means (ledger X-04).

    str -> text; None -> a mark that there was no output; a ToolResult as it is; content blocks
    as they are; bytes -> a file; dict, list, numbers, dataclasses and pydantic models -> their
    JSON as text, and the value itself as `data`.
    """
    match value:
        case ToolResult():
            return value
        case str():
            return ToolResult(content=(Text(value or EMPTY),))
        case None:
            return ToolResult(content=(Text(EMPTY),))
        case bytes():
            file = File(name="result", mime_type="application/octet-stream", data=value)
            return ToolResult(content=(file,), data=value)
        case list() | tuple() if value and all(isinstance(v, Block) for v in cast(list[Any], value)):
            return ToolResult(content=tuple(cast(list[Block], value)))
        case _ if isinstance(value, Block):
            return ToolResult(content=(value,))
        case _:
            data = to_data(value)
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
            return ToolResult(content=(Text(text),), data=data)


def to_data(value: Any) -> Any:
    """The JSON-able form of a Python value; strings stand for what JSON has no word for."""
    match value:
        case None | bool() | int() | float() | str():
            return value.value if isinstance(value, Enum) else value
        case Enum():
            return to_data(value.value)
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {str(k): to_data(v) for k, v in cast(Mapping[Any, Any], value).items()}
        case list() | tuple() | set() | frozenset():
            return [to_data(v) for v in cast(list[Any], value)]
        case datetime() | date() | time():
            return value.isoformat()
        case PurePath():
            return str(value)
        case _:
            dump = getattr(value, "model_dump", None)
            if dump is not None:
                return dump(mode="json")
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return {f.name: to_data(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return str(value)


__all__ = ["EMPTY", "NO_NOTES", "Redactor", "Shaper", "Spills", "cut", "to_data", "wrap"]
