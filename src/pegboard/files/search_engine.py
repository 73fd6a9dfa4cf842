"""What a search engine is given, what it reports, and how it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from pegboard.core.errors import TimedOut
from pegboard.files.filters import NameFilter
from pegboard.files.regex import Expression
from pegboard.files.scan import LineHit
from pegboard.files.walk import Skipped

RG_MEMORY_BYTES: Final = 768 << 20
"""Writable memory that ripgrep may take; a line of a gigabyte would take two."""


RG_PROGRAM: Final = "10M"
"""The largest program that ripgrep may make of a pattern: what its default (100M) lets through takes half a
minute to compile. The other engine runs what is larger."""


SLOW_FILE_S: Final = 1.0
"""Seconds that a backtracking pattern may spend on one file."""


SLOW_FILES: Final = 2
"""How many such files end the search."""


LINE_END: Final = 1 << 40

DECODED_FILES: Final = 2000
DECODED_BYTES: Final = 256 << 20
"""How much of one search may be decoded from other encodings before it is searched; more is searched as it stands."""


class EngineFailed(Exception):
    """The engine ended without an answer; the other one should try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchJob:
    """What an engine is to do.

    Attributes:
        folder: descriptor of the folder to search in.
        file: search only this file of the folder; None = everything below.
        expression: what to find.
        count: give one `(path, number of matching lines)` a file instead of hits.
        hidden, no_ignore: as in SearchQuery.
        names: which files count; ripgrep may give more, the caller throws those away.
        denied: told paths below the folder; only saves work, the caller asks again.
        per_file: hits of one file at most, 0 = all.
        deadline: `time.monotonic()` at which the engine is ended.
        only: search these files below the folder and no others, in this order; None = all.
    """

    folder: int
    file: str | None
    expression: Expression
    count: bool
    hidden: bool
    no_ignore: bool
    names: NameFilter = field(default_factory=NameFilter)
    denied: Callable[[str], bool] | None = None
    per_file: int = 0
    deadline: float = 0.0
    only: tuple[str, ...] | None = None


@dataclass(slots=True)
class SearchReport:
    """What an engine tells beside its answer: what it left out, how many files it looked at."""

    skipped: Skipped = field(default_factory=Skipped)
    searched: int = 0


Record = tuple[str, LineHit | int]
"""A path below the folder, with a matching line or (count) the number of them."""


class SearchEngine(Protocol):
    """Gives records until it is exhausted or closed."""

    def run(self, search: SearchJob, report: SearchReport, *, ordered: bool) -> Iterator[Record]:
        """Records of all matching files; in path order where `ordered`, else files in any order."""
        ...


def timed_out() -> TimedOut:
    return TimedOut(
        "the search took longer than its time limit and was ended",
        hint="Search a smaller folder, or give a glob or a type.",
    )
