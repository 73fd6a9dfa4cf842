"""Command output as text: decoded, without terminal control, overwritten lines collapsed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# ECMA-48: CSI sequences, OSC/DCS/APC/PM/SOS strings, two-byte escapes, and the C1 forms of them.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
)
_CONTROLS: Final = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")
_ERASE_LINE: Final = re.compile(r"\x1b\[[0-2]?K")
_PLAIN_BYTES: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
# Below this many bytes a charset guess says nothing.
_GUESS_MIN_BYTES: Final = 64
_GUESS_MAX_BYTES: Final = 65_536
_FIRST_WORD: Final = re.compile(rb"[^ \t\r\n]{1,1024}(?=[ \t\r\n])")
_LAST_WORD: Final = re.compile(rb"(?<=[ \t\r\n])[^ \t\r\n]{1,1024}\Z")
_MAY_BE_SECRET: Final = re.compile(rb"[@:=]|[^ ]{16}")


def decode_output(data: bytes, *, fallbacks: Sequence[str] = ()) -> str:
    """Bytes of a program as text; never raises.

    Strict UTF-8 first, then UTF-16 where its zero bytes show, then `fallbacks` (the locale's
    code page), then a charset guess for longer text, else UTF-8 with U+FFFD for what is none.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_other(data, fallbacks)
    if "\x00" in text:
        return _decode_utf16(data) or text
    return text


def _decode_other(data: bytes, fallbacks: Sequence[str]) -> str:
    wide = _decode_utf16(data)
    if wide is not None:
        return wide
    replaced = data.decode("utf-8", "replace")
    bad = replaced.count("\ufffd")
    # Valid multi-byte UTF-8 with a few broken bytes is damaged UTF-8, not another charset.
    if sum(1 for c in replaced if c > "\x7f" and c != "\ufffd") > bad:
        return replaced
    for name in fallbacks:
        try:
            return data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
    if bad and len(data) >= _GUESS_MIN_BYTES:
        from charset_normalizer import from_bytes

        best = from_bytes(data[:_GUESS_MAX_BYTES]).best()
        if best is not None:
            return data.decode(best.encoding, "replace")
    return replaced


def _decode_utf16(data: bytes) -> str | None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif len(data) >= 4 and data[1::2].count(0) * 10 >= len(data[1::2]) * 9 and 0 not in data[::2]:
        encoding = "utf-16-le"
    else:
        return None
    try:
        return data[: len(data) // 2 * 2].decode(encoding)
    except UnicodeDecodeError:
        return None


def plain_text(text: str) -> str:
    """What a person would see of terminal output: no escapes, no control characters.

    A carriage return writes over the line from its start, as a terminal does, so that a
    progress bar leaves its last state; a backspace steps back one character.
    """
    if text.isascii() and not _PLAIN_BYTES.search(text.encode("ascii")):
        return text
    text = text.replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        text = "\n".join(_overwrite(line) for line in text.split("\n"))
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def _overwrite(line: str) -> str:
    if "\r" not in line and "\b" not in line:
        return line
    shown = ""
    for piece in line.split("\r"):
        if not piece:
            continue
        erases = _ERASE_LINE.search(piece) is not None
        new = _ESCAPES.sub("", piece)
        while "\b" in new:
            at = new.index("\b")
            new = new[: max(0, at - 1)] + new[at + 1 :]
        shown = new if erases else new + shown[len(new) :]
    return shown


def trim_to_characters(data: bytes, *, start: bool = False, end: bool = False) -> bytes:
    """Drop the broken UTF-8 character that a cut left at the start or the end of `data`."""
    if start:
        at = 0
        while at < min(3, len(data)) and data[at] & 0xC0 == 0x80:
            at += 1
        data = data[at:]
    if end:
        for back in range(1, min(4, len(data)) + 1):
            byte = data[-back]
            if byte & 0xC0 == 0x80:
                continue
            needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            if needed > back:
                data = data[:-back]
            break
    return data


def joined(head: bytes, tail: bytes, dropped: int, *, fallbacks: Sequence[str] = ()) -> str:
    """Head and tail of a capture as one text that says how much lies between them."""
    if dropped <= 0:
        return plain_text(decode_output(head + tail, fallbacks=fallbacks))
    # A word that was cut through may be an address without what tells that a password stands in it.
    cut, rest = _LAST_WORD.search(head), _FIRST_WORD.match(tail)
    if cut is not None and _MAY_BE_SECRET.search(cut[0]):
        head, dropped = head[: cut.start()], dropped + len(cut[0])
    if rest is not None and _MAY_BE_SECRET.search(rest[0]):
        tail, dropped = tail[rest.end() :], dropped + len(rest[0])
    first = plain_text(decode_output(trim_to_characters(head, end=True), fallbacks=fallbacks))
    last = plain_text(decode_output(trim_to_characters(tail, start=True), fallbacks=fallbacks))
    return f"{first}\n[… {dropped:,} bytes of output not kept …]\n{last}"
