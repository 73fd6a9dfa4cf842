"""A client's WebSocket (RFC 6455) to an address that was checked."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pegboard.core.errors import Unavailable
from pegboard.net.urls import Verdict


class WebSocket:
    """An open connection; made by `HttpClient.websocket`.

    Args:
        connection: of the package websockets.
        place: host and port, for errors.
    """

    def __init__(self, connection: Any, place: str) -> None:
        self._connection = connection
        self._place = place

    async def send(self, text: str | bytes) -> None:
        """Send a message.

        Raises:
            Unavailable: the connection has ended.
        """
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(text)
        except ConnectionClosed as error:
            raise self._ended(error) from None

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        """The messages that come, until the other side closes the connection as it should.

        Raises:
            Unavailable: the connection broke, or a message was too large.
        """
        from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

        while True:
            try:
                message = await self._connection.recv()
            except ConnectionClosedOK:
                return
            except ConnectionClosed as error:
                raise self._ended(error) from None
            yield message

    def _ended(self, error: Exception) -> Unavailable:
        return Unavailable(f"the connection to {self._place} ended: {error}", retryable=True)


@asynccontextmanager
async def open_websocket(
    verdict: Verdict, *, headers: Mapping[str, str], verify: Any, max_bytes: int, connect_s: float
) -> AsyncGenerator[WebSocket]:
    """Connect to the first address of a checked URL that takes the connection, under the name that was asked for.

    Args:
        verdict: of the URL with `http` for `ws`.
        headers: of the handshake.
        verify: as HttpClient has it.
        max_bytes: bytes of one message.
        connect_s: seconds for the connection and the handshake together.

    Raises:
        Unavailable: nothing answers, the certificate is wrong, or the handshake was refused.
    """
    import asyncio

    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    from pegboard.net.transport import certificates

    host = f"[{verdict.host}]" if ":" in verdict.host else verdict.host
    place = f"{host}:{verdict.port}"
    secure = verdict.scheme == "https"
    context: ssl.SSLContext | None = None
    if secure:
        context = certificates() if verify is True else verify
    url = f"{'wss' if secure else 'ws'}://{place}{verdict.target}"
    try:
        async with asyncio.timeout(connect_s):
            sock = await _connected(verdict, place)
            options: dict[str, Any] = {"ssl": context, "server_hostname": verdict.host} if secure else {}
            try:
                connection = await connect(
                    url, sock=sock, additional_headers=[*headers.items()], user_agent_header=None, proxy=None,
                    max_size=max_bytes, open_timeout=None, **options,
                )  # fmt: skip
            except BaseException:
                sock.close()
                raise
    except TimeoutError:
        raise Unavailable(f"{place} took no connection within {connect_s:g} s", retryable=True) from None
    except (OSError, WebSocketException) as error:
        raise Unavailable(f"{place} took no connection: {error}", retryable=True) from None
    try:
        yield WebSocket(connection, place)
    finally:
        await connection.close()


async def _connected(verdict: Verdict, place: str) -> socket.socket:
    """A socket to the first address that takes a connection; the name is not looked up again."""
    import asyncio

    loop = asyncio.get_running_loop()
    refused: OSError = OSError("no address")
    for address in verdict.addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, (address, verdict.port))
        except OSError as error:
            sock.close()
            refused = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise refused
