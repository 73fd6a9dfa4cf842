"""What is said between a call and its answer: questions in both eras, tasks, pipes in this process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pegboard import PURE, Executor, Inject, ToolError, Toolkit, tool
from pegboard.core.errors import Unavailable
from pegboard.mcp.client import MCPServer
from pegboard.mcp.client_approver import ClientApprover, ClientPeople
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.request_context import CallingClient
from pegboard.mcp.serve_http import serve_http
from pegboard.mcp.serve_stdio import serve_stdio
from pegboard.mcp.server import ToolServer
from pegboard.mcp.tasks import EXTENSION
from pegboard.tools.ask_user import ask_user
from tests.ledger import owes
from tests.mcp.served import build, send_mail
from tests.mcp.test_serving import HANDSHAKE, calling, http, modern

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Person:
    """Answers every question with the first option, else with a name."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, questions: Sequence[Any]) -> list[str]:
        self.asked += [q.text for q in questions]
        return [q.options[0] if q.options else "Ada" for q in questions]


@tool(effects=PURE)
async def two_names(client: Inject[CallingClient]) -> str:
    """Ask twice."""
    first = await client.elicit("First name?", NAME, key="first")
    second = await client.elicit("Last name?", NAME, key="last")
    return f"{first['content']['name']} {second['content']['name']}"


@tool(effects=PURE)
async def needs_sampling(client: Inject[CallingClient]) -> str:
    """Ask the client's model."""
    return str(await client.sample({"messages": [], "maxTokens": 1}))


@tool(effects=PURE)
async def chatty(client: Inject[CallingClient]) -> str:
    """Log and report."""
    from pegboard import current_context

    client.log("warning", "careful")
    current_context().emit("one step")
    current_context().emit({"progress": 5, "total": 9})
    current_context().emit({"log": "by the way", "level": "error"})
    return "done"


@tool(effects=PURE)
async def slow_question(client: Inject[CallingClient]) -> str:
    """Ask two things after a while."""
    await asyncio.sleep(0.15)
    asks = {
        k: ("elicitation", "elicitation/create", {"message": k, "requestedSchema": NAME}) for k in ("a", "b")
    }
    return json.dumps(await client.request_inputs(asks))


@tool(effects=PURE)
async def broken() -> str:
    """Fail as the protocol fails."""
    await asyncio.sleep(0.15)
    raise ToolError("no", code="rpc", details={"rpc": -32603})


def service(**options: Any) -> ToolServer:
    kit = Toolkit([two_names, needs_sampling, chatty, slow_question, broken, send_mail, ask_user])
    door = Executor(kit, approver=ClientApprover(trusted=True), provide=[CallingClient(), ClientPeople()])
    return ToolServer(door.pipeline, door.context, **options)


@asynccontextmanager
async def client_of(served: ToolServer, protocol: str) -> AsyncIterator[MCPServer]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve_http(served, host="127.0.0.1", port=0, token=None, on_start=port.set_result)
    )
    config = ServerConfig(
        name="own", transport="streamable_http", url=f"http://127.0.0.1:{await port}/mcp", protocol=protocol
    )
    server = MCPServer(config=config)
    try:
        yield server
    finally:
        await server.aclose()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("protocol", ["2025-11-25", "auto"])
@pytest.mark.slow
async def test_questions_go_to_the_clients_user_and_back_in_both_eras(protocol: str) -> None:
    person = Person()
    async with client_of(service(), protocol) as server:
        async with Executor([server], policy=["allow call:own/*"], provide=[person]) as door:
            names = await door.call("mcp_own_two_names", {})
            mail = await door.call("mcp_own_send_mail", {"text": "hi"})
            asked = await door.call(
                "mcp_own_ask_user", {"question": "Which colour?", "options": ["red", "blue"]}
            )
            sampled = await door.call("mcp_own_needs_sampling", {})
            assert server.protocol == ("2026-07-28" if protocol == "auto" else protocol)
    assert names.text == "Ada Ada"
    assert mail.text == "sent hi"
    assert asked.text.startswith("Ada")
    assert not sampled.ok and "sampling" in str(sampled.error)
    assert any("send_mail wants to" in text and "send mail:boss" in text for text in person.asked)


@pytest.mark.slow
async def test_a_client_that_cannot_ask_is_told_how_to_allow_a_call() -> None:
    async with client_of(service(), "2025-11-25") as server:
        async with Executor([server], policy=["allow call:own/*"]) as door:
            mail = await door.call("mcp_own_send_mail", {"text": "hi"})

    assert not mail.ok and "refused" in mail.text


@pytest.mark.slow
async def test_progress_of_a_served_call_reaches_whoever_listens() -> None:
    from pegboard.core.events import CallUpdate

    async with client_of(service(), "2025-11-25") as server:
        async with Executor([server], policy=["allow call:own/*"]) as door:
            result = await door.call("mcp_own_chatty", {})
            updates = [e.update for e in door.events if isinstance(e, CallUpdate)]

    assert result.text == "done"
    assert [u["progress"] for u in updates] == [1.0, 5.0]


@owes("mcp-11")
async def test_a_pipe_in_this_process_is_served_until_it_closes() -> None:
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    serving = asyncio.ensure_future(serve_stdio(build(), source=in_r, sink=out_w))
    first = [
        HANDSHAKE,
        calling(2, "echo", text="hi"),
        calling(3, "wait", seconds=30),
        calling(3, "echo", text="again"),
    ]
    os.write(in_w, b"".join(json.dumps(m).encode() + b"\n" for m in first) + b"not json\n\n")
    out = os.fdopen(out_r, "rb")
    lines = [json.loads(await asyncio.to_thread(out.readline)) for _ in range(4)]
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
    os.write(in_w, json.dumps(cancel).encode() + b"\n")

    os.close(in_w)
    async with asyncio.timeout(5):
        await serving
    rest = await asyncio.to_thread(out.read)
    out.close()

    by_id = {line["id"]: line for line in lines}
    assert by_id[2]["result"]["content"][0]["text"] == "hi"
    assert "already running" in by_id[3]["error"]["message"]
    assert by_id[None]["error"]["code"] == -32700
    assert rest == b""


@pytest.mark.slow
async def test_long_calls_become_tasks_for_clients_that_can_and_only_for_them() -> None:
    can = {"extensions": {EXTENSION: {}}, "elicitation": {}}
    async with http(task_after_s=0.05, task_modes={"send_mail": "required"}) as (url, client):

        async def post(
            method: str, capabilities: dict[str, Any], routed: str, /, **params: Any
        ) -> dict[str, Any]:
            headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": routed}
            answer = await client.post(url, json=modern(1, method, capabilities, **params), headers=headers)
            return answer.json()

        def call(name: str, capabilities: dict[str, Any], **arguments: Any) -> Any:
            return post("tools/call", capabilities, name, name=name, arguments=arguments)

        plain = await call("wait", {}, seconds=0.15)
        quick = await call("echo", can, text="x")
        refused = await call("send_mail", {}, text="x")
        begun = await call("wait", can, seconds=0.3)
        id = begun["result"]["taskId"]
        got = await post("tasks/get", can, id, taskId=id)
        async with asyncio.timeout(10):
            while got["result"]["status"] == "working":
                await asyncio.sleep(0.05)
                got = await post("tasks/get", can, id, taskId=id)
        other = (await call("wait", can, seconds=60))["result"]["taskId"]
        cancelled = await post("tasks/cancel", can, other, taskId=other)
        after = await post("tasks/get", can, other, taskId=other)
        unknown = await post("tasks/get", can, "none", taskId="none")
        incapable = await post("tasks/get", {}, id, taskId=id)
        mismatch = await post("tasks/get", can, "another", taskId=id)

    assert plain["result"]["content"][0]["text"] == "waited"
    assert quick["result"]["resultType"] == "complete"
    assert refused["error"]["code"] == -32021
    assert begun["result"]["resultType"] == "task" and begun["result"]["status"] == "working"
    assert (
        got["result"]["status"] == "completed" and got["result"]["result"]["content"][0]["text"] == "waited"
    )
    assert cancelled["result"]["resultType"] == "complete" and after["result"]["status"] == "cancelled"
    assert unknown["error"]["code"] == -32602
    assert incapable["error"]["code"] == -32021
    assert mismatch["error"]["code"] == -32020


async def test_a_task_asks_its_questions_where_it_is_looked_after() -> None:
    served = service(task_after_s=0.01)
    said: list[dict[str, Any]] = []
    from pegboard.mcp.request_context import Peer

    peer = Peer(send=lambda m, _: said.append(m))
    can = {"extensions": {EXTENSION: {}}, "elicitation": {}}

    async def ask(method: str, **params: Any) -> dict[str, Any]:
        reply = await served.handle(modern(1, method, can, **params), peer)
        assert reply is not None
        return reply["result"]

    id = (await ask("tools/call", name="slow_question", arguments={}))["taskId"]
    failing = (await ask("tools/call", name="broken", arguments={}))["taskId"]
    listening = asyncio.ensure_future(
        served.handle(modern(9, "subscriptions/listen", can, notifications={"taskIds": [id]}), peer)
    )
    detail = await ask("tasks/get", taskId=id)
    async with asyncio.timeout(5):
        while detail["status"] == "working":
            await asyncio.sleep(0.02)
            detail = await ask("tasks/get", taskId=id)
    await ask("tasks/update", taskId=id, inputResponses={"a": {"action": "accept", "content": {"name": "x"}}})
    half = await ask("tasks/get", taskId=id)
    await ask("tasks/update", taskId=id, inputResponses={"b": {"action": "decline"}, "nobody-asked": {}})
    async with asyncio.timeout(5):
        while (await ask("tasks/get", taskId=id))["status"] != "completed":
            await asyncio.sleep(0.02)
        while (broken_one := await ask("tasks/get", taskId=failing))["status"] == "working":
            await asyncio.sleep(0.02)
    listening.cancel()

    assert detail["status"] == "input_required" and set(detail["inputRequests"]) == {"a", "b"}
    assert half["status"] == "input_required" and set(half["inputRequests"]) == {"b"}
    assert broken_one["status"] == "failed" and broken_one["error"]["code"] == -32603
    assert any(m.get("method") == "notifications/tasks" for m in said)


async def test_outside_a_served_call_there_is_no_client() -> None:
    with pytest.raises(Unavailable):
        CallingClient().progress(1)
    assert (await ClientApprover(trusted=True).decide(_request())).reason.startswith("it needs approval")
    assert (await ClientApprover(trusted=False, approved=True).decide(_request())).by == "--yes"


def _request() -> Any:
    from pegboard.core.content import ToolCall
    from pegboard.core.policy.approval import ApprovalRequest

    return ApprovalRequest(id="ap", call=ToolCall("1", "t", {}), tool="t", effects=())
