"""HttpClient: only checked addresses, on every hop; every size and wait is bounded."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pegboard.core.errors import InvalidArguments, PermissionDenied, TimedOut, TooLarge, Unavailable
from pegboard.net.client import HttpClient
from tests.ledger import owes
from tests.web.site import Asked, Site, Write, site


@pytest.fixture
async def here() -> AsyncIterator[Site]:
    async with site() as one:
        yield one


def opened(*sites: Site, **options: Any) -> HttpClient:
    return HttpClient(allow=tuple(s.place for s in sites), **options)


async def test_an_answer_is_read_whole_whatever_its_status(here: Site) -> None:
    url = here.answer("/a", "not there", status="404 Not Found", x_note="1")

    reply = await opened(here).request("GET", url, headers={"accept": "text/html"})

    assert (reply.status, reply.body, reply.url) == (404, b"not there", url)
    assert reply.headers["x-note"] == "1"
    assert here.asked[0].headers["host"] == here.place
    assert here.asked[0].headers["accept"] == "text/html"


@owes("M-29", "K-35")
@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/secret",
        "http://169.254.169.254/latest/",
        "http://[::1]:{port}/",
        "http://2130706433/",
    ],
)
async def test_a_redirect_to_a_place_that_is_not_public_is_not_followed(here: Site, target: str) -> None:
    async with site() as inner:
        url = here.answer("/a", "", status="302 Found", location=target.format(port=inner.port))

        with pytest.raises(PermissionDenied, match=r"not public|local"):
            await opened(here).request("GET", url)
        assert inner.asked == []


@owes("M-29", "K-35")
async def test_the_address_that_was_checked_is_the_one_that_is_connected_to(here: Site) -> None:
    """The name's second answer would be this machine: it is never asked for."""
    answers = iter([["203.0.113.9"], ["127.0.0.1"]])
    lookups: list[str] = []

    def resolve(host: str) -> list[str]:
        lookups.append(host)
        return next(answers)

    client = HttpClient(resolve=resolve, allow_cidrs=("203.0.113.0/24",), timeout_s=0.3)
    with pytest.raises((TimedOut, Unavailable)):
        await client.request("GET", f"http://rebinding.example:{here.port}/")
    assert lookups == ["rebinding.example"]
    assert here.asked == []


async def test_a_name_with_a_public_and_a_private_address_is_refused() -> None:
    client = HttpClient(resolve=lambda host: ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(PermissionDenied, match=r"10\.0\.0\.1"):
        await client.request("GET", "http://two.example/")


async def test_the_next_address_is_tried_where_one_takes_no_connection(here: Site) -> None:
    here.answer("/", "here")
    # Nobody listens at 127.0.0.2 on that port: the server is bound to 127.0.0.1.
    client = HttpClient(
        resolve=lambda host: ["127.0.0.2", "127.0.0.1"], allow=(f"several.example:{here.port}",)
    )
    reply = await client.request("GET", f"http://several.example:{here.port}/")
    assert reply.body == b"here"
    assert here.asked[0].headers["host"] == f"several.example:{here.port}"


@owes("N-77", "X-31")
async def test_five_redirects_are_followed_and_a_sixth_is_an_error(here: Site) -> None:
    for n in range(6):
        here.answer(f"/{n}", "", status="302 Found", location=f"/{n + 1}")
    here.answer("/6", "end")

    reply = await opened(here).request("GET", here.url("/1"))
    assert (reply.body, reply.url, len(reply.redirects)) == (b"end", here.url("/6"), 5)
    with pytest.raises(Unavailable, match="redirects more than 5 times"):
        await opened(here).request("GET", here.url("/0"))


async def test_credentials_stay_with_the_first_origin(here: Site) -> None:
    async with site() as other:
        other.answer("/b", "there")
        url = here.answer("/a", "", status="302 Found", location=other.url("/b"))
        await opened(here, other).request("GET", url, headers={"Authorization": "Bearer t", "x-own": "1"})

        assert here.asked[0].headers["authorization"] == "Bearer t"
        assert "authorization" not in other.asked[0].headers
        assert other.asked[0].headers["x-own"] == "1"


async def test_a_post_that_is_redirected_becomes_a_get_without_its_body(here: Site) -> None:
    here.answer("/b", "there")
    url = here.answer("/a", "", status="303 See Other", location="/b")
    await opened(here).request("POST", url, json={"a": "ä"})

    assert here.asked[0].body == '{"a": "ä"}'.encode()
    assert (here.asked[1].method, here.asked[1].body) == ("GET", b"")


async def test_a_host_that_is_refused_is_not_asked_not_even_after_a_redirect(here: Site) -> None:
    def refuse(host: str) -> str:
        return "blocked here" if host == "bad.example" else ""

    client = opened(here, refuse=refuse)
    with pytest.raises(PermissionDenied, match="blocked here"):
        await client.request("GET", "http://bad.example/")
    url = here.answer("/a", "", status="302 Found", location="http://bad.example/")
    with pytest.raises(PermissionDenied, match=r"bad\.example must not be reached"):
        await client.request("GET", url)


@owes("N-76")
@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "file:///etc/passwd", "example.com", "http://", "http://a b/"]
)
async def test_only_http_and_https_addresses_with_a_host_are_asked(url: str) -> None:
    with pytest.raises(InvalidArguments):
        await HttpClient().request("GET", url)


# -- hostile answers ----------------------------------------------------------------------------


async def test_a_body_that_unpacks_to_more_than_the_limit_is_not_unpacked(here: Site) -> None:
    bomb = gzip.compress(b"\0" * (64 << 20))
    url = here.answer("/a", bomb, content_encoding="gzip")
    with pytest.raises(TooLarge, match="over 1000000 bytes"):
        await opened(here).request("GET", url, max_bytes=1_000_000)


async def test_an_endless_body_is_cut_where_the_caller_wants_a_part(here: Site) -> None:
    async def endless(asked: Asked, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await write(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    here.pages["/a"] = endless
    with pytest.raises(TooLarge):
        await opened(here).request("GET", here.url("/a"), max_bytes=200_000)
    reply = await opened(here).request("GET", here.url("/a"), max_bytes=200_000, cut=True)
    assert (len(reply.body), reply.cut) == (200_000, True)


async def test_a_body_that_drips_ends_with_the_whole_requests_time(here: Site) -> None:
    async def drip(asked: Asked, write: Write) -> None:
        await write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            await write(b"x")
            await asyncio.sleep(0.05)

    here.pages["/a"] = drip
    with pytest.raises(TimedOut, match=r"within 0\.3 s"):
        await opened(here, timeout_s=0.3).request("GET", here.url("/a"))


@pytest.mark.parametrize(
    ("encoding", "body", "problem"),
    [
        ("gzip", gzip.compress(b"x" * 100_000)[:-20], "breaks off"),
        ("gzip", b"not gzip at all", "damaged gzip"),
        ("br", b"\x0b\x02\x80x\x03", "'br'"),
    ],
)
async def test_a_broken_or_unasked_encoding_is_an_error(
    here: Site, encoding: str, body: bytes, problem: str
) -> None:
    url = here.answer("/a", body, content_encoding=encoding)
    with pytest.raises(Unavailable, match=problem):
        await opened(here).request("GET", url)


async def test_deflate_is_read_with_and_without_its_header(here: Site) -> None:
    raw = zlib.compressobj(wbits=-15)
    bare = raw.compress(b"bare") + raw.flush()
    for path, body in (("/a", zlib.compress(b"zlib")), ("/b", bare)):
        here.answer(path, body, content_encoding="deflate")
    assert (await opened(here).request("GET", here.url("/a"))).body == b"zlib"
    assert (await opened(here).request("GET", here.url("/b"))).body == b"bare"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"a" * 10_000_000 + b"\r\n\r\n",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab",
        b"",
    ],
)
async def test_a_broken_answer_is_an_error_and_no_hang(here: Site, head: bytes) -> None:
    here.pages["/a"] = head
    with pytest.raises(Unavailable, match="cannot be reached"):
        await opened(here, timeout_s=10).request("GET", here.url("/a"))


async def test_a_port_where_nobody_listens_says_so() -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 cannot be reached"):
        await HttpClient(allow=("127.0.0.1",)).request("GET", "http://127.0.0.1:1/")


async def test_a_server_that_speaks_no_tls_is_an_error(here: Site) -> None:
    here.greeting = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(Unavailable, match="cannot be reached"):
        await opened(here).request("GET", f"https://{here.place}/")


async def test_a_certificate_that_the_system_does_not_know_is_refused(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    await (
        await asyncio.create_subprocess_exec(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=own.example",
            "-addext", "subjectAltName=DNS:own.example", "-keyout", str(key), "-out", str(certificate), stderr=-3,
        )
    ).wait()  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with site(context) as here:
        place = f"own.example:{here.port}"
        here.answer("/", "over TLS")
        client = HttpClient(resolve=lambda host: ["127.0.0.1"], allow=(place,))
        with pytest.raises(Unavailable, match="certificate"):
            await client.request("GET", f"https://{place}/")
        known = replace(client, verify=ssl.create_default_context(cafile=str(certificate)))
        assert (await known.request("GET", f"https://{place}/")).body == b"over TLS"


async def test_no_proxy_is_taken_from_the_environment(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.place}")
        monkeypatch.setenv("ALL_PROXY", f"http://{proxy.place}")
        await opened(here).request("GET", here.answer("/a", "direct"))
        assert proxy.asked == []
