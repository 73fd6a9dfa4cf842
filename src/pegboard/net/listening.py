"""Ends asyncio servers without losing a connection that is being accepted."""

from __future__ import annotations

import asyncio
from typing import Final

_TURNS: Final = 4
"""Of the event loop, until a connection that was accepted has reached its protocol: a task, a transport and a call,
and one more until what the protocol starts has begun."""


async def stop_listening(*servers: asyncio.Server) -> None:
    """Accept nothing more, let what was accepted reach its protocol, and close the servers.

    `Server.close` alone leaves a connection that was accepted in the same turn of the loop without anybody who closes
    it: asyncio then fails to give it to the closed server.
    """
    loop = asyncio.get_running_loop()
    for server in servers:
        for sock in server.sockets:
            loop.remove_reader(sock.fileno())
    try:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
    finally:
        # Whoever waits for this may be cancelled meanwhile.
        for server in servers:
            server.close()
