"""The ledger: every tag names a row that exists, and the rows without a test are told."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.ledger import DATA

TESTS = Path(__file__).resolve().parent
ROWS = {"N": 122, "D": 60, "C": 50, "M": 69, "A": 54, "U": 14, "X": 62, "K": 90, "G": 25}
"""The feature ledger counts the rows of each section from 01."""
TAG = re.compile(r"owes\(([^)]*)\)")
OF_LATER_PARTS = (
    # The durable runtime has an issue of its own.
    "N-122",
    # The documents' own sets of tools, subagents and settings of tools that are still to come.
    "A-53",
)  # fmt: skip


def known() -> set[str]:
    """Every row of the ledger, every case, and every row of the corpora of attacks."""
    rows = {f"{section}-{n:02d}" for section, last in ROWS.items() for n in range(1, last + 1)}
    cases = {
        json.loads(line)["id"] for line in (DATA / "cases/dev.jsonl").read_text(encoding="utf-8").splitlines()
    }
    attacks = {
        json.loads(line)["id"]
        for path in (DATA / "security").glob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    return rows | cases | attacks


def tagged() -> dict[str, str]:
    """Every id that a test names -> the file that names it."""
    out: dict[str, str] = {}
    for path in TESTS.rglob("*.py"):
        for match in TAG.finditer(path.read_text(encoding="utf-8")):
            for name in re.findall(r'"([A-Z]-[0-9]+|[a-z]+-[0-9]+)"', match[1]):
                out[name] = str(path.relative_to(TESTS))
    return out


def test_every_tag_names_a_row_of_the_ledger_or_a_case() -> None:
    rows = known()

    unknown = {name: where for name, where in tagged().items() if name not in rows}

    assert unknown == {}


def test_the_rows_without_a_test_are_told(capsys: object) -> None:
    rows = {r for r in known() if re.match(r"[A-Z]-\d+$", r)}
    # Counted apart: a row of a later part is owed, not proved.
    tested = rows & set(tagged())
    later = (rows & set(OF_LATER_PARTS)) - tested
    missing = rows - tested - later

    report = TESTS.parent / ".ledger-report"
    report.write_text(
        f"{len(rows)} rows: {len(tested)} named by a test, {len(later)} of later parts and not tested yet, "
        f"{len(missing)} without either\n"
        f"of later parts: {_listed(later)}\nwithout either: {_listed(missing)}\n"
    )

    assert len(rows) >= 500


def _listed(rows: set[str]) -> str:
    return " ".join(sorted(rows, key=lambda r: (r[0], int(r[2:])))) or "none"
