"""Wording: results in the words of the documents, from the canonical result and its arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from pegboard.core.content import Text
from pegboard.core.result import HINT, ToolResult
from pegboard.core.secrets.clip import clip

Arguments = Mapping[str, Any]
Render = Callable[[ToolResult, Arguments], ToolResult]

MAX_OUTPUT: Final = 10_000
TRUNCATED: Final = "\n... (truncated)"
"""What 002 puts behind a cut text."""

_NUMBERED: Final = re.compile(r"^ *(\d+)→", re.MULTILINE)


def with_text(result: ToolResult, text: str) -> ToolResult:
    """The same result with another text; other content stays."""
    others = tuple(b for b in result.content if not isinstance(b, Text))
    return replace(result, content=(Text(text), *others))


def facts(result: ToolResult) -> Mapping[str, Any]:
    """The result's data where it is an object, else empty."""
    data: Any = result.data
    return cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}


def on_success(text: Callable[[ToolResult, Arguments], str | None]) -> Render:
    """Words a success; failures, and where `text` gives None, stay as they are."""

    def render(result: ToolResult, arguments: Arguments) -> ToolResult:
        worded = text(result, arguments) if result.ok else None
        return result if worded is None else with_text(result, worded)

    return render


def chain(*renders: Render) -> Render:
    """One after the other."""

    def render(result: ToolResult, arguments: Arguments) -> ToolResult:
        for one in renders:
            result = one(result, arguments)
        return result

    return render


def failure_text(result: ToolResult, text: str) -> ToolResult:
    """A failure told in exactly these words."""
    return with_text(result, text)


# -- 002 --------------------------------------------------------------------------------------


def net_failure(result: ToolResult, arguments: Arguments) -> ToolResult:
    """NanoBot.Net's failures: one line `Error: …`, no standing hint."""
    error = result.error
    if error is None:
        return result
    message = error.message
    if message.startswith("Text not found"):
        old = str(arguments.get("old_string", ""))
        return failure_text(result, f"Error: Text not found in file: {clip(old, 0, 50)}...")
    for noun in ("File", "Directory"):
        if message.startswith(f"{noun} not found"):
            return failure_text(result, f"Error: {noun} not found: {arguments.get('path', '')}")
    if error.code == "permission_denied" and _is_blocked(arguments):
        return failure_text(result, "Error: Command contains blocked pattern")
    return failure_text(result, f"Error: {message.removeprefix('Error: ')}")


def _is_blocked(arguments: Arguments) -> bool:
    from pegboard.shell.guard import deny_matches

    command = arguments.get("command")
    return isinstance(command, str) and deny_matches("nanobot-net", command, as_written=True) is not None


def net_read(result: ToolResult, arguments: Arguments) -> str | None:
    """`n→line` with the file's real line numbers."""
    return _NUMBERED.sub(r"\1→", result.text) if "text" in facts(result) else None


def net_wrote(result: ToolResult, arguments: Arguments) -> str:
    """Success of `write_file`."""
    return f"Successfully wrote to {arguments['path']}"


def net_edited(result: ToolResult, arguments: Arguments) -> str:
    """Success of `edit_file`."""
    return f"Successfully edited {arguments['path']}"


def net_exec(result: ToolResult, arguments: Arguments) -> str | None:
    """The output; `Error: …` where the exit code says so, never for mere stderr."""
    data = facts(result)
    if "exit_code" not in data:
        return None
    out, err = str(data.get("stdout", "")), str(data.get("stderr", ""))
    if data["exit_code"] != 0:
        return cut(f"Error: {err or 'exit code ' + str(data['exit_code'])}\nOutput: {out}")
    return cut(out + (f"\nSTDERR:\n{err}" if err.strip() else ""))


def cut(text: str) -> str:
    """NanoBot.Net's cut: the first 10,000 characters and a mark."""
    return text if len(text) <= MAX_OUTPUT else clip(text, 0, MAX_OUTPUT) + TRUNCATED


def web_json(result: ToolResult, arguments: Arguments) -> str:
    """The data of a page or a search as JSON text, in place of the text for models."""
    import json

    shown: Any = result.data
    if isinstance(shown, Mapping) and "provider" in shown:
        shown = {"results": cast("Mapping[str, Any]", shown)["results"]}
    return json.dumps(shown, ensure_ascii=False, indent=2)


def molt_sessions(result: ToolResult, arguments: Arguments) -> str | None:
    """Moltbot's list of sessions."""
    keys = ("sessionKey", "label", "lastActive", "messageCount")
    return _picked(result, "sessions", keys)


def molt_agents(result: ToolResult, arguments: Arguments) -> str | None:
    """Moltbot's list of agents."""
    return _picked(result, "agents", ("id", "name", "model"))


def molt_history(result: ToolResult, arguments: Arguments) -> str | None:
    """The last messages of a session."""
    return _picked(result, "messages", ("role", "text"))


def molt_status(result: ToolResult, arguments: Arguments) -> str:
    """Moltbot's status of a session; a running one is called active."""
    import json

    data = facts(result)
    told = {key: data[key] for key in ("sessionKey", "agentId", "messageCount", "status")}
    told["status"] = "active" if told["status"] == "running" else told["status"]
    return json.dumps(told, ensure_ascii=False, indent=2)


def _picked(result: ToolResult, name: str, keys: Sequence[str]) -> str | None:
    """Some keys of a list in the result's data, as JSON text."""
    import json

    rows = facts(result).get(name)
    if not isinstance(rows, list):
        return None
    found = [{key: row[key] for key in keys} for row in cast("list[Mapping[str, Any]]", rows)]
    return json.dumps({name: found}, ensure_ascii=False, indent=2)


def net_page(result: ToolResult, arguments: Arguments) -> str | None:
    """The content of a page alone, with NanoBot.Net's mark where it was cut."""
    data = facts(result)
    return f"{data['text']}{TRUNCATED if data['truncated'] else ''}" if "text" in data else None


# -- claude-code ------------------------------------------------------------------------------


def cc_failure(result: ToolResult, arguments: Arguments) -> ToolResult:
    """Failures without the standing hint: this convention marks them by the wire's own flag."""
    if result.error is None:
        return result
    return with_text(result, result.text.removesuffix(HINT))


def cc_wrote(result: ToolResult, arguments: Arguments) -> str:
    """Created or updated."""
    path = arguments["path"]
    if facts(result).get("created"):
        return f"File created successfully at: {path}"
    return f"The file {path} has been updated."


def cc_edited(result: ToolResult, arguments: Arguments) -> str:
    """Updated, with the diff where there is one."""
    _, _, rest = result.text.partition("\n")
    return f"The file {arguments['path']} has been updated." + (f"\n{rest}" if rest else "")


def cc_bash(result: ToolResult, arguments: Arguments) -> str | None:
    """Output and stderr together; the exit code only where it is not zero."""
    data = facts(result)
    if "exit_code" not in data or data.get("state") == "running" or "process_id" in data:
        return None
    parts = [str(data.get(k, "")).rstrip("\n") for k in ("stdout", "stderr")]
    if data["exit_code"] != 0:
        parts.insert(0, f"Exit code {data['exit_code']}")
    return "\n".join(p for p in parts if p.strip()) or "(no output)"


def cc_glob(result: ToolResult, arguments: Arguments) -> str | None:
    """Paths, one a line."""
    data = facts(result)
    return "No files found" if data.get("paths") == [] else None
