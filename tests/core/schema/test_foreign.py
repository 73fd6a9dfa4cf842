"""Foreign schemas: accepted as they stand, validated by the drafts' own test suite and by real tool calls."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from pegboard.core.errors import BuildError, InvalidArguments
from pegboard.core.schema.foreign import (
    ForeignSchema,
    ToolParameter,
    from_parameters,
    from_property_map,
    is_property_map,
)
from pegboard.core.schema.signature import Signature
from tests.ledger import DATA, owes


def rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def verdict(row: dict[str, Any]) -> bool | str:
    schema = ForeignSchema(row["schema"])
    try:
        accepted = schema.accepts(row["data"])
    except BuildError as error:
        return str(error)
    assert accepted == (not schema.errors(row["data"]))
    return accepted


@owes("N-11", "N-12", "N-05", "K-03", "X-59")
def test_all_946_verdicts_of_the_tool_subset_are_right() -> None:
    cases = list(rows("json_schema/tool_subset.jsonl.gz"))

    wrong = [row["id"] for row in cases if verdict(row) != row["valid"]]

    assert (len(cases), wrong) == (946, [])


@pytest.mark.slow
def test_of_the_1299_required_2020_12_cases_only_remote_references_are_refused() -> None:
    cases = [
        r for r in rows("json_schema/cases.jsonl.gz") if r["draft"] == "draft2020-12" and not r["optional"]
    ]

    results = [(row, verdict(row)) for row in cases]

    assert len(cases) == 1299
    refused = [row for row, result in results if isinstance(result, str)]
    assert all("localhost:1234" in json.dumps(row["schema"]) for row in refused)
    assert sum(result == row["valid"] for row, result in results) == 1250 == 1299 - len(refused)


def _oracle(cases: list[dict[str, Any]]) -> tuple[int, int]:
    """(schemas imported, cases whose every call is accepted)."""
    wrap_foreign = accepted = 0
    for case in cases:
        signatures: dict[str, Signature] = {}
        for tool in case["tools"]:
            signature = Signature.foreign(tool["parameters"], name=tool["name"])
            signature.check()
            assert signature.schema == tool["parameters"]
            signatures[tool["name"]] = signature
            wrap_foreign += 1
        try:
            for call in case["calls"]:
                decoded = signatures[call["name"]].decode(json.dumps(call["arguments"]))
                assert decoded.repairs or decoded.sent == call["arguments"]
        except InvalidArguments:
            assert not case["valid_by_jsonschema"], case["id"]
        else:
            accepted += 1
    return wrap_foreign, accepted


def test_a_sample_of_real_calls_is_accepted_unchanged() -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    cases = list(rows("bfcl/single.jsonl.gz"))

    _oracle(random.Random(seed).sample(cases, 150))


@pytest.mark.slow
def test_all_6376_schemas_are_imported_and_at_least_2462_cases_accepted() -> None:
    wrap_foreign, accepted = _oracle(list(rows("bfcl/single.jsonl.gz")))

    assert wrap_foreign == 6376
    assert accepted >= 2462


@owes("N-08", "N-14")
def test_a_schema_is_passed_on_unchanged() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}

    signature = Signature.foreign(schema, description="Read a file.", name="read_file")

    assert signature.schema is schema
    assert signature.description == "Read a file."
    assert signature.output_schema is None
    assert Signature.foreign(None).schema == {"type": "object", "properties": {}}


@owes("N-10", "N-11", "N-13")
def test_every_problem_is_told_with_its_path() -> None:
    signature = Signature.foreign(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "minimum": 1}, "b": {"enum": ["x", "y"]}, "c": {"type": "array", "items": {"type": ["string", "null"]}},
                "d": {"type": "object", "properties": {}, "additionalProperties": False}, "e": {"type": "string", "maxLength": 3},
                "f": {"type": "string"},
            },
            "required": ["z"],
        },
        name="tool",
    )  # fmt: skip

    errors = signature.errors({"a": 0, "b": "z", "c": ["q", 5], "d": {"k": 1}, "e": "long" * 100, "f": None})

    long = next(e for e in errors if e.startswith(".e: "))
    assert "longer than 3" in long
    assert len(long) < 120
    assert sorted(e for e in errors if e is not long) == [  # null for the optional f counts as absent
        ".a: 0 is less than the minimum of 1",
        '.b: must be one of ["x", "y"], got "z"',
        ".c[1]: must be null or a string, got 5",
        ".d.k: unknown argument",
        ".z: is required but missing",
    ]


def test_a_problem_with_a_value_that_json_cannot_say_is_cut() -> None:
    schema = ForeignSchema({"not": {}, "type": "object"})

    assert len(schema.errors({"x": "y" * 5000})[0].message) <= 200


def test_null_where_it_is_required_is_told() -> None:
    schema = {"type": "object", "properties": {"f": {"type": "string"}}, "required": ["f"]}

    assert Signature.foreign(schema).errors({"f": None}) == [".f: may not be null; it must be a string"]


@owes("X-09", "K-04")
def test_values_are_coerced_only_where_the_schema_asks_for_it() -> None:
    signature = Signature.foreign(
        {
            "type": "object",
            "properties": {
                "n": {"$ref": "#/$defs/n"}, "s": {"type": "string"}, "any": {},
                "t": {"prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}},
                "m": {"allOf": [{"type": "number"}, {"minimum": 1}]}, "u": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
                "o": {"additionalProperties": {"type": "integer"}}, "p": {"patternProperties": {"(a+)+$": {"type": "integer"}}},
                "yes": True,
            },
            "$defs": {"n": {"type": ["integer", "null"]}},
        }
    )  # fmt: skip
    sent = {
        "n": "7",
        "s": "7",
        "any": "7",
        "t": ["1", "true"],
        "m": "2.5",
        "u": "true",
        "o": {"k": "3"},
        "yes": "1",
    }

    decoded = signature.decode(json.dumps(sent))

    assert decoded.arguments == {
        "n": 7, "s": "7", "any": "7", "t": [1, True], "m": 2.5, "u": True, "o": {"k": 3}, "yes": "1",
    }  # fmt: skip
    assert decoded.sent == decoded.arguments
    assert decoded.sent is not decoded.arguments
    assert len(decoded.repairs) == 6
    assert signature.errors({"p": {"a" * 40 + "!": "x"}, "n": "7"}) == []


def test_a_tuple_of_an_older_draft_is_coerced_by_its_places() -> None:
    signature = Signature.foreign(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"t": {"items": [{"type": "integer"}], "additionalItems": {"type": "boolean"}}},
        }
    )

    assert signature.decode({"t": ["1", "true"]}).arguments == {"t": [1, True]}


def test_the_branch_of_a_union_that_fits_best_is_taken() -> None:
    signature = Signature.foreign(
        {
            "type": "object",
            "properties": {
                "v": {
                    "anyOf": [
                        {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "string"}}},
                        {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "integer"}}},
                        False,
                    ]
                }
            },
        }
    )

    assert signature.decode({"v": {"kind": "b", "n": "5"}}).arguments == {"v": {"kind": "b", "n": 5}}
    assert signature.decode({"v": {"kind": "a", "n": "5"}}).repairs == ()


@owes("U-12", "D-12")
def test_a_property_map_is_a_schema_whose_defaults_are_optional_and_filled_in() -> None:
    parameters = {
        "path": {"type": "string"},
        "encoding": {"type": "string", "default": "utf-8"},
        "tags": {"type": "array", "default": []},
    }
    signature = Signature.foreign(from_property_map(parameters), closed=True)

    assert signature.schema["required"] == ["path"]
    decoded = signature.decode('{"path": "a"}')
    assert decoded.arguments == {"path": "a", "encoding": "utf-8", "tags": []}
    assert decoded.sent == {"path": "a"}
    decoded.arguments["tags"].append(1)
    assert signature.decode('{"path": "a"}').arguments["tags"] == []
    assert is_property_map(parameters)
    assert not is_property_map(signature.schema)
    assert not is_property_map({"$ref": "#/x"})
    assert is_property_map({"type": {"type": "string"}})


def test_a_default_that_breaks_its_schema_is_the_authors_to_answer_for() -> None:
    signature = Signature.foreign(
        {"type": "object", "properties": {"a": {"type": "string", "default": None}}}
    )

    assert signature.decode("{}").arguments == {"a": None}
    unfilled = Signature.foreign(dict(signature.schema), fill_defaults=False)
    assert unfilled.decode("{}").arguments == {}


@owes("U-12")
def test_a_required_property_with_a_default_may_be_absent() -> None:
    signature = Signature.foreign(
        {"type": "object", "properties": {"a": {"type": "integer", "default": 3}}, "required": ["a"]}
    )

    assert signature.decode("{}").arguments == {"a": 3}


@owes("X-08", "A-14")
def test_unknown_arguments_follow_the_schema_unless_the_tool_is_closed() -> None:
    silent = {"type": "object", "properties": {"path": {"type": "string"}}}

    assert Signature.foreign(silent).decode({"x": 1}).arguments == {"x": 1}
    assert "did you mean 'path'" in Signature.foreign(silent, closed=True).errors({"pathh": "a"})[0]
    assert Signature.foreign({**silent, "additionalProperties": True}, closed=True).errors({"x": 1}) == []
    assert Signature.foreign({**silent, "additionalProperties": False}).errors({"x": 1}) != []


def test_aliases_of_a_foreign_tool_are_taken() -> None:
    signature = Signature.foreign(
        {"type": "object", "properties": {"path": {"type": "string"}}}, aliases={"file": "path"}
    )

    assert signature.decode({"file": "a"}).arguments == {"path": "a"}


@owes("K-03")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "objekt"}, "invalid"),
        ({"properties": {"a": {"type": 5}}}, "invalid at .properties.a.type"),
        ({"allOf": [{"minimum": "x"}]}, r"invalid at .allOf\[0\].minimum"),
        ({"properties": 3}, "invalid at .properties"),
        ({"$ref": "http://example.com/schema.json"}, "invalid"),
        ({"$ref": "file:///etc/passwd"}, "invalid"),
        ({"$ref": "#/nowhere"}, "invalid"),
        ({"$schema": "http://example.com/draft"}, "invalid"),
    ],
)
def test_a_schema_that_is_invalid_or_refers_outside_is_refused_at_check(
    schema: dict[str, Any], words: str
) -> None:
    with pytest.raises(BuildError, match=f"tool: its JSON Schema is {words}"):
        Signature.foreign(schema, name="tool").check()


@owes("A-07", "A-08", "X-59")
def test_parameter_objects_become_a_schema() -> None:
    schema = from_parameters(
        [
            ToolParameter("q", "string", "What."),
            ToolParameter("n", "number", "How many.", required=False, default=1.5),
            ToolParameter("tags", "array[string]", "Tags.", required=False),
            ToolParameter("xs", "array", "Anything."),
        ]
    )

    assert schema == {
        "type": "object",
        "properties": {
            "q": {"type": "string", "description": "What."},
            "n": {"type": "number", "description": "How many.", "default": 1.5},
            "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags."},
            "xs": {"type": "array", "items": {}, "description": "Anything."},
        },
        "required": ["q", "xs"],
    }
    for wrong in ("str", "string[integer]", "array[text]"):
        with pytest.raises(BuildError, match="known are string"):
            from_parameters([ToolParameter("q", wrong, "")])


def test_nesting_beyond_the_validators_limit_is_refused() -> None:
    value: Any = 1
    for _ in range(700):
        value = [value]

    assert "nested too deeply" in Signature.foreign({"required": ["b"]}).errors({"v": value})[0]


def test_coercion_stops_where_nobody_meant_to_nest() -> None:
    tree = {
        "type": "object",
        "properties": {"v": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"items": {"$ref": "#/$defs/N"}, "type": ["array", "integer"]}},
    }
    value: Any = "1"
    for _ in range(150):
        value = [value]

    assert len(Signature.foreign(tree).errors({"v": value})) == 1


def test_a_branch_with_patterns_is_judged_by_its_other_words() -> None:
    branch = {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "required": ["b"]}
    schema = {
        "type": "object",
        "properties": {
            "v": {"anyOf": [branch, {"type": "object", "properties": {"n": {"type": "integer"}}}]}
        },
    }

    assert Signature.foreign(schema).decode({"v": {"n": "5"}}).arguments == {"v": {"n": 5}}


def test_the_shape_of_a_foreign_schema_is_the_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": "A."}}}

    assert Signature.foreign(schema).shape is schema


def test_an_unknown_name_beside_a_branch_that_takes_anything_is_told_with_the_nearest() -> None:
    schema = {"properties": {"name": {}}, "additionalProperties": False, "anyOf": [True, {"type": "object"}]}

    assert Signature.foreign({"properties": {"box": schema}}).errors({"box": {"nmae": 1}}) == [
        ".box.nmae: unknown argument; did you mean 'name'?"
    ]


def test_a_declared_result_of_a_foreign_tool_is_shown() -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}}

    assert Signature.foreign({"type": "object"}, output=output).output_schema == output
