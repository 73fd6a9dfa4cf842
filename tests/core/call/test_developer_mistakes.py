"""Slips of a tool's developer: told where they are made, or in the developer's own log, never passed over."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pegboard import (
    PURE,
    BuildError,
    CallbackApprover,
    Effect,
    Executor,
    Limits,
    Plan,
    ToolError,
    run_sync,
    tool,
)
from pegboard.core.policy.approval import DenyAll, approver_of
from pegboard.core.result import Shaper
from pegboard.core.secrets.redact import Redactor


def result_of(door: Executor, name: str) -> Any:
    return run_sync(door.call(name, {}))


@pytest.mark.parametrize(
    "made",
    [
        [Effect("snd", "mail:x")],  # type: ignore[arg-type]
        [Effect("read", None)],  # type: ignore[arg-type]
        ["read a.txt"],
        "read",
        None,
        7,
        Effect("read", "a.txt"),
    ],
)
@pytest.mark.parametrize("how", ["effects", "plan"])
def test_an_effect_that_no_rule_can_name_never_runs_in_any_mode(made: Any, how: str) -> None:
    ran: list[int] = []

    def function() -> str:
        """Do."""
        ran.append(1)
        return "ran"

    def plan(call: Any, context: Any) -> Any:
        return Plan(tuple(made)) if isinstance(made, list) else made

    made_by = {"effects": lambda arguments: made} if how == "effects" else {"plan": plan}
    door = Executor([tool(name="slip", **made_by)(function)], mode="full", policy=["deny send", "deny read"])

    result = result_of(door, "slip")

    assert result.error.code == "internal_error"
    assert "'slip'" in result.error.message
    assert ran == []


def test_a_plan_that_awaits_is_held_to_the_same() -> None:
    async def plan(call: Any, context: Any) -> Any:
        return Plan((Effect("snd", "x"),))  # type: ignore[arg-type]

    @tool(plan=plan)
    def slip() -> str:
        """Do."""
        return "ran"

    assert "is not an effect" in result_of(Executor([slip], mode="full"), "slip").error.message


def test_a_generator_is_refused_when_the_tool_is_made() -> None:
    def parts() -> Any:
        yield 1

    async def more() -> Any:
        yield 1

    for function in (parts, more):
        with pytest.raises(BuildError, match=f"tool {function.__name__!r} is a generator"):
            tool(effects=PURE)(function)


def test_a_command_line_parser_inside_a_tool_does_not_end_the_program() -> None:
    import argparse

    @tool(effects=PURE)
    def parse() -> str:
        """Parse."""
        return str(argparse.ArgumentParser(prog="inner").parse_args(["--nope"]))

    result = result_of(Executor([parse]), "parse")

    # argparse ends with status 2 after a wrong argument (its documentation, "exit_on_error").
    assert result.error.code == "internal_error"
    assert "sys.exit(2)" in result.error.message


def test_the_traceback_of_a_tool_goes_to_logging_without_secrets_and_not_to_the_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(effects=PURE)
    def inner_place() -> str:
        """Break."""
        raise ValueError("bad key s3cr3t-value-12345")

    door = Executor([inner_place])
    door.pipeline.parts.shaper = Shaper(redactor=Redactor({"KEY": "s3cr3t-value-12345"}))
    with caplog.at_level(logging.ERROR, logger="pegboard"):
        result = result_of(door, "inner_place")

    (record,) = caplog.records
    assert record.name == "pegboard.tools"
    assert "Traceback" in record.message and "in inner_place" in record.message
    assert "s3cr3t" not in record.message
    assert "Traceback" not in str(result)


def test_what_a_tool_raises_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool(effects=PURE)
    def seat() -> str:
        """Seat."""
        raise ToolError("full", hint="Try another.")

    with caplog.at_level(logging.DEBUG, logger="pegboard"):
        result_of(Executor([seat]), "seat")

    assert caplog.records == []


@tool(effects=[Effect("send", "mail:x")])
def mail() -> str:
    """Mail."""
    return "sent"


class PlainDesk:
    def decide(self, request: Any) -> str:
        return "allow"


async def later(request: Any) -> str:
    return "allow"


@pytest.mark.parametrize("approver", [PlainDesk(), later, lambda request: True, CallbackApprover(later)])
def test_an_approver_may_be_plain_or_a_function(approver: Any) -> None:
    assert str(result_of(Executor([mail], approver=approver), "mail")) == "sent"


@pytest.mark.parametrize("given", [3, "allow", object(), PlainDesk])
def test_what_cannot_decide_is_refused_when_the_executor_is_made(given: Any) -> None:
    with pytest.raises(BuildError, match="is not an approver"):
        Executor([mail], approver=given)


def test_an_approver_that_fits_is_taken_as_it_is() -> None:
    desk = DenyAll()

    assert approver_of(desk) is desk


def test_a_policy_may_be_one_rule_some_lines_or_a_file(tmp_path: Any) -> None:
    file = tmp_path / "rules.txt"
    file.write_text("# mail may go\nallow send:mail:*\n")

    for policy in ("allow send", "# all\n\nallow send\n", file, ["allow send"]):
        assert result_of(Executor([mail], policy=policy), "mail").ok, policy


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"turns": 0}, "turns=0"),
        ({"money": -1.0}, "money=-1.0"),
        ({"wall_s": float("nan")}, "wall_s=nan"),
        ({"tool_calls": {"exec": 0}}, r"tool_calls\['exec'\]=0"),
        ({"soft": 1.5}, "soft=1.5"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(BuildError, match=said):
        Limits(**limits)
