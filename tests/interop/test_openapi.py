"""OpenAPI documents become tools; their requests arrive at a real server as the document says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pytest import raises

from pegboard import BuildError, Executor, Image
from pegboard.interop.openapi import openapi_tools
from tests.interop.server import Loopback, loopback
from tests.ledger import owes


@pytest.fixture
def server() -> Iterator[Loopback]:
    with loopback() as running:
        yield running


DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "http://{host}/v1", "variables": {"host": {"default": "pets.example"}}}],
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"name": "petId", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {"operationId": "getPet", "summary": "One pet.", "tags": ["pets"],
                    "parameters": [{"$ref": "#/components/parameters/Trace"}]},
            "delete": {"operationId": "deletePet", "summary": "Remove it."},
        },
        "/pets": {
            "get": {
                "operationId": "listPets", "summary": "Pets.", "description": "All of them.",
                "parameters": [
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "ids", "in": "query", "explode": False,
                     "schema": {"type": "array", "items": {"type": "integer"}}},
                    {"name": "where", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "adult", "in": "query", "schema": {"type": "boolean"}},
                    {"name": "sid", "in": "cookie", "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "createPet", "summary": "A new pet.",
                "requestBody": {"required": True, "content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/Pet"}}}},
            },
            "put": {
                "operationId": "replaceAll", "summary": "All new.",
                "requestBody": {"required": True, "content": {"application/json": {
                    "schema": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}}}},
            },
        },
        "/login": {"post": {"summary": "Log in.", "requestBody": {"content": {
            "application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {
                "user": {"type": "string"}}}}}}}},
        "/note": {"post": {"operationId": "note", "requestBody": {"content": {"text/plain": {
            "schema": {"type": "string"}}}}}},
        "/photo": {"post": {"operationId": "photo", "requestBody": {"content": {"image/png": {}}}}},
    },
    "components": {
        "parameters": {"Trace": {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}},
        "schemas": {
            "Pet": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Pet"},
                "age": {"type": "integer", "nullable": True, "minimum": 0, "exclusiveMinimum": True}}},
        },
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "query", "name": "api_key"},
            "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "bearer": {"type": "http", "scheme": "bearer"},
            "basic": {"type": "http", "scheme": "basic"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "c"},
        },
    },
}  # fmt: skip


def door(server: Loopback, **options: Any) -> Executor:
    kit = openapi_tools(DOCUMENT, base_url=f"{server.url}/v1", **options)
    return Executor(kit, policy=[f"allow connect:{server.host}"])


@owes("K-17")
def test_each_operation_is_a_tool_with_its_names_and_schema() -> None:
    kit = openapi_tools(json.dumps(DOCUMENT)).check()

    assert kit.names == (
        "getPet", "deletePet", "listPets", "replaceAll", "createPet", "post_login", "note", "photo",
    )  # fmt: skip
    assert kit["listPets"].description == "Pets.\n\nAll of them."
    assert kit["getPet"].schema["required"] == ["petId"]
    assert kit["getPet"].idempotent
    assert not kit["createPet"].idempotent
    pet = kit["createPet"].schema
    assert pet["required"] == ["name"]
    assert pet["properties"]["parent"] == {"$ref": "#/$defs/Pet"}
    assert pet["$defs"]["Pet"]["properties"]["age"] == {"type": ["integer", "null"], "exclusiveMinimum": 0}
    assert len(kit.schemas("anthropic")) == 8


@owes("K-17")
async def test_the_effect_is_the_connection_and_it_asks() -> None:
    made = Executor(openapi_tools(DOCUMENT))

    preview = await made.preview("getPet", {"petId": "1"})

    assert [str(e) for e in preview.effects] == ["connect pets.example"]
    assert preview.decision == "ask"


@owes("K-17")
async def test_arguments_arrive_where_the_document_puts_them(server: Loopback) -> None:
    made = door(server, secrets={"pets": "s3cret-value"}, auth={"basic": "me:secret://pets"})

    await made.call("getPet", {"petId": "a/../b c", "X-Trace": "secret://pets"})
    await made.call("listPets", {
        "tag": ["a", "b"], "ids": [1, 2], "where": {"size": "big"}, "adult": True, "sid": "s"})  # fmt: skip
    created = await made.call("createPet", {"name": "Ida", "age": "3", "parent": {"name": "Old"}})
    await made.call("replaceAll", {"body": [{"name": "x"}]})
    await made.call("post_login", {"user": "me & you"})
    await made.call("note", {"body": "häh"})

    got, listed, made_pet, replaced, login, note = server.seen
    assert (got.method, got.path, got.headers["x-trace"]) == (
        "GET",
        "/v1/pets/a%2F..%2Fb%20c",
        "secret://pets",
    )
    assert got.headers["authorization"] == "Basic bWU6czNjcmV0LXZhbHVl"
    assert listed.query == [
        ("tag", "a"),
        ("tag", "b"),
        ("ids", "1,2"),
        ("where[size]", "big"),
        ("adult", "true"),
    ]
    assert listed.headers["cookie"] == "sid=s"
    assert made_pet.json == {"name": "Ida", "age": 3, "parent": {"name": "Old"}}
    assert made_pet.headers["content-type"] == "application/json"
    assert replaced.json == [{"name": "x"}]
    assert login.body == b"user=me+%26+you"
    assert note.body == "häh".encode()
    assert created.data == {"ok": True}
    assert created.notes.labels == ("untrusted",)


@pytest.mark.parametrize("value", ["..", ".", ""])
async def test_a_value_cannot_become_another_path(server: Loopback, value: str) -> None:
    result = await door(server).call("getPet", {"petId": value})

    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert server.seen == []


async def test_a_header_value_cannot_start_another_header(server: Loopback) -> None:
    result = await door(server).call("getPet", {"petId": "1", "X-Trace": "a\r\nX-Admin: 1"})

    assert result.error is not None
    assert server.seen == []


@owes("X-57", "G-11")
async def test_secrets_go_by_reference_to_this_server_and_never_come_back(server: Loopback) -> None:
    def echo(seen: Any) -> Any:
        return 200, {"Content-Type": "text/plain"}, f"you sent {seen.headers['authorization']}".encode()

    server.answer = echo
    made = door(
        server, auth={"bearer": "secret://pets", "key": "k1", "head": "k2"}, secrets={"pets": "s3cret-value"}
    )

    result = await made.call("getPet", {"petId": "1"})

    assert server.seen[0].headers["authorization"] == "Bearer s3cret-value"
    assert server.seen[0].headers["x-key"] == "k2"
    assert server.seen[0].query == [("api_key", "k1")]
    assert str(result) == "you sent Bearer [secret pets]"
    missing = await door(server, auth={"basic": "secret://none"}, secrets=lambda n: "").call(
        "getPet", {"petId": "1"}
    )
    assert missing.error is not None
    assert "the secret 'none' is not set" in missing.error.message


@pytest.mark.parametrize(("status", "retryable"), [(404, False), (422, False), (429, True), (503, True)])
async def test_an_error_status_says_what_the_server_said(
    server: Loopback, status: int, retryable: bool
) -> None:
    server.answer = lambda _: (status, {"Content-Type": "text/plain"}, b"no such pet")

    result = await door(server).call("getPet", {"petId": "1"})

    assert result.error is not None
    assert result.error.code == f"http_{status}"
    assert "no such pet" in result.error.message
    assert result.error.retryable is retryable


async def test_a_redirect_is_told_and_not_followed(server: Loopback) -> None:
    server.answer = lambda _: (302, {"Location": "http://169.254.169.254/"}, b"")

    result = await door(server).call("getPet", {"petId": "1"})

    assert str(result) == "HTTP 302: moved to http://169.254.169.254/"
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("kind", "body", "shown"),
    [
        ("image/png", b"\x89PNG", "[image image/png, 4 bytes]"),
        ("audio/wav", b"RIFF", "[audio audio/wav, 4 bytes]"),
        ("application/pdf", b"%PDF", "[file answer application/pdf, 4 bytes]"),
        ("application/json", b"{broken", "{broken"),
        ("text/plain; charset=latin-1", "ü".encode("latin-1"), "ü"),
        ("text/plain; charset=klingon", b"x", "x"),
        ("text/html", b"", "(empty answer)"),
    ],
)
async def test_answers_of_every_kind(server: Loopback, kind: str, body: bytes, shown: str) -> None:
    server.answer = lambda _: (200, {"Content-Type": kind}, body)

    result = await door(server).call("getPet", {"petId": "1"})

    assert str(result) == shown
    if kind == "image/png":
        assert isinstance(result.content[0], Image)


async def test_an_answer_without_end_is_cut_off_with_an_error(server: Loopback) -> None:
    server.answer = lambda _: (200, {"Content-Type": "text/plain"}, b"x" * 5_000_001)

    result = await door(server).call("getPet", {"petId": "1"})

    assert result.error is not None
    assert result.error.code == "too_large"


async def test_a_server_that_is_not_there_is_named() -> None:
    made = Executor(openapi_tools(DOCUMENT, base_url="http://127.0.0.1:9/v1"), policy=["allow connect:*"])

    result = await made.call("getPet", {"petId": "1"})

    assert result.error is not None
    assert result.error.code == "unavailable"
    assert "127.0.0.1:9" in result.error.message


def test_operations_are_chosen_by_name_or_method() -> None:
    assert openapi_tools(DOCUMENT, keep=["get*"]).names == ("getPet",)
    assert openapi_tools(DOCUMENT, keep=["POST /pets"]).names == ("createPet",)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[]", "is no object"),
        ("a: [", "neither JSON nor YAML"),
        ({"swagger": "2.0"}, "no OpenAPI 3 document"),
        ({"openapi": "3.1.0", "paths": {}}, "names no server"),
        ({"openapi": "3.1.0", "servers": [{"url": "/v1"}]}, "names no server"),
        ({"openapi": "3.1.0", "servers": [{"url": "http://h"}], "paths": {"/a": {"get": {
            "parameters": [{"$ref": "http://evil.example/p.json"}]}}}}, "leads out of the document"),
        ({"openapi": "3.1.0", "servers": [{"url": "http://h"}], "paths": {"/a": {"get": {
            "parameters": [{"name": "a", "in": "query", "schema": {"items": {"$ref": "#/components/schemas/X"}}}]}}}},
         "which it lacks"),
        ({"openapi": "3.1.0", "servers": [{"url": "ftp://h"}], "paths": {}}, "no http or https URL"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_document_is_named(document: Any, message: str) -> None:
    with raises(BuildError, match=message):
        openapi_tools(document)


def test_an_unknown_security_scheme_is_named() -> None:
    for name in ("nothing", "cookie"):
        with raises(BuildError, match="is not one that can be filled"):
            openapi_tools(DOCUMENT, auth={name: "x"})


def test_two_documents_may_stand_beside_each_other() -> None:
    kit = openapi_tools(DOCUMENT).prefixed("a_") + openapi_tools(DOCUMENT).prefixed("b_")

    assert len(kit) == 16
