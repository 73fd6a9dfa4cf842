"""Egress: the filtering proxy through which a confined command reaches its granted hosts.

Speaks HTTP (absolute form and CONNECT) and SOCKS5 on one socket. It decides by name, resolves
the name itself, connects only to an address that `addresses` calls public, and logs every
destination. Names are matched label by label: `*.pkg.example` never matches `notpkg.example`.

A command may hold place holders of secrets. The proxy puts the values in only on the way to a host that the
secret is bound to, and only over TLS. If the command writes `http://HOST/…`, that never leaves this machine as it
is: the proxy speaks https to the host. In a tunnel (CONNECT, SOCKS5) to such a host it ends the command's TLS and
opens its own (`interception`). Tunnels to other hosts pass unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pegboard.core.hosts import host_is
from pegboard.core.secrets.handles import Substitution
from pegboard.net.addresses import classify
from pegboard.net.destinations import (
    OPENED_BY_OWNER,
    Destination,
    Resolve,
    admits,
    names,
    resolve_here,
    split_rule,
    within,
)
from pegboard.net.listening import stop_listening
from pegboard.net.relay import Streams, relay
from pegboard.net.substitution import inward, outward, substitute_head, withheld

if TYPE_CHECKING:
    from pegboard.net.authority import CertificateAuthority

_HEAD_LIMIT: Final = 65_536
_CONNECT_S: Final = 20.0
_HEAD_S: Final = 30.0
# A command may try as often as it likes; what is kept of it, and held open for it, has an end.
_MOST_ATTEMPTS: Final = 10_000
_MOST_OPEN: Final = 512
_KEPT: Final = 1_000
_BARE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]")
_HOP_HEADERS: Final = frozenset(
    (b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive", b"te", b"upgrade")
)

T = TypeVar("T")
Dial: TypeAlias = Callable[..., Awaitable[Streams]]


class DestinationDenied(Exception):
    """A destination was not allowed; the text says why."""


async def dial_out(address: str, port: int, **tls: Any) -> Streams:
    """A connection to an address that was checked.

    Raises:
        OSError: it cannot be reached.
    """
    return await asyncio.open_connection(address, port, **tls)


class EgressProxy:
    """One proxy for one command, or for a browser.

    Args:
        hosts: rules, `host`, `*.suffix`, each with an optional `:port`; without one, ports 80 and 443.
            None = every host and port that `refuse` does not refuse.
        allow_private: rules for which an address that is not public is fine too.
        allow_cidrs: networks whose addresses are fine though they are not public.
        resolve: how names become addresses.
        on_destination: called with every attempt, for the audit.
        substitutions: secrets whose placeholders the command has.
        authority: ends the command's TLS for the hosts of `substitutions`; None = such tunnels pass unread.
        tls: makes the context for the https connections of `substitutions`; None = the system's authorities.
        refuse: why a host and port must not be reached, empty if they may; asked before the name is resolved.
        most_attempts: connections that may be tried; None = no end, and only the last ones are kept.
        dial: how an address is connected to.
    """

    def __init__(
        self,
        hosts: Sequence[str] | None,
        *,
        allow_private: Sequence[str] = (),
        allow_cidrs: Sequence[str] = (),
        resolve: Resolve = resolve_here,
        on_destination: Callable[[Destination], None] | None = None,
        substitutions: Sequence[Substitution] = (),
        authority: CertificateAuthority | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        refuse: Callable[[str, int], str] | None = None,
        most_attempts: int | None = _MOST_ATTEMPTS,
        dial: Dial = dial_out,
    ) -> None:
        self._swaps = [(swap, [split_rule(rule) for rule in swap.hosts]) for swap in substitutions]
        self._tls = tls or cache(ssl.create_default_context)
        self._rules = None if hosts is None else [split_rule(rule) for rule in hosts]
        self._private = [split_rule(rule) for rule in allow_private]
        self._cidrs = tuple(allow_cidrs)
        self._resolve = resolve
        self._on_destination = on_destination
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._refuse = refuse
        self._most_attempts = most_attempts
        self._dial = dial
        self.destinations: list[Destination] = []
        self._notes: dict[str, None] = {}
        self._authority = authority
        if authority is not None:
            authority.on_other_name = self._on_other_name

    async def serve(self, listener: socket.socket) -> None:
        """Answer on a listening socket (TCP or Unix); it is ours from now on."""
        listener.setblocking(False)
        start = asyncio.start_unix_server if listener.family == socket.AF_UNIX else asyncio.start_server
        try:
            self._server = await start(self._accept, sock=listener, limit=_HEAD_LIMIT)
        except BaseException:
            listener.close()
            raise

    async def close(self) -> None:
        """Stop, and cut every connection."""
        try:
            if self._server is not None:
                await stop_listening(self._server)
        finally:
            for task in list(self._open):
                task.cancel()
            if self._open:
                await asyncio.wait(list(self._open), timeout=2.0)

    def refusals(self) -> list[str]:
        """One sentence for each refused destination, and for each secret that was not put in."""
        seen = dict.fromkeys((d.host, d.port, d.reason, d.hint) for d in self.destinations if not d.allowed)
        return [
            *(
                f"connection to {host}:{port} was refused: {reason}; {hint}"
                for host, port, reason, hint in seen
            ),
            *self._notes,
        ]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST_OPEN:
            writer.close()
            return
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
        try:
            async with asyncio.timeout(_HEAD_S):
                first = await reader.readexactly(1)
            if first == b"\x05":
                await self._socks(reader, writer)
            else:
                await self._http(first, reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            # A broken client or a cut connection concerns nobody else.
            pass
        except asyncio.CancelledError:
            # close() ends the connections; the server must not report them as failed.
            pass
        finally:
            writer.close()
            if task is not None:
                self._open.discard(task)

    async def _http(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_S):
            head = first + await reader.readuntil(b"\r\n\r\n")
        if b"\0" in head or _BARE.search(head):
            # Programs read such lines differently: a second Host could hide behind one.
            await _answer(writer, 400, "The request head contains a bare line ending or a NUL.")
            return
        line, _, rest = head.partition(b"\r\n")
        method, target, version = line.split(b" ", 2)
        if method == b"CONNECT":
            host, port = split_rule(target.decode("ascii"))
            tunnel = await self._or_refuse(self._open_tunnel(host, port or 443), host, port or 443, writer)
            if tunnel is not None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await tunnel((reader, writer))
            return
        url = urlsplit(target.decode("latin-1"))
        if url.scheme != "http" or not url.hostname:
            await _answer(writer, 400, "This is a proxy: absolute http URLs and CONNECT only.")
            return
        host, port = url.hostname.rstrip(".").lower(), url.port or 80
        private = self._is_private(host, port)
        # A value never travels in the clear, except to a host of the owner's own network.
        secure = [] if private else self._bound(host, 443 if port == 80 else port)
        swaps = secure or (self._bound(host, port) if private else [])
        if secure:
            port = 443 if port == 80 else port
        others = self._others(swaps)
        out, back = outward(swaps, others), inward(swaps)
        upstream = await self._or_refuse(
            self._upstream(host, port, secure=bool(secure), log=not swaps), host, port, writer
        )
        if upstream is None:
            return
        path = url.path or "/"
        if url.query:
            path += "?" + url.query
        # One request a connection: a later one on it could name another host.
        kept = [
            header
            for header in rest.removesuffix(b"\r\n\r\n").split(b"\r\n")
            if header.partition(b":")[0].strip().lower() not in _HOP_HEADERS | {b"host"}
        ]
        host_header = url.netloc.rpartition("@")[2].encode("latin-1")
        if swaps:
            # A packed answer could carry the value past the swap back.
            kept = [h for h in kept if h.partition(b":")[0].strip().lower() != b"accept-encoding"]
            kept.append(b"Accept-Encoding: identity")
        lines = [b" ".join((method, path.encode("latin-1"), version)), b"Host: " + host_header, *kept]
        whole = b"\r\n".join([*lines, b"Connection: close", b"", b""])
        upstream[1].write(substitute_head(whole, out, back))
        address = str(upstream[1].get_extra_info("peername", ("?",))[0])
        in_head = out.names(swaps)
        if swaps:
            self._log(host, port, True, address, in_head)
        try:
            await relay((reader, writer), upstream, out=out, back=back)
        finally:
            for text in withheld(others, out, f"{host}:{port}"):
                self._note(text)
            if in_body := tuple(n for n in out.names(swaps) if n not in in_head):
                self._log(host, port, True, address, in_body)

    async def _or_refuse(
        self, work: Awaitable[T], host: str, port: int, writer: asyncio.StreamWriter
    ) -> T | None:
        try:
            return await work
        except DestinationDenied as refusal:
            await _answer(writer, 403, f"Refused by the sandbox: {host}:{port}: {refusal}.")
        except (OSError, TimeoutError) as problem:
            await _answer(writer, 502, f"{host}:{port} cannot be reached: {problem}.")
        return None

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """RFC 1928: no authentication, CONNECT only."""
        async with asyncio.timeout(_HEAD_S):
            methods = await reader.readexactly((await reader.readexactly(1))[0])
            if 0 not in methods:
                writer.write(b"\x05\xff")
                return
            writer.write(b"\x05\x00")
            _, command, _, kind = await reader.readexactly(4)
            if kind == 1:
                host = socket.inet_ntop(socket.AF_INET, await reader.readexactly(4))
            elif kind == 4:
                host = socket.inet_ntop(socket.AF_INET6, await reader.readexactly(16))
            elif kind == 3:
                host = (await reader.readexactly((await reader.readexactly(1))[0])).decode("ascii")
            else:
                return
            (port,) = struct.unpack("!H", await reader.readexactly(2))
        if command != 1:
            writer.write(_socks_reply(7))
            return
        try:
            tunnel = await self._open_tunnel(host, port)
        except DestinationDenied:
            writer.write(_socks_reply(2))
            return
        except (OSError, TimeoutError):
            writer.write(_socks_reply(4))
            return
        writer.write(_socks_reply(0))
        await tunnel((reader, writer))

    async def _open_tunnel(self, host: str, port: int) -> Callable[[Streams], Awaitable[None]]:
        """A tunnel to an allowed destination, to be called with the command's connection.

        Raises: see `_upstream`.
        """
        host = host.rstrip(".").lower()
        bound = self._bound(host, port)
        if not bound or self._authority is None:
            upstream = await self._upstream(host, port)
            return partial(relay, far=upstream)
        addresses = await self._check(host, port)
        from pegboard.net.interception import Interception

        return Interception(
            host=host,
            port=port,
            context=self._authority.context(host),
            substitutions=bound,
            others=self._others(bound),
            connect=lambda secure: self._dial_any(host, port, addresses, secure=secure),
            note=self._note,
            on_secrets=lambda address, names: self._log(host, port, True, address, names),
        ).run

    def _note(self, text: str) -> None:
        if len(self._notes) < _KEPT:
            self._notes[text] = None

    def _on_other_name(self, host: str, name: str | None) -> None:
        asked = f"asked for {name} by SNI" if name else "did not name its host by SNI"
        self._note(f"a TLS connection to {host} {asked} and was refused: both must be the same host")

    def _others(self, swaps: Sequence[Substitution]) -> list[Substitution]:
        return [swap for swap, _ in self._swaps if swap not in swaps]

    def _bound(self, host: str, port: int) -> list[Substitution]:
        host = host.rstrip(".").lower()
        return [swap for swap, rules in self._swaps if admits(rules, host, port)]

    def _is_private(self, host: str, port: int) -> bool:
        return names(self._private, host, port)

    async def _upstream(self, host: str, port: int, *, secure: bool = False, log: bool = True) -> Streams:
        """A connection to an allowed destination, at an address that was checked.

        Args:
            secure: speak TLS, with a certificate for the name.
            log: note the success; who passes False does it later.

        Raises:
            DestinationDenied: no rule names it, or an address of it is not public.
            OSError: it cannot be reached.
        """
        return await self._dial_any(host, port, await self._check(host, port), secure=secure, log=log)

    async def _check(self, host: str, port: int) -> Sequence[str]:
        """The addresses of an allowed destination; raises as `_upstream` does."""
        host = host.rstrip(".").lower()
        if self._most_attempts is not None and len(self.destinations) >= self._most_attempts:
            raise DestinationDenied(f"the command has tried {self._most_attempts:,} connections")
        if self._rules is not None and not admits(self._rules, host, port):
            named = any(host_is(rule, host) for rule, _ in self._rules)
            why = f"port {port} of this host is not allowed" if named else "this host is not allowed"
            raise self._refused(host, port, why, "ask for it with hosts=[{!r}]")
        if self._refuse is not None and (reason := self._refuse(host, port)):
            raise self._refused(host, port, reason)
        private = self._is_private(host, port)
        async with asyncio.timeout(_CONNECT_S):
            addresses = await self._addresses(host, port)
        for address in addresses:
            reason = None if private or within(address, self._cidrs) else classify(address)
            if reason is not None:
                raise self._refused(
                    host, port, f"its address {address} is not public ({reason})", OPENED_BY_OWNER
                )
        return addresses

    async def _dial_any(
        self, host: str, port: int, addresses: Sequence[str], *, secure: bool = False, log: bool = True
    ) -> Streams:
        host = host.rstrip(".").lower()
        tls: dict[str, Any] = {"ssl": self._tls(), "server_hostname": host} if secure else {}
        problem: OSError | None = None
        async with asyncio.timeout(_CONNECT_S):
            for address in addresses:
                try:
                    streams = await self._dial(address, port, **tls)
                except OSError as failed:
                    problem = failed
                    continue
                if log:
                    self._log(host, port, True, address)
                return streams
        raise problem or OSError(f"{host} has no address")

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        with contextlib.suppress(ValueError):
            return [str(ip_address(host))]
        return await self._resolve(host, port)

    def _refused(self, host: str, port: int, reason: str, hint: str = "") -> DestinationDenied:
        seen = self._log(host, port, False, reason, hint=hint)
        return DestinationDenied(f"{reason}; {seen.hint}" if hint else reason)

    def _log(
        self, host: str, port: int, allowed: bool, reason: str, secrets: tuple[str, ...] = (), hint: str = ""
    ) -> Destination:
        seen = Destination(
            host=host, port=port, allowed=allowed, reason=reason, at=time.time(), secrets=secrets
        )
        seen = replace(seen, hint=hint.format(seen.name))
        self.destinations.append(seen)
        if self._most_attempts is None:
            del self.destinations[:-_KEPT]
        if self._on_destination is not None:
            self._on_destination(seen)
        return seen


async def _answer(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    body = (text + "\n").encode()
    head = f"HTTP/1.1 {status} Pegboard\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    await writer.drain()


def _socks_reply(code: int) -> bytes:
    return bytes((5, code, 0, 1)) + bytes(6)
