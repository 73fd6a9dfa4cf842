"""todo: a list of steps, kept in the session."""

from __future__ import annotations

from typing import Annotated, Final, TypedDict

from pydantic import Field

from pegboard.core.context import Context, current_context
from pegboard.core.effects import EMPTY_PLAN, Plan
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.todos import Todo, Todos, TodoStatus

_MARKS: Final[dict[str, str]] = {"done": "[x]", "in_progress": "[>]", "pending": "[ ]"}


class TodoItem(TypedDict):
    """One step of the list."""

    text: str
    status: TodoStatus


def plan_todo(call: ValidCall, context: Context) -> Plan:
    """A list changes nothing outside its session."""
    return EMPTY_PLAN


@tool(plan=plan_todo, idempotent=True, hints=("plan the steps", "task list", "track progress", "待办"))
async def todo(
    items: Annotated[list[TodoItem] | None, Field(max_length=50), Alias("todos")] = None,
    *,
    lists: Inject[Todos],
) -> ToolResult:
    """Keep a list of the steps of a longer task; the user sees it.

    Use it for tasks of three steps or more, and update it when a step begins or ends. One step is in
    progress at a time. Without items it returns the list as it is.

    Args:
        items: The whole new list, in order.
    """
    session = current_context().session
    if items is not None:
        lists.put(session, [Todo(text=i["text"], status=i["status"]) for i in items])
    kept = lists.get(session)
    return ToolResult.from_text(
        render_todos(kept) or "The list is empty.",
        data={"items": [{"text": one.text, "status": one.status} for one in kept]},
    )


def render_todos(todos: tuple[Todo, ...]) -> str:
    """One line a step, with a mark for how far it is."""
    return "\n".join(f"{_MARKS[one.status]} {one.text}" for one in todos)
