"""`[schedules]`: the user's zone, what is caught up, and heartbeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.schedules import Heartbeat, ScheduleSettings, system_zone
from pegboard.core.errors import ConfigError
from tests.ledger import owes


def loaded(folder: Path, text: str) -> ScheduleSettings:
    file = folder / "pegboard.toml"
    file.write_text(text)
    return load_config(Paths.of({"HOME": str(folder)}), None, file=file).schedules


@owes("K-63", "cron-22")
def test_zone_grace_rows_and_heartbeats_are_set(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        '[schedules]\ntimezone = "Asia/Shanghai"\ngrace_s = 60\nkeep_runs = 5\n'
        '[[schedules.heartbeats]]\nsession = "Main:1"\ncheck = "true"\n',
    )

    assert (settings.zone, settings.grace_s, settings.keep_runs) == ("Asia/Shanghai", 60.0, 5)
    assert settings.heartbeats == (Heartbeat(session="Main:1", every_s=1800.0, check="true"),)
    assert loaded(tmp_path, "").heartbeats == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[schedules]\ntimezone = "Mars/Base"', "no time zone is called 'Mars/Base'"),
        ("[schedules]\ntimezone = 8", "schedules.timezone must be a text"),
        ("[schedules]\ngrace_s = -1", "schedules.grace_s must be between 0 and 604800"),
        ("[schedules]\nkeep_runs = 0", "schedules.keep_runs must be between 1"),
        ("[schedules]\nzone = 'UTC'", "unknown key schedules.zone"),
        ("[[schedules.heartbeats]]\nevery_s = 60", "needs a session"),
        ("[[schedules.heartbeats]]\nsession = 'a'\nevery_s = 0", "every_s must be between 1"),
        ("[schedules.heartbeats]\nsession = 'a'", "schedules.heartbeats must be a list"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)

    assert says in str(caught.value)
    assert str(tmp_path / "pegboard.toml") in str(caught.value)


def test_the_machines_zone_is_that_of_tz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":America/New_York")
    assert system_zone() == "America/New_York"
    monkeypatch.setenv("TZ", "no/zone")
    assert system_zone() != "no/zone"
