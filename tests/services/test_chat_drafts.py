"""An answer is shown in a chat while it is written: one message that grows by edits, no faster than the channel likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.config.channels import ChatAccess
from pegboard.core.events import RunFinished, RunStarted, TextPiece
from pegboard.ports.channel import Capabilities, NotDelivered
from pegboard.ports.messages import Destination, InboundMessage, OutboundMessage
from pegboard.services.chat_drafts import ChatDrafts
from pegboard.services.outbox import StoredMessages
from pegboard.store.channels import ChannelRows
from tests.waiting import soon

KEY = "c:user:7"


@dataclass
class Chat:
    """A channel that keeps what it is given; the next `waits` refuse and ask to wait, in seconds. `held`: sending takes until it is set."""

    name: str = "c"
    capabilities: Capabilities = field(
        default_factory=lambda: Capabilities(max_chars=60, edit=True, delete=True, edit_every_s=2.0)
    )
    waits: list[float] = field(default_factory=list[float])
    gone: bool = False
    held: asyncio.Event | None = None
    got: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def check(self, message: OutboundMessage) -> None:
        pass

    async def send(self, message: OutboundMessage, key: str) -> str:
        if self.waits:
            raise NotDelivered("too many", details={"retry_after_s": self.waits.pop(0)})
        if self.gone and message.action == "edit":
            raise NotDelivered("message to edit not found", retryable=False)
        self.got.append((message.action, message.target_id, message.content))
        if self.held is not None:
            await self.held.wait()
        return message.target_id or f"n{len(self.got)}"


@dataclass
class Steps:
    """Each pause ends when the test says so; its length is kept."""

    asked: list[float] = field(default_factory=list[float])
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def pause(self, event: asyncio.Event, seconds: float) -> None:
        self.asked.append(seconds)
        waits = [asyncio.ensure_future(self.go.wait()), asyncio.ensure_future(event.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()
        self.go.clear()


@pytest.fixture
def app(tmp_path: Path, own_home: Path) -> Any:
    (tmp_path / "w").mkdir()
    with App.open(workspace=tmp_path / "w") as opened:
        yield opened


@asynccontextmanager
async def drafts(
    app: App, chat: Chat, steps: Steps, access: ChatAccess | None = None
) -> AsyncGenerator[ChatDrafts]:
    await app.store.connect()
    made = ChatDrafts(
        app.history, {"c": (chat, access or ChatAccess())}, lambda text: (text.replace("s3cret", "…"), True),
        pause=steps.pause,
    )  # fmt: skip
    made.on_event(KEY, RunStarted(run="r1", session=KEY, agent="main", model="m", task="t"))
    yield made
    await made.close()


async def test_the_text_grows_in_one_message_and_only_after_each_pause(app: App) -> None:
    chat, steps = Chat(), Steps()
    async with drafts(app, chat, steps) as it:
        it.on_event(KEY, TextPiece("The pass is s3cret and th"))
        await soon(lambda: len(chat.got) == 1, "the first text")
        it.on_event(KEY, TextPiece("en some "))
        it.on_event(KEY, TextPiece("more "))
        await soon(lambda: len(steps.asked) == 1, "a pause")
        assert len(chat.got) == 1
        steps.go.set()
        await soon(lambda: len(chat.got) == 2, "the second text")

    assert chat.got == [
        ("send", "", "The pass is … and …"),
        ("edit", "n1", "The pass is … and then some more …"),
    ]
    assert steps.asked[0] == 2.0


async def test_a_platform_that_asks_to_wait_is_waited_for(app: App) -> None:
    chat, steps = Chat(waits=[30.0]), Steps()
    async with drafts(app, chat, steps) as it:
        it.on_event(KEY, TextPiece("one two "))
        await soon(lambda: len(steps.asked) == 1, "a pause")
        it.on_event(KEY, TextPiece("three "))
        steps.go.set()
        await soon(lambda: len(chat.got) == 1, "the text")

    assert steps.asked[0] == 30.0
    assert chat.got == [("send", "", "one two three …")]


async def test_a_draft_is_no_longer_than_a_message(app: App) -> None:
    chat, steps = Chat(), Steps()
    async with drafts(app, chat, steps) as it:
        it.on_event(KEY, TextPiece("word " * 100))
        await soon(lambda: len(chat.got) == 1, "the text")

    assert len(chat.got[0][2]) <= 60 and chat.got[0][2].endswith("word …")


@pytest.mark.parametrize("access", [ChatAccess(stream=False)])
async def test_where_the_settings_say_so_nothing_is_shown_before_the_answer(
    app: App, access: ChatAccess
) -> None:
    chat, steps = Chat(), Steps()
    async with drafts(app, chat, steps, access) as it:
        it.on_event(KEY, TextPiece("one two "))
        assert await it.end(KEY) == ""

    assert chat.got == []


@pytest.mark.parametrize("gone", [False, True])
async def test_the_answer_takes_the_place_of_the_draft_or_stands_alone_where_it_is_gone(
    app: App, gone: bool
) -> None:
    chat, steps = Chat(), Steps()
    async with drafts(app, chat, steps) as it:
        it.on_event(KEY, TextPiece("one two "))
        await soon(lambda: len(chat.got) == 1, "the draft")
        it.on_event(KEY, RunFinished(run="r1", status="done", answer="one two three"))
        it.on_pause(KEY)
        draft = await it.end(KEY)
        chat.gone = gone

        async def store() -> Any:
            return app.store

        messages = StoredMessages(store, channels={"c": chat}, redact=lambda text: (text, False))
        inbound = InboundMessage(
            session=KEY, content="t", id="m1", reply=Destination(channel="c", chat_id="7")
        )
        answer = "one two three " + "x" * 60
        await messages.reply(inbound, RunFinished(run="r1", status="done", answer=answer), draft=draft)
        for _ in range(3):
            await messages.deliver_due()
        await messages.aclose()

    first = ("send", "", "one two three") if gone else ("edit", "n1", "one two three")
    assert chat.got[1:] == [first, ("send", "", "x" * 60)]
    assert await ChannelRows(app.store).draft(KEY) is None


async def test_a_run_that_waits_leaves_its_text_and_answers_below_it(app: App) -> None:
    chat, steps = Chat(), Steps()
    async with drafts(app, chat, steps) as it:
        it.on_event(KEY, TextPiece("I will delete it."))
        it.on_event(KEY, RunFinished(run="r1", status="suspended", answer=""))
        it.on_pause(KEY)
        await soon(lambda: chat.got == [("send", "", "I will delete it.")], "the whole text")

        assert await it.end(KEY) == ""


async def test_a_run_that_ends_while_its_draft_is_sent_replaces_it(app: App) -> None:
    chat, steps = Chat(held=asyncio.Event()), Steps()
    async with drafts(app, chat, steps) as it:
        it.on_event(KEY, TextPiece("one two "))
        await soon(lambda: len(chat.got) == 1, "the draft is on its way")
        it.on_event(KEY, RunFinished(run="r1", status="done", answer="one two three"))
        it.on_pause(KEY)
        ending = asyncio.ensure_future(it.end(KEY))
        assert chat.held is not None
        chat.held.set()

        assert await ending == "n1"


async def test_a_run_that_waits_for_somebody_while_its_draft_is_sent_shows_its_whole_text(app: App) -> None:
    chat, steps = Chat(held=asyncio.Event()), Steps()
    async with drafts(app, chat, steps) as it:
        it.on_event(KEY, TextPiece("I will delete "))
        await soon(lambda: len(chat.got) == 1, "the draft is on its way")
        it.on_event(KEY, TextPiece("it."))
        it.on_event(KEY, RunFinished(run="r1", status="suspended", answer=""))
        it.on_pause(KEY)
        assert chat.held is not None
        chat.held.set()

        await soon(lambda: chat.got[1:] == [("edit", "n1", "I will delete it.")], "the whole text")
        assert await it.end(KEY) == ""
