"""`[channels.NAME]`: where messages can go, by the user's own settings alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.config.channels import ChannelSettings, ChatAccess
from pegboard.config.load import Config, load_config
from pegboard.config.paths import Paths
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError


def loaded(folder: Path, text: str) -> Config:
    file = folder / "pegboard.toml"
    file.write_text(text)
    return load_config(Paths.of({"HOME": str(folder)}), None, file=file)


def test_files_and_webhooks_are_channels(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        '[channels.log]\nkind = "file"\npath = "m.jsonl"\n'
        '[channels.alerts]\nkind = "webhook"\nurl = "https://example.com/h"\nsecret = "env:HOOK_SECRET"\n',
    )

    assert config.channels == (
        ChannelSettings(
            name="log", kind="file", options={"path": tmp_path / "m.jsonl"}, file=tmp_path / "pegboard.toml"
        ),
        ChannelSettings(
            name="alerts",
            kind="webhook",
            file=tmp_path / "pegboard.toml",
            options={"url": "https://example.com/h", "secret": "env:HOOK_SECRET"},
        ),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[channels.a]\nkind = "pigeon"',
            "channels.a.kind is 'pigeon'; known: feishu, file, matrix, slack, telegram, webhook, websocket",
        ),
        ('[channels.a]\nkind = "file"', "channels.a needs a path"),
        ('[channels.a]\nkind = "file"\nurl = "https://x.example"', "channels.a.url has no meaning"),
        ('[channels.a]\nkind = "webhook"\nurl = "ftp://x.example"', "channels.a.url must be an http"),
        ('[channels.a]\nkind = "webhook"\nsecret = "s3cr3t"', "channels.a.secret must be env:NAME"),
        ("[channels.telegram]", "channels.telegram needs a token"),
        (
            '[channels.a]\nkind = "file"\npath = "x"\nallow = ["1"]',
            "nobody can write to us on a channel of kind file",
        ),
        ('[channels.telegram]\ntoken = "env:T"\nallow = [1]', "channels.telegram.allow"),
        ('[channels.console]\nkind = "file"\npath = "x"', "channels.console cannot be the name"),
        ("[channels.feishu]", "channels.feishu needs an app_id"),
        ("[channels.matrix]", "channels.matrix needs a url"),
        ('[channels.session]\nkind = "file"\npath = "x"', "channels.session cannot be the name"),
        ('[channels."a:b"]\nkind = "file"\npath = "x"', "cannot be the name of a channel"),
        ('[channels.a]\nkind = "file"\npaht = "x"', "paht"),
    ],
)
def test_a_wrong_channel_is_named(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="(?s)" + says.replace("(", r"\(")):
        loaded(tmp_path, text)


def test_who_may_write_to_us_stands_beside_the_kinds_own_keys(tmp_path: Path) -> None:
    (channel,) = loaded(
        tmp_path,
        '[channels.telegram]\ntoken = "env:T"\nallow = ["1"]\nowners = ["2"]\nper_minute = 5\nstream = false\n',
    ).channels

    assert (channel.kind, channel.options) == ("telegram", {"token": "env:T"})
    assert channel.access == ChatAccess(allow=("1",), owners=("2",), per_minute=5, stream=False)


@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_adds_no_channel(trusted: bool, tmp_path: Path) -> None:
    project = tmp_path / "w"
    project.mkdir()
    (project / "pegboard.toml").write_text('[channels.evil]\nkind = "file"\npath = "x"\n')
    paths = Paths.of({"HOME": str(tmp_path)})
    if trusted:
        Trust(paths).add(project / "pegboard.toml")

    config = load_config(paths, project)

    assert config.channels == ()
    assert any("channels" in line for line in config.ignored)
