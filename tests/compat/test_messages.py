"""The documents' message tools: callbacks, buses, and a chat for each task."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pegboard import Executor
from pegboard.compat import moltbot, nanobot
from pegboard.compat.nanobot_net import (
    MESSAGE_BUS,
    MessageTools,
    NanoBotTools,
    ServiceCollection,
    add_nanobot_tools,
)
from tests.ledger import owes


class Bus:
    def __init__(self) -> None:
        self.sent: list[nanobot.OutboundMessage] = []

    async def publish_outbound(self, message: nanobot.OutboundMessage) -> None:
        self.sent.append(message)


@owes("N-84", "N-85", "N-86", "N-88", "N-89")
async def test_a_callback_gets_messages_for_the_chat_that_set_context_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    bus = Bus()
    tool = nanobot.MessageTool(bus.publish_outbound, workspace=tmp_path)
    tool.set_context("telegram", "42", "m7")

    assert await tool.execute(content="Hi") == "Message sent to telegram:42"
    assert (
        await tool.execute(content="File", media=["a.txt"])
        == "Message sent to telegram:42 with 1 attachments"
    )
    assert "needed approval" in await tool.execute(content="Hi", channel="telegram", chat_id="99")

    assert [(m.channel, m.chat_id, m.content, m.media, dict(m.metadata)) for m in bus.sent] == [
        ("telegram", "42", "Hi", [], {"message_id": "m7"}),
        ("telegram", "42", "File", ["a.txt"], {"message_id": "m7"}),
    ]
    await tool.aclose()


@owes("N-87")
async def test_a_turn_knows_whether_a_message_went_to_its_chat() -> None:
    bus = Bus()
    tool = nanobot.MessageTool(bus.publish_outbound, policy=["allow send:*"])
    tool.set_context("telegram", "42")

    await tool.execute(content="Hi", channel="telegram", chat_id="99")
    elsewhere = tool.origin.sent_in_turn
    await tool.execute(content="Hi")
    here = tool.origin.sent_in_turn
    tool.start_turn()

    assert (elsewhere, here, tool.origin.sent_in_turn) == (False, True, False)
    await tool.aclose()


@owes("N-86")
async def test_two_concurrent_chats_do_not_mix_on_one_tool() -> None:
    bus = Bus()
    tool = nanobot.MessageTool(bus.publish_outbound)

    async def chat(id: str) -> None:
        tool.set_context("telegram", id)
        await asyncio.sleep(0)
        await tool.execute(content=f"for {id}")

    await asyncio.gather(*(chat(str(n)) for n in range(10)))

    assert sorted((m.chat_id, m.content) for m in bus.sent) == [(str(n), f"for {n}") for n in range(10)]
    await tool.aclose()


@owes("C-34", "C-35")
@pytest.mark.parametrize("registered", [False, True])
async def test_nanobot_net_publishes_on_its_bus(registered: bool, tmp_path: Path) -> None:
    bus = Bus()
    if registered:
        services = add_nanobot_tools(ServiceCollection().add_singleton(MESSAGE_BUS, bus), tmp_path)
        tools = [
            t
            for t in services.build_service_provider().get_required_service(NanoBotTools)
            if t.name == "message"
        ]
    else:
        tools = [MessageTools.create_message_tool(bus)]
    async with Executor(tools, workspace=tmp_path, policy=["allow send:*"]) as door:
        result = await door.call("message", {"content": "Hi", "channel": "discord", "chatId": "5"})

    assert registered or str(result) == "Message sent successfully"
    assert [(m.channel_id, m.chat_id, m.content) for m in bus.sent] == [("discord", "5", "Hi")]


@owes("M-31", "M-68")
def test_moltbot_takes_message_out_where_its_settings_say_so() -> None:
    off = moltbot.MoltbotOptions(config={"tools": {"message": {"enabled": False}}})
    tool = moltbot.create_message_tool()

    assert tool is not None
    assert {"channel", "target", "accountId", "message", "media", "buffer", "replyTo", "silent"} == set(
        tool.schema["properties"]
    )
    assert moltbot.create_message_tool(off) is None
    assert "message" not in [t.name for t in moltbot.create_moltbot_tools(off)]
    assert "message" in [t.name for t in moltbot.create_moltbot_tools()]
