"""Redirects that a message with its credentials may follow, and those that it may not."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from pegboard.mcp.streamable_http import leads_to, next_request
from tests.ledger import owes


async def answered(url: str, location: str | None, status: int, method: str) -> httpx2.Response:
    """A response as the HTTP client gives it, with the request that it would send next."""

    def serve(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={} if location is None else {"location": location})

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(serve)) as client:
        request: Any = client.build_request(method, url, content=b"{}" if method == "POST" else None)
        return await client.send(request, follow_redirects=False)


@owes("N-118")
@pytest.mark.parametrize(
    ("url", "location", "goes"),
    [
        ("http://a.test/mcp", "/mcp/", "http://a.test/mcp/"),
        ("http://a.test:8000/mcp", "http://A.test:8000/x", "http://a.test:8000/x"),
        ("http://a.test/mcp", "https://a.test/mcp", "https://a.test/mcp"),
        ("https://a.test/mcp", "https://a.test:443/x", "https://a.test/x"),
        # Another host, port or scheme is another server; so is one that is logged in to otherwise.
        ("http://a.test/mcp", "http://b.test/mcp", None),
        ("http://a.test/mcp", "http://a.test.evil/mcp", None),
        ("http://a.test/mcp", "//b.test/mcp", None),
        ("http://a.test/mcp", "http://a.test:81/mcp", None),
        ("http://a.test:8000/mcp", "https://a.test/mcp", None),
        ("http://a.test/mcp", "https://a.test:8443/mcp", None),
        ("https://a.test/mcp", "http://a.test/mcp", None),
        ("http://a.test/mcp", "http://user:pw@a.test/mcp", None),
        ("http://a.test/mcp", None, None),
    ],
)
async def test_a_message_stays_with_its_server(url: str, location: str | None, goes: str | None) -> None:
    next_one = next_request(await answered(url, location, 307, "POST"))

    assert (None if next_one is None else str(next_one.url)) == goes
    assert next_one is None or next_one.read() == b"{}"


@pytest.mark.parametrize(
    ("method", "status", "follows"),
    [("POST", 307, True), ("POST", 308, True), ("POST", 301, False), ("POST", 302, False), ("POST", 303, False),
     ("GET", 302, True), ("GET", 200, False)],
)  # fmt: skip
async def test_a_redirect_that_would_lose_the_message_is_not_followed(
    method: str, status: int, follows: bool
) -> None:
    # RFC 9110 §15.4: 307 and 308 keep the method, the others turn a POST into a GET.
    assert (next_request(await answered("http://a.test/", "/x", status, method)) is not None) is follows


async def test_what_is_told_of_a_redirect_holds_no_secret() -> None:
    there = await answered("http://a.test/", "http://user:pw@b.test/x?token=hush#frag", 307, "POST")
    nowhere = await answered("http://a.test/", None, 200, "POST")

    assert leads_to(there) == "http://b.test/x"
    assert leads_to(nowhere) is None
