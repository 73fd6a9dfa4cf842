"""The encoding of a page, as browsers find it: mark, header, the page's own word, detection."""

from __future__ import annotations

import codecs
import re
from typing import Final

from pegboard.textedit.encoding import guess, is_damaged_utf8

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEADER: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:+-]{1,40})", re.IGNORECASE)
_IN_PAGE: Final = re.compile(
    rb"""<meta[^>]+charset\s*=\s*["']?\s*([A-Za-z0-9_.:+-]{1,40})|<\?xml[^>]+encoding\s*=\s*["']([A-Za-z0-9_.:+-]{1,40})""",
    re.IGNORECASE,
)
# What browsers read under these labels (WHATWG Encoding): the larger set that pages really use.
_MEANT: Final = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932",
    "euc_kr": "cp949", "iso8859-9": "cp1254", "tis-620": "cp874", "iso8859-11": "cp874", "big5": "big5hkscs",
}  # fmt: skip


def decode_page(data: bytes, content_type: str = "") -> str:
    """The text of a page or another text from the web; see `decode_told`."""
    return decode_told(data, content_type)[0]


def decode_told(data: bytes, content_type: str = "") -> tuple[str, str]:
    """The text of a page, and the name of its encoding where that is a guess; what cannot be decoded becomes U+FFFD.

    Args:
        data: the body.
        content_type: the header, parameters included.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace"), ""
    in_header = _HEADER.search(content_type)
    in_page = _IN_PAGE.search(data[:4096])
    for label in (
        in_header[1] if in_header else "",
        (in_page[1] or in_page[2]).decode("ascii") if in_page else "",
    ):
        if name := _codec(label):
            return data.decode(name, "replace"), ""
    try:
        return data.decode("utf-8"), ""
    except UnicodeDecodeError:
        if is_damaged_utf8(data):
            return data.decode("utf-8", "replace"), ""
        guessed = guess(data)
        return data.decode(guessed, "replace"), guessed


def _codec(label: str) -> str:
    """The codec that a label means, empty for one that is not known."""
    # Browsers know names with these beginnings and ends too, such as x-sjis, windows-874 and iso-8859-8-i.
    plain = re.sub(r"-[ie]\Z", "", re.sub(r"\A(?:x-)*(?:windows-(?=\d))?", _code_page, label.strip().lower()))
    try:
        name = codecs.lookup(plain).name
    except LookupError:
        return ""
    if name.startswith("utf-16") or not getattr(codecs.lookup(name), "_is_text_encoding", True):
        # A page that was readable enough to say so is not UTF-16.
        return "utf-8" if name.startswith("utf-16") else ""
    return _MEANT.get(name, name)


def _code_page(prefix: re.Match[str]) -> str:
    return "cp" if prefix[0].endswith("windows-") else ""
