"""What configured channels bring to an agent: the tool message, a plug-in's channel, and the tools of its platform."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pegboard.app.app import App
from pegboard.core.errors import BuildError, ConfigError
from tests.ledger import owes

PAGER = """
from pegboard import PURE, tool
from pegboard.ports.channel import Capabilities

@tool(effects=PURE)
async def pager_duty() -> str:
    '''Who is on duty.'''
    return "Ada"

class PagerChannel:
    settings = {"token": "secret", "region": "text"}
    capabilities = Capabilities(max_chars=100)
    tools = [pager_duty]

    def __init__(self, name, *, client, token, region="eu"):
        self.name, self.token, self.region = name, token, region

    def check(self, message):
        pass

    async def send(self, message, key):
        return key

    async def receive(self, receiver):
        pass
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a kind of channel is installed."""
    site = tmp_path / "site"
    (site / "pager-1.0.dist-info").mkdir(parents=True)
    (site / "pegboard_pager_for_tests.py").write_text(PAGER)
    (site / "pager-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: pager\nVersion: 1.0\n"
    )
    (site / "pager-1.0.dist-info" / "entry_points.txt").write_text(
        "[pegboard.channels]\npager = pegboard_pager_for_tests:PagerChannel\n"
    )
    monkeypatch.syspath_prepend(str(site))
    yield tmp_path
    sys.modules.pop("pegboard_pager_for_tests", None)


def opened(folder: Path, text: str) -> App:
    (folder / "w").mkdir(exist_ok=True)
    file = folder / "pegboard.toml"
    file.write_text(text)
    return App.open(workspace=folder / "w", config=file)


@owes("C-44")
def test_an_agent_has_the_tool_message_only_where_a_channel_is_configured(tmp_path: Path) -> None:
    with (
        opened(tmp_path, "") as without,
        opened(tmp_path, '[channels.log]\nkind = "file"\npath = "m"\n') as with_one,
    ):
        assert "message" not in without.toolkit
        assert "message" in with_one.toolkit


@owes("M-58", "K-57")
def test_a_plug_in_brings_a_channel_and_the_tools_of_its_platform(
    installed: Path,
) -> None:
    secret = installed / "pager.key"
    secret.write_text("p4ger-token")
    secret.chmod(0o600)
    settings = f'[plugins]\nallow = ["pager"]\n[channels.oncall]\nkind = "pager"\ntoken = "file:{secret}"\nallow = ["7"]\n'
    with opened(installed, settings) as app:
        assert "pager_duty" in app.toolkit
        (channel, access) = app.channels.parts.channels["oncall"]
        assert channel.token() == "p4ger-token"  # pyright: ignore

    assert app.redactor.redact("it is p4ger-token")[0] != "it is p4ger-token"
    assert (channel.name, channel.token(), channel.region) == ("oncall", "p4ger-token", "eu")  # pyright: ignore
    assert access.allow == ("7",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[channels.oncall]\nkind = "pager"\ntoken = "env:T"\n', "not allowed"),
        ('[plugins]\nallow = ["pager"]\n[channels.oncall]\nkind = "pager"\n', "needs a token"),
        (
            '[plugins]\nallow = ["pager"]\n[channels.oncall]\nkind = "pager"\ntoken = "env:T"\ntokn = "x"\n',
            "tokn",
        ),
    ],
)
def test_a_channel_of_a_plug_in_is_allowed_by_name_and_its_mistakes_are_named(
    installed: Path, text: str, says: str
) -> None:
    with opened(installed, text) as app, pytest.raises((BuildError, ConfigError), match=says):
        _ = app.toolkit
