"""Tool and @tool: what they check when they are made."""

from __future__ import annotations

import inspect
from types import MappingProxyType
from typing import Any

import pytest

from pegboard import PURE, BuildError, Effect, Executor, Plan, ReadPath, Tool, Toolkit, tool
from pegboard.core.tool import ToolLimits
from tests.ledger import owes


def plain(x: int = 1) -> int:
    """Give it back."""
    return x


async def test_calling_a_tool_runs_the_function_with_no_runtime() -> None:
    assert tool(effects=PURE)(plain)(3) == 3
    assert repr(tool(effects=PURE)(plain)) == "<Tool plain>"


@owes("C-01", "K-01", "C-50")
async def test_a_plain_function_is_a_tool_as_it_stands() -> None:
    def count(path: ReadPath, times: int = 1) -> int:
        """Count a path's letters."""
        return len(path) * times

    kit = Toolkit([count])
    door = Executor([count])

    assert [s["function"]["name"] for s in kit.schemas("openai-chat")] == ["count"]
    assert kit.schemas("openai-chat")[0]["function"]["description"] == "Count a path's letters."
    assert (await door.call("count", {"path": "abc", "times": "2"})).data % 2 == 0


def test_every_option_is_kept() -> None:
    made = tool(
        name="n",
        description="d",
        effects=[Effect("read", "a")],
        plan=lambda call, context: Plan(),
        level="confirm",
        timeout_s=3,
        max_chars=50,
        idempotent=True,
        hints=["h"],
        aliases=["m"],
        example={"x": 2},
        touches=["write"],
    )(plain)

    assert (made.name, made.description, made.level, made.idempotent) == ("n", "d", "confirm", True)
    assert made.limits == ToolLimits(timeout_s=3, max_chars=50)
    assert (made.hints, made.aliases, made.example) == (("h",), ("m",), {"x": 2})
    assert made.kinds() == ("read", "write")
    made.description = "changed"
    assert made.description == "changed"


@owes("N-14")
def test_a_foreign_schema_takes_the_place_of_the_types() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

    made = tool(effects=PURE, parameters=schema, description="d")(lambda_like)

    assert made.to_schema()["function"]["parameters"]["properties"]["q"]["type"] == "string"
    assert made.to_schema()["function"]["description"] == "d"


def lambda_like(**arguments: Any) -> str:
    """Say."""
    return str(arguments)


def test_a_function_of_the_arguments_says_nothing_about_kinds_before_a_call() -> None:
    assert tool(effects=lambda a: [])(plain).kinds() == ()

    @tool
    def look(path: ReadPath) -> str:
        """Look."""
        return path

    assert look.kinds() == ("read",)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tool(), "needs a function"),
        (lambda: tool(effects=PURE)(lambda: ""), "not a valid tool name"),
        (lambda: tool(effects=PURE, name="a b")(plain), "'a b' is not a valid tool name"),
        (lambda: tool(effects=PURE, level="maybe")(plain), "none of auto, confirm, deny"),  # type: ignore[call-overload]
        (lambda: tool(plain), "declares no effects"),
        (lambda: tool(effects=["read"])(plain), "'read' is not an effect"),  # type: ignore[list-item]
        (lambda: tool(effects=[Effect("burn", "x")])(plain), "is not an effect"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_tool_does_not_build(make: Any, said: str) -> None:
    with pytest.raises(BuildError) as caught:
        make()

    assert said in str(caught.value)


def test_effects_given_as_an_iterator_are_there_at_every_call() -> None:
    made = tool(effects=iter([Effect("read", "a")]))(plain)

    assert made.effects == (Effect("read", "a"),)


@owes("D-01", "D-07")
async def test_a_subclass_may_set_its_attributes_and_take_run_or_execute() -> None:
    class SearchTool(Tool):
        """Searches."""

        description = "Find things."
        effects = PURE

        async def execute(self, query: str) -> str:
            return query

    class Named(Tool):
        name = "given"
        effects = PURE
        parameters = MappingProxyType({"type": "object", "properties": {"a": {"type": "integer"}}})

        async def run(self, **given: Any) -> Any:
            return given

    door = Executor([SearchTool, Named()])

    assert door.toolkit.names == ("search", "given")
    assert door.toolkit["search"].description == "Find things."
    assert (await door.call("search", {"query": "x"})).text == "x"
    assert (await door.call("given", {"a": 1})).data == {"a": 1}


def test_a_subclass_without_run_says_what_it_needs() -> None:
    class Nothing(Tool):
        effects = PURE

    with pytest.raises(BuildError, match="needs an async method `run`"):
        Nothing()


async def test_an_object_with_an_async_call_is_awaited() -> None:
    class Later:
        """Say it later."""

        __name__ = "later"

        async def __call__(self, text: str) -> str:
            """Say it later."""
            return text

    made = Tool(Later(), effects=PURE)

    assert made.is_async
    assert str(await Executor([made]).call("later", {"text": "x"})) == "x"


def test_a_copy_is_independent_and_knows_its_schema() -> None:
    first = tool(effects=PURE)(plain)

    twin = first.copy(name="twin")

    assert (first.name, twin.name) == ("plain", "twin")
    assert twin.schema == first.schema
    assert Toolkit([first, twin]).names == ("plain", "twin")
    assert not inspect.iscoroutinefunction(twin.function)


@owes("N-05")
def test_a_schema_whose_arguments_are_no_object_is_refused_with_what_it_says() -> None:
    with pytest.raises(BuildError, match=r"'rows', parameters=.* arguments are an object .* says 'array'"):
        tool(name="rows", parameters={"type": "array"}, effects=PURE)(lambda_like)


@owes("N-05")
def test_a_subclass_with_a_text_for_parameters_is_refused_with_its_name() -> None:
    class Rows(Tool):
        """Rows."""

        effects = PURE
        parameters = "none"  # pyright: ignore[reportAssignmentType]

        async def run(self) -> str:
            return "x"

    with pytest.raises(
        BuildError, match=r"'rows', parameters=.* takes a JSON Schema as a dict, got 'none' \(str\)"
    ):
        Rows()


async def test_a_subclass_may_decide_about_itself_at_each_call() -> None:
    class Door(Tool):
        """Open the door."""

        effects = PURE
        locked = False

        @property
        def level(self) -> Any:
            return "deny" if self.locked else "auto"

        async def run(self) -> str:
            """Open the door."""
            return "open"

    door = Door()
    executor = Executor([door])

    assert str(await executor.call("door")) == "open"
    door.locked = True
    refused = await executor.call("door")
    assert refused.error is not None
    assert refused.error.code == "permission_denied"
