"""Host names as they are resolved, and what a person should know of one that is not plain ASCII."""

from __future__ import annotations

import unicodedata

_TOGETHER = (
    {"LATIN", "CJK", "HIRAGANA", "KATAKANA"},
    {"LATIN", "CJK", "HANGUL"},
    {"LATIN", "CJK", "BOPOMOFO"},
)
"""Scripts that ordinary names of one language mix (UTS 39, highly restrictive)."""


def ascii_host(host: str) -> str:
    """The host with each label in its `xn--` form where it has letters outside ASCII (RFC 3492); else as it is."""
    if host.isascii():
        return host
    return ".".join(map(_ascii_label, unicodedata.normalize("NFKC", host).lower().split(".")))


def _ascii_label(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")


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
