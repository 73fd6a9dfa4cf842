"""process: follow, feed and end background commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from pegboard.core.content import Text
from pegboard.core.effects import Effect
from pegboard.core.errors import InvalidArguments
from pegboard.core.result import ToolResult
from pegboard.core.schema.annotations import Alias, Inject
from pegboard.core.tool import tool
from pegboard.ports.processes import Process, Processes, ProcessOutput
from pegboard.process.child import shown_status

Action = Literal[
    "list", "poll", "output", "log", "write", "send_keys", "submit", "paste", "wait_for", "kill", "stop", "remove"
]  # fmt: skip


def effects_of_process(arguments: Mapping[str, Any]) -> list[Effect]:
    """Looking is free; whatever reaches the command is a `control` of it."""
    action, name = arguments.get("action", "list"), arguments.get("process_id") or ""
    if action in ("list", "poll", "output", "log", "wait_for"):
        return []
    return [Effect("control", f"process:{name}:{action}", at_least="allow")]


@tool(
    touches=("control",),
    effects=effects_of_process,
    timeout_s=0,
    hints=("background command", "stop a server", "is the build done", "type into a program"),
    example={"action": "poll", "process_id": "p1-4f2a"},
)
async def process(
    action: Action = "list",
    process_id: Annotated[str, Alias("session_id", "task_id", "id")] = "",
    text: Annotated[str, Alias("data", "input")] = "",
    keys: list[str] | None = None,
    offset: int = 0,
    limit: Annotated[int, Field(ge=0)] = 0,
    timeout: Annotated[float, Field(ge=0, le=600), Alias("timeout_s")] | None = None,
    *,
    jobs: Inject[Processes],
) -> ToolResult:
    """Follow, feed or end a background command that exec started.

    Args:
        action: list all; poll (or output) what is new; log what was kept, by line; write text; submit
            text and Enter; paste text as one piece; send_keys such as Enter, C-c, Up; wait_for text
            to appear; kill (or stop) with all children; remove from the list.
        process_id: Which command, as exec or list named it.
        text: What to write, submit, paste or wait for.
        keys: Keys for send_keys, in order.
        offset: log only: first line; negative counts from the end.
        limit: log only: number of lines; 0 is all.
        timeout: Seconds to wait: for wait_for 30 unless given, for poll none unless given.
    """
    if action == "list":
        return _listed(jobs.list())
    if not process_id:
        raise InvalidArguments(f"action {action} needs a process_id", hint="Use action list to see them.")
    match action:
        case "poll" | "output":
            return _output(await jobs.poll(process_id, wait_s=timeout or 0.0))
        case "log":
            return _output(await jobs.log(process_id, offset=offset, limit=limit))
        case "wait_for":
            seconds = 30.0 if timeout is None else timeout
            found = await jobs.wait_for(process_id, text, timeout_s=seconds)
            return _output(found, waited_for=text, timeout_s=seconds)
        case "kill" | "stop":
            return _state(await jobs.stop(process_id))
        case "remove":
            return _state(await jobs.stop(process_id, forget=True))
        case "write":
            return _state(await jobs.send(process_id, text))
        case "submit":
            return _state(await jobs.send(process_id, text, keys=("Enter",)))
        case "paste":
            return _state(await jobs.send(process_id, text, paste=True))
        case "send_keys":
            return _state(await jobs.send(process_id, text, keys=keys or ()))


def _line(process: Process) -> str:
    status = process.state
    if process.exit_code is not None:
        status += f", exit code {shown_status(process.exit_code)}"
    about = f" ({process.description})" if process.description else ""
    return f"{process.process_id}: {status}, {process.duration_s:.1f} s: {process.command}{about}"


def _data(process: Process) -> dict[str, Any]:
    return {
        "process_id": process.process_id,
        "command": process.command,
        "description": process.description,
        "state": process.state,
        "exit_code": process.exit_code,
        "duration_s": round(process.duration_s, 3),
        "output_bytes": process.output_bytes,
    }


def _listed(processes: tuple[Process, ...]) -> ToolResult:
    text = "\n".join(_line(process) for process in processes) or "No background commands."
    return ToolResult(content=(Text(text),), data={"processes": [_data(process) for process in processes]})


def _state(process: Process) -> ToolResult:
    return ToolResult(content=(Text(_line(process)),), data=_data(process))


def _output(output: ProcessOutput, *, waited_for: str = "", timeout_s: float = 0.0) -> ToolResult:
    parts = [output.text.rstrip("\n")] if output.text.strip() else ["(no new output)"]
    if output.lost_bytes:
        parts.insert(0, f"[{output.lost_bytes:,} bytes of output are no longer kept]")
    if waited_for and not output.matched:
        ended = output.process.state != "running"
        parts.append(
            f"[{waited_for!r} did not appear {'before it ended' if ended else f'within {timeout_s:g} s'}]"
        )
    parts.append(f"\n{_line(output.process)}")
    parts += [f"[{note}]" for note in output.process.notes]
    data = {**_data(output.process), "output": output.text, "matched": output.matched}
    return ToolResult(content=(Text("\n".join(parts)),), data=data)
