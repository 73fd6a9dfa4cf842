"""read_file: some lines of a text file, or a document as Markdown."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from pegboard.core.content import Text
from pegboard.core.context import in_program
from pegboard.core.errors import InvalidArguments, Unavailable, Unsupported
from pegboard.core.result import Spills, ToolResult
from pegboard.core.schema.annotations import Alias, Inject, ReadPath, Unadvertised
from pegboard.core.secrets.clip import clip
from pegboard.core.text import LineRange, page, slice_text
from pegboard.core.tool import tool
from pegboard.documents.html import declared
from pegboard.ports.documents import OFFICE, Document, DocumentKind, Documents
from pegboard.ports.files import Files
from pegboard.textedit.encoding import NotText, decode, guess_note, shown_utf8

#: Kinds whose files are text too: lines are what an edit needs, Markdown is what a reader needs.
_ALSO_TEXT: Final = ("html", "csv", "notebook")
_BINARY: Final = ("pdf", "docx", "xlsx", "pptx")

_UNKNOWN: Final = "application/octet-stream"

_RANGE: Final = re.compile(r"[Ll]?(\d{1,9})\s*(?:-|:|,|\.\.|–)\s*[Ll]?(-1|\d{1,9})?")
_PAGE_CHARS: Final = 9_500
_LONG_PAGE_CHARS: Final = 40_000


def _first_and_last(given: Any) -> Any:
    """`[10, 20]`, `10-20`, `10:20`, `L10-L20`, `10-` (to the end, as -1) as a pair."""
    if isinstance(given, str) and (found := _RANGE.fullmatch(given.strip())):
        return [int(found[1]), int(found[2] or -1)]
    return given


@tool(
    idempotent=True,
    max_chars=_LONG_PAGE_CHARS + 2_000,
    hints=("read a file", "show a file", "open a document", "look at an image", "cat", "读取文件"),
    example={"path": "src/app.py", "offset": 1, "limit": 200},
)
async def read_file(
    path: ReadPath,
    offset: Annotated[
        int | None,
        Alias(
            "start_line",
            "line_start",
            "from_line",
            "line_offset",
            "first_line",
            "start",
            "start_line_one_indexed",
        ),
    ] = None,
    limit: Annotated[
        int | None, Field(ge=1), Alias("max_lines", "num_lines", "n_lines", "line_count")
    ] = None,
    end_line: Annotated[
        int | None,
        Field(ge=1),
        Alias("line_end", "to_line", "last_line", "end", "end_line_one_indexed_inclusive"),
    ] = None,
    numbered: Annotated[bool, Alias("line_numbers", "show_line_numbers", "with_line_numbers")] = True,
    column: Annotated[int, Field(ge=1)] | None = None,
    pages: str | None = None,
    encoding: str | None = None,
    format: Literal["auto", "text", "markdown"] = "auto",
    force: bool = False,
    lines: Annotated[
        Annotated[list[int], Field(min_length=2, max_length=2)] | None,
        Unadvertised(),
        BeforeValidator(_first_and_last),
        Alias("view_range", "line_range", "range"),
    ] = None,
    *,
    files: Inject[Files],
    documents: Inject[Documents | None] = None,
    spills: Inject[Spills | None] = None,
) -> ToolResult:
    """Read a file of the workspace: text by lines, PDF, Word, Excel, PowerPoint, HTML, notebooks and
    CSV as Markdown, images as pictures.

    Long files come in pages; the last line of the answer tells how to continue. Use grep
    to find a place in a large file first.

    Args:
        path: Path of the file, relative to the workspace, or `spill:ID` of a cut result.
        offset: First line, counted from 1; -N starts at the N-th last line.
        limit: Maximum number of lines.
        end_line: Last line to read, instead of limit.
        numbered: Put the line number before each line; false gives the bare text.
        column: First character to show of the one long line at `offset`, counted from 1.
        pages: Pages of a PDF, slides or sheets, for example `1-5` or `2,7-9`.
        encoding: Text encoding; detected by default.
        format: `text` shows the source of HTML, CSV and notebooks with line numbers, as an edit needs it.
        force: Show lines again even if they were shown before and are unchanged.
    """
    if lines is not None:
        if (offset, limit, end_line) != (None, None, None):
            raise InvalidArguments(
                "lines cannot be combined with offset, limit or end_line",
                hint="Send offset and end_line alone.",
            )
        offset, end_line = lines[0], None if lines[1] == -1 else lines[1]
    start, count = _range(offset, limit, end_line)
    if column is not None and count not in (None, 1):
        raise InvalidArguments(
            f"column {column} goes on in one line, but {count} lines are asked for",
            hint="Send offset and column alone.",
        )
    most = _PAGE_CHARS if limit is None and end_line is None else _LONG_PAGE_CHARS
    if path.startswith("spill:"):
        if spills is None:
            raise Unavailable(
                "spilled results are not available here", hint="Repeat the call with a narrower query."
            )
        text = spills.read(path)
        if column is not None:
            return _rest_of_line(path, text, start, column, numbered)
        return _lines(path, _in_memory(text, start, count), numbered, most, {})
    plain = (
        any(v is not None for v in (offset, limit, end_line, column, encoding))
        or not numbered
        or format == "text"
    )
    kind = documents.kind_of(path) if documents is not None else None
    source = (kind in _ALSO_TEXT and plain) or (kind in _BINARY and format == "text")
    if kind is not None and not (source and format != "markdown"):
        document = await _document(path, kind, pages, files, documents)
        return _noted(document, (await files.resolve(path)).notes)
    if encoding is not None and encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "auto"):
        text = _decoded(path, await files.read_bytes(path), encoding)
        if column is not None:
            return _rest_of_line(path, text, start, column, numbered)
        text = clip(text)
        given = _lines(path, _in_memory(text, start, count), numbered, most, {"encoding": encoding})
        return _noted(given, (await files.resolve(path)).notes)
    if column is not None:
        text = decode(await files.read_bytes(path)).text.replace("\0", "\u2400")
        return _rest_of_line(path, text, start, column, numbered)
    try:
        found = await files.read_slice(path, offset=start, limit=count)
    except Unsupported as refusal:
        if format == "text" and refusal.details.get("mime_type") == _UNKNOWN:
            text = shown_utf8(await files.read_bytes(path)).replace("\0", "\u2400")
            return _lines(path, _in_memory(text, start, count), numbered, most, {})
        shown = await _binary(path, refusal, pages, files, documents)
        return _noted(shown, (await files.resolve(path)).notes)
    facts = {"encoding": found.encoding, "newline": found.newline, "size": found.size, "sha256": found.sha256}
    # A program has no conversation to look the lines up in.
    again = force or in_program()
    if found.repeated and numbered and not again and found.last:
        note = (
            f"[{path} lines {found.first}-{found.last}: unchanged since you read them above. "
            "force=true shows them again.]"
        )
        return ToolResult.from_text(note, data={"path": path, "unchanged": True, **facts})
    there = LineRange(found.text, found.first, found.last, found.total, found.cut)
    return _noted(_lines(path, there, numbered, most, facts, start), found.notes)


def _range(offset: int | None, limit: int | None, end_line: int | None) -> tuple[int, int | None]:
    """First line and number of lines (None = as many as fit)."""
    start = 1 if offset is None else offset
    if start == 0:
        raise InvalidArguments("offset is 0, but lines count from 1", hint="Use offset=1 for the first line.")
    if end_line is None:
        return start, limit
    if start < 0 or end_line < start:
        raise InvalidArguments(
            f"end_line {end_line} is before the first line {start}",
            hint="Pass offset (first line) and end_line (last line) with offset <= end_line.",
        )
    wanted = end_line - start + 1
    return start, wanted if limit is None else min(limit, wanted)


def _in_memory(text: str, start: int, count: int | None) -> LineRange:
    """Lines of a text that is held in memory; one that no page holds is cut, and `column` goes on in it."""
    there = slice_text(text, start, count)
    lines = there.text.split("\n") if len(there.text) > _PAGE_CHARS else []
    cut = tuple(number for number, line in enumerate(lines, there.first) if len(line) > _PAGE_CHARS)
    if not cut:
        return there
    return replace(
        there, text="\n".join(clip(line, 0, min(len(line), _PAGE_CHARS)) for line in lines), cut=cut
    )


def _rest_of_line(path: str, text: str, line: int, column: int, numbered: bool) -> ToolResult:
    """A page of one long line, from its `column`-th character."""
    text = text.replace("\r\n", "\n")
    there = slice_text(text, line, 1)
    size = len(there.text.removesuffix("\n"))
    if column > size:
        raise InvalidArguments(
            f"column {column} is past the end of line {line} of {path}"
            f" ({f'{size} characters' if there.last else f'{there.total} lines in all'})",
            hint="Lines and columns count from 1; the end of a cut line says where it goes on.",
        )
    begin = len(slice_text(text, 1, there.first - 1).text) if there.first > 1 else 0
    last = min(size, column - 1 + _PAGE_CHARS)
    shown = clip(text, begin + column - 1, begin + last)
    goes_on = f"; column={last + 1} goes on" if last < size else ""
    number = f"{there.first:6d}→" if numbered else ""
    return ToolResult.from_text(
        f"{number}{shown}\n[line {there.first}, characters {column}-{last} of {size}{goes_on}]",
        data={
            "path": path, "text": shown, "first": there.first, "last": there.first, "total": there.total,
            "more": last < size, "column": column, "last_column": last, "characters": size,
        },
    )  # fmt: skip


def _lines(
    path: str, lines: LineRange, numbered: bool, most: int, facts: dict[str, Any], start: int = 1
) -> ToolResult:
    shown = page(lines, numbered=numbered, most=most)
    data = {
        "path": path,
        "text": shown.text,
        "first": shown.first,
        "last": shown.last,
        "total": lines.total,
        "more": shown.more,
        **facts,
    }
    if not shown.last:
        if lines.total and abs(start) > 1:
            raise InvalidArguments(
                f"line {start} is past the end of {path} ({lines.total} lines)",
                hint=f"Use an offset between 1 and {lines.total}.",
            )
        return ToolResult.from_text("[empty file]" if numbered else "", data=data)
    return ToolResult.from_text(shown.view, data=data)


def _noted(result: ToolResult, notes: tuple[str, ...]) -> ToolResult:
    """The result with what the reader must know about the file at its end."""
    if not notes:
        return result
    said = Text("\n".join(f"[{note}]" for note in notes))
    return replace(result, content=(*result.content, said), data={**result.data, "notes": list(notes)})


async def _document(
    path: str, kind: DocumentKind, pages: str | None, files: Files, documents: Documents | None
) -> ToolResult:
    assert documents is not None
    data = await files.read_bytes(path)
    if not data:
        return ToolResult.from_text("[empty file]", data={"path": path, "kind": kind, "size": 0, "text": ""})
    data_read, guessed = await asyncio.to_thread(_as_utf8, kind, data)
    try:
        found = await documents.read(kind, data_read, pages=pages)
    except Unsupported as refusal:
        if kind != "image":
            if kind in _BINARY and _is_text(data):
                refusal.hint = "The content is text: format='text' shows it."
            raise
        # What only looks like an image is named, not dumped.
        return _named(path, "image", len(data), refusal.message)
    return _noted(_rendered(path, found, len(data)), (guessed,) if guessed else ())


def _is_text(data: bytes) -> bool:
    try:
        return b"%PDF-" not in data[:1024] and bool(decode(data))
    except NotText:
        return False


def _as_utf8(kind: DocumentKind, data: bytes) -> tuple[bytes, str]:
    """The bytes of a document that is text, in UTF-8 where they do not say what they are, and a note on the guess.

    The encoding is the one that reading it by lines would find.
    """
    if kind not in ("csv", "html") or (b"\0" not in data and declared(data) is not None):
        return data, ""
    try:
        found = decode(data)
    except NotText:
        return data, ""
    sure = found.encoding.certain or found.encoding.damaged
    return found.text.encode("utf-8"), "" if sure else guess_note(found.label)


def _rendered(path: str, found: Document, size: int) -> ToolResult:
    facts = {"path": path, "kind": found.kind, "pages": found.pages, "size": size, "note": found.note}
    if found.image is not None:
        return ToolResult(content=(Text(f"[{found.text}]"), found.image), data={**facts, "text": found.text})
    notes = [f"[{found.note}]"] if found.note else []
    if found.kind in _ALSO_TEXT:
        notes.append("[Shown as Markdown; format='text' shows the source, as edit_file needs it.]")
    text = "\n\n".join([found.text or f"[the {found.kind} contains no text]", *notes])
    return ToolResult.from_text(text, data={**facts, "text": found.text})


async def _binary(
    path: str, refusal: Unsupported, pages: str | None, files: Files, documents: Documents | None
) -> ToolResult:
    """A file that turned out to be no text: read it by its type, else say what it is."""
    if not refusal.details.get("binary"):
        raise refusal
    mime, size = str(refusal.details["mime_type"]), int(refusal.details["size"])
    kind = documents.kind_of(path, mime) if documents is not None else None
    try:
        if kind is not None:
            return await _document(path, kind, pages, files, documents)
    except Unsupported:
        if mime != OFFICE:  # other packages begin like Office's
            raise
    return _named(path, mime, size, "format='text' shows it." if refusal.details.get("text") else "")


def _named(path: str, mime: str, size: int, why: str) -> ToolResult:
    text = f"[binary, {size} bytes, {mime}]" + (f" {why}" if why else "")
    return ToolResult.from_text(text, data={"path": path, "binary": True, "mime_type": mime, "size": size})


def _decoded(path: str, data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except LookupError:
        raise InvalidArguments(
            f"unknown encoding {encoding!r}", hint="Omit encoding to have it detected."
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidArguments(
            f"{path} is not in {encoding}: byte {error.start} is not valid",
            hint="Omit encoding to have it detected.",
        ) from None
