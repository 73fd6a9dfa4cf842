"""Plans: what mode `plan` waits for, and what a person's yes to it starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pegboard.core.effects import Effect


class Plans(Protocol):
    """The mode of one executor, as far as a proposed plan may change it."""

    @property
    def is_planning(self) -> bool:
        """Whether the mode is `plan`."""
        ...

    def start(self, effects: Sequence[Effect]) -> None:
        """Go on in mode `workspace` with exactly these effects allowed; what goes beyond them asks."""
        ...
