"""Numerals in malformed JSON: what begins a number, where it ends, and what only looks like one."""

from __future__ import annotations

import re
from decimal import Decimal
from math import isfinite
from typing import Final

NUMBER: Final = re.compile(r"[+-]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]*)?")
NUMBER_END: Final = re.compile(r"""\s*(?:[,}\])]|\Z|/[/*]|\#|["']\s*[,}\]]|\s["'\w{\[])""")
LEADING_ZERO: Final = re.compile(r"[+-]?0[0-9]")
NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"})


_EVERY_WHOLE: Final = 2.0**53
"""Below it a float holds every whole number."""


def exact(text: str) -> float:
    """A numeral with a point or an exponent, as an int where a float would lose a digit of a whole number."""
    number = float(text)
    if abs(number) < _EVERY_WHOLE or not isfinite(number):
        return number
    whole = Decimal(text)
    # What a writer of floats writes for this one, the shortest numeral, means the float.
    lost = whole not in (number, Decimal(repr(number)))
    return int(whole) if lost and whole == whole.to_integral_value() else number


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
