"""Searching with `rg`: its arguments, its answer line by line, its complaints."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import resource
import subprocess
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from pegboard.files.child_output import end_child, lines_of
from pegboard.files.scan import LineHit
from pegboard.files.search_engine import (
    LINE_END,
    RG_MEMORY_BYTES,
    RG_PROGRAM,
    EngineFailed,
    Record,
    SearchJob,
    SearchReport,
)

_PATIENCE_S: Final = 0.5
"""Seconds from which on a search is asked whether something holds it."""


class Ripgrep:
    """ripgrep as a child; linear in the text whatever the pattern.

    Its lines are asked for by number and column only (`--max-columns 1`), because `--json` spells
    out every match of a line: for `.` on a line of a megabyte that is a hundred megabytes. The
    text comes from our own reading.
    """

    def __init__(self, program: Path, suspects: Iterator[bool]) -> None:
        """`suspects` tells step by step whether ripgrep may wait at something for ever; asked while it takes long."""
        self._program = program
        self._suspects = suspects

    def not_plain(self, search: SearchJob) -> list[str]:
        """Files that are no UTF-8 or hold U+FFFD, or with a CR inside a line; those with a NUL are left out.

        ripgrep is made to decode UTF-8, for which it puts U+FFFD where there is none, and to look for that: looking for
        lines that are UTF-8 would have its engine step through every byte (decision 0450).

        Raises:
            EngineFailed, TimedOut: as `run`.
        """
        child = self._start(search, _rg_arguments(search, ordered=False, plain=True))
        with self._watched(child):
            said = b"\n".join(lines_of(child, search.deadline, bytearray()))
            status = child.wait()
        # 2 is told for a folder that could not be read, too; the search itself reports it.
        if status < 0:
            raise EngineFailed(f"status {status}")
        return [os.fsdecode(path).removeprefix("./") for path in said.split(b"\0") if path]

    def run(self, search: SearchJob, report: SearchReport, *, ordered: bool) -> Iterator[Record]:
        """Records as ripgrep finds them.

        Raises:
            EngineFailed: ripgrep refused the pattern, ran out of memory or broke down.
            TimedOut: the deadline passed.
        """
        child = self._start(search, _rg_arguments(search, ordered))
        complaints = bytearray()
        with self._watched(child):
            pending = b""
            for line in lines_of(child, search.deadline, complaints):
                pending += line
                # A line without a NUL is the start of a name with a line end in it, or the statistics.
                record = _record(pending, search.count) if b"\0" in line else None
                pending = pending + b"\n" if record is None else b""
                if record is not None:
                    yield record
            if stated := re.search(rb"^(\d+) files searched$", pending, re.MULTILINE):
                report.searched = int(stated[1])
            status = child.wait()
        _read_complaints(complaints, report)
        if status < 0 or (status > 1 and not report.skipped.counts):
            raise EngineFailed(complaints.decode("utf-8", "replace"))

    @contextlib.contextmanager
    def _watched(self, child: subprocess.Popen[bytes]) -> Generator[None]:
        """The child is ended at the close, and before where it takes long and something holds it."""
        done = threading.Event()

        def watch() -> None:
            if done.wait(_PATIENCE_S):
                return
            if any(itertools.takewhile(lambda _: not done.is_set(), self._suspects)):
                child.kill()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            # Before the child is reaped: its number may be another's afterwards.
            watcher.join()
            end_child(child)

    def _start(self, search: SearchJob, arguments: list[str]) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [str(self._program), *arguments],
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
        return child


def _rg_arguments(search: SearchJob, ordered: bool, *, plain: bool = False) -> list[str]:
    """Arguments of a search, or (plain) for the names of the files that are not to be read as they stand."""
    expression = search.expression
    arguments = [
        "--no-config",
        "--no-require-git",
        "--no-ignore-global",
        "--no-mmap",
        "--null",
        "--color",
        "never",
    ]
    if plain:
        arguments += ["--files-with-matches", "--encoding", "utf-8", "--no-messages"]
    else:
        arguments += ["--text", "--stats", "--with-filename", "--no-heading"]
        arguments += ["--count"] if search.count else ["--line-number", "--column", "--max-columns", "1"]
        arguments += ["--regex-size-limit", RG_PROGRAM]
        arguments.append("--ignore-case" if expression.ignore_case else "--case-sensitive")
    if search.hidden:
        arguments.append("--hidden")
    if search.no_ignore:
        arguments.append("--no-ignore")
    if ordered:
        arguments += ["--sort", "path"]
    if search.per_file and not plain:
        arguments += ["--max-count", str(search.per_file)]
    if search.file is None:
        for glob in search.names.narrow():
            arguments += ["--glob", glob]
        arguments += ["--glob", "!.git"]
    arguments += [
        "--regexp",
        "\\x{FFFD}|\\r[^\\n]" if plain else expression.rust,
        "--",
        "./" + (search.file or ""),
    ]
    return arguments


def _record(line: bytes, count: bool) -> Record | None:
    path, _, rest = line.lstrip(b"\n").rpartition(b"\0")
    name = os.fsdecode(path).removeprefix("./")
    if count:
        return name, int(rest)
    # A match of nothing at the end of the last line has no column.
    found = re.match(rb"(\d+):(?:(\d+):)?", rest)
    return None if found is None else (name, LineHit(int(found[1]), int(found[2] or LINE_END) - 1))


def _read_complaints(text: bytearray, report: SearchReport) -> None:
    """Turn `rg: ./x: Permission denied (os error 13)` into a reason for skipping."""
    for line in os.fsdecode(bytes(text)).splitlines():
        found = re.fullmatch(r"(?:rg: )?(?:\./)?(.*?): (?:.*: )?(.+?) \(os error \d+\)", line)
        if found:
            report.skipped.add("path", f"could not be read: {found[2].lower()}", found[1])
