"""JSON-RPC batches, both ways: revision 2025-03-26 has them, every other one answers them with an error (K-79, K-81).

What counts is JSON-RPC 2.0 §6 and the transports page of 2025-03-26.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pegboard import AllowOnce, Executor
from pegboard.mcp.client import MCPServer
from tests.ledger import owes
from tests.mcp.conftest import tool
from tests.mcp.test_posting import Asked, door_to, served
from tests.mcp.test_serving import ENV, HANDSHAKE, SERVED, calling, http, modern, opened
from tests.waiting import soon

Make = Callable[..., MCPServer]
NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
FINE = '{"jsonrpc":"2.0","id":@id,"result":{"content":[{"type":"text","text":"fine"}]}}'
PING = '{"jsonrpc":"2.0","id":"p","method":"ping"}'
ROOTS = '{"jsonrpc":"2.0","id":"r","method":"roots/list"}'


def saying(peer: Make, *lines: str, version: str = "2025-03-26", reads: int = 0) -> MCPServer:
    return peer(
        tools=[tool("t")], behave={"t": "lines"}, lines={"t": list(lines)}, reads={"t": reads} if reads else {},
        version=version, _timeout_s=5.0,
    )  # fmt: skip


async def called(server: MCPServer) -> Any:
    async with Executor([server], approver=AllowOnce()) as door:
        return await door.call("mcp_s_t", {})


# -- the client, on pipes ---------------------------------------------------------------------


@owes("K-79")
@pytest.mark.parametrize(
    "batch", [f"[{FINE}]", f"[{NOTE},{FINE}]", f"[{FINE},5]"], ids=["one", "both", "odd"]
)
@pytest.mark.slow
async def test_answers_in_a_batch_arrive_where_the_revision_has_batches(batch: str, peer: Make) -> None:
    assert (await called(saying(peer, batch))).text == "fine"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
@pytest.mark.slow
async def test_answers_in_a_batch_are_an_error_at_once_where_it_has_none(version: str, peer: Make) -> None:
    result = await called(saying(peer, f"[{FINE}]", version=version))

    assert result.error is not None and result.error.code == "result_unreadable"
    assert "batch" in result.error.message and version in result.error.message


@pytest.mark.slow
async def test_a_batch_of_questions_is_answered_in_one_batch(peer: Make) -> None:
    result = await called(saying(peer, f"[{PING},{NOTE},7,{ROOTS}]", reads=1))

    replies = json.loads(result.text)
    by_id = {reply["id"]: reply for reply in replies}
    assert len(replies) == 3 and by_id["p"]["result"] == {}
    assert by_id["r"]["error"]["code"] in (-32600, -32601) and by_id[None]["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("line", "version"),
    [("[]", "2025-03-26"), ("[]", "2025-11-25"), (f"[{PING}]", "2025-11-25"), (f"[{NOTE}]", "2025-06-18")],
)
@pytest.mark.slow
async def test_a_batch_that_has_no_place_is_answered_with_one_error(
    line: str, version: str, peer: Make
) -> None:
    reply = json.loads((await called(saying(peer, line, version=version, reads=1))).text)

    assert reply["id"] is None and reply["error"]["code"] == -32600 and "batch" in reply["error"]["message"]


@pytest.mark.slow
async def test_a_question_that_is_taken_back_does_not_hold_up_the_other_answers(peer: Make) -> None:
    ask = {"jsonrpc": "2.0", "id": "e", "method": "elicitation/create",
           "params": {"message": "m", "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}}  # fmt: skip
    back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "e"}}
    server = saying(peer, f"[{json.dumps(ask)},{PING},{json.dumps(back)}]", reads=1)

    class Slow:
        async def ask(self, questions: Any) -> list[str]:
            await asyncio.Event().wait()
            return []

    async with Executor([server], approver=AllowOnce(), provide=[Slow()]) as door:
        replies = json.loads((await door.call("mcp_s_t", {})).text)

    assert [reply["id"] for reply in replies] == ["p"]


# -- the client, over HTTP --------------------------------------------------------------------


def over(kind: str, batch: str) -> Any:
    """Answers calls with this batch."""

    async def behave(asked: Asked) -> None:
        body = batch.replace("@id", str(asked.message["id"]))
        if kind == "events":
            await asked.events(f"data: {body}")
        else:
            await asked.answer(200, body)

    return behave


@pytest.mark.parametrize("kind", ["json", "events"])
@pytest.mark.parametrize(
    "batch", [f"[{FINE}]", f"[{NOTE},{FINE}]", f"[{PING},{FINE}]"], ids=["one", "note", "ask"]
)
@pytest.mark.slow
async def test_a_batch_in_a_response_holds_the_answer(batch: str, kind: str) -> None:
    async with served(over(kind, batch), version="2025-03-26") as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})
        if PING in batch:
            await soon(lambda: any(isinstance(a.message, list) for a in server.seen), "the ping is answered")

    assert result.text == "fine"
    for asked in server.seen:
        if isinstance(asked.message, list):
            assert asked.message == [{"jsonrpc": "2.0", "id": "p", "result": {}}]


@pytest.mark.parametrize("kind", ["json", "events"])
@pytest.mark.slow
async def test_a_batch_in_a_response_is_one_error_where_the_revision_has_none(kind: str) -> None:
    async with served(over(kind, f"[{FINE}]")) as server, door_to(server) as door:
        result = await door.call("mcp_s_t", {})

    assert result.error is not None and "only revision 2025-03-26" in result.error.message


# -- the server, on pipes ---------------------------------------------------------------------


def initialized(version: str) -> dict[str, Any]:
    return {**HANDSHAKE, "params": {**HANDSHAKE["params"], "protocolVersion": version}}


def exchanged(*messages: Any, answers: int) -> list[Any]:
    """What our server writes to these lines, the introduction left out."""
    process = subprocess.Popen([sys.executable, SERVED, "stdio"], stdin=-1, stdout=-1, stderr=-3, env=ENV)
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in messages))
        process.stdin.flush()
        return [json.loads(process.stdout.readline()) for _ in range(answers + 1)][1:]
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


LIST = {"jsonrpc": "2.0", "id": "l", "method": "tools/list"}
DONE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@owes("K-81")
@pytest.mark.slow
def test_our_server_answers_a_batch_in_one_message_with_each_entrys_own_answer() -> None:
    batch = [
        LIST, DONE, calling(5, "echo", text="hi"), calling(6, "nothing"), 7, [], {"jsonrpc": "2.0", "id": 8},
        {**HANDSHAKE, "id": 9}, calling(5, "echo", text="again"), {"id": 10, "method": "ping"},
    ]  # fmt: skip

    (replies,) = exchanged(initialized("2025-03-26"), batch, answers=1)

    said: dict[Any, list[Any]] = {}
    for reply in replies:
        said.setdefault(reply["id"], []).append(reply)
    assert len(said["l"][0]["result"]["tools"]) == 5
    # One of the two that share an id is answered, the other refused; which, the order decides.
    assert [r["result"]["content"][0]["text"] for r in said[5] if "result" in r] == ["hi"]
    assert [r["error"]["code"] for r in said[5] if "error" in r] == [-32600]
    assert said[6][0]["error"]["code"] == -32602
    assert said[9][0]["error"]["code"] == -32600 and "initialize" in said[9][0]["error"]["message"]
    assert [r["error"]["code"] for r in said[None]] == [-32600] * 3
    assert 8 not in said  # an answer to nothing that was asked


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
@pytest.mark.slow
def test_our_server_refuses_a_batch_of_another_revision_in_words_and_goes_on(version: str) -> None:
    refused, listed = exchanged(initialized(version), [LIST], LIST, answers=2)

    assert refused["id"] is None and refused["error"]["code"] == -32600
    assert "2025-03-26" in refused["error"]["message"] and version in refused["error"]["message"]
    assert listed["id"] == "l" and "result" in listed


@pytest.mark.slow
def test_our_server_says_nothing_to_a_batch_of_notes_and_refuses_one_of_nothing_or_of_too_many() -> None:
    empty, many, listed = exchanged(
        initialized("2025-03-26"), [DONE, DONE], [], [LIST] * 101, LIST, answers=3
    )

    assert empty["error"]["code"] == many["error"]["code"] == -32600 and "101" in many["error"]["message"]
    assert listed["id"] == "l"


@pytest.mark.slow
def test_a_request_of_a_batch_that_is_taken_back_has_no_answer_and_the_others_have() -> None:
    back = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}

    (replies,) = exchanged(initialized("2025-03-26"), [calling(5, "wait", seconds=60), LIST, back], answers=1)

    assert [r["id"] for r in replies] == ["l"]


# -- the server, over HTTP --------------------------------------------------------------------


@owes("K-81")
@pytest.mark.slow
async def test_over_http_a_batch_of_its_revision_is_answered_and_any_other_refused_in_words() -> None:
    async with http() as (url, client):
        old = await client.post(url, json=initialized("2025-03-26"))
        head = {"mcp-session-id": old.headers["mcp-session-id"]}
        both = await client.post(url, json=[LIST, calling(5, "echo", text="hi")], headers=head)
        notes = await client.post(url, json=[DONE], headers=head)
        nothing = await client.post(url, json=[], headers=head)
        newer = await client.post(url, json=[LIST], headers=await opened(url, client))
        stateless = await client.post(
            url, json=[modern(1, "tools/list")], headers={"mcp-protocol-version": "2026-07-28"}
        )
        gone = await client.post(url, json=[LIST], headers={"mcp-session-id": "x"})

    assert both.status_code == 200 and [r["id"] for r in both.json()] == ["l", 5]
    assert notes.status_code == 202 and notes.content == b""
    assert gone.status_code == 404
    for answer in (nothing, newer, stateless):
        assert answer.status_code == 400 and answer.json()["error"]["code"] == -32600
        assert "batch" in answer.json()["error"]["message"]
