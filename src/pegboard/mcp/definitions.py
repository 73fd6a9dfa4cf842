"""Definitions: which foreign tool definitions are taken, within what limits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.errors import BuildError
from pegboard.core.schema.foreign import ForeignSchema
from pegboard.core.schema.json_schema import mended, pointer
from pegboard.mcp.pins import Definition
from pegboard.mcp.text_warnings import sanitise

MAX_DESCRIPTION: Final = 8_192
MAX_SCHEMA_BYTES: Final = 65_536
MAX_DEPTH: Final = 32
MAX_TOOLS: Final = 5_000
MAX_UNFOLDED: Final = 100_000
"""Parts of a schema with every reference followed: what a validator may have to look at for one value."""
_LONGEST_CHAIN: Final = 300

EMPTY: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


def definition_of(name: str, description: Any, schema: Any) -> Definition | str:
    """A server's words as a Definition, or the reason why they are refused.

    The schema stays as it is for the pin, beside what it means; the description is kept whole and cut for models
    elsewhere.
    """
    if schema is None or schema == []:
        schema = EMPTY
    meant = meant_schema(schema)
    if isinstance(meant, str):
        return meant
    text = description if isinstance(description, str) else ""
    return Definition(name=name, description=text, schema=cast("Mapping[str, Any]", schema), meant=meant)


def output_of(schema: Any) -> tuple[Mapping[str, Any] | None, str]:
    """A server's output schema, and why it is not used; one out of bounds costs the check and not the tool."""
    if schema is None:
        return None, ""
    meant = meant_schema(schema)
    return (None, meant) if isinstance(meant, str) else (meant, "")


def shown_description(text: str) -> str:
    """The description for models: visible characters only, at most MAX_DESCRIPTION bytes."""
    seen = sanitise(text).strip()
    raw = seen.encode("utf-8", "replace")
    if len(raw) <= MAX_DESCRIPTION:
        return seen
    return raw[:MAX_DESCRIPTION].decode("utf-8", "ignore") + " … [cut]"


def meant_schema(schema: Any) -> Mapping[str, Any] | str:
    """The schema of an object as it is meant, slips mended, or why it is refused. Never fetches."""
    if not isinstance(schema, Mapping):
        return f"its schema is not an object but {type(schema).__name__}"
    root = cast("Mapping[str, Any]", schema)
    why = _walk_fault(root)
    if why:
        return why
    text = json.dumps(root, ensure_ascii=False)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_SCHEMA_BYTES:
        return f"its schema has {size} bytes, over the limit of {MAX_SCHEMA_BYTES}"
    # Without a reference there is nothing to unfold, and most schemas have none.
    if ('"$ref"' in text or '"$dynamicRef"' in text) and _unfolded(root) > MAX_UNFOLDED:
        return f"its schema unfolds to over {MAX_UNFOLDED} parts when its references are followed"
    if root.get("type") in (None, "null", []):
        # Arguments are an object, whatever was left out or empty here.
        root = {**root, "type": "object"}
    # Whole, since some slips are valid and fit no call, such as an enum without values.
    checked = ForeignSchema(mended(root))
    try:
        # One that no validator takes would fail at every call, and a provider refuses the whole list for it.
        checked.check_root()
    except BuildError as error:
        return f"its schema is not valid ({sanitise(str(error))[:300]})"
    return cast("Mapping[str, Any]", checked.said)


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


def _unfolded(root: Mapping[str, Any]) -> int:
    """How many parts the schema has with its references followed, each circle once; counted without unfolding it.

    Twenty definitions that each name the next one twice are twenty lines and a million checks.
    """
    anchors = _anchors(root)
    known: dict[int, int] = {}

    def count(node: Any, depth: int) -> int:
        if not isinstance(node, dict | list):
            return 0
        key = id(cast("object", node))
        if key in known or depth > _LONGEST_CHAIN:
            return known.get(key, MAX_UNFOLDED + 1)
        known[key] = total = 1
        if isinstance(node, dict):
            table = cast("dict[str, Any]", node)
            children = [*table.values(), *_referred(table, root, anchors)]
        else:
            children = cast("list[Any]", node)
        for child in children:
            total += count(child, depth + 1)
            if total > MAX_UNFOLDED:
                break
        known[key] = total
        return total

    return count(root, 0)


def _referred(node: Mapping[str, Any], root: Mapping[str, Any], anchors: Mapping[str, Any]) -> list[Any]:
    names = [r for word in ("$ref", "$dynamicRef") if isinstance(r := node.get(word), str)]
    return [anchors.get(name) or pointer({"$ref": name}, root) for name in names]


def _anchors(root: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    level: list[Any] = [root]
    while level:
        node = level.pop()
        if isinstance(node, dict):
            table = cast("dict[str, Any]", node)
            out.update(
                {f"#{a}": table for w in ("$anchor", "$dynamicAnchor") if isinstance(a := table.get(w), str)}
            )
            level += table.values()
        elif isinstance(node, list):
            level += cast("list[Any]", node)
    return out


def _walk_fault(root: Mapping[str, Any]) -> str:
    """Depth, count and references, level by level and without recursion."""
    level: list[Any] = [root]
    seen = 0
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for node in level:
            children: Any = ()
            if isinstance(node, dict):
                table = cast("dict[str, Any]", node)
                for word in ("$ref", "$dynamicRef", "$recursiveRef"):
                    target = table.get(word)
                    if isinstance(target, str) and not target.startswith("#"):
                        return f"its schema refers to {target[:80]!r}, outside itself"
                children = table.values()
            elif isinstance(node, list):
                children = cast("list[Any]", node)
            seen += len(children)
            if seen > MAX_SCHEMA_BYTES:
                return f"its schema holds over {MAX_SCHEMA_BYTES} values"
            below += [c for c in children if isinstance(c, dict | list)]
        if not below:
            return ""
        level = below
    return f"its schema nests deeper than {MAX_DEPTH} levels"
