"""Where a server may send the client for its login: the network guard of discovery, with answers of our own for names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest
from pytest import raises

from pegboard.core.errors import Unavailable
from pegboard.mcp.auth import FileTokens, interactive_auth
from pegboard.mcp.http import AddressGuard
from pegboard.net.transport import GuardedTransport
from tests.ledger import owes
from tests.mcp.test_auth import Guarded, Issuer, browser, on, tools_of

PUBLIC = "https://mcp.example/mcp"
LOCAL = "http://127.0.0.1:9000/mcp"
PRIVATE = "https://10.1.2.3/mcp"
NAMES = {
    "issuer.example": ["93.184.216.34"],
    "inner.example": ["10.0.0.5"],
    "both.example": ["93.184.216.34", "127.0.0.1"],
    "zero.example": ["0.0.0.0"],
    "cloud.example": ["169.254.169.254"],
    "none.example": [],
    "corp.test": ["127.0.0.1"],
}


async def resolve(host: str, port: int) -> Sequence[str]:
    if host in NAMES:
        return NAMES[host]
    if host.strip("[]").replace(".", "").isdigit() or ":" in host:
        return [host]
    raise OSError(f"{host}: not known")


@owes("mcp-078", "K-79")
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/", "https://169.254.169.254/", "https://127.0.0.1:6379/",
        "https://localhost/", "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://[fd00::1]/", "https://10.0.0.1/",
        "https://inner.example/token", "https://both.example/", "https://zero.example/", "https://cloud.example/",
        "https://metadata.google.internal/", "https://intranet/", "https://none.example/", "https://unknown.example/",
        "http://issuer.example/token", "https://100.100.100.200/", "https://168.63.129.16/",
        # The same host is not the same service.
        "https://10.1.2.3:8443/", "http://mcp.example.evil.example/",
    ],
)  # fmt: skip
async def test_a_public_server_sends_us_to_public_places_only(url: str) -> None:
    with raises(Unavailable, match="not asked") as caught:
        await AddressGuard((PUBLIC,), resolve).addresses(url)

    assert "oauth.issuer" in caught.value.hint


@pytest.mark.parametrize(
    ("own", "url", "address"),
    [
        (PUBLIC, "https://issuer.example/token", "93.184.216.34"),
        (PUBLIC, "https://issuer.example:8443/token", "93.184.216.34"),
        (PUBLIC, "https://mcp.example/.well-known/oauth-protected-resource", None),
        (LOCAL, "http://127.0.0.1:9001/token", "127.0.0.1"),
        (LOCAL, "http://corp.test:9001/token", "127.0.0.1"),
        (LOCAL, "https://10.0.0.7/realm", "10.0.0.7"),
        (PRIVATE, "https://10.0.0.7/realm", "10.0.0.7"),
        (PRIVATE, "https://issuer.example/", "93.184.216.34"),
    ],
)
async def test_what_is_near_may_name_what_is_as_near(own: str, url: str, address: str | None) -> None:
    assert list(await AddressGuard((own,), resolve).addresses(url)) == ([address] if address else [])


@pytest.mark.parametrize(
    ("own", "url"),
    [
        (LOCAL, "http://169.254.169.254/latest"), (LOCAL, "https://cloud.example/"), (LOCAL, "http://10.0.0.7/realm"),
        (LOCAL, "https://none.example/"), (LOCAL, "https://unknown.example/"), (LOCAL, "https://0.0.0.0/"),
        (PRIVATE, "https://127.0.0.1/"), (PRIVATE, "https://localhost.example/"), (PRIVATE, "https://both.example/"),
    ],
)  # fmt: skip
async def test_and_nothing_nearer_nor_a_clouds_metadata(own: str, url: str) -> None:
    with raises(Unavailable, match="not asked"):
        await AddressGuard((own,), resolve).addresses(url)


async def test_what_the_settings_name_is_reached_wherever_it_is() -> None:
    reach = AddressGuard((PUBLIC, "https://10.9.9.9/realm"), resolve)

    assert await reach.addresses("https://10.9.9.9/realm/token") == ()
    with raises(Unavailable):
        await reach.addresses("https://10.9.9.9:6379/")


async def test_what_is_told_of_a_refused_address_holds_no_secret() -> None:
    with raises(Unavailable) as caught:
        await AddressGuard((PUBLIC,), resolve).addresses("https://me:hush@10.0.0.1/x?key=hush#hush")

    assert "hush" not in str(caught.value) and "10.0.0.1" in str(caught.value)


async def test_a_name_is_looked_up_once_and_asked_by_its_own_name() -> None:
    looked: list[str] = []

    async def once(host: str, port: int) -> Sequence[str]:
        looked.append(host)
        return ["127.0.0.1"] if len(looked) == 1 else ["169.254.169.254"]

    async with on(Issuer()) as issuer:
        reach = AddressGuard(("http://127.0.0.1:1/mcp",), once)
        async with httpx2.AsyncClient(transport=GuardedTransport(reach.addresses)) as client:
            url = f"http://issuer.test:{issuer.port}/.well-known/oauth-authorization-server"
            reply = await client.get(url)

    assert reply.status_code == 200 and looked == ["issuer.test"]
    assert issuer.seen[0].headers["host"] == f"issuer.test:{issuer.port}"
    assert str(reply.url) == url


@pytest.mark.slow
@pytest.mark.parametrize("named", ["http://169.254.169.254/latest", "https://metadata.google.internal/x"])
async def test_a_login_that_leads_to_a_clouds_metadata_ends_there(named: str, tmp_path: Path) -> None:
    async with on(Guarded(named)) as server, on(Issuer()) as issuer:
        async with browser(issuer) as (show, opened):
            with raises(Unavailable, match="not asked"):
                async with interactive_auth(
                    server.url, FileTokens(tmp_path / "t"), show=show, timeout_s=5
                ) as auth:
                    await tools_of(server.url, auth)

    assert opened == []
