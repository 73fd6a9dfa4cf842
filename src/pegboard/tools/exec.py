"""exec: run a shell command in the sandbox."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address
from typing import Annotated, Any

from pydantic import Field

from pegboard.core.content import Text
from pegboard.core.context import Context
from pegboard.core.effects import Effect, Plan
from pegboard.core.errors import TimedOut
from pegboard.core.hosts import host_note, shown_host
from pegboard.core.result import REACHED, Notes, ToolResult
from pegboard.core.schema.annotations import Alias, Command, Inject
from pegboard.core.tool import ValidCall, tool
from pegboard.ports.processes import Process, Processes
from pegboard.ports.shell import ExecOutcome, ExecRequest, Shell
from pegboard.process.child import shown_status

YIELD_MS = 5000
"""Milliseconds after which a command goes to the background, where the kit has `process` to follow it."""

Seconds = Annotated[float, Field(gt=0, le=600), Alias("timeout_s", "timeout_seconds", "timeoutSec")]


async def plan_exec(call: ValidCall, context: Context) -> Plan:
    """What the guard finds in the command, and a `connect` for each host that the call names."""
    shell = context.port(Shell)
    arguments = call.arguments
    inspection = shell.inspect(arguments["command"], working_dir=arguments.get("working_dir"))
    effects = list(inspection.effects)
    if shell.backend() == "none":
        effects = [_ask(effect) if effect.kind == "exec" else effect for effect in effects]
    known = {effect.target for effect in effects if effect.kind == "connect"}
    hosts = dict.fromkeys(map(shown_host, arguments.get("hosts") or ()))
    effects += [Effect("connect", host, reason=host_note(host)) for host in hosts if host not in known]
    private = {
        "read_only": inspection.read_only,
        "timeout_given": bool({"timeout", "timeout_ms"} & {*call.sent}),
    }
    return Plan(tuple(effects), private=private)


@tool(
    name="exec",
    plan=plan_exec,
    timeout_s=0,
    aliases=("bash", "shell", "run_command", "execute_command"),
    hints=("run a command", "run the tests", "shell", "terminal", "git", "build", "install a package"),
    example={"command": "ls -la"},
)
async def exec_(
    command: Command,
    timeout: Seconds = 60,
    working_dir: Annotated[str | None, Alias("cwd", "workdir", "directory")] = None,
    env: dict[str, str] | None = None,
    stdin: Annotated[str | None, Alias("input")] = None,
    background: Annotated[bool, Alias("run_in_background")] = False,
    yield_ms: Annotated[int | None, Field(ge=0, le=600_000), Alias("yield_time_ms")] = None,
    pty: Annotated[bool, Alias("tty")] = False,
    description: str = "",
    hosts: list[str] | None = None,
    timeout_ms: Annotated[int | None, Field(gt=0, le=600_000)] = None,
    *,
    shell: Inject[Shell],
    jobs: Inject[Processes] | None = None,
    planned: Inject[Plan] | None = None,
) -> ToolResult:
    """Run a command with bash and return its output and exit code.

    Each call starts a new shell in the workspace; `cd` and variables do not persist. Input is empty
    and prompts get no answer. Use read_file, edit_file, glob and grep for files. With the process
    tool, a command that still runs after 5 seconds continues in the background, and a server should
    be started there; without that tool the call waits until the command ends or times out.

    Args:
        command: The command as typed in a shell; may span lines.
        timeout: Seconds before it and its child processes are stopped, default 60.
        working_dir: Folder to run it in, relative to the workspace.
        env: Variables to set for it.
        stdin: Text for its standard input.
        background: Start it and return its process_id at once, for process; no timeout unless given.
        yield_ms: Milliseconds to wait before it continues in the background, default 5000.
        pty: Run it in a terminal, for programs that need one. Implies background.
        description: What it is for, in a few words.
        hosts: Hosts it needs, such as api.example.com; without any it has no network.
        timeout_ms: The timeout in milliseconds, instead of timeout.
    """
    known: dict[str, Any] = planned.private if planned is not None and planned.private else {}
    seconds = timeout if timeout_ms is None else timeout_ms / 1000
    request = ExecRequest(
        command=command,
        working_dir=working_dir,
        timeout_s=seconds,
        env=env or {},
        stdin=None if stdin is None else stdin.encode(),
        hosts=_hosts(hosts, planned),
        read_only=bool(known.get("read_only", False)),
        approved=tuple(e.target for e in planned.effects if e.kind in ("write", "delete")) if planned else (),
    )
    wait_s = _wait_s(background or pty, yield_ms, seconds, jobs is not None)
    if jobs is None or wait_s is None:
        return _shown(await shell.run(request), seconds, can_follow=jobs is not None)
    unbounded = (background or pty) and not known.get("timeout_given", False)
    started = await jobs.start(
        replace(request, timeout_s=0.0) if unbounded else request,
        description=description,
        terminal=pty,
        yield_s=wait_s,
    )
    if isinstance(started, ExecOutcome):
        return _shown(started, seconds, can_follow=True)
    return await _left_running(started, jobs, wait_s)


def _wait_s(background: bool, yield_ms: int | None, timeout_s: float, can_yield: bool) -> float | None:
    """Seconds to wait before it goes to the background; None = to the end."""
    if not can_yield:
        return None
    if background:
        return 0.0 if yield_ms is None else yield_ms / 1000
    wait_s = (YIELD_MS if yield_ms is None else yield_ms) / 1000
    return None if wait_s >= timeout_s else wait_s


def _hosts(named: list[str] | None, planned: Plan | None) -> tuple[str, ...]:
    """The hosts that were authorised with the call, except the machine itself."""
    wanted = [shown_host(host) for host in named or ()]
    if planned is not None:
        wanted += [effect.target for effect in planned.effects if effect.kind == "connect"]
    return tuple(dict.fromkeys(host for host in wanted if not _is_local(host)))


def _is_local(host: str) -> bool:
    name = host.strip("[]").lower()
    if name.rpartition(":")[2].isdigit() and name.count(":") == 1:
        name = name.partition(":")[0]
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _ask(effect: Effect) -> Effect:
    if effect.at_least in ("ask", "deny"):
        return effect
    return replace(effect, at_least="ask", reason="commands are not sandboxed on this machine")


def _shown(outcome: ExecOutcome, timeout_s: float, *, can_follow: bool) -> ToolResult:
    """Output first, then stderr under its name, then the exit code."""
    data = {
        "exit_code": outcome.exit_code,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "timed_out": outcome.timed_out,
        "duration_s": round(outcome.duration_s, 3),
        "changes": [change.to_dict() for change in outcome.changes.changes],
    }
    if outcome.timed_out:
        so_far = _text(outcome, with_code=False)
        raise TimedOut(
            f"Command timed out after {timeout_s:g} seconds; it and its child processes were stopped."
            + (f" Output so far:\n{so_far}\n" if so_far else " It wrote no output."),
            hint="Give a longer timeout, or start it with background=true and follow it with process."
            if can_follow
            else "Give a longer timeout.",
            details=data,
        )
    extra: dict[str, Any] = {
        "backend": outcome.backend,
        "dropped_bytes": outcome.dropped_bytes,
        "exec": list(outcome.notes),
    }
    if outcome.reached is not None:
        extra[REACHED] = list(outcome.reached)
    return ToolResult(content=(Text(_text(outcome)),), data=data, notes=Notes(extra=extra))


def _text(outcome: ExecOutcome, *, with_code: bool = True) -> str:
    parts: list[str] = []
    if outcome.stdout:
        parts.append(outcome.stdout.removesuffix("\n"))
    if outcome.stderr.strip():
        parts.append(f"STDERR:\n{outcome.stderr.removesuffix(chr(10))}")
    if with_code:
        parts = parts or ["(no output)"]
        parts.append(f"\nExit code: {shown_status(outcome.exit_code)}")
    parts += [f"[{note}]" for note in outcome.notes]
    return "\n".join(parts)


async def _left_running(process: Process, jobs: Processes, waited_s: float) -> ToolResult:
    output = await jobs.poll(process.process_id)
    said = f"{output.text.rstrip()}\n\n" if output.text.strip() else ""
    after = f" after {waited_s:g} seconds" if waited_s else ""
    text = (
        f"{said}Still running{after}; it continues in the background as {process.process_id}."
        " Use process with action poll, wait_for, write or kill."
    )
    data = {
        "process_id": process.process_id,
        "state": output.process.state,
        "exit_code": output.process.exit_code,
        "stdout": output.text,
    }
    return ToolResult(content=(Text(text),), data=data)
