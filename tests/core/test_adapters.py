"""Tools in other systems' class styles are accepted as they stand, and count as opaque."""

from __future__ import annotations

import asyncio
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from pytest import raises

from pegboard import PURE, BuildError, Executor, Toolkit
from pegboard.core.adapters import adapt, level_of, result_of, takes_call
from pegboard.core.content import Text
from tests.ledger import owes


class Level(Enum):
    CONFIRM = "confirm"


class Runs:
    name = "runs"
    description = "Property map and run."
    parameters = {"sql": {"type": "string"}, "limit": {"type": "integer", "default": 100}}  # noqa: RUF012

    def run(self, sql: str, limit: int) -> str:
        return f"{sql} {limit}"


class Executes:
    name = "executes"
    description = "Schema and execute."
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}  # noqa: RUF012

    async def execute(self, **kwargs: Any) -> Any:
        return {"n": kwargs["n"]}


class Lists:
    name = "lists"
    description = "get_parameters."

    def get_parameters(self) -> list[Any]:
        return [
            SimpleNamespace(name="q", type="string", description="Query", required=True, default=None),
            {"name": "n", "type": "integer", "description": "Count", "required": False, "default": 3},
        ]

    async def execute(self, **params: Any) -> Any:
        return SimpleNamespace(
            success=params["q"] != "bad", data=[params["n"]], error="it is bad", metadata={"k": 1}
        )


class Types:
    """Types of the function."""

    name = "types"

    def execute(self, n: int, loud: bool = False) -> str:
        return f"{n + 1} {loud}"


def four(tool_call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> str:
    return f"{params['x']}"


@owes("X-01", "K-02", "K-03", "K-04")
@pytest.mark.parametrize(
    ("thing", "name", "arguments", "text"),
    [
        (Runs(), "runs", {"sql": "a"}, "a 100"),
        (Runs, "runs", {"sql": "a", "limit": "7"}, "a 7"),
        (Executes(), "executes", {"n": "5"}, '{"n": 5}'),
        (Lists(), "lists", {"q": "x"}, "[3]"),
        (Types(), "types", {"n": "4", "loud": "true"}, "5 True"),
        (SimpleNamespace(name="four", description="d", parameters={"x": {"type": "string"}}, execute=four),
         "four", {"x": "y"}, "y"),
        ({"name": "four", "description": "d", "parameters": {"x": {"type": "string"}}, "execute": four},
         "four", {"x": "y"}, "y"),
    ],
)  # fmt: skip
async def test_each_class_style_is_a_tool(
    thing: Any, name: str, arguments: dict[str, Any], text: str
) -> None:
    door = Executor([thing], policy=["allow call:python/*"])

    result = await door.call(name, arguments)

    assert result.ok, result.error
    assert str(result) == text


@owes("X-01", "X-22")
async def test_an_opaque_tool_asks_and_one_that_declares_effects_does_not() -> None:
    class Declared(Runs):
        effects = PURE

    opaque, open_ = Executor([Runs()]), Executor([Declared()])

    assert [str(e) for e in (await opaque.preview("runs", {"sql": "x"})).effects] == ["call python/runs"]
    assert (await opaque.preview("runs", {"sql": "x"})).decision == "ask"
    assert (await opaque.call("runs", {"sql": "x"})).error is not None
    assert (await open_.call("runs", {"sql": "x"})).ok
    assert Toolkit([Runs()])["runs"].kinds() == ("call",)


@owes("X-08")
async def test_an_unknown_argument_is_an_error_and_never_reaches_the_function() -> None:
    result = await Executor([Executes()], mode="full").call("executes", {"n": 1, "m": 2})

    assert result.error is not None
    assert result.error.details["errors"][0]["path"] == ".m"


@owes("X-04")
async def test_004s_outcome_object_becomes_a_result() -> None:
    door = Executor([Lists()], mode="full")

    good, bad = await door.call("lists", {"q": "x", "n": 9}), await door.call("lists", {"q": "bad"})

    assert good.data == [9]
    assert good.metadata["k"] == 1
    assert bad.error is not None
    assert bad.error.message == "it is bad"


@owes("A-02", "A-03", "X-24")
def test_permission_words_become_levels() -> None:
    assert level_of(Level.CONFIRM) == "confirm"
    assert level_of("ask") == "confirm"
    assert level_of("AUTO") == "auto"
    assert level_of(None) == "auto"
    with raises(BuildError, match="'maybe'"):
        level_of("maybe")


def test_what_is_no_tool_is_named() -> None:
    class Needs(Runs):
        def __init__(self, db: str) -> None: ...

    with raises(BuildError, match="cannot be made without arguments"):
        Toolkit([Needs])
    with raises(BuildError, match="is not a tool"):
        adapt(SimpleNamespace(name="x"))
    with raises(BuildError, match="is not a tool"):
        Toolkit([5])
    with raises(BuildError, match="parameters are a int"):
        adapt(SimpleNamespace(name="x", parameters=5, run=lambda: None))
    with raises(BuildError, match="is not a parameter"):
        adapt(SimpleNamespace(name="x", parameters=[5], run=lambda: None))


@owes("M-44")
def test_the_four_argument_form_is_found_by_its_shape_and_not_by_names() -> None:
    schema = {"type": "object", "properties": {"path": {}, "content": {}}}

    assert takes_call(four, schema)
    assert takes_call(lambda i, p, s, u: None, schema)
    assert takes_call(lambda first, content: None, schema)
    assert takes_call(lambda i, p: None, {"type": "object"})
    assert takes_call(lambda *everything: None, schema)
    assert not takes_call(lambda path, content: None, schema)
    assert not takes_call(lambda **kwargs: None, schema)
    assert not takes_call(lambda *args, **kwargs: None, schema)
    assert not takes_call(lambda i, p: None, None)


def test_values_that_are_no_known_result_stay_as_they_are() -> None:
    assert result_of({"content": "plain text"}) == {"content": "plain text"}
    assert result_of([1]) == [1]
    assert result_of("x") == "x"


def test_what_has_no_function_is_no_tool_and_a_class_that_needs_arguments_says_so() -> None:
    class Needy(Runs):
        def __init__(self, database: str) -> None:
            self.database = database

    with raises(BuildError, match="no name with an execute or run method"):
        adapt(SimpleNamespace(name="x"))
    with raises(BuildError, match="Needy cannot be made without arguments"):
        Toolkit([Needy])


async def test_a_blocking_tool_may_fail_or_give_something_to_wait_for() -> None:
    async def later(value: str) -> str:
        if value == "bad":
            raise KeyError(value)
        return value

    class Blocks(Executes):
        name = "blocks"
        parameters = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}  # noqa: RUF012

        def execute(self, **kwargs: Any) -> Any:
            if kwargs["n"] == "worse":
                raise ValueError("it is worse")
            return later(kwargs["n"])

    tools = Executor([Blocks()], mode="full")

    assert str(await tools.call("blocks", {"n": "good"})) == "good"
    assert "KeyError" in str(await tools.call("blocks", {"n": "bad"}))
    assert "it is worse" in str(await tools.call("blocks", {"n": "worse"}))


async def test_a_tool_without_a_signal_is_cancelled_like_any_other() -> None:
    begun = asyncio.Event()

    class Waits(Executes):
        name = "waits"

        async def execute(self, **kwargs: Any) -> Any:
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(Executor([Waits()], mode="full").call("waits", {"n": 1}))
    await begun.wait()
    task.cancel()

    with raises(asyncio.CancelledError):
        await task


async def test_a_builtin_function_takes_its_arguments_by_name() -> None:
    """`dict` is a function whose parameters Python cannot tell."""
    one = {"name": "gather", "description": "Gather.", "execute": dict,
           "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}  # fmt: skip

    assert not takes_call(dict, {})
    assert (await Executor([one], mode="full").call("gather", {"a": 1})).data == {"a": 1}


def test_blocks_in_a_content_dict_stay_what_they_are() -> None:
    result = result_of({"content": [Text("one"), {"type": "text", "text": "two"}]})

    assert result.content == (Text("one"), Text("two"))
