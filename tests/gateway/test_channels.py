"""Channels at the gateway: who may talk over a WebSocket, and which posts are taken."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.gateway.conftest import TOKEN, Serve

KEY = b"thirty-two bytes are the least.."
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
MESSAGE = {"chat_id": "1", "sender_id": "ada", "content": "Hi"}


@pytest.fixture(autouse=True)
def channels(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_SECRET", SECRET)
    settings = own_home / ".config" / "pegboard"
    settings.mkdir(parents=True)
    (settings / "pegboard.toml").write_text(
        '[channels.desk]\nkind = "webhook"\nurl = "http://127.0.0.1:9/"\nsecret = "env:DESK_SECRET"\nreceive = true\n'
        'allow = ["ada"]\n[channels.web]\nkind = "websocket"\n'
    )


def signed(body: bytes, *, key: bytes = KEY, at: float | None = None, id: str = "msg_1") -> dict[str, str]:
    when = str(int(time.time() if at is None else at))
    digest = hmac.new(key, f"{id}.{when}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": id, "webhook-timestamp": when, "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        "Authorization": "",
    }  # fmt: skip


async def posted(client: httpx2.AsyncClient, body: bytes, headers: dict[str, str]) -> int:
    """The status, once the channel receives."""
    while True:
        reply = await client.post("/api/channels/desk/messages", content=body, headers=headers)
        if reply.status_code != 503:
            return reply.status_code


async def test_a_post_is_taken_by_its_signature_alone(serve: Serve) -> None:
    body = json.dumps(MESSAGE).encode()
    async with serve({"text": "Hello."}) as client:
        assert await posted(client, body, signed(body)) == 202
        assert await posted(client, body, signed(body)) == 202

        rows: list[dict[str, Any]] = []
        while not rows:
            rows = (await client.get("/api/runs", params={"session": "desk:user:1"})).json()["runs"]
            await asyncio.sleep(0.05)

    assert len(rows) == 1


@pytest.mark.parametrize(
    "headers",
    [
        signed(b"another body"),
        signed(json.dumps(MESSAGE).encode(), key=b"another key"),
        signed(json.dumps(MESSAGE).encode(), at=time.time() - 3600),
        signed(json.dumps(MESSAGE).encode(), at=time.time() + 3600),
        {"Authorization": ""},
    ],
)
async def test_a_post_that_is_not_signed_now_with_our_key_is_refused(
    serve: Serve, headers: dict[str, str]
) -> None:
    async with serve() as client:
        assert await posted(client, json.dumps(MESSAGE).encode(), headers) == 403


@pytest.mark.parametrize("body", [b"", b"[]", b'{"chat_id": 1}', b'{"chat_id": "1", "sender_id": "ada"}'])
async def test_a_post_that_is_no_message_is_told(serve: Serve, body: bytes) -> None:
    async with serve() as client:
        assert await posted(client, body, signed(body)) in (400, 422)


def chat_url(client: httpx2.AsyncClient) -> str:
    return f"{str(client.base_url).rstrip('/').replace('http', 'ws')}/api/channels/web/chat"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}", "Origin": "https://evil.example"},
    ],
)
async def test_a_chat_needs_a_token_and_no_other_site_opens_one(
    serve: Serve, headers: dict[str, str]
) -> None:
    async with serve() as client:
        with pytest.raises((InvalidStatus, ConnectionClosed)):
            async with connect(chat_url(client), additional_headers=headers, proxy=None) as socket:
                await socket.recv()


async def test_an_owner_talks_in_chats_of_their_own(serve: Serve) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with serve({"text": "Hello."}) as client:
        async with connect(
            f"{chat_url(client)}?chat=notes", additional_headers=headers, proxy=None
        ) as socket:
            assert json.loads(await socket.recv()) == {"type": "ready", "chat": "owner.notes"}
            await socket.send("nonsense")
            assert json.loads(await socket.recv())["type"] == "error"
            await socket.send(json.dumps({"type": "message", "id": "1", "text": "Hi"}))
            frames: list[dict[str, Any]] = []
            while not any("Hello." in f.get("text", "") for f in frames):
                frames.append(json.loads(await socket.recv()))
        found = (await client.get("/api/channels")).json()["channels"]

    assert {"type": "taken", "id": "1"} in frames
    assert {row["name"]: row["state"] for row in found if row["chat"]} == {
        "desk": "connected",
        "web": "connected",
    }
