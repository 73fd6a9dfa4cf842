"""encoding: events as bodies of records, in JSON and without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from pegboard.core.codec import event_to_dict
from pegboard.core.errors import ToolError
from pegboard.core.events import CallFinished, Event, Notice

Redact: TypeAlias = Callable[[str], tuple[str, bool]]
"""Takes secrets out of a text, and says whether there was one."""

_CLEAN: Final = frozenset({"call.finished"})
"""Types of events whose texts were redacted when they were made; not so the names, which a model may make up."""
_NAMES: Final = ("call_id", "tool")
_APART: Final = "\n\0\n"
_SHORTEST: Final = 6
_SHORTEST_KEY: Final = 16
"""Characters of a name that could be a secret itself; our own names are shorter, and most."""
_TOGETHER: Final = 64
"""Events that are looked through for secrets at once: the look at one short text is mostly its beginning."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)
_UNWRITABLE: Final = (RecursionError, ValueError, TypeError)
"""What a value raises that has no JSON."""


def encode(event: Event, redact: Redact | None = None) -> bytes:
    """The event as UTF-8 JSON; a lone surrogate becomes U+FFFD, since a record must be readable."""
    try:
        row = event_to_dict(event)
        if redact is not None:
            row = without_secrets(row, redact) if event.type not in _CLEAN else _named(row, redact)
        return _json(row)
    except _UNWRITABLE as error:
        # One value that has no JSON (it holds itself) must not take the other records with it.
        return _json(event_to_dict(_unwritable_event(event, error)))


def encode_all(events: Sequence[Event], redact: Redact | None = None) -> list[bytes]:
    """Each event as `encode` gives it; where several are free of secrets, one look tells that of all of them."""
    out: list[bytes] = []
    for start in range(0, len(events), _TOGETHER):
        some = events[start : start + _TOGETHER]
        try:
            rows = [event_to_dict(event) for event in some]
            if redact is None or not _hold_secret([_open(r) for r in rows], redact):
                out += [_json(row) for row in rows]
                continue
        except _UNWRITABLE:
            pass
        out += [encode(event, redact) for event in some]
    return out


def _open(row: dict[str, Any]) -> dict[str, Any]:
    """What of a row nobody has looked through yet."""
    return row if row["type"] not in _CLEAN else {name: row["result"][name] for name in _NAMES}


def _named(row: dict[str, Any], redact: Redact) -> dict[str, Any]:
    """The row of a result with its names redacted: the call's id as in the model's turn, and no tool's name."""
    return {**row, "result": {**row["result"], **without_secrets(_open(row), redact)}}


def _json(row: dict[str, Any]) -> bytes:
    text = _ENCODER.encode(row)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode("utf-8")


def without_secrets(row: dict[str, Any], redact: Redact) -> dict[str, Any]:
    """The row with every text in it redacted, keys of objects too; the same row where none holds a secret."""
    return cast("dict[str, Any]", _redacted(row, redact)) if _hold_secret([row], redact) else row


def _hold_secret(rows: Sequence[dict[str, Any]], redact: Redact) -> bool:
    """Whether some row does: one look at all their texts at once, since nearly none does."""
    texts: list[str] = []
    for row in rows:
        _gather(row, texts)
    return redact(_APART.join(texts))[1]


def _gather(value: Any, texts: list[str]) -> None:
    if isinstance(value, str):
        if len(value) >= _SHORTEST:
            texts.append(value)
    elif isinstance(value, dict):
        for key, inner in cast("dict[Any, Any]", value).items():
            if isinstance(key, str) and len(key) >= _SHORTEST_KEY:
                _gather(key, texts)
            _gather(inner, texts)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            _gather(inner, texts)


def _redacted(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)[0]
    if isinstance(value, dict):
        table = cast("dict[Any, Any]", value)
        return {_redacted(k, redact): _redacted(v, redact) for k, v in table.items()}
    return [_redacted(v, redact) for v in cast("list[Any]", value)] if isinstance(value, list) else value


def _unwritable_event(event: Event, error: Exception) -> Event:
    """What can be kept of an event that cannot be written."""
    why = f"not kept: {type(error).__name__}"
    if isinstance(event, CallFinished):
        result = event.result
        failure = None if result.error is None else ToolError(result.error.message, code=result.error.code)
        notes = replace(result.notes, extra={"data": why})
        return CallFinished(replace(result, data=None, error=failure, notes=notes))
    return Notice(text=f"an event of type {event.type} was {why}")
