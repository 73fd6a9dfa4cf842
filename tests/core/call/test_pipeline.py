"""The way of a call, from raw input to its one result."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from pegboard import (
    PURE,
    BuildError,
    Effect,
    Executor,
    Inject,
    Plan,
    Policy,
    Tool,
    ToolCall,
    ToolError,
    current_context,
    tool,
)
from pegboard.core.call.pipeline import Pipeline
from pegboard.core.call.shape import as_tool_error
from pegboard.core.context import Context
from pegboard.core.errors import TimedOut, ToolExecutionDenied
from pegboard.core.events import CallFinished, CallStarted, CallUpdate, MemoryRecorder, PermissionRequested
from pegboard.core.policy.approval import ApprovalRequest, Approved, Refused, Waiting
from pegboard.core.toolkit import Toolkit
from tests.ledger import owes


@tool(effects=PURE)
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=[Effect("send", "slack:1")])
async def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


class Answers:
    """An approver that gives one answer and remembers what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self.answer


@owes("N-21", "N-119", "C-02", "C-03", "C-04", "C-07", "K-01")
async def test_a_typed_function_is_called_with_decoded_arguments_and_defaults() -> None:
    door = Executor([add])

    result = await door.call("add", '{"a": "40"}')

    assert result.ok
    assert str(result) == "42"
    assert result.data == 42


@owes("N-25", "args-26", "K-06")
async def test_an_unknown_tool_is_answered_with_the_available_names_and_the_nearest() -> None:
    @tool(effects=PURE)
    def get_datetime() -> str:
        """Tell the time."""
        return "now"

    door = Executor([get_datetime, add])

    result = await door.call("get_date", {})

    assert result.error is not None
    assert result.error.code == "unknown_tool"
    assert "get_datetime" in str(result)
    assert "add" in str(result)
    assert result.error.details["nearest"] == ["get_datetime"]


@owes("N-24", "N-26", "N-29", "args-08")
async def test_wrong_arguments_are_refused_with_path_type_and_value_and_nothing_runs() -> None:
    ran: list[int] = []

    @tool(effects=PURE)
    def count(n: int) -> str:
        """Count."""
        ran.append(n)
        return "ok"

    result = await Executor([count]).call("count", {"n": "foobar"})

    text = str(result)
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert "n" in text
    assert "integer" in text
    assert "foobar" in text
    assert len(text) < 500
    assert text.endswith("[Analyze the error above and try a different approach.]")
    assert ran == []


@owes("N-28", "args-25", "X-06", "D-08")
async def test_an_exception_becomes_a_result_that_names_its_type_even_without_a_message() -> None:
    @tool(effects=PURE)
    def boom() -> str:
        """Fail."""
        raise ValueError

    result = await Executor([boom]).call("boom", {}, id="c7")

    assert result.error is not None
    assert result.error.code == "internal_error"
    assert "ValueError" in str(result)
    assert result.call_id == "c7"
    assert "Traceback" not in str(result)


@owes("N-121")
async def test_a_permission_error_of_the_system_is_told_without_its_paths() -> None:
    @tool(effects=PURE)
    def peek() -> str:
        """Look."""
        raise PermissionError(13, "Permission denied", "/root/secret/place")

    result = await Executor([peek]).call("peek", {})

    assert not result.ok
    assert "/root/secret" not in str(result)


def test_a_timeout_error_of_a_tool_is_a_timeout() -> None:
    assert as_tool_error(TimeoutError()).code == "timeout"
    assert as_tool_error(BuildError("no port")).code == "internal_error"


@owes("args-24")
async def test_a_tool_that_raises_cancelled_error_by_itself_fails_alone() -> None:
    @tool(effects=PURE)
    async def odd() -> str:
        """Raise."""
        raise asyncio.CancelledError

    result = await Executor([odd]).call("odd", {})

    assert result.error is not None
    assert result.error.code == "internal_error"


async def test_a_real_cancellation_is_recorded_and_goes_on() -> None:
    entered = asyncio.Event()

    @tool(effects=PURE)
    async def wait() -> str:
        """Wait."""
        entered.set()
        await asyncio.Event().wait()
        return "never"

    door = Executor([wait])
    task = asyncio.ensure_future(door.call("wait", {}, id="c1"))
    await entered.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    finished = [e for e in door.events if isinstance(e, CallFinished)]
    assert [(e.result.call_id, e.result.error.code if e.result.error else "") for e in finished] == [
        ("c1", "cancelled")
    ]


async def test_keyboard_interrupt_is_not_swallowed() -> None:
    @tool(effects=PURE)
    async def stop() -> str:
        """Stop."""
        raise KeyboardInterrupt

    pipeline = Pipeline(Toolkit([stop]))
    with pytest.raises(KeyboardInterrupt):
        # Driven by hand: inside a task the event loop itself would stop.
        pipeline.call(ToolCall("1", "stop", {}), Context()).send(None)


async def test_a_deadline_ends_the_call_and_leaves_the_task_uncancelled() -> None:
    @tool(effects=PURE, timeout_s=0.01)
    async def slow() -> str:
        """Be slow."""
        await asyncio.Event().wait()
        return "never"

    result = await Executor([slow]).call("slow", {})

    assert result.error is not None
    assert result.error.code == "timeout"
    assert result.error.retryable
    assert "0.01 s" in str(result)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_tool_that_swallows_the_deadline_is_late_all_the_same() -> None:
    @tool(effects=PURE, timeout_s=0.01)
    async def stubborn() -> str:
        """Swallow."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "I go on"
        return "never"

    result = await Executor([stubborn]).call("stubborn", {})

    assert result.error is not None
    assert result.error.code == "timeout"


async def test_without_a_deadline_and_outside_a_task_calls_run_too() -> None:
    @tool(effects=PURE, timeout_s=0)
    async def free() -> str:
        """Have no deadline."""
        return "free"

    @tool(effects=PURE)
    async def bare() -> str:
        """Have one."""
        return "bare"

    pipeline = Pipeline(Toolkit([free, bare]))
    assert (await pipeline.call(ToolCall("1", "free", {}), Context())).text == "free"
    with pytest.raises(StopIteration) as ended:
        pipeline.call(ToolCall("1", "bare", {}), Context()).send(None)
    assert ended.value.value.text == "bare"


@owes("C-45", "K-13")
async def test_the_context_is_ambient_in_async_and_in_threaded_tools() -> None:
    @tool(effects=PURE)
    def where() -> str:
        """Say where."""
        context = current_context()
        return f"{context.session} {context.agent} {context.call_id} {threading.current_thread() is threading.main_thread()}"

    result = await Executor([where], session="s1", agent="a1").call("where", {}, id="c9")

    assert str(result) == "s1 a1 c9 False"


def test_outside_a_call_there_is_no_context() -> None:
    with pytest.raises(LookupError):
        current_context()


@owes("M-44", "K-14")
async def test_a_tool_emits_partial_updates() -> None:
    heard: list[Any] = []

    @tool(effects=PURE)
    async def work() -> str:
        """Work."""
        current_context().emit("half")
        return "done"

    door = Executor([work])
    door.context = Context(emit=heard.append)
    await door.call("work", {})

    assert heard == ["half"]
    assert [e.update for e in door.events if isinstance(e, CallUpdate)] == ["half"]


# -- injection --------------------------------------------------------------------------------


class Database:
    """Something that a developer provides."""

    def rows(self) -> int:
        return 3


class Counter(Protocol):
    """A port by shape."""

    def rows(self) -> int: ...


@tool(effects=PURE)
def by_type(*, db: Inject[Database]) -> int:
    """Count by type."""
    return db.rows()


@tool(effects=PURE)
def by_shape(*, db: Inject[Counter]) -> int:
    """Count by shape."""
    return db.rows()


async def test_inject_is_filled_by_type_and_by_shape() -> None:
    door = Executor([by_type, by_shape], provide=[Database()])

    assert (await door.call("by_type", {})).data == 3
    assert (await door.call("by_shape", {})).data == 3


async def test_a_model_cannot_fill_an_injected_parameter() -> None:
    result = await Executor([by_type], provide=[Database()]).call("by_type", {"db": "mine"})

    assert result.error is not None
    assert result.error.code == "invalid_arguments"


def test_a_missing_port_fails_when_the_executor_is_built_and_says_what_to_do() -> None:
    with pytest.raises(BuildError, match=r"by_type.*Database.*db.*provide"):
        Executor([by_type])


async def test_an_optional_port_and_the_context_may_be_injected() -> None:
    @tool(effects=PURE)
    def maybe(*, db: Inject[Database | None] = None, context: Inject[Context]) -> str:
        """Use what is there."""
        return f"{db} {context.call_id}"

    assert str(await Executor([maybe]).call("maybe", {}, id="c1")) == "None c1"


def test_a_context_without_the_port_says_how_to_provide_it() -> None:
    with pytest.raises(BuildError, match="Database"):
        Context().port(Database)


# -- effects and plans ------------------------------------------------------------------------


@dataclass
class Shown:
    """What a plan showed."""

    plan: Plan | None = None


async def test_the_run_receives_the_very_plan_that_was_authorised() -> None:
    shown = Shown()

    async def plan(call: Any, context: Any) -> Plan:
        return Plan((Effect("send", "slack:2"),), private="prepared")

    @tool(plan=plan)
    async def notify(text: str, *, planned: Inject[Plan | None] = None) -> str:
        """Notify."""
        shown.plan = planned
        return "ok"

    approver = Answers("allow")
    assert (await Executor([notify], approver=approver).call("notify", {"text": "x"})).ok
    assert shown.plan is not None
    assert shown.plan.private == "prepared"
    assert approver.asked[0].effects == (Effect("send", "slack:2"),)


async def test_effects_come_from_a_function_of_the_decoded_arguments() -> None:
    @tool(effects=lambda arguments: [Effect("control", f"lamp-{arguments['number']}")])
    def lamp(number: int) -> str:
        """Switch a lamp."""
        return "on"

    preview = await Executor([lamp]).preview("lamp", {"number": "7"})

    assert [e.target for e in preview.effects] == ["lamp-7"]
    assert preview.decision == "ask"


@owes("G-01")
async def test_a_preview_runs_nothing_and_asks_nobody() -> None:
    approver = Answers("allow")
    door = Executor([send], approver=approver)

    preview = await door.preview("send", {"text": "x"})

    assert (preview.decision, approver.asked, list(door.events)) == ("ask", [], [])


async def test_the_preview_of_a_wrong_call_carries_the_error() -> None:
    preview = await Executor([send]).preview("send", {"txt": "x"})

    assert preview.error is not None
    assert preview.error.code == "invalid_arguments"
    assert preview.decision == "allow"  # A failure is not a denial.


async def test_typed_parameters_give_effects_without_a_files_port() -> None:
    from pegboard import Command, Recipient, Url

    @tool
    def fetch(urls: list[Url], to: Recipient | None = None, command: Command | None = None) -> str:
        """Fetch and tell."""
        return "ok"

    preview = await Executor([fetch]).preview(
        "fetch", {"urls": ["https://User:pw@Example.com:8443/x", "nonsense"], "to": "slack:1"}
    )

    assert [str(e) for e in preview.effects] == [
        "connect example.com:8443",
        "connect nonsense",
        "send slack:1",
    ]


# -- authorisation ----------------------------------------------------------------------------


@owes("X-25", "X-26", "D-22")
async def test_what_asks_and_has_nobody_to_answer_is_denied_with_the_reason() -> None:
    result = await Executor([send]).call("send", {"text": "x"})

    assert result.error is not None
    assert result.error.code == "permission_denied"
    assert "send needs approval in mode workspace" in str(result)


@owes("X-26", "D-56")
async def test_a_refusal_says_who_and_why() -> None:
    result = await Executor([send], approver=Answers(Refused("not today", by="ann"))).call(
        "send", {"text": "x"}
    )

    assert result.error is not None
    assert (result.error.code, result.error.details["by"]) == ("permission_denied", "ann")
    assert "not today" in result.error.message


@owes("G-04", "A-05")
async def test_an_approval_sees_the_exact_effects_and_the_call_then_runs() -> None:
    approver = Answers(Approved(by="ann"))
    door = Executor([send], approver=approver)

    result = await door.call("send", {"text": "hi"})

    assert result.ok
    request = approver.asked[0]
    assert (request.tool, request.effects, request.asking) == (
        "send",
        (Effect("send", "slack:1"),) * 1,
        (Effect("send", "slack:1"),),
    )
    assert request.call.arguments == {"text": "hi"}
    assert [type(e) for e in door.events] == [PermissionRequested, CallStarted, CallFinished]
    started = door.events[1]
    assert isinstance(started, CallStarted)
    assert (started.decision, started.approver) == ("ask", "ann")


async def test_an_approver_that_answers_nonsense_has_refused() -> None:
    result = await Executor([send], approver=Answers("maybe")).call("send", {"text": "x"})

    assert "'maybe'" in str(result)
    assert not result.ok


@owes("perm-18", "G-01", "G-04")
async def test_a_plan_that_changes_while_a_person_thinks_voids_the_approval() -> None:
    state = {"target": "slack:1"}

    def plan(call: Any, context: Any) -> Plan:
        return Plan((Effect("send", state["target"]),))

    ran: list[str] = []

    @tool(plan=plan)
    def notify() -> str:
        """Notify."""
        ran.append("x")
        return "ok"

    class Slow:
        async def decide(self, request: ApprovalRequest) -> str:
            state["target"] = "slack:everyone"
            return "allow"

    result = await Executor([notify], approver=Slow()).call("notify", {})

    assert result.error is not None
    assert result.error.code == "conflict"
    assert ran == []


async def test_a_waiting_approver_suspends_the_call() -> None:
    result = await Executor([send], approver=Answers(Waiting("approval", "ap_1"))).call("send", {"text": "x"})

    assert result.error is not None
    assert result.error.code == "suspended"
    assert result.data == {"pending": "ap_1"}


async def test_a_tool_that_waits_suspends_its_call() -> None:
    @tool(effects=PURE)
    async def ask() -> Waiting:
        """Ask."""
        return Waiting("question", "q_1", None, {"question": "which?"})

    result = await Executor([ask]).call("ask", {})

    assert result.data == {"pending": "q_1"}
    assert result.error is not None
    assert result.error.details["question"] == "which?"


@owes("X-06", "X-26", "D-56")
async def test_raise_errors_raises_the_denial_and_the_tool_error() -> None:
    @tool(effects=PURE)
    def fail() -> str:
        """Fail."""
        raise ToolError("no luck", code="luck")

    door = Executor([send, fail])
    with pytest.raises(ToolExecutionDenied):
        await door.call("send", {"text": "x"}, raise_errors=True)
    with pytest.raises(ToolError, match="no luck"):
        await door.call("fail", {}, raise_errors=True)
    assert (await Executor([add]).call("add", {"a": 1}, raise_errors=True)).ok


async def test_always_is_remembered_for_exactly_this_target_and_counted() -> None:
    @tool(effects=lambda a: [Effect("send", a["to"])])
    def post(to: str) -> str:
        """Post."""
        return "ok"

    approver = Answers(Approved(scope="always", uses=2))
    door = Executor([post], approver=approver)

    for to in ("a", "a", "a", "b"):
        assert (await door.call("post", {"to": to})).ok

    # The first yes makes a grant of two uses, which serve calls two and three; `b` is another target.
    assert [r.effects[0].target for r in approver.asked] == ["a", "b"]
    assert (await door.call("post", {"to": "a"})).ok
    assert len(approver.asked) == 3


async def test_tool_levels_confirm_and_deny() -> None:
    @tool(effects=PURE, level="confirm")
    def careful() -> str:
        """Be careful."""
        return "ok"

    @tool(effects=PURE, level="deny")
    def off() -> str:
        """Be off."""
        return "ok"

    denied = await Executor([careful, off]).call("careful", {})
    assert denied.error is not None
    assert "always needs approval" in str(denied)
    assert (await Executor([careful], approver=Answers("allow")).call("careful", {})).ok
    assert "disabled" in str(await Executor([off], approver=Answers("allow")).call("off", {}))


# -- middleware -------------------------------------------------------------------------------


@owes("C-46", "K-12")
async def test_middleware_wraps_the_run_outermost_first_and_sees_the_tool() -> None:
    order: list[str] = []

    def layer(name: str) -> Any:
        async def middleware(invocation: Any, following: Any) -> Any:
            order.append(f"{name} {invocation.tool.name}")
            value = await following()
            order.append(f"{name} {value}")
            return value

        return middleware

    result = await Executor([add], middleware=[layer("outer"), layer("inner")]).call("add", {"a": 1})

    assert result.data == 3
    assert order == ["outer add", "inner add", "inner 3", "outer 3"]


async def test_middleware_cannot_change_the_arguments_that_run() -> None:
    async def meddle(invocation: Any, following: Any) -> Any:
        invocation.call.arguments["a"] = 1000
        return await following()

    assert (await Executor([add], middleware=[meddle]).call("add", {"a": 1})).data == 3


async def test_a_layer_that_tries_again_after_a_timeout_gets_the_second_answer() -> None:
    tries: list[int] = []

    @tool(effects=PURE, timeout_s=0.01)
    async def slow_once() -> str:
        """Hang at first."""
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "second"

    async def again(invocation: Any, following: Any) -> Any:
        with suppress(TimedOut):
            return await following()
        return await following()

    result = await Executor([slow_once], middleware=[again]).call("slow_once")

    assert (result.ok, result.text, len(tries)) == (True, "second", 2)


async def test_each_of_two_tries_at_once_has_a_deadline_of_its_own() -> None:
    @tool(effects=PURE, timeout_s=0.01)
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return "never"

    async def twice(invocation: Any, following: Any) -> Any:
        both = await asyncio.gather(following(), following(), return_exceptions=True)
        return [type(one).__name__ for one in both]

    result = await Executor([hang], middleware=[twice]).call("hang")

    assert result.data == ["TimedOut", "TimedOut"]


async def test_middleware_never_sees_a_denied_call() -> None:
    seen: list[str] = []

    async def spy(invocation: Any, following: Any) -> Any:
        seen.append(invocation.tool.name)
        return await following()

    await Executor([send], middleware=[spy]).call("send", {"text": "x"})

    assert seen == []


async def test_blocking_functions_run_side_by_side_in_threads() -> None:
    barrier = threading.Barrier(8, timeout=5)

    @tool(effects=PURE)
    def meet() -> str:
        """Meet the others."""
        barrier.wait()
        return "met"

    async with Executor([meet], threads=8) as door:
        results = await asyncio.gather(*(door.call("meet", {}) for _ in range(8)))

    assert [str(r) for r in results] == ["met"] * 8


async def test_a_sync_function_that_returns_an_awaitable_is_awaited() -> None:
    async def later() -> str:
        return "later"

    @tool(effects=PURE)
    def soon() -> Any:
        """Promise."""
        return later()

    assert str(await Executor([soon]).call("soon", {})) == "later"


async def test_repairs_are_noted_in_the_result() -> None:
    result = await Executor([add]).call("add", "{'a': 1,}")

    assert result.ok
    assert result.notes.repairs


async def test_a_subclass_of_tool_runs_and_keeps_its_own_state() -> None:
    class Weather(Tool):
        """Tells the weather."""

        effects = PURE

        def __init__(self, mood: str) -> None:
            self.mood = mood

        async def run(self, city: str) -> str:
            """Tell the weather of a city."""
            return f"{city}: {self.mood}"

    door = Executor([Weather("rain")])

    assert str(await door.call("weather", {"city": "Ulm"})) == "Ulm: rain"
    assert door.toolkit["weather"].description == "Tell the weather of a city."


async def test_the_duration_is_measured() -> None:
    @tool(effects=PURE)
    def nap() -> str:
        """Nap."""
        time.sleep(0.01)
        return "ok"

    assert (await Executor([nap]).call("nap", {})).notes.duration_s >= 0.01


def test_a_policy_may_be_given_as_lines_or_object() -> None:
    assert Executor([add], policy=["deny tool=add"]).policy.mode == "workspace"
    assert Executor([add], policy=Policy(mode="full")).policy.mode == "full"
    assert Executor([add], policy=Policy(mode="full"), mode="ask").policy.mode == "ask"


async def test_a_call_has_one_context_however_often_and_wherever_its_code_asks() -> None:
    seen: list[Context] = []

    @tool(effects=PURE)
    async def look(context: Inject[Context]) -> str:
        """Look around."""
        seen.extend([context, current_context(), current_context()])
        seen.append(await asyncio.to_thread(current_context))
        seen.extend(await asyncio.gather(inner(), inner()))
        return "seen"

    async def inner() -> Context:
        return current_context()

    door = Executor([look], session="s", agent="a")
    await door.call("look", {}, id="c1")

    assert len(seen) == 6
    assert all(one is seen[0] for one in seen)
    assert (seen[0].call_id, seen[0].tool, seen[0].session, seen[0].agent) == ("c1", "look", "s", "a")
    assert seen[0].effects == ()
    with pytest.raises(LookupError, match="no tool call is running here"):
        current_context()


async def test_what_a_tool_is_changed_to_after_its_first_call_holds_for_the_next() -> None:
    @tool(effects=PURE)
    def ping() -> str:
        """Answer."""
        return "pong"

    door = Executor([ping])
    assert (await door.call("ping")).ok

    ping.level = "deny"
    refused = await door.call("ping")
    assert refused.error is not None
    assert refused.error.code == "permission_denied"

    ping.level = "auto"
    ping.effects = (Effect("control", "x"),)
    refused = await door.call("ping")
    assert refused.error is not None
    assert refused.error.code == "permission_denied"


async def test_other_tools_under_the_same_names_take_the_calls_from_then_on() -> None:
    def kit(answer: str) -> Toolkit:
        @tool(effects=PURE)
        def ping() -> str:
            """Answer."""
            return answer

        return Toolkit([ping])

    line = Pipeline(kit("one"))
    twin = line.with_recorder(MemoryRecorder())
    first = await line.call(ToolCall("c1", "ping"), Context())
    line.set_toolkit(kit("two"))
    second = await line.call(ToolCall("c2", "ping"), Context())

    assert (str(first), str(second)) == ("one", "two")
    assert str(await twin.call(ToolCall("c3", "ping"), Context())) == "one"
