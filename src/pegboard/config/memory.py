"""The table `[memory]` of a settings file: whether sessions keep notes for later ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pegboard.config.reading import table_of, typed
from pegboard.core.errors import ConfigError

MAX_PROMPT_TOKENS: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """`[memory]`.

    Attributes:
        enabled: agents have the memory tools, and are told the newest notes before a run.
        prompt_tokens: how much of the notes they are told, in estimated tokens.
    """

    enabled: bool = False
    prompt_tokens: int = MAX_PROMPT_TOKENS


def read_memory(value: Any, path: Path, *, before: MemorySettings) -> MemorySettings:
    """The settings with a file's table on top.

    Raises:
        ConfigError: an unknown key or a wrong value; the message names file and key.
    """
    table = table_of(value, path, "memory", ("enabled", "prompt_tokens"))
    changes: dict[str, Any] = {}
    for key, one in table.items():
        changes[key] = typed(bool if key == "enabled" else int, one, path, f"memory.{key}")
    if not 0 <= changes.get("prompt_tokens", 0) <= MAX_PROMPT_TOKENS:
        raise ConfigError(
            f"{path}: memory.prompt_tokens = {changes['prompt_tokens']} is not between 0 and {MAX_PROMPT_TOKENS}"
        )
    return replace(before, **changes)
