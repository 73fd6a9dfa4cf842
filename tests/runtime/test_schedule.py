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


def test_the_first_times_of_croniters_tests_are_ours_but_for_what_cron_does_not_have() -> None:
    cases = [c for c in rows("croniter.jsonl") if c["checks"][0]["step"] == "next"]
    refused = {c["expr"] for c in cases if not allowed(c["expr"])}

    misses = [c["id"] for c in cases if c["expr"] not in refused and not _first_fits(c)]

    assert misses == []
    # Nearest weekday, `?` and a range to the last day are not in cron.
    assert refused == {
        "0 9 15W * *",
        "0 9 1W * *",
        "0 9 30W * *",
        "0 9 31W * *",
        "0 9 W15 * *",
        "0 0 1 * ?",
        "0 0 29-L * *",
    }


def _first_fits(case: dict[str, Any]) -> bool:
    start = datetime.fromisoformat(case["start"]).replace(tzinfo=UTC)
    (found,) = next_times(case["expr"], after=start, count=1)
    wanted = {k: v for k, v in case["checks"][0]["fields"].items() if k != "tzinfo"}
    return {k: getattr(found, k) for k in wanted} == wanted


def computed() -> list[dict[str, Any]]:
    lines = (DATA / "cases/dev.jsonl").read_text(encoding="utf-8").splitlines()
    theme = [row for row in map(json.loads, lines) if row["theme"] == "9-cron"]
    return [row for row in theme if row.get("calc", {}).get("kind") == "cron"]


@owes(
    "cron-01", "cron-02", "cron-03", "cron-07", "cron-08", "cron-09", "cron-10", "cron-12", "cron-13", "cron-15",
    "cron-16", "cron-17", "cron-18", "cron-24",
)  # fmt: skip
@pytest.mark.parametrize("case", computed(), ids=lambda row: row["id"])
def test_times_on_days_when_clocks_change(case: dict[str, Any]) -> None:
    calc = case["calc"]
    start = datetime.fromisoformat(calc["start"])

    found = next_times(calc["expr"], zone=calc["tz"], after=start, count=len(calc["next"]))

    assert [t.astimezone(UTC).isoformat().replace("+00:00", "Z") for t in found] == calc["next"]
    assert found[0].astimezone(UTC) > start.astimezone(UTC)


@owes("cron-24")
@pytest.mark.parametrize("minute", [45, 50, 55])
def test_in_the_second_of_two_equal_hours_no_time_of_the_first_comes_again(minute: int) -> None:
    # 01:50 EST on the day that New York's clocks go back: 01:00 to 02:00 came once before.
    now = datetime(2027, 11, 7, 6, 50, tzinfo=UTC)

    (found,) = next_times(f"{minute} 1 * * *", zone="America/New_York", after=now, count=1)

    assert found.astimezone(UTC) == datetime(2027, 11, 8, 6, minute, tzinfo=UTC)


def test_two_times_that_a_gap_moves_to_its_end_are_one() -> None:
    start = datetime(2027, 3, 13, 17, 0, tzinfo=UTC)

    found = next_times("15,45 2 * * *", zone="America/New_York", after=start, count=3)

    assert [t.astimezone(UTC).strftime("%d %H:%M") for t in found] == ["14 07:00", "15 06:15", "15 06:45"]


def test_a_year_of_fixed_times_comes_once_a_day_whatever_the_clocks_do() -> None:
    for zone in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"):
        for hour in (0, 1, 2, 3):
            start = datetime(2026, 12, 31, 12, tzinfo=UTC)
            found = next_times(f"30 {hour} * * *", zone=zone, after=start, count=366)
            days = [t.date() for t in found]
            assert days == [days[0] + timedelta(days=n) for n in range(366)], (zone, hour)


@owes("N-98")
@pytest.mark.parametrize(
    ("expr", "says"),
    [
        ("* * * * * *", "6 fields"),
        ("0 9 * *", "4 fields"),
        ("", "0 fields"),
        ("0 0 30 2 *", "no such day"),
        ("1 1 */100 * MON#4", "never comes"),
        ("61 * * * *", "minute is not valid"),
        ("@reboot", "no name '@reboot'"),
        ("0 9 * * ٣", "not a cron expression"),
        ("0 9 15W * *", "day of month is not valid"),
    ],
)
def test_what_cron_does_not_allow_is_refused_and_says_why(expr: str, says: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        next_times(expr)

    assert says in caught.value.message
    assert caught.value.hint or says == "never comes"


@owes("N-101")
@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd", "Europe", "CEST+2", "a\0b"])
def test_a_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArguments, match="no time zone is called"):
        next_times("0 9 * * *", zone=zone)


def test_a_time_without_an_offset_is_the_zones_and_times_come_in_the_zone() -> None:
    found = next_times("0 9 * * *", zone=BERLIN, after=datetime(2027, 7, 1, 9, 0), count=1)

    assert [t.isoformat() for t in found] == ["2027-07-02T09:00:00+02:00"]


@owes("cron-23", "N-97")
def test_an_interval_is_real_time() -> None:
    # 01:00 EST on the day that New York's clocks go forward; two hours later it is 04:00 EDT.
    start = datetime.fromisoformat("2027-03-14T01:00:00-05:00").timestamp()
    every = parse_schedule("every 2h", "America/New_York", start)

    assert every == Every(every_s=7200.0, start=start, zone="America/New_York")
    assert shown_time(next_time(every, start) or 0, "America/New_York") == "2027-03-14T04:00:00-04:00"
    assert [t - start for t in islice(times_after(every, start + 7200.5), 2)] == [14400, 21600]
    assert next(times_after(every, start - 86400)) == start


@owes("cron-21", "N-99")
def test_a_time_that_has_passed_is_refused_with_the_time_that_it_is() -> None:
    now = datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()

    for passed in ("2027-01-01T11:59:00Z", "2027-01-01T12:00:00Z"):
        with pytest.raises(InvalidArguments, match=r"has passed: it is 2027-01-01T12:00:00\+00:00 now"):
            parse_schedule(passed, "UTC", now)
    assert parse_schedule("2027-01-01T12:00:01Z", "UTC", now) == At(at=now + 1)


@owes("cron-22")
def test_a_local_time_is_read_in_the_users_zone() -> None:
    now = datetime(2027, 3, 25, tzinfo=UTC).timestamp()

    read = parse_schedule("2027-03-25T10:00:00", "Asia/Shanghai", now)

    assert isinstance(read, At)
    assert datetime.fromtimestamp(read.at, UTC) == datetime(2027, 3, 25, 2, 0, tzinfo=UTC)
    assert schedule_text(read) == "2027-03-25T10:00:00+08:00"


def test_a_local_time_that_clocks_skip_is_the_end_of_the_gap_as_in_cron() -> None:
    assert schedule_text(parse_schedule("2027-03-28T02:30", BERLIN, WEDNESDAY)) == "2027-03-28T03:00:00+02:00"


def test_a_local_time_that_comes_twice_is_the_one_that_is_still_to_come() -> None:
    between = datetime(2027, 10, 31, 1, 10, tzinfo=UTC).timestamp()  # 02:10 for the second time.

    for text in ("2027-10-31T02:45", "at 2:45", "today at 2:45"):
        assert schedule_text(parse_schedule(text, BERLIN, between)) == "2027-10-31T02:45:00+01:00"


@owes("D-33", "X-34")
@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("0 9 * * 1-5", "0 9 * * 1-5"),
        ("  0  9 * * *  ", "0 9 * * *"),
        ("@daily", "@daily"),
        ("every 10m", "every 10m"),
        ("every 2 hours", "every 2h"),
        ("every minute", "every 1m"),
        ("every 90 seconds", "every 90s"),
        ("every 1 hour and 30 minutes", "every 90m"),
        ("20m", "2027-03-24T11:20:00+01:00"),
        ("in 20 minutes", "2027-03-24T11:20:00+01:00"),
        ("1h30m", "2027-03-24T12:30:00+01:00"),
        ("2027-03-25 10:00", "2027-03-25T10:00:00+01:00"),
        ("2027-03-25T10:00:00+09:00", "2027-03-25T02:00:00+01:00"),
        ("every Monday at 9", "0 9 * * 1"),
        ("Every mon, wed and fri at 9:30 PM.", "30 21 * * 1,3,5"),
        ("Thursday to Saturday at 8", "0 8 * * 4,5,6"),
        ("every sat-mon at 8", "0 8 * * 0,1,6"),
        ("every Monday, Wednesday-Friday at 9", "0 9 * * 1,3,4,5"),
        ("Fri to Sun at 9", "0 9 * * 0,5,6"),
        ("every Mon to Wed and Sat through Sun at 9", "0 9 * * 0,1,2,3,6"),
        ("on Mondays at 9", "0 9 * * 1"),
        ("on Monday and Friday at 9", "0 9 * * 1,5"),
        ("on Friday at 17:30", "2027-03-26T17:30:00+01:00"),
        ("on Tuesday, 8am", "2027-03-30T08:00:00+02:00"),
        ("weekdays at 8:15", "15 8 * * 1-5"),
        ("every weekend at noon", "0 12 * * 0,6"),
        ("daily at 9:00", "0 9 * * *"),
        ("every day at midnight", "0 0 * * *"),
        ("at 7am every day", "0 7 * * *"),
        ("monthly on the 1st at 6:00", "0 6 1 * *"),
        ("hourly", "0 * * * *"),
        ("tomorrow at 8", "2027-03-25T08:00:00+01:00"),
        ("today at 18:00", "2027-03-24T18:00:00+01:00"),
        ("at 9", "2027-03-25T09:00:00+01:00"),
        ("17:30", "2027-03-24T17:30:00+01:00"),
        ("Friday at 10", "2027-03-26T10:00:00+01:00"),
        ("Wednesday at 12:00", "2027-03-24T12:00:00+01:00"),
        ("next Wednesday at 12:00", "2027-03-31T12:00:00+02:00"),
        ("每天早上九点", "0 9 * * *"),
        ("每周一、三、五晚上8点半", "30 20 * * 1,3,5"),
        ("周一到周五早上9:15", "15 9 * * 1,2,3,4,5"),
        ("每周一到周三、周六9点", "0 9 * * 1,2,3,6"),
        ("每个工作日早上9点", "0 9 * * 1-5"),
        ("每星期天下午三点一刻", "15 15 * * 0"),
        ("每月1号9点", "0 9 1 * *"),
        ("每10分钟", "every 10m"),
        ("每隔两小时", "every 2h"),
        ("20分钟后", "2027-03-24T11:20:00+01:00"),
        ("半小时后", "2027-03-24T11:30:00+01:00"),
        ("明天上午8点", "2027-03-25T08:00:00+01:00"),
        ("今晚8点", "2027-03-24T20:00:00+01:00"),
    ],
)  # fmt: skip
def test_a_schedule_in_words_means_what_it_says(text: str, means: str) -> None:
    read = parse_schedule(text, BERLIN, WEDNESDAY)

    assert schedule_text(read) == means
    assert parse_schedule(means, BERLIN, WEDNESDAY) == read


@pytest.mark.parametrize(
    "text",
    ["", "soon", "tomorow at 8", "every day", "daily", "2027-03-25", "2027-13-01T10:00", "at 25:00", "at 13pm",
     "every 0.2s", "in 0 seconds", "in 9999999999 days", "today at 8", "每天", "1 " * 400, "every " + "1m " * 400,
     "1m " * 150 + "x", "MON"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_schedule(text, BERLIN, WEDNESDAY)

    assert caught.value.hint


def test_a_cron_job_keeps_its_zone() -> None:
    assert parse_schedule("daily at 9:00", "Asia/Kathmandu", WEDNESDAY) == Cron(
        expr="0 9 * * *", zone="Asia/Kathmandu"
    )
