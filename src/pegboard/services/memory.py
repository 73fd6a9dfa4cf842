"""Memory: the notes that sessions of a workspace have kept, as a person sees and forgets them."""

from __future__ import annotations

from collections.abc import Iterable

from pegboard.files.journal import Journal
from pegboard.files.memory import MemoryFolder, memory_folder
from pegboard.ports.memory import MemoryEntry
from pegboard.services.runtime import Runtime


class Memory:
    """The notes of one workspace.

    Args:
        runtime: the workspace and its settings.
    """

    def __init__(self, runtime: Runtime) -> None:
        state = runtime.paths.state
        folder = memory_folder(state, runtime.workspace)
        self._notes = MemoryFolder(folder, runtime.workspace, journal=Journal(state / "journal"))

    def list(self) -> list[MemoryEntry]:
        """All notes, the newest first."""
        return self._notes.entries()

    def show(self, name: str) -> MemoryEntry:
        """One note.

        Raises:
            NotFound: there is none of that name.
        """
        return self._notes.read(name)

    async def forget(self, names: Iterable[str]) -> None:
        """Delete notes; `undo` brings the last one back.

        Raises:
            NotFound: there is none of that name; those before it are deleted.
        """
        try:
            for name in names:
                await self._notes.commit(await self._notes.propose_removal(name))
        finally:
            self._notes.close()
