"""Repair: what malformed JSON text was meant to say (ledger K-05)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast

from pegboard.core.schema.lenient import Reader, Unrepairable
from pegboard.core.schema.numerals import exact

_FENCE: Final = re.compile(r"(?<!`)`{3,}+[ \t]*+[A-Za-z0-9_+-]*+\s*+(?=[{\[(])")
_START: Final = re.compile(r"[{\[]")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_NEXT_MEMBER: Final = re.compile(r"""\s*,\s*(?=(?:"[^"\n]{0,200}"|'[^'\n]{0,200}')\s*[:"'])""")
_ESCAPED: Final = re.compile(r'\s*[{\[]\s*\\"')
_EXACT_TRIES: Final = 8
_MAX_VALUES: Final = 1000


@dataclass(frozen=True, slots=True)
class Repaired:
    """A value read out of malformed text.

    Attributes:
        value: the value.
        notes: what was repaired, one sentence each.
        truncated: the text ends before its value does; the rest was made up. Never execute it.
        guessed: something was dropped, moved or invented; there may be another reading.
    """

    value: Any
    notes: tuple[str, ...] = ()
    truncated: bool = False
    guessed: bool = False


def repair_json(text: str) -> Repaired:
    """The value that a malformed JSON text was meant to be, in time linear in its length.

    Outside an object or array, words are prose: a text without either has no value, except a number.

    Raises:
        Unrepairable: there is no JSON value to be read out of it.
    """
    try:
        return Repaired(json.loads(text, parse_constant=_no_constant, parse_float=exact))
    except (ValueError, RecursionError):
        pass
    bare = text.strip()
    if _NUMBER.match(bare):
        raise Unrepairable("a number with too many digits")
    if _ESCAPED.match(bare):
        text = bare.replace('\\"', '"').replace("\\\\", "\\")
        inner = repair_json(text)
        return Repaired(
            inner.value,
            ("The quotes were escaped once too often.", *inner.notes),
            inner.truncated,
            inner.guessed,
        )
    reader = Reader(text)
    values = _values(reader)
    if not values:
        raise Unrepairable("no object or array in it")
    value = _one(values, reader)
    notes = tuple(dict.fromkeys(reader.notes)) or ("Slips in its JSON were put right.",)
    return Repaired(value, notes, reader.truncated, reader.guessed)


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _values(reader: Reader) -> list[tuple[Any, bool]]:
    """The outermost values, each with whether a comma stands before it."""
    text = reader.text
    fence = _first_fence(text)
    values: list[tuple[Any, bool]] = []
    if fence is None and text.lstrip()[:1] == "(":
        reader.at = text.index("(")
        return [(reader.value(), False)]
    previous = 0
    while len(values) < _MAX_VALUES:
        found = (_FENCE if fence is not None else _START).search(text, previous)
        if found is None:
            break
        start = found.end() if fence is not None else found.start()
        value = _exact(reader, start, len(values)) or reader.read_at(start)
        between = text[previous:start]
        if between.strip(" \t\r\n`,"):
            reader.note("The text around the JSON was left out.")
        if fence is not None:
            reader.note("The code fence was left out.")
        values.append((value[0], between.strip() == ","))
        previous = max(reader.at, start + 1)
        if isinstance(value[0], dict):
            previous = _more_members(reader, cast("dict[str, Any]", value[0]), previous)
    if text[previous:].strip(" \t\r\n`;"):
        reader.note("The text around the JSON was left out.")
    return values


def _first_fence(text: str) -> int | None:
    """Where a code fence opens outside of any value, None without one."""
    found = _FENCE.search(text)
    if found is None:
        return None
    before = text[: found.start()]
    return None if "{" in before or before.count("[") != before.count("]") else found.start()


def _exact(reader: Reader, start: int, count: int) -> tuple[Any] | None:
    """The value at `start` where it is well-formed; tried for the first few only, to stay linear."""
    if count >= _EXACT_TRIES:
        return None
    try:
        value, reader.at = _DECODER.raw_decode(reader.text, start)
    except (ValueError, RecursionError):
        return None
    return (value,)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=exact)


def _more_members(reader: Reader, value: dict[str, Any], at: int) -> int:
    """`{…}, "key": …}`: the object was closed too early."""
    found = _NEXT_MEMBER.match(reader.text, at)
    if found is None:
        return at
    reader.guess("A brace that closed the object too early was left out.")
    reader.at = found.end()
    reader.members(value)
    return reader.at


def _one(values: list[tuple[Any, bool]], reader: Reader) -> Any:
    """One value out of several: empty ones give way, a repetition without a comma replaces."""
    full = [(v, comma) for v, comma in values if v not in ({}, [])]
    if not full:
        return values[0][0]
    kept: list[Any] = []
    for value, comma in full:
        if kept and not comma and _same_shape(kept[-1], value):
            kept[-1] = value
        else:
            kept.append(value)
    if len(values) > 1:
        reader.guess("There were several JSON values.")
    return kept[0] if len(kept) == 1 else kept


def _same_shape(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return cast("dict[str, Any]", a).keys() == cast("dict[str, Any]", b).keys()
    if isinstance(a, list) and isinstance(b, list):
        first, second = cast("list[object]", a), cast("list[object]", b)
        return len(first) == len(second) and all(map(_same_shape, first, second))
    return type(cast("object", a)) is type(cast("object", b))


__all__ = ["Repaired", "Unrepairable", "repair_json"]
