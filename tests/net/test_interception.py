"""Secrets over https: the proxy reads tunnels to bound hosts, and puts a value only into what goes to them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from pegboard.core.secrets.handles import Substitution
from pegboard.net.authority import CertificateAuthority
from pegboard.net.egress import EgressProxy
from tests.ledger import owes
from tests.net.test_egress import proxy, talk, to_loopback
from tests.net.tls import TestAuthority, tls_server, tls_tunnel, tunnel
from tests.serving import ending

VALUE = "sk-value-0123456789abcdef"
HELD = "Zq8dPlaceHolderXXXXXXXXXX"
SWAP = Substitution(name="api", placeholder=HELD, value=VALUE, hosts=("api.example:*",))
OTHER_HELD = "Qq1OtherHolder00"
OTHER = Substitution(
    name="other", placeholder=OTHER_HELD, value="other-value-1234", hosts=("other.example:*",)
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def reading(
    authority: TestAuthority, *rules: str, swaps: Sequence[Substitution] = (SWAP,)
) -> AsyncGenerator[tuple[EgressProxy, int, ssl.SSLContext]]:
    """A proxy that reads tunnels to the hosts of `swaps`, its port, and what its clients trust."""
    ours = CertificateAuthority([host for swap in swaps for host in swap.hosts])
    async with proxy(
        *rules, substitutions=swaps, authority=ours, tls=authority.client, resolve=to_loopback,
        allow_cidrs=("127.0.0.0/8",),
    ) as (made, at):  # fmt: skip
        yield made, at, ssl.create_default_context(cadata=ours.certificate)


class Site:
    """An HTTP/1.1 server that keeps what it was sent, and sends it back; `connections` counts."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.connections = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            body = b""
            if b"chunked" in head.lower():
                while not body.endswith(b"0\r\n\r\n"):
                    body += await reader.read(1000)
            elif b"content-length: " in head.lower():
                size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(size))
            self.seen.append(head + body)
            echo = head + body
            writer.write(b"HTTP/1.1 200 OK\r\nX-Echo: " + head.split(b" ")[1] + b"\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(echo))
            # In pieces: a value is found across them.
            for start in range(0, len(echo), 7):
                writer.write(echo[start : start + 7])
                await writer.drain()
            if b"connection: close" in head.lower():
                return


async def answered(reader: asyncio.StreamReader) -> bytes:
    """One answer with a length."""
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
        size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return head + await reader.readexactly(int(size or 0))


@owes("G-18", "G-11")
async def test_the_value_goes_into_each_part_of_a_request_and_no_answer_brings_it_back(
    authority: TestAuthority,
) -> None:
    site = Site()
    basic = base64.b64encode(f"me:{HELD}".encode())
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (made, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        host = f"Host: api.example:{port}\r\n".encode()
        body = f'{{"token": "{HELD}"}}'.encode()
        writer.write(
            f"POST /x?key={HELD} HTTP/1.1\r\n".encode() + host + f"X-Key: {HELD}\r\n".encode()
            + b"Accept-Encoding: gzip\r\nAuthorization: Basic " + basic
            + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )  # fmt: skip
        first = await answered(reader)
        # In two chunks, with the place holder across them.
        writer.write(
            b"PUT /y HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + HELD[:5].encode()
        )
        writer.write(b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(HELD) - 5, HELD[5:].encode()))
        second = await answered(reader)

    assert site.seen[0].count(VALUE.encode()) == 3
    assert base64.b64encode(f"me:{VALUE}".encode()) in site.seen[0]
    assert b"gzip" not in site.seen[0] and b"Accept-Encoding: identity" in site.seen[0]
    sent = site.seen[1].partition(b"\r\n\r\n")[2]
    assert b"".join(sent.split(b"\r\n")[1::2]).startswith(VALUE.encode())
    assert HELD.encode() not in site.seen[0] + site.seen[1]
    # The head comes back as a header and in the body.
    assert VALUE.encode() not in first + second and first.count(HELD.encode()) == 4
    assert base64.b64encode(f"me:{VALUE}".encode()) not in first and basic in first
    assert site.connections == 1
    assert [(d.host, d.port, d.secrets) for d in made.destinations] == [
        ("api.example", port, ()),
        ("api.example", port, ("api",)),
    ]
    assert made.refusals() == []


@owes("G-18")
async def test_a_tunnel_to_another_host_passes_byte_for_byte(authority: TestAuthority) -> None:
    """TLS with the host's own certificate, and whatever else."""
    site, junk, got = Site(), os.urandom(100_000), b""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        got = await reader.readexactly(len(junk))
        writer.write(got[::-1])
        await writer.drain()
        writer.close()

    plain = await asyncio.start_server(echo, "127.0.0.1", 0)
    plain_port = plain.sockets[0].getsockname()[1]
    async with (
        ending(plain),
        tls_server(authority.server("other.example"), site.answer) as port,
        reading(authority, f"other.example:{port}", f"other.example:{plain_port}") as (made, at, _),
    ):
        async with tunnel(at, "other.example", plain_port) as (reader, writer):
            # What looks like the beginning of TLS too.
            junk = b"\x16\x03\x01" + junk[3:]
            writer.write(junk)
            assert await reader.readexactly(len(junk)) == junk[::-1]
        async with tls_tunnel(at, "other.example", port, authority.client()) as (reader, writer):
            writer.write(f"GET /{HELD} HTTP/1.1\r\nHost: other.example:{port}\r\n\r\n".encode())
            said = await answered(reader)

    assert got == junk
    assert HELD.encode() in site.seen[0] and HELD.encode() in said and VALUE.encode() not in site.seen[0]
    assert [d.secrets for d in made.destinations] == [(), ()]


@owes("G-18")
async def test_a_bound_host_is_shown_the_certificate_of_this_proxy_and_no_other(
    authority: TestAuthority,
) -> None:
    async with (
        tls_server(authority.server("api.example"), Site().answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (_reader, writer),
    ):
        shown = writer.get_extra_info("peercert")
        assert shown["subjectAltName"] == (("DNS", "api.example"),)


@owes("G-18")
@pytest.mark.parametrize("sni", ["other.example", "evil.example"])
async def test_a_tunnel_that_asks_for_another_name_is_refused(authority: TestAuthority, sni: str) -> None:
    site = Site()
    async with (
        tls_server(authority.server("api.example", "other.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (made, at, trust),
    ):
        # A client that does not look at names itself, and names the right host later.
        trust.check_hostname = False
        with pytest.raises((OSError, EOFError)):
            async with tls_tunnel(at, "api.example", port, trust, sni=sni) as (reader, writer):
                writer.write(f"GET /{HELD} HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n".encode())
                await answered(reader)
        said = made.refusals()

    assert site.connections == 0
    assert said[0] == (
        f"a TLS connection to api.example asked for {sni} by SNI and was refused: both must be the same host"
    )


@owes("G-18")
@pytest.mark.parametrize(
    "head",
    [
        "GET /{held} HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "GET /{held} HTTP/1.1\r\nHost: api.example:1\r\n\r\n",
        "GET /{held} HTTP/1.1\r\nHost: api.example:{port}, other.example\r\n\r\n",
        "GET https://other.example/{held} HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n",
        "CONNECT other.example:443 HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n",
        "GET /{held} HTTP/1.0\r\n\r\n",
    ],
)
async def test_a_request_for_another_host_in_a_bound_hosts_tunnel_is_refused(
    authority: TestAuthority, head: str
) -> None:
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (made, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(head.format(held=HELD, port=port).encode())
        said = await answered(reader)

    assert said.startswith(b"HTTP/1.1 421 ")
    assert site.connections == 0 and f"api.example:{port}" in made.refusals()[0]


@owes("G-18")
@pytest.mark.parametrize(
    "head",
    [
        "GET / HTTP/1.1\r\nHost: api.example:{port}\r\nHost: other.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: api.example:{port}\r\nX: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : api.example:{port}\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: api.example:{port}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "hello\r\n\r\n",
    ],
)
async def test_what_servers_read_in_different_ways_is_refused(authority: TestAuthority, head: str) -> None:
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(head.format(port=port).encode())
        said = await answered(reader)

    assert said.startswith(b"HTTP/1.1 400 ") and site.connections == 0


@owes("G-18")
async def test_of_two_lengths_of_a_request_one_is_sent(authority: TestAuthority) -> None:
    """RFC 9112 §6.3: chunked wins, and a Content-Length beside it must not be passed on."""
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(
            f"POST / HTTP/1.1\r\nHost: api.example:{port}\r\nContent-Length: 4\r\n".encode()
            + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        )
        await answered(reader)

    assert b"content-length" not in site.seen[0].lower() and b"abc" in site.seen[0]


@owes("G-18")
@pytest.mark.parametrize("fault", ["another name", "another authority"])
async def test_a_host_with_a_wrong_certificate_gets_nothing_and_the_command_reads_why(
    authority: TestAuthority, tmp_path: Path, fault: str
) -> None:
    site = Site()
    if fault == "another name":
        context, expected = authority.server("other.example"), b"Hostname mismatch"
    else:
        context, expected = (
            TestAuthority(tmp_path).server("api.example"),
            b"unable to get local issuer certificate",
        )
    async with (
        tls_server(context, site.answer) as port,
        reading(authority, f"api.example:{port}") as (made, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(f"GET /{HELD} HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n".encode())
        said = await answered(reader)

    assert said.startswith(b"HTTP/1.1 502 ") and expected in said
    assert site.seen == []
    assert "is not valid" in made.refusals()[0] and "ca_file in [sandbox]" in made.refusals()[0]


async def test_a_host_that_does_not_answer_is_a_bad_gateway_inside_the_tunnel(
    authority: TestAuthority,
) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    async with (
        tls_server(authority.server("api.example"), silent) as port,
        reading(authority, "api.example:*") as (_, at, trust),
    ):
        answers: list[bytes] = []
        for where in (nobody, port):
            async with tls_tunnel(at, "api.example", where, trust) as (reader, writer):
                writer.write(f"GET / HTTP/1.1\r\nHost: api.example:{where}\r\n\r\n".encode())
                answers.append(await answered(reader))

    assert all(a.startswith(b"HTTP/1.1 502 ") for a in answers)
    assert b"cannot be reached" in answers[0] and b"closed the connection too early" in answers[1]


@owes("G-18")
async def test_a_program_that_trusts_other_authorities_only_fails_and_the_result_says_why(
    authority: TestAuthority,
) -> None:
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (made, at, _),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            async with tls_tunnel(at, "api.example", port, authority.client()):
                pass
        async with asyncio.timeout(5):
            while not made.refusals():
                await asyncio.sleep(0)
        said = made.refusals()

    assert site.connections == 0
    assert "the command ended the TLS handshake" in said[0] and "pins" in said[0]


async def test_a_program_that_speaks_http_2_only_agrees_on_no_protocol(authority: TestAuthority) -> None:
    async with (
        tls_server(authority.server("api.example"), Site().answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
    ):
        agreed: list[str | None] = []
        for offered in (["h2"], ["h2", "http/1.1"]):
            trust.set_alpn_protocols(offered)
            async with tls_tunnel(at, "api.example", port, trust) as (_reader, writer):
                agreed.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())

    assert agreed == [None, "http/1.1"]


@owes("G-18")
async def test_what_is_no_tls_in_a_bound_hosts_tunnel_passes_unread_and_the_result_says_so(
    authority: TestAuthority,
) -> None:
    got = b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        got = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with ending(server), reading(authority, f"api.example:{port}") as (made, at, _):
        async with tunnel(at, "api.example", port) as (reader, writer):
            writer.write(f"GET /{HELD} HTTP/1.1\r\n\r\n".encode())
            assert await reader.read() == b""
        said = made.refusals()

    assert HELD.encode() in got
    assert len(said) == 1 and "secret://api" in said[0] and f"https://api.example:{port}/" in said[0]


@owes("G-18")
async def test_a_secret_of_another_host_stays_a_place_holder_and_the_result_says_where_it_may_go(
    authority: TestAuthority,
) -> None:
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, "*:*", swaps=[SWAP, OTHER]) as (made, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(f"GET /{HELD}{OTHER_HELD} HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n".encode())
        await answered(reader)
        by_http = await talk(at, f"GET http://api.example:{port}/{OTHER_HELD} HTTP/1.0\r\n\r\n".encode())
        said = made.refusals()

    assert by_http.startswith(b"HTTP/1.1 200 ")
    assert (VALUE + OTHER_HELD).encode() in site.seen[0] and OTHER_HELD.encode() in site.seen[1]
    assert said == [
        f"secret://other was not put in for api.example:{port}: it may only go to other.example:*"
    ]


async def test_a_value_that_no_head_can_hold_is_refused_without_being_shown(authority: TestAuthority) -> None:
    lines = Substitution(
        name="key", placeholder="Ab1" * 7, value="line one\r\nline two 12", hosts=("api.example:*",)
    )
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}", swaps=[lines]) as (made, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(f"GET / HTTP/1.1\r\nHost: api.example:{port}\r\nX: {'Ab1' * 7}\r\n\r\n".encode())
        said = await answered(reader)

    assert said.startswith(b"HTTP/1.1 400 ") and b"secret://key" in said
    assert b"line" not in said and "line" not in made.refusals()[0] and site.seen == []


async def test_a_request_that_waits_for_permission_gets_it_from_the_host(authority: TestAuthority) -> None:
    """RFC 9110 §10.1.1: nothing of the body is sent before 100 Continue."""
    got = b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal got
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"100-continue" in head
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        got = await reader.readexactly(len(HELD))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    async with (
        tls_server(authority.server("api.example"), answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(
            f"PUT / HTTP/1.1\r\nHost: api.example:{port}\r\nExpect: 100-continue\r\nContent-Length: {len(HELD)}"
            "\r\n\r\n".encode()
        )
        assert (await answered(reader)).startswith(b"HTTP/1.1 100 ")
        writer.write(HELD.encode())
        assert (await answered(reader)).endswith(b"ok")

    assert got == VALUE.encode()


async def test_an_answer_before_the_end_of_its_request_is_passed_on(authority: TestAuthority) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async with (
        tls_server(authority.server("api.example"), answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(
            f"PUT / HTTP/1.1\r\nHost: api.example:{port}\r\nContent-Length: 99999\r\n\r\nabc".encode()
        )
        assert (await answered(reader)).startswith(b"HTTP/1.1 413 ")
        assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_a_large_upload_is_passed_on_in_pieces_and_waits_for_the_host(authority: TestAuthority) -> None:
    block, blocks = os.urandom(1 << 20), 40
    may_read, got = asyncio.Event(), hashlib.sha256()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await may_read.wait()
        for _ in range(blocks):
            got.update(await reader.readexactly(1 << 20))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    async with (
        tls_server(authority.server("api.example"), answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(
            f"PUT / HTTP/1.1\r\nHost: api.example:{port}\r\nContent-Length: {blocks << 20}\r\n\r\n".encode()
        )
        sent = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                while sent < blocks:
                    writer.write(block)
                    sent += 1
                    await writer.drain()
        held = sent
        may_read.set()
        while sent < blocks:
            writer.write(block)
            sent += 1
            await writer.drain()
        assert (await answered(reader)).endswith(b"ok")

    # Kernel buffers on loopback take some; the proxy itself takes no part of it in.
    assert held < 24
    assert got.hexdigest() == hashlib.sha256(block * blocks).hexdigest()


async def test_a_connection_that_the_host_ends_between_requests_ends_for_the_command(
    authority: TestAuthority,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    async with (
        tls_server(authority.server("api.example"), answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(f"GET / HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n".encode())
        assert (await answered(reader)).endswith(b"ok")
        assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_an_answer_without_a_length_ends_with_its_connection(authority: TestAuthority) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + VALUE.encode())
        await writer.drain()

    async with (
        tls_server(authority.server("api.example"), answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        writer.write(f"GET /{HELD} HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n".encode())
        said = await asyncio.wait_for(reader.read(), 5)

    assert HELD.encode() in said and VALUE.encode() not in said


@owes("G-18")
async def test_a_websocket_opens_with_the_value_and_its_messages_do_not_bring_it_back(
    authority: TestAuthority,
) -> None:
    heads: list[str] = []

    async def echo(socket: ServerConnection) -> None:
        assert socket.request is not None
        heads.append(socket.request.headers["Authorization"])
        await socket.send(f"you are {heads[0]}")
        async for message in socket:
            await socket.send(heads[0] if message == "who?" else message)

    async with (
        serve(echo, "127.0.0.1", 0, ssl=authority.server("api.example")) as server,
        reading(authority, "api.example:*") as (made, at, trust),
    ):
        port = next(iter(server.sockets)).getsockname()[1]
        async with connect(
            f"wss://api.example:{port}/", proxy=f"http://127.0.0.1:{at}", ssl=trust,
            additional_headers={"Authorization": f"Bearer {HELD}"},
        ) as client:  # fmt: skip
            first = await client.recv()
            await client.send("x" * 70_000)
            second = await client.recv()
            await client.send("who?")
            third = await client.recv()

    assert heads == [f"Bearer {VALUE}"]
    assert first == f"you are Bearer {HELD}" and second == "x" * 70_000 and third == f"Bearer {HELD}"
    assert made.destinations[-1].secrets == ("api",)


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
async def test_a_host_that_does_not_change_the_protocol_goes_on_with_http(
    authority: TestAuthority, protocol: str
) -> None:
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
        tls_tunnel(at, "api.example", port, trust) as (reader, writer),
    ):
        head = f"GET / HTTP/1.1\r\nHost: api.example:{port}\r\n"
        writer.write(f"{head}Connection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode())
        await answered(reader)
        writer.write(f"{head}\r\n".encode())
        assert (await answered(reader)).startswith(b"HTTP/1.1 200 ")

    assert len(site.seen) == 2 and site.connections == 1
    # HTTP/2 could not be read.
    assert (b"Upgrade: " in site.seen[0]) is (protocol == "websocket")


@owes("G-18")
async def test_a_socks_tunnel_is_read_as_one_of_http_is(authority: TestAuthority) -> None:
    site = Site()
    async with (
        tls_server(authority.server("api.example"), site.answer) as port,
        reading(authority, f"api.example:{port}") as (_, at, trust),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", at)
        writer.write(b"\x05\x01\x00" + b"\x05\x01\x00\x03\x0bapi.example" + struct.pack("!H", port))
        assert (await reader.readexactly(12))[:4] == b"\x05\x00\x05\x00"
        await writer.start_tls(trust, server_hostname="api.example")
        writer.write(f"GET /{HELD} HTTP/1.1\r\nHost: api.example:{port}\r\n\r\n".encode())
        said = await answered(reader)
        writer.close()

    assert VALUE.encode() in site.seen[0] and VALUE.encode() not in said


async def test_a_bound_host_that_was_not_granted_is_refused_before_any_tls(authority: TestAuthority) -> None:
    async with reading(authority, "other.example") as (made, at, _):
        said = await talk(at, b"CONNECT api.example:443 HTTP/1.1\r\n\r\n")

    assert said.startswith(b"HTTP/1.1 403 ") and "this host is not allowed" in made.refusals()[0]
