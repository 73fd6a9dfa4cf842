"""`[agents.NAME]` and `[subagents]`: the agents that a run can start, and how many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from pegboard.config.agent_files import AgentFiles
from pegboard.config.agent_files import read_agents as read_agent_files
from pegboard.config.reading import table_of, texts, typed
from pegboard.core.errors import ConfigError
from pegboard.ports.subagents import AgentSpec, SubagentLimits

_KEYS: Final = ("description", "instructions", "tools", "model", "turns", "isolation")
_LIMITS: Final = {"depth": (0, 5), "children": (1, 50), "running": (1, 64)}
"""The least and the most of each key of `[subagents]`."""


def read_agents(value: Any, path: Path) -> tuple[AgentSpec, ...]:
    """The agents of a settings file.

    Raises:
        ConfigError: a key is unknown or a value is of the wrong kind; the message names file and key.
    """
    agents: list[AgentSpec] = []
    for name, given in cast("Mapping[str, Any]", typed(dict, value, path, "agents")).items():
        where = f"agents.{name}"
        table = table_of(given, path, where, _KEYS)
        words = {
            k: typed(str, table[k], path, f"{where}.{k}")
            for k in ("description", "instructions", "model")
            if k in table
        }
        tools = tuple(texts(table["tools"], path, f"{where}.tools")) if "tools" in table else None
        turns = _number(table.get("turns", 15), path, f"{where}.turns", 1, 1000)
        isolation = typed(str, table.get("isolation", ""), path, f"{where}.isolation")
        if isolation not in ("", "worktree"):
            raise ConfigError(
                f'{path}: {where}.isolation = {isolation!r} is unknown; write "worktree", or leave it out'
            )
        agents.append(AgentSpec(name=name, tools=tools, turns=turns, isolation=isolation, **words))
    return tuple(agents)


def agents_of(files: AgentFiles, named: Sequence[AgentSpec] = ()) -> tuple[AgentSpec, ...]:
    """The agents that the settings name, then those that Markdown files describe under other names.

    A model of a file counts only as `--model` takes it; other names are their program's.
    """
    if not files.agents:
        return tuple(named)
    taken = {spec.name for spec in named}
    return *named, *(
        AgentSpec(
            name=one.name,
            description=one.description,
            instructions=one.instructions,
            tools=one.tools,
            model=one.model if ":" in one.model else "",
            isolation=one.isolation,
        )
        for one in read_agent_files(files, taken)[0]
        if one.name not in taken
    )


def read_subagents(value: Any, path: Path, *, before: SubagentLimits) -> SubagentLimits:
    """How many subagents there may be.

    Raises:
        ConfigError: see `read_agents`.
    """
    table = table_of(value, path, "subagents", tuple(_LIMITS))
    given = {k: _number(v, path, f"subagents.{k}", *_LIMITS[k]) for k, v in table.items()}
    return replace(before, **given)


def _number(value: Any, path: Path, key: str, least: int, most: int) -> int:
    number: int = typed(int, value, path, key)
    if not least <= number <= most:
        raise ConfigError(f"{path}: {key} = {number} is not between {least} and {most}")
    return number
