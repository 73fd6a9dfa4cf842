"""The child process in which grep runs patterns that may backtrack for ever."""

from __future__ import annotations

import json
import math
import signal
import sys
from types import FrameType
from typing import Any

from pegboard.files.engines import FileBudget, Report, Search, TooSlow, scan_tree
from pegboard.files.filters import NameFilter
from pegboard.files.regex import Expression


def main() -> None:
    """Search as the JSON job in the first argument says; one JSON list a line on stdout.

    `[path, line, start, end]` or `[path, count]`, at last `["end", searched, skipped]`.
    """
    job: dict[str, Any] = json.loads(sys.argv[1])
    signal.signal(signal.SIGALRM, _give_up)
    search = Search(
        folder=job["folder"],
        file=job["file"],
        expression=Expression(
            source=job["source"],
            literal=None,
            python_only=True,
            repeats=True,
            ignore_case=job["ignore_case"],
            multiline=job["multiline"],
        ),
        count=job["count"],
        hidden=job["hidden"],
        no_ignore=job["no_ignore"],
        per_file=job["per_file"],
        names=NameFilter(job["glob"], job["type"]),
        deadline=math.inf,
    )
    report = Report()
    out = sys.stdout
    for path, found in scan_tree(search, report, budget=FileBudget()):
        row = [path, found] if isinstance(found, int) else [path, found.line, found.start, found.end]
        out.write(json.dumps(row) + "\n")
    told = [[*key, count, report.skipped.examples[key]] for key, count in report.skipped.counts.items()]
    out.write(json.dumps(["end", report.searched, told]) + "\n")
    out.flush()


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    # `re` looks at pending signals while it backtracks, so this ends the match.
    raise TooSlow
