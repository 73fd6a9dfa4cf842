"""Serving: the HTTP face behind uvicorn, with a deadline for whoever sends nothing (corpus mcp-100)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from pegboard.mcp.serve_http import HttpApp
from pegboard.mcp.server import ToolServer

HEAD_S: Final = 15.0
"""Seconds that a connection has for the head of its first request."""


def local_names(host: str, port: int) -> list[str]:
    """The Host headers that a server on an address answers to."""
    names = (
        {host if ":" not in host else f"[{host}]", "localhost", "127.0.0.1", "[::1]"}
        if _is_loopback(host)
        else {host}
    )
    return sorted(f"{n}:{port}" for n in names)


async def http_server(
    service: ToolServer,
    *,
    host: str,
    port: int,
    token: str | None = None,
    tokens: Mapping[str, str] | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] | None = None,
    started: Callable[[int], None] | None = None,
    head_s: float = HEAD_S,
) -> None:
    """Serve until cancelled.

    Args:
        token, tokens: one for all clients, or one by client; neither is refused anywhere but on loopback.
        hosts: further names (`name:port`) that it is reached by.
        started: told the port once requests are taken; port 0 takes a free one.

    Raises:
        ValueError: without a token on an address that other machines reach.
    """
    import uvicorn

    if token is not None:
        tokens = {**(tokens or {}), "": token}
    if tokens is None and not _is_loopback(host):
        raise ValueError("a server that other machines reach needs a token")
    bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    port = bound.getsockname()[1]
    face = HttpApp(service, tokens=tokens, hosts=[*local_names(host, port), *hosts], origins=origins)
    config = uvicorn.Config(
        face, log_level="error", access_log=False, lifespan="off", server_header=False, date_header=False,
        ws="none", http=_impatient(head_s), timeout_graceful_shutdown=2, timeout_keep_alive=75,
    )  # fmt: skip
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[method-assign]
    serving = asyncio.ensure_future(server.serve(sockets=[bound]))
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110  (uvicorn has a flag, no event)
            await asyncio.sleep(0.01)
        if started is not None:
            started(port)
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await face.aclose()
        await asyncio.wait([serving], timeout=5)
        bound.close()


def _impatient(head_s: float) -> Any:
    """uvicorn's protocol, ending connections on which no whole request head has come in time."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # Head and body are two writes; without this the second waits for the client's delayed acknowledgement.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._impatience = asyncio.get_running_loop().call_later(head_s, self._late)

        def _late(self) -> None:
            if cast("Any", self.cycle) is None and not self.transport.is_closing():
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._impatience.cancel()
            super().connection_lost(exc)

    return Impatient


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
