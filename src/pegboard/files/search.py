"""grep: search in file contents, with ripgrep where it is found and with our own walk where it is not."""

from __future__ import annotations

import json
import os
import re
import resource
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from pegboard.core.errors import InvalidArguments, NotFound, TimedOut, ToolError, Unavailable, Unsupported
from pegboard.core.secrets.clip import clip
from pegboard.files.globs import NameFilter
from pegboard.files.regex import Expression, literal_expression, parse_expression, whole_words
from pegboard.files.text import HEAD_BYTES, reads_as_it_stands, text_pieces
from pegboard.files.walk import Skipped, TreeWalk, open_beneath, open_folder, scope_of
from pegboard.ports.files import GrepMatch, GrepResult, SearchQuery
from pegboard.textedit.encoding import bytes_of, guess_note, is_binary, shown_utf8

DEADLINE_S: Final = 20.0
MAX_PATTERN: Final = 10_000
"""Characters of a pattern: an engine is a program, and what a program may be given is bounded."""

MAX_LINE: Final = 500
"""Characters of a line that is shown whole."""
AROUND: Final = 300
"""Characters that a longer line is cut to."""

_UNORDERED_EXCESS: Final = 3
"""How many times the wanted hits an unordered ripgrep may give before an ordered one takes over."""
_RG_MEMORY_BYTES: Final = 768 << 20
"""Writable memory that ripgrep may take; a line of a gigabyte would take two."""
_RG_PROGRAM: Final = "10M"
"""The largest program that ripgrep may make of a pattern: what its default (100M) lets through takes half a
minute to compile. Our own engine runs what is larger."""
_SLOW_FILE_S: Final = 1.0
"""Seconds of the processor that a backtracking pattern may spend on one file."""
_SLOW_FILES: Final = 2
"""How many such files end the search."""
_ACCOUNT_ENTRIES: Final = 1000
"""Entries of a tree that are looked at to say what was left out: under a tenth of what a search in 5,000 files takes."""
_LINE_END: Final = 1 << 40
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_AS_TEXT: Final = "it was searched as literal text (fixed_strings=true)."

LineHit: TypeAlias = tuple[int, int]
"""A matching line: its 1-based number, and where in it (bytes of UTF-8) the first match starts."""
Record: TypeAlias = tuple[str, LineHit | int]
"""A path below the searched folder, with a matching line or (count) the number of them."""


class EngineFailed(Exception):
    """ripgrep ended without an answer; our own engine should try."""


def search(
    root: Path,
    query: SearchQuery,
    *,
    denied: Callable[[str], bool] | None = None,
    rg: Path | Literal[False] | None = None,
    deadline_s: float = DEADLINE_S,
) -> GrepResult:
    """Lines, files or counts that fit `query`, in path order.

    A line is what read_file shows as one; `^` and `$` mean its ends. Binary files (a NUL in the first 64 KiB) are
    searched and named, not shown. A pattern that finds nothing as a regular expression, or is none, is tried once
    more as literal text, and the answer says so. The search stops as soon as one hit more than the page needs is
    known: `total` is then that number and `truncated` is True.

    Args:
        root: the workspace's real path.
        query: `path` is below `root`, without links: a folder or a file. Where it has a `text`, that is searched.
        denied: told paths below `root`; True leaves one out.
        rg: the ripgrep to use, None = the one on PATH, False = our own engine.
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
    if query.text is not None:
        return _search_text(query, query.text, rg, deadline_s)
    folder, file = _target(root, query.path)
    try:
        program = None if rg is False else rg or shutil.which("rg")
        deadline = time.monotonic() + deadline_s
        return _Search(query, folder, file, denied, program and str(program), deadline).answer()
    finally:
        os.close(folder)


def _search_text(
    query: SearchQuery, text: str, rg: Path | Literal[False] | None, deadline_s: float
) -> GrepResult:
    """By way of a private file, so that a pattern that backtracks without end is ended as in any file."""
    name = query.path.replace("/", "_")[:100]
    with tempfile.TemporaryDirectory(prefix="pegboard-search-") as folder:
        file = Path(folder).resolve() / name
        file.touch(mode=0o600)
        file.write_bytes(text.encode("utf-8", "replace"))
        there = replace(query, path=name, text=None, glob=None, type=None)
        found = search(file.parent, there, rg=rg, deadline_s=deadline_s)
    return replace(
        found,
        matches=tuple(replace(match, path=query.path) for match in found.matches),
        counts=tuple((query.path, count) for _, count in found.counts),
    )


def _target(root: Path, path: str) -> tuple[int, str | None]:
    """The folder to search, open, and the one file in it where `path` names a file."""
    head, _, name = path.rstrip("/").rpartition("/")
    parent = open_folder(root, head or ".")
    if name in ("", "."):
        return parent, None
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
class _Hits:
    """Records by path, what was left out, and whether more than enough were found."""

    lines: dict[str, list[LineHit]] = field(default_factory=dict[str, list[LineHit]])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    binary: dict[str, None] = field(default_factory=dict[str, None])
    skipped: Skipped = field(default_factory=Skipped)
    searched: int = 0
    amount: int = 0

    def add(self, path: str, value: LineHit | int) -> None:
        if isinstance(value, int):
            self.counts[path] = value
        else:
            self.lines.setdefault(path, []).append(value)
        self.amount += 1

    def merge(self, other: _Hits) -> None:
        self.lines |= other.lines
        self.counts |= other.counts
        self.binary |= other.binary
        self.skipped.merge(other.skipped)
        self.amount += other.amount


@dataclass(slots=True)
class _Search:
    """One search, from query to answer."""

    query: SearchQuery
    folder: int
    file: str | None
    denied: Callable[[str], bool] | None
    program: str | None
    deadline: float
    accept: Callable[[str], bool] | None = None
    judged: dict[str, str] = field(default_factory=dict[str, str])
    guessed: Skipped = field(default_factory=Skipped)

    def answer(self) -> GrepResult:
        query = self.query
        self.accept = NameFilter(query.glob, query.type).accept()
        try:
            expression = self.expression()
        except InvalidArguments as error:
            return self.as_text_or(error)
        found = self.gather(expression)
        note = ""
        if not found.amount and not found.binary and _maybe_literal(query, expression):
            again = self.gather(self.literally())
            if again.amount:
                found = again
                note = f"As a regular expression the pattern matches nothing; {_AS_TEXT}"
        if not found.amount and not note:
            note = _other_meaning(query)
        return self.page(found, note)

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
        found = self.gather(self.literally())
        if not found.amount:
            raise error
        return self.page(found, f"The pattern is not a valid regular expression; {_AS_TEXT}")

    def literally(self) -> Expression:
        """The pattern as plain text."""
        literal = literal_expression(self.query.pattern, ignore_case=self.query.ignore_case)
        return whole_words(literal) if self.query.whole_words else literal

    @property
    def needed(self) -> int:
        """One more than the page holds, so that `truncated` is known."""
        return max(0, self.query.offset) + max(1, self.query.limit) + 1

    @property
    def counting(self) -> bool:
        return self.query.mode != "content"

    # ------------------------------------------------------------------ the two engines

    def gather(self, expression: Expression) -> _Hits:
        """Records from ripgrep where it reads the pattern as we do, else from our own engine."""
        if self.program is not None and expression.rust is not None:
            with suppress(EngineFailed):
                return self.with_ripgrep(expression)
        return self.ours(expression)

    def with_ripgrep(self, expression: Expression) -> _Hits:
        """ripgrep's records, and ours for the files that it cannot read as they are shown.

        It runs unordered and in parallel, and again in order where there are so many hits that the first in order
        come sooner. Which files are no UTF-8 is asked in a run of its own, unless the pattern is ASCII text.
        """
        others = set[str]() if expression.ascii_text else set(self.not_plain())
        if expression.words:
            # Its own words differ from ours beyond ASCII: it names the files, we find the lines.
            named = self.take(self.ripgrep(expression, count=True), others, _LINE_END)
            return self.ours(expression, only={*named.counts, *named.binary, *others})
        found = self.take(
            self.ripgrep(expression, count=self.counting), others, self.needed * _UNORDERED_EXCESS
        )
        if found.amount >= self.needed * _UNORDERED_EXCESS:
            found = self.take(
                self.ripgrep(expression, count=self.counting, ordered=True), others, self.needed
            )
        if others:
            found.merge(self.ours(expression, only=others))
        return found

    def take(self, records: Generator[Record | _Hits], others: set[str], enough: int) -> _Hits:
        """The records that count; files whose bytes are not their text are added to `others` instead."""
        found = _Hits()
        with closing(records):
            for record in records:
                if isinstance(record, _Hits):
                    found.skipped, found.searched = record.skipped, record.searched
                    continue
                path, value = record
                judged = "decode" if path in others else self.judge(path)
                if judged == "decode":
                    others.add(path)
                elif judged == "binary":
                    found.binary[path] = None
                elif judged == "yes":
                    found.add(path, value)
                    if found.amount >= enough:
                        break
        return found

    def judge(self, path: str) -> str:
        """Whether a file with a hit counts: yes, no, binary (named, not shown), or decode (ripgrep's bytes are not its text)."""
        if path not in self.judged:
            self.judged[path] = self.look_at(path) if self.counts(path) else "no"
        return self.judged[path]

    def counts(self, path: str) -> bool:
        """Whether a file is one of those that are asked for."""
        denied, accept = self.denied, self.accept
        if denied is not None and denied(self.prefix + path):
            return False
        if self.file is not None:
            return True
        hidden = not self.query.hidden and any(part.startswith(".") for part in path.split("/"))
        return not hidden and (accept is None or accept(path))

    def look_at(self, path: str) -> str:
        fd = open_beneath(self.folder, path)
        if fd is None:
            return "no"
        try:
            head = os.read(fd, HEAD_BYTES)
            return "binary" if is_binary(head) else "yes" if reads_as_it_stands(fd, head) else "decode"
        except OSError:
            return "no"
        finally:
            os.close(fd)

    def ripgrep(
        self, expression: Expression, *, count: bool, ordered: bool = False
    ) -> Generator[Record | _Hits]:
        """Records as ripgrep finds them, at last what it left out.

        Lines are asked for by number and column only (`--max-columns 1`), because `--json` spells out every match
        of a line: for `.` on a line of a megabyte that is a hundred megabytes. The text comes from our own reading.

        Raises:
            EngineFailed: ripgrep refused the pattern, ran out of memory or broke down.
            TimedOut: the deadline passed.
        """
        arguments = [
            "--text",
            "--stats",
            "--with-filename",
            "--no-heading",
            "--regex-size-limit",
            _RG_PROGRAM,
        ]
        arguments += ["--count"] if count else ["--line-number", "--column", "--max-columns", "1"]
        arguments.append("--ignore-case" if expression.ignore_case else "--case-sensitive")
        arguments += ["--sort", "path"] if ordered else []
        arguments += [] if count else ["--max-count", str(self.needed)]
        report = _Hits()
        arguments += ["--regexp", expression.rust or ""]
        if expression.ascii_text and len(text := expression.text or "") > 1:
            # In UTF-16 and UTF-32 zero bytes stand between the characters; without a mark ripgrep cannot know them.
            arguments += ["--regexp", r"\x00+".join(map(re.escape, text))]
        with self.run_ripgrep(arguments) as child:
            pending = b""
            for line in child.lines(self.deadline):
                pending += line
                # A line without a NUL is the start of a name with a line end in it, or the statistics.
                record = _record(pending, count) if b"\0" in line else None
                pending = pending + b"\n" if record is None else b""
                if record is not None:
                    yield record
            if total := re.search(rb"^(\d+) files searched$", pending, re.MULTILINE):
                report.searched = int(total[1])
            status = child.wait()
            _read_complaints(child.complaints(), report.skipped)
        if status < 0 or (status > 1 and not report.skipped.counts):
            raise EngineFailed
        yield report

    def not_plain(self) -> Iterator[str]:
        """Files that are no UTF-8 or hold U+FFFD or NUL, or with a CR inside a line.

        ripgrep is made to decode UTF-8, for which it puts U+FFFD where there is none, and to look for that.
        """
        arguments = ["--text", "--files-with-matches", "--encoding", "utf-8", "--no-messages"]
        with self.run_ripgrep([*arguments, "--regexp", "\\x{FFFD}|\\x00|\\r[^\\n]"]) as child:
            said = b"\n".join(child.lines(self.deadline))
            if child.wait() < 0:
                raise EngineFailed
        paths = (os.fsdecode(path).removeprefix("./") for path in said.split(b"\0") if path)
        return (path for path in paths if self.judge(path) in ("decode", "yes"))

    def run_ripgrep(self, arguments: Sequence[str]) -> _Child:
        command = [self.program or "rg", "--no-config", "--no-require-git", "--no-ignore-global", "--no-mmap"]
        command += ["--null", "--color", "never", *arguments]
        if self.query.hidden:
            command.append("--hidden")
        if self.query.no_ignore:
            command.append("--no-ignore")
        if self.file is None:
            # As types, not as globs: a glob would let an ignored file through.
            for glob in NameFilter(self.query.glob, self.query.type).by_name():
                command += ["--type-add", f"wanted:{glob}", "--type", "wanted"]
            command += ["--glob", "!.git"]
        child = _Child([*command, "--", "./" + (self.file or "")], cwd=self.folder)
        # Without the right to do so (another effective user) the search goes on unbounded.
        with suppress(OSError):
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (_RG_MEMORY_BYTES, _RG_MEMORY_BYTES))
        return child

    def ours(self, expression: Expression, only: set[str] | None = None) -> _Hits:
        """Records from our own engine in path order, from the files `only` where that is given."""
        job = ScanJob(
            folder=self.folder,
            file=self.file,
            expression=expression,
            hidden=self.query.hidden,
            no_ignore=self.query.no_ignore,
            glob=self.query.glob,
            type=self.query.type,
            most=0 if self.counting else self.needed,
            only=None if only is None else tuple(sorted(filter(self.counts, only), key=path_order)),
        )
        found = _Hits()
        scanned = (
            _scan_in_child(job, found, self.deadline)
            if expression.repeats
            else scan(job, found, deadline=self.deadline, denied=self.denied_here())
        )
        with closing(scanned):
            for path, hits in scanned:
                if not hits or not self.counts(path):
                    continue
                if self.look_at(path) == "binary":
                    found.binary[path] = None
                    continue
                for value in [len(hits)] if self.counting else hits:
                    found.add(path, value)
                if found.amount >= self.needed:
                    break
        return found

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

    # ------------------------------------------------------------------ the answer

    def page(self, found: _Hits, note: str) -> GrepResult:
        """The asked-for page, with lines read through descriptors that follow no link."""
        query, prefix = self.query, self.prefix
        for path in found.binary:
            found.skipped.add("binary file", "matched but cannot be shown", prefix + path)
        start, stop = max(0, query.offset), max(0, query.offset) + max(1, query.limit)
        matches: tuple[GrepMatch, ...] = ()
        counts: tuple[tuple[str, int], ...] = ()
        if self.counting:
            order = sorted(found.counts, key=path_order)
            total = min(len(order), self.needed)
            counts = tuple((prefix + p, found.counts[p]) for p in order[start:stop])
        else:
            flat = [(p, h) for p in sorted(found.lines, key=path_order) for h in found.lines[p]]
            total = min(len(flat), self.needed)
            matches = tuple(self.lines(flat[start:stop]))
        skipped = found.skipped.sentences()
        if self.file is None:
            walk = _walk(self.folder, query.hidden, query.no_ignore, self.denied_here())
            walk.fits = self.accept
            skipped += walk.left_out.sentences(complete=walk.account(_ACCOUNT_ENTRIES))
        skipped += self.guessed.sentences()
        return GrepResult(
            matches=matches,
            counts=counts,
            total=total,
            truncated=total > stop,
            skipped=skipped,
            searched=found.searched,
            note=note,
        )

    def lines(self, hits: Sequence[tuple[str, LineHit]]) -> Iterable[GrepMatch]:
        by_file: dict[str, dict[int, int]] = {}
        query = self.query
        before = max(0, query.context if query.before is None else query.before)
        after = max(0, query.context if query.after is None else query.after)
        for path, (line, start) in hits:
            by_file.setdefault(path, {})[line] = start
        for path, wanted in by_file.items():
            fd = open_beneath(self.folder, path)
            if fd is None:
                continue
            try:
                for number, text in _excerpt(fd, wanted, before, after, partial(self.note_guess, path)):
                    yield GrepMatch(
                        path=self.prefix + path, line=number, text=text, is_match=number in wanted
                    )
            finally:
                os.close(fd)

    def note_guess(self, path: str, encoding: str) -> None:
        """Remember a file whose lines are shown in an encoding that is a guess."""
        told = guess_note(encoding, "read_file with encoding= names another")
        self.guessed.add("file", f"shown, {told}", self.prefix + path)


def path_order(path: str) -> list[bytes]:
    """Sort key: component by component, by bytes, as `rg --sort path` and a sorted walk go."""
    return os.fsencode(path).split(b"/")


def _maybe_literal(query: SearchQuery, expression: Expression) -> bool:
    """Whether the pattern reads like code that was not meant as a regular expression."""
    return not (query.fixed_strings or expression.text is not None or query.multiline) and not any(
        sign in query.pattern for sign in ("\\", ".*", ".+")
    )


def _other_meaning(query: SearchQuery) -> str:
    """What a pattern that found nothing may have been meant as, in the syntax of another search program."""
    if query.fixed_strings:
        return ""
    signs = re.findall(r"\\(.)", query.pattern, re.DOTALL)
    if "|" in signs:
        return "\\| is a literal bar here; a|b finds either"
    if not query.multiline and ("\n" in query.pattern or "n" in signs):
        return "the pattern holds a line end; multiline=true lets it span lines"
    return ""


def _record(line: bytes, count: bool) -> Record | None:
    path, _, rest = line.lstrip(b"\n").rpartition(b"\0")
    name = os.fsdecode(path).removeprefix("./")
    if count:
        return name, int(rest)
    # A match of nothing at the end of the last line has no column.
    found = re.match(rb"(\d+):(?:(\d+):)?", rest)
    return None if found is None else (name, (int(found[1]), int(found[2] or _LINE_END) - 1))


def _read_complaints(text: bytes, skipped: Skipped) -> None:
    """Turn `rg: ./x: Permission denied (os error 13)` into a reason for skipping."""
    for line in os.fsdecode(text).splitlines():
        found = re.fullmatch(r"(?:rg: )?(?:\./)?(.*?): (?:.*: )?(.+?) \(os error \d+\)", line)
        if found:
            skipped.add("path", f"could not be read: {found[2].lower()}", found[1])


def _timed_out() -> TimedOut:
    return TimedOut(
        "the search took longer than its time limit and was ended",
        hint="Search a smaller folder, or give a glob or a type.",
    )


class _Child:
    """A program that is read line by line under a deadline, and ended with its group at the close."""

    def __init__(
        self, command: Sequence[str], *, cwd: int, stdin: bytes = b"", pass_fds: Sequence[int] = ()
    ) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        with tempfile.TemporaryFile() as request:
            request.write(stdin)
            request.seek(0)
            self._child = subprocess.Popen(
                command,
                # The folder is pinned: a rename or link swapped in later does not move the search.
                cwd=f"/proc/self/fd/{cwd}",
                stdin=request,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                env={"LC_ALL": "C.UTF-8"},
                pass_fds=pass_fds,
                start_new_session=True,
            )
        self.pid = self._child.pid
        self.wait = self._child.wait

    def lines(self, deadline: float) -> Iterator[bytes]:
        """What it writes; TimedOut at the deadline, however much is still coming."""
        out = self._child.stdout
        assert out is not None
        held = b""
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready or time.monotonic() >= deadline:
                    raise _timed_out()
                block = os.read(out.fileno(), 1 << 16)
                if not block:
                    break
                *lines, held = (held + block).split(b"\n") if b"\n" in block else (held + block,)
                yield from lines
        if held:
            yield held

    def complaints(self) -> bytes:
        self._complaints.seek(0)
        return self._complaints.read(1 << 20)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()
        self._complaints.close()
        if self._child.stdout is not None:
            self._child.stdout.close()


# ---------------------------------------------------------------------- our own engine


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanJob:
    """What our own engine is to do.

    Attributes:
        folder: descriptor of the folder to search in.
        file: search only this file of the folder; None = everything below.
        expression: what to find.
        hidden, no_ignore, glob, type: as in SearchQuery.
        most: hits of one file at most, 0 = all.
        only: search these files below the folder and no others, in this order; None = all.
        after: leave out files up to this path, which were searched before.
    """

    folder: int
    file: str | None
    expression: Expression
    hidden: bool
    no_ignore: bool
    glob: str | None
    type: str | None
    most: int
    only: tuple[str, ...] | None = None
    after: str | None = None


def scan(
    job: ScanJob,
    found: _Hits,
    *,
    deadline: float,
    denied: Callable[[str], bool] | None = None,
    on_file: Callable[[str], None] = lambda _: None,
) -> Generator[tuple[str, list[LineHit]]]:
    """The hits of each file, in path order.

    A pattern with repeats may backtrack for ever and holds the interpreter while it does: see `_scan_in_child`.
    """
    pattern = job.expression.compile()
    text = job.expression.text if job.expression.ascii_text else None
    after = None if job.after is None else path_order(job.after)
    for fd, folder, name in _files(job, found.skipped, denied):
        path = folder + name
        if time.monotonic() > deadline:
            raise _timed_out()
        found.searched += 1
        if after is not None and path_order(path) <= after:
            continue
        on_file(path)
        try:
            file = os.open(name, _OPEN, dir_fd=fd)
            try:
                yield (
                    path,
                    list(
                        islice(
                            _matching_lines(file, pattern, text, job.expression.multiline), job.most or None
                        )
                    ),
                )
            finally:
                os.close(file)
        except OSError as error:
            found.skipped.add("path", f"could not be read: {(error.strerror or '').lower()}", path)


def _walk(
    folder: int,
    hidden: bool,
    no_ignore: bool,
    denied: Callable[[str], bool] | None,
    skipped: Skipped | None = None,
) -> TreeWalk:
    real = Path(os.path.realpath(f"/proc/self/fd/{folder}"))
    return TreeWalk(
        top=folder,
        scope=None if no_ignore else scope_of(real),
        hidden=hidden,
        sort=True,
        denied=denied,
        skipped=skipped or Skipped(),
    )


def _files(
    job: ScanJob, skipped: Skipped, denied: Callable[[str], bool] | None
) -> Iterator[tuple[int, str, str]]:
    """Open folder, its path with a `/`, and name of each file to search."""
    paths = job.only if job.only is not None else () if job.file is None else (job.file,)
    for path in paths:
        above, slash, name = path.rpartition("/")
        try:
            fd = open_folder(Path(f"/proc/self/fd/{job.folder}"), above)
        except ToolError:
            continue
        try:
            yield fd, above + slash, name
        finally:
            os.close(fd)
    if job.only is not None or job.file is not None:
        return
    accept = NameFilter(job.glob, job.type).accept()
    for fd, folder, entry in _walk(job.folder, job.hidden, job.no_ignore, denied, skipped):
        if entry.is_file(follow_symlinks=False) and (accept is None or accept(folder + entry.name)):
            yield fd, folder, entry.name


def _matching_lines(
    fd: int, pattern: re.Pattern[str], text: str | None, multiline: bool
) -> Iterator[LineHit]:
    """Each matching line of an open file."""
    before, line = 0, 1
    for piece in text_pieces(fd):
        # Most files hold no hit, and plain text is found faster than a pattern.
        if text is None or text in piece:
            for number, begin, start in (_spans if multiline else _lines)(pattern, piece):
                column = len(piece[begin:start].encode("utf-8", "surrogatepass"))
                yield line + number, column + (before if number == 0 else 0)
        line += piece.count("\n")
        before = 0 if piece.endswith("\n") else before + len(piece)


def _lines(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, int]]:
    """`(line from 0, its begin, start)` of the first match in each matching line.

    The whole piece is searched at once; a hit is then tried again within its line, because
    classes such as `\\s` and `[^x]` may have run over the line's end.
    """
    position, number, counted, size = 0, 0, 0, len(text)
    while position < size:
        found = pattern.search(text, position)
        # Behind the last line end there is no line; at the end of an unended line there is one.
        if found is None or (found.start() == size and text.endswith("\n")):
            return
        begin = text.rfind("\n", position, found.start()) + 1 or position
        end = text.find("\n", found.start())
        end = size if end < 0 else end
        if found.end() > end:
            found = pattern.search(text, begin, end)
        if found is not None:
            number += text.count("\n", counted, begin)
            counted = begin
            yield number, begin, found.start()
        position = end + 1


def _spans(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int, int]]:
    """The same for matches over several lines: every line that a match touches is one."""
    number, counted, size, last = 0, 0, len(text), -1
    for found in pattern.finditer(text):
        start, end = found.span()
        if start >= size:
            return
        at = text.rfind("\n", 0, start) + 1
        number += text.count("\n", counted, at)
        counted = at
        inner = number
        while True:
            stop = text.find("\n", at)
            stop = size if stop < 0 else stop
            if inner > last:
                yield inner, at, max(start, at)
                last = inner
            at, inner = stop + 1, inner + 1
            if at >= end or at >= size:
                break


def _scan_in_child(job: ScanJob, found: _Hits, deadline: float) -> Generator[tuple[str, list[LineHit]]]:
    """`scan` in a child process, which a timer ends where a file takes too long; a new child goes on behind it.

    Raises:
        TimedOut: the deadline passed.
        Unavailable: the child broke down.
    """
    home = str(Path(__file__).parents[2])  # Not through the package root, which imports us.
    start = f"import sys; sys.path.insert(0, {home!r}); from pegboard.files.search import scan_child; scan_child()"
    for _ in range(_SLOW_FILES):
        request = json.dumps(
            {**asdict(job), "path": [path for path in sys.path if os.path.isabs(path)]}
        ).encode()
        command = [sys.executable, "-I", "-S", "-c", start]
        at = ""
        with _Child(command, cwd=job.folder, stdin=request, pass_fds=(job.folder,)) as child:
            for line in child.lines(deadline):
                row: list[Any] = json.loads(line)
                if row[0] == "at":
                    at = row[1]
                elif row[0] == "hits":
                    yield row[1], [(number, column) for number, column in row[2]]
                else:
                    found.searched = row[1]
                    for noun, why, count, examples in row[2]:
                        found.skipped.counts[(noun, why)] = count
                        found.skipped.examples[(noun, why)] = examples
                    return
            if child.wait() != -signal.SIGPROF:
                raise Unavailable("the search ended by itself before it was done", hint="Try again.")
        found.skipped.add("file", "given up, the pattern backtracks too long on it", at)
        job = replace(job, after=at)
    found.skipped.add("search", "ended early, the pattern backtracks too long", job.after or "")


def scan_child() -> None:
    """The child: a job as JSON on stdin, one JSON list a line on stdout.

    `["at", path]` before each file, `["hits", path, hits]` where it has any, at last `["end", searched, skipped]`.
    """
    job: dict[str, Any] = json.load(sys.stdin)
    # For what guesses encodings; this process was started without site-packages, since that is faster.
    sys.path.extend(job.pop("path"))
    job["expression"] = Expression(**job["expression"])
    found = _Hits()
    out = sys.stdout

    def begin(path: str) -> None:
        out.write(json.dumps(["at", path]) + "\n")
        out.flush()
        # The default action of SIGPROF ends us: `re` looks at handlers too seldom to be interrupted by one.
        signal.setitimer(signal.ITIMER_PROF, _SLOW_FILE_S)

    for path, hits in scan(ScanJob(**job), found, deadline=float("inf"), on_file=begin):
        signal.setitimer(signal.ITIMER_PROF, 0)
        if hits:
            out.write(json.dumps(["hits", path, hits]) + "\n")
    skipped = [[*key, count, found.skipped.examples[key]] for key, count in found.skipped.counts.items()]
    out.write(json.dumps(["end", found.searched, skipped]) + "\n")
    out.flush()


# ---------------------------------------------------------------------- lines as they are shown


def _excerpt(
    fd: int, hits: dict[int, int], before: int, after: int, on_guess: Callable[[str], None]
) -> Iterator[tuple[int, str]]:
    """The hits' lines (each with where in it the hit starts) and some around them, each once, in order."""
    wanted = {n for line in hits for n in range(line - before, line + after + 1)}
    last = max(wanted)
    number = 1
    for piece in text_pieces(fd, on_guess):
        # A key is known by what stands around the line that is shown.
        lines = clip(piece).split("\n")
        # Behind the last line end there is no line.
        for text in lines if lines[-1] else lines[:-1]:
            if number in wanted:
                wanted.discard(number)
                yield number, _shown(text.encode("utf-8", "surrogatepass"), hits.get(number))
            number += 1
        number -= bool(lines[-1])
        if number > last:
            return


def _shown(line: bytes, start: int | None) -> str:
    """The line as text; a long one is cut around where its hit starts and says so."""
    if len(line) <= MAX_LINE:
        return shown_utf8(line).replace("\0", "\u2400")
    at = max(0, min(start or 0, len(line)) - AROUND // 2)
    piece = line[at : at + AROUND * 4]
    # Do not start inside a character.
    while piece and piece[0] & 0xC0 == 0x80:
        at, piece = at + 1, piece[1:]
    text = shown_utf8(piece)
    if at == 0 and len(line) <= AROUND * 4 and len(text) <= MAX_LINE:
        return text.replace("\0", "\u2400")
    behind = len(line) - at - len(bytes_of(text[:AROUND]))
    ahead = shown_utf8(line[max(0, at - AROUND) : at])
    text = clip(ahead + text, len(ahead), len(ahead) + AROUND).replace("\0", "\u2400")
    return f"{f'[… {at} bytes] ' if at else ''}{text}" + (f" [{behind} bytes …]" if behind > 0 else "")
