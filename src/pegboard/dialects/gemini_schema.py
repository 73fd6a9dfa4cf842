"""The part of OpenAPI schema that Gemini takes, made from JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.errors import BuildError
from pegboard.core.schema.json_schema import inline_refs, modern, type_name
from pegboard.dialects.schemas import sendable
from pegboard.dialects.wire import as_dict, as_dicts, to_json

RECURSION: Final = 2
"""How often a definition may stand inside itself before it becomes an open object."""

KEPT: Final = (
    "description",
    "title",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minProperties",
    "maxProperties",
)
FORMATS: Final = frozenset({"date-time", "int32", "int64", "float", "double"})
ANY_VALUE: Final = ("string", "number", "boolean", "object")


def gemini_schema(schema: Mapping[str, Any], tool: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The subset, and what it could not say.

    No references, no empty enum entry, one type a node, `nullable` for null, and nothing beside
    `anyOf`. What is lost stays in the full
    schema, which the executor checks.
    """
    notes: list[str] = []
    try:
        plain = inline_refs(modern(schema), max_depth=RECURSION)
    except BuildError as error:
        # One schema that cannot be written out must not cost the request all its other tools.
        notes.append(f"gemini: tool {tool!r} is sent with free arguments: {error}")
        plain = {"type": "object", "description": "Any arguments; they are checked when the tool is called."}
    root = _node(sendable(plain), tool, "", notes)
    root.setdefault("properties", {})
    root.setdefault("required", [])
    return root, tuple(notes)


def _node(schema: Any, tool: str, path: str, notes: list[str]) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not schema:
        return _choice([{"type": kind} for kind in ANY_VALUE], "", False)
    node = _merged(cast("Mapping[str, Any]", schema))
    branches = _branches(node)
    if branches is not None:
        real = [b for b in branches if b.get("type") != "null"]
        nullable = len(real) < len(branches)
        if len(real) == 1:
            outer = {k: v for k, v in node.items() if k not in ("anyOf", "oneOf", "type")}
            only = _node({**real[0], **outer}, tool, path, notes)
            return {**only, "nullable": True} if nullable and "anyOf" not in only else only
        made = [_node(b, tool, path, notes) for b in real]
        return _choice(made, _described(node), nullable)
    return _single(node, tool, path, notes)


def _single(node: dict[str, Any], tool: str, path: str, notes: list[str]) -> dict[str, Any]:
    kind = node.get("type") or _kind_of_values(node)
    if kind is None:
        if "properties" in node:
            kind = "object"
        elif "items" in node:
            kind = "array"
        else:
            return _choice([{"type": k} for k in ANY_VALUE], _described(node), False)
    out: dict[str, Any] = {"type": kind}
    out.update({key: node[key] for key in KEPT if node.get(key) is not None})
    if node.get("format") in FORMATS:
        out["format"] = node["format"]
    if node.get("default") is not None:
        out["default"] = node["default"]
    _values(node, out)
    if kind == "object":
        _object(node, out, tool, path, notes)
    if kind == "array":
        out["items"] = _node(node.get("items"), tool, f"{path}[]", notes)
    return out


def _object(node: dict[str, Any], out: dict[str, Any], tool: str, path: str, notes: list[str]) -> None:
    properties = as_dict(node.get("properties"))
    if properties:
        out["properties"] = {k: _node(v, tool, f"{path}.{k}", notes) for k, v in properties.items()}
        required = [k for k in cast("list[str]", node.get("required") or []) if k in properties]
        if required:
            out["required"] = required
    if node.get("additionalProperties") not in (None, False) or "patternProperties" in node:
        notes.append(
            f"tool {tool!r}: {path or 'the root'} takes free keys; Gemini cannot be told of which type"
        )


def _values(node: dict[str, Any], out: dict[str, Any]) -> None:
    """`enum` of texts only; other values, and the empty text, are said in the description."""
    values = [node["const"]] if "const" in node else cast("list[Any]", node.get("enum") or [])
    if not values:
        return
    texts = [v for v in values if isinstance(v, str) and v]
    if texts and out["type"] == "string":
        out["enum"] = texts
        if "" in values:
            out["description"] = _sentence(out, "May be the empty text.")
    else:
        shown = ", ".join(to_json(v) for v in values if v is not None)
        out["description"] = _sentence(out, f"One of: {shown}.")
    if None in values:
        out["nullable"] = True


def _sentence(out: dict[str, Any], more: str) -> str:
    return f"{out.get('description', '')} {more}".strip()


def _described(node: dict[str, Any]) -> str:
    text = str(node.get("description") or "")
    if node.get("default") is not None:
        text = f"{text} Default: {to_json(node['default'])}.".strip()
    return text


def _choice(branches: list[dict[str, Any]], description: str, nullable: bool) -> dict[str, Any]:
    """`anyOf` alone, as the API demands: what stood beside it moves into the branches."""
    made: list[dict[str, Any]] = []
    for branch in branches:
        inner = cast("list[dict[str, Any]]", branch["anyOf"]) if "anyOf" in branch else [branch]
        for one in inner:
            more: dict[str, Any] = {}
            if description:
                more["description"] = f"{description} {one.get('description', '')}".strip()
            if nullable:
                more["nullable"] = True
            made.append({**one, **more})
    return {"anyOf": made}


def _branches(node: dict[str, Any]) -> list[dict[str, Any]] | None:
    for key in ("anyOf", "oneOf"):
        if isinstance(node.get(key), list):
            return [as_dict(b) for b in cast("list[Any]", node[key])] or None
    kind = node.get("type")
    by_kind = _values_by_kind(node) if kind is None else {}
    if len(by_kind) > 1:
        # `enum` is for texts: one list of several kinds would lose all others without a word.
        return [{"type": "null"} if k == "null" else {"type": k, "enum": v} for k, v in by_kind.items()]
    if isinstance(kind, list):
        rest = {k: v for k, v in node.items() if k not in ("type", "description", "default")}
        return [
            {"type": "null"} if k == "null" else {**rest, "type": k} for k in cast("list[Any]", kind)
        ] or None
    return None


def _merged(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with the branches of `allOf` laid into it."""
    node = dict(schema)
    for branch in as_dicts(node.pop("allOf", None)):
        inner = _merged(branch)
        both = {**as_dict(inner.get("properties")), **as_dict(node.get("properties"))}
        needed = [name for one in (node, inner) for name in cast("list[str]", one.get("required") or [])]
        node = {**inner, **node}
        if both:
            node["properties"], node["required"] = both, list(dict.fromkeys(needed))
    return node


def _kind_of_values(node: dict[str, Any]) -> str | None:
    return next((kind for kind in _values_by_kind(node) if kind != "null"), None)


def _values_by_kind(node: dict[str, Any]) -> dict[str, list[Any]]:
    """The listed values by their JSON type, integers among the numbers where some are not whole."""
    values = [node["const"]] if "const" in node else cast("list[Any]", node.get("enum") or [])
    kinds = {type_name(v) for v in values}
    out: dict[str, list[Any]] = {}
    for value in values:
        kind = type_name(value)
        out.setdefault("number" if kind == "integer" and "number" in kinds else kind, []).append(value)
    return out
