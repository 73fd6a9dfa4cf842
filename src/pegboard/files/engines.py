"""The two engines of grep, with one shape: ripgrep as a child, and our own walker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, cast

import pegboard
from pegboard.core.errors import TimedOut
from pegboard.files.filters import NameFilter
from pegboard.files.ignore import scope_of
from pegboard.files.regex import Expression
from pegboard.files.scan import Hit, compile_scan
from pegboard.files.walk import Skipped, Walk

RG_MEMORY_BYTES: Final = 768 << 20
"""Writable memory that ripgrep may take; a line of a gigabyte would take two."""

SLOW_FILE_S: Final = 1.0
"""Seconds that a backtracking pattern may spend on one file."""

SLOW_FILES: Final = 2
"""How many such files end the search."""

_LINE_END: Final = 1 << 40

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class EngineFailed(Exception):
    """The engine ended without an answer; the other one should try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
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


@dataclass(slots=True)
class Report:
    """What an engine tells beside its answer: what it left out, how many files it looked at."""

    skipped: Skipped = field(default_factory=Skipped)
    searched: int = 0


Record = tuple[str, Hit | int]
"""A path below the folder, with a matching line or (count) the number of them."""


class Engine(Protocol):
    """Gives records until it is exhausted or closed."""

    def run(self, search: Search, report: Report, *, ordered: bool) -> Iterator[Record]:
        """Records of all matching files; in path order where `ordered`, else files in any order."""
        ...


class Ripgrep:
    """ripgrep as a child; linear in the text whatever the pattern.

    Its lines are asked for by number and column only (`--max-columns 1`), because `--json` spells
    out every match of a line: for `.` on a line of a megabyte that is a hundred megabytes. The
    text comes from our own reading.
    """

    def __init__(self, program: Path) -> None:
        self._program = program

    def run(self, search: Search, report: Report, *, ordered: bool) -> Iterator[Record]:
        """Records as ripgrep finds them.

        Raises:
            EngineFailed: ripgrep refused the pattern, ran out of memory or broke down.
            TimedOut: the deadline passed.
        """
        child = subprocess.Popen(
            [str(self._program), *_rg_arguments(search, ordered)],
            # The folder is pinned: a rename or link swapped in later does not move the search.
            cwd=f"/proc/self/fd/{search.folder}",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        # Without the right to do so (another effective user) the search goes on unbounded.
        with contextlib.suppress(OSError):
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (RG_MEMORY_BYTES, RG_MEMORY_BYTES))
        complaints = bytearray()
        try:
            pending = b""
            for line in _lines_of(child, search.deadline, complaints):
                pending += line
                # A line without a NUL is the start of a name with a line end in it, or the statistics.
                record = _record(pending, search.count) if b"\0" in line else None
                pending = pending + b"\n" if record is None else b""
                if record is not None:
                    yield record
            if stated := re.search(rb"^(\d+) files searched$", pending, re.MULTILINE):
                report.searched = int(stated[1])
            status = child.wait()
        finally:
            _end(child)
        _read_complaints(complaints, report)
        if status < 0 or (status > 1 and not report.skipped.counts):
            raise EngineFailed(complaints.decode("utf-8", "replace"))


def _rg_arguments(search: Search, ordered: bool) -> list[str]:
    expression = search.expression
    arguments = ["--no-config", "--no-require-git", "--no-ignore-global", "--text", "--no-mmap"]
    arguments += ["--null", "--stats", "--with-filename", "--no-heading", "--color", "never"]
    arguments += ["--count"] if search.count else ["--line-number", "--column", "--max-columns", "1"]
    arguments.append("--ignore-case" if expression.ignore_case else "--case-sensitive")
    if search.hidden:
        arguments.append("--hidden")
    if search.no_ignore:
        arguments.append("--no-ignore")
    if ordered:
        arguments += ["--sort", "path"]
    if search.per_file:
        arguments += ["--max-count", str(search.per_file)]
    if search.file is None:
        for glob in search.names.narrow():
            arguments += ["--glob", glob]
        arguments += ["--glob", "!.git"]
    arguments += ["--regexp", expression.rust, "--", "./" + (search.file or "")]
    return arguments


def _lines_of(child: subprocess.Popen[bytes], deadline: float, complaints: bytearray) -> Iterator[bytes]:
    """Lines of the child's output; its complaints are gathered beside, so that neither pipe fills up."""
    assert child.stdout is not None
    assert child.stderr is not None
    held = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, True)
        selector.register(child.stderr, selectors.EVENT_READ, False)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise _timed_out()
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                if not block:
                    selector.unregister(key.fileobj)
                elif not key.data:
                    complaints += block[: max(0, (1 << 20) - len(complaints))]
                else:
                    *lines, held = (held + block).split(b"\n") if b"\n" in block else (held + block,)
                    yield from lines
    if held:
        yield held


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child with its group, and reap it."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _record(line: bytes, count: bool) -> Record | None:
    path, _, rest = line.lstrip(b"\n").rpartition(b"\0")
    name = os.fsdecode(path).removeprefix("./")
    if count:
        return name, int(rest)
    # A match of nothing at the end of the last line has no column.
    found = re.match(rb"(\d+):(?:(\d+):)?", rest)
    return None if found is None else (name, Hit(int(found[1]), int(found[2] or _LINE_END) - 1))


def _read_complaints(text: bytearray, report: Report) -> None:
    """Turn `rg: ./x: Permission denied (os error 13)` into a reason for skipping."""
    for line in os.fsdecode(bytes(text)).splitlines():
        found = re.fullmatch(r"(?:rg: )?(?:\./)?(.*?): (?:.*: )?(.+?) \(os error \d+\)", line)
        if found:
            report.skipped.add("path", f"could not be read: {found[2].lower()}", found[1])


class Walker:
    """Our own engine: a walk by descriptors and Python's `re`.

    A pattern with repeats may backtrack for ever and holds the interpreter while it does, so
    it runs in a child process, where a timer can interrupt it.
    """

    def run(self, search: Search, report: Report, *, ordered: bool) -> Iterator[Record]:
        """Records in path order, `ordered` or not.

        Raises:
            TimedOut: the deadline passed.
            EngineFailed: the child broke down.
        """
        if search.expression.repeats:
            return _in_child(search, report)
        return scan_tree(search, report)


class Watch(Protocol):
    """Told which file is scanned next, so that one that takes for ever can be given up."""

    def begin(self, path: str) -> None:
        """The scan of a file begins."""
        ...

    def done(self) -> None:
        """It is done."""
        ...


def scan_tree(
    search: Search, report: Report, *, watch: Watch | None = None, after: str | None = None
) -> Iterator[Record]:
    """Walk and scan, in path order.

    Args:
        watch: told of each file.
        after: leave out files up to this path, which were searched before.
    """
    scan = compile_scan(search.expression)
    done = path_order(after) if after is not None else None
    for fd, folder, name in _files(search, report):
        if time.monotonic() > search.deadline:
            raise _timed_out()
        path = folder + name
        report.searched += 1
        if done is not None:
            if path_order(path) <= done:
                continue
            done = None
        try:
            file = os.open(name, _OPEN, dir_fd=fd)
        except OSError as error:
            report.skipped.add("path", f"could not be read: {(error.strerror or '').lower()}", path)
            continue
        hits: list[Hit] = []
        if watch is not None:
            watch.begin(path)
        try:
            for hit in scan(file):
                hits.append(hit)
                if search.per_file and len(hits) >= search.per_file:
                    break
        except OSError as error:
            report.skipped.add("path", f"could not be read: {(error.strerror or '').lower()}", path)
        finally:
            os.close(file)
            if watch is not None:
                watch.done()
        if search.count and hits:
            yield path, len(hits)
        elif not search.count:
            for hit in hits:
                yield path, hit


def path_order(path: str) -> list[bytes]:
    """Sort key: component by component, by bytes, as `rg --sort path` and a sorted walk go."""
    return os.fsencode(path).split(b"/")


def _timed_out() -> TimedOut:
    return TimedOut(
        "the search took longer than its time limit and was ended",
        hint="Search a smaller folder, or give a glob or a type.",
    )


def _files(search: Search, report: Report) -> Iterator[tuple[int, str, str]]:
    if search.file is not None:
        yield search.folder, "", search.file
        return
    walk = Walk(
        top=search.folder,
        scope=None
        if search.no_ignore
        else scope_of(Path(os.path.realpath(f"/proc/self/fd/{search.folder}"))),
        hidden=search.hidden,
        sort=True,
        denied=search.denied,
        skipped=report.skipped,
    )
    accept = search.names.accept()
    for fd, folder, entry in walk:
        if entry.is_file(follow_symlinks=False) and (accept is None or accept(folder + entry.name)):
            yield fd, folder, entry.name


def _in_child(search: Search, report: Report) -> Iterator[Record]:
    """The same in a child process, which a timer ends where a file takes too long.

    The child notes the file at hand in memory that we share; a new child goes on behind it.
    """
    note = os.memfd_create("pegboard-grep", os.MFD_CLOEXEC)
    after: str | None = None
    try:
        for _ in range(SLOW_FILES):
            if (yield from _one_child(search, report, note, after)):
                return
            told = os.pread(note, 1 << 16, 0)
            after = os.fsdecode(told[2 : 2 + int.from_bytes(told[:2], "big")])
            report.skipped.add("file", "given up, the pattern backtracks too long on it", after)
        report.skipped.add("search", "ended early, the pattern backtracks too long", after or "")
    finally:
        os.close(note)


def _one_child(search: Search, report: Report, note: int, after: str | None) -> Generator[Record, None, bool]:
    """Records of one child; False where its timer ended it.

    Raises:
        EngineFailed: it broke down otherwise.
    """
    job = {
        "folder": search.folder,
        "file": search.file,
        "source": search.expression.source,
        "ignore_case": search.expression.ignore_case,
        "multiline": search.expression.multiline,
        "count": search.count,
        "hidden": search.hidden,
        "no_ignore": search.no_ignore,
        "per_file": search.per_file,
        "glob": search.names.glob,
        "type": search.names.type,
        "note": note,
        "after": after,
    }
    home = str(Path(pegboard.__file__).parents[1])
    start = f"import sys; sys.path.insert(0, {home!r}); from pegboard.files.grep_worker import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", start, json.dumps(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"LC_ALL": "C.UTF-8"},
        pass_fds=(search.folder, note),
        start_new_session=True,
    )
    complaints = bytearray()
    finished = False
    try:
        for line in _lines_of(child, search.deadline, complaints):
            value = cast("list[Any]", json.loads(line))
            if value[0] == "end":
                report.searched = value[1]
                _add_skipped(report, value[2])
                finished = True
            elif search.count:
                yield value[0], value[1]
            else:
                yield value[0], Hit(value[1], value[2])
        status = child.wait()
    finally:
        _end(child)
    if not finished and status != -signal.SIGALRM:
        raise EngineFailed(complaints.decode("utf-8", "replace"))
    return finished


def _add_skipped(report: Report, told: Sequence[tuple[str, str, int, list[str]]]) -> None:
    for noun, why, count, examples in told:
        report.skipped.counts[(noun, why)] = count
        report.skipped.examples[(noun, why)] = examples
