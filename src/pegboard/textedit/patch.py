"""Patches: many file changes in one text, read from two forms into one model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from pegboard.core.errors import InvalidArguments, Unsupported
from pegboard.core.secrets.clip import clip

Sign: TypeAlias = Literal[" ", "+", "-"]


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a hunk: kept (` `), added (`+`) or removed (`-`).

    Attributes:
        text: without its ending.
        newline: the ending that an added line has, empty where it takes that of its place.
    """

    sign: Sign
    text: str
    newline: Literal["", "\n", "\r\n"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that change together.

    Attributes:
        lines: in order; without their signs they are the old and the new lines.
        seeks: lines to find first, one after the other (`@@ class A:`).
        at_end: the old lines are the last of the file.
        start: 1-based line of the old file as the patch says it, None where it says none.
        bare_end: the new file's last line has no line ending (unified form only).
        row: 1-based line of the patch at which the hunk begins.
    """

    lines: tuple[PatchLine, ...]
    seeks: tuple[str, ...] = ()
    at_end: bool = False
    start: int | None = None
    bare_end: bool = False
    row: int = 0

    @property
    def old(self) -> list[str]:
        """The lines that the file must have."""
        return [line.text for line in self.lines if line.sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that the file has afterwards."""
        return [line.text for line in self.lines if line.sign != "-"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile:
    """A new file; `mode` None = the default permissions."""

    path: str
    text: str
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteFile:
    """A file that goes; where `hunks` are given the file must hold exactly their old lines.

    Attributes:
        others: as in UpdateFile.
    """

    path: str
    hunks: tuple[Hunk, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFile:
    """A file that changes, moves or both.

    Attributes:
        moved_to: the new path, None where it stays.
        hunks: may be empty only for a move or a change of mode.
        mode: permission bits, None = unchanged.
        numbered: unified form: hunks carry line numbers, and say themselves how the file ends.
        from_start: the file is meant as it was before the patch, whatever other parts of the patch do to
            it; git's renames are, so that two files can change names.
        others: further names that the file may have where `path` is not there (`--- f.orig`, `+++ f`).
        makes: the file that the patch makes where none is there (a hunk `-0,0`), None = never.
        removes: the file goes if nothing is left of it (a hunk `+0,0`).
    """

    path: str
    hunks: tuple[Hunk, ...]
    moved_to: str | None = None
    mode: int | None = None
    numbered: bool = False
    from_start: bool = False
    others: tuple[str, ...] = ()
    makes: str | None = None
    removes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFile:
    """A new file `to` that is `path` as it was before the patch, with `hunks` applied; unified form only."""

    path: str
    to: str
    hunks: tuple[Hunk, ...] = ()
    mode: int | None = None


FilePatch: TypeAlias = AddFile | DeleteFile | UpdateFile | CopyFile

BEGIN: Final = "*** Begin Patch"
END: Final = "*** End Patch"


class BadPatch(InvalidArguments):
    """The text is no patch; the message names the line."""


def bad(row: int, why: str, hint: str = "") -> BadPatch:
    """The error for one line of a patch."""
    return BadPatch(f"the patch cannot be read: line {row}: {why}. Nothing was changed.", hint=hint)


def read_patch(text: str) -> tuple[FilePatch, ...]:
    """The file changes of a patch, in order.

    Args:
        text: the Begin/End Patch form, with or without code fence or here-document around
            it, or a unified diff as diff and git write it.

    Raises:
        BadPatch: what is wrong, and in which line.
        Unsupported: a binary patch.
    """
    from pegboard.textedit.patch import read_envelope, read_unified

    rows = text.split("\n")
    begin = next((i for i, row in enumerate(rows) if row.strip() == BEGIN), None)
    if begin is None and re.search(r"(?m)^(diff --git |--- |rename from )", text):
        if any(row.startswith(("diff --git ", "--- ", "+++ ", "@@")) and row.endswith("\r") for row in rows):
            # The whole text came with CRLF, which then says nothing of the files.
            rows = [row.removesuffix("\r") for row in rows]
        patches = read_unified(rows)
    else:
        patches = read_envelope([row.removesuffix("\r") for row in rows], begin)
    if not patches:
        raise BadPatch(
            "the patch changes no file",
            hint="Put at least one Add, Update or Delete File section between the marks.",
        )
    return patches


def paths_of(patches: tuple[FilePatch, ...]) -> list[str]:
    """Every path that the patch names, in order, each once."""
    paths: dict[str, None] = {}
    for patch in patches:
        paths[patch.path] = None
        match patch:
            case UpdateFile():
                paths.update(dict.fromkeys(patch.others))
                if patch.moved_to is not None:
                    paths[patch.moved_to] = None
            case DeleteFile():
                paths.update(dict.fromkeys(patch.others))
            case CopyFile():
                paths[patch.to] = None
            case AddFile():
                pass
    return list(paths)


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
    return _EnvelopeReader(_outdented(rows[:end], begin), begin + 1).files()


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


class _EnvelopeReader:
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
                f"{clip(header, 0, 60)!r} is not a file header",
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


_HUNK: Final = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@| ?\.\.\. ?@@|\s*\Z| )(.*)\Z")
_VERSION: Final = re.compile(r"\d+\.\d+[\w.() -]*\Z")
_NULL: Final = "/dev/null"
_SIGNS: Final = frozenset((" ", "+", "-", ""))
_REMOVED: Final = re.compile(r"-(?! \S)")
"""A removed line that is no item of a list."""
_LINK: Final = 0o12
_SUBMODULE: Final = 0o16
"""Kinds of what git keeps: the bits of a mode above those of permissions."""
_PREFIXES: Final = (("a/", "b/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"), ("b/", "a/"))
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "\\": "\\",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "r": "\r",
}


@dataclass(slots=True)
class _Section:
    """What the header lines of one file say."""

    old: str | None = None
    new: str | None = None
    raw: str = ""
    time: str = ""
    renamed_from: str | None = None
    renamed_to: str | None = None
    copied_from: str | None = None
    copied_to: str | None = None
    git: bool = False
    mode: int | None = None
    created: bool = False
    deleted: bool = False
    hunks: list[Hunk] = field(default_factory=list[Hunk])
    row: int = 0
    special: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The file that it is about, as far as it says so."""
        names = (self.renamed_to, self.new, self.renamed_from, self.old)
        return next((name for name in names if name and name != _NULL), "a file that it does not name")


def read_unified(rows: Sequence[str]) -> tuple[FilePatch, ...]:
    """The file changes of a unified diff; lines of prose between files are skipped.

    Raises:
        BadPatch: a hunk that cannot be read, or one without a file.
        Unsupported: a binary patch, a symbolic link or a submodule.
    """
    sections = _UnifiedReader(rows).sections()
    for section in sections:
        if section.special is not None:
            raise _not_text(section, *section.special)
        section.hunks = _with_endings(section.hunks)
    return tuple(map(_as_patch, sections))


def _with_endings(hunks: list[Hunk]) -> list[Hunk]:
    """The hunks of one file with the CR of their lines as line endings.

    A diff that shows a CR was made of the bytes, so each of its lines has the ending that it shows; one
    without any may be of a file in CRLF whose CRs its author never saw.
    """
    if not any(line.text.endswith("\r") for hunk in hunks for line in hunk.lines):
        return hunks
    return [replace(hunk, lines=tuple(map(_with_ending, hunk.lines))) for hunk in hunks]


def _with_ending(line: PatchLine) -> PatchLine:
    if line.text.endswith("\r"):
        return PatchLine(line.sign, line.text[:-1], "\r\n")
    return PatchLine(line.sign, line.text, "\n")


class _UnifiedReader:
    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows
        self._at = 0

    def sections(self) -> list[_Section]:
        """One for each file, in order."""
        done: list[_Section] = []
        current: _Section | None = None
        while self._at < len(self._rows):
            row = self._rows[self._at]
            if row.startswith("diff --git "):
                current = _Section(row=self._at + 1, git=True)
                current.old, current.new = _git_names(row[len("diff --git ") :])
                done.append(current)
            elif self._file_header():
                if (
                    current is None
                    or current.hunks
                    or not self._rows[current.row - 1].startswith("diff --git ")
                ):
                    current = _Section(row=self._at + 1)
                    done.append(current)
                current.old, current.new = _names(row[4:], self._rows[self._at + 1][4:])
                current.raw = _header_name(row[4:])
                current.time = self._rows[self._at + 1].partition("\t")[2].strip()
                self._at += 1
            elif row.startswith("@@"):
                if current is None:
                    raise bad(
                        self._at + 1,
                        "a hunk stands before any file name",
                        "Begin with '--- a/path' and '+++ b/path'.",
                    )
                current.hunks.append(self._hunk())
                continue
            elif current is not None and not current.hunks:
                _extended(row, current, self._at + 1)
            self._at += 1
        return done

    def _file_header(self) -> bool:
        rows, at = self._rows, self._at
        return rows[at].startswith("--- ") and at + 1 < len(rows) and rows[at + 1].startswith("+++ ")

    def _hunk_follows(self) -> bool:
        return self._file_header() and "".join(self._rows[self._at + 2 : self._at + 3]).startswith("@@")

    def _signature(self) -> bool:
        """Whether the mail's end stands here, as format-patch writes it: `-- ` and git's version."""
        if self._rows[self._at].rstrip() != "--":
            return False
        rest = [row for row in self._rows[self._at + 1 :] if row.strip()]
        return not rest or _VERSION.match(rest[0]) is not None

    def _hunk(self) -> Hunk:
        row = self._at + 1
        header = _HUNK.match(self._rows[self._at])
        if header is None:
            raise bad(
                row,
                f"{clip(self._rows[self._at], 0, 60)!r} is not a hunk header",
                "Write '@@ -line,count +line,count @@'.",
            )
        old_left = _count(header.group(1), header.group(2))
        new_left = _count(header.group(3), header.group(4))
        self._at += 1
        lines: list[PatchLine] = []
        bare: set[Sign] = set()
        while self._at < len(self._rows):
            text = self._rows[self._at]
            # The last removed and added line may look like a header; otherwise what looks like one
            # and is followed by a hunk is one, whatever the counts say.
            counted = (old_left > 0 or new_left > 0) and not (
                self._hunk_follows() and (old_left, new_left) != (1, 1)
            )
            if text.startswith("\\"):
                bare.add(lines[-1].sign if lines else " ")
                self._at += 1
                continue
            left = old_left if counted else 0
            if self._ends(text, counted, left, told=header.group(1) is not None):
                break
            if not text and bare & {"+", " "}:
                break  # behind the file's last line there is no blank one
            sign: Sign = "+" if text[:1] == "+" else "-" if text[:1] == "-" else " "
            lines.append(PatchLine(sign, text if text[:1] not in _SIGNS else text[1:]))
            old_left -= sign != "+"
            new_left -= sign != "-"
            self._at += 1
        start = int(header.group(1)) if header.group(1) else None
        seek = header.group(5).strip() if start is None and header.group(5) else ""
        return Hunk(
            lines=tuple(lines), seeks=(seek,) if seek else (), start=start, row=row,
            bare_end=bool(bare & {"+", " "}),
        )  # fmt: skip

    def _ends(self, text: str, counted: bool, left: int, *, told: bool) -> bool:
        """Whether a line no longer belongs to the hunk. The counts decide only what is ambiguous.

        Raises:
            BadPatch: it is no line of a hunk, and changes come behind it that would be lost.
        """
        if text.startswith(("diff --git ", "@@")):
            return True
        if not counted and (self._file_header() or self._signature()):
            return True
        if not text:
            # A blank context line without its space, unless the counts or the patch say that the hunk is over.
            return not counted or self._at + 1 == len(self._rows)
        if text[0] in _SIGNS:
            return False
        later = self._rest_of_hunk()
        # A context line without its space, unless prose comes behind a hunk that counts too much.
        fits = self._rows[self._at - 1].strip() and 1 + len([row for row in later if row.strip()]) <= left
        if counted and (fits or any(row.startswith(("+", "-")) for row in later)):
            return False
        # Behind the last hunk there may be prose, and a list in it; of a whole hunk only added lines look like none.
        if any(row.startswith("+") or (not told and _REMOVED.match(row)) for row in later):
            raise bad(
                self._at + 1,
                f"{clip(text, 0, 60)!r} begins with none of ' ', '+', '-', and changes come behind it",
                "Begin each context line with a space.",
            )
        return True

    def _rest_of_hunk(self) -> list[str]:
        """The lines behind this one up to the next hunk or file."""
        out: list[str] = []
        for at in range(self._at + 1, len(self._rows)):
            row = self._rows[at]
            following = "".join(self._rows[at + 1 : at + 2])
            if row.startswith(("@@", "diff --git ")) or (
                row.startswith("--- ") and following.startswith("+++ ")
            ):
                break
            out.append(row)
        return out


def _count(start: str | None, count: str | None) -> int:
    return 0 if start is None else 1 if count is None else int(count)


def _extended(row: str, section: _Section, number: int) -> None:
    """One of git's extended header lines."""
    word, _, rest = row.partition(" ")
    if row.startswith("rename from "):
        section.renamed_from = _unquoted(row[12:])
    elif row.startswith("rename to "):
        section.renamed_to = _unquoted(row[10:])
    elif row.startswith("copy from "):
        section.copied_from = _unquoted(row[10:])
    elif row.startswith("copy to "):
        section.copied_to = _unquoted(row[8:])
    elif row.startswith(("new file mode ", "new mode ")):
        section.created = section.created or row.startswith("new file")
        section.mode = _file_mode(row, section, number)
    elif row.startswith(("old mode ", "index ")) and (word == "old" or rest.count(" ") == 1):
        _file_mode(row, section, number)
    elif row.startswith("deleted file mode "):
        section.deleted = True
        _file_mode(row, section, number)
    elif row.startswith("GIT binary patch") or (word == "Binary" and rest.endswith("differ")):
        raise _is_binary(section, number, whole=word == "GIT")


def _file_mode(row: str, section: _Section, number: int) -> int:
    """The permissions at the end of a line; what is no file of text is noted, to be told with its name."""
    text = row.rsplit(" ", 1)[1]
    mode = int(text, 8) if re.fullmatch(r"[0-7]{6}", text) else 0
    if mode >> 12 in (_LINK, _SUBMODULE):
        section.special = section.special or (number, mode >> 12)
    return mode & 0o777


def _is_binary(section: _Section, number: int, *, whole: bool) -> Unsupported:
    name = section.name
    if section.deleted:
        way = f"delete {name} with delete_file"
    elif whole:
        way = "save the patch to a file and run `git apply` on it"
    else:
        way = f"copy the new {name} into its place with a command: the patch does not hold its content"
    return Unsupported(
        f"line {number} of the patch: {name} is binary, and only text can be patched; nothing was changed",
        hint=f"Send the patch without the part about {name}, and {way}.",
    )


def _not_text(section: _Section, number: int, kind: int) -> Unsupported:
    name = section.name
    if kind == _SUBMODULE:
        what, way = "submodule", "set it with `git submodule` or `git -C` in a command"
    elif section.deleted or section.new == _NULL:
        what, way = "symbolic link", f"remove it with `rm {shlex.quote(name)}`"
    else:
        target = new_text(section.hunks).strip("\n") or "TARGET"
        what = "symbolic link"
        way = f"make it with `ln -sfn -- {shlex.quote(clip(target, 0, 200))} {shlex.quote(name)}`"
    return Unsupported(
        f"line {number} of the patch: {name} is a {what}, and only files of text can be patched; nothing was changed",
        hint=f"Send the patch without the part about {name}, and {way}.",
    )


def _as_patch(section: _Section) -> FilePatch:
    if section.copied_from is not None or section.copied_to is not None:
        return _as_copy(section)
    old, new = section.renamed_from or section.old, section.renamed_to or section.new
    if section.created or old == _NULL:
        if new is None or new == _NULL:
            raise bad(section.row, "no file is named")
        return AddFile(path=new, text=new_text(section.hunks), mode=section.mode)
    if old is None:
        raise bad(section.row, "no file is named", "Begin with '--- a/path' and '+++ b/path'.")
    if section.deleted or new == _NULL:
        # Beside /dev/null one name alone does not tell whether `b/` is a prefix or a folder.
        others = tuple(prefix + old for prefix in ("a/", "b/") if section.raw == prefix + old)
        return DeleteFile(path=old, hunks=tuple(section.hunks), others=others)
    moved_to = new if new is not None and new != old else None
    if not section.hunks and moved_to is None and section.mode is None:
        raise bad(section.row, f"the change of {old} has no hunk")
    _check_hunks(section.hunks)
    hunks = tuple(section.hunks)
    makes = new if len(hunks) == 1 and hunks[0].start == 0 and not hunks[0].old else None
    # git says `deleted file mode`; diff writes the epoch as the time of a file that is not there.
    removes = not section.git and not any(hunk.new for hunk in hunks) and _is_epoch(section.time)
    if moved_to is not None and not section.git:
        # Two names in a plain diff are two versions of one file (`f.orig` and `f`, `old/f` and `new/f`).
        inner = moved_to.partition("/")[2]
        same = inner and inner == old.partition("/")[2]
        others = (inner, old) if same else (old,)
        # A version that lies elsewhere (`--- /tmp/f`) is not what is to be changed.
        others = tuple(name for name in others if not name.startswith(("/", "../")))
        if makes is not None and inner in others:
            makes = inner
        return UpdateFile(
            path=moved_to,
            hunks=hunks,
            mode=section.mode,
            numbered=True,
            others=others,
            makes=makes,
            removes=removes,
        )
    return UpdateFile(
        path=old, hunks=hunks, moved_to=moved_to, mode=section.mode, numbered=True,
        from_start=section.renamed_from is not None, makes=makes, removes=removes,
    )  # fmt: skip


def _is_epoch(time: str) -> bool:
    """Whether a header's time is 1970-01-01 00:00 UTC, in any zone; so is one that is not written."""
    found = re.match(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.0+)?(?: ([-+]\d{4}))?\Z", time)
    if found is None:
        return not time
    written = f"{found[1]} {found[2] or '+0000'}"
    try:
        return datetime.strptime(written, "%Y-%m-%d %H:%M:%S %z").timestamp() == 0
    except ValueError:
        return False


def _as_copy(section: _Section) -> CopyFile:
    if section.copied_from is None or section.copied_to is None:
        raise bad(section.row, "a copy needs both 'copy from' and 'copy to'")
    _check_hunks(section.hunks)
    return CopyFile(
        path=section.copied_from, to=section.copied_to, hunks=tuple(section.hunks), mode=section.mode
    )


def _check_hunks(hunks: Sequence[Hunk]) -> None:
    for hunk in hunks:
        if all(line.sign == " " for line in hunk.lines):
            raise bad(hunk.row, "the hunk changes nothing")


def new_text(hunks: Sequence[Hunk]) -> str:
    lines = [line for hunk in hunks for line in hunk.lines if line.sign != "-"]
    text = "".join(line.text + (line.newline or "\n") for line in lines)
    return text[:-1] if hunks and hunks[-1].bare_end and text else text


def _names(old: str, new: str) -> tuple[str, str]:
    """The two paths of `---` and `+++`, without git's prefixes where both have them."""
    return _without_prefixes(_header_name(old), _header_name(new))


def _without_prefixes(left: str, right: str) -> tuple[str, str]:
    for one, two in _PREFIXES:
        if (left == _NULL or left.startswith(one)) and (right == _NULL or right.startswith(two)):
            return (left if left == _NULL else left[2:]), (right if right == _NULL else right[2:])
    return left, right


def _header_name(text: str) -> str:
    """The name of a `---` or `+++` line; git puts a tab behind one that holds spaces, diff one and a date."""
    name, tab, _ = text.partition("\t")
    return _unquoted(name if tab else name.rstrip())


def _git_names(rest: str) -> tuple[str | None, str | None]:
    """The paths of a `diff --git` line, where they can be told apart (equal but for the prefix)."""
    quoted = re.match(r'("(?:[^"\\]|\\.)*")\s+("(?:[^"\\]|\\.)*")\Z', rest)
    if quoted:
        return _without_prefixes(_unquoted(quoted.group(1)), _unquoted(quoted.group(2)))
    half = len(rest) // 2
    if len(rest) % 2 and rest[half] == " " and rest[2:half] == rest[half + 3 :]:
        return _without_prefixes(rest[:half], rest[half + 1 :])
    return None, None


def _unquoted(name: str) -> str:
    """A path as git quotes it: C escapes, octal bytes."""
    if not (len(name) >= 2 and name[0] == name[-1] == '"'):
        return name
    raw = re.sub(
        r"\\([0-7]{3}|.)",
        lambda m: (
            chr(int(m.group(1), 8) & 0xFF) if len(m.group(1)) == 3 else _ESCAPES.get(m.group(1), m.group(1))
        ),
        name[1:-1].encode("utf-8").decode("latin-1"),
    )
    return raw.encode("latin-1").decode("utf-8", "surrogateescape")
