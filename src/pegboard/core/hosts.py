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
