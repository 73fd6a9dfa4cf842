"""Diagnostic: one problem in a file; which of some are new, and how they are shown."""

from __future__ import annotations

import difflib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Literal, cast

from pegboard.core.text import escape_invisible

MAX_LINES: Final = 20
"""Of what a result says of its writes."""

_MAX_MESSAGE: Final = 300
_MAX_PYTHON: Final = 1024 * 1024
_SEVERITIES: Final = {1: "error", 2: "warning"}
"""LSP 3.17, DiagnosticSeverity; information and hints are left out."""

_SOURCE: Final = "pegboard-checked-source"

_GNU: Final = re.compile(
    r"(?P<path>[^\s:][^:]*): ?(?:line )?(?P<line>\d+)(?::(?P<column>\d+))?:\s*(?P<rest>.+)"
)
"""`FILE:LINE:COLUMN: MESSAGE` (GNU Coding Standards, Formatting Error Messages), and `FILE: line LINE: MESSAGE` of shells."""

_TSC: Final = re.compile(r"(?P<path>[^\s(][^(]*)\((?P<line>\d+),(?P<column>\d+)\):\s*(?P<rest>.+)")
"""`FILE(LINE,COLUMN): MESSAGE`, as tsc and MSBuild write."""

_WARNING: Final = re.compile(r"(warning|note|info|style)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem.

    Attributes:
        path: relative to the workspace.
        line, column: from 1; a column of 0 is unknown.
        severity: error or warning.
        source: who says so.
        rule: its name for that kind of problem; may be empty.
        message: one line.
    """

    path: str
    line: int
    column: int = 0
    severity: Literal["error", "warning"] = "error"
    source: str
    rule: str = ""
    message: str

    @property
    def key(self) -> tuple[str, str]:
        """What stays the same while lines move: rule and message."""
        return self.rule, self.message

    def __str__(self) -> str:
        place = f"{escape_invisible(self.path)}:{self.line}" + (f":{self.column}" if self.column else "")
        return (
            f"{place}: {self.severity}: {self.message} ({' '.join(filter(None, [self.source, self.rule]))})"
        )

    def to_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "path": self.path, "line": self.line, "column": self.column, "severity": self.severity,
            "source": self.source, "rule": self.rule, "message": self.message,
        }  # fmt: skip


def new_problems(found: Iterable[Diagnostic], known: Mapping[tuple[str, str], int]) -> list[Diagnostic]:
    """The problems of one file that were not known; of several with one rule and message, the last ones.

    Args:
        found: all that stand there now.
        known: how often each rule and message stood there before.
    """
    rows = sorted(found, key=lambda d: (d.line, d.column))
    left = Counter(known)
    out: list[Diagnostic] = []
    for one in rows:
        left[one.key] -= 1
        if left[one.key] < 0:
            out.append(one)
    return out


def keys_of(found: Iterable[Diagnostic]) -> Counter[tuple[str, str]]:
    """How often each rule and message occurs."""
    return Counter(one.key for one in found)


def changed_lines(before: str | None, after: str) -> range | set[int]:
    """The numbers, from 1, of the lines that a change added or replaced."""
    lines = after.splitlines()
    if before is None:
        return range(1, len(lines) + 2)
    blocks = difflib.SequenceMatcher(None, before.splitlines(), lines, autojunk=False).get_opcodes()
    return {n for tag, _, _, start, end in blocks if tag != "equal" for n in range(start + 1, end + 1)}


def diagnostic_of(item: object, path: str, source: str) -> Diagnostic | None:
    """A language server's diagnostic; None if it is a hint, or cannot be read."""
    if not isinstance(item, dict):
        return None
    row = cast("dict[str, Any]", item)
    severity = _SEVERITIES.get(row.get("severity", 1))
    try:
        start: Any = row["range"]["start"]
        line, column = int(start["line"]), int(start["character"])
        # Below the first line stand details, and some servers put spaces of their own before them.
        message = _one_line(str(row["message"]).splitlines()[0])
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    if severity is None:
        return None
    code: Any = row.get("code")
    rule = str(code) if isinstance(code, str | int) else ""
    return Diagnostic(
        path=path, line=line + 1, column=column + 1, severity=cast(Any, severity), source=source, rule=_one_line(rule), message=message,
    )  # fmt: skip


def diagnostics_in(output: str, source: str, root: str) -> list[Diagnostic]:
    """The problems that a command has written, one a line."""
    out: list[Diagnostic] = []
    for line in output.splitlines():
        found = _TSC.match(line.strip()) or _GNU.match(line.strip())
        if found is None:
            continue
        path = found["path"].removeprefix(root + "/").removeprefix("./")
        rest = _one_line(found["rest"])
        note = _WARNING.match(rest)
        out.append(
            Diagnostic(
                path=path, line=int(found["line"]), column=int(found["column"] or 0),
                severity="warning" if note else "error", source=source,
                message=re.sub(r"^(fatal )?(error|warning)\s*:\s*", "", rest),
            )
        )  # fmt: skip
    return out


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[: _MAX_MESSAGE - 1]}…"


def is_python(path: str) -> bool:
    """Whether a file is Python by its name."""
    return PurePosixPath(path).suffix in (".py", ".pyi")


def python_syntax(path: str, data: bytes) -> list[Diagnostic]:
    """The error with which Python refuses to compile a file; empty if it does not, or the file is over 1 MiB.

    Nothing of the file runs.
    """
    if len(data) > _MAX_PYTHON:
        return []
    # What the compiler merely warns of would be printed; the filter is for the name that stands for the file here.
    warnings.filterwarnings("ignore", module=_SOURCE)
    try:
        compile(data, f"{_SOURCE}.py", "exec", dont_inherit=True)
    except SyntaxError as error:
        # A file whose encoding cannot be read has no line.
        message = f"{type(error).__name__}: {error.msg}".replace(f" ({_SOURCE}.py)", "")
        return [_of_python(path, max(error.lineno or 1, 1), max(error.offset or 0, 0), message)]
    except (ValueError, MemoryError, RecursionError, OverflowError) as error:
        return [_of_python(path, 1, 0, f"{type(error).__name__}: {error or 'the compiler gave up'}")]
    return []


def _of_python(path: str, line: int, column: int, message: str) -> Diagnostic:
    import sys

    source = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    return Diagnostic(path=path, line=line, column=column, source=source, message=_one_line(message))


def text_of(found: Sequence[Diagnostic], remarks: Sequence[str]) -> str:
    """What a result says of new problems, errors first, and of checks that say nothing yet."""
    lines: list[str] = []
    if found:
        rows = sorted(found, key=lambda d: (d.severity != "error", d.path, d.line, d.column))
        count = "1 new problem" if len(rows) == 1 else f"{len(rows)} new problems"
        lines.append(f"[The write is done. It brought {count}:]")
        room = MAX_LINES - len(remarks) - 1
        shown = rows if len(rows) <= room else rows[: room - 1]
        lines += map(str, shown)
        if len(shown) < len(rows):
            lines.append(f"… and {len(rows) - len(shown)} more")
    return "\n".join([*lines, *(f"[{remark}]" for remark in remarks)])
