"""Catalogue: finding tools that a model does not see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTool:
    """One tool that a search found.

    Attributes:
        name, description, parameters: as the model would see them.
        score: how well it fits; 0 where it was asked for by name.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    score: float = 0.0


class ToolSearch(Protocol):
    """All tools of a kit, those that are not advertised too."""

    def search(self, query: str, *, limit: int = 5) -> Sequence[FoundTool]:
        """The tools that fit a request best, best first."""
        ...

    def select(self, names: Sequence[str]) -> Sequence[FoundTool]:
        """The tools of these names, aliases and noise allowed, in this order; unknown names are left out."""
        ...

    def nearest(self, name: str) -> Sequence[str]:
        """The names most similar to an unknown one."""
        ...
