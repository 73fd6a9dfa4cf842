"""Where a hunk belongs in a file: exactly, then ever looser, never in one of several places by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pegboard.core.errors import NotFound, NotUnique, ToolError
from pegboard.textedit import view
from pegboard.textedit.closest import closest
from pegboard.textedit.lines import name_lines
from pegboard.textedit.no_match import AlreadyApplied
from pegboard.textedit.patch import Hunk
from pegboard.textedit.redaction_marks import REDACTION_MARK, around_line

Level: TypeAlias = Literal["exact", "trimmed", "normalized", "hidden"]

_KEYS: Final[dict[Level, Callable[[str], list[str]]]] = {
    "exact": lambda text: [line.removesuffix("\r") for line in text.split("\n")],
    "trimmed": view.trimmed_keys,
    "normalized": view.loose_keys,
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
