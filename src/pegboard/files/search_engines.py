"""The two engines of grep, with one shape: ripgrep as a child, and our own walker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

import pegboard
from pegboard.core.errors import NotFound, OutsideWorkspace, Unavailable, Unsupported
from pegboard.files.child_output import end_child, lines_of
from pegboard.files.decoding import decoded
from pegboard.files.ignore import scope_of
from pegboard.files.scan import LineHit, Scanner
from pegboard.files.search_engine import (
    DECODED_BYTES,
    DECODED_FILES,
    SLOW_FILES,
    EngineFailed,
    Record,
    SearchJob,
    SearchReport,
    timed_out,
)
from pegboard.files.walk import TreeWalk, open_folder

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Walker:
    """Our own engine: a walk by descriptors and Python's `re`.

    A pattern with repeats may backtrack for ever and holds the interpreter while it does, so
    it runs in a child process, where a timer can interrupt it.
    """

    def run(self, search: SearchJob, report: SearchReport, *, ordered: bool) -> Iterator[Record]:
        """Records in path order, `ordered` or not.

        Raises:
            TimedOut: the deadline passed.
            EngineFailed: the child broke down.
        """
        if search.expression.repeats:
            return _in_child(search, report)
        return scan_tree(search, report)


class ScanTimer(Protocol):
    """Told which file is scanned next, so that one that takes for ever can be given up."""

    def begin(self, path: str) -> None:
        """The scan of a file begins."""
        ...

    def done(self) -> None:
        """It is done."""
        ...


def scan_tree(
    search: SearchJob, report: SearchReport, *, watch: ScanTimer | None = None, after: str | None = None
) -> Iterator[Record]:
    """Walk and scan, in path order.

    Args:
        watch: told of each file.
        after: leave out files up to this path, which were searched before.
    """
    scan = _BoundedScan(search, report, watch)
    done = path_order(after) if after is not None else None
    for fd, folder, name in _files(search, report):
        if time.monotonic() > search.deadline:
            raise timed_out()
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
        hits: list[LineHit] = []
        if watch is not None:
            watch.begin(path)
        try:
            hits = scan.hits(file, path)
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


class _BoundedScan:
    """Scans files as their bytes stand where that is their text, else decoded, as long as that is no great work."""

    def __init__(self, search: SearchJob, report: SearchReport, watch: ScanTimer | None) -> None:
        self._watch = watch
        self._scanner = Scanner(search.expression)
        self._most = search.per_file
        self._skipped = report.skipped
        self._files = DECODED_FILES
        self._bytes = DECODED_BYTES

    def hits(self, file: int, path: str) -> list[LineHit]:
        hits = self._scanner.plain(file, self._most)
        if hits is not None:
            return hits
        self._files -= 1
        self._bytes -= os.fstat(file).st_size
        if self._files >= 0 and self._bytes >= 0:
            return self._scanner.text(self._decoded(file, path), self._most)
        self._skipped.add(
            "file",
            f"in another encoding than UTF-8 searched for ASCII only, as the first {DECODED_FILES:,} files or "
            f"{DECODED_BYTES >> 20} MiB of them are decoded",
            path,
        )
        os.lseek(file, 0, os.SEEK_SET)
        return self._scanner.raw(file, self._most)

    def _decoded(self, file: int, path: str) -> Iterator[bytes]:
        """The text; the time that is watched is not for finding out its encoding."""
        if self._watch is not None:
            self._watch.done()
        pieces = decoded(file)
        first = next(pieces, b"")
        if self._watch is not None:
            self._watch.begin(path)
        yield first
        yield from pieces


def path_order(path: str) -> list[bytes]:
    """Sort key: component by component, by bytes, as `rg --sort path` and a sorted walk go."""
    return os.fsencode(path).split(b"/")


def _files(search: SearchJob, report: SearchReport) -> Iterator[tuple[int, str, str]]:
    if search.file is not None:
        yield search.folder, "", search.file
        return
    if search.only is not None:
        yield from _named(search.folder, search.only)
        return
    walk = TreeWalk(
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


def _named(dir_fd: int, paths: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    for path in paths:
        above, slash, name = path.rpartition("/")
        try:
            fd = open_folder(Path(f"/proc/self/fd/{dir_fd}"), above)
        except (NotFound, OutsideWorkspace, Unavailable, Unsupported):
            continue
        try:
            yield fd, above + slash, name
        finally:
            os.close(fd)


def _in_child(search: SearchJob, report: SearchReport) -> Iterator[Record]:
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


def _one_child(
    search: SearchJob, report: SearchReport, note: int, after: str | None
) -> Generator[Record, None, bool]:
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
        "ascii_only": search.expression.ascii_only,
        "count": search.count,
        "hidden": search.hidden,
        "no_ignore": search.no_ignore,
        "per_file": search.per_file,
        "glob": search.names.glob,
        "type": search.names.type,
        "note": note,
        "after": after,
        "only": search.only,
        "path": [path for path in sys.path if os.path.isabs(path)],
    }
    home = str(Path(pegboard.__file__).parents[1])
    start = f"import sys; sys.path.insert(0, {home!r}); from pegboard.files.grep_worker import main; main()"
    told = os.memfd_create("pegboard-grep-job", os.MFD_CLOEXEC)
    with os.fdopen(told, "w", closefd=False) as out:
        json.dump(job, out)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", start, str(told)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"LC_ALL": "C.UTF-8"},
        pass_fds=(search.folder, note, told),
        start_new_session=True,
    )
    os.close(told)
    complaints = bytearray()
    finished = False
    try:
        for line in lines_of(child, search.deadline, complaints):
            value = cast("list[Any]", json.loads(line))
            if value[0] == "end":
                report.searched = value[1]
                _add_skipped(report, value[2])
                finished = True
            elif search.count:
                yield value[0], value[1]
            else:
                yield value[0], LineHit(value[1], value[2])
        status = child.wait()
    finally:
        end_child(child)
    if not finished and status != -signal.SIGPROF:
        raise EngineFailed(complaints.decode("utf-8", "replace"))
    return finished


def _add_skipped(report: SearchReport, told: Sequence[tuple[str, str, int, list[str]]]) -> None:
    for noun, why, count, examples in told:
        report.skipped.counts[(noun, why)] = count
        report.skipped.examples[(noun, why)] = examples
