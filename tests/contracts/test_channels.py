"""The contract of every chat channel, over a loopback server that follows its platform's API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from pegboard.bus.split import split
from pegboard.core.errors import ToolError
from pegboard.ports.channel import ChatChannel, ChatMessage, Disconnected, NotDelivered
from pegboard.ports.messages import Attachment, Button, Destination, OutboundMessage
from tests.fakes.platforms import PLATFORMS, Platform, platform_of
from tests.waiting import soon

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


@dataclass
class Kept:
    """A Receiver that keeps what it is given."""

    cursor: str = ""
    messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    connects: int = 0
    fails: int = 0

    def on_connect(self) -> None:
        self.connects += 1

    async def deliver(self, message: ChatMessage, *, cursor: str = "") -> None:
        if self.fails:
            self.fails -= 1
            raise OSError("the store cannot be written")
        self.messages.append(message)
        self.cursor = cursor or self.cursor

    async def save(self, cursor: str) -> None:
        self.cursor = cursor

    async def next(self, number: int = 1) -> ChatMessage:
        """The message of this number, from 1."""
        await soon(lambda: len(self.messages) >= number, f"message {number}")
        return self.messages[number - 1]


@pytest.fixture(params=[*PLATFORMS])
async def platform(request: pytest.FixtureRequest) -> AsyncGenerator[Platform]:
    made = platform_of(request.param)
    async with made.running():
        yield made


@asynccontextmanager
async def receiving(
    platform: Platform, channel: ChatChannel, receiver: Kept
) -> AsyncGenerator[asyncio.Task[None]]:
    """The channel receives until the block ends."""
    before = receiver.connects
    task = asyncio.ensure_future(channel.receive(receiver))
    try:
        await soon(lambda: receiver.connects > before or task.done(), "connected")
        await platform.ready()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def message(platform: Platform, content: str = "Hello", **more: Any) -> OutboundMessage:
    to = Destination(channel="c", chat_id=more.pop("chat", platform.chat), thread_id=more.pop("thread", ""))
    return OutboundMessage(to=to, id="m1", content=content, **more)


async def test_what_a_person_writes_comes_in_with_sender_and_chat(platform: Platform) -> None:
    receiver = Kept()
    async with receiving(platform, platform.channel(), receiver):
        id = await platform.say("Hi, what's <up> & 你好 😀?")

        got = await receiver.next()

    assert got.content == "Hi, what's <up> & 你好 😀?"
    assert (got.chat_id, got.sender_id, got.kind) == (platform.chat, platform.sender, "user")
    assert got.message_id == id
    assert got.thread_id == "" and not got.pressed


async def test_a_message_in_a_group_says_whether_it_is_meant_for_us(platform: Platform) -> None:
    if not platform.group:
        return
    receiver = Kept()
    async with receiving(platform, platform.channel(), receiver):
        await platform.say("just talking", chat=platform.group)
        await platform.say("what now?", chat=platform.group, mention=True)
        first, second = await receiver.next(1), await receiver.next(2)

    assert (first.kind, first.mentioned) == ("group", False)
    assert (second.kind, second.mentioned) == ("group", True)
    assert second.content == "what now?"
    assert second.chat_id == platform.group


async def test_a_reply_stands_in_the_chat_under_the_message_it_answers(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver):
        id = await platform.say("Hi")
        await receiver.next()

        sent = await channel.send(message(platform, "A **bold** answer: 1 < 2 & 3", reply_to=id), "m1")

        (shown,) = await _shown(platform)
    assert shown.id == sent
    assert shown.text in ("A bold answer: 1 < 2 & 3", "A **bold** answer: 1 < 2 & 3")
    assert shown.chat == platform.chat
    assert shown.reply_to in (id, "")


async def test_an_answer_goes_into_the_thread_that_asked(platform: Platform) -> None:
    if not platform.thread:
        return
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver):
        await platform.say("Hi", chat=platform.group, thread=platform.thread, mention=True)
        got = await receiver.next()
        assert got.thread_id == platform.thread

        await channel.send(message(platform, chat=got.chat_id, thread=got.thread_id), "m1")

        (shown,) = await _shown(platform)
    assert (shown.chat, shown.thread) == (platform.group, platform.thread)


async def test_files_come_in_and_are_fetched_when_wanted(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver):
        await platform.say("see this", files=[("a b.txt", "text/plain", b"one\ntwo\n")])
        got = await receiver.next()
        (file,) = got.files

        assert await channel.download(file, 1000) == b"one\ntwo\n"
        with pytest.raises(ToolError):
            await channel.download(file, 3)

    assert got.content == ("see this" if platform.captions else "")
    assert (file.name, file.media_type) == ("a b.txt", "text/plain")


async def test_one_file_goes_out_as_one_message_with_its_text(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver):
        picture = Attachment(name="plot.png", media_type="image/png", data=PNG)

        await channel.send(message(platform, "The plot", media=(picture,)), "m1")

        (shown,) = await _shown(platform)
    assert shown.text == "The plot"
    assert shown.files == [("plot.png", PNG)]


async def test_several_files_go_out_together(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver):
        files = (
            Attachment(name="plot.png", media_type="image/png", data=PNG),
            Attachment(name="data.csv", media_type="text/csv", data=b"a,b\n"),
        )

        await channel.send(message(platform, "Both", media=files), "m1")

        await soon(lambda: sum(len(s.files) for s in platform.shown) == 2, "two files")
    assert [f for s in platform.shown for f in s.files] == [("plot.png", PNG), ("data.csv", b"a,b\n")]
    assert [s.text for s in platform.shown if s.text] == ["Both"]


async def test_a_button_that_is_pressed_comes_in_with_its_value(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    if not channel.capabilities.buttons:
        return
    async with receiving(platform, channel, receiver):
        buttons = (Button(text="Yes", value="approve:ap_0123456789abcdef:once"), Button(text="No"))
        await channel.send(message(platform, "Sure?", buttons=buttons), "m1")
        (shown,) = await _shown(platform)
        assert shown.buttons == [("Yes", "approve:ap_0123456789abcdef:once"), ("No", "No")]

        await platform.press(shown, "approve:ap_0123456789abcdef:once")
        got = await receiver.next()

    assert got.pressed == "approve:ap_0123456789abcdef:once"
    assert (got.sender_id, got.chat_id, got.message_id) == (platform.sender, platform.chat, shown.id)


async def test_a_message_grows_by_edits(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    if not channel.capabilities.edit:
        return
    async with receiving(platform, channel, receiver):
        id = await channel.send(message(platform, "One"), "m1")

        await channel.send(message(platform, "One two", action="edit", target_id=id), "m2")
        await channel.send(message(platform, "One two", action="edit", target_id=id), "m3")
        await channel.send(message(platform, "One two three", action="edit", target_id=id), "m4")

        await soon(lambda: [s.text for s in platform.shown] == ["One two three"], "the last text")


async def test_a_message_is_deleted_and_reacted_to(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver):
        if channel.capabilities.react:
            id = await channel.send(message(platform, "Nice"), "m1")
            await channel.send(message(platform, "👍", action="react", target_id=id), "m2")
            await soon(lambda: [s.reactions for s in platform.shown] == [["👍"]], "the reaction")
        if channel.capabilities.delete:
            id = await channel.send(message(platform, "Oops"), "m3")
            await channel.send(message(platform, "", action="delete", target_id=id), "m4")
            await soon(lambda: "Oops" not in [s.text for s in platform.shown], "deleted")


async def test_long_code_arrives_whole_in_parts_that_are_each_well_formed(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    can = channel.capabilities
    lines = [f"x_{n} = {{'a': '<&>', 'b': '{'é😀' * 20}'}}" for n in range(400)]
    text = "Here:\n```python\n" + "\n".join(lines) + "\n```\nDone."
    async with receiving(platform, channel, receiver):
        parts = split(text, can.max_chars, length=can.length)
        for number, part in enumerate(parts):
            await channel.send(message(platform, part), f"m1:{number}")

        await soon(lambda: len(platform.shown) == len(parts), "all parts")
    assert all(can.length(part) <= can.max_chars for part in parts) or not can.max_chars
    code = "\n".join("\n".join(s.code).strip("\n") for s in platform.shown)
    assert code.split("\n") == lines
    assert platform.shown[-1].text.endswith("Done.")


async def test_a_wait_that_the_platform_asks_for_is_told(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver):
        if not platform.limits:
            return
        platform.refuse.append((429, 7))

        with pytest.raises(NotDelivered) as caught:
            await channel.send(message(platform), "m1")

        assert caught.value.retryable and caught.value.details["retry_after_s"] == 7
        assert platform.shown == []
        await channel.send(message(platform), "m1")
        await _shown(platform)


async def test_a_connection_that_breaks_ends_receiving_and_nothing_is_lost(platform: Platform) -> None:
    receiver = Kept()
    channel = platform.channel()
    async with receiving(platform, channel, receiver) as task:
        await platform.say("one")
        await receiver.next()
        await platform.break_connection()
        if platform.connects:
            with pytest.raises((Disconnected, OSError, ToolError)):
                async with asyncio.timeout(30):
                    await task
                    raise Disconnected("it ended")
        else:
            await platform.say("two")
            await receiver.next(2)
    async with receiving(platform, channel, receiver):
        if platform.connects:
            await platform.say("two")
        got = await receiver.next(2)

    assert got.content == "two"
    assert [m.content for m in receiver.messages] == ["one", "two"]


async def test_a_message_that_could_not_be_kept_comes_again_under_its_id(platform: Platform) -> None:
    receiver = Kept(fails=1)
    channel = platform.channel()
    if not platform.acknowledges:
        return
    async with receiving(platform, channel, receiver) as task:
        await platform.say("keep me")
        await asyncio.wait([task], timeout=30)
        assert isinstance(task.exception(), OSError)
    async with receiving(platform, channel, receiver):
        if not platform.keeps:
            await platform.say("", again=True)
        got = await receiver.next()

    assert got.content == "keep me"


async def test_what_comes_twice_has_the_same_id(platform: Platform) -> None:
    receiver = Kept()
    async with receiving(platform, platform.channel(), receiver):
        await platform.say("one")
        await receiver.next()
        await platform.say("", again=True)
        again = await receiver.next(2)

    assert again.id == receiver.messages[0].id
    assert again.content == "one"


async def test_it_tells_who_we_are_there(platform: Platform) -> None:
    assert await platform.channel().identity() == platform.us


async def test_a_token_that_is_refused_ends_it_for_good_and_is_not_shown(platform: Platform) -> None:
    if not (platform.token and platform.connects):
        return
    platform.wrong_token = True
    channel = platform.channel()

    for act in (channel.identity(), channel.receive(Kept())):
        with pytest.raises(Disconnected) as caught:
            await act
        assert not caught.value.retryable
        assert platform.token not in str(caught.value)


async def _shown(platform: Platform, number: int = 1) -> list[Any]:
    await soon(lambda: len(platform.shown) >= number, f"{number} messages")
    return platform.shown
