"""Servers that tests start with `asyncio.start_server`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pegboard.net.listening import stop_listening


@asynccontextmanager
async def ending(server: asyncio.Server) -> AsyncGenerator[asyncio.Server]:
    """The server until the end of the block. `async with server` loses a connection that is just being accepted."""
    try:
        yield server
    finally:
        await stop_listening(server)
