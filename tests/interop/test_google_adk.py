"""Google ADK: its agents use our tools, and ours use its tools. Runs where google-adk is installed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types

from pegboard import PURE, Agent, Executor, ToolResult, builtin, tool
from pegboard.core.content import Image, Text
from pegboard.interop.google_adk import from_google_adk, to_google_adk
from pegboard.models import ScriptedModel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
    ),
]

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
CONFIRM = "adk_request_confirmation"


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


class Scripted(BaseLlm):
    """A model that makes the given calls, one turn each, and then says done."""

    turns: list[tuple[str, dict[str, Any]]]
    seen: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.seen.append(llm_request)
        if len(self.seen) <= len(self.turns):
            name, args = self.turns[len(self.seen) - 1]
            part = types.Part(function_call=types.FunctionCall(id=f"m{len(self.seen)}", name=name, args=args))
        else:
            part = types.Part(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class Run:
    """A conversation with an agent of ADK."""

    def __init__(self, tools: list[Any], *turns: tuple[str, dict[str, Any]]) -> None:
        self.model = Scripted(model="scripted", turns=list(turns), seen=[])
        self.runner = InMemoryRunner(agent=LlmAgent(name="x", model=self.model, tools=tools), app_name="app")
        self.session = ""

    async def send(self, *parts: types.Part) -> list[Any]:
        if not self.session:
            made = await self.runner.session_service.create_session(app_name="app", user_id="u")
            self.session = made.id
        message = types.Content(role="user", parts=list(parts) or [types.Part(text="go")])
        return [
            e async for e in self.runner.run_async(user_id="u", session_id=self.session, new_message=message)
        ]

    async def answer(self, events: list[Any], confirmed: bool) -> list[Any]:
        (asked,) = questions(events)
        reply = types.FunctionResponse(id=asked.id, name=CONFIRM, response={"confirmed": confirmed})
        return await self.send(types.Part(function_response=reply))


def responses(events: list[Any]) -> list[Any]:
    return [r for e in events for r in e.get_function_responses() if r.name != CONFIRM]


def questions(events: list[Any]) -> list[Any]:
    return [c for e in events for c in e.get_function_calls() if c.name == CONFIRM]


def door(folder: Path, **options: Any) -> Executor:
    (folder / "a.txt").write_text("hello")
    kit = [double, shot, *builtin("read_file", "delete_file", "write_file")]
    return Executor(kit, workspace=folder, policy=["ask delete:*"], **options)


async def test_an_agent_uses_our_tools_through_validation_and_record(tmp_path: Path) -> None:
    made = door(tmp_path)
    run = Run(
        to_google_adk(made), ("double", {"n": "4"}), ("double", {"n": "x"}), ("read_file", {"path": "a.txt"})
    )

    events = await run.send()

    good, wrong, text = (r.response for r in responses(events))
    assert good == {"result": "8"}
    assert set(wrong) == {"error"} and ".n" in wrong["error"]
    assert "hello" in text["result"]
    assert events[-1].content.parts[0].text == "done"
    assert len([e for e in made.events if e.type == "call.finished"]) == 3


async def test_the_model_is_told_our_schema(tmp_path: Path) -> None:
    run = Run(to_google_adk([double]), ("double", {"n": 1}))

    await run.send()

    (declared,) = run.model.seen[0].config.tools[0].function_declarations
    assert declared.parameters_json_schema == double.schema
    assert declared.description == double.description


async def test_what_asks_becomes_a_confirmation_with_its_effects(tmp_path: Path) -> None:
    made = door(tmp_path)
    run = Run(to_google_adk(made), ("delete_file", {"path": "a.txt"}))

    events = await run.send()

    (asked,) = questions(events)
    shown = asked.args["toolConfirmation"]["payload"]
    assert shown["tool"] == "delete_file"
    assert [(e["kind"], e["target"]) for e in shown["effects"]] == [("delete", "a.txt")]
    assert "-hello" in shown["changes"][0]["diff"]
    assert (tmp_path / "a.txt").exists()

    after = await run.answer(events, True)

    assert not (tmp_path / "a.txt").exists()
    assert "result" in responses(after)[0].response and after[-1].content.parts[0].text == "done"
    decided = [e for e in made.events if e.type == "call.started"]
    assert len(decided) == 1


async def test_a_no_leaves_all_as_it_was_and_is_told(tmp_path: Path) -> None:
    run = Run(to_google_adk(door(tmp_path)), ("delete_file", {"path": "a.txt"}))

    after = await run.answer(await run.send(), False)

    assert (tmp_path / "a.txt").exists()
    assert "refused by the user" in responses(after)[0].response["error"]


async def test_a_yes_holds_for_what_was_shown_alone(tmp_path: Path) -> None:
    delete = ("delete_file", {"path": "a.txt"})
    run = Run(to_google_adk(door(tmp_path)), delete, delete)
    events = await run.send()
    (tmp_path / "a.txt").write_text("something else")

    after = await run.answer(events, True)

    assert (tmp_path / "a.txt").read_text() == "something else"
    assert "has changed since the user approved it; call it again" in responses(after)[0].response["error"]
    (again,) = questions(after)
    assert "-something else" in again.args["toolConfirmation"]["payload"]["changes"][0]["diff"]
    await run.answer(after, True)
    assert not (tmp_path / "a.txt").exists()


async def test_a_yes_to_one_call_is_none_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("more")
    run = Run(
        to_google_adk(door(tmp_path)), ("delete_file", {"path": "a.txt"}), ("delete_file", {"path": "b.txt"})
    )

    after = await run.answer(await run.send(), True)

    assert not (tmp_path / "a.txt").exists() and (tmp_path / "b.txt").exists()
    assert len(questions(after)) == 1


async def test_an_approver_of_the_executor_is_asked_in_its_place(tmp_path: Path) -> None:
    asked: list[str] = []

    def yes(request: Any) -> str:
        asked.append(request.tool)
        return "allow"

    run = Run(to_google_adk(door(tmp_path, approver=yes)), ("delete_file", {"path": "a.txt"}))
    events = await run.send()

    assert asked == ["delete_file"] and questions(events) == [] and not (tmp_path / "a.txt").exists()


async def test_what_is_denied_asks_nobody(tmp_path: Path) -> None:
    run = Run(
        to_google_adk(door(tmp_path, mode="read-only")), ("write_file", {"path": "b.txt", "content": "x"})
    )

    events = await run.send()

    assert questions(events) == [] and "may not write b.txt" in responses(events)[0].response["error"]
    assert not (tmp_path / "b.txt").exists()


async def test_a_call_that_is_made_elsewhere_is_not_approved_by_it(tmp_path: Path) -> None:
    made = door(tmp_path)
    to_google_adk(made)

    result = await made.call("delete_file", {"path": "a.txt"})

    assert not result.ok and "no one is here to approve it" in str(result) and (tmp_path / "a.txt").exists()


async def test_a_picture_stays_a_picture_there_and_back() -> None:
    (exported,) = to_google_adk([shot])
    run = Run([exported], ("shot", {}))

    (response,) = responses(await run.send())
    result = await Executor([from_google_adk(exported, effects=PURE, context=Context())]).call("shot", {})

    assert response.response["result"].startswith("a picture")
    assert [p.inline_data.data for p in response.parts] == [PNG]
    assert [b.data for b in result.content if isinstance(b, Image)] == [PNG] and "a picture" in str(result)


class Context:
    """What our exported tools read of ADK's context."""

    tool_confirmation = None
    function_call_id = "c1"


async def test_what_a_tool_raises_is_told_without_its_insides() -> None:
    @tool(effects=PURE)
    def broken() -> str:
        """Break."""
        raise RuntimeError("at /home/me/secret.py")

    (response,) = responses(await Run(to_google_adk([broken]), ("broken", {})).send())

    assert "Traceback" not in response.response["error"] and response.response["error"].startswith("Error")


async def test_cancelling_the_agent_cancels_the_tool() -> None:
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

    task = asyncio.create_task(Run(to_google_adk([wait]), ("wait", {})).send())
    await asyncio.wait_for(began.wait(), 10)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 10)


async def test_its_tools_are_ours_and_ask_before_they_run() -> None:
    def multiply(a: int, b: int = 3) -> int:
        """Multiply.

        Args:
            a: One number.
            b: The other.
        """
        return a * b

    theirs = from_google_adk(FunctionTool(multiply))
    refused = await Executor([theirs]).call("multiply", {"a": 2})
    model = ScriptedModel([{"calls": [{"name": "multiply", "arguments": {"a": "2"}}]}, {"text": "done"}])
    answer = await Agent(tools=[theirs], model=model, policy=["allow call:*"]).run("go")

    result = next(e.result for e in answer.events if e.type == "call.finished")
    assert not refused.ok and str(result) == "6"
    assert theirs.schema["properties"]["a"]["type"].lower() == "integer"


async def test_an_error_of_its_tool_is_one_of_ours() -> None:
    def fail() -> dict[str, str]:
        """Fail."""
        return {"error": "the city is unknown"}

    result = await Executor([from_google_adk(FunctionTool(fail), effects=PURE)]).call("fail", {})

    assert not result.ok and "the city is unknown" in str(result)
