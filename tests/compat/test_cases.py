"""Themes 1 and 2 (schemas, arguments) hold for tools written as each of the five systems writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pegboard import Executor
from pegboard.compat import artifactflow, moltbot, nanobot
from pegboard.compat.nanobot_net import create_tool
from pegboard.dialects import DIALECTS
from tests.ledger import owes

PROPERTIES: dict[str, dict[str, Any]] = {
    "zip": {"type": "string"}, "flag": {"type": "boolean"}, "n": {"type": "integer"},
    "limit": {"type": "integer", "default": 100}, "lines": {"type": "array", "items": {"type": "integer"}},
}  # fmt: skip
SCHEMA = {"type": "object", "properties": PROPERTIES, "required": ["zip"]}
Make = Callable[[list[dict[str, Any]]], Any]


def of_000(seen: list[dict[str, Any]]) -> Any:
    class Echo(nanobot.Tool):
        name = "echo"  # type: ignore[assignment]
        description = "Echo."  # type: ignore[assignment]
        parameters = SCHEMA  # type: ignore[assignment]

        async def execute(self, **kwargs: Any) -> str:
            seen.append(kwargs)
            if kwargs["zip"] == "boom":
                raise ValueError
            return json.dumps(kwargs)

    return Echo()


def of_001(seen: list[dict[str, Any]]) -> Any:
    # In 001 what has a default is optional; the rest is required (D-12).
    given = {k: v if k in ("zip", "limit") else {**v, "default": None} for k, v in PROPERTIES.items()}

    class Echo(nanobot.BaseTool):
        name = "echo"
        description = "Echo."
        parameters = given

        async def run(self, **kwargs: Any) -> str:
            given = {k: v for k, v in kwargs.items() if v is not None}
            seen.append(given)
            if given["zip"] == "boom":
                raise ValueError
            return json.dumps(given)

    return Echo()


def of_002(seen: list[dict[str, Any]]) -> Any:
    def echo(
        zip: str,
        flag: bool | None = None,
        n: int | None = None,
        limit: int = 100,
        lines: list[int] | None = None,
    ) -> str:
        given = {"zip": zip, "flag": flag, "n": n, "limit": limit, "lines": lines}
        seen.append({k: v for k, v in given.items() if v is not None})
        if zip == "boom":
            raise ValueError
        return json.dumps(given)

    return create_tool(echo, description="Echo.")


def of_003(seen: list[dict[str, Any]]) -> Any:
    async def execute(call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
        seen.append(dict(params))
        if params["zip"] == "boom":
            raise ValueError
        return moltbot.json_result(params)

    return moltbot.agent_tool(
        {"name": "echo", "description": "Echo.", "parameters": SCHEMA, "execute": execute}
    )


def of_004(seen: list[dict[str, Any]]) -> Any:
    class Echo(artifactflow.BaseTool):
        def get_parameters(self) -> list[artifactflow.ToolParameter]:
            return [
                artifactflow.ToolParameter(
                    n, "array[integer]" if n == "lines" else s["type"], n, n == "zip", s.get("default")
                )
                for n, s in PROPERTIES.items()
            ]

        async def execute(self, **params: Any) -> artifactflow.ToolResult:
            seen.append({k: v for k, v in params.items() if v is not None})
            if params["zip"] == "boom":
                raise ValueError
            return artifactflow.ToolResult(success=True, data=params)

    return Echo("echo", "Echo.")


STYLES: dict[str, Make] = {"000": of_000, "001": of_001, "002": of_002, "003": of_003, "004": of_004}
every_style = pytest.mark.parametrize("style", STYLES)


@owes("args-05", "args-09", "args-16", "args-17", "args-31", "args-33", "X-01", "X-09")
@every_style
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"zip": "007"}, {"zip": "007"}),
        ({"zip": "true", "flag": "false"}, {"zip": "true", "flag": False}),
        ({"zip": "a", "limit": None}, {"zip": "a"}),
        ({"zip": "a", "n": "12"}, {"zip": "a", "n": 12}),
        ({"zip": "a", "lines": "[1, 2]"}, {"zip": "a", "lines": [1, 2]}),
        ('{"zip": "a", "lines": [1,2,],}', {"zip": "a", "lines": [1, 2]}),
        ('```json\n{"zip": "a", "n": 3}\n```', {"zip": "a", "n": 3}),
        ("{'zip': 'a', 'flag': True}", {"zip": "a", "flag": True}),
        ('"{\\"zip\\": \\"a.txt\\"}"', {"zip": "a.txt"}),
        ('{"zip": "a", "n": 9007199254740993}', {"zip": "a", "n": 9007199254740993}),
    ],
)
async def test_what_a_model_sends_arrives_as_the_schema_says(
    style: str, given: Any, wanted: dict[str, Any]
) -> None:
    seen: list[dict[str, Any]] = []

    result = await Executor([STYLES[style](seen)]).call("echo", given)

    assert result.ok, str(result)
    # A default may be filled by whoever fills it: the system's own way, or its function.
    assert [{k: v for k, v in s.items() if (k, v) != ("limit", 100)} for s in seen] == [wanted]


@owes("args-08", "args-11", "args-13", "args-14", "args-18")
@every_style
@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"zip": "a", "n": "foobar"}, ".n"),
        ({"zip": None}, ".zip"),
        ({"zip": "a", "flag": "maybe"}, ".flag"),
        ("", ".zip"),
        (None, ".zip"),
        ("[]", "object"),
        ("5", "object"),
        ('{"zip": "a", "lines": [1', "cut off"),
        ({"zip": "a", "limt": 3}, "limit"),
    ],
)
async def test_what_does_not_fit_is_refused_in_words_that_help_and_nothing_runs(
    style: str, given: Any, place: str
) -> None:
    seen: list[dict[str, Any]] = []

    result = await Executor([STYLES[style](seen)]).call("echo", given)

    assert not result.ok
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert place in str(result)
    assert "Traceback" not in str(result)
    assert "http" not in str(result)
    assert len(str(result)) < 900
    assert seen == []


@owes("args-25", "args-26", "X-06")
@every_style
async def test_an_exception_and_a_wrong_name_are_results(style: str) -> None:
    seen: list[dict[str, Any]] = []
    door = Executor([STYLES[style](seen)])

    raised = await door.call("echo", {"zip": "boom"}, id="c7")
    wrong = await door.call("ecko", {"zip": "a"})

    assert (raised.ok, raised.call_id) == (False, "c7")
    assert "ValueError" in str(raised)
    assert "echo" in str(wrong)
    assert len(seen) == 1


@owes("X-07", "X-59")
@every_style
@pytest.mark.parametrize("dialect", [d for d in DIALECTS if d not in ("xml", "text")])
def test_every_style_has_a_root_object_in_every_dialect(style: str, dialect: str) -> None:
    from pegboard import Toolkit

    (shown,) = Toolkit([STYLES[style]([])]).schemas(dialect)
    text = json.dumps(shown)

    def schema_of(node: Any) -> Any:
        if isinstance(node, dict):
            if "properties" in node:
                return node
            return next((s for v in node.values() if (s := schema_of(v)) is not None), None)
        if isinstance(node, list):
            return next((s for v in node if (s := schema_of(v)) is not None), None)
        return None

    root = schema_of(shown)
    assert str(root["type"]).lower() == "object"
    assert not {"oneOf", "anyOf", "allOf", "enum", "not"} & set(root)
    assert set(root["properties"]) == set(PROPERTIES)
    assert root["required"] == ["zip"] or '"strict": true' in text
