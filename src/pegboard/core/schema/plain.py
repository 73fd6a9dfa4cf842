"""Plain types: validator and JSON Schema of `int`, `list[str]`, `Literal[…] | None` … without pydantic's generator.

Most tools take nothing else. Importing and running pydantic's schema generator costs more than the rest of a
process that makes one call, and pydantic-core, which validates, does not need it. What this module answers is
what pydantic would answer, which its test compares; every other type is left to `core/typed.py`.
"""

from __future__ import annotations

import math
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pegboard.core.schema.annotations import MISSING, Alias, EffectMarker, Example

if TYPE_CHECKING:
    from pydantic_core.core_schema import CoreSchema

    from pegboard.core.schema.annotations import Parameter

Both = tuple[dict[str, Any], dict[str, Any]]
"""(pydantic-core's schema, JSON Schema)."""

_WORDLESS: Final = (Alias, EffectMarker, Example)
"""Metadata of ours, of which pydantic knows nothing."""
_SCALARS: Final[dict[Any, tuple[str, str]]] = {
    str: ("str", "string"),
    int: ("int", "integer"),
    float: ("float", "number"),
    bool: ("bool", "boolean"),
    type(None): ("none", "null"),
}


def build(
    parameters: Sequence[Parameter], *, open_: bool
) -> tuple[CoreSchema, dict[str, dict[str, Any]]] | None:
    """The core schema of these parameters and the JSON Schema of each; None where one is not plain.

    Args:
        parameters: what a model fills.
        open_: arguments of other names are passed on.
    """
    fields: dict[str, Any] = {}
    properties: dict[str, dict[str, Any]] = {}
    for parameter in parameters:
        both = _read(parameter.annotation)
        if both is None:
            return None
        core, shown = both
        default = parameter.default
        if default is not MISSING:
            if not _sayable(default):
                return None
            core = {"type": "default", "schema": core, "default": default}
            # A default of None for a type without None means "may be left out", which `required` says.
            if default is not None or not shown or "anyOf" in shown or shown.get("type") == "null":
                shown = dict(sorted({**shown, "default": default}.items()))
        fields[parameter.name] = {"type": "typed-dict-field", "schema": core, "required": parameter.required}
        properties[parameter.name] = shown
    whole: Any = {
        "type": "typed-dict",
        "fields": fields,
        "extra_behavior": "allow" if open_ else "forbid",
        "config": {"allow_inf_nan": False},
    }
    return whole, properties


def _sayable(default: Any) -> bool:
    """Whether JSON says this default as it stands."""
    kind = cast("Any", type(default))
    if kind is float:
        return math.isfinite(default)
    if kind is str:
        return cast(str, default).isprintable()  # half a surrogate pair is not
    return default is None or kind is int or kind is bool


def _read(annotation: Any) -> Both | None:
    known = _SCALARS.get(annotation) if isinstance(annotation, type) else None
    if known is not None:
        return {"type": known[0]}, {"type": known[1]}
    if annotation is Any or annotation is object:
        return {"type": "any"}, {}
    if annotation is list or annotation is dict:
        annotation = list[Any] if annotation is list else dict[Any, Any]
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if origin is Annotated:
        return _read(arguments[0]) if all(isinstance(m, _WORDLESS) for m in arguments[1:]) else None
    if origin is Literal:
        return _literal(arguments)
    if origin is Union or origin is types.UnionType:
        return _optional(arguments)
    if origin is list:
        return _list(arguments[0])
    return _dict(*arguments) if origin is dict else None


def _literal(values: tuple[Any, ...]) -> Both | None:
    kind = cast("Any", type(values[0]))
    if kind not in (str, int) or any(type(v) is not kind for v in values):
        return None
    shown: dict[str, Any] = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    shown["type"] = _SCALARS[kind][1]
    return {"type": "literal", "expected": list(values)}, shown


def _optional(members: tuple[Any, ...]) -> Both | None:
    rest = [m for m in members if m is not type(None)]
    if len(members) != 2 or len(rest) != 1:
        return None
    inner = _read(rest[0])
    if inner is None or not inner[1] or "anyOf" in inner[1]:
        return None
    core, shown = inner
    return {"type": "nullable", "schema": core}, {"anyOf": [shown, {"type": "null"}]}


def _list(item: Any) -> Both | None:
    inner = _read(item)
    if inner is None:
        return None
    return {"type": "list", "items_schema": inner[0]}, {"items": inner[1], "type": "array"}


def _dict(key: Any, item: Any) -> Both | None:
    keys, values = _read(key), _read(item)
    if keys is None or values is None or (key is not str and key is not Any):
        return None
    return (
        {"type": "dict", "keys_schema": keys[0], "values_schema": values[0]},
        {"additionalProperties": values[1] or True, "type": "object"},
    )
