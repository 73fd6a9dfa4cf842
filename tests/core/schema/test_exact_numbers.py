"""Numbers are taken to the last digit or refused."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any, Literal, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field

from pegboard.core.call.pipeline import _same as same
from pegboard.core.schema.numerals import Numeral, as_sent, exact, number_of
from pegboard.core.schema.repair import repair_json
from pegboard.core.schema.signature import Signature
from tests.core.schema.test_exact import numbers, told
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
    expected = {path: f"{number} is not a JSON value; give a finite number or leave it out"}

    assert told(numbers, before + number + behind) == expected
    foreign = Signature.foreign({"type": "object"})
    assert foreign.errors(before + number + behind) == [f"{path}: {expected[path]}"]


def test_what_is_no_finite_number_is_refused_in_a_callers_objects_and_in_json_within_json() -> None:
    assert told(numbers, {"leaf": {"size": float("inf")}}) == {
        ".leaf.size": "Infinity is not a JSON value; give a finite number or leave it out"
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


class Money(BaseModel):
    amount: Decimal
    rate: float = 0


DIGITS = "12345678901234567890.123456789"


def values_in(value: Any) -> list[Any]:
    """The numbers in some arguments, at any depth."""
    if isinstance(value, Money):
        return [value.amount]
    if isinstance(value, dict):
        return [v for item in cast("dict[str, Any]", value).values() for v in values_in(item)]
    return [] if value is None else [value]


def pay(
    amount: Decimal,
    maybe: Decimal | None = None,
    each: Annotated[dict[str, Decimal] | None, Field()] = None,
    money: Money | None = None,
    either: float | Decimal = 0.5,
) -> None: ...


@pytest.mark.parametrize("numeral", [DIGITS, f"-{DIGITS}", "1e-400", "1.10", "2.50E+2", "0.1", "3", "0.0"])
@pytest.mark.parametrize(
    "text",
    [
        '{"amount": %s}',
        '{"amount": "%s"}',
        '{"amount": 1, "maybe": %s}',
        '{"amount": 1, "each": {"a": %s}}',
        '{"amount": 1, "money": {"amount": %s}}',
        '{"amount": 1, "money": "{\\"amount\\": %s}"}',
        '{"amount": 1, "either": %s}',
        "Here you are: {'amount': %s,}",
    ],
)
def test_a_decimal_keeps_every_digit_that_was_written(text: str, numeral: str) -> None:
    signature = Signature.of(pay)
    decoded = signature.decode(text % numeral)

    value = next(v for v in values_in(decoded.arguments) if v not in (1, 0.5))
    # `str` of the standard library's Decimal keeps each digit, trailing zeros too.
    kept = Decimal(numeral)
    assert Decimal(str(value)) == kept
    if isinstance(value, Decimal) and "Here" not in text:
        assert str(value) == str(kept)
    # What is recorded means the same when it is decoded again.
    assert signature.decode(decoded.sent).arguments == decoded.arguments
    assert signature.decode(json.dumps(decoded.sent)).arguments == decoded.arguments


def test_a_model_is_not_told_how_a_decimal_keeps_its_digits() -> None:
    schema = Signature.of(pay).schema

    assert schema["properties"]["amount"] == {"anyOf": [{"type": "number"}, {"type": "string"}]}
    assert "decimal" not in json.dumps(schema)


def test_a_foreign_decimal_is_passed_on_as_text_and_another_number_as_the_nearest() -> None:
    amount = {"anyOf": [{"type": "number"}, {"type": "string", "format": "decimal"}]}
    foreign = Signature.foreign(
        {"type": "object", "properties": {"amount": amount, "rate": {"type": "number"}}}
    )

    decoded = foreign.decode(f'{{"amount": {DIGITS}, "rate": 0.1234567890123456789}}')

    assert decoded.arguments == {"amount": DIGITS, "rate": 0.12345678901234568}
    assert type(decoded.arguments["rate"]) is float
    assert decoded.repairs == (
        ".rate: 0.1234567890123456789 was read as 0.12345678901234568, the nearest number that a float holds.",
    )


@pytest.mark.parametrize(
    "numeral", ["1.0000000000000000001", "0.99999999999999999999", "9007199254740993.5", "1e-400"]
)
def test_a_number_that_is_not_whole_is_no_integer_however_near_it_is(numeral: str) -> None:
    def one(
        n: int = 0, flag: bool = False, choice: Literal[0, 1] = 0, rows: list[int] | None = None
    ) -> None: ...

    foreign = Signature.foreign({"type": "object", "properties": {"n": {"type": "integer"}}})
    for text in (f'{{"n": {numeral}}}', f"{{'n': {numeral},}}", f'{{"n": "{numeral}"}}'):
        assert told(one, text) == {".n": f'must be an integer, got "{numeral}"'}
        assert foreign.errors(text) == [f'.n: must be an integer, got "{numeral}"']
    assert list(told(one, f'{{"flag": {numeral}}}')) == [".flag"]
    assert list(told(one, f'{{"choice": {numeral}}}')) == [".choice"]
    assert list(told(one, f'{{"rows": [{numeral}]}}')) == [".rows[0]"]


def test_an_exponent_means_the_number_that_it_says() -> None:
    def one(n: int = 0) -> None: ...

    # 1e23 is no float: the nearest is 99999999999999991611392.
    assert Signature.of(one).decode('{"n": 1e23}').arguments["n"] == 10**23
    assert Signature.of(one).decode('{"n": 1.5e1}').arguments["n"] == 15


@pytest.mark.parametrize(
    ("numeral", "nearest"),
    [
        ("9007199254740993", "9007199254740992.0"),
        (DIGITS, "1.2345678901234567e+19"),
        ("0.1234567890123456789", "0.12345678901234568"),
        ("1e-400", "0.0"),
        ("1e-99999999999999999999999", "0.0"),
    ],
)
def test_a_float_that_loses_a_digit_says_so(numeral: str, nearest: str) -> None:
    def one(x: float = 0, anything: Any = None, rows: list[float | None] | None = None) -> None: ...

    note = f"{numeral} was read as {nearest}, the nearest number that a float holds."
    decoded = Signature.of(one).decode(f'{{"x": {numeral}, "rows": [null, {numeral}]}}')

    assert sorted(decoded.repairs) == [f".rows[1]: {note}", f".x: {note}"]
    assert decoded.arguments["x"] == decoded.arguments["rows"][1] == float(numeral)
    if not numeral.isdigit():
        assert Signature.of(one).decode(f'{{"anything": {{"a": [{numeral}]}}}}').repairs == (
            f".anything.a[0]: {note}",
        )


def test_a_float_that_is_what_was_written_says_nothing() -> None:
    def one(x: float = 0) -> None: ...

    for numeral in (
        "0.1",
        "0.30000000000000004",
        "1e22",
        "9007199254740992",
        "6.751238954042865e+16",
        "5e-324",
        "1" + "0" * 22,
    ):
        assert Signature.of(one).decode(f'{{"x": {numeral}}}').repairs == ()
    assert told(one, f'{{"x": 1{"0" * 400}}}')[".x"].startswith("must be a finite number, got 1000")


def test_arguments_that_hold_such_a_number_are_passed_on_as_text() -> None:
    plain = {"a": [1, 2.5, {"b": "x"}]}

    assert as_sent(plain) is plain
    assert as_sent({"a": [Numeral(DIGITS)], "é": None}) == f'{{"a":[{DIGITS}],"é":null}}'
    assert [Numeral(t).text for t in ("+.5", "5.", "1e5")] == ["0.5", "5", "1e5"]
    nested: Any = Numeral(DIGITS)
    for _ in range(200):
        nested = [nested]
    assert as_sent({"a": nested}) == {"a": nested}


def test_calls_that_differ_beyond_a_float_are_not_the_same() -> None:
    assert not same(f'{{"n": {DIGITS}}}', f'{{"n": {DIGITS}1}}')
    assert same(f'{{"n": {DIGITS}}}', f'{{"n": {DIGITS}0}}')
    assert not same('{"n": 1e-99999999999999999999999}', '{"n": 0.0}')


def test_half_a_pair_is_replaced_beside_a_number_that_keeps_its_digits() -> None:
    def one(amount: Decimal, text: str, tags: dict[str, list[str]]) -> None: ...

    decoded = Signature.of(one).decode(
        f'{{"amount": {DIGITS}, "text": "a\\ud83d", "tags": {{"\\ud83d": ["\\ud83d"]}}}}'
    )

    assert decoded.arguments == {"amount": Decimal(DIGITS), "text": "a�", "tags": {"�": ["�"]}}
