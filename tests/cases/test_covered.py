"""Every case of these themes is tried in this folder, through the public surface."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases.kit import rows
from tests.test_ledger import TAG

ELSEWHERE = {
    # Steps of a run that another folder tries: a killed process, a session's end, a deferred catalogue.
    "perm-13": "tests/cases/test_11_perm_late.py",
    "context-06": "tests/runtime/test_killed.py",
}


@pytest.mark.parametrize("theme", ["1-schema", "2-args", "3-edit", "4-patch", "5-exec", "6-search", "11-perm", "13-context"])  # fmt: skip
def test_every_case_of_a_theme_has_a_runner(theme: str) -> None:
    tagged: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for match in TAG.finditer(path.read_text("utf-8")):
            tagged |= set(re.findall(r'"([a-z]+-\d+)"', match[1]))

    assert set(rows(theme)) - tagged - set(ELSEWHERE) == set()
