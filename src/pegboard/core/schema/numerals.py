"""Numerals: numbers to the last digit, and in malformed JSON what begins one, where it ends, what only looks so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final, cast

NUMBER: Final = re.compile(r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]*)?")
NUMBER_END: Final = re.compile(r"""\s*(?:[,}\])]|\Z|/[/*]|\#|["']\s*[,}\]]|\s["'\w{\[])""")
LEADING_ZERO: Final = re.compile(r"[+-]?0[0-9]")
NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"})


_EVERY_WHOLE: Final = 2.0**53
"""Below it a float holds every whole number."""


_SHORT: Final = 16
"""Characters of a numeral in which at most fifteen digits stand, all of which a float keeps (IEEE 754 binary64)."""
_SMALL: Final = 1e-290
"""Below it a float keeps fewer digits, and in the end none."""
_BARE: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_DEEPEST: Final = 100


class Numeral(float):
    """A number with the digits that it was written with, which a float may hold only nearly.

    Attributes:
        text: as JSON writes it.
    """

    text: str

    def __new__(cls, text: str) -> Numeral:
        made = super().__new__(cls, text)
        made.text = text if _BARE.match(text) else str(Decimal(text))
        return made

    @property
    def lost(self) -> bool:
        """Whether the float is another number than the one that was written."""
        # What a writer of floats writes for this one, the shortest numeral, means the float.
        return _value(self.text) not in (float(self), Decimal(repr(float(self))))

    @property
    def whole(self) -> int | None:
        """The whole number that was written; None where it is none, or beyond a float's range."""
        value = _value(self.text)
        return int(value) if isfinite(self) and value == value.to_integral_value() else None


def _value(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all that can be said
        return Decimal("NaN")


def exact(text: str) -> float:
    """A numeral with a point or an exponent: where a float would lose a digit of it, an int if it is whole, else
    a Numeral."""
    number = float(text)
    if (
        not isfinite(number)
        or (len(text) <= _SHORT and _SMALL < abs(number) < _EVERY_WHOLE)
        or text in _ZEROS
    ):
        return number
    kept = Numeral(text)
    if not kept.lost:
        return number
    whole = kept.whole
    return kept if whole is None else whole


_ZEROS: Final = frozenset({"0.0", "-0.0", "0.00"})


def comparable(text: str) -> float | Decimal:
    """The numeral as a value that equals another's exactly where the numbers do."""
    number = exact(text)
    return _value(number.text) if isinstance(number, Numeral) else number


def as_sent(arguments: Mapping[str, Any] | str) -> Mapping[str, Any] | str:
    """The arguments; as JSON text where they hold a Numeral, whose digits a mapping loses on its way."""
    return written(arguments) if holds_numeral(arguments) else arguments


def written(value: Any) -> str:
    """JSON text of a value with every digit of its Numerals."""
    if isinstance(value, Mapping):
        rows = cast("Mapping[str, Any]", value).items()
        return "{" + ",".join(f"{_dumps(key)}:{written(item)}" for key, item in rows) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, cast("list[Any]", value))) + "]"
    return value.text if isinstance(value, Numeral) else _dumps(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def holds_numeral(value: Any, depth: int = 0) -> bool:
    """Whether a Numeral stands in a JSON value, down to a depth that no call has."""
    if isinstance(value, Numeral):
        return True
    if depth > _DEEPEST:
        return False
    if isinstance(value, Mapping):
        return any(holds_numeral(item, depth + 1) for item in cast("Mapping[str, Any]", value).values())
    return isinstance(value, list) and any(
        holds_numeral(item, depth + 1) for item in cast("list[Any]", value)
    )


def number_of(text: str) -> float | str:
    """The number that a numeral stands for; the text itself where there is no finite one."""
    bare = text.replace("_", "")
    if bare[-1:] in "eE+-":  # `1e`, an exponent that never came
        bare = bare.rstrip("eE+-")
    try:
        return int(bare)
    except ValueError:
        number = exact(bare)
    return number if isfinite(number) else text
