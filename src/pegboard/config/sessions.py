"""The table `[sessions]` of a settings file: which sessions a session sees, and how often two answer each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, get_args

from pegboard.config.reading import table_of, typed
from pegboard.core.errors import ConfigError
from pegboard.ports.sessions import Visibility

_NUMBERS: Final = {"turns": (0, 5), "per_minute": (0, 600)}
"""The least and the most of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """`[sessions]`.

    Attributes:
        visibility: which sessions a model's session sees.
        turns: messages of a chain in which sessions answer each other.
        per_minute: messages that one session may send to others in a minute.
    """

    visibility: Visibility = "tree"
    turns: int = 5
    per_minute: int = 6


def read_sessions(value: Any, path: Path, *, before: SessionSettings) -> SessionSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    table = table_of(value, path, "sessions", ("per_minute", "turns", "visibility"))
    changes: dict[str, Any] = {}
    for key, one in table.items():
        name = f"sessions.{key}"
        if key == "visibility":
            changes[key] = typed(str, one, path, name)
            if changes[key] not in get_args(Visibility):
                known = ", ".join(get_args(Visibility))
                raise ConfigError(f"{path}: {name} = {one!r} is unknown; use {known}")
        else:
            least, most = _NUMBERS[key]
            changes[key] = typed(int, one, path, name)
            if not least <= changes[key] <= most:
                raise ConfigError(f"{path}: {name} = {one} is not between {least} and {most}")
    return replace(before, **changes)
