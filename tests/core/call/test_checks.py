"""What a developer hands over wrongly is told where it was handed over, and says what to give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pegboard import (
    PURE,
    Agent,
    BuildError,
    CallbackApprover,
    ConfigError,
    Executor,
    Limits,
    MCPServer,
    Policy,
    Registry,
    Rule,
    Tool,
    ToolCall,
    ToolError,
    Toolkit,
    builtin,
    run_sync,
    tool,
)
from pegboard.dialects import dialect
from pegboard.files.jail import Jail
from pegboard.models import ScriptedModel
from pegboard.shell.guard import judge
from pegboard.web.guard import judge_url


@tool(effects=PURE)
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def plain() -> int:
    """Nothing."""
    return 1


WRONG: tuple[Any, ...] = (None, 1, 1.5, True, b"x", object(), [1], {"a": 1}, plain)
TAKEN: dict[str, tuple[Callable[[Any], object], tuple[Any, ...]]] = {
    # the call, and which of the wrong values it takes after all
    "kit": (lambda x: Toolkit([x]), ()),
    "kit of one": (lambda x: Toolkit(x), ()),
    "executor": (lambda x: Executor(x), ()),
    "kit[…]": (lambda x: Toolkit([add])[x], ()),
    "keep": (lambda x: Toolkit([add]).keep(x), ()),
    "without": (lambda x: Toolkit([add]).without(x), ()),
    "prefixed": (lambda x: Toolkit([add]).prefixed(x), ()),
    "renamed": (lambda x: Toolkit([add]).renamed(x), ()),
    "profile": (lambda x: Toolkit([add]).profile(x), ()),
    "schemas": (lambda x: Toolkit([add]).schemas(x), ()),
    "registry": (lambda x: Registry(x), (None,)),
    "registry's kit": (lambda x: Registry([add]).toolkit(x), ()),
    "register": (lambda x: Registry().register(x), ()),
    "builtin": (lambda x: builtin(x), ()),
    "dialect": (lambda x: dialect(x), ()),
    "tool": (lambda x: Tool(x), ()),
    "tool's name": (lambda x: tool(name=x, effects=PURE)(plain), (None,)),
    "tool's description": (lambda x: tool(description=x, effects=PURE)(plain), (None,)),
    "tool's effects": (lambda x: tool(effects=x)(plain), (plain,)),
    "tool's time": (lambda x: tool(timeout_s=x, effects=PURE)(plain), (None, 1, 1.5)),
    "tool's parameters": (lambda x: tool(parameters=x, effects=PURE)(plain), (None, {"a": 1})),
    "tool's touches": (lambda x: tool(touches=x, effects=PURE)(plain), (None,)),
    "tool's plan": (lambda x: tool(plan=x, effects=PURE)(plain), (plain, None)),
    "tool's example": (lambda x: tool(example=x, effects=PURE)(plain), (None, {"a": 1})),
    "provide": (lambda x: Executor([add], provide=x), (None, [1])),
    "middleware": (lambda x: Executor([add], middleware=x), (None,)),
    "hooks": (lambda x: Executor([add], hooks=x), (None,)),
    "policy": (lambda x: Executor([add], policy=x), (None,)),
    "mode": (lambda x: Executor([add], mode=x), (None,)),
    "approver": (lambda x: Executor([add], approver=x), (None, plain)),
    "workspace": (lambda x: Executor([add], workspace=x), (None,)),
    "callback": (lambda x: CallbackApprover(x), (plain,)),
    "rule": (lambda x: Rule.parse(x), ()),
    "rules": (lambda x: Policy(rules=x), (None,)),
    "turns": (lambda x: Limits(turns=x), (None, 1, 1.5)),
    "soft": (lambda x: Limits(soft=x), (1,)),
    "tool_calls": (lambda x: Limits(tool_calls=x), ({"a": 1},)),
    "limits": (lambda x: Agent(tools=[add], limits=x), (None,)),
    "model": (lambda x: Agent(tools=[add], model=x), (None,)),
    "output": (lambda x: Agent(tools=[add], output=x), (None, plain, {"a": 1})),
    "instructions": (lambda x: Agent(tools=[add], instructions=x), (None,)),
    "task": (lambda x: Agent(tools=[add], model=script()).run_sync(x), ()),
    "streamed task": (lambda x: Agent(tools=[add], model=script()).stream(x), ()),
    "session": (lambda x: Agent(tools=[add], model=script()).run_sync("hi", session=x), (None,)),
    "script": (lambda x: ScriptedModel(x), (None,)),
    "scripted turn": (lambda x: ScriptedModel([x]), (plain,)),
    "server": (lambda x: MCPServer(x, command="x"), ()),
    "server's arguments": (lambda x: MCPServer("s", command="x", args=x), (None, [1])),
    "run_sync": (lambda x: run_sync(x), ()),
    "command": (lambda x: judge(x, workspace=Path()), ()),
    "command's workspace": (lambda x: judge("ls", workspace=x), ()),
    "resolver": (lambda x: judge_url("http://example.com", resolve=x), (plain,)),
}


def script() -> ScriptedModel:
    return ScriptedModel([{"text": "done"}])


@pytest.mark.parametrize("what", TAKEN)
def test_a_wrong_value_is_a_build_error_that_names_what_is_taken(what: str) -> None:
    give, fine = TAKEN[what]
    for value in WRONG:
        if any(value is one or (value == one and type(value) is type(one)) for one in fine):
            if what not in ("tool's effects", "resolver"):
                give(value)
            continue
        with pytest.raises(BuildError) as told:
            give(value)
        assert len(str(told.value)) > 15, (what, value)


@pytest.mark.parametrize("given", [{}, {"name": "add"}, None, "add", ("1", "add", {})])
async def test_a_turn_of_something_else_than_calls_says_what_a_call_is(given: Any) -> None:
    door = Executor([add])

    for calls in ([given], given, [ToolCall("1", "add", {"a": 1}), given]):
        if calls is None:  # no calls
            continue
        with pytest.raises(BuildError, match="ToolCall"):
            await door.turn(calls)


@pytest.mark.parametrize("given", [add, plain, object(), b"add", add.name.encode()])
async def test_a_call_by_an_object_says_to_call_it_by_name(given: Any) -> None:
    door = Executor([add])

    with pytest.raises(BuildError, match=r"called by its name.*tool\.name"):
        await door.call(given, {"a": 1})
    with pytest.raises(BuildError, match="called by its name"):
        await door.preview(given, {"a": 1})


@pytest.mark.parametrize("name", [None, 7, 1.5, [], ["add"], {}, {"name": "add"}, True])
async def test_json_in_the_place_of_a_name_is_an_unknown_tool_and_never_raises(name: Any) -> None:
    door = Executor([add])

    called = await door.call(name, {"a": 1})
    (turned,) = await door.turn([ToolCall("1", name, {"a": 1})])
    looked = await door.preview(name, {"a": 1})

    for error in (called.error, turned.error, looked.error):
        assert error is not None and error.code == "unknown_tool" and "add" in str(error)


async def test_an_exception_as_the_message_of_a_tool_error_is_told_as_its_text() -> None:
    @tool(effects=PURE)
    def fails() -> str:
        """Fail."""
        raise ToolError(ValueError("row 3 is full"))  # pyright: ignore[reportArgumentType]

    result = await Executor([fails]).call("fails", {})

    assert str(result).startswith("Error: row 3 is full")
    assert str(ToolError(None)) == "None"  # pyright: ignore[reportArgumentType]


def test_one_tool_is_as_good_as_a_list_of_one() -> None:
    assert Toolkit(add).names == Toolkit([add]).names == Registry(add).toolkit().names == ("add",)


def test_a_policy_reads_its_rules_from_lines_too() -> None:
    assert Policy(rules=["deny exec:**"]) == Policy(rules=(Rule.parse("deny exec:**"),))


def test_an_empty_workspace_is_no_folder_and_not_the_current_one() -> None:
    with pytest.raises(ConfigError, match="the path of a folder"):
        Executor(builtin("read_file"), workspace="")


@pytest.mark.parametrize("value", [None, 1, b"x", [], object()])
def test_a_jail_refuses_what_is_no_path_and_no_bytes(value: Any, tmp_path: Path) -> None:
    jail = Jail(tmp_path)

    for act in (jail.read_bytes, jail.delete, jail.mkdir, jail.list, jail.glob, Jail):
        with pytest.raises(ToolError, match="is not a path"):
            act(value)
    with pytest.raises(ToolError, match="is not a path"):
        jail.write_bytes(value, b"")
    for data in ("text", None, 1):
        with pytest.raises(ToolError, match="bytes"):
            jail.write_bytes("a.txt", data)  # pyright: ignore[reportArgumentType]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [None, 1, b"http://example.com", []])
def test_what_is_no_text_is_no_address_to_fetch(value: Any) -> None:
    verdict = judge_url(value, resolve=lambda host: ["93.184.215.14"])

    assert not verdict.allowed and "text" in verdict.reason
