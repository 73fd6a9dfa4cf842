"""Reader: a forgiving parser of JSON values, one pass over the text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, cast

from pegboard.core.schema.numerals import LEADING_ZERO, NO_NUMBERS, NUMBER, NUMBER_END, number_of
from pegboard.core.secrets.clip import clip

_SPACE: Final = re.compile(r"\s*")
_CLOSER: Final = re.compile(r"[}\]]")


class Cursor:
    """A position in a text, and what was repaired up to it.

    Attributes:
        text: the text.
        at: the position of the next character.
        notes: what was repaired.
        truncated: a value was still open at the end of the text.
        guessed: something was dropped, moved or invented.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.notes: list[str] = []
        self.truncated = False
        self.guessed = False

    def note(self, sentence: str) -> None:
        """Note a repair with one possible meaning."""
        self.notes.append(sentence)

    def guess(self, sentence: str) -> None:
        """Note a repair that may be wrong."""
        self.notes.append(sentence)
        self.guessed = True

    def peek(self) -> str:
        """The next character after spaces and comments, empty at the end."""
        text = self.text
        while True:
            self.at = cast("re.Match[str]", _SPACE.match(text, self.at)).end()
            here = text[self.at : self.at + 1]
            if here not in ("/", "#") or not self._comment():
                return here

    def _comment(self) -> bool:
        text, at = self.text, self.at
        if text.startswith("/*", at):
            end = text.find("*/", at + 2)
            end = len(text) if end < 0 else end + 2
        elif text.startswith("//", at) or text[at] == "#":
            end = text.find("\n", at)
            if end < 0:
                # In one line a comment up to its end may take the value along.
                self.guessed = True
                closer = _CLOSER.search(text, at) if text[at] == "#" else None
                end = len(text) if closer is None else closer.start()
        else:
            return False
        if '"' in text[at:end]:  # more likely a text whose inner quotes were not escaped
            self.guessed = True
        self.at = end
        self.note("A comment was left out.")
        return True


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


class Unrepairable(ValueError):
    """There is no JSON value to be read out of the text."""


_ELLIPSIS: Final = re.compile(r"\.{3}|…")
_WORDS: Final[dict[str, Any]] = {
    "true": True, "false": False, "null": None, "none": None, "undefined": None,
}  # fmt: skip
_WORD: Final = re.compile(r"[A-Za-z]+")
_WORD_END: Final = re.compile(r"""\s*(?:[,}\]):"'{\[]|\Z|/[/*]|\#)|\s+\w""")
_BARE_KEY: Final = re.compile(r"""[^:,{}\[\]"'“”\n]*""")
_BARE_STOP: Final = re.compile(r"""[,{}\[\]"'\n]""")
_IDENTIFIER: Final = re.compile(r"[$.@/+-]{0,3}\w[\w.@/+-]*\Z")
_LOST_OPENING: Final = re.compile(r"""[^"'{}\[\]:\n]{0,300}(?=["']\s*(?:[,}\]]|\Z))""")
_KEY_AHEAD: Final = re.compile(r"""\s*(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'|[\w$.-]{1,100})\s*:""")
_FENCED_TEXT: Final = re.compile(r"```[a-z0-9]*\s*([{\[].*[}\]])\s*```\s*\Z", re.DOTALL)
_MAX_DEPTH: Final = 120
_MAX_RESCANS: Final = 4
_QUOTES: Final = frozenset(CLOSERS)


class Reader(Cursor):
    """Reads the values of a text from its position on; see Cursor for what it keeps."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._open: list[str] = []
        self._rescans = 0

    def read_at(self, start: int) -> tuple[Any]:
        """The value that starts at a position."""
        self.at = start
        return (self.value(),)

    def value(self) -> Any:
        """The value at this position; an absent one is the empty string."""
        here = self.peek()
        if here in ("{", "[", "("):
            if len(self._open) >= _MAX_DEPTH:
                raise Unrepairable("nested too deeply")
            self.at += 1
            self._open.append(here)
            try:
                return self._object() if here == "{" else self._array("]" if here == "[" else ")")
            finally:
                self._open.pop()
        if here in _QUOTES:
            return self._string(key=False)
        return self._bare()

    # Objects -------------------------------------------------------------------------------------

    def _object(self) -> Any:
        out: dict[str, Any] = {}
        members = self.members(out, may_be_set=True)
        return out if members is None else members

    def members(self, out: dict[str, Any], *, may_be_set: bool = False) -> list[Any] | None:
        """Read `key: value` pairs up to the closing brace; a list where the braces hold a set."""
        last = ""
        while True:
            here = self.peek()
            if not here:
                self.truncated = True
                return None
            if here == "}":
                self.at += 1
                return None
            if here in ("]", ")"):
                self.guess("A closing brace was missing.")
                return None
            if here == ",":
                self.at += 1
                continue
            if here in ("[", "{", ":"):
                self._stray(here, out, last)
                continue
            key = self._key()
            if key is None:
                continue
            after = self.peek()
            if after in (",", "}") and may_be_set and not out:
                self.note("Braces around a plain list were read as a list.")
                return self._set(key)
            if not after and not key:
                self.truncated = True
                return None
            last = self._member(out, key, after)

    def _member(self, out: dict[str, Any], key: str, after: str) -> str:
        if after in (":", "="):
            self.at += 1
        elif not after:
            self.truncated = True
            return key
        elif after in _QUOTES or after in ("{", "["):
            self.guess("A missing colon was put in.")
        else:
            self.guess(f"The stray text {clip(key, 0, 20)!r} was left out.")
            return key
        here = self.peek()
        if here in (",", "}", "]", ""):
            self.truncated = self.truncated or not here
            self.guess(f"The missing value of {clip(key, 0, 20)!r} was taken as empty.")
            out[key] = ""
        else:
            out[key] = self.value()
        return key

    def _stray(self, here: str, out: dict[str, Any], last: str) -> None:
        """A value where a key should be: an array goes on with the array before it, others are left out."""
        if here == ":":
            self.at += 1
            self.guess("A stray colon was left out.")
            return
        value = self.value()
        before = out.get(last)
        self.guess("A value without a key was joined to the one before it or left out.")
        if not isinstance(value, list):
            return
        items = cast("list[Any]", value)
        if isinstance(before, list):
            _go_on(cast("list[Any]", before), items)
        else:
            out.update({item: "" for item in items if isinstance(item, str)})

    def _key(self) -> str | None:
        here = self.text[self.at]
        if here in _QUOTES:
            return self._string(key=True)
        match = cast("re.Match[str]", _BARE_KEY.match(self.text, self.at))
        word = match.group().strip()
        self.at = max(match.end(), self.at + 1)
        stop = self.text[self.at : self.at + 1]
        if stop == ":":
            if _IDENTIFIER.match(word):
                self.note("Keys without quotes were read.")
            else:
                self.guess("A key without quotes was read up to its colon.")
            return word
        if stop in _QUOTES:
            rest = self.text[self.at + 1 : self.at + 40].lstrip()
            if rest.startswith(":"):
                self.at += 1
                self.guess("A missing quote was put in.")
                return word
        if stop in (",", "}"):
            return word
        self.guess(f"The stray text {clip(word, 0, 20)!r} was left out.")
        return None

    def _set(self, first: str) -> list[Any]:
        match = NUMBER.fullmatch(first)
        items: list[Any] = [first if match is None else number_of(first)]
        self._open[-1] = "["  # what follows is read as the elements that they are
        items += self._array("}")
        return items

    # Arrays --------------------------------------------------------------------------------------

    def _array(self, closer: str) -> Any:
        out: list[Any] = []
        commas = 0
        separated = True
        while True:
            here = self.peek()
            if not here:
                self.truncated = True
                break
            if here == closer:
                self.at += 1
                break
            if here in "}])":
                if self._wrong_closer(here):
                    break
                continue
            if here in (",", ":"):
                commas += here == ","
                separated = True
                self.at += 1
                continue
            ellipsis = _ELLIPSIS.match(self.text, self.at)
            if ellipsis is not None:
                self.at = ellipsis.end()
                self.guess("An ellipsis was left out.")
                continue
            self._element(out, separated=separated)
            separated = False
        if closer == ")":
            self.note("A tuple was read as a list.")
            return out[0] if len(out) == 1 and not commas else out
        return out

    def _element(self, out: list[Any], *, separated: bool) -> None:
        start = self.at
        value = self.value()
        if isinstance(value, str) and self.peek() == ":" and self.text[start] in _QUOTES:
            self.guess("A missing brace was put in.")
            self.at += 1
            inner: dict[str, Any] = {value: self.value()}
            self.members(inner)
            if self.text[self.at - 1] != "}":
                self.guessed = True
            out.append(inner)
            return
        if not separated and self.truncated and self.text[start].isalpha():
            return
        if value == "" and (not self.peek() or self.text[start] not in _QUOTES):
            return
        if value == {} and self.text[self.at - 1] != "}":  # `[{]`: opened and never used
            return
        out.append(value)

    def _wrong_closer(self, here: str) -> bool:
        """Whether the array ends at a closer that is not its own."""
        self.guess("A closing bracket did not fit its opening one.")
        enclosing = self._open[:-1]
        if here == "}" and "{" in enclosing:
            after = re.compile(r"\s*,").match(self.text, self.at + 1)
            if after is not None and _KEY_AHEAD.match(self.text, after.end()):
                self.at += 1  # meant was `]`: the object goes on behind it
            return True
        if here == "]" and "[" in enclosing:
            return True
        self.at += 1
        return False

    # Texts ---------------------------------------------------------------------------------------

    def _string(self, *, key: bool) -> str:
        inside = "key" if key else ("array" if self._open and self._open[-1] in "[(" else "object")
        found: QuoteEnd = find_quote_end(self.text, self.at, inside)
        content = self.text[found.start : found.end]
        quote = self.text[self.at]
        if quote != '"':
            self.note("Other quotes than double ones were read.")
        for sentence in found.guesses:
            self.guess(sentence)
        if found.closed:
            self.at = found.next
            return self._finished(content, found, key=key)
        if key and ":" in content:
            return self._split_key(content, found.start)
        self.truncated = True
        self.at = len(self.text)
        trimmed = content.rstrip(AT_THE_END) if not found.guesses or not key else content
        return unescape(trimmed, found.overescaped).rstrip()

    def _split_key(self, content: str, start: int) -> str:
        """`{"key:value}`: the key's closing quote is missing."""
        self._rescans += 1
        if self._rescans > _MAX_RESCANS:
            raise Unrepairable("too many missing quotes")
        self.guess("A missing quote was put in.")
        name, _, _ = content.partition(":")
        self.at = start + len(name)
        return name.strip()

    def _finished(self, content: str, found: QuoteEnd, *, key: bool) -> str:
        if "\n" in content or "\t" in content:
            self.note("Line breaks inside a text were kept.")
        if content.endswith("\n") and (key or found.guesses):
            self.guess("A line break before a closing quote was left out.")
            content = content.rstrip("\n")
        if "\\" in content and is_ambiguous(content):
            self.guess("Some backslashes were read as escapes and others as themselves.")
        value = unescape(content, found.overescaped)
        if found.guesses and not key:
            fenced = _FENCED_TEXT.match(value)
            if fenced is not None:
                try:
                    return json.loads(fenced.group(1))
                except (ValueError, RecursionError):
                    return value
        return value

    def _bare(self) -> Any:
        """A number, a literal, or text without quotes."""
        text, at = self.text, self.at
        match = NUMBER.match(text, at)
        if match is not None and NUMBER_END.match(text, match.end()):
            self.at = match.end()
            if text[self.at : self.at + 1] in ('"', "'") and self._lost_quote():
                self.at += 1
            number = number_of(match.group())
            if isinstance(number, str) or LEADING_ZERO.match(match.group()):
                self.guess(f"What was meant by the number {match.group()[:20]} is not sure.")
            return number
        word = _WORD.match(text, at)
        if word is not None and word.group().lower() in _WORDS and _WORD_END.match(text, word.end()):
            self.at = word.end()
            if word.group() not in ("true", "false", "null"):
                self.note("Literals of another language were read.")
            return _WORDS[word.group().lower()]
        lost = _LOST_OPENING.match(text, at)
        if lost is not None and lost.group().strip():
            self.at = lost.end() + 1
            self.guess("A missing quote was put in.")
            return lost.group().strip()
        return self._unquoted()

    def _lost_quote(self) -> bool:
        self.guess("A stray quote was left out.")
        return True

    def _unquoted(self) -> str:
        """Text without quotes, up to a delimiter; balanced braces belong to it. Takes one character at least."""
        text = self.text
        start = at = self.at
        depth = 0
        while True:
            stop = _BARE_STOP.search(text, at)
            if stop is None:
                at = len(text)
                break
            at = stop.start()
            here = text[at]
            if here in "{[":
                depth += 1
            elif here in "}]" and depth:
                depth -= 1
            elif not depth or here in "\n\"'":
                break
            at += 1
        self.at = at
        value = text[start:at].strip()
        if at == len(text):
            self.truncated = True
        if value in ("-", "+"):
            value = ""
        if value in NO_NUMBERS:
            self.guess(f"{value} is no JSON value.")
        elif _IDENTIFIER.match(value):
            self.note("Texts without quotes were read.")
        else:
            self.guess("A text without quotes was read up to the next delimiter.")
        return value.rstrip("`").rstrip() if self.truncated else value


def _go_on(before: list[Any], items: list[Any]) -> None:
    """Join an array that stands where a key should be to the one before it.

    In a table whose one row lost its opening bracket, that row is put together again.
    """
    first = cast("object", before[0]) if before else None
    if isinstance(first, list) and not any(isinstance(i, list) for i in items):
        width = len(cast("list[Any]", first))
        if all(not isinstance(v, list) for v in before[-width:]) and len(items) == width:
            before[-width:] = [before[-width:]]
        if len(items) == width:
            before.append(items)
            return
    before += items
