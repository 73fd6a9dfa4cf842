"""The channel matrix against a real homeserver: Synapse, installed by the test into an environment of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pegboard.app.app import App
from pegboard.bus.matrix import MatrixChannel
from pegboard.core.policy.approval import SuspendAll
from pegboard.ports.channel import Disconnected
from pegboard.ports.messages import Attachment, Destination, OutboundMessage
from pegboard.services.runtime import Interaction
from tests.contracts.test_channels import PNG, Kept
from tests.fakes.platforms.platform import http
from tests.ledger import owes
from tests.synapse import Person, Synapse, run_synapse

pytestmark = pytest.mark.full


@asynccontextmanager
async def worker(
    folder: Path, peg: Person, owner: str, *turns: dict[str, Any], mode: str = "workspace"
) -> AsyncGenerator[App]:
    """A worker of a workspace whose channel is the account, until the block ends."""
    table = {"kind": "matrix", "url": peg.server.url, "token": "env:MATRIX_TOKEN", "owners": [owner]}
    (folder.parent / "pegboard.json").write_text(json.dumps({"mode": mode, "channels": {"c": table}}))
    script = folder.parent / "turns.jsonl"
    script.write_text("\n".join(json.dumps(turn) for turn in turns))
    with App.open(workspace=folder, config=folder.parent / "pegboard.json") as app:
        made = app.worker(Interaction(approver=SuspendAll(), notify=print), model=f"scripted:{script}")
        task = asyncio.ensure_future(made.work())
        try:
            yield app
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def message(
    of: Person, room: str, sender: str, fits: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The first message of somebody that fits, once there is one."""
    shown: list[dict[str, Any]] = []
    for _ in range(300):
        shown = await of.shown(room, sender)
        for content in shown:
            if fits(content):
                return content
        await asyncio.sleep(0.1)
    raise AssertionError(f"not among {[c['body'] for c in shown]}")


def says(text: str) -> Callable[[dict[str, Any]], bool]:
    return lambda content: text in content["body"]


@owes("K-58")
async def test_people_talk_to_an_agent_on_a_real_homeserver(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "pic.png").write_bytes(PNG)
    async with run_synapse() as server:
        ada, peg = await server.register("ada"), await server.register("peg")
        monkeypatch.setenv("MATRIX_TOKEN", peg.token)
        await _single_messages(server, ada, peg)

        async with worker(folder, peg, ada.id, {"text": "It says **one**.\nMEDIA:pic.png"}):
            room = await ada.open_room(peg.id)
            uri = await ada.upload("no te.txt", "text/plain", b"two\n")
            file = {"msgtype": "m.file", "url": uri, "filename": "no te.txt", "body": "What is in it?"}
            await ada.send(room, {**file, "info": {"mimetype": "text/plain", "size": 4}})

            answer = await message(ada, room, peg.id, lambda content: "filename" in content)

            assert answer["formatted_body"] == "<p>It says <strong>one</strong>.</p>"
            assert (answer["msgtype"], answer["filename"]) == ("m.image", "pic.png")
            (kept,) = [p for p in (folder / "received").rglob("*") if p.is_file()]
            assert kept.read_bytes() == b"two\n"

        turns = (
            {"calls": [{"name": "delete_file", "arguments": {"path": "a.txt"}}]},
            {"text": "It is gone."},
        )
        async with worker(folder, peg, ada.id, *turns, mode="ask"):
            await ada.say(room, "Delete a.txt")
            asked = await message(ada, room, peg.id, says("Approval needed"))
            keys = [b["key"] for b in asked["io.pegboard.buttons"]]
            assert (folder / "a.txt").exists()
            relation = {"rel_type": "m.annotation", "event_id": asked["event_id"], "key": keys[0]}
            await ada.send(room, {"m.relates_to": relation}, "m.reaction")
            await message(ada, room, peg.id, says("It is gone."))
            await message(ada, room, peg.id, says("Approved once by"))
            assert not (folder / "a.txt").exists()
        before = [c["event_id"] for c in await ada.shown(room, peg.id)]

        await ada.say(room, "Are you back?")
        async with worker(folder, peg, ada.id, {"text": "I am back."}):
            await message(ada, room, peg.id, says("I am back."))
            secret = await ada.open_room(peg.id, encrypted=True)
            await ada.send(
                secret, {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"}, "m.room.encrypted"
            )
            await message(ada, secret, peg.id, says("cannot read encrypted messages"))

        after = [c["event_id"] for c in await ada.shown(room, peg.id)]
        assert after[:-1] == before


async def _single_messages(server: Synapse, ada: Person, peg: Person) -> None:
    """What one message does, straight through the channel."""
    channel = MatrixChannel("c", client=http(), token=lambda: peg.token, url=server.url)
    assert await channel.identity() == peg.id
    receiver = Kept()
    receiving = asyncio.ensure_future(channel.receive(receiver))
    try:
        while not receiver.connects:
            await asyncio.sleep(0.05)
        room = await ada.open_room(peg.id)
        first = await ada.say(room, "before you came")
        assert (await receiver.next()).content == "before you came"
        to = Destination(channel="c", chat_id=room)

        async def send(key: str, content: str, **more: Any) -> str:
            return await channel.send(OutboundMessage(to=to, id=key, content=content, **more), key)

        id = await send("m1", "A **bold** @room <&> 你好", reply_to=first)
        # A process that was killed before it noted the id sends it again.
        assert await send("m1", "A **bold** @room <&> 你好", reply_to=first) == id
        (shown,) = await ada.shown(room, peg.id)
        assert shown["formatted_body"] == "<p>A <strong>bold</strong> @room &lt;&amp;&gt; 你好</p>"
        assert shown["m.relates_to"]["m.in_reply_to"]["event_id"] == first

        await send("m2", "changed", action="edit", target_id=id)
        (shown,) = await ada.shown(room, peg.id)
        assert shown["body"] == "changed"
        for _ in range(2):
            await send("m3", "👍", action="react", target_id=first)
        await send("m4", "👍", action="react", target_id=first)
        (reaction,) = await ada.events(room, peg.id, "m.reaction")
        assert reaction["content"]["m.relates_to"]["key"] == "👍"

        threaded = Destination(channel="c", chat_id=room, thread_id=first)
        await channel.send(OutboundMessage(to=threaded, id="m5", content="in the thread"), "m5")
        relation = {"rel_type": "m.thread", "event_id": first, "is_falling_back": True}
        await ada.send(room, {"msgtype": "m.text", "body": "and back", "m.relates_to": relation})
        assert (await receiver.next(2)).thread_id == first

        file = Attachment(name="a b.png", media_type="image/png", data=PNG)
        await send("m6", "See", media=(file,))
        sent = (await ada.shown(room, peg.id))[-1]
        await ada.send(
            room, {k: sent[k] for k in ("msgtype", "url", "filename", "info")} | {"body": "a b.png"}
        )
        (back,) = (await receiver.next(3)).files
        assert (back.name, back.media_type, back.size) == ("a b.png", "image/png", len(PNG))
        assert await channel.download(back, 1000) == PNG

        await send("m7", "", action="delete", target_id=id)
        assert id not in [c["event_id"] for c in await ada.shown(room, peg.id)]
        # More than one sync has a place for, while nobody listens.
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        for number in range(110):
            await ada.say(room, f"n{number}")
        receiving = asyncio.ensure_future(channel.receive(receiver))
        await receiver.next(113)
        assert [m.content for m in receiver.messages[3:]] == [f"n{number}" for number in range(110)]
    finally:
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    wrong = MatrixChannel("c", client=http(), token=lambda: "syt_wrong", url=server.url)
    with pytest.raises(Disconnected, match="refuses the token") as caught:
        await wrong.identity()
    assert not caught.value.retryable
