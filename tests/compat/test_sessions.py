"""Moltbot's session tools: their parameters, and the JSON that they answer with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pegboard import Agent, Executor
from pegboard.compat import moltbot
from pegboard.core.tool import Tool
from pegboard.models.scripted import ScriptedModel
from tests.compat.documents import block, typescript_schema
from tests.ledger import owes

pytestmark = pytest.mark.usefixtures("own_home")


async def said(session: str, text: str) -> None:
    agent = Agent(model=ScriptedModel([{"text": "Noted."}]))
    await agent.run(text, session=session)
    await agent.aclose()


async def answer(tool: Tool | None, folder: Path, **arguments: Any) -> Any:
    assert tool is not None
    async with Executor([tool], workspace=folder) as executor:
        result = await executor.call(tool.name, arguments)
        assert result.ok, str(result)
        try:
            return json.loads(str(result))
        except ValueError:
            return str(result)


@owes("M-12", "M-15", "M-19")
@pytest.mark.parametrize(
    ("tool", "number"),
    [
        (moltbot.create_sessions_list_tool(), "003-8"),
        (moltbot.create_sessions_send_tool(), "003-10"),
        (moltbot.create_sessions_history_tool(), "003-14"),
    ],
)
def test_the_parameters_are_the_documents(tool: Tool | None, number: str) -> None:
    assert tool is not None
    wanted = typescript_schema(block(number).text)

    assert list(tool.schema["properties"]) == list(wanted["properties"])
    assert tool.schema.get("required", []) == wanted["required"]


@owes("M-13", "M-14", "M-18", "M-42")
async def test_the_answers_have_the_documents_keys(tmp_path: Path) -> None:
    await said("telegram:user:123456", "Hello")

    listed = await answer(moltbot.create_sessions_list_tool(), tmp_path, filter="active")
    status = await answer(moltbot.create_session_status_tool(), tmp_path, sessionKey="telegram:user:123456")
    agents = await answer(moltbot.create_agents_list_tool(), tmp_path)
    history = await answer(
        moltbot.create_sessions_history_tool(), tmp_path, sessionKey="telegram:123456", limit=1
    )

    (session,) = listed["sessions"]
    assert list(session) == list(json.loads(block("003-9").text)["sessions"][0])
    assert (session["sessionKey"], session["messageCount"]) == ("telegram:user:123456", 2)
    assert list(status) == list(json.loads(block("003-13").text))
    assert (status["agentId"], status["messageCount"]) == ("main", 2)
    assert [list(agent) for agent in agents["agents"]] == [["id", "name", "model"]] * 2
    assert history == {"messages": [{"role": "assistant", "text": "Noted."}]}


@owes("M-15", "M-16")
async def test_a_message_is_sent_by_key_and_by_label(tmp_path: Path) -> None:
    await said("telegram:user:123456", "Hello")
    send = moltbot.create_sessions_send_tool()

    told = await answer(
        send, tmp_path, sessionKey="telegram:user:123456", message="Hello from another session!"
    )

    assert told == "Session telegram:user:123456 reads it when it runs next."
    assert send is not None
    async with Executor([send], workspace=tmp_path) as executor:
        preview = await executor.preview("sessions_send", {"agentId": "main", "message": "Update complete"})
        absent = await executor.call("sessions_send", {"label": "Work Chat", "message": "Update complete"})
    assert [str(e) for e in preview.effects] == ["send session:telegram:user:123456"]
    assert absent.error is not None and absent.error.code == "not_found"
