"""One edit of one file: bytes in, bytes out, everything that was not asked for left as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pegboard.core.errors import InvalidArguments, NotFound, NotUnique, ToolError
from pegboard.textedit import style
from pegboard.textedit.encoding import UTF8, Encoding, codec_with, detect
from pegboard.textedit.match import (
    NUMBERED,
    Edit,
    EditText,
    MatchSpan,
    Spans,
    Strategy,
    exact_pattern,
    newline_in,
    place_or_error,
    search,
    without_numbers,
)  # fmt: skip
from pegboard.textedit.redaction_marks import marks_in, put_back
from pegboard.textedit.style import line_numbers, merge_lines, name_lines, newline_near, transfer

_MARK: Final = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditResult:
    """What an edit makes of a file.

    Attributes:
        data: the whole file afterwards.
        strategy: how the old text was found.
        lines: the 1-based line at which each replacement begins, in the file before.
    """

    data: bytes
    strategy: Strategy
    lines: tuple[int, ...]


def apply_edit(data: bytes, edit: Edit, *, path: str) -> EditResult:
    """Make one edit.

    The exact match in a UTF-8 file works on the bytes: it neither decodes nor copies the
    file more than once.

    Args:
        data: the whole file.
        edit: what to do.
        path: the file's name in messages.

    Raises:
        InvalidArguments: nothing would change, or the arguments contradict each other.
        NotText: the file is no text.
        Unsupported: the file's encoding has no place for a new character.
        NotFound: the old text is not there; the message shows the closest fragment.
        NotUnique: it is there several times; the message names the lines.
        AlreadyApplied: only the new text is there.
    """
    encoding = detect(data)
    if encoding.bom and edit.old.startswith(_MARK):
        # The mark is no text: it stays where it is, whoever sends it along.
        edit = replace(edit, old=edit.old.removeprefix(_MARK), new=edit.new.removeprefix(_MARK))
    edit = _checked(edit, path)
    if b"\0" in data and not encoding.wide and "\u2400" in edit.old:
        # As reading shows a NUL byte.
        edit = replace(edit, old=edit.old.replace("\u2400", "\0"), new=edit.new.replace("\u2400", "\0"))
    if encoding == UTF8 or (encoding.codec == "utf-8" and not encoding.damaged):
        edited = _apply_utf8(data, edit, path, len(encoding.bom))
    else:
        edited = _apply_legacy(data, edit, path, encoding)
    if encoding.bom and edited.data.startswith(twice := encoding.bom * 2) and not data.startswith(twice):
        # Sent along in the new text alone, it would stand there a second time.
        return replace(edited, data=edited.data[len(encoding.bom) :])
    return edited


def apply_edits(data: bytes, edits: Sequence[Edit], *, path: str) -> tuple[EditResult, ...]:
    """Make several edits one after the other, each seeing the result of those before; all or none.

    Raises:
        ToolError: as `apply_edit`, the message naming the edit by its number.
    """
    done: list[EditResult] = []
    for number, edit in enumerate(edits, 1):
        try:
            done.append(apply_edit(done[-1].data if done else data, edit, path=path))
        except ToolError as error:
            if len(edits) > 1:
                error.message = f"edit {number} of {len(edits)}: {error.message} No edit was applied."
                error.args = (error.message,)
                error.details["edit"] = number
            raise
    return tuple(done)


def _checked(edit: Edit, path: str) -> Edit:
    old, new = (text.replace("\r\n", "\n") for text in (edit.old, edit.new))
    if not old:
        raise InvalidArguments(
            f"old_string is empty, but {path} exists and has content",
            hint="Give the text to replace, or use write_file to replace the whole file.",
        )
    if old == new:
        raise InvalidArguments(
            "old_string and new_string are the same: nothing would change",
            hint="Send the text that you want.",
        )
    if edit.occurrence is not None and edit.occurrence < 1:
        raise InvalidArguments(f"occurrence is {edit.occurrence}; the first is 1")
    if edit.replace_all and (edit.occurrence is not None or edit.line_hint is not None):
        raise InvalidArguments("replace_all excludes occurrence and line_hint", hint="Send one of them.")
    if "→" in new and without_numbers(new) is not None and not NUMBERED.match(old):
        raise InvalidArguments(
            "new_string begins every line with a line number",
            hint="Remove the line-number prefix; it is not part of the file.",
        )
    return replace(edit, old=old, new=new)


def _apply_legacy(data: bytes, edit: Edit, path: str, encoding: Encoding) -> EditResult:
    """Through UTF-8 and back; what was not replaced gives the same bytes again (see `encoding.LEGACY`)."""
    try:
        text = encoding.decode(data[len(encoding.bom) :])
        edited = _apply_utf8(text.encode("utf-8"), edit, path, 0)
    except NotFound:
        # The text that the model sent is better evidence of the encoding than any statistics.
        other = codec_with(data, edit.old) if not encoding.certain else None
        if other is None or other.codec == encoding.codec:
            raise
        encoding = other
        edited = _apply_utf8(data.decode(encoding.codec).encode("utf-8"), edit, path, 0)
    return replace(edited, data=encoding.bom + encoding.encode(edited.data.decode("utf-8")))


def _apply_utf8(data: bytes, edit: Edit, path: str, skip: int) -> EditResult:
    if b"\r" in data and b"\n" not in data:
        # Old Mac files: the same bytes with the other ending, so that lines are lines everywhere below.
        edited = _apply_utf8(data.replace(b"\r", b"\n"), edit, path, skip)
        return replace(edited, data=edited.data.replace(b"\n", b"\r"))
    old = UTF8.encode(edit.old)
    if b"\n" not in old or b"\r\n" not in data:
        # Found first and counted from there on: together one pass over the file.
        at = data.find(old)
        count = 0 if at < 0 else 1 + data.count(old, at + len(old))
        if count and (count == 1 or edit.replace_all) and not _expects_other(edit, count):
            return _exact_bytes(data, edit, old, at, count, path)
        offsets = _offsets(data, old) if count else []
    else:
        offsets = [m.start() for m in exact_pattern(old).finditer(data)]
    if offsets:
        _keep_marks(edit, path)
        chosen = _choose(offsets, line_numbers(data, offsets), edit, path)
        spans = [(at, at + _length(data, at, old)) for at in chosen]
        return _replace_bytes(data, edit, spans)
    return _apply_text(data, edit, path, skip)


def _expects_other(edit: Edit, count: int) -> bool:
    wrong = edit.expected is not None and edit.expected != count
    return wrong or (edit.occurrence or 1) > count


def _offsets(data: bytes, old: bytes) -> list[int]:
    offsets: list[int] = []
    at = data.find(old)
    while at >= 0:
        offsets.append(at)
        at = data.find(old, at + len(old))
    return offsets


def _length(data: bytes, at: int, old: bytes) -> int:
    if b"\n" not in old or data.startswith(old, at):
        return len(old)
    found = exact_pattern(old).match(data, at)
    return found.end() - at if found else len(old)


def _exact_bytes(data: bytes, edit: Edit, old: bytes, at: int, count: int, path: str) -> EditResult:
    _keep_marks(edit, path)
    if count == 1:
        return _replace_bytes(data, edit, [(at, at + len(old))])
    offsets = _offsets(data, old)
    new = UTF8.encode(edit.new)
    if b"\n" in new and b"\r\n" in data:
        return _replace_bytes(data, edit, [(o, o + len(old)) for o in offsets])
    return EditResult(data=data.replace(old, new), strategy="exact", lines=line_numbers(data, offsets))


def _replace_bytes(data: bytes, edit: Edit, spans: Sequence[tuple[int, int]]) -> EditResult:
    whole = memoryview(data)
    pieces: list[bytes | memoryview] = []
    done = 0
    for start, end in spans:
        pieces += [whole[done:start], _new_bytes(data, edit, start, end)]
        done = end
    pieces.append(whole[done:])
    lines = line_numbers(data, [start for start, _ in spans])
    return EditResult(data=b"".join(pieces), strategy="exact", lines=lines)


def _new_bytes(data: bytes, edit: Edit, start: int, end: int) -> bytes:
    """The new text with the line endings of where it goes; kept lines keep their own."""
    if "\n" not in edit.new:
        return UTF8.encode(edit.new)
    newline = newline_near(data, start, end)
    span = data[start:end]
    if span.count(b"\r\n") not in (0, span.count(b"\n")):
        new = edit.new.replace("\n", newline.decode())
        return UTF8.encode(transfer(span.decode(), edit.old, new, style.shown))
    return UTF8.encode(edit.new).replace(b"\n", newline)


def _keep_marks(edit: Edit, where: str) -> None:
    """An exact match holds its marks literally: they are the file's own text, and only those may be written."""
    for mark in marks_in(edit.new):
        if mark not in edit.old:
            raise InvalidArguments(
                f"new_string contains {mark}, which stands for a secret that was hidden from you in {where}",
                hint="Leave the hidden part out of old_string and new_string.",
                details={"marks": [mark]},
            )


def _choose(offsets: Sequence[int], lines: Sequence[int], edit: Edit, path: str) -> list[int]:
    """Which of several places are meant.

    Raises:
        NotUnique: more than one and nothing says which; or not as many as expected.
        InvalidArguments: `occurrence` is greater than their number.
    """
    count, shown = len(offsets), name_lines(lines)
    details = {"count": count, "lines": list(lines[:100])}
    if edit.expected is not None and edit.expected != count:
        raise NotUnique(
            f"expected {edit.expected} replacements, but the old text occurs {_times(count)} in {path} ({shown})",
            hint="Check the matches, then send the right number.",
            details=details,
        )
    if edit.replace_all or (edit.expected is not None and edit.occurrence is None and edit.line_hint is None):
        return list(offsets)
    if edit.occurrence is not None:
        if edit.occurrence > count:
            raise InvalidArguments(
                f"occurrence is {edit.occurrence}, but the old text occurs {_times(count)} in {path} ({shown})",
                details=details,
            )
        line = lines[edit.occurrence - 1]
        if edit.line_hint is not None and abs(line - edit.line_hint) > min(
            abs(other - edit.line_hint) for other in lines
        ):
            raise InvalidArguments(
                f"occurrence {edit.occurrence} is in line {line}, but line_hint {edit.line_hint} is nearer to another"
                f" ({shown})",
                hint="Send one of the two.",
                details=details,
            )
        return [offsets[edit.occurrence - 1]]
    if count == 1:
        return list(offsets)
    if edit.line_hint is not None:
        away = sorted(
            (abs(line - edit.line_hint), offset) for line, offset in zip(lines, offsets, strict=True)
        )
        if away[0][0] < away[1][0]:
            return [away[0][1]]
    raise NotUnique(
        f"the old text occurs {_times(count)} in {path} ({shown}): {count} matches",
        hint="Include a neighbouring line so that it occurs once, or set replace_all, occurrence or line_hint.",
        details=details,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _apply_text(data: bytes, edit: Edit, path: str, skip: int) -> EditResult:
    """The looser strategies, on the decoded text."""
    text = data[skip:].decode("utf-8")
    source = EditText(text)
    found = search(source, edit.old) or place_or_error(source, edit, path)
    if found.listing is not None:
        new = found.listing.new(edit.new, edit.old)
        if new is None:
            raise InvalidArguments(
                "some lines of new_string begin with a line number of old_string, and some do not",
                hint="Remove the line-number prefixes; they are no part of the file.",
            )
        edit = replace(edit, new=new)
    by_start = {span.start: span for span in found.spans}
    lines = {start: text.count("\n", 0, start) + 1 for start in by_start}
    chosen = [by_start[start] for start in _choose(list(by_start), list(lines.values()), edit, path)]
    if found.strategy != "hidden" and marks_in(edit.new):
        _keep_marks(edit, path)
    pieces: list[str] = []
    done = 0
    for span in chosen:
        pieces += [text[done : span.start], _new_text(text, span, found, edit, path)]
        done = span.end
    pieces.append(text[done:])
    after = "".join(pieces)
    if found.whole_lines and path.endswith((".py", ".pyi")) and _parses(text) and not _parses(after):
        # Where every depth of the new text became 0 on its way here, no rule brings the depths back.
        raise NotFound(
            f"Text not found in {path}: only with other indentation or spelling, and with that the file would not parse as Python",
            hint="Read the lines again and copy them exactly into old_string.",
        )
    return EditResult(
        data=data[:skip] + UTF8.encode(after),
        strategy=found.strategy,
        lines=tuple(lines[span.start] for span in chosen),
    )


def _parses(text: str) -> bool:
    import ast

    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _new_text(text: str, span: MatchSpan, found: Spans, edit: Edit, path: str) -> str:
    """What goes in place of one span."""
    source, old, new = text[span.start : span.end], found.old, edit.new
    newline = newline_in(text, span)
    if span.hidden is not None:
        return put_back(span.hidden, old, new, path).replace("\r\n", "\n").replace("\n", newline)
    if not found.whole_lines:
        fold = style.loose if found.strategy == "normalized" else style.shown_plain
        if style.shown(old).text == style.shown(source).text:
            fold = style.shown
        old, new = style.file_style(source, old, new, text)
        return transfer(source, old, new.replace("\n", newline), fold)
    return _merged(source, found, new, newline, path, text)


def _merged(source: str, found: Spans, new: str, newline: str, path: str, text: str) -> str:
    """The merged lines of a span that holds whole lines, with or without its last ending."""
    ending = ""
    if found.old.endswith("\n") and source.endswith("\n"):
        ending = "\r\n" if source.endswith("\r\n") else "\n"
        source = source[: -len(ending)]
    if not new:
        return ""
    body = new.removesuffix("\n") if found.old.endswith("\n") else new
    keys = style.trimmed_keys if found.strategy == "trimmed" else style.loose_keys
    merged = merge_lines(
        source, found.old.removesuffix("\n"), body, keys, style.loose, text=text, newline=newline
    )
    if merged is None:
        raise NotFound(
            f"Text not found in {path}: what stands there differs in lines or indentation that new_string changes",
            hint="Read the lines again and copy them exactly into old_string.",
        )
    return merged + (ending if new.endswith("\n") or not found.old.endswith("\n") else "")
