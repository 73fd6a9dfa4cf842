"""Channels: each takes what its capabilities say, and a message that comes again under its key once."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest

from pegboard.bus import CHANNELS
from pegboard.bus.file import FileChannel
from pegboard.bus.terminal import TerminalChannel
from pegboard.bus.webhook import WebhookChannel
from pegboard.core.errors import InvalidArguments, PermissionDenied
from pegboard.core.toolkit import import_object
from pegboard.net.client import HttpReply
from pegboard.ports.channel import NotDelivered
from pegboard.ports.messages import Attachment, Button, Destination, OutboundMessage

URL = "https://example.com/hook"


def message(content: str = "Hello", **more: Any) -> OutboundMessage:
    return OutboundMessage(to=Destination(channel="c", chat_id="7"), id="m1", content=content, **more)


class Client:
    """Answers each request with what it is given, and keeps what it was sent."""

    def __init__(self, *replies: HttpReply | Exception) -> None:
        self._replies = list(replies)
        self.sent: list[tuple[str, str, dict[str, Any]]] = []

    async def request(self, method: str, url: str, **options: Any) -> Any:
        self.sent.append((method, url, options))
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


class AtNoon:
    def now(self) -> float:
        return 1_674_087_231.0

    def monotonic(self) -> float:
        return 0.0


def answer(status: int = 200, body: bytes = b"", retry_after: str = "") -> HttpReply:
    return HttpReply(url=URL, status=status, headers={"retry-after": retry_after}, body=body)


def test_every_kind_of_the_table_exists() -> None:
    assert {import_object(place).__name__ for place in CHANNELS.values()} == {
        "ConsoleChannel", "FeishuChannel", "FileChannel", "MatrixChannel", "SessionChannel", "SlackChannel", "TelegramChannel", "TerminalChannel",
        "WebSocketChannel", "WebhookChannel"
    }  # fmt: skip


async def test_a_file_gets_each_message_once_as_a_line(tmp_path: Path) -> None:
    file = tmp_path / "new" / "log.jsonl"
    channel = FileChannel("c", path=file)

    for key in ("m1", "m2", "m1"):
        await channel.send(message("a\nb", buttons=(Button(text="Yes"),)), key)

    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["m1", "m2"]
    assert lines[0] == {
        "id": "m1", "action": "send", "channel": "c", "chat_id": "7", "content": "a\nb",
        "buttons": [{"text": "Yes", "value": "Yes"}],
    }  # fmt: skip
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_line_that_a_killed_process_began_spoils_none_after_it(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text('{"id": "m0", "content": "bro')

    await FileChannel("c", path=file).send(message(), "m1")

    assert json.loads(file.read_text().splitlines()[1])["id"] == "m1"


async def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotDelivered, match="cannot write"):
        await FileChannel("c", path=tmp_path).send(message(), "m1")


async def test_a_webhook_is_signed_as_standard_webhooks_has_it() -> None:
    key = b"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw-24b"
    client = Client(answer(body=b'{"id": 99}'))
    secret = "whsec_" + base64.b64encode(key).decode()
    channel = WebhookChannel("c", client=client, url=URL, secret=lambda: secret, clock=AtNoon())
    file = Attachment(name="a.bin", media_type="application/octet-stream", data=b"\x00\x01")

    assert await channel.send(message(media=(file,)), "m1") == "99"

    ((method, url, options),) = client.sent
    headers, body = options["headers"], options["content"]
    assert (method, url) == ("POST", URL)
    assert headers["idempotency-key"] == '"m1"'
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("m1", "1674087231")
    expected = hmac.new(key, b"m1.1674087231." + body, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(expected).decode()}"
    assert json.loads(body)["media"] == [
        {"name": "a.bin", "media_type": "application/octet-stream", "size": 2, "data": "AAE="}
    ]


@pytest.mark.parametrize(
    ("status", "again"), [(400, False), (404, False), (409, True), (429, True), (500, True), (503, True)]
)
async def test_a_webhook_that_refuses_is_tried_again_where_that_may_help(status: int, again: bool) -> None:
    channel = WebhookChannel("c", client=Client(answer(status, retry_after="30")), url=URL)

    with pytest.raises(NotDelivered, match=f"example.com answered with status {status}") as caught:
        await channel.send(message(), "m1")

    assert caught.value.retryable is again
    assert caught.value.details == {"retry_after_s": 30}


async def test_an_address_that_may_not_be_reached_is_not_tried_again() -> None:
    channel = WebhookChannel("c", client=Client(PermissionDenied("127.0.0.1 is not public")), url=URL)

    with pytest.raises(NotDelivered) as caught:
        await channel.send(message(), "m1")

    assert not caught.value.retryable


@pytest.mark.parametrize("chat", ["", "telegram:1", "file:///etc/passwd", "https://"])
def test_the_chat_of_a_webhook_without_a_url_is_one(chat: str) -> None:
    channel = WebhookChannel("webhook", client=Client())

    with pytest.raises(InvalidArguments, match="http or https URL"):
        channel.check(OutboundMessage(to=Destination(channel="webhook", chat_id=chat), id="m1"))


async def test_a_terminal_shows_no_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    await TerminalChannel("terminal").send(message("red \x1b[31malert"), "m1")

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("message (7): red") and "\x1b" not in err
