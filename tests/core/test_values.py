"""The small values: calls, content, effects, errors, results, usage, approvals."""

from __future__ import annotations

from typing import Any

import pytest

from pegboard import PURE, Effect, ToolCall, ToolError, tool
from pegboard.core.content import Audio, File, Image, Text, describe
from pegboard.core.effects import Change, ChangeSet, Plan, strictest
from pegboard.core.errors import ModelError
from pegboard.core.policy.approval import (
    AllowOnce,
    ApprovalRequest,
    Approved,
    CallbackApprover,
    DenyAll,
    Refused,
    SuspendAll,
    Waiting,
    answer_of,
    approval_digest,
)
from pegboard.core.result import ToolResult
from pegboard.core.tool import ValidCall
from pegboard.core.toolkit import import_object
from pegboard.core.transcript import AssistantMessage, Thinking, Usage, UserMessage
from tests.ledger import owes

REQUEST = ApprovalRequest(id="ap_1", call=ToolCall("c", "t", {}), tool="t", effects=())


@owes("A-33", "D-14")
def test_a_call_shows_its_arguments_under_both_names() -> None:
    call = ToolCall("1", "t", {"a": 1}, raw="<t/>")

    assert (call.name, call.params, call.input, call.raw) == ("t", {"a": 1}, {"a": 1}, "<t/>")
    assert ToolCall("1", "t", '{"a": 1}').params == {}


def test_a_valid_call_made_by_hand_sends_its_arguments() -> None:
    assert ValidCall("1", "t", {"a": 1}).sent == {"a": 1}


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (Text("t"), "t"),
        (Image(data=b"123", mime_type="image/png"), "[image image/png, 3 bytes]"),
        (Audio(data=b"1", mime_type="audio/wav"), "[audio audio/wav, 1 bytes]"),
        (File(name="a.pdf", mime_type="application/pdf"), "[file a.pdf application/pdf, 0 bytes]"),
    ],
)
def test_a_block_is_described_in_one_line(block: Any, text: str) -> None:
    assert describe(block) == text


def test_the_strictest_verdict_wins() -> None:
    assert strictest([]) == "allow"
    assert strictest(["ask", "allow"]) == "ask"
    assert strictest(["ask", "deny", "allow"]) == "deny"


@owes("perm-18")
def test_a_plans_digest_covers_effects_targets_and_both_contents() -> None:
    def plan(
        target: str = "a", before: bytes | None = b"x", after: bytes | None = b"y", mode: int | None = None
    ) -> str:
        change = Change(path="a", kind="modify", before=before, after=after, mode=mode)
        return Plan((Effect("write", target),), ChangeSet((change,)), private=object()).digest()

    digests = {plan(), plan(target="b"), plan(before=None), plan(after=b"z"), plan(mode=0o755)}

    assert len(digests) == 5
    assert plan() == plan()


def test_a_change_set_gives_its_effects() -> None:
    changes = ChangeSet(
        (
            Change(path="a", kind="create", before=None, after=b""),
            Change(path="b", kind="delete", before=b"", after=None),
            Change(path="c", kind="move", before=b"", after=b"", moved_to="d"),
            Change(path="e", kind="move", before=b"", after=b""),
        )
    )

    assert [str(e) for e in changes.effects()] == [
        "write a",
        "delete b",
        "delete c",
        "write d",
        "delete e",
        "write e",
    ]
    assert changes.changes[2].to_dict()["moved_to"] == "d"
    assert not ChangeSet()


@owes("X-05", "A-09", "A-10", "X-04")
def test_a_result_has_the_views_of_every_ledger() -> None:
    good, bad = ToolResult.from_text("t", data=[1]), ToolResult.failed(ToolError("Error: no", hint="do x"))

    assert (good.success, good.ok, str(good)) == (True, True, "t")
    assert good.to_dict() == {"success": True, "data": [1], "error": None, "metadata": good.metadata}
    assert ToolResult.from_text("t").to_dict()["data"] == "t"
    assert (bad.success, bad.ok) == (False, False)
    assert bad.to_dict() == {"success": False, "data": None, "error": "Error: no", "metadata": bad.metadata}
    assert bad.text == "Error: no\ndo x\n\n[Analyze the error above and try a different approach.]"


def test_errors_tell_message_hint_and_facts() -> None:
    error = ToolError("m", hint="h", details={"a": 1})

    assert str(error) == "m. h"  # Two sentences.
    assert str(ToolError("m?", hint="h")) == "m? h"
    assert str(ToolError("m")) == "m"
    assert error.to_dict()["details"] == {"a": 1}
    failure = ModelError("m", hint="h", retryable=True, status=429)
    assert (str(failure), failure.hint, failure.retryable, failure.status) == ("m. h", "h", True, 429)
    assert str(ModelError("m")) == "m"


def test_usage_adds_up_and_unknown_costs_stay_unknown() -> None:
    one, two = Usage(input_tokens=1, requests=1), Usage(input_tokens=2, output_tokens=3, cost_usd=0.5)

    assert one + two == Usage(input_tokens=3, output_tokens=3, requests=1, cost_usd=0.5)
    assert (one + one).cost_usd is None


def test_messages_show_their_text() -> None:
    assert UserMessage.of("a").text == "a"
    assert AssistantMessage(content=(Text("a"), Thinking("x"), Text("b"))).text == "ab"


def test_a_family_name_is_loaded_when_it_is_used() -> None:
    assert import_object("pegboard.core.content:ToolCall") is ToolCall


@owes("A-05")
@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("allow", Approved()),
        ("once", Approved()),
        ("yes", Approved()),
        (True, Approved()),
        ("session", Approved(scope="session")),
        ("always", Approved(scope="always")),
        ("deny", Refused()),
        ("no", Refused()),
        (False, Refused()),
        (None, Refused()),
        (Refused("x"), Refused("x")),
        (Waiting("approval", "k"), Waiting("approval", "k")),
    ],
)
def test_every_accepted_answer_means_what_it_says(word: Any, answer: Any) -> None:
    assert answer_of(word) == answer


@pytest.mark.parametrize("word", ["ALLOW", "maybe", 1.5, [], {"allow": True}])
def test_anything_else_is_a_no_that_says_so(word: Any) -> None:
    answer = answer_of(word)

    assert isinstance(answer, Refused)
    assert repr(word) in answer.reason


async def test_the_approvers_that_need_nobody() -> None:
    assert (await DenyAll("gone").decide(REQUEST)) == Refused("gone")
    assert (await AllowOnce().decide(REQUEST)) == Approved(by="--yes")
    assert (await SuspendAll().decide(REQUEST)) == Waiting("approval", "ap_1")


async def test_a_function_approves_sync_or_async() -> None:
    async def later(request: ApprovalRequest) -> str:
        return f"always {request.id}"

    assert await CallbackApprover(lambda request: "allow").decide(REQUEST) == "allow"
    assert await CallbackApprover(later).decide(REQUEST) == "always ap_1"


def test_calls_of_a_message_stand_in_order_and_a_change_tells_a_move_only_where_there_is_one() -> None:
    one, two = ToolCall("1", "a"), ToolCall("2", "b")

    assert AssistantMessage(content=(one, Text("x"), two)).calls == (one, two)
    assert "moved_to" not in Change(path="a", kind="modify", before=b"", after=b"").to_dict()


PLAN = Plan((Effect("write", "a"),))
BOUND_TO: dict[str, Any] = {
    "session": "s",
    "workspace": "/w",
    "policy": "p1",
    "environment": ("sandbox:bubblewrap", "PATH"),
}


@tool(effects=PURE)
def one(text: str) -> str:
    """Write."""
    return text


@tool(effects=PURE, name="one")
def other(text: str) -> str:
    """Write otherwise."""
    return text


@owes("G-04", "perm-18")
@pytest.mark.parametrize("change", [
    {"tool": other}, {"arguments": {"text": "y"}}, {"plan": Plan((Effect("write", "b"),))}, {"plan": Plan((Effect("delete", "a"),))},
    {"plan": Plan((Effect("write", "a", bound="x sha256:1"),))}, {"plan": Plan(PLAN.effects, ChangeSet((Change(path="a", kind="create", before=None, after=b"x"),)))},
    {"session": "t"}, {"workspace": "/v"}, {"policy": "p2"}, {"environment": ("sandbox:none", "PATH")}, {"environment": ("sandbox:bubblewrap",)},
], ids=str)  # fmt: skip
def test_a_yes_is_bound_to_all_that_decisions_name(change: dict[str, Any]) -> None:
    def digest(tool: Any = one, arguments: Any = {"text": "x"}, plan: Plan = PLAN, **more: Any) -> str:
        return approval_digest(tool, arguments, plan, **{**BOUND_TO, **more})

    assert digest() == digest()
    assert digest(**change) != digest()
