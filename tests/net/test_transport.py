"""GuardedTransport: under models, MCP and every other client; and the tools that send by HttpClient."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from pegboard import Executor
from pegboard.core.errors import PermissionDenied, Unavailable
from pegboard.interop.openapi import openapi_tools
from pegboard.models.openai import OpenAIModel
from pegboard.net.client import HttpClient
from pegboard.net.transport import (
    GuardedTransport,
    OversizedBody,
    certificates,
    environment_proxy,
    reach_only,
)
from tests.ledger import owes
from tests.web.site import Asked, Site, Write, site


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as one:
        yield one


async def test_what_was_named_is_reached_and_nothing_else(here: Site) -> None:
    async with site() as other:
        here.answer("/a", "yes")
        other.answer("/a", "no")
        async with httpx2.AsyncClient(transport=GuardedTransport(reach_only(here.url("/v1")))) as client:
            assert (await client.get(here.url("/a"))).text == "yes"
            with pytest.raises(Unavailable, match=r"only 127\.0\.0\.1 was named"):
                await client.get(other.url("/a"))
    assert other.asked == []


async def test_an_event_over_the_limit_ends_the_stream_and_many_small_ones_do_not(here: Site) -> None:
    async def many(asked: Asked, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for _ in range(64):
            await write(b"data: " + b"x" * 1000 + b"\n\n")

    async def long(asked: Asked, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for _ in range(64):
            await write(b"x" * 1000)

    here.pages["/many"] = many
    here.pages["/long"] = long
    transport = GuardedTransport(reach_only(here.url("/")), max_item_bytes=16_000)
    async with httpx2.AsyncClient(transport=transport) as client:
        assert len((await client.get(here.url("/many"))).content) == 64 * 1008
        with pytest.raises(OversizedBody):
            await client.get(here.url("/long"))


async def test_the_first_piece_of_a_stream_arrives_before_the_second_is_sent(here: Site) -> None:
    read = asyncio.Event()

    async def slow(asked: Asked, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        await write(b"data: 1\n\n")
        await read.wait()
        await write(b"data: 2\n\n")

    here.pages["/s"] = slow
    transport = GuardedTransport(reach_only(here.url("/")), max_item_bytes=1000)
    got: list[bytes] = []
    async with asyncio.timeout(20):
        async with (
            httpx2.AsyncClient(transport=transport) as client,
            client.stream("GET", here.url("/s")) as answer,
        ):
            async for piece in answer.aiter_bytes():
                got.append(piece)
                read.set()
    assert b"".join(got) == b"data: 1\n\ndata: 2\n\n"


async def test_a_model_on_another_machine_is_asked_through_the_proxy_and_one_here_is_not(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", here.url(""))
    monkeypatch.setenv("HTTPS_PROXY", here.place)
    monkeypatch.setenv("NO_PROXY", "inner.example")
    reached = asyncio.Event()

    async def proxy(asked: Asked, write: Write) -> None:
        reached.set()
        await write(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    here.pages["http://far.example/v1/chat/completions"] = proxy
    far = OpenAIModel("m", base_url="http://far.example/v1", api_key="k")
    with pytest.raises(Exception, match=r"502"):
        async with asyncio.timeout(20):
            await far.client.chat.completions.create(model="m", messages=[])
    await far.aclose()

    assert reached.is_set()
    assert environment_proxy("https://inner.example/v1") == ""
    assert environment_proxy("https://far.example/v1") == here.url("")


@owes("K-35")
async def test_an_operation_that_a_document_sends_to_a_private_place_is_not_asked_there(here: Site) -> None:
    here.answer("/b", "secret", "text/plain")
    operation: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}
    document: dict[str, Any] = {
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://api.example"}],
        "paths": {"/b": {"get": {"operationId": "other", "servers": [{"url": here.url("")}], **operation}}},
    }  # fmt: skip
    executor = Executor(openapi_tools(document), policy=["allow connect:*"])
    opened = HttpClient(allow=(here.place,))

    refused = await executor.call("other", {})
    allowed = await Executor(openapi_tools(document, client=opened), policy=["allow connect:*"]).call(
        "other", {}
    )

    assert isinstance(refused.error, PermissionDenied) and "not public" in refused.error.message
    assert allowed.text == "secret" and len(here.asked) == 1


def test_certificates_are_read_once_and_checked() -> None:
    one = certificates()

    assert one is certificates()
    assert (one.verify_mode, one.check_hostname) == (ssl.CERT_REQUIRED, True)
