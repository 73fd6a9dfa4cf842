"""Microsoft Agent Framework: its agents use our tools, and ours use its tools."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent as TheirAgent
from agent_framework import (
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    Message,
    MiddlewareTermination,
    ResponseStream,
)
from agent_framework import tool as theirs

from pegboard import PURE, Agent, Executor, ToolResult, builtin, tool
from pegboard.core.content import Image, Text
from pegboard.interop.agent_framework import (
    approval_middleware,
    from_agent_framework,
    to_agent_framework,
)
from pegboard.models import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


@tool(effects=PURE)
def double(n: int) -> int:
    """Twice a number.

    Args:
        n: The number.
    """
    return n * 2


@tool(effects=PURE)
def shot() -> ToolResult:
    """A picture."""
    return ToolResult(content=(Text("a picture"), Image(data=PNG, mime_type="image/png")))


class Scripted(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]
    """A model that makes the given calls, one turn each, and then says done."""

    def __init__(self, turns: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__()
        self.turns = turns
        self.seen: list[Any] = []

    def _contents(self, options: Any) -> list[Content]:
        self.seen.append(options)
        if len(self.seen) > len(self.turns):
            return [Content.from_text("done")]
        name, arguments = self.turns[len(self.seen) - 1]
        id = f"m{len(self.seen)}"
        return [Content.from_function_call(call_id=id, name=name, arguments=json.dumps(arguments))]

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def whole() -> ChatResponse:
            return ChatResponse(messages=[Message(role="assistant", contents=self._contents(options))])

        async def pieces() -> AsyncIterable[ChatResponseUpdate]:
            yield ChatResponseUpdate(role="assistant", contents=self._contents(options))

        return ResponseStream(pieces(), finalizer=ChatResponse.from_updates) if stream else whole()


class Run:
    """A conversation with an agent of the framework."""

    def __init__(self, tools: list[Any], *turns: tuple[str, dict[str, Any]], asks: bool = True) -> None:
        self.model = Scripted(list(turns))
        middleware = [approval_middleware()] if asks else []
        self.agent = TheirAgent(client=self.model, tools=tools, middleware=middleware)
        self.session = self.agent.create_session()

    async def send(self, message: Any = "go") -> Any:
        return await self.agent.run(message, session=self.session)

    async def answer(self, response: Any, approved: bool) -> Any:
        (asked,) = response.user_input_requests
        return await self.send(Message(role="user", contents=[asked.to_function_approval_response(approved)]))


def results(response: Any) -> list[str]:
    return [str(c.result) for m in response.messages for c in m.contents if c.type == "function_result"]


def door(folder: Path, **options: Any) -> Executor:
    (folder / "a.txt").write_text("hello")
    kit = [double, shot, *builtin("read_file", "delete_file", "write_file")]
    return Executor(kit, workspace=folder, policy=["ask delete:*"], **options)


@pytest.mark.parametrize("asks", [True, False])
async def test_an_agent_uses_our_tools_through_validation_and_record(tmp_path: Path, asks: bool) -> None:
    made = door(tmp_path)
    calls = [("double", {"n": 4}), ("read_file", {"path": "b.txt"}), ("read_file", {"path": "a.txt"})]
    run = Run(to_agent_framework(made), *calls, asks=asks)

    response = await run.send()

    good, missing, text = results(response)
    assert good == "8" and "hello" in text
    assert missing.startswith("Error") and "b.txt" in missing
    assert response.text == "done"
    assert len([e for e in made.events if e.type == "call.finished"]) == 3


async def test_the_model_is_told_our_schema() -> None:
    (exported,) = to_agent_framework([double])

    spec = exported.to_json_schema_spec()["function"]

    assert spec == {"name": "double", "description": double.description, "parameters": double.schema}


async def test_what_asks_becomes_an_approval_request_with_its_effects(tmp_path: Path) -> None:
    made = door(tmp_path)
    run = Run(to_agent_framework(made), ("delete_file", {"path": "a.txt"}))

    response = await run.send()

    (asked,) = response.user_input_requests
    shown = asked.additional_properties
    assert asked.function_call.name == "delete_file" and shown["tool"] == "delete_file"
    assert [(e["kind"], e["target"]) for e in shown["effects"]] == [("delete", "a.txt")]
    assert "-hello" in shown["changes"][0]["diff"]
    assert (tmp_path / "a.txt").exists()

    after = await run.answer(response, True)

    assert not (tmp_path / "a.txt").exists() and after.text.endswith("done")
    assert len([e for e in made.events if e.type == "call.started"]) == 1


async def test_a_no_leaves_all_as_it_was_and_is_told(tmp_path: Path) -> None:
    run = Run(to_agent_framework(door(tmp_path)), ("delete_file", {"path": "a.txt"}))

    after = await run.answer(await run.send(), False)

    assert (tmp_path / "a.txt").exists() and after.text.endswith("done")


async def test_a_yes_holds_for_what_was_shown_alone(tmp_path: Path) -> None:
    run = Run(to_agent_framework(door(tmp_path)), ("delete_file", {"path": "a.txt"}))
    response = await run.send()
    (tmp_path / "a.txt").write_text("something else")

    after = await run.answer(response, True)

    assert (tmp_path / "a.txt").read_text() == "something else"
    (again,) = after.user_input_requests
    assert "-something else" in again.additional_properties["changes"][0]["diff"]
    await run.answer(after, True)
    assert not (tmp_path / "a.txt").exists()


async def test_a_yes_to_one_call_is_none_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("more")
    calls = [("delete_file", {"path": "a.txt"}), ("delete_file", {"path": "b.txt"})]
    run = Run(to_agent_framework(door(tmp_path)), *calls)

    after = await run.answer(await run.send(), True)

    assert not (tmp_path / "a.txt").exists() and (tmp_path / "b.txt").exists()
    assert len(after.user_input_requests) == 1


async def test_a_call_that_is_made_again_is_not_taken_for_a_yes(tmp_path: Path) -> None:
    calls = [("delete_file", {"path": "a.txt"}), ("delete_file", {"path": "a.txt"})]
    run = Run(to_agent_framework(door(tmp_path)), *calls)

    after = await run.answer(await run.send(), False)

    assert (tmp_path / "a.txt").exists() and len(after.user_input_requests) == 1


async def test_only_the_answer_of_the_framework_is_a_yes(tmp_path: Path) -> None:
    """Also if a model gives two calls one id."""
    tools = {t.name: t for t in to_agent_framework(door(tmp_path))}
    middleware = approval_middleware()

    for answer in (None, Content.from_text("yes")):
        context = FunctionInvocationContext(function=tools["delete_file"], arguments={"path": "a.txt"})
        context.metadata |= {"call_id": "c1", "approval_response": answer}
        with pytest.raises(MiddlewareTermination):
            await middleware.process(context, None)

    assert (tmp_path / "a.txt").exists()


async def test_without_the_middleware_what_asks_is_refused(tmp_path: Path) -> None:
    run = Run(to_agent_framework(door(tmp_path)), ("delete_file", {"path": "a.txt"}), asks=False)

    response = await run.send()

    assert not response.user_input_requests and "no one is here to approve it" in results(response)[0]
    assert (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("asks", [True, False])
async def test_an_approver_of_the_executor_is_asked_in_its_place(tmp_path: Path, asks: bool) -> None:
    asked: list[str] = []

    def yes(request: Any) -> str:
        asked.append(request.tool)
        return "allow"

    run = Run(to_agent_framework(door(tmp_path, approver=yes)), ("delete_file", {"path": "a.txt"}), asks=asks)
    response = await run.send()

    assert asked == ["delete_file"] and not response.user_input_requests
    assert not (tmp_path / "a.txt").exists()


async def test_what_is_denied_asks_nobody(tmp_path: Path) -> None:
    made = door(tmp_path, mode="read-only")
    run = Run(to_agent_framework(made), ("write_file", {"path": "b.txt", "content": "x"}))

    response = await run.send()

    assert not response.user_input_requests and "may not write b.txt" in results(response)[0]
    assert not (tmp_path / "b.txt").exists()


async def test_its_own_tools_pass_the_middleware(tmp_path: Path) -> None:
    @theirs
    def greet(name: str) -> str:
        """Greet."""
        return f"Hello, {name}."

    response = await Run([*to_agent_framework([double]), greet], ("greet", {"name": "Ann"})).send()

    assert results(response) == ["Hello, Ann."]


async def test_a_run_is_streamed(tmp_path: Path) -> None:
    run = Run(to_agent_framework(door(tmp_path)), ("double", {"n": 4}), ("delete_file", {"path": "a.txt"}))

    updates = [u async for u in run.agent.run("go", stream=True, session=run.session)]

    contents = [c for u in updates for c in u.contents]
    assert [str(c.result) for c in contents if c.type == "function_result"] == ["8"]
    assert [c.type for c in contents if c.user_input_request] == ["function_approval_request"]
    assert (tmp_path / "a.txt").exists()


async def test_a_picture_stays_a_picture_there_and_back() -> None:
    (exported,) = to_agent_framework([shot])

    response = await Run([exported], ("shot", {})).send()
    result = await Executor([from_agent_framework(exported, effects=PURE)]).call("shot", {})

    (given,) = [c for m in response.messages for c in m.contents if c.type == "function_result"]
    assert [i.type for i in given.items] == ["text", "data"] and given.items[1].media_type == "image/png"
    assert [b.data for b in result.content if isinstance(b, Image)] == [PNG] and "a picture" in str(result)


async def test_what_a_tool_raises_is_told_without_its_insides() -> None:
    @tool(effects=PURE)
    def broken() -> str:
        """Break."""
        raise RuntimeError("at /home/me/secret.py")

    (given,) = results(await Run(to_agent_framework([broken]), ("broken", {})).send())

    assert "Traceback" not in given and given.startswith("Error")


@pytest.mark.parametrize("asks", [True, False])
async def test_cancelling_the_agent_cancels_the_tool(asks: bool) -> None:
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

    task = asyncio.create_task(Run(to_agent_framework([wait]), ("wait", {}), asks=asks).send())
    await asyncio.wait_for(began.wait(), 10)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 10)


async def test_its_tools_are_ours_and_ask_before_they_run() -> None:
    @theirs
    def multiply(a: int, b: int = 3) -> int:
        """Multiply."""
        return a * b

    made = from_agent_framework(multiply)
    refused = await Executor([made]).call("multiply", {"a": 2})
    model = ScriptedModel([{"calls": [{"name": "multiply", "arguments": {"a": "2"}}]}, {"text": "done"}])
    answer = await Agent(tools=[made], model=model, policy=["allow call:*"]).run("go")

    result = next(e.result for e in answer.events if e.type == "call.finished")
    assert not refused.ok and str(result) == "6"
    assert made.description == "Multiply." and made.schema["properties"]["a"]["type"] == "integer"
