"""Reach: where a server may send our client for its login (corpus mcp-078; security.md, network guard).

The settings name a server; the server names everything else: who protects it, where metadata lie, where codes become
tokens. A public server could so have us ask a service on this machine, or a cloud's metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

import httpx2

from pegboard.core.errors import Unavailable
from pegboard.mcp.text_warnings import sanitise
from pegboard.net.destinations import Resolve, resolve_here, within
from pegboard.web.guard import judge_url

_LOOPBACK: Final = ("127.0.0.0/8", "::1/128")
_PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
_PORTS: Final = {"http": 80, "https": 443}


class AddressGuard:
    """Judges the addresses that requests go to.

    Args:
        own: addresses of the settings; their origins are reached wherever they are. Where the first of them is on this
            machine, or names a private address, what it names may be as near, and no nearer.
        resolve: addresses of a name.
    """

    def __init__(self, own: Iterable[str], resolve: Resolve = resolve_here) -> None:
        given = [url for url in own if url]
        self._own = {_origin(url) for url in given}
        self._resolve = resolve
        self._near = _near(urlsplit(given[0]).hostname or "")

    async def address(self, url: str) -> str | None:
        """The address to connect to; None where the settings name this origin.

        Raises:
            Unavailable: it is farther than the server may send us.
        """
        if _origin(url) in self._own:
            return None
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise _refused(url, "it is no web address")
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
        if self._near:
            try:
                addresses = list(await self._resolve(host, port))
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
            addresses = list(judged.addresses)
        if parts.scheme != "https" and not all(within(one, _LOOPBACK) for one in addresses):
            raise _refused(url, "secrets would go over http in the clear")
        if not addresses:
            raise _refused(url, f"{host} has no address")
        return addresses[0]


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Connects to the address that was judged, under the name that was asked for."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, reach: AddressGuard) -> None:
        self._inner = inner
        self._reach = reach

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See AsyncBaseTransport."""
        address = await self._reach.address(str(request.url))
        if address is None:
            return await self._inner.handle_async_request(request)
        # The name is not looked up again: a second answer could be another address.
        return await self._inner.handle_async_request(
            httpx2.Request(
                request.method, request.url.copy_with(host=address), headers=request.headers, stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.host},
            )
        )  # fmt: skip

    async def aclose(self) -> None:
        """See AsyncBaseTransport."""
        await self._inner.aclose()


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its very name, which no resolver can change."""
    return host in ("localhost", "::1") or host.startswith("127.")


def _near(host: str) -> tuple[str, ...]:
    """Networks that a server of this host may name. A name is never near: its owner decides what it leads to."""
    if is_loopback(host):
        return (*_LOOPBACK, *_PRIVATE)
    try:
        return _PRIVATE if within(host, _PRIVATE) else ()
    except ValueError:
        return ()


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)


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
