"""Numbers are taken to the last digit or refused."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from pegboard.core.executor import _same as same
from pegboard.core.numerals import exact, number_of
from pegboard.core.repair import repair_json
from pegboard.core.signature import Signature
from tests.core.test_exact import numbers, told
from tests.ledger import owes


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    ("before", "path", "behind"),
    [
        ('{"leaf": {"size": ', ".leaf.size", "}}"),
        ('{"leaf": {"kids": [{"size": ', ".leaf.kids[0].size", "}]}}"),
        ('{"rows": [1, ', ".rows[1]", "]}"),
        ('{"table": {"a": [{"b": ', ".table.a[0].b", "}]}}"),
        ('{"anything": ', ".anything", "}"),
        ('{"text": ', ".text", "}"),
    ],
)
def test_what_is_no_finite_number_is_refused_wherever_it_stands(
    number: str, before: str, path: str, behind: str
) -> None:
    expected = {path: f"{number} is no JSON value; give a finite number or leave it out"}

    assert told(numbers, before + number + behind) == expected
    foreign = Signature.foreign({"type": "object"})
    assert foreign.errors(before + number + behind) == [f"{path}: {expected[path]}"]


def test_what_is_no_finite_number_is_refused_in_a_callers_objects_and_in_json_within_json() -> None:
    assert told(numbers, {"leaf": {"size": float("inf")}}) == {
        ".leaf.size": "Infinity is no JSON value; give a finite number or leave it out"
    }
    assert told(numbers, {"table": '{"a": 1e999}'})[".table"].startswith("must be an object")
    assert told(numbers, {"rows": "[NaN]"})[".rows"].startswith("must be an array")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "9" * 5000, "007"])
def test_a_number_that_is_none_makes_a_malformed_text_a_guess(value: str) -> None:
    assert told(numbers, f"{{'text': {value},}}")[""].startswith("they are not valid JSON")


def test_a_number_with_more_digits_than_python_reads_is_refused() -> None:
    message = "a whole number in them has more than 4300 digits"
    assert told(numbers, f'{{"text": {"9" * 5000}}}') == {"": message}
    assert told(numbers, "9" * 5000) == {"": message}


def test_a_parameter_that_declares_infinity_gets_it_and_no_other_does() -> None:
    class Range(BaseModel):
        model_config = ConfigDict(allow_inf_nan=True)
        top: float

    def limits(
        r: Range | None = None,
        high: Annotated[float, Field(allow_inf_nan=True)] = 0,
        plain: float = 0,
    ) -> None: ...

    decoded = Signature.of(limits).decode('{"high": Infinity, "r": {"top": 1e999}}')

    assert decoded.arguments["high"] == float("inf") == decoded.arguments["r"].top
    assert told(limits, '{"plain": 1e999}') == {".plain": "must be a finite number, got Infinity"}


# The whole numbers that a float cannot hold begin at 2**53 + 1 = 9007199254740993 (IEEE 754 binary64).
@owes("args-33")
@pytest.mark.parametrize(
    ("numeral", "number"),
    [
        ("9007199254740993.0", 9007199254740993),
        ("-9007199254740993.0", -9007199254740993),
        ("9007199254740993.000", 9007199254740993),
        ("9.007199254740993e15", 9007199254740993),
        ("90071992547409930e-1", 9007199254740993),
        ("12345678901234567890123456789.0", 12345678901234567890123456789),
        ("9007199254740992.0", 9007199254740992),
        ("1e3", 1000),
        ("1.0", 1),
    ],
)
def test_a_whole_number_with_a_point_keeps_every_digit(numeral: str, number: int) -> None:
    def one(n: int = 0, rows: list[int] | None = None, anything: Any = None) -> None: ...

    foreign = Signature.foreign({"type": "object", "properties": {"n": {"type": "integer"}}})
    for text in (
        f'{{"n": {numeral}}}',
        f"{{'n': {numeral},}}",
        f'{{"n": "{numeral}"}}' if "e" not in numeral else "",
    ):
        if text:
            assert Signature.of(one).decode(text).arguments["n"] == number
            assert foreign.decode(text).arguments["n"] == number
    assert Signature.of(one).decode(f'{{"rows": [{numeral}]}}').arguments["rows"] == [number]
    assert (
        Signature.of(one).decode(f'{{"anything": {numeral}, "n": {numeral}}}').arguments["anything"] == number
    )


def test_other_numbers_stay_the_floats_that_they_are() -> None:
    for numeral in (
        "0.1",
        "1.0",
        "1e300",
        "9007199254740993.5",
        "1e22",
        "-2.5e-3",
        "1e999",
        "6.751238954042865e+16",
    ):
        assert exact(numeral) == float(numeral) and isinstance(exact(numeral), float)
    assert number_of("9_007_199_254_740_993.0") == 9007199254740993
    assert number_of("1e") == 1


def test_a_text_that_is_json_already_keeps_its_digits_when_it_is_repaired() -> None:
    assert repair_json('{"n": 9007199254740993.0}').value == {"n": 9007199254740993}
    assert repair_json('Here: {"n": 9007199254740993.0} it is').value == {"n": 9007199254740993}


def test_calls_that_differ_in_the_last_digit_are_not_the_same() -> None:
    assert not same('{"n": 9007199254740993.0}', '{"n": 9007199254740992.0}')
    assert same('{"n": 9007199254740993.0}', '{"n": 9007199254740993}')


def test_what_was_read_as_nothing_is_told_once() -> None:
    def maybe(n: int | None = 5) -> None: ...

    decoded = Signature.of(maybe).decode('{"n": "null"}')

    assert decoded.arguments == {"n": None} and decoded.repairs == ('.n: "null" was read as null.',)
