"""The documents' own settings files are settings of ours as they stand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.servers import load_servers
from tests.cli.conftest import Run
from tests.compat.documents import block, literals
from tests.ledger import owes


def own(home: Path, text: str, name: str = "pegboard.json5") -> Paths:
    folder = home / ".config" / "pegboard"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return Paths.of({"HOME": str(home)})


@owes("M-61", "M-62", "M-63", "M-65", "M-66", "X-56")
@pytest.mark.parametrize("identity", ["003-17", "003-36", "003-37", "003-38"])
def test_003s_settings_file_is_read_as_it_stands(pegboard: Run, home: Path, identity: str) -> None:
    text = block(identity).text
    paths = own(home, text)

    config = load_config(paths, None)
    done = pegboard("policy", "explain", "exec", "command=make all", "--json")

    assert literals(text)
    assert done.status == 0, done.err
    rules = [str(r) for r in config.rules]
    if identity == "003-36":
        assert any("malware.com" in r for r in rules)
        assert any("example.com" in r for r in rules)
    if identity == "003-37":
        assert (config.exec_timeout_s, config.path_prepend) == (120.0, ("/usr/local/bin",))
        assert "allow exec:npm **" in rules
        assert json.loads(done.out)["decision"] == "ask"
        assert any("npm" in line for line in config.ignored)
    assert config.tools is None


@owes("D-40", "D-41", "D-42", "D-43", "C-39", "X-40")
def test_both_documents_server_lists_load_from_a_settings_file(home: Path) -> None:
    listed = block("001-12").text
    listed = listed[listed.index("{") : listed.rindex("}") + 1]
    environment = {"GITHUB_TOKEN": "t0ken"}
    first = load_servers(own(home, listed, "pegboard.json"), None, environment=environment)
    second = load_servers(own(home, block("002-9").text, "pegboard.json"), None, environment=environment)

    assert [s.name for s in first.servers] == ["filesystem", "github", "remote-tool"]
    assert first.named("github").env == {"GITHUB_TOKEN": "t0ken"}
    assert first.named("remote-tool").url == "http://localhost:3000/mcp"
    assert [s.name for s in second.servers] == ["filesystem", "github"]
    assert second.named("github").env == {"GITHUB_TOKEN": "your-token"}
    assert load_config(Paths.of({"HOME": str(home)}), None, environment=environment).tools is None


@owes("M-66")
def test_a_folder_that_003s_settings_put_before_the_path_is_looked_in_first(
    pegboard: Run, home: Path, workspace: Path
) -> None:
    folder = workspace / "own"
    folder.mkdir()
    program = folder / "uname"
    program.write_text("#!/bin/sh\necho the one in front\n", encoding="utf-8")
    program.chmod(0o755)
    settings = {"tools": {"exec": {"pathPrepend": [str(folder)]}}}
    own(home, json.dumps(settings), "pegboard.json")

    done = pegboard("call", "exec", "command=uname", "--mode", "full", "--json")

    assert done.status == 0, done.err
    assert json.loads(done.out)["data"]["stdout"].strip() == "the one in front"
