"""What profiles advertise, read from the documents themselves: names, descriptions, parameters, optional or not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pegboard import builtin
from pegboard.compat.profiles import PROFILES
from tests.compat.documents import block, document, typescript_schema
from tests.ledger import owes

FACTORY = re.compile(
    r"(?:async )?\((?P<args>[^()]*)\) =>.*?Name = \"(?P<name>\w+)\",\s*Description = \"(?P<text>[^\"]*)\"",
    re.S,
)
TYPES = {"string": "string", "int": "integer", "bool": "boolean"}


def row(profile: str, name: str) -> Any:
    return next(r for r in PROFILES[profile].rows if r.name == name)


def factories() -> dict[str, tuple[str, dict[str, Any]]]:
    """002's factories: name → description, and parameter → (type, required, default)."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for one in (block(f"002-{n}") for n in (3, 4, 5, 6)):
        for match in re.finditer(r"AIFunctionFactory\.Create\(", one.text):
            rest = FACTORY.search(one.text, match.end())
            if rest is None:
                continue
            args: dict[str, Any] = {}
            for given in filter(None, (a.strip() for a in rest["args"].split(","))):
                declared, _, default = given.partition("=")
                kind, _, name = declared.strip().rpartition(" ")
                args[name] = (
                    TYPES[kind.rstrip("?")],
                    not default and not kind.endswith("?"),
                    default.strip(),
                )
            found.setdefault(rest["name"], (rest["text"], args))
    return found


@owes("X-62", "G-20", "C-08", "C-12", "C-13", "C-16", "C-20")
def test_002s_factories_are_the_profiles_rows() -> None:
    found = factories()

    assert {
        "read_file",
        "write_file",
        "edit_file",
        "list_dir",
        "exec",
        "web_search",
        "web_fetch",
        "message",
    } <= set(found)
    for name, (text, args) in found.items():
        shown = row("nanobot-net", name)
        assert shown.description == text
        assert [p.name for p in shown.parameters] == list(args)
        for parameter in shown.parameters:
            kind, required, default = args[parameter.name]
            assert parameter.required is required
            assert parameter.schema["type"] in (kind, "number")
            if default and default not in ("null", "false"):
                assert str(parameter.schema["default"]) == default


@owes("X-62", "G-20")
@pytest.mark.parametrize(
    ("identity", "name"),
    [("003-1", "read"), ("003-3", "write"), ("003-4", "edit"), ("003-5", "exec"), ("003-7", "process"),
     ("003-15", "web_search"), ("003-18", "web_fetch"), ("003-20", "message")],
)  # fmt: skip
def test_003s_parameter_lists_are_the_profiles_rows(identity: str, name: str) -> None:
    wanted = typescript_schema(block(identity).text)
    shown = row("moltbot", name)

    assert [p.name for p in shown.parameters] == list(wanted["properties"])
    assert [p.name for p in shown.parameters if p.required] == wanted["required"]
    for parameter in shown.parameters:
        theirs = wanted["properties"][parameter.name]
        assert parameter.schema["type"] in (theirs["type"], "integer" if theirs["type"] == "number" else "")
        assert parameter.schema.get("enum") == theirs.get("enum")


@owes("X-62", "A-44")
def test_004s_generated_text_is_the_profiles_row() -> None:
    text = block("004-14").text
    shown = row("artifactflow", "web_search")

    assert f"Description: {shown.description}" in text
    listed = re.findall(r"^  - (\w+): (\w+) \((required|optional)\) - (.*)$", text, re.MULTILINE)
    assert [n for n, *_ in listed] == [p.name for p in shown.parameters]
    for parameter, (_, kind, required, said) in zip(shown.parameters, listed, strict=True):
        assert (parameter.schema["type"], parameter.required) == (kind, required == "required")
        # The document cuts one of them short with three dots.
        whole, dots, _ = said.partition(", ...")
        told = parameter.schema["description"]
        assert told.startswith(whole) if dots else told == said
    defaults = re.findall(r"^    Default: (\w+)$", text, re.MULTILINE)
    assert [str(p.schema["default"]) for p in shown.parameters if not p.required] == defaults


@owes("X-60", "X-62")
def test_001s_descriptions_are_the_chinese_catalogues() -> None:
    found = dict(re.findall(r'name = "(\w+)" description = "([^"]+)"', document("001")))
    kit = builtin("read_file", "exec", "glob", "ask_user").profile("nanobot", locale="zh")

    assert set(found) >= {"read_file", "exec", "glob", "ask_user", "schedule_task"}
    for tool in kit:
        assert tool.description == found[tool.name]


@owes("X-62", "N-34", "N-37", "N-39", "N-42")
@pytest.mark.parametrize(
    "name", ["read_file", "write_file", "edit_file", "list_dir", "web_search", "web_fetch", "cron", "spawn"]
)
def test_000s_parameters_are_named_in_its_text(name: str) -> None:
    text = document("000")

    for parameter in row("nanobot", name).parameters:
        assert re.search(rf"`{parameter.name}`|\b{parameter.name}\b", text), parameter.name
