"""Plug-ins as their folders describe them: Agent Plugins 1.0.0, section numbers as in the specification."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pytest import raises

from pegboard.config.agent_files import find_agent_files, read_agents, read_commands
from pegboard.config.load import load_config
from pegboard.config.paths import Paths
from pegboard.config.plugins import load_plugins, read_plugin
from pegboard.config.servers import any_servers, load_servers
from pegboard.config.trust import Trust
from pegboard.core.errors import ConfigError

SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
MCP_SCHEMA = "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json"


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    (tmp_path / "home").mkdir()
    return Paths(
        home=tmp_path / "home", config=tmp_path / "c", state=tmp_path / "s", data=tmp_path / "d",
        cache=tmp_path / "k",
    )  # fmt: skip


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def skill(folder: Path, name: str, *, text: str = "Do it.") -> None:
    write(folder / "SKILL.md", f"---\nname: {name}\ndescription: Helps\n---\n{text}\n")


def plugin(root: Path, name: str = "", *, servers: Any = None, **manifest: Any) -> Path:
    """A plug-in with a manifest, and the servers given by name."""
    table = {"$schema": SCHEMA, "name": name or root.name, **manifest}
    write(root / "plugin.json", json.dumps(table))
    if servers is not None:
        write(root / "mcp.json", json.dumps({"$schema": MCP_SCHEMA, "mcpServers": servers}))
    return root


def installed(paths: Paths, name: str, **more: Any) -> Path:
    return plugin(paths.data / "plugins" / name, **more)


# -- the manifest (§5) ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["my-plugin", "acme.tools", "lint3r", "a", "a.-b", "x" * 64])
def test_names_of_the_specification_are_taken(tmp_path: Path, name: str) -> None:
    assert read_plugin(plugin(tmp_path / "p", name), tmp_path / "data").name == name


@pytest.mark.parametrize(
    "name", ["My-Plugin", "-start", "end-", "has--double", "too.many..dots", "", "x" * 65, "a/b", "..", "a\n"]
)
def test_other_names_reject_the_plugin(tmp_path: Path, name: str) -> None:
    write(tmp_path / "p/plugin.json", json.dumps({"$schema": SCHEMA, "name": name}))

    with raises(ConfigError, match="name"):
        read_plugin(tmp_path / "p", tmp_path / "data")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"$schema": "https://agent-plugins.org/schemas/1.1.0/plugin.schema.json"}, r"\$schema"),
        ({"$schema": None}, r"\$schema"),
        ({"version": 1}, "version"),
        ({"keywords": ["a", 2]}, "keywords"),
        ({"author": {"name": "A", "phone": "1"}}, "phone"),
        ({"author": "A"}, "author"),
        ({"extensions": {"com.example": 1}}, "extensions"),
        ({"description": None}, "description"),
    ],
)
def test_a_wrong_field_rejects_the_plugin_and_is_named(
    tmp_path: Path, change: dict[str, Any], names: str
) -> None:
    root = plugin(tmp_path / "p", **change)

    with raises(ConfigError, match=names):
        read_plugin(root, tmp_path / "data")


def test_unknown_fields_and_wrong_extensions_are_reported_and_ignored(tmp_path: Path) -> None:
    # §5.2 and §8.1; an identifier that is no semantic version is no fault (§5.4).
    root = plugin(tmp_path / "p", version="tuesday", hooks="./x", extensions="com.example")

    read = read_plugin(root, tmp_path / "data")

    assert read.version == "tuesday"
    assert len(read.notes) == 2 and "'hooks'" in read.notes[0] and "extensions" in read.notes[1]


@pytest.mark.parametrize("text", ["[]", "{", '{"name": "a", "name": "b"}', "\ufeff{}", "NaN"])
def test_a_manifest_that_is_no_object_rejects_the_plugin(tmp_path: Path, text: str) -> None:
    write(tmp_path / "p/plugin.json", text)

    with raises(ConfigError, match=r"plugin\.json"):
        read_plugin(tmp_path / "p", tmp_path / "data")


def test_a_manifest_that_is_a_link_out_rejects_the_plugin(tmp_path: Path) -> None:
    # §4.1: "If plugin.json does not resolve within the plugin root, the client MUST reject the plugin."
    plugin(tmp_path / "other")
    (tmp_path / "p").mkdir()
    (tmp_path / "p/plugin.json").symlink_to(tmp_path / "other/plugin.json")

    with raises(ConfigError, match="leads out"):
        read_plugin(tmp_path / "p", tmp_path / "data")


# -- skills (§7.1) --------------------------------------------------------------------------------


def test_skills_are_the_children_of_one_folder_and_a_wrong_one_costs_only_itself(tmp_path: Path) -> None:
    root = plugin(tmp_path / "p")
    skill(root / "skills/deploy", "deploy")
    skill(root / "skills/deep/er", "er")
    skill(root / "skills/renamed", "other")
    skill(tmp_path / "outside", "outside")
    (root / "skills/outside").symlink_to(tmp_path / "outside")
    write(root / "skills/broken/SKILL.md", "no front matter")

    read = read_plugin(root, tmp_path / "data")

    assert [s.name for s in read.skills] == ["deploy"]
    assert sorted(n.split()[2] for n in read.notes) == ["broken", "outside", "renamed"]


def test_a_skills_location_of_another_kind_costs_only_the_skills(tmp_path: Path) -> None:
    root = plugin(tmp_path / "p", servers={"s": {"type": "stdio", "command": "true"}})
    write(root / "skills", "no folder")

    read = read_plugin(root, tmp_path / "data")

    assert [s.name for s in read.servers] == ["p-s"] and "skills is not a folder" in read.notes[0]


# -- servers (§7.2, §9) ---------------------------------------------------------------------------


def test_placeholders_are_filled_once_and_where_the_specification_says(tmp_path: Path) -> None:
    row = {
        "type": "stdio", "command": "./bin/server", "cwd": "${PLUGIN_DATA}/state",
        "args": ["${PLUGIN_ROOT}/a:${PLUGIN_DATA}", "${HOME}", "${env:HOME}", "${X:-y}", "$PLUGIN_ROOT"],
        "env": {"${PLUGIN_ROOT}": "${PLUGIN_DATA}/db"},
    }  # fmt: skip
    root = plugin(tmp_path / "p", servers={"s": row})
    data = tmp_path / "${PLUGIN_ROOT}"

    (server,) = read_plugin(root, data, environment={"HOME": "secret"}).servers

    assert server.fault == "" and server.command == f"{root}/bin/server"
    assert server.args == (f"{root}/a:{data}", "${HOME}", "${env:HOME}", "${X:-y}", "$PLUGIN_ROOT")
    assert server.cwd == f"{data}/state"
    assert server.env["${PLUGIN_ROOT}"] == f"{data}/db"
    assert (server.env["PLUGIN_ROOT"], server.env["PLUGIN_DATA"]) == (str(root), str(data))


def test_the_plugins_folder_is_the_default_working_folder(tmp_path: Path) -> None:
    root = plugin(tmp_path / "p", servers={"s": {"type": "stdio", "command": "node", "cwd": "${PLUGIN_ROOT}"},
                                           "t": {"type": "stdio", "command": "node"}})  # fmt: skip

    read = read_plugin(root, tmp_path / "data")

    assert [s.cwd for s in read.servers] == [str(root), str(root)]


WRONG = [
    {"type": "stdio", "command": "../bin/server"},
    {"type": "stdio", "command": "/bin/sh"},
    {"type": "stdio", "command": "./link/server"},
    {"type": "stdio", "command": "${PLUGIN_ROOT}/bin/server"},
    {"type": "stdio", "command": ""},
    {"type": "stdio", "command": "node", "cwd": "data"},
    {"type": "stdio", "command": "node", "cwd": "/tmp"},
    {"type": "stdio", "command": "node", "cwd": "./../.."},
    {"type": "stdio", "command": "node", "cwd": "${PLUGIN_ROOT}x"},
    {"type": "stdio", "command": "node", "cwd": "${PLUGIN_DATA}/../other"},
    {"type": "stdio", "command": "node", "env": {"PLUGIN_ROOT": "/"}},
    {"type": "stdio", "command": "node", "env": {"A": 1}},
    {"type": "stdio", "command": "node", "url": "https://example.com"},
    {"type": "stdio", "command": "node", "timeout": 3},
    {"command": "node"},
    {"type": "http", "url": "https://example.com"},
    {"type": "streamable-http", "url": "http://example.com/mcp"},
    {"type": "streamable-http", "url": "http://127.0.0.1.example.com/mcp"},
    {"type": "streamable-http", "url": "https://me:pw@example.com/mcp"},
    {"type": "streamable-http", "url": "https://example.com/mcp#part"},
    {"type": "streamable-http", "url": "/mcp"},
    {"type": "sse", "url": "https://example.com", "headers": {"A": "1", "a": "2"}},
    {"type": "sse", "url": "https://example.com", "headers": {"A": "1\r\nHost: other"}},
    {"type": "sse", "url": "https://example.com", "headers": {"A b": "1"}},
    "node server.js",
]  # fmt: skip


@pytest.mark.parametrize("row", WRONG, ids=lambda row: json.dumps(row)[:60])
def test_a_wrong_server_costs_only_itself_and_is_named(tmp_path: Path, row: Any) -> None:
    root = plugin(tmp_path / "p", servers={"bad": row, "good": {"type": "sse", "url": "https://example.com"}})
    (root / "link").symlink_to(tmp_path)

    read = read_plugin(root, tmp_path / "data")

    assert [s.name for s in read.servers] == ["p-good"]
    assert len(read.notes) == 1 and "'bad'" in read.notes[0]


@pytest.mark.parametrize("url", ["http://localhost:8/mcp", "http://127.0.0.9/mcp", "http://[::1]:8/mcp"])
def test_this_machine_may_be_reached_over_http(tmp_path: Path, url: str) -> None:
    root = plugin(tmp_path / "p", servers={"s": {"type": "streamable-http", "url": url}})

    (server,) = read_plugin(root, tmp_path / "data").servers

    assert (server.url, server.transport, server.fault) == (url, "streamable_http", "")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"mcpServers": {}}', json.dumps({"$schema": MCP_SCHEMA, "mcpServers": {}, "more": 1}),
     json.dumps({"$schema": MCP_SCHEMA, "mcpServers": []}),
     json.dumps({"$schema": MCP_SCHEMA.replace("1.0.0", "1.1.0"), "mcpServers": {}})],
)  # fmt: skip
def test_a_wrong_list_of_servers_costs_only_the_servers(tmp_path: Path, text: str) -> None:
    root = plugin(tmp_path / "p")
    skill(root / "skills/deploy", "deploy")
    write(root / "mcp.json", text)

    read = read_plugin(root, tmp_path / "data")

    assert read.servers == () and len(read.skills) == 1 and "mcp.json" in read.notes[0]


# -- plug-ins for Claude Code ---------------------------------------------------------------------


def claude(root: Path, **manifest: Any) -> Path:
    write(root / ".claude-plugin/plugin.json", json.dumps({"name": root.name, **manifest}))
    return root


def test_a_plugin_for_claude_code_is_read_where_it_keeps_its_parts(tmp_path: Path) -> None:
    root = claude(
        tmp_path / "p", commands=["./more/one.md"], agents="./experts", skills="./extra",
        hooks={"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}, mcpServers="./servers.json",
    )  # fmt: skip
    skill(root / "skills/One", "Any name")
    skill(root / "extra/two", "two")
    for file in ("more/one.md", "experts/a.md", "agents/b.md", "commands/git/c.md"):
        write(root / file, "Do it.")
    row = {"command": "${CLAUDE_PLUGIN_ROOT}/s", "args": ["${TOKEN}"]}
    write(root / ".mcp.json", json.dumps({"mcpServers": {"s": row}}))
    write(root / "servers.json", json.dumps({"t": {"type": "http", "url": "https://example.com"}}))

    before = read_plugin(root, tmp_path / "data")
    read = read_plugin(root, tmp_path / "data", environment={"TOKEN": "t1"})

    assert [s.name for s in read.skills] == ["One", "two"]
    assert [a.name for a in read.agents] == ["b.md", "a.md"]
    assert [str(c.relative_to(w)) for w, c in read.commands] == ["git/c.md", "one.md"]
    assert read.hooks == (root / ".claude-plugin/plugin.json",)
    assert [(s.name, s.command, s.args) for s in read.servers] == [
        ("p-s", f"{root}/s", ("t1",)),
        ("p-t", "", ()),
    ]
    # Before it is trusted no variable of this machine is put in.
    assert before.servers[0].args == ("${TOKEN}",)


@pytest.mark.parametrize("place", ["../other", "/etc", "other", "./../other", "./link", "./\0"])
@pytest.mark.parametrize("key", ["skills", "agents", "commands", "hooks", "mcpServers"])
def test_a_place_outside_is_refused_and_named(tmp_path: Path, key: str, place: str) -> None:
    skill(tmp_path / "other", "other")
    write(tmp_path / "other/a.md", "Do it.")
    root = claude(tmp_path / "p", **{key: place})
    (root / "link").symlink_to(tmp_path / "other")

    read = read_plugin(root, tmp_path / "data")

    assert not (read.skills or read.agents or read.commands or read.hooks or read.servers)
    assert len(read.notes) == 1 and key in read.notes[0]


# -- trust ----------------------------------------------------------------------------------------


@pytest.fixture
def reports(paths: Paths) -> Path:
    root = installed(paths, "reports", servers={"db": {"type": "stdio", "command": "true"}})
    skill(root / "skills/sums", "sums")
    write(root / "agents/reviewer.md", "---\nname: reviewer\ndescription: Reviews\n---\nReview it.\n")
    write(root / "commands/fix.md", "Fix it.")
    hook = {"hooks": [{"type": "command", "command": "sh ${PLUGIN_ROOT}/scripts/a.sh"}]}
    write(root / "hooks/hooks.json", json.dumps({"hooks": {"PreToolUse": [hook]}}))
    write(root / "scripts/a.sh", "exit 0")
    return root


def counted(paths: Paths) -> tuple[int, int, int, int, int]:
    """How many skills, agents, commands, hooks and servers count."""
    config = load_config(paths, None)
    files = config.agent_files
    return (
        len(config.tool_files.found), len(config.all_agents()), len(read_commands(files)[0]), len(config.hooks),
        len(load_servers(paths, None, environment={}).servers),
    )  # fmt: skip


def test_nothing_of_a_plugin_counts_before_it_is_trusted(paths: Paths, reports: Path) -> None:
    assert counted(paths) == (0, 0, 0, 0, 0)
    assert load_config(paths, None).ignored == (
        f"the plug-in reports is ignored until you run: pegboard trust {reports}",
    )
    (told,) = load_servers(paths, None, environment={}).ignored
    assert "'reports-db' would run: true;" in told

    Trust(paths).add(reports)

    assert counted(paths) == (1, 1, 1, 1, 1)
    # It may refuse, and never answers in the user's place.
    assert not load_config(paths, None).hooks[0].own
    assert any_servers(paths, None)
    assert (paths.data / "plugin-data/reports").is_dir()


def test_no_variable_is_put_into_the_servers_of_an_untrusted_plugin(paths: Paths) -> None:
    root = claude(paths.data / "plugins/p", mcpServers={"s": {"command": "x", "args": ["${TOKEN}"]}})

    (told,) = load_servers(paths, None, environment={"TOKEN": "secret1"}).ignored
    Trust(paths).add(root)
    (server,) = load_servers(paths, None, environment={"TOKEN": "secret1"}).servers

    assert "secret1" not in told and server.args == ("secret1",)


CHANGES = {
    "a byte of a script": lambda root: write(root / "scripts/a.sh", "exit 1"),
    "a new file beside it": lambda root: write(root / "scripts/json.py", ""),
    "a new folder": lambda root: (root / "scripts/empty").mkdir(),
    "a file that is gone": lambda root: (root / "scripts/a.sh").unlink(),
    "a script that may be run": lambda root: (root / "scripts/a.sh").chmod(0o755),
    "a link in place of a file": lambda root: (
        (root / "commands/fix.md").rename(root.parent.parent / "fix.md"),
        (root / "commands/fix.md").symlink_to(root.parent.parent / "fix.md"),
    ),
    "a file that is moved": lambda root: (root / "scripts").rename(root / "script"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_a_plugin_voids_its_trust(paths: Paths, reports: Path, change: str) -> None:
    Trust(paths).add(reports)

    CHANGES[change](reports)

    assert counted(paths) == (0, 0, 0, 0, 0)


def test_trust_of_one_folder_says_nothing_about_a_copy_elsewhere(paths: Paths, reports: Path) -> None:
    Trust(paths).add(reports)
    reports.rename(reports.with_name("moved"))

    assert counted(paths) == (0, 0, 0, 0, 0)


def test_a_broken_plugin_costs_only_itself_and_is_named(paths: Paths, reports: Path) -> None:
    Trust(paths).add(reports)
    write(paths.data / "plugins/broken/plugin.json", "{")
    (paths.data / "plugins/empty").mkdir()

    assert counted(paths) == (1, 1, 1, 1, 1)
    notes = load_plugins(paths).notes
    assert len(notes) == 2 and "broken" in notes[0] and "empty" in notes[1]


def test_a_name_that_is_taken_gets_the_plugins_before_it(paths: Paths, reports: Path) -> None:
    from pegboard.app.offered import ConfiguredTools

    skill(paths.home / ".agents/skills/sums", "sums")
    write(paths.home / ".agents/agents/r.md", "---\nname: reviewer\ndescription: Mine\n---\nMine.\n")
    write(paths.home / ".agents/commands/fix.md", "Mine.")
    Trust(paths).add(reports)
    config = load_config(paths, None)

    skills = ConfiguredTools(config, paths, lambda _: None).skills
    files = find_agent_files(paths, None)

    assert skills is not None and sorted(skills.skills) == ["reports:sums", "sums"]
    assert [a.name for a in read_agents(files)[0]] == ["reviewer", "reports:reviewer"]
    assert [a.name for a in config.all_agents()] == ["reviewer", "reports:reviewer"]
    assert [c.name for c in read_commands(files)[0]] == ["fix", "reports:fix"]


async def test_a_skill_of_a_plugin_that_changed_is_read_no_more(paths: Paths, reports: Path) -> None:
    from pegboard.app.executor import Executor
    from pegboard.app.offered import ConfiguredTools

    write(reports / "skills/sums/form.txt", "the form")
    Trust(paths).add(reports)
    skills = ConfiguredTools(load_config(paths, None), paths, lambda _: None).skills
    assert skills is not None
    executor = Executor([skills.toolkit()])

    good = await executor.call("read_skill", {"name": "sums", "file": "form.txt"})
    write(reports / "scripts/a.sh", "exit 1")
    after = await executor.call("read_skill", {"name": "sums"})

    assert str(good) == "the form" and good.notes.labels == ()
    assert after.error is not None and "has changed since the user trusted it" in after.error.message
    assert "pegboard plugins" in (after.error.hint or "")


def test_without_plugins_their_module_is_not_loaded(paths: Paths) -> None:
    import subprocess
    import sys

    code = "import sys; from pegboard.app.app import App; App.open().__enter__().config; assert 'pegboard.config.plugins' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HOME": str(paths.home)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
