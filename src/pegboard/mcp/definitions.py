"""Definitions: which foreign tool definitions are taken, within what limits (security.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.mcp.pinning import Definition
from pegboard.mcp.visible import clean

MAX_DESCRIPTION: Final = 8_192
MAX_SCHEMA_BYTES: Final = 65_536
MAX_DEPTH: Final = 32
MAX_TOOLS: Final = 5_000

EMPTY: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


def definition_of(name: str, description: Any, schema: Any) -> Definition | str:
    """A server's words as a Definition, or the reason why they are refused.

    The schema stays as it is; the description is kept whole for the pin and cut for models elsewhere.
    """
    if schema is None:
        schema = EMPTY
    why = schema_fault(schema)
    if why:
        return why
    text = description if isinstance(description, str) else ""
    return Definition(name=name, description=text, schema=cast("Mapping[str, Any]", schema))


def output_of(schema: Any) -> tuple[Mapping[str, Any] | None, str]:
    """A server's output schema, and why it is not used; one out of bounds costs the check and not the tool."""
    if schema is None:
        return None, ""
    why = schema_fault(schema)
    return (None, why) if why else (cast("Mapping[str, Any]", schema), "")


def shown_description(text: str) -> str:
    """The description for models: visible characters only, at most MAX_DESCRIPTION bytes."""
    seen = clean(text).strip()
    raw = seen.encode("utf-8", "replace")
    if len(raw) <= MAX_DESCRIPTION:
        return seen
    return raw[:MAX_DESCRIPTION].decode("utf-8", "ignore") + " … [cut]"


def schema_fault(schema: Any) -> str:
    """Why a schema is refused; empty where it is taken. Never recurses, never fetches."""
    if not isinstance(schema, Mapping):
        return f"its schema is no object but {type(schema).__name__}"
    root = cast("Mapping[str, Any]", schema)
    kind = root.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return f"its schema's top level must be an object, not {kind!r:.40}"
    why = _walk_fault(root)
    if why:
        return why
    size = len(json.dumps(root, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MAX_SCHEMA_BYTES:
        return f"its schema has {size} bytes, over the limit of {MAX_SCHEMA_BYTES}"
    return ""


def too_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether a JSON value nests deeper than `limit`."""
    level: list[Any] = [value]
    for _ in range(limit + 1):
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (
                cast("dict[str, Any]", node).values() if isinstance(node, dict) else cast("list[Any]", node)
            )
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _walk_fault(root: Mapping[str, Any]) -> str:
    """Depth, count and references, level by level and without recursion."""
    level: list[Any] = [root]
    seen = 0
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for node in level:
            children: Any = ()
            if isinstance(node, Mapping):
                table = cast("Mapping[str, Any]", node)
                for word in ("$ref", "$dynamicRef"):
                    target = table.get(word)
                    if isinstance(target, str) and not target.startswith("#"):
                        return f"its schema refers to {target[:80]!r}, outside itself"
                children = table.values()
            elif isinstance(node, list):
                children = cast("list[Any]", node)
            seen += len(children)
            if seen > MAX_SCHEMA_BYTES:
                return f"its schema holds over {MAX_SCHEMA_BYTES} values"
            below += [c for c in children if isinstance(c, Mapping | list)]
        if not below:
            return ""
        level = below
    return f"its schema nests deeper than {MAX_DEPTH} levels"
