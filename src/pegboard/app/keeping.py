"""Where artifacts lie, opened with the first of them: most agents never make one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from pegboard.core.content import ArtifactRef, NewArtifact

if TYPE_CHECKING:
    from pegboard.core.call.provide import Provided
    from pegboard.ports.artifacts import Artifacts
    from pegboard.ports.store import Store


class LazyArtifactSaver:
    """A Keeper over the Artifacts port that is provided when something is kept, else one of its own.

    Args:
        provided: the executor's ports.
        store: opens the store for artifacts, None = they end with the process.
    """

    def __init__(self, provided: Provided, store: Callable[[], Store] | None = None) -> None:
        self._provided = provided
        self._store = store

    async def save(self, made: NewArtifact, *, name: str) -> ArtifactRef:
        """See Keeper."""
        from pegboard.artifacts.saver import PortArtifactSaver

        return await PortArtifactSaver(artifacts_of(self._provided, self._store)).save(made, name=name)


def artifacts_of(provided: Provided, store: Callable[[], Store] | None) -> Artifacts:
    """The provided Artifacts port, put there where none is."""
    from pegboard.ports.artifacts import Artifacts

    there = cast("Artifacts | None", provided.find(Artifacts))
    if there is None:
        from pegboard.artifacts.versions import StoredArtifacts
        from pegboard.store.memory import MemoryStore

        there = provided[Artifacts] = StoredArtifacts(MemoryStore() if store is None else store())
    return there
