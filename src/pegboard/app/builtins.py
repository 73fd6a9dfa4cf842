"""builtin and run_sync: the two small conveniences of the library."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from pegboard.core.errors import BuildError, check_text, format_value
from pegboard.core.schema.problems import did_you_mean
from pegboard.core.toolkit import Toolkit, import_object

T = TypeVar("T")


def builtin(*names: str) -> Toolkit:
    """Built-in tools by name, or the default set.

    Raises:
        BuildError: an unknown name; the message has the nearest.
    """
    from pegboard.tools import DEFAULT, TOOLS

    unknown = [
        n
        for n in names
        if check_text(n, "builtin(…)", meant="tool names, each an argument of its own") not in TOOLS
    ]
    if unknown:
        meant = did_you_mean(unknown[0], TOOLS, otherwise=f"; known: {', '.join(TOOLS)}.")
        raise BuildError(f"no built-in tool is called {unknown[0]!r}{meant} See: pegboard tools")
    return Toolkit(import_object(TOOLS[name]) for name in names or DEFAULT)


def run_sync(coro: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine to its end from code that is not async.

    Raises:
        BuildError: it is no coroutine.
        RuntimeError: an event loop runs here already; await the coroutine instead.
    """
    if not asyncio.iscoroutine(cast(object, coro)):
        raise BuildError(f"run_sync takes a coroutine, such as executor.call(…), got {format_value(coro)}")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coro)
    coro.close()
    raise RuntimeError("run_sync was called inside a running event loop; await the coroutine there instead")
