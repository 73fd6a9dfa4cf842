"""Drafts: schemas of earlier JSON Schema drafts, and of OpenAPI 3.0, said in 2020-12 with the same meaning.

Sources: the release notes of drafts 04, 06, 07, 2019-09 and 2020-12; OpenAPI 3.0.3 for `nullable`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast, overload

from pegboard.core.schema import Schema, rewrite
from pegboard.core.strict import nullable

_LOOSE: Final = re.compile(
    r'"nullable": |"required": (?:true|false)|"any"|json-schema\.org/draft-03/|(?<!"default)(?<!"const)": null'
)
_OLD: Final = re.compile(
    _LOOSE.pattern + r'|json-schema\.org/(?:draft-0[4-7]|draft/2019-09)/|"definitions": |"items": \['
    r'|"exclusiveM(?:in|ax)imum": (?:true|false)|"\$recursive|"\$id": "#|[ \[](?:NaN|-?Infinity)[,\]}]'
)
_NAMED: Final = re.compile(r"json-schema\.org/(?:draft-0([3-7])|draft/(2019)-09)/")
_BY_ADDRESS: Final = re.compile(r'[^"]#/definitions/')
_PLACE: Final = re.compile(r"(?<!/properties)/items/(?=\d)")
_NEWEST: Final = 2020
_FLAG: Final = "\0required"
# Up to draft 07 everything beside a reference is ignored; what only informs may stay.
_BESIDE: Final = frozenset({"$ref", "$defs", "definitions", "title", "description", "default", "examples"})
_MAY_BE_NULL: Final = frozenset({"default", "const"})
_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_VALUES: Final = frozenset(
    {"default", "const", "enum", "examples", "multipleOf", *(word for pair in _BOUNDS for word in pair)}
)


def readable(schema: Schema) -> Schema:
    """The schema in words that validators know: `type: any`, `required: true` on a property, `nullable`, null for absent.

    Their drafts have no validator any more, or are no JSON Schema, and programs write them all the same. A schema
    without such words stays the very same object.
    """
    if isinstance(schema, bool) or not _LOOSE.search(_text(schema)):
        return schema
    root = {
        k: v for k, v in schema.items() if not (k == "nullable" or (k == "$schema" and _draft(schema) == 3))
    }
    flagged = rewrite(root, lambda node: _flagged(node, root))
    out = cast("Schema", rewrite(rewrite(flagged, _needing), _unflagged))
    return schema if out == schema else out


@overload
def modern(schema: Mapping[str, Any]) -> Mapping[str, Any]: ...
@overload
def modern(schema: Schema) -> Schema: ...
def modern(schema: Schema) -> Schema:
    """The schema in 2020-12, which providers want, with the same meaning; one that is so stays the very same object.

    Values that JSON cannot write (NaN, infinities) are left out: no call could hold them.
    """
    if isinstance(schema, bool) or not _OLD.search(text := _text(schema)):
        return schema
    draft = _draft(schema)
    root = cast("Mapping[str, Any]", readable(schema))
    moved = _can_move(root) and not _BY_ADDRESS.search(text)

    def change(node: dict[str, Any]) -> dict[str, Any]:
        reference = node.get("$ref")
        if isinstance(reference, str):
            if draft <= 7:
                node = {k: v for k, v in node.items() if k in _BESIDE}
            node["$ref"] = _PLACE.sub("/prefixItems/", reference)
            if moved and reference.startswith("#/definitions/"):
                node["$ref"] = "#/$defs/" + node["$ref"].removeprefix("#/definitions/")
        _bounds(node)
        _tuples(node)
        _identity(node, draft)
        dependencies = node.pop("dependencies", None) if draft < _NEWEST else None
        if isinstance(dependencies, Mapping):
            _dependent(node, cast("Mapping[str, Any]", dependencies), change)
        return {k: v for k, v in node.items() if k not in _VALUES or _written(v)}

    out = cast("dict[str, Any]", rewrite(root, change))
    if moved:
        out["$defs"] = {**out.pop("definitions"), **out.get("$defs", {})}
    if draft < _NEWEST:
        out.pop("$schema", None)
    return schema if out == schema else out


def _can_move(root: Mapping[str, Any]) -> bool:
    """Whether `definitions` can be `$defs`: no definition of that name stands there already."""
    own: Any = root.get("$defs", {})
    older: Any = root.get("definitions")
    both = isinstance(older, Mapping) and isinstance(own, Mapping)
    return both and not cast("Any", own).keys() & cast("Any", older).keys()


def _flagged(node: dict[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """No `type: any`, no `nullable` and no null words; a flag `required` stands apart from the list of that name."""
    # Programs whose empty lists are null write `required: null`, and `items: null`.
    for word in [w for w, v in node.items() if v is None and w not in _MAY_BE_NULL]:
        del node[word]
    if isinstance(node.get("properties"), dict):
        node["properties"] = {k: {} if v is None else v for k, v in node["properties"].items()}
    kind = node.get("type")
    if kind == "any" or (isinstance(kind, list) and "any" in kind):
        del node["type"]
    if isinstance(node.get("required"), bool):
        node[_FLAG] = node.pop("required")
    if isinstance(node.get("nullable"), bool) and node.pop("nullable"):
        flag = {_FLAG: node.pop(_FLAG)} if _FLAG in node else {}
        return {**nullable(node, root), **flag}
    return node


def _needing(node: dict[str, Any]) -> dict[str, Any]:
    """The properties that are flagged stand in the list `required`."""
    properties = node.get("properties")
    if isinstance(properties, dict):
        table = cast("dict[str, Any]", properties)
        needed = [k for k, v in table.items() if isinstance(v, dict) and cast("dict[str, Any]", v).get(_FLAG)]
        if needed:
            node["required"] = list(dict.fromkeys([*node.get("required", ()), *needed]))
    return node


def _unflagged(node: dict[str, Any]) -> dict[str, Any]:
    node.pop(_FLAG, None)
    return node


def _bounds(node: dict[str, Any]) -> None:
    """Draft 04's flags beside a bound as bounds of their own."""
    for flag, bound in _BOUNDS:
        if isinstance(node.get(flag), bool) and node.pop(flag) and bound in node:
            node[flag] = node.pop(bound)


def _tuples(node: dict[str, Any]) -> None:
    """`items` as a list was the first items, `additionalItems` the others; it means nothing without such a list."""
    others = node.pop("additionalItems", None)
    if isinstance(node.get("items"), list):
        first = node.pop("items")
        if first:
            node["prefixItems"] = first
        if others is not None:
            node["items"] = others


def _identity(node: dict[str, Any], draft: int) -> None:
    """The names by which a schema is referred to; a whole address names no place that is looked up here."""
    word = "id" if draft <= 4 else "$id"
    name = node.get(word)
    if draft <= 4 or (isinstance(name, str) and name.startswith("#")):
        node.pop(word, None)
    if isinstance(name, str) and len(name) > 1 and name.startswith("#"):
        node["$anchor"] = name[1:]
    node.pop("$recursiveAnchor", None)
    if "$recursiveRef" in node:
        node["$ref"] = node.pop("$recursiveRef")


def _dependent(node: dict[str, Any], dependencies: Mapping[str, Any], change: Any) -> None:
    names: dict[str, Any] = {k: v for k, v in dependencies.items() if isinstance(v, list)}
    schemas = {k: rewrite(v, change) for k, v in dependencies.items() if k not in names}
    node.update({"dependentRequired": names} if names else {})
    node.update({"dependentSchemas": schemas} if schemas else {})


def _draft(schema: Mapping[str, Any]) -> int:
    """The draft that a schema says it is of: 3, 4, 6, 7, 2019 or 2020, the newest where it says nothing."""
    found = _NAMED.search(str(schema.get("$schema", "")))
    return _NEWEST if found is None else int(found[1] or found[2])


def _written(value: Any) -> bool:
    """Whether JSON can write a value."""
    try:
        json.dumps(value, allow_nan=False, default=str)
    except (ValueError, TypeError):
        return False
    return True


def _text(schema: Mapping[str, Any]) -> str:
    """The schema as text to look words up in, which is much faster than walking it; empty where it has none."""
    try:
        return json.dumps(schema, default=_plain, skipkeys=True)
    except (ValueError, RecursionError):
        return ""


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[Any, Any]", value)) if isinstance(value, Mapping) else str(value)
