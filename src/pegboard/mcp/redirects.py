"""Redirects: which ones a message with its credentials may follow (corpus mcp-108; RFC 9110 §15.4)."""

from __future__ import annotations

import httpx2


def next_request(response: httpx2.Response) -> httpx2.Request | None:
    """The request that follows a redirect within the server's own origin; None for any other response.

    Its method stays, since a POST turned into a GET has lost its message; its address stays on scheme, host and port,
    or goes from http to https on the default ports; and it brings no user and password of its own.
    """
    following, sent = response.next_request, response.request
    if following is None or following.method != sent.method:
        return None
    came, goes = sent.url, following.url
    if goes.userinfo not in (b"", came.userinfo):
        return None
    upgraded = (came.scheme, goes.scheme) == ("http", "https") and came.port is goes.port is None
    same = (came.scheme, came.port) == (goes.scheme, goes.port)
    return following if came.host == goes.host and (same or upgraded) else None


def leads_to(response: httpx2.Response) -> str | None:
    """Where a redirect leads, for a message: without user, query and fragment, which may hold secrets."""
    if response.next_request is None:
        return None
    return str(response.next_request.url.copy_with(userinfo=b"", query=None, fragment=None))
