"""Unified diffs as diff and git write them, and as models write them: wrong counts are tolerated."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pegboard.core.errors import Unsupported
from pegboard.core.secrets.clip import clip
from pegboard.textedit.patch import (
    AddFile,
    CopyFile,
    DeleteFile,
    FilePatch,
    Hunk,
    PatchLine,
    Sign,
    UpdateFile,
    bad,
)

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
    sections = _Reader(rows).sections()
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


class _Reader:
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
                f"{clip(self._rows[self._at], 0, 60)!r} is no hunk header",
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
        target = _new_text(section.hunks).strip("\n") or "TARGET"
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
        return AddFile(path=new, text=_new_text(section.hunks), mode=section.mode)
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
    if moved_to is not None and not section.git:
        # Two names in a plain diff are two versions of one file (`f.orig` and `f`, `old/f` and `new/f`).
        inner = moved_to.partition("/")[2]
        same = inner and inner == old.partition("/")[2]
        others = (inner, old) if same else (old,)
        # A version that lies elsewhere (`--- /tmp/f`) is not what is to be changed.
        others = tuple(name for name in others if not name.startswith(("/", "../")))
        return UpdateFile(path=moved_to, hunks=hunks, mode=section.mode, numbered=True, others=others)
    return UpdateFile(
        path=old, hunks=hunks, moved_to=moved_to, mode=section.mode, numbered=True,
        from_start=section.renamed_from is not None,
    )  # fmt: skip


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


def _new_text(hunks: Sequence[Hunk]) -> str:
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
