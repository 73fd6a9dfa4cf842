"""Every known way to write down an MCP server, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard.core.errors import ConfigError
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.config_formats import servers_of
from tests.ledger import owes

FORMS: list[Any] = [
    [{"name": "fs", "command": "npx", "args": ["-y", "server", "/data"], "env": {"A": "${A}"}, "transport": "stdio"}],
    {"fs": {"Command": "npx", "Args": ["-y", "server", "/data"], "Env": {"A": "${A}"}}},
    {"mcpServers": {"fs": {"command": "npx", "args": ["-y", "server", "/data"], "env": {"A": "${A}"}}}},
    {"servers": {"fs": {"type": "stdio", "command": "npx", "args": ["-y", "server", "/data"], "env": {"A": "${env:A}"}}},
     "inputs": [{"id": "x", "type": "promptString"}]},
    {"tools": {"mcp_servers": [{"name": "fs", "command": "npx", "args": ["-y", "server", "/data"], "env": {"A": "${B:-a}"}}]}},
    {"Tools": {"McpServers": {"fs": {"Command": "npx", "Arguments": ["-y", "server", "/data"], "Env": {"A": "a"}}}}},
]  # fmt: skip


@owes("D-40", "C-39", "X-40", "C-36", "D-41")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_names_the_same_server(form: Any) -> None:
    (server,) = servers_of(form, environment={"A": "a"})

    assert (server.name, server.command, server.args, dict(server.env)) == (
        "fs",
        "npx",
        ("-y", "server", "/data"),
        {"A": "a"},
    )
    assert server.command_line == "npx -y server /data"


@owes("D-43", "X-41", "D-42", "N-117")
@pytest.mark.parametrize(
    ("row", "transport"),
    [
        ({"url": "http://localhost:3000/mcp"}, "streamable_http"),
        ({"url": "http://localhost:3000/mcp", "type": "http"}, "streamable_http"),
        ({"url": "http://localhost:3000/mcp", "type": "streamable-http"}, "streamable_http"),
        ({"serverUrl": "http://localhost:3000/sse", "type": "sse"}, "sse"),
        ({"url": "http://localhost:3000/mcp", "transport": "http_sse"}, "http_sse"),
        ({"command": "npx"}, "stdio"),
    ],
)
def test_the_transport_is_what_is_said_or_what_fits(row: dict[str, Any], transport: str) -> None:
    assert servers_of({"r": row}, environment={})[0].transport == transport


@owes("X-43", "C-40", "X-57")
def test_times_lists_and_secrets_are_read() -> None:
    row = {
        "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${input:key}"}, "tool_timeout": 5,
        "toolTimeouts": {"slow": 60}, "allowedTools": ["a*"], "disabledTools": ["ab"], "enabled": False, "parallel": True,
    }  # fmt: skip

    (server,) = servers_of({"r": row}, environment={}, inputs={"key": "k"})

    assert server.headers == {"Authorization": "Bearer k"}
    assert (server.timeout_s, server.tool_timeouts, server.allow, server.deny) == (
        5.0,
        {"slow": 60.0},
        ("a*",),
        ("ab",),
    )
    assert server.disabled and server.parallel


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"s": {"command": "${NOPE}"}}, ("'s'", "command", "NOPE")),
        ({"s": {"command": "x", "headers": {"A": "${input:key}"}}}, ("input key",)),
        ({"s": {"comand": "x"}}, ("comand", "command")),
        ({"s": {"args": ["x"]}}, ("needs a command",)),
        ({"s": {"url": "ftp://x"}}, ("http://",)),
        ({"s": {"command": "x", "type": "carrier-pigeon"}}, ("carrier-pigeon",)),
        ({"s": {"command": "x", "timeout": -1}}, ("above 0",)),
        ({"s": {"command": "x", "args": "y"}}, ("list of texts",)),
        ({"s": {"command": "x", "env": []}}, ("env",)),
        ({"s": {"command": 3}}, ("expected text",)),
        ({"s": "x"}, ("must be a table",)),
        ({"bad name": {"command": "x"}}, ("bad name",)),
        ([{"name": "s", "command": "x"}, {"name": "s", "command": "y"}], ("two MCP servers",)),
        ({"s": {"command": "x", "naming": "shouted"}}, ("shouted", "double_underscore")),
        ({"s": {"command": "x", "parallel": "maybe"}}, ("parallel", "maybe")),
        (7, ("list or a map",)),
    ],
)
def test_what_is_wrong_is_named(value: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        servers_of(value, environment={})

    assert all(w in str(caught.value) for w in words), str(caught.value)


def test_a_files_own_permissions_grant_nothing() -> None:
    (server,) = servers_of(
        {"s": {"command": "x", "alwaysAllow": ["*"], "autoApprove": ["*"], "trust": True}}, environment={}
    )

    assert server == ServerConfig(name="s", command="x", source="config")
    assert [
        word for note in server.notes for word in ("alwaysAllow", "autoApprove", "trust") if word in note
    ] == [
        "alwaysAllow",
        "autoApprove",
        "trust",
    ]
    assert all("allow call:s/*" in note for note in server.notes)


@owes("X-39")
@pytest.mark.parametrize(
    ("said", "style"),
    [("mcp", "mcp"), ("double_underscore", "double_underscore"), ("Double-Underscore", "double_underscore"),
     ("raw", "raw")],
)  # fmt: skip
def test_the_way_of_naming_is_chosen_per_server(said: str, style: str) -> None:
    assert servers_of({"s": {"command": "x", "naming": said}}, environment={})[0].naming == style


@pytest.mark.parametrize(
    ("said", "meant"), [("false", False), ("TRUE", True), (False, False), (1, True), ("no", False)]
)
def test_a_flag_that_came_out_of_a_variable_means_what_it_says(said: Any, meant: bool) -> None:
    (server,) = servers_of({"s": {"command": "x", "parallel": "${P:-" + str(said) + "}"}}, environment={})
    (other,) = servers_of({"s": {"command": "x", "parallel": said, "enabled": said}}, environment={})

    assert (server.parallel, other.parallel, other.disabled) == (meant, meant, not meant)


# -- what an error says of a command line ------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ("--api-key", "plain-and-unknown"), ("--token=plain-and-unknown",), ("-e", "API_TOKEN=plain-and-unknown"),
        ("--header", "Authorization: Bearer plain-and-unknown"), ("--password", "plain-and-unknown it's"),
        ("--from", "postgres://me:plain-and-unknown@db/x"), ("x", "ghp_" + "aB3" * 12 + "plain-and-unknown"),
    ],
)  # fmt: skip
def test_what_is_told_of_a_command_line_holds_no_secret(args: tuple[str, ...]) -> None:
    told = ServerConfig(name="s", command="npx", args=("-y", "some-server", *args)).redacted_command

    assert "plain-and-unknown" not in told and "it's" not in told and "aB3aB3" not in told
    assert told.startswith("npx -y some-server ") and "[redacted:" in told


def test_what_is_told_of_a_command_line_holds_nothing_of_its_variables_and_is_short() -> None:
    long = ServerConfig(
        name="s", command="x", args=("hunter2hunter2", "y" * 5000), env={"K": "hunter2hunter2"}
    ).redacted_command
    web = ServerConfig(
        name="s", url="https://me:pass@host.example/mcp?key=1234567#frag", transport="streamable_http"
    ).redacted_command

    assert "hunter2" not in long and len(long) < 400 and long.endswith(" characters]")
    assert web == "https://host.example/mcp"


def test_an_ordinary_command_line_is_told_whole() -> None:
    server = ServerConfig(name="s", command="npx", args=("-y", "@scope/server", "--port", "80", "a b"))

    assert server.redacted_command == server.command_line == "npx -y @scope/server --port 80 'a b'"
