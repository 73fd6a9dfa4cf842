"""Schedules: reading them, and the times that they mean.

Cron is that of Debian's cron(8), by the library cronsim: five fields or an @name, day of month and day of week either
one unless one of them begins with `*`. Where clocks jump ahead, a job with a fixed minute and hour whose time does not
exist runs at the end of the gap; where they go back, it runs at the first of both. Jobs with `*` there follow real time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import Any, Final

from pegboard.core.errors import InvalidArguments
from pegboard.ports.schedules import At, Cron, Every, Schedule

_LONGEST: Final = 500
"""Characters of a schedule."""
_LONGEST_S: Final = 10 * 365 * 86400
"""Seconds of an interval."""
_MOST_TIMES: Final = 10_000
_YEAR_2000: Final = 946684800.0

_NAMES: Final = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_HINT: Final = (
    "Write a cron expression such as 0 9 * * 1-5, an interval such as every 10m, a delay such as 20m, an ISO time such "
    "as 2027-03-25T10:00, or a phrase such as every Monday at 9 or tomorrow at 8."
)


def next_times(
    expr: str, *, zone: str = "UTC", after: datetime | None = None, count: int = 3
) -> list[datetime]:
    """The next times of a cron expression, on the clocks of a zone.

    Args:
        expr: five fields, or an @name.
        zone: an IANA zone.
        after: only later ones; without an offset it is a time of the zone, None = now.
        count: how many, at most 10,000.

    Raises:
        InvalidArguments: cron does not allow the expression, or no such time ever comes, or there is no such zone.
    """
    place = zone_of(zone)
    start = datetime.now(UTC) if after is None else after
    start = start.replace(tzinfo=place) if start.tzinfo is None else start
    check_cron(expr)
    return list(islice(_cron_times(expr, place, start.timestamp()), min(count, _MOST_TIMES)))


def times_after(schedule: Schedule, after: float) -> Iterator[float]:
    """The times of a schedule that are later than `after`, in order; seconds since the epoch.

    Raises:
        InvalidArguments: its zone is not known here.
    """
    match schedule:
        case At(at=at):
            if at > after:
                yield at
        case Every(every_s=every_s, start=start):
            number = max(0, int((after - start) // every_s) + 1)
            while True:
                yield start + number * every_s
                number += 1
        case Cron(expr=expr, zone=zone):
            for time in _cron_times(expr, zone_of(zone), after):
                yield time.timestamp()


def next_time(schedule: Schedule, after: float) -> float | None:
    """The first time of a schedule after `after`, seconds since the epoch; None if there is none.

    Raises:
        InvalidArguments: its zone is not known here.
    """
    return next(times_after(schedule, after), None)


def shown_time(at: float, zone: str) -> str:
    """A time as ISO 8601, to the second, with the offset of a zone."""
    return datetime.fromtimestamp(at, zone_of(zone)).isoformat(timespec="seconds")


def schedule_text(schedule: Schedule) -> str:
    """A schedule in one of the forms that `parse_schedule` reads."""
    match schedule:
        case At(at=at, zone=zone):
            return shown_time(at, zone)
        case Every(every_s=every_s):
            for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
                if every_s % size == 0:
                    return f"every {every_s / size:g}{unit}"
            return f"every {every_s:g}s"
        case Cron(expr=expr):
            return expr


def canonical_text(text: str, zone: str) -> str:
    """What `schedule_text` says of a schedule that was read now.

    Raises:
        InvalidArguments: see `parse_schedule`.
    """
    return schedule_text(parse_schedule(text, zone, datetime.now(UTC).timestamp()))


def zone_of(name: str) -> tzinfo:
    """An IANA zone.

    Raises:
        InvalidArguments: there is none of that name.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # A folder of the database is an OSError, a name with `..` a ValueError.
        raise InvalidArguments(
            f"no time zone is called {name!r:.80}", hint="Use an IANA name such as Europe/Berlin or UTC."
        ) from None


# -- cron -------------------------------------------------------------------------------------


def check_cron(expr: str) -> str:
    """A cron expression with single spaces.

    Raises:
        InvalidArguments: cron does not allow it, or no such time ever comes.
    """
    spelled = _five_fields(expr)
    from cronsim import CronSimError

    try:
        # Fifty years are looked through, from a leap year on.
        found = next(_cron_times(spelled, UTC, _YEAR_2000), None)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ").replace("-", " ")
        where = ", or there is no such day in the months it names" if field == "day of month" else ""
        raise InvalidArguments(
            f"cron does not allow {expr!r:.100}: its {field} is not valid{where}",
            hint="The fields are minute 0-59, hour 0-23, day of month 1-31, month 1-12 and day of week 0-7.",
        ) from None
    if found is None:
        raise InvalidArguments(f"the cron expression {expr!r:.100} never comes: no day fits it")
    return " ".join(expr.split())


def _five_fields(expr: str) -> str:
    words = expr.split()
    name = words[0].lower() if len(words) == 1 else ""
    if name.startswith("@"):
        if name not in _NAMES:
            raise InvalidArguments(f"cron has no name {name!r:.60}", hint=f"Use one of {', '.join(_NAMES)}.")
        return _NAMES[name]
    if len(words) != 5 or len(expr) > _LONGEST or not expr.isascii():
        raise InvalidArguments(
            f"{expr!r:.100} has {len(words)} fields, and a cron expression has 5"
            if len(words) != 5
            else f"{expr!r:.100} is not a cron expression",
            hint="Write minute, hour, day of month, month and day of week, such as 0 9 * * 1-5. "
            "For seconds write an interval such as every 30s.",
        )
    return " ".join(words)


def _cron_times(expr: str, zone: tzinfo, after: float) -> Iterator[datetime]:
    """The times after `after`, each later than the one before.

    Where clocks change, cronsim may name one instant twice (two times in the same gap), or one that has passed
    (`after` lies in the second of two equal hours).
    """
    from cronsim import CronSim

    last = after
    try:
        for time in CronSim(_five_fields(expr), datetime.fromtimestamp(after, zone)):
            if time.timestamp() > last:
                last = time.timestamp()
                yield time
    except (OverflowError, ValueError):
        return  # The calendar ends with the year 9999.


# -- reading ----------------------------------------------------------------------------------


def parse_schedule(text: str, zone: str, now: float) -> Schedule:
    """Read a schedule.

    Args:
        text: a cron expression, an @name, `every 10m`, `20m`, an ISO time, or a phrase in English or Chinese.
        zone: the IANA zone that times without an offset are in.
        now: seconds since the epoch.

    Raises:
        InvalidArguments: it cannot be read, its time has passed, or there is no such zone.
    """
    place = zone_of(zone)
    words = " ".join(unicodedata.normalize("NFKC", text[:_LONGEST]).split()).rstrip(".。")
    if len(text) <= _LONGEST:
        if words.startswith("@") or _CRON_LIKE.match(words):
            return Cron(expr=check_cron(words), zone=zone)
        here = datetime.fromtimestamp(now, place)
        for pattern, read in _FORMS:
            found = pattern.fullmatch(words)
            if found is not None:
                return _checked(read(found, here), zone, now)
    raise InvalidArguments(f"cannot read {text!r:.100} as a schedule", hint=_HINT)


def _checked(read: str | float | timedelta | datetime, zone: str, now: float) -> Schedule:
    """What a form was read as: a cron expression, an interval in seconds, a delay, or a time of the zone."""
    match read:
        case str():
            return Cron(expr=check_cron(read), zone=zone)
        case float() | int():
            _check_length(read)
            return Every(every_s=float(round(read)), start=float(int(now)), zone=zone)
        case timedelta():
            _check_length(read.total_seconds())
            return At(at=float(int(now + read.total_seconds())), zone=zone)
        case datetime():
            at = _instant(read)
            if at <= now:  # Where clocks go back, the second of two equal times may be still to come.
                at = _instant(read.replace(fold=1))
            if at <= now:
                raise InvalidArguments(
                    f"{shown_time(at, zone)} has passed: it is {shown_time(now, zone)} now",
                    hint="Give a later time.",
                )
            return At(at=at, zone=zone)


def _check_length(seconds: float) -> None:
    if not 1 <= seconds <= _LONGEST_S:
        raise InvalidArguments("the interval is out of range", hint="Give 1 second to 10 years.")


def _instant(local: datetime) -> float:
    """The time as whole seconds since the epoch; one that clocks skip is the end of the gap, as in cron."""
    for _ in range(2 * 24 * 60):  # The longest gap was a day: Samoa, 30 December 2011.
        if local == local.astimezone(UTC).astimezone(local.tzinfo):
            break
        local += timedelta(minutes=1)
    at = local.timestamp()
    return float(int(at) + (at > int(at)))


_CRON_LIKE: Final = re.compile(r"[\d*][\d*,/-]* [\d*][\d*,/-]* \S+")
_SECONDS: Final = {
    "s": 1,
    "m": 60,
    "h": 3600,
    "d": 86400,
    "w": 604800,
    "秒": 1,
    "分": 60,
    "时": 3600,
    "天": 86400,
}
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_DAYS_ZH: Final = {**{c: n for n, c in enumerate("日一二三四五六")}, "天": 0, "末": 0}
_DIGITS_ZH: Final = {c: n for n, c in enumerate("〇一二三四五六七八九")} | {"两": 2, "零": 0}

Read = Callable[[re.Match[str], datetime], Any]

_UNIT: Final = r"(?:s|sec|secs|seconds?|m|min|mins|minutes?|h|hrs?|hours?|d|days?|w|weeks?)"
_LENGTH: Final = rf"(?P<length>(?:\d+(?:\.\d+)? ?{_UNIT}(?:,? (?:and )?|,)?)+)"
_TIME: Final = r"(?:at )?(?:(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap]\.?m\.?)?|(?P<named>noon|midnight))(?: o'clock)?"
_DAY: Final = r"(?:sun|mon|tue|tues|wed|thu|thur|thurs|fri|sat)(?:(?:d|nes|rs|ur)?days?)?"
_ONE_DAY: Final = r"(?:sun|mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?)(?:day)?"
_DAYLIST: Final = (
    rf"(?P<days>day|weekdays?|workdays?|weekends?|{_DAY}(?:(?:, ?| and | & |, and | to |-| through ){_DAY})*)"
)
_TIME_ZH: Final = (
    r"(?P<part>凌晨|清晨|早晨|早上|早|上午|中午|下午|傍晚|晚上|晚|夜里)? ?"
    r"(?P<hour>\d{1,2}|[〇零一二两三四五六七八九十]{1,3})(?:点钟?|时|:)"
    r"(?P<minute>\d{1,2}|半|一刻|三刻|[零一二三四五六七八九十]{1,3})?分?整?"
)
_NUMBER_ZH: Final = r"(?P<number>\d+|[一二两三四五六七八九十]{1,3}|半)"


def _length(text: str) -> float:
    parts = re.findall(r"(\d+(?:\.\d+)?) ?([a-z])", text.lower())
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _clock(found: re.Match[str]) -> tuple[int, int]:
    """Hour and minute of a time of day."""
    if found["named"]:
        return (12, 0) if found["named"].lower() == "noon" else (0, 0)
    hour, minute, half = int(found["hour"]), int(found["minute"] or 0), (found["half"] or "").lower()[:1]
    if half and not 1 <= hour <= 12:
        raise InvalidArguments(f"{found[0]!r} has no such hour", hint="Hours with am or pm go from 1 to 12.")
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return _valid(hour, minute, found[0])


def _clock_zh(found: re.Match[str]) -> tuple[int, int]:
    hour = _number_zh(found["hour"])
    spoken = found["minute"] or "0"
    minute = {"半": 30, "一刻": 15, "三刻": 45}.get(spoken)
    part = found["part"] or ""
    if (part in ("下午", "傍晚", "晚上", "晚", "夜里") and hour < 12) or (part == "中午" and hour < 3):
        hour += 12
    elif part in ("晚上", "晚", "夜里", "凌晨") and hour == 12:
        hour = 0
    return _valid(hour, _number_zh(spoken) if minute is None else minute, found[0])


def _valid(hour: int, minute: int, text: str) -> tuple[int, int]:
    if hour > 23 or minute > 59:
        raise InvalidArguments(f"{text!r} has no such time of day", hint="Hours go to 23, minutes to 59.")
    return hour, minute


def _number_zh(text: str) -> int:
    """A number below a hundred: `9`, `九`, `十五`, `二十`."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十")
    ones = ones.lstrip("零〇")
    return (_DIGITS_ZH.get(tens, 1) * 10 if ten else 0) + _DIGITS_ZH.get(ones, 0)


def _interval(found: re.Match[str], now: datetime) -> float:
    return _length(found["length"] if found["length"][0].isdigit() else f"1 {found['length']}")


def _delay(found: re.Match[str], now: datetime) -> timedelta:
    return timedelta(seconds=min(_length(found["length"]), 2.0 * _LONGEST_S))


def _iso(found: re.Match[str], now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(found[0])
    except ValueError:
        raise InvalidArguments(f"{found[0]!r} is not a date or time of day", hint=_HINT) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=now.tzinfo)


def _date_only(found: re.Match[str], now: datetime) -> datetime:
    raise InvalidArguments(f"{found[0]!r} has no time of day", hint=f"Write {found[0]}T09:00 or the like.")


def _weekly(found: re.Match[str], now: datetime) -> str:
    hour, minute = _clock(found)
    days = found["days"].lower()
    if days == "day":
        return f"{minute} {hour} * * *"
    if days.startswith(("weekd", "workd")):
        return f"{minute} {hour} * * 1-5"
    if days.startswith("weekend"):
        return f"{minute} {hour} * * 0,6"
    spans = re.findall(rf"({_DAY})(?:(?: to |-| through )({_DAY}))?", days)
    return f"{minute} {hour} * * {_days([[_DAYS.index(day[:3]) for day in span if day] for span in spans])}"


def _days(spans: list[list[int]]) -> str:
    """Days of the week as cron writes them, Sunday 0; of each span its only day, or from its first to its last."""
    named = {day % 7 for span in spans for day in range(span[0], span[-1] + 1 + 7 * (span[-1] < span[0]))}
    return ",".join(map(str, sorted(named)))


def _daily(found: re.Match[str], now: datetime) -> str:
    hour, minute = _clock(found)
    return f"{minute} {hour} * * *"


def _monthly(found: re.Match[str], now: datetime) -> str:
    hour, minute = _clock(found)
    return f"{minute} {hour} {found['date']} * *"


def _hourly(found: re.Match[str], now: datetime) -> str:
    return "0 * * * *"


def _no_time(found: re.Match[str], now: datetime) -> str:
    raise InvalidArguments(f"{found[0]!r} has no time of day", hint="Add one, such as at 9:00.")


def _once(found: re.Match[str], now: datetime) -> datetime:
    hour, minute = _clock(found)
    day = (found["day"] or "").lower()
    ahead = 0 if day in ("", "today") else 1
    if day not in ("", "today", "tomorrow"):
        ahead = (_DAYS.index(day[:3]) - (now.isoweekday() % 7)) % 7
        if not ahead and found[0].lower().startswith("next"):
            ahead = 7
    at = _on(now, ahead, hour, minute)
    if at <= now and day not in ("today", "tomorrow"):
        at = _on(now, ahead + (7 if day else 1), hour, minute)
    return at


def _on(now: datetime, ahead: int, hour: int, minute: int) -> datetime:
    day = now.replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    return day + timedelta(days=ahead)


def _interval_zh(found: re.Match[str], now: datetime) -> float:
    number = found["number"]
    times = 0.5 if number == "半" else float(_number_zh(number or "1"))
    return times * _SECONDS[found["unit"][-1] if found["unit"] != "分钟" else "分"]


def _delay_zh(found: re.Match[str], now: datetime) -> timedelta:
    return timedelta(seconds=min(_interval_zh(found, now), 2.0 * _LONGEST_S))


def _weekly_zh(found: re.Match[str], now: datetime) -> str:
    hour, minute = _clock_zh(found)
    days = found["days"]
    if "末" in days:
        return f"{minute} {hour} * * 0,6"
    if "工作" in days:
        return f"{minute} {hour} * * 1-5"
    spans = re.findall("([一二三四五六日天])(?:[到至](?:周|星期|礼拜)?([一二三四五六日天]))?", days)
    return f"{minute} {hour} * * {_days([[_DAYS_ZH[day] for day in span if day] for span in spans])}"


def _daily_zh(found: re.Match[str], now: datetime) -> str:
    hour, minute = _clock_zh(found)
    return f"{minute} {hour} * * *"


def _monthly_zh(found: re.Match[str], now: datetime) -> str:
    hour, minute = _clock_zh(found)
    return f"{minute} {hour} {_number_zh(found['date'])} * *"


def _once_zh(found: re.Match[str], now: datetime) -> datetime:
    hour, minute = _clock_zh(found)
    return _on(now, {"今": 0, "明": 1, "后": 2}[found["day"][0]], hour, minute)


def _forms(*forms: tuple[str, Read]) -> tuple[tuple[re.Pattern[str], Read], ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), read) for pattern, read in forms)


_FORMS: Final = _forms(
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?", _iso),
    (r"\d{4}-\d\d-\d\d", _date_only),
    (rf"every {_LENGTH}", _interval),
    (r"every (?P<length>second|minute|hour)", _interval),
    (rf"(?:in )?{_LENGTH}(?: from now)?", _delay),
    (rf"on (?P<day>{_ONE_DAY}),? {_TIME}", _once),
    (rf"(?:every|on|each) {_DAYLIST},? {_TIME}", _weekly),
    (rf"weekly on {_DAYLIST},? {_TIME}", _weekly),
    (rf"(?P<days>weekdays|workdays|weekends|{_DAY}s) {_TIME}", _weekly),
    (rf"(?P<days>{_DAY}(?: to |-| through ){_DAY}),? {_TIME}", _weekly),
    (rf"daily,? {_TIME}", _daily),
    (rf"{_TIME} (?:daily|every day|each day)", _daily),
    (rf"(?:every month|monthly) on (?:the )?(?P<date>\d{{1,2}})(?:st|nd|rd|th)?,? {_TIME}", _monthly),
    (r"hourly", _hourly),
    (rf"(?:every|each) {_DAYLIST}|daily|weekly|monthly|weekdays|today|tomorrow", _no_time),
    (rf"(?:next )?(?P<day>today|tomorrow|{_DAY}),? {_TIME}", _once),
    (r"(?P<day>)at (?:(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap]\.?m\.?)?|(?P<named>noon|midnight))", _once),
    (r"(?P<day>)(?P<named>)(?P<hour>\d{1,2}):(?P<minute>\d\d) ?(?P<half>[ap]\.?m\.?)?", _once),
    (r"每天|每日|每周|每星期|每月|今天|明天", _no_time),
    (rf"每隔?{_NUMBER_ZH}?个?(?P<unit>秒|分钟|分|小时|天)", _interval_zh),
    (rf"{_NUMBER_ZH}个?(?P<unit>秒|分钟|分|小时|天)(?:后|之后|以后)", _delay_zh),
    (rf"每(?:天|日)(?:的)?{_TIME_ZH}", _daily_zh),
    (rf"每?个?(?P<days>工作日|(?:周|星期|礼拜)[一二三四五六日天末](?:[、,和到至]?(?:周|星期)?[一二三四五六日天])*)(?:的)?{_TIME_ZH}", _weekly_zh),
    (rf"每个?月(?P<date>\d{{1,2}}|[一二三四五六七八九十]{{1,3}})(?:号|日)(?:的)?{_TIME_ZH}", _monthly_zh),
    (rf"(?P<day>今天|明天|后天|今|明)(?:的)?{_TIME_ZH}", _once_zh),
)  # fmt: skip
"""Forms of schedules in the order in which they are tried. Repetitions in them cannot match in two ways."""
