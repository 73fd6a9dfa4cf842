"""Artifacts: versioned texts and pictures that a session makes, apart from the workspace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

UpdateType: TypeAlias = Literal["create", "update", "update_fuzzy", "rewrite"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of an artifact.

    Attributes:
        id: the artifact's id, unique in its session.
        version: 1 for the first, one more for each write.
        title: for people.
        content_type: `markdown`, `python`, `text/html`, `image/png` …
        content: the whole text, empty where the artifact is bytes.
        data: the bytes of a picture or another file that is no text, else None.
        update_type: how this version came about.
        created_at: seconds since the epoch.
    """

    id: str
    version: int
    title: str
    content_type: str
    content: str
    update_type: UpdateType
    created_at: float
    data: bytes | None = None

    @property
    def raw(self) -> bytes:
        """What stands in a file of this artifact."""
        return self.content.encode("utf-8") if self.data is None else self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What an update did.

    Attributes:
        version: the new version.
        similarity: 1.0 for an exact match, else how alike the matched text was.
        matched: the text that was replaced.
    """

    version: Version
    similarity: float
    matched: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactMatch:
    """One line of one artifact."""

    id: str
    line: int
    text: str


class Artifacts(Protocol):
    """The artifacts of the session that the current call runs in."""

    async def create(
        self, id: str, *, title: str, content: str | bytes, content_type: str = "markdown"
    ) -> Version:
        """A new artifact, version 1; bytes are a picture or another file.

        Raises:
            Conflict: the id is taken.
            InvalidArguments: the id is none.
            TooLarge: the content is over the limit.
        """
        ...

    async def read(self, id: str, version: int | None = None) -> Version:
        """One version, the newest by default.

        Raises:
            NotFound: no such artifact, or `Version {n} not found`.
        """
        ...

    async def update(
        self, id: str, *, old: str, new: str, expected_version: int | None = None
    ) -> UpdateResult:
        """A new version with one text replaced: exactly, else approximately.

        Raises:
            NotFound: no such artifact, or nothing near enough; the closest text is shown.
            Unsupported: it is no text.
            NotUnique: several places fit.
            Conflict: `expected_version` is not the newest; what changed is shown.
        """
        ...

    async def rewrite(
        self, id: str, *, content: str | bytes, title: str | None = None, expected_version: int | None = None
    ) -> Version:
        """A new version with other content.

        Raises:
            NotFound, Conflict, TooLarge: as above.
        """
        ...

    async def list(self) -> Sequence[Version]:
        """The newest version of each artifact, by id."""
        ...

    async def grep(
        self, pattern: str, *, id: str | None = None, ignore_case: bool = False, limit: int = 100
    ) -> Sequence[ArtifactMatch]:
        """Lines of the newest versions that hold a plain text, at most `limit`; pictures have none."""
        ...

    async def diff(self, id: str, old: int, new: int) -> str:
        """The unified diff between two versions; empty where they are equal."""
        ...
