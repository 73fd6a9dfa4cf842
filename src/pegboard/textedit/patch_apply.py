"""Applying a patch: every file computed first, then all of them wanted or none."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from pegboard.core.errors import Conflict, NotFound, NotUnique, ToolError
from pegboard.ports.files import Delete, Move, Wanted, Write
from pegboard.textedit import style
from pegboard.textedit.closest import closest
from pegboard.textedit.encoding import as_before, decode
from pegboard.textedit.match import AlreadyApplied
from pegboard.textedit.patch import (
    AddFile,
    CopyFile,
    DeleteFile,
    FilePatch,
    Hunk,
    PatchLine,
    UpdateFile,
    new_text,
    read_patch,
)
from pegboard.textedit.redaction_marks import REDACTION_MARK, around_line, marks_in, refuse_marks
from pegboard.textedit.style import Reindent, UnclearStyle, name_lines, rewrite

Level: TypeAlias = Literal["exact", "trimmed", "normalized", "hidden"]

_KEYS: Final[dict[Level, Callable[[str], list[str]]]] = {
    "exact": lambda text: [line.removesuffix("\r") for line in text.split("\n")],
    "trimmed": style.trimmed_keys,
    "normalized": style.loose_keys,
}
_MAX_FUZZ: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HunkPosition:
    """Where a hunk goes.

    Attributes:
        line: 0-based index of the first old line, or where lines are put in.
        level: how the old lines were compared.
        head, tail: context lines of the hunk that were left out to find it (fuzz).
        size: how many lines of the file it covers.
    """

    line: int
    level: Level = "exact"
    head: int = 0
    tail: int = 0
    size: int = 0


class Locator:
    """Finds the hunks of one file, in order; `bodies` are its lines without endings."""

    def __init__(self, bodies: Sequence[str], path: str, *, first_match: bool = False) -> None:
        self._bodies = bodies
        self._text = "\n".join(bodies)
        self._path = path
        self._first_match = first_match
        self._hay: dict[Level, str] = {}
        self._taken: list[tuple[int, int]] = []
        self._cursor = 0
        self._shift = 0

    def place(self, hunk: Hunk, number: int, twins: int) -> HunkPosition:
        """Where the hunk goes.

        Args:
            hunk: what to place.
            number: its 1-based number, for messages.
            twins: how many hunks with the same old lines follow, this one counted.

        Raises:
            NotFound: the old lines or a seek line are not there; the closest place is shown.
            NotUnique: they are there several times and nothing says which is meant.
            AlreadyApplied: the new lines are there instead.
        """
        cursor, sought = self._seek(hunk, number)
        old = hunk.old
        if not old:
            place = self._addition(hunk, cursor if sought else None)
        else:
            place = self._match(hunk, old, cursor, sought, number, twins)
        if hunk.start is not None and old:
            self._shift = place.line - (hunk.start - 1)
        self._taken.append((place.line, place.line + place.size))
        self._cursor = place.line + place.size
        return place

    def _addition(self, hunk: Hunk, cursor: int | None) -> HunkPosition:
        if cursor is not None and not hunk.at_end:
            return HunkPosition(line=cursor)
        if hunk.start is not None and not hunk.at_end:
            return HunkPosition(line=min(len(self._bodies), max(0, hunk.start)))
        return HunkPosition(line=len(self._bodies))

    def _seek(self, hunk: Hunk, number: int) -> tuple[int, bool]:
        """The line behind the last seek line; the hunk may also begin with the seek line itself."""
        cursor = self._cursor
        for seek in hunk.seeks:
            at = self._find_seek(seek, cursor)
            if at is None and hunk.start is not None:
                # The text behind `@@ -l,c +l,c @@` is decoration that diff wrote, not an instruction.
                return self._cursor, False
            if at is None:
                after = f" after line {cursor}" if cursor else ""
                raise self._missing(f"hunk {number}: no line {seek!r}{after}", seek)
            cursor = at + 1
        return cursor, bool(hunk.seeks) and hunk.start is None

    def _find_seek(self, seek: str, cursor: int) -> int | None:
        for level in ("exact", "trimmed", "normalized"):
            found = self._all([seek], level)
            later = [at for at in found if at >= cursor]
            if later:
                return later[0]
            if len(found) == 1:
                return found[0]
        wanted = seek.strip()
        begins = [
            at for at, body in enumerate(self._bodies) if body.strip().startswith(wanted) and at >= cursor
        ]
        return begins[0] if begins and wanted else None

    def _match(
        self, hunk: Hunk, old: list[str], cursor: int, sought: bool, number: int, twins: int
    ) -> HunkPosition:
        size = len(old)
        while True:
            for level in ("exact", "trimmed", "normalized", "hidden"):
                places = self._free(self._all(old[:size], level), size)
                if hunk.at_end:
                    places = [at for at in places if at + size == len(self._bodies)]
                if places:
                    line = self._pick(places, hunk, cursor, sought, number, twins)
                    return HunkPosition(line=line, level=level, size=size, tail=len(old) - size)
            # Blank lines at the end of a hunk are mostly there by accident.
            if size > 1 and not old[size - 1].strip() and self._blank_tail(hunk, len(old) - size + 1):
                size -= 1
                continue
            break
        fuzzy = self._fuzzy(hunk, old) if hunk.start is not None else None
        if fuzzy is not None:
            return fuzzy
        self._refuse_again(hunk, number)
        end = " at the end of the file" if hunk.at_end else ""
        raise self._missing(f"hunk {number} does not fit{end}; expected {old[0]!r}", "\n".join(old))

    def _refuse_again(self, hunk: Hunk, number: int) -> None:
        """Say so where a hunk that does not fit was made already; one that only removes proves nothing."""
        if not any(c.isalnum() for line in hunk.lines if line.sign == "+" for c in line.text):
            return
        made = self._all(hunk.new, "exact") or self._all(hunk.new, "trimmed")
        if made:
            raise AlreadyApplied(
                f"{self._path}: hunk {number} does not fit, but what it makes of these lines already stands at "
                f"line {made[0] + 1}. Nothing was changed.",
                hint="The patch, or this part of it, seems to be applied already: leave out what is done.",
                details={"path": self._path, "hunk": number, "line": made[0] + 1},
            )

    def _blank_tail(self, hunk: Hunk, count: int) -> bool:
        return all(line.sign == " " and not line.text.strip() for line in hunk.lines[-count:])

    def _pick(self, places: list[int], hunk: Hunk, cursor: int, sought: bool, number: int, twins: int) -> int:
        if hunk.start is not None:
            expected = hunk.start - 1 + self._shift
            return min(places, key=lambda at: (abs(at - expected), at))
        later = [at for at in places if at >= cursor] or (
            [cursor - 1] if sought and cursor - 1 in places else []
        )
        if later and (sought or self._first_match or len(later) in (1, twins)):
            return later[0]
        candidates = later or places
        if len(candidates) == 1:
            return candidates[0]
        lines = [at + 1 for at in candidates]
        raise NotUnique(
            f"{self._path}: hunk {number} fits in {len(lines)} places ({name_lines(lines)}): ambiguous."
            " Nothing was changed.",
            hint="Add more context lines, or a line '@@ …' with the line that it stands under.",
            details={"path": self._path, "hunk": number, "lines": lines[:100]},
        )

    def _fuzzy(self, hunk: Hunk, old: list[str]) -> HunkPosition | None:
        """GNU patch's way: leave out up to two lines of context at the ends, where that is unique."""
        lead = next((i for i, line in enumerate(hunk.lines) if line.sign != " "), 0)
        trail = next((i for i, line in enumerate(reversed(hunk.lines)) if line.sign != " "), 0)
        for fuzz in range(1, _MAX_FUZZ + 1):
            head, tail = min(fuzz, lead), min(fuzz, trail)
            part = old[head : len(old) - tail]
            if not any(line.strip() for line in part):
                return None
            for level in ("exact", "trimmed"):
                places = self._free(self._all(part, level), len(part))
                if len(places) == 1:
                    return HunkPosition(line=places[0], level=level, head=head, tail=tail, size=len(part))
        return None

    def _free(self, places: list[int], size: int) -> list[int]:
        return [at for at in places if all(at + size <= a or at >= b for a, b in self._taken)]

    def _all(self, old: Sequence[str], level: Level) -> list[int]:
        """Every 0-based line at which these lines stand."""
        if level == "hidden":
            return self._hidden(old)
        keys = _KEYS[level]("\n".join(old))
        if level != "exact" and not any(keys):
            return []
        hay = self._hay.get(level)
        if hay is None:
            hay = self._hay[level] = "\n" + "\n".join(_KEYS[level](self._text)) + "\n"
        needle = "\n" + "\n".join(keys) + "\n"
        found: list[int] = []
        at, line, done = hay.find(needle), 0, 0
        while at >= 0 and self._bodies:
            line += hay.count("\n", done, at)
            done = at
            found.append(line)
            at = hay.find(needle, at + 1)
        return found

    def _hidden(self, old: Sequence[str]) -> list[int]:
        """Lines with redaction marks, each mark standing for hidden text of one line."""
        if not any(REDACTION_MARK.search(line) for line in old):
            return []
        last = len(self._bodies) - len(old)
        return [
            at
            for at in range(last + 1)
            if all(around_line(self._bodies[at + k], line) is not None for k, line in enumerate(old))
        ]

    def _missing(self, what: str, old: str) -> ToolError:
        near = closest(self._text, old, self._path)
        shown = f"\nThe closest text begins at line {near.line}:\n{near.diff}\n{near.note}" if near else ""
        return NotFound(
            f"{self._path}: {what}. Nothing was changed.{shown}",
            hint="Read the file and copy its lines exactly.",
            details={"path": self._path, "line": near.line if near else None},
        )


def update(data: bytes, patch: UpdateFile, *, first_match: bool = False) -> tuple[bytes, list[str]]:
    """One file's bytes after all its hunks, and notes on what did not fit exactly.

    Lines that the patch keeps stay byte for byte; added lines take the line ending of
    their place. A line that the Begin/End form puts last gets a line ending.

    Raises:
        NotText: the file is binary.
        NotFound, NotUnique, InvalidArguments: see `apply_patch`.
    """
    decoded = decode(data)
    # A patch that shows a CR within a line takes it for a character, as git does.
    mac = decoded.newline == "\r" and not any("\r" in line for hunk in patch.hunks for line in hunk.old)
    text = decoded.text.replace("\r", "\n") if mac else decoded.text
    lines = _split(text)
    locator = Locator([body for body, _ in lines], patch.path, first_match=first_match)
    notes: list[str] = []
    placed: list[tuple[HunkPosition, Hunk]] = []
    for number, hunk in enumerate(patch.hunks, 1):
        twins = sum(other.old == hunk.old and not other.seeks for other in patch.hunks[number - 1 :])
        place = locator.place(hunk, number, twins)
        placed.append((place, hunk))
        if place.level != "exact" or place.head or place.tail:
            notes.append(f"{patch.path}: hunk {number} was placed at line {place.line + 1} {_how(place)}")
    out: list[tuple[str, str]] = []
    done = 0
    default = "\r\n" if decoded.newline == "\r\n" else "\n"
    for place, hunk in sorted(placed, key=lambda pair: pair[0].line):
        out += lines[done : place.line]
        before = out[-1][1] if out else ""
        out += _changed(
            lines[place.line : place.line + place.size], hunk, place, before or default, patch, text
        )
        done = place.line + place.size
    out += lines[done:]
    joined = _join(out, default)
    return decoded.encode(joined.replace("\n", "\r") if mac else joined), notes


def _how(place: HunkPosition) -> str:
    if place.head or place.tail:
        return f"leaving out {max(place.head, place.tail)} context lines"
    return {
        "trimmed": "ignoring indentation and trailing spaces",
        "normalized": "ignoring quote style and kinds of spaces",
        "hidden": "around hidden text, which was kept",
    }.get(place.level, "")


def _split(text: str) -> list[tuple[str, str]]:
    """Lines as (body, ending); the ending of the last is empty where it has none."""
    parts = text.split("\n")
    lines = [(p[:-1], "\r\n") if p.endswith("\r") else (p, "\n") for p in parts[:-1]]
    return [*lines, (parts[-1], "")] if parts[-1] else lines


def _join(lines: Sequence[tuple[str, str]], default: str) -> str:
    last = len(lines) - 1
    return "".join(
        body + (ending or ("" if i == last else default)) for i, (body, ending) in enumerate(lines)
    )


def _changed(
    found: Sequence[tuple[str, str]],
    hunk: Hunk,
    place: HunkPosition,
    newline: str,
    patch: UpdateFile,
    text: str,
) -> list[tuple[str, str]]:
    """The lines that stand in place of those that the hunk covers."""
    kept = hunk.lines[place.head : len(hunk.lines) - place.tail]
    old = [line.text for line in kept if line.sign != "+"]
    bodies = [body for body, _ in found]
    hidden = _hidden_texts(old, bodies) if place.level == "hidden" else {}
    reindent = None
    if place.level in ("trimmed", "normalized"):
        kept = _in_file_style(kept, "\n".join(bodies), text)
        old = [line.text for line in kept if line.sign != "+"]
        reindent = Reindent(old, bodies, [line.text for line in kept], text)
    out: list[tuple[str, str]] = []
    index = 0
    for removed, added, added_ends, line in _runs(kept):
        newline = found[index][1] or newline if index < len(found) else newline
        if line is not None:
            out.append(found[index])
            index += 1
            continue
        new = added
        if reindent is not None:
            try:
                new = rewrite(bodies[index : index + len(removed)], removed, added, reindent, style.loose)
            except UnclearStyle:
                raise NotFound(
                    f"{patch.path} has the lines of a hunk at line {place.line + 1}, but at depths that do not fit the patch's",
                    hint="Read those lines again and send the patch with their indentation.",
                ) from None
        ends = added_ends if len(added_ends) == len(new) else [""] * len(new)
        out += [
            (_unhidden(body, hidden, text, patch.path), end or newline)
            for body, end in zip(new, ends, strict=True)
        ]
        index += len(removed)
    if patch.numbered and hunk.bare_end and not place.tail and out:
        # A CR that no LF follows is a character of the last line.
        shown = next((line.newline for line in reversed(kept) if line.sign != "-"), "")
        out[-1] = (out[-1][0].removesuffix("\r") + ("\r" if shown == "\r\n" else ""), "")
    return out


def _in_file_style(lines: Sequence[PatchLine], found: str, text: str) -> list[PatchLine]:
    """The lines of a hunk without the habits of its writer (see `style.file_style`)."""
    old = "\n".join(line.text for line in lines if line.sign != "+")
    whole = "\n".join(line.text for line in lines)
    styled = style.file_style(found, old, whole, text)[1].split("\n")
    return [replace(line, text=body) for line, body in zip(lines, styled, strict=True)]


_Run: TypeAlias = tuple[list[str], list[str], list[str], PatchLine | None]


def _runs(lines: Sequence[PatchLine]) -> list[_Run]:
    """The hunk as kept lines and as runs of removed and added ones, these with their endings."""
    runs: list[_Run] = []
    removed: list[str] = []
    added: list[str] = []
    ends: list[str] = []
    for line in lines:
        # A removal after an addition begins a new run, else lines would change places.
        if (line.sign == " " or (line.sign == "-" and added)) and (removed or added):
            runs.append((removed, added, ends, None))
            removed, added, ends = [], [], []
        match line.sign:
            case " ":
                runs.append(([], [], [], line))
            case "-":
                removed.append(line.text)
            case "+":
                added.append(line.text)
                ends.append(line.newline)
    return [*runs, (removed, added, ends, None)] if removed or added else runs


def _hidden_texts(old: Sequence[str], bodies: Sequence[str]) -> dict[str, str]:
    """What each mark of the old lines hides in the file; a mark that hides two things hides nothing."""
    hidden: dict[str, str] = {}
    doubtful: set[str] = set()
    for line, body in zip(old, bodies, strict=True):
        for mark, secret in zip(marks_in(line), around_line(body, line) or (), strict=True):
            if hidden.setdefault(mark, secret) != secret:
                doubtful.add(mark)
    return {mark: secret for mark, secret in hidden.items() if mark not in doubtful}


def _unhidden(body: str, hidden: dict[str, str], text: str, path: str) -> str:
    for mark in marks_in(body):
        if mark in hidden:
            body = body.replace(mark, hidden[mark])
        else:
            refuse_marks(body, text, path)
    return body


Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchRules:
    """What a patch may do beyond the safe.

    Attributes:
        overwrite: adding or moving onto a file that is there replaces it.
        first_match: of several fitting places the first is meant.
        partial: what comes before a failing file counts.
    """

    overwrite: bool = False
    first_match: bool = False
    partial: bool = False


STRICT: Final = PatchRules()
"""All or none, nothing replaced unsaid, no place chosen by chance."""

CODEX: Final = PatchRules(overwrite=True, first_match=True, partial=True)
"""As the program that the Begin/End form comes from does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchResult:
    """What a patch makes of the files.

    Attributes:
        wanted: the changes, for `Files.propose`.
        summary: one line a file as git names it: `A path`, `M path`, `D path`, `R path -> path`,
            `C path -> path`.
        targets: for each of these lines the file whose content it is about, as `wanted` names it.
        notes: what did not fit exactly, one sentence each.
        replaced: files that the patch adds or moves something onto; only with `PatchRules.overwrite`.
        error: only with `PatchRules.partial`: why the rest was not done.
    """

    wanted: tuple[Wanted, ...]
    summary: tuple[str, ...]
    targets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    error: ToolError | None = None


def apply_patch(text: str, read: Read, *, rules: PatchRules = STRICT) -> PatchResult:
    """The changes that a patch stands for; changes nothing itself.

    Args:
        text: the patch, see `read_patch`.
        read: the bytes of a file, None where there is none.
        rules: what is allowed.

    Raises:
        BadPatch: the text is no patch.
        NotFound: a file or the lines of a hunk are not there.
        NotUnique: a hunk fits in several places.
        Conflict: a file to add, or the target of a move, exists.
        InvalidArguments: the new text holds a redaction mark.
    """
    return apply_files(read_patch(text), read, rules=rules)


def apply_files(patches: Sequence[FilePatch], read: Read, *, rules: PatchRules = STRICT) -> PatchResult:
    """As `apply_patch`, from a patch that was read already."""
    tree = _Tree(read, rules, _leaving(patches))
    error: ToolError | None = None
    for patch in patches:
        try:
            tree.apply(patch)
        except ToolError as failed:
            if not rules.partial or not tree.summary:
                raise
            error = failed
            break
    return PatchResult(
        wanted=tree.wanted(), summary=tuple(tree.summary), targets=tuple(tree.summary.values()),
        notes=tuple(tree.notes), replaced=tuple(tree.replaced), error=error,
    )  # fmt: skip


def _leaving(patches: Sequence[FilePatch]) -> frozenset[str]:
    """Files that git's renames take away, and so make room at their names for others."""
    return frozenset(
        posixpath.normpath(patch.path)
        for patch in patches
        if isinstance(patch, UpdateFile) and patch.from_start and patch.moved_to is not None
    )


class _Tree:
    """The files as the patch leaves them so far; nothing outside is touched."""

    def __init__(self, read: Read, rules: PatchRules, leaving: frozenset[str]) -> None:
        self._read = read
        self._rules = rules
        self._leaving = leaving
        self._before: dict[str, bytes | None] = {}
        self._after: dict[str, bytes | None] = {}
        self._modes: dict[str, int] = {}
        self._moves: dict[str, str] = {}
        self._copies: dict[str, str] = {}
        self._arrived: set[str] = set()
        self.replaced: list[str] = []
        self.summary: dict[str, str] = {}
        self.notes: list[str] = []

    def apply(self, patch: FilePatch) -> None:
        """Do one file's change."""
        match patch:
            case AddFile():
                self._add(patch)
            case DeleteFile():
                self._delete(patch)
            case UpdateFile():
                self._update(patch)
            case CopyFile():
                self._copy(patch)

    def wanted(self) -> tuple[Wanted, ...]:
        """What differs from before: moves that are only that as moves, the rest as writes and deletes."""
        out: list[Wanted] = []
        moved = {
            source: to
            for source, to in self._moves.items()
            if self._after[source] is None and self._before[source] is not None
            and self._before[to] is None and self._after[to] is not None and to not in self._modes
        }  # fmt: skip
        for source, to in moved.items():
            data = self._after[to]
            out.append(Move(path=source, to=to, data=None if data == self._before[source] else data))
        for path, after in self._after.items():
            before = self._before[path]
            if path in moved or path in moved.values():
                continue
            if after is None:
                if before is not None:
                    out.append(Delete(path=path))
            elif after != before or path in self._modes:
                digest = None if before is None else hashlib.sha256(before).hexdigest()
                out.append(
                    Write(
                        path=path, data=after, mode=self._modes.get(path), expected_sha256=digest,
                        like=self._copies.get(path),
                    )
                )  # fmt: skip
        return tuple(out)

    def _get(self, path: str) -> tuple[str, bytes | None]:
        key = posixpath.normpath(path)
        if key not in self._before:
            self._before[key] = self._after[key] = self._read(path)
        return key, self._after[key]

    def _there(self, path: str, others: Sequence[str]) -> str:
        """The first of a file's possible names that is there, else `path`."""
        return next((one for one in (path, *others) if self._get(one)[1] is not None), path)

    def _existing(self, path: str, verb: str, *, from_start: bool = False) -> tuple[str, bytes]:
        key, data = self._get(path)
        if from_start:
            data = self._before[key]
        if data is None:
            raise NotFound(
                f"File not found: {path}, which the patch would {verb}. Nothing was changed.",
                hint="Check the path, or add the file with '*** Add File:'.",
                details={"path": path},
            )
        return key, data

    def _free(self, path: str, verb: str) -> str:
        key, data = self._get(path)
        if data is None or (key in self._leaving and key not in self._arrived):
            return key
        if not self._rules.overwrite:
            raise Conflict(
                f"{path} exists already, so the patch cannot {verb} it. Nothing was changed.",
                hint="Update it, delete it first in the same patch, or set overwrite.",
                details={"path": path},
            )
        if self._before[key] is not None:
            self.replaced.append(path)
        return key

    def _said(self, line: str, target: str) -> None:
        """Note one line of the summary; what is replaced is never left unsaid."""
        key = posixpath.normpath(target)
        was = self._before[key]
        if was is not None and target in self.replaced:
            line += f" (replacing the file that was there, {len(was)} bytes)"
        self.summary[line] = key

    def _add(self, patch: AddFile) -> None:
        refuse_marks(patch.text, "", patch.path)
        key = self._free(patch.path, "add")
        self._after[key], kept = as_before(patch.text, self._before[key] or b"")
        if kept:
            self.notes.append(f"{patch.path}: {kept}.")
        if patch.mode is not None:
            self._modes[key] = patch.mode
        self._said(f"A {patch.path}", patch.path)

    def _delete(self, patch: DeleteFile) -> None:
        key, data = self._existing(self._there(patch.path, patch.others), "delete")
        if patch.hunks and _old_text(patch.hunks) != decode(data).text.replace("\r\n", "\n").rstrip("\n"):
            raise Conflict(
                f"{patch.path} is not what the patch deletes: its content differs. Nothing was changed.",
                hint="Read the file; delete it by path if that is meant.",
                details={"path": patch.path},
            )
        self._after[key] = None
        self.summary[f"D {patch.path}"] = key

    def _update(self, patch: UpdateFile) -> None:
        path = self._there(patch.path, patch.others)
        if patch.makes is not None and self._get(path)[1] is None:
            self._add(AddFile(path=patch.makes, text=new_text(patch.hunks), mode=patch.mode))
            return
        key, data = self._existing(path, "update", from_start=patch.from_start)
        after = data
        if patch.hunks:
            after, notes = update(data, patch, first_match=self._rules.first_match)
            self.notes += notes
        if patch.removes and not after:
            self._after[key] = None
            self.summary[f"D {path}"] = key
            return
        target = key
        if patch.moved_to is not None and posixpath.normpath(patch.moved_to) != key:
            target = self._free(patch.moved_to, "move a file onto")
            if not (patch.from_start and key in self._arrived):
                self._after[key] = None
            self._moves[key] = target
            self._arrived.add(target)
            self._said(f"R {path} -> {patch.moved_to}", patch.moved_to)
        else:
            self.summary[f"M {path}"] = key
        self._after[target] = after
        if patch.mode is not None:
            self._modes[target] = patch.mode

    def _copy(self, patch: CopyFile) -> None:
        key, data = self._existing(patch.path, "copy", from_start=True)
        target = self._free(patch.to, "copy a file onto")
        if patch.hunks:
            change = UpdateFile(path=patch.path, hunks=patch.hunks, numbered=True)
            data, notes = update(data, change, first_match=self._rules.first_match)
            self.notes += notes
        self._after[target] = data
        self._arrived.add(target)
        if patch.mode is not None:
            self._modes[target] = patch.mode
        elif self._before[target] is None:
            self._copies[target] = key
        self._said(f"C {patch.path} -> {patch.to}", patch.to)


def _old_text(hunks: Sequence[Hunk]) -> str:
    return "\n".join(line for hunk in hunks for line in hunk.old).rstrip("\n")
