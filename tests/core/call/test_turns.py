"""The calls of one turn: one result for each, in order, side by side where effects allow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pegboard import PURE, Effect, Executor, ToolCall, ToolError, tool
from pegboard.core.call.pipeline import conflict, distinct_calls
from pegboard.core.context import Context
from pegboard.core.errors import PermissionDenied
from pegboard.core.events import CallFinished
from tests.ledger import owes


@tool(effects=PURE)
async def ok(text: str = "fine") -> str:
    """Say."""
    return text


@tool(effects=PURE)
async def boom() -> str:
    """Fail."""
    raise RuntimeError("bad luck")


@owes("D-13", "args-23", "K-49")
async def test_one_failing_call_keeps_its_siblings_and_the_order() -> None:
    door = Executor([ok, boom])

    results = await door.turn(
        [ToolCall("1", "ok"), ToolCall("2", "boom"), ToolCall("3", "ok", '{"text": "slow"}')]
    )

    assert [(r.call_id, r.ok) for r in results] == [("1", True), ("2", False), ("3", True)]
    assert str(results[2]) == "slow"
    assert "bad luck" in str(results[1])


@owes("args-20")
async def test_a_call_that_was_sent_twice_acts_once() -> None:
    log: list[str] = []

    @tool(effects=PURE)
    def append(t: str) -> str:
        """Append."""
        log.append(t)
        return "ok"

    results = await Executor([append]).turn(
        [ToolCall("d0", "append", {"t": "x"}), ToolCall("d0", "append", '{"t":"x"}')]
    )

    assert log == ["x"]
    assert [r.call_id for r in results] == ["d0"]


@owes("args-21")
async def test_missing_and_shared_ids_are_made_unique_and_stay_stable() -> None:
    calls = [ToolCall("", "ok"), ToolCall(None, "ok"), ToolCall("a", "ok"), ToolCall("a", "boom")]

    once = distinct_calls(calls)

    ids = [c.id for c in once]
    assert len(set(ids)) == 4
    assert all(ids)
    assert ids[2:] == ["a", "a-2"]
    assert distinct_calls(once) == once


def test_broken_arguments_with_one_id_are_told_apart_by_their_text() -> None:
    calls = [ToolCall("a", "ok", "{bad"), ToolCall("a", "ok", "{bad"), ToolCall("a", "ok", "{worse")]

    assert [c.id for c in distinct_calls(calls)] == ["a", "a-2"]


@owes("K-11", "G-15", "X-46")
async def test_calls_without_conflict_run_side_by_side() -> None:
    both = asyncio.Barrier(2)

    @tool(effects=lambda a: [Effect("read", a["path"])])
    async def look(path: str) -> str:
        """Look."""
        await asyncio.wait_for(both.wait(), 5)
        return path

    results = await Executor([look]).turn(
        [ToolCall("1", "look", {"path": "a"}), ToolCall("2", "look", {"path": "a"})]
    )

    assert [str(r) for r in results] == ["a", "a"]


@owes("G-15", "D-13")
async def test_calls_that_write_the_same_place_run_in_order() -> None:
    order: list[str] = []

    @tool(effects=lambda a: [Effect("write", a["path"])])
    async def write(path: str, name: str) -> str:
        """Write."""
        order.append(f"{name} starts")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        order.append(f"{name} ends")
        return "ok"

    await Executor([write], mode="full").turn(
        [
            ToolCall("1", "write", {"path": "d/a", "name": "first"}),
            ToolCall("2", "write", {"path": "d", "name": "second"}),
        ]
    )

    assert order == ["first starts", "first ends", "second starts", "second ends"]


READ, WRITE, DELETE = (
    (lambda p: (Effect("read", p),)),
    (lambda p: (Effect("write", p),)),
    (lambda p: (Effect("delete", p),)),
)
EXEC = (Effect("exec", "make", ("make",)),)
LOOK = (Effect("exec", "ls", ("ls",), read_only=True),)


@owes("G-15")
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (READ("a"), READ("a"), False),
        (READ("a"), WRITE("a"), True),
        (WRITE("a"), READ("a"), True),
        (WRITE("a"), WRITE("b"), False),
        (WRITE("a/b"), WRITE("a"), True),
        (WRITE("a"), WRITE("a/b"), True),
        (WRITE("a"), WRITE("ab"), False),
        (DELETE("."), WRITE("x"), True),
        (WRITE("."), READ("/etc/hosts"), False),
        (EXEC, READ("a"), True),
        (EXEC, EXEC, True),
        (LOOK, LOOK, False),
        (LOOK, WRITE("a"), True),
        (EXEC, READ("/etc/hosts"), False),
        ((Effect("connect", "a.example"),), (Effect("connect", "a.example"),), False),
        ((Effect("send", "slack:1"),), (Effect("send", "slack:1"),), True),
        ((Effect("send", "slack:1"),), (Effect("send", "slack:2"),), False),
        ((Effect("call", "github/issues"),), (Effect("call", "github/search"),), True),
        ((Effect("call", "github/issues"),), (Effect("call", "jira/issues"),), False),
        ((Effect("call", "m/a", unordered=True),), (Effect("call", "m/b", unordered=True),), False),
        ((Effect("call", "m/a", unordered=True),), (Effect("call", "m/b"),), True),
        ((Effect("call", "m/a"),), (Effect("call", "m/b", unordered=True),), True),
        (None, (), True),
        ((), None, True),
        ((), (), False),
    ],
)
def test_conflicts_by_the_table_of_decision_13(first: Any, second: Any, expected: bool) -> None:
    assert conflict(first, second) is expected


async def test_a_call_whose_effects_are_unknown_waits_for_those_before_it() -> None:
    order: list[str] = []

    @tool(effects=lambda a: [Effect("write", a["path"])])
    async def write(path: str) -> str:
        """Write."""
        await asyncio.sleep(0)
        order.append(path)
        return "ok"

    results = await Executor([write], mode="full").turn(
        [ToolCall("1", "write", {"path": "a"}), ToolCall("2", "write", {"pth": 1})]
    )

    assert [r.ok for r in results] == [True, False]


@owes("D-54", "X-25")
async def test_a_hook_sees_all_calls_of_a_turn_and_can_refuse_them() -> None:
    seen: list[list[str]] = []

    async def hook(calls: Sequence[ToolCall], context: Context) -> None:
        seen.append([c.name for c in calls])
        if len(calls) > 1:
            raise PermissionDenied("one at a time")

    door = Executor([ok, boom], hooks=[hook])

    assert (await door.turn([ToolCall("1", "ok")]))[0].ok
    refused = await door.turn([ToolCall("1", "ok"), ToolCall("2", "boom")])
    assert seen == [["ok"], ["ok", "boom"]]
    assert [(r.call_id, r.error.code if r.error else "") for r in refused] == [
        ("1", "permission_denied"),
        ("2", "permission_denied"),
    ]


async def test_a_hook_that_breaks_does_not_open_the_door() -> None:
    async def hook(calls: Sequence[ToolCall], context: Context) -> None:
        raise KeyError("x")

    results = await Executor([ok], hooks=[hook]).turn([ToolCall("1", "ok")])

    assert "KeyError" in str(results[0])


async def test_a_hook_may_raise_any_tool_error() -> None:
    async def hook(calls: Sequence[ToolCall], context: Context) -> None:
        raise ToolError("later", code="busy")

    results = await Executor([ok], hooks=[hook]).turn([ToolCall("1", "ok")])

    assert results[0].error is not None
    assert results[0].error.code == "busy"


@owes("perm-19")
async def test_the_same_refused_call_of_a_turn_is_not_asked_again_and_the_reason_is_told() -> None:
    asked: list[str] = []

    class Friday:
        async def decide(self, request: Any) -> Any:
            from pegboard import Refused

            asked.append(request.tool)
            return Refused("not on Fridays")

    @tool(effects=[Effect("send", "slack:1")])
    async def send(text: str) -> str:
        """Send."""
        return "sent"

    results = await Executor([send], approver=Friday()).turn(
        [
            ToolCall("1", "send", {"text": "x"}),
            ToolCall("2", "send", {"text": "x"}),
            ToolCall("3", "send", {"text": "y"}),
        ]
    )

    # The third says something else, to where nothing may be sent.
    assert asked == ["send"]
    assert ["not on Fridays" in str(r) for r in results] == [True, True, True]


@owes("K-49")
async def test_a_cancelled_turn_leaves_a_recorded_result_for_every_call() -> None:
    entered = asyncio.Event()

    @tool(effects=[Effect("write", "a")])
    async def first() -> str:
        """Hang."""
        entered.set()
        await asyncio.Event().wait()
        return "never"

    door = Executor([first], mode="full")
    task = asyncio.ensure_future(
        door.turn([ToolCall("1", "first"), ToolCall("2", "first"), ToolCall("3", "first")])
    )
    await entered.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    finished = [e.result for e in door.events if isinstance(e, CallFinished)]
    assert sorted(r.call_id for r in finished) == ["1", "2", "3"]
    assert {r.error.code if r.error else "" for r in finished} == {"cancelled"}


@owes("X-06")
async def test_nothing_that_a_model_sends_raises_out_of_the_executor() -> None:
    door = Executor([ok])
    strange: list[Any] = [
        None,
        "",
        "[]",
        '"a"',
        "5",
        "{",
        '{"text": "a',
        "\x00",
        {"text": {}},
        '{"text": 1e999}',
        "null",
        "{}{}",
    ]

    results = await door.turn([ToolCall(f"c{i}", "ok", a) for i, a in enumerate(strange)])

    assert len(results) == len(strange)
    assert all(isinstance(str(r), str) for r in results)


async def test_an_empty_turn_has_no_results() -> None:
    assert await Executor([ok]).turn([]) == []
