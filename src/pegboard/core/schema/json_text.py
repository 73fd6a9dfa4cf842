"""JSON text: read as it is meant, and what in it has no one meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final, cast

from pegboard.core.schema.numerals import Numeral, exact
from pegboard.core.schema.problems import Problem

SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAYBE_SURROGATE: Final = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")
_HUGE: Final = re.compile(r"[0-9][eE]\+?[0-9]{3}|[0-9]{300}")
LONG: Final = re.compile(r"[0-9](?:\.?[0-9]){15}|[0-9][eE]-[0-9]{3}")
"""A number of which a float may lose a digit."""
POINT: Final = re.compile(r"[0-9][.eE]")
"""A number that is more than its digits."""


class NotFinite(Exception):
    """NaN, Infinity or a number beyond the range stands in the text.

    Attributes:
        problems: each with its path.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class DuplicateKeyError(ValueError):
    """A key stands twice in one object, with different values."""


def has_surrogate(text: str) -> bool:
    """Whether half a surrogate pair may stand in some JSON text, plain or escaped."""
    return _MAYBE_SURROGATE.search(text) is not None


def has_lone_surrogate(value: Any) -> bool:
    """Whether a JSON value holds half a surrogate pair."""
    return SURROGATE.search(json.dumps(value, ensure_ascii=False)) is not None


def has_overflow(text: str) -> bool:
    """Whether some JSON text may hold a number beyond the range, which Python takes for infinity."""
    return _HUGE.search(text) is not None


def has_duplicate_keys(text: str) -> bool:
    """Whether an object in some JSON text has a key twice, with different values."""
    try:
        json.loads(text, object_pairs_hook=object_from_pairs)
    except DuplicateKeyError:
        return True
    except (ValueError, RecursionError):  # not to be read at all, which is for others to say
        return False
    return False


class _Beyond(float):
    """A number that is not finite, with the text that it was read from."""

    text = ""


def _beyond(text: str) -> _Beyond:
    number = _Beyond(text)
    number.text = text
    return number


def _float(text: str) -> float:
    number = exact(text)
    return number if isfinite(number) else _beyond(text)


def _numeral(text: str) -> float:
    number = _float(text)
    return Numeral(text) if type(number) is float else number


def object_from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these members.

    Raises:
        Repeated: a key stands twice in it with different values.
    """
    out = dict(pairs)
    if len(out) < len(pairs):
        for key, value in pairs:
            if not _same(value, out[key]):
                raise DuplicateKeyError(key)
    return out


def _same(a: Any, b: Any) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def loads(text: str, *, infinite: bool = False, numerals: bool = False) -> Any:
    """`json.loads` without what is no JSON or has no one meaning.

    Args:
        text: JSON.
        infinite: let pass NaN, Infinity, and 1e999, which Python takes for infinity.
        numerals: every number with a point or an exponent comes as a Numeral, with the digits as written.

    Raises:
        NotFinite, Repeated, ValueError, RecursionError.
    """
    read = _numeral if numerals else _float if _HUGE.search(text) or LONG.search(text) else None
    value = json.loads(text, object_pairs_hook=object_from_pairs, parse_constant=_beyond, parse_float=read)
    if not infinite and (has_overflow(text) or "NaN" in text or "Infinity" in text):
        problems = list(_not_finite(value, ""))
        if problems:
            raise NotFinite(problems)
    return value


def _not_finite(value: Any, path: str) -> Iterator[Problem]:
    if isinstance(value, _Beyond):
        yield Problem(path, f"{value.text} is not a JSON value; give a finite number or leave it out")
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _not_finite(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _not_finite(item, f"{path}[{index}]")
