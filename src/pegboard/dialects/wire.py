"""JSON at the border: replies in whatever form they come, arguments that every provider takes back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from pegboard.core.content import ToolCall
from pegboard.core.errors import ModelError, ToolError
from pegboard.core.schema.decode import read_object
from pegboard.core.schema.numerals import Numeral, as_sent, exact, holds_numeral, written

INVALID: Final = "_invalid"
"""The key under which history keeps arguments that were no JSON object."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def clean_text(text: str) -> str:
    """The text as UTF-8 can carry it: halves of surrogate pairs joined, lone ones U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean_value(value: Any) -> Any:
    """A JSON-able copy: surrogates replaced, NaN and infinities null, foreign objects as text.

    Raises:
        RecursionError: nested deeper than Python can walk.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Numeral):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {clean_text(str(key)): clean_value(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [clean_value(item) for item in cast("list[Any]", value)]
    return clean_text(str(value))


def to_json(value: Any) -> str:
    """Compact JSON text of any value, UTF-8 encodable; a value nested too deeply is said to be so."""
    try:
        clean = clean_value(value)
        return (
            written(clean)
            if holds_numeral(clean)
            else json.dumps(clean, ensure_ascii=False, separators=(",", ":"))
        )
    except RecursionError:
        return f'{{"{INVALID}":"nested too deeply"}}'


def from_json(text: str) -> Any:
    """The value of strict JSON text.

    Raises:
        ValueError: no JSON (NaN and Infinity are none), or nested too deeply to read.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=exact)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def plain_object(text: str) -> dict[str, Any] | None:
    """The object of strict JSON text; None where it is none, or where reading it would lose what was sent.

    A key that is given twice with different values, and a number beyond what can be held, stay to be told.
    """
    try:
        value = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_once
        )
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def arguments_text(arguments: str | Mapping[str, Any] | None) -> str:
    """A call's arguments as JSON text of an object, whatever the model sent.

    Text that is an object already goes back byte for byte, so that prompt caches hold.
    """
    if isinstance(arguments, str):
        value, strict = _object_of(arguments)
        if value is None:
            return to_json({INVALID: arguments})
        # What had to be repaired would be refused as it stands, and with it the whole conversation.
        return arguments if strict and _plain(arguments) else to_json(value)
    return to_json(arguments or {})


def arguments_object(arguments: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The same as a JSON-able object."""
    return json.loads(arguments_text(arguments), parse_float=exact)


def encoded(reply: Any) -> list[dict[str, Any]]:
    """A reply that is a list: what `Dialect.encode` wrote for an assistant's message; else empty."""
    return as_dicts(reply) if isinstance(reply, list) else []


def reply_dict(reply: Any, provider: str) -> dict[str, Any]:
    """A provider's response as a dict.

    Args:
        reply: dict, JSON text or bytes, or an object with `model_dump`.
        provider: named in the error.

    Raises:
        ModelError: it is none of these.
    """
    if isinstance(reply, Mapping):
        return dict(cast("Mapping[str, Any]", reply))
    dump = getattr(reply, "model_dump", None)
    if callable(dump):
        return cast("dict[str, Any]", dump())
    if isinstance(reply, (str, bytes)):
        try:
            value = json.loads(reply, parse_float=exact)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"the reply is no {provider} response: it is not JSON ({error})") from error
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
    raise ModelError(f"the reply is no {provider} response: expected an object, got {type(reply).__name__}")


def as_dicts(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; anything else is left out, so that a garbled reply cannot raise."""
    if not isinstance(value, list):
        return []
    return [cast("dict[str, Any]", item) for item in cast("list[Any]", value) if isinstance(item, dict)]


def as_dict(value: Any) -> dict[str, Any]:
    """The object, or an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def string(value: Any) -> str:
    """The text without lone surrogates, or an empty one."""
    return clean_text(value) if isinstance(value, str) else ""


def unknown_fields(value: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The fields that are not known, empty ones too; null says that there is none."""
    return {k: v for k, v in value.items() if k not in known and v is not None}


def count(value: Any) -> int:
    """A token count: the number where it is one, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def sent_calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of a Chat Completions message or delta; `function_call` is how they were sent before there were several."""
    calls = as_dicts(message.get("tool_calls"))
    old = as_dict(message.get("function_call"))
    return [*calls, {"function": old}] if old and not calls else calls


def call_of(id: Any, name: Any, arguments: Any, raw: str = "") -> ToolCall:
    """A call from whatever a reply holds; text arguments stay text, so that nothing is guessed here."""
    if arguments is None or isinstance(arguments, str):
        given: str | Mapping[str, Any] | None = arguments
    elif isinstance(arguments, Mapping):
        given = as_sent(cast("Mapping[str, Any]", arguments))
    else:
        given = to_json(arguments)
    return ToolCall(id=string(id) or None, name=string(name), arguments=given, raw=raw)


def _object_of(text: str) -> tuple[dict[str, Any] | None, bool]:
    """The object that a text holds, and whether it is strict JSON as it stands."""
    if not text.strip():
        return {}, False
    try:
        value = from_json(text)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return cast("dict[str, Any]", value), True
    try:
        # What the executor repairs and runs stands in history as it ran.
        return read_object(text, name="")[0], False
    except (ToolError, RecursionError):
        return None, False


def _plain(text: str) -> bool:
    """Whether text that holds a JSON object may be sent as it stands."""
    return text.lstrip()[:1] == "{" and not _SURROGATE.search(text) and not _ESCAPED_SURROGATE.search(text)


def _finite(text: str) -> Any:
    value = exact(text)
    return _refuse_constant(text) if isinstance(value, float) and math.isinf(value) else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out and out[key] != value:
            raise ValueError(f"{key} is given twice")
        out[key] = value
    return out


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
