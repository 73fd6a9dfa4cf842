"""Our uvicorn over real connections: slow clients, big bodies, resumed streams, and what happens when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pegboard.net.asgi.server import MAX_BODY_BYTES, serve
from pegboard.net.asgi.sse import MAX_KEPT, EventResponse, EventStream, parse_event_id
from tests.ledger import owes


@asynccontextmanager
async def served(endpoint: Any, **options: Any) -> AsyncIterator[tuple[int, asyncio.Task[None]]]:
    """An endpoint at `/`, without tokens: its port, and the server's task."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    route = Route("/", endpoint, methods=["GET", "POST"])
    task = asyncio.create_task(
        serve([route], host="127.0.0.1", port=0, tokens=None, on_start=port.set_result, **options)
    )
    try:
        yield await port, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def length(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def last_words(port: int, *parts: bytes) -> bytes:
    """What a client gets that sends some bytes, more after each answer, and then waits."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        for part in parts:
            if part is not parts[0]:
                got += await asyncio.wait_for(reader.read(1), 10)
            writer.write(part)
        return got + await asyncio.wait_for(reader.read(), 10)
    finally:
        writer.close()


@owes("mcp-100")
@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [b"POST / HTTP/1.1\r\nHo"],
        [b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10\r\n\r\nhalf"],
        [b"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\nok", b"POST / HTTP/1.1\r\nHo"],
    ],
    ids=["nothing", "half a head", "half a body", "half a second head"],
)
async def test_a_request_that_does_not_arrive_in_time_loses_its_connection(parts: list[bytes]) -> None:
    async with served(length, request_s=0.3) as (port, _):
        host = f"127.0.0.1:{port}".encode()

        answer = await last_words(port, *(part.replace(b"{host}", host) for part in parts))

    assert answer.count(b"HTTP/1.1 200") == len(parts) - 1


async def test_a_slow_answer_is_no_slow_request() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.5)
        return PlainTextResponse("done")

    async with served(slow, request_s=0.2) as (port, _), httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://127.0.0.1:{port}/")).text == "done"


@owes("mcp-098")
async def test_a_body_over_the_limit_is_refused_whether_its_length_is_declared_or_not() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * (1 << 20)

    async with served(length) as (port, _), httpx2.AsyncClient(trust_env=False) as client:
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 1000000000\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode())
        early = await asyncio.wait_for(reader.readline(), 10)
        writer.close()
        undeclared = await client.post(f"http://127.0.0.1:{port}/", content=chunks())
        fitting = await client.post(f"http://127.0.0.1:{port}/", content=b"x" * MAX_BODY_BYTES)

    assert early.startswith(b"HTTP/1.1 413")
    assert undeclared.status_code == 413
    assert fitting.text == str(4 * 1024 * 1024)


async def test_stopping_lets_a_running_request_finish_and_ends_what_listens() -> None:
    begun, stream = asyncio.Event(), EventStream("all")

    async def endpoint(request: Request) -> Response:
        if request.method == "GET":
            return EventResponse(stream)
        begun.set()
        await asyncio.sleep(0.3)
        return PlainTextResponse("finished")

    async with served(endpoint, on_stop=stream.end) as (port, task):
        url = f"http://127.0.0.1:{port}/"
        async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
            listening = asyncio.create_task(client.get(url))
            running = asyncio.create_task(client.post(url))
            await begun.wait()
            task.cancel()

            assert (await running).text == "finished"
            assert (await listening).status_code == 200
            await asyncio.wait([task], timeout=10)
            with pytest.raises(httpx2.ConnectError):
                await client.get(url)

    assert task.cancelled()


async def test_nothing_listens_after_a_stop_that_was_cancelled_too() -> None:
    async with served(length) as (port, task):
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(task, return_exceptions=True)

        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_client_that_was_cut_off_gets_the_rest_and_nothing_twice() -> None:
    stream = EventStream("s")

    async def endpoint(request: Request) -> Response:
        name, number = parse_event_id(request.headers.get("last-event-id", ""))
        return EventResponse(stream, number if name == "s" else 0)

    async with served(endpoint) as (port, _), httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        url = f"http://127.0.0.1:{port}/"
        seen: list[str] = []
        stream.put({"n": 1})
        async with client.stream("GET", url) as answer:
            async for line in answer.aiter_lines():
                seen.append(line)
                if line == 'data: {"n":1}':
                    break
        stream.put({"n": 2})
        stream.put({"n": "half \ud800"})
        stream.end()
        rest = await client.get(url, headers={"last-event-id": "s.1"})
        foreign = await client.get(url, headers={"last-event-id": "other.2"})

    assert [line for line in seen if line.startswith("id")] == ["id: s.0", "id: s.1"]
    assert [line for line in rest.text.splitlines() if line.startswith("data: {")] == [
        'data: {"n":2}',
        'data: {"n":"half ?"}',
    ]
    assert foreign.text.count("data: {") == 3


@pytest.mark.parametrize("id", ["s." + "1" * 5000, "s.\u0663", "s.-1", "s.", ""])
def test_what_is_no_id_of_an_event_is_the_beginning(id: str) -> None:
    assert parse_event_id(id) == ("", 0)


async def test_two_readers_of_one_stream_both_get_everything() -> None:
    stream = EventStream()
    readers = [asyncio.create_task(_read(stream)) for _ in range(2)]
    for n in range(500):
        stream.put(n)
        await asyncio.sleep(0)
    stream.end()

    assert await asyncio.gather(*readers) == [[str(n) for n in range(500)]] * 2


async def test_a_stream_keeps_its_last_messages_only() -> None:
    stream = EventStream()
    for n in range(MAX_KEPT + 10):
        stream.put(n)
    stream.end()

    assert await _read(stream) == [str(n) for n in range(10, MAX_KEPT + 10)]


async def _read(stream: EventStream) -> list[str]:
    return [event.data async for event in stream.events()]


async def test_a_web_socket_outlives_the_deadline_of_requests() -> None:
    """The deadline is of the request's arrival; a connection that became a web socket stays."""
    from starlette.routing import WebSocketRoute
    from starlette.websockets import WebSocket
    from websockets.asyncio.client import connect

    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        async for text in socket.iter_text():
            await socket.send_text(text)

    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve(
            [WebSocketRoute("/ws", echo)], host="127.0.0.1", port=0, tokens=None, on_start=port.set_result,
            request_s=0.2,
        )
    )  # fmt: skip
    try:
        async with connect(f"ws://127.0.0.1:{await port}/ws", proxy=None) as ws, asyncio.timeout(30):
            idle = await asyncio.wait({asyncio.ensure_future(ws.wait_closed())}, timeout=0.6)
            await ws.send("still here")
            answer = await ws.recv()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    assert idle[0] == set() and answer == "still here"
