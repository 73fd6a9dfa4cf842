"""What a model reads where a value fits no form of a union: of the nearest form, and of that alone."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Discriminator, Field, Tag

from pegboard.core.errors import InvalidArguments
from pegboard.core.schema.problems import BranchError, closest_branch
from pegboard.core.schema.signature import Signature
from tests.ledger import owes


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float
    colour: str


class Poly(BaseModel):
    kind: Literal["poly"]
    points: list[int]


class Blob(BaseModel):
    name: str
    weight: int


class Tint(Enum):
    RED = "red"
    BLUE = "blue"


NONE_OF = "fits none of its {} forms; only the nearest is explained"


def told(signature: Signature, value: Any) -> list[str]:
    """The lines on a value, the parameter being called `s`."""
    with pytest.raises(InvalidArguments) as caught:
        signature.decode({"s": value})
    return [f"{e['path']} {e['message']}" for e in caught.value.details["errors"]]


def typed(annotation: Any) -> Signature:
    def f(s: Any) -> None: ...

    f.__annotations__["s"] = annotation
    return Signature.of(f)


def foreign(*branches: dict[str, Any], word: str = "anyOf") -> Signature:
    return Signature.foreign({"type": "object", "properties": {"s": {word: list(branches)}}})


def form(kind: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"kind": {"const": kind}, **properties},
        "required": ["kind", *properties],
        "additionalProperties": False,
    }


FORMS = (
    form("circle", radius={"type": "number"}),
    form("square", side={"type": "number"}, colour={"type": "string"}),
    form("poly", points={"type": "array"}),
)


@owes("N-13", "N-11")
@pytest.mark.parametrize(
    "signature", [typed(Circle | Square | Poly), foreign(*FORMS), foreign(*FORMS, word="oneOf")]
)
def test_the_discriminator_says_which_form_was_meant(signature: Signature) -> None:
    lines = told(signature, {"kind": "square", "side": "a"})

    assert lines[0] == f".s {NONE_OF.format(3)}"
    assert sorted(lines[1:]) == [".s.colour is required but missing", '.s.side must be a number, got "a"']


@pytest.mark.parametrize("signature", [typed(Circle | Square | Poly), foreign(*FORMS)])
def test_a_misspelt_discriminator_lists_all_of_them(signature: Signature) -> None:
    lines = told(signature, {"kind": "squre", "side": 1, "colour": "r"})

    assert lines[0] == f".s {NONE_OF.format(3)}"
    assert len(lines) == 2
    assert lines[1].startswith(".s.kind must be ")
    assert all(kind in lines[1] for kind in ("circle", "square", "poly"))


def test_without_a_discriminator_the_form_with_the_fewest_faults_is_told() -> None:
    assert told(typed(Blob | Square), {"name": "x"}) == [
        f".s {NONE_OF.format(2)}",
        ".s.weight is required but missing",
    ]
    assert told(typed(list[int] | int), ["x"]) == [
        f".s {NONE_OF.format(2)}",
        '.s[0] must be an integer, got "x"',
    ]


@pytest.mark.parametrize(
    "signature", [typed(int | list[int]), foreign({"type": "integer"}, {"type": "array"})]
)
def test_forms_of_other_kinds_altogether_are_all_told(signature: Signature) -> None:
    assert told(signature, "x") == ['.s must be an integer or an array, got "x"']


def test_each_element_is_told_by_its_own_nearest_form() -> None:
    lines = told(typed(list[Circle | Blob | int]), [{"kind": "circle", "radius": []}, {"name": "x"}, "q", 7])

    assert lines == [
        f".s[0] {NONE_OF.format(3)}",
        f".s[1] {NONE_OF.format(3)}",
        ".s[0].radius must be a number, got []",
        ".s[1].weight is required but missing",
        '.s[2] must be an object or an integer, got "q"',
    ]


def test_a_union_in_a_form_of_a_union_is_told_by_its_nearest_form_too() -> None:
    class Frame(BaseModel):
        kind: Literal["frame"]
        inside: Circle | Square

    lines = told(typed(Frame | Poly), {"kind": "frame", "inside": {"kind": "circle", "radius": "x"}})

    assert lines == [
        f".s {NONE_OF.format(2)}",
        f".s.inside {NONE_OF.format(2)}",
        '.s.inside.radius must be a number, got "x"',
    ]


def test_a_declared_discriminator_is_told_as_the_field_that_it_is() -> None:
    declared = typed(Annotated[Circle | Square, Field(discriminator="kind")])

    assert told(declared, {"kind": "squre"}) == [""".s.kind must be 'circle' or 'square', got "squre\""""]
    assert told(declared, {"side": 1}) == [".s.kind is required but missing"]


def test_a_discriminator_by_function_has_no_field_to_name() -> None:
    def which(value: Any) -> str | None:
        return value.get("kind") if isinstance(value, dict) else None

    by_function = typed(
        Annotated[
            Annotated[Circle, Tag("circle")] | Annotated[Square, Tag("square")],
            Discriminator(which),
        ]
    )

    (line,) = told(by_function, {"kind": "squre"})

    assert line.startswith(".s ")
    assert "'circle', 'square'" in line


def test_an_enum_missed_in_the_right_form_is_told_of_that_form() -> None:
    class Tinted(BaseModel):
        kind: Literal["tinted"]
        tint: Tint

    lines = told(typed(Tinted | Circle), {"kind": "tinted", "tint": "green"})

    assert lines == [f".s {NONE_OF.format(2)}", """.s.tint must be 'red' or 'blue', got "green\""""]


def test_a_value_that_fits_several_forms_of_which_it_must_fit_one_is_told_so() -> None:
    (line,) = told(foreign({"type": "integer"}, {"type": "number"}, word="oneOf"), 3)

    assert "more than one" in line


def test_forms_that_differ_in_more_than_their_kind_are_told_by_the_validators_own_words() -> None:
    (line,) = told(foreign({"type": "string", "maxLength": 2}, {"type": "integer"}), "long")

    assert line.startswith(".s ")
    assert "anyOf" in line


def test_a_single_form_is_told_without_counting() -> None:
    assert told(foreign(FORMS[0]), {"kind": "circle"}) == [".s.radius is required but missing"]


def test_an_unknown_key_counts_against_a_form() -> None:
    lines = told(foreign(form("a", x={}), form("a", x={}, y={}, z={})), {"kind": "a", "x": 1, "yy": 2})

    assert lines[0] == f".s {NONE_OF.format(2)}"
    assert lines[1].startswith(".s.yy unknown argument")


def test_a_constant_of_the_only_form_is_told_as_it_stands() -> None:
    assert told(foreign(FORMS[0]), {"kind": "x", "radius": 1}) == ['.s.kind must be "circle", got "x"']


def test_the_nearest_of_one_branch_is_that_branch() -> None:
    assert closest_branch((), [[BranchError(())]]) == 0
    assert closest_branch((), [[BranchError(())], [BranchError(())]]) is None
    assert (
        closest_branch(
            ("s",),
            [[BranchError(("s",))], [BranchError(("s", "a"), choice=True)], [BranchError(("s", "b"))] * 9],
        )
        == 2
    )
