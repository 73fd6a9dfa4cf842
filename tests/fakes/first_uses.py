"""First uses in memory; passes the tests of the stored ones."""

from __future__ import annotations

from collections.abc import Iterable


class MemoryFirstUses:
    """First uses in one process."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def unseen(self, workspace: str, things: Iterable[str]) -> tuple[str, ...]:
        """See `FirstUses`."""
        known = self._known.get(workspace, set[str]())
        return tuple(t for t in things if t not in known)

    def remember(self, workspace: str, things: Iterable[str]) -> None:
        """See `FirstUses`."""
        self._known.setdefault(workspace, set()).update(things)
