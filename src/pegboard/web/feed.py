"""RSS, Atom and JSON feeds as lists."""

from __future__ import annotations

import html
import json
import re
from importlib import import_module
from typing import Any, Final, cast

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


def json_feed(text: str, url: str) -> tuple[str, str] | None:
    """As `feed_text`, of a JSON Feed (https://www.jsonfeed.org/version/1.1/)."""
    try:
        feed: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(feed, dict):
        return None
    feed = cast("dict[str, Any]", feed)
    items = feed.get("items")
    if "://jsonfeed.org/version/" not in str(feed.get("version", "")) or not isinstance(items, list):
        return None
    lines: list[str] = []
    for one in cast("list[Any]", items):
        item = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
        wanted = ("title", "url", "external_url", "date_published", "summary", "content_text", "content_html")
        title, link, other, day, *texts = (str(item.get(name) or "") for name in wanted)
        lines.append(_line(title, link or other, day, next(filter(None, texts), ""), url))
    return str(feed.get("title") or ""), "\n".join(lines)


def _entry(entry: Any, url: str) -> str:
    link = _text(entry.find("{*}link"))
    guid = entry.find("{*}guid")
    if not link and guid is not None and guid.get("isPermaLink", "true") == "true":
        link = _text(guid)
    for one in entry.findall("{*}link"):
        if one.get("href") and one.get("rel", "alternate") == "alternate":
            link = one.get("href")
    day = next(
        (t for n in ("pubDate", "published", "updated", "date") if (t := _text(entry.find("{*}" + n)))), ""
    )
    texts = (_text(entry.find("{*}" + name)) for name in ("description", "summary", "content"))
    return _line(_text(entry.find("{*}title")), link, day, next(filter(None, texts), ""), url)


def _line(title: str, link: str, day: str, summary: str, url: str) -> str:
    from urllib.parse import urljoin

    summary = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", summary)).split())[:_SUMMARY_MOST]
    title = title or link or "(no title)"
    first = f"- [{title}]({urljoin(url, link)})" if link else f"- {title}"
    return first + (f" ({day})" if day else "") + (f"\n  {summary}" if summary else "")


def _text(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())
