"""The client and servers that mean well and write badly: what has one meaning is read, the rest is told."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from pegboard import AllowOnce, Executor
from pegboard.core.content import Image, Text
from pegboard.core.errors import TimedOut, Unavailable
from pegboard.mcp.catalogue import build_catalogue
from pegboard.mcp.client import MCPServer
from pegboard.mcp.tools import blocks, tool_of, tool_result
from tests.ledger import owes
from tests.mcp.conftest import tool

Make = Callable[..., MCPServer]
OK = '{"jsonrpc":"2.0","id":@id,"result":{"content":[{"type":"text","text":"fine"}]}}'
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(range(200, 256)) * 3


def saying(peer: Make, *lines: str, **more: Any) -> MCPServer:
    """A server whose tool `t` writes these lines, and `u` answers."""
    return peer(tools=[tool("t"), tool("u")], behave={"t": "lines"}, lines={"t": list(lines)}, **more)


async def called(server: MCPServer, name: str = "mcp_s_t") -> Any:
    async with Executor([server], approver=AllowOnce()) as door:
        return await door.call(name, {})


# -- errors -----------------------------------------------------------------------------------


@owes("mcp-03")
@pytest.mark.parametrize("code", [-32000, -32001, -32099, 0, 7])
@pytest.mark.slow
async def test_an_error_of_any_code_is_the_servers_answer_and_the_connection_stays(
    code: int, peer: Make
) -> None:
    # -32000 is the first of the codes that JSON-RPC leaves to servers (§5.1), and most use it for everything.
    server = saying(peer, f'{{"jsonrpc":"2.0","id":@id,"error":{{"code":{code},"message":"no such row"}}}}')

    async with Executor([server], approver=AllowOnce()) as door:
        refused = await door.call("mcp_s_t", {})
        connection = server._connection
        await door.call("mcp_s_u", {})
        same = server._connection is connection

    assert refused.error is not None and refused.error.code == "mcp_error"
    assert "no such row" in refused.error.message and str(code) in refused.error.message
    assert same and "lost" not in refused.error.message


@pytest.mark.slow
async def test_a_refused_list_is_no_lost_connection(peer: Make) -> None:
    server = peer(
        tools=[tool("t")],
        lines={
            "initialize": [
                '{"jsonrpc":"2.0","id":@id,"error":{"code":-32000,"message":"the licence has ended"}}'
            ]
        },
    )

    with pytest.raises(Unavailable, match="the licence has ended"):
        await server.tools()


@pytest.mark.parametrize(
    ("error", "told"),
    [('"oops"', "oops"), ('{"code":1}', "no reason"), ('{"code":"E7","message":"m"}', "refused t: m")],
)
@pytest.mark.slow
async def test_an_error_in_a_form_of_its_own_is_told(error: str, told: str, peer: Make) -> None:
    server = saying(peer, f'{{"jsonrpc":"2.0","id":@id,"error":{error}}}')

    result = await called(server)

    assert result.error is not None and told in result.error.message


@owes("X-43")
@pytest.mark.slow
async def test_a_tool_of_its_own_limit_ends_at_it_and_the_others_at_the_servers(peer: Make) -> None:
    server = peer(
        tools=[tool("quick"), tool("slow")], behave={"quick": "hang", "slow": "hang"},
        _timeout_s=0.6, _tool_timeouts={"quick": 0.2},
    )  # fmt: skip

    async with Executor([server], approver=AllowOnce()) as door:
        quick = await door.call("mcp_s_quick", {})
        slow = await door.call("mcp_s_slow", {})

    assert "within 0.2 s" in quick.error.message and quick.error.details["timeout_s"] == 0.2
    assert "within 0.6 s" in slow.error.message


# -- lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        [OK.replace("@id", "@id.0")],
        ["\ufeff" + OK],
        [OK + "\r"],
        ["listening on stdio", OK],
        ["", "  ", OK],
    ],
    ids=["float", "mark", "return", "noise", "blank"],
)
@pytest.mark.slow
async def test_an_answer_that_can_be_read_is_read(lines: list[str], peer: Make) -> None:
    assert (await called(saying(peer, *lines))).text == "fine"


@pytest.mark.slow
async def test_a_mark_of_byte_order_before_everything_is_ignored(peer: Make) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}  # fmt: skip
    server = peer(
        tools=[tool("t")],
        lines={"initialize": ["\ufeff" + json.dumps({"jsonrpc": "2.0", "id": 1, "result": hello})]},
    )

    assert [t.name for t in await server.tools()] == ["mcp_s_t"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (['{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'], "Parse error"),
        (['{"id":@id,"result":{"content":[]}}'], '"result"'),
        (['{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"whose?"}]}}'], "whose?"),
        (["{", '  "jsonrpc": "2.0",', '  "id": @id,', '  "result": {}', "}"], '"result": {}'),
    ],
    ids=["null-id", "no-version", "no-id", "several-lines"],
)
@pytest.mark.slow
async def test_whoever_waits_in_vain_is_told_what_came_instead(
    lines: list[str], told: str, peer: Make
) -> None:
    result = await called(saying(peer, *lines, _timeout_s=1.0))

    assert result.error is not None and result.error.code == "timeout"
    assert "answers nothing" in result.error.message and told in result.error.message


@pytest.mark.slow
async def test_what_came_instead_is_told_at_the_start_too(peer: Make) -> None:
    silent = peer("a", tools=[], lines={"initialize": ["Usage: server [--port N] [--stdio]"]}, _start_s=1.0)
    noisy = saying(peer, "starting …", _timeout_s=1.0)

    with pytest.raises(TimedOut, match="Usage: server"):
        await silent.tools()
    assert "starting …" in (await called(noisy)).error.message


@pytest.mark.slow
async def test_a_program_that_only_talks_is_given_up_with_the_reason(peer: Make) -> None:
    server = peer(tools=[], lines={"start": [f"line {n}" for n in range(40)]})

    with pytest.raises(Unavailable, match=r"21 lines that are no messages.*line 20"):
        await server.tools()


@pytest.mark.parametrize(
    ("introduction", "told"),
    [
        ({"capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}, "protocolVersion"),
        ({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"}}, "capabilities"),
        ({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s"}}, "serverInfo.version"),
        ({"protocolVersion": 5, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}, "protocolVersion"),
    ],
    ids=["version", "capabilities", "info", "number"],
)  # fmt: skip
@pytest.mark.slow
async def test_a_malformed_introduction_is_refused_by_the_name_of_its_fault(
    introduction: Any, told: str, peer: Make
) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": introduction}).replace('"ID"', "@id")
    server = peer(tools=[], lines={"initialize": [line]})

    with pytest.raises(Unavailable, match=told.replace(".", r"\.")):
        await server.tools()


# -- lists ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "names", "told"),
    [
        ({}, [], "without a list"),
        ({"tools": None}, [], "without a list"),
        ({"tools": {"t": {}}}, [], "without a list"),
        ({"tools": [tool("t"), "u", None]}, ["mcp_s_t"], "2 entries that are no objects"),
        ({"tools": [tool("t")], "nextCursor": 2}, ["mcp_s_t"], "a cursor that is not text"),
        ({"tools": [tool("t")] * 9}, ["mcp_s_t"], "two tools of this name"),
    ],
    ids=["nothing", "null", "map", "rows", "cursor", "again"],
)
@pytest.mark.slow
async def test_a_list_that_is_none_is_told_once_and_never_passed_over(
    answer: Any, names: list[str], told: str, peer: Make
) -> None:
    server = peer(listed={"tools/list": answer})

    assert [t.name for t in await server.tools()] == names
    assert len(server.warnings) == 1 and told in server.warnings[0]


@pytest.mark.slow
async def test_a_server_that_dies_while_it_lists_is_not_said_to_have_taken_effect(peer: Make) -> None:
    server = peer(tools=[tool("a"), tool("b")], page=1, dies_at="tools/list1")

    with pytest.raises(Unavailable) as caught:
        await server.tools()

    assert "exit status 7" in caught.value.message and "had enough" in caught.value.message
    assert "took effect" not in caught.value.message


PROMPTS: list[Any] = [
    {"name": "ok", "arguments": [{"name": "x"}]},
    {"name": "no-list", "arguments": {"x": 1}},
    {"name": "odd-rows", "arguments": [5, None, {"name": "y\u202e"}]},
    {"name": 5},
    {"name": None},
    {},
    {"name": "ok"},
    {"name": "hid\u200bden"},
    {"name": "x" * 500},
]


def test_prompts_of_any_shape_cost_only_themselves() -> None:
    found = build_catalogue("s", tools=[tool("t")], prompts=PROMPTS)

    offer = next(o for o in found.offers if o.kind == "prompts")
    assert offer.definition.schema["properties"]["name"]["enum"] == ["ok", "no-list", "odd-rows"]
    assert "- ok(x): " in offer.definition.description and "- odd-rows(y): " in offer.definition.description
    assert len([w for w in found.warnings if "prompt" in w]) >= 5
    assert "mcp_s_t" in [o.name for o in found.offers]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (["plain"], "plain"),
        ([{"role": "user", "content": "as text"}], "user: as text"),
        ([{"role": "user", "content": [{"type": "text", "text": "in a list"}]}], "user: in a list"),
        ([None, 5], "[prompt p "),
        ([{"role": "a\x1b[2J", "content": {"type": "text", "text": "x"}}], "a: x"),
    ],
    ids=str,
)
async def test_a_prompts_messages_of_any_shape_are_told(messages: Any, expected: str) -> None:
    server = MCPServer("s", command="true")
    server._catalogue = build_catalogue("s", tools=[], prompts=[{"name": "p"}])

    async def call(method: str, params: Any, **_: Any) -> Any:
        return {"messages": messages}

    server.call = call  # type: ignore[method-assign]
    async with Executor([tool_of(server, server._catalogue.offers[0])], approver=AllowOnce()) as door:
        result = await door.call("mcp_s_get_prompt", {"name": "p"})

    assert result.ok and expected in result.text, result.text


# -- schemas ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": None, "required": None},
        {"type": "object", "properties": {"a": None}},
        {"type": "object", "properties": {"a": {"type": "array", "items": None, "enum": None}}},
        {"type": "object", "properties": {"a": {"type": "string", "default": None}}, "additionalProperties": None},
    ],
    ids=str,
)  # fmt: skip
async def test_null_where_a_word_of_a_schema_is_empty_means_that_it_is_absent(schema: Any) -> None:
    found = build_catalogue("s", tools=[{"name": "t", "inputSchema": schema}])
    server = MCPServer("s", command="true")
    server._catalogue = found

    async def call(method: str, params: Any, **_: Any) -> Any:
        return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}

    server.call = call  # type: ignore[method-assign]
    async with Executor([tool_of(server, found.offers[0])], approver=AllowOnce()) as door:
        result = await door.call("mcp_s_t", {"a": ["x"] if "items" in str(schema) else "x"})

    assert not found.warnings
    assert result.ok, result.text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": None, "properties": {"q": {"type": "string"}}},
        {"type": "null", "properties": {"q": {"type": "string"}}},
        {"type": [], "properties": {"q": {"type": "string"}}},
        {"properties": {"q": {"type": "string"}}, "required": ["q"]},
        {"type": "object", "properties": {"q": {"type": "str"}}, "required": "q"},
        {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}, "required": {}},
        {"type": "dict", "properties": {"q": {"type": "string", "enum": [], "anyOf": []}}},
        {"type": "object", "properties": {"q": "string"}, "$defs": []},
        {"type": "object", "properties": {"q": {"type": "string", "description": ["what", "to find"]}}},
        {"type": "object", "properties": {"q": {"type": "string"}, "r": []}, "allOf": []},
    ],
    ids=str,
)
async def test_a_schema_with_a_slip_is_read_as_it_is_meant_and_pinned_as_it_is(schema: Any) -> None:
    found = build_catalogue("s", tools=[{"name": "t", "inputSchema": schema}])
    server = MCPServer("s", command="true")
    server._catalogue = found

    async def call(method: str, params: Any, **_: Any) -> Any:
        return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}

    server.call = call  # type: ignore[method-assign]
    tool = tool_of(server, found.offers[0])
    async with Executor([tool], approver=AllowOnce()) as door:
        result = await door.call("mcp_s_t", {"q": "x"})
        wrong = await door.call("mcp_s_t", {"q": {"not": "a text"}})

    assert tool.schema["type"] == "object"
    assert (result.ok, wrong.ok) == (True, False), (result.text, wrong.text)
    assert found.offers[0].definition.schema == schema


@pytest.mark.parametrize("schema", [None, [], {}, {"type": "object", "properties": []}], ids=str)
def test_a_tool_without_arguments_is_taken_however_its_schema_says_so(schema: Any) -> None:
    found = build_catalogue("s", tools=[{"name": "t", "inputSchema": schema}])

    assert [o.original for o in found.offers] == ["t"] and not found.warnings


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": "string", "properties": {}}, 5], ids=str)
def test_a_tool_that_no_call_fits_is_refused_by_name_and_the_others_stay(schema: Any) -> None:
    found = build_catalogue("s", tools=[{"name": "bad", "inputSchema": schema}, {"name": "ok"}])

    assert [o.original for o in found.offers] == ["ok"]
    assert "'bad' is refused" in found.warnings[0]


# -- content ----------------------------------------------------------------------------------

_B64 = base64.b64encode(PIXEL).decode()


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (_B64, "image/png"),
        (base64.encodebytes(PIXEL).decode(), "image/png"),
        (_B64.rstrip("="), "image/png"),
        (base64.urlsafe_b64encode(PIXEL).decode(), "image/png"),
        (f"data:image/png;base64,{_B64}", "image/png"),
        (f"DATA:image/png;charset=utf-8;base64,{_B64}", "image/png"),
    ],
    ids=["plain", "lines", "unpadded", "for-addresses", "data-address", "with-charset"],
)
def test_a_picture_is_shown_however_its_base64_is_written(data: str, mime: str) -> None:
    (found,) = blocks([{"type": "image", "data": data, "mimeType": mime}])

    assert isinstance(found, Image) and found.data == PIXEL and found.mime_type == "image/png"


def test_the_common_misspelling_of_jpeg_is_jpeg() -> None:
    data = base64.b64encode(b"\xff\xd8\xff\xe0rest").decode()

    (found,) = blocks([{"type": "image", "data": data, "mimeType": "image/jpg"}])

    assert isinstance(found, Image) and found.mime_type == "image/jpeg"


@pytest.mark.parametrize("data", ["!!!!", "A", "iVBOR§", "data:image/png,raw", f"x{_B64}"])
def test_what_is_no_base64_stays_damaged(data: str) -> None:
    (found,) = blocks([{"type": "image", "data": data, "mimeType": "image/png"}])

    assert isinstance(found, Text)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(["a", "b"], "a\nb"), ([{"text": "no type"}], "no type"), ([{"text": 5}], "unknown type")],
    ids=str,
)
def test_texts_without_their_wrapping_are_texts(content: Any, expected: str) -> None:
    assert expected in "\n".join(b.text for b in blocks(content) if isinstance(b, Text))


@pytest.mark.parametrize("flag", [False, None, 0, "", "false", "False", "0", "no"])
def test_a_flag_that_says_no_is_no_error(flag: Any) -> None:
    result = tool_result({"isError": flag, "content": "done"}, server="s", tool="t")

    assert result.ok and result.text == "done"
