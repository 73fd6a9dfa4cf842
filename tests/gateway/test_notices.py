"""The channel console: a message to a session arrives where people look at that session, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from pegboard.app.app import App
from pegboard.core.errors import InvalidArguments
from pegboard.ports.messages import Destination, OutboundMessage
from tests.gateway.conftest import Serve, events
from tests.gateway.test_socket import BEARER, ask, get, url
from tests.ledger import owes


async def send(folder: Path, session: str, text: str, *, id: str) -> None:
    """Another process of this workspace sends a message."""
    with App.open(workspace=folder) as app:
        await app.store.connect()
        to = Destination(channel="console", chat_id=session)
        await app.messages.queue(OutboundMessage(to=to, id=id, content=text), session="nightly")


@owes("K-58")
async def test_a_message_to_the_console_is_shown_in_its_session_once(folder: Path, serve: Serve) -> None:
    async with (
        serve({"text": "Hello."}) as client,
        connect(url(client), additional_headers=BEARER) as ws,
    ):
        await get(ws, "ready")
        await ask(ws, "start", id=1, task="hi", session="s")
        started = await get(ws, "result")
        await events(client, started["run"], until="run.finished")
        await ask(ws, "follow", id="f", session="s")
        for _ in range(2):
            await send(folder, "s", "The build is **green**.", id="m1")
        await send(folder, "other", "Not for s.", id="m2")
        await send(folder, "s", "It is red again.", id="m3")

        first, second = await get(ws, "notice"), await get(ws, "notice")
        listed = (await client.get("/api/sessions/s/notices")).json()["notices"]

    assert (first["follow"], first["notice"]["text"], first["notice"]["from"]) == (
        "f",
        "The build is **green**.",
        "nightly",
    )
    assert second["notice"]["text"] == "It is red again."
    assert listed == [first["notice"], second["notice"]]


async def test_another_principal_does_not_see_the_messages_of_a_session(folder: Path, serve: Serve) -> None:
    async with serve({"text": "Hello."}) as client:
        token = (await client.post("/api/tokens", json={"name": "ann", "role": "user"})).json()["token"]
        ann = {"Authorization": f"Bearer {token}"}
        started = await client.post("/api/runs", json={"task": "hi", "session": "s"}, headers=ann)
        foreign = await client.get("/api/sessions/s/notices", headers=ann)
        own = await client.get("/api/sessions/gateway:ann:s/notices", headers=ann)

    assert foreign.status_code == 404
    assert started.json()["session"] == "gateway:ann:s"
    assert own.json() == {"notices": []}


async def test_a_message_to_the_console_names_a_session(folder: Path) -> None:
    with App.open(workspace=folder) as app:
        await app.store.connect()
        with pytest.raises(InvalidArguments, match="key of a session"):
            await app.messages.send(OutboundMessage(to=Destination(channel="console"), id="m1", content="Hi"))
