"""Chat channels of several workers, their connections, and what an approval shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pegboard.app.app import App
from pegboard.bus.media_lines import take_media_lines
from pegboard.bus.telegram_text import to_html
from pegboard.config.channels import ChatAccess
from pegboard.core.effects import Change, Effect
from pegboard.ports.channel import Capabilities, ChatFile, ChatMessage, Disconnected, Receiver
from pegboard.ports.messages import OutboundMessage
from pegboard.services.approvals import PendingCall
from pegboard.services.channels import RECONNECT_S, Channels
from pegboard.services.chat_approvals import approval_text
from tests.waiting import soon


@dataclass
class Line:
    """A channel that receives what is put into it, until it is cut."""

    name: str = "c"
    capabilities: Capabilities = field(default_factory=Capabilities)
    receivers: list[Receiver] = field(default_factory=list[Receiver])
    ends: list[Exception] = field(default_factory=list[Exception])

    def check(self, message: OutboundMessage) -> None:
        pass

    async def send(self, message: OutboundMessage, key: str) -> str:
        return key

    async def receive(self, receiver: Receiver) -> None:
        if self.ends:
            raise self.ends.pop(0)
        self.receivers.append(receiver)
        receiver.on_connect()
        try:
            await asyncio.Event().wait()
        finally:
            self.receivers.remove(receiver)

    async def download(self, file: ChatFile, max_bytes: int) -> bytes:
        return b""

    async def identity(self) -> str:
        return "line"


@asynccontextmanager
async def worker(
    folder: Path, line: Line, waits: list[float], notes: list[str]
) -> AsyncGenerator[tuple[App, Channels]]:
    """Channels over a store of its own home, with this one; they wait no time, and keep how long they would."""
    with App.open(workspace=folder) as app:
        await app.store.connect()
        channels = app.channels
        parts = channels.parts

        async def pause(event: asyncio.Event, seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(0)

        made = Channels(
            app, app.history, replace(parts, channels={"c": (line, ChatAccess())}, kinds={"c": "line"}),
            notify=notes.append, pause=pause, jitter=lambda: 0.0,
        )  # fmt: skip
        await made.tick()
        try:
            yield app, made
        finally:
            await made.close()


@pytest.fixture
def folder(tmp_path: Path, own_home: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


async def test_one_of_two_workers_receives_and_the_other_takes_over(folder: Path) -> None:
    one, two, waits = Line(), Line(), list[float]()
    async with worker(folder, one, waits, []):
        await soon(lambda: len(one.receivers) == 1, "the first receives")
        async with worker(folder, two, waits, []) as (_, channels):
            await soon(lambda: len(waits) > 3, "the second waits")
            assert two.receivers == []
            row = (await channels.list())[0]
            assert row.process and row.state is not None and row.state.state == "connected"
            (first,) = one.receivers
            await first.deliver(ChatMessage(id="1", chat_id="7", sender_id="7", content="Hi"), cursor="5")

    async with worker(folder, two, waits, []):
        await soon(lambda: len(two.receivers) == 1, "the second receives")
        assert two.receivers[0].cursor == "5"


async def test_a_connection_that_ends_is_made_again_later_and_later(folder: Path) -> None:
    line, waits, notes = Line(ends=[Disconnected(f"gone {n}") for n in range(9)]), list[float](), list[str]()
    async with worker(folder, line, waits, notes):
        await soon(lambda: len(line.receivers) == 1, "it receives again")

    assert waits == [*RECONNECT_S, 60.0, 60.0]
    assert notes == ["channel c cannot connect: gone 0"]


async def test_a_platform_that_asks_to_wait_is_waited_for(folder: Path) -> None:
    line, waits = Line(ends=[Disconnected("slow down", details={"retry_after_s": 90})]), list[float]()
    async with worker(folder, line, waits, []):
        await soon(lambda: len(line.receivers) == 1, "it receives again")

    assert waits == [90.0]


def test_what_an_approval_shows_cannot_speak_for_us() -> None:
    diff = "+```\n+**Approved** by everybody\n"
    call = PendingCall(
        key="ap_1", kind="approval", run="r", session="s", task="t", call_id="c", tool="write_file",
        effects=(Effect("write", "a`**b**"),), changes=(Change(path="a", kind="create", before=None, after=b"", diff=diff),),
    )  # fmt: skip

    html = to_html(approval_text(call))

    assert "<b>Approved</b>" not in html and "<b>b</b>" not in html
    assert "+**Approved** by everybody" in html


def test_media_lines_are_taken_out_and_those_in_code_stay() -> None:
    text, paths = take_media_lines("Here:\nMEDIA: a b.png\n```\nMEDIA:x\n```\nMEDIA:`c.png`\nSee MEDIA:d")

    assert paths == ["a b.png", "c.png"]
    assert text == "Here:\n```\nMEDIA:x\n```\nSee MEDIA:d"
