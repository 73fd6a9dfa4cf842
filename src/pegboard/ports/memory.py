"""Memory: notes that sessions of one workspace leave for later ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pegboard.core.context import Context
from pegboard.core.effects import ChangeSet

NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
"""What the name of an entry looks like: it is shown to models as it is, and must not be able to say anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEntry:
    """One note.

    Attributes:
        name: see NAME.
        text: what it says, as Markdown.
        labels: taint labels under which it was written, each with where that content came from.
        session: the session that wrote it; empty if a person did.
        changed: seconds since the epoch.
    """

    name: str
    text: str
    labels: dict[str, str] = field(default_factory=dict[str, str])
    session: str = ""
    changed: float = 0.0


class Memory(Protocol):
    """The notes of one user and workspace."""

    def read(self, name: str) -> MemoryEntry:
        """One entry.

        Raises:
            NotFound: there is none of that name.
        """
        ...

    def search(self, query: str, *, limit: int) -> Sequence[MemoryEntry]:
        """The entries that fit some words, best first; all of them, newest first, for an empty query."""
        ...

    def labels(self, context: Context) -> dict[str, str]:
        """What a session holds now, and would be written into an entry: label and source."""
        ...

    async def propose(self, name: str, text: str, context: Context) -> ChangeSet:
        """The change that writing an entry would make; changes nothing.

        Raises:
            InvalidArguments: the name is not one.
        """
        ...

    async def commit(self, changes: ChangeSet) -> Any:
        """Make a proposed change, so that undo can take it back.

        Raises:
            Conflict: the entry has changed since.
        """
        ...
