"""The Todos port: lists in memory, found again in a session's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pegboard.core.events import CallFinished, Event, HistoryFolded
from pegboard.core.result import ToolResult
from pegboard.core.transcript import ResultsMessage
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
        match event:
            case CallFinished(result):
                found = _todos(result, found)
            case HistoryFolded():
                for message in event.messages:
                    for result in message.results if isinstance(message, ResultsMessage) else ():
                        found = _todos(result, found)
            case _:
                pass
    return found


def _todos(result: ToolResult, before: tuple[Todo, ...]) -> tuple[Todo, ...]:
    """The list after a call; as before where it is none of `todo`."""
    data: Any = result.data
    if result.tool != _TOOL or not result.ok or not isinstance(data, Mapping):
        return before
    rows = cast("Sequence[Mapping[str, Any]]", cast("Mapping[str, Any]", data).get("items") or ())
    return tuple(Todo(text=row["text"], status=row["status"]) for row in rows)
