"""Novelty: what a call does for the first time in a workspace, told where it asks (ledger G-25).

A person who is asked twenty times a day reads the question that says "first time this host".
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Final, Protocol

from pegboard.core.effects import Effect

_WORDS: Final = {
    "connect": "host", "send": "recipient", "call": "MCP tool", "control": "target", "spawn": "agent",
    "write": "folder", "delete": "deleting in",
}  # fmt: skip


class FirstUses(Protocol):
    """What was done before, by workspace."""

    def unseen(self, workspace: str, things: Iterable[str]) -> tuple[str, ...]:
        """Those of `things` that were never done there."""
        ...

    def remember(self, workspace: str, things: Iterable[str]) -> None:
        """These are done now."""
        ...


def use_keys(tool: str, effects: Iterable[Effect]) -> tuple[str, ...]:
    """What is looked for: the tool, the hosts, programs, recipients, and folders that are written; each once.

    Folders and not files: nearly every write is the first of its file.
    """
    out = {f"tool {tool}": None}
    for effect in effects:
        match effect.kind:
            case "exec":
                if effect.argv:
                    out[f"program {posixpath.basename(effect.argv[0])}"] = None
            case "write" | "delete":
                folder = posixpath.dirname(effect.target.rstrip("/")) or "."
                out[f"{_WORDS[effect.kind]} {folder}"] = None
            case kind if kind in _WORDS:
                out[f"{_WORDS[kind]} {effect.target}"] = None
            case _:
                pass
    return tuple(out)
