"""Other frameworks' agents use our tools, and ours use theirs; every call goes through the pipeline."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import RunContext

from pegboard import PURE, Agent, Effect, Executor, ToolResult, builtin, tool
from pegboard.core.content import Image, Text
from pegboard.core.policy.approval import Waiting
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
    return Executor(
        [double, *builtin("read_file", "delete_file")], workspace=tmp_path, policy=["ask delete:*"]
    )


async def ours_calls(wrap_foreign: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """What an agent of ours gets: first asked and refused, then allowed."""
    refused = await Executor([wrap_foreign]).call(wrap_foreign.name, arguments)
    model = ScriptedModel(
        [{"calls": [{"name": wrap_foreign.name, "arguments": arguments}]}, {"text": "done"}]
    )
    answer = await Agent(tools=[wrap_foreign], model=model, policy=["allow call:*"]).run("go")
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
    wrap_foreign = from_langchain(multiply)
    refused, result = await ours_calls(wrap_foreign, {"a": "4"})

    assert wrap_foreign.schema["properties"]["a"]["type"] == "integer"
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

    wrap_foreign = from_pydantic_ai(TheirTool(greet), deps="Hello")
    refused, result = await ours_calls(wrap_foreign, {"name": "ada", "loud": "true"})

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


# -- what all three must keep ------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\nxx"


@tool(effects=PURE)
def shot() -> ToolResult:
    """Take a picture."""
    return ToolResult(content=(Text("a picture"), Image(data=PNG, mime_type="image/png")))


EXPORTS = {"langchain": to_langchain, "pydantic_ai": to_pydantic_ai, "openai_agents": to_openai_agents}


async def use(framework: str, exported: Any, arguments: dict[str, Any]) -> Any:
    """Call an exported tool as its framework does; what its model would get."""
    if framework == "langchain":
        message = {"type": "tool_call", "id": "1", "name": exported.name, "args": arguments}
        return (await exported.ainvoke(message)).content
    if framework == "pydantic_ai":
        return await exported.function_schema.call(arguments, RunContext(deps=None, model=None, usage=None))
    from agents.tool_context import ToolContext

    text = json.dumps(arguments)
    context = ToolContext(context=None, tool_name=exported.name, tool_call_id="c1", tool_arguments=text)
    return await exported.on_invoke_tool(context, text)


def back(framework: str, exported: Any) -> Any:
    """The exported tool as one of ours again."""
    given = {
        "langchain": from_langchain,
        "pydantic_ai": from_pydantic_ai,
        "openai_agents": from_openai_agents,
    }
    return given[framework](exported, effects=PURE)


@pytest.mark.parametrize("framework", EXPORTS)
async def test_schemas_are_the_same_there_and_back(framework: str) -> None:
    (exported,) = EXPORTS[framework]([double])
    again = back(framework, exported)

    shown = {
        "langchain": lambda: exported.args_schema,
        "pydantic_ai": lambda: exported.function_schema.json_schema,
        "openai_agents": lambda: exported.params_json_schema,
    }[framework]()
    assert shown == double.schema
    assert again.schema["properties"] == double.schema["properties"]
    assert (again.name, again.description) == (double.name, double.description)
    assert str(await Executor([again]).call("double", {"n": "21"})) == "42"


@pytest.mark.parametrize("framework", EXPORTS)
async def test_a_picture_stays_a_picture_there_and_back(framework: str) -> None:
    (exported,) = EXPORTS[framework]([shot])

    given = await use(framework, exported, {})
    result = await Executor([back(framework, exported)]).call("shot", {})

    assert base64.b64encode(PNG).decode() in repr(given) or repr(PNG) in repr(given)
    assert [b.data for b in result.content if isinstance(b, Image)] == [PNG]
    assert "a picture" in str(result)


@pytest.mark.parametrize("framework", EXPORTS)
async def test_what_waits_for_a_person_is_told_and_not_done(framework: str) -> None:
    ran: list[str] = []

    @tool(effects=[Effect("send", "mail:boss")])
    def mail(text: str) -> str:
        """Send a mail."""
        ran.append(text)
        return "sent"

    class Later:
        async def decide(self, request: Any) -> Waiting:
            return Waiting("approval", "ap_1")

    (exported,) = EXPORTS[framework]([mail], approver=Later())

    given = str(await use(framework, exported, {"text": "hi"}))

    assert "the call waits for approval ap_1" in given
    assert ran == []


@pytest.mark.parametrize("framework", EXPORTS)
async def test_an_approver_is_asked_and_its_yes_runs_the_call(framework: str) -> None:
    asked: list[str] = []

    @tool(effects=[Effect("send", "mail:boss")])
    def mail(text: str) -> str:
        """Send a mail."""
        return f"sent {text}"

    class Yes:
        async def decide(self, request: Any) -> str:
            asked.append(request.tool)
            return "allow"

    (exported,) = EXPORTS[framework]([mail], approver=Yes())

    assert "sent hi" in str(await use(framework, exported, {"text": "hi"}))
    assert len(asked) == 1


@pytest.mark.parametrize("framework", EXPORTS)
async def test_cancelling_the_framework_cancels_the_tool(framework: str) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @tool(effects=PURE)
    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    (exported,) = EXPORTS[framework]([wait])
    task = asyncio.create_task(use(framework, exported, {}))
    await asyncio.wait_for(began.wait(), 10)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 10)


@pytest.mark.parametrize("framework", EXPORTS)
async def test_what_a_tool_raises_is_told_without_its_insides(framework: str) -> None:
    @tool(effects=PURE)
    def broken() -> str:
        """Break."""
        raise RuntimeError("at /home/me/secret.py")

    (exported,) = EXPORTS[framework]([broken])

    given = str(await use(framework, exported, {}))

    assert "Traceback" not in given
    assert given.startswith("Error")


async def test_pydantic_ai_streams_a_run_that_uses_our_tools() -> None:
    from pydantic_ai import Agent as TheirAgent
    from pydantic_ai.models.test import TestModel

    agent = TheirAgent(TestModel(), tools=to_pydantic_ai([double]))

    async with agent.run_stream("go") as run:
        text = await run.get_output()

    assert "double" in text


async def test_the_agents_sdk_streams_a_run_that_uses_our_tools(tmp_path: Path) -> None:
    from agents import Agent as TheirAgent
    from agents import Model, RunConfig, Runner
    from openai.types.responses import (
        Response,
        ResponseCompletedEvent,
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    text = ResponseOutputText(text="done", type="output_text", annotations=[])
    said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
    calls = [
        ResponseFunctionToolCall(call_id=id, name=name, arguments=arguments, type="function_call")
        for id, name, arguments in (("1", "double", '{"n": 4}'), ("2", "delete_file", '{"path": "a.txt"}'))
    ]

    class Streaming(Scripted, Model):
        async def stream_response(self, *_: Any, **__: Any) -> Any:
            self.seen.append(None)
            whole = Response(
                id="r", created_at=0, model="m", object="response", output=self.turns[len(self.seen) - 1],
                tool_choice="none", tools=[], parallel_tool_calls=False,
            )  # fmt: skip
            yield ResponseCompletedEvent(type="response.completed", sequence_number=0, response=whole)

    made = door(tmp_path)
    agent = TheirAgent(name="x", model=Streaming([calls, [said]]), tools=to_openai_agents(made))

    result = Runner.run_streamed(agent, "go", run_config=RunConfig(tracing_disabled=True))
    items = [e.item async for e in result.stream_events() if e.type == "run_item_stream_event"]

    outputs = [str(i.output) for i in items if i.type == "tool_call_output_item"]
    assert outputs[0] == "8" and "not allowed to run" in outputs[1]
    assert result.final_output == "done"
    assert (tmp_path / "a.txt").exists()
    assert len([e for e in made.events if e.type == "call.finished"]) == 2


async def test_langchain_streams_the_events_of_our_tools(tmp_path: Path) -> None:
    from langchain_core.runnables import RunnableLambda

    tools = {t.name: t for t in to_langchain(door(tmp_path))}
    calls = [
        {"type": "tool_call", "id": "1", "name": "double", "args": {"n": 4}},
        {"type": "tool_call", "id": "2", "name": "delete_file", "args": {"path": "a.txt"}},
    ]

    async def act(wanted: list[dict[str, Any]]) -> list[Any]:
        return [await tools[c["name"]].ainvoke(c) for c in wanted]

    seen = [e async for e in RunnableLambda(act).astream_events(calls, version="v2")]

    began = [e["name"] for e in seen if e["event"] == "on_tool_start"]
    ended = [e["data"]["output"] for e in seen if e["event"] == "on_tool_end"]
    assert began == ["double", "delete_file"]
    assert [(m.content, m.status) for m in ended[:1]] == [("8", "success")]
    assert any("not allowed to run" in str(m.content) and m.status == "error" for m in ended)


async def test_their_sync_functions_do_not_block_ours() -> None:
    import threading

    from langchain_core.tools import tool as theirs

    both = threading.Barrier(2, timeout=10)

    @theirs
    def meet(n: int) -> str:
        """Meet."""
        both.wait()
        return str(n)

    door = Executor([from_langchain(meet, effects=PURE)])

    results = await asyncio.gather(door.call("meet", {"n": 1}), door.call("meet", {"n": 2}))

    assert [str(r) for r in results] == ["1", "2"]


@pytest.mark.parametrize(
    ("module", "place", "extra"),
    [("agent_framework", "agent_framework:to_agent_framework", "interop"), ("google.adk.tools", "google_adk:to_google_adk", "adk")],
)  # fmt: skip
def test_a_framework_that_is_not_installed_is_named_with_its_extra(
    module: str, place: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pegboard.core.errors import Unavailable
    from pegboard.core.toolkit import import_object

    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(Unavailable) as caught:
        import_object(f"pegboard.interop.{place}")([double])

    assert caught.value.hint == f"pip install 'pegboard[{extra}]'"
