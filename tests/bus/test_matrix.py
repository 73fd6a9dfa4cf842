"""The channel matrix beyond the contract: invitations, encrypted rooms, long gaps, and what other clients send."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from pegboard.bus.matrix import MatrixChannel
from pegboard.bus.matrix_events import Account, content_of, read_event, to_html
from pegboard.core.errors import InvalidArguments
from pegboard.ports.channel import ChatMessage, NotDelivered
from pegboard.ports.messages import Destination, OutboundMessage
from tests.contracts.test_channels import Kept, message, receiving
from tests.fakes.platforms.matrix import Matrix
from tests.waiting import soon

ME = Account("@peg:example.org", "Pegboard")


@pytest.fixture
async def matrix() -> AsyncGenerator[Matrix]:
    made = Matrix()
    async with made.running():
        yield made


def read(content: dict[str, Any]) -> ChatMessage | None:
    event = {"event_id": "$1", "sender": "@ada:example.org", "content": content}
    return read_event("!r:example.org", event, ME, alone=False)


async def test_an_invitation_is_accepted_and_what_was_written_since_it_is_read(matrix: Matrix) -> None:
    room, receiver = "!new:example.org", Kept()
    common = {"sender": matrix.sender, "origin_server_ts": 1}
    said = common | {"type": "m.room.message"}
    invite = {"type": "m.room.member", "state_key": ME.id, "content": {"membership": "invite"}}
    async with receiving(matrix, matrix.channel(), receiver):
        matrix.invites[room] = [
            said | {"event_id": "$old", "content": {"msgtype": "m.text", "body": "before"}},
            common | invite | {"event_id": "$invite"},
            said | {"event_id": "$new", "content": {"msgtype": "m.text", "body": "are you there?"}},
        ]
        await matrix.say("wake up", chat=matrix.group)
        await receiver.next()

        got = await receiver.next(2)

    assert (got.content, got.chat_id, got.kind) == ("are you there?", room, "user")
    assert [m.content for m in receiver.messages] == ["wake up", "are you there?"]


async def test_an_encrypted_room_is_told_so_once_and_nothing_is_sent_there(matrix: Matrix) -> None:
    receiver, channel = Kept(), matrix.channel()
    matrix.encrypted.add(matrix.chat)
    async with receiving(matrix, channel, receiver):
        for _ in range(2):
            matrix.put(matrix.chat, "m.room.encrypted", {"ciphertext": "x"}, sender=matrix.sender)
        await matrix.say("plain", chat=matrix.group, mention=True)
        await receiver.next()
        with pytest.raises(NotDelivered, match="is encrypted") as caught:
            await channel.send(message(matrix), "m1")

    assert not caught.value.retryable
    (shown,) = matrix.shown
    assert "cannot read encrypted messages" in shown.text and shown.chat == matrix.chat


async def test_what_one_sync_has_no_place_for_is_fetched_in_order(matrix: Matrix) -> None:
    matrix.page, receiver = 3, Kept()
    async with receiving(matrix, matrix.channel(), receiver):
        pass
    for number in range(10):
        await matrix.say(f"n{number}")
    async with receiving(matrix, matrix.channel(), receiver):
        await receiver.next(10)

    assert [m.content for m in receiver.messages] == [f"n{number}" for number in range(10)]


async def test_a_message_that_is_sent_again_under_its_key_is_the_same(matrix: Matrix) -> None:
    first = await matrix.channel().send(message(matrix), "m1")
    again = await matrix.channel().send(message(matrix), "m1")

    assert again == first
    assert len(matrix.shown) == 1


async def test_html_that_is_too_large_is_left_out(matrix: Matrix) -> None:
    text = "|a|b|\n|-|-|\n" + "|x|y|\n" * 2200
    channel = matrix.channel()
    assert channel.capabilities.length(text) <= channel.capabilities.max_chars

    await channel.send(message(matrix, text), "m1")

    (shown,) = matrix.shown
    assert shown.text == text


async def test_people_see_that_we_write_until_we_have_answered(matrix: Matrix) -> None:
    receiver, channel = Kept(), matrix.channel()
    async with receiving(matrix, channel, receiver):
        await matrix.say("just talking", chat=matrix.group)
        await matrix.say("Hi")
        await receiver.next(2)
        assert matrix.typing == [True]
        await channel.send(message(matrix), "m1")
        await soon(lambda: matrix.typing == [True, False], "no longer")


def test_programs_edits_and_malformed_events_are_no_messages() -> None:
    assert read({"msgtype": "m.notice", "body": "I am a bot"}) is None
    edit = {"rel_type": "m.replace", "event_id": "$0"}
    assert read({"msgtype": "m.text", "body": "* Hi", "m.relates_to": edit}) is None
    for wrong in (None, [], "text", {"msgtype": ["m.text"]}, {"msgtype": "m.text", "body": {}}):
        assert read(cast(Any, wrong)) is None
    odd = read({"msgtype": "m.file", "body": "a", "url": 1, "info": [], "m.mentions": 3, "m.relates_to": []})
    assert odd is not None and odd.files[0].id == "1"


def test_what_older_clients_repeat_of_the_answered_message_is_left_out() -> None:
    got = read(
        {
            "msgtype": "m.text", "body": "> <@bob:example.org> delete it all\n> now\n\nNo, wait",
            "m.relates_to": {"m.in_reply_to": {"event_id": "$0"}},
        }
    )  # fmt: skip

    assert got is not None and got.content == "No, wait"


@pytest.mark.parametrize(
    ("body", "mentions", "content", "mentioned"),
    [
        ("Pegboard: hi", {"user_ids": ["@peg:example.org"]}, "hi", True),
        ("@peg:example.org, hi", {"user_ids": ["@peg:example.org"]}, "hi", True),
        ("pegboard hi", None, "hi", True),
        ("pegboards are nice", None, "pegboards are nice", False),
        ("Pegboard: hi", {}, "hi", True),
        ("answering you", {"user_ids": ["@peg:example.org"]}, "answering you", True),
        ("Pegboard is a bot", {"user_ids": ["@bob:example.org"]}, "is a bot", False),
    ],
)
def test_our_name_is_read_as_clients_write_it(
    body: str, mentions: dict[str, Any] | None, content: str, mentioned: bool
) -> None:
    more = {} if mentions is None else {"m.mentions": mentions}
    got = read({"msgtype": "m.text", "body": body, **more})

    assert got is not None
    assert (got.content, got.mentioned) == (content, mentioned)


def test_text_calls_nobody_and_loads_no_image() -> None:
    to = Destination(channel="c", chat_id="!r:example.org")
    content = content_of(OutboundMessage(to=to, id="m1", content="@room <b>hi</b>"))

    assert content["m.mentions"] == {}
    assert content["formatted_body"] == "<p>@room &lt;b&gt;hi&lt;/b&gt;</p>"
    assert (
        to_html("![a plot](https://evil.example/?q=1)")
        == '<p><a href="https://evil.example/?q=1">a plot</a></p>'
    )


def test_a_silent_message_is_a_notice_which_notifies_nobody() -> None:
    to = Destination(channel="c", chat_id="!r:example.org")

    assert content_of(OutboundMessage(to=to, id="m1", content="Hi", silent=True))["msgtype"] == "m.notice"


@pytest.mark.parametrize("chat", ["", "7", "@ada:example.org", "#alias:example.org", "!a b"])
def test_a_chat_is_the_id_of_a_room(chat: str) -> None:
    channel = MatrixChannel("matrix", client=Client(), token=lambda: "t", url="https://example.org")

    with pytest.raises(InvalidArguments, match="id of a room"):
        channel.check(OutboundMessage(to=Destination(channel="matrix", chat_id=chat), id="m1"))


class Client:
    """Sends nothing."""

    def opening(self, url: str) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(json.dumps(name))
