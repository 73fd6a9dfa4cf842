"""Files that name MCP servers, as the programs they come from write them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.servers import load_servers
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError, Unavailable
from pegboard.mcp.client import MCPServer
from tests.ledger import owes

VSCODE: dict[str, Any] = {
    "inputs": [
        {"type": "promptString", "id": "api-key", "description": "Key", "password": True},
        {"type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu"},
    ],
    "servers": {
        "fs": {"type": "stdio", "command": "npx", "args": ["-y", "server-filesystem", "${workspaceFolder}"]},
        "web": {
            "type": "http",
            "url": "https://${input:region}.example/mcp",
            "headers": {"Authorization": "Bearer ${input:api-key}"},
        },
    },
}


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(
        home=tmp_path, config=tmp_path / "c", state=tmp_path / "s", data=tmp_path / "d", cache=tmp_path / "k"
    )


def project(tmp_path: Path, paths: Paths, name: str, table: Any) -> Path:
    file = tmp_path / "project" / name
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(table))
    Trust(paths).add(file)
    return tmp_path / "project"


@owes("X-40")
def test_vs_codes_file_gets_its_folder_its_inputs_and_their_defaults(tmp_path: Path, paths: Paths) -> None:
    folder = project(tmp_path, paths, ".vscode/mcp.json", VSCODE)

    found = load_servers(paths, folder, environment={"PEGBOARD_INPUT_API_KEY": "k1"})

    fs, web = found.named("fs"), found.named("web")
    assert fs.args == ("-y", "server-filesystem", str(folder.resolve()))
    assert web.url == "https://eu.example/mcp"
    assert web.headers == {"Authorization": "Bearer k1"}


def test_an_input_without_an_answer_names_the_variable_that_gives_one(tmp_path: Path, paths: Paths) -> None:
    folder = project(tmp_path, paths, ".vscode/mcp.json", VSCODE)

    found = load_servers(paths, folder, environment={})

    # The other server of the file is none the worse for it.
    assert "PEGBOARD_INPUT_API_KEY" in found.named("web").fault
    assert found.named("fs").fault == ""


def test_a_file_of_variables_is_read_and_env_wins(tmp_path: Path, paths: Paths) -> None:
    row = {"command": "x", "envFile": ".env", "env": {"B": "own"}}
    folder = project(tmp_path, paths, ".mcp.json", {"mcpServers": {"s": row}})
    (folder / ".env").write_text("# words\nA='one two'\nexport B=file\n\nC=a=b\n")

    before = load_servers(paths, folder, environment={})
    Trust(paths).add(folder / ".env")
    found = load_servers(paths, folder, environment={})

    # The trusted file does not show what the other one holds.
    assert before.named("s").env == {"B": "own"}
    assert any("pegboard trust" in line and ".env" in line for line in before.ignored)
    assert found.named("s").env == {"A": "one two", "B": "own", "C": "a=b"}


@pytest.mark.parametrize(("text", "words"), [(None, ".env"), ("no pair\n", "line 1")])
def test_a_bad_file_of_variables_is_named(text: str | None, words: str, tmp_path: Path, paths: Paths) -> None:
    paths.config.mkdir()
    row = {"mcpServers": {"s": {"command": "x", "envFile": str(tmp_path / ".env")}}}
    (paths.config / "mcp.json").write_text(json.dumps(row))
    folder = None
    if text is not None:
        (tmp_path / ".env").write_text(text)

    assert words in load_servers(paths, folder, environment={}).named("s").fault


@owes("D-41")
def test_a_default_stands_in_for_a_variable_and_a_missing_one_is_named(tmp_path: Path, paths: Paths) -> None:
    row = {"command": "x", "env": {"T": "${NOPE:-fallback}"}, "args": ["${MISSING}"]}
    folder = project(tmp_path, paths, ".mcp.json", {"mcpServers": {"s": row}})

    assert load_servers(paths, folder, environment={"MISSING": "m"}).named("s").env == {"T": "fallback"}
    found = load_servers(paths, folder, environment={}).named("s")
    assert "key args[0] needs the environment variable MISSING" in found.fault
    with pytest.raises(Unavailable, match="MISSING"):
        asyncio.run(MCPServer(config=found).tools())


def test_one_bad_server_in_another_programs_file_costs_only_itself(tmp_path: Path, paths: Paths) -> None:
    rows = {
        "good": {"command": "x", "someday": True},
        "no table": 5,
        "bad": {"command": ["x"]},
        "odd": {"url": "https://h/mcp", "type": "pigeon"},
    }
    folder = project(tmp_path, paths, ".mcp.json", {"mcpServers": rows})

    found = load_servers(paths, folder, environment={})

    assert [(s.name, bool(s.fault)) for s in found.servers] == [
        ("good", False), ("no_table", True), ("bad", True), ("odd", True),
    ]  # fmt: skip
    assert "unknown key 'someday'" in found.named("good").notes[0]
    assert "'no_table' must be a table" in found.named("no_table").fault
    assert "pigeon" in found.named("odd").fault
    with pytest.raises(Unavailable, match="pigeon"):
        asyncio.run(MCPServer(config=found.named("odd")).tools())


def test_our_own_settings_refuse_what_another_programs_file_may_hold(tmp_path: Path, paths: Paths) -> None:
    paths.config.mkdir()
    (paths.config / "pegboard.json").write_text('{"mcpServers": {"s": {"command": "x", "someday": true}}}')
    assert "unknown key 'someday'" in load_servers(paths, None, environment={}).named("s").fault

    folder = project(tmp_path, paths, ".vscode/mcp.json", {})
    file = folder / ".vscode" / "mcp.json"
    file.write_text('{"servers": {"s": {"command": "x"}, "s": {"command": "y"}}}')
    (paths.config / "pegboard.json").unlink()
    with pytest.raises(ConfigError, match="the key 's' stands twice"):
        load_servers(paths, folder, environment={})
    file.write_text('{"servers": {"s": {"command": "x"},}, // as editors write it\n}')
    assert load_servers(paths, folder, environment={}).ignored


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"command": "x", "envFile": "none.env"}, "none.env: No such file"),
        ({"command": "x", "env": {"K": "${MISSING}"}}, "needs the environment variable MISSING"),
        ({"url": "https://h/mcp", "transport": "pigeon"}, "'pigeon' is none of stdio"),
        ({"command": ["x"]}, "expected text"),
        ({"command": "x", "cwd": "~nobody-has-this-name/x"}, "no home folder"),
        ({"command": "x", "timeout": -1}, "seconds above 0"),
        (5, "must be a table"),
    ],
)
@pytest.mark.parametrize("name", ["pegboard.json", "mcp.json"])
def test_a_server_that_cannot_be_used_is_listed_with_its_fault_and_the_others_work(
    name: str, row: object, words: str, paths: Paths
) -> None:
    paths.config.mkdir()
    (paths.config / name).write_text(json.dumps({"mcpServers": {"bad": row, "ok": {"command": "x"}}}))

    found = load_servers(paths, None, environment={})

    assert words in found.named("bad").fault
    assert found.named("ok").fault == ""
    # The file's other settings are read as well.
    load_config(paths, None, environment={})


def test_a_name_of_another_program_is_fitted_and_works(tmp_path: Path, paths: Paths) -> None:
    rows = {"Google_Sheets": {"command": "a"}, "Google Sheets": {"command": "b"}, "größe": {"command": "c"}}
    folder = project(tmp_path, paths, ".mcp.json", {"mcpServers": rows})

    found = load_servers(paths, folder, environment={})

    assert [(s.name, s.command, s.fault) for s in found.servers] == [
        ("Google_Sheets", "a", ""), ("Google_Sheets-2", "b", ""), ("gr__e", "c", ""),
    ]  # fmt: skip
    assert "'Google Sheets' is called 'Google_Sheets-2' here" in found.named("Google_Sheets-2").notes[0]


def test_the_home_folder_is_read_in_every_path_of_a_server(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(paths.home))
    paths.config.mkdir()
    (paths.home / "keys.env").write_text("A=1\n")
    row = {"command": "~/bin/server", "cwd": "~/data", "envFile": "~/keys.env"}
    (paths.config / "mcp.json").write_text(json.dumps({"mcpServers": {"s": row}}))

    found = load_servers(paths, None, environment={}).named("s")

    assert (found.command, found.cwd) == (f"{paths.home}/bin/server", f"{paths.home}/data")
    assert found.env == {"A": "1"}
