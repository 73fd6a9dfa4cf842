"""[budgets], [secrets] and [taint] of a settings file, and where secrets come from."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.secrets import ConfiguredSecrets, SecretSpec
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.core.secrets.handles import SecretBinding
from tests.ledger import owes


def read(tmp_path: Path, text: str) -> Any:
    (tmp_path / "mine.toml").write_text(text)
    return load_config(Paths.of({"HOME": str(tmp_path)}), None, file=tmp_path / "mine.toml", environment={})


@owes("G-09", "G-11", "G-06")
def test_all_three_tables_are_read(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        '[budgets.shell]\ntool = "exec"\nper = "day"\ncalls = 100\nmoney = 1.5\neach = ["agent"]\nsoft = 0.5\n'
        '[secrets.api]\nfrom = "env:API_KEY"\nhosts = "api.example.com"\n'
        '[taint]\nprivate = ["finance/**"]\ntrusted = ["connect:docs.example.org"]\n',
    )

    budget = config.budgets[0]
    assert (budget.name, budget.tool, budget.per, budget.calls, budget.money, budget.soft) == (
        "shell",
        "exec",
        "day",
        100,
        1.5,
        0.5,
    )
    assert budget.each == ("agent",)
    assert config.secrets["api"].source == "env:API_KEY"
    assert config.secrets["api"].binding.hosts == ("api.example.com",)
    assert config.taint.private == ("finance/**",)
    assert config.taint.trusted == ("connect:docs.example.org",)


@pytest.mark.parametrize(("text", "names"), [
    ("[budgets.x]\n", "budget 'x' needs a limit"),
    ('[budgets.x]\ncalls = "many"\n', "budgets.x.calls"),
    ("[budgets.x]\ncalls = true\n", "budgets.x.calls"),
    ("[budgets.x]\ncalls = 1\ntool = 3\n", "budgets.x.tool"),
    ("[budgets.x]\ncalls = 1\nhours = 3\n", "budgets.x.hours"),
    ("[budgets.x]\ncalls = 1\neach = [3]\n", "budgets.x.each"),
    ("[budgets]\nx = 3\n", "budgets.x must be a table"),
    ("budgets = 3\n", "budgets"),
    ('[secrets.x]\nfrom = "env:A"\n', "secrets.x needs"),
    ('[secrets.x]\nhosts = ["a"]\n', "secrets.x needs"),
    ('[secrets.x]\nfrom = "cmd:rm"\nhosts = ["a"]\n', "cmd:rm"),
    ('[secrets.x]\nfrom = "env:"\nhosts = ["a"]\n', "env:"),
    ('[taint]\nsecret = ["a"]\n', "taint.secret"),
])  # fmt: skip
def test_what_is_wrong_is_named_with_file_and_key(tmp_path: Path, text: str, names: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)

    assert names in str(caught.value) and "mine.toml" in str(caught.value)


@owes("G-11")
def test_an_untrusted_project_names_no_secret_and_no_budget(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/pegboard.toml").write_text(
        '[secrets.x]\nfrom = "env:HOME"\nhosts = ["evil.example"]\n[taint]\ntrusted = ["connect:*"]\n'
    )

    config = load_config(Paths.of({"HOME": str(tmp_path)}), tmp_path / "ws", environment={})

    assert not config.secrets and not config.taint.trusted
    assert any("secrets" in line for line in config.ignored)


def made(source: str, learned: dict[str, str], **options: Any) -> ConfiguredSecrets:
    spec = SecretSpec(binding=SecretBinding(name="x", hosts=("a",)), source=source)
    return ConfiguredSecrets(
        {"x": spec}, learn=learned.update, **{"environment": {"A": "value-a"}, **options}
    )


@owes("G-11")
def test_a_value_is_learnt_for_redaction_before_anybody_sees_it(tmp_path: Path) -> None:
    learned: dict[str, str] = {}
    file = tmp_path / "s"
    file.write_text("from-file\n")
    file.chmod(0o600)
    asked: list[tuple[str, str]] = []

    def keyring(service: str, user: str) -> str:
        asked.append((service, user))
        return "from-keyring"

    assert made("env:A", learned).value("x") == "value-a" == learned["x"]
    assert made(f"file:{file}", learned).value("x") == "from-file" == learned["x"]
    assert made("keyring:mail/me", learned, keyring=keyring).value("x") == "from-keyring" == learned["x"]
    assert asked == [("mail", "me")]
    assert made("env:A", learned).names() == ("x",)
    assert made("env:A", learned).binding("y") is None


@owes("G-11")
def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s"
    file.write_text("value")
    file.chmod(0o640)
    os.mkfifo(tmp_path / "pipe", 0o600)

    with pytest.raises(Unavailable, match="0640") as caught:
        made(f"file:{file}", {}).value("x")
    assert "chmod 600" in caught.value.hint
    with pytest.raises(Unavailable, match="plain file"):
        made(f"file:{tmp_path / 'pipe'}", {}).value("x")
    with pytest.raises(Unavailable, match="cannot read"):
        made(f"file:{tmp_path / 'missing'}", {}).value("x")


def test_what_has_no_value_says_where_it_was_looked_for() -> None:
    with pytest.raises(Unavailable, match="env:B"):
        made("env:B", {}).value("x")
    learned: dict[str, str] = {}
    made("env:B", learned).learn_present()
    made("keyring:a/b", learned, keyring=lambda *_: "asked").learn_present()
    assert learned == {}
    made("env:A", learned).learn_present()
    assert learned == {"x": "value-a"}


def test_the_systems_keyring_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "keyring", SimpleNamespace(get_password=lambda service, user: f"{service}-{user}-pw")
    )
    assert made("keyring:mail/me", {}).value("x") == "mail-me-pw"

    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(Unavailable) as caught:
        made("keyring:mail/me", {}).value("x")
    assert "pip install keyring" in caught.value.hint
