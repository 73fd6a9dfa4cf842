"""Changes are told to those who listen, in both eras, over real pipes and HTTP, to the official package's client."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from mcp import Client, StdioServerParameters
from pegboard import AllowOnce, Executor, Toolkit, tool
from pegboard.core.effects import PURE
from pegboard.mcp.client import MCPServer
from pegboard.mcp.server import ToolServer
from pegboard.mcp.subscriptions import MAX_LISTENING, MAX_WATCHED
from tests.cli.test_mcp import environment
from tests.ledger import owes
from tests.mcp.test_offers import clients, offering, serving
from tests.mcp.test_serving import modern
from tests.waiting import soon

pytestmark = [
    pytest.mark.slow,
    # The package calls what only the handshake era has deprecated.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
    # Its client leaves a pipe to the collector where a server takes over 2 s to end, as on a busy machine, and the
    # socket of a listening request that ends with it.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.usefixtures("collected"),
]

TOML = 'rules = ["deny read:private.txt"]\ntools = ["create_artifact", "rewrite_artifact", "read_artifact", "read_file", "write_file"]\n'
SKILL = "---\nname: {0}\ndescription: How to {0}.\n---\nDo it.\n"
FILE = "workspace:///a.txt"
UPDATED = "notifications/resources/updated"
LISTS = {w: f"notifications/{w}/list_changed" for w in ("tools", "prompts", "resources")}


@pytest.fixture
def collected() -> Iterator[None]:
    """What the package leaves to the collector is collected here, and not in another file's test."""
    yield
    gc.collect()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for folder in ("ws", ".config/pegboard", "skills/release"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ws/a.txt").write_text("hello\n")
    (tmp_path / "ws/private.txt").write_text("of the owner alone\n")
    (tmp_path / ".config/pegboard/pegboard.toml").write_text(TOML)
    (tmp_path / "skills/release/SKILL.md").write_text(SKILL.format("release"))
    return tmp_path


class Topic:
    """What one client of the official package was told, whichever way its era tells."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []

    async def message(self, message: Any) -> None:
        """A notification of the handshake era."""
        method = getattr(message, "method", "")
        if method in (UPDATED, *LISTS.values()):
            self.said.append((method, str(getattr(message.params, "uri", ""))))

    async def events(self, changes: Any) -> None:
        """The events of a listening request."""
        async for event in changes:
            kind = type(event).__name__
            known = {
                "ToolsListChanged": LISTS["tools"], "PromptsListChanged": LISTS["prompts"],
                "ResourcesListChanged": LISTS["resources"], "ResourceUpdated": UPDATED,
            }  # fmt: skip
            self.said.append((known[kind], str(getattr(event, "uri", ""))))

    async def comes(self, method: str, uri: str = "", *, of: int = 1) -> None:
        """Wait until it has been told so often."""
        await soon(lambda: self.said.count((method, uri)) >= of, f"{method} {uri}, not only {self.said}")


@asynccontextmanager
async def listening(server: Any, mode: str, *uris: str) -> AsyncIterator[tuple[Client, Topic]]:
    """A client that listens to all lists and some resources."""
    heard = Topic()
    async with Client(server, mode=mode, message_handler=heard.message) as client:  # type: ignore[arg-type]
        if mode == "legacy":
            for uri in uris:
                await client.session.subscribe_resource(uri)
            yield client, heard
            return
        async with client.listen(
            tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True,
            resource_subscriptions=uris,
        ) as changes:  # fmt: skip
            task = asyncio.create_task(heard.events(changes))
            yield client, heard
            task.cancel()


def served(place: Path, *words: str) -> StdioServerParameters:
    args = [
        "-m",
        "pegboard.cli.main",
        "mcp",
        "serve",
        "--tools",
        "*",
        "--skills",
        str(place / "skills"),
        *words,
    ]
    return StdioServerParameters(
        command=sys.executable, args=args, cwd=str(place / "ws"), env=environment(place)
    )


@asynccontextmanager
async def over_http(place: Path) -> AsyncIterator[str]:
    """`pegboard mcp serve --http`; its address, where no token is asked of a loopback test."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *served(place, "--http", "127.0.0.1:0").args, cwd=place / "ws",
        env=environment(place), stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    url = token = ""
    try:
        while not (url and token):
            line = (await process.stderr.readline()).decode()
            url = line.split("serves ")[1].strip() if "serves " in line else url
            token = line.rsplit(" ", 1)[1].strip() if "token" in line else token
        yield f"{url}#{token}"
    finally:
        process.terminate()
        await process.wait()


def http_client(address: str) -> Any:
    import httpx2

    url, _, token = address.partition("#")
    http = httpx2.AsyncClient(trust_env=False, headers={"authorization": f"Bearer {token}"}, timeout=30)
    return streamable_http_client(url, http_client=http)


# -- the whole way, as hosts start it ----------------------------------------------------------


@owes("K-79")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_what_a_client_watches_is_told_to_it_however_it_changes(
    transport: str, mode: str, place: Path
) -> None:
    async with everything(transport, place) as server, listening(server(), mode, FILE) as (client, heard):
        await client.list_resources()
        await client.list_prompts()

        # By a call of this client.
        await client.call_tool("write_file", {"path": "a.txt", "content": "by a call"})
        await heard.comes(UPDATED, FILE)
        # By hand, outside.
        (place / "ws/a.txt").write_text("by hand, longer")
        await heard.comes(UPDATED, FILE, of=2)
        # A new file is another list, and no news of the one that is watched.
        (place / "ws/new.txt").write_text("new")
        await heard.comes(LISTS["resources"])
        (place / "skills/deploy").mkdir()
        (place / "skills/deploy/SKILL.md").write_text(SKILL.format("deploy"))
        await heard.comes(LISTS["prompts"])
        names = {p.name for p in (await client.list_prompts()).prompts}
        (place / "ws/a.txt").unlink()
        await heard.comes(UPDATED, FILE, of=3)

    assert names == {"release", "deploy"}
    assert (LISTS["tools"], "") not in heard.said
    assert {uri for method, uri in heard.said if method == UPDATED} == {FILE}


@owes("K-79")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_what_another_client_does_is_told_to_the_one_that_watches(mode: str, place: Path) -> None:
    async with (
        everything("http", place) as server,
        listening(server(), mode, FILE) as (_, heard),
        Client(server(), mode="legacy") as other,
    ):
        await other.call_tool("write_file", {"path": "a.txt", "content": "by another"})
        await heard.comes(UPDATED, FILE)


@owes("K-79", "K-81")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_clients_artifact_is_watched_by_its_address(mode: str, place: Path) -> None:
    made = {"id": "plan", "title": "Plan", "content": "# one"}
    async with everything("stdio", place) as server, Client(server(), mode=mode) as first:
        assert not (await first.call_tool("create_artifact", made)).is_error
    async with (
        everything("stdio", place) as server,
        listening(server(), mode, "artifact:///plan") as (client, heard),
    ):
        await client.call_tool("rewrite_artifact", {"id": "plan", "content": "# two"})
        await heard.comes(UPDATED, "artifact:///plan")


@asynccontextmanager
async def everything(transport: str, place: Path) -> AsyncIterator[Callable[[], Any]]:
    """What a client connects to, made anew for each client."""
    if transport == "stdio":
        yield lambda: served(place)
        return
    async with over_http(place) as address:
        yield lambda: http_client(address)


# -- what is refused ---------------------------------------------------------------------------

FOREIGN = [
    "workspace:///no.txt",
    "workspace:///private.txt",
    "workspace:///../a.txt",
    "artifact:///other",
    "file:///etc/passwd",
]


@owes("K-79", "mcp-072")
async def test_what_a_client_may_not_read_it_cannot_watch_either(place: Path) -> None:
    async with everything("stdio", place) as server:
        async with Client(server(), mode="legacy") as old:
            codes = set[int]()
            for uri in FOREIGN:
                with pytest.raises(MCPError) as caught:
                    await old.session.subscribe_resource(uri)
                codes.add(caught.value.error.code)
        async with (
            Client(server(), mode="2026-07-28") as new,
            new.listen(resource_subscriptions=[*FOREIGN, FILE]) as changes,
        ):
            honoured = changes.honored.resource_subscriptions

    # The code of resources/read for what is not there, so that neither tells a denied file from none.
    assert codes == {-32002}
    assert honoured == [FILE]


@owes("K-79")
async def test_one_client_watches_so_many_resources_and_no_more() -> None:
    uris = [f"workspace:///{n}.txt" for n in range(MAX_WATCHED + 1)]
    service = await of_many(uris)
    async with clients(service) as (old, new, _):
        for uri in uris[:-1]:
            assert "result" in await old.ask("resources/subscribe", uri=uri)
        again = await old.ask("resources/subscribe", uri=uris[0])
        beyond = await old.ask("resources/subscribe", uri=uris[-1])
        await old.ask("resources/unsubscribe", uri=uris[0])
        after = await old.ask("resources/subscribe", uri=uris[-1])
        at_once = await new.ask("subscriptions/listen", notifications={"resourceSubscriptions": uris})

    assert "result" in again and "result" in after
    assert beyond["error"]["code"] == at_once["error"]["code"] == -32602
    assert f"{MAX_WATCHED} resources" in beyond["error"]["message"]
    assert beyond["error"]["data"] == {"limit": MAX_WATCHED}


@owes("K-79")
async def test_one_client_holds_so_many_listening_requests_and_no_more() -> None:
    from pegboard.mcp.request_context import Peer

    service = await offering()
    said: list[dict[str, Any]] = []
    ask = {"notifications": {"toolsListChanged": True}}
    held = [
        asyncio.ensure_future(
            service.handle(modern(n, "subscriptions/listen", **ask), Peer(send=lambda m, _: said.append(m)))
        )
        for n in range(MAX_LISTENING)
    ]
    await soon(lambda: len(said) == MAX_LISTENING, "all are acknowledged")

    beyond = await service.handle(modern(999, "subscriptions/listen", **ask), Peer(send=lambda m, _: None))
    held[0].cancel()
    await asyncio.gather(held[0], return_exceptions=True)
    last = asyncio.ensure_future(
        service.handle(modern(1000, "subscriptions/listen", **ask), Peer(send=lambda m, _: said.append(m)))
    )
    await soon(lambda: len(said) == MAX_LISTENING + 1, "there is room again")
    for task in (*held, last):
        task.cancel()
    await asyncio.gather(*held, last, return_exceptions=True)

    assert beyond is not None and beyond["error"]["code"] == -32602


async def of_many(uris: list[str]) -> ToolServer:
    from pegboard.mcp.resources import WorkspaceResources

    async def read(path: str) -> str:
        return path

    async def names() -> list[str]:
        return []

    plain = await offering()
    return ToolServer(
        plain.pipeline, plain.context, resources=WorkspaceResources(read, names, read), look_s=0.02
    )


# -- only while somebody listens, and whatever can break ---------------------------------------


class Counting:
    """One resource that is counted when it is looked at."""

    def __init__(self) -> None:
        self.looks = self.lists = 0
        self.value: Any = 1

    async def list(self) -> list[dict[str, Any]]:
        self.lists += 1
        return [{"uri": "x:1", "name": "one"}]

    async def templates(self) -> list[dict[str, Any]]:
        return []

    async def read(self, uri: str) -> list[dict[str, Any]]:
        return [{"uri": uri, "text": "one"}]

    async def etag(self, uri: str) -> Any:
        self.looks += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


@owes("K-79")
async def test_nothing_is_looked_at_once_nobody_listens() -> None:
    plain = await offering()
    things = Counting()
    service = ToolServer(plain.pipeline, plain.context, resources=things, look_s=0.01)
    async with serving(service) as url:
        async with Client(url, mode="legacy") as client:
            await client.session.subscribe_resource("x:1")
            await soon(lambda: things.looks > 5, "it is looked at")
        await soon(lambda: not _watching(), "the watch has ended")
        before = (things.looks, things.lists)
        async with Client(url, mode="2026-07-28") as client:
            await client.list_tools()
            unheard = (things.looks, things.lists)
            async with client.listen(resource_subscriptions=["x:1"]):
                await soon(lambda: things.looks > before[0] + 5, "it is looked at again")
        await soon(lambda: not _watching(), "the watch has ended again")

    assert unheard == before
    # Whoever hears of one resource has no list looked at.
    assert things.lists == before[1]


def _watching() -> bool:
    return any(t.get_name() == "mcp-watch" and not t.done() for t in asyncio.all_tasks())


@owes("K-79")
async def test_a_resource_that_cannot_be_looked_at_does_not_silence_the_others() -> None:
    plain = await offering()
    things = Counting()
    service = ToolServer(plain.pipeline, plain.context, resources=things, look_s=0.01)
    async with serving(service) as url, listening(url, "legacy", "x:1") as (_, heard):
        things.value = OSError("the disk is gone")
        await heard.comes(UPDATED, "x:1")
        things.value = 2
        await heard.comes(UPDATED, "x:1", of=2)


@pytest.mark.full
@owes("K-79")
async def test_a_client_without_a_stream_is_told_when_it_listens_again() -> None:
    plain = await offering()
    things = Counting()
    service = ToolServer(plain.pipeline, plain.context, resources=things, look_s=0.01)
    async with clients(service) as (old, _, _):
        await old.ask("resources/subscribe", uri="x:1")
        things.value = 2
        lines: list[str] = []
        headers = {**old.headers, "accept": "text/event-stream"}
        async with asyncio.timeout(20), old.http.stream("GET", old.url, headers=headers) as answer:
            async for line in answer.aiter_lines():
                lines.append(line)
                if UPDATED in line:
                    break

    assert '"uri":"x:1"' in lines[-1]


# -- tools that come from elsewhere ------------------------------------------------------------

UPSTREAM = """
import json, sys
from pathlib import Path
def say(**m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
tools = [{"name": "one", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        say(id=m["id"], result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
                                "serverInfo": {"name": "up", "version": "1"}})
    elif m.get("method") == "tools/list":
        say(id=m["id"], result={"tools": tools})
    elif m.get("method") == "tools/call":
        tools.append({"name": "two", "inputSchema": {"type": "object"}})
        say(id=m["id"], result={"content": [{"type": "text", "text": "grown"}]})
        say(method="notifications/tools/list_changed")
    elif "id" in m:
        say(id=m["id"], error={"code": -32601, "message": "no"})
"""


@tool(effects=PURE)
async def own() -> str:
    """One of our own."""
    return "own"


@owes("K-79", "K-81")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_tools_of_a_served_mcp_server_come_and_the_client_is_told(mode: str, tmp_path: Path) -> None:
    (tmp_path / "up.py").write_text(UPSTREAM)
    upstream = MCPServer("up", command=sys.executable, args=[str(tmp_path / "up.py")])
    async with Executor([Toolkit([own]), upstream], approver=AllowOnce()) as door:
        await door.refresh_tools()
        service = ToolServer(door.pipeline, door.context, sources=door, look_s=0.02)
        async with serving(service) as url, listening(url, mode) as (client, heard):
            before = {t.name for t in (await client.list_tools()).tools}
            grown = await client.call_tool("mcp_up_one", {})
            await heard.comes(LISTS["tools"])
            after = {t.name for t in (await client.list_tools(cache_mode="bypass")).tools}

    assert grown.content[0].text == "grown"  # type: ignore[union-attr]
    assert before == {"own", "mcp_up_one"}
    assert after == {"own", "mcp_up_one", "mcp_up_two"}
