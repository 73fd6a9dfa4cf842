"""Quoted text in malformed JSON: where it ends, when the quotes inside it are not escaped."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, cast

CLOSERS: Final[dict[str, str]] = {'"': '"', "'": "'", "“": "”", "”": "”", "‘": "’", "`": "`"}
"""Opening quote -> closing quote."""

AT_THE_END: Final = " \t\r\n}]`"
"""Closers and spaces that stand at the end of a text whose closing quote is missing."""

_KEY: Final = r"""(?:""?[^"\n]{0,200}""?|'[^'\n]{0,200}'|“[^”\n]{0,200}”)\s*:"""
_UNQUOTED_KEY: Final = r"""[\w$.-]{1,100}\s*:"""
_END: Final = r"""(?:\s*\Z|\s*//|\s*/\*|\s*\#|\s*`{3})"""
_STRONG: Final[dict[str, re.Pattern[str]]] = {
    "object": re.compile(
        rf"""\s*(?:,\s*(?:\w+\s+)?{_KEY}|,\s*{_UNQUOTED_KEY}|{_KEY}|,\s*["'][^"'\n]{{0,200}}\Z)|{_END}"""
    ),
    "array": re.compile(rf"""\s*(?:,\s*["'“{{\[]|:)|{_END}"""),
    "key": re.compile(r"\s*[:=]"),
}
_WEAK: Final[dict[str, re.Pattern[str]]] = {
    "object": re.compile(r"""\s*(?:\}|,\s*(?:\}|\Z|\[|//|/\*|\#|\n\s*\})|\](?:\s*[,}\]]|\s*\Z))"""),
    "array": re.compile(
        r"""\s*(?:[\])}]|,\s*(?:[\])\d.-]|\Z|//|/\*|\#|(?:true|false|null|True|False|None)\b))"""
    ),
    "key": re.compile(r"""\s*[,}{\[]|\s*["'“]|\s*\Z"""),
}
_STRAY: Final = re.compile(r"""\s+\w{1,60}\s*(?:["']?\s*[,}\]]|\Z)|\s+["'](?!\s*[,}\]])""")
_DOUBLE: Final = re.compile(r"""\s*["']\s*(?:[,}\]]|\Z)""")
_SPACES: Final = re.compile(r"\s*")
_WORD_AHEAD: Final = re.compile(r"\s+\w")
_KEY_START: Final = re.compile(rf"{_KEY}")
_BACKSLASHES: Final = re.compile(r"\\+")
_COMMA_BEFORE: Final = re.compile(r"\s*,\s*\Z")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_CONTROLS: Final = frozenset("ntrbf")
_QUOTE_MARKS: Final = frozenset("'`“”„‘’")


@dataclass(slots=True)
class QuoteEnd:
    """Where a quoted text ends.

    Attributes:
        start, end: its content.
        next: where reading goes on.
        closed: an end was found before the text ended.
        overescaped: quotes inside carry too many backslashes.
        guesses: what had to be guessed.
    """

    start: int
    end: int
    next: int
    closed: bool
    overescaped: bool
    guesses: tuple[str, ...]


def find_quote_end(text: str, at: int, inside: str) -> QuoteEnd:
    """Find the end of the quoted text that opens at `at`.

    A closing quote ends it where a delimiter follows that fits its place. A quote before a word opens a
    quotation inside, and the next one closes that; only a delimiter that nothing else explains, such as
    a comma with a key behind it, ends the text in spite of an open quotation.

    Args:
        text: the whole text.
        at: position of the opening quote.
        inside: `key`, `object` (a value in an object) or `array`.
    """
    closer = CLOSERS[text[at]]
    start = at + 1
    doubled = _is_doubled(text, at, closer, inside)
    if doubled:
        start += 1
    scan = re.compile(rf"[\\{re.escape(closer)}„”]" if closer == '"' else rf"[\\{re.escape(closer)}]")
    quotation = overescaped = False
    guesses: dict[str, None] = {"A doubled quote was read as one.": None} if doubled else {}
    position = start
    strong, weak = _STRONG[inside], _WEAK[inside]

    def closed(end: int, following: int, *sentences: str) -> QuoteEnd:
        return QuoteEnd(start, end, following, True, overescaped, (*guesses, *sentences))

    while True:
        found = scan.search(text, position)
        if found is None:
            return QuoteEnd(start, len(text), len(text), False, overescaped, tuple(guesses))
        position = found.start()
        here = text[position]
        if here == "\\":
            after = cast("re.Match[str]", _BACKSLASHES.match(text, position)).end()
            odd = (after - position) % 2
            following = text[after : after + 1]
            ends = strong.match(text, after + 1) or weak.match(text, after + 1)
            if odd or following != closer or (ends and not overescaped):
                if odd and following in ('"', "”"):
                    quotation = False
                position = after + odd
            else:
                overescaped = True
                guesses["Quotes inside a text carried too many backslashes."] = None
                position = after + 1
            continue
        if here == "„" or (here == "”" and closer != "”"):
            quotation = here == "„"
            position += 1
            continue
        after = position + 1
        if doubled and text[after : after + 1] == closer:
            after += 1
        if strong.match(text, after) or (not quotation and weak.match(text, after)):
            return closed(position, after)
        if inside == "key" and text[start:position].rstrip().endswith(":"):
            name = text[start:position].rstrip()[:-1].rstrip()
            return closed(start + len(name), start + len(name), "A missing quote was put in.")
        if inside != "key":
            if not quotation and _DOUBLE.match(text, after):
                extra = cast("re.Match[str]", _SPACES.match(text, after))
                return closed(position, extra.end() + 1, "A doubled quote was read as one.")
            # After a stray: in an array a comma is missing; in an object only a word is left out.
            loose = inside == "array" or _WORD_AHEAD.match(text, after)
            if not quotation and loose and _STRAY.match(text, after):
                return closed(position, after)
            if inside == "object" and _KEY_START.match(text, position):
                comma = _COMMA_BEFORE.search(text, max(start, position - 40), position)
                if comma is not None:
                    return closed(comma.start(), position, "A missing quote was put in.")
        guesses["Quotes inside a text were kept."] = None
        if quotation:
            quotation = False
        elif text[after : after + 1].isalnum() or text[after : after + 1] == "<":
            quotation = True
        position = after


def _is_doubled(text: str, at: int, closer: str, inside: str) -> bool:
    """Whether the text opens with two quotes instead of one."""
    if text[at + 1 : at + 2] != closer:
        return False
    return not (
        _STRONG[inside].match(text, at + 2)
        or _WEAK[inside].match(text, at + 2)
        or _DOUBLE.match(text, at + 2)
    )


def unescape(content: str, overescaped: bool) -> str:
    """The content with its escapes read; a backslash that begins none is kept (regular expressions,
    Windows paths), one before a quotation mark is dropped."""
    if overescaped:
        content = re.sub(r"\\+([\"'])", r"\\\1", content)
    if "\\" not in content:
        return content
    content = _ESCAPE.sub(_one_escape, content)
    try:
        return json.loads(json.dumps(content))  # joins the halves of surrogate pairs
    except ValueError:  # pragma: no cover
        return content


def is_ambiguous(content: str) -> bool:
    r"""Whether a backslash that begins no escape stands beside one that makes a control character.

    In `C:\dir\new` the first says that backslashes stand for themselves and the second that they do not.
    """
    kinds = {match.group(1) for match in _ESCAPE.finditer(content)}
    return not kinds.isdisjoint(_CONTROLS) and any(
        len(kind) < 5 and kind not in _ESCAPES and kind not in _QUOTE_MARKS for kind in kinds
    )


def _one_escape(match: re.Match[str]) -> str:
    body = match.group(1)
    if len(body) == 5:
        return chr(int(body[1:], 16))
    if body in _ESCAPES:
        return _ESCAPES[body]
    return body if body in _QUOTE_MARKS and body else match.group()
