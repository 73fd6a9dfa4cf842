"""Artifacts: what a session has made apart from the workspace, looked at from outside its calls."""

from __future__ import annotations

from pegboard.artifacts.versions import StoredArtifacts
from pegboard.ports.artifacts import Version
from pegboard.services.history import History


class Artifacts:
    """The artifacts of all sessions.

    Args:
        history: where they are kept.
    """

    def __init__(self, history: History) -> None:
        self._history = history

    async def list(self, session: str) -> list[Version]:
        """The newest version of each artifact of a session, by id."""
        return await self._of(session).list()

    async def read(self, session: str, id: str, version: int | None = None) -> Version:
        """One version; None = the newest.

        Raises:
            NotFound: the session has no such artifact, or it no such version.
        """
        return await self._of(session).read(id, version)

    async def diff(self, session: str, id: str, old: int, new: int) -> str:
        """What changed between two versions, as a unified diff.

        Raises:
            NotFound: see `read`.
        """
        return await self._of(session).diff(id, old, new)

    def _of(self, session: str) -> StoredArtifacts:
        return StoredArtifacts(self._history.store, session=lambda: session)
