"""RSS and Atom feeds as lists."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

_IS_FEED: Final = re.compile(
    r"\s*(?:<\?xml[^>]*\?>)?\s*(?:<!--.*?-->\s*|<\?[^>]*\?>\s*)*<(?:rss|feed|rdf:RDF)\b", re.DOTALL
)
_SUMMARY_MOST: Final = 500


def feed_text(text: str, url: str) -> tuple[str, str] | None:
    """Title and Markdown list of a feed's entries, newest as the feed has them; None where the text is no feed."""
    if not _IS_FEED.match(text):
        return None
    lxml: Any = import_module("lxml.etree")
    parser = lxml.XMLParser(recover=True, resolve_entities=False, no_network=True, huge_tree=False)
    tree = lxml.fromstring(text.encode("utf-8"), parser=parser)
    if tree is None:
        return None
    entries = [e for e in tree.iter("{*}item", "{*}entry")]
    lines = [_entry(entry, url) for entry in entries]
    return _text(tree.find("{*}channel/{*}title")) or _text(tree.find("{*}title")), "\n".join(lines)


def _entry(entry: Any, url: str) -> str:
    from urllib.parse import urljoin

    link = _text(entry.find("{*}link"))
    for one in entry.findall("{*}link"):
        if one.get("href") and one.get("rel", "alternate") == "alternate":
            link = one.get("href")
    day = next(
        (t for n in ("pubDate", "published", "updated", "date") if (t := _text(entry.find("{*}" + n)))), ""
    )
    summary = _text(entry.find("{*}description")) or _text(entry.find("{*}summary"))
    summary = " ".join(re.sub(r"<[^>]*>", " ", summary).split())[:_SUMMARY_MOST]
    title = _text(entry.find("{*}title")) or link or "(no title)"
    first = f"- [{title}]({urljoin(url, link)})" if link else f"- {title}"
    return first + (f" ({day})" if day else "") + (f"\n  {summary}" if summary else "")


def _text(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())
