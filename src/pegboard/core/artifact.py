"""NewArtifact: what a tool wants kept as an artifact of its session (ledger K-77)."""

from __future__ import annotations

from typing import Final, Protocol

from pegboard.core.values import record


@record(kw_only=True)
class NewArtifact:
    """A text, picture or other file that a tool declares as an artifact, by returning it or in its ToolResult.

    Attributes:
        content: the whole text, or the bytes of a picture or another file.
        id: letters, digits, '.', '_' and '-'; one that is taken gets a new version; empty = `TOOL-1`,
            `TOOL-2` and so on.
        title: for people; empty = the id.
        content_type: `markdown`, `python`, `image/png` …; empty = markdown for text, found out for bytes.
    """

    content: str | bytes
    id: str = ""
    title: str = ""
    content_type: str = ""


KEEPER: Final = "pegboard.artifact-keeper"
"""Key in `provide` of the object that keeps declared artifacts, a Keeper."""


@record(kw_only=True)
class ArtifactRef:
    """Where a declared artifact lies now."""

    id: str
    version: int
    content_type: str


class ArtifactSaver(Protocol):
    """Keeps declared artifacts for the session of the current call."""

    async def save(self, made: NewArtifact, *, name: str) -> ArtifactRef:
        """Keep it as a new artifact, or as a new version where its id is one.

        Args:
            made: what to keep.
            name: stem of the id where `made` names none.

        Raises:
            ToolError: it cannot be kept; nothing was.
        """
        ...
