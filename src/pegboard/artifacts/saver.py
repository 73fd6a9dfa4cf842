"""Keeps what tools declare as artifacts."""

from __future__ import annotations

from contextlib import suppress

from pegboard.core.content import ArtifactRef, NewArtifact, media_type_of
from pegboard.core.errors import Conflict, NotFound
from pegboard.ports.artifacts import Artifacts, Version


class PortArtifactSaver:
    """The Keeper over the Artifacts port.

    Args:
        artifacts: where they go.
    """

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts

    async def save(self, made: NewArtifact, *, name: str) -> ArtifactRef:
        """See Keeper."""
        artifacts, kind = self._artifacts, made.content_type or _type_of(made.content)
        saved = await (_named(artifacts, made, kind) if made.id else _numbered(artifacts, made, kind, name))
        return ArtifactRef(id=saved.id, version=saved.version, content_type=saved.content_type)


async def _named(artifacts: Artifacts, made: NewArtifact, kind: str) -> Version:
    with suppress(NotFound):
        return await artifacts.rewrite(made.id, content=made.content, title=made.title or None)
    return await artifacts.create(
        made.id, title=made.title or made.id, content=made.content, content_type=kind
    )


async def _numbered(artifacts: Artifacts, made: NewArtifact, kind: str, name: str) -> Version:
    taken = {version.id for version in await artifacts.list()}
    number = 1
    while True:
        id = f"{name}-{number}"
        if id not in taken:
            # Another call of the same turn may have taken it meanwhile.
            with suppress(Conflict):
                return await artifacts.create(
                    id, title=made.title or id, content=made.content, content_type=kind
                )
        number += 1


def _type_of(content: str | bytes) -> str:
    return "markdown" if isinstance(content, str) else media_type_of(content)
