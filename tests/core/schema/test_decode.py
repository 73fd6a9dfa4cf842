"""Decoding: what a model sends becomes typed arguments, or every problem is told at once."""

from __future__ import annotations

import datetime
import json
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import given as generated
from hypothesis import settings
from hypothesis import strategies as st
from pydantic import BaseModel

from pegboard.core.errors import InvalidArguments
from pegboard.core.schema.annotations import Alias
from pegboard.core.schema.foreign import from_property_map
from pegboard.core.schema.signature import Signature
from tests.core.schema import signatures as given
from tests.ledger import owes


def one(function: Any, arguments: Any) -> Any:
    return Signature.of(function).decode(arguments).arguments


def refused(signature: Signature, arguments: Any) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        signature.decode(arguments)
    assert "http" not in caught.value.message
    assert len(str(caught.value)) < 500
    return caught.value


GOOD = {
    "query": "q", "limit": 25, "threshold": 0.75, "tags": ["a"],
    "where": {"field": "year", "op": "gt", "value": 2024.0},
}  # fmt: skip


def test_well_formed_text_is_decoded_without_a_note_and_shown_as_sent() -> None:
    decoded = Signature.of(given.lookup).decode(json.dumps(GOOD))

    assert decoded.arguments == {**GOOD, "where": given.Where(**GOOD["where"])}  # type: ignore[arg-type]
    assert decoded.repairs == ()
    assert decoded.sent == GOOD
    assert decoded.sent is decoded.sent
    assert repr(decoded).startswith("Decoded(arguments={'query': 'q'")


@owes("K-05", "args-02")
def test_an_object_sent_as_json_text_is_decoded_where_the_schema_takes_no_string() -> None:
    decoded = Signature.of(given.boxed).decode({"box": '{\n "label": "k\\u00fche",\n "width": 40\n}'})

    assert decoded.arguments["box"] == given.Box(label="kühe", width=40)
    assert decoded.repairs == (".box: the object came as JSON text and was decoded.",)
    assert decoded.sent == {"box": {"label": "kühe", "width": 40}}


def test_json_text_for_an_object_may_itself_need_repair() -> None:
    decoded = Signature.of(given.boxed).decode({"box": "{'label': 'a',}"})

    assert decoded.arguments["box"] == given.Box(label="a")
    assert decoded.repairs == (".box: the object came as JSON text and was decoded after repair.",)


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        '{"label": "a", "width": NaN}',
        '{"label": "a',
        '{"label": "say "hi" now"}',
        "[1]",
        "5",
        "[" * 3000,
    ],
)
def test_text_that_is_not_plainly_that_object_is_refused(text: str) -> None:
    error = refused(Signature.of(given.boxed), {"box": text})

    assert error.details["errors"][0]["path"].startswith(".box")


@owes("args-04", "X-09")
def test_a_union_with_text_keeps_json_looking_text_and_real_objects() -> None:
    assert one(given.either, {"v": '{"a":1}'}) == {"v": '{"a":1}'}
    assert one(given.either, {"v": {"a": 1}}) == {"v": {"a": 1}}


@owes("args-05", "args-06", "X-09")
def test_text_that_looks_like_a_number_or_a_boolean_stays_text() -> None:
    assert one(given.flags, {"recursive": "true", "zip": "007", "flag": "true"}) == {
        "recursive": True, "zip": "007", "flag": "true",
    }  # fmt: skip
    assert one(given.pick, {"slot": "007"}) == {"slot": "007"}
    assert one(given.pick_swapped, {"slot": "007"}) == {"slot": "007"}
    assert one(given.top, {"n": "007"}) == {"n": 7}


@owes("args-08", "N-10", "N-13", "K-03")
def test_a_wrong_type_is_told_with_tool_path_expected_and_received() -> None:
    error = refused(Signature.of(given.top), {"n": "foobar"})

    assert error.message == 'Invalid arguments for top: .n: must be an integer, got "foobar"'
    assert error.details == {"errors": [{"path": ".n", "message": 'must be an integer, got "foobar"'}]}
    assert Signature.of(given.top).errors({"n": "foobar"}) == ['.n: must be an integer, got "foobar"']
    assert Signature.of(given.top).errors({"n": 3}) == []


@owes("N-13")
def test_every_problem_is_told_at_once_with_its_path() -> None:
    bad = {
        "query": 5,
        "limit": None,
        "tags": ["a", 7],
        "where": {"field": "f", "op": "x", "extra": 1},
        "qurey": "z",
    }

    paths = [e["path"] for e in refused(Signature.of(given.lookup), bad).details["errors"]]

    assert sorted(paths) == [
        ".limit",
        ".query",
        ".qurey",
        ".tags[1]",
        ".threshold",
        ".where.extra",
        ".where.op",
        ".where.value",
    ]


def test_more_problems_than_fit_are_counted() -> None:
    error = refused(Signature.of(given.tally), {"m": {str(i): "x" for i in range(30)}})

    assert error.message.endswith("… and 24 more.")
    assert len(error.details["errors"]) == 30


def test_a_long_value_is_shortened() -> None:
    error = refused(Signature.of(given.top), {"n": "x" * 5000})

    assert len(error.message) < 120
    assert "…" in refused(Signature.of(given.top), {"n": list(range(100))}).message


@owes("args-09", "schema-02")
def test_null_for_an_optional_argument_without_null_takes_its_default() -> None:
    decoded = Signature.of(given.top).decode({"n": None})

    assert decoded.arguments == {"n": 5}
    assert decoded.repairs == (".n: null was taken as absent.",)
    assert decoded.sent == {}
    assert one(given.search, '{"q": "x", "lang": null}') == {"q": "x", "lang": None}


@owes("args-11")
def test_null_for_a_required_argument_is_refused() -> None:
    error = refused(Signature.of(given.read), {"path": None})

    assert ".path: is required and may not be null" in error.message


@owes("args-13")
@pytest.mark.parametrize("nothing", ["", "  \n", None, "{}", "null", {}])
def test_absent_arguments_are_an_empty_object(nothing: Any) -> None:
    assert one(given.ping, nothing) == {}
    assert ".path: is required but missing" in refused(Signature.of(given.read), nothing).message


@owes("args-14", "K-05")
@pytest.mark.parametrize(
    "text",
    [
        '{"path": "a.txt", "content": "line 1\\nline 2',
        '{"path": "a.txt", "content": "line 1"',
        '{"path": "a.txt", "content": "x = {1}',
        '{"path": "a.txt", "content": ["a", ',
        '{"path": "a.txt", "cont',
        '{"path": "a.txt", "content": "ends in a backslash \\',
        '```json\n{"path": "a.txt", "content": "b',
        "{'path': 'a.txt', 'content': 'b",
        '{"path": "a.txt", "content": 12',
        '{"path": "a.txt", "content": tru',
        '{"path": "a.txt", "content": -',
        "{",
    ],
)
def test_arguments_that_were_cut_off_are_never_executed(text: str) -> None:
    error = refused(Signature.of(given.anything), text)

    assert "cut off" in error.message
    assert "smaller pieces" in error.hint


@owes("args-16", "K-05")
@pytest.mark.parametrize(
    "text",
    [
        '{"path":"a","lines":[1,2,],"dry":true,}',
        '```json\n{"path":"a","lines":[1,2],"dry":true}\n```',
        "{'path':'a','lines':[1,2],'dry':True}",
        ' {"path":"a","lines":[1,2],"dry":true} \n',
        'Here it is:\n{"path":"a","lines":[1,2],"dry":true}\nDone.',
        '{path: "a", lines: [1, 2], dry: true}',
        '{"path": "a" /* file */, "lines": [1, 2], "dry": true}',
        '{"path": "a" "lines": [1 2], "dry": true}',
        '{\\"path\\": \\"a\\", \\"lines\\": [1, 2], \\"dry\\": true}',
        '{“path”: “a”, "lines": (1, 2), "dry": TRUE}',
    ],
)
def test_slips_with_one_meaning_are_repaired_and_noted(text: str) -> None:
    def tool(path: str, lines: list[int], dry: bool) -> None: ...

    decoded = Signature.of(tool).decode(text)

    assert decoded.arguments == {"path": "a", "lines": [1, 2], "dry": True}
    assert bool(decoded.repairs) == (not text.startswith(" "))
    assert decoded.sent == decoded.arguments


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "say "hi" now"}',
        '{"path": "a"}{"path": "b"}',
        '{"path": "a]',
        '{"path": ["a"}',
        '{"path": "a", "x": }',
        '{"path": "echo "#hi""}',
        '{"path": "see "docs" // here"}',
        '{"path": a b, c}',
        '{: "a"}',
        "no json at all",
    ],
)
def test_text_that_needs_a_guess_is_refused_and_says_where(text: str) -> None:
    error = refused(Signature.of(given.read), text)

    assert "not valid JSON" in error.message or "cut off" in error.message


@owes("args-17")
def test_arguments_that_were_encoded_twice_are_decoded_twice() -> None:
    decoded = Signature.of(given.read).decode('"{\\"path\\": \\"a.txt\\"}"')

    assert decoded.arguments == {"path": "a.txt", "pages": []}
    assert decoded.repairs == ("The arguments were encoded twice and decoded twice.",)
    five = "{}"
    for _ in range(5):
        five = json.dumps(five)
    refused(Signature.of(given.ping), five)


@owes("args-18")
@pytest.mark.parametrize("text", ["[]", '"a.txt"', "5", '["a.txt"]', "true"])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    assert "one JSON object" in refused(Signature.of(given.read), text).message


@owes("args-31", "X-09")
def test_booleans_come_as_text_and_bits_but_not_as_words() -> None:
    for sent, meant in (
        ("false", False),
        ("False", False),
        (0, False),
        ("TRUE", True),
        (1, True),
        (1.0, True),
    ):
        assert one(given.flags, {"recursive": sent})["recursive"] is meant
    for wrong in ("maybe", 2, "", [], "yes"):
        assert "true or false" in refused(Signature.of(given.flags), {"recursive": wrong}).message


@owes("X-09")
def test_whole_numbers_come_as_floats_and_text_but_broken_ones_do_not() -> None:
    for sent in ("3", " 3 ", "3.0", 3.0, "+3"):
        assert one(given.top, {"n": sent}) == {"n": 3}
    for wrong in (3.5, "3.5", True, "3e0", "٣", [3]):
        refused(Signature.of(given.top), {"n": wrong})


@owes("X-09", "A-08")
def test_numbers_come_as_text() -> None:
    def tool(x: float, y: int | None = None) -> None: ...

    for sent, meant in (("1.5", 1.5), ("10", 10), ("-2e3", -2000.0), (".5", 0.5)):
        assert one(tool, {"x": sent})["x"] == meant
    for wrong in ("nan", "inf", "1e999", "1,5", "9" * 5000):
        refused(Signature.of(tool), {"x": wrong})
    assert one(tool, {"x": 1, "y": "null"})["y"] is None
    assert one(tool, {"x": 1, "y": "4"})["y"] == 4


@owes("X-09", "args-11")
@pytest.mark.parametrize("value", [5, 1.5, True, None, ["a"], {"a": 1}])
def test_text_is_never_made_from_anything_else(value: Any) -> None:
    refused(Signature.of(given.read), {"path": value})


@owes("args-33")
def test_a_very_large_integer_keeps_its_digits() -> None:
    assert one(given.top, '{"n": 9007199254740993}') == {"n": 9007199254740993}
    assert one(given.top, '{"n": "123456789012345678901234567890"}') == {"n": 123456789012345678901234567890}
    assert Signature.of(given.top).decode('{"n": 9007199254740993}').sent == {"n": 9007199254740993}


@owes("args-34")
@pytest.mark.parametrize("text", ['{"path": "ok \\ud83d end"}', {"path": "ok \ud83d end"}])
def test_a_lone_surrogate_becomes_a_replacement_character(text: Any) -> None:
    for signature in (
        Signature.of(given.read),
        Signature.foreign(from_property_map({"path": {"type": "string"}})),
    ):
        decoded = signature.decode(text)

        assert decoded.arguments["path"] == "ok \ufffd end"
        assert json.dumps(decoded.sent, ensure_ascii=False).encode("utf-8")
        assert len(decoded.repairs) == 1


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('{"text": "ok \\ud83d end"}', [".text"]),
        ('{"body": "\\ude00"}', [".text"]),
        ('{"arguments": {"text": "\\ud83d \\ude00"}}', [".text"]),
        ({"text": "a \ud83d b", "more": [{"new": "\udfff"}]}, [".text", ".more"]),
        ('{"text": "fine \\ud83d\\ude00", "other": "\\ud83d"}', []),
    ],
)
def test_half_a_pair_in_a_text_that_is_kept_is_refused_and_replaced_elsewhere(
    text: Any, problems: list[str]
) -> None:
    signature = Signature.of(given.kept)

    try:
        decoded = signature.decode(text).arguments
        found: list[str] = []
    except InvalidArguments as error:
        decoded = {"text": "fine \U0001f600", "other": "\ufffd"}
        found = [e["path"] for e in error.details["errors"]]
        assert error.message.encode("utf-8")

    assert found == problems
    assert (decoded["text"], decoded["other"]) == ("fine \U0001f600", "\ufffd")


@pytest.mark.parametrize(
    "text",
    [
        '{"x": NaN}',
        '{"x": -Infinity}',
        '{"x": 1e999}',
        {"x": float("inf")},
        {"x": [float("nan"), given.Box(label="a")]},
    ],
)
def test_what_is_no_finite_number_is_refused(text: Any) -> None:
    def tool(x: float, s: Any = 0) -> None: ...

    refused(Signature.of(tool), text)
    refused(Signature.foreign({"type": "object", "properties": {"x": {}}}), text)
    assert one(tool, '{"x": 1e100, "s": "NaN"}') == {"x": 1e100, "s": "NaN"}


def test_values_nested_too_deeply_are_refused() -> None:
    deep = '{"v": ' * 100_000 + "1" + "}" * 100_000

    assert "deeply" in refused(Signature.of(given.either), deep).message
    assert "deeply" in refused(Signature.of(given.read), '{"path": ' + "[" * 500_000).message
    for depth in (150, 300, *range(860, 1000, 3), 2000):  # every parser on the way has its own limit
        nested: Any = 1
        for _ in range(depth):
            nested = [nested]
        Signature.of(given.anything).errors({"a": nested})
        Signature.of(given.either).errors({"v": nested})
        Signature.foreign({"type": "object", "required": ["b"]}).errors({"v": nested})


@owes("X-08", "K-06")
def test_an_alias_is_taken_and_noted_and_the_canonical_name_wins() -> None:
    signature = Signature.of(given.read)

    assert signature.decode({"file_path": "a"}).repairs == (".file_path: taken as 'path'.",)
    assert signature.decode({"path": "a", "file_path": "a"}).arguments["path"] == "a"
    error = refused(signature, {"path": "a", "file_path": "b"})
    assert "means the same as 'path'" in error.message


@owes("X-08", "K-06", "A-14")
def test_an_unknown_argument_is_refused_with_the_nearest_name() -> None:
    assert "did you mean 'limit'?" in refused(Signature.of(given.lookup), {**GOOD, "Limits": 3}).message
    assert (
        "the parameters are path, pages" in refused(Signature.of(given.read), {"path": "a", "zzz": 3}).message
    )
    assert "did you mean 'path'?" in refused(Signature.of(given.read), {"filepathh": "a"}).message


def test_a_callers_python_values_are_taken_by_their_json_form() -> None:
    at = datetime.datetime(2026, 1, 31, 9, 30, tzinfo=datetime.UTC)

    assert one(given.when, {"at": at}) == {"at": at, "day": None}
    assert one(given.when, '{"at": "2026-01-31T09:30:00Z", "day": "2026-02-01"}') == {
        "at": at, "day": datetime.date(2026, 2, 1),
    }  # fmt: skip
    assert one(given.boxed, {"box": given.Box(label="a")})["box"] == given.Box(label="a")
    assert "cannot be said in JSON" in refused(Signature.of(given.either), {"v": {"a": object()}}).message
    loop: dict[str, Any] = {}
    loop["v"] = loop
    refused(Signature.of(given.either), loop)


def test_typed_dicts_and_dataclasses_arrive_as_such() -> None:
    values = one(
        given.boxed, {"box": {"label": "a"}, "page": {"title": "t", "size": "3"}, "row": {"id": "7"}}
    )

    assert values["page"] == {"title": "t", "size": 3}
    assert values["row"] == given.Row(7)


def test_null_inside_an_object_and_wrong_unions_are_told_by_their_path() -> None:
    def tool(x: int | list[int], y: dict[str, given.Point] | None = None) -> None: ...

    assert one(tool, {"x": "[1, 2]"}) == {"x": [1, 2], "y": None}
    assert one(tool, {"x": ["1", 2]}) == {"x": [1, 2], "y": None}
    error = refused(Signature.of(tool), {"x": {}, "y": {"a": {"lat": "north"}}})
    assert ".x: must be an integer or an array, got {}" in error.message
    assert '.y.a.lat: must be a number, got "north"' in error.message


def test_a_missing_place_of_a_tuple_and_null_in_a_list_of_values_are_told_in_json_words() -> None:
    def tool(t: tuple[int, str], v: Literal["a", None] = None) -> None: ...

    message = refused(Signature.of(tool), {"t": [1], "v": "b"}).message
    assert ".t[1]: is required but missing" in message
    assert ".v: must be 'a' or null, got \"b\"" in message


@pytest.mark.parametrize("value", [5, ["a"], b"{}", object()])
def test_what_is_neither_text_nor_an_object_is_refused_too(value: Any) -> None:
    for signature in (Signature.of(given.ping), Signature.foreign(None)):
        assert "one JSON object" in refused(signature, value).message


def test_a_subclass_of_text_is_text() -> None:
    class Text(str):
        pass

    assert one(given.top, Text('{"n": 3}')) == {"n": 3}


def test_the_branches_of_a_union_that_say_the_same_are_told_once() -> None:
    def tool(x: list[int] | set[int]) -> None: ...

    assert ".x: must be an array, got 5" in refused(Signature.of(tool), {"x": 5}).message


def test_a_validators_own_words_reach_the_model() -> None:

    from pydantic import AfterValidator

    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    def tool(n: Annotated[int, AfterValidator(even)], s: str = "") -> None: ...

    assert ".n: must be even, got 3" in refused(Signature.of(tool), {"n": 3}).message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@generated(
    st.fixed_dictionaries(
        {
            "query": st.text(), "limit": st.integers(), "tags": st.lists(st.text(), max_size=4),
            "threshold": st.floats(allow_nan=False, allow_infinity=False),
            "where": st.fixed_dictionaries(
                {
                    "field": st.text(), "op": st.sampled_from(["eq", "lt", "gt"]),
                    "value": st.floats(allow_nan=False, allow_infinity=False),
                }
            ),
        }
    )
)  # fmt: skip
def test_decoding_gives_back_what_was_encoded(value: dict[str, Any]) -> None:
    decoded = Signature.of(given.lookup).decode(json.dumps(value))

    assert {**decoded.arguments, "where": decoded.arguments["where"].model_dump()} == value
    assert decoded.repairs == ()


MANY = [
    Signature.of(f)
    for f in (given.lookup, given.tree, given.pick, given.boxed, given.tally, given.level, given.read_many)
]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@generated(json_values)
def test_any_value_for_any_parameter_is_decoded_or_refused_in_words(value: Any) -> None:
    for function in (
        given.lookup,
        given.tree,
        given.pick,
        given.boxed,
        given.tally,
        given.level,
        given.read_many,
    ):
        signature = Signature.of(function)
        name = signature.parameters[0].name
        problems = signature.errors({name: value})

        assert all(isinstance(problem, str) and problem.startswith(".") for problem in problems), problems
        signature.errors(json.dumps(value))


def test_a_union_within_unions_is_coerced_in_bounded_time() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/N"}, "n": {"type": "integer"}},
    }
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/N"}, "y": {"type": "integer"}},
        "required": ["y"],
        "$defs": {"N": {"anyOf": [node, {**node, "required": ["b"]}, {**node, "required": ["c"]}]}},
    }
    value: dict[str, Any] = {"n": "1"}
    for _ in range(40):
        value = {"a": value}

    assert len(Signature.foreign(schema).errors({"x": value, "y": "no"})) > 0


def counted(a: int, b: str = "") -> None: ...


def wrapping(args: dict[str, int], a: int = 0) -> None: ...


def open_ended(a: int = 0, **others: Any) -> None: ...


@owes("K-05")
@pytest.mark.parametrize(
    "word", ["arguments", "args", "parameters", "params", "input", "kwargs", "tool_input"]
)
def test_an_object_around_the_arguments_is_taken_off(word: str) -> None:
    for sent in ({word: {"a": 1}}, f'{{"{word}": {{"a": "1"}}}}'):
        decoded = Signature.of(counted).decode(sent)

        assert decoded.arguments == {"a": 1, "b": ""}
        assert f"The arguments stood inside '{word}' and were taken out." in decoded.repairs

    foreign = Signature.foreign({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
                                 "additionalProperties": False})  # fmt: skip
    assert foreign.decode({word: {"a": 1}}).arguments == {"a": 1}


@pytest.mark.parametrize(
    "given",
    [
        {"arguments": {"a": 1}, "b": "x"},  # beside others it is a name like any other
        {"arguments": [1]},
        {"data": {"a": 1}},
    ],
)
def test_nothing_else_is_taken_for_a_wrapper(given: Any) -> None:
    with pytest.raises(InvalidArguments, match="unknown argument"):
        Signature.of(counted).decode(given)


def test_a_parameter_or_free_name_that_is_called_like_a_wrapper_is_itself() -> None:
    assert Signature.of(wrapping).decode({"args": {"a": 1}}).arguments == {"args": {"a": 1}, "a": 0}
    assert Signature.of(open_ended).decode({"args": {"a": 1}}).arguments == {"args": {"a": 1}, "a": 0}


@pytest.mark.parametrize(
    "text", ['{"a": 1, "b": "x",,}', """{'a': 1, 'b': 'it''s'}""", '{"a": 1, "b": "x" + "y"}', '{"a"： 1}']
)
def test_a_text_that_closes_all_that_it_opens_is_wrong_and_not_cut_off(text: str) -> None:
    with pytest.raises(InvalidArguments, match="not valid JSON"):
        Signature.of(counted).decode(text)


def test_a_repair_without_a_name_of_its_own_does_not_speak_of_commas() -> None:
    assert Signature.of(counted).decode(r'{"a": 1, "b": "\d+"}').repairs == (
        "Slips in its JSON were put right.",
    )


class Leaf(BaseModel):
    x: int
    y: int = 0


class Pair(TypedDict):
    x: int


def shapes(a: int, leaf: Leaf, pair: Pair, many: list[Leaf], maybe: Leaf | None = None, k: str = "k") -> None:
    """All ways of holding an object."""


def _spelled(name: str, escaped: bool) -> str:
    """A key as JSON, its first letter as an escape where wanted."""
    return f'"\\u{ord(name[0]):04x}{name[1:]}"' if escaped else f'"{name}"'


def _object(members: list[tuple[str, bool, str]]) -> str:
    return "{" + ", ".join(f"{_spelled(name, escaped)}: {value}" for name, escaped, value in members) + "}"


NUMBERS = st.sampled_from(["1", "2"])
LEAVES = st.builds(
    lambda x, more: _object([("x", False, x), *more]),
    NUMBERS,
    st.lists(st.tuples(st.sampled_from(["x", "y"]), st.booleans(), NUMBERS), max_size=2),
)
ARGUMENTS = st.builds(
    lambda a, leaf, pair, many, more: _object(
        [
            ("a", False, a),
            ("leaf", False, leaf),
            ("pair", False, _object([("x", False, pair)])),
            ("many", False, f"[{', '.join(many)}]"),
            *more,
        ]
    ),
    NUMBERS,
    LEAVES,
    NUMBERS,
    st.lists(LEAVES, max_size=2),
    st.lists(
        st.one_of(
            st.tuples(st.just("a"), st.booleans(), NUMBERS),
            st.tuples(st.sampled_from(["leaf", "maybe"]), st.booleans(), LEAVES),
            st.tuples(st.just("k"), st.booleans(), st.sampled_from(['"1"', '":"'])),
        ),
        max_size=2,
    ),
)


def _with_each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for place, (name, value) in enumerate(pairs):
        if any(name == earlier and value != before for earlier, before in pairs[:place]):
            raise KeyError(name)
    return dict(pairs)


@settings(deadline=None)
@generated(ARGUMENTS)
def test_a_name_that_stands_twice_with_two_values_is_refused_however_it_is_written(text: str) -> None:
    signature = Signature.of(shapes)
    try:
        meant = json.loads(text, object_pairs_hook=_with_each_once)
    except KeyError:
        # Where several do, which of them is told is nobody's concern.
        assert "is given twice with different values" in str(refused(signature, text))
    else:
        assert signature.decode(text).sent == meant


def single(a: int) -> None: ...
def leafy(leaf: Leaf) -> None: ...
def perhaps(a: int, leaf: Leaf | None) -> None: ...
def chinese(名: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (single, '{"a": 1, "a": 2}'),
        (single, r'{"a": 1, "\u0061": 2}'),
        (chinese, r'{"\u540d": 1, "\u540d": 2}'),
        (leafy, '{"leaf": {"x": 1, "x": 2}}'),
        (leafy, '{"leaf": {"x": 1, "y": 1}, "leaf": {"x": 1}}'),
        (perhaps, '{"a": 1, "a": 2, "leaf": null}'),
        (perhaps, '{"a": 1, "leaf": {"x": 1}, "leaf": null}'),
    ],
)
def test_a_name_with_two_values_is_found_where_as_many_members_might_have_been_meant(
    function: Any, text: str
) -> None:
    assert "is given twice with different values" in str(refused(Signature.of(function), text))


def fetched(url: str, max_chars: int = 9, lines: Annotated[int, Alias("line_count")] = 0) -> None: ...
def twins(max_chars: int = 0, maxchars: int = 0) -> None: ...
def rest(max_chars: int = 0, **others: int) -> None: ...


@owes("X-08")
@pytest.mark.parametrize("name", ["maxChars", "max-chars", "MaxChars", "MAX_CHARS", "maxchars"])
def test_a_name_of_the_same_words_is_the_parameters(name: str) -> None:
    decoded = Signature.of(fetched).decode({"url": "u", name: 5})

    assert decoded.arguments == {"url": "u", "max_chars": 5, "lines": 0}
    assert decoded.sent == {"url": "u", "max_chars": 5}
    assert decoded.repairs == (f".{name}: taken as 'max_chars'.",)


@owes("X-08")
def test_a_name_of_the_same_words_as_an_alias_is_the_parameters_too() -> None:
    assert one(fetched, {"url": "u", "lineCount": 5})["lines"] == 5


@owes("X-08")
def test_a_name_of_other_words_or_of_two_parameters_or_given_twice_is_refused() -> None:
    assert "unknown argument; did you mean 'max_chars'?" in str(
        refused(Signature.of(fetched), {"url": "u", "max_char": 5})
    )
    assert "unknown argument" in str(refused(Signature.of(twins), {"maxChars": 5}))
    assert "means the same as 'max_chars', which was given another value" in str(
        refused(Signature.of(fetched), {"url": "u", "max_chars": 4, "maxChars": 5})
    )
    assert one(fetched, {"url": "u", "max_chars": 5, "maxChars": 5})["max_chars"] == 5
    long = "m" * 1_000_000
    assert "unknown argument" in str(refused(Signature.of(fetched), {"url": "u", long: 5}))


def test_a_tool_that_takes_other_names_is_given_them_as_they_are() -> None:
    assert one(rest, {"maxChars": 5}) == {"max_chars": 0, "maxChars": 5}


def test_a_schema_from_elsewhere_that_takes_no_other_names_is_read_alike() -> None:
    signature = Signature.foreign(
        {
            "type": "object",
            "properties": {"maxChars": {"type": "integer"}},
            "additionalProperties": False,
        }
    )

    assert signature.decode({"max_chars": 5}).sent == {"maxChars": 5}


class Page(BaseModel):
    page_size: int
    sort_by: str | None = None


def paged(page: Page, pages: list[Page] | None = None) -> None: ...


@owes("X-08")
def test_names_of_the_same_words_are_read_at_every_depth() -> None:
    decoded = Signature.of(paged).decode(
        {"page": {"pageSize": "5", "SortBy": None}, "pages": [{"page-size": 6, "sort_by": "x"}]}
    )

    assert decoded.arguments == {"page": Page(page_size=5), "pages": [Page(page_size=6, sort_by="x")]}
    assert ".page.pageSize: taken as 'page_size'." in decoded.repairs
    assert ".pages[0].page-size: taken as 'page_size'." in decoded.repairs


@owes("X-08")
def test_a_name_inside_an_object_that_is_given_twice_or_has_other_words_is_refused() -> None:
    for page in (
        {"page_size": 5, "pageSize": 6},
        {"pageSize": 5, "page-size": 6},
        {"page_size": 5, "page_sise": 5},
    ):
        assert "unknown argument" in str(refused(Signature.of(paged), {"page": page}))
