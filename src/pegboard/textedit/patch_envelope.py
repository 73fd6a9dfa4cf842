"""The Begin/End Patch form (ledger M-56)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pegboard.core.secrets.clip import clip
from pegboard.textedit.patch import (
    BEGIN,
    END,
    AddFile,
    DeleteFile,
    FilePatch,
    Hunk,
    PatchLine,
    Sign,
    UpdateFile,
    bad,
)  # fmt: skip

_ADD: Final = "*** Add File:"
_DELETE: Final = "*** Delete File:"
_UPDATE: Final = "*** Update File:"
_MOVE: Final = "*** Move to:"
_EOF: Final = "*** End of File"
_HEADERS: Final = (_ADD, _DELETE, _UPDATE)

#: What models put before and after a patch: blank lines, a code fence, a here-document.
_BEFORE: Final = re.compile(
    r"\s*(```\w*|(apply_?patch)?\s*(<<-?\s*['\"]?\w+['\"]?|['\"])?|patch:?"
    r"|cat\s*<<-?\s*['\"]?\w+['\"]?\s*\|\s*apply_?patch)\s*\Z"
)
_AFTER: Final = re.compile(r"\s*(```|['\"`)]*|[A-Z_]{2,20})\s*\Z")
_NUMBERS: Final = re.compile(r"-(\d+)(?:,\d+)? \+\d+(?:,\d+)?(?: @@(.*))?\Z")
_NO_NEWLINE: Final = re.compile(r"\\ No newline", re.IGNORECASE)


def read_envelope(rows: Sequence[str], begin: int | None) -> tuple[FilePatch, ...]:
    """The file changes between `*** Begin Patch` and `*** End Patch`.

    Args:
        rows: the whole text by lines.
        begin: index of the first mark, None where there is none.

    Raises:
        BadPatch: naming the line.
    """
    first = next((i for i, row in enumerate(rows) if row.strip()), 0)
    if begin is None:
        raise bad(
            first + 1,
            f"expected '{BEGIN}', found {clip(rows[first], 0, 60)!r}",
            f"Begin with '{BEGIN}' and end with '{END}', or send a unified diff.",
        )
    for index, row in enumerate(rows[:begin]):
        if not _BEFORE.match(row):
            raise bad(index + 1, f"{clip(row, 0, 60)!r} stands before '{BEGIN}'", "Send the patch alone.")
    end = next((i for i in range(len(rows) - 1, begin, -1) if rows[i].strip().rstrip("'\"`)") == END), None)
    if end is None:
        raise bad(
            len(rows),
            f"'{END}' is missing, so the patch may have been cut off",
            f"Send it whole, '{END}' last.",
        )
    for index in range(end + 1, len(rows)):
        if not _AFTER.match(rows[index]):
            raise bad(
                index + 1, f"{clip(rows[index], 0, 60)!r} stands after '{END}'", "Send the patch alone."
            )
    return _Reader(_outdented(rows[:end], begin), begin + 1).files()


def _outdented(rows: Sequence[str], begin: int) -> Sequence[str]:
    """The rows without the indentation of the first mark, where the whole patch is sent with it."""
    indent = rows[begin][: len(rows[begin]) - len(rows[begin].lstrip())]
    inside = [row for row in rows[begin + 1 :] if row.strip()]
    if not indent or not all(row.startswith(indent) for row in inside):
        return rows
    # A patch whose marks alone are indented has a first header without.
    if not any(row.startswith(indent + kind) for row in inside for kind in _HEADERS):
        return rows
    return [row.removeprefix(indent) for row in rows]


class _Reader:
    """Reads file sections one after the other; `at` is the index of the next line."""

    def __init__(self, rows: Sequence[str], at: int) -> None:
        self._rows = rows
        self._at = at

    def files(self) -> tuple[FilePatch, ...]:
        """Every section."""
        patches: list[FilePatch] = []
        while self._at < len(self._rows):
            header = self._rows[self._at].strip()
            if not header:
                self._at += 1
                continue
            patches.append(self._file(header))
        return tuple(patches)

    def _file(self, header: str) -> FilePatch:
        kind = next((k for k in _HEADERS if header.startswith(k)), None)
        if kind is None:
            raise bad(
                self._at + 1,
                f"{clip(header, 0, 60)!r} is no file header",
                f"Use '{_ADD} path', '{_UPDATE} path' or '{_DELETE} path'.",
            )
        path = _bare(header[len(kind) :].strip())
        if not path:
            raise bad(self._at + 1, "the header names no file")
        self._at += 1
        if kind == _ADD:
            return AddFile(path=path, text=self._added())
        if kind == _DELETE:
            return DeleteFile(path=path)
        return self._update(path)

    def _header_here(self) -> bool:
        return self._at >= len(self._rows) or self._rows[self._at].startswith(_HEADERS)

    def _added(self) -> str:
        lines: list[str] = []
        blank = 0
        while not self._header_here():
            row = self._rows[self._at]
            if row.startswith("+"):
                # Blank lines sent without their sign belong to the file only between others.
                lines += [""] * blank
                blank = 0
                lines.append(row[1:])
            elif not row.strip():
                blank += 1
            elif row.strip().startswith(_HEADERS) or row.strip() == _EOF:
                self._at += row.strip() == _EOF
                break
            else:
                raise bad(
                    self._at + 1,
                    f"{clip(row, 0, 60)!r} does not begin with '+'",
                    "Begin every line of a new file with '+'.",
                )
            self._at += 1
        return "".join(line + "\n" for line in lines)

    def _update(self, path: str) -> UpdateFile:
        row = self._at
        moved_to = None
        if not self._header_here() and self._rows[self._at].strip().startswith(_MOVE):
            moved_to = _bare(self._rows[self._at].strip()[len(_MOVE) :].strip())
            if not moved_to:
                raise bad(self._at + 1, f"'{_MOVE}' names no file")
            self._at += 1
        self._skip_names(path)
        hunks: list[Hunk] = []
        while not self._header_here():
            if not self._rows[self._at].strip() and self._blank_until_header():
                break
            hunks.append(self._hunk(may_only_look=moved_to is not None))
        if not hunks and moved_to is None:
            raise bad(row, f"the update of {path} has no hunk", "Add '@@' and the lines that change.")
        return UpdateFile(path=path, hunks=tuple(hunks), moved_to=moved_to)

    def _skip_names(self, path: str) -> None:
        """Leave out the names of a unified diff that some models add under the header: they say nothing new."""
        rows = self._rows[self._at : self._at + 3]
        if len(rows) < 3 or not rows[2].startswith("@@"):
            return
        for row, sign, prefix in ((rows[0], "--- ", "a/"), (rows[1], "+++ ", "b/")):
            name = row.removeprefix(sign).partition("\t")[0].strip()
            if not row.startswith(sign) or path not in (name, name.removeprefix(prefix)):
                return
        self._at += 2

    def _blank_until_header(self) -> bool:
        at = self._at
        while at < len(self._rows) and not self._rows[at].strip():
            at += 1
        if at < len(self._rows) and not self._rows[at].startswith(_HEADERS):
            return False
        self._at = at
        return True

    def _hunk(self, *, may_only_look: bool) -> Hunk:
        row = self._at + 1
        seeks: list[str] = []
        start = None
        while self._at < len(self._rows) and self._rows[self._at].startswith("@@"):
            seek, number = _seek(self._rows[self._at])
            seeks += [seek] if seek else []
            start = number if number is not None else start
            self._at += 1
        lines: list[PatchLine] = []
        at_end = False
        while not self._header_here() and not self._rows[self._at].startswith("@@"):
            text = self._rows[self._at]
            self._at += 1
            if text.rstrip() == _EOF:
                at_end = True
                break
            if not _NO_NEWLINE.match(text):
                lines.append(self._line(text))
        # With a move, lines that only say where the file is meant to be the right one are a fair check.
        if not any(line.sign != " " for line in lines) and not (may_only_look and lines):
            raise bad(row, "the hunk changes nothing", "Mark lines with '+' or '-'.")
        return Hunk(lines=tuple(lines), seeks=tuple(seeks), at_end=at_end, start=start, row=row)

    def _line(self, text: str) -> PatchLine:
        if not text:
            # A blank context line whose single space was stripped on the way.
            return PatchLine(" ", "")
        signs: dict[str, Sign] = {" ": " ", "+": "+", "-": "-", "\t": " "}
        sign = signs.get(text[0])
        if sign is None:
            raise bad(
                self._at,
                f"{clip(text, 0, 60)!r} begins with none of ' ', '+', '-'",
                "Begin every line of a hunk with a space (kept), '+' (added) or '-' (removed).",
            )
        return PatchLine(sign, text if text[0] == "\t" else text[1:])


def _bare(path: str) -> str:
    """A path without the quotes that some models put around one with spaces."""
    return path[1:-1] if len(path) > 2 and path[0] == path[-1] and path[0] in "\"'`" else path


def _seek(row: str) -> tuple[str, int | None]:
    """The line to look for that an `@@` line names, and the line number where it has one instead."""
    text = row[2:].strip()
    numbers = _NUMBERS.match(text)
    if numbers:
        return (numbers.group(2) or "").strip(), int(numbers.group(1))
    text = row[2:].removesuffix("@@")
    return text.removeprefix(" ").rstrip(), None
