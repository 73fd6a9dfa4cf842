"""Schema transformations, judged by what the results accept and reject."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from pegboard.core.errors import BuildError
from pegboard.core.schema.json_schema import (
    inline_refs,
    nullable,
    pointer,
    rewrite,
    same,
    strict,
    strict_problem,
    type_name,
    types_of,
)
from pegboard.core.schema.signature import Signature
from tests.core.schema import signatures as given
from tests.ledger import owes


def accepts(schema: Any, value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema, offline=True).is_valid(value)


def objects_in(node: Any) -> list[dict[str, Any]]:
    found = [node] if isinstance(node, dict) and node.get("type") == "object" else []
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        found += objects_in(child)
    return found


@owes("schema-01", "K-07")
def test_strict_lists_every_key_and_admits_null_for_the_optional_ones() -> None:
    signature = Signature.of(given.search)

    schema = strict(signature.schema)

    assert schema["required"] == ["q", "lang"]
    assert schema["additionalProperties"] is False
    assert accepts(schema, {"q": "x", "lang": None})
    assert not accepts(schema, {"q": "x"})
    assert signature.decode('{"q": "x", "lang": null}').arguments == {"q": "x", "lang": None}


@owes("K-07")
def test_strict_closes_every_object_also_where_its_author_said_nothing() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}

    schema = strict({"type": "object", "properties": {"o": inner}, "required": ["o"]})

    assert schema["additionalProperties"] is False
    assert schema["properties"]["o"] == {**inner, "additionalProperties": False}


@owes("schema-02", "K-07")
def test_strict_has_no_default_at_any_depth_and_its_null_means_the_default() -> None:
    schema = strict(Signature.of(given.boxed).schema)

    assert '"default"' not in json.dumps(schema)
    assert all(o["required"] == list(o["properties"]) for o in objects_in(schema))
    top = Signature.of(given.top)
    assert accepts(strict(top.schema), {"n": None})
    assert top.decode('{"n": null}').arguments == {"n": 5}


def test_a_null_for_an_optional_field_inside_an_object_takes_its_default_too() -> None:
    from pydantic import BaseModel

    class Inner(BaseModel):
        n: int = 3

    def tool(inner: Inner) -> None: ...

    assert accepts(strict(Signature.of(tool).schema), {"inner": {"n": None}})
    assert Signature.of(tool).decode('{"inner": {"n": null}}').arguments["inner"].n == 3


@owes("schema-09")
def test_strict_keeps_recursive_references() -> None:
    schema = strict(Signature.of(given.tree).schema)

    leaf = {"name": "a", "kids": []}
    assert accepts(schema, {"n": {"name": "r", "kids": [leaf, leaf]}})
    assert not accepts(schema, {"n": {"name": "r", "kids": [{"kids": []}]}})


@owes("schema-10", "schema-19")
def test_what_strict_cannot_say_is_named() -> None:
    assert strict_problem(Signature.of(given.tally).schema) == ".m is a map with free keys"
    assert strict_problem(Signature.of(given.loose).schema) == ".xs[] takes any value"
    assert strict_problem(Signature.of(given.anything).schema) == ".a takes any value"
    assert strict_problem(Signature.of(given.opened).schema) == "the root is a map with free keys"
    for function in (
        given.lookup,
        given.search,
        given.tree,
        given.ping,
        given.pick,
        given.boxed,
        given.level,
    ):
        assert strict_problem(Signature.of(function).schema) is None, function


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "properties": {"a": {"allOf": [{}]}}}, ".a uses allOf"),
        ({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}}, ".a refers outside"),
        (
            {"type": "object", "properties": {"a": {"anyOf": [{"type": "object"}]}}},
            ".a is a map with free keys",
        ),
        ({"type": "object", "$defs": {"D": {}}}, "#D takes any value"),
        ({"type": "object", "properties": {"a": True}}, ".a takes any value"),
    ],
)
def test_other_words_that_strict_lacks_are_named(schema: dict[str, Any], problem: str) -> None:
    assert strict_problem(schema) == problem


def test_strict_says_one_of_as_any_of_and_wraps_a_described_reference() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"oneOf": [{"type": "string", "minLength": 2}, {"type": "integer"}], "description": "A."},
            "b": {"$ref": "#/$defs/B", "description": "B."},
            "c": {"$ref": "#/$defs/B"},
        },
        "required": ["a", "b", "c"],
        "$defs": {"B": {"enum": [1, 2]}},
    }

    assert strict(schema)["properties"] == {
        "a": {"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "A."},
        "b": {"anyOf": [{"$ref": "#/$defs/B"}], "description": "B."},
        "c": {"$ref": "#/$defs/B"},
    }
    assert schema["properties"]["a"]["description"] == "A."  # type: ignore[index]  the original is untouched


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"}, {"type": ["integer", "string"]}, {"enum": ["a"], "type": "string"}, {"const": 1},
        {"enum": ["a"]}, {"anyOf": [{"type": "integer"}]}, {"oneOf": [{"type": "integer"}]}, {"$ref": "#/$defs/X"},
        {"type": "integer", "const": 3, "description": "d"},
    ],
)  # fmt: skip
def test_nullable_admits_null_and_what_it_admitted(schema: dict[str, Any]) -> None:
    root = {"$defs": {"X": {"type": "integer"}}}
    whole = {**nullable(schema, root), **root}

    assert accepts(whole, None)
    for value in (1, 3, "a", True):
        assert accepts(whole, value) == accepts({**schema, **root}, value)


def test_nullable_leaves_what_takes_null_or_anything() -> None:
    for schema in (True, {}, {"type": ["string", "null"]}, {"anyOf": [{"type": "null"}]}):
        assert nullable(schema, {}) == schema


@owes("schema-08")
def test_a_model_that_is_used_twice_is_written_twice() -> None:
    schema = inline_refs(Signature.of(given.draw).schema)

    assert "$ref" not in json.dumps(schema)
    assert "$defs" not in json.dumps(schema)
    point = {
        "type": "object",
        "properties": {"lat": {"type": "number"}},
        "required": ["lat"],
        "additionalProperties": False,
    }
    assert schema["properties"]["c"]["properties"] == {"start": point, "end": point}


@owes("schema-09")
def test_a_recursive_model_is_cut_at_a_depth_or_refused() -> None:
    schema = Signature.of(given.tree).schema

    cut = inline_refs(schema, max_depth=3)

    assert accepts(cut, {"n": {"name": "a", "kids": [{"name": "b", "kids": []}]}})
    assert not accepts(cut, {"n": {"name": "a", "kids": [{"kids": []}]}})
    assert json.dumps(cut).count('"name":') == 4
    with pytest.raises(BuildError, match="contains itself"):
        inline_refs(schema)


def test_a_reference_that_leads_nowhere_is_refused_and_a_true_one_is_kept() -> None:
    with pytest.raises(BuildError, match="which is not in it"):
        inline_refs({"properties": {"a": {"$ref": "#/$defs/Nope"}}})
    assert inline_refs({"items": [{"$ref": "#/$defs/T"}, 5], "$defs": {"T": True}}) == {"items": [True, 5]}


def test_a_change_reaches_every_schema_and_spares_what_is_data() -> None:
    schema = {
        "properties": {"title": {"title": "T", "type": "string"}, "x": {"items": {"title": "I"}}},
        "anyOf": [{"title": "A"}], "additionalProperties": {"title": "P"}, "title": "R", "items": [{"title": "Q"}, True],
        "default": {"title": "data"},
    }  # fmt: skip

    assert rewrite(schema, lambda node: {k: v for k, v in node.items() if k != "title"}) == {
        "properties": {"title": {"type": "string"}, "x": {"items": {}}},
        "anyOf": [{}], "additionalProperties": {}, "items": [{}, True], "default": {"title": "data"},
    }  # fmt: skip


def test_types_follow_references_unions_and_intersections() -> None:
    root = {"$defs": {"A": {"type": "integer"}, "Loop": {"$ref": "#/$defs/Loop"}, "L": [{"type": "string"}]}}

    assert types_of({"$ref": "#/$defs/A"}, root) == {"integer"}
    assert types_of({"$ref": "#/$defs/Loop"}, root) is None
    assert types_of({"$ref": "#/$defs/L/0"}, root) == {"string"}
    assert types_of({"$ref": "#/$defs/L/x"}, root) is None
    assert types_of({"$ref": "other.json"}, root) is None
    assert types_of({"type": "number"}, root) == {"number", "integer"}
    assert types_of({"const": None}, root) == {"null"}
    assert types_of({"anyOf": [{"type": "string"}, {}]}, root) is None
    assert types_of({"type": ["string", "null"], "oneOf": [{"type": "string"}, {"type": "array"}]}, root) == {
        "string"
    }
    assert types_of({"allOf": [{"type": ["string", "null"]}, {"type": "string"}, {}]}, root) == {"string"}
    assert types_of(False, root) == frozenset()
    loop: dict[str, Any] = {"type": "object"}
    loop["anyOf"] = [{"$ref": "#"}]
    assert types_of(loop, loop) == {"object"}
    assert pointer({"$ref": "#/$defs/A", "minimum": 1}, root) == {"type": "integer", "minimum": 1}
    assert pointer({"$ref": "#/a~1b"}, {"a/b": False}) is False


def test_true_is_not_one_in_json() -> None:
    assert same(1, 1.0)
    assert not same(True, 1)
    assert same({"a": [1]}, {"a": [1.0]})
    assert not same({"a": 1}, {"b": 1})
    assert not same([1], [1, 2])
    assert not same([True], [1])


def test_json_types_are_named() -> None:
    values = (None, True, 1, 1.0, "", [], (), {})

    assert [type_name(v) for v in values] == [
        "null", "boolean", "integer", "number", "string", "array", "array", "object",
    ]  # fmt: skip


@owes("schema-09")
def test_definitions_that_all_refer_to_each_other_are_answered_at_once() -> None:
    names = [f"D{i}" for i in range(12)]
    every = [{"$ref": f"#/$defs/{n}"} for n in names]
    root: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/D0"}},
        "$defs": {n: {"anyOf": every} for n in names},
    }

    assert types_of(root["properties"]["a"], root) is None
    with pytest.raises(BuildError, match="more than 20000 nodes"):
        inline_refs(root, max_depth=2)
    Signature.foreign(root).errors({"a": 1})


def test_a_reference_by_anchor_and_a_percent_encoded_one_lead_to_what_they_name() -> None:
    # JSON Schema 2020-12 core §8.2.2, RFC 6901 §6.
    root: dict[str, Any] = {
        "$defs": {"a b/c": {"type": "integer"}, "n": {"anyOf": [{"$anchor": "here", "type": "string"}]}},
        "properties": {"d": {"$dynamicAnchor": "there", "type": "array"}},
    }

    assert pointer({"$ref": "#/$defs/a%20b~1c"}, root) == {"type": "integer"}
    assert pointer({"$ref": "#here"}, root) == root["$defs"]["n"]["anyOf"][0]
    assert pointer({"$ref": "#there"}, root) == root["properties"]["d"]
    assert pointer({"$ref": "#nowhere"}, root) is True
    assert pointer({"$ref": "#"}, root) is root
