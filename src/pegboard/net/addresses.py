"""Which IP addresses are public (the SSRF table).

The table is our own: Python's `is_global` changes between versions and knows nothing of
addresses inside addresses. IPv6: only 2000::/3 less its special blocks; an IPv4 address that an
IPv6 address carries is taken out and judged itself. Sources: IANA special-purpose registries,
RFC 4291 (mapped, compatible), 6052 (NAT64), 3056 (6to4), 4380 (Teredo), 6145/7915 (SIIT).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

_V4: Final = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local or cloud metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "AS112"),
        ("192.52.193.0/24", "AMT"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "AS112"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved or broadcast"),
        # Reachable from the public internet, but cloud platforms answer on it from inside.
        ("168.63.129.16/32", "cloud metadata"),
    )
)
_V6: Final = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("2001::/23", "protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("2620:4f:8000::/48", "AS112"),
        ("3fff::/20", "documentation"),
        ("3ffe::/16", "former 6bone"),
        ("5f00::/16", "segment routing"),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_V6_LOOPBACK: Final = IPv6Address("::1")
_V6_NAMED: Final = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "unspecified"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("100::/64", "discard only"),
    )
)
# Where an IPv4 address stands in an IPv6 address: network, bit offset from the right.
_CARRIERS: Final = tuple(
    (IPv6Network(network), shift, name)
    for network, shift, name in (
        ("::ffff:0:0/96", 0, "IPv4-mapped"),
        ("::ffff:0:0:0/96", 0, "SIIT"),
        ("64:ff9b::/96", 0, "NAT64"),
        ("64:ff9b:1::/48", 0, "local NAT64"),
        ("2002::/16", 80, "6to4"),
        ("::/96", 0, "IPv4-compatible"),
    )
)
_TEREDO: Final = IPv6Network("2001::/32")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


def classify(address: str | IPv4Address | IPv6Address) -> str | None:
    """Why an address is not public; None for a public one.

    Args:
        address: an address, or its text in canonical form (no zone, no brackets).

    Raises:
        ValueError: the text is no address.
    """
    ip = ip_address(address) if isinstance(address, str) else address
    if isinstance(ip, IPv4Address):
        return _classify_v4(ip)
    if ip.scope_id is not None:
        return "link-local with a zone"
    return _classify_v6(ip)


def inner_v4(ip: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address carries, by the forms that routers translate."""
    if ip == _V6_LOOPBACK or int(ip) == 0:
        return None
    for network, shift, _ in _CARRIERS:
        if ip in network:
            return IPv4Address((int(ip) >> shift) & 0xFFFFFFFF)
    if ip in _TEREDO:
        return IPv4Address((int(ip) & 0xFFFFFFFF) ^ 0xFFFFFFFF)
    if (int(ip) >> 32) & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return None


def _classify_v4(ip: IPv4Address) -> str | None:
    for network, reason in _V4:
        if ip in network:
            return reason
    return None


def _classify_v6(ip: IPv6Address) -> str | None:
    if ip == _V6_LOOPBACK:
        return "loopback"
    carried = inner_v4(ip)
    if carried is not None:
        inner = _classify_v4(carried)
        if inner is not None:
            return f"{inner} ({carried} inside {ip})"
        # Mapped, NAT64 and 6to4 addresses of public hosts reach these hosts; the other forms are dead.
        if any(ip in _CARRIERS[at][0] for at in (0, 2, 4)):
            return None
    for network, reason in _V6_NAMED:
        if ip in network:
            return reason
    if ip not in _GLOBAL_UNICAST:
        return "not global unicast"
    for network, reason in _V6:
        if ip in network:
            return reason
    return None
