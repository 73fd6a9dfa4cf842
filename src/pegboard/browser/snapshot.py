"""PageText: the text of a page as a model sees it, its refs, and what of it is secret."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, quote_plus, urljoin

from pegboard.core.errors import InvalidArguments

FACTS: Final = """() => {
  const passwords = [];
  const walk = root => {
    for (const e of root.querySelectorAll('*')) {
      if (e.shadowRoot) walk(e.shadowRoot);
      if (e.localName === 'input' && e.type === 'password' && e.value) passwords.push(e.value);
    }
  };
  walk(document);
  return [document.baseURI, passwords];
}"""
"""JavaScript for what a snapshot does not say: where relative links start, and what password fields hold."""

HIDDEN: Final = "[hidden]"
"""Stands for what a password field holds."""

_REF: Final = re.compile(r"(t\d+)?((?:f\d+)?e\d+)")
_AROUND: Final = re.compile(r"\s*(?:\[?\s*(?:aria-)?ref\s*=\s*|@)?(\w+)\]?\s*")
_FIRST: Final = re.compile(r"\[ref=((?:f\d+)?)e\d+\]")
_LINK: Final = re.compile(r"- link [^\n]*\[ref=(\w+)\][^\n]*\n\s*- /url: ([^\n]*)")
_LONG: Final = 6
"""Characters from which on a secret is hidden wherever it stands."""


class Secrets:
    """What password fields of one session held."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}

    def add(self, value: str) -> None:
        """From now on hidden."""
        if value:
            self._values[value] = None

    def hide(self, text: str) -> str:
        """The text without them: a short one where it is the value of a text field, a long one everywhere."""
        for value in self._values:
            for one in {value, json.dumps(value, ensure_ascii=False)[1:-1], quote(value), quote_plus(value)}:
                if one not in text:
                    continue
                if len(value) >= _LONG:
                    text = text.replace(one, HIDDEN)
                else:
                    text = re.sub(
                        rf'(?m)^(\s*- textbox [^\n]*\]: )"?{re.escape(one)}"?$', rf"\1{HIDDEN}", text
                    )
        return text


@dataclass(slots=True)
class PageText:
    """The last snapshot of one tab. A ref is the tab's id and Playwright's own ref, so that it says its tab.

    Attributes:
        tab: id of the tab.
        shown: the snapshot; its refs are of this tab.
        links: ref → absolute address.
    """

    tab: str
    shown: str = ""
    links: dict[str, str] = field(default_factory=dict[str, str])
    _document: str | None = None

    def show(self, snapshot: str, base: str) -> tuple[str, bool]:
        """Playwright's snapshot with refs of this tab, and whether it is of another document than the last one.

        Args:
            base: where relative links start.
        """
        # Playwright begins its refs in each new document of a tab with another `fN`.
        first = _FIRST.search(snapshot)
        document = "" if first is None else first[1]
        other, self._document = document != self._document, document
        self.shown = snapshot.replace("[ref=", f"[ref={self.tab}")
        self.links = {}
        for match in _LINK.finditer(self.shown):
            url = match[2].strip()
            if url.startswith('"'):
                url = json.loads(url)
            # What a frame's links start from is not known here.
            if "://" in url or re.fullmatch(rf"{self.tab}{document}e\d+", match[1]):
                self.links[match[1]] = urljoin(base, url)
        return self.shown, other

    def part(self, own: str) -> str:
        """The lines of the element with a ref of Playwright's, and of what it holds."""
        lines = self.shown.splitlines()
        mark = f"[ref={self.tab}{own}]"
        start = next((n for n, line in enumerate(lines) if mark in line), None)
        if start is None:
            return ""
        depth = _depth(lines[start])
        end = next((n for n in range(start + 1, len(lines)) if _depth(lines[n]) <= depth), len(lines))
        return "\n".join(line[depth:] for line in lines[start:end])


def read_ref(text: str) -> tuple[str, str]:
    """The tab's id, empty where none is named, and Playwright's ref, of a ref as models write it: `[ref=t1e5]`, `@t1e5`.

    Raises:
        InvalidArguments: it is none.
    """
    inner = _AROUND.fullmatch(text)
    found = None if inner is None else _REF.fullmatch(inner[1])
    if found is None:
        raise InvalidArguments(
            f"{text[:60]!r} is not a ref", hint="A snapshot has them, such as [ref=t1e12]."
        )
    return found[1] or "", found[2]


def changed_lines(before: str, now: str) -> str:
    """The lines that are gone (`-`) and new (`+`), or the whole text where that is shorter."""
    # Where the focus is changes with every click.
    old, new = (text.replace(" [active]", "").splitlines() for text in (before, now))
    if old == new:
        return "Nothing changed in the snapshot."
    if len(old) + len(new) > 20_000:
        return now  # Comparing would take longer than reading.
    lines = [
        f"{line[0]} {line[1:]}"
        for line in difflib.unified_diff(old, new, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    text = "\n".join(lines)
    return now if len(text) >= len(now) else f"Changed in the snapshot:\n{text}"


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


__all__ = ["FACTS", "HIDDEN", "PageText", "Secrets", "changed_lines", "read_ref"]
