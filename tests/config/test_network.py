"""`[network]`: what the owner opens to the network guard, and that a project cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.core.errors import ConfigError
from tests.ledger import owes


def load(tmp_path: Path, mine: str, theirs: str = ""):  # type: ignore[no-untyped-def]
    workspace = tmp_path / "work"
    workspace.mkdir(exist_ok=True)
    file = tmp_path / "mine.toml"
    file.write_text(mine)
    if theirs:
        (workspace / "pegboard.toml").write_text(theirs)
    paths = Paths.of({"HOME": str(tmp_path)})
    return load_config(paths, workspace, file=file, environment={})


@owes("web-04", "G-18")
def test_the_owner_opens_hosts_and_networks(tmp_path: Path) -> None:
    network = load(
        tmp_path, '[network]\nallow_hosts = ["nas.lan", "10.0.0.5:8080"]\nallow_cidrs = ["198.18.0.0/15"]'
    ).network

    assert network.allow_hosts == ("nas.lan", "10.0.0.5:8080")
    assert network.allow_cidrs == ("198.18.0.0/15",)


def test_a_project_that_nobody_trusts_opens_nothing(tmp_path: Path) -> None:
    config = load(tmp_path, "", '[network]\nallow_cidrs = ["0.0.0.0/0"]')

    assert config.network.allow_cidrs == ()
    assert any("key 'network' is ignored until you run: pegboard trust" in line for line in config.ignored)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('allow_cidr = ["10.0.0.0/8"]', "unknown key network.allow_cidr; did you mean 'allow_cidrs'"),
        ('allow_cidrs = ["10.0.0.1/8"]', "'10.0.0.1/8', which is not a network"),
        ("allow_cidrs = 10", "must be a list of texts"),
        ('allow_hosts = ["*.lan"]', "write exact names"),
        ('allow_hosts = ["http://x/"]', "write exact names"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"mine.toml: .*{why.replace('*', '.').replace('(', '.')}"):
        load(tmp_path, f"[network]\n{text}")
