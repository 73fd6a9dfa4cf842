"""The real failures of themes 3 and 4, by id."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tests.ledger import DATA


@cache
def cases(theme: str) -> dict[str, dict[str, Any]]:
    """Cases of one theme: id -> row."""
    rows = (json.loads(line) for line in (DATA / "cases" / "dev.jsonl").read_text("utf-8").splitlines())
    return {row["id"]: row for row in rows if row["theme"] == theme}


@cache
def patch_corpus() -> dict[str, dict[str, Any]]:
    """The patch scenarios: id -> row."""
    path = DATA / "apply_patch" / "scenarios.jsonl"
    return {row["id"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())}
