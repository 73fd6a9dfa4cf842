"""grep: search in file contents, with ripgrep or without it, with the same answers."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from pegboard.core.errors import InvalidArguments, NotFound, Unsupported
from pegboard.files.excerpt import excerpts
from pegboard.files.filters import NameFilter
from pegboard.files.ignore import scope_of
from pegboard.files.query_hints import maybe_literal, other_reading
from pegboard.files.regex import Expression, literal_expression, parse_expression, whole_words
from pegboard.files.result_filter import ResultFilter, real_path
from pegboard.files.ripgrep import Ripgrep
from pegboard.files.scan import LineHit
from pegboard.files.search_engine import EngineFailed, SearchEngine, SearchJob, SearchReport
from pegboard.files.search_engines import Walker, path_order
from pegboard.files.special import special_ignores
from pegboard.files.walk import TreeWalk, open_beneath, open_folder
from pegboard.ports.files import GrepMatch, GrepResult, SearchQuery
from pegboard.textedit.encoding import bom_encoding

DEADLINE_S: Final = 20.0
MAX_PATTERN: Final = 10_000
"""Characters of a pattern: an engine is a program, and what a program may be given is bounded."""

_UNORDERED_EXCESS: Final = 3
"""How many times the wanted hits an unordered ripgrep may give before an ordered one takes over."""

_ACCOUNT_ENTRIES: Final = 2000
_LOOKED_AT: Final = 300
"""Folders whose ignore files are looked at before ripgrep opens them: some milliseconds."""
_AS_TEXT: Final = "it was searched as literal text (fixed_strings=true)."


def search(
    root: Path,
    query: SearchQuery,
    *,
    denied: Callable[[str], bool] | None = None,
    rg: Path | Literal[False] | None = None,
    deadline_s: float = DEADLINE_S,
) -> GrepResult:
    """Lines, files or counts that fit `query`, in path order.

    A line is what read_file shows as one; `^` and `$` mean its ends. Files in other encodings than
    UTF-8 are searched as read_file shows them, too. Binary files (a NUL in the
    first 64 KiB) are searched and named, not shown. A pattern that finds nothing as a regular
    expression, or is none, is tried once more as literal text, and the answer says so. The search stops as
    soon as one hit more than the page needs is known: `total` is then that number and
    `truncated` is True.

    Args:
        root: the workspace's real path.
        query: `path` is below `root`, without links: a folder or a file.
        denied: told paths below `root`; True leaves one out.
        rg: the ripgrep to use, None = the one on PATH, False = our own walker.
        deadline_s: seconds until the search is ended.

    Raises:
        InvalidArguments: an empty or malformed pattern (that no line holds as text), glob or type.
        NotFound, Unsupported, Unavailable, OutsideWorkspace: about `query.path`.
        TimedOut: the deadline passed.
    """
    if len(query.pattern) > MAX_PATTERN:
        raise InvalidArguments(
            f"the pattern has {len(query.pattern):,} characters, the limit is {MAX_PATTERN:,}",
            hint="Search for less at a time.",
        )
    folder, file = _target(root, query.path)
    try:
        job = _GrepRun(root, query, folder, file, denied, _program(rg), time.monotonic() + deadline_s)
        return job.answer()
    finally:
        os.close(folder)


def _program(rg: Path | Literal[False] | None) -> Path | None:
    if rg is False:
        return None
    found = rg or shutil.which("rg")
    return Path(found) if found else None


def _target(root: Path, path: str) -> tuple[int, str | None]:
    """The folder to search, open, and the one file in it where `path` names a file."""
    head, _, name = path.rstrip("/").rpartition("/")
    if name in ("", "."):
        return open_folder(root, head or "."), None
    parent = open_folder(root, head or ".")
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except OSError as error:
        os.close(parent)
        raise NotFound(
            f"nothing to search at {path}: {(error.strerror or '').lower()}",
            hint="List the folder above it with list_dir, or find it with glob.",
        ) from None
    if stat.S_ISREG(mode):
        return parent, name
    os.close(parent)
    if stat.S_ISDIR(mode):
        return open_folder(root, path), None
    raise Unsupported(
        f"{path} is neither a file nor a folder, so there is nothing to search in it",
        hint="Search in a folder or a regular file.",
    )


@dataclass(slots=True)
class _GrepHits:
    """Accepted records of one run, by path, and whether more than enough were found."""

    hits: dict[str, list[LineHit]] = field(default_factory=dict[str, list[LineHit]])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    binary: dict[str, None] = field(default_factory=dict[str, None])
    amount: int = 0
    over: bool = False


@dataclass(slots=True)
class _GrepRun:
    """One search, from query to answer."""

    root: Path
    query: SearchQuery
    folder: int
    file: str | None
    denied: Callable[[str], bool] | None
    program: Path | None
    deadline: float
    suspects: Iterator[bool] = field(default_factory=lambda: iter(()))

    def answer(self) -> GrepResult:
        query = self.query
        try:
            expression = self.expression()
        except InvalidArguments as error:
            return self.as_text_or(error)
        found, report = self.gather(expression)
        note = ""
        if not found.amount and not found.binary and maybe_literal(query, expression):
            again, told = self.gather(self.literally())
            if again.amount:
                found, report = again, told
                note = f"As a regular expression the pattern matches nothing; {_AS_TEXT}"
        if not found.amount and not note:
            note = other_reading(query)
        return self.page(found, report, note)

    def expression(self) -> Expression:
        """What the pattern says.

        Raises:
            InvalidArguments: it is empty or malformed.
        """
        query = self.query
        if query.fixed_strings and query.pattern:
            return self.literally()
        expression = parse_expression(query.pattern, ignore_case=query.ignore_case, multiline=query.multiline)
        return whole_words(expression) if query.whole_words else expression

    def as_text_or(self, error: InvalidArguments) -> GrepResult:
        """What holds a malformed pattern as plain text, such as `f(*args)`; the error where nothing does."""
        if not self.query.pattern or self.query.multiline:
            raise error
        found, report = self.gather(self.literally())
        if not found.amount:
            raise error
        return self.page(found, report, f"The pattern is not a valid regular expression; {_AS_TEXT}")

    def literally(self) -> Expression:
        """The pattern as plain text."""
        literal = literal_expression(self.query.pattern, ignore_case=self.query.ignore_case)
        return whole_words(literal) if self.query.whole_words else literal

    @property
    def needed(self) -> int:
        """One more than the page holds, so that `truncated` is known."""
        return max(0, self.query.offset) + max(1, self.query.limit) + 1

    def gather(self, expression: Expression) -> tuple[_GrepHits, SearchReport]:
        """Records from the engine that suits: ripgrep unordered and in parallel, and again in order
        where there are so many that the first in order come sooner; or our walker."""
        names = NameFilter(self.query.glob, self.query.type)
        search = SearchJob(
            folder=self.folder,
            file=self.file,
            expression=expression,
            count=self.query.mode != "content",
            hidden=self.query.hidden,
            no_ignore=self.query.no_ignore,
            names=names,
            denied=self.denied_here(),
            per_file=self.needed if self.query.mode == "content" else 0,
            deadline=self.deadline,
        )
        accept = self.acceptance(search)
        if self.program is not None and not expression.python_only and not self.has_special_ignores():
            engine = Ripgrep(self.program, self.suspects)
            try:
                if expression.narrows:
                    return self.in_files_of(engine, search)
                return self.with_ripgrep(engine, search, accept)
            except EngineFailed:
                # For example a line of a gigabyte: ripgrep would need twice its size in memory.
                pass
        return self.run(Walker(), search, accept, ordered=True)

    def has_special_ignores(self) -> bool:
        """Whether ripgrep would wait at an ignore file that is a pipe, as far as the first folders tell.

        The others are looked at only while ripgrep takes long: a walk of our own would double the work.
        """
        if self.query.no_ignore or self.file is not None:
            return False
        self.suspects = special_ignores(self.folder, hidden=self.query.hidden)
        return any(islice(self.suspects, _LOOKED_AT))

    def acceptance(self, search: SearchJob) -> ResultFilter:
        alone = self.file is not None
        return ResultFilter(self.folder, self.query, search.names, denied=search.denied, alone=alone)

    def in_files_of(self, engine: Ripgrep, search: SearchJob) -> tuple[_GrepHits, SearchReport]:
        """Our walker's records, from the files that ripgrep names; from all where it names very many."""
        wide = replace(search, count=True, per_file=1)
        named, report = self.run(engine, wide, self.acceptance(search), ordered=False)
        accept = self.acceptance(search)
        if named.over:
            return self.run(Walker(), search, accept, ordered=True)
        accept.decode = frozenset(engine.not_plain(search))
        paths = {*named.counts, *named.binary, *accept.to_decode()}
        if not paths:
            paths = {*self.in_utf32(accept)}
        narrowed = replace(search, file=None, only=tuple(sorted(paths, key=path_order)))
        found, told = self.run(Walker(), narrowed, accept, ordered=True)
        report.skipped.merge(told.skipped)
        return found, report

    def with_ripgrep(
        self, engine: Ripgrep, search: SearchJob, accept: ResultFilter
    ) -> tuple[_GrepHits, SearchReport]:
        """ripgrep's records, and our walker's for the files that it cannot read as they are shown.

        Which files these are is asked before, in a run of its own, unless all that the pattern can find is ASCII.
        """
        if not search.expression.ascii_only:
            accept.decode = frozenset(engine.not_plain(search))
        gathered, report = self.run(engine, search, accept, ordered=False)
        if gathered.over:
            gathered, report = self.run(engine, search, accept, ordered=True)
        others = accept.to_decode()
        if not others and not gathered.amount:
            others = self.in_utf32(accept)
        if others:
            narrowed = replace(search, file=None, only=tuple(others))
            more, told = self.run(Walker(), narrowed, accept, ordered=True)
            gathered.hits |= more.hits
            gathered.counts |= more.counts
            gathered.amount += more.amount
            report.skipped.merge(told.skipped)
        return gathered, report

    def run(
        self, engine: SearchEngine, search: SearchJob, accept: ResultFilter, *, ordered: bool
    ) -> tuple[_GrepHits, SearchReport]:
        report, found = SearchReport(), _GrepHits()
        enough = self.needed if ordered else self.needed * _UNORDERED_EXCESS
        records = engine.run(search, report, ordered=ordered)
        for path, value in records:
            judged = accept.of(path)
            if judged == "binary":
                found.binary[path] = None
            if judged in ("no", "binary") or (judged == "decode" and isinstance(engine, Ripgrep)):
                continue
            _add(found, path, value)
            if found.amount >= enough:
                found.over = True
                break
        close = getattr(records, "close", None)
        if close is not None:
            close()
        return found, report

    def denied_here(self) -> Callable[[str], bool] | None:
        """`denied`, told paths below the searched folder."""
        denied, prefix = self.denied, self.prefix
        return None if denied is None else (lambda path: denied(prefix + path))

    @property
    def prefix(self) -> str:
        """The searched folder's path below the root, with a trailing `/`, or empty."""
        path = self.query.path.strip("/")
        if self.file is not None:
            path = path.rpartition("/")[0]
        parts = [p for p in path.split("/") if p not in ("", ".")]
        return "/".join(parts) + "/" if parts else ""

    def page(self, found: _GrepHits, report: SearchReport, note: str) -> GrepResult:
        """The asked-for page, with lines read through descriptors that follow no link."""
        query, prefix = self.query, self.prefix
        for path in found.binary:
            report.skipped.add("binary file", "matched but cannot be shown", prefix + path)
        start, stop = max(0, query.offset), max(0, query.offset) + max(1, query.limit)
        matches: tuple[GrepMatch, ...] = ()
        counts: tuple[tuple[str, int], ...] = ()
        if query.mode == "content":
            flat = [(p, h) for p in sorted(found.hits, key=path_order) for h in found.hits[p]]
            total = min(len(flat), self.needed)
            matches = tuple(self.lines(flat[start:stop]))
        else:
            order = sorted(found.counts, key=path_order)
            total = min(len(order), self.needed)
            counts = tuple((prefix + p, found.counts[p]) for p in order[start:stop])
        skipped = report.skipped.sentences()
        if not total:
            skipped += self.left_out()
        return GrepResult(
            matches=matches,
            counts=counts,
            total=total,
            truncated=total > stop,
            skipped=skipped,
            searched=report.searched,
            note=note,
        )

    def lines(self, hits: Sequence[tuple[str, LineHit]]) -> Iterable[GrepMatch]:
        by_file: dict[str, list[LineHit]] = {}
        query = self.query
        before = max(0, query.context if query.before is None else query.before)
        after = max(0, query.context if query.after is None else query.after)
        for path, hit in hits:
            by_file.setdefault(path, []).append(hit)
        for path, wanted in by_file.items():
            fd = open_beneath(self.folder, path)
            if fd is None:
                continue
            try:
                for match in excerpts(fd, wanted, before=before, after=after):
                    yield replace(match, path=self.prefix + path)
            finally:
                os.close(fd)

    def in_utf32(self, accept: ResultFilter) -> list[str]:
        """Files whose mark ripgrep takes for that of UTF-16, from the first 2,000 entries of the folder."""
        if self.file is not None:
            paths = [self.file]
        else:
            # Their size tells most other files apart without opening them.
            paths = [
                folder + entry.name
                for _, folder, entry in islice(self.walk(), _ACCOUNT_ENTRIES)
                if _is_of_fours(entry)
            ]
        return [path for path in paths if accept.of(path) in ("yes", "binary") and self.is_utf32(path)]

    def is_utf32(self, path: str) -> bool:
        fd = open_beneath(self.folder, path)
        if fd is None:
            return False
        try:
            return (bom_encoding(os.read(fd, 4)) or "").startswith("utf-32")
        except OSError:
            return False
        finally:
            os.close(fd)

    def walk(self) -> TreeWalk:
        return TreeWalk(
            top=self.folder,
            scope=None if self.query.no_ignore else scope_of(real_path(self.folder)),
            hidden=self.query.hidden,
            sort=True,
            denied=self.denied_here(),
        )

    def left_out(self) -> tuple[str, ...]:
        """What an empty answer did not look into, from the first 2,000 entries of the folder."""
        if self.file is not None:
            return ()
        walk = self.walk()
        for seen, _ in enumerate(walk):
            if seen >= _ACCOUNT_ENTRIES:
                break
        return walk.left_out.sentences()


def _add(found: _GrepHits, path: str, value: LineHit | int) -> None:
    if isinstance(value, int):
        found.counts[path] = value
    else:
        found.hits.setdefault(path, []).append(value)
    found.amount += 1


def _is_of_fours(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size % 4 == 0
    except OSError:
        return False  # It went while we looked.
