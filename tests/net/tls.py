"""Certificates made by OpenSSL, TLS servers on loopback with them, and a client that goes through a proxy."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from pegboard.net.listening import stop_listening

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Answer: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def openssl(*words: str | Path) -> str:
    """Run the program; what it writes. Fails where it does."""
    program = shutil.which("openssl")
    assert program is not None
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


class TestAuthority:
    """A certificate authority in a folder: `ca.pem`, and `issue` for servers."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.file = folder / "ca.pem"
        _request(
            self.file, "Test authority", "basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"
        )

    def server(self, *names: str) -> ssl.SSLContext:
        """What a server needs that has a certificate for host names."""
        made = self._folder / f"{names[0]}.pem"
        if not made.exists():
            alternatives = ",".join(f"DNS:{name}" for name in names)
            _request(
                made,
                names[0],
                "basicConstraints=critical,CA:FALSE",
                f"subjectAltName={alternatives}",
                signer=self.file,
            )
        return serving(made)

    def client(self) -> ssl.SSLContext:
        """What trusts this authority alone."""
        return ssl.create_default_context(cafile=str(self.file))


def serving(certificate: Path) -> ssl.SSLContext:
    """A server's context with a certificate; its key lies beside it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return context


def _request(made: Path, name: str, *extensions: str, signer: Path | None = None) -> None:
    by = [] if signer is None else ["-CA", signer, "-CAkey", signer.with_suffix(".key")]
    add = [word for extension in extensions for word in ("-addext", extension)]
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
        "-keyout", made.with_suffix(".key"), "-out", made, "-subj", f"/CN={name}", *by, *add,
    )  # fmt: skip


@asynccontextmanager
async def tls_server(context: ssl.SSLContext, answer: Answer) -> AsyncGenerator[int]:
    """A server on loopback; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_listening(server)


@asynccontextmanager
async def tunnel(at: int, host: str, port: int) -> AsyncGenerator[Streams]:
    """A tunnel through the proxy at a port, before anything is sent in it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", at)
    try:
        writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        yield reader, writer
    finally:
        writer.close()


@asynccontextmanager
async def tls_tunnel(
    at: int, host: str, port: int, context: ssl.SSLContext, *, sni: str | None = None
) -> AsyncGenerator[Streams]:
    """TLS with a host through the proxy at a port."""
    async with tunnel(at, host, port) as (reader, writer):
        await writer.start_tls(context, server_hostname=sni or host)
        yield reader, writer
