"""Values that arrive as bare text: typed by the schema, never by their looks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from pegboard.core.schema.json_schema import pointer, type_name, types_of
from pegboard.core.schema.numerals import exact
from pegboard.dialects.wire import as_dict, as_dicts, from_json
from pegboard.dialects.xml_elements import Element

_INTEGER = re.compile(r"[+-]?\d{1,4000}")
_FLOAT = re.compile(r"[+-]?\d{1,300}\.\d{1,300}")
NOTHING: Final = object()


def property_schema(schema: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """The schema of one parameter, None where the tool does not name it."""
    found = as_dict(schema.get("properties")).get(name)
    if isinstance(found, Mapping):
        return cast("Mapping[str, Any]", found)
    return {} if found is True else None


def element_value(
    element: Element, schema: Any, root: Mapping[str, Any] | None, guess: Callable[[str], Any]
) -> Any:
    """An element's value: typed text, a list of `item` elements, or an object of its children.

    Args:
        schema: the value's schema, None where nothing is known of it.
        root: the tool's schema, None where the tool is not known.
        guess: types text of an unknown tool.
    """
    if element.kind == "string":
        return element.text
    if root is None or not isinstance(schema, Mapping):
        allowed, value = None, guess
    else:
        known = cast("Mapping[str, Any]", schema)
        allowed, value = types_of(known, root), partial(typed, schema=known, root=root)
    if not element.children or (allowed is not None and not allowed & {"array", "object"}):
        return value(element.text)
    if element.kind == "array" or _is_list(element, allowed):
        items = _sub(schema, root, "items")
        return [element_value(child, items, root, guess) for child in element.children]
    return {
        child.tag: element_value(child, _property(schema, root, child.tag), root, guess)
        for child in element.children
    }


def _is_list(element: Element, allowed: frozenset[str] | None) -> bool:
    if allowed is not None and "array" not in allowed:
        return False
    if allowed is not None and "object" not in allowed:
        return True
    return all(child.tag == "item" for child in element.children)


def _sub(schema: Any, root: Mapping[str, Any] | None, key: str) -> Any:
    return next((b[key] for b in _branches(schema, root) if isinstance(b.get(key), Mapping)), None)


def _property(schema: Any, root: Mapping[str, Any] | None, name: str) -> Any:
    return next((p for b in _branches(schema, root) if (p := property_schema(b, name)) is not None), None)


def _branches(schema: Any, root: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The schema and the branches of its unions, references followed."""
    if not isinstance(schema, Mapping) or root is None:
        return []
    whole = pointer(cast("Mapping[str, Any]", schema), root)
    if isinstance(whole, bool):
        return []
    unions = [b for key in ("anyOf", "oneOf", "allOf") for b in as_dicts(whole.get(key))]
    found = [pointer(b, root) for b in unions]
    return [whole, *(b for b in found if not isinstance(b, bool))]


def typed(text: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """The value that a text means for this schema; the text itself where it means none.

    A string parameter is never converted. Where a string is one of several types, the other wins
    only if nothing is lost by it: `42` is a number, `007` and `1.10` stay text.
    """
    allowed = types_of(schema, root)
    if allowed is None:
        return guessed(text)
    if "string" in allowed:
        return text if len(allowed) == 1 else _lossless(text, allowed)
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


def infer_scalar(text: str) -> Any:
    """The four rules of values in XML calls: true and false, whole numbers, decimal numbers, else text."""
    word = text.strip()
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    if _INTEGER.fullmatch(word):
        return int(word)
    if _FLOAT.fullmatch(word):
        return exact(word)
    return text


def _lossless(text: str, allowed: frozenset[str]) -> Any:
    word = text.strip()
    value = _json(word)
    if value is NOTHING or isinstance(value, str):
        return text
    if isinstance(value, (dict, list)):
        return cast("Any", value) if type_name(value) in allowed else text
    return value if type_name(value) in allowed and json.dumps(value) == word else text


def _json(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return NOTHING
