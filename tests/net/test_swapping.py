"""Place holders: the value is put in for the bound host alone, over TLS, and never comes back."""

from __future__ import annotations

import asyncio
import base64
import random
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pegboard.core.errors import Unavailable
from pegboard.core.secrets.handles import Placeholders, Substitution
from pegboard.net.listening import stop_listening
from pegboard.net.substitution import ByteSubstituter
from tests.ledger import owes
from tests.net.test_egress import proxy, site, talk, to_loopback
from tests.serving import ending

VALUE = "sk-value-0123456789abcdef"
HELD = "Zq8dPlaceHolderXXXXXXXXXX"
SWAP = Substitution(name="api", placeholder=HELD, value=VALUE, hosts=("api.example:*",))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for api.example, made by OpenSSL."""
    folder = tmp_path_factory.mktemp("tls")
    openssl = shutil.which("openssl")
    assert openssl is not None
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", "/CN=api.example",
         "-addext", "subjectAltName=DNS:api.example,DNS:other.example"],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


@asynccontextmanager
async def secure_site(certificate: Path) -> AsyncIterator[tuple[int, list[bytes]]]:
    """An https server on loopback that sends back what it was sent, in pieces of seven bytes."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            (
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            ),
            0,
        )
        whole = head + await reader.readexactly(size)
        seen.append(whole)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(whole))
        for at in range(0, len(whole), 7):
            writer.write(whole[at : at + 7])
            await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        await stop_listening(server)


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate / "cert.pem"))


def _public(address: str) -> None:
    return None


@pytest.fixture
def loopback_counts_as_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """The https server of these tests stands on loopback, where no public host can be."""
    monkeypatch.setattr("pegboard.net.egress.classify", _public)


@owes("G-18", "G-11")
@pytest.mark.usefixtures("loopback_counts_as_public")
async def test_the_value_goes_to_the_bound_host_over_tls_and_an_echo_of_it_does_not_come_back(
    certificate: Path,
) -> None:
    basic = base64.b64encode(f"me:{HELD}".encode())
    body = b'{"token": "' + HELD.encode() + b'"}'
    async with (
        secure_site(certificate) as (port, seen),
        proxy(
            f"api.example:{port}",
            substitutions=[SWAP],
            resolve=to_loopback,
            tls=lambda: trusting(certificate),
        ) as (
            made,
            at,
        ),
    ):
        answer = await talk(
            at,
            f"POST http://api.example:{port}/x?key={HELD} HTTP/1.1\r\nX-Key: {HELD}\r\nAccept-Encoding: gzip\r\n".encode()
            + b"Authorization: Basic " + basic + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
        )  # fmt: skip

    assert seen[0].count(VALUE.encode()) == 3
    assert base64.b64encode(f"me:{VALUE}".encode()) in seen[0]
    assert b"gzip" not in seen[0] and HELD.encode() not in seen[0]
    assert VALUE.encode() not in answer and answer.count(HELD.encode()) == 3
    last = made.destinations[-1]
    assert (last.host, last.allowed, last.secrets) == ("api.example", True, ("api",))


@owes("G-18", "G-11")
async def test_another_host_gets_the_place_holder_as_it_stands() -> None:
    async with (
        site() as (port, seen),
        proxy(
            f"ok.example:{port}", allow_private=["ok.example"], substitutions=[SWAP], resolve=to_loopback
        ) as (
            made,
            at,
        ),
    ):
        await talk(at, f"GET http://ok.example:{port}/?k={HELD} HTTP/1.1\r\n\r\n".encode())

    assert HELD.encode() in seen[0] and VALUE.encode() not in seen[0]
    assert made.destinations[-1].secrets == ()


@owes("G-18")
@pytest.mark.usefixtures("loopback_counts_as_public")
async def test_a_bound_host_without_its_certificate_gets_nothing(certificate: Path) -> None:
    """Neither in the clear nor to whoever answers with another certificate."""
    seen: list[bytes] = []

    async def in_the_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.read(4096))
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(in_the_clear, "127.0.0.1", 0)
    plain = server.sockets[0].getsockname()[1]
    async with (
        ending(server),
        secure_site(certificate) as (secure, echoed),
        proxy(f"api.example:{plain}", f"api.example:{secure}", substitutions=[SWAP], resolve=to_loopback) as (
            _,
            at,
        ),
    ):
        answers = [
            await talk(at, f"GET http://api.example:{port}/?k={HELD} HTTP/1.1\r\n\r\n".encode())
            for port in (plain, secure)
        ]

    assert all(a.startswith(b"HTTP/1.1 502") for a in answers)
    assert not echoed and seen and not any(VALUE.encode() in s for s in seen)


def test_a_stream_in_pieces_is_replaced_as_if_it_were_whole() -> None:
    seed = random.randrange(10**6)
    rng = random.Random(seed)
    for _ in range(300):
        old, new = b"abab", b"WXYZ"
        data = bytes(rng.choice(b"abc") for _ in range(rng.randrange(40)))
        swapper, out, at = ByteSubstituter([(old, new)]), b"", 0
        while at < len(data):
            step = rng.randrange(1, 6)
            out += swapper.feed(data[at : at + step])
            at += step
        out += swapper.close()

        assert out == data.replace(old, new), (seed, data)


def test_a_place_holder_is_as_long_as_its_value_and_new_for_a_new_value() -> None:
    held = Placeholders()
    first = held.for_secret("api", "pässwörd-1", ("a",))

    assert len(first.encode()) == len("pässwörd-1".encode())
    assert held.for_secret("api", "pässwörd-1", ("a",)) == first
    assert held.for_secret("api", "other-value", ("a",)) != first
    assert held.find_in(["nothing"]) == ()
    assert "other-value" not in repr(held.find_in([held.for_secret("api", "other-value", ("a",))]))


def test_a_value_too_short_to_be_told_from_ordinary_text_is_refused() -> None:
    with pytest.raises(Unavailable, match="needs 8 or more"):
        Placeholders().for_secret("pin", "1234567", ("a",))
