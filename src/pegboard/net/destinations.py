"""Destinations: which hosts a rule names, and what is remembered of each attempt to reach one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Final

from pegboard.core.context import current_context
from pegboard.core.events import DestinationTried
from pegboard.core.hosts import WEB_PORTS, ascii_host, host_is, split_port

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

OPENED_BY_OWNER: Final = (
    "if that is intended, the owner can open it with [network] allow_hosts or allow_cidrs"
)
"""What to do about an address that is not public: no grant opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One attempt to reach something.

    Attributes:
        host, port: as asked for; the host in lower case.
        allowed: whether it was let through.
        reason: why not, or the address that it went to.
        at: seconds since the epoch.
        secrets: names of the secrets that were put in.
        hint: what would open it, empty where it was let through.
    """

    host: str
    port: int
    allowed: bool
    reason: str
    at: float
    secrets: tuple[str, ...] = ()
    hint: str = ""

    @property
    def name(self) -> str:
        """How effects and grants name it: `host`, with its port unless that is one of the web's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port in WEB_PORTS else f"{host}:{self.port}"


def record_destination(seen: Destination) -> None:
    """Into the stream of the session whose call went there; the proxy, or the browser, tells it in that call's context."""
    try:
        context = current_context()
    except LookupError:
        # A person's own command (`pegboard sandbox run`): its notes name what was refused.
        return
    context.emit(
        DestinationTried(
            call_id="", tool="", host=seen.host, port=seen.port, allowed=seen.allowed, reason=seen.reason,
            secrets=seen.secrets,
        )
    )  # fmt: skip


def admits(rules: Sequence[tuple[str, int | None]], host: str, port: int) -> bool:
    """Whether one of some split rules names the host and the port; a rule without a port means the web's."""
    return any(
        host_is(rule, host) and (port in WEB_PORTS if wanted is None else wanted in (0, port))
        for rule, wanted in rules
    )


def names(rules: Sequence[tuple[str, int | None]], host: str, port: int) -> bool:
    """Whether one of some split rules names the host, with this port or none: what an owner opens, he opens whole."""
    return any(host_is(rule, host) and wanted in (None, 0, port) for rule, wanted in rules)


def split_rule(rule: str) -> tuple[str, int | None]:
    """`host`, `host:443`, `[::1]:443` as host and port; None where it names no port, 0 for every port (`host:*`).

    Raises:
        ValueError: the host is no valid international name.
    """
    host, port = split_port(rule)
    return ascii_host(host), 0 if port == "*" else int(port) if port.isdigit() else None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its very name, which no resolver can change."""
    return host in ("localhost", "::1") or host.startswith("127.")


async def resolve_here(host: str, port: int) -> Sequence[str]:
    """Addresses of a name by this machine's resolver.

    Raises:
        OSError: it has none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def within(address: str, networks: Sequence[str]) -> bool:
    """Whether an address lies in one of some networks (`198.18.0.0/15`)."""
    ip = ip_address(address)
    return any(ip in ip_network(network) for network in networks)
