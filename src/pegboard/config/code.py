"""The table `[code]` of a settings file: whether models call tools from programs, and what a program may use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pegboard.config.reading import table_of, typed
from pegboard.core.errors import ConfigError

_NUMBERS: Final = {"calls": (1, 10_000), "memory_mb": (8, 2048), "time_s": (1, 600)}
"""The least and the most of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeSettings:
    """`[code]`.

    Attributes:
        enabled: models see `run_code` in place of the other tools, which its programs call.
        time_s: seconds of a program's own computing.
        memory_mb: of its values, in MiB.
        calls: how many calls it may make.
    """

    enabled: bool = False
    time_s: int = 30
    memory_mb: int = 128
    calls: int = 500


def read_code(value: Any, path: Path, *, before: CodeSettings) -> CodeSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    table = table_of(value, path, "code", ("calls", "enabled", "memory_mb", "time_s"))
    changes: dict[str, Any] = {}
    for key, one in table.items():
        name = f"code.{key}"
        if key == "enabled":
            changes[key] = typed(bool, one, path, name)
            continue
        least, most = _NUMBERS[key]
        changes[key] = typed(int, one, path, name)
        if not least <= changes[key] <= most:
            raise ConfigError(f"{path}: {name} = {one} is not between {least} and {most}")
    return replace(before, **changes)
