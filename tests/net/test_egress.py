"""The egress proxy: by name, to checked addresses, everything logged."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pegboard.core.hosts import host_is
from pegboard.net.destinations import Destination, resolve_here, split_rule
from pegboard.net.egress import EgressProxy
from pegboard.net.listening import stop_listening
from tests.ledger import owes


async def to_loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def site() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A loopback HTTP server that answers every request with its head."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        seen.append(head)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        await stop_listening(server)
        await server.wait_closed()


@asynccontextmanager
async def proxy(*hosts: str, **options: object) -> AsyncIterator[tuple[EgressProxy, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    made = EgressProxy(hosts, **options)
    await made.serve(listener)
    try:
        yield made, port
    finally:
        await made.close()


async def talk(port: int, data: bytes, *, more: bytes = b"") -> bytes:
    """Send, read to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if more:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(more)
    try:
        async with asyncio.timeout(5):
            return await reader.read()
    finally:
        writer.close()


@owes("G-18")
@pytest.mark.parametrize(
    ("host", "rule", "yes"),
    [
        ("pkg.example", "pkg.example", True),
        ("PKG.example.", "pkg.EXAMPLE", True),
        ("a.pkg.example", "*.pkg.example", True),
        ("a.b.pkg.example", "*.pkg.example", True),
        ("pkg.example", "*.pkg.example", False),
        ("notpkg.example", "*.pkg.example", False),
        ("notpkg.example", "pkg.example", False),
        ("pkg.example.evil", "pkg.example", False),
        ("anything", "*", True),
    ],
)
def test_rules_match_whole_labels(host: str, rule: str, yes: bool) -> None:
    assert host_is(rule, host) is yes


def test_rules_may_name_a_port() -> None:
    assert split_rule("a.example:443") == ("a.example", 443)
    assert split_rule("a.example:*") == ("a.example", 0)
    assert split_rule("a.example") == ("a.example", None)
    assert split_rule("[::1]:80") == ("::1", 80)
    assert split_rule("::1") == ("::1", None)


@owes("G-18")
async def test_an_http_request_reaches_a_granted_host_with_its_own_head() -> None:
    async with (
        site() as (port, seen),
        proxy(f"ok.example:{port}", allow_private=["ok.example"], resolve=to_loopback) as (p, at),
    ):
        answer = await talk(
            at,
            f"GET http://user:pw@ok.example:{port}/x?y=1 HTTP/1.1\r\nHost: elsewhere\r\nProxy-Connection: close\r\n"
            "A: b\r\n\r\n".encode(),
        )

        assert answer.endswith(b"ok")
        assert seen[0].startswith(b"GET /x?y=1 HTTP/1.1\r\n")
        assert f"\r\nHost: ok.example:{port}\r\n".encode() in seen[0]
        assert b"elsewhere" not in seen[0]
        assert b"A: b" in seen[0]
        assert b"Proxy-Connection" not in seen[0]
        assert [(d.host, d.allowed) for d in p.destinations] == [("ok.example", True)]


async def test_connect_makes_a_tunnel() -> None:
    async with (
        site() as (port, _),
        proxy(f"ok.example:{port}", allow_private=["ok.example"], resolve=to_loopback) as (_p, at),
    ):
        answer = await talk(
            at, f"CONNECT ok.example:{port} HTTP/1.1\r\n\r\n".encode(), more=b"GET / HTTP/1.1\r\n\r\n"
        )

        assert answer.endswith(b"ok")


@pytest.mark.parametrize("named", [True, False])
async def test_socks_makes_a_tunnel(named: bool) -> None:
    async with site() as (port, _):
        rules = [f"ok.example:{port}", f"127.0.0.1:{port}"]
        async with proxy(*rules, allow_private=rules, resolve=to_loopback) as (_p, at):
            reader, writer = await asyncio.open_connection("127.0.0.1", at)
            writer.write(b"\x05\x01\x00")
            assert await reader.readexactly(2) == b"\x05\x00"
            address = b"\x03\x0aok.example" if named else b"\x01" + socket.inet_aton("127.0.0.1")
            writer.write(b"\x05\x01\x00" + address + struct.pack("!H", port))
            assert (await reader.readexactly(10))[1] == 0
            writer.write(b"GET / HTTP/1.1\r\n\r\n")

            assert (await reader.read()).endswith(b"ok")
            writer.close()


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (b"\x05\x01\x02", b"\x05\xff"),
        (b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50", b"\x05\x00\x05\x07"),
    ],
)
async def test_other_socks_requests_are_refused(request_: bytes, reply: bytes) -> None:
    async with proxy("*") as (_, at):
        assert (await talk(at, request_)).startswith(reply)


async def test_socks_to_a_host_that_is_not_granted_is_refused() -> None:
    async with proxy("ok.example") as (made, at):
        answer = await talk(at, b"\x05\x01\x00" + b"\x05\x01\x00\x03\x03bad\x00\x50")

        assert answer[2:4] == b"\x05\x02"
        assert made.refusals() == [
            "connection to bad:80 was refused: this host is not allowed; ask for it with hosts=['bad']"
        ]


async def test_a_host_that_is_not_granted_is_refused_and_logged() -> None:
    seen: list[Destination] = []
    async with proxy("ok.example", on_destination=seen.append) as (made, at):
        one = await talk(at, b"GET http://evil.example/ HTTP/1.1\r\n\r\n")
        two = await talk(at, b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")

        assert b" 403 " in one
        assert b"evil.example:80" in one
        assert b" 403 " in two
        assert [(d.host, d.port, d.allowed) for d in seen] == [
            ("evil.example", 80, False),
            ("evil.example", 443, False),
        ]
        assert len(made.refusals()) == 2


@pytest.mark.parametrize(
    ("grant", "host"),
    [
        ("ok.example", "ok.example"),
        ("ok.example:443", "ok.example"),
        ("*.example", "a.example"),
        ("*", "x.example"),
        ("93.184.215.14", "93.184.215.14"),
        ("2606:2800:21f::1", "[2606:2800:21f::1]"),
    ],
)
@pytest.mark.parametrize("port", [22, 25, 6379, 8080])
async def test_a_grant_covers_the_ports_that_it_names_and_without_one_those_of_the_web(
    grant: str, host: str, port: int
) -> None:
    async with proxy(grant, resolve=to_loopback) as (made, at):
        answer = await talk(at, f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())

    assert b" 403 " in answer
    assert f"ask for it with hosts=['{host}:{port}']".encode() in answer
    assert made.refusals()[0].endswith(f"hosts=['{host}:{port}']")


@pytest.mark.parametrize("port", [80, 443])
async def test_a_grant_without_a_port_covers_the_ports_of_the_web(port: int) -> None:
    async with proxy("ok.example", resolve=to_loopback) as (_, at):
        # It gets past the grant, to the check of the address.
        assert b"not public" in await talk(at, f"CONNECT ok.example:{port} HTTP/1.1\r\n\r\n".encode())


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:10.0.0.1"])
async def test_a_granted_name_that_leads_inside_is_refused(address: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["93.184.215.14", address]

    async with proxy("rebind.example", resolve=resolve) as (_, at):
        answer = await talk(at, b"GET http://rebind.example/ HTTP/1.1\r\n\r\n")

        assert b" 403 " in answer
        assert b"not public" in answer


async def test_an_address_written_out_is_judged_too() -> None:
    async with proxy("*") as (_, at):
        for place in (b"127.0.0.1:80", b"[::1]:443"):
            answer = await talk(at, b"CONNECT " + place + b" HTTP/1.1\r\n\r\n")
            assert b" 403 " in answer and b"not public" in answer
            # No grant opens it, so none is suggested.
            assert b"[network] allow_hosts or allow_cidrs" in answer and b"hosts=[" not in answer


async def test_a_host_that_does_not_answer_is_a_bad_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with proxy(f"ok.example:{port}", allow_private=["ok.example"], resolve=to_loopback) as (_, at):
        assert b" 502 " in await talk(at, f"GET http://ok.example:{port}/ HTTP/1.1\r\n\r\n".encode())


async def test_a_name_without_address_is_a_bad_gateway() -> None:
    async def nowhere(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    async with proxy("ok.example", resolve=nowhere) as (_, at):
        assert b" 502 " in await talk(at, b"CONNECT ok.example:443 HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"GET ftp://x/ HTTP/1.1\r\n\r\n"])
async def test_what_is_no_proxy_request_is_a_bad_request(junk: bytes) -> None:
    async with proxy("*") as (_, at):
        assert b" 400 " in await talk(at, junk)


@pytest.mark.parametrize(
    "junk", [b"\x00\r\n\r\n", b"x" * 100_000, b"GET\r\n\r\n", b"CONNECT \xff:1 HTTP/1.1\r\n\r\n"]
)
async def test_garbage_ends_the_connection_and_nothing_else(junk: bytes) -> None:
    async with (
        site() as (port, _),
        proxy(f"ok.example:{port}", allow_private=["ok.example"], resolve=to_loopback) as (_p, at),
    ):
        with suppress(ConnectionError):
            await talk(at, junk)

        assert (await talk(at, f"GET http://ok.example:{port}/ HTTP/1.1\r\n\r\n".encode())).endswith(b"ok")


async def test_it_serves_on_a_unix_socket_too(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    made = EgressProxy(["ok.example"])
    await made.serve(listener)
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
    writer.write(b"CONNECT bad.example:1 HTTP/1.1\r\n\r\n")

    assert b" 403 " in await reader.read()
    writer.close()
    await made.close()


async def test_closing_cuts_open_tunnels() -> None:
    async with site() as (port, _):
        async with proxy(f"ok.example:{port}", allow_private=["ok.example"], resolve=to_loopback) as (_, at):
            reader, writer = await asyncio.open_connection("127.0.0.1", at)
            writer.write(f"CONNECT ok.example:{port} HTTP/1.1\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")

        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()


async def test_this_machine_resolves_its_own_name() -> None:
    assert set(await resolve_here("localhost", 80)) <= {"127.0.0.1", "::1"}


@owes("web-04", "G-18")
async def test_the_owner_may_open_a_network_whose_addresses_are_not_public() -> None:
    async with (
        site() as (port, seen),
        proxy(f"a.example:{port}", resolve=to_loopback, allow_cidrs=("127.0.0.0/8",)) as (made, at),
    ):
        said = await talk(at, f"GET http://a.example:{port}/ HTTP/1.1\r\n\r\n".encode())
        elsewhere = await talk(at, f"GET http://b.example:{port}/ HTTP/1.1\r\n\r\n".encode())

    assert said.startswith(b"HTTP/1.1 200") and len(seen) == 1
    # Open is not granted.
    assert b"this host is not allowed" in elsewhere
    assert [d.allowed for d in made.destinations] == [True, False]


@pytest.mark.parametrize(
    "head",
    [
        b"GET http://a.example/ HTTP/1.1\nHost: b.example\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nX: y\nHost: b.example\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nX: y\rHost: b.example\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nX: y\r\n Host: b.example\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nX: y\0Host: b.example\r\n\r\n",
    ],
)
async def test_a_head_that_programs_read_differently_goes_nowhere(head: bytes) -> None:
    async with proxy("*", resolve=to_loopback, allow_private=("*",)) as (made, at):
        assert (await talk(at, head)).startswith(b"HTTP/1.1 400")

    assert made.destinations == []


@owes("G-18")
@pytest.mark.parametrize("port", [22, 25, 6379])
async def test_a_port_that_was_not_granted_is_refused_in_every_form(port: int) -> None:
    socks = b"\x05\x01\x00" + b"\x05\x01\x00\x03\x09a.example" + struct.pack("!H", port)
    async with proxy("a.example:443", resolve=to_loopback, allow_private=("*",)) as (made, at):
        by_tunnel = await talk(at, f"CONNECT a.example:{port} HTTP/1.1\r\n\r\n".encode())
        by_request = await talk(at, f"GET http://a.example:{port}/ HTTP/1.1\r\n\r\n".encode())
        by_socks = await talk(at, socks)

    assert by_tunnel.startswith(b"HTTP/1.1 403") and by_request.startswith(b"HTTP/1.1 403")
    assert by_socks[:4] == b"\x05\x00\x05\x02"
    assert [(d.port, d.allowed) for d in made.destinations] == [(port, False)] * 3


async def test_a_name_that_changes_its_address_is_connected_to_where_it_was_checked() -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["203.0.113.7"] if len(asked) == 1 else ["127.0.0.1"]

    async with (
        site() as (port, seen),
        proxy(f"a.example:{port}", resolve=rebinding, allow_cidrs=("203.0.113.0/24",)) as (_, at),
    ):
        # The first answer is the one that counts; nobody asks again on the way to it.
        with suppress(TimeoutError):
            await asyncio.wait_for(talk(at, f"GET http://a.example:{port}/ HTTP/1.1\r\n\r\n".encode()), 0.2)

    assert asked == ["a.example"] and seen == []


async def test_one_inner_address_among_public_ones_closes_the_name() -> None:
    async def mixed(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", "::ffff:10.0.0.1"]

    async with proxy("a.example", resolve=mixed) as (made, at):
        assert (await talk(at, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 403")

    assert "not public" in made.destinations[0].reason


async def test_attempts_without_end_are_neither_kept_nor_answered_without_end() -> None:
    told: list[Destination] = []
    async with proxy("a.example", on_destination=told.append, most_attempts=3) as (made, at):
        for _ in range(6):
            last = await talk(at, b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")

    assert b"has tried 3 connections" in last
    assert len(made.destinations) == len(told) == 3


async def test_a_host_is_refused_for_a_reason_of_its_owner_before_its_name_is_resolved() -> None:
    resolved: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        resolved.append(host)
        return ["127.0.0.1"]

    def refuse(host: str, port: int) -> str:
        return "a rule denies it" if (host, port) == ("a.example", 443) else ""

    listener = socket.create_server(("127.0.0.1", 0))
    at = listener.getsockname()[1]
    made = EgressProxy(None, resolve=resolve, refuse=refuse)
    await made.serve(listener)
    said = await talk(at, b"CONNECT A.example:443 HTTP/1.1\r\n\r\n")
    await talk(at, b"CONNECT a.example:444 HTTP/1.1\r\n\r\n")
    await made.close()

    assert b"a rule denies it" in said
    assert resolved == ["a.example"]
    assert [d.allowed for d in made.destinations] == [False, False]


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_connection_that_was_accepted_just_now_is_cut_too(turns: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    made = EgressProxy(None)
    await made.serve(listener)
    with socket.create_connection(listener.getsockname(), timeout=5) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await made.close()

        with suppress(ConnectionResetError):
            assert client.recv(1) == b""


async def test_a_listener_is_closed_where_serving_is_cancelled_at_its_start() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    starting = asyncio.ensure_future(EgressProxy(None).serve(listener))
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)

    assert starting.cancelled() and listener.fileno() == -1


@pytest.mark.parametrize("turns", range(1, 6))
async def test_closing_closes_the_listener_also_where_it_is_cancelled(turns: int) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    made = EgressProxy(None)
    await made.serve(listener)
    closing = asyncio.ensure_future(made.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)

    assert listener.fileno() == -1


async def test_connections_without_end_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.net.egress._MOST_OPEN", 2)
    async with proxy("a.example") as (_, at):
        held = [await asyncio.open_connection("127.0.0.1", at) for _ in range(2)]
        reader, writer = await asyncio.open_connection("127.0.0.1", at)
        # Closed before anything was read of it.
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        for _, writer in held:
            writer.close()
