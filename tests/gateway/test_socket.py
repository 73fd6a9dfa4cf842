"""The WebSocket does what the endpoints do, for whom they do it, and no foreign page opens it."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from pegboard.gateway import socket as gateway_socket
from tests.gateway.conftest import TOKEN, Serve, calls, events

ASKS = calls("exec", command="git push https://example.invalid/x.git")
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def url(client: httpx2.AsyncClient) -> str:
    return str(client.base_url).replace("http://", "ws://").rstrip("/") + "/api/ws"


async def ask(socket: ClientConnection, type: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": type, **fields}))


_LATER: WeakKeyDictionary[ClientConnection, list[dict[str, Any]]] = WeakKeyDictionary()
"""What came while something else was waited for."""


async def get(socket: ClientConnection, *wanted: str) -> dict[str, Any]:
    """The next message of one of these types; any if none is named."""
    later = _LATER.setdefault(socket, [])
    for message in later:
        if not wanted or message["type"] in wanted:
            later.remove(message)
            return message
    async with asyncio.timeout(30):
        while True:
            message = json.loads(await socket.recv())
            if not wanted or message["type"] in wanted:
                return message
            later.append(message)


async def test_a_run_is_started_followed_asked_and_ended_over_one_connection(serve: Serve) -> None:
    async with (
        serve(ASKS, {"text": "Kept."}) as client,
        connect(url(client), additional_headers=BEARER) as ws,
    ):
        ready = await get(ws)
        await ask(ws, "ping", id="p")
        pong = await get(ws)
        await ask(ws, "follow", id="inbox", approvals=True)
        empty = await get(ws)
        await ask(ws, "start", id=1, task="publish it", session="s")
        started = await get(ws, "result")
        await ask(ws, "follow", id="r", run=started["run"])
        waiting = await get(ws, "approvals")
        (one,) = waiting["approvals"]
        await ask(ws, "answer", id=2, approval=one["approval"], decision="deny", reason="keep it")
        seen: list[dict[str, Any]] = []
        while (message := await get(ws, "event", "end"))["type"] == "event":
            seen.append(message)
        resumed_after = seen[2]["at"]
        await ask(ws, "follow", id="again", run=started["run"], after=resumed_after)
        rest: list[dict[str, Any]] = []
        while (message := await get(ws, "event", "end"))["type"] == "event":
            rest.append(message)
        by_http = await events(client, started["run"])
        whole = [e for id, e in by_http if id.endswith(".0")]

    assert (ready["type"], ready["name"], ready["role"]) == ("ready", "owner", "owner")
    assert pong == {"type": "pong", "id": "p"} and empty["approvals"] == []
    assert (started["id"], started["session"], one["tool"]) == (1, "s", "exec")
    stored = [m["event"] for m in seen if m["at"].endswith(".0")]
    assert stored == whole and stored[-1]["type"] == "run.finished"
    assert [m["event"] for m in rest if m["at"].endswith(".0")] == [
        m["event"] for m in seen[3:] if m["at"].endswith(".0")
    ]


async def test_a_session_is_followed_over_its_runs_and_resumed_in_the_middle(serve: Serve) -> None:
    async with serve({"text": "Hello."}) as client:
        async with connect(url(client), additional_headers=BEARER) as ws:
            await ask(ws, "message", id=1, session="s", content="one")
            first = (await get(ws, "result"))["run"]
            await events(client, first)
            await ask(ws, "follow", id="s", session="s")
            seen = [await get(ws, "event")]
            while seen[-1]["event"]["type"] != "run.finished":
                seen.append(await get(ws, "event"))
            await ask(ws, "message", id=2, session="s", content="two")
            later = await get(ws, "event")
        async with connect(url(client), additional_headers=BEARER) as ws:
            await ask(ws, "follow", id="s", session="s", after=f"{first} {seen[1]['at']}")
            after = await get(ws, "event")

    assert {m["run"] for m in seen} == {first} and later["run"] != first
    assert (after["run"], after["at"]) == (first, seen[2]["at"])


async def test_a_browser_sends_the_token_in_its_first_message(serve: Serve) -> None:
    async with serve() as client:
        own = str(client.base_url).rstrip("/")
        async with connect(url(client), origin=own) as ws:  # pyright: ignore[reportArgumentType]
            await ask(ws, "auth", token=TOKEN)
            ready = await get(ws)

    assert ready["type"] == "ready"


@pytest.mark.parametrize(
    ("origin", "headers"),
    [
        ("https://evil.example", BEARER),
        ("null", BEARER),
        (None, {**BEARER, "Host": "rebound.example"}),
        ("http://rebound.example", {**BEARER, "Host": "rebound.example"}),
    ],
)
async def test_a_foreign_page_or_name_opens_no_socket_even_with_the_token(
    serve: Serve, origin: Any, headers: dict[str, str]
) -> None:
    async with serve() as client:
        where = url(client)
        if "Host" in headers:
            port = where.rpartition(":")[2].partition("/")[0]
            where, extra = f"ws://rebound.example:{port}/api/ws", {"host": "127.0.0.1", "port": int(port)}
            headers = {k: v for k, v in headers.items() if k != "Host"}
            origin = origin and f"{origin}:{port}"
        else:
            extra = {}
        with pytest.raises(InvalidStatus) as refused:
            await connect(where, additional_headers=headers, origin=origin, proxy=None, **extra)  # pyright: ignore[reportArgumentType]

    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "first",
    [
        json.dumps({"type": "auth", "token": "wrong"}), json.dumps({"type": "auth"}), json.dumps({"type": "ping"}),
        "x", "[]", b"\x00",
    ],
)  # fmt: skip
async def test_without_a_token_nothing_is_told(serve: Serve, first: Any) -> None:
    async with serve() as client, connect(url(client)) as ws:
        await ws.send(first)
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(ws.recv(), 30)

    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


async def test_a_token_in_the_address_is_refused(serve: Serve) -> None:
    async with serve() as client:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{url(client)}?token={TOKEN}")

    assert refused.value.response.status_code == 403


async def test_another_principals_runs_sessions_and_approvals_are_not_there(serve: Serve) -> None:
    async with serve(ASKS, {"text": "Kept."}) as client:
        run = (await client.post("/api/runs", json={"task": "x", "session": "s"})).json()["run"]
        await events(client, run, until="run.finished")
        key = (await client.get("/api/approvals")).json()["approvals"][0]["approval"]
        token = (await client.post("/api/tokens", json={"name": "ann", "role": "user"})).json()["token"]
        async with connect(url(client), additional_headers={"Authorization": f"Bearer {token}"}) as ws:
            await get(ws)
            await ask(ws, "follow", id="a", approvals=True)
            inbox = await get(ws)
            codes: list[str] = []
            for fields in (
                {"type": "follow", "run": run}, {"type": "follow", "run": "last"}, {"type": "follow", "session": "s"},
                {"type": "answer", "approval": key, "decision": "allow"}, {"type": "stop", "run": run},
                {"type": "message", "session": "telegram:user:1", "content": "x"}, {"type": "start"},
                {"type": "nonsense"}, {"type": "follow"}, {"type": "ping", "id": []},
            ):  # fmt: skip
                await ask(ws, **{"id": f"{len(codes)}", **fields})
                codes.append((await get(ws, "error"))["error"]["code"])
            await ask(ws, "start", id="own", task="y", session="s")
            own = await get(ws, "result")

    assert inbox["approvals"] == []
    assert codes[:5] == ["not_found"] * 5
    assert codes[5:] == ["permission_denied", *["invalid_arguments"] * 4]
    assert own["session"] == "gateway:ann:s"


async def test_a_revoked_token_ends_its_connections(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_socket, "CHECK_S", 0.05)
    async with serve() as client:
        token = (await client.post("/api/tokens", json={"name": "ann", "role": "user"})).json()["token"]
        async with connect(url(client), additional_headers={"Authorization": f"Bearer {token}"}) as ws:
            await get(ws)
            await client.delete("/api/tokens/ann")
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(ws.recv(), 30)

    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


async def test_a_flood_of_messages_is_slowed_down(serve: Serve) -> None:
    async with serve(clock=lambda: 100.0) as client, connect(url(client), additional_headers=BEARER) as ws:
        await get(ws)
        for _ in range(201):
            await ask(ws, "ping")
        types = [(await get(ws))["type"] for _ in range(201)]

    assert types == ["pong"] * 200 + ["error"]


async def test_half_a_character_ends_no_connection_and_reaches_no_store(serve: Serve) -> None:
    async with serve({"text": "x"}) as client:
        async with connect(url(client)) as ws:
            await ws.send('{"type": "auth", "token": "\\ud800"}')
            with pytest.raises(ConnectionClosed) as closed:
                await ws.recv()
        async with connect(url(client), additional_headers=BEARER) as ws:
            answers: list[dict[str, Any]] = []
            for fields in (
                '"follow", "run"',
                '"follow", "session"',
                '"stop", "run"',
                '"message", "content": "x", "session"',
            ):
                await ws.send(f'{{"id": 1, "type": {fields}: "\\ud800"}}')
                answers.append(await get(ws, "error"))
            await ws.send('{"id": "\\ud83d\\ude00", "type": "ping"}')
            pong = await get(ws, "pong")

    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008
    assert [a["error"]["code"] for a in answers] == ["invalid_arguments"] * 4
    assert pong["id"] == "\N{GRINNING FACE}"


async def test_what_is_followed_keeps_the_id_that_the_client_gave_it(serve: Serve) -> None:
    async with serve() as client, connect(url(client), additional_headers=BEARER) as ws:
        await ask(ws, "follow", id=7, approvals=True)
        told = await get(ws, "approvals")
        await ask(ws, "unfollow", id=8, follow=7)
        ended = await get(ws, "result")

    assert told["follow"] == 7 and (ended["id"], ended["unfollowed"]) == (8, True)
