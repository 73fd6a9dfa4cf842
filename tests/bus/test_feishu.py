"""The channel feishu beyond the contract: what proves an event, tokens that end, and what cards cannot show."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from pegboard.bus import feishu_events
from pegboard.bus.feishu import FeishuChannel
from pegboard.bus.feishu_events import card_of, open_posted, read_message
from pegboard.bus.feishu_frames import Frame, decode, encode
from pegboard.core.errors import InvalidArguments, PermissionDenied
from pegboard.ports.channel import Disconnected, NotDelivered
from pegboard.ports.messages import Destination, OutboundMessage
from tests.contracts.test_channels import Kept, message, receiving
from tests.fakes.platforms.feishu import APP, KEY, SECRET, TOKEN, Feishu, FeishuLong, sealed
from tests.fakes.platforms.platform import http
from tests.waiting import soon


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = time.time()

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@pytest.fixture
async def feishu() -> AsyncGenerator[Feishu]:
    made = Feishu()
    async with made.running():
        yield made


def channel(feishu: Feishu, **more: Any) -> FeishuChannel:
    options: dict[str, Any] = {"encrypt_key": lambda: KEY, "verification_token": lambda: TOKEN, **more}
    return FeishuChannel("c", client=http(), app_id=APP, app_secret=lambda: SECRET, url=feishu.url, **options)


def opened(event: Any, *, encrypt_key: str = KEY, token: str = TOKEN, **headers: str) -> Any:
    body, right = sealed(event)
    return open_posted(right | headers, body, encrypt_key=encrypt_key, token=token)


# -- what proves an event --------------------------------------------------------------------------


def test_the_example_of_feishus_documentation_is_decrypted() -> None:
    body = b'{"encrypt": "P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk="}'

    assert feishu_events._decrypted(json.loads(body)["encrypt"], "test key") == b"hello world"  # pyright: ignore


@pytest.mark.parametrize(
    "wrong",
    [
        {"encrypt_key": "another key"},
        {"token": "another-token"},
        {"x-lark-signature": "0" * 64},
        {"x-lark-signature": ""},
        {"x-lark-request-nonce": "another-nonce"},
        {"x-lark-request-timestamp": "1"},
    ],
)
def test_an_event_that_feishu_did_not_send_is_refused(wrong: dict[str, str]) -> None:
    event = {"header": {"token": TOKEN, "event_id": "1"}, "event": {}}
    assert opened(event) == event

    with pytest.raises(PermissionDenied):
        opened(event, **wrong)


def test_an_event_in_plain_text_is_refused_where_there_is_a_key() -> None:
    body = json.dumps({"header": {"token": TOKEN}, "event": {}}).encode()
    signature = hashlib.sha256(f"1n{KEY}".encode() + body).hexdigest()
    headers = {"x-lark-request-timestamp": "1", "x-lark-request-nonce": "n", "x-lark-signature": signature}

    with pytest.raises(PermissionDenied):
        open_posted(headers, body, encrypt_key=KEY, token=TOKEN)
    assert open_posted({}, body, encrypt_key="", token=TOKEN)


@pytest.mark.parametrize("key", [KEY, ""])
async def test_the_address_is_proved_by_the_challenge(feishu: Feishu, key: str) -> None:
    asked = {"challenge": "ajls384kdjx98XX", "token": TOKEN, "type": "url_verification"}
    body = sealed(asked)[0] if key else json.dumps(asked).encode()

    answer = await channel(feishu, encrypt_key=lambda: key).take({}, body)

    assert answer == {"challenge": "ajls384kdjx98XX"}
    with pytest.raises(PermissionDenied):
        await channel(feishu, encrypt_key=lambda: key).take({}, json.dumps(asked | {"token": "x"}).encode())


async def test_an_event_of_yesterday_is_not_taken_again(feishu: Feishu) -> None:
    receiver, clock = Kept(), Clock()
    feishu._channel = channel(feishu, clock=clock)  # pyright: ignore[reportPrivateUsage]
    async with receiving(feishu, feishu._channel, receiver):  # pyright: ignore[reportPrivateUsage]
        await feishu.say("one")
        clock.at += feishu_events.LATEST_S + 60
        await feishu.say("", again=True)
        clock.at -= feishu_events.LATEST_S
        await feishu.say("two")
        await receiver.next(2)

    assert [m.content for m in receiver.messages] == ["one", "two"]


async def test_nothing_is_posted_to_a_channel_with_a_long_connection(feishu: Feishu) -> None:
    made = channel(feishu, encrypt_key=None, verification_token=None)

    assert not made.at_gateway
    with pytest.raises(PermissionDenied, match="long connection"):
        await made.take({}, b'{"type": "url_verification", "challenge": "x"}')


# -- tokens ----------------------------------------------------------------------------------------


async def test_a_token_is_replaced_before_it_ends_and_when_it_is_taken_away(feishu: Feishu) -> None:
    clock = Clock()
    made = channel(feishu, clock=clock)
    await made.identity()
    await made.identity()
    assert feishu.tokens == 1
    clock.at += 7200 - 290
    await made.identity()
    assert feishu.tokens == 2
    feishu.tokens = 7  # Somebody else has made the app a new one.

    await made.send(message(feishu), "m1")

    assert feishu.tokens == 8
    assert len(feishu.shown) == 1


async def test_a_secret_that_is_refused_ends_the_channel_and_is_not_shown(feishu: Feishu) -> None:
    feishu.wrong_token = True

    with pytest.raises(Disconnected, match="refuses the token") as caught:
        await channel(feishu).identity()

    assert not caught.value.retryable
    assert SECRET not in str(caught.value)


# -- cards -----------------------------------------------------------------------------------------


async def test_markdown_that_feishu_does_not_take_is_shown_as_it_is(feishu: Feishu) -> None:
    feishu.wrong_cards = 1
    id = await channel(feishu).send(message(feishu, "| many | tables |"), "m1")
    (shown,) = feishu.shown
    assert shown.text == "| many | tables |"

    feishu.wrong_cards = 1
    await channel(feishu).send(message(feishu, "| more |", action="edit", target_id=id), "m2")

    assert shown.text == "| more |"


async def test_a_message_that_is_sent_again_under_its_key_is_the_same(feishu: Feishu) -> None:
    long = "reply:" + "x" * 100
    first = await channel(feishu).send(message(feishu), long)

    assert await channel(feishu).send(message(feishu), long) == first
    assert len(feishu.shown) == 1


def test_a_card_calls_nobody() -> None:
    card = json.loads(card_of("<at id=all></at> and 1 < 2"))

    assert card["body"]["elements"] == [{"tag": "markdown", "content": "&#60;at id=all></at> and 1 < 2"}]


@pytest.mark.parametrize("chat", ["", "ou_ada", "7", "oc_a b\n"])
def test_a_chat_is_an_id_of_a_chat(chat: str) -> None:
    made = FeishuChannel("feishu", client=http(), app_id=APP, app_secret=lambda: SECRET)

    with pytest.raises(InvalidArguments, match="id of a chat"):
        made.check(OutboundMessage(to=Destination(channel="feishu", chat_id=chat), id="m1"))


async def test_an_emoji_without_a_name_is_said_so(feishu: Feishu) -> None:
    with pytest.raises(NotDelivered, match="not a known emoji name"):
        await channel(feishu).send(message(feishu, "🦕", action="react", target_id="om_1"), "m1")


# -- what people send ------------------------------------------------------------------------------


def event(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "sender": {"sender_id": {"open_id": "ou_ada"}, "sender_type": more.pop("by", "user")},
        "message": {
            "message_id": "om_1", "chat_id": "oc_1", "chat_type": "group", "message_type": kind,
            "content": json.dumps(content), **more,
        },
    }  # fmt: skip


def test_a_post_is_read_with_its_links_mentions_code_and_images() -> None:
    content = {
        "title": "Report",
        "content": [
            [
                {"tag": "at", "user_id": "@_user_1"},
                {"tag": "text", "text": " see "},
                {"tag": "a", "href": "https://a.example", "text": "this"},
            ],
            [{"tag": "code_block", "language": "PYTHON", "text": "x = 1"}],
            [{"tag": "img", "image_key": "img_1"}],
        ],
    }
    mentions = [{"key": "@_user_1", "id": {"open_id": "ou_me"}, "name": "Pegboard"}]

    got = read_message(event("post", content, mentions=mentions), "ou_me")

    assert got is not None and got.mentioned
    assert got.content == "Report\n see this (https://a.example)\n\n```python\nx = 1\n```"
    assert [f.id for f in got.files] == ["om_1/img_1/image"]


def test_programs_stickers_and_malformed_events_are_no_messages() -> None:
    assert read_message(event("text", {"text": "I am a bot"}, by="app"), "ou_me") is None
    assert read_message(event("sticker", {"file_key": "f"}), "ou_me") is None
    for wrong in ({}, {"sender": 1, "message": []}, event("text", []), event("text", {"text": " "})):
        assert read_message(wrong, "ou_me") is None


# -- the long connection ---------------------------------------------------------------------------


def test_a_frame_is_what_protocol_buffers_make_of_it() -> None:
    # By hand: SeqID=1, LogID=300, service=33, method=1, headers={key "type", value "event"}, payload="{}".
    data = bytes.fromhex("080110ac02182120012a0d0a047479706512056576656e7442027b7d")
    frame = Frame(sequence=1, log=300, service=33, method=1, headers={"type": "event"}, payload=b"{}")

    assert encode(frame) == data
    assert decode(data) == frame


@pytest.mark.parametrize("data", ["08", "ff" * 20, "420a7b7d", "0b"])
def test_bytes_that_are_no_frame_end_the_connection(data: str) -> None:
    with pytest.raises(Disconnected, match="are not a frame"):
        decode(bytes.fromhex(data))


async def test_the_long_connection_is_kept_with_pings() -> None:
    made = FeishuLong()
    async with made.running(), receiving(made, made.channel(), Kept()):
        await soon(lambda: made.pings, "a ping")
