"""What our server offers besides tools, over HTTP and in both eras: resources, prompts, completion, changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest

from pegboard import AllowOnce, Executor
from pegboard.artifacts.versions import StoredArtifacts
from pegboard.core.context import Context, attach, detach
from pegboard.core.errors import NotFound
from pegboard.mcp.client import MCPServer
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.prompts import Prompt, TextPrompts
from pegboard.mcp.resources import ArtifactResources, SchemeResources, WorkspaceResources
from pegboard.mcp.serve_http import serve_http
from pegboard.mcp.server import ToolServer
from pegboard.store.memory import MemoryStore
from tests.ledger import owes
from tests.mcp.served import build
from tests.mcp.test_serving import HANDSHAKE, modern

pytestmark = pytest.mark.slow

FILES = {"a.txt": "alpha", "docs/ü x.md": "# über", "data.json": "{}"}


class Completing(TextPrompts):
    """Prompts whose arguments complete to numbers."""

    async def complete(self, name: str, argument: str, value: str) -> Sequence[str]:
        return [f"{value}{n}" for n in range(150)]


async def _read(path: str) -> str:
    if path not in FILES:
        raise NotFound(f"there is no file {path}")
    return FILES[path]


async def _names() -> list[str]:
    return list(FILES)


async def _mark(path: str) -> str:
    return await _read(path)


class OfOneSession:
    """Artifacts of one session, whoever asks."""

    def __init__(self, context: Context) -> None:
        self.kept = StoredArtifacts(MemoryStore())
        self._context = context

    @contextmanager
    def entered(self) -> Iterator[None]:
        token = attach(self._context)
        try:
            yield
        finally:
            detach(token)

    async def list(self) -> Any:
        with self.entered():
            return await self.kept.list()

    async def read(self, id: str, version: int | None = None) -> Any:
        with self.entered():
            return await self.kept.read(id, version)


async def offering() -> ToolServer:
    plain = build()
    artifacts = OfOneSession(plain.context)
    with artifacts.entered():
        await artifacts.kept.create("notes", title="Notes", content="the key is hush")
    kinds = {
        "workspace": WorkspaceResources(_read, _names, _mark),
        "artifact": ArtifactResources(artifacts, lambda text: text.replace("hush", "***")),
    }
    prompts = Completing([Prompt("greet", "Greets.", "Hello {name}!", ("name",))])
    return ToolServer(
        plain.pipeline, plain.context, resources=SchemeResources(kinds), prompts=prompts, name="offers",
        version="1", instructions="Be kind.",
    )  # fmt: skip


@asynccontextmanager
async def serving(service: ToolServer) -> AsyncIterator[str]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(
        serve_http(service, host="127.0.0.1", port=0, token=None, on_start=port.set_result)
    )
    try:
        yield f"http://127.0.0.1:{await port}/mcp"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Old:
    """A client of the handshake era, by hand."""

    def __init__(self, url: str, http: httpx2.AsyncClient) -> None:
        self.url, self.http, self.headers, self.count = url, http, dict[str, str](), 0

    async def open(self) -> dict[str, Any]:
        answer = await self.http.post(self.url, json=HANDSHAKE)
        self.headers = {"mcp-session-id": answer.headers["mcp-session-id"]}
        return answer.json()["result"]

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        row = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        return (await self.http.post(self.url, json=row, headers=self.headers)).json()


class New:
    """A client of the stateless era, by hand."""

    def __init__(self, url: str, http: httpx2.AsyncClient) -> None:
        self.url, self.http, self.count = url, http, 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if named := params.get("name") or params.get("uri"):
            headers["mcp-name"] = str(named)
        return (
            await self.http.post(self.url, json=modern(self.count, method, **params), headers=headers)
        ).json()


@asynccontextmanager
async def clients(service: ToolServer) -> AsyncIterator[tuple[Old, New, Mapping[str, Any]]]:
    accept = {"accept": "application/json, text/event-stream"}
    async with (
        serving(service) as url,
        httpx2.AsyncClient(trust_env=False, headers=accept, timeout=20) as http,
    ):
        old = Old(url, http)
        yield old, New(url, http), await old.open()


@owes("K-81", "K-78")
async def test_files_and_artifacts_are_read_by_their_addresses_in_both_eras() -> None:
    async with clients(await offering()) as (old, new, hello):
        for client in (old, new):
            listed = (await client.ask("resources/list"))["result"]["resources"]
            templates = (await client.ask("resources/templates/list"))["result"]["resourceTemplates"]
            assert [r["uri"] for r in listed] == [
                "workspace:///a.txt", "workspace:///docs/%C3%BC%20x.md", "workspace:///data.json", "artifact:///notes",
            ]  # fmt: skip
            assert [t["uriTemplate"] for t in templates] == [
                "workspace:///{path}", "artifact:///{id}{?version}",
            ]  # fmt: skip
            read = {
                uri: (await client.ask("resources/read", uri=uri))["result"]["contents"][0]
                for uri in [r["uri"] for r in listed]
            }
            assert read["workspace:///docs/%C3%BC%20x.md"]["text"] == "# über"
            assert read["workspace:///data.json"]["mimeType"] == "application/json"
            assert read["artifact:///notes"]["text"] == "the key is ***"
            assert read["artifact:///notes"]["mimeType"] == "text/markdown"
            one = await client.ask("resources/read", uri="artifact:///notes?version=1")
            assert one["result"]["contents"][0]["text"] == "the key is ***"

    assert hello["instructions"] == "Be kind."
    assert hello["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}


@pytest.mark.parametrize(
    "uri",
    [
        "workspace:///no.txt", "workspace:///../a.txt", "workspace:///a.txt%00", "workspace://evil/a.txt", "workspace:a.txt/..",
        "artifact:///no", "artifact:///notes?version=x", "artifact:///notes?version=9", "artifact://host/notes",
        "file:///etc/passwd", "FILE:///etc/passwd", "nothing", "", "http://127.0.0.1/",
    ],
)  # fmt: skip
async def test_an_address_that_is_none_of_ours_has_one_answer(uri: str) -> None:
    async with clients(await offering()) as (old, new, _):
        before = (await old.ask("resources/read", uri=uri))["error"]
        after = (await new.ask("resources/read", uri=uri))["error"]

    assert before["code"] == -32002
    assert after["code"] == -32602 or (not uri and after["code"] == -32020)


async def test_what_is_asked_wrongly_is_refused_in_the_protocols_words() -> None:
    async with clients(await offering()) as (old, new, _):
        for method, params in (
            ("resources/read", {}), ("resources/read", {"uri": 5}), ("resources/subscribe", {}), ("prompts/get", {}),
            ("prompts/get", {"name": "greet", "arguments": []}), ("prompts/get", {"name": "nope"}),
            ("prompts/get", {"name": "greet"}), ("completion/complete", {}), ("completion/complete", {"ref": {}}),
            ("tools/call", {}), ("tools/call", {"name": "echo", "arguments": []}), ("logging/setLevel", {"level": 5}),
            ("resources/list", {"cursor": "-1"}), ("prompts/list", {"cursor": 5}),
        ):  # fmt: skip
            assert (await old.ask(method, **params))["error"]["code"] == -32602, method
        assert (await old.ask("server/discover"))["error"]["code"] in (-32601, -32600)
        assert (await old.ask("initialize"))["error"]["code"] == -32602
        assert (await new.ask("logging/setLevel", level="info"))["error"]["code"] == -32601
        assert (await new.ask("initialize", protocolVersion="2025-11-25"))["error"]["code"] < 0


@owes("K-81")
async def test_prompts_are_filled_and_their_arguments_completed() -> None:
    async with clients(await offering()) as (old, new, _):
        for client in (old, new):
            (row,) = (await client.ask("prompts/list"))["result"]["prompts"]
            got = (await client.ask("prompts/get", name="greet", arguments={"name": "Ada"}))["result"]
            done = await client.ask(
                "completion/complete", ref={"type": "ref/prompt", "name": "greet"}, argument={"name": "name", "value": "x"}
            )  # fmt: skip
            assert row["arguments"] == [{"name": "name", "required": True}]
            assert got["messages"][0]["content"]["text"] == "Hello Ada!"
            completion = done["result"]["completion"]
            assert completion["values"][:2] == ["x0", "x1"] and len(completion["values"]) == 100
            assert completion["total"] == 150 and completion["hasMore"]
        discovered = (await new.ask("server/discover"))["result"]

    assert discovered["supportedVersions"] == ["2026-07-28"] and discovered["instructions"] == "Be kind."


@owes("K-79")
async def test_changes_reach_those_who_watch_and_nobody_else() -> None:
    service = await offering()
    async with clients(service) as (old, new, _), asyncio.timeout(20):
        uri = "workspace:///a.txt"
        await old.ask("resources/subscribe", uri=uri)
        heard: list[dict[str, Any]] = []

        async def listen(method: str, lines: list[dict[str, Any]], **how: Any) -> None:
            async with old.http.stream(method, old.url, **how) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: {"):
                        lines.append(json.loads(line.removeprefix("data: ")))

        headers = {**old.headers, "accept": "text/event-stream"}
        first = asyncio.create_task(listen("GET", heard, headers=headers))
        wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": [uri]}
        told: list[dict[str, Any]] = []
        ask = modern(99, "subscriptions/listen", notifications=wanted)
        which = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
        second = asyncio.create_task(listen("POST", told, json=ask, headers=which))
        while not told:
            await asyncio.sleep(0.01)

        def change() -> None:
            service.resource_updated(uri)
            service.resource_updated("workspace:///data.json")
            service.tools_changed()
            service.prompts_changed()

        change()
        while len(heard) < 3 or len(told) < 4:
            await asyncio.sleep(0.01)
        await old.ask("resources/unsubscribe", uri=uri)
        change()
        while len(heard) < 5 or len(told) < 7:
            await asyncio.sleep(0.01)
        refused = await new.ask("subscriptions/listen")
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    tools, prompts, updated = (
        f"notifications/{w}" for w in ("tools/list_changed", "prompts/list_changed", "resources/updated")
    )
    assert [m["method"] for m in heard] == [updated, tools, prompts, tools, prompts]
    assert heard[0]["params"] == {"uri": uri}
    assert [m["method"] for m in told[1:]] == [updated, tools, prompts] * 2
    assert told[0]["method"] == "notifications/subscriptions/acknowledged"
    assert "error" in refused


@owes("K-78")
@pytest.mark.parametrize("protocol", ["2025-11-25", "auto"])
async def test_our_own_client_reads_what_our_own_server_offers(protocol: str) -> None:
    service = await offering()
    async with serving(service) as url:
        config = ServerConfig(name="own", transport="streamable_http", url=url, protocol=protocol)
        server = MCPServer(config=config)
        async with Executor([server], approver=AllowOnce()) as door:
            read = await door.call("mcp_own_read_resource", {"uri": "workspace:///a.txt"})
            got = await door.call("mcp_own_get_prompt", {"name": "greet", "arguments": {"name": "Ada"}})
            none = await door.call("mcp_own_read_resource", {"uri": "workspace:///no.txt"})
            said, before = server.instructions, server.catalogue
            service.tools_changed()
            async with asyncio.timeout(10):
                while server.catalogue is before:
                    await asyncio.sleep(0.01)

    assert "alpha" in read.text and read.notes.labels == ("untrusted",)
    assert "Hello Ada!" in got.text and "from the MCP server own" in got.text
    assert none.error is not None and "no file" in none.error.message
    assert said == "Be kind."
