"""The tables `[channels.NAME]` of the user's settings: where messages can go, and who may write back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from pegboard.bus import CHANNELS
from pegboard.config.reading import path_of, table_of, typed
from pegboard.core.errors import ConfigError
from pegboard.core.toolkit import import_object

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SOURCES: Final = ("env:", "file:", "keyring:")
_OWN: Final = frozenset({"console", "session", "terminal"})
"""Kinds that are always there, under their own names."""
_LISTS: Final = ("allow", "owners", "approvers", "groups")
_ACCESS: Final = (*_LISTS, "approvals", "per_minute", "stream", "mention")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAccess:
    """Who may write to us on a channel, and how we answer; ids are those of the platform.

    Attributes:
        allow: senders that need not pair.
        owners: senders that may approve whatever waits, what they caused too.
        approvers: senders that may approve what others caused.
        groups: chats whose members may all write to us; what they write is not taken for the user's.
        approvals: the chat to which every approval of this workspace is sent; empty = only to where a run was asked for.
        per_minute: messages of one sender that are taken in a minute.
        stream: show answers while they are written, where the channel can change its messages.
        mention: answer in groups only where we are named.
    """

    allow: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    approvals: str = ""
    per_minute: int = 20
    stream: bool = True
    mention: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """One of `[channels.NAME]`.

    Attributes:
        name: the channel's.
        kind: a kind of `CHANNELS`, or the name of an entry point of the group `pegboard.channels`.
        options: what the kind's `settings` name, as it is written; paths are absolute.
        access: who may write to us; counts where people can.
        file: where it stands; empty = a channel that is always there.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    access: ChatAccess = field(default_factory=ChatAccess)
    file: Path = Path()


def read_channels(table: Mapping[str, Any], path: Path) -> tuple[ChannelSettings, ...]:
    """The channels of a file.

    Raises:
        ConfigError: a name, kind, key or value is wrong; the message names file and key.
    """
    return tuple(_channel(name, value, path) for name, value in table.items())


def _channel(name: str, value: Any, path: Path) -> ChannelSettings:
    key = f"channels.{name}"
    if not _NAME.fullmatch(name) or name in _OWN:
        raise ConfigError(f"{path}: {key} cannot be the name of a channel: use letters, digits, - and _")
    row: dict[str, Any] = {
        str(k): v for k, v in cast("dict[Any, Any]", typed(dict, value, path, key)).items()
    }
    kind = typed(str, row.pop("kind", name if name in CHANNELS else ""), path, f"{key}.kind")
    access, make = _access(row, path, key), None
    if kind in CHANNELS and kind not in _OWN:
        make = import_object(CHANNELS[kind])
        row = read_options(make, row, path, name, kind)
    elif kind not in _plugins():
        known = sorted({*CHANNELS, *_plugins()} - _OWN)
        raise ConfigError(f"{path}: {key}.kind is {kind!r}; known: {', '.join(known)}")
    if access != ChatAccess() and make is not None and not hasattr(make, "receive"):
        raise ConfigError(f"{path}: {key}: nobody can write to us on a channel of kind {kind}")
    return ChannelSettings(name=name, kind=kind, options=row, access=access, file=path)


def _plugins() -> Mapping[str, str]:
    from pegboard.interop.plugins import available

    return available("pegboard.channels")


def _access(row: dict[str, Any], path: Path, key: str) -> ChatAccess:
    """Who may write to us; takes its keys out of the row."""
    found: dict[str, Any] = {k: row.pop(k) for k in _ACCESS if k in row}
    for name in _LISTS:
        if name in found:
            found[name] = tuple(
                typed(str, one, path, f"{key}.{name}")
                for one in typed(list, found[name], path, f"{key}.{name}")
            )
    for name, kind in (("approvals", str), ("per_minute", int), ("stream", bool), ("mention", bool)):
        if name in found:
            found[name] = typed(kind, found[name], path, f"{key}.{name}")
    if found.get("per_minute", 1) < 1:
        raise ConfigError(f"{path}: {key}.per_minute must be at least 1")
    return ChatAccess(**found)


def read_options(make: Any, row: Mapping[str, Any], path: Path, name: str, kind: str) -> dict[str, Any]:
    """The values of a kind's own settings.

    Args:
        make: the channel's class; `settings` says what each of its keys is: text, url, secret, path or bool.
        row: the table without the keys of ChatAccess.
        path, name, kind: of the channel.

    Raises:
        ConfigError: a key is unknown or missing, or has a wrong value.
    """
    key = f"channels.{name}"
    kinds: Mapping[str, str] = getattr(make, "settings", {})
    every = {k for place in CHANNELS.values() for k in getattr(import_object(place), "settings", {})}
    table_of(dict(row), path, key, ("kind", *sorted({*every, *kinds}), *_ACCESS))
    for wrong in row.keys() - kinds.keys():
        raise ConfigError(f"{path}: {key}.{wrong} has no meaning for a channel of kind {kind}")
    parameters = signature(make).parameters
    for wanted, what in kinds.items():
        if wanted not in row and parameters[wanted].default is Parameter.empty:
            example = _EXAMPLES[what]
            raise ConfigError(f"{path}: {key} needs {_a(wanted)}, such as {wanted} = {example}")
    return {k: _option(kinds[k], one, path, f"{key}.{k}") for k, one in row.items()}


_EXAMPLES: Final = {
    "text": '"NAME"', "url": '"https://example.com/"', "secret": '"env:NAME"', "path": '"~/messages.jsonl"', "bool": "true",
}  # fmt: skip


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"


def _option(kind: str, value: Any, path: Path, key: str) -> Any:
    if kind == "bool":
        return typed(bool, value, path, key)
    text: str = typed(str, value, path, key)
    match kind:
        case "path":
            return path_of(text, path, key)
        case "url" if text and (
            not text.lower().startswith(("https://", "http://")) or not urlsplit(text).hostname
        ):
            raise ConfigError(f"{path}: {key} must be an http or https URL, not {text[:100]!r}")
        case "secret" if text and not text.startswith(_SOURCES):
            raise ConfigError(f"{path}: {key} must be env:NAME, file:PATH or keyring:SERVICE/USER")
        case _:
            return text
