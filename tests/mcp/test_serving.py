"""Our server: the package's own client as peer on pipes, raw HTTP against the corpus of hostile clients."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest

from mcp import Client, StdioServerParameters
from pegboard.mcp.client import MCPServer
from pegboard.mcp.serve_http import serve_http
from tests.ledger import owes
from tests.mcp.served import build
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
SERVED = str(Path(__file__).with_name("served.py"))
ENV = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": os.environ["PATH"]}
HANDSHAKE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def modern(id: Any, method: str, capabilities: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities or {},
    }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}


def stdio(*words: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=[SERVED, "stdio", *words], env=ENV)


@asynccontextmanager
async def http(**options: Any) -> AsyncIterator[tuple[str, httpx2.AsyncClient]]:
    """Our server on a free port, and a client without any habits."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    token = options.pop("token", None)
    request_s = options.pop("request_s", 15.0)
    serving = asyncio.ensure_future(
        serve_http(
            build(**options),
            host="127.0.0.1",
            port=0,
            token=token,
            on_start=port.set_result,
            request_s=request_s,
        )
    )
    try:
        url = f"http://127.0.0.1:{await port}/mcp"
        headers = {"accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(trust_env=False, headers=headers, timeout=20) as client:
            yield url, client
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def opened(url: str, client: httpx2.AsyncClient, **headers: str) -> dict[str, str]:
    answer = await client.post(url, json=HANDSHAKE, headers=headers)
    assert answer.status_code == 200, answer.text
    return {"mcp-session-id": answer.headers["mcp-session-id"], **headers}


def calling(id: Any, name: str, **arguments: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    }


# -- pipes ------------------------------------------------------------------------------------


@owes("K-81")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.slow
async def test_the_packages_own_client_is_served_in_both_eras(mode: str) -> None:
    progress: list[float] = []

    async def told(done: float, total: float | None, message: str | None) -> None:
        progress.append(done)

    async with Client(stdio(), mode=mode) as client:
        tools = {t.name: t for t in (await client.list_tools()).tools}
        text = await client.call_tool("echo", {"text": "hi"})
        data = await client.call_tool("add", {"a": 2, "b": 3})
        wrong = await client.call_tool("add", {"a": "x"})
        await client.call_tool("wait", {"seconds": 0.05}, progress_callback=told)
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        version = client.protocol_version

    assert version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    assert text.content[0].text == "hi"
    assert data.structured_content == {"sum": 5}
    assert tools["add"].output_schema is not None
    assert tools["echo"].annotations.read_only_hint is True
    assert tools["send_mail"].annotations.read_only_hint is False
    assert wrong.is_error and ".b" in wrong.content[0].text
    assert progress == [1.0]
    assert prompt.messages[0].content.text == "Hello Ada!"


@owes("mcp-107")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.slow
async def test_a_call_that_asks_runs_only_where_a_trusted_clients_user_allows_it(mode: str) -> None:
    asked: list[str] = []

    async def allow(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "allow once"})

    async def refuse(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    async def outcome(*words: str, answer: Any = None) -> types.CallToolResult:
        async with Client(stdio(*words), mode=mode, elicitation_callback=answer) as client:
            return await client.call_tool("send_mail", {"text": "x"})

    untrusted = await outcome(answer=allow)
    nobody = await outcome("trusted")
    refused = await outcome("trusted", answer=refuse)
    allowed = await outcome("trusted", answer=allow)

    assert untrusted.is_error and "--trust-clients" in untrusted.content[0].text
    assert nobody.is_error and "elicitation" in nobody.content[0].text
    assert refused.is_error and "refused" in refused.content[0].text
    assert allowed.content[0].text == "sent x"
    assert len(asked) == 1 and "send mail:boss" in asked[0]


@owes("mcp-11")
@pytest.mark.parametrize("how", ["close", "kill"])
@pytest.mark.slow
def test_our_server_ends_when_its_client_vanishes_and_prints_protocol_only(how: str) -> None:
    parent = None
    if how == "kill":
        # A client that is killed: its end of the pipe closes without a word.
        code = (
            "import subprocess, sys, time\n"
            f"p = subprocess.Popen([sys.executable, {SERVED!r}, 'stdio'], stdin=subprocess.PIPE)\n"
            "print(p.pid, flush=True)\ntime.sleep(600)"
        )
        parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=ENV)
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        parent.stdout.close()
        assert _gone(pid)
        return
    server = subprocess.Popen(
        [sys.executable, SERVED, "stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENV,
    )
    assert server.stdin and server.stdout
    server.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in (HANDSHAKE, calling(2, "child"))))
    server.stdin.flush()
    lines = [json.loads(server.stdout.readline()) for _ in range(2)]
    server.stdin.close()

    assert server.wait(5) == 0
    assert server.stdout.read() == b""
    server.stdout.close()
    assert {line["id"] for line in lines} == {1, 2}
    os.kill(int(lines[1]["result"]["content"][0]["text"]), signal.SIGKILL)


@pytest.mark.slow
async def test_our_client_against_our_server_keeps_everything_in_order() -> None:
    server = MCPServer("own", command=sys.executable, args=[SERVED, "stdio"], env=ENV)
    try:
        tools = {t.name: t for t in await server.tools()}
        assert server.protocol == "2026-07-28"
        results = await asyncio.gather(*(tools["mcp_own_echo"](text=str(n)) for n in range(50)))
        assert [r.text for r in results] == [str(n) for n in range(50)]
    finally:
        await server.aclose()


@owes("G-13", "K-81")
@pytest.mark.slow
async def test_a_declared_result_is_listed_with_its_schema_and_given_as_data() -> None:
    server = MCPServer("own", command=sys.executable, args=[SERVED, "stdio"], env=ENV)
    try:
        tools = {t.name: t for t in await server.tools()}
        assert server.catalogue is not None
        offered = {o.original: o.output for o in server.catalogue.offers}
        result = await tools["mcp_own_add"](a=2, b=3)
    finally:
        await server.aclose()

    assert offered["add"] is not None and offered["add"]["additionalProperties"] == {"type": "integer"}
    assert offered["echo"] is None
    assert result.data == {"sum": 5}


@pytest.mark.slow
async def test_what_is_no_request_gets_the_protocols_own_error() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, SERVED, "stdio", stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, env=ENV
    )
    assert process.stdin and process.stdout
    lines = [
        b"no json", b"[]", b'{"jsonrpc":"2.0","id":5,"method":"tools/list"}', json.dumps(HANDSHAKE).encode(),
        b'{"jsonrpc":"2.0","id":6,"method":"nothing/such"}', b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":3}', b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
        b'{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"nope"}}',
        b'{"jsonrpc":"2.0","id":9,"method":"tools/list","params":{"cursor":"x"}}',
        b'{"jsonrpc":"2.0","id":10,"method":"logging/setLevel","params":{"level":"loud"}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        b'{"jsonrpc":"2.0","id":[],"result":{}}', b'{"jsonrpc":"2.0","id":{},"error":{}}',
        b'{"jsonrpc":"2.0","id":12,"method":null}', b'{"jsonrpc":"2.0","method":null}',
        b'{"jsonrpc":"2.0","id":11,"method":"ping"}',
    ]  # fmt: skip
    process.stdin.write(b"\n".join(lines) + b"\n")
    process.stdin.close()

    out = [json.loads(line) for line in (await process.stdout.read()).splitlines()]
    await process.wait()

    codes = {r["id"]: r.get("error", {}).get("code") for r in out if r["id"] is not None}
    assert codes == {1: None, 5: -32600, 6: -32601, 7: -32602, 8: -32602, 9: -32602, 10: -32602, 11: None}
    assert [r["error"]["code"] for r in out if r["id"] is None] == [-32700, -32600, -32600, -32600]


@pytest.mark.slow
async def test_a_message_that_is_too_long_costs_only_itself() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, SERVED, "stdio", stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, env=ENV
    )
    assert process.stdin and process.stdout
    padding = "x" * (17 << 20)
    call = {"name": "echo", "arguments": {"text": padding}}
    long = [
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"id": 4, **call}},
        {"jsonrpc": "2.0", "method": "tools/call", "params": {"id": 4, **call}, "id": 3},
    ]
    messages = [HANDSHAKE, *long, {"jsonrpc": "2.0", "id": 4, "method": "ping"}]
    process.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in messages))
    await process.stdin.drain()
    process.stdin.close()

    out = [json.loads(line) for line in (await process.stdout.read()).splitlines()]
    await process.wait()

    assert {r["id"]: r.get("error", {}).get("code") for r in out} == {
        1: None, 2: -32600, 3: -32600, None: -32600, 4: None,
    }  # fmt: skip


# -- HTTP -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_hostile_heads_are_refused() -> None:
    async with http() as (url, client):

        async def status(**more: Any) -> int:
            return (await client.post(url, json=HANDSHAKE, **more)).status_code

        assert await status(headers={"host": "localhost:8765@evil.example"}) in (400, 403)
        assert await status(headers={"host": "evil.example"}) == 403
        assert await status(headers={"origin": "https://evil.example"}) == 403
        assert await status(headers={"origin": "http://localhost:9999"}) == 403
        assert await status(params={"token": "abc"}) == 400
        assert await status(headers={"content-type": "text/plain"}) == 415
        assert await status(headers={"accept": "text/html"}) == 406
        assert (await client.get(url.replace("/mcp", "/files/%2e%2e/%2e%2e/etc/passwd"))).status_code == 404
        preflight = await client.options(
            url, headers={"origin": "https://evil.example", "access-control-request-private-network": "true"}
        )
        assert preflight.status_code == 403
        assert not [h for h in preflight.headers if h.startswith("access-control")]
        same = await client.options(url)
        assert not [h for h in same.headers if h.startswith("access-control")]


@pytest.mark.slow
async def test_a_wrong_token_is_refused_and_a_thousand_tries_are_slowed_down() -> None:
    async with http(token="right") as (url, client):
        right = {"authorization": "Bearer right"}
        assert (await client.post(url, json=HANDSHAKE)).status_code == 401
        statuses = {
            (await client.post(url, json=HANDSHAKE, headers={"authorization": f"Bearer {n}"})).status_code
            for n in range(60)
        }
        assert statuses == {401, 429}
        assert (await client.post(url, json=HANDSHAKE, headers=right)).status_code == 200


def test_without_a_token_only_loopback_is_served() -> None:
    with pytest.raises(ValueError, match="token"):
        asyncio.run(serve_http(build(), host="0.0.0.0", port=0, token=None))


@pytest.mark.slow
async def test_bodies_that_are_too_big_or_heads_that_never_end_are_cut_off() -> None:
    async with http(request_s=0.3) as (url, _):
        port = int(url.split(":")[2].split("/")[0])
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: application/json, text/event-stream\r\n"
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            (head + "Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{").encode()
        )
        assert b"413" in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        slow_reader, slow_writer = await asyncio.open_connection("127.0.0.1", port)
        slow_writer.write(b"POST /mcp HTTP/1.1\r\nHo")
        assert await asyncio.wait_for(slow_reader.read(), 5) == b""
        slow_writer.close()


@owes("mcp-110", "mcp-111")
@pytest.mark.slow
async def test_two_clients_with_equal_ids_get_their_own_answers_and_no_others_session() -> None:
    async with http() as (url, client):
        one, two = await opened(url, client), await opened(url, client)

        answers = await asyncio.gather(
            *(
                client.post(url, json=calling(7, "echo", text=f"{n}"), headers=one if n % 2 else two)
                for n in range(2)
            )
        )

        assert [a.json()["result"]["content"][0]["text"] for a in answers] == ["0", "1"]
        assert (await client.post(url, json=calling(8, "echo", text="x"))).status_code == 400
        assert (
            await client.post(url, json=calling(8, "echo", text="x"), headers={"mcp-session-id": "made-up"})
        ).status_code == 404
        assert (await client.delete(url, headers=one)).status_code == 200
        assert (await client.post(url, json=calling(9, "echo", text="x"), headers=one)).status_code == 404
        assert (await client.post(url, json=calling(9, "echo", text="x"), headers=two)).status_code == 200


@pytest.mark.slow
async def test_progress_comes_as_events_and_the_answer_last_and_can_be_taken_up_again() -> None:
    async with http() as (url, client):
        session = await opened(url, client)
        request = calling(3, "wait", seconds=0.05)
        request["params"]["_meta"] = {"progressToken": "p"}

        answer = await client.post(url, json=request, headers=session)

        events = [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        ids = [line[4:] for line in answer.text.splitlines() if line.startswith("id: ")]
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert events[0]["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
        assert events[-1]["result"]["content"][0]["text"] == "waited"
        again = await client.get(url, headers={**session, "last-event-id": ids[1]})
        assert '"waited"' in again.text and '"half"' not in again.text


@pytest.mark.slow
async def test_the_stateless_era_checks_its_envelope_and_headers() -> None:
    async with http() as (url, client):

        async def post(message: dict[str, Any], **headers: str) -> httpx2.Response:
            return await client.post(
                url, json=message, headers={k.replace("_", "-"): v for k, v in headers.items()}
            )

        good = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "echo"}
        call = modern(1, "tools/call", name="echo", arguments={"text": "x"})

        fine = await post(call, **good)
        wrong = await post(call, **{**good, "mcp_name": "add"})
        unknown = await post(modern(2, "ping"), mcp_protocol_version="2026-07-28", mcp_method="ping")
        version = await post(call, **{**good, "mcp_protocol_version": "2030-01-01"})
        missing = await post(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, mcp_protocol_version="2026-07-28"
        )
        notified = await post(
            {"jsonrpc": "2.0", "method": "notifications/x"}, mcp_protocol_version="2026-07-28"
        )
        got = await client.get(url, headers={"mcp-protocol-version": "2026-07-28"})

    assert fine.json()["result"]["resultType"] == "complete"
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, -32020)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, -32601)
    assert (version.status_code, version.json()["error"]["code"]) == (400, -32020)
    assert (missing.status_code, missing.json()["error"]["code"]) == (400, -32602)
    assert notified.status_code == 202
    assert got.status_code == 405


@pytest.mark.slow
async def test_changes_are_told_to_whoever_listens() -> None:
    service = build()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve_http(service, host="127.0.0.1", port=0, token=None, on_start=port.set_result)
    )
    server = MCPServer("own", url=f"http://127.0.0.1:{await port}/mcp")
    try:
        await server.tools()
        before = server.catalogue
        async with asyncio.timeout(10):
            while server.catalogue is before:
                service.tools_changed()
                await asyncio.sleep(0.05)
        assert server.protocol == "2026-07-28"
    finally:
        await server.aclose()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


def _gone(pid: int) -> bool:
    from pegboard.process import child

    return until(lambda: child.is_zombie(pid), f"process {pid} has ended", within_s=5)
