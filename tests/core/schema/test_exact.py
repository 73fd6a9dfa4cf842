"""What a model sends is taken exactly or refused: nothing is dropped, nothing is guessed."""

from __future__ import annotations

import enum
import json
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jsonschema_rs
import pytest
from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag
from typing_extensions import TypedDict

from pegboard.core.errors import InvalidArguments
from pegboard.core.schema.annotations import DeletePath, ReadPath, WritePath
from pegboard.core.schema.signature import Signature
from tests.ledger import owes


class Leaf(BaseModel):
    name: str = ""
    size: float = 0
    kids: list[Leaf] = []


@dataclass
class Record:
    name: str = ""
    tags: list[str] = field(default_factory=list)


def numbers(
    leaf: Leaf | None = None,
    rows: list[float] | None = None,
    table: dict[str, Any] | None = None,
    anything: Any = None,
    text: str = "",
) -> None: ...


class Typed(TypedDict, total=False):
    name: str


class Pair(NamedTuple):
    name: str
    size: int = 0


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str = ""


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = ""


class Names(RootModel[dict[str, str]]):
    pass


class Remaining(BaseModel):
    left: int


class Right(BaseModel):
    right: int


class Welcoming(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str = ""


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str = ""


class Open(typing.TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="allow")  # pyright: ignore
    name: str


class One(enum.Enum):
    ONE = 1
    TWO = 2


def nested(
    leaf: Leaf | None = None,
    record: Record | None = None,
    typed: Typed | None = None,
    pair: Pair | None = None,
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None,
    either: Remaining | Right | None = None,
    many: dict[str, list[Leaf]] | None = None,
    welcoming: Welcoming | None = None,
    ignoring: Ignoring | None = None,
    open_: Open | None = None,
    names: Names | None = None,
) -> None: ...


def told(function: Any, arguments: Any) -> dict[str, str]:
    with pytest.raises(InvalidArguments) as caught:
        Signature.of(function).decode(arguments)
    return {e["path"]: e["message"] for e in caught.value.details["errors"]}


@owes("X-08", "N-13")
@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"leaf": {"nmae": "x"}}, ".leaf.nmae"),
        ({"leaf": {"kids": [{}, {"nmae": "x"}]}}, ".leaf.kids[1].nmae"),
        ({"record": {"nmae": "x"}}, ".record.nmae"),
        ({"typed": {"nmae": "x"}}, ".typed.nmae"),
        ({"pet": {"kind": "cat", "nmae": "x"}}, ".pet.nmae"),
        ({"many": {"a": [{"nmae": "x"}]}}, ".many.a[0].nmae"),
    ],
)
def test_an_unknown_key_at_any_depth_is_refused_with_its_path_and_the_nearest_name(
    arguments: dict[str, Any], path: str
) -> None:
    assert told(nested, json.dumps(arguments)) == {path: "unknown argument; did you mean 'name'?"}


def test_an_unknown_key_that_is_near_to_nothing_is_refused_too() -> None:
    assert told(nested, {"pair": {"name": "x", "colour": 1}}) == {
        ".pair.colour": "is not a field of this object"
    }
    assert told(nested, {"record": {"zzzz": 1}})[".record.zzzz"].endswith("the parameters are name, tags")
    assert told(nested, {"either": {"left": 1, "right": 2}}) == {
        ".either": "fits none of its 2 forms; only the nearest is explained",
        ".either.right": "does not go with the others",
    }


def test_who_says_what_becomes_of_other_keys_is_obeyed() -> None:
    decoded = Signature.of(nested).decode(
        {"welcoming": {"x": 1}, "ignoring": {"x": 1}, "open_": {"x": 1}, "names": {"x": "y"}}
    )

    assert decoded.arguments["welcoming"] == Welcoming.model_validate({"x": 1})
    assert decoded.arguments["welcoming"].model_extra == {"x": 1}
    assert decoded.arguments["ignoring"] == Ignoring()
    assert decoded.arguments["open_"] == {"x": 1}
    assert decoded.arguments["names"] == Names({"x": "y"})


def test_the_schema_refuses_what_decoding_refuses() -> None:
    validator = jsonschema_rs.Draft202012Validator(dict(Signature.of(nested).schema))

    for name in ("leaf", "record", "typed"):
        assert validator.is_valid({name: {"name": "x"}})
        assert not validator.is_valid({name: {"name": "x", "nmae": "y"}})
    for name in ("welcoming", "ignoring", "open_"):
        assert validator.is_valid({name: {"name": "x", "other": 1}})


def test_a_class_that_a_tool_uses_stays_as_it_was_for_everyone_else() -> None:
    Signature.of(nested).check()

    assert Leaf.model_validate({"nmae": "x"}) == Leaf()
    assert "additionalProperties" not in Leaf.model_json_schema()["$defs"]["Leaf"]


def test_a_foreign_schema_names_the_nearest_key_at_any_depth() -> None:
    inner = {"type": "object", "properties": {"name": {}}, "additionalProperties": False}
    schema = {"type": "object", "properties": {"box": {"anyOf": [inner, {"type": "null"}]}}}
    flat = {"type": "object", "properties": {"rows": {"type": "array", "items": inner}}}

    def problems(given: dict[str, Any], value: Any) -> list[str]:
        return Signature.foreign(given).errors(value)

    assert problems(flat, {"rows": [{"nmae": 1}]}) == [
        ".rows[0].nmae: unknown argument; did you mean 'name'?"
    ]
    assert problems(schema, {"box": {"nmae": 1}})


# Choices --------------------------------------------------------------------------------------------


def test_true_is_no_one_of_several_numbers_however_deep() -> None:
    def choose(one: One | None = None, two: Literal[1, 2] | None = None, flag: bool = False) -> None: ...

    assert told(choose, '{"one": true, "two": true}') == {
        ".one": "must be one of [1, 2], got true",
        ".two": "must be one of [1, 2], got true",
    }
    assert Signature.of(choose).decode('{"flag": true}').arguments["flag"] is True
    assert Signature.of(choose).decode('{"one": 1, "two": 2}').arguments["one"] is One.ONE


# Keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"text": "a", "text": "b"}', "text"),
        ('{"leaf": {"name": "a", "name": "b"}}', "name"),
        ('{"table": {"x": 1, "x": true}}', "x"),
    ],
)
def test_a_key_given_twice_with_different_values_is_refused(text: str, key: str) -> None:
    """RFC 8259 §4: what a receiver makes of it is unpredictable."""
    schema = {"type": "object"}

    assert f'the key "{key}" is given twice' in Signature.foreign(schema).errors(text)[0]
    if key != "x":
        assert f'the key "{key}" is given twice' in told(numbers, text)[""]


def test_a_key_given_twice_with_one_value_or_in_two_objects_is_no_problem() -> None:
    decode = Signature.of(numbers).decode

    assert decode('{"text": "a", "text": "a"}').arguments["text"] == "a"
    assert len(decode('{"leaf": {"kids": [{"name": "a"}, {"name": "b"}]}}').arguments["leaf"].kids) == 2
    assert decode('{"text": "say \\"text\\" and \\"text\\""}').arguments["text"] == 'say "text" and "text"'


# Backslashes ----------------------------------------------------------------------------------------


def files(
    path: ReadPath = "",
    many: list[WritePath] | None = None,
    by_name: dict[str, DeletePath] | None = None,
    own: Path = Path(),
    text: str = "",
) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (r'{"path": "C:\new\table"}', ".path"),
        (r'{"many": ["a.txt", "C:\new\table"]}', ".many[1]"),
        (r'{"by_name": {"x": "C:\new\table"}}', ".by_name.x"),
        (r'{"own": "C:\new\table"}', ".own"),
        (r'{"path": "C:\new\table",}', ".path"),
    ],
)
def test_a_path_whose_backslashes_became_control_characters_is_refused_and_shown_as_it_was_meant(
    arguments: str, path: str
) -> None:
    message = told(files, arguments)[path]

    assert message.startswith("holds the control character U+000A; a backslash is written twice in JSON")
    assert r'"C:\\new\\table"' in message


def test_a_path_with_another_control_character_is_refused_without_a_guess() -> None:
    assert told(files, '{"path": "a\\u0000b"}') == {
        ".path": 'holds the control character U+0000, got "a\\u0000b"'
    }


def test_a_file_that_is_only_read_may_have_any_name_where_a_caller_says_it_without_json() -> None:
    assert Signature.of(files).decode({"path": "a\nb"}).arguments["path"] == "a\nb"
    assert ".many[0]" in told(files, {"many": ["a\nb"]})


def test_text_that_is_no_path_may_hold_line_breaks_and_paths_may_hold_backslashes() -> None:
    decoded = Signature.of(files).decode(r'{"text": "a\nb\tc", "path": "C:\\new\\table"}')

    assert decoded.arguments["text"] == "a\nb\tc"
    assert decoded.arguments["path"] == r"C:\new\table"


@pytest.mark.parametrize("value", [r"C:\dir\new", r"C:\new\dir", r"\d+\n", r"a\nre.match('\d')"])
def test_backslashes_that_contradict_each_other_are_refused_with_how_to_write_one(value: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        Signature.of(files).decode(f'{{"text": "{value}"}}')

    assert "not valid JSON" in caught.value.message
    assert r"a backslash is written \\" in str(caught.value.hint)


@pytest.mark.parametrize("value", [r"\d+\s*", r"C:\Users\me", r"C:\users\me", r"\d \"quoted\" \d"])
def test_backslashes_with_one_meaning_are_kept(value: str) -> None:
    decoded = Signature.of(files).decode(f'{{"text": "{value}"}}')

    assert decoded.arguments["text"] == value.replace(r"\"", '"')
    assert decoded.repairs


def test_choices_stand_in_place_and_objects_stay_definitions() -> None:
    def both(one: One, leaf: Leaf) -> None: ...

    schema = Signature.of(both).schema

    assert schema["properties"]["one"] == {"enum": [1, 2], "type": "integer"}
    assert list(schema["$defs"]) == ["Leaf"]


def kind_of(value: Any) -> str:
    return "two" if value is True else "one"


class Switch(enum.IntEnum):
    OFF = 0
    ON = 1


@owes("schema-07")
@pytest.mark.parametrize(
    "annotation",
    [
        Literal["a"] | Literal[1] | bool,
        Literal[1] | bool | None,
        bool | Literal[1],
        Switch | bool,
        Annotated[Annotated[Literal[1], Tag("one")] | Annotated[bool, Tag("two")], Discriminator(kind_of)],
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_true_stays_true_beside_a_listed_one_where_both_are_taken(annotation: Any, inside: bool) -> None:
    def tool(v: Any) -> None: ...

    tool.__annotations__["v"] = list[annotation] if inside else annotation
    signature = Signature.of(tool)

    for value in (True, 1):
        got = signature.decode({"v": [value] if inside else value}).arguments["v"]
        got = got[0] if inside else got
        assert got == value and isinstance(got, bool) is (value is True)


@pytest.mark.parametrize("listed", [[f"value {n}" for n in range(3000)], [*range(3000), "value 7"]])
@pytest.mark.parametrize("foreign", [True, False])
def test_of_a_long_list_the_nearest_are_told_in_few_words(listed: list[Any], foreign: bool) -> None:
    def tool(v: Any) -> None: ...

    tool.__annotations__["v"] = Literal[tuple(listed)]  # pyright: ignore[reportInvalidTypeForm]
    schema = {"type": "object", "properties": {"v": {"enum": listed}}}
    signature = Signature.foreign(schema) if foreign else Signature.of(tool)

    with pytest.raises(InvalidArguments) as caught:
        signature.decode({"v": "valu 7"})

    assert ".v: must be one of" in caught.value.message and "value 7" in caught.value.message
    assert len(caught.value.message) < 500  # case args-08


def test_of_a_long_list_the_first_are_told_where_none_is_near() -> None:
    schema = {"type": "object", "properties": {"v": {"enum": list(range(1000, 2000))}}}

    with pytest.raises(InvalidArguments) as caught:
        Signature.foreign(schema).decode({"v": "x"})

    assert "one of 1000 values, among them 1000, 1001, 1002" in caught.value.message
