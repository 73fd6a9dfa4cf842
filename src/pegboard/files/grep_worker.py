"""The child process in which grep runs patterns that may backtrack for ever."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from typing import Any

from pegboard.files.filters import NameFilter
from pegboard.files.regex import Expression
from pegboard.files.search_engine import SLOW_FILE_S, SearchJob, SearchReport
from pegboard.files.search_engines import scan_tree


def main() -> None:
    """Search as the JSON job says whose descriptor is the first argument; one JSON list a line on stdout.

    `[path, line, start]` or `[path, count]`, at last `["end", searched, skipped]`.
    """
    told = int(sys.argv[1])
    job: dict[str, Any] = json.loads(os.pread(told, os.fstat(told).st_size, 0))
    # For what guesses encodings; this process was started without site-packages, since that is faster.
    sys.path.extend(job["path"])
    search = SearchJob(
        folder=job["folder"],
        file=job["file"],
        expression=Expression(
            source=job["source"],
            rust="",
            literal=None,
            python_only=True,
            repeats=True,
            ignore_case=job["ignore_case"],
            multiline=job["multiline"],
            ascii_only=job["ascii_only"],
        ),
        count=job["count"],
        hidden=job["hidden"],
        no_ignore=job["no_ignore"],
        per_file=job["per_file"],
        names=NameFilter(job["glob"], job["type"]),
        deadline=math.inf,
        only=None if job["only"] is None else tuple(job["only"]),
    )
    report = SearchReport()
    out = sys.stdout
    for path, found in scan_tree(search, report, watch=Timer(job["note"]), after=job["after"]):
        row = [path, found] if isinstance(found, int) else [path, found.line, found.start]
        out.write(json.dumps(row) + "\n")
    told = [[*key, count, report.skipped.examples[key]] for key, count in report.skipped.counts.items()]
    out.write(json.dumps(["end", report.searched, told]) + "\n")
    out.flush()


class Timer:
    """Ends this process where one file takes more than SLOW_FILE_S of the processor, however busy the machine is.

    The default action of SIGPROF does it: `re` looks at handlers too seldom to be interrupted by one.
    """

    def __init__(self, note: int) -> None:
        self._note = note

    def begin(self, path: str) -> None:
        """Hand on what is known so far, note the file for who goes on after us, start its time."""
        sys.stdout.flush()
        name = os.fsencode(path)
        os.pwrite(self._note, len(name).to_bytes(2, "big") + name, 0)
        signal.setitimer(signal.ITIMER_PROF, SLOW_FILE_S)

    def done(self) -> None:
        """Stop the time."""
        signal.setitimer(signal.ITIMER_PROF, 0)
