"""Todos: the list of steps that an agent keeps while it works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

TodoStatus: TypeAlias = Literal["pending", "in_progress", "done"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    """One step and how far it is."""

    text: str
    status: TodoStatus = "pending"


class Todos(Protocol):
    """The list of each session."""

    def get(self, session: str) -> tuple[Todo, ...]:
        """The list of a session; empty if it has none."""
        ...

    def put(self, session: str, todos: Sequence[Todo]) -> None:
        """Replace the list of a session."""
        ...
