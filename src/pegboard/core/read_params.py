"""Reading single values out of raw parameters, for tools in the four-argument form (ledger M-45..M-47)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pegboard.core.coerce import Coercion
from pegboard.core.problems import Problem, format_json, raise_invalid


def read_string_param(params: Mapping[str, Any], name: str, *, required: bool = False) -> str | None:
    """A string without the spaces around it; None where it is absent or empty.

    Raises:
        InvalidArguments: it is required and absent, or it is no string.
    """
    value = params.get(name)
    if isinstance(value, str):
        value = value.strip() or None
    if value is None:
        return _absent(name, required)
    if not isinstance(value, str):
        raise_invalid([Problem(f".{name}", f"must be a string, got {format_json(value)}")], name="")
    return value


def read_number_param(
    params: Mapping[str, Any], name: str, *, required: bool = False, integer: bool = False
) -> float | int | None:
    """A number, also from text; None where it is absent.

    Args:
        integer: only a whole number will do.

    Raises:
        InvalidArguments: it is required and absent, or no such number.
    """
    kind = "integer" if integer else "number"
    value = Coercion({}).coerce(params.get(name), {"type": kind}, f".{name}")
    if value is None or value == "":
        return _absent(name, required)
    if isinstance(value, bool) or not isinstance(value, int if integer else (int, float)):
        raise_invalid(
            [Problem(f".{name}", f"must be {'an' if integer else 'a'} {kind}, got {format_json(value)}")],
            name="",
        )
    return value


def read_string_array_param(
    params: Mapping[str, Any], name: str, *, required: bool = False
) -> list[str] | None:
    """A list of strings, also from JSON text or a single string; None where it is absent or empty.

    Raises:
        InvalidArguments: it is required and absent, or holds something else.
    """
    value: Any = params.get(name)
    if isinstance(value, str):
        value = Coercion({}).coerce(value, {"type": "array"}, f".{name}")
    if isinstance(value, str):
        value = [value]
    if value is None or value == []:
        return _absent(name, required)
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not all(isinstance(item, str) for item in items):
        raise_invalid(
            [Problem(f".{name}", f"must be an array of strings, got {format_json(value)}")], name=""
        )
    return [item.strip() for item in items if item.strip()]


def _absent(name: str, required: bool) -> None:
    if required:
        raise_invalid([Problem(f".{name}", "is required but missing")], name="")
