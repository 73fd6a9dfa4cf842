"""Values that arrive as bare text: typed by the schema, never by their looks (ledger X-09)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from pegboard.dialects.schemas import resolve_ref, type_words
from pegboard.dialects.wire import from_json

_INTEGER = re.compile(r"[+-]?\d{1,4000}")
_FLOAT = re.compile(r"[+-]?\d{1,300}\.\d{1,300}")
NOTHING: Final = object()


def property_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The schema of one parameter, None where the tool does not name it."""
    properties = resolve_ref(schema, schema).get("properties")
    found = cast("dict[str, Any]", properties).get(name) if isinstance(properties, Mapping) else None
    if found is True:
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


def kinds(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> frozenset[str]:
    """The JSON types that a schema lets through, as far as it says so; empty where it says nothing."""
    schema = resolve_ref(schema, root)
    words = set(type_words(schema))
    if not words and depth < 8:
        if "const" in schema:
            words.add(_kind_of(schema["const"]))
        for value in _list(schema.get("enum")):
            words.add(_kind_of(value))
        for key in ("anyOf", "oneOf", "allOf"):
            for sub in _list(schema.get(key)):
                if isinstance(sub, Mapping):
                    words |= kinds(cast("Mapping[str, Any]", sub), root, depth + 1)
    return frozenset(words)


def typed(text: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The value that a text means for this schema; the text itself where it means none.

    A string parameter is never converted. Where a string is one of several types, the other wins
    only if nothing is lost by it: `42` is a number, `007` and `1.10` stay text.
    """
    allowed = kinds(schema, root)
    if not allowed:
        return guessed(text)
    if "string" in allowed:
        return text if allowed == {"string"} else _lossless(text, allowed)
    word = text.strip()
    if "boolean" in allowed and word.lower() in ("true", "false"):
        return word.lower() == "true"
    if "null" in allowed and word in ("null", "None"):
        return None
    if "integer" in allowed and _INTEGER.fullmatch(word):
        return int(word)
    value = _json(word)
    return text if value is NOTHING else value


def guessed(text: str) -> Any:
    """The value where there is no schema: JSON if nothing is lost by reading it so, else text."""
    return _lossless(text, frozenset({"integer", "number", "boolean", "null", "array", "object"}))


def by_looks(text: str) -> Any:
    """004's four rules: true and false, whole numbers, decimal numbers, else text (ledger A-36..A-39)."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if _INTEGER.fullmatch(word):
        return int(word)
    if _FLOAT.fullmatch(word):
        return float(word)
    return text


def _lossless(text: str, allowed: frozenset[str]) -> Any:
    word = text.strip()
    value = _json(word)
    if value is NOTHING or isinstance(value, str):
        return text
    if isinstance(value, (dict, list)):
        return cast("Any", value) if _kind_of(value) in allowed else text
    fits = _kind_of(value) in allowed or (_kind_of(value) == "integer" and "number" in allowed)
    return value if fits and json.dumps(value) == word else text


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return NOTHING


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
