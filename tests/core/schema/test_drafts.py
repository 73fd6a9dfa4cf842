"""Schemas of older drafts in 2020-12: the drafts' own test suite says whether the meaning has stayed."""

from __future__ import annotations

import gzip
import json
import math
from types import MappingProxyType
from typing import Any

import jsonschema_rs
import pytest
from pytest import raises

from pegboard.core.errors import BuildError
from pegboard.core.schema.foreign import ForeignSchema
from pegboard.core.schema.json_schema import modern, readable
from pegboard.core.schema.signature import Signature
from tests.ledger import DATA, owes

DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
}
D4 = "http://json-schema.org/draft-04/schema#"


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def new_verdict(schema: Any, value: Any) -> bool:
    """What a validator of 2020-12, which checks the schema too, says."""
    return jsonschema_rs.Draft202012Validator(schema, offline=True).is_valid(value)


@owes("X-07", "K-07")
@pytest.mark.parametrize("draft", list(DRAFTS))
def test_an_old_schema_means_in_2020_12_what_its_drafts_own_suite_says(draft: str) -> None:
    with gzip.open(DATA / "json_schema/cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [r for r in map(json.loads, lines) if r["draft"] == draft and not r["optional"]]
    # Left out: documents elsewhere, the meta-schema itself, and recursion that only `$dynamicRef` could say.
    local = [
        r for r in cases
        if isinstance(r["schema"], dict) and "localhost:1234" not in (text := json.dumps(r["schema"]))
        and '"$recursiveAnchor"' not in text and '"$ref": "http' not in text
    ]  # fmt: skip

    wrong = [
        r["id"]
        for r in local
        if new_verdict(modern({"$schema": DRAFTS[draft], **r["schema"]}), r["data"]) != r["valid"]
    ]

    assert wrong == []
    assert len(local) > 800


@owes("X-07")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Draft 04 §5.1.2: with the flag, the instance is strictly greater than the bound.
        (of(a={"minimum": 0, "exclusiveMinimum": True}), of(a={"exclusiveMinimum": 0})),
        (of(a={"maximum": 9, "exclusiveMaximum": False}), of(a={"maximum": 9})),
        (of(a={"exclusiveMaximum": True}), of(a={})),
        (of(a={"items": [{"type": "string"}], "additionalItems": False}), of(a={"prefixItems": [{"type": "string"}], "items": False})),
        (of(a={"items": [{"type": "string"}]}), of(a={"prefixItems": [{"type": "string"}]})),
        (of(a={"items": [], "additionalItems": {"type": "null"}}), of(a={"items": {"type": "null"}})),
        ({**of(a={"$ref": "#/definitions/x"}), "definitions": {"x": {"type": "string"}}},
         {**of(a={"$ref": "#/$defs/x"}), "$defs": {"x": {"type": "string"}}}),
        ({"definitions": {"x": True}, "$defs": {"x": False}}, {"definitions": {"x": True}, "$defs": {"x": False}}),
        ({"id": "https://a.example/s", **of(id={"type": "string", "id": "#here"})}, of(id={"type": "string", "$anchor": "here"})),
        ({**of(), "dependencies": {"a": ["b"], "c": of(d={"minimum": 1, "exclusiveMinimum": True})}},
         {**of(), "dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": of(d={"exclusiveMinimum": 1})}}),
        # Draft 07 §8.3: members beside "$ref" are ignored; one that only informs harms nobody.
        ({"$ref": "#/definitions/x", "description": "d", "maxLength": 1, "definitions": {"x": {}}},
         {"$ref": "#/$defs/x", "description": "d", "$defs": {"x": {}}}),
    ],
)  # fmt: skip
def test_words_of_draft_04_are_said_in_2020_12(old: dict[str, Any], new: dict[str, Any]) -> None:
    got = modern({"$schema": D4, **old})

    assert got == new
    jsonschema_rs.Draft202012Validator(got, offline=True)


def test_a_newer_schema_stays_the_very_same_object() -> None:
    for schema in (
        of(a={"exclusiveMinimum": 0, "items": {"type": "string"}}),
        True,
        of(any={"enum": ["x"]}),
        of(a={"default": None, "enum": [None], "const": None}),
        of(a={"examples": [{"x": None}], "default": {"x": None}}),
    ):
        assert modern(schema) is schema
        assert readable(schema) is schema


def test_a_frozen_schema_and_one_that_is_no_json_are_looked_at_all_the_same() -> None:
    frozen = MappingProxyType(
        {"properties": MappingProxyType({"a": {"minimum": 0, "exclusiveMinimum": True}}), "x": {1}}
    )

    assert modern(frozen)["properties"]["a"] == {"exclusiveMinimum": 0}
    circle: dict[str, Any] = {"type": "any"}
    circle["properties"] = {"a": circle}
    assert modern(circle) is circle


@owes("N-11")
@pytest.mark.parametrize(
    ("word", "new"),
    [
        (of(a={"type": "any"}, b={"type": ["any", "null"]}), of(a={}, b={})),
        (of(a={"type": "string", "required": True}, b={"required": False}), {**of(a={"type": "string"}, b={}), "required": ["a"]}),
        ({**of(a={"required": True}, b=True), "required": ["b", "a"]}, {**of(a={}, b=True), "required": ["b", "a"]}),
        (of(a={**of(b={"required": True}), "required": True}), {**of(a={**of(b={}), "required": ["b"]}), "required": ["a"]}),
        ({**of(), "required": True, "items": {"required": True}}, {**of(), "items": {}}),
        (of(a={"type": "string", "enum": ["x"], "nullable": True}), of(a={"type": ["string", "null"], "enum": ["x", None]})),
        (of(a={"type": "string", "nullable": True, "required": True}), {**of(a={"type": ["string", "null"]}), "required": ["a"]}),
        (of(a={"nullable": False, "type": "string"}), of(a={"type": "string"})),
        ({**of(nullable={"nullable": "x"}), "nullable": True}, of(nullable={"nullable": "x"})),
        ({"$schema": "http://json-schema.org/draft-03/schema#", **of(a={"type": "any"})}, of(a={})),
        ({"type": "object", "properties": None, "required": None, "items": None}, {"type": "object"}),
        (of(a=None, b={"enum": None, "default": None}), of(a={}, b={"default": None})),
        (of(a={"const": None, "title": None}), of(a={"const": None})),
    ],
)  # fmt: skip
def test_words_that_no_validator_knows_are_read_as_they_are_meant(
    word: dict[str, Any], new: dict[str, Any]
) -> None:
    assert readable(word) == new
    ForeignSchema(word).check()


@owes("K-05")
def test_calls_of_such_tools_are_checked_and_repaired_like_any_other() -> None:
    signature = Signature.foreign(
        of(n={"type": "integer", "required": True}, s={"type": "string", "nullable": True, "required": True}),
        name="t",
    )

    assert signature.decode({"n": "3", "s": None}).arguments == {"n": 3, "s": None}
    assert signature.errors({"n": 3}) == [".s: is required but missing"]


@owes("K-03")
def test_a_schema_that_does_not_say_its_draft_is_read_by_the_one_it_fits() -> None:
    silent = of(
        n={"type": "integer", "minimum": 0, "exclusiveMinimum": True}, p={"items": [{"type": "integer"}]}
    )
    signature = Signature.foreign(silent, name="t")

    signature.check()

    assert signature.schema is silent
    assert signature.errors({"n": 1, "p": [1, "x"]}) == []
    assert "0 is less than or equal to the minimum of 0" in " ".join(signature.errors({"n": 0}))
    assert "integer" in " ".join(signature.errors({"p": ["x"]}))


def test_what_no_draft_knows_is_refused_in_the_words_of_the_first_try() -> None:
    for wrong in ({"type": "strung"}, {"items": [{"type": "strung"}]}):
        with raises(BuildError, match="strung"):
            ForeignSchema(of(a=wrong)).check()


@owes("N-12")
def test_a_value_that_json_cannot_write_is_not_sent() -> None:
    schema = of(
        a={
            "type": "number",
            "default": math.nan,
            "maximum": math.inf,
            "examples": [1, -math.inf],
            "description": "NaN, x",
        }
    )

    assert modern(schema) == of(a={"type": "number", "description": "NaN, x"})
    assert modern(of(a={"default": math.nan, "enum": [1, math.inf]})) == of(a={})


@owes("X-07")
@pytest.mark.parametrize(
    ("root", "kinds"),
    [
        ({"type": "array", "items": {}}, "an array"),
        ({"type": "number"}, "a number"),
        ({"type": ["string", "boolean"]}, "a boolean or a string"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null or a string"),
        (False, "nothing"),
    ],
)
def test_a_root_that_no_arguments_fit_is_refused_with_what_to_do(root: Any, kinds: str) -> None:
    with raises(BuildError, match=f"takes {kinds} at its root") as caught:
        ForeignSchema(root, name="t").check_root()

    assert "make it a property" in str(caught.value)
    if root:
        with raises(BuildError, match="at its root"):
            Signature.foreign(root, name="t").check()


def test_a_root_that_says_nothing_or_admits_objects_is_fine() -> None:
    for root in ({}, {"type": ["object", "null"]}, of(), {"$ref": "#"}, {"type": "any"}):
        ForeignSchema(root).check_root()
