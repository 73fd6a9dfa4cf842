"""One connection's protocol against servers that answer badly, late, or with questions without end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from pegboard.core.errors import ToolError, Unavailable
from pegboard.mcp.inbound import ConnectionClosed
from pegboard.mcp.session import MAX_ROUNDS, ProtocolSession
from pegboard.mcp.streamable_http import HttpRefusal
from tests.ledger import owes

MODERN = "2026-07-28"
DISCOVERED = {
    "supportedVersions": [MODERN], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"},
}  # fmt: skip
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "serverInfo": {"name": "s", "version": "1"},
}
Answer = Any


class Scripted:
    """A transport whose server answers as written, method by method; the last answer is repeated."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = {k.replace("_", "/"): v if isinstance(v, list) else [v] for k, v in answers.items()}
        self.sent: list[tuple[str, dict[str, Any]]] = []

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        self.sent.append((method, dict(params or {})))
        left = self.answers[method]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if callable(answer):
            answer = await answer()
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    async def notify(self, method: str, params: Any = None, opts: Any = None) -> None:
        self.sent.append((method, dict(params or {})))

    async def run(self, *handlers: Any, task_status: Any) -> None:
        task_status.started()
        await asyncio.Event().wait()

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.sent]


@asynccontextmanager
async def session(server: Scripted, **callbacks: Any) -> AsyncGenerator[ProtocolSession]:
    async with ProtocolSession(dispatcher=server, **callbacks) as one:  # type: ignore[arg-type]
        yield one


def refusal(code: int, data: Any = None) -> MCPError:
    return MCPError(code=code, message="no", data=data)


# -- agreeing on a revision --------------------------------------------------------------------


@owes("K-78")
@pytest.mark.parametrize(
    "answer",
    [
        refusal(-32601),
        # It names revisions, none of which we speak; or names them in no form that can be read.
        refusal(-32022, {"supported": ["2031-01-01"]}), refusal(-32022, {"supported": "all"}), refusal(-32022),
        {"supportedVersions": 5}, {**DISCOVERED, "supportedVersions": ["2031-01-01"]},
    ],
)  # fmt: skip
async def test_a_server_that_is_none_of_the_stateless_era_is_greeted_in_the_older_way(answer: Answer) -> None:
    server = Scripted(server_discover=answer, initialize=HANDSHAKE)
    async with session(server) as one:
        await one.negotiate()

        assert one.protocol_version == "2025-11-25"
        assert server.methods == ["server/discover", "initialize", "notifications/initialized"]


@owes("K-78")
async def test_a_refusal_that_names_a_revision_of_ours_is_answered_with_that_one_once() -> None:
    named = refusal(-32022, {"supported": ["2031-01-01", MODERN]})
    lenient = Scripted(server_discover=[named, DISCOVERED])
    async with session(lenient) as one:
        await one.negotiate()
        assert one.protocol_version == MODERN

    stubborn = Scripted(server_discover=named, initialize=HANDSHAKE)
    async with session(stubborn) as one:
        await one.negotiate()
        assert one.protocol_version == "2025-11-25"
    assert stubborn.methods[:3] == ["server/discover", "server/discover", "initialize"]


async def test_where_the_second_greeting_is_refused_the_fault_of_the_first_is_told() -> None:
    out = Scripted(server_discover=HttpRefusal(503), initialize=refusal(-32601))
    async with session(out) as one:
        with pytest.raises(Unavailable, match="no; server/discover before it: it answered 503") as caught:
            await one.negotiate()
    assert caught.value.retryable


@pytest.mark.parametrize("fault", [HttpRefusal(503), ConnectionClosed("gone"), refusal(-32000)])
async def test_only_a_server_that_says_so_does_not_speak_a_revision(fault: MCPError) -> None:
    async with session(Scripted(server_discover=fault)) as one:
        with pytest.raises(MCPError) as caught:
            await one.negotiate(MODERN)
    assert caught.value is fault


@owes("K-78")
async def test_a_pinned_revision_is_insisted_on() -> None:
    async with session(Scripted(server_discover=refusal(-32601))) as one:
        with pytest.raises(Unavailable, match=f"does not speak {MODERN}"):
            await one.negotiate(MODERN)
    older = Scripted(initialize=HANDSHAKE)
    async with session(older) as one:
        await one.negotiate("2025-06-18")
    assert "server/discover" not in older.methods


@pytest.mark.parametrize(
    ("hello", "message"),
    [({"capabilities": {}}, "malformed"), ({**HANDSHAKE, "protocolVersion": "1999-01-01"}, "no common")],
)
async def test_an_introduction_that_cannot_be_taken_is_named(hello: dict[str, Any], message: str) -> None:
    async with session(Scripted(initialize=hello)) as one:
        with pytest.raises(Unavailable, match=message):
            await one.negotiate("2025-11-25")


@owes("K-79")
@pytest.mark.parametrize(("patient", "spoken"), [(False, "2025-11-25"), (True, MODERN)])
async def test_a_silent_server_is_given_up_and_one_that_waits_for_a_person_is_not(
    patient: bool, spoken: str
) -> None:
    async def late() -> dict[str, Any]:
        for _ in range(20):
            await asyncio.sleep(0)
        return DISCOVERED

    async with session(Scripted(server_discover=late, initialize=HANDSHAKE)) as one:
        # Over at once, without waiting for it.
        one.probe_s = 0

        await one.negotiate(patient=patient)

        assert one.protocol_version == spoken


# -- questions in between ----------------------------------------------------------------------

FORM = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}}  # fmt: skip
ASKS = {"resultType": "input_required", "inputRequests": {"who": FORM}, "requestState": "sealed"}
DONE = {"content": [{"type": "text", "text": "done"}]}


async def accept(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


@owes("K-79")
async def test_answers_go_back_with_the_arguments_and_the_servers_own_state() -> None:
    server = Scripted(server_discover=DISCOVERED, tools_call=[ASKS, DONE])
    async with session(server, elicitation_callback=accept) as one:
        await one.negotiate()

        raw = await one.ask("tools/call", {"name": "t", "arguments": {"a": 1}})

    assert raw == DONE
    _, again = server.sent[-1]
    assert again["inputResponses"]["who"] == {"action": "accept", "content": {"name": "Ada"}}
    assert (again["requestState"], again["name"], again["arguments"]) == ("sealed", "t", {"a": 1})


@owes("K-79")
async def test_state_without_questions_is_sent_back_without_answers() -> None:
    server = Scripted(
        server_discover=DISCOVERED, tools_call=[{"resultType": "input_required", "requestState": "s"}, DONE]
    )
    async with session(server) as one:
        await one.negotiate()
        assert await one.ask("tools/call", {"name": "t"}) == DONE

    assert server.sent[-1][1]["requestState"] == "s" and "inputResponses" not in server.sent[-1][1]


@owes("K-79")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ASKS, f"more than {MAX_ROUNDS} times"),
        ({"resultType": "input_required", "inputRequests": {"x": {"method": "rm/rf"}}}, "cannot be read"),
    ],
)
async def test_questions_without_end_and_ones_that_are_none_end_the_call(
    answer: Answer, message: str
) -> None:
    server = Scripted(server_discover=DISCOVERED, tools_call=answer)
    async with session(server, elicitation_callback=accept) as one:
        await one.negotiate()
        with pytest.raises(ToolError, match=message):
            await one.ask("tools/call", {"name": "t"})

    assert server.methods.count("tools/call") <= MAX_ROUNDS + 1


async def test_a_question_that_nobody_takes_is_the_calls_error() -> None:
    server = Scripted(server_discover=DISCOVERED, tools_call=ASKS)
    async with session(server) as one:
        await one.negotiate()
        with pytest.raises(MCPError):
            await one.ask("tools/call", {"name": "t"})

    assert server.methods.count("tools/call") == 1


# -- headers that a schema asks for ------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}


@owes("K-78")
@pytest.mark.parametrize(
    ("method", "answers", "sent"),
    [
        # The schema has changed since it was listed: listed again, sent once more, and no third time.
        ("tools/call", [refusal(-32020), DONE], ["tools/call", "tools/list", "tools/call"]),
        ("tools/call", [refusal(-32020)], ["tools/call", "tools/list", "tools/call"]),
        ("tools/call", [refusal(-32602)], ["tools/call"]),
        ("prompts/get", [refusal(-32020)], ["prompts/get"]),
    ],
)
async def test_a_call_whose_headers_are_refused_is_sent_once_more_by_the_new_schema(
    method: str, answers: list[Answer], sent: list[str]
) -> None:
    server = Scripted(
        server_discover=DISCOVERED, tools_list={"tools": [{"name": "t", "inputSchema": SCHEMA}]},
        **{method.replace("/", "_"): answers},
    )  # fmt: skip
    async with session(server) as one:
        await one.negotiate()
        if answers[-1] is DONE:
            assert await one.ask(method, {"name": "t", "arguments": {"region": "eu"}}) == DONE
        else:
            with pytest.raises(MCPError):
                await one.ask(method, {"name": "t", "arguments": {"region": "eu"}})

    assert server.methods[1:] == sent
