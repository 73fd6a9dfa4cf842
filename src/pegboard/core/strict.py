"""Strict: a schema in the form of OpenAI's structured outputs (ledger X-07, K-07; cases schema-01, schema-02)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.schema import UNIONS, rewrite, types_of

_STRICT_WORDS: Final = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref",
        "$defs", "description", "title", "pattern", "format", "multipleOf", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
    }
)  # fmt: skip
"""The keywords of OpenAI's structured outputs."""


def strict_problem(schema: Mapping[str, Any]) -> str | None:
    """Why a schema cannot be said in openai-strict without losing something, or None.

    A map with free keys would become a closed empty object, and an open value has no type: such a tool is
    to be sent non-strict (cases schema-10, schema-19).
    """
    return _strict_problem(schema, "", schema)


def _strict_problem(node: Any, path: str, root: Mapping[str, Any]) -> str | None:
    where = path or "the root"
    if not isinstance(node, Mapping):
        return f"{where} takes any value"
    schema = cast("Mapping[str, Any]", node)
    for word in (
        "allOf",
        "not",
        "if",
        "patternProperties",
        "prefixItems",
        "dependentSchemas",
        "unevaluatedProperties",
    ):
        if word in schema:
            return f"{where} uses {word}"
    for name, definition in cast("Mapping[str, Any]", schema.get("$defs", {})).items():
        problem = _strict_problem(definition, f"{path}#{name}", root)
        if problem:
            return problem
    if "$ref" in schema:
        return None if str(schema["$ref"]).startswith("#") else f"{where} refers outside"
    for word in UNIONS:
        for branch in cast("list[Any]", schema.get(word, ())):
            problem = _strict_problem(branch, path, root)
            if problem:
                return problem
    kinds = types_of(schema, root)
    if kinds is None:
        return f"{where} takes any value"
    if any(word in schema for word in UNIONS):
        return None
    if "object" in kinds:
        if schema.get("additionalProperties", False) is not False or (path and "properties" not in schema):
            return f"{where} is a map with free keys"
        for name, inner in cast("Mapping[str, Any]", schema.get("properties", {})).items():
            problem = _strict_problem(inner, f"{path}.{name}", root)
            if problem:
                return problem
    if "array" in kinds:
        return _strict_problem(schema.get("items", True), f"{path}[]", root)
    return None


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The openai-strict form: every key required, optional ones nullable, objects closed, no `default`,
    unsupported keywords dropped, `oneOf` as `anyOf` (cases schema-01, schema-02).

    Ask `strict_problem` first: a map with free keys is closed here like any object.
    """

    def change(node: dict[str, Any]) -> dict[str, Any] | bool:
        if "oneOf" in node:
            node["anyOf"] = [*node.get("anyOf", ()), *node["oneOf"]]
        if isinstance(node.get("properties"), dict) or node.get("type") == "object":
            properties = cast("dict[str, Any]", node.get("properties", {}))
            required = cast("list[str]", node.get("required", ()))
            node["properties"] = {
                k: v if k in required else nullable(v, schema) for k, v in properties.items()
            }
            node["required"] = list(properties)
            node["additionalProperties"] = False
        out = {k: v for k, v in node.items() if k in _STRICT_WORDS}
        if "$ref" in out and len(out) > 1:  # strict admits no sibling of $ref
            rest = {k: v for k, v in out.items() if k not in ("$ref", "$defs")}
            return {"anyOf": [{"$ref": out["$ref"]}], **rest} if rest else {"$ref": out["$ref"]}
        return out

    return cast("dict[str, Any]", rewrite(schema, change))


def nullable(schema: Any, root: Mapping[str, Any]) -> Any:
    """A copy that admits null too."""
    if not isinstance(schema, Mapping):
        return schema
    node: dict[str, Any] = dict(cast("Mapping[str, Any]", schema))
    kinds = types_of(node, root)
    if kinds is None or "null" in kinds:
        return node
    if isinstance(node.get("anyOf"), list):
        return {**node, "anyOf": [*node["anyOf"], {"type": "null"}]}
    named = node.get("type")
    if "const" in node or "$ref" in node or "oneOf" in node or named is None:
        outer = {k: node.pop(k) for k in ("description",) if k in node}
        return {"anyOf": [node, {"type": "null"}], **outer}
    node["type"] = [*named, "null"] if isinstance(named, list) else [named, "null"]
    if isinstance(node.get("enum"), list):
        node["enum"] = [*node["enum"], None]
    return node
