"""JSON Schema at the border: what no provider takes at a tool's root, and in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.schema.json_schema import modern, pointer, rewrite, same
from pegboard.dialects.wire import as_dict, as_dicts

ROOT_REFUSED: Final = ("oneOf", "anyOf", "allOf", "enum", "const", "not")
"""Providers answer 400 to these at the root."""


def sendable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as any provider takes it; a schema that is fine already stays the very same object.

    The root is an object with `properties`, `required` is a list, there is no reference and no union at
    the root (its branches' properties are merged: validation stays with the full schema), and every
    array says what its items are.
    """
    said = modern(schema)
    root = _object_root(said, said)
    # Copying every schema would cost more than the look: nearly all are fine.
    return rewrite(root, _itemised) if _lacks_items(root) else root


def _object_root(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    # What a reference at the root names is the root: beside a `$ref`, empty `properties` say "no parameters".
    named = pointer(schema, whole) if "$ref" in schema else schema
    root: dict[str, Any] = {} if isinstance(named, bool) else dict(named)
    changed = "$ref" in schema
    for key in ROOT_REFUSED:
        if key in root:
            _merge_branches(root, key, root.pop(key), whole)
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
    if key not in ("oneOf", "anyOf", "allOf") or not as_dicts(value):
        return
    found = [pointer(b, whole) for b in as_dicts(value)]
    branches = [b for b in found if not isinstance(b, bool)]
    own = cast("dict[str, Any]", root.get("properties") or {})
    taken: dict[str, Any] = {}
    needed: list[set[str]] = []
    for branch in branches:
        for name, sub in as_dict(branch.get("properties")).items():
            taken[name] = _either(taken[name], sub) if name in taken and key != "allOf" else sub
        needed.append(set(cast("list[str]", branch.get("required") or [])))
    root["properties"] = {**own, **{name: sub for name, sub in taken.items() if name not in own}}
    if needed:
        common = needed[0].union(*needed[1:]) if key == "allOf" else needed[0].intersection(*needed[1:])
        required = cast("list[str]", root.get("required") or [])
        root["required"] = [*required, *sorted(common.difference(required))]


def _either(first: Any, second: Any) -> Any:
    """A schema of what either admits; listed values stay one list, which models and providers read best."""
    if same(first, second):
        return first
    one, other = _listed(first), _listed(second)
    if one and other:
        shared = {
            k: v for k, v in as_dict(first).items() if k not in ("const", "enum") and same(second.get(k), v)
        }
        return {**shared, "enum": [*one, *(v for v in other if not any(same(v, seen) for seen in one))]}
    earlier = cast("list[Any]", first["anyOf"]) if list(as_dict(first)) == ["anyOf"] else [first]
    return {"anyOf": [*earlier, second]}


def _listed(schema: Any) -> list[Any]:
    node = as_dict(schema)
    return [node["const"]] if "const" in node else cast("list[Any]", node.get("enum") or [])


def _itemised(node: dict[str, Any]) -> dict[str, Any]:
    return {**node, "items": {}} if "array" in _words(node) and "items" not in node else node


def _lacks_items(value: Any) -> bool:
    """Whether an array somewhere does not say what its items are; data may look so too."""
    if isinstance(value, dict):
        node = cast("dict[str, Any]", value)
        return ("items" not in node and "array" in _words(node)) or any(map(_lacks_items, node.values()))
    return isinstance(value, list) and any(map(_lacks_items, cast("list[Any]", value)))


def _words(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    kind = schema.get("type")
    return tuple(cast("list[Any]", kind)) if isinstance(kind, list) else (kind,)
