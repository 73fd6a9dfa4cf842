"""Values that fit a JSON Schema, and values that do not, from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.core.schema.json_schema import pointer, types_of
from pegboard.core.tool import Tool

UNICODE: Final = ("Grüße 你好", "مرحبا", "🧵👩‍👩‍👧", "é", "a\u200bb", "ﬀ\u00a0x", "\ufeffx")
"""Texts that break what assumes ASCII, one code point a character, or no invisible ones."""

_DEPTH: Final = 6


def sample(tool: Tool, rng: random.Random, *, file: str = "sample.txt") -> dict[str, Any]:
    """Arguments that fit: the tool's own example, else the required parameters and some others.

    Args:
        tool: the tool.
        rng: where random choices come from.
        file: what a path parameter gets.
    """
    if tool.example is not None and tool.signature.errors(tool.example) == []:
        return dict(tool.example)
    return arguments(tool, rng, file=file, share=0.0)


def arguments(
    tool: Tool, rng: random.Random, *, file: str = "sample.txt", share: float = 0.5, text: str = ""
) -> dict[str, Any]:
    """Arguments that fit, with `share` of the optional ones; every free text is `text` where given."""
    schema = tool.schema
    required = schema.get("required") or ()
    paths = {
        p.name for p in tool.markers if p.marker is not None and p.marker.kind in ("read", "write", "delete")
    }
    urls = {p.name for p in tool.markers if p.marker is not None and p.marker.kind == "connect"}
    out: dict[str, Any] = {}
    for name, sub in cast("Mapping[str, Any]", schema.get("properties") or {}).items():
        if name in required or rng.random() < share:
            out[name] = (
                file
                if name in paths
                else "http://127.0.0.1:9/"
                if name in urls
                else value(sub, schema, rng, text=text)
            )
    return out


def value(schema: Any, root: Mapping[str, Any], rng: random.Random, *, text: str = "", depth: int = 0) -> Any:
    """A value that fits, as far as types, bounds, lengths, enumerations and formats say."""
    target = pointer(cast("Mapping[str, Any]", schema), root) if isinstance(schema, Mapping) else True
    if isinstance(target, bool) or depth > _DEPTH:
        return text or "x"
    if "const" in target:
        return target["const"]
    for key in ("enum", "examples"):
        choices = target.get(key)
        if isinstance(choices, list) and choices:
            return rng.choice(cast("list[Any]", choices))
    for key in ("anyOf", "oneOf"):
        branches = target.get(key)
        if isinstance(branches, list) and branches:
            all_ = cast("list[Any]", branches)
            wanted = [b for b in all_ if b != {"type": "null"}] or all_
            return value(rng.choice(wanted), root, rng, text=text, depth=depth + 1)
    kinds = types_of(target, root) or frozenset({"string"})
    if "string" in kinds:
        return _text(target, rng, text)
    if "integer" in kinds or "number" in kinds:
        return _number(target, rng, whole="integer" in kinds)
    if "boolean" in kinds:
        return rng.random() < 0.5
    if "array" in kinds:
        count = max(int(target.get("minItems", 0) or 0), rng.randint(0, 2))
        most = target.get("maxItems")
        count = min(count, int(most)) if most is not None else count
        items = target.get("items", True)
        made = [value(items, root, rng, text=text, depth=depth + 1) for _ in range(count)]
        return (
            list(dict.fromkeys(map(str, made)))
            if target.get("uniqueItems") and made and isinstance(made[0], str)
            else made
        )
    if "object" in kinds:
        properties = cast("Mapping[str, Any]", target.get("properties") or {})
        needed = target.get("required") or ()
        return {
            k: value(v, root, rng, text=text, depth=depth + 1)
            for k, v in properties.items()
            if k in needed or rng.random() < 0.3
        }
    return None


def wrong(schema: Any, root: Mapping[str, Any]) -> Any:
    """A value of a type that the schema does not admit and that no careful reading turns into one."""
    target = pointer(cast("Mapping[str, Any]", schema), root) if isinstance(schema, Mapping) else True
    kinds = frozenset[str]() if isinstance(target, bool) else types_of(target, root) or frozenset[str]()
    if not kinds or {"object", "array"} <= kinds:
        return None
    if "object" in kinds:
        return [["wrong"], 5]
    return {"wrong": [5]}


def _text(target: Mapping[str, Any], rng: random.Random, text: str) -> str:
    formats = {
        "date": "2026-02-28", "date-time": "2026-02-28T09:00:00Z", "time": "09:00:00Z", "uri": "http://127.0.0.1:9/",
        "email": "a@example.org", "uuid": "8f14e45f-ceea-467f-a0e6-5e3e6e1c2b3a",
    }  # fmt: skip
    made = formats.get(str(target.get("format", "")))
    if made is None:
        made = text or rng.choice(("x", "text", "a b c"))
    least, most = int(target.get("minLength", 0) or 0), target.get("maxLength")
    made = made + "x" * max(0, least - len(made))
    return made if most is None else made[: int(most)]


def _number(target: Mapping[str, Any], rng: random.Random, *, whole: bool) -> float | int:
    low, high = target.get("minimum"), target.get("maximum")
    if target.get("exclusiveMinimum") is not None:
        low = target["exclusiveMinimum"] + (1 if whole else 0.5)
    if target.get("exclusiveMaximum") is not None:
        high = target["exclusiveMaximum"] - (1 if whole else 0.5)
    low = low if low is not None else (min(0, high) if high is not None else 0)
    high = high if high is not None else low + 10
    made = rng.randint(int(low), max(int(low), int(min(high, low + 100)))) if whole else low
    step = target.get("multipleOf")
    return (made // step) * step if step else made
