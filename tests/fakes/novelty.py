"""A Novelty in memory; it passes the test of the stored one."""

from __future__ import annotations

from collections.abc import Iterable


class MemoryNovelty:
    """Novelty of one process."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def first(self, workspace: str, things: Iterable[str]) -> tuple[str, ...]:
        """See Novelty."""
        known = self._known.get(workspace, set[str]())
        return tuple(t for t in things if t not in known)

    def remember(self, workspace: str, things: Iterable[str]) -> None:
        """See Novelty."""
        self._known.setdefault(workspace, set()).update(things)
