"""What Playwright and Chromium say went wrong, as errors that a model can act on."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from pegboard.core.errors import (
    InvalidArguments,
    NotUnique,
    PermissionDenied,
    TimedOut,
    ToolError,
    Unavailable,
)
from pegboard.net.destinations import OPENED_BY_OWNER

_NETWORK: Final = {
    "ERR_TUNNEL_CONNECTION_FAILED": "the server cannot be reached",
    "ERR_CONNECTION_REFUSED": "it takes no connections",
    "ERR_CONNECTION_RESET": "it broke the connection off",
    "ERR_CONNECTION_CLOSED": "it closed the connection",
    "ERR_EMPTY_RESPONSE": "it sent no answer",
    "ERR_NAME_NOT_RESOLVED": "its name has no address",
    "ERR_TOO_MANY_REDIRECTS": "it redirects in circles",
    "ERR_CERT_AUTHORITY_INVALID": "its certificate is from an unknown authority",
    "ERR_CERT_COMMON_NAME_INVALID": "its certificate is for another name",
    "ERR_CERT_DATE_INVALID": "its certificate has expired",
    "ERR_SSL_PROTOCOL_ERROR": "it does not speak TLS",
    "ERR_INVALID_RESPONSE": "its answer is broken",
    "ERR_BLOCKED_BY_CLIENT": "it is not allowed",
    "ERR_UNSAFE_PORT": "browsers do not use that port",
    "ERR_ABORTED": "the page was not loaded",
}
_ERR: Final = re.compile(r"net::(ERR_[A-Z_]+)(?: at (\S+))?")
_CLOSED: Final = (
    "has been closed",
    "Target closed",
    "Target crashed",
    "Browser closed",
    "Connection closed",
    "crashed",
)
_SKIPPED: Final = re.compile(
    r"^(?:waiting for (?:locator|navigation)|locator resolved|attempting|scrolling|done|performing|retrying|navigating)"
)


@cache
def chromium_error() -> type[Exception]:
    """Playwright's error class; one that nothing raises where the package is missing."""
    try:
        from playwright.async_api import Error
    except ImportError:
        return _NeverRaised
    return Error


class _NeverRaised(Exception):
    pass


def as_tool_error(
    error: Exception, doing: str, timeout_s: float, why_refused: Callable[[str], str]
) -> ToolError:
    """The error for a failed action.

    Args:
        error: Playwright's.
        doing: the action, in words.
        timeout_s: seconds that it had.
        why_refused: the proxy's reason for a host, empty where it refused nothing.
    """
    text = str(error)
    first = text.partition("\n")[0].partition(": ")[2] or text.partition("\n")[0]
    if any(word in text for word in _CLOSED):
        return Unavailable(
            f"the tab or the browser ended during {doing}",
            hint="Open the page again with action navigate.",
            retryable=True,
        )
    if network := _ERR.search(text):
        return _of_network(network, why_refused)
    if "strict mode violation" in text:
        number = re.search(r"resolved to (\d+) elements", text)
        return NotUnique(
            f"{doing}: the selector fits {number[1] if number else 'several'} elements",
            hint="Use a ref from a snapshot, or a selector of one element.",
        )
    if type(error).__name__ == "TimeoutError":
        return _timed_out(text, doing, timeout_s)
    if "selector" in first or "Unknown key" in first or "Unexpected token" in first:
        return InvalidArguments(f"{doing}: {first[:300]}")
    return ToolError(f"{doing} failed: {first[:500]}", hint="Take a snapshot to see what the page shows now.")


def refused(host: str, reason: str) -> PermissionDenied:
    """The error for a host that must not be reached."""
    hint = f"{OPENED_BY_OWNER[0].upper()}{OPENED_BY_OWNER[1:]}."
    return PermissionDenied(
        f"{host} is not opened: {reason}", hint=hint if "public" in reason or "local" in reason else ""
    )


def _of_network(found: re.Match[str], why_refused: Callable[[str], str]) -> ToolError:
    host = urlsplit(found[2] or "").hostname or "the server"
    if reason := why_refused(host):
        return refused(host, reason)
    said = _NETWORK.get(found[1], "it cannot be loaded")
    return Unavailable(f"{host} cannot be opened: {said} ({found[1]})", retryable="CERT" not in found[1])


def _timed_out(text: str, doing: str, timeout_s: float) -> ToolError:
    """With what Playwright waited for last; lines with the page's own markup are left out."""
    log = [line.strip(" -") for line in text.partition("Call log:")[2].splitlines()]
    reasons = [line for line in log if line and "<" not in line and not _SKIPPED.match(line)]
    last = dict.fromkeys(reasons[-4:])
    missing = not any("locator resolved" in line for line in log)
    why = "; ".join(last) or ("no such element appeared" if missing and "waiting for locator" in text else "")
    return TimedOut(
        f"{doing} did not succeed within {timeout_s:g} s" + (f": {why[:500]}" if why else ""),
        hint="The page does not answer: close its tab."
        if doing.startswith("take snapshot")
        else "Take a snapshot to see what the page shows now.",
    )


__all__ = ["as_tool_error", "chromium_error", "refused"]
