"""Other frameworks' agents use our tools, and ours use theirs; every call goes through the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import RunContext

from pegboard import PURE, Agent, Executor, builtin, tool
from pegboard.interop.langchain import from_langchain, to_langchain
from pegboard.interop.openai_agents import from_openai_agents, to_openai_agents
from pegboard.interop.pydantic_ai import from_pydantic_ai, to_pydantic_ai
from pegboard.models import ScriptedModel

pytestmark = pytest.mark.slow


@tool(effects=PURE)
def double(n: int) -> int:
    """Twice a number.

    Args:
        n: The number.
    """
    if n > 100:
        raise ValueError("too large")
    return n * 2


def door(tmp_path: Path) -> Executor:
    (tmp_path / "a.txt").write_text("hello")
    return Executor([double, *builtin("read_file", "delete_file")], workspace=tmp_path)


async def ours_calls(imported: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """What an agent of ours gets: first asked and refused, then allowed."""
    refused = await Executor([imported]).call(imported.name, arguments)
    model = ScriptedModel([{"calls": [{"name": imported.name, "arguments": arguments}]}, {"text": "done"}])
    answer = await Agent(tools=[imported], model=model, policy=["allow call:*"]).run("go")
    return refused, next(e.result for e in answer.events if e.type == "call.finished")


# -- LangChain --------------------------------------------------------------------------------


async def test_langchain_uses_our_tools_through_policy_and_validation(tmp_path: Path) -> None:
    made = door(tmp_path)
    tools = {t.name: t for t in to_langchain(made)}

    def call(name: str, arguments: dict[str, Any]) -> Any:
        return tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})

    good = await call("double", {"n": "4"})
    denied = await call("delete_file", {"path": "a.txt"})
    wrong = await call("double", {"n": "x"})

    assert good.content == "8"
    assert good.artifact.data == 8
    assert denied.status == "error"
    assert "not allowed to run" in denied.content
    assert wrong.status == "error"
    assert ".n" in wrong.content
    assert (tmp_path / "a.txt").exists()
    assert len([e for e in made.events if e.type == "call.finished"]) == 3


async def test_a_langchain_tool_is_bound_by_a_model_with_our_schema(tmp_path: Path) -> None:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.utils.function_calling import convert_to_openai_tool

    (exported,) = to_langchain([double])
    model = GenericFakeChatModel(
        messages=iter([AIMessage(content="", tool_calls=[{"id": "1", "name": "double", "args": {"n": 21}}])])
    )
    reply = await model.ainvoke("double 21")

    assert convert_to_openai_tool(exported)["function"]["parameters"]["properties"]["n"]["type"] == "integer"
    assert (await exported.ainvoke(reply.tool_calls[0])).content == "42"


def test_a_langchain_tool_may_be_called_without_a_loop() -> None:
    (exported,) = to_langchain([double])

    assert exported.invoke({"n": 3}) == "6"


async def test_a_langchain_tool_is_one_of_ours() -> None:
    from langchain_core.tools import ToolException
    from langchain_core.tools import tool as theirs

    @theirs
    def multiply(a: int, b: int = 3) -> int:
        """Multiply two numbers."""
        if a < 0:
            raise ToolException("negative")
        return a * b

    multiply.handle_tool_error = True
    imported = from_langchain(multiply)
    refused, result = await ours_calls(imported, {"a": "4"})

    assert imported.schema["properties"]["a"]["type"] == "integer"
    assert refused.error.code == "permission_denied"
    assert str(result) == "12"
    failed = await Executor([from_langchain(multiply, effects=PURE)]).call("multiply", {"a": -1})
    assert failed.error is not None
    assert "negative" in str(failed)


# -- PydanticAI -------------------------------------------------------------------------------


async def test_pydantic_ai_uses_our_tools(tmp_path: Path) -> None:
    from pydantic_ai import Agent as TheirAgent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    returned: list[str] = []

    def scripted(messages: list[Any], info: Any) -> ModelResponse:
        parts = [p for m in messages for p in m.parts if p.part_kind in ("tool-return", "retry-prompt")]
        returned[:] = [str(p.content) for p in parts]
        script = [("double", {"n": "x"}), ("double", {"n": 4}), ("delete_file", {"path": "a.txt"})]
        if len(parts) < len(script):
            name, arguments = script[len(parts)]
            return ModelResponse(parts=[ToolCallPart(name, arguments)])
        return ModelResponse(parts=[TextPart("done")])

    made = door(tmp_path)
    agent = TheirAgent(FunctionModel(scripted), tools=to_pydantic_ai(made), retries=3)

    assert (await agent.run("go")).output == "done"
    assert ".n" in returned[0]
    assert returned[1] == "8"
    assert "not allowed to run" in returned[2]
    assert (tmp_path / "a.txt").exists()


async def test_a_pydantic_ai_tool_is_one_of_ours() -> None:
    from pydantic_ai import ModelRetry
    from pydantic_ai import Tool as TheirTool

    def greet(ctx: RunContext[str], name: str, loud: bool = False) -> str:
        """Greet somebody."""
        if name == "?":
            raise ModelRetry("give a name")
        return f"{ctx.deps} {name.upper() if loud else name}"

    imported = from_pydantic_ai(TheirTool(greet), deps="Hello")
    refused, result = await ours_calls(imported, {"name": "ada", "loud": "true"})

    assert refused.error.code == "permission_denied"
    assert str(result) == "Hello ADA"
    again = await Executor([from_pydantic_ai(TheirTool(greet), effects=PURE)]).call("greet", {"name": "?"})
    assert again.error is not None
    assert again.error.retryable


# -- OpenAI Agents SDK ------------------------------------------------------------------------


class Scripted:
    """A model of the Agents SDK that says what it was given."""

    def __init__(self, turns: list[list[Any]]) -> None:
        self.turns, self.seen = turns, []

    async def get_response(self, *, input: Any, **_: Any) -> Any:
        from agents import ModelResponse, Usage

        self.seen.append(input)
        return ModelResponse(output=self.turns[len(self.seen) - 1], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


async def test_the_agents_sdk_uses_our_tools(tmp_path: Path) -> None:
    from agents import Agent as TheirAgent
    from agents import Model, RunConfig, Runner
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Theirs(Scripted, Model):
        pass

    def call(id: str, name: str, arguments: str) -> Any:
        return ResponseFunctionToolCall(call_id=id, name=name, arguments=arguments, type="function_call")

    text = ResponseOutputText(text="done", type="output_text", annotations=[])
    said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
    model = Theirs([[call("1", "double", '{"n": 4}'), call("2", "delete_file", '{"path": "a.txt"}')], [said]])
    agent = TheirAgent(name="x", model=model, tools=to_openai_agents(door(tmp_path)))

    result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))

    outputs = {i["call_id"]: i["output"] for i in model.seen[1] if i.get("type") == "function_call_output"}
    assert result.final_output == "done"
    assert outputs["1"] == "8"
    assert "not allowed to run" in outputs["2"]


async def test_an_agents_sdk_tool_is_one_of_ours() -> None:
    from agents import function_tool

    @function_tool
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    refused, result = await ours_calls(from_openai_agents(shout), {"text": "hi"})

    assert refused.error.code == "permission_denied"
    assert str(result) == "HI"


async def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from pegboard.core.errors import Unavailable

    for package, export in (
        ("langchain_core.tools", to_langchain),
        ("pydantic_ai", to_pydantic_ai),
        ("agents", to_openai_agents),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(Unavailable, match=r"pegboard\[interop\]"):
            export([double])
