"""WebReader: web addresses as text that a model can read."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from pegboard.core.errors import NotFound, ToolError, Unavailable, Unsupported
from pegboard.core.limits import Clock, SystemClock
from pegboard.net.client import HttpClient, HttpReply
from pegboard.ports.documents import OFFICE, DocumentKind, Documents
from pegboard.ports.web import Page, TextForm
from pegboard.textedit.encoding import guess_note
from pegboard.web.charset import decode_page, decode_told
from pegboard.web.extract import extract
from pegboard.web.feed import feed_text, json_feed

_ACCEPT: Final = "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8"
_AT_ONCE: Final = 2
_TRIES: Final = 3
_WAIT_MOST_S: Final = 5.0
_KEPT_MOST: Final = 64
_SHORT: Final = 300
_SCRIPT_ONLY: Final = 80
"""Characters of text under which a page with scripts counts as empty."""
_STRUCTURED: Final = re.compile(
    r"""<script[^>]+(?:application/ld\+json|id\s*=\s*["']?__NEXT_DATA__)[^>]*>(.*?)</script""",
    re.IGNORECASE | re.DOTALL,
)
_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
)
_HTML: Final = ("text/html", "application/xhtml+xml")
_JSON: Final = re.compile(r"application/(?:[\w.-]+\+)?json\Z|text/json\Z")
_FEED: Final = ("application/rss+xml", "application/atom+xml", "application/feed+json")
_TEXT: Final = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:xml|yaml|x-yaml|toml|javascript|x-javascript|ecmascript|sql|x-sh|x-httpd-php|"
    r"x-ndjson|jsonl|jsonlines|graphql|rtf|x-tex|x-www-form-urlencoded|x-subrip)\Z|message/|image/svg\+xml\Z"
)


@dataclass(slots=True)
class _Host:
    """What is known of a host while this process runs."""

    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    closed_until: float = 0.0


class WebReader:
    """The Web port.

    Args:
        client: sends the requests; its lists say which hosts may be reached.
        documents: reads PDF, Office files and pictures.
        cache_s: seconds for which a page is not asked for again; 0 = never kept.
        reader: address of a hosted reader such as `https://r.example/`, which is given the address of a page that
            needs JavaScript or refuses programs; empty = none. It never gets credentials.
        clock, sleep: time; for tests.
    """

    def __init__(
        self,
        client: HttpClient,
        documents: Documents,
        *,
        cache_s: float = 900.0,
        reader: str = "",
        clock: Clock | None = None,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._documents = documents
        self._cache_s = cache_s
        self._reader = reader
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._kept: OrderedDict[tuple[str, TextForm], tuple[float, Page]] = OrderedDict()
        self._hosts: dict[str, _Host] = {}

    async def fetch(self, url: str, *, form: TextForm = "markdown") -> Page:
        """See Web."""
        key = (url.partition("#")[0], form)
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() - kept[0] < self._cache_s:
            self._kept.move_to_end(key)
            return kept[1]
        try:
            page = await self._page(url, await self._get(url), form)
        except (Unsupported, Unavailable) as error:
            if not self._reader or error.retryable:
                raise
            page = await self._read_elsewhere(url, form, error)
        if self._cache_s:
            self._kept[key] = (self._clock.monotonic(), page)
            while len(self._kept) > _KEPT_MOST:
                self._kept.popitem(last=False)
        return page

    async def _get(self, url: str) -> HttpReply:
        """An answer that is no error.

        Raises:
            NotFound: 404 or 410.
            Unavailable: another error status, or the host asks to wait longer than a call should take.
        """
        name = (await self._client.check(url)).host
        host = self._hosts.setdefault(name, _Host())
        async with host.slots:
            reply = await self._ask(url, name, host)
            tries = 1
            while reply.status in (429, 503) and tries < _TRIES:
                reply, tries = await self._ask(url, name, host), tries + 1
        if reply.status >= 400:
            raise _refused(reply)
        return reply

    async def _ask(self, url: str, name: str, host: _Host) -> HttpReply:
        """One request, when the host wants it; of an answer that names a time to wait, that is remembered."""
        wait = host.closed_until - self._clock.now()
        if wait > _WAIT_MOST_S:
            raise Unavailable(
                f"{name} asks to wait {wait:.0f} s before the next request",
                hint="Go on with something else, or another source.",
                retryable=True,
            )
        if wait > 0:
            await self._sleep(wait)
        reply = await self._client.request("GET", url, headers={"accept": _ACCEPT}, cut=True)
        if reply.status in (429, 503):
            host.closed_until = self._clock.now() + _retry_after(
                reply.headers.get("retry-after", ""), self._clock
            )
        return reply

    async def _page(self, url: str, reply: HttpReply, form: TextForm) -> Page:
        mime = _mime(reply)
        page = Page(
            url=url, final_url=reply.url, status=reply.status, mime_type=mime, title="", text="", extractor="raw",
            note="The server sent more than is read of one address; this is the beginning." if reply.cut else "",
        )  # fmt: skip
        if (kind := self._document_kind(mime)) is not None:
            document = await self._documents.read(kind, reply.body)
            return replace(
                page,
                text=document.text,
                extractor=kind,
                image=document.image,
                note=document.note or page.note,
            )
        if mime not in _HTML and not _TEXT.match(mime) and not _JSON.match(mime) and mime not in _FEED:
            raise Unsupported(
                f"{reply.url} is {mime or 'of an unknown type'} ({len(reply.body)} bytes), which has no text",
                hint="Download it with exec if you need the file.",
            )
        text, guessed = decode_told(reply.body, reply.headers.get("content-type", ""))
        if guessed:
            told = guess_note(guessed, "download the page and read it with encoding=")
            page = replace(page, note=" ".join(filter(None, (page.note, f"{told}."))))
        if mime in _HTML:
            return await self._html(page, text, form)
        is_json = _JSON.match(mime) is not None
        if (feed := (json_feed if is_json else feed_text)(text, reply.url)) is not None:
            return replace(page, title=feed[0], text=feed[1], extractor="feed")
        if is_json:
            return replace(page, text=_indented(text), extractor="json")
        return replace(page, text=text)

    async def _html(self, page: Page, html: str, form: TextForm) -> Page:
        extracted = await asyncio.to_thread(extract, html, page.final_url)
        text, note = extracted.markdown, page.note
        if len(text) < _SCRIPT_ONLY and "<script" in html.lower():
            data = _embedded_data(html)
            if not data and not text:
                raise Unsupported(
                    f"{page.final_url} ({extracted.title or 'no title'}) shows its text only with JavaScript",
                    hint="Open it with the browser tool.",
                )
            text = "\n\n".join(filter(None, (text, data)))
            needs = (
                "The page needs JavaScript; this is what it holds without. The browser tool shows it whole."
            )
            note = " ".join(filter(None, (note, needs)))
        if form == "text":
            text = plain_text(text)
        return replace(page, title=extracted.title, text=text, extractor=extracted.method, note=note)

    def _document_kind(self, mime: str) -> DocumentKind | None:
        if mime == "image/svg+xml":
            return None
        if mime.startswith(OFFICE):
            mime = OFFICE
        return self._documents.kind_of("", mime)

    async def _read_elsewhere(self, url: str, form: TextForm, problem: ToolError) -> Page:
        reply = await self._client.request(
            "GET", self._reader + url, headers={"accept": "text/markdown, text/plain"}
        )
        if reply.status >= 400:
            raise problem
        text = decode_page(reply.body, reply.headers.get("content-type", ""))
        return Page(
            url=url, final_url=url, status=200, mime_type="text/html", title="", extractor="hosted-reader",
            text=plain_text(text) if form == "text" else text, note="Read by a hosted reader; the page itself gave nothing.",
        )  # fmt: skip


def plain_text(markdown: str) -> str:
    """Markdown without its marks: links as their text, headings and emphasis as words."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*(?:\s+\"[^\"]*\")?\)", r"\1", markdown)
    text = re.sub(r"^(?:#{1,6}\s+|>\s?)", "", text, flags=re.MULTILINE)
    text = re.sub(r"^```.*$\n?", "", text, flags=re.MULTILINE)
    return re.sub(r"(\*\*|__|`)(.+?)\1", r"\2", text).strip()


def _mime(reply: HttpReply) -> str:
    """The media type; what the first bytes say is stronger than a wrong label."""
    for magic, mime in _MAGIC:
        if reply.body.startswith(magic):
            return mime
    sent = reply.content_type
    if sent in ("", "application/octet-stream", "text/plain") and _looks_like_html(reply.body):
        return sent if sent == "text/plain" else "text/html"
    if sent in ("", "application/octet-stream") and b"\0" not in reply.body[:1024]:
        return "text/plain"
    return sent


def _looks_like_html(body: bytes) -> bool:
    start = body[:512].lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text  # JSON lines, or broken: as it was sent.


def _embedded_data(html: str) -> str:
    """What the page keeps as JSON for search engines or its own scripts."""
    found = [_indented(one.strip()) for one in _STRUCTURED.findall(html)]
    return "\n\n".join(f"```json\n{one[:20_000]}\n```" for one in found if one.startswith(("{", "[")))


def _retry_after(header: str, clock: Clock) -> float:
    """Seconds, from a number or a date (RFC 9110 §10.2.3); 1 where neither is sent."""
    try:
        return max(0.0, float(header))
    except ValueError:
        try:
            return max(0.0, parsedate_to_datetime(header).timestamp() - clock.now())
        except ValueError:
            return 1.0


def _refused(reply: HttpReply) -> ToolError:
    words = HTTPStatus(reply.status).phrase if reply.status in {s.value for s in HTTPStatus} else ""
    said = ""
    if (
        reply.content_type in _HTML
        or reply.content_type.startswith("text/")
        or _JSON.match(reply.content_type)
    ):
        text = decode_page(reply.body[:20_000], reply.headers.get("content-type", ""))
        if reply.content_type in _HTML:
            text = plain_text(extract(text, reply.url, whole=True).markdown)
        said = " ".join(text.split())[:_SHORT]
    message = f"{reply.url} answered {reply.status} {words}".rstrip() + (f": {said}" if said else "")
    details = {"status": reply.status}
    if reply.status in (404, 410):
        return NotFound(message, hint="Check the address, or search for the page.", details=details)
    return Unavailable(
        message, retryable=reply.status in (408, 425, 429) or reply.status >= 500, details=details
    )
