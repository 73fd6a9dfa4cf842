"""Keep: what a tool declares as an artifact of its session is kept, and its result says so (ledger K-77)."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pegboard.core.call.call import Call, call_context
from pegboard.core.content import KEEPER, ArtifactSaver, Block, File, NewArtifact, Text
from pegboard.core.context import Context, attach, detach
from pegboard.core.errors import (
    BuildError,
    InternalError,
    PermissionDenied,
    SuspendedCall,
    TimedOut,
    ToolError,
    format_value,
)
from pegboard.core.limits import MAX_CHARS
from pegboard.core.policy.approval import Waiting
from pegboard.core.result import NO_NOTES, Notes, ToolResult
from pegboard.core.secrets.clip import clip
from pegboard.core.values import blank, record, setter

if TYPE_CHECKING:
    from pegboard.core.call.pipeline import Pipeline


def was_cancelled() -> bool:
    """Whether somebody cancelled the running task (or there is none, and nobody but the caller could)."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def log_failure(tool: str, error: BaseException, redacted: Callable[[str], str]) -> None:
    """Give the traceback of what a tool raised to `logging`, where its developer finds it; no model sees it.

    The logger is `pegboard.tools`. Without a handler of the program's own, nothing is shown.
    """
    if isinstance(error, ToolError | TimeoutError | PermissionError):
        return  # Raised on purpose, or told as what it is.
    import logging
    import traceback

    package = logging.getLogger("pegboard")
    if not package.handlers:
        # Else Python's handler of last resort would print it in every program that sets up no logging.
        package.addHandler(logging.NullHandler())
    text = redacted("".join(traceback.format_exception(error)))
    package.getChild("tools").error("tool %s failed\n%s", tool, text.rstrip())


def suspended_error(waiting: Waiting) -> SuspendedCall:
    return SuspendedCall(
        f"the call waits for {waiting.kind} {waiting.key}",
        hint=str(waiting.detail.get("how") or "It goes on when the answer comes."),
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
            # The operating system's own text names real paths (ledger N-121).
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


_set_text: Final = setter(Text, "text")
EMPTY: Final = "(no output)"
"""What a model reads where a tool returned nothing, so that it does not wait for more."""


class SupportsRedact(Protocol):
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

    def add_labels(self, name: str, labels: frozenset[str]) -> None:
        """Give a kept text further taint labels."""
        ...


@record(kw_only=True)
class Shaper:
    """How results become readable.

    Attributes:
        redactor: takes out secrets; None = there are none to take out.
        clean: takes out terminal escapes and invisible characters; None = no cleaning.
        spills: keeps what was cut; None = it is lost, and the result says so.
        max_chars: characters of text for the model.
    """

    redactor: SupportsRedact | None = None
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
        if type(value) is str and value and not labels:
            # Most results are a short text: nothing to wrap, cut or spill.
            text = self._safe(value)
            if len(text) <= (self.max_chars if max_chars is None else max_chars):
                return _short(text, call_id, tool, repairs, duration_s)
        result = to_result(value)
        limit = self.max_chars if max_chars is None else max_chars
        content, truncated, spill = self._text(result.content, limit, call_id, labels)
        given = result.notes
        data = result.data
        if data is not None and self.redactor is not None:
            data = self._data(data)
        return ToolResult(
            content=content,
            data=data,
            error=result.error
            if self.redactor is None or result.error is None
            else self._error(result.error),
            notes=Notes(
                duration_s=duration_s,
                truncated=truncated or given.truncated,
                spill=spill or given.spill,
                labels=tuple(sorted(labels.union(given.labels))) if labels or given.labels else (),
                repairs=repairs,
                extra=given.extra
                if self.redactor is None or not given.extra
                else self._data(dict(given.extra)),
            ),
            call_id=call_id,
            tool=tool,
        )

    def redacted(self, value: Any) -> Any:
        """A JSON-able value without secrets, for what is shown before it is a result."""
        return value if self.redactor is None else self._data(value)

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
                text = truncate(text, left, spill)
            left = max(0, left - len(text))
            out.append(block if text is block.text else Text(text))
        return tuple(out), truncated, spill

    def _safe(self, text: str) -> str:
        if self.clean is not None:
            # First, so that an invisible character inside a secret does not hide it from the redactor.
            text = self.clean(text) or (EMPTY if text else text)
        return text if self.redactor is None else self.redactor.redact(text)[0]

    def _error(self, error: ToolError) -> ToolError:
        """The same error with its texts redacted; it goes into records and JSON."""
        twin = copy.copy(error)
        twin.message, twin.hint = self._data(error.message), self._data(error.hint)
        twin.details = self._data(error.details)
        return twin

    def _data(self, value: Any) -> Any:
        """Redact every string inside a JSON-able value; other values stay as they are."""
        match value:
            case str():
                return cast(SupportsRedact, self.redactor).redact(value)[0]
            case dict():
                return {self._data(k): self._data(v) for k, v in cast(dict[Any, Any], value).items()}
            case list():
                return [self._data(v) for v in cast(list[Any], value)]
            case _:
                return value


def _short(text: str, call_id: str, tool: str, repairs: tuple[str, ...], duration_s: float) -> ToolResult:
    """The result of most calls, field by field as `inside.within` does it."""
    notes = blank(Notes)
    notes.duration_s, notes.repairs, notes.extra, notes.labels = duration_s, repairs, {}, ()
    block = blank(Text)
    _set_text(block, text)
    result = blank(ToolResult)
    result.content, result.notes, result.call_id, result.tool = (block,), notes, call_id, tool
    return result


def truncate(text: str, limit: int, spill: str | None) -> str:
    """Half head and half tail of `text`, with a line between that says what is missing (ledger X-19)."""
    head, tail = 0, len(text)
    if limit > 0:
        head = _border(text, limit - limit // 2, -1)
        tail = _border(text, len(text) - limit // 2, 1)
    where = f"full text: read_file path={spill}" if spill else "the rest was not saved"
    mark = f"\n\n… [{tail - head} characters left out; {where}] …\n\n"
    return text[:head] + mark + text[tail:] if limit > 0 else mark.strip()


_LONGEST: Final = 32
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Characters of the longest sequence that is kept whole; text of nothing but marks is cut all the same."""


def _border(text: str, index: int, step: int) -> int:
    """The next place from `index` on, going by `step`, that splits no sequence of characters."""
    at = index
    while 0 < at < len(text) and abs(at - index) < _LONGEST and _inside(text, at):
        at += step
    return at if abs(at - index) < _LONGEST else index


def _inside(text: str, index: int) -> bool:
    """Whether a person sees the characters around `index` as one: marks, joiners, flags, CRLF."""
    before, after = text[index - 1], text[index]
    if _joins(after) or before == "\u200d" or (before == "\r" and after == "\n"):
        return True
    if not (_flag(before) and _flag(after)):
        return False
    start = index
    while start > 0 and index - start < 2000 and _flag(text[start - 1]):
        start -= 1
    return (index - start) % 2 == 1


def _flag(char: str) -> bool:
    """Half of a flag: two regional indicators stand for one."""
    return "\U0001f1e6" <= char <= "\U0001f1ff"


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


def to_result(value: Any) -> ToolResult:
    """The result that a tool's return value means (ledger X-04).

    str -> text; None -> a mark that there was no output; a ToolResult as it is; content blocks
    as they are; bytes -> a file; dict, list, numbers, dataclasses and pydantic models -> their
    JSON as text, and the value itself as `data`.
    """
    match value:
        case ToolResult(content=(), error=None):
            # A result of data alone: the model reads the data, not nothing.
            said = EMPTY if value.data is None else _text_of(value.data)
            return dataclasses.replace(value, content=(Text(said),))
        case ToolResult():
            return (
                value
                if all(isinstance(b, Block) for b in cast(tuple[object, ...], value.content))
                else _with_blocks(value)
            )
        case str():
            return ToolResult(content=(Text(value or EMPTY),))
        case None:
            return ToolResult(content=(Text(EMPTY),))
        case bytes() | bytearray() | memoryview():
            raw = bytes(cast(bytes, value))
            file = File(name="result", mime_type="application/octet-stream", data=raw)
            return ToolResult(content=(file,), data=raw)
        case list() | tuple() if value and all(isinstance(v, Block) for v in cast(list[Any], value)):
            return ToolResult(content=tuple(cast(list[Block], value)))
        case _ if isinstance(value, Block):
            return ToolResult(content=(value,))
        case _:
            return ToolResult(content=(Text(_text_of(value) or EMPTY),), data=to_jsonable(value))


def _with_blocks(result: ToolResult) -> ToolResult:
    """The result with blocks for the texts that a tool put there in their place.

    Raises:
        BuildError: something else stands there.
    """
    given = cast("tuple[object, ...] | str", result.content)
    blocks: list[Block] = []
    for one in (given,) if isinstance(given, str) else given:
        if not isinstance(one, Block | str):
            raise BuildError(
                f"ToolResult(content=…) takes Text, Image, Audio and File blocks, got {format_value(one)}"
            )
        blocks.append(Text(one) if isinstance(one, str) else one)
    return dataclasses.replace(result, content=tuple(blocks))


def _text_of(value: Any) -> str:
    data = to_jsonable(value)
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)


def to_jsonable(value: Any) -> Any:
    """The JSON-able form of a Python value; strings stand for what JSON has no word for."""
    # Nearly all that comes is JSON already, and a look at its exact type is a tenth of the questions below.
    kind = cast("type[Any]", type(value))
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {k if type(k) is str else str(k): to_jsonable(v) for k, v in value.items()}
    if kind is list or kind is tuple:
        return [to_jsonable(v) for v in value]
    match value:
        case None | bool() | int() | float() | str():
            return value.value if isinstance(value, Enum) else value
        case Enum():
            return to_jsonable(value.value)
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {str(k): to_jsonable(v) for k, v in cast(Mapping[Any, Any], value).items()}
        case set() | frozenset():
            # In an order that is the same in every process, so that a replay sees the same text.
            return sorted((to_jsonable(v) for v in cast(set[Any], value)), key=repr)
        case list() | tuple():
            return [to_jsonable(v) for v in cast(list[Any], value)]
        case _:
            dump = getattr(value, "model_dump", None)
            if dump is not None and not isinstance(value, type):
                return dump(mode="json")
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                return {f.name: to_jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
            if isinstance(value, Iterator | AsyncIterator | FunctionType):
                raise BuildError(
                    f"the tool returned {format_value(cast(object, value))}, which has no JSON; return a list, text or numbers"
                )
            # Dates and times, told by what they can do: most processes never load the module.
            iso = getattr(cast("Any", value), "isoformat", None)
            return iso() if iso is not None and not isinstance(value, type) else str(cast(object, value))


__all__ = ["EMPTY", "NO_NOTES", "Shaper", "Spills", "SupportsRedact", "to_jsonable", "to_result", "truncate"]


async def save_artifacts(pipeline: Pipeline, value: Any, call: Call, context: Context) -> ToolResult:
    """The result without its declared artifacts, which are kept, and with a line for each.

    A tool has done its work by then, so what cannot be kept is told in the result and fails nothing.
    """
    result = ToolResult(artifacts=(value,)) if isinstance(value, NewArtifact) else cast(ToolResult, value)
    lines: list[Text] = []
    kept: list[dict[str, Any]] = []
    before = attach(call_context(pipeline, context, call.call_id, call.tool))
    try:
        for made in result.artifacts:
            said, facts = await _save_one(pipeline, made, call.tool.name)
            lines.append(Text(said))
            kept += facts
    finally:
        detach(before)
    notes = replace(result.notes, extra={**result.notes.extra, "artifacts": kept})
    return replace(result, content=(*result.content, *lines), notes=notes, artifacts=())


async def _save_one(pipeline: Pipeline, made: NewArtifact, name: str) -> tuple[str, list[dict[str, Any]]]:
    """What the result says of one artifact, and the facts for programs, none where it was not kept."""
    keeper = cast("ArtifactSaver | None", pipeline.provide.get(KEEPER))
    called = f"artifact '{made.id}'" if made.id else "an artifact"
    if keeper is None:
        return f"[not kept as {called}: nothing keeps artifacts here]", []
    redactor = pipeline.shaper.redactor
    if redactor is not None and isinstance(made.content, str):
        made = replace(made, content=redactor.redact(made.content)[0])
    try:
        there = await keeper.save(made, name=name)
    except Exception as error:  # noqa: BLE001  The keeper may be foreign code, and the call has happened.
        return f"[not kept as {called}: {as_tool_error(error).message}]", []
    facts = {"id": there.id, "version": there.version, "content_type": there.content_type}
    return f"[kept as artifact '{there.id}' (version {there.version}); read_artifact shows it]", [facts]
