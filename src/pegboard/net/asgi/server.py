"""uvicorn as we run it: on one socket, behind the guard, with deadlines, and stopped by cancelling."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute
from uvicorn.protocols.http.h11_impl import H11Protocol

from pegboard.net.asgi.guard import Authenticate, RequestGuard, plain_refusal
from pegboard.net.destinations import is_loopback
from pegboard.net.listening import stop_listening

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
REQUEST_S: Final = 30.0
DRAIN_S: Final = 2.0


async def serve(
    routes: Sequence[BaseRoute],
    *,
    host: str,
    port: int,
    tokens: Mapping[str, str] | Authenticate | None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] | None = None,
    public: Collection[str] = (),
    refuse: Callable[[HTTPException], Response] = plain_refusal,
    handlers: Mapping[Any, Any] | None = None,
    max_body: int | None = MAX_BODY_BYTES,
    on_start: Callable[[int], None] | None = None,
    on_stop: Callable[[], None] | None = None,
    request_s: float = REQUEST_S,
    drain_s: float = DRAIN_S,
) -> None:
    """Serve until cancelled; then take no more requests and give running ones `drain_s` seconds to finish.

    Signals stay with the caller.

    Args:
        tokens, origins, public, refuse: see RequestGuard.
        handlers: what answers an exception, by its class, as starlette takes it.
        max_body: bytes of a request's body; a larger one is refused in plain text. None = the endpoints see to it.
        hosts: Host headers (`name:port`) accepted besides the address itself.
        on_start: called with the port once requests are accepted; port 0 takes a free one.
        on_stop: called before the drain, to end responses that would not end by themselves.
        request_s: seconds from the first byte of a request to its last one, from the connection on for the first
            request; a slower connection is closed.

    Raises:
        ValueError: there are no tokens, and other machines reach the address.
        OSError: the address cannot be used.
    """
    if tokens is None and not is_loopback(host):
        raise ValueError(f"{host} is reached by other machines, so a token is required")
    bound = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    # Head and body are two writes; without this, which connections inherit, the second waits for the client's delayed
    # acknowledgement of the first.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    port = bound.getsockname()[1]
    guard = Middleware(
        RequestGuard, tokens=tokens, hosts=[*local_hosts(host, port), *hosts], origins=origins, public=public,
        refuse=refuse,
    )  # fmt: skip
    config = uvicorn.Config(
        Starlette(
            routes=routes, middleware=[guard], exception_handlers=handlers, max_body_size=max_body
        ),
        log_level="error", access_log=False, lifespan="off", server_header=False, date_header=False, ws="websockets-sansio",
        ws_max_size=MAX_BODY_BYTES,
        http=_with_deadline(request_s), timeout_graceful_shutdown=int(drain_s), timeout_keep_alive=75,
    )  # fmt: skip
    server = _Server(config, lambda: on_start(port) if on_start else None)
    serving = asyncio.ensure_future(server.serve(sockets=[bound]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        try:
            if on_stop is not None:
                on_stop()
            await asyncio.wait([serving], timeout=drain_s + 3)
        finally:
            # Whoever waits for this may be cancelled once more.
            server.stop_listening()
            bound.close()


def local_hosts(host: str, port: int) -> list[str]:
    """The Host headers of an address that a server is bound to."""
    shown = f"[{host}]" if ":" in host else host
    names = {shown, "localhost", "127.0.0.1", "[::1]"} if is_loopback(host) else {shown}
    return sorted(f"{name}:{port}" for name in names)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self.servers: list[asyncio.Server] = []
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_start()

    def stop_listening(self) -> None:
        """Accept nothing more."""
        for one in self.servers:
            one.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await stop_listening(*self.servers)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _with_deadline(request_s: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, closing connections whose requests take too long to arrive."""

    class DeadlineProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None
        _upgraded = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._unwatch()

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._upgraded = True
            self._unwatch()
            super().handle_websocket_upgrade(event)

        def _watch(self) -> None:
            cycle: Any = self.cycle
            if self._upgraded:
                return  # Its request is whole; the connection stays.
            if cycle is not None and not cycle.response_complete and not cycle.more_body:
                self._unwatch()
            elif self._deadline is None and not self.transport.is_closing():
                self._deadline = self.loop.call_later(request_s, self.transport.close)

        def _unwatch(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return DeadlineProtocol
