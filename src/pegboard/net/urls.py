"""Judging URLs before anything connects to them."""

from __future__ import annotations

import re
import socket
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from typing import Final, cast
from urllib.parse import quote

from pegboard.core.errors import BuildError, check_sequence, format_value
from pegboard.core.hosts import ascii_host
from pegboard.net.addresses import classify
from pegboard.net.destinations import OPENED_BY_OWNER, within
from pegboard.net.names import local_name

Resolve = Callable[[str], Sequence[str]]

_PORTS: Final = {"http": 80, "https": 443}
# WHATWG URL, forbidden domain code points; `%` is refused too: percent-encoded hosts only hide things.
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f#%/:<>?@\[\\\]^`{|}]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_UNSEEN: Final = re.compile(r"[\x20\x80-\xa0\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")
# RFC 3986 userinfo, without anything that a parser could take for the end of the authority.
_USER: Final = re.compile(r"[A-Za-z0-9._~!$&'*+,;=:%()-]*")
# What WHATWG percent-encodes in paths and queries; what is encoded already stays as it is.
_SAFE: Final = "/?:@!$&'*+,;=()%~[]"
_DOTS: Final = re.compile("[\u3002\uff0e\uff61]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a URL.

    Attributes:
        allowed: whether it may be connected to, at one of `addresses` and no other.
        reason: why not; empty when allowed.
        scheme, host, port: as parsed; the host in ASCII, lower case, without brackets.
        addresses: the checked addresses.
        target: path and query to request, percent-encoded. A user name or password of the URL is in none
            of these: it is not sent.
    """

    allowed: bool
    reason: str = ""
    scheme: str = ""
    host: str = ""
    port: int = 0
    addresses: tuple[str, ...] = field(default=())
    target: str = "/"


def resolve_here(host: str) -> Sequence[str]:
    """Addresses of a name by this machine's resolver; blocks.

    Raises:
        OSError: it has none.
    """
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def judge_url(
    url: str,
    resolve: Resolve = resolve_here,
    *,
    allow: Sequence[str] = (),
    allow_cidrs: Sequence[str] = (),
) -> Verdict:
    """Whether a URL may be fetched.

    The URL is parsed here and only here: whoever connects uses the verdict's host and addresses.

    Args:
        url: as it was given.
        resolve: addresses of a name; called once, and not for addresses in the URL itself.
        allow: private hosts that the owner opened: `host` or `host:port`, exact names.
        allow_cidrs: networks that the owner opened, such as `198.18.0.0/15` where a proxy answers every name
            with an address of its own; names of the local network stay closed.
    """
    if not isinstance(cast(object, url), str):
        return Verdict(allowed=False, reason=f"a URL is text, not {format_value(url)}")
    try:
        scheme, host, port, target = _parse(url)
    except ValueError as problem:
        return Verdict(allowed=False, reason=str(problem))
    if not callable(cast(object, resolve)):
        raise BuildError(
            f"resolve=… takes a function from a host to its addresses, got {format_value(resolve)}"
        )
    opened = host in allow or f"{host}:{port}" in allow
    parsed = Verdict(allowed=True, scheme=scheme, host=host, port=port, target=target)
    try:
        addresses: Sequence[str] = [str(_address(host))]
    except ValueError:
        reason = "" if opened else local_name(host)
        if reason:
            return _refused(parsed, f"{reason}; {OPENED_BY_OWNER}")
        try:
            addresses = [
                str(a) for a in check_sequence(resolve(host), "judge_url", "addresses from resolve(host)")
            ]
        except (OSError, UnicodeError) as problem:
            return _refused(parsed, f"{host} has no address ({problem})")
    if not addresses:
        return _refused(parsed, f"{host} has no address")
    for address in addresses:
        try:
            reason = None if opened or within(address, allow_cidrs) else classify(address)
        except ValueError:
            reason = "not an address"
        if reason is not None:
            return _refused(
                parsed,
                f"{_leads(host, address)} not public: {reason}; {OPENED_BY_OWNER}",
            )
    return Verdict(
        allowed=True, scheme=scheme, host=host, port=port, addresses=tuple(addresses), target=target
    )


def host_of(url: str) -> str:
    """The host of a URL as rules name it, with a port that is not the usual one; empty where it has none."""
    parsed = judge_url(url, lambda host: ())
    if not parsed.host:
        return ""
    named = f"[{parsed.host}]" if ":" in parsed.host else parsed.host
    return named if parsed.port == _PORTS[parsed.scheme] else f"{named}:{parsed.port}"


def _leads(host: str, address: str) -> str:
    return f"{host} is" if host == address else f"{host} leads to {address}, which is"


def _refused(parsed: Verdict, reason: str) -> Verdict:
    return Verdict(allowed=False, reason=reason, scheme=parsed.scheme, host=parsed.host, port=parsed.port)


def _parse(url: str) -> tuple[str, str, int, str]:
    """Scheme, ASCII host, port, path with query.

    Raises:
        ValueError: not an http or https URL that every parser reads alike.
    """
    url = url.strip(" ")
    if _CONTROL.search(url):
        raise ValueError("the URL contains a control character")
    if "\\" in url:
        raise ValueError("the URL contains a backslash, which programs read differently")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise ValueError(f"only http:// and https:// URLs are fetched, not {scheme[:20]!r}")
    cut = min((at for at in (rest.find(c) for c in "/?#") if at >= 0), default=len(rest))
    authority, tail = rest[:cut], rest[cut:].partition("#")[0]
    if _UNSEEN.search(authority):
        raise ValueError("the URL's host contains a space or an invisible character")
    user, at, place = authority.partition("@")
    if "@" in place:
        raise ValueError("the URL has two @ before its path, which programs read differently")
    if at and not _USER.fullmatch(user):
        raise ValueError("the URL's user name has characters that programs read differently")
    host, port = _host_and_port(place if at else authority, _PORTS[scheme])
    if not tail.startswith("/"):
        tail = "/" + tail
    # Spaces and letters beyond ASCII as their UTF-8 in percent form, as browsers send them.
    return scheme, host, port, quote(tail, safe=_SAFE, encoding="utf-8", errors="replace")


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, bracket, after = authority[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise ValueError("the URL's address is not closed by ]")
        if "%" in host:
            raise ValueError("the URL's address has a zone")
        name, port = str(IPv6Address(host)), after[1:]
    else:
        host, _, port = authority.partition(":")
        name = _domain(host)
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"the URL's port {port!r} is not a number from 1 to 65535")
    return name, int(port) if port else default


def _domain(host: str) -> str:
    """IDNA and NFKC before anything is judged: other spellings of a name are the name."""
    if not host:
        raise ValueError("the URL has no host")
    text = unicodedata.normalize("NFKC", _DOTS.sub(".", host))
    if "\u00ad" in text or _FORBIDDEN.search(text):
        raise ValueError(f"{host!r} is not a host name")
    text = ascii_host(text)
    text = text.removesuffix(".")
    if not text or any(not label or len(label) > 63 for label in text.split(".")) or len(text) > 253:
        raise ValueError(f"{host!r} is not a host name")
    last = text.rpartition(".")[2]
    if last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):
        return str(_loose_v4(text))
    return text


def _loose_v4(text: str) -> IPv4Address:
    """An IPv4 address in any form that inet_aton takes: decimal, octal, hex, fewer than four parts."""
    parts = text.split(".")
    if len(parts) > 4:
        raise ValueError(f"{text!r} is not an address")
    numbers: list[int] = []
    for part in parts:
        if part.startswith("0x"):
            numbers.append(int(part[2:] or "0", 16))
        elif part.startswith("0") and len(part) > 1:
            numbers.append(int(part, 8))
        elif part.isdigit():
            numbers.append(int(part))
        else:
            raise ValueError(f"{text!r} is not an address")
    *first, last = numbers
    if any(number > 255 for number in first) or last >= 256 ** (5 - len(numbers)):
        raise ValueError(f"{text!r} is not an address")
    value = last
    for place, number in enumerate(first):
        value += number << (8 * (3 - place))
    return IPv4Address(value)


def _address(host: str) -> IPv4Address | IPv6Address:
    return IPv6Address(host) if ":" in host else IPv4Address(host)
