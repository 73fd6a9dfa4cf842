"""Slash commands: prompts of the user and of a trusted project, called by name."""

from __future__ import annotations

from pathlib import Path

from pegboard.config.agent_files import CommandFile, find_agent_files, read_commands
from pegboard.config.paths import Paths


class SlashCommands:
    """The slash commands that lie in `.agents/commands` and `.claude/commands`, read each time.

    Args:
        paths: where the user's lie, and what the user trusts.
        workspace: where the project's lie.
    """

    def __init__(self, paths: Paths, workspace: Path) -> None:
        self._paths = paths
        self._workspace = workspace

    async def list(self) -> list[CommandFile]:
        """Those that count, the user's first."""
        return list(read_commands(find_agent_files(self._paths, self._workspace))[0])

    async def expand(self, text: str) -> str | None:
        """The prompt that `/name arguments` stands for; None if no slash command is called so."""
        name, _, given = text.strip().removeprefix("/").partition(" ")
        found = next((one for one in await self.list() if one.name == name), None)
        return None if found is None else found.expand(given.strip())
