"""todo: the list is kept in the session, shown as text, and found again."""

from __future__ import annotations

from pathlib import Path

from pegboard import Agent, Executor, builtin
from pegboard.core.events import CallFinished
from pegboard.models import ScriptedModel
from pegboard.runtime.todos import todos_in

ITEMS = [
    {"text": "Read", "status": "done"},
    {"text": "Write", "status": "in_progress"},
    {"text": "Test", "status": "pending"},
]


async def test_the_list_is_replaced_and_read_back() -> None:
    async with Executor(builtin("todo"), mode="read-only") as executor:
        put = await executor.call("todo", {"items": ITEMS})
        again = await executor.call("todo", {})
        emptied = await executor.call("todo", {"items": []})
        wrong = await executor.call("todo", {"items": [{"text": "x", "status": "maybe"}]})

    assert str(put) == "[x] Read\n[>] Write\n[ ] Test"
    assert again.data == {"items": ITEMS}
    assert emptied.data == {"items": []} and str(emptied) == "The list is empty."
    assert todos_in([CallFinished(put), CallFinished(emptied)]) == ()
    assert len(todos_in([CallFinished(put)])) == 3
    assert wrong.error is not None and wrong.error.code == "invalid_arguments"


async def test_a_later_process_knows_the_list_of_a_session(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    first = Agent(
        tools=[builtin("todo")],
        model=ScriptedModel([{"calls": [{"name": "todo", "arguments": {"items": ITEMS}}]}, {"text": "ok"}]),
        store=store,
    )
    await first.run("plan it", session="s")
    await first.aclose()

    second = Agent(
        tools=[builtin("todo")],
        model=ScriptedModel([{"calls": [{"name": "todo", "arguments": {}}]}, {"text": "ok"}]),
        store=store,
    )
    answer = await second.run("what is left?", session="s")
    await second.aclose()

    [result] = [e.result for e in answer.events if isinstance(e, CallFinished)]
    assert result.data == {"items": ITEMS}
