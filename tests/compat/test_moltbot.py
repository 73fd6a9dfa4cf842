"""The code examples of document 003, in Python, run on our executor."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pytest import raises

from pegboard import BuildError, Executor, Image
from pegboard.compat import moltbot
from pegboard.compat.moltbot import (
    AgentTool,
    MoltbotOptions,
    image_result,
    json_result,
    read_number_param,
    read_string_array_param,
    read_string_param,
    text_result,
)
from pegboard.core.errors import InvalidArguments
from pegboard.core.events import CallUpdate
from tests.ledger import owes

SCHEMA = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


def create_my_tool(config: dict[str, Any] | None = None) -> dict[str, Any]:
    """3.1 of the document."""

    async def execute(tool_call_id: str, params: dict[str, Any], signal: Any, on_update: Any) -> Any:
        text = read_string_param(params, "input", required=True)
        on_update({"status": "working", "call": tool_call_id})
        return json_result({"status": "ok", "result": text, "config": config})

    return {
        "name": "my_tool",
        "description": "Tool description",
        "parameters": SCHEMA,
        "execute": execute,
    }


@owes("M-43", "M-44", "K-14", "X-01")
async def test_a_factory_tool_gets_call_id_params_signal_and_streams_updates() -> None:
    door = Executor([moltbot.agent_tool(create_my_tool({"a": 1}))])

    result = await door.call("my_tool", {"input": "hello"}, id="c1")

    assert result.data == {"status": "ok", "result": "hello", "config": {"a": 1}}
    assert '"status": "ok"' in str(result)
    updates = [e.update for e in door.events if isinstance(e, CallUpdate)]
    assert updates == [{"status": "working", "call": "c1"}]


@owes("M-44", "X-01")
async def test_a_plain_dict_in_a_toolkit_is_opaque_and_asks() -> None:
    assert (await Executor([create_my_tool()]).preview("my_tool", {"input": "x"})).decision == "ask"
    assert (
        await Executor([moltbot.agent_tool(create_my_tool())]).preview("my_tool", {"input": "x"})
    ).decision == "allow"


@owes("M-44", "K-15")
async def test_a_cancelled_call_sets_the_signal() -> None:
    started, told = asyncio.Event(), []

    async def execute(tool_call_id: str, params: Any, signal: Any, on_update: Any) -> Any:
        signal.add_event_listener("abort", lambda: told.append(signal.reason))
        assert not signal.aborted
        started.set()
        await asyncio.Event().wait()

    tool = AgentTool(name="slow", description="Wait.", parameters=SCHEMA, execute=execute)
    call = asyncio.ensure_future(Executor([tool]).call("slow", {"input": "x"}))
    await asyncio.wait_for(started.wait(), 5)
    call.cancel()
    with raises(asyncio.CancelledError):
        await call

    assert told == ["the call was cancelled"]


@owes("K-15")
def test_an_abort_signal_that_is_set_says_so_at_once() -> None:
    signal, told = moltbot.AbortSignal(), []
    signal.throw_if_aborted()
    signal.abort("enough")
    signal.abort("again")
    signal.add_event_listener("abort", lambda: told.append(1))

    assert signal.aborted
    assert signal.reason == "enough"
    assert told == [1]
    with raises(Exception, match="enough"):
        signal.throw_if_aborted()
    with raises(ValueError, match="'abort', not 'load'"):
        signal.add_event_listener("load", lambda: None)


@owes("M-44")
async def test_trailing_arguments_may_be_left_out_and_sync_functions_run_too() -> None:
    tool = AgentTool(
        name="short", description="Short.", parameters=SCHEMA, execute=lambda call_id, params: params["input"]
    )

    assert str(await Executor([tool]).call("short", {"input": "hi"})) == "hi"


@owes("M-44")
@pytest.mark.parametrize(
    "execute",
    [
        lambda i, p, s, u: [i, p, s.aborted],
        # Names of the tool's own parameters, a gathering of all, defaults: the place alone counts.
        lambda input, path, n=None, m=None: [input, path, n.aborted],
        lambda *given: [given[0], given[1], given[2].aborted],
    ],
)
async def test_a_factorys_execute_is_called_by_position_whatever_it_calls_its_parameters(
    execute: Any,
) -> None:
    dict_tool = moltbot.agent_tool(
        {"name": "a", "description": "d", "parameters": SCHEMA, "execute": execute}
    )
    object_tool = AgentTool(name="b", description="d", parameters=SCHEMA, execute=execute)
    door = Executor([dict_tool, object_tool])

    for name in ("a", "b"):
        result = await door.call(name, {"input": "hi"}, id="c1")
        assert result.data == ["c1", {"input": "hi"}, False]


@owes("M-48", "M-49")
async def test_results_read_as_in_the_document() -> None:
    found = json_result({"status": "ok"})
    picture = await image_result(label="shot", path="/p.png", base64=PNG)

    assert found["content"][0]["type"] == "text"
    assert json.loads(found["content"][0]["text"]) == found["details"] == {"status": "ok"}
    assert [b["type"] for b in picture["content"]] == ["text", "image"]
    assert picture["content"][1] == {"type": "image", "data": PNG, "mimeType": "image/png", "label": "shot"}
    assert picture["details"]["path"] == "/p.png"


async def test_typed_parameters_may_be_a_model_class() -> None:
    class Parameters(BaseModel):
        count: int

    tool = AgentTool(
        name="typed",
        description="Typed.",
        parameters=Parameters,
        execute=lambda call_id, params: params["count"],
    )

    assert (await Executor([tool]).call("typed", {"count": "3"})).data == 3


@owes("M-45", "M-46", "M-47", "X-08")
def test_the_parameter_readers() -> None:
    params = {"key": " a ", "count": "3", "items": ["x", "y"]}

    assert read_string_param(params, "key", required=True) == "a"
    assert read_number_param(params, "count", integer=True) == 3
    assert read_string_array_param(params, "items") == ["x", "y"]
    assert moltbot.readStringParam is read_string_param
    with raises(InvalidArguments, match="is required but missing"):
        read_string_param(params, "nothing", required=True)


@owes("M-48", "M-49", "M-50", "X-04")
async def test_json_image_and_text_results() -> None:
    async def shot(tool_call_id: str, params: Any) -> Any:
        return await image_result(
            label="screenshot", path="/path/to/image.png", base64=PNG, mime_type="image/png"
        )

    tools = [
        moltbot.agent_tool({"name": "shot", "description": "d", "parameters": SCHEMA, "execute": shot}),
        AgentTool(name="text", description="d", parameters=SCHEMA,
                  execute=lambda call_id, params: text_result("Operation successful")),
        AgentTool(name="json", description="d", parameters=SCHEMA,
                  execute=lambda call_id, params: json_result({"n": 1, "ü": [None]})),
        AgentTool(name="bad", description="d", parameters=SCHEMA, execute=lambda call_id, params: {
            "content": [{"type": "text", "text": "went wrong"}], "isError": True}),
        AgentTool(name="mixed", description="d", parameters=SCHEMA, execute=lambda call_id, params: {
            "content": [{"type": "image", "data": PNG, "mimeType": "image/png"},
                        {"type": "audio", "data": PNG}, {"type": "image", "data": "%"}, {"type": "odd"}],
            "details": {"n": 1}}),
    ]  # fmt: skip
    door = Executor(tools)

    picture = await door.call("shot", {"input": "x"})
    assert isinstance(picture.content[1], Image)
    assert picture.content[1].data == base64.b64decode(PNG)
    assert picture.content[1].label == "screenshot"
    assert "MEDIA:/path/to/image.png" in str(picture)
    assert picture.data["label"] == "screenshot"
    assert picture.data["path"] == "/path/to/image.png"
    assert picture.data["mimeType"] == "image/png"
    assert str(await door.call("text", {"input": "x"})) == "Operation successful"
    given = await door.call("json", {"input": "x"})
    assert given.data == {"n": 1, "ü": [None]}
    assert json.loads(str(given)) == given.data and "ü" in str(given)
    bad = await door.call("bad", {"input": "x"})
    assert not bad.ok
    assert bad.error is not None
    assert bad.error.message == "went wrong"
    mixed = await door.call("mixed", {"input": "x"})
    assert mixed.data == {"n": 1}
    assert [type(b).__name__ for b in mixed.content] == ["Image", "Audio", "Text", "Text"]
    with raises(BuildError, match="base64"):
        await image_result(label="x", base64="%%")


# -- sets -------------------------------------------------------------------------------------


def stub(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": name,
        "parameters": SCHEMA,
        "execute": lambda call_id, params: name,
    }


@owes("M-53")
def test_the_native_set_has_sixteen_tools_in_the_documents_order() -> None:
    options = MoltbotOptions(
        agent_session_key="telegram:user:1",
        agent_channel="telegram",
        factories={n: (lambda o, n=n: stub(n)) for n in moltbot.NATIVE},
    )

    assert [t.name for t in moltbot.create_moltbot_tools(options)] == [
        "browser", "canvas", "nodes", "cron", "message", "gateway", "agents_list", "sessions_list",
        "sessions_history", "sessions_send", "sessions_spawn", "session_status", "web_search", "web_fetch",
        "image", "tts",
    ]  # fmt: skip


@owes("M-51")
def test_the_native_set_is_whole_without_any_factory() -> None:
    options = MoltbotOptions(agent_session_key="telegram:user:1", agent_channel="telegram")

    made = {t.name: t for t in moltbot.create_moltbot_tools(options)}

    assert list(made) == [
        "browser", "canvas", "nodes", "cron", "message", "gateway", "agents_list", "sessions_list",
        "sessions_history", "sessions_send", "sessions_spawn", "session_status", "web_search", "web_fetch",
        "image", "tts",
    ]  # fmt: skip


@owes("M-40")
async def test_nodes_takes_the_documents_words_and_ours(tmp_path: Path) -> None:
    (tool,) = [t for t in moltbot.create_moltbot_tools() if t.name == "nodes"]
    shown = tool.schema["properties"]
    door = Executor([tool], workspace=tmp_path)

    listed = await door.call("nodes", {"action": "list"})
    absent = await door.call("nodes", {"action": "screenshot", "nodeId": "ipad"})
    ours = await door.call("nodes", {"action": "camera_snap", "node": "ipad"})

    assert shown["action"]["enum"] == ["list", "screenshot", "location"]
    assert set(shown) == {"action", "nodeId"}
    assert tool.schema["required"] == ["action"]
    assert str(listed) == "No node is paired."
    assert {r.error.code for r in (absent, ours) if r.error} == {"not_found"}


@owes("M-52")
def test_a_factory_that_returns_nothing_takes_its_tool_out() -> None:
    factories = {n: (lambda o, n=n: stub(n)) for n in moltbot.NATIVE}
    options = MoltbotOptions(
        factories={**factories, "tts": lambda o: None}, config={"tools": {"message": {"enabled": False}}}
    )

    names = [t.name for t in moltbot.create_moltbot_tools(options)]

    assert "tts" not in names
    assert "message" not in names
    assert len(names) == 14


@owes("M-54")
async def test_the_coding_set_is_read_write_edit(tmp_path: Path) -> None:
    door = Executor(moltbot.coding_tools(), workspace=tmp_path)

    assert door.toolkit.names == ("read", "write", "edit")
    await door.call("write", {"file_path": "a.ts", "content": "import fs from 'node:fs';\n\nexport {}\n"})
    assert str(await door.call("read", {"file_path": "a.ts"})).startswith(
        "     1→import fs from 'node:fs';\n     2→"
    )
    assert (
        await door.call("edit", {"file_path": "a.ts", "old_string": "fs from", "new_string": "f from"})
    ).ok
    assert (tmp_path / "a.ts").read_text().startswith("import f from")


@owes("M-55", "M-56", "M-57", "M-58")
def test_the_full_set_adds_exec_process_patch_plugins_and_channels() -> None:
    options = MoltbotOptions(
        factories={n: (lambda o, n=n: stub(n)) for n in moltbot.NATIVE},
        plugin_tools=[stub("weather"), stub("exec")],
        channel_tools=lambda o: [stub(f"{o.agent_channel}_react")],
        agent_channel="telegram",
    )

    tools = moltbot.create_moltbot_coding_tools(options)
    names = [t.name for t in tools]

    assert names[:6] == ["read", "write", "edit", "exec", "process", "apply_patch"]
    assert names[-2:] == ["weather", "telegram_react"]
    # A plug-in does not take the place of a tool that is there.
    assert names.count("exec") == 1
    assert tools[3].canonical == "exec"


@owes("M-67", "K-22")
def test_apply_patch_is_offered_to_the_allowed_models_only() -> None:
    config = {"tools": {"exec": {"applyPatch": {"allowModels": ["anthropic/claude-sonnet-4-5"]}}}}

    def names(model: str) -> list[str]:
        return [
            t.name for t in moltbot.create_moltbot_coding_tools(MoltbotOptions(config=config, model=model))
        ]

    assert "apply_patch" in names("anthropic/claude-sonnet-4-5")
    assert "apply_patch" not in names("other/model")


@owes("M-34")
async def test_built_in_tools_are_classes_whose_execute_takes_and_gives_what_the_document_has(
    tmp_path: Path,
) -> None:
    classes = [getattr(moltbot, name) for name in moltbot.__all__ if name.endswith("Tool")]
    shown = {one.__name__: one() for one in classes if hasattr(one, "tool")}
    canvas = moltbot.CanvasTool(workspace=tmp_path)
    command = moltbot.ExecTool(workspace=tmp_path)

    assert {tool.name for tool in shown.values()} == {
        *moltbot.NATIVE, "exec", "process", "apply_patch",
    }  # fmt: skip
    assert shown["BrowserTool"].parameters == moltbot.create_browser_tool().schema  # type: ignore[union-attr]
    done = await command.execute("c1", {"command": "echo hello"})
    assert done["content"][0]["type"] == "text" and done["content"][0]["text"].startswith("hello")
    wrong = await canvas.execute("c2", {"action": "nosuch"}, None, None)
    assert "nosuch" in wrong["content"][0]["text"] and wrong["isError"]
    await command.aclose()
