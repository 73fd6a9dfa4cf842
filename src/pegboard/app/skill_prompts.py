"""SkillPrompts: skills as prompts without arguments, as they lie on the disk now."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pegboard.interop.skills import Skill, Skills, there_now
from pegboard.mcp.prompts import Prompt, TextPrompts


class SkillPrompts:
    """Read anew whenever asked: a skill that has changed, come or gone is so for a client too.

    Args:
        folders: each is a skill or holds skills; the first of a name counts.
        settings: knows which of them the user has to trust, and a changed one is trusted no more; None = none.
    """

    def __init__(self, folders: Sequence[Path], settings: Skills | None) -> None:
        self._folders = tuple(folders)
        self._settings = settings

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """See Prompts."""
        return await self._now().list()

    async def get(self, name: str, arguments: Mapping[str, str]) -> Mapping[str, Any]:
        """See Prompts."""
        return await self._now().get(name, arguments)

    async def complete(self, name: str, argument: str, value: str) -> Sequence[str]:
        """See Prompts."""
        return ()

    async def etag(self) -> Hashable:
        """See Prompts."""
        return tuple([(s.name, s.description, s.stamp()) for s in self._skills()])

    def _skills(self) -> Sequence[Skill]:
        found = there_now(self._folders)
        return found if self._settings is None else [s for s in found if self._settings.trusts(s)]

    def _now(self) -> TextPrompts:
        return TextPrompts([Prompt(s.name, s.description, s.body()) for s in self._skills()])
