"""Hooks see a call with its effects, refuse it, have it asked, answer for a person, and speak to the model afterwards."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest import raises

from pegboard import (
    PURE,
    BuildError,
    ConfigError,
    Executor,
    Hook,
    ToolCall,
    ToolError,
    Toolkit,
    builtin,
    tool,
)
from pegboard.core.events import CallStarted
from pegboard.core.policy.approval import ApprovalRequest
from pegboard.interop.hooks import MAX_OUTPUT, HookFunction
from tests.waiting import until


@tool(effects=PURE)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effects=PURE)
async def broken() -> int:
    """Always fail."""
    raise ToolError("out of paper")


def script(folder: Path, text: str) -> str:
    """A command that runs a Python program, which has the payload as `call`."""
    file = folder / f"hook{len(list(folder.glob('hook*.py')))}.py"
    file.write_text(f"import json, sys\ncall = json.load(sys.stdin)\n{text}\n")
    return f"{sys.executable} {file}"


def before(run: str | tuple[str, ...] | HookFunction, **more: Any) -> Hook:
    return Hook(event="PreToolUse", run=run, **more)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("hello\n")
    return folder


def files(work: Path, *hooks: Any, **more: Any) -> Executor:
    kit = builtin("read_file", "write_file", "edit_file", "exec", "delete_file", "apply_patch")
    return Executor(kit, workspace=work, hooks=hooks, **more)


# -- what a hook is told ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matcher", "name", "key", "value"),
    [
        ("Write", "Write", "file_path", "{work}/b.txt"),
        ("write_file", "write_file", "path", "b.txt"),
        ("Edit|Write", "Write", "file_path", "{work}/b.txt"),
        ("^Wri", "Write", "file_path", "{work}/b.txt"),
        ("", "write_file", "path", "b.txt"),
        ("*", "write_file", "path", "b.txt"),
        ("developer__write", "developer__write", "file_path", "{work}/b.txt"),
    ],
)
async def test_a_hook_is_told_the_call_in_the_words_of_its_matcher(
    work: Path, matcher: str, name: str, key: str, value: str
) -> None:
    told: list[dict[str, Any]] = []

    result = await files(work, before(told.append, matcher=matcher)).call(
        "write_file", {"path": "b.txt", "content": "x"}, id="c1"
    )

    assert result.ok, result.text
    (call,) = told
    assert call["tool_name"] == name
    assert call["tool_input"] == {key: value.format(work=work), "content": "x"}
    assert call["tool_use_id"] == "c1" and call["session_id"] == "local"
    assert call["hook_event_name"] == "PreToolUse" and call["cwd"] == str(work)
    assert call["effects"] == [{"kind": "write", "target": "b.txt"}]


async def test_a_matcher_for_edits_sees_patches_too(work: Path) -> None:
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n-hello\n+bye\n*** End Patch"

    result = await files(work, before(lambda _: "deny", matcher="Edit|Write")).call(
        "apply_patch", {"patch": patch}
    )

    assert result.error is not None and result.error.code == "permission_denied"
    assert (work / "a.txt").read_text() == "hello\n"


@pytest.mark.parametrize("matcher", ["Read", "Writ", "read_file|glob", "^ite$", "write"])
async def test_a_hook_for_other_tools_stays_silent(work: Path, matcher: str) -> None:
    hooked = files(work, before(lambda _: "deny", matcher=matcher))

    assert (await hooked.call("write_file", {"path": "b.txt", "content": "x"})).ok


async def test_a_command_reads_the_same_from_standard_input(work: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    command = script(tmp_path, f"open({str(seen)!r}, 'w').write(json.dumps(call))")

    await files(work, before(command, matcher="Bash")).call("exec", {"command": "echo hi"}, id="c7")

    call = json.loads(seen.read_text())
    assert (call["tool_name"], call["tool_input"]["command"], call["tool_use_id"]) == (
        "Bash",
        "echo hi",
        "c7",
    )
    assert call["effects"] == [{"kind": "exec", "target": "echo hi"}]


# -- refusing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "print('no deletions', file=sys.stderr); sys.exit(2)",
        "print(json.dumps({'decision': 'block', 'reason': 'no deletions'}))",
        "print(json.dumps({'decision': 'deny', 'reason': 'no deletions'}))",
        "print(json.dumps({'decision': 'block', 'reason': 'no deletions'})); sys.exit(1)",
        "print(json.dumps({'continue': False, 'stopReason': 'no deletions'}))",
        "print(json.dumps({'hookSpecificOutput': {'hookEventName': 'PreToolUse', 'permissionDecision': 'deny',"
        " 'permissionDecisionReason': 'no deletions'}}))",
    ],
)
async def test_a_command_refuses_by_its_exit_status_or_its_answer(
    work: Path, tmp_path: Path, answer: str
) -> None:
    executor = files(work, before(script(tmp_path, answer), name="guard"))

    result = await executor.call("delete_file", {"path": "a.txt"})

    assert result.error is not None and result.error.code == "permission_denied"
    assert result.error.message == "delete_file was refused by hook guard: no deletions"
    assert (work / "a.txt").exists()
    (started,) = [e for e in executor.events if isinstance(e, CallStarted)]
    assert (started.decision, started.rule, started.approver) == ("deny", "hook guard", "hook guard")
    assert started.reason == "no deletions" and started.effects[0].target == "a.txt"


async def test_the_strictest_of_several_hooks_decides() -> None:
    hooks = [before(lambda _: "allow"), before(lambda _: "deny", name="no"), before(lambda _: None)]

    result = await Executor([add], hooks=hooks).call("add", {"a": 1, "b": 2})

    assert result.error is not None and "hook no" in result.error.message


async def test_changed_arguments_refuse_the_call_that_would_run_without_them() -> None:
    change = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"a": 0, "b": 0}}}

    result = await Executor([add], hooks=[before(lambda _: change)]).call("add", {"a": 1, "b": 2})

    assert result.error is not None and "changes the arguments" in result.error.message


async def test_a_call_that_the_policy_denies_reaches_no_hook(work: Path) -> None:
    told: list[Any] = []

    def allow(call: dict[str, Any]) -> str:
        told.append(call)
        return "allow"

    hooked = files(work, before(allow), policy=["deny write:b.txt"])
    result = await hooked.call("write_file", {"path": "b.txt", "content": "x"})

    assert result.error is not None and result.error.code == "permission_denied"
    assert told == [] and not (work / "b.txt").exists()


async def test_an_allow_lifts_no_ceiling(work: Path) -> None:
    hooked = files(work, before(lambda _: "allow"), mode="read-only")

    assert not (await hooked.call("write_file", {"path": "b.txt", "content": "x"})).ok


# -- asking -------------------------------------------------------------------------------------------


def asker(said: list[ApprovalRequest], answer: str = "deny") -> Callable[[ApprovalRequest], str]:
    def decide(request: ApprovalRequest) -> str:
        said.append(request)
        return answer

    return decide


async def test_a_hook_has_a_call_asked_that_would_just_run() -> None:
    asked: list[ApprovalRequest] = []
    ask = {"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "sums cost money"}}
    executor = Executor([add], hooks=[before(lambda _: ask)], approver=asker(asked, "allow"))

    result = await executor.call("add", {"a": 1, "b": 2})

    assert result.ok and [r.reason for r in asked] == ["sums cost money"]


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
async def test_a_hook_of_the_user_answers_in_a_persons_place(work: Path, event: str) -> None:
    asked: list[ApprovalRequest] = []
    hook = Hook(event=event, run=lambda _: "allow", name="yes")
    executor = files(work, hook, mode="ask", approver=asker(asked))

    result = await executor.call("exec", {"command": "touch b.txt"})

    assert result.ok and asked == []
    (started,) = [e for e in executor.events if isinstance(e, CallStarted)]
    assert started.approver == "hook yes"


async def test_a_hook_of_a_project_answers_nothing_with_yes(work: Path) -> None:
    asked: list[ApprovalRequest] = []
    hooks = [Hook(event=e, run=lambda _: "allow", own=False) for e in ("PreToolUse", "PermissionRequest")]

    result = await files(work, *hooks, mode="ask", approver=asker(asked)).call(
        "exec", {"command": "touch b.txt"}
    )

    assert not result.ok and len(asked) == 1


async def test_no_hook_answers_what_only_a_person_may(work: Path) -> None:
    asked: list[ApprovalRequest] = []
    hook = Hook(event="PermissionRequest", run=lambda _: "allow")

    result = await files(work, hook, approver=asker(asked)).call(
        "write_file", {"path": ".envrc", "content": "x"}
    )

    assert not result.ok and [r.person for r in asked] == [True]


async def test_a_permission_request_is_refused_with_the_hooks_words(work: Path) -> None:
    answer = {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "not today"}}}
    asked: list[ApprovalRequest] = []
    executor = files(
        work, Hook(event="PermissionRequest", run=lambda _: answer), mode="ask", approver=asker(asked)
    )

    result = await executor.call("exec", {"command": "touch b.txt"})

    assert result.error is not None and "not today" in result.error.message and asked == []


async def test_a_notification_comes_before_the_question(work: Path) -> None:
    order: list[str] = []
    hook = Hook(event="Notification", run=lambda n: order.append(n["notification_type"]))

    def decide(_: ApprovalRequest) -> str:
        order.append("asked")
        return "deny"

    await files(work, hook, mode="ask", approver=decide).call("exec", {"command": "touch b.txt"})

    assert order == ["permission_prompt", "asked"]


# -- after the call -----------------------------------------------------------------------------------


async def test_what_a_hook_says_afterwards_stands_behind_the_result() -> None:
    told: list[dict[str, Any]] = []

    def say(call: dict[str, Any]) -> dict[str, Any]:
        told.append(call)
        return {"hookSpecificOutput": {"additionalContext": "remember the units"}}

    result = await Executor([add], hooks=[Hook(event="PostToolUse", run=say)]).call("add", {"a": 1, "b": 2})

    assert result.ok and result.data == 3
    assert str(result) == "3\n\n[from a hook]\nremember the units"
    assert told[0]["tool_response"] == "3"


async def test_a_block_afterwards_tells_the_model_and_undoes_nothing(tmp_path: Path) -> None:
    command = script(tmp_path, "print('line too long', file=sys.stderr); sys.exit(2)")
    executor = Executor([add], hooks=[Hook(event="PostToolUse", run=command, name="lint")])

    result = await executor.call("add", {"a": 1, "b": 2})

    assert result.ok and str(result).endswith("hook lint: line too long")


async def test_a_failed_call_has_an_event_of_its_own_and_a_refused_one_none() -> None:
    told: list[str] = []
    hooks = [
        Hook(event="PostToolUseFailure", run=lambda c: told.append(f"failed: {c['error']}")),
        Hook(event="PostToolUse", run=lambda _: told.append("done")),
        before(lambda _: "deny", matcher="add"),
    ]
    executor = Executor([add, broken], hooks=hooks)

    await executor.call("broken", {})
    await executor.call("add", {"a": 1, "b": 2})

    assert told == ["failed: out of paper"]


async def test_secrets_that_a_hook_prints_reach_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "tok-31415926535897")
    command = script(tmp_path, "print('the token is tok-31415926535897', file=sys.stderr); sys.exit(2)")

    result = await Executor([add], hooks=[before(command)]).call("add", {"a": 1, "b": 2})

    assert not result.ok and "the token is" in result.text and "31415926" not in result.text


# -- failing ------------------------------------------------------------------------------------------

FAILURES = {
    "status": ("sys.exit(1)", "ended with exit status 1"),
    "killed": (f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", "ended with exit status 137"),
    "bad JSON": ("print('{oops')", "wrote JSON that cannot be read"),
    "another word": ("print(json.dumps({'decision': 'perhaps'}))", "none of allow, ask, deny, block"),
    "too much": (f"print('{{' + 'x' * {MAX_OUTPUT + 10})", f"wrote more than {MAX_OUTPUT} bytes"),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("on_failure", ["allow", "block"])
async def test_on_failure_decides_about_the_call(tmp_path: Path, failure: str, on_failure: Any) -> None:
    answer, why = FAILURES[failure]
    executor = Executor([add], hooks=[before(script(tmp_path, answer), name="guard", on_failure=on_failure)])
    warned: list[str] = []
    executor.on_warning = warned.append

    result = await executor.call("add", {"a": 1, "b": 2})

    assert result.ok == (on_failure == "allow")
    assert len(warned) == 1 and warned[0].startswith("hook guard failed: ") and why in warned[0]
    assert result.notes.extra["hooks"] == warned


async def test_a_program_that_is_not_there_is_a_failure() -> None:
    hook = before(("/nonexistent/guard",), on_failure="block")

    result = await Executor([add], hooks=[hook]).call("add", {"a": 1, "b": 2})

    assert result.error is not None and "could not be started" in result.error.message


async def test_a_function_that_breaks_lets_no_call_pass() -> None:
    def guard(_: dict[str, Any]) -> None:
        raise KeyError("size")

    result = await Executor([add], hooks=[before(guard)]).call("add", {"a": 1, "b": 2})

    assert result.error is not None and "raised KeyError" in result.error.message


async def test_a_hook_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = f"sleep 60 & echo $! > {pid}; cat > /dev/null; sleep 60"

    result = await Executor([add], hooks=[before(command, timeout_s=0.5, on_failure="block")]).call(
        "add", {"a": 1, "b": 2}
    )

    assert result.error is not None and "did not end within 0.5 s and was ended" in result.error.message
    child = int(pid.read_text())
    until(lambda: not _runs(child), "the end of the child")


async def test_what_a_hook_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    result = await Executor([add], hooks=[before(f"sleep 60 & echo $! > {pid}")]).call(
        "add", {"a": 1, "b": 2}
    )

    assert result.ok
    until(lambda: not _runs(int(pid.read_text())), "the end of what it left")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


async def test_a_hook_gets_none_of_the_programs_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-hooks")
    monkeypatch.setenv("SLACK_URL", "http://127.0.0.1")
    seen = tmp_path / "seen"

    await Executor([add], hooks=[before(f"env > {seen}", passed=("SLACK_URL",))]).call(
        "add", {"a": 1, "b": 2}
    )

    assert "OPENAI_API_KEY" not in seen.read_text() and "SLACK_URL=http://127.0.0.1" in seen.read_text()


# -- giving hooks -------------------------------------------------------------------------------------


async def test_functions_of_a_turn_and_files_are_given_beside_hooks(tmp_path: Path) -> None:
    turns: list[int] = []

    async def count(calls: Any, context: Any) -> None:
        turns.append(len(calls))

    file = tmp_path / "hooks.json"
    file.write_text(
        json.dumps(
            {
                "hooks": {
                    "PreToolUse": [{"matcher": "add", "hooks": [{"type": "command", "command": "exit 2"}]}]
                }
            }
        )
    )
    executor = Executor([add], hooks=[count, file])

    (result,) = await executor.turn([ToolCall("1", "add", {"a": 1, "b": 2})])

    assert turns == [1]
    assert result.error is not None and result.error.message == "add was refused by hook exit: exit status 2"


@pytest.mark.parametrize(
    "wrong",
    [
        {"event": "BeforeTool", "run": "true"},
        {"event": "PreToolUse", "run": ""},
        {"event": "PreToolUse", "run": "true", "matcher": "("},
        {"event": "PreToolUse", "run": "true", "timeout_s": 0},
        {"event": "PreToolUse", "run": "true", "on_failure": "stop"},
    ],
)
def test_a_hook_that_cannot_work_is_told_when_it_is_made(wrong: dict[str, Any]) -> None:
    with raises(BuildError):
        Hook(**wrong)


def test_what_is_no_hook_is_told(tmp_path: Path) -> None:
    with raises(BuildError, match=r"and 7 .* is not one"):
        Executor(Toolkit([add]), hooks=[7])  # pyright: ignore[reportArgumentType]
    with raises(ConfigError):
        Executor(Toolkit([add]), hooks=[tmp_path / "missing.json"])
