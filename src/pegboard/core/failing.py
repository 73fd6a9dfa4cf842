"""Failing: what a call's one result says when it did not come to an end of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pegboard.core.approval import Waiting
from pegboard.core.clipping import clip
from pegboard.core.errors import (
    BuildError,
    InternalError,
    PermissionDenied,
    SuspendedCall,
    TimedOut,
    ToolError,
)


def was_cancelled() -> bool:
    """Whether somebody cancelled the running task (or there is none, and nobody but the caller could)."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def log_failure(tool: str, error: BaseException, redacted: Callable[[str], str]) -> None:
    """Give the traceback of what a tool raised to `logging`, where its developer finds it; no model sees it.

    The logger is `pegboard.tools`. Without a handler of the program's own, nothing is shown.
    """
    if isinstance(error, ToolError | TimeoutError | PermissionError):
        return  # Raised on purpose, or told as what it is.
    import logging
    import traceback

    package = logging.getLogger("pegboard")
    if not package.handlers:
        # Else Python's handler of last resort would print it in every program that sets up no logging.
        package.addHandler(logging.NullHandler())
    text = redacted("".join(traceback.format_exception(error)))
    package.getChild("tools").error("tool %s failed\n%s", tool, text.rstrip())


def suspended_error(waiting: Waiting) -> SuspendedCall:
    return SuspendedCall(
        f"the call waits for {waiting.kind} {waiting.key}",
        hint=str(waiting.detail.get("how") or "It goes on when the answer comes."),
        details={
            "pending": waiting.key,
            "kind": waiting.kind,
            "deadline": waiting.deadline,
            **waiting.detail,
        },
    )


def as_tool_error(error: BaseException) -> ToolError:
    """What a model may read of an exception: its type and message, no traceback, no system detail."""
    match error:
        case ToolError():
            return error
        case TimeoutError():
            return TimedOut(str(error) or "the operation timed out")
        case PermissionError():
            # The operating system's own text names real paths (ledger N-121).
            return PermissionDenied("the operating system does not permit this")
        case SystemExit():
            return InternalError(f"the tool tried to end the whole program with sys.exit({error.code!r})")
        case BuildError():
            return InternalError(str(error))
        case _:
            text = str(error).strip()
            name = type(error).__name__
            return InternalError(
                f"{name}: {clip(text, 0, 500)}" if text else f"{name} (it carries no message)",
                details={"type": name},
            )
