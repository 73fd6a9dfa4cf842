"""HTTP client for servers: where it may connect, bounded bodies, no proxy from the environment, no credentials in the clear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
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

from pegboard.core.errors import ConfigError, Unavailable
from pegboard.core.hosts import ascii_host
from pegboard.mcp.config import ServerConfig
from pegboard.mcp.inbound import ConnectionClosed
from pegboard.mcp.text_warnings import sanitise
from pegboard.net.destinations import Resolve, is_loopback, resolve_here, within
from pegboard.net.transport import PORTS, SECRET_HEADERS, GuardedTransport, origin_of
from pegboard.net.urls import judge_url

MAX_BODY: Final = 16 * 1024 * 1024
_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")


class AddressGuard:
    """Judges the addresses that requests go to.

    The settings name a server; the server names everything else: who protects it, where metadata lie, where codes
    become tokens. A public server could so have us ask a service on this machine, or a cloud's metadata.

    Args:
        own: addresses of the settings; their origins are reached wherever they are. Where the first of them is on this
            machine, or names a private address, what it names may be as near, and no nearer.
        resolve: addresses of a name.
    """

    def __init__(self, own: Iterable[str], resolve: Resolve = resolve_here) -> None:
        given = [url for url in own if url]
        self._own = {origin_of(url) for url in given}
        self._resolve = resolve
        self._near = _near(urlsplit(given[0]).hostname or "")

    async def addresses(self, url: str) -> Sequence[str]:
        """The addresses to connect to; none where the settings name this origin.

        Raises:
            Unavailable: it is farther than the server may send us.
        """
        if origin_of(url) in self._own:
            return ()
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise _refused(url, "it is no web address")
        try:
            host, port = ascii_host(parts.hostname), parts.port or PORTS[parts.scheme]
        except ValueError as error:
            raise _refused(url, str(error)) from None
        if self._near:
            try:
                addresses = await self._resolve(host, port)
            except (OSError, UnicodeError) as error:
                raise _refused(url, f"{host} has no address ({error})") from None
            for one in addresses:
                judged = judge_url(
                    f"https://[{one}]" if ":" in one else f"https://{one}", allow_cidrs=self._near
                )
                if not judged.allowed:
                    raise _refused(url, judged.reason)
        else:
            found = await asyncio.gather(self._resolve(host, port), return_exceptions=True)
            judged = judge_url(url, lambda _: _settled(found[0]))
            if not judged.allowed:
                raise _refused(url, judged.reason)
            addresses = judged.addresses
        if parts.scheme != "https" and not all(within(one, _LOOPBACK) for one in addresses):
            raise _refused(url, "secrets would go over http in the clear")
        if not addresses:
            raise _refused(url, f"{host} has no address")
        return addresses


def _near(host: str) -> tuple[str, ...]:
    """Networks that a server of this host may name. A name is never near: its owner decides what it leads to."""
    if is_loopback(host):
        return (*_LOOPBACK, *_PRIVATE)
    try:
        return _PRIVATE if within(host, _PRIVATE) else ()
    except ValueError:
        return ()


def _settled(found: Sequence[str] | BaseException) -> Sequence[str]:
    if isinstance(found, BaseException):
        raise found
    return found


def _refused(url: str, why: str) -> Unavailable:
    parts = urlsplit(url)
    named = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return Unavailable(
        f"the server names {sanitise(named)[:200]} for its login, which is not asked: {why.partition('. Where ')[0]}",
        hint="If that address is meant, name it in the server's settings: oauth.issuer.",
    )


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
            ConnectionClosed: the connection is gone.
        """
        try:
            return await super().send_raw_request(method, params, opts, **more)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED and error.message == "Connection closed":
                raise ConnectionClosed from None
            raise


def refuse_clear_credentials(url: str, headers: Mapping[str, str], *, has_auth: bool) -> None:
    """Refuse to send credentials over plain HTTP to anything but this machine.

    Raises:
        ConfigError: that would happen.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or is_loopback(parts.hostname or ""):
        return
    if has_auth or parts.password or any(name.lower() in SECRET_HEADERS for name in headers):
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
        transport=GuardedTransport(reach.addresses, max_item_bytes=MAX_BODY, on_status=answered), follow_redirects=False,
    )  # fmt: skip
