"""Schedules are read as they are meant, and their times are those of cron and of the clocks of the zone."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from pegboard.core.errors import InvalidArguments, ToolError
from pegboard.ports.schedules import At, Cron, Every
from pegboard.runtime.schedule import (
    check_cron,
    next_time,
    next_times,
    parse_schedule,
    schedule_text,
    shown_time,
    times_after,
)
from tests.ledger import DATA, owes

CRON = DATA / "cron"
BERLIN = "Europe/Berlin"
WEDNESDAY = datetime(2027, 3, 24, 10, 0, tzinfo=UTC).timestamp()
"""11:00 in Berlin."""


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CRON / name).read_text(encoding="utf-8").splitlines()]


def allowed(expr: str) -> bool:
    try:
        check_cron(expr)
    except ToolError:
        return False
    return True


def test_each_of_the_93_expressions_is_decided_as_cronsim_does_but_for_a_field_of_seconds() -> None:
    cases = rows("parse.jsonl")

    wrong = [c["expr"] for c in cases if allowed(c["expr"]) != (c["ok"] and len(c["expr"].split()) == 5)]

    assert len(cases) == 93
    assert wrong == []


def test_where_both_libraries_agree_we_give_their_times() -> None:
    with gzip.open(CRON / "matrix.jsonl.gz", "rt", encoding="utf-8") as lines:
        cells = [json.loads(line) for line in lines]
    agreed = [c for c in cells if c["agree"]]

    misses = [(c["expr"], c["tz"], c["start"]) for c in agreed if _times(c) != c["next_utc"]]

    assert len(agreed) == 1656
    assert misses == []


def test_where_they_differ_we_follow_cronsim_and_the_guide_says_how() -> None:
    # croniter runs a fixed time at both of two equal hours, and one of every second hour in a gap.
    with gzip.open(CRON / "matrix.jsonl.gz", "rt", encoding="utf-8") as lines:
        cells = [json.loads(line) for line in lines]
    differ = [c for c in cells if not c["agree"]]

    misses = [(c["expr"], c["tz"], c["start"]) for c in differ if _times(c) != c["cronsim"]]

    assert len(differ) == 24
    assert misses == []


def _times(cell: dict[str, Any]) -> list[str]:
    start = datetime.fromisoformat(cell["start"])
    found = next_times(cell["expr"], zone=cell["tz"], after=start, count=6)
    return [t.astimezone(UTC).isoformat() for t in found]
