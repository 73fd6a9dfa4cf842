"""sdk: a provider's SDK, imported on first use, and its client, made for the loop that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from pegboard.core.errors import ModelError


def sdk(module: str, extra: str) -> Any:
    """The SDK's module; untyped, since the SDKs are optional and differ in how they export.

    Raises:
        ModelError: it is not installed; the hint names the extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ModelError(f"{module} is not installed", hint=f"pip install 'pegboard[{extra}]'") from error


class LoopClient:
    """An SDK's client for the running event loop.

    A model outlives a loop where each run has its own (`run_sync`); connections do not. So a
    client is made anew when another loop runs, and the one of the dead loop is forgotten.

    Args:
        make: makes a client.
        close: closes one.
    """

    def __init__(self, make: Callable[[], Any], close: Callable[[Any], Awaitable[None]]) -> None:
        self._make = make
        self._close = close
        self._made: tuple[asyncio.AbstractEventLoop, Any] | None = None

    def get(self) -> Any:
        """The client of the running loop; raises what `make` raises."""
        loop = asyncio.get_running_loop()
        if self._made is None or self._made[0] is not loop:
            self._made = (loop, self._make())
        return self._made[1]

    async def aclose(self) -> None:
        """Close the running loop's client, where there is one."""
        made, self._made = self._made, None
        if made is not None and made[0] is asyncio.get_running_loop():
            await self._close(made[1])


async def close_client(client: Any) -> None:
    """Close a client that has an async `close`."""
    await client.close()
