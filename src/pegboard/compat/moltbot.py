"""moltbot: Moltbot's way: factory tools with a four-argument execute, and its tool sets."""

from __future__ import annotations

import base64 as _base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from pegboard.compat.moltbot_tools import (
    AgentsListTool,
    ApplyPatchTool,
    BrowserTool,
    CanvasTool,
    CronTool,
    ExecTool,
    GatewayTool,
    ImageTool,
    MessageTool,
    NodesTool,
    ProcessTool,
    SessionsHistoryTool,
    SessionsListTool,
    SessionsSendTool,
    SessionsSpawnTool,
    SessionStatusTool,
    TtsTool,
    WebFetchTool,
    WebSearchTool,
)
from pegboard.core import adapters
from pegboard.core.adapters import read_number_param, read_string_array_param, read_string_param
from pegboard.core.context import AbortSignal
from pegboard.core.errors import BuildError
from pegboard.core.tool import Tool
from pegboard.core.toolkit import Toolkit, as_tool, import_object

_STYLE: Final = adapters.AdapterOptions(at_least="allow", by_position=True)

readStringParam = read_string_param
readNumberParam = read_number_param
readStringArrayParam = read_string_array_param


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool as a factory returns it: `{name, description, parameters, execute}`.

    Attributes:
        name, description: what the model reads.
        parameters: a JSON Schema, a map of properties, or a pydantic model class.
        execute: `(tool_call_id, params, signal, on_update)`, sync or async; trailing ones may be left
            out. `signal` is an AbortSignal, `on_update(partial)` streams a partial result.
        effects: what it does; None = opaque, runs in mode `workspace`.
        permission: auto, confirm or deny.
    """

    name: str
    description: str
    parameters: Any
    execute: Callable[..., Any]
    effects: Any = None
    permission: str = "auto"

    def to_tool(self) -> Tool:
        """The same as a Pegboard tool."""
        return adapters.adapt(self, _STYLE)


AnyAgentTool: TypeAlias = AgentTool | Mapping[str, Any] | Tool
Factory: TypeAlias = Callable[..., "AnyAgentTool | None"]


def agent_tool(thing: AnyAgentTool) -> Tool:
    """A factory's tool, object or dict, as a Pegboard tool.

    Raises:
        BuildError: it is none.
    """
    if isinstance(thing, Mapping):
        return adapters.adapt(thing, _STYLE)
    return as_tool(thing)


# -- results ----------------------------------------------------------------------------------


def json_result(payload: Any) -> dict[str, Any]:
    """An object as a result: `{content: [{type: text, text}], details}`, its JSON for the model and itself as details."""
    text = json.dumps(payload, ensure_ascii=False, indent=2, default=str)
    return {**text_result(text), "details": payload}


async def image_result(
    *, label: str, path: str = "", base64: str = "", mime_type: str = "image/png", extra_text: str = ""
) -> dict[str, Any]:
    """A picture as a result: `{content: [{type: text, …}, {type: image, data, mimeType}], details}`.

    Args:
        label: a short name.
        path: where it lies; named in the text.
        base64: the encoded file.
        mime_type: for example `image/png`.
        extra_text: text in place of the path.

    Raises:
        BuildError: `base64` is not base64.
    """
    try:
        data = _base64.b64decode(base64, validate=True)
    except ValueError as error:
        raise BuildError(f"image_result({label!r}): the base64 data cannot be decoded: {error}") from None
    text = extra_text or (f"MEDIA:{path}" if path else f"[{label}]")
    picture = {"type": "image", "data": base64, "mimeType": mime_type, "label": label}
    return {
        "content": [{"type": "text", "text": text}, picture],
        "details": {"label": label, "path": path, "mimeType": mime_type, "bytes": len(data)},
    }


def text_result(text: str) -> dict[str, Any]:
    """`{content: [{type: text, text}]}`."""
    return {"content": [{"type": "text", "text": text}]}


# -- tool sets --------------------------------------------------------------------------------

NATIVE: Final = (
    "browser", "canvas", "nodes", "cron", "message", "gateway", "agents_list", "sessions_list",
    "sessions_history", "sessions_send", "sessions_spawn", "session_status", "web_search", "web_fetch",
    "image", "tts",
)  # fmt: skip
"""The native set, in the document's order."""

CODING: Final = ("read_file", "write_file", "edit_file")
"""The coding set: read, write, edit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoltbotOptions:
    """What the sets are built from.

    Attributes:
        agent_session_key, agent_channel: where the agent talks.
        config: the document's `tools` config; `tools.message.enabled = false` takes message out.
        factories: name → factory for tools that this installation lacks or that you replace. A factory
            takes these options and may return None: its tool then is not offered.
        plugin_tools, channel_tools: tools of plug-ins and channels, or functions of the options that
            give them.
        model: the model's name, for `tools.exec.applyPatch.allowModels`.
    """

    agent_session_key: str = ""
    agent_channel: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    factories: Mapping[str, Factory] = field(default_factory=dict[str, Factory])
    plugin_tools: Iterable[Any] | Callable[[MoltbotOptions], Iterable[Any]] = ()
    channel_tools: Iterable[Any] | Callable[[MoltbotOptions], Iterable[Any]] = ()
    model: str = ""

    def setting(self, *path: str) -> Any:
        """One value of the config, None where it is absent."""
        found: Any = self.config.get("tools", self.config)
        for key in path:
            found = cast("Mapping[str, Any]", found).get(key) if isinstance(found, Mapping) else None
        return found


def create_moltbot_tools(options: MoltbotOptions | None = None) -> list[Tool]:
    """The native set: what is there and configured, in the document's order."""
    options = options or MoltbotOptions()
    wanted = [n for n in NATIVE if not (n == "message" and options.setting("message", "enabled") is False)]
    made = [_make(name, options) for name in (*wanted, *(n for n in options.factories if n not in NATIVE))]
    return [t for t in made if t is not None]


def coding_tools() -> list[Tool]:
    """read, write, edit under their names here."""
    return list(Toolkit(_builtin(n) for n in CODING).profile("moltbot"))


def create_exec_tool() -> Tool | None:
    """`exec`, with its timeout in milliseconds."""
    return _shown("exec")


def create_process_tool() -> Tool | None:
    """`process`."""
    return _shown("process")


def create_browser_tool() -> Tool | None:
    """`browser`, with the document's four actions; ours are accepted too."""
    return _shown("browser")


def create_image_tool() -> Tool | None:
    """`image`: makes one from `prompt` and `size`, or looks at `image`."""
    return _shown("image")


def create_canvas_tool() -> Tool | None:
    """`canvas`, with the document's three shapes; ours are accepted too."""
    return _shown("canvas")


def create_gateway_tool() -> Tool | None:
    """`gateway`, with the document's two actions; ours are accepted too."""
    return _shown("gateway")


def create_nodes_tool() -> Tool | None:
    """`nodes`, with the document's three actions; ours are accepted too."""
    return _shown("nodes")


def create_tts_tool() -> Tool | None:
    """`tts`."""
    return _shown("tts")


def create_cron_tool() -> Tool | None:
    """`cron`: add, list and remove, with `schedule`, `prompt` and `id`."""
    return _shown("cron")


def create_message_tool(options: MoltbotOptions | None = None) -> Tool | None:
    """`message`, None where `tools.message.enabled` is false."""
    if options is not None and options.setting("message", "enabled") is False:
        return None
    return _shown("message")


def create_agents_list_tool() -> Tool | None:
    """`agents_list`; its answer is the document's JSON."""
    return _shown("agents_list")


def create_sessions_list_tool() -> Tool | None:
    """`sessions_list`; its answer is the document's JSON."""
    return _shown("sessions_list")


def create_sessions_history_tool() -> Tool | None:
    """`sessions_history`, with `sessionKey` and `limit`."""
    return _shown("sessions_history")


def create_sessions_send_tool() -> Tool | None:
    """`sessions_send`, with `sessionKey`, `label` or `agentId`, `message` and `timeoutSeconds`."""
    return _shown("sessions_send")


def create_session_status_tool() -> Tool | None:
    """`session_status`; its answer is the document's JSON."""
    return _shown("session_status")


def create_sessions_spawn_tool() -> Tool | None:
    """`sessions_spawn`, with `prompt`, `thinking` and `agentId`."""
    return _shown("sessions_spawn")


def create_web_search_tool() -> Tool | None:
    """`web_search`; its answer is the document's JSON."""
    return _shown("web_search")


def create_web_fetch_tool() -> Tool | None:
    """`web_fetch`."""
    return _shown("web_fetch")


def create_apply_patch_tool(options: MoltbotOptions | None = None) -> Tool | None:
    """`apply_patch`, None where `allowModels` does not name the model."""
    allowed = options.setting("exec", "applyPatch", "allowModels") if options else None
    if options is not None and isinstance(allowed, list) and options.model not in allowed:
        return None
    return _shown("apply_patch")


def create_moltbot_coding_tools(options: MoltbotOptions | None = None) -> list[Tool]:
    """The full set: coding, exec, process, apply_patch, native, plug-in and channel tools.

    A later tool of a name that is there already is left out: a plug-in cannot take the place of `exec`.
    """
    options = options or MoltbotOptions()
    parts: list[Tool | None] = [
        *coding_tools(),
        create_exec_tool(),
        create_process_tool(),
        create_apply_patch_tool(options),
        *create_moltbot_tools(options),
        *_given(options.plugin_tools, options),
        *_given(options.channel_tools, options),
    ]
    unique: dict[str, Tool] = {}
    for tool in parts:
        if tool is not None:
            unique.setdefault(tool.name, tool)
    return list(unique.values())


def _given(source: Any, options: MoltbotOptions) -> list[Tool]:
    things: Any = source(options) if callable(source) else source
    return [agent_tool(t) for t in things]


def _make(name: str, options: MoltbotOptions) -> Tool | None:
    factory = options.factories.get(name)
    if factory is not None:
        made = factory(options)
        return None if made is None else agent_tool(made)
    return _shown(name)


def _shown(name: str) -> Tool | None:
    tool = _builtin(name)
    return None if tool is None else next(iter(Toolkit([tool]).profile("moltbot")))


def _builtin(name: str) -> Tool | None:
    path = cast("Mapping[str, str]", import_object("pegboard.tools:TOOLS")).get(name)
    return None if path is None else cast(Tool, import_object(path))


__all__ = [
    "CODING",
    "NATIVE",
    "AbortSignal",
    "AgentTool",
    "AgentsListTool",
    "AnyAgentTool",
    "ApplyPatchTool",
    "BrowserTool",
    "CanvasTool",
    "CronTool",
    "ExecTool",
    "GatewayTool",
    "ImageTool",
    "MessageTool",
    "MoltbotOptions",
    "NodesTool",
    "ProcessTool",
    "SessionStatusTool",
    "SessionsHistoryTool",
    "SessionsListTool",
    "SessionsSendTool",
    "SessionsSpawnTool",
    "TtsTool",
    "WebFetchTool",
    "WebSearchTool",
    "agent_tool",
    "coding_tools",
    "create_agents_list_tool",
    "create_apply_patch_tool",
    "create_browser_tool",
    "create_canvas_tool",
    "create_cron_tool",
    "create_exec_tool",
    "create_gateway_tool",
    "create_image_tool",
    "create_message_tool",
    "create_moltbot_coding_tools",
    "create_moltbot_tools",
    "create_nodes_tool",
    "create_process_tool",
    "create_session_status_tool",
    "create_sessions_history_tool",
    "create_sessions_list_tool",
    "create_sessions_send_tool",
    "create_sessions_spawn_tool",
    "create_tts_tool",
    "create_web_fetch_tool",
    "create_web_search_tool",
    "image_result",
    "json_result",
    "readNumberParam",
    "readStringArrayParam",
    "readStringParam",
    "read_number_param",
    "read_string_array_param",
    "read_string_param",
    "text_result",
]
