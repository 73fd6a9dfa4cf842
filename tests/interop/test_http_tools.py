"""HTTP tools from files, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from pytest import raises

from pegboard import BuildError, Executor
from pegboard.interop.http_tools import http_tool, http_tools
from tests.interop.server import Loopback, loopback
from tests.ledger import owes


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


TOML = """
[[tool]]
name = "get_weather"
description = "Current weather of a city."
url = "{url}/v1/weather/{{city}}"
query = {{ units = "{{units}}", days = "{{days}}", lang = "en", only = "{{only}}" }}
headers = {{ Authorization = "Bearer secret://weather", X-Note = "for {{city}}" }}
hints = ["forecast"]
[tool.parameters.city]
type = "string"
description = "Name of the city"
[tool.parameters.units]
type = "string"
default = "metric"
[tool.parameters.days]
type = "integer"
optional = true
[tool.parameters.only]
type = "array"
required = false

[[tool]]
name = "report"
description = "Send a report."
method = "POST"
url = "{url}/reports"
level = "confirm"
body = {{ title = "Report: {{title}}", count = "{{count}}", tags = ["fixed", "{{tag}}"], meta = {{ by = "pegboard", n = 1 }} }}
[tool.parameters.title]
type = "string"
[tool.parameters.count]
type = "integer"
[tool.parameters.tag]
type = "string"
optional = true
"""

MARKDOWN = """---
name: lookup
method: POST
url: {url}/lookup
form:
  q: "{{word}}"
parameters:
  word: {{type: string, description: What to look up}}
---

Look a word up in the dictionary.

Use it for words that you do not know.
"""

YAML = """
tools:
  ping:
    description: Is it there?
    url: {url}/ping
"""


def door(server: Loopback, folder: Path, **options: Any) -> Executor:
    for name, text in (("a.toml", TOML), ("b.md", MARKDOWN), ("c.yaml", YAML)):
        (folder / name).write_text(text.format(url=server.url))
    (folder / "readme.txt").write_text("not a tool")
    return Executor(http_tools(folder, **options), policy=[f"allow connect:{server.host}"])


@owes("K-17")
async def test_a_folder_of_files_in_three_forms(server: Loopback, tmp_path: Path) -> None:
    made = door(server, tmp_path, secrets={"weather": "w-key-123"})
    kit = made.toolkit

    assert kit.names == ("get_weather", "report", "lookup", "ping")
    assert kit["get_weather"].schema["required"] == ["city"]
    assert kit["lookup"].description.startswith("Look a word up")
    assert kit["report"].level == "confirm"
    assert [str(e) for e in (await made.preview("ping", {})).effects] == [f"connect {server.host}"]


@owes("K-17", "X-57")
async def test_arguments_fill_the_template(server: Loopback, tmp_path: Path) -> None:
    made = door(server, tmp_path, secrets={"weather": "w-key-123"})

    result = await made.call("get_weather", {"city": "São Paulo/x", "only": ["a", "b"]})
    await made.call("report", {"title": "Q1", "count": "4"})
    await made.call("lookup", {"word": "a&b"})
    await made.call("ping", {})

    assert len(server.seen) == 4, [str(e.result) for e in made.events if e.type == "call.finished"]
    weather, report, lookup, ping = server.seen
    assert result.data == {"ok": True}
    assert weather.path == "/v1/weather/S%C3%A3o%20Paulo%2Fx"
    assert weather.query == [("units", "metric"), ("lang", "en"), ("only", "a"), ("only", "b")]
    assert weather.headers["authorization"] == "Bearer w-key-123"
    assert report.json == {
        "title": "Report: Q1",
        "count": 4,
        "tags": ["fixed"],
        "meta": {"by": "pegboard", "n": 1},
    }
    assert lookup.body == b"q=a%26b"
    assert ping.body == b""


async def test_an_argument_cannot_name_a_secret(server: Loopback) -> None:
    tool = http_tool(
        {"name": "a", "description": "A.", "url": server.url, "headers": {"X-A": "v {x}"},
         "query": {"q": "{x}"}, "parameters": {"x": {"type": "string"}}},
        secrets={"weather": "w-key-123"},
    )  # fmt: skip

    result = await Executor([tool], mode="full").call("a", {"x": "secret://weather"})

    assert all("w-key-123" not in str(s) for s in server.seen), result


@owes("K-17")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": ""}, "'url' is missing"),
        ({"colour": 1}, "unknown key 'colour'"),
        ({"query": {"q": "{nothing}"}}, "{nothing} is not a parameter"),
        ({"url": "http://{x}.example/"}, "host of its url may not depend"),
        ({"url": "file:///etc/passwd"}, "not an http or https URL"),
    ],
)
def test_a_wrong_definition_is_named(change: dict[str, Any], message: str) -> None:
    definition = {
        "name": "a", "description": "A.", "url": "http://h.example", "parameters": {"x": {"type": "string"}},
        "body": {"x": ["{x}"]},
    }  # fmt: skip

    with raises(BuildError, match=message.replace("{", r"\{")):
        http_tool({**definition, **change})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "name = ", "a.toml cannot be parsed"),
        ("a.yaml", "- 1", "contains no table"),
        ("a.md", "no front matter", "needs front matter"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)

    with raises(BuildError, match=message):
        http_tools(tmp_path / name)
    with raises(BuildError, match="cannot be read"):
        http_tools(tmp_path / "none.toml")


@owes("K-17")
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("path", "../admin"), ("path", ".."), ("path", "."), ("path", ""), ("path", "a/b"), ("path", "%2e%2e/x"),
        ("path", "a?admin=1"), ("path", "a#b"), ("path", "a\r\nX: 1"), ("path", "\\..\\x"), ("path", "a\0b"),
        ("path", "//evil.example"), ("path", "@evil.example"), ("header", "a\r\nX-Evil: 1"), ("header", "a\nb"),
        ("header", "a\0b"), ("query", "a&admin=1"), ("query", "a#b\r\nX: 1"), ("form", "a&admin=1"),
        ("body", 'a", "admin": true, "x": "'), ("path", "{other}"), ("header", "secret://weather"),
    ],
)  # fmt: skip
async def test_no_value_of_an_argument_leaves_its_place(server: Loopback, part: str, value: str) -> None:
    definition: dict[str, Any] = {
        "name": "t", "description": "T.", "url": f"{server.url}/v1/{{p}}/end" if part == "path" else f"{server.url}/v1",
        "parameters": {"p": {"type": "string"}}, "method": "POST",
    }  # fmt: skip
    templates = {"header": {"headers": {"X-In": "a {p}"}}, "query": {"query": {"q": "{p}"}},
                 "form": {"form": {"q": "{p}"}}, "body": {"body": {"q": "x{p}"}}, "path": {}}  # fmt: skip
    definition |= templates[part]
    tool = http_tool(definition, secrets={"weather": "s3cr3t"})

    result = await Executor([tool], policy=["allow connect:*"]).call("t", {"p": value})

    if not result.ok:
        assert result.error is not None
        assert result.error.code == "invalid_arguments"
        assert server.seen == []
        return
    (seen,) = server.seen
    assert "x-evil" not in seen.headers
    assert "x" not in seen.headers
    assert "s3cr3t" not in str(seen)
    if part == "path":
        assert seen.path.count("/") == 3
        assert seen.path.endswith("/end")
        assert seen.query == []
    elif part == "query":
        assert seen.query == [("q", value)]
    elif part == "form":
        assert parse_qsl(seen.body.decode()) == [("q", value)]
    elif part == "body":
        assert seen.json == {"q": f"x{value}"}


async def test_two_values_beside_each_other_make_no_other_path(server: Loopback) -> None:
    tool = http_tool({
        "name": "t", "description": "T.", "url": f"{server.url}/v1/{{a}}{{b}}/x",
        "parameters": {"a": {"type": "string"}, "b": {"type": "string"}},
    })  # fmt: skip
    dotted = http_tool({
        "name": "u", "description": "U.", "url": f"{server.url}/v1/.{{a}}", "parameters": {"a": {"type": "string"}},
    })  # fmt: skip
    door = Executor([tool, dotted], policy=["allow connect:*"])

    for name, arguments in (("t", {"a": "", "b": ".."}), ("t", {"a": ".", "b": "."}), ("u", {"a": "."})):
        assert (await door.call(name, arguments)).error is not None
    assert server.seen == []
