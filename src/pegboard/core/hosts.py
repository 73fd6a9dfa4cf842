"""Host names as they are resolved, and what a person should know of one that is not plain ASCII."""

from __future__ import annotations

import unicodedata
from typing import Final

WEB_PORTS: Final = (80, 443)
"""What a rule or a grant of a host permits that names no port."""

_TOGETHER = (
    {"LATIN", "CJK", "HIRAGANA", "KATAKANA"},
    {"LATIN", "CJK", "HANGUL"},
    {"LATIN", "CJK", "BOPOMOFO"},
)
"""Scripts that ordinary names of one language mix (UTS 39, highly restrictive)."""


def ascii_host(host: str) -> str:
    """A host name as it is looked up: lower case, international labels in their `xn--` form.

    Mapped as browsers map it (UTS 46, non-transitional, without the ASCII rules of STD 3; WHATWG URL §3.3), so that
    a check, a question and a connection speak of the same host.

    Raises:
        ValueError: a label is no valid international name, or an `xn--` label does not stand for one (RFC 5891).
    """
    if host.isascii() and "xn--" not in host.lower():
        return host.lower()
    import idna  # Imported here: its tables are large, and nearly every name is plain.

    try:
        mapped = idna.uts46_remap(host, std3_rules=False, transitional=False)
        return ".".join(_ascii_label(label) for label in mapped.split("."))
    except UnicodeError as error:
        raise ValueError(f"{host!r} is not a valid international host name: {error}") from None


def _ascii_label(label: str) -> str:
    import idna

    if label.isascii() and not label.startswith("xn--"):
        return label
    name = label if not label.isascii() else label[4:].encode("ascii").decode("punycode")
    form = f"xn--{name.encode('punycode').decode('ascii')}"
    if label.isascii() and (
        name.isascii()
        or form != label
        or idna.uts46_remap(name, std3_rules=False, transitional=False) != name
    ):
        raise UnicodeError(f"{label} does not stand for a name")
    idna.check_nfc(name)
    idna.check_initial_combiner(name)
    idna.check_bidi(name)
    for place, char in enumerate(name):
        if char in "\u200c\u200d" and not idna.valid_contextj(name, place):
            raise UnicodeError(f"{label} has a joiner where none can stand")
    return form


def shown_host(target: str) -> str:
    """A host, with its port if it has one, as it is looked up; one that is no valid name by its letters (RFC 3492)."""
    if target.isascii() and "xn--" not in target.lower():
        return target
    host, colon, port = target.partition(":")
    try:
        return f"{ascii_host(host)}{colon}{port}"
    except ValueError:
        labels = unicodedata.normalize("NFKC", host).lower().split(".")
        forms = [one if one.isascii() else "xn--" + one.encode("punycode").decode("ascii") for one in labels]
        return f"{'.'.join(forms)}{colon}{port}"


def host_matches(pattern: str, target: str, *, any_port: bool = False) -> bool:
    """Whether a pattern of hosts speaks of a `connect` target.

    Args:
        pattern: `host`, `*.suffix` or `*`, with `:port` or `:*` behind it if it is about more than the web's ports.
        target: `host`, which is on the usual port of its scheme, or `host:port`.
        any_port: a pattern without a port is about every port.
    """
    if pattern in ("*", "**"):
        return True
    wanted, wanted_port = split_port(pattern)
    host, port = split_port(target)
    if not host_is(wanted, host):
        return False
    if not wanted_port:
        return any_port or not port or port in map(str, WEB_PORTS)
    # A target without a port may be on either of the web's: what forbids one of them forbids it.
    return wanted_port in ("*", port) or (any_port and not port and wanted_port in map(str, WEB_PORTS))


def host_is(pattern: str, host: str) -> bool:
    """Whether a pattern names a host: equal names, or `*.name` for any name below it; `*` is all. Neither has a port.

    Whole labels: `*.pkg.example` covers `a.pkg.example`, never `notpkg.example`. A trailing dot names the same host.
    """
    host, pattern = host.rstrip(".").lower(), pattern.rstrip(".").lower()
    if pattern in ("*", "**"):
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def split_port(text: str) -> tuple[str, str]:
    """Host as it is looked up and port of `host:port` or `[v6]:port`; the port is empty where none is named, or `*`."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host.lower(), rest.lstrip(":")
    host, colon, port = text.rpartition(":")
    named = colon and ((port.isascii() and port.isdigit()) or port == "*") and ":" not in host
    return (shown_host(host).lower(), port) if named else (shown_host(text).lower(), "")


def host_note(target: str) -> str:
    """How a host with `xn--` labels reads, and which scripts a label mixes; empty for any other target."""
    if "xn--" not in target:
        return ""
    labels = [_readable(label) for label in target.split(".")]
    mixed: dict[str, None] = {}
    for label in labels:
        scripts = {unicodedata.name(c, "UNKNOWN").partition(" ")[0] for c in label if c.isalpha()}
        if len(scripts) > 1 and not any(scripts <= usual for usual in _TOGETHER):
            mixed.update(dict.fromkeys(sorted(scripts)))
    note = f"reads as {'.'.join(labels)}"
    return f"{note}, which mixes {' and '.join(s.title() for s in mixed)} letters" if mixed else note


def _readable(label: str) -> str:
    if not label.startswith("xn--"):
        return label
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label
