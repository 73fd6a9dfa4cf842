"""The Todos port: lists in memory, found again in a session's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pegboard.core.events import CallFinished, Event
from pegboard.ports.todos import Todo
from pegboard.runtime.fold import without_rewound

_TOOL: Final = "todo"


class SessionTodos:
    """The lists of the sessions that run in this process."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[Todo, ...]] = {}

    def get(self, session: str) -> tuple[Todo, ...]:
        """See Todos."""
        return self._lists.get(session, ())

    def put(self, session: str, todos: Sequence[Todo]) -> None:
        """See Todos."""
        self._lists[session] = tuple(todos)


def todos_in(events: Iterable[Event]) -> tuple[Todo, ...]:
    """The list as the last call of `todo` in some events left it."""
    found: tuple[Todo, ...] = ()
    for event in without_rewound(events):
        if isinstance(event, CallFinished) and event.result.tool == _TOOL and event.result.ok:
            data: Any = event.result.data
            rows = cast("Mapping[str, Any]", data).get("items") if isinstance(data, Mapping) else None
            if isinstance(rows, Sequence):
                found = tuple(
                    Todo(text=row["text"], status=row["status"])
                    for row in cast("Sequence[Mapping[str, Any]]", rows)
                )
    return found
