"""What judging a command has found so far: effects in order, the strictest verdict, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pegboard.core.effects import Effect, EffectKind, Verdict
from pegboard.shell.guard.operands import HOLE, Operand, OperandResolver, PathZone, fits_protected

_MAX_EFFECTS: Final = 400
_RANK: Final[dict[Verdict, int]] = {"allow": 0, "ask": 1, "deny": 2}


UNKNOWN: Final = "?"
"""Marks an effect whose meaning the words alone do not tell; `judge` binds it to the whole command."""


class TooMuch(Exception):
    """Judging stops here; the command asks. Never leaves the guard."""


@dataclass(slots=True)
class Findings:
    """Collects; `ask` and `deny` speak of the segment at hand, paths and hosts for themselves."""

    places: OperandResolver
    effects: list[Effect] = field(default_factory=list[Effect])
    decision: Verdict = "allow"
    reason: str = ""
    verdict: Verdict = "allow"
    why: str = ""
    wrote: bool = False
    decisive: tuple[str, ...] = ()

    def open_segment(self) -> tuple[Verdict, str, bool, tuple[str, ...]]:
        """Open a segment; returns what was known of the one at hand, for `resume`."""
        kept = self.verdict, self.why, self.wrote, self.decisive
        self.verdict, self.why, self.wrote, self.decisive = "allow", "", False, ()
        return kept

    def resume(self, kept: tuple[Verdict, str, bool, tuple[str, ...]]) -> None:
        """Go on with the segment that `fresh` left."""
        self.verdict, self.why, self.wrote, self.decisive = kept

    def ask(self, reason: str) -> None:
        """The segment at hand needs a person's yes."""
        self._raise("ask", reason)

    def deny(self, reason: str) -> None:
        """The segment at hand must not run."""
        self._raise("deny", reason)

    def _raise(self, verdict: Verdict, reason: str) -> None:
        if _RANK[verdict] > _RANK[self.verdict]:
            self.verdict, self.why = verdict, reason
        self._decide(verdict, reason)

    def _decide(self, verdict: Verdict, reason: str) -> None:
        if _RANK[verdict] > _RANK[self.decision]:
            self.decision, self.reason = verdict, reason

    def ask_unless_known(self, word: str, reason: str) -> None:
        """The segment needs a yes, for `word` makes it run something else than its program's name says."""
        self.ask(reason)
        if word not in self.decisive:
            self.decisive = (*self.decisive, word)

    def close_segment(
        self, text: str, argv: tuple[str, ...] | None, *, read_only: bool, known: bool = True
    ) -> None:
        """Close the segment at hand as one `exec` effect; `known`: its words have no value yet to come."""
        self._add(
            Effect("exec", text, argv=argv, read_only=read_only and self.verdict == "allow",
                   at_least=self.verdict, reason=self.why, decisive=self.decisive,
                   bound="" if known and argv is not None else UNKNOWN)
        )  # fmt: skip

    def _add(self, effect: Effect) -> None:
        if len(self.effects) < _MAX_EFFECTS:
            self.effects.append(effect)
        else:
            self._decide("ask", f"the command has more than {_MAX_EFFECTS} effects")
            raise TooMuch

    def _path(self, kind: EffectKind, place: Operand, verdict: Verdict, reason: str) -> None:
        effect = Effect(
            kind,
            place.target,
            at_least=verdict,
            reason=reason if verdict != "allow" else "",
            bound=UNKNOWN if "…" in place.target else "",
        )
        if effect not in self.effects:
            self._add(effect)
        self._decide(verdict, reason)

    def read(self, text: str, cwd: str | None, *, glob: bool = False, plain: bool = True) -> None:
        """A file or folder is read. `plain` False: only noted where it matters (a doubtful operand)."""
        place = self.places.resolve(text, cwd, glob=glob)
        kind = place.kind
        if kind is PathZone.SECRET:
            verdict: Verdict = "ask" if not place.target.startswith("/") else "deny"
            self._path("read", place, verdict, f"{place.target} is a file of secrets")
        elif kind is PathZone.NETWORK:
            self._path("connect", place, "deny", f"{place.target} opens a network connection")
        elif kind in _READ_ASKS and not (kind is PathZone.ABOVE and not plain):
            self._path("read", place, "ask", f"reads {place.target}, {kind.value}")
        elif plain and kind is not PathZone.HARMLESS:
            self._path("read", place, "allow", "")

    def write(self, text: str, cwd: str | None, *, glob: bool = False) -> None:
        """A file is created or changed."""
        place = self.places.resolve(text, cwd, glob=glob)
        kind = _changed(place, glob)
        if kind is PathZone.HARMLESS:
            return
        self.wrote = True
        if kind is PathZone.NETWORK:
            self._path("connect", place, "deny", f"{place.target} opens a network connection")
        elif kind in _WRITE_DENIES or (kind is PathZone.SECRET and place.target.startswith("/")):
            self._path("write", place, "deny", f"writes {place.target}, {kind.value}")
        elif kind is PathZone.OUTSIDE:
            start_up = self._starts_something(place.target)
            self._path(
                "write",
                place,
                "deny" if start_up else "ask",
                f"writes {place.target}, {start_up or kind.value}",
            )
        elif kind is PathZone.PROTECTED or kind is PathZone.HOME or kind is PathZone.ABOVE:
            self._path("write", place, "ask", f"writes {place.target}, {kind.value}")
        elif kind is PathZone.UNKNOWN and (text == HOLE or text.startswith((HOLE + "/", "~"))):
            self._path("write", place, "ask", "writes to a path that is not known before it runs")
        else:
            self._path("write", place, "allow", "")

    def delete(self, text: str, cwd: str | None, *, glob: bool = False, recursive: bool = False) -> None:
        """A file, or with `recursive` a whole tree, is removed."""
        place = self.places.resolve(text, cwd, glob=glob, follow=text.endswith("/"))
        kind = _changed(place, glob)
        self.wrote = True
        if kind in _DELETE_DENIES or (kind is PathZone.SECRET and place.target.startswith("/")):
            self._path("delete", place, "deny", f"deletes {place.target}, {kind.value}")
        elif kind in (PathZone.WORKSPACE, PathZone.PROTECTED, PathZone.OUTSIDE, PathZone.UNKNOWN):
            self._path("delete", place, "ask", f"deletes {place.target}, {kind.value}")
        elif place.target.split("/")[0] == "…":
            self._path("delete", place, "ask", "deletes what is not known before it runs")
        elif kind is not PathZone.HARMLESS:
            self._path("delete", place, "allow", "")

    def connect(self, host: str, reason: str = "", verdict: Verdict = "ask") -> None:
        """A host is reached; the sandbox has no network unless that was allowed."""
        shown = host.replace(HOLE, "…") or "unknown host"
        why = reason or f"connects to {shown}"
        effect = Effect(
            "connect", shown, at_least=verdict, reason=why, bound=UNKNOWN if HOLE in host or not host else ""
        )
        if effect not in self.effects:
            self._add(effect)
        self._decide(verdict, why)

    def _starts_something(self, path: str) -> str:
        home = self.places.home + "/"
        if not path.startswith(home):
            return ""
        rest = path[len(home) :]
        return "read when a shell or program starts" if rest.startswith(".") else ""


def _changed(place: Operand, glob: bool) -> PathZone:
    """The kind of a place that is changed: of a pattern for `.env` and `.git` alike, the protected one."""
    inside = place.kind is PathZone.SECRET and not place.target.startswith("/")
    return PathZone.PROTECTED if inside and glob and fits_protected(place.target) else place.kind


_READ_ASKS: Final = frozenset(
    {PathZone.ABOVE, PathZone.SYSTEM, PathZone.DEVICE, PathZone.HOME, PathZone.OUTSIDE}
)
_WRITE_DENIES: Final = frozenset({PathZone.SYSTEM, PathZone.PUBLIC, PathZone.DEVICE})
_DELETE_DENIES: Final = frozenset(
    {PathZone.SYSTEM, PathZone.PUBLIC, PathZone.DEVICE, PathZone.HOME, PathZone.ABOVE, PathZone.NETWORK}
)
