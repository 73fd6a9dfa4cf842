"""HTTP transports of the client: bounded bodies, no proxy from the environment, no credentials in the clear, nobody else's network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from mcp.client.sse import sse_client
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED

from pegboard.core.errors import ConfigError
from pegboard.mcp.address_guard import AddressGuard, GuardedTransport, is_loopback
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.inbound import ConnectionClosed

MAX_BODY: Final = 16 * 1024 * 1024
_SECRET_HEADERS: Final = ("authorization", "cookie", "x-api-key", "proxy-authorization")


def http_client(
    config: ServerConfig, auth: httpx2.Auth | None, answered: Callable[[int], None]
) -> httpx2.AsyncClient:
    """A client for the server's address, with its credentials.

    Args:
        config, auth: whose settings and credentials hold.
        answered: told the status of each answer: what becomes of a refusal does not say which it was.

    Raises:
        ConfigError: credentials would go unencrypted to another machine.
    """
    refuse_clear_credentials(config.url, config.headers, has_auth=auth is not None)
    return _client(config, config.headers, auth, httpx2.Timeout(30.0, read=None), answered)


@asynccontextmanager
async def sse_streams(
    config: ServerConfig, auth: httpx2.Auth | None, answered: Callable[[int], None]
) -> AsyncGenerator[tuple[Any, Any]]:
    """The stream pair of a server that speaks the transport of 2024-11-05. Arguments and errors as `http_client`."""
    refuse_clear_credentials(config.url, config.headers, has_auth=auth is not None)

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return _client(config, headers or {}, auth, timeout, answered)

    async with sse_client(
        config.url, headers=dict(config.headers), httpx_client_factory=factory, auth=auth
    ) as streams:
        yield streams


class SseDispatcher(JSONRPCDispatcher[TransportContext]):
    """The package's, whose word for a connection that is gone is told apart from a server's error of the same code."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        """See Dispatcher.

        Raises:
            Closed: the connection is gone.
        """
        try:
            return await super().send_raw_request(method, params, opts, **more)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and error.message == "Connection closed":
                raise ConnectionClosed from None
            raise


def refuse_clear_credentials(url: str, headers: Mapping[str, str], *, has_auth: bool) -> None:
    """Refuse to send credentials over plain HTTP to anything but this machine (corpus mcp-084).

    Raises:
        ConfigError: that would happen.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return
    if has_auth or parts.password or any(name.lower() in _SECRET_HEADERS for name in headers):
        raise ConfigError(
            f"credentials for {parts.hostname} would go over http in the clear; use https, or a loopback address"
        )


def _client(
    config: ServerConfig,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None,
    timeout: httpx2.Timeout | None,
    answered: Callable[[int], None],
) -> httpx2.AsyncClient:
    reach = AddressGuard((config.url, config.oauth.get("issuer", "")))
    return httpx2.AsyncClient(
        headers=dict(headers), auth=auth, timeout=timeout or httpx2.Timeout(30.0), trust_env=False,
        transport=_Bounded(GuardedTransport(httpx2.AsyncHTTPTransport(), reach), MAX_BODY, answered), follow_redirects=False,
    )  # fmt: skip


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends a response whose single document or event is over the limit, while it arrives."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, limit: int, answered: Callable[[int], None]) -> None:
        self._inner = inner
        self._limit = limit
        self._answered = answered

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        self._answered(response.status_code)
        response.stream = _BoundedStream(response.stream, self._limit)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            # An event stream may be endless; a single event or document may not.
            cut = max(chunk.rfind(b"\n\n"), chunk.rfind(b"\r\n\r\n"))
            size = size + len(chunk) if cut < 0 else len(chunk) - cut
            if size > self._limit:
                raise httpx2.ReadError(f"the server's answer is over {self._limit} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
