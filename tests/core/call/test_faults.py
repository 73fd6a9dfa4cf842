"""What others' code may do wrong, and the call still has exactly one result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pegboard import PURE, BuildError, Effect, Executor, Plan, ReadPath, ToolCall, Url, current_context, tool
from pegboard.core.call.pipeline import Pipeline, TurnExecutor, distinct_calls
from pegboard.core.call.shape import as_tool_error
from pegboard.core.context import Context
from pegboard.core.errors import PermissionDenied, SuspendedCall, ToolExecutionDenied
from pegboard.core.events import CallFinished, CallStarted, Event, MemoryRecorder
from pegboard.core.schema.decode import Decoded
from pegboard.core.toolkit import Toolkit
from tests.ledger import owes


class Odd(BaseException):
    """Neither an Exception nor a cancellation."""


@tool(effects=PURE)
async def ok(text: str = "fine") -> str:
    """Say."""
    return text


@tool(effects=[Effect("send", "slack:1")])
async def send(text: str = "x") -> str:
    """Send."""
    return "sent"


class Breaks:
    """An approver that breaks."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def decide(self, request: Any) -> str:
        raise self.error


@owes("X-06")
@pytest.mark.parametrize("error", [RuntimeError("db down"), asyncio.CancelledError(), KeyError("x")])
async def test_an_approver_that_breaks_has_refused_and_says_so(error: BaseException) -> None:
    result = await Executor([send], approver=Breaks(error)).call("send")

    assert result.error is not None
    assert result.error.code == "permission_denied"
    assert "the approver" in str(result)
    assert type(error).__name__ in str(result)


async def test_a_call_that_is_cancelled_while_it_asks_is_cancelled() -> None:
    asked = asyncio.Event()

    class Slow:
        async def decide(self, request: Any) -> str:
            asked.set()
            await asyncio.Event().wait()
            return "allow"

    door = Executor([send], approver=Slow())
    work = asyncio.ensure_future(door.call("send"))
    await asked.wait()
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work
    assert isinstance(door.events[-1], CallFinished)


class Recording:
    """A recorder that breaks at some types of event."""

    def __init__(self, *types: str, flush: bool = False) -> None:
        self.types, self._flush = types, flush
        self.events: list[Event] = []
        self.flushed: list[bool] = []

    def record(self, event: Event) -> None:
        if event.type in self.types:
            raise OSError("disk full")
        self.events.append(event)

    async def flush(self, *, power_loss: bool = False) -> None:
        self.flushed.append(power_loss)
        if self._flush:
            raise OSError("disk full")


@owes("X-06", "G-05")
async def test_a_call_whose_start_cannot_be_recorded_does_not_run() -> None:
    ran: list[int] = []

    @tool(effects=PURE)
    def act() -> str:
        """Act."""
        ran.append(1)
        return "done"

    result = await Executor([act], recorder=Recording("call.started")).call("act")

    assert ran == []
    assert "disk full" in str(result)


async def test_a_call_whose_end_cannot_be_recorded_gives_its_result_and_says_so() -> None:
    result = await Executor([ok], recorder=Recording("call.finished")).call("ok")

    assert str(result) == "fine"
    assert "disk full" in result.metadata["unrecorded"]


async def test_a_refusal_holds_although_it_cannot_be_recorded() -> None:
    door = Executor([send], recorder=Recording("call.started", "call.finished"))

    assert (await door.call("send")).error is not None


@owes("G-10")
async def test_an_act_is_written_before_it_is_done_and_what_leaves_the_machine_against_power_loss() -> None:
    recorder = Recording()
    seen: list[int] = []

    def act(*effects: Effect, name: str) -> Any:
        @tool(name=name, effects=effects)
        def run() -> str:
            """Act."""
            seen.append(len(recorder.flushed))
            return "ok"

        return run

    read_only = Effect("exec", "ls", ("ls",), read_only=True)
    door = Executor(
        [
            act(Effect("read", "a"), read_only, name="look"),
            act(Effect("write", "a"), name="write"),
            act(Effect("send", "x"), name="send"),
        ],
        mode="full",
        recorder=recorder,
    )

    for name in ("look", "write", "send"):
        assert (await door.call(name)).ok

    assert seen == [0, 1, 2]
    assert recorder.flushed == [False, True]


@owes("G-10")
async def test_an_act_that_cannot_be_written_down_is_not_done() -> None:
    result = await Executor([send], mode="full", recorder=Recording(flush=True)).call("send")

    assert not result.ok
    assert "disk full" in str(result)


@owes("C-46")
@pytest.mark.parametrize("error", [Odd("odd"), RuntimeError("bad"), asyncio.CancelledError()])
async def test_a_middleware_that_raises_anything_gives_a_result(error: BaseException) -> None:
    async def layer(invocation: Any, following: Any) -> Any:
        raise error

    result = await Executor([ok], middleware=[layer]).call("ok")

    assert result.error is not None
    assert result.error.code == "internal_error"


def raises(*_: Any) -> Any:
    raise ZeroDivisionError("in the plan")


@pytest.mark.parametrize("options", [{"plan": raises}, {"effects": raises}], ids=["plan", "effects"])
async def test_a_plan_or_effects_function_that_raises_gives_a_result_in_call_turn_and_preview(
    options: dict[str, Callable[..., Any]],
) -> None:
    @tool(**options)  # type: ignore[arg-type]
    async def bad() -> str:
        """Never run."""
        return "ran"

    door = Executor([bad, ok])

    results = await door.turn([ToolCall("1", "bad"), ToolCall("2", "ok")])

    assert "ZeroDivisionError: in the plan" in str(results[0])
    assert str(results[1]) == "fine"
    assert not (await door.call("bad")).ok
    preview = await door.preview("bad")
    assert preview.error is not None


async def test_a_preview_passes_a_cancellation_on() -> None:
    def cancelled(*_: Any) -> Any:
        raise asyncio.CancelledError

    @tool(plan=cancelled)
    async def bad() -> str:
        """Never run."""
        return "ran"

    with pytest.raises(asyncio.CancelledError):
        await Executor([bad]).preview("bad")


async def test_a_tool_that_turns_its_deadline_into_another_error_leaves_the_task_uncancelled() -> None:
    @tool(effects=PURE, timeout_s=0.01)
    async def grumpy() -> str:
        """Grumble."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("who woke me?") from None
        return "never"

    result = await Executor([grumpy]).call("grumpy")

    assert "who woke me?" in str(result)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@owes("K-15")
async def test_a_thread_learns_from_its_context_that_nobody_waits_any_more() -> None:
    ended = threading.Event()
    begun = threading.Event()

    @tool(effects=PURE, timeout_s=0.05)
    def work() -> str:
        """Work until told to stop."""
        begun.set()
        cancelled = current_context().cancelled
        assert cancelled is not None
        while not cancelled.is_set():
            threading.Event().wait(0.001)
        ended.set()
        return "stopped"

    async with Executor([work]) as door:
        result = await door.call("work")
        assert result.error is not None
        assert result.error.code == "timeout"
        assert "may still be running" in str(result)
        assert ended.wait(5)


async def test_a_permission_error_of_a_running_tool_does_not_start_it_twice_in_the_record() -> None:
    @tool(effects=PURE)
    async def peek() -> str:
        """Look."""
        raise PermissionDenied("that file is masked")

    door = Executor([peek])
    await door.call("peek")

    assert [e.decision for e in door.events if isinstance(e, CallStarted)] == ["allow"]


async def test_a_denied_call_is_recorded_as_denied() -> None:
    door = Executor([send], policy=["deny send:*"])
    await door.call("send")

    assert [e.decision for e in door.events if isinstance(e, CallStarted)] == ["deny"]


async def test_a_refused_call_with_raise_errors_raises_and_a_failed_one_its_own_error() -> None:
    door = Executor([send, ok])

    with pytest.raises(ToolExecutionDenied):
        await door.call("send", raise_errors=True)
    with pytest.raises(Exception, match="not found"):
        await door.call("nope", raise_errors=True)
    assert (await door.call("ok", raise_errors=True)).ok


async def test_effects_of_marked_parameters_hold_for_every_kind_of_collection_and_for_no_url_at_all() -> None:
    @tool
    def look(paths: list[ReadPath], more: tuple[ReadPath, ...] = (), url: Url = "http://[bad") -> str:
        """Look."""
        return "ok"

    class Files:
        async def resolve(self, path: str, *, write: bool = False) -> Any:
            class There:
                target = f"at/{path}"

            return There()

    pipeline = Pipeline(Toolkit([look]), provide={"pegboard.path-resolver": Files()})
    preview = await pipeline.preview(ToolCall("1", "look", {"paths": ["a", "b"], "more": ["c"]}), Context())

    assert [str(e) for e in preview.effects] == ["read at/a", "read at/b", "read at/c", "connect http://[bad"]


async def test_a_pipeline_makes_call_ids_and_reads_arguments_when_somebody_looks() -> None:
    pipeline = Pipeline(Toolkit([ok]))
    result = await pipeline.call(ToolCall(None, "ok", {"text": "x"}), Context())

    started = next(e for e in pipeline.parts.recorder.events if isinstance(e, CallStarted))  # type: ignore[attr-defined]
    assert result.call_id.startswith("call_")
    assert isinstance(started.arguments, Decoded)
    assert dict(started.arguments) == {"text": "x"}
    assert len(started.arguments) == 1


async def test_a_rule_for_a_tool_is_asked_for_pure_tools_too_and_grants_may_be_absent() -> None:
    asked = Pipeline(Toolkit([ok]), policy=Executor([ok], policy=["allow tool=ok"]).policy)
    assert (await asked.call(ToolCall("1", "ok"), Context())).ok

    class Always:
        async def decide(self, request: Any) -> str:
            return "always"

    pipeline = Pipeline(Toolkit([send]), approver=Always())
    assert (await pipeline.call(ToolCall("1", "send"), Context())).ok


# -- turns ------------------------------------------------------------------------------------


async def test_ids_that_earlier_turns_used_are_given_anew() -> None:
    calls = [ToolCall("a", "ok"), ToolCall("a", "ok"), ToolCall("a", "send")]

    assert [c.id for c in distinct_calls(calls, {"a", "a-2"})] == ["a-3", "a-4"]


async def test_a_turn_that_is_cancelled_while_it_is_planned_has_a_result_for_every_call() -> None:
    entered = asyncio.Event()

    async def plan(call: Any, context: Any) -> Plan:
        entered.set()
        await asyncio.Event().wait()
        return Plan()

    @tool(plan=plan)
    async def slow() -> str:
        """Plan for ever."""
        return "ran"

    door = Executor([slow])
    work = asyncio.ensure_future(door.turn([ToolCall("1", "slow"), ToolCall("2", "slow")]))
    await entered.wait()
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work
    assert [e.result.call_id for e in door.events if isinstance(e, CallFinished)] == ["1", "2"]


async def test_a_refused_turn_has_its_results_although_nothing_can_be_recorded() -> None:
    async def hook(calls: Any, context: Any) -> None:
        raise PermissionDenied("no")

    turns = TurnExecutor(Pipeline(Toolkit([ok]), recorder=Recording("call.finished")), hooks=[hook])

    results = await turns.turn([ToolCall("1", "ok")], Context())
    assert [r.ok for r in results] == [False]


@owes("perm-16")
async def test_a_call_that_waits_for_a_yes_does_not_run_its_siblings_again() -> None:
    log: list[str] = []

    @tool(effects=PURE)
    async def append() -> str:
        """Append."""
        log.append("line")
        return "ok"

    @tool(effects=[Effect("delete", "x")], level="confirm")
    async def delete() -> str:
        """Delete."""
        log.append("gone")
        return "ok"

    class Yes:
        async def decide(self, request: Any) -> str:
            return "allow"

    await Executor([append, delete], approver=Yes()).turn([ToolCall("1", "append"), ToolCall("2", "delete")])

    assert sorted(log) == ["gone", "line"]


async def test_a_tool_may_suspend_by_raising() -> None:
    @tool(effects=PURE)
    async def ask() -> str:
        """Ask."""
        raise SuspendedCall("waits", details={"pending": "q"})

    assert (await Executor([ask]).call("ask")).data == {"pending": "q"}


def test_a_memory_recorder_keeps_the_last_events_only() -> None:
    recorder = MemoryRecorder(keep=2)
    for number in range(3):
        recorder.record(CallStarted(call_id=str(number), tool="t", arguments={}))

    assert [e.call_id for e in recorder.events] == ["1", "2"]  # type: ignore[union-attr]


def test_a_missing_port_named_by_the_pipeline(tmp_path: Path) -> None:
    from pegboard import Inject
    from pegboard.ports.files import Files

    @tool(effects=PURE)
    def required(*, files: Inject[Files]) -> str:
        """Need."""
        return ""

    with pytest.raises(BuildError, match="Files"):
        Pipeline(Toolkit([required]))


@pytest.mark.parametrize("ends", ["returns", "raises", "obeys"])
async def test_a_tool_that_takes_its_time_to_end_is_late_or_failed_and_never_leaves_the_task_cancelled(
    ends: str,
) -> None:
    @tool(effects=PURE, timeout_s=0.01)
    async def slow() -> str:
        """Be slow."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            if ends == "returns":
                return "late"
            if ends == "raises":
                raise RuntimeError("odd") from None
            raise
        return "never"

    result = await Executor([slow]).call("slow")

    assert result.error is not None
    assert result.error.code == ("internal_error" if ends == "raises" else "timeout")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancellation_from_outside_wins_over_the_deadline() -> None:
    entered = asyncio.Event()

    @tool(effects=PURE, timeout_s=0.01)
    async def slow() -> str:
        """Be slow to end."""
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            work.cancel()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                raise
        return "never"

    work = asyncio.ensure_future(Executor([slow]).call("slow"))

    with pytest.raises(asyncio.CancelledError):
        await work


async def test_outside_a_task_a_call_has_no_deadline_and_runs() -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def drive() -> None:
        try:
            Pipeline(Toolkit([ok])).call(ToolCall("1", "ok"), Context()).send(None)
        except StopIteration as stop:
            ended.set_result(stop.value)

    loop.call_soon(drive)

    assert (await ended).text == "fine"


async def test_one_run_may_have_a_recorder_of_its_own() -> None:
    own = MemoryRecorder()
    pipeline = Pipeline(Toolkit([ok]))

    await pipeline.with_recorder(own).call(ToolCall("1", "OK"), Context())
    pipeline.close()

    assert [e.type for e in own.events] == ["call.started", "call.finished"]
    assert not pipeline.parts.recorder.events  # type: ignore[attr-defined]


async def test_without_a_files_port_a_path_is_its_own_target_and_a_port_can_be_asked_for() -> None:
    @tool
    def look(path: ReadPath) -> str:
        """Look."""
        return current_context().port(str)

    pipeline = Pipeline(Toolkit([look]), provide={str: "provided"})

    assert (await pipeline.call(ToolCall("1", "look", {"path": "a"}), Context())).text == "provided"
    assert (await pipeline.preview(ToolCall("1", "look", {"path": "a"}), Context())).effects == (
        Effect("read", "a"),
    )
    assert Context(ports={int: 5}).port(int) == 5


@owes("N-121")
def test_the_words_of_a_foreign_error_are_cut() -> None:
    assert len(as_tool_error(ValueError("x" * 100_000)).message) < 600
