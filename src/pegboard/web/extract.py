"""Extract: an HTML page as the Markdown of what a person would read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import urljoin, urlsplit

from pegboard.core.errors import Unavailable
from pegboard.web.visible import drawn_words, remove_unseen

Method: TypeAlias = Literal["trafilatura", "html-to-markdown"]

_MAIN_MOST: Final = 1_000_000
"""Characters of a page up to which its main content is looked for; that takes seconds on larger ones."""
_TITLE_MOST: Final = 300
_LANGUAGE: Final = re.compile(
    r"(?:^|\s)(?:(?:language|lang|highlight-source|highlight)-|brush:\s*|sourceCode\s+|highlight\s+(?=\w+\Z))"
    r"([A-Za-z0-9+#_.-]+)"
)
_NO_LANGUAGE: Final = ("", "none", "plaintext", "text", "default")
_FENCE: Final = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_JOINERS: Final = {"\u200c": "\u2ff0", "\u200d": "\u2ff1"}
"""Joiners make letters and emoji what they are, but trafilatura drops what is not printable: a stand-in for each."""
_REFRESH: Final = re.compile(r"url\s*=\s*['\"]?([^'\"]+)", re.IGNORECASE)
_BLANKS: Final = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """A page's content.

    Attributes:
        markdown: empty where the page has no text that a person would see.
        title: in one line, may be empty.
        method: `trafilatura` for the main content, `html-to-markdown` for the whole page.
    """

    markdown: str
    title: str
    method: Method


def extract(html: str, url: str, *, whole: bool = False) -> Extracted:
    """The content of a page.

    What a person would not see is removed first. The main content of a page under 1 MB is chosen by trafilatura;
    where it finds nothing, on larger pages, and if `whole` is set, all of the page is taken. A page without text is
    the links to its frames or to where it leads by itself, else the words of its drawings.

    Args:
        html: the page, decoded.
        url: where it came from; links are made absolute with it.
        whole: take navigation, side bars and footers too.

    Raises:
        Unavailable: the packages for it are not installed.
    """
    tree = _parsed(html)
    if tree is None:
        return Extracted(markdown="", title="", method="html-to-markdown")
    title, instead = _title(tree), _elsewhere(tree, url) or drawn_words(tree)
    remove_unseen(tree)
    if url:
        tree.make_links_absolute(url, resolve_base_href=True, handle_failures="ignore")
    if not whole and len(html) <= _MAIN_MOST and (main := _main_content(tree, url)):
        return Extracted(markdown=main, title=title, method="trafilatura")
    page = str(import_module("lxml.html").tostring(tree, encoding="unicode"))
    del tree  # Of a large page it takes more memory than what follows.
    return Extracted(markdown=_whole(page) or instead, title=title, method="html-to-markdown")


def _elsewhere(tree: Any, url: str) -> str:
    """Links to what is shown in the place of the page: its frames, or where it leads by itself."""
    found = [str(frame.get("src") or "") for frame in tree.iter("frame")]
    for meta in tree.iter("meta"):
        if (meta.get("http-equiv") or "").lower() == "refresh" and (
            to := _REFRESH.search(meta.get("content") or "")
        ):
            found.append(to[1])
    links = dict.fromkeys(urljoin(url, one.strip()) for one in found if one.strip())
    return "\n\n".join(
        f"[{link}]({link})" for link in links if urlsplit(link).scheme in ("http", "https", "")
    )


def _parsed(html: str) -> Any:
    """The page's tree, None where there is none."""
    try:
        lxml: Any = import_module("lxml.html")
    except ImportError:
        raise _missing() from None
    # A string that names its own encoding is taken as bytes; NUL ends a text for libxml2.
    data = html.replace("\0", "").encode("utf-8", "replace")
    try:
        parser = lxml.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
        return lxml.document_fromstring(data, parser=parser)
    except (lxml.etree.ParserError, ValueError):
        return None


def _title(tree: Any) -> str:
    for found in (
        tree.xpath("//title[not(ancestor::svg)]"), tree.xpath("//meta[@property='og:title']/@content"), tree.xpath("//h1"),
    ):  # fmt: skip
        for one in found:
            text = " ".join((one if isinstance(one, str) else str(one.text_content())).split())
            if text:
                return text[:_TITLE_MOST]
    return ""


def _main_content(tree: Any, url: str) -> str:
    try:
        import trafilatura
    except ImportError:
        raise _missing() from None
    from copy import deepcopy

    languages = _code_languages(tree)
    tree = deepcopy(tree)
    _swap(tree, _JOINERS)
    for caption in list(tree.iter("caption")):
        # As a row of the table it would stand above its head.
        caption.tag = "p"
        caption.getparent().addprevious(caption)
    text: str | None = cast("Any", trafilatura).extract(
        tree, url=url or None, output_format="markdown", include_links=True, include_tables=True,
        include_formatting=True, with_metadata=False,
    )  # fmt: skip
    if not text:
        return ""
    for joiner, stand_in in _JOINERS.items():
        text = text.replace(stand_in, joiner)
    return _tidy(_with_languages(text, languages))


def _swap(tree: Any, characters: Mapping[str, str]) -> None:
    """Put other characters into the place of some, in all of a tree's text."""
    if any(character in str(tree.text_content()) for character in characters):
        table = str.maketrans(dict(characters))
        for element in tree.iter():
            element.text = element.text and element.text.translate(table)
            element.tail = element.tail and element.tail.translate(table)


def _whole(page: str) -> str:
    try:
        import html_to_markdown
    except ImportError:
        raise _missing() from None
    options = html_to_markdown.ConversionOptions(bullets="-", extract_metadata=False)
    converted: Any = html_to_markdown.convert(page, options)
    return _tidy(str(converted.content or ""))


def _code_languages(tree: Any) -> dict[str, str]:
    """The language of each block of code, by its text without blanks: the main content comes without it."""
    languages: dict[str, str] = {}
    for block in tree.iter("pre"):
        within = block.find(".//code")
        # Sphinx and Jekyll put two boxes around a block, and name the language at the outer one.
        boxes: list[Any] = [within, block, *islice(block.iterancestors(), 2)]
        for one in boxes:
            if one is None:
                continue
            named = _LANGUAGE.search(one.get("class") or "")
            language = one.get("data-lang") or one.get("data-language") or (named[1] if named else "")
            if language not in _NO_LANGUAGE:
                languages["".join(block.text_content().split())] = language
                break
    return languages


def _with_languages(markdown: str, languages: dict[str, str]) -> str:
    if not languages:
        return markdown
    return _FENCE.sub(
        lambda fence: f"```{languages.get(''.join(fence[1].split()), '')}\n{fence[1]}```", markdown
    )


def _tidy(markdown: str) -> str:
    lines = (line.rstrip() for line in markdown.splitlines())
    return _BLANKS.sub("\n\n", "\n".join(lines)).strip()


def _missing() -> Unavailable:
    return Unavailable(
        "reading web pages needs packages that are not installed",
        hint="Install them with: pip install 'pegboard[web]'",
    )
