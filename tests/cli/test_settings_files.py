"""`pegboard init` and `pegboard config`: a settings file to start from, and single keys read and set."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from pegboard.config.edit import STARTER
from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from tests.cli.conftest import Run


def test_init_writes_comments_only_and_overwrites_nothing(pegboard: Run, workspace: Path) -> None:
    first = pegboard("init")
    (workspace / "pegboard.toml").write_text("# mine\n", encoding="utf-8")
    again = pegboard("init")

    assert first.status == 0 and "pegboard trust" in first.err
    assert (again.status, (workspace / "pegboard.toml").read_text(encoding="utf-8")) == (2, "# mine\n")
    assert tomllib.loads(STARTER) == {}


def test_every_line_of_the_starting_file_works_when_its_mark_is_removed(home: Path, tmp_path: Path) -> None:
    lines = [line[2:] if line.startswith("# ") and "=" in line else line for line in STARTER.splitlines()]
    text = "\n".join(
        line.removeprefix("# ") if line.startswith(("# [", "#   ", "# ]")) else line for line in lines
    )
    (tmp_path / "my_tools.py").write_text("", encoding="utf-8")
    path = tmp_path / "pegboard.toml"
    path.write_text(text, encoding="utf-8")

    config = load_config(Paths.of(), None, file=path)

    assert (config.model, config.mode, config.limits.turns) == ("claude-sonnet-5-5", "workspace", 40)
    assert len(config.rules) == 5  # three of its own, one for each host
    assert config.require_sandbox and config.tool_files.python


def test_a_key_is_set_with_the_comments_kept_and_read_back(pegboard: Run, home: Path) -> None:
    path = home / ".config" / "pegboard" / "pegboard.toml"
    path.parent.mkdir(parents=True)
    path.write_text('# mine\nmode = "ask"  # careful\n\n[limits]\nturns = 3\n', encoding="utf-8")

    for key, value in (("model", "gpt-5"), ("limits.turns", "20"), ("hosts", '["a.example"]')):
        assert pegboard("config", "set", key, value).status == 0

    text = path.read_text(encoding="utf-8")
    assert "# mine" in text and 'mode = "ask"  # careful' in text
    assert tomllib.loads(text) == {
        "mode": "ask", "model": "gpt-5", "limits": {"turns": 20}, "hosts": ["a.example"],
    }  # fmt: skip
    assert pegboard("config", "get", "model").out == "gpt-5\n"
    assert pegboard("config", "get", "limits.turns").out == "20\n"
    assert json.loads(pegboard("config", "get", "--json").out)["mode"] == {"value": "ask", "file": str(path)}
    assert pegboard("config", "path").out == f"{path}\n"
    assert pegboard("config", "get", "instructions").status == 1


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("mode", "fast", "mode 'fast' is not one of"),
        ("limits.turns", "many", "limits.turns must be a number"),
        ("limits.trns", "3", "did you mean 'turns'"),
        ("modle", "x", "did you mean 'model'"),
        ("mode.x", "1", "mode"),
    ],
)
def test_a_wrong_key_or_value_changes_nothing(
    pegboard: Run, home: Path, key: str, value: str, said: str
) -> None:
    pegboard("config", "set", "mode", "ask")
    folder = home / ".config" / "pegboard"
    before = {p.name: p.read_bytes() for p in folder.iterdir()}

    done = pegboard("config", "set", key, value)

    assert done.status == 2
    assert said in done.err and "-new" not in done.err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_projects_key_counts_once_it_is_trusted(pegboard: Run, workspace: Path) -> None:
    pegboard("config", "set", "model", "gpt-5")
    pegboard("config", "set", "model", "local", "--project")

    before, other = pegboard("config", "get", "model"), pegboard("config", "get", "mode")
    pegboard("trust")
    after = pegboard("config", "get", "model")

    assert (before.out, after.out) == ("gpt-5\n", "local\n")
    assert f"{workspace / 'pegboard.toml'} sets it too, but is not trusted" in before.err
    assert "not trusted" not in other.err + after.err
    assert str(workspace / "pegboard.toml") in pegboard("config", "path").out
