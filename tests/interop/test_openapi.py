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
            "mutual": {"type": "mutualTLS"},
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
        ("[]", "is not an object"),
        ("a: [", "neither JSON nor YAML"),
        ({"swagger": "2.0"}, "no OpenAPI 3 document"),
        ({"openapi": "3.1.0", "paths": {}}, "names no server"),
        ({"openapi": "3.1.0", "servers": [{"url": "/v1"}]}, "names no server"),
        ({"openapi": "3.1.0", "servers": [{"url": "http://h"}], "paths": {"/a": {"get": {
            "parameters": [{"$ref": "http://evil.example/p.json"}]}}}}, "leads out of the document"),
        ({"openapi": "3.1.0", "servers": [{"url": "http://h"}], "paths": {"/a": {"get": {
            "parameters": [{"name": "a", "in": "query", "schema": {"items": {"$ref": "#/components/schemas/X"}}}]}}}},
         "which it lacks"),
        ({"openapi": "3.1.0", "servers": [{"url": "ftp://h"}], "paths": {}}, "not an http or https URL"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_document_is_named(document: Any, message: str) -> None:
    with raises(BuildError, match=message):
        openapi_tools(document)


def test_an_unknown_security_scheme_is_named() -> None:
    for name in ("nothing", "mutual"):
        with raises(BuildError, match="is not one that can be filled"):
            openapi_tools(DOCUMENT, auth={name: "x"})


def test_two_documents_may_stand_beside_each_other() -> None:
    kit = openapi_tools(DOCUMENT).prefixed("a_") + openapi_tools(DOCUMENT).prefixed("b_")

    assert len(kit) == 16


# -- what real documents hold ------------------------------------------------------------------


def one(operation: dict[str, Any], *, path: str = "/x", method: str = "get", **more: Any) -> dict[str, Any]:
    """A document of one operation `op`."""
    return {
        "openapi": "3.1.0", "info": {"title": "t", "version": "1"},
        "paths": {path: {method: {"operationId": "op", **operation}}}, **more,
    }  # fmt: skip


async def sent(server: Loopback, document: dict[str, Any], arguments: dict[str, Any], **options: Any) -> Any:
    """The request that a call makes, or its error."""
    kit = openapi_tools(document, base_url=server.url, **options).check()
    result = await Executor(kit, policy=["allow connect:*"]).call("op", arguments)
    return server.seen[-1] if result.ok else result.error


VALUES = {"list": [3, 4, 5], "map": {"R": 100, "G": 200}, "one": "blue"}


@owes("K-17")
@pytest.mark.parametrize(
    ("style", "explode", "kind", "path"),
    [
        # The table of OpenAPI 3.1 §4.8.12.4.
        ("simple", False, "list", "/x/3,4,5"),
        ("simple", False, "map", "/x/R,100,G,200"),
        ("simple", True, "map", "/x/R=100,G=200"),
        ("simple", False, "one", "/x/blue"),
        ("label", False, "list", "/x/.3,4,5"),
        ("label", True, "list", "/x/.3.4.5"),
        ("label", True, "map", "/x/.R=100.G=200"),
        ("label", False, "one", "/x/.blue"),
        ("matrix", False, "list", "/x/;c=3,4,5"),
        ("matrix", True, "list", "/x/;c=3;c=4;c=5"),
        ("matrix", True, "map", "/x/;R=100;G=200"),
        ("matrix", False, "map", "/x/;c=R,100,G,200"),
        ("matrix", False, "one", "/x/;c=blue"),
    ],
)
async def test_path_styles_are_the_standards(
    server: Loopback, style: str, explode: bool, kind: str, path: str
) -> None:
    schema = {"list": {"type": "array"}, "map": {"type": "object"}, "one": {"type": "string"}}[kind]
    parameter = {
        "name": "c",
        "in": "path",
        "required": True,
        "style": style,
        "explode": explode,
        "schema": schema,
    }

    seen = await sent(server, one({"parameters": [parameter]}, path="/x/{c}"), {"c": VALUES[kind]})

    assert seen.path == path


@owes("K-17")
@pytest.mark.parametrize(
    ("style", "explode", "kind", "query"),
    [
        ("form", True, "list", [("c", "3"), ("c", "4"), ("c", "5")]),
        ("form", False, "list", [("c", "3,4,5")]),
        ("form", True, "map", [("R", "100"), ("G", "200")]),
        ("form", False, "map", [("c", "R,100,G,200")]),
        ("spaceDelimited", False, "list", [("c", "3 4 5")]),
        ("pipeDelimited", False, "list", [("c", "3|4|5")]),
        ("deepObject", True, "map", [("c[R]", "100"), ("c[G]", "200")]),
    ],
)
async def test_query_styles_are_the_standards(
    server: Loopback, style: str, explode: bool, kind: str, query: list[tuple[str, str]]
) -> None:
    schema = {"list": {"type": "array"}, "map": {"type": "object"}}[kind]
    parameter = {"name": "c", "in": "query", "style": style, "explode": explode, "schema": schema}

    seen = await sent(server, one({"parameters": [parameter]}), {"c": VALUES[kind]})

    assert seen.query == query


async def test_a_parameter_with_a_media_type_is_written_as_json(server: Loopback) -> None:
    content = {"application/json": {"schema": {"type": "object"}}}

    seen = await sent(
        server, one({"parameters": [{"name": "q", "in": "query", "content": content}]}), {"q": {"a": [1]}}
    )

    assert seen.query == [("q", '{"a": [1]}')]


@owes("K-17")
@pytest.mark.parametrize("value", ["a; admin=1", "a\r\nX: 1", "a,b", 'q"'])
async def test_a_cookie_cannot_become_two(server: Loopback, value: str) -> None:
    parameter = {"name": "sid", "in": "cookie", "schema": {"type": "string"}}

    seen = await sent(server, one({"parameters": [parameter]}), {"sid": value})

    assert seen.headers["cookie"].startswith("sid=")
    assert ";" not in seen.headers["cookie"]
    assert "x" not in seen.headers


async def test_headers_that_the_document_settles_elsewhere_are_no_arguments(server: Loopback) -> None:
    names = ["Authorization", "accept", "Content-Type", "X-Own", "x-fixed"]
    parameters = [{"name": n, "in": "header", "schema": {"type": "string"}} for n in names]
    document = one({"parameters": parameters})

    seen = await sent(server, document, {"X-Own": "1", "x-fixed": "mine"}, headers={"X-Fixed": "ours"})

    assert set(openapi_tools(document, base_url=server.url)["op"].schema["properties"]) == {
        "X-Own",
        "x-fixed",
    }
    assert (seen.headers["x-own"], seen.headers["x-fixed"]) == ("1", "ours")


@owes("K-17")
async def test_files_are_uploaded_as_parts_and_names_cannot_end_their_line(server: Loopback) -> None:
    from email.parser import BytesParser
    from email.policy import HTTP

    schema = {
        "type": "object", "required": ["photo"],
        "properties": {
            "photo": {"type": "string", "format": "binary"}, "title": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}}, "id": {"type": "string", "readOnly": True},
        },
    }  # fmt: skip
    body = {"required": True, "content": {"multipart/form-data": {"schema": schema}}}
    photo = {"filename": 'a"\r\nX-Evil: 1.png', "base64": "iVBORw=="}

    seen = await sent(
        server, one({"requestBody": body}, method="post"), {"photo": photo, "title": "Ünïcode", "tags": ["a"]}
    )

    head = f"Content-Type: {seen.headers['content-type']}\r\n\r\n".encode()
    parts = {p.get_param("name", header="content-disposition"): p for p in
             BytesParser(policy=HTTP).parsebytes(head + seen.body).iter_parts()}  # fmt: skip
    assert list(parts) == ["photo", "title", "tags"]
    assert parts["photo"].get_payload(decode=True) == b"\x89PNG"
    assert parts["photo"]["X-Evil"] is None
    assert parts["title"].get_payload(decode=True).decode() == "Ünïcode"
    assert parts["tags"].get_payload(decode=True) == b'["a"]'


async def test_bodies_of_bytes_and_of_other_media_types(server: Loopback) -> None:
    png = one({"requestBody": {"content": {"image/png": {}}}}, method="put")
    patch = one({"requestBody": {"content": {"application/merge-patch+json": {"schema": {"type": "object"}}}}},
                method="patch")  # fmt: skip
    form = {"type": "object", "properties": {"t": {"type": "array", "items": {"type": "string"}}}}
    forms = one(
        {"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": form}}}}, method="post"
    )

    first = await sent(server, png, {"body": {"base64": "iVBORw=="}})
    second = await sent(server, patch, {"body": {"a": None}})
    third = await sent(server, forms, {"t": ["a b", "c"]})
    wrong = await sent(server, png, {"body": {"base64": "%%"}})

    assert (first.body, first.headers["content-type"]) == (b"\x89PNG", "image/png")
    assert (second.json, second.headers["content-type"]) == ({"a": None}, "application/merge-patch+json")
    assert third.body == b"t=a+b&t=c"
    assert wrong.code == "invalid_arguments"


@owes("K-17")
def test_references_of_every_kind_recursion_and_3_0s_words_become_one_schema() -> None:
    schemas = {
        "Tree": {"type": "object", "properties": {
            "left": {"$ref": "#/components/schemas/Tree"}, "kind": {"$ref": "#/components/schemas/Tree/properties/colour"},
            "colour": {"type": "string", "nullable": True, "enum": ["red"]},
            "link": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/a~1b"}]}}},
        "a/b": {"oneOf": [{"type": "integer"}, {"type": "string"}], "discriminator": {"propertyName": "x"}},
        "Both": {"allOf": [{"$ref": "#/components/schemas/Tree"}, {"type": "object", "required": ["left"]}]},
    }  # fmt: skip
    body = {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Both"}}},
    }
    document = one(
        {"requestBody": body}, method="post", components={"schemas": schemas}, servers=[{"url": "http://h"}]
    )
    document["openapi"] = "3.0.3"
    decode = openapi_tools(document).check()["op"].signature.decode

    assert decode({"body": {"left": {"left": {}, "colour": None, "link": None, "kind": "red"}}})
    for wrong in ({"left": 1}, {}, {"left": {"colour": "blue"}}, {"left": {"link": {}}}):
        with raises(Exception, match="body"):
            decode({"body": wrong})


def test_a_reference_out_of_the_document_is_never_followed() -> None:
    for reference in (
        "http://127.0.0.1:9/x.json#/A",
        "file:///etc/passwd",
        "other.json#/A",
        "#/components/schemas/No",
    ):
        body = {"content": {"application/json": {"schema": {"type": "array", "items": {"$ref": reference}}}}}
        with raises(BuildError, match=r"reference|refers to"):
            openapi_tools(one({"requestBody": body}, method="post", servers=[{"url": "http://h"}]))


@owes("K-17", "G-11")
async def test_an_operation_with_a_server_of_its_own_goes_there_without_the_others_credentials(
    server: Loopback,
) -> None:
    with loopback() as other:
        document = one({"servers": [{"url": f"{other.url}/v{{n}}", "variables": {"n": {"default": "2"}}}]},
                       servers=[{"url": server.url}])  # fmt: skip
        kit = openapi_tools(document, headers={"X-Key": "secret://k"}, secrets={"k": "s3cr3t"})
        door = Executor(kit, policy=[f"allow connect:{other.host}"])
        preview = await door.preview("op", {})
        result = await door.call("op", {})

    assert [str(e.target) for e in preview.effects] == [other.host]
    assert result.ok
    assert other.seen[0].path == "/v2/x"
    assert "x-key" not in other.seen[0].headers
    assert server.seen == []


async def test_a_key_may_go_as_a_cookie(server: Loopback) -> None:
    schemes = {"c": {"type": "apiKey", "in": "cookie", "name": "session"}}
    document = one({}, components={"securitySchemes": schemes})

    seen = await sent(server, document, {}, auth={"c": "secret://k"}, secrets={"k": "s3cr3t"})

    assert seen.headers["cookie"] == "session=s3cr3t"


@pytest.mark.full
@pytest.mark.slow
def test_a_huge_document_becomes_tools_in_time() -> None:
    import time

    schemas = {f"S{i}": {"type": "object", "properties": {
        "next": {"$ref": f"#/components/schemas/S{(i + 1) % 50}"}, "a": {"type": "string"}}} for i in range(2000)}  # fmt: skip
    paths = {f"/r{i}/{{id}}": {"post": {
        "operationId": f"op{i}", "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/S{i}"}}}}}}
        for i in range(2000)}  # fmt: skip
    text = json.dumps({"openapi": "3.1.0", "servers": [{"url": "http://h"}], "paths": paths,
                       "components": {"schemas": schemas}})  # fmt: skip
    began = time.process_time()

    kit = openapi_tools(text)

    assert len(kit) == 2000
    assert time.process_time() - began < 20


def operations(*ids: str) -> dict[str, Any]:
    paths = {f"/p{n}": {"get": {"operationId": id}} for n, id in enumerate(ids)}
    return {"openapi": "3.1.0", "servers": [{"url": "http://h"}], "paths": paths}


def test_names_that_become_the_same_are_told_apart_and_noted() -> None:
    long = "x" * 70
    notes: list[str] = []

    kit = openapi_tools(
        operations("get.pet", "get_pet", "other", "get-pet", long + "a", long + "b"), notes=notes.append
    )

    assert kit.names == ("get_pet", "get_pet_2", "other", "get_pet_3", "x" * 64, "x" * 62 + "_2")
    assert notes[0] == "GET /p1 is called get_pet_2, since another operation is called get_pet"
    assert len(notes) == 3


@pytest.mark.parametrize(
    "bad",
    [
        {"parameters": [{"$ref": "#/components/parameters/none"}]},
        {"parameters": [{"name": "a", "in": "query", "schema": {"$ref": "http://127.0.0.1:9/s.json"}}]},
        {"parameters": [{"name": "a", "in": "query", "schema": {"type": "pigeon"}}]},
        {"parameters": [5]},
        {"requestBody": {"content": {"application/json": 5}}},
        {"servers": [{"url": "ftp://h"}]},
        {"servers": 5},
    ],
    ids=str,
)
def test_one_operation_that_cannot_be_read_never_loses_the_others(bad: dict[str, Any]) -> None:
    document = operations("first", "bad", "last")
    document["paths"]["/p1"]["get"].update(bad)
    notes: list[str] = []

    kit = openapi_tools(document, notes=notes.append).check()

    assert {"first", "last"} <= set(kit.names)
    assert ("bad" in kit.names) != any(note.startswith("GET /p1 is left out: ") for note in notes)
