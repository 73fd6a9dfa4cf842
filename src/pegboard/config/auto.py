"""The table `[auto]` of a settings file: the second model of mode `auto`, and what asking it may take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pegboard.config.reading import table_of, typed
from pegboard.core.errors import ConfigError

_MOST: Final = {"timeout_s": 600.0, "money": 1000.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoSettings:
    """`[auto]`.

    Attributes:
        model: as `--model` takes it; empty = the session's own model.
        timeout_s: seconds for one answer; then a person is asked.
        money: US dollars for the answers of one run; when they are spent, a person is asked.
    """

    model: str = ""
    timeout_s: float = 20.0
    money: float = 0.5


def read_auto(value: Any, path: Path, *, before: AutoSettings) -> AutoSettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    table = table_of(value, path, "auto", ("model", "money", "timeout_s"))
    changes: dict[str, Any] = {}
    if "model" in table:
        changes["model"] = typed(str, table["model"], path, "auto.model")
    for key, most in _MOST.items():
        if key in table:
            number = float(typed((int, float), table[key], path, f"auto.{key}"))
            if not 0 < number <= most:
                raise ConfigError(f"{path}: auto.{key} = {number:g} is not above 0 and at most {most:g}")
            changes[key] = number
    return replace(before, **changes)
