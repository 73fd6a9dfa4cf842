"""JSON Schema at the border: what no provider takes at a tool's root, and in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

ROOT_REFUSED: Final = ("oneOf", "anyOf", "allOf", "enum", "const", "not")
"""Providers answer 400 to these at the root (ledger X-07)."""

SCHEMA_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
SCHEMA_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
SCHEMAS: Final = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def sendable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as any provider takes it; a schema that is fine already stays the very same object.

    The root is an object with `properties`, `required` is a list, there is no union at the root
    (its branches' properties are merged: validation stays with the full schema), and every array
    says what its items are.
    """
    root = _object_root(schema)
    return cast("dict[str, Any]", _itemised(root))


def map_subschemas(schema: dict[str, Any], change: Any) -> dict[str, Any]:
    """The schema with `change` applied to each direct subschema; the same object where none changed."""
    out = schema
    for key, value in schema.items():
        new: Any = value
        if key in SCHEMA_MAPS and isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            changed = {name: change(sub) for name, sub in entries.items()}
            if any(changed[name] is not sub for name, sub in entries.items()):
                new = changed
        elif key in SCHEMA_LISTS and isinstance(value, list):
            subs = cast("list[Any]", value)
            listed = [change(sub) for sub in subs]
            if any(a is not b for a, b in zip(listed, subs, strict=True)):
                new = listed
        elif key in SCHEMAS and isinstance(value, dict):
            new = change(value)
        if new is not value:
            out = {**out, key: new}
    return out


def type_words(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of `type`, as a tuple; empty where it says none."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return (kind,)
    if isinstance(kind, list):
        return tuple(word for word in cast("list[Any]", kind) if isinstance(word, str))
    return ()


def resolve_ref(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a local `$ref` names, followed at most 16 times; itself where there is none."""
    for _ in range(16):
        ref = schema.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#"):
            return schema
        target: Any = root
        for part in ref[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            target = cast("dict[str, Any]", target).get(key) if isinstance(target, dict) else None
        if not isinstance(target, Mapping):
            return {}
        schema = cast("Mapping[str, Any]", target)
    return schema


def _object_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    root = dict(schema)
    changed = False
    for key in ROOT_REFUSED:
        if key in root:
            _merge_branches(root, key, root.pop(key), schema)
            changed = True
    if root.get("type") != "object":
        root["type"] = "object"
        changed = True
    if not isinstance(root.get("properties"), dict):
        root["properties"] = {}
        changed = True
    if not root["properties"] and root.get("required") != []:
        root["required"] = []
        changed = True
    if "required" in root and not isinstance(root["required"], list):
        root["required"] = []
        changed = True
    return root if changed or not isinstance(schema, dict) else schema


def _merge_branches(root: dict[str, Any], key: str, value: Any, whole: Mapping[str, Any]) -> None:
    """Take over the properties of a union's branches; required is only what every branch requires."""
    if key not in SCHEMA_LISTS or not isinstance(value, list):
        return
    branches = [
        resolve_ref(cast("Mapping[str, Any]", b), whole)
        for b in cast("list[Any]", value)
        if isinstance(b, Mapping)
    ]
    properties = dict(cast("dict[str, Any]", root.get("properties") or {}))
    needed: list[set[str]] = []
    for branch in branches:
        for name, sub in cast("dict[str, Any]", branch.get("properties") or {}).items():
            properties.setdefault(name, sub)
        needed.append(set(cast("list[str]", branch.get("required") or [])))
    root["properties"] = properties
    if needed:
        common = needed[0].union(*needed[1:]) if key == "allOf" else needed[0].intersection(*needed[1:])
        own = cast("list[str]", root.get("required") or [])
        root["required"] = [*own, *sorted(common.difference(own))]


def _itemised(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    node = map_subschemas(cast("dict[str, Any]", schema), _itemised)
    if "array" in type_words(node) and "items" not in node:
        return {**node, "items": {}}
    return node
