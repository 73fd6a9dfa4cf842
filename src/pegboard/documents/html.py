"""HTML to Markdown: what a reader of the page would see."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|template|noscript)\b.*?(?:</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL
)


def read_html(data: bytes, pages: str | None) -> dict[str, Any]:
    """`{text, pages, note}`; scripts, styles and comments are left out."""
    module: Any = import_module("html_to_markdown")
    converted: Any = module.convert(_UNSEEN.sub("", decoded(data)))
    text = getattr(converted, "content", converted)
    return {"text": str(text or "").strip(), "pages": None, "note": ""}


def decoded(data: bytes) -> str:
    """The text: as its bytes say, else in cp1252."""
    text = declared(data)
    return data.decode("cp1252", "replace") if text is None else text


def declared(data: bytes) -> str | None:
    """The text by its byte order mark, as UTF-8 or in the encoding that the page names; None where none of these fits."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    named = _CHARSET.search(data[:4096])
    for name in ("utf-8", *([named[1].decode("ascii")] if named else [])):
        try:
            return data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
    return None
