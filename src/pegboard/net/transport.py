"""GuardedTransport: connections to judged addresses alone, under every HTTP client of the package."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import httpx2

from pegboard.core.errors import Unavailable

Reach: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses at which a URL may be asked, none = the owner named it: as it is. Raises what says why it may not."""

PORTS: Final = {"http": 80, "https": 443}
SECRET_HEADERS: Final = frozenset(
    {"authorization", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key", "x-subscription-token"}
)
"""Request headers that hold credentials."""

_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # A model may think for minutes; a gateway forgets a connection that says nothing for so long.
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 60), ("TCP_KEEPCNT", 5))
        if hasattr(socket, name)
    ),
)


class OversizedBody(httpx2.ReadError):
    """A document or event is over the limit."""


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to the addresses that were judged, under the name that was asked for; no redirects, no cookies.

    Args:
        reach: judges each URL.
        verify: certificates are checked with this; True = those of the system, False = only for plain http.
        proxy: the proxy to go through, empty = none. It resolves names itself.
        max_item_bytes: bytes of one document, or one event of a stream; None = the reader counts.
        on_status: told the status of each answer.
    """

    def __init__(
        self,
        reach: Reach,
        *,
        verify: ssl.SSLContext | bool = True,
        proxy: str = "",
        max_item_bytes: int | None = None,
        on_status: Callable[[int], None] | None = None,
    ) -> None:
        self._reach = reach
        self._max_item_bytes = max_item_bytes
        self._on_status = on_status
        self._inner = httpx2.AsyncHTTPTransport(
            verify=certificates() if verify is True else verify, trust_env=False, proxy=proxy or None,
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100), socket_options=_KEEPALIVE,
        )  # fmt: skip

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See AsyncBaseTransport."""
        addresses = await self._reach(str(request.url))
        response = await (
            self._connect(request, addresses) if addresses else self._inner.handle_async_request(request)
        )
        if self._on_status is not None:
            self._on_status(response.status_code)
        if self._max_item_bytes is not None:
            response.stream = _BoundedStream(response.stream, self._max_item_bytes)
        return response

    async def aclose(self) -> None:
        """See AsyncBaseTransport."""
        await self._inner.aclose()

    async def _connect(self, request: httpx2.Request, addresses: Sequence[str]) -> httpx2.Response:
        """The answer from the first address that takes the connection.

        The name is not looked up again: a second answer could be another address.
        """
        refused: Exception = httpx2.ConnectError("no address")
        for address in addresses:
            try:
                return await self._inner.handle_async_request(
                    httpx2.Request(
                        request.method, request.url.copy_with(host=address), headers=request.headers, stream=request.stream,
                        extensions={**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")},
                    )
                )  # fmt: skip
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                refused = error
        raise refused


class _BoundedStream(httpx2.AsyncByteStream):
    """Ends where a single document or event is over the limit, while it arrives."""

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
                raise OversizedBody(f"over {self._limit / (1 << 20):g} MiB and was dropped")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def reach_only(url: str) -> Reach:
    """Lets requests to the origin of a URL through, wherever that is, and no others: it was named by the owner."""
    own = origin_of(url)

    async def reach(asked: str) -> Sequence[str]:
        if origin_of(asked) != own:
            raise Unavailable(
                f"{urlsplit(asked).hostname} is not asked: only {urlsplit(url).hostname} was named"
            )
        return ()

    return reach


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL, the usual port where it names none."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)


def environment_proxy(url: str) -> str:
    """The proxy that the variables of this machine name for a URL (HTTPS_PROXY, NO_PROXY …), empty if none."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    found = getproxies()
    proxy = found.get(parts.scheme) or found.get("all") or ""
    if not proxy or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


@cache
def certificates() -> ssl.SSLContext:
    """Those of the system, or of SSL_CERT_FILE; read once, which takes longer than most requests."""
    return httpx2.create_ssl_context()
