"""The table `[schedules]` of a settings file: the user's time zone, what is caught up, and heartbeats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pegboard.config.environment import environment
from pegboard.config.reading import table_of, typed
from pegboard.core.errors import ConfigError, InvalidArguments

HEARTBEAT: Final = (
    "This is a heartbeat. Look whether anything waits for you or is due; if not, answer HEARTBEAT_OK."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One of `[[schedules.heartbeats]]`: wakes a session from time to time.

    Attributes:
        session: its key.
        every_s: seconds between two.
        text: what the session is told.
        check: a command; where it does not exit with status 0, nothing is told. Empty = always.
    """

    session: str
    every_s: float = 1800.0
    text: str = HEARTBEAT
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    """`[schedules]`.

    Attributes:
        timezone: the user's IANA zone; empty = the machine's.
        grace_s: seconds in which a time that passed is caught up.
        keep_runs: rows of each job's log.
        heartbeats: which sessions are woken; none unless they are named.
    """

    timezone: str = ""
    grace_s: float = 3600.0
    keep_runs: int = 20
    heartbeats: tuple[Heartbeat, ...] = ()

    @property
    def zone(self) -> str:
        """The user's zone."""
        return self.timezone or system_zone()


def read_schedules(value: Any, path: Path, *, before: ScheduleSettings) -> ScheduleSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    table = table_of(value, path, "schedules", ("grace_s", "heartbeats", "keep_runs", "timezone"))
    changes: dict[str, Any] = {}
    for key, one in table.items():
        name = f"schedules.{key}"
        match key:
            case "timezone":
                changes[key] = typed(str, one, path, name)
                _check_zone(changes[key], f"{path}: {name}")
            case "grace_s":
                changes[key] = _number(one, path, name, least=0, most=7 * 86400)
            case "keep_runs":
                changes[key] = int(_number(one, path, name, least=1, most=10_000))
            case _:
                changes[key] = tuple(
                    _heartbeat(beat, path, f"{name}[]") for beat in typed(list, one, path, name)
                )
    return replace(before, **changes)


def _heartbeat(value: Any, path: Path, name: str) -> Heartbeat:
    table = table_of(value, path, name, ("check", "every_s", "session", "text"))
    changes: dict[str, Any] = {}
    for key, one in table.items():
        if key == "every_s":
            changes[key] = float(round(_number(one, path, f"{name}.{key}", least=1, most=366 * 86400)))
        else:
            changes[key] = typed(str, one, path, f"{name}.{key}")
    if not changes.get("session"):
        raise ConfigError(f'{path}: {name} needs a session, such as session = "main"')
    return Heartbeat(**changes)


def _number(value: Any, path: Path, name: str, *, least: float, most: float) -> float:
    number = float(typed((int, float), value, path, name))
    if not least <= number <= most:
        raise ConfigError(f"{path}: {name} must be between {least:g} and {most:g}, not {number:g}")
    return number


def _check_zone(name: str, where: str) -> None:
    from pegboard.runtime.schedule import zone_of

    try:
        zone_of(name)
    except InvalidArguments as error:
        raise ConfigError(f"{where}: {error}") from None


def system_zone() -> str:
    """The machine's IANA zone: TZ, else what /etc/localtime points at, else UTC."""
    from pegboard.runtime.schedule import zone_of

    _, _, linked = str(Path("/etc/localtime").resolve()).rpartition("zoneinfo/")
    for name in (environment().get("TZ", "").removeprefix(":"), linked):
        try:
            zone_of(name)
        except InvalidArguments:
            continue
        return name
    return "UTC"
