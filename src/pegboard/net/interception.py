"""The inside of a tunnel to a host that secrets are bound to: its TLS is ended here, and a verified one opened to it.

Requests and answers are read and written again, message by message (h11), so that a value can only be put into a
request that names this host: the tunnel, the SNI (checked by `authority`) and `Host` must agree. Bodies are passed
on in pieces. Other protocols than HTTP in TLS end with an error; what is not TLS passes unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import h11

from pegboard.core.secrets.handles import Substitution
from pegboard.net.destinations import split_rule
from pegboard.net.relay import CHUNK, IDLE_S, Streams, relay
from pegboard.net.substitution import ByteSubstituter, inward, outward, substitute_head, withheld

Head: TypeAlias = h11.Response | h11.InformationalResponse

_HEAD_LIMIT: Final = 65_536
_HANDSHAKE_S: Final = 30.0
_SHUTDOWN_S: Final = 2.0
# Whoever opens a tunnel for TLS or HTTP speaks first, and at once.
_FIRST_S: Final = 5.0
_TLS_HANDSHAKE: Final = b"\x16"
# An answer that is packed could carry a value past the way back (as could packed frames of a WebSocket).
_PACKING: Final[frozenset[bytes]] = frozenset(
    (b"accept-encoding", b"te", b"sec-websocket-extensions", b"http2-settings")
)


class _HandshakeFailed(Exception):
    """The command did not complete a TLS handshake; the text says why."""


@dataclass(slots=True, kw_only=True)
class Interception:
    """One tunnel.

    Attributes:
        host, port: where it leads.
        context: our side of the command's TLS.
        substitutions: secrets that are bound to the host.
        others: the command's other secrets.
        connect: opens a connection to the host, with TLS if its argument is true; raises OSError.
        note: is given what must be said of the tunnel.
        on_secrets: is given the host's address and the names of secrets, when values were put in.
    """

    host: str
    port: int
    context: ssl.SSLContext
    substitutions: Sequence[Substitution]
    others: Sequence[Substitution]
    connect: Callable[[bool], Awaitable[Streams]]
    note: Callable[[str], None]
    on_secrets: Callable[[str, tuple[str, ...]], object]
    _names: set[str] = field(default_factory=set[str])

    @property
    def _where(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def _site(self) -> str:
        """As a URL spells it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"

    async def run(self, near: Streams) -> None:
        """Serve the command's connection to its end.

        Raises:
            OSError: it was cut.
        """
        first = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_S):
                first = await near[0].read(CHUNK)
        if not first and near[0].at_eof():
            return
        if not first.startswith(_TLS_HANDSHAKE):
            for one in self.substitutions:
                self.note(
                    f"secret://{one.name} was not put in for {self._where}: the tunnel does not carry TLS. "
                    f"Write https://{self._site}/… or http://{self._site}/… in the command."
                )
            far = await self.connect(False)
            far[1].write(first)
            await relay(near, far)
            return
        try:
            async with _ended_tls(near, first, self.context) as plain:
                await self._requests(_Peer(h11.SERVER, plain))
        except _HandshakeFailed as problem:
            self.note(
                f"the command ended the TLS handshake with {self._where} ({problem}). A program that pins "
                "certificates, has its own list of authorities or speaks HTTP/2 only cannot use secrets over https. "
                f"Write http://{self._site}/…, or let the program read the authorities in $SSL_CERT_FILE."
            )

    async def _requests(self, near: _Peer) -> None:
        far: _Peer | None = None
        try:
            while (request := await _next_request(near, far)) is not None:
                if problem := self._misdirected(request):
                    self.note(problem)
                    await near.answer(421, problem)
                    return
                if far is None:
                    far = _Peer(h11.CLIENT, await self.connect(True))
                if not await self._exchange(request, near, far):
                    return
        except h11.RemoteProtocolError as problem:
            await near.answer(problem.error_status_hint, f"The request is malformed: {problem}")
        except ssl.SSLCertVerificationError as problem:
            said = f"the certificate of {self._where} is not valid: {problem.verify_message}"
            self.note(f"{said}; if the server is your own, put its authority into ca_file in [sandbox]")
            await near.answer(502, said)
        except OSError as problem:
            if far is not None:
                raise
            await near.answer(502, f"{self._where} cannot be reached: {problem}")
        finally:
            if far is not None:
                far.writer.close()

    def _misdirected(self, request: h11.Request) -> str:
        """Why a request is not one to this host; empty if it is."""
        named = b", ".join(value for name, value in request.headers if name == b"host").decode("latin-1")
        if request.method == b"CONNECT" or not request.target.startswith((b"/", b"*")):
            return (
                f"a request to {self._where} must name a path, not {request.target[:80].decode('latin-1')!r}"
            )
        try:
            host, port = split_rule(named)
        except ValueError:
            host, port = "", None
        if host.rstrip(".") == self.host and port in (None, self.port):
            return ""
        return f"a request in a tunnel to {self._where} named the host {named!r}: both must be the same"

    async def _exchange(self, request: h11.Request, near: _Peer, far: _Peer) -> bool:
        """One request and its answer; whether another can follow."""
        out, back = outward(self.substitutions, self.others), inward(self.substitutions)
        try:
            filled = _filled(request, out, back)
        except h11.LocalProtocolError:
            # Its text would show the value.
            put_in = ", ".join(f"secret://{name}" for name in out.names(self.substitutions))
            said = f"the value of {put_in} has characters that the head of a request cannot hold"
            self.note(f"{said}; the request to {self._where} was not sent")
            await near.answer(400, said)
            return False
        try:
            await far.send(filled)
            upload = asyncio.create_task(_upload(near, far, out))
            try:
                switched = await _download(far, near, back)
            finally:
                # An answer may come before the end of its request; nobody waits for the rest.
                upload.cancel()
                await asyncio.wait([upload])
        except _NoAnswer as problem:
            await near.answer(502, f"{self._where} {problem}")
            return False
        finally:
            self._tell(out, far)
        if switched:
            await _switch(near, far, back)
            return False
        return near.next_cycle() and far.next_cycle()

    def _tell(self, out: ByteSubstituter, far: _Peer) -> None:
        for text in withheld(self.others, out, self._where):
            self.note(text)
        new = tuple(name for name in out.names(self.substitutions) if name not in self._names)
        if new:
            self._names.update(new)
            self.on_secrets(str(far.writer.get_extra_info("peername", ("?",))[0]), new)


class _NoAnswer(Exception):
    """The host did not send a whole answer; the text says why, as the end of a sentence about it."""


class _Peer:
    """One side of an exchange: a connection, and its state in HTTP/1.1."""

    def __init__(self, role: type[h11.CLIENT] | type[h11.SERVER], streams: Streams) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=_HEAD_LIMIT)
        self.reader, self.writer = streams

    async def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What the other side says next.

        Raises:
            h11.RemoteProtocolError: it does not speak HTTP/1.1.
            OSError: it was cut, or nothing came for too long.
        """
        while (event := self.http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(IDLE_S):
                data = await self.reader.read(CHUNK)
            self.http.receive_data(data)
        return event

    async def send(self, *events: h11.Event) -> None:
        """Say something; returns when there is room for more."""
        for event in events:
            self.writer.write(self.http.send(event) or b"")
        await self.writer.drain()

    async def answer(self, status: int, text: str) -> None:
        """Answer a request ourselves, if nothing of another answer was sent; the connection must end after it."""
        if self.http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.writer.transport.abort()
            return
        body = f"Pegboard's egress proxy: {text}.\n".encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body))), ("Connection", "close"),
        ]  # fmt: skip
        await self.send(
            h11.Response(status_code=status, headers=headers, reason=b"Pegboard"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )

    def next_cycle(self) -> bool:
        """Whether another exchange can follow on this connection; prepares for it."""
        if self.http.our_state is not h11.DONE or self.http.their_state is not h11.DONE:
            return False
        self.http.start_next_cycle()
        return True


async def _next_request(near: _Peer, far: _Peer | None) -> h11.Request | None:
    """The next request; None when either side has ended meanwhile."""
    waiting = [asyncio.ensure_future(peer.next_event()) for peer in (near, far) if peer is not None]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if any(one.done() for one in waiting[1:]):
            return None
        event = waiting[0].result()
        return event if isinstance(event, h11.Request) else None
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _upload(near: _Peer, far: _Peer, out: ByteSubstituter) -> None:
    """The rest of a request."""
    while True:
        try:
            event = await near.next_event()
        except (OSError, h11.RemoteProtocolError):
            event = h11.ConnectionClosed()
        try:
            match event:
                case h11.Data(data=data):
                    await far.send(h11.Data(data=out.feed(bytes(data))))
                case h11.EndOfMessage(headers=headers):
                    rest = out.close()
                    await far.send(h11.Data(data=rest), h11.EndOfMessage(headers=headers))
                    return
                case _:
                    # The command has gone, and its request must not look complete.
                    far.writer.transport.abort()
                    return
        except OSError:
            # The host may have answered before it closed the connection.
            return


async def _download(far: _Peer, near: _Peer, back: ByteSubstituter) -> bool:
    """An answer; whether the host changes to another protocol with it.

    Raises:
        _NoAnswer: the host ended the connection, or does not speak HTTP/1.1.
        OSError: the command has gone.
    """
    while True:
        try:
            event = await far.next_event()
        except OSError as problem:
            raise _NoAnswer(f"did not answer: {problem or 'nothing came for too long'}") from problem
        except h11.RemoteProtocolError as problem:
            ended = far.reader.at_eof()
            said = "closed the connection too early" if ended else f"sent a malformed answer: {problem}"
            raise _NoAnswer(said) from problem
        match event:
            case h11.Response() | h11.InformationalResponse():
                await near.send(_hidden(event, back))
                if event.status_code == 101:
                    return True
            case h11.Data(data=data):
                await near.send(h11.Data(data=back.feed(bytes(data))))
            case h11.EndOfMessage(headers=headers):
                rest = back.close()
                trailers = [(name, back.whole(value)) for name, value in headers.raw_items()]
                await near.send(h11.Data(data=rest), h11.EndOfMessage(headers=trailers))
                return False
            case _:
                raise _NoAnswer("closed the connection too early")


async def _switch(near: _Peer, far: _Peer, back: ByteSubstituter) -> None:
    """Join both sides after a change to WebSocket; values in what the host sends are taken out still."""
    far.writer.write(near.http.trailing_data[0])
    near.writer.write(back.feed(far.http.trailing_data[0]))
    await relay((near.reader, near.writer), (far.reader, far.writer), back=back)


def _filled(request: h11.Request, out: ByteSubstituter, back: ByteSubstituter) -> h11.Request:
    """A request's head with the values.

    Raises:
        h11.LocalProtocolError: a value cannot stand where its place holder did.
    """
    dropped = set[bytes](_PACKING)
    names = {name: value for name, value in request.headers}
    if b"transfer-encoding" in names:
        # Which of the two counts is a matter of opinion, and so where the next request begins (RFC 9112 §6.3).
        dropped.add(b"content-length")
    if names.get(b"upgrade", b"").lower() != b"websocket":
        dropped.add(b"upgrade")
    headers = [
        (name, substitute_head(b"\r\n%b:%b" % (name, value), out, back)[len(name) + 3 :])
        for name, value in request.headers.raw_items()
        if name.lower() not in dropped
    ]
    return h11.Request(
        method=request.method,
        target=out.whole(request.target),
        headers=[*headers, (b"Accept-Encoding", b"identity")],
    )


def _hidden(head: Head, back: ByteSubstituter) -> Head:
    """The head of an answer without the values."""
    headers = [(name, back.whole(value)) for name, value in head.headers.raw_items()]
    return type(head)(status_code=head.status_code, headers=headers, reason=back.whole(bytes(head.reason)))


@asynccontextmanager
async def _ended_tls(near: Streams, first: bytes, context: ssl.SSLContext) -> AsyncGenerator[Streams]:
    """The plain text of a TLS connection of which `first` was read already; we are the server.

    asyncio cannot begin TLS with bytes that were read: they go through a socket pair.

    Raises:
        _HandshakeFailed: the command gave up.
    """
    ours, theirs = socket.socketpair()
    outer = await asyncio.open_connection(sock=ours)
    outer[1].write(first)
    copying = asyncio.create_task(relay(near, outer))
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_HEAD_LIMIT, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    try:
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, theirs, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )  # fmt: skip
        except OSError as problem:
            said = problem.reason if isinstance(problem, ssl.SSLError) else problem
            raise _HandshakeFailed(str(said) or type(problem).__name__) from problem
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            yield reader, writer
        finally:
            writer.close()
            # The last words must reach the command, which may keep its side open.
            await asyncio.wait([copying], timeout=_SHUTDOWN_S)
    finally:
        copying.cancel()
        await asyncio.wait([copying])
