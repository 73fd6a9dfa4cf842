"""Schemas, names and the family's table."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from pytest import raises

from pegboard.core.errors import BuildError
from pegboard.dialects import DIALECTS, dialect
from pegboard.dialects.names import MCP, OPENAI, wire_name, wire_names
from pegboard.dialects.rendering import KEPT, ToolkitCache
from pegboard.dialects.schemas import sendable
from tests.dialects.kit import FakeKit, FakeTool, tool
from tests.ledger import owes

gemini = dialect("gemini")


def exported(schema: dict[str, Any], name: str = "gemini") -> dict[str, Any]:
    (rendered,) = dialect(name).render_tools(FakeKit(FakeTool("f", "F.", schema)))
    rendered = rendered.get("functionDeclarations", [rendered])[0]
    rendered = rendered.get("function", rendered)
    return rendered.get("parameters") or rendered.get("input_schema") or rendered["inputSchema"]


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


@owes("schema-18")
@pytest.mark.parametrize("name", [n for n in DIALECTS if n not in ("text", "xml")])
@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"type": "object", "properties": None, "required": None}, {}]
)
def test_a_tool_without_parameters_has_properties_and_required(name: str, schema: dict[str, Any]) -> None:
    got = exported(schema, name)

    assert (got["type"], got["properties"], got["required"]) == ("object", {}, [])


@owes("X-07", "K-07")
def test_a_union_at_the_root_becomes_one_object() -> None:
    a = {"properties": {"x": {"type": "integer"}, "k": {"const": "a"}}, "required": ["k", "x"]}
    b = {"$ref": "#/$defs/b"}
    schema = {
        "$defs": {"b": {"properties": {"y": {"type": "string"}, "k": {"const": "b"}}, "required": ["k"]}},
        "oneOf": [a, b, True],
        "not": {"required": ["z"]},
    }

    got = sendable(schema)

    assert list(got["properties"]) == ["x", "k", "y"]
    assert got["required"] == ["k"]
    assert not {"oneOf", "not"} & set(got)
    both = sendable(
        {"type": "object", "required": ["q"], "allOf": [a, {"required": ["q"]}, {"$ref": "#/nowhere"}]}
    )
    assert both["required"] == ["q", "k", "x"]
    assert sendable({"enum": [1], "anyOf": [], "required": ["a"]})["required"] == []
    assert sendable({**of(a={}), "required": 5})["required"] == []
    assert "required" not in sendable({**of(a={}), "required": None})
    assert sendable({**of(a={}), "anyOf": [{"$ref": "#/nowhere"}]}) == of(a={})


@owes("schema-19")
def test_an_array_says_what_its_items_are_and_a_good_schema_stays_the_same_object() -> None:
    good = of(a={"type": "array", "items": {"type": "string"}}, b={"type": ["array", "null"], "items": {}})
    bad = of(a={"type": "array"}, o={"type": "object", "properties": {"b": {"type": ["array", "null"]}}})

    assert sendable(good) is good
    fixed = sendable(bad)
    assert fixed["properties"]["a"]["items"] == {}
    assert fixed["properties"]["o"]["properties"]["b"]["items"] == {}


@owes("schema-01", "schema-02", "schema-10")
def test_strict_tools_close_every_object_or_are_sent_plain_with_a_note(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lang = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    kit = FakeKit(
        tool("f", ("q",), q="string", lang=lang, n={"type": "integer", "default": 5}),
        tool("tally", m={"type": "object", "additionalProperties": {"type": "integer"}}),
    )
    strict = dialect("openai-chat-strict")

    with caplog.at_level(logging.WARNING):
        first, second = (t["function"] for t in strict.render_tools(kit))

    assert first["strict"] is True
    assert first["parameters"]["required"] == ["q", "lang", "n"]
    assert first["parameters"]["additionalProperties"] is False
    assert "default" not in str(first["parameters"])
    assert "strict" not in second
    assert second["parameters"]["properties"]["m"]["additionalProperties"] == {"type": "integer"}
    assert "'tally'" in strict.notes(kit)[0]
    assert "'tally'" in caplog.text

    many = FakeKit(*(tool(f"m{n}", m={"type": "object"}) for n in range(7)))
    with caplog.at_level(logging.WARNING):
        strict.render_tools(many)

    assert len(strict.notes(many)) == 7
    assert "'m4'" in caplog.text
    assert "and 2 more" in caplog.text


@owes("schema-08")
def test_gemini_inlines_a_model_that_is_used_twice() -> None:
    point = {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}
    schema = {"$defs": {"Pt": point}, **of(start={"$ref": "#/$defs/Pt"}, end={"$ref": "#/$defs/Pt"})}

    got = exported(schema)

    assert "$" not in str(got)
    assert got["properties"]["start"] == got["properties"]["end"] == point


@owes("schema-09")
def test_gemini_cuts_recursion_and_the_others_keep_the_reference() -> None:
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}
    schema = {"$defs": {"N": node}, **of(n={"$ref": "#/$defs/N"})}

    assert "$ref" not in str(exported(schema))
    assert exported(schema, "anthropic")["properties"]["n"] == {"$ref": "#/$defs/N"}


@owes("schema-06", "schema-05")
def test_gemini_enums_hold_texts_only_and_no_empty_one() -> None:
    got = exported(
        of(
            code={"type": "string", "enum": ["", "DE"], "default": ""},
            level={"enum": [1, 2], "description": "How much."},
            mixed={"enum": ["a", 1, None]},
            maybe={"enum": ["a", None]},
            one={"const": "k"},
            yes={"const": True},
            half={"enum": [0.5, 1]},
            nothing={"enum": [None]},
        )
    )["properties"]

    assert got["code"] == {
        "type": "string",
        "default": "",
        "enum": ["DE"],
        "description": "May be the empty text.",
    }
    assert got["level"] == {"type": "integer", "description": "How much. One of: 1, 2."}
    assert got["maybe"] == {"type": "string", "enum": ["a"], "nullable": True}
    # `enum` is for texts: the 1 has a branch of its own, else no model could choose it.
    assert got["mixed"] == {
        "anyOf": [
            {"type": "string", "enum": ["a"], "nullable": True},
            {"type": "integer", "description": "One of: 1.", "nullable": True},
        ]
    }
    assert got["one"] == {"type": "string", "enum": ["k"]}
    assert got["yes"] == {"type": "boolean", "description": "One of: true."}
    assert got["half"]["type"] == "number"
    assert set(got["nothing"]) == {"anyOf"}


@owes("schema-20")
def test_gemini_has_nothing_beside_any_of() -> None:
    got = exported(
        of(
            slot={"anyOf": [{"type": "integer"}, {"type": "string"}], "default": 9, "description": "Which."},
            opt={"anyOf": [{"type": "string"}, {"type": "null"}], "description": "May be.", "default": None},
            kinds={"type": ["string", "integer", "null"]},
            deep={"oneOf": [{"type": ["string", "integer"]}, {"type": "boolean"}]},
            any={"description": "Whatever."},
            free=True,
            empty={"anyOf": [], "type": "string"},
            none={"type": [], "items": {"type": "string"}},
            twice={"anyOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "null"}]},
        )
    )["properties"]

    assert got["slot"] == {
        "anyOf": [
            {"type": "integer", "description": "Which. Default: 9."},
            {"type": "string", "description": "Which. Default: 9."},
        ]
    }
    assert got["opt"] == {"type": "string", "description": "May be.", "nullable": True}
    assert got["kinds"] == {
        "anyOf": [{"type": "string", "nullable": True}, {"type": "integer", "nullable": True}]
    }
    assert [b["type"] for b in got["deep"]["anyOf"]] == ["string", "integer", "boolean"]
    assert [b["description"] for b in got["any"]["anyOf"]] == ["Whatever."] * 4
    assert [b["type"] for b in got["free"]["anyOf"]] == ["string", "number", "boolean", "object"]
    assert got["empty"] == {"type": "string"}
    assert got["none"] == {"type": "array", "items": {"type": "string"}}
    assert all(set(node) == {"anyOf"} for node in got.values() if "anyOf" in node)


def test_gemini_merges_all_of_keeps_known_formats_and_notes_free_keys() -> None:
    schema = of(
        both={"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, True, {"title": "T"}]},
        bare={"allOf": [{"type": "string"}]},
        when={"type": "string", "format": "date-time"},
        link={"type": "string", "format": "uri"},
        free={"type": "object", "additionalProperties": {"type": "integer"}},
        loose={"properties": {"x": {"type": "integer"}}, "required": ["y"]},
    )  # fmt: skip
    kit = FakeKit(FakeTool("f", "F.", schema))
    got = exported(schema)["properties"]

    assert got["both"] == {
        "type": "object",
        "title": "T",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
    }
    assert got["bare"] == {"type": "string"}
    assert got["when"]["format"] == "date-time"
    assert got["link"] == {"type": "string"}
    assert got["free"] == {"type": "object"}
    assert got["loose"] == {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert gemini.notes(kit) == ("tool 'f': .free takes free keys; Gemini cannot be told of which type",)


def test_names_are_safe_and_come_back_through_the_toolkit() -> None:
    for name in ("a.b", "ü", "x" * 65, "", "a b", "-" * 70, "\ud800"):
        sent = wire_name(name, OPENAI)
        assert 0 < len(sent) <= 64
        assert sent.isascii()
        assert sent != name
    assert wire_name("ok-1_A", OPENAI) == "ok-1_A"
    assert wire_name("a.b", MCP) == "a.b"
    assert wire_name("1a", dialect_alphabet()).startswith("t1a_")
    assert wire_name("a.b", OPENAI) != wire_name("a/b", OPENAI)


def dialect_alphabet() -> Any:
    from pegboard.dialects.names import GEMINI

    return GEMINI


def test_two_tools_under_one_sent_name_do_not_build() -> None:
    kit = FakeKit(tool("a.b"), tool(wire_name("a.b", OPENAI)))

    with raises(BuildError, match="rename one"):
        wire_names(kit, OPENAI)


@owes("K-08")
def test_rendering_keeps_the_order_and_is_done_once_a_toolkit() -> None:
    kit = FakeKit(*(tool(n) for n in "zab"))
    chat = dialect("openai-chat")

    first, second = chat.render_tools(kit), chat.render_tools(kit)

    assert [t["function"]["name"] for t in first] == ["z", "a", "b"]
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_only_the_last_toolkits_are_kept() -> None:
    made: list[Any] = []
    per = ToolkitCache(lambda kit: made.append(kit) or len(made))
    kits = [FakeKit() for _ in range(KEPT + 1)]

    for kit in [*kits, kits[-1], kits[0]]:
        per(kit)

    assert len(made) == KEPT + 2


def test_a_dialect_is_found_by_either_spelling_and_an_unknown_one_lists_those_that_are() -> None:
    assert dialect("openai_chat") is dialect("openai-chat") is dialect(" OpenAI-Chat ")
    assert [dialect(n).name for n in DIALECTS] == list(DIALECTS)
    with raises(BuildError, match="openai-chat, openai-chat-strict"):
        dialect("klingon")


@pytest.mark.parametrize("word", ["$defs", "definitions"])
@pytest.mark.parametrize("name", [n for n in DIALECTS if n not in ("text", "xml")])
def test_a_reference_at_the_root_is_what_it_names(word: str, name: str) -> None:
    # Pydantic writes recursive models so: `{"$ref": "#/$defs/Node", "$defs": …}`.
    node = of(label={"type": "string"}, next={"anyOf": [{"$ref": f"#/{word}/Node"}, {"type": "null"}]})
    got = exported({"$ref": f"#/{word}/Node", word: {"Node": node}}, name)

    assert got["type"] == "object" and "$ref" not in got
    assert list(got["properties"]) == ["label", "next"] and got["required"] == ["label", "next"]


def test_a_reference_at_the_root_that_goes_in_a_circle_says_nothing() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}

    assert sendable(circle) == {"type": "object", "properties": {}, "required": []}


@pytest.mark.parametrize(
    ("first", "second", "either"),
    [
        ({"const": "a"}, {"const": "b"}, {"enum": ["a", "b"]}),
        (
            {"type": "string", "const": "a", "default": "a"},
            {"type": "string", "enum": ["a", "b"], "default": "b"},
            {"type": "string", "enum": ["a", "b"]},
        ),
        ({"const": 1}, {"const": True}, {"enum": [1, True]}),
        ({"type": "string"}, {"type": "string"}, {"type": "string"}),
        ({"type": "string"}, {"type": "integer"}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        (True, {"const": "b"}, {"anyOf": [True, {"const": "b"}]}),
    ],
)
@pytest.mark.parametrize("union", ["oneOf", "anyOf"])
def test_a_parameter_of_several_branches_takes_what_each_of_them_takes(
    union: str, first: Any, second: Any, either: Any
) -> None:
    got = sendable({union: [of(kind=first), of(kind=second)]})

    assert got["properties"] == {"kind": either}
    assert got["required"] == ["kind"]


def test_a_third_branch_stands_beside_the_first_two_and_what_the_root_says_holds() -> None:
    kinds: list[dict[str, Any]] = [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]

    assert sendable({"anyOf": [of(v=k) for k in kinds]})["properties"]["v"] == {"anyOf": kinds}
    assert sendable({**of(v={"type": "string"}), "anyOf": [of(v=k) for k in kinds]})["properties"] == {
        "v": {"type": "string"}
    }


@pytest.mark.parametrize(
    ("reference", "kept"),
    [
        ("#/$defs/n", {"n": {"type": "integer"}}),
        ("#/definitions/n", None),
        ("#whole", None),
        ("#/$defs/a%20b~1c", {"a b/c": {"type": "integer"}}),
    ],
)
def test_strict_keeps_no_reference_to_what_it_cannot_keep(
    reference: str, kept: Any, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {
        **of(count={"$ref": reference}),
        "$defs": kept or {"n": {"$anchor": "whole", "type": "integer"}},
        "definitions": {"n": {"type": "integer"}},
    }
    with caplog.at_level(logging.WARNING):
        (sent,) = dialect("openai-chat-strict").render_tools(FakeKit(FakeTool("f", "F.", schema)))

    assert sent["function"].get("strict", False) is (kept is not None)
    assert (reference in caplog.text) is (kept is None)
    if kept is None:
        assert sent["function"]["parameters"] == schema


@owes("X-07", "K-07", "K-09")
@pytest.mark.parametrize("name", [n for n in DIALECTS if n not in ("text", "xml", "gemini")])
def test_a_schema_of_an_older_draft_goes_out_as_one_of_2020_12(name: str) -> None:
    import jsonschema_rs

    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "https://a.example/s",
        **of(
            n={"type": "number", "minimum": 0, "exclusiveMinimum": True},
            p={"type": "array", "items": [{"type": "string"}], "additionalItems": False},
            d={"$ref": "#/definitions/d"},
            any={"type": "any"},
            need={"type": "string", "required": True},
            maybe={"type": "string", "nullable": True},
            nan={"type": "number", "default": float("nan")},
        ),
        "required": ["n"],
        "definitions": {"d": {"type": "string"}},
    }

    got = exported(old, name)

    jsonschema_rs.Draft202012Validator(json.loads(json.dumps(got, allow_nan=False)), offline=True)
    assert got["properties"]["n"] == {"type": "number", "exclusiveMinimum": 0}
    assert got["properties"]["p"]["prefixItems"] == [{"type": "string"}]
    assert got["properties"]["d"] == {"$ref": "#/$defs/d"} and "$schema" not in got
    assert got["required"] == ["n", "need"]
    text = json.dumps(dialect("text").render_tools(FakeKit(FakeTool("f", "F.", old))))
    assert "NaN" not in text and "exclusiveMinimum" in text and ": true" not in text


def test_gemini_is_told_of_an_old_schema_what_its_subset_can_say() -> None:
    old = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **of(a={"type": "string", "nullable": True, "required": True}, b={"type": "any"}),
        "required": [],
    }

    got = exported(old)

    assert got["properties"]["a"] == {"type": "string", "nullable": True}
    assert got["required"] == ["a"]
