"""Faults: what is told of a connection that did not come about or was lost, in words that name the server."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, cast

import httpx2
from mcp.shared.exceptions import MCPError

from pegboard.core.errors import Interrupted, PegboardError, TimedOut, ToolError, Unavailable
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.process import ServerProcess
from pegboard.mcp.text_warnings import sanitise

_END_S: Final = 2.0


def first(error: BaseException) -> BaseException:
    """The innermost first exception of a group, or the exception itself."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def error_text(error: BaseException) -> str:
    """An error in its own words, as far as they can be shown."""
    error = first(error)
    if isinstance(error, MCPError):
        return sanitise(error.message)[:500]
    return f"{type(error).__name__}: {sanitise(str(error))[:500]}" if str(error) else type(error).__name__


def stderr_tail(process: ServerProcess | None) -> str:
    """The end of what a program wrote to standard error, and what its output held that was no message; may be empty."""
    if process is None:
        return ""
    said = sanitise(process.stderr_text).strip()
    return (f"; it said: {said[-500:]}" if said else "") + stray_output(process)


def stray_output(process: ServerProcess | None) -> str:
    """What a program's output held that was no answer to anything; may be empty."""
    line = "" if process is None else sanitise(process.unread).strip()
    return f"; its output held what answers nothing: {line[:200]}" if line else ""


def not_started(
    error: BaseException, config: ServerConfig, process: ServerProcess | None, status: int
) -> PegboardError:
    """Why a server could not be started or agreed with.

    Args:
        error: how that ended.
        config: of the server.
        process: its program, None where it has none.
        status: of its last HTTP answer, 0 = none.
    """
    error = first(error)
    if isinstance(error, PegboardError):
        text = error.message if isinstance(error, ToolError) else str(error)
        if f"MCP server {config.name!r}" in text:
            return error
        hint = error.hint.replace("NAME", config.name) if isinstance(error, ToolError) and error.hint else ""
        return Unavailable(f"MCP server {config.name!r}: {text}", hint=hint)
    if status == 401 and isinstance(error, MCPError | httpx2.HTTPStatusError):
        return Unavailable(
            f"MCP server {config.name!r} requires a login (HTTP 401)",
            hint=f"Log in: pegboard mcp login {config.name}; or give its token under headers.",
        )
    how = f" (HTTP {status})" if status >= 400 else ""
    if process is not None and process.fault:
        # It was ended for this, so that its exit status says nothing.
        how = f": {process.fault}"
    elif process is not None and process.exit_code is not None:
        how = f" (exit status {process.exit_code})"
    return Unavailable(
        f"MCP server {config.name!r} could not be started: {error_text(error)}{how}{stderr_tail(process)}",
        hint=f"It runs: {config.redacted_command}",
    )


def too_slow(config: ServerConfig, process: ServerProcess | None) -> TimedOut:
    """It did not start in time."""
    return TimedOut(
        f"MCP server {config.name!r} did not start within {config.start_s:g} s{stderr_tail(process)}",
        hint="Check its command or address, or set start_s higher.",
    )


async def connection_lost(
    what: str, why: str, config: ServerConfig, process: ServerProcess | None
) -> Interrupted:
    """That a connection was lost during a call; a program's end is waited for, so that it can be told.

    Args:
        what: the call.
        why: in words, where the connection itself says it.
        config: of the server.
        process: its program, None where it has none.
    """
    how = f": {why}" if process is None and why else ""
    if process is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await process.ended.wait()
        if process.exit_code is not None:
            code = process.exit_code
            how = f": it ended with {'signal' if code < 0 else 'exit status'} {abs(code)}"
        if process.fault:
            how += f" ({process.fault})"
    return Interrupted(
        f"MCP server {config.name!r} was lost during {what}{how}; it is unknown whether it took effect"
        f"{stderr_tail(process)}",
        hint="Find out what happened before you call it again; the server is started again at the next call.",
        details={"server": config.name},
    )
