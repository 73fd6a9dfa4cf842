"""Plug-ins are loaded by name, only where allowed, from real distributions."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pytest import raises

from pegboard import BuildError
from pegboard.interop.plugins import available, load_plugin, plugin_tools
from tests.ledger import owes

CODE = """
from pegboard import PURE, tool
IMPORTED = True

@tool(effects=PURE)
def forecast(city: str) -> str:
    \"\"\"The weather of tomorrow.\"\"\"
    return f"sun in {city}"

def kit():
    return [forecast]

def nothing():
    return None

wrong = 5
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "weather_plugin.py").write_text(CODE)
    info = tmp_path / "weather_plugin-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-plugin\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[pegboard.tools]\nforecast = weather_plugin:forecast\nkit = weather_plugin:kit\nnothing = weather_plugin:nothing\n"
        "wrong = weather_plugin:wrong\nbroken = weather_plugin:missing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "weather_plugin", raising=False)
    return tmp_path


@owes("K-16", "M-57")
def test_what_is_not_allowed_is_never_imported(installed: Path) -> None:
    assert available()["forecast"] == "weather-plugin 1.2"
    with raises(BuildError, match="is not allowed"):
        load_plugin("forecast", allowed=[])
    assert plugin_tools([]).names == ()

    assert "weather_plugin" not in sys.modules


@owes("K-16", "M-57")
@pytest.mark.parametrize(
    ("name", "tools"), [("forecast", ("forecast",)), ("kit", ("forecast",)), ("nothing", ())]
)
def test_an_allowed_plug_in_gives_its_tools(installed: Path, name: str, tools: tuple[str, ...]) -> None:
    assert plugin_tools([name, name]).names == tools


@owes("K-16")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong", "plug-in 'wrong': 5 is not a tool"),
        ("broken", "cannot be loaded"),
        ("none", "no installed package"),
    ],
)
def test_a_plug_in_that_fails_is_named(installed: Path, name: str, message: str) -> None:
    with raises(BuildError, match=message):
        plugin_tools([name])


def test_a_group_that_nobody_reads_is_an_error() -> None:
    with raises(BuildError, match="unknown plug-in group"):
        load_plugin("x", allowed=["x"], group="other.tools")


@owes("K-16")
def test_two_packages_of_one_name_are_an_error(installed: Path) -> None:
    info = installed / "other_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pegboard.tools]\nforecast = weather_plugin:forecast\n")

    with raises(BuildError, match="several packages have a plug-in 'forecast'"):
        load_plugin("forecast", allowed=["forecast"])
