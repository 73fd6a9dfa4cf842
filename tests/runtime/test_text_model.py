"""Calls in a model's text, for models without tool calls (ledger X-45)."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import Agent, tool
from pegboard.core.content import Text
from pegboard.core.effects import PURE
from pegboard.core.errors import ModelError
from pegboard.core.events import TextPiece
from pegboard.core.transcript import AssistantMessage, UserMessage
from pegboard.models import ScriptedModel
from pegboard.runtime.text_model import TextCallModel
from tests.ledger import owes
from tests.runtime.transcripts import valid

XML = "<tool_call>\n  <name>add</name>\n  <params>\n    <a><![CDATA[1]]></a>\n    <b><![CDATA[2]]></b>\n  </params>\n</tool_call>"
JSON = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'


@tool(effects=PURE)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class TextOnly(ScriptedModel):
    """A model that says that it has no tool calls."""

    calls_tools = False


@owes("X-45")
@pytest.mark.parametrize(("form", "written"), [("xml", XML), ("text", JSON)])
async def test_a_model_that_only_writes_text_calls_tools_all_the_same(form: str, written: str) -> None:
    model = ScriptedModel([{"text": f"Let me add.\n{written}"}, {"text": "It is 3."}])
    agent = Agent(tools=[add], model=model, calls_in=form, instructions="be brief")

    answer = await agent.run("1 + 2?", session="s")

    assert (answer.status, answer.answer) == ("done", "It is 3.")
    first, second = model.requests
    assert first.tools.names == ()
    assert "Add two numbers." in first.instructions
    assert first.instructions.startswith("be brief")
    kinds = [type(m) for m in second.messages]
    assert kinds == [UserMessage, AssistantMessage, UserMessage]
    assert written in second.messages[1].text  # pyright: ignore
    assert "3" in second.messages[2].text  # pyright: ignore
    from pegboard.runtime.fold import fold

    valid(fold(agent.session("s")).messages)


@owes("X-45")
async def test_a_model_that_says_so_gets_xml_by_itself() -> None:
    model = TextOnly([{"text": XML}, {"text": "3"}])

    answer = await Agent(tools=[add], model=model).run("1 + 2?")

    assert answer.answer == "3"
    assert "<tool_call>" in model.requests[0].instructions


@owes("X-45")
async def test_the_text_of_a_call_is_not_shown_as_text() -> None:
    agent = Agent(
        tools=[add], model=ScriptedModel([{"text": f"Adding. {XML}"}, {"text": "3"}]), calls_in="xml"
    )

    shown = [e.text async for e in agent.stream("go") if isinstance(e, TextPiece)]

    assert "".join(shown).replace("\n", "") == "Adding. 3"


@owes("X-45")
async def test_a_call_that_was_cut_off_does_not_run_and_the_model_is_asked_again() -> None:
    model = ScriptedModel([{"text": XML[:60]}, {"text": XML}, {"text": "3"}])

    answer = await Agent(tools=[add], model=model, calls_in="xml").run("go")

    assert answer.answer == "3"
    assert "cut off" in model.requests[1].messages[-1].text  # pyright: ignore


async def test_a_call_that_cannot_be_read_is_told_to_the_model_and_not_taken_for_its_answer() -> None:
    model = TextOnly(
        [{"text": "<tool_call><add>1, 2</add></tool_call>"}, {"text": XML}, {"text": "It is 3."}]
    )

    answer = await Agent(tools=[add], model=model).run("1 + 2?")

    assert (answer.status, answer.answer) == ("done", "It is 3.")
    told = model.requests[1].messages[-1].text  # pyright: ignore
    assert "could not be read and was not run: <tool_call><add>" in told


@owes("X-45")
@pytest.mark.parametrize(
    "said",
    [
        "registry.ollama.ai/library/tiny:latest does not support tools",
        "tools are not supported by this model",
    ],
)
async def test_a_server_that_refuses_tool_calls_is_asked_in_text(said: str) -> None:
    script = [ModelError(said, status=400), {"text": XML}, {"text": "3"}, {"text": "again"}]
    model = ScriptedModel(script, name="openai:tiny@http://127.0.0.1:1/v1")
    agent = Agent(tools=[add], model=model)

    answer = await agent.run("1 + 2?", session="s")
    await agent.run("and now?", session="s")

    assert answer.answer == "3"
    assert model.requests[0].tools.names == ("add",)
    assert [r.tools.names for r in model.requests[1:]] == [(), (), ()]
    assert "<tool_call>" in model.requests[3].instructions


@owes("X-45")
async def test_any_other_failure_of_a_server_stays_one() -> None:
    model = ScriptedModel([ModelError("no such model")], name="openai:tiny@http://127.0.0.1:1/v1")

    answer = await Agent(tools=[add], model=model).run("go")

    assert (answer.status, answer.error) == ("failed", "no such model")
    assert len(model.requests) == 1


def test_only_dialects_in_text_can_be_chosen() -> None:
    with pytest.raises(ValueError, match="xml or text"):
        TextCallModel(ScriptedModel([]), "anthropic")


def test_a_message_of_text_stays_one() -> None:
    message: Any = AssistantMessage(content=(Text("x"),))
    assert message.text == "x"
