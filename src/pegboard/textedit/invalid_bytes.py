"""UTF-8 with a few bytes that are none: shown with a mark for each such byte, written back as those very bytes.

The marks are the private characters U+EF80 to U+EFFF, the last two digits being the byte. A file that holds such
characters itself is not read in this way, so a mark always means a byte (docs/decisions/0371).
"""

from __future__ import annotations

from typing import Final

_ESCAPES: Final = range(0xDC80, 0xDD00)
"""What Python's surrogateescape makes of the bytes 80 to FF."""
_SHIFT: Final = 0xEF80 - 0xDC80
_SHOWN: Final = {escape: escape + _SHIFT for escape in _ESCAPES}
_BYTES: Final = {mark: escape for escape, mark in _SHOWN.items()}
_ASCII: Final = bytes(range(0x80))
_SHARE: Final = 4


def shown_utf8(data: bytes) -> str:
    """Bytes as UTF-8, a mark for each that fits nowhere."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return marked(data.decode("utf-8", "surrogateescape"))


def marked(escaped: str) -> str:
    """A text decoded with `surrogateescape`, its surrogates as marks."""
    return escaped.translate(_SHOWN)


def bytes_of(text: str) -> bytes:
    """The bytes of a text with marks.

    Raises:
        UnicodeEncodeError: a surrogate that is no text.
    """
    text.encode("utf-8")
    return text.translate(_BYTES).encode("utf-8", "surrogateescape")


def bad_bytes(text: str) -> int:
    """How many marks a text has."""
    return 0 if text.isascii() else sum("\uef80" <= char <= "\uefff" for char in text)


def is_damaged_utf8(data: bytes) -> bool:
    """Whether bytes that are no UTF-8 are nearly UTF-8.

    At most one byte in five beyond ASCII may be bad. Legacy text does not come near: two of its bytes are a
    character of UTF-8 by chance only.
    """
    text = data.decode("utf-8", "surrogateescape")
    high = len(data.translate(None, _ASCII))
    bad = sum("\udc80" <= char <= "\udcff" for char in text if char > "\x7f")
    return bad * _SHARE <= high - bad and bad_bytes(text) == 0
